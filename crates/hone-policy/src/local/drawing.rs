//! Drawing answers from the engine, and telling them while they are drawn: what conversations and plain texts have in common.

use super::engine::SampleError;
use super::telling::Telling;
use super::{Hear, Piece, Pinned, Shared, ToldToken, Wishes, failed, stopped};
use crate::upstream::Delta;
use hone_engine::backend::Backend;
use hone_engine::batch::{Finish, Request, SubmitError, Token};
use hone_engine::constraint::Constraint;
use hone_engine::host::Sample;
use hone_render::{Rules, TextStream};
use hone_trace::policy::{AnswerLimits, PolicyError, PolicyErrorKind};
use hone_trace::{ErrorEvent, LlmCall, Message};
use std::ops::ControlFlow;
use std::time::Duration;

/// What is drawn from one prompt.
pub(super) struct Ask<B: Backend> {
    pub(super) prompt: Vec<u32>,
    pub(super) n_tokens_max: usize,
    pub(super) seed: u64,
    /// The number of the first of its samples.
    pub(super) sequence: u64,
    pub(super) adapter: Option<Pinned<B>>,
    /// One rule per sample.
    pub(super) rules: Vec<Rules>,
}

impl<B: Backend> Ask<B> {
    fn request(self, shared: &Shared<B>, wishes: &Wishes) -> Request<B> {
        let n_samples = self.rules.len();
        let is_free = self.rules.iter().all(Rules::is_free);
        let held = |rules: Rules| Box::new(rules) as Box<dyn Constraint>;
        Request {
            n_samples,
            sampler: wishes.sampler(shared.options.sampler),
            stop_ids: shared.options.stop_ids.clone(),
            seed: self.seed,
            sequence: self.sequence,
            adapter: self.adapter,
            constraints: if is_free { Vec::new() } else { self.rules.into_iter().map(held).collect() },
            n_likeliest: wishes.tokens.unwrap_or(0),
            prediction: shared.predicted(&wishes.prediction),
            asker: wishes.asker,
            ..Request::new(self.prompt, self.n_tokens_max)
        }
    }
}

impl<B: Backend> Shared<B> {
    /// How long an answer to this may be.
    pub(super) fn room(&self, prompt: &[u32], limits: AnswerLimits) -> Result<usize, PolicyError> {
        let room = self.options.context_len_max.saturating_sub(prompt.len());
        if room == 0 {
            let text = format!("{} tokens leave no room for an answer in {}", prompt.len(), self.options.context_len_max);
            return Err(failed(PolicyErrorKind::TooLong, text));
        }
        Ok(usize::try_from(limits.tokens_max).unwrap_or(usize::MAX).clamp(1, room))
    }

    /// Draws all that is asked, and says what it took. `tellers` has one for each sample, or nobody hears.
    pub(super) fn draw(
        &self,
        asks: Vec<Ask<B>>,
        tokens_cached: u64,
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: Option<(&mut [Teller<'_>], &mut Hear<'_>)>,
    ) -> Result<(Vec<Sample>, LlmCall), PolicyError> {
        let tokens_in = asks.iter().map(|ask| ask.prompt.len() as u64).sum();
        let has_grammar = asks.iter().flat_map(|ask| &ask.rules).any(Rules::has_grammar);
        let requests = asks.into_iter().map(|ask| ask.request(self, wishes)).collect();
        let clock = self.options.clock.as_ref();
        let started = clock.map(|clock| clock.now());
        let time_max = started.and(limits.time_max_ms).map(Duration::from_millis);
        let sampled = match hear {
            None => self.engine.sample(requests, time_max, None),
            Some((tellers, hear)) => {
                let mut tell = |sample_idx: usize, tokens: &[Token]| {
                    let told = |token: &Token| wishes.tokens.map(|_| self.told(token));
                    tellers[sample_idx].push(&self.said(tokens), told, hear)
                };
                self.engine.sample(requests, time_max, Some(&mut tell))
            }
        };
        let mut call = LlmCall {
            model: self.options.model.clone(),
            tokens_in,
            tokens_cached,
            duration_ms: clock.map(|clock| clock.now()).zip(started).map(|(ended, started)| ended.millis_since(started)),
            ..LlmCall::default()
        };
        let samples = sampled.map_err(|error| unsampled(error, &call))?;
        call.tokens_out = samples.iter().map(|sample| sample.tokens.len() as u64).sum();
        let is_undrawn = |finish| matches!(finish, Finish::NoToken | Finish::NotFinite | Finish::Cancelled);
        if let Some(sample) = samples.iter().find(|sample| is_undrawn(sample.finish)) {
            let error = undrawn(sample, has_grammar);
            return Err(PolicyError { llm_calls: vec![call], ..error });
        }
        Ok((samples, call))
    }

    /// The tokens of a sample as they are told, where that is wished.
    pub(super) fn told_tokens(&self, tokens: &[Token], wishes: &Wishes) -> Vec<ToldToken> {
        match wishes.tokens {
            None => Vec::new(),
            Some(_) => self.said(tokens).iter().map(|token| self.told(token)).collect(),
        }
    }

    /// The tokens that say something: all but those that end an answer.
    fn said<'a>(&self, tokens: &'a [Token]) -> Vec<&'a Token> {
        tokens.iter().filter(|token| !self.options.stop_ids.contains(&token.id)).collect()
    }

    fn told(&self, token: &Token) -> ToldToken {
        let bytes = |id: u32| self.renderer.tokenizer().bytes(id).to_vec();
        let likeliest = token.likeliest.iter().map(|(id, logprob)| (bytes(*id), *logprob)).collect();
        ToldToken { bytes: bytes(token.id), logprob: token.logprob, likeliest }
    }
}

