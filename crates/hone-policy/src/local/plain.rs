//! Plain texts that go on: no template, no conversation, nothing but the tokens of a prompt and what follows them.

use super::drawing::{Ask, Teller, cut_short};
use super::telling::Telling;
use super::{Hear, Local, Prompt, Spoken, Wishes, failed, unrendered};
use hone_engine::backend::Backend;
use hone_engine::host::Sample;
use hone_render::stop::{StopStrings, cut};
use hone_render::{RenderError, Rules};
use hone_trace::policy::{AnswerLimits, Answered, PolicyError, PolicyErrorKind};
use hone_trace::{Message, Role, Sampled};
use std::sync::Arc;

impl<B: Backend> Local<B> {
    /// Goes on with every prompt, and with each as often as is wished: all of the first come first.
    pub(super) fn continued(
        &self,
        prompts: &[Prompt],
        seed: u64,
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: &mut Hear<'_>,
    ) -> Result<Vec<Spoken>, PolicyError> {
        let shared = &self.shared;
        shared.check(wishes)?;
        let stops = [shared.options.stops.as_slice(), wishes.stops.as_slice()].concat();
        let prompts = prompts.iter().map(|prompt| self.ids(prompt)).collect::<Result<Vec<_>, _>>()?;
        let adapter = self.adapter()?;
        let mut asks = Vec::with_capacity(prompts.len());
        for (prompt_idx, prompt) in (0_u64..).zip(&prompts) {
            asks.push(Ask {
                prompt: prompt.clone(),
                n_tokens_max: shared.room(prompt, limits)?,
                seed: wishes.seed.unwrap_or(seed),
                sequence: prompt_idx << 32,
                adapter: adapter.clone(),
                rules: self.rules(&stops, wishes).map_err(|error| unrendered(&error))?,
            });
        }
        let teller = |choice_idx| Teller {
            choice_idx,
            telling: Telling::plain(&stops),
            text: shared.renderer.tokenizer().stream(),
            tokens: Vec::new(),
        };
        let mut tellers: Vec<Teller<'_>> = (0..prompts.len() * wishes.n_choices()).map(teller).collect();
        let (samples, call) = shared.draw(asks, 0, limits, wishes, Some((&mut tellers, hear)))?;
        let mut spoken = Vec::with_capacity(samples.len());
        for (choice_idx, (sample, teller)) in samples.iter().zip(&mut tellers).enumerate() {
            let answered = self.answered(&prompts[choice_idx / wishes.n_choices()], sample, wishes, &stops);
            // Whether anybody hears the end does not change it.
            let _ = teller.finish(&answered.message, hear);
            spoken.push(Spoken { answered, tokens: shared.told_tokens(&sample.tokens, wishes) });
        }
        if let Some(first) = spoken.first_mut() {
            first.answered.llm_calls = vec![call];
        }
        Ok(spoken)
    }

    fn ids(&self, prompt: &Prompt) -> Result<Vec<u32>, PolicyError> {
        let tokenizer = self.shared.renderer.tokenizer();
        let ids: Vec<u32> = match prompt {
            Prompt::Ids(ids) => ids.clone(),
            Prompt::Text(text) => {
                let checked = tokenizer.check_len(text, self.shared.options.context_len_max);
                checked.and_then(|()| tokenizer.encode_prompt(text)).map_err(|error| unrendered(&error))?
            }
        };
        match ids.is_empty() {
            true => Err(failed(PolicyErrorKind::Refused, "the prompt is empty, and there is nothing to go on with")),
            false => Ok(ids),
        }
    }

    fn rules(&self, stops: &[String], wishes: &Wishes) -> Result<Vec<Rules>, RenderError> {
        let stop = match stops {
            [] => None,
            stops => Some(StopStrings::new(Arc::clone(self.shared.renderer.tokenizer()), stops)?),
        };
        Ok((0..wishes.n_choices()).map(|_| Rules::new(None, None, stop.clone())).collect())
    }

    fn answered(&self, prompt: &[u32], sample: &Sample, wishes: &Wishes, stops: &[String]) -> Answered {
        let ids: Vec<u32> = sample.tokens.iter().map(|token| token.id).collect();
        let is_said = |id: &u32| !self.shared.options.stop_ids.contains(id);
        let said: Vec<u32> = ids.iter().copied().filter(is_said).collect();
        let text = self.shared.renderer.tokenizer().decode_continuation(&said);
        let mut answered = Answered::of(Message::text(Role::Assistant, cut(&text, stops)));
        answered.errors.extend(cut_short(sample.finish));
        let logprobs = sample.tokens.iter().map(|token| token.logprob).collect();
        let sampler = wishes.sampler(self.shared.options.sampler);
        let (temperature, narrowed) = (Some(sampler.temperature), sampler.leaves_out());
        answered.sampled = Some(Sampled { input_ids: prompt.to_vec(), ids, logprobs, forced: Vec::new(), temperature, narrowed });
        answered
    }
}
