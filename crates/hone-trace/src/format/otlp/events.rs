//! Messages in events, as older conventions put them: read only, for the events stay with their span.
//!
//! | event | word |
//! |---|---|
//! | `gen_ai.system.message`, `gen_ai.user.message` … | a message of the input |
//! | `gen_ai.choice` | the answer |
//! | `gen_ai.client.inference.operation.details` | its attributes count as those of the span |
//!
//! The text is the attribute `content`, or `content` inside the JSON of `gen_ai.event.content`. Tool calls in these
//! events have no settled form and are not read.

use super::span::Span;
use super::{genai, wire};
use crate::format::object::json_inside;
use crate::{Message, Role};
use serde_json::Value;

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
    if let Some(text) = wire::text(attributes, "content") {
        return Some(Message::text(role, text));
    }
    let body = json_inside(wire::text(attributes, "gen_ai.event.content")?)?;
    let text = body.get("content").or_else(|| body.get("message")?.get("content"))?;
    Some(Message::text(role, text.as_str()?))
}
