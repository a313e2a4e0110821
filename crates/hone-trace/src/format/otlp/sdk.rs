//! Spans of the SDKs of Langfuse and of Vercel, which tell a call in texts of JSON: read only, for these attributes stay with their span.
//!
//! | Langfuse `langfuse.observation.` … | Vercel `ai.` … | word |
//! |---|---|---|
//! | `type` | `operationId` | what the span tells of |
//! | `input`: messages, an object with `messages`, or a text | `prompt.messages` | the input |
//! | `output`: a message, or a text | `response.text`, `.reasoning`, `.toolCalls`, `.object` | the answer |
//! | `input.tools` | `prompt.tools` | the tools on offer |
//! | `usage_details`, `cost_details` | – | tokens and cost |
//! | `model.parameters` | – | the config |
//!
//! Names of models, and Vercel's counts of tokens, have attributes of their own: see [`call`](super::call).

use super::span::{Kind, Span};
use super::{events, genai, wire};
use crate::format::blocks;
use crate::format::object::json_inside;
use crate::{Content, Message, Role};
use serde_json::Value;

const INPUT: &str = "langfuse.observation.input";
const OUTPUT: &str = "langfuse.observation.output";
const USAGE: &str = "langfuse.observation.usage_details";

/// What a span of these SDKs tells of, if it says it.
pub(super) fn kind(span: &Span) -> Option<Kind> {
    match (span.text("langfuse.observation.type"), span.text("ai.operationId")) {
        (Some("generation"), _) => Some(Kind::Llm),
        (Some("tool"), _) | (_, Some("ai.toolCall")) => Some(Kind::Tool),
        (Some("agent"), _) => Some(Kind::Agent),
        (_, Some(id)) if id.ends_with(".doGenerate") || id.ends_with(".doStream") => Some(Kind::Llm),
        (_, Some("ai.generateText" | "ai.streamText" | "ai.generateObject" | "ai.streamObject")) => Some(Kind::Agent),
        _ => None,
    }
}

/// What went in.
pub(super) fn input(span: &Span) -> Option<Vec<Message>> {
    let listed = || messages(&json(span, "ai.prompt.messages")?);
    listed().or_else(|| match told(span, INPUT)? {
        Value::String(text) => Some(vec![Message::text(Role::User, text)]),
        json => {
            messages(json.get("messages").unwrap_or(&json)).or_else(|| Some(vec![Message::text(Role::User, span.text(INPUT)?)]))
        }
    })
}

/// What came out.
pub(super) fn output(span: &Span) -> Option<Message> {
    vercel(span).or_else(|| match told(span, OUTPUT)? {
        Value::String(text) => Some(Message::text(Role::Assistant, text)),
        json => {
            let said = json.pointer("/choices/0/message").unwrap_or(&json);
            let answer = messages(said).and_then(|said| said.into_iter().find(|said| said.role == Role::Assistant));
            answer.or_else(|| Some(Message::text(Role::Assistant, span.text(OUTPUT)?)))
        }
    })
}

fn vercel(span: &Span) -> Option<Message> {
    let said = ["ai.response.text", "ai.response.object"].into_iter().find_map(|key| span.text(key));
    let calls = json(span, "ai.response.toolCalls");
    if said.is_none() && calls.is_none() {
        return None;
    }
    let mut answer = Message::text(Role::Assistant, "");
    answer.content = said.filter(|text| !text.is_empty()).map_or(Content::None, |text| Content::Text(text.to_owned()));
    answer.reasoning = span.text("ai.response.reasoning").filter(|text| !text.is_empty()).map(str::to_owned);
    let calls = calls.as_ref().and_then(Value::as_array).into_iter().flatten();
    answer.tool_calls = calls.filter_map(blocks::request).collect();
    Some(answer)
}

/// The tools on offer, each as JSON.
pub(super) fn tools(span: &Span) -> Vec<Value> {
    let listed = json(span, "ai.prompt.tools").or_else(|| json(span, INPUT)?.get("tools").cloned());
    let parsed = |tool: Value| tool.as_str().and_then(json_inside).unwrap_or(tool);
    listed.and_then(|list| list.as_array().cloned()).unwrap_or_default().into_iter().map(parsed).collect()
}

/// How many tokens were read, written, and read from a cache.
pub(super) fn tokens(span: &Span) -> [u64; 3] {
    let usage = json(span, USAGE).unwrap_or_default();
    let count = |names: &[&str]| names.iter().find_map(|name| usage.get(name)?.as_u64()).unwrap_or_default();
    [
        count(&["input", "input_tokens", "prompt_tokens"]),
        count(&["output", "output_tokens", "completion_tokens"]),
        count(&["input_cached_tokens", "cache_read_input_tokens"]),
    ]
}

/// The price of a call.
pub(super) fn cost_usd(span: &Span) -> Option<f64> {
    json(span, "langfuse.observation.cost_details")?.get("total")?.as_f64()
}

/// A parameter of a call.
pub(super) fn parameter(span: &Span, name: &str) -> Option<Value> {
    json(span, "langfuse.observation.model.parameters")?.get(name).cloned()
}

/// Messages in a list, or one alone; nothing where something else stands among them.
fn messages(list: &Value) -> Option<Vec<Message>> {
    let list = list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice);
    let read = |said: &Value| {
        let message = events::message(said, genai::role(said.get("role")?.as_str()?)?);
        Some(message.map(blocks::spoken).unwrap_or_default())
    };
    let mut messages: Vec<Message> = list.iter().map(read).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    for message in &mut messages {
        message.content = blocks::plain(std::mem::take(&mut message.content));
    }
    (!messages.is_empty()).then_some(messages)
}

/// What a text says: the JSON in it, or itself. A text of digits is no number.
fn told(span: &Span, key: &str) -> Option<Value> {
    let text = span.text(key)?;
    let json = json_inside(text).filter(|json| json.is_object() || json.is_array() || json.is_string());
    Some(json.unwrap_or_else(|| text.into()))
}

/// The JSON that an attribute holds, as text or taken apart.
fn json(span: &Span, key: &str) -> Option<Value> {
    match wire::plain(wire::find(span.attributes(), key)?)? {
        Value::String(text) => json_inside(&text),
        other => Some(other),
    }
}
