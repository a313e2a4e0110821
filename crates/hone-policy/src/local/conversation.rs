//! One conversation with a local model: an episode of tokens, sampled turn by turn.

use super::engine::SampleError;
use super::telling::Telling;
use super::{Aloud, Shared, Wishes, failed, n_cached, stopped, unrendered};
use crate::upstream::Delta;
use hone_engine::backend::Backend;
use hone_engine::batch::{Finish, Request, SubmitError, Token};
use hone_engine::host::Sample;
use hone_engine::kv::Version;
use hone_engine::lora::Adapter;
use hone_render::schema::Grammar;
use hone_render::stop::{StopStrings, cut};
use hone_render::think::{self, ThinkRule};
use hone_render::tools::Answer;
use hone_render::{Episode, Extension, RenderError, Rules, Setting};
use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, PolicyError, PolicyErrorKind};
use hone_trace::{ErrorEvent, LlmCall, Message};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// What is quoted of a tool call that cannot be read.
const QUOTE_LEN_MAX: usize = 200;
/// The last tokens of a prompt among which an opened thought is looked for.
const N_OPENING_IDS: usize = 16;

pub(super) struct LocalConversation<B: Backend> {
    shared: Arc<Shared<B>>,
    setting: Setting,
    seed: u64,
    grammar: Option<Grammar>,
    adapter: Option<(Version, Arc<Adapter<B>>)>,
    episode: Option<Episode>,
    n_answers: u64,
    /// Tokens of the current segment that the engine has computed.
    n_computed: usize,
}

