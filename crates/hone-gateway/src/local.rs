//! Models of this process: an episode keeps its conversation, so that turn n + 1 extends the tokens that were sampled for turn n.
//!
//! A client sends text back. When it goes on where the conversation stands, only what is new is rendered; otherwise the conversation begins
//! anew with all of it, and so does a segment of the trace. Either way the sampled tokens are on the record, and can be trained on.
//! Answers are drawn on threads that may wait; the engine batches them.

use crate::choices::told;
use crate::episode::{Digest, digest, digests};
use crate::question::Question;
use hone_policy::local::{Aloud, Hear, Piece, Prompt, Spoken, ToldToken, Voice, Wishes};
use hone_policy::upstream::{ChatRequest, Choice, Completion, Delta, Finish, Reply, Tokens, UpstreamError, Usage, Wire};
use hone_trace::policy::{AnswerLimits, Answered, Opening, PolicyError, PolicyErrorKind};
use hone_trace::{LlmCall, Message, Sampled, Tenant, TraceId};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Conversations that are kept open.
const N_CONVERSATIONS_MAX: usize = 4096;
/// Pieces of an answer that wait to be passed on.
const N_PIECES_MAX: usize = 256;
/// Tokens of an answer when the client sets no limit.
const TOKENS_MAX: u64 = 4096;

/// A model of this process.
pub struct Local {
    voice: Arc<dyn Voice>,
    kept: Mutex<Kept>,
}

/// Conversations that may go on, the least recently heard of forgotten first.
#[derive(Default)]
struct Kept {
    conversations: HashMap<TraceId, (Talk, u64)>,
    order: BTreeMap<u64, TraceId>,
    n_heard: u64,
}

/// A conversation, and what has been said in it.
struct Talk {
    conversation: Box<dyn Aloud>,
    opening: Opening,
    history: Vec<Digest>,
}

/// An answer, with its tokens.
pub(crate) struct Drawn {
    pub(crate) completion: Completion,
    pub(crate) sampled: Option<Sampled>,
    /// Whether the tokens do not extend those of the turn before.
    pub(crate) is_new_segment: bool,
    /// Which of the client's stop strings ended it, where that is known.
    pub(crate) stopped_by: Option<String>,
}

/// An answer that is being drawn.
pub(crate) struct Drawing {
    begun: oneshot::Receiver<()>,
    pieces: mpsc::Receiver<Piece>,
    drawn: oneshot::Receiver<Result<Drawn, UpstreamError>>,
}

impl Drawing {
    /// Waits until something was drawn, though there may be nothing to tell of it yet; `false` where it ends before that.
    pub(crate) async fn has_begun(&mut self) -> bool {
        (&mut self.begun).await.is_ok()
    }

    pub(crate) async fn next(&mut self) -> Option<Piece> {
        self.pieces.recv().await
    }

    pub(crate) async fn finish(mut self) -> Result<Drawn, UpstreamError> {
        while self.pieces.recv().await.is_some() {}
        let gone = || UpstreamError::new(PolicyErrorKind::Provider, "the engine has stopped");
        self.drawn.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends it: what it took.
    pub(crate) async fn leave(mut self) -> Vec<LlmCall> {
        self.pieces.close();
        match self.finish().await {
            Ok(drawn) => drawn.completion.calls,
            Err(error) => error.calls,
        }
    }
}

impl Local {
    /// Answers come from this policy.
    pub fn new(voice: Arc<dyn Voice>) -> Self {
        Self { voice, kept: Mutex::default() }
    }

    /// Whether its answers can call tools.
    pub(crate) fn calls_tools(&self) -> bool {
        self.voice.calls_tools()
    }

