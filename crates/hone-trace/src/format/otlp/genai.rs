//! Messages as the GenAI conventions write them: JSON with a role and typed parts.
//!
//! | part | word |
//! |---|---|
//! | `text` | the content: plain text if it is the only one, else parts |
//! | `reasoning` | `reasoning` |
//! | `tool_call` | a tool request; arguments that are JSON become their text |
//! | `tool_call_response` | the content of a tool message, with `tool_call_id` |
//!
//! A message that this does not give back exactly is kept beside its words, as `hone.wire`.

use crate::format::object::json_inside;
use crate::{Content, Message, Role, ToolRequest};
use serde_json::{Map, Value, json};

const WIRE: &str = "hone.wire";
const FINISH: &str = "hone.finish_reason";
/// The note on a system message that came as `gen_ai.system_instructions`.
const INSTRUCTIONS: &str = "hone.instructions";

/// Reads the value of `gen_ai.input.messages` or `gen_ai.output.messages`.
pub(super) fn messages(list: &Value) -> Option<Vec<Message>> {
    list.as_array()?.iter().map(message).collect()
}

/// Reads the value of `gen_ai.system_instructions`.
pub(super) fn instructions(parts: &Value) -> Option<Message> {
    let mut message = message(&json!({"role": "system", "parts": parts.as_array()?}))?;
    message.extra.insert(INSTRUCTIONS.to_owned(), true.into());
    Some(message)
}

pub(super) fn is_instructions(message: &Message) -> bool {
    message.role == Role::System && message.extra.contains_key(INSTRUCTIONS)
}

/// The parts of a system message as `gen_ai.system_instructions` holds them.
pub(super) fn written_instructions(message: &Message) -> Value {
    written(message, Side::Input).get_mut("parts").map(Value::take).unwrap_or_default()
}

/// The side of a model call on which a message stands: an answer says how it ended only once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

/// The role of this name, in the words of several providers.
pub(super) fn role(name: &str) -> Option<Role> {
    Some(match name {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" | "human" => Role::User,
        "assistant" | "model" | "ai" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => return None,
    })
}

pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn message(wire: &Value) -> Option<Message> {
    let mut message = Message::text(role(wire.get("role")?.as_str()?)?, "");
    message.content = Content::None;
    let mut said = Vec::new();
    for part in wire.get("parts")?.as_array()? {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => said.push(json!({"type": "text", "text": part.get("content")?})),
            Some("reasoning") if message.reasoning.is_none() => {
                message.reasoning = Some(part.get("content")?.as_str()?.to_owned());
            }
            Some("tool_call") => message.tool_calls.push(request(part)),
            Some("tool_call_response") => {
                message.tool_call_id = part.get("id").and_then(Value::as_str).map(str::to_owned);
                said.push(part.get("response").or_else(|| part.get("result")).cloned().unwrap_or_default());
            }
            _ => said.push(part.clone()),
        }
    }
    message.content = match (said.len(), said.first().map(|part| part.get("text").unwrap_or(part))) {
        (0, _) => Content::None,
        (1, Some(Value::String(text))) => Content::Text(text.clone()),
        _ => Content::Parts(said),
    };
    message.name = wire.get("name").and_then(Value::as_str).map(str::to_owned);
    if let Some(reason) = wire.get("finish_reason") {
        message.extra.insert(FINISH.to_owned(), reason.clone());
    }
    if written(&message, Side::Output) != *wire {
        message.extra.insert(WIRE.to_owned(), wire.clone());
    }
    Some(message)
}

fn request(part: &Value) -> ToolRequest {
    let text = |key| part.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut extra = Map::new();
    let arguments = match part.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(json) => {
            extra.insert("hone.arguments".to_owned(), "json".into());
            json.to_string()
        }
        None => {
            extra.insert("hone.arguments".to_owned(), "absent".into());
            String::new()
        }
    };
    ToolRequest { id: text("id"), name: text("name"), arguments, extra }
}

/// Writes a message.
pub(super) fn written(message: &Message, side: Side) -> Value {
    let mut out = match message.extra.get(WIRE) {
        Some(Value::Object(wire)) => wire.clone(),
        _ => fresh(message),
    };
    if side == Side::Input {
        out.remove("finish_reason");
    }
    Value::Object(out)
}

fn fresh(message: &Message) -> Map<String, Value> {
    let mut parts = Vec::new();
    parts.extend(message.reasoning.as_ref().map(|text| json!({"type": "reasoning", "content": text})));
    match (&message.content, &message.tool_call_id) {
        (Content::None, _) => {}
        (Content::Text(text), Some(id)) => parts.push(json!({"type": "tool_call_response", "id": id, "response": text})),
        (Content::Text(text), None) => parts.push(json!({"type": "text", "content": text})),
        (Content::Parts(list), Some(id)) if list.len() == 1 => {
            parts.push(json!({"type": "tool_call_response", "id": id, "response": list[0]}));
        }
        (Content::Parts(list), _) => parts.extend(list.iter().map(|part| match part.get("text") {
            Some(text) if part["type"] == "text" && part.as_object().is_some_and(|part| part.len() == 2) => {
                json!({"type": "text", "content": text})
            }
            _ => part.clone(),
        })),
    }
    for call in &message.tool_calls {
        let mut part = Map::from_iter([("type".to_owned(), "tool_call".into()), ("name".to_owned(), call.name.as_str().into())]);
        if !call.id.is_empty() {
            part.insert("id".to_owned(), call.id.as_str().into());
        }
        // A text that is no JSON object is what the policy wrote by mistake: it stays as it is.
        let form = call.extra.get("hone.arguments").and_then(Value::as_str);
        let json = json_inside(&call.arguments).filter(|json| form == Some("json") || json.is_object());
        match json {
            Some(json) => drop(part.insert("arguments".to_owned(), json)),
            None if form == Some("absent") => {}
            None => drop(part.insert("arguments".to_owned(), call.arguments.as_str().into())),
        }
        parts.push(Value::Object(part));
    }
    let mut out =
        Map::from_iter([("role".to_owned(), role_name(message.role).into()), ("parts".to_owned(), Value::Array(parts))]);
    out.extend(message.name.as_ref().map(|name| ("name".to_owned(), name.as_str().into())));
    out.extend(message.extra.get(FINISH).map(|reason| ("finish_reason".to_owned(), reason.clone())));
    out
}
