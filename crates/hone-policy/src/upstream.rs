//! Providers over HTTP: OpenAI-compatible servers, Azure, Anthropic, Gemini, Cohere and Bedrock behind one trait.
//!
//! The core is asynchronous ([`Client`]); [`Upstream`] is the policy on top of it, whose callers wait. Wire formats are pure
//! functions, one file each. Nothing half is passed off as an answer: a stream that is cut, a wrong type, a hang is a failure
//! that is tried again or told. Every attempt is on the record with what it took, and a shared [`Budget`] ends a run before
//! the money does.
//!
//! Keys are handed in and printed nowhere. Knows nothing of environment variables, worlds or the store.

mod access;
mod anthropic;
mod bedrock;
mod budget;
mod call;
mod calling;
mod client;
mod cohere;
mod completions;
mod embedding;
mod exchange;
mod frames;
mod gemini;
mod key;
mod keys;
mod manner;
mod openai;
mod price;
mod reply;
mod request;
mod retry;
mod signature;
mod spec;
mod sse;
mod strict;
mod versions;
mod wire;

pub use access::{Access, AccessError};
pub use budget::{Budget, OverBudget, Projection, Spent, project, project_guess};
pub use call::{Completion, Streaming, Told, UpstreamError};
pub use calling::{Called, Calling, PARALLEL, TOOL_CHOICE};
pub use client::{Client, ClientError, ClientOptions};
pub use embedding::Embeddings;
pub use frames::{Frame, FrameDecoder, FrameError};
pub use key::{Key, KeyError};
pub use keys::{Keys, KeysError};
pub use manner::{EFFORT, Manner, VERBOSITY};
pub use price::{PRICES_DATE, Price};
pub use reply::{Choice, Delta, Finish, Refusal, Reply, Tokens, Usage, WireError, Words};
pub use request::{ChatRequest, Endpoint, Label, RequestError, Sampling, Transfer};
pub use retry::{RealSleeper, Retry, Sleeper};
pub use signature::{AwsKey, Region, RegionError};
pub use spec::{PROVIDERS, Provider, SpecError, UpstreamSpec};
pub use sse::{Decoder, Event, SseError};
pub use versions::VersionError;
pub use wire::{Wire, body, reply};

use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{Config, Draws, ErrorEvent, Message, Sampled};
use serde_json::{Map, Value, json};
use std::sync::{Arc, mpsc};
use tokio::runtime::{Builder, Handle, Runtime};

/// A provider's model as a policy.
pub struct Upstream {
    shared: Arc<Shared>,
    config: Config,
}

struct Shared {
    client: Arc<Client>,
    sampling: Sampling,
    runtime: Handle,
}

/// A runtime that is enough for many calls at once: they only wait.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).thread_name("upstream").enable_all().build()
}

impl Upstream {
    /// Answers come from this client; its calls run on this runtime, which must outlive the policy.
    pub fn new(client: Arc<Client>, sampling: Sampling, runtime: Handle) -> Result<Self, RequestError> {
        if sampling.token_ids && client.spec().provider.wire != Wire::OpenAi {
            return Err(RequestError("only servers of OpenAI's format tell token ids".into()));
        }
        // A parameter that is set twice shows here, and not in the first episode.
        let asked = ChatRequest { sampling: sampling.clone(), tokens_max: 1, ..ChatRequest::default() };
        body(client.spec(), &asked, Transfer::Stream)?;
        let config = config(&client, &sampling);
        Ok(Self { shared: Arc::new(Shared { client, sampling, runtime }), config })
    }
}

fn config(client: &Client, sampling: &Sampling) -> Config {
    let spec = client.spec();
    let mut settings = Map::new();
    if !spec.provider.name.is_empty() {
        settings.insert("provider".into(), spec.provider.name.into());
    }
    // Where it matters, a model is another one elsewhere.
    if spec.provider.base_url.is_empty() {
        settings.insert("base_url".into(), spec.base_url.as_str().into());
    }
    if let Some(top_p) = sampling.top_p {
        settings.insert("top_p".into(), top_p.into());
    }
    if !sampling.stops.is_empty() {
        settings.insert("stop".into(), json!(sampling.stops));
    }
    if !sampling.extra.is_empty() {
        settings.insert("extra".into(), Value::Object(sampling.extra.clone()));
    }
    Config {
        model: Some(spec.model.clone()),
        temperature: sampling.temperature,
        retries_max: Some(client.options().retry.n_attempts_max - 1),
        settings,
        ..Config::default()
    }
}

