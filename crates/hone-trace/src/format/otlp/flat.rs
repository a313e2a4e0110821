//! Messages spread over attributes, one per field: OpenInference and the older form of Traceloop.
//!
//! | OpenInference `llm.input_messages.0.` … | Traceloop `gen_ai.prompt.0.` … | word |
//! |---|---|---|
//! | `message.role`, `message.content`, `message.name` | `role`, `content` | the same |
//! | `message.tool_call_id` | `tool_call_id` | the same |
//! | `message.tool_calls.0.tool_call.id`, `.function.name`, `.function.arguments` | `tool_calls.0.id`, `.name`, `.arguments` | tool requests |
//! | `message.contents.0.message_content.type`, `.text` | – | content parts |
//! | – | `finish_reason` | a note on the answer |
//!
//! Positions are taken as names: a huge one costs nothing. Attributes that the words do not give back exactly are all kept.

use super::genai::{Side, role, role_name};
use super::wire::{any_text, attribute};
use crate::{Content, Message, Role, ToolRequest};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const FINISH: &str = "hone.finish_reason";

/// How one convention spells the fields.
#[derive(Clone, Copy)]
pub(super) struct Spelling {
    message: &'static str,
    call: &'static str,
    function: &'static str,
}

pub(super) const OPENINFERENCE: Spelling = Spelling { message: "message.", call: "tool_call.", function: "function." };
pub(super) const TRACELOOP: Spelling = Spelling { message: "", call: "", function: "" };

#[derive(Default)]
struct Fields<'a> {
    plain: BTreeMap<&'a str, &'a str>,
    calls: BTreeMap<u32, BTreeMap<&'a str, &'a str>>,
    parts: BTreeMap<u32, BTreeMap<&'a str, &'a str>>,
}

/// Whether the attribute belongs to the messages under this prefix.
pub(super) fn belongs(attribute: &Value, prefix: &str) -> bool {
    let rest = attribute["key"].as_str().and_then(|key| key.strip_prefix(prefix)?.strip_prefix('.'));
    rest.is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Reads the messages under this prefix, in the order of their positions.
pub(super) fn messages(attributes: &[Value], prefix: &str, spelling: Spelling, default: Role) -> Option<Vec<Message>> {
    let mut by_position: BTreeMap<u32, Fields<'_>> = BTreeMap::new();
    for attribute in attributes.iter().filter(|attribute| belongs(attribute, prefix)) {
        let Some(key) = attribute["key"].as_str().and_then(|key| key.get(prefix.len() + 1..)) else { continue };
        let Some(value) = attribute["value"]["stringValue"].as_str() else { continue };
        let Some((position, rest)) = position(key) else { continue };
        let fields = by_position.entry(position).or_default();
        let Some(rest) = rest.strip_prefix(spelling.message) else { continue };
        if let Some((position, rest)) = rest.strip_prefix("tool_calls.").and_then(self::position) {
            fields.calls.entry(position).or_default().insert(rest.strip_prefix(spelling.call).unwrap_or(rest), value);
        } else if let Some((position, rest)) = rest.strip_prefix("contents.").and_then(self::position) {
            fields.parts.entry(position).or_default().insert(rest.strip_prefix("message_content.").unwrap_or(rest), value);
        } else {
            fields.plain.insert(rest, value);
        }
    }
    let messages: Vec<Message> = by_position.values().map(|fields| message(fields, spelling, default)).collect();
    (!messages.is_empty()).then_some(messages)
}

fn position(key: &str) -> Option<(u32, &str)> {
    let (digits, rest) = key.split_once('.')?;
    Some((digits.parse().ok()?, rest))
}

fn message(fields: &Fields<'_>, spelling: Spelling, default: Role) -> Message {
    let text = |key: &str| fields.plain.get(key).map(|&text| text.to_owned());
    let mut message = Message::text(fields.plain.get("role").and_then(|name| role(name)).unwrap_or(default), "");
    message.content = match text("content") {
        Some(text) => Content::Text(text),
        None if fields.parts.is_empty() => Content::None,
        None => Content::Parts(fields.parts.values().map(|part| json!(part)).collect()),
    };
    message.name = text("name");
    message.tool_call_id = text("tool_call_id");
    message.extra.extend(text("finish_reason").map(|reason| (FINISH.to_owned(), reason.into())));
    message.tool_calls = fields.calls.values().map(|call| request(call, spelling)).collect();
    message
}

fn request(call: &BTreeMap<&str, &str>, spelling: Spelling) -> ToolRequest {
    let text = |key: &str| call.get(key).map(|&text| text.to_owned());
    let of_function = |key: &str| text(&format!("{}{key}", spelling.function));
    let mut extra = Map::new();
    let arguments = of_function("arguments").unwrap_or_else(|| {
        extra.insert("hone.arguments".to_owned(), "absent".into());
        String::new()
    });
    ToolRequest { id: text("id").unwrap_or_default(), name: of_function("name").unwrap_or_default(), arguments, extra }
}

/// Writes messages as attributes under this prefix.
pub(super) fn written<'a>(
    messages: impl Iterator<Item = &'a Message>,
    prefix: &str,
    spelling: Spelling,
    side: Side,
) -> Vec<Value> {
    let mut out = Vec::new();
    for (idx, message) in messages.enumerate() {
        let base = format!("{prefix}.{idx}.{}", spelling.message);
        let mut put = |key: &str, text: &str| out.push(attribute(&format!("{base}{key}"), any_text(text)));
        put("role", role_name(message.role));
        match &message.content {
            Content::None => {}
            Content::Text(text) => put("content", text),
            Content::Parts(parts) => {
                for (idx, part) in parts.iter().enumerate() {
                    for (key, value) in part.as_object().into_iter().flatten() {
                        put(&format!("contents.{idx}.message_content.{key}"), value.as_str().unwrap_or(&value.to_string()));
                    }
                }
            }
        }
        let finish =
            message.extra.get(FINISH).and_then(Value::as_str).filter(|_| spelling.message.is_empty() && side == Side::Output);
        let plain =
            [("name", message.name.as_deref()), ("tool_call_id", message.tool_call_id.as_deref()), ("finish_reason", finish)];
        for (key, text) in plain {
            if let Some(text) = text {
                put(key, text);
            }
        }
        for (idx, call) in message.tool_calls.iter().enumerate() {
            let base = format!("tool_calls.{idx}.{}", spelling.call);
            if !call.id.is_empty() {
                put(&format!("{base}id"), &call.id);
            }
            put(&format!("{base}{}name", spelling.function), &call.name);
            if !call.extra.contains_key("hone.arguments") || !call.arguments.is_empty() {
                put(&format!("{base}{}arguments", spelling.function), &call.arguments);
            }
        }
    }
    out
}