    /// Begins to answer what can be followed here, within this time. Who drops the answer ends it.
    pub(crate) fn answer(self: &Arc<Self>, question: &Question, left_ms: u64) -> Result<Drawing, UpstreamError> {
        let (tell, pieces) = mpsc::channel(N_PIECES_MAX);
        let (begins, begun) = oneshot::channel();
        let (done, drawn) = oneshot::channel();
        let (own, asked) = (Arc::clone(self), Asked::of(question, left_ms));
        let drawing = move || {
            let mut begins = Some(begins);
            let mut hear = |mut piece: Piece| {
                if !asked.tells_tokens {
                    piece.tokens.clear();
                }
                if let Some(begins) = begins.take() {
                    let _ = begins.send(());
                }
                let is_heard = match &piece.delta {
                    Delta::Text(text) if text.is_empty() && piece.tokens.is_empty() => !tell.is_closed(),
                    _ => tell.blocking_send(piece).is_ok(),
                };
                if is_heard { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let answered = match asked.prompts.is_empty() {
                true => own.draw(&asked, &mut hear),
                false => own.draw_plain(&asked, &mut hear),
            };
            drop(tell);
            drop(done.send(answered));
        };
        thread().spawn(drawing).map_err(|error| busy(&error))?;
        Ok(Drawing { begun, pieces, drawn })
    }

    /// How many tokens it would read before it answers this.
    pub(crate) async fn count(self: &Arc<Self>, request: &ChatRequest) -> Result<usize, UpstreamError> {
        let (done, counted) = oneshot::channel();
        let (own, messages) = (Arc::clone(self), request.messages.clone());
        let opening = Opening { tools: Arc::clone(&request.tools), ..Opening::default() };
        let counting = move || drop(done.send(own.voice.count(&opening, &messages).map_err(failed)));
        thread().spawn(counting).map_err(|error| busy(&error))?;
        counted.await.unwrap_or_else(|_| Err(UpstreamError::new(PolicyErrorKind::Provider, "the engine has stopped")))
    }

    /// Goes on with plain texts, outside any conversation.
    fn draw_plain(&self, asked: &Asked, hear: &mut Hear<'_>) -> Result<Drawn, UpstreamError> {
        let seed = asked.opening.seed;
        let spoken = self.voice.continue_aloud(&asked.prompts, seed, asked.limits, &asked.wishes, hear).map_err(failed)?;
        drawn(asked, spoken, true)
    }

    fn draw(&self, asked: &Asked, hear: &mut Hear<'_>) -> Result<Drawn, UpstreamError> {
        let known = self.lock().take(asked.episode);
        let goes_on = |talk: &Talk| talk.opening == asked.opening && asked.said.starts_with(&talk.history);
        let (mut talk, is_fresh) = match known.filter(goes_on) {
            Some(talk) => (talk, false),
            None => {
                let conversation = self.voice.open_aloud(&asked.opening).map_err(failed)?;
                (Talk { conversation, opening: asked.opening.clone(), history: Vec::new() }, true)
            }
        };
        let input = &asked.messages[talk.history.len()..];
        let spoken = talk.conversation.answer_aloud(input, asked.limits, &asked.wishes, hear).map_err(failed)?;
        let first = spoken.first().map(|spoken| digest(&spoken.answered.message));
        talk.history = asked.said.iter().copied().chain(first).collect();
        self.lock().keep(asked.episode, talk);
        drawn(asked, spoken, is_fresh)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, episode: TraceId) -> Option<Talk> {
        let (talk, heard) = self.conversations.remove(&episode)?;
        self.order.remove(&heard);
        Some(talk)
    }

    fn keep(&mut self, episode: TraceId, talk: Talk) {
        self.take(episode);
        self.n_heard += 1;
        self.order.insert(self.n_heard, episode);
        self.conversations.insert(episode, (talk, self.n_heard));
        while self.conversations.len() > N_CONVERSATIONS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.conversations.remove(&oldest);
        }
    }
}

/// What of a question goes to the thread that answers it.
struct Asked {
    episode: TraceId,
    opening: Opening,
    messages: Vec<Message>,
    said: Vec<Digest>,
    limits: AnswerLimits,
    wishes: Wishes,
    /// Whether the client is told the tokens; they may be looked at for what they end with alone.
    tells_tokens: bool,
    /// The plain texts that are to go on, where it is no conversation.
    prompts: Vec<Prompt>,
}

impl Asked {
    fn of(question: &Question, left_ms: u64) -> Self {
        let request = &question.request;
        let tokens_max = if request.tokens_max > 0 { request.tokens_max } else { TOKENS_MAX };
        // Only this format tells which stop string ended an answer; it shows in the tokens.
        let tells_stop = question.wire == Some(Wire::Anthropic) && !request.sampling.stops.is_empty();
        // The number of an answer is part of what it is drawn from, so one seed serves a whole conversation.
        let seed = u64::from_le_bytes(question.episode.trace().bytes()[8..].try_into().unwrap_or_default());
        Self {
            episode: question.episode.trace(),
            opening: Opening { tools: Arc::clone(&request.tools), schema: request.schema.clone(), seed },
            messages: request.messages.clone(),
            // An agent's standing instructions are said first, and not by the client.
            said: match question.agent {
                Some(_) => digests(&request.messages),
                None => question.said.clone(),
            },
            limits: AnswerLimits { tokens_max, time_max_ms: Some(left_ms) },
            wishes: Wishes {
                temperature: request.sampling.temperature.map(|number| number as f32),
                top_p: request.sampling.top_p.map(|number| number as f32),
                stops: request.sampling.stops.clone(),
                seed: question.seed(),
                n_others: usize::try_from(question.choices.n).unwrap_or(usize::MAX).saturating_sub(1),
                tokens: question.choices.tokens.or(tells_stop.then_some(0)),
                prediction: question.prediction().unwrap_or_default(),
                // How soon an answer comes tells nobody what others were told.
                asker: asker(&question.caller.tenant),
            },
            tells_tokens: question.choices.tokens.is_some(),
            prompts: question.prompts.clone(),
        }
    }
}

/// A thread of its own: those that the runtime has for waiting are also the store's.
fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("answer".to_owned())
}

fn busy(error: &std::io::Error) -> UpstreamError {
    UpstreamError::new(PolicyErrorKind::Provider, format!("no thread is free to answer: {error}"))
}

/// A tenant, as the engine knows it.
fn asker(tenant: &Tenant) -> u64 {
    let mut hasher = DefaultHasher::new();
    tenant.as_str().hash(&mut hasher);
    hasher.finish()
}

fn drawn(asked: &Asked, spoken: Vec<Spoken>, is_fresh: bool) -> Result<Drawn, UpstreamError> {
    let mut spoken = spoken.into_iter();
    let Some(Spoken { answered, tokens }) = spoken.next() else {
        return Err(UpstreamError::new(PolicyErrorKind::Provider, "nothing was drawn"));
    };
    let finish = finish(&answered);
    let stopped_by = stopped_by(&tokens, &asked.wishes.stops).filter(|_| finish == Finish::Stop).map(str::to_owned);
    let told_as = |tokens: &[ToldToken]| told_as(if asked.tells_tokens { tokens } else { &[] });
    let Answered { message, llm_calls, errors, sampled, is_new_segment } = answered;
    let usage = llm_calls.last().map(|call| Usage {
        tokens_in: call.tokens_in,
        tokens_out: call.tokens_out,
        tokens_cached: call.tokens_cached,
        tokens_cache_written: 0,
        tokens_thought: 0,
    });
    let other = |Spoken { answered, tokens }: Spoken| Choice {
        finish: self::finish(&answered),
        message: answered.message,
        tokens: told_as(&tokens),
        sampled: answered.sampled,
    };
    let (tokens, others) = (told_as(&tokens), spoken.map(other).collect());
    let reply = Reply { model: None, message, finish, usage, tokens, broken: Vec::new(), others, json: None };
    Ok(Drawn {
        completion: Completion { reply, calls: llm_calls, failures: errors },
        sampled,
        is_new_segment: is_new_segment || is_fresh,
        stopped_by,
    })
}

/// The stop string that the last token completes: the first of several. An answer ends with the token that does.
fn stopped_by<'a>(tokens: &[ToldToken], stops: &'a [String]) -> Option<&'a str> {
    let text: Vec<u8> = tokens.iter().flat_map(|token| &token.bytes).copied().collect();
    let n_last = tokens.last().map_or(0, |token| token.bytes.len());
    let place = |stop: &str| {
        // It begins where its last byte can still be one of the last token.
        let first = (text.len() + 1).saturating_sub(n_last + stop.len());
        let found = text[first..].windows(stop.len()).position(|bytes| bytes == stop.as_bytes())?;
        Some(first + found)
    };
    let found = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| Some((place(stop)?, stop)));
    found.min_by_key(|(place, _)| *place).map(|(_, stop)| stop.as_str())
}

