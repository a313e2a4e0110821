//! A question: what of a request its answer is drawn from, and who may be asked it in whose words.
//!
//! Those who speak the client's own format are asked in its own words. Others are asked in ours, and what could not be put into them is
//! refused by name: ignoring it would mislead.

use crate::access::Identity;
use crate::agents::Version;
use crate::catalogue::Model;
use crate::choices::Choices;
use crate::episode::Digest;
use crate::local::Local;
use crate::openai;
use crate::record::{Begun, Joined, has_failed};
use axum::http::HeaderMap;
use hone_arbiter::canary::Fact;
use hone_arbiter::log::{Assigned, Line};
use hone_policy::local::Prompt;
use hone_policy::upstream::{
    Calling, ChatRequest, Client, EFFORT, PARALLEL, TOOL_CHOICE, Told, UpstreamError, UpstreamSpec, VERBOSITY, Wire, Words,
};
use hone_trace::format::openai::Conversation;
use hone_trace::policy::PolicyErrorKind;
use hone_trace::store::Event;
use hone_trace::{Category, Time, Turn};
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// What a client may ask for, in OpenAI's, Anthropic's or vLLM's words, and what an answer that is not passed on does not follow: ignoring
/// it would mislead.
const UNFOLLOWED: [&str; 41] = [
    "n",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "tool_choice",
    "top_k",
    "thinking",
    "echo",
    "suffix",
    "best_of",
    "audio",
    "function_call",
    "modalities",
    "reasoning",
    "reasoning_effort",
    "verbosity",
    "web_search_options",
    "container",
    "context_management",
    "mcp_servers",
    "output_config",
    "output_format",
    "parallel_tool_calls",
    "bad_words",
    "chat_template",
    "chat_template_kwargs",
    "continue_final_message",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "ignore_eos",
    "length_penalty",
    "min_p",
    "min_tokens",
    "repetition_penalty",
    "stop_token_ids",
    "structured_outputs",
    "use_beam_search",
];
/// What of it a model of this machine does follow, in OpenAI's words.
const FOLLOWED_HERE: [&str; 3] = ["n", "logprobs", "top_logprobs"];

/// What says how much is thought and said: it is looked at where it could be read.
const MANNER: [&str; 2] = [EFFORT, VERBOSITY];

/// A question, in our words and in those of the client.
pub(crate) struct Question {
    /// The id of its answer.
    pub(crate) id: String,
    pub(crate) caller: Identity,
    pub(crate) started: Time,
    pub(crate) episode: Joined,
    /// What the client calls it, where that is not its id.
    pub(crate) episode_name: Option<String>,
    /// What the conversation says.
    pub(crate) said: Vec<Digest>,
    /// The type of task, where it is known.
    pub(crate) category: Option<Category>,
    /// Who answers, and for which version of an agent.
    pub(crate) model: Arc<Model>,
    pub(crate) agent: Option<(Arc<Assigned>, Arc<Version>)>,
    pub(crate) conversation: Conversation,
    pub(crate) request: ChatRequest,
    /// The plain texts that are to go on, where it is no conversation.
    pub(crate) prompts: Vec<Prompt>,
    /// How many answers are asked for, and what of their tokens.
    pub(crate) choices: Choices,
    /// The client's own body, its wire format and what its headers say in that format: it goes to upstreams of the same format as it
    /// came. Without one it is always translated.
    pub(crate) body: Map<String, Value>,
    pub(crate) wire: Option<Wire>,
    pub(crate) headers: HeaderMap,
    /// The interface that it came through.
    pub(crate) api: &'static str,
    /// A place among the requests that are worked on.
    pub(crate) admitted: OwnedSemaphorePermit,
    /// That its episode begins with it, where it does.
    pub(crate) begun: Option<Begun>,
}

/// A request as it was read, whatever its wire format.
pub(crate) struct Asked {
    /// The name that the client asks for.
    pub(crate) model: String,
    pub(crate) is_stream: bool,
    /// Whether the client wants the usage of a stream told, where that is a matter of choice.
    pub(crate) tells_usage: bool,
    pub(crate) body: Map<String, Value>,
    pub(crate) conversation: Conversation,
    pub(crate) request: ChatRequest,
    /// How many answers are asked for, and what of their tokens.
    pub(crate) choices: Choices,
    /// The plain texts that are to go on, where it is no conversation.
    pub(crate) prompts: Vec<Prompt>,
    /// The answer that it goes on with, where it names one.
    pub(crate) previous: Option<String>,
}

impl Question {
    /// The name that was asked for.
    pub(crate) fn name(&self) -> &str {
        self.agent.as_ref().map_or_else(|| self.model.name(), |(assigned, _)| &assigned.asked_for)
    }

    /// Why the version of the agent that is asked cannot answer here, where it cannot.
    pub(crate) fn problem(&self) -> Option<String> {
        self.agent.as_ref().and_then(|(assigned, version)| version.problem(assigned))
    }

