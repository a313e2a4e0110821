//! One conversation with a local model: an episode of tokens, sampled turn by turn.

use super::drawing::{Ask, Teller, cut_short};
use super::telling::Telling;
use super::{Aloud, Hear, Pinned, Shared, Spoken, Wishes, failed, n_cached, unrendered};
use hone_engine::backend::Backend;
use hone_engine::batch::Finish;
use hone_engine::host::Sample;
use hone_render::schema::Grammar;
use hone_render::stop::{StopStrings, cut};
use hone_render::think::{self, ThinkRule};
use hone_render::tools::Answer;
use hone_render::{Episode, Extension, RenderError, Rules, Setting};
use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, PolicyError, PolicyErrorKind};
use hone_trace::{ErrorEvent, Message, Sampled};
use std::sync::Arc;

/// What is quoted of a tool call that cannot be read.
const QUOTE_LEN_MAX: usize = 200;
/// The last tokens of a prompt among which an opened thought is looked for.
const N_OPENING_IDS: usize = 16;

pub(super) struct LocalConversation<B: Backend> {
    shared: Arc<Shared<B>>,
    setting: Setting,
    seed: u64,
    grammar: Option<Grammar>,
    adapter: Option<Pinned<B>>,
    episode: Option<Episode>,
    n_answers: u64,
    /// Tokens of the current segment that the engine has computed.
    n_computed: usize,
}

impl<B: Backend> LocalConversation<B> {
    pub(super) fn new(shared: Arc<Shared<B>>, opening: &Opening, grammar: Option<Grammar>, adapter: Option<Pinned<B>>) -> Self {
        let options = &shared.options;
        let (tools, extra) = (opening.tools.to_vec(), options.template.clone());
        let n_ids_max = Some(options.context_len_max);
        let setting = Setting { tools, extra, now: options.now, memory: options.memory, n_ids_max };
        Self { setting, seed: opening.seed, grammar, adapter, episode: None, n_answers: 0, n_computed: 0, shared }
    }

    /// Takes what was said; says whether a new segment began.
    fn hear(&mut self, input: &[Message]) -> Result<bool, RenderError> {
        let Some(episode) = &mut self.episode else {
            let renderer = Arc::clone(&self.shared.renderer);
            self.episode = Some(Episode::open(renderer, input.to_vec(), self.setting.clone())?);
            return Ok(false);
        };
        let is_new_segment = matches!(episode.extend(input.to_vec())?, Extension::NewSegment(_));
        if is_new_segment {
            self.n_computed = 0;
        }
        Ok(is_new_segment)
    }

    /// How many tokens are read before the answer to this.
    pub(super) fn count(mut self, input: &[Message]) -> Result<usize, PolicyError> {
        self.hear(input).map_err(|error| unrendered(&error))?;
        Ok(self.episode.as_ref().map_or(0, |episode| episode.ids().len()))
    }

    fn ask(&self, prompt: Vec<u32>, n_tokens_max: usize, wishes: &Wishes, stops: &[String]) -> Result<Ask<B>, RenderError> {
        let rules = (0..wishes.n_choices()).map(|_| self.rules(&prompt, stops)).collect::<Result<_, RenderError>>()?;
        // Several answers to one question take numbers that no later answer has.
        let sequence = if wishes.n_others > 0 { self.n_answers << 32 } else { self.n_answers };
        let (seed, adapter) = (wishes.seed.unwrap_or(self.seed), self.adapter.clone());
        Ok(Ask { prompt, n_tokens_max, seed, sequence, adapter, rules })
    }

    /// Whether a prompt ends inside a thought: some templates open it themselves.
    fn is_thinking(&self, prompt: &[u32]) -> bool {
        let last = self.shared.renderer.tokenizer().decode(&prompt[prompt.len().saturating_sub(N_OPENING_IDS)..]);
        last.trim_end().ends_with("<think>")
    }

    fn rules(&self, prompt: &[u32], stops: &[String]) -> Result<Rules, RenderError> {
        let (options, tokenizer) = (&self.shared.options, self.shared.renderer.tokenizer());
        let think = match &options.think {
            None => None,
            Some(budget) => {
                let opening = if self.is_thinking(prompt) { think::Opening::Prompt } else { think::Opening::Model };
                Some(ThinkRule::new(Arc::clone(tokenizer), budget.clone(), opening)?)
            }
        };
        let stop = match stops {
            [] => None,
            stops => Some(StopStrings::new(Arc::clone(tokenizer), stops)?),
        };
        Ok(Rules::new(think, self.grammar.as_ref().map(Grammar::rule), stop))
    }

    /// The answer as a message, and what of it could not be read.
    fn read(&self, mut answer: Answer, finish: Finish, stops: &[String]) -> (Message, Vec<ErrorEvent>) {
        let event = |kind: &str, message| ErrorEvent { kind: kind.into(), recovered: true, message };
        let broken = std::mem::take(&mut answer.broken).into_iter().map(|call| {
            let quote: String = call.text.chars().take(QUOTE_LEN_MAX).collect();
            event("unparsable_action", format!("{}: {quote}", call.why))
        });
        let errors: Vec<ErrorEvent> = broken.chain(cut_short(finish)).collect();
        answer.content.truncate(cut(&answer.content, stops).len());
        for (call_idx, call) in answer.calls.iter_mut().enumerate() {
            // Nine characters, because some templates insist on it.
            call.id = format!("c{:04}{call_idx:04}", self.n_answers % 10_000);
        }
        (answer.into_message(), errors)
    }
}

