//! What a provider answered, after its wire format is taken off.

use super::request::ChatRequest;
use hone_trace::{Content, Draws, Message, Role, Sampled, ToolRequest};
use serde_json::{Map, Value};

/// What is kept of a provider's words about a failure.
const MESSAGE_LEN_MAX: usize = 400;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The model that says it answered.
    pub model: Option<String>,
    /// What was said.
    pub message: Message,
    /// Why it ended.
    pub finish: Finish,
    /// What it took, where told.
    pub usage: Option<Usage>,
    /// Its tokens, where told.
    pub tokens: Tokens,
    /// What looked like a tool call and is none.
    pub broken: Vec<String>,
    /// Further answers to the same question, where several were asked for.
    pub others: Vec<Choice>,
    /// The answer as it came but for what its calls lacked, in one piece to a request that was passed on.
    pub json: Option<Value>,
}

/// One of several answers to the same question.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What was said.
    pub message: Message,
    /// Why it ended.
    pub finish: Finish,
    /// Its tokens, where told.
    pub tokens: Tokens,
    /// Its tokens as the sampler saw them, where it was ours.
    pub sampled: Option<Sampled>,
}

impl From<Reply> for Choice {
    fn from(reply: Reply) -> Self {
        Self { message: reply.message, finish: reply.finish, tokens: reply.tokens, sampled: None }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was complete.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// It reached a limit of tokens.
    Length,
    /// The provider or the model would not say it.
    Filtered,
}

/// Tokens read and written. Cached ones are counted once, inside `tokens_in`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub tokens_in: u64,
    /// Tokens written, thoughts included.
    pub tokens_out: u64,
    /// Those of `tokens_in` that came from a cache.
    pub tokens_cached: u64,
    /// Those of `tokens_in` that were put into a cache.
    pub tokens_cache_written: u64,
    /// Those of `tokens_out` that were thought, where the provider tells them apart.
    pub tokens_thought: u64,
}

/// Tokens as the server saw them; empty lists when it did not tell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tokens {
    /// The prompt.
    pub prompt_ids: Vec<u32>,
    /// The answer.
    pub ids: Vec<u32>,
    /// The log-probability of each token of the answer.
    pub logprobs: Vec<f32>,
    /// Tokens and log-probabilities in the words of OpenAI's format, alternatives included; `null` when not told.
    pub told: Value,
}

/// A piece of an answer that is still coming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of a thought.
    Reasoning(String),
    /// A tool call, or more of its arguments.
    ToolCall {
        /// Which of the answer's calls.
        call_idx: usize,
        /// Its id, when it begins.
        id: Option<String>,
        /// Its tool, when it begins.
        name: Option<String>,
        /// More of its arguments.
        arguments: String,
        /// What else the provider says of it, under the names that the whole call has it under.
        extra: Map<String, Value>,
    },
    /// An event as it came but for what its calls lacked, to a request that was passed on.
    Event(String),
}

impl Delta {
    /// More of the arguments of a call that has begun.
    pub(super) fn arguments(call_idx: usize, arguments: impl Into<String>) -> Self {
        Self::ToolCall { call_idx, id: None, name: None, arguments: arguments.into(), extra: Map::new() }
    }
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// It breaks the protocol.
    Broken(String),
    /// It is an error in the provider's own words.
    Failed(Refusal),
}

/// An error in the provider's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status that it has, or would have outside a stream.
    pub status: u16,
    /// The provider's word for it.
    pub code: String,
    /// What it says, shortened.
    pub message: String,
    /// Its own words as they stand, for who asks in the same format.
    pub words: Box<Words>,
}

/// The words of an error in the forms of OpenAI and Anthropic; the others have some of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// What kind of error it is.
    pub kind: Option<String>,
    /// Which case of it.
    pub code: Option<String>,
    /// The parameter that is wrong.
    pub param: Option<String>,
}

pub(super) fn broken(what: impl Into<String>) -> WireError {
    WireError::Broken(what.into())
}