    /// What the canary is told when its episode begins with this turn, which took so long without waiting for its client.
    pub(crate) fn answered(&self, turn: &Turn, ended: Time, latency_ms: f64) -> Option<Event> {
        let (assigned, _) = self.agent.as_ref()?;
        let fact = Fact::Answered {
            is_error: has_failed(turn) && !was_left(turn),
            cost_usd: Some(turn.cost_usd()),
            latency_ms: Some(latency_ms),
        };
        let row = assigned.row(self.episode.trace(), fact)?;
        Some(Line::Row(row.clone()).event(row.id(), ended, self.caller.tenant.clone()))
    }

    /// The question for this provider: in the client's own words where it speaks the same format.
    pub(crate) fn request_for(&self, client: &Client) -> Result<ChatRequest, UpstreamError> {
        if self.prompts.iter().any(|prompt| matches!(prompt, Prompt::Ids(_))) {
            return Err(unsupported("prompt", "`prompt` must be text here: a provider's tokens are its own"));
        }
        if Some(client.spec().provider.wire) == self.wire {
            let (body, headers) = (Some(self.body.clone()), self.headers.clone());
            return Ok(ChatRequest { body, headers, ..self.request.clone() });
        }
        let is_read = |param: &str| self.request.calling.is_some() && [TOOL_CHOICE, PARALLEL].contains(&param);
        self.follows(is_read)?;
        self.keeps_manner(Some(client.spec()))?;
        let (has_tools, has_schema) = (!self.request.tools.is_empty(), self.request.schema.is_some());
        let wire = client.spec().provider.wire;
        match self.request.calling.as_ref().and_then(|calling| calling.unfollowed(wire, has_tools, has_schema)) {
            None => Ok(self.request.clone()),
            // Anthropic's clients say both in one.
            Some(_) if self.wire == Some(Wire::Anthropic) => Err(unfollowable(TOOL_CHOICE)),
            Some(param) => Err(unfollowable(param)),
        }
    }

    /// Refuses by name what this model of this machine could not follow.
    pub(crate) fn can_be_followed_by(&self, local: &Local) -> Result<(), UpstreamError> {
        let is_openai = self.wire == Some(Wire::OpenAi);
        let is_met = self.request.tools.is_empty() && self.request.calling.as_ref().is_some_and(Calling::is_met_without_tools);
        self.follows(|param| is_openai && FOLLOWED_HERE.contains(&param) || is_met && [TOOL_CHOICE, PARALLEL].contains(&param))?;
        self.keeps_manner(None)?;
        unread(local, &self.request, self.wire, &self.body).map_or(Ok(()), Err)?;
        self.prediction()?;
        self.choices.wrong(self.prompts.len()).map_or(Ok(()), |(param, message)| Err(unsupported(param, message)))
    }

    /// The seed that the client gives.
    pub(crate) fn seed(&self) -> Option<u64> {
        openai::seed(&self.conversation.rest)
    }

    /// What the client thinks that the answer will say; nothing where it does not tell.
    pub(crate) fn prediction(&self) -> Result<String, UpstreamError> {
        let told = self.conversation.rest.get("prediction").filter(|_| self.wire == Some(Wire::OpenAi));
        let text = told.filter(|told| !told.is_null()).map_or(Some(String::new()), openai::predicted);
        let form = "`prediction` must be {\"type\": \"content\", \"content\": a text or a list of texts}";
        text.ok_or_else(|| refused("prediction", INVALID, form))
    }

    /// Refuses by name how much is to be thought or said, where this model, or one of this machine, could not be told.
    fn keeps_manner(&self, spec: Option<&UpstreamSpec>) -> Result<(), UpstreamError> {
        let unfollowed = self.request.manner.and_then(|manner| manner.unfollowed(spec));
        unfollowed.map_or(Ok(()), |param| {
            Err(unfollowable(match (self.wire, param) {
                (None, EFFORT) => "reasoning.effort",
                (None, VERBOSITY) => "text.verbosity",
                (Some(Wire::Anthropic), EFFORT) => "output_config.effort",
                _ => param,
            }))
        })
    }