impl Policy for Upstream {
    fn config(&self) -> &Config {
        &self.config
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        let (shared, opening) = (Arc::clone(&self.shared), opening.clone());
        Ok(Box::new(UpstreamConversation { shared, opening, messages: Vec::new(), n_answers: 0, ids: Vec::new() }))
    }
}

struct UpstreamConversation {
    shared: Arc<Shared>,
    opening: Opening,
    messages: Vec<Message>,
    n_answers: u64,
    /// The tokens of the current segment, where the server tells them.
    ids: Vec<u32>,
}

impl UpstreamConversation {
    fn wait(&self, request: ChatRequest) -> Result<Completion, UpstreamError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let client = Arc::clone(&self.shared.client);
        self.shared.runtime.spawn(async move { reply.send(client.complete(&request).await) });
        let gone = |_| UpstreamError::new(PolicyErrorKind::Provider, "the runtime of the calls has stopped");
        answer.recv().unwrap_or_else(|error| Err(gone(error)))
    }

    /// The tokens of this turn, and whether the server has rewritten what came before.
    fn sampled(&mut self, tokens: Tokens) -> (Option<Sampled>, bool) {
        let Tokens { prompt_ids, ids, logprobs, .. } = tokens;
        if prompt_ids.is_empty() || ids.is_empty() {
            return (None, false);
        }
        let is_new_segment = !prompt_ids.starts_with(&self.ids);
        let n_known = if is_new_segment { 0 } else { self.ids.len() };
        let input_ids = prompt_ids[n_known..].to_vec();
        self.ids = prompt_ids;
        self.ids.extend(&ids);
        (Some(Sampled { input_ids, ids, logprobs, ..Sampled::default() }), is_new_segment)
    }
}

impl Conversation for UpstreamConversation {
    fn answer(&mut self, input: &[Message], limits: AnswerLimits) -> Result<Answered, PolicyError> {
        let n_before = self.messages.len();
        self.messages.extend_from_slice(input);
        let request = ChatRequest {
            messages: self.messages.clone(),
            tools: Arc::clone(&self.opening.tools),
            schema: self.opening.schema.clone(),
            sampling: self.shared.sampling.clone(),
            tokens_max: limits.tokens_max.max(1),
            seed: Draws::new(self.opening.seed, &["answer", &self.n_answers.to_string()]).bits(),
            time_max_ms: limits.time_max_ms,
            ..ChatRequest::default()
        };
        let completion = self.wait(request).inspect_err(|_| self.messages.truncate(n_before))?;
        self.n_answers += 1;
        let Completion { reply, calls, failures } = completion;
        self.messages.push(reply.message.clone());
        let errors = failures.into_iter().chain(remarks(&reply)).collect();
        let (sampled, is_new_segment) = self.sampled(reply.tokens);
        Ok(Answered { message: reply.message, llm_calls: calls, errors, sampled, is_new_segment })
    }
}

/// What is wrong with an answer that is one.
fn remarks(reply: &Reply) -> Vec<ErrorEvent> {
    let event = |kind: &str, message: &str| ErrorEvent { kind: kind.into(), recovered: true, message: message.into() };
    let mut events: Vec<ErrorEvent> = reply.broken.iter().map(|what| event("unparsable_action", what)).collect();
    match reply.finish {
        Finish::Length => events.push(event("answer_cut", "the answer was cut short at its limit of tokens")),
        Finish::Filtered => events.push(event("answer_filtered", "the provider or the model would not answer")),
        Finish::Stop | Finish::ToolCalls => {}
    }
    events
}