impl Refusal {
    /// Reads `{"error": {…}}` in the form of any of the providers; `status` is that of the response, if it has one of its own:
    /// then it is known to be an error, and some say no more than `{"message": …}`.
    pub(super) fn read(json: &Value, status: Option<u16>) -> Option<Self> {
        // Gemini wraps its errors in a list.
        let error = json.get("error").or_else(|| json.get(0)?.get("error")).filter(|error| !error.is_null());
        let error = error.or_else(|| Some(json).filter(|json| status.is_some() && said(json).is_some()))?;
        // Where the error is a text, its code stands beside it.
        let of = if error.is_string() { json } else { error };
        let words = ["code", "type", "status"].map(|key| of[key].as_str().unwrap_or_default());
        let code = words.into_iter().find(|word| !word.is_empty()).unwrap_or_default().to_owned();
        let message = said(error).or(error.as_str()).unwrap_or_default();
        let told = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
        let status = status.or(told).unwrap_or_else(|| status_of(&words.join(" ").to_lowercase()));
        let [kind, own_code, param] = ["type", "code", "param"].map(|key| of[key].as_str().map(shortened));
        let words = Box::new(Words { kind, code: own_code, param });
        Some(Self { status, code, message: shortened(message), words })
    }

    /// Whether it says that the conversation is too long for the model.
    pub(super) fn is_too_long(&self) -> bool {
        let message = self.message.to_lowercase();
        let says = |part: &str| message.contains(part);
        self.status == 413
            || self.code == "context_length_exceeded"
            || self.status == 400
                && (says("maximum context length")
                    || says("prompt is too long")
                    || says("input is too long")
                    || says("too many tokens")
                    || says("longer than the model's context length")
                    || says("exceeds the maximum number of tokens"))
    }

    /// Whether it is about our own key or account at the provider, and not about the request: no retry changes it, but another provider
    /// may answer. Some say so with the status of a wrong request.
    pub(super) fn is_about_account(&self) -> bool {
        let message = self.message.to_lowercase();
        let codes = ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"];
        let aws_codes =
            ["InvalidSignatureException", "UnrecognizedClientException", "ExpiredTokenException", "AccessDeniedException"];
        // At the beginning: further on, a message may repeat what a client wrote.
        let words = [
            "your credit balance is too low",
            "api key not valid",
            "api key expired",
            "api key not found",
            "incorrect api key",
            "authentication failed",
        ];
        matches!(self.status, 401 | 402)
            || codes.iter().chain(&aws_codes).any(|code| self.code == *code)
            || matches!(self.status, 400 | 403) && words.iter().any(|words| message.starts_with(words))
    }
}

/// What an error says; AWS writes the word in two ways.
fn said(error: &Value) -> Option<&str> {
    ["message", "Message"].into_iter().find_map(|key| error[key].as_str())
}

/// The status that an error inside a stream would have had.
fn status_of(words: &str) -> u16 {
    let says = |part: &str| words.contains(part);
    match () {
        () if says("rate_limit") || says("resource_exhausted") || says("insufficient_quota") || says("throttling") => 429,
        () if says("invalid") || says("not_found") || says("context_length") || says("validation") => 400,
        () if says("authentication") || says("permission") || says("accessdenied") => 403,
        () if says("timeout") => 408,
        () => 503,
    }
}

/// A provider's words, short enough for a trace.
pub(super) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MESSAGE_LEN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Ids for calls that came without one. They are drawn from what the provider calls its answer and from the calls before it: no two of
/// a conversation are the same, and the pieces of a stream have those of the whole.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallIds(u64);

impl CallIds {
    /// For the answer to this.
    pub(super) fn new(request: &ChatRequest) -> Self {
        let n_messages = request.messages.len().to_string();
        let before = request.messages.iter().flat_map(|message| &message.tool_calls).map(|call| call.id.as_str());
        let facts: Vec<&str> = std::iter::once(n_messages.as_str()).chain(before).collect();
        Self(Draws::new(request.seed, &facts).bits())
    }

