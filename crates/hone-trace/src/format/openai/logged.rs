//! What a log of requests keeps beside the messages: the instructions as Anthropic's API takes them, the response, and when that was.
//!
//! | wire | word |
//! |---|---|
//! | `system`: a text or a list of texts, where no message of that kind comes first | the first message |
//! | `response.choices[0].message`, or Anthropic's `response.content`, where no answer comes last | the last answer |
//! | `response.usage`, with `response_cost` as LiteLLM names it | the model call behind that answer |
//! | `startTime`, `start_time`, `created_at`, `created` or `timestamp`, at the top, or `response.created` | when the trace began |
//!
//! The response may be a text that holds JSON. What it says beside the answer stays in `metadata`.

use crate::format::blocks;
use crate::format::chat::Chat;
use crate::format::object::{Read, json_inside};
use crate::{Content, LlmCall, Message, Role, Time};
use serde_json::{Map, Value};

/// The keys of a log.
pub(super) const SYSTEM: &str = "system";
pub(super) const RESPONSE: &str = "response";

/// Where logs say when a request began.
const TIMES: [&str; 5] = ["startTime", "start_time", "created_at", "created", "timestamp"];

/// When a request began: a text with date and time, or seconds or milliseconds since 1970. What lies in the future is something else.
pub(super) fn started(line: &Map<String, Value>, now: Time) -> Option<Time> {
    const YEAR_2000: f64 = 946_684_800.0;
    const DAY_NANOS: i64 = 86_400_000_000_000;
    let read = |told: &Value| {
        let time = match told {
            Value::String(text) => text.parse().ok()?,
            // So many seconds are over three thousand years.
            Value::Number(number) => match number.as_f64()? {
                seconds if (YEAR_2000..1e11).contains(&seconds) => Time::from_unix_nanos((seconds * 1e6).round() as i64 * 1_000),
                millis if (1e3 * YEAR_2000..1e14).contains(&millis) => {
                    Time::from_unix_nanos((millis * 1e3).round() as i64 * 1_000)
                }
                _ => return None,
            },
            _ => return None,
        };
        (time.unix_nanos() >= YEAR_2000 as i64 * 1_000_000_000 && time <= now.plus_nanos(DAY_NANOS)).then_some(time)
    };
    let response = || line.get(RESPONSE).and_then(|response| read(response.get("created")?));
    TIMES.iter().find_map(|key| read(line.get(*key)?)).or_else(response)
}

/// The instructions that stand beside messages of which this is the first.
pub(super) fn system(line: &Map<String, Value>, first: Option<&Message>) -> Option<Message> {
    if first.is_some_and(|first| matches!(first.role, Role::System | Role::Developer)) {
        return None;
    }
    let content = match line.get(SYSTEM)? {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(parts) => blocks::plain(Content::Parts(parts.clone())),
        _ => return None,
    };
    let Content::Text(text) = content else { return None };
    Some(Message::text(Role::System, text)).filter(|message| !message.is_empty())
}

/// The answer that a response gives.
pub(super) struct Answer {
    pub(super) message: Message,
    pub(super) call: Option<LlmCall>,
    /// What else the response says.
    pub(super) rest: Value,
}

/// The answer that stands beside messages of which this is the last.
pub(super) fn answer(line: &Map<String, Value>, last: Option<&Message>) -> Option<Answer> {
    if last.is_some_and(|last| last.role == Role::Assistant) {
        return None;
    }
    let mut rest = match line.get(RESPONSE)? {
        Value::String(text) => json_inside(text)?,
        other => other.clone(),
    };
    let mut said = match rest.get("content") {
        Some(Value::Array(blocks)) => {
            let said = Map::from_iter([("content".to_owned(), blocks.clone().into())]);
            rest.as_object_mut()?.remove("content");
            said
        }
        _ => match rest.pointer_mut("/choices/0")?.as_object_mut()?.remove("message")? {
            Value::Object(said) => said,
            _ => return None,
        },
    };
    said.entry("role").or_insert_with(|| "assistant".into());
    let Read(chat) = serde_json::from_value::<Read<Chat>>(Value::Object(said)).ok()?;
    let mut message = blocks::spoken(chat.into_message()).pop()?;
    message.content = blocks::plain(message.content);
    let says = !message.is_empty() || message.reasoning.is_some();
    let call = call(&rest, line);
    (message.role == Role::Assistant && says).then_some(Answer { message, call, rest })
}

fn call(response: &Value, line: &Map<String, Value>) -> Option<LlmCall> {
    let usage = response.get("usage").filter(|usage| usage.is_object())?;
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let cached = count("/prompt_tokens_details/cached_tokens").or_else(|| count("/cache_read_input_tokens")).unwrap_or_default();
    // Anthropic leaves out what came from a cache or went into it.
    let beside = cached.saturating_add(count("/cache_creation_input_tokens").unwrap_or_default());
    let counted = || count("/input_tokens").unwrap_or_default().saturating_add(beside);
    let model = [response.get("model"), line.get("model")].into_iter().flatten().find_map(Value::as_str);
    Some(LlmCall {
        model: model.unwrap_or_default().to_owned(),
        tokens_in: count("/prompt_tokens").unwrap_or_else(counted),
        tokens_out: count("/completion_tokens").or_else(|| count("/output_tokens")).unwrap_or_default(),
        tokens_cached: cached,
        cost_usd: line.get("response_cost").and_then(Value::as_f64).filter(|cost| *cost >= 0.0),
        ..LlmCall::default()
    })
}