impl<B: Backend> Conversation for LocalConversation<B> {
    fn answer(&mut self, input: &[Message], limits: AnswerLimits) -> Result<Answered, PolicyError> {
        let spoken = self.speak(input, limits, &Wishes::default(), None)?;
        let first = spoken.into_iter().next().map(|spoken| spoken.answered);
        first.ok_or_else(|| failed(PolicyErrorKind::Provider, "nothing was drawn"))
    }
}

impl<B: Backend> Aloud for LocalConversation<B> {
    fn answer_aloud(
        &mut self,
        input: &[Message],
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: &mut Hear<'_>,
    ) -> Result<Vec<Spoken>, PolicyError> {
        self.speak(input, limits, wishes, Some(hear))
    }
}

impl<B: Backend> LocalConversation<B> {
    fn speak(
        &mut self,
        input: &[Message],
        limits: AnswerLimits,
        wishes: &Wishes,
        mut hear: Option<&mut Hear<'_>>,
    ) -> Result<Vec<Spoken>, PolicyError> {
        self.shared.check(wishes)?;
        let is_new_segment = self.hear(input).map_err(|error| unrendered(&error))?;
        let shared = Arc::clone(&self.shared);
        let prompt = self.episode.as_ref().map_or(&[][..], Episode::ids).to_vec();
        let n_prompt = prompt.len();
        let n_tokens_max = shared.room(&prompt, limits)?;
        let stops = [shared.options.stops.as_slice(), wishes.stops.as_slice()].concat();
        let is_silent = !self.setting.tools.is_empty();
        let is_thinking = hear.is_some() && self.is_thinking(&prompt);
        let teller = |choice_idx| Teller {
            choice_idx,
            telling: Telling::new(&stops, is_thinking, is_silent),
            text: shared.renderer.tokenizer().stream(),
            tokens: Vec::new(),
        };
        let mut tellers: Vec<Teller<'_>> = (0..wishes.n_choices()).map(teller).collect();
        let ask = self.ask(prompt, n_tokens_max, wishes, &stops).map_err(|error| unrendered(&error))?;
        let listening = hear.as_deref_mut().map(|hear| (tellers.as_mut_slice(), hear));
        let (samples, call) = shared.draw(vec![ask], n_cached(self.n_computed) as u64, limits, wishes, listening)?;
        let mut spoken = self.answered(&samples, wishes, &stops)?;
        if let Some(hear) = hear {
            for (spoken, teller) in spoken.iter().zip(&mut tellers) {
                // Whether anybody hears the end does not change it.
                let _ = teller.finish(&spoken.answered.message, hear);
            }
        }
        if let Some(Spoken { answered, .. }) = spoken.first_mut() {
            answered.llm_calls = vec![call];
            answered.is_new_segment = is_new_segment;
        }
        // The last token was drawn and never fed.
        self.n_computed = (n_prompt + samples.first().map_or(0, |sample| sample.tokens.len())).saturating_sub(1);
        self.n_answers += 1;
        Ok(spoken)
    }

    /// What the samples say. The conversation goes on with the first; the others leave it as it was.
    fn answered(&mut self, samples: &[Sample], wishes: &Wishes, stops: &[String]) -> Result<Vec<Spoken>, PolicyError> {
        let mut episode =
            self.episode.take().ok_or_else(|| failed(PolicyErrorKind::Refused, "the conversation has not begun"))?;
        let (first, others) = samples.split_first().ok_or_else(|| failed(PolicyErrorKind::Provider, "nothing was drawn"))?;
        let others: Result<Vec<Spoken>, _> =
            others.iter().map(|sample| self.spoken(&mut episode.clone(), sample, wishes, stops)).collect();
        let first = self.spoken(&mut episode, first, wishes, stops);
        self.episode = Some(episode);
        Ok(std::iter::once(first?).chain(others?).collect())
    }

    fn spoken(&self, episode: &mut Episode, sample: &Sample, wishes: &Wishes, stops: &[String]) -> Result<Spoken, PolicyError> {
        let answer = episode.answer(&sample.tokens).map_err(|error| unrendered(&error))?;
        let (message, errors) = self.read(answer, sample.finish, stops);
        let sampler = wishes.sampler(self.shared.options.sampler);
        let sampled = Sampled {
            temperature: Some(sampler.temperature),
            narrowed: sampler.leaves_out() || self.grammar.is_some() || self.shared.options.think.is_some(),
            ..episode.last_turn().clone()
        };
        let answered = Answered { errors, sampled: Some(sampled), ..Answered::of(message) };
        Ok(Spoken { answered, tokens: self.shared.told_tokens(&sample.tokens, wishes) })
    }
}