/// Tells one of the answers while it is drawn.
pub(super) struct Teller<'a> {
    pub(super) choice_idx: usize,
    pub(super) telling: Telling<'a>,
    pub(super) text: TextStream<'a>,
    /// Tokens that were drawn since the last piece.
    pub(super) tokens: Vec<ToldToken>,
}

impl Teller<'_> {
    fn push(&mut self, tokens: &[&Token], told: impl Fn(&Token) -> Option<ToldToken>, hear: &mut Hear<'_>) -> ControlFlow<()> {
        for token in tokens {
            self.tokens.extend(told(token));
            let text = self.telling.push(&self.text.push(token.id)).to_owned();
            let tokens = if text.is_empty() { Vec::new() } else { std::mem::take(&mut self.tokens) };
            hear(Piece { choice_idx: self.choice_idx, delta: Delta::Text(text), tokens })?;
        }
        ControlFlow::Continue(())
    }

    /// Tells what was held back until the end.
    pub(super) fn finish(&mut self, message: &Message, hear: &mut Hear<'_>) -> ControlFlow<()> {
        let choice_idx = self.choice_idx;
        if let Some(thought) = &message.reasoning {
            hear(Piece { choice_idx, delta: Delta::Reasoning(thought.clone()), tokens: Vec::new() })?;
        }
        let content = message.content.text();
        let rest = self.telling.rest(&content);
        if !rest.is_empty() || !self.tokens.is_empty() {
            hear(Piece { choice_idx, delta: Delta::Text(rest.to_owned()), tokens: std::mem::take(&mut self.tokens) })?;
        }
        for (call_idx, call) in message.tool_calls.iter().enumerate() {
            let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
            let delta = Delta::ToolCall { call_idx, id, name, arguments: call.arguments.clone(), extra: call.extra.clone() };
            hear(Piece { choice_idx, delta, tokens: Vec::new() })?;
        }
        ControlFlow::Continue(())
    }
}

/// That an answer reached its limit, where it did.
pub(super) fn cut_short(finish: Finish) -> Option<ErrorEvent> {
    let message = "the answer was cut short at its limit of tokens".to_owned();
    (finish == Finish::Length).then(|| ErrorEvent { kind: "answer_cut".into(), recovered: true, message })
}

/// Why an answer did not go on. Who asks for a schema that nothing follows is told so: it is no fault of the model. Numbers that are none
/// are no fault of the schema.
fn undrawn(sample: &Sample, has_grammar: bool) -> PolicyError {
    let (kind, why) = match sample.finish {
        Finish::NoToken if has_grammar => {
            (PolicyErrorKind::Refused, "the schema allows no further one: nothing can follow it, or it is too complex")
        }
        Finish::NotFinite => {
            (PolicyErrorKind::Provider, "the model's numbers are not finite: its weights or its adapter may be damaged")
        }
        _ => (PolicyErrorKind::Provider, "no further one could be drawn"),
    };
    failed(kind, format!("after {} tokens {why}", sample.tokens.len()))
}

fn unsampled(error: SampleError, call: &LlmCall) -> PolicyError {
    let kind_of = |error: &SubmitError| match error {
        SubmitError::TooLong { .. } => PolicyErrorKind::TooLong,
        SubmitError::QueueFull(_) => PolicyErrorKind::RateLimit,
        _ => PolicyErrorKind::Refused,
    };
    match error {
        SampleError::Refused(error) => failed(kind_of(&error), error.to_string()),
        SampleError::Stopped(why) => stopped(&why),
        SampleError::Left => {
            let text = "who asked has left before the answer was whole";
            PolicyError { llm_calls: vec![call.clone()], ..failed(PolicyErrorKind::Timeout, text) }
        }
        SampleError::Timeout => {
            let text = "the answer took longer than the time that was left";
            PolicyError { llm_calls: vec![call.clone()], ..failed(PolicyErrorKind::Timeout, text) }
        }
    }
}