    /// The id of a call of the answer that goes by this name, which may be missing.
    pub(super) fn id(self, answer: &Value, call_idx: usize) -> String {
        let bits = Draws::new(self.0, &[answer.as_str().unwrap_or_default()]).bits();
        format!("call_{bits:016x}_{call_idx}")
    }
}

/// Whether nothing is said in this place.
pub(super) fn is_blank(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(value) => value.as_str().is_some_and(|text| text.trim().is_empty()),
    }
}

/// Whether a text is a JSON value from its beginning to its end.
pub(super) fn is_whole(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// An answer as its parts are read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<ToolRequest>,
    pub(super) extra: Map<String, Value>,
    pub(super) broken: Vec<String>,
}

impl Draft {
    /// Adds a call. One without a name is no call; one without an id gets one.
    pub(super) fn call(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: String,
    ) -> Result<&mut ToolRequest, WireError> {
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| broken("a tool call has no name"))?;
        let id = id.filter(|id| !id.is_empty()).map_or_else(|| format!("call_{}", self.calls.len()), str::to_owned);
        self.calls.push(ToolRequest { id, name: name.to_owned(), arguments, extra: Map::new() });
        let last_idx = self.calls.len() - 1;
        Ok(&mut self.calls[last_idx])
    }

    /// The whole answer. A call that was cut off by the limit of tokens is not passed off as one; another without a word has `{}`.
    pub(super) fn finish(mut self, finish: Finish, model: Option<&str>, usage: Option<Usage>, tokens: Tokens) -> Reply {
        if finish == Finish::Length {
            let (whole, cut): (Vec<_>, Vec<_>) = self.calls.into_iter().partition(|call| is_whole(&call.arguments));
            self.broken
                .extend(cut.iter().map(|call| format!("the call of {} was cut off: {}", call.name, shortened(&call.arguments))));
            self.calls = whole;
        }
        for call in self.calls.iter_mut().filter(|call| call.arguments.trim().is_empty()) {
            call.arguments = "{}".to_owned();
        }
        let finish = if finish == Finish::Stop && !self.calls.is_empty() { Finish::ToolCalls } else { finish };
        let mut message = Message::text(Role::Assistant, self.text);
        if message.content == Content::Text(String::new()) && !self.calls.is_empty() {
            message.content = Content::None;
        }
        message.reasoning = (!self.reasoning.is_empty()).then_some(self.reasoning);
        message.tool_calls = self.calls;
        message.extra = self.extra;
        let (model, broken) = (model.map(str::to_owned), self.broken);
        Reply { model, message, finish, usage, tokens, broken, others: Vec::new(), json: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Expects the refusal as `status code: message`, or nothing.
    fn check(json: &Value, status: Option<u16>, expected: &str) {
        let found = Refusal::read(json, status).map(|told| format!("{} {}: {}", told.status, told.code, told.message));
        assert_eq!(found.unwrap_or_default(), expected, "{json}");
    }

    #[test]
    fn every_provider_has_its_own_way_to_say_no() {
        check(&json!({"error": {"message": "no", "type": "t", "code": "c"}}), Some(400), "400 c: no");
        check(&json!([{"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}]), None, "503 UNAVAILABLE: later");
        check(&json!({"code": "c", "error": "no"}), Some(400), "400 c: no");
        check(&json!({"message": "no", "type": "t", "code": "c"}), Some(401), "401 c: no");
        check(&json!({"Message": "no"}), Some(403), "403 : no");
        // With status 200 a message is a message.
        check(&json!({"message": "yes"}), None, "");
        check(&json!({"error": null}), None, "");
        for (kind, status) in [
            ("throttlingException", 429),
            ("validationException", 400),
            ("accessDeniedException", 403),
            ("modelTimeoutException", 408),
            ("internalServerException", 503),
        ] {
            check(&json!({"error": {"type": kind, "message": "no"}}), None, &format!("{status} {kind}: no"));
        }
    }
}