    /// Refuses by name what an answer in other words than the client's could not follow, but for what is followed otherwise.
    fn follows(&self, is_followed: impl Fn(&str) -> bool) -> Result<(), UpstreamError> {
        let is_manner = |param: &str| self.request.manner.is_some() && MANNER.contains(&param);
        let says = |param: &str| self.conversation.rest.get(param).is_some_and(|value| !is_default(param, value));
        let unfollowed = |param: &&str| !is_followed(param) && !is_manner(param) && says(param);
        if let Some(param) = UNFOLLOWED.iter().find(|param| unfollowed(param)) {
            return Err(unfollowable(param));
        }
        if self.conversation.rest.get("seed").is_some_and(|seed| !seed.is_null()) && self.seed().is_none() {
            return Err(refused("seed", INVALID, "`seed` must be a whole number of at most 64 bits"));
        }
        let mut tools = self.body.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate();
        let theirs = |tool: &Value| tool["type"].as_str().filter(|kind| !self.is_own_tool(kind)).map(str::to_owned);
        let Some((tool_idx, kind)) = tools.find_map(|(tool_idx, tool)| Some((tool_idx, theirs(tool)?))) else { return Ok(()) };
        let param = format!("tools[{tool_idx}]");
        Err(unsupported(&param, format!("`{param}` is a `{kind}`, which this model cannot follow here: leave it out")))
    }

    /// Whether tools of this type are the client's own, which it runs itself with arguments that it describes.
    fn is_own_tool(&self, kind: &str) -> bool {
        kind == if self.wire == Some(Wire::Anthropic) { "custom" } else { "function" }
    }
}

/// Why this model of this machine cannot read what this body says: it shows a picture, or offers tools for which there is no place.
pub(crate) fn unread(
    local: &Local,
    request: &ChatRequest,
    wire: Option<Wire>,
    body: &Map<String, Value>,
) -> Option<UpstreamError> {
    if !request.tools.is_empty() && !local.calls_tools() {
        let why = "its chat template has no calls of tools that can be read";
        return Some(unsupported("tools", format!("`tools` is not something that this model can follow: {why}; leave it out")));
    }
    let (list, kind, param) = match wire {
        Some(Wire::Anthropic) => ("messages", "image", "image.source"),
        Some(_) => ("messages", "image_url", "image_url"),
        None => ("input", "input_image", "image_url"),
    };
    let place = place_of(kind, body.get(list)?, list, wire == Some(Wire::Anthropic))?;
    let message =
        format!("`{place}.{param}` is a picture, and this model reads text alone: leave it out, or ask one that takes it");
    Some(unsupported(&format!("{place}.{param}"), message))
}

/// Where the first part of this type stands.
fn place_of(kind: &str, list: &Value, place: &str, is_dotted: bool) -> Option<String> {
    list.as_array()?.iter().enumerate().find_map(|(idx, part)| {
        let place = if is_dotted { format!("{place}.{idx}") } else { format!("{place}[{idx}]") };
        let inside = |key: &str| place_of(kind, &part[key], &format!("{place}.{key}"), is_dotted);
        if part["type"] == kind { Some(place) } else { ["content", "output"].into_iter().find_map(inside) }
    })
}

/// Whether this is what happens where nothing is said.
fn is_default(param: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(said) => *said == (param == "parallel_tool_calls"),
        Value::Number(number) => {
            let is_factor = matches!(param, "n" | "best_of" | "repetition_penalty" | "length_penalty");
            number.as_f64() == Some(if is_factor { 1.0 } else { 0.0 })
        }
        Value::String(word) => word == "auto" || param == "reasoning_effort" && word == "none",
        Value::Array(list) => list.is_empty() || param == "modalities" && list.iter().all(|kind| kind == "text"),
        Value::Object(_) if value["disable_parallel_tool_use"] == true => false,
        Value::Object(map) => map.values().all(Value::is_null) || matches!(value["type"].as_str(), Some("auto" | "disabled")),
    }
}

/// Whether the client did not wait for the rest of the answer, which is no fault of who gave it.
fn was_left(turn: &Turn) -> bool {
    turn.errors.iter().any(|error| error.kind == PolicyErrorKind::Abandoned.as_str())
}

/// OpenAI's words for what nobody could follow, and for what those who are asked do not.
const INVALID: &str = "invalid_value";
const UNSUPPORTED: &str = "unsupported_value";
const UNSUPPORTED_PARAM: &str = "unsupported_parameter";

/// A parameter that those who are asked do not follow: why nobody was asked.
pub(crate) fn unsupported(param: &str, message: impl Into<String>) -> UpstreamError {
    refused(param, UNSUPPORTED, message)
}

/// A parameter that is not followed here, whatever it says.
pub(crate) fn unsupported_param(param: &str) -> UpstreamError {
    let message = format!("`{param}` is not something that can be followed here: leave it out");
    refused(param, UNSUPPORTED_PARAM, message)
}

fn unfollowable(param: &str) -> UpstreamError {
    unsupported(param, format!("`{param}` is not something that this model can follow here: leave it out"))
}

fn refused(param: &str, code: &str, message: impl Into<String>) -> UpstreamError {
    let words = Words { kind: None, code: Some(code.to_owned()), param: Some(param.to_owned()) };
    let told = Some(Box::new(Told { status: 400, message: String::new(), words, retry_ms: None }));
    UpstreamError { told, ..UpstreamError::new(PolicyErrorKind::Refused, message) }
}