impl<B: Backend> LocalConversation<B> {
    pub(super) fn new(
        shared: Arc<Shared<B>>,
        opening: &Opening,
        grammar: Option<Grammar>,
        adapter: Option<(Version, Arc<Adapter<B>>)>,
    ) -> Self {
        let options = &shared.options;
        let (tools, extra) = (opening.tools.to_vec(), options.template.clone());
        let setting = Setting { tools, extra, now: options.now, memory: options.memory };
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

    fn request(&self, prompt: &[u32], n_tokens_max: usize, wishes: &Wishes, stops: &[String]) -> Result<Request<B>, RenderError> {
        let options = &self.shared.options;
        Ok(Request {
            sampler: wishes.sampler(options.sampler),
            stop_ids: options.stop_ids.clone(),
            seed: wishes.seed.unwrap_or(self.seed),
            sequence: self.n_answers,
            adapter: self.adapter.clone(),
            constraints: vec![Box::new(self.rules(prompt, stops)?)],
            ..Request::new(prompt.to_vec(), n_tokens_max)
        })
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
        let mut errors: Vec<ErrorEvent> = broken.collect();
        if finish == Finish::Length {
            errors.push(event("answer_cut", "the answer was cut short at its limit of tokens".into()));
        }
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
        self.speak(input, limits, &Wishes::default(), None)
    }
}

impl<B: Backend> Aloud for LocalConversation<B> {
    fn answer_aloud(
        &mut self,
        input: &[Message],
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: &mut dyn FnMut(Delta) -> ControlFlow<()>,
    ) -> Result<Answered, PolicyError> {
        self.speak(input, limits, wishes, Some(hear))
    }
}

impl<B: Backend> LocalConversation<B> {
    fn speak(
        &mut self,
        input: &[Message],
        limits: AnswerLimits,
        wishes: &Wishes,
        mut hear: Option<&mut dyn FnMut(Delta) -> ControlFlow<()>>,
    ) -> Result<Answered, PolicyError> {
        wishes
            .sampler(self.shared.options.sampler)
            .validated()
            .map_err(|error| failed(PolicyErrorKind::Refused, error.to_string()))?;
        let is_new_segment = self.hear(input).map_err(|error| unrendered(&error))?;
        let shared = Arc::clone(&self.shared);
        let options = &shared.options;
        let prompt = self.episode.as_ref().map_or(&[][..], Episode::ids).to_vec();
        let room = options.context_len_max.saturating_sub(prompt.len());
        if room == 0 {
            let text = format!("{} tokens leave no room for an answer in {}", prompt.len(), options.context_len_max);
            return Err(failed(PolicyErrorKind::TooLong, text));
        }
        let n_tokens_max = usize::try_from(limits.tokens_max).unwrap_or(usize::MAX).clamp(1, room);
        let stops = [options.stops.as_slice(), wishes.stops.as_slice()].concat();
        let request = self.request(&prompt, n_tokens_max, wishes, &stops).map_err(|error| unrendered(&error))?;
        let is_silent = !self.setting.tools.is_empty();
        let is_thinking = hear.is_some() && self.is_thinking(&prompt);
        let (mut telling, mut text) = (Telling::new(&stops, is_thinking, is_silent), shared.renderer.tokenizer().stream());
        let started = options.clock.as_ref().map(|clock| clock.now());
        let time_max = started.and(limits.time_max_ms).map(Duration::from_millis);
        let sampled = match &mut hear {
            None => shared.engine.sample(request, time_max, None),
            Some(hear) => {
                let mut tell = |tokens: &[Token]| {
                    for token in tokens.iter().filter(|token| !options.stop_ids.contains(&token.id)) {
                        hear(Delta::Text(telling.push(&text.push(token.id)).to_owned()))?;
                    }
                    ControlFlow::Continue(())
                };
                shared.engine.sample(request, time_max, Some(&mut tell))
            }
        };
        let ended = options.clock.as_ref().map(|clock| clock.now());
        let mut call = LlmCall {
            model: options.model.clone(),
            tokens_in: prompt.len() as u64,
            tokens_cached: n_cached(self.n_computed) as u64,
            duration_ms: ended.zip(started).map(|(ended, started)| ended.millis_since(started)),
            ..LlmCall::default()
        };
        let Sample { tokens, finish } = sampled.map_err(|error| unsampled(error, &call))?;
        call.tokens_out = tokens.len() as u64;
        if matches!(finish, Finish::NoToken | Finish::Cancelled) {
            let text = format!("after {} tokens no further one could be drawn", tokens.len());
            return Err(PolicyError { llm_calls: vec![call], ..failed(PolicyErrorKind::Provider, text) });
        }
        let Some(episode) = &mut self.episode else {
            return Err(failed(PolicyErrorKind::Refused, "the conversation has not begun"));
        };
        let answer = episode.answer(&tokens).map_err(|error| unrendered(&error))?;
        let sampled = Some(episode.last_turn().clone());
        // The last token was drawn and never fed.
        self.n_computed = (prompt.len() + tokens.len()).saturating_sub(1);
        let (message, errors) = self.read(answer, finish, &stops);
        if let Some(hear) = hear {
            // Whether anybody hears the end does not change it.
            let _ = tell_rest(&telling, &message, hear);
        }
        self.n_answers += 1;
        Ok(Answered { message, llm_calls: vec![call], errors, sampled, is_new_segment })
    }
}

/// What was held back until the end.
fn tell_rest(telling: &Telling<'_>, message: &Message, hear: &mut dyn FnMut(Delta) -> ControlFlow<()>) -> ControlFlow<()> {
    if let Some(thought) = &message.reasoning {
        hear(Delta::Reasoning(thought.clone()))?;
    }
    let content = message.content.text();
    let rest = telling.rest(&content);
    if !rest.is_empty() {
        hear(Delta::Text(rest.to_owned()))?;
    }
    for (call_idx, call) in message.tool_calls.iter().enumerate() {
        let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
        hear(Delta::ToolCall { call_idx, id, name, arguments: call.arguments.clone() })?;
    }
    ControlFlow::Continue(())
}

fn unsampled(error: SampleError, call: &LlmCall) -> PolicyError {
    let kind_of = |error: &SubmitError| match error {
        SubmitError::TooLong { .. } => PolicyErrorKind::TooLong,
        SubmitError::QueueFull(_) => PolicyErrorKind::RateLimit,
        _ => PolicyErrorKind::Refused,
    };
    match error {
        SampleError::Refused(error) => failed(kind_of(&error), error.to_string()),
        SampleError::Stopped => stopped(super::Stopped),
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