fn finish(answered: &Answered) -> Finish {
    let is_cut = answered.errors.iter().any(|error| error.kind == "answer_cut");
    match answered.message.tool_calls.is_empty() {
        _ if is_cut => Finish::Length,
        true => Finish::Stop,
        false => Finish::ToolCalls,
    }
}

fn told_as(tokens: &[ToldToken]) -> Tokens {
    Tokens { told: if tokens.is_empty() { Value::Null } else { told(tokens).into() }, ..Tokens::default() }
}

fn failed(error: PolicyError) -> UpstreamError {
    UpstreamError { calls: error.llm_calls, ..UpstreamError::new(error.kind, error.message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[&str], stops: &[&str], expected: Option<&str>) {
        let token = |text: &&str| ToldToken { bytes: text.as_bytes().to_vec(), logprob: 0.0, likeliest: Vec::new() };
        let tokens: Vec<ToldToken> = tokens.iter().map(token).collect();
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        assert_eq!(stopped_by(&tokens, &stops), expected, "{stops:?}");
    }

    #[test]
    fn the_last_token_completes_what_ended_the_answer() {
        check(&["so", "me E", "ND!"], &["END", "x"], Some("END"));
        check(&["some", " a b"], &["b", "a"], Some("a"));
        check(&["some"], &["END", "something"], None);
        check(&["a", "b", "c"], &["b"], None);
        check(&[], &["b", ""], None);
    }
}
