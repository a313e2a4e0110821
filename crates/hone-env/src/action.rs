//! What worlds have in common: reading the calls of an answer, and writing tool results and scripted answers.

use hone_trace::{Content, ErrorEvent, Message, Role, ToolRequest};
use serde_json::{Map, Value};

/// A tool call whose arguments could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The id by which the result refers to it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// The tool calls of an answer, in order. One whose arguments are not a JSON object comes back as the error to record.
pub fn calls(action: &Message) -> impl Iterator<Item = Result<Call, ErrorEvent>> + '_ {
    action.tool_calls.iter().map(|request| {
        let text = if request.arguments.trim().is_empty() { "{}" } else { &request.arguments };
        match serde_json::from_str(text) {
            Ok(Value::Object(arguments)) => Ok(Call { id: request.id.clone(), name: request.name.clone(), arguments }),
            Ok(_) => Err(unparsable(format!("the arguments of {} are not a JSON object", request.name))),
            Err(error) => Err(unparsable(format!("the arguments of {} are not JSON: {error}", request.name))),
        }
    })
}

/// The error of an action that the world cannot read.
pub fn unparsable(message: impl Into<String>) -> ErrorEvent {
    ErrorEvent { kind: "unparsable_action".into(), recovered: true, message: message.into() }
}

/// An answer in words, for scripts.
pub fn said(text: impl Into<String>) -> Message {
    Message::text(Role::Assistant, text)
}

/// An answer that calls one tool, for scripts.
pub fn call(name: &str, arguments: &Value) -> Message {
    let request = ToolRequest { id: "call_0".into(), name: name.into(), arguments: arguments.to_string(), extra: Map::new() };
    Message { content: Content::None, tool_calls: vec![request], ..said("") }
}

/// The message that tells a policy what its call gave.
pub fn tool_result(call_id: &str, name: &str, text: impl Into<String>) -> Message {
    let id = (!call_id.is_empty()).then(|| call_id.to_owned());
    Message { tool_call_id: id, name: Some(name.to_owned()), ..Message::text(Role::Tool, text) }
}
