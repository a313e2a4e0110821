//! The words behind the attributes of a model call or a tool call, in both directions.
//!
//! Each key has one function that writes it from the words. Reading uses the same function: an attribute is dropped
//! only if writing would give it back.

use super::genai::{self, Side};
use super::span::Span;
use super::{events, flat, sdk, wire};
use crate::format::object::json_inside;
use crate::{Content, LlmCall, Message, Role, ToolCall, ToolRequest, ToolSpec};
use serde_json::{Map, Value, json};

const MODEL: [&str; 6] = [
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "langfuse.observation.model.name",
    "ai.response.model",
    "ai.model.id",
];
const TOKENS_IN: [&str; 5] = [
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
];
const TOKENS_OUT: [&str; 5] = [
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
];
const CACHED: [&str; 4] = [
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
];
const COST: [&str; 2] = ["gen_ai.usage.cost", "llm.cost.total"];
const INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// The key of the tools on offer.
pub(super) const DEFINITIONS: &str = "gen_ai.tool.definitions";
const INPUT: [&str; 4] = ["gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "input.value"];
const OUTPUT: [&str; 4] = ["gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "output.value"];
const TOOL_NAME: [&str; 3] = ["gen_ai.tool.name", "tool.name", "ai.toolCall.name"];
const TOOL_ID: [&str; 3] = ["gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id"];
const TOOL_ARGUMENTS: [&str; 5] =
    ["gen_ai.tool.call.arguments", "tool.parameters", "input.value", "ai.toolCall.args", "langfuse.observation.input"];

/// Not a key: what told the messages stays with its span.
const KEPT: &str = "";

/// What a model call of our own writes.
pub(super) const OWN: [&str; 7] = [MODEL[1], TOKENS_IN[0], TOKENS_OUT[0], CACHED[0], COST[0], INPUT[0], OUTPUT[0]];
/// What a tool call of our own writes.
pub(super) const OWN_TOOL: [&str; 3] = [TOOL_NAME[0], TOOL_ID[0], TOOL_ARGUMENTS[0]];

/// Whether an answer says nothing at all, as that of a failed call: then it is no part of the conversation.
pub(super) fn is_empty(answer: &Message) -> bool {
    answer.content == Content::None && answer.tool_calls.is_empty() && answer.reasoning.is_none() && answer.extra.is_empty()
}

/// A model call as the span tells it.
pub(super) fn llm(span: &Span) -> LlmCall {
    let attributes = span.attributes();
    let find = |keys: &[&str]| keys.iter().find_map(|key| wire::find(attributes, key));
    let count = |keys: &[&str], n: u64| find(keys).and_then(wire::number).filter(|&n| n >= 0.0).map_or(n, |n| n as u64);
    let [tokens_in, tokens_out, cached] = sdk::tokens(span);
    LlmCall {
        model: MODEL.iter().find_map(|key| span.text(key)).unwrap_or_default().to_owned(),
        tokens_in: count(&TOKENS_IN, tokens_in),
        tokens_out: count(&TOKENS_OUT, tokens_out),
        tokens_cached: count(&CACHED, cached),
        cost_usd: find(&COST).and_then(wire::number).or_else(|| sdk::cost_usd(span)),
        duration_ms: span.duration_ms(),
        extra: Map::new(),
    }
}

/// A tool call as the span tells it.
pub(super) fn tool(span: &Span) -> ToolCall {
    let text = |keys: &[&str]| keys.iter().find_map(|key| span.text(key)).unwrap_or_default().to_owned();
    let arguments = TOOL_ARGUMENTS.iter().find_map(|key| wire::plain(wire::find(span.attributes(), key)?));
    let arguments = arguments.map(|value| match value {
        Value::String(text) => json_inside(&text).unwrap_or(Value::String(text)),
        other => other,
    });
    let name = Some(text(&TOOL_NAME)).filter(|name| !name.is_empty());
    let success = match span.error() {
        Some(_) => Some(false),
        // The conventions leave the status unset when all went well.
        None => span.ended().map(|_| true),
    };
    ToolCall {
        id: text(&TOOL_ID),
        name: name.unwrap_or_else(|| span.field("name").trim_start_matches("execute_tool ").to_owned()),
        arguments: arguments.unwrap_or_default(),
        success,
        duration_ms: span.duration_ms(),
        extra: Map::new(),
    }
}

/// What went into a model call, and the key that told it.
pub(super) fn input(span: &Span) -> Option<(Vec<Message>, Option<&'static str>)> {
    let instructions = json(span, INSTRUCTIONS).and_then(|parts| genai::instructions(&parts));
    let attributes = span.attributes();
    let found = json(span, INPUT[0])
        .and_then(|list| Some((genai::messages(&list)?, INPUT[0])))
        .or_else(|| Some((flat::messages(attributes, INPUT[1], flat::OPENINFERENCE, Role::User)?, INPUT[1])))
        .or_else(|| Some((flat::messages(attributes, INPUT[2], flat::TRACELOOP, Role::User)?, INPUT[2])))
        .or_else(|| Some((sdk::input(span).or_else(|| events::input(span))?, KEPT)))
        .or_else(|| Some((vec![Message::text(Role::User, span.text(INPUT[3])?)], INPUT[3])));
    match (instructions, found) {
        (None, None) => None,
        (Some(first), None) => Some((vec![first], None)),
        (first, Some((rest, key))) => Some((first.into_iter().chain(rest).collect(), Some(key))),
    }
}

/// What came out of a model call, and the key that told it.
pub(super) fn output(span: &Span) -> Option<(Message, &'static str)> {
    let attributes = span.attributes();
    let first = |list: Vec<Message>| list.into_iter().next();
    let (mut answer, key) = json(span, OUTPUT[0])
        .and_then(|list| Some((first(genai::messages(&list)?)?, OUTPUT[0])))
        .or_else(|| Some((first(flat::messages(attributes, OUTPUT[1], flat::OPENINFERENCE, Role::Assistant)?)?, OUTPUT[1])))
        .or_else(|| Some((first(flat::messages(attributes, OUTPUT[2], flat::TRACELOOP, Role::Assistant)?)?, OUTPUT[2])))
        .or_else(|| Some((sdk::output(span).or_else(|| events::output(span))?, KEPT)))
        .or_else(|| Some((Message::text(Role::Assistant, span.text(OUTPUT[3])?), OUTPUT[3])))?;
    answer.role = Role::Assistant;
    Some((answer, key))
}

/// Whether a model call says what went in or came out.
pub(super) fn says_something(span: &Span) -> bool {
    input(span).is_some() || output(span).is_some()
}

/// The tools on offer.
pub(super) fn tools(span: &Span) -> Vec<ToolSpec> {
    let listed = json(span, DEFINITIONS).and_then(|list| list.as_array().cloned()).unwrap_or_default();
    let flat = span.attributes().iter().filter(|attribute| {
        let key = attribute["key"].as_str().unwrap_or_default();
        key.starts_with("llm.tools.") && key.ends_with(".tool.json_schema")
    });
    let flat = flat.filter_map(|attribute| json_inside(attribute["value"]["stringValue"].as_str()?));
    listed.into_iter().chain(flat).chain(sdk::tools(span)).filter_map(|tool| spec(&tool)).collect()
}

/// The tools on offer as the conventions write them.
pub(super) fn written_tools(tools: &[ToolSpec]) -> Value {
    let written = |tool: &ToolSpec| {
        let mut written = json!({"type": "function", "name": tool.name});
        if let Some(description) = &tool.description {
            written["description"] = description.as_str().into();
        }
        if !tool.parameters.is_null() {
            written["parameters"] = tool.parameters.clone();
        }
        written
    };
    tools.iter().map(written).collect()
}

fn spec(tool: &Value) -> Option<ToolSpec> {
    let inner = tool.get("function").unwrap_or(tool);
    Some(ToolSpec {
        name: inner.get("name")?.as_str()?.to_owned(),
        description: inner.get("description").and_then(Value::as_str).map(str::to_owned),
        parameters: ["parameters", "input_schema", "inputSchema"]
            .iter()
            .find_map(|key| inner.get(key))
            .cloned()
            .unwrap_or_default(),
        extra: Map::new(),
    })
}

/// The JSON that an attribute holds, as text or taken apart.
fn json(span: &Span, key: &str) -> Option<Value> {
    match wire::plain(wire::find(span.attributes(), key).or_else(|| events::detail(span, key))?)? {
        Value::String(text) => json_inside(&text),
        other => Some(other),
    }
}

/// The attributes that the words of a model call give for this key.
pub(super) fn written(key: &str, call: &LlmCall, history: &[&Message], answer: &Message) -> Vec<Value> {
    let one = |value: Value| vec![wire::attribute(key, value)];
    let position = |keys: &[&str]| keys.iter().position(|known| *known == key);
    if MODEL.contains(&key) {
        return if call.model.is_empty() { Vec::new() } else { one(wire::any_text(&call.model)) };
    }
    for (keys, n) in [(&TOKENS_IN[..], call.tokens_in), (&TOKENS_OUT, call.tokens_out), (&CACHED, call.tokens_cached)] {
        if keys.contains(&key) {
            return one(wire::any_int(n));
        }
    }
    if COST.contains(&key) {
        return call.cost_usd.map(|cost| one(json!({"doubleValue": cost}))).unwrap_or_default();
    }
    if key == INSTRUCTIONS {
        let first = history.first().filter(|message| genai::is_instructions(message));
        return first.map(|first| one(wire::any_text(&genai::written_instructions(first).to_string()))).unwrap_or_default();
    }
    match position(&INPUT) {
        Some(0) => {
            let list: Value = history
                .iter()
                .copied()
                .filter(|said| !genai::is_instructions(said))
                .map(|said| genai::written(said, Side::Input))
                .collect();
            return if list == json!([]) { Vec::new() } else { one(wire::any_text(&list.to_string())) };
        }
        Some(1) => return flat::written(history.iter().copied(), INPUT[1], flat::OPENINFERENCE, Side::Input),
        Some(2) => return flat::written(history.iter().copied(), INPUT[2], flat::TRACELOOP, Side::Input),
        Some(_) => return history.last().map(|said| one(wire::any_text(&said.content.text()))).unwrap_or_default(),
        None => {}
    }
    let said = std::iter::once(answer).filter(|answer| !is_empty(answer));
    match position(&OUTPUT) {
        Some(0) => {
            let list: Value = said.map(|answer| genai::written(answer, Side::Output)).collect();
            if list == json!([]) { Vec::new() } else { one(wire::any_text(&list.to_string())) }
        }
        Some(1) => flat::written(said, OUTPUT[1], flat::OPENINFERENCE, Side::Output),
        Some(2) => flat::written(said, OUTPUT[2], flat::TRACELOOP, Side::Output),
        Some(_) => one(wire::any_text(&answer.content.text())),
        None => Vec::new(),
    }
}

/// The attributes that the words of a tool call give for this key.
pub(super) fn written_tool(key: &str, call: &ToolCall) -> Vec<Value> {
    let text = if TOOL_NAME.contains(&key) {
        call.name.clone()
    } else if TOOL_ID.contains(&key) {
        call.id.clone()
    } else if TOOL_ARGUMENTS.contains(&key) && !call.arguments.is_null() {
        call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned)
    } else {
        return Vec::new();
    };
    vec![wire::attribute(key, wire::any_text(&text))]
}

/// All keys that can be dropped from the span of a model call whose messages came under these keys.
pub(super) fn keys(input: Option<&'static str>, output: Option<&'static str>) -> impl Iterator<Item = &'static str> {
    let scalars = MODEL.into_iter().chain(TOKENS_IN).chain(TOKENS_OUT).chain(CACHED).chain(COST);
    scalars.chain([INSTRUCTIONS]).chain(input).chain(output)
}

