//! Messages in events, as older conventions put them: read only, for the events stay with their span.
//!
//! | event | word |
//! |---|---|
//! | `gen_ai.system.message`, `gen_ai.user.message` … | a message of the input |
//! | `gen_ai.choice` | the answer |
//! | `gen_ai.client.inference.operation.details` | its attributes count as those of the span |
//!
//! A message is told by the attributes `content`, `tool_calls` and `id` (of the call that a tool answers), or by the same
//! keys inside the JSON of `gen_ai.event.content`. A choice may hold them in a `message`.

use super::span::Span;
use super::{genai, wire};
use crate::format::object::json_inside;
use crate::{Content, Message, Role, ToolRequest};
use serde_json::{Map, Value};

/// The value of a key in the event that tells a model call in detail.
pub(super) fn detail<'a>(span: &'a Span, key: &str) -> Option<&'a Value> {
    let event = span.list("events").iter().find(|event| event["name"] == "gen_ai.client.inference.operation.details")?;
    wire::find(event.get("attributes")?.as_array()?, key)
}

/// What went in.
pub(super) fn input(span: &Span) -> Option<Vec<Message>> {
    let role = |event: &Value| genai::role(event["name"].as_str()?.strip_prefix("gen_ai.")?.strip_suffix(".message")?);
    let messages = span.list("events").iter().filter_map(|event| said(event, role(event)?));
    Some(messages.collect::<Vec<_>>()).filter(|messages| !messages.is_empty())
}

/// What came out.
pub(super) fn output(span: &Span) -> Option<Message> {
    let choice = span.list("events").iter().find(|event| event["name"] == "gen_ai.choice")?;
    said(choice, Role::Assistant)
}

fn said(event: &Value, role: Role) -> Option<Message> {
    let attributes = event.get("attributes")?.as_array()?;
    let value = |key: &str| wire::plain(wire::find(attributes, key)?);
    let body = match value("gen_ai.event.content") {
        Some(body) => parsed(body),
        None => {
            let told = [("content", value("content")), ("tool_calls", value("tool_calls").map(parsed)), ("id", value("id"))];
            told.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
        }
    };
    message(body.get("message").unwrap_or(&body), role)
}

/// A text that holds JSON, read.
fn parsed(value: Value) -> Value {
    value.as_str().and_then(json_inside).unwrap_or(value)
}

/// The message, if it says anything.
pub(super) fn message(body: &Value, role: Role) -> Option<Message> {
    let mut message = Message::text(role, "");
    message.content = match body.get("content") {
        None | Some(Value::Null) => Content::None,
        Some(Value::String(text)) => Content::Text(text.clone()),
        Some(Value::Array(parts)) => Content::Parts(parts.clone()),
        Some(other) => Content::Text(other.to_string()),
    };
    message.tool_calls = body.get("tool_calls").and_then(Value::as_array).into_iter().flatten().filter_map(request).collect();
    let id = body.get("id").or_else(|| body.get("tool_call_id"));
    message.tool_call_id = id.and_then(Value::as_str).filter(|_| role == Role::Tool).map(str::to_owned);
    (message.content != Content::None || !message.tool_calls.is_empty()).then_some(message)
}

fn request(call: &Value) -> Option<ToolRequest> {
    let function = call.get("function").unwrap_or(call);
    let arguments = match function.get("arguments").or_else(|| function.get("args")) {
        Some(Value::String(text)) => text.clone(),
        Some(json) => json.to_string(),
        None => String::new(),
    };
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ToolRequest { id, name: function.get("name")?.as_str()?.to_owned(), arguments, extra: Map::new() })
}
