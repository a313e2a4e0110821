//! Calls and results of tools that stand among the parts of a message, as Anthropic's API and Vercel's AI SDK write them: each in its
//! word of ours.
//!
//! | part | word |
//! |---|---|
//! | `tool_use`, `tool-call` of an answer | a tool request |
//! | `tool_result`, `tool-result` | a tool message before the rest of its message; `is_error` is noted in `extra` |
//! | `thinking`, `reasoning` of an answer | `reasoning` |
//! | `image` with a `source` | `image_url` |
//! | the others | as they came, or one text where all of them are text |
//!
//! A message without such parts stays as it is. Not kept of one that has some: signatures of thoughts, and what is said beside a call, a
//! result or a text, such as `cache_control`.

use crate::{Content, Message, Role, ToolRequest, ToolSpec};
use serde_json::{Map, Value, json};

/// A part that has a word.
enum Block {
    Request(ToolRequest),
    Result(Message),
    Thought(String),
    Picture(Value),
}

/// The messages that a message stands for: itself, where none of its parts has a word.
pub(super) fn spoken(mut message: Message) -> Vec<Message> {
    let parts = match std::mem::take(&mut message.content) {
        Content::Parts(parts) if parts.iter().any(|part| block(part, message.role).is_some()) => parts,
        content => return vec![Message { content, ..message }],
    };
    let mut messages = Vec::new();
    let (mut left, mut thoughts) = (Vec::new(), Vec::new());
    for part in parts {
        match block(&part, message.role) {
            Some(Block::Request(request)) => message.tool_calls.push(request),
            Some(Block::Result(result)) => messages.push(result),
            Some(Block::Thought(thought)) => thoughts.push(thought),
            Some(Block::Picture(picture)) => left.push(picture),
            None => left.push(part),
        }
    }
    if message.reasoning.is_none() && !thoughts.is_empty() {
        message.reasoning = Some(thoughts.join("\n\n"));
    }
    match messages.last_mut() {
        Some(last) if left.is_empty() => last.extra.append(&mut message.extra),
        _ => {
            message.content = if left.is_empty() { Content::None } else { plain(Content::Parts(left)) };
            messages.push(message);
        }
    }
    messages
}

/// Parts that are all text as one text.
pub(super) fn plain(content: Content) -> Content {
    let Content::Parts(parts) = &content else { return content };
    let texts = parts.iter().map(|part| part["text"].as_str().filter(|_| part["type"] == "text"));
    match texts.collect::<Option<Vec<&str>>>() {
        Some(texts) if !texts.is_empty() => Content::Text(texts.join("\n\n")),
        _ => content,
    }
}

/// A call of a tool, if it names one.
pub(super) fn request(part: &Value) -> Option<ToolRequest> {
    let arguments = match part.get("input").or_else(|| part.get("args")) {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(json) => json.to_string(),
    };
    let id = text(part, ["id", "toolCallId"]).unwrap_or_default().to_owned();
    Some(ToolRequest { id, name: text(part, ["name", "toolName"])?.to_owned(), arguments, extra: Map::new() })
}

/// A tool that Anthropic's API describes, or a function that nothing is around, in our words.
pub(super) fn tool(mut spec: ToolSpec) -> ToolSpec {
    let Some(Value::Object(whole)) = spec.extra.get_mut("hone.tool") else { return spec };
    let is_there = |key: &&str| whole.get(*key).is_some_and(Value::is_object);
    let Some(parameters) = ["input_schema", "parameters"].into_iter().find(is_there).filter(|_| whole.contains_key("name"))
    else {
        return spec;
    };
    let mut outer = std::mem::take(whole);
    spec.extra.remove("hone.tool");
    outer.remove("name");
    spec.parameters = outer.remove(parameters).unwrap_or_default();
    spec.description = outer.remove("description").and_then(|said| said.as_str().map(str::to_owned));
    if outer.get("type").is_some_and(|kind| kind == "custom" || kind == "function") {
        outer.remove("type");
    }
    if !outer.is_empty() {
        spec.extra.insert("hone.outer".to_owned(), Value::Object(outer));
    }
    spec
}

fn block(part: &Value, role: Role) -> Option<Block> {
    let is_answer = role == Role::Assistant;
    match part.get("type")?.as_str()? {
        "tool_use" | "tool-call" if is_answer => request(part).map(Block::Request),
        "tool_result" | "tool-result" if !is_answer => result(part).map(Block::Result),
        "thinking" | "reasoning" if is_answer => Some(Block::Thought(text(part, ["thinking", "text"])?.to_owned())),
        "image" => picture(part).map(Block::Picture),
        _ => None,
    }
}

fn result(part: &Value) -> Option<Message> {
    let id = text(part, ["tool_use_id", "toolCallId"])?.to_owned();
    let output = part.get("output");
    let said = output.and_then(|output| output.get("value")).or(output);
    let content = match part.get("content").or_else(|| part.get("result")).or(said) {
        None | Some(Value::Null) => Content::Text(String::new()),
        Some(Value::String(text)) => Content::Text(text.clone()),
        Some(Value::Array(parts)) if parts.iter().all(|part| part["type"].is_string()) => {
            plain(Content::Parts(parts.iter().map(|part| picture(part).unwrap_or_else(|| part.clone())).collect()))
        }
        Some(json) => Content::Text(json.to_string()),
    };
    let mut result = Message { content, tool_call_id: Some(id), ..Message::text(Role::Tool, "") };
    if part["is_error"] == true || part["isError"] == true {
        result.extra.insert("is_error".to_owned(), true.into());
    }
    Some(result)
}

fn picture(part: &Value) -> Option<Value> {
    let source = part.get("source").filter(|_| part["type"] == "image")?;
    let url = match source["type"].as_str()? {
        "base64" => format!("data:{};base64,{}", source["media_type"].as_str()?, source["data"].as_str()?),
        "url" => source["url"].as_str()?.to_owned(),
        _ => return None,
    };
    Some(json!({"type": "image_url", "image_url": {"url": url}}))
}

fn text<'a>(part: &'a Value, names: [&str; 2]) -> Option<&'a str> {
    names.into_iter().find_map(|name| part.get(name)?.as_str())
}