/// All keys that a model call can write.
pub(super) fn all_keys() -> impl Iterator<Item = &'static str> {
    keys(None, None).chain(INPUT).chain(OUTPUT)
}

/// All keys that a tool call can write.
pub(super) fn tool_keys() -> impl Iterator<Item = &'static str> {
    TOOL_NAME.into_iter().chain(TOOL_ID).chain(TOOL_ARGUMENTS)
}

/// Whether this key repeats the conversation so far, which costs the more the longer it is.
pub(super) fn is_history(key: &str) -> bool {
    INPUT.contains(&key)
}

/// Drops the attributes of this key if these are the same. Says whether it did.
pub(super) fn drop_same(attributes: &mut Vec<Value>, key: &str, mut written: Vec<Value>) -> bool {
    if [INPUT[1], INPUT[2], OUTPUT[1], OUTPUT[2]].contains(&key) {
        let mut read: Vec<&Value> = attributes.iter().filter(|attribute| flat::belongs(attribute, key)).collect();
        let name = |attribute: &Value| attribute["key"].as_str().unwrap_or_default().to_owned();
        read.sort_by_cached_key(|attribute| name(attribute));
        written.sort_by_cached_key(name);
        let all = !read.is_empty() && read.iter().copied().eq(written.iter());
        if all {
            attributes.retain(|attribute| !flat::belongs(attribute, key));
        }
        return all;
    }
    let Some(at) = attributes.iter().position(|attribute| attribute["key"] == key) else { return false };
    let [written] = written.as_slice() else { return false };
    let bare = attributes[at].as_object().is_some_and(|attribute| attribute.len() == 2);
    let (old, new) = (&attributes[at]["value"], &written["value"]);
    let holds_json = key == INSTRUCTIONS || key == INPUT[0] || key == OUTPUT[0] || TOOL_ARGUMENTS.contains(&key);
    let equal = wire::same(old, new) || (holds_json && same_json(old, new));
    if bare && equal {
        attributes.remove(at);
    }
    bare && equal
}

/// Whether two text values hold the same JSON.
fn same_json(a: &Value, b: &Value) -> bool {
    let json =
        |value: &Value| value.as_object().filter(|value| value.len() == 1)?.get("stringValue")?.as_str().and_then(json_inside);
    json(a).is_some_and(|a| Some(a) == json(b))
}

/// Whether two messages are the same as far as the conversation goes.
pub(super) fn same_message(a: &Message, b: &Message) -> bool {
    a.role == b.role
        && a.content == b.content
        && a.tool_call_id == b.tool_call_id
        && a.tool_calls.len() == b.tool_calls.len()
        && a.tool_calls.iter().zip(&b.tool_calls).all(|(a, b)| same_request(a, b))
}

fn same_request(a: &ToolRequest, b: &ToolRequest) -> bool {
    let equal = || json_inside(&a.arguments).is_some_and(|json| Some(json) == json_inside(&b.arguments));
    a.id == b.id && a.name == b.name && (a.arguments == b.arguments || equal())
}
