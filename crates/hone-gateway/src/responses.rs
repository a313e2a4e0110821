//! OpenAI's responses, as a server speaks them: `POST /v1/responses`.
//!
//! Input and output are lists of items: messages, calls of functions and their results. On the record an answer is one message, so items
//! that follow each other on the side of the model become one. A request may name the answer it goes on with; what was said before then
//! comes from the record, where everything is. Instructions hold for one request: those of the answer before are left out.
//!
//! An answer that its client does not want stored is on the record like any other, and nobody can go on with it.
//!
//! Nobody is asked in this format. What an answer could not follow is refused by name, and so is what is not known.

mod telling;

pub(crate) use telling::Responses;

use crate::choices::Choices;
use crate::error::Refused;
use crate::feedback::answered_in;
use crate::openai::{TEMPERATURE_MAX, flag, label, number, parsed, whole_number};
use crate::question::{Asked, unsupported, unsupported_param};
use crate::record::{has_failed, heard};
use crate::server::Gateway;
use hone_policy::upstream::{Calling, ChatRequest, EFFORT, Label, Manner, PARALLEL, Sampling, TOOL_CHOICE, VERBOSITY};
use hone_trace::format::openai::Conversation;
use hone_trace::{Content, Message, Role, Tenant, ToolRequest, ToolSpec, Trace, TraceId, Turn};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What marks the instructions of a request among the messages of the record.
const INSTRUCTIONS: &str = "hone.instructions";
/// Whether a client may go on with its answer by its id.
pub(crate) const STORE: &str = "store";
/// What a function says where its calls must follow its schema.
const STRICT: &str = "strict";
/// What can be asked for, besides what is looked at one by one.
const KNOWN: [&str; 19] = [
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "metadata",
    "model",
    PARALLEL,
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    STORE,
    "stream",
    "temperature",
    "text",
    TOOL_CHOICE,
    "tools",
    "top_p",
    "user",
];
/// What can be said only so: any other wish could not be followed.
const FIXED: [(&str, &str); 5] = [
    ("background", "false"),
    ("service_tier", "\"auto\""),
    ("stream_options", "{\"include_obfuscation\":false}"),
    ("top_logprobs", "0"),
    ("truncation", "\"disabled\""),
];

/// What may be asked for besides an answer and is never there: thoughts are told openly, and no tools are run here.
const NOTHING_TO_INCLUDE: [&str; 7] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// Reads a body, or says what is wrong with it.
pub(crate) fn read(body: &[u8]) -> Result<Asked, Refused> {
    let body: Map<String, Value> = parsed(body)?;
    can_be_followed(&body)?;
    let model = text(&body, "model")?.filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Refused::param("model", "`model` is missing: you must name one"))?;
    let messages = messages(&body)?;
    let tools = tools(&body)?;
    let temperature = number(&body, "temperature", 0.0, TEMPERATURE_MAX)?;
    let top_p = number(&body, "top_p", 0.0, 1.0)?;
    let tokens_max = whole_number(&body, "max_output_tokens")?;
    // The record has the words of chats, so that one agent is the same in both.
    let (schema, label) = schema(&body)?;
    let (metadata, format) = (body.get("metadata"), response_format(&body));
    let calling = calling(&body)?;
    let (choice, parallel) = (calling.chat(), calling.is_single.then_some(false));
    let manner = manner(&body)?;
    let rest = json!({"model": model, "temperature": temperature, "top_p": top_p, "max_completion_tokens": tokens_max,
        "metadata": metadata, "response_format": format, TOOL_CHOICE: choice, PARALLEL: parallel,
        EFFORT: manner.effort, VERBOSITY: manner.verbosity});
    let rest = rest.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let rest = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    let request = ChatRequest {
        messages: messages.clone(),
        tools: Arc::from(tools.clone()),
        calling: Some(calling),
        manner: Some(manner),
        schema,
        label,
        sampling: Sampling { temperature, top_p, ..Sampling::default() },
        tokens_max: tokens_max.unwrap_or(0),
        ..ChatRequest::default()
    };
    Ok(Asked {
        model,
        is_stream: flag(&body, "stream")?,
        tells_usage: true,
        conversation: Conversation { messages, tools, rest },
        request,
        choices: Choices::default(),
        prompts: Vec::new(),
        previous: text(&body, "previous_response_id")?,
        body,
    })
}

/// Refuses by name what could not be followed.
fn can_be_followed(body: &Map<String, Value>) -> Result<(), Refused> {
    for (name, value) in body.iter().filter(|(name, value)| !value.is_null() && !KNOWN.contains(&name.as_str())) {
        let is_nothing = match value {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.values().all(Value::is_null),
            _ => false,
        };
        let said = value.to_string();
        if is_nothing || FIXED.iter().any(|(param, only)| param == name && *only == said) {
            continue;
        }
        return Err(match FIXED.iter().find(|(param, _)| param == name) {
            Some((_, only)) => unfollowed(name, format!("`{name}` can be {only} alone here")),
            None if name == "conversation" => {
                unfollowed(name, "`conversation` is not something that can be followed here: use `previous_response_id`")
            }
            None => (&unsupported_param(name)).into(),
        });
    }
    flag(body, STORE)?;
    for (name, form) in [("include", json!([])), ("reasoning", json!({})), ("text", json!({}))] {
        let is_other = |said: &Value| !said.is_null() && std::mem::discriminant(said) != std::mem::discriminant(&form);
        if body.get(name).is_some_and(is_other) {
            return Err(Refused::param(name, format!("`{name}` must be in the form {form}")));
        }
    }
    let list = body.get("include").and_then(Value::as_array).into_iter().flatten();
    let mut wanted = list.enumerate().filter(|(_, what)| !NOTHING_TO_INCLUDE.iter().any(|nothing| what == nothing));
    wanted.next().map_or(Ok(()), |(idx, what)| {
        let place = format!("include[{idx}]");
        Err(unfollowed(&place, format!("`{place}` is {what}, which is not something that can be told here: leave it out")))
    })
}

/// A value that is not followed here.
fn unfollowed(param: &str, message: impl Into<String>) -> Refused {
    (&unsupported(param, message)).into()
}

/// How much is thought and said. Summaries of thoughts are told where there are any, and there are none.
fn manner(body: &Map<String, Value>) -> Result<Manner, Refused> {
    let said = |name: &str, key: &str| body.get(name).and_then(|said| said.get(key)).cloned().unwrap_or_default();
    let reasoning = body.get("reasoning").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in reasoning.filter(|(key, value)| *key != "effort" && !value.is_null()) {
        let param = format!("reasoning.{key}");
        match key.as_str() {
            "summary" | "generate_summary" if value == "auto" => {}
            "summary" | "generate_summary" => {
                return Err(unfollowed(&param, format!("`{param}` can be auto alone here: thoughts are told as they are")));
            }
            _ => return Err((&unsupported_param(&param)).into()),
        }
    }
    let (effort, verbosity) = (said("reasoning", "effort"), said("text", "verbosity"));
    let wrong = |param: &str, words: &str| Refused::param(param, format!("`{param}` must be {words}"));
    if Manner::of(&effort, &Value::Null).is_none() {
        return Err(wrong("reasoning.effort", "none, minimal, low, medium, high, xhigh or max"));
    }
    Manner::of(&effort, &verbosity).ok_or_else(|| wrong("text.verbosity", "low, medium or high"))
}

fn text(map: &Map<String, Value>, name: &str) -> Result<Option<String>, Refused> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Refused::param(name, format!("`{name}` must be a text"))),
    }
}

/// What is said: instructions first, then the items.
fn messages(body: &Map<String, Value>) -> Result<Vec<Message>, Refused> {
    let mut messages = Vec::new();
    if let Some(instructions) = text(body, "instructions")? {
        let mut first = Message::text(Role::System, instructions);
        first.extra.insert(INSTRUCTIONS.into(), true.into());
        messages.push(first);
    }
    match body.get("input") {
        Some(Value::String(text)) => messages.push(Message::text(Role::User, text)),
        Some(Value::Array(items)) if !items.is_empty() => {
            let mut is_answering = false;
            for (item_idx, item) in items.iter().enumerate() {
                is_answering = read_item(item, &format!("input[{item_idx}]"), is_answering, &mut messages)?;
            }
        }
        Some(Value::Array(_)) | None => return Err(Refused::param("input", "`input` is empty: there is nothing to answer")),
        Some(_) => return Err(Refused::param("input", "`input` must be a text or a list of items")),
    }
    Ok(messages)
}

/// Adds an item to what is said. An item of the model goes with the one before where that is the model's, too; says whether it is one.
fn read_item(item: &Value, place: &str, is_answering: bool, messages: &mut Vec<Message>) -> Result<bool, Refused> {
    let required = |name: &str| {
        let missing = || Refused::param(place, format!("`{place}.{name}` is missing"));
        item[name].as_str().map(str::to_owned).ok_or_else(missing)
    };
    let answer = |messages: &mut Vec<Message>| match messages.pop() {
        Some(last) if is_answering => last,
        before => {
            messages.extend(before);
            Message { content: Content::None, ..Message::text(Role::Assistant, "") }
        }
    };
    match item["type"].as_str() {
        None | Some("message") => {
            let role = match item["role"].as_str() {
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                Some("system") => Role::System,
                Some("developer") => Role::Developer,
                _ => return Err(Refused::param(place, format!("`{place}.role` must be user, assistant, system or developer"))),
            };
            let content = content(&item["content"], place)?;
            let joins = is_answering && role == Role::Assistant;
            let goes_with = |last: &&mut Message| joins && last.content == Content::None && last.tool_calls.is_empty();
            match messages.last_mut().filter(goes_with) {
                Some(last) => last.content = content,
                None => messages.push(Message { content, ..Message::text(role, "") }),
            }
            Ok(role == Role::Assistant)
        }
        Some("function_call") => {
            let (id, name, arguments) = (required("call_id")?, required("name")?, required("arguments")?);
            let mut message = answer(messages);
            message.tool_calls.push(ToolRequest { id, name, arguments, extra: Map::new() });
            messages.push(message);
            Ok(true)
        }
        Some("function_call_output") => {
            let content = content(&item["output"], place)?;
            messages.push(Message { content, tool_call_id: Some(required("call_id")?), ..Message::text(Role::Tool, "") });
            Ok(false)
        }
        Some("reasoning") => {
            let parts = item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
            let thought: String = parts.collect();
            messages.push(Message {
                content: Content::None,
                reasoning: (!thought.is_empty()).then_some(thought),
                ..Message::text(Role::Assistant, "")
            });
            Ok(true)
        }
        Some(kind) => {
            Err(unfollowed(place, format!("`{place}` is a `{kind}`, which is not something that can be followed here")))
        }
    }
}

/// What an item says, in the words of the record.
fn content(value: &Value, place: &str) -> Result<Content, Refused> {
    let parts = match value {
        Value::String(text) => return Ok(Content::Text(text.clone())),
        Value::Array(parts) => parts,
        _ => return Err(Refused::param(place, format!("`{place}` must say a text or a list of parts"))),
    };
    let part = |(part_idx, part): (usize, &Value)| {
        let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
        match (part["type"].as_str(), text, part["image_url"].as_str()) {
            (Some("input_text" | "output_text" | "text" | "refusal"), Some(text), _) => Ok(json!({"type": "text", "text": text})),
            (Some("input_image"), _, Some(url)) => Ok(json!({"type": "image_url", "image_url": {"url": url}})),
            (kind, ..) => {
                let kind = kind.unwrap_or("part without a type");
                let place = format!("{place}.content[{part_idx}]");
                Err(unfollowed(&place, format!("`{place}` is a `{kind}` that is not something that can be followed here")))
            }
        }
    };
    let parts: Vec<Value> = parts.iter().enumerate().map(part).collect::<Result<_, _>>()?;
    Ok(match parts.as_slice() {
        [] => Content::None,
        [one] if one["type"] == "text" => Content::Text(one["text"].as_str().unwrap_or_default().to_owned()),
        _ => Content::Parts(parts),
    })
}

fn tools(body: &Map<String, Value>) -> Result<Vec<ToolSpec>, Refused> {
    let list = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tool = |(tool_idx, tool): (usize, &Value)| {
        let place = format!("tools[{tool_idx}]");
        let kind = tool["type"].as_str().unwrap_or("tool without a type");
        if kind != "function" {
            let message = format!("`{place}` is a `{kind}`, and only functions can be offered here");
            return Err(unfollowed(&place, message));
        }
        let name = tool["name"].as_str().ok_or_else(|| Refused::param(&place, format!("`{place}.name` is missing")))?;
        let description = tool["description"].as_str().map(str::to_owned);
        let extra = tool.get(STRICT).filter(|strict| strict.is_boolean()).map(|strict| (STRICT.to_owned(), strict.clone()));
        let extra = extra.into_iter().collect();
        Ok(ToolSpec { name: name.to_owned(), description, parameters: tool["parameters"].clone(), extra })
    };
    list.enumerate().map(tool).collect()
}

/// Which tools an answer calls.
fn calling(body: &Map<String, Value>) -> Result<Calling, Refused> {
    let said = |name: &str| body.get(name).unwrap_or(&Value::Null);
    let wrong = || {
        let message = format!("`{TOOL_CHOICE}` must be none, auto, required or a function, and `{PARALLEL}` true or false");
        Refused::param(TOOL_CHOICE, message)
    };
    Calling::of_responses(said(TOOL_CHOICE), said(PARALLEL)).ok_or_else(wrong)
}

/// The schema that an answer has to follow, where one is asked for, and what is said of it.
fn schema(body: &Map<String, Value>) -> Result<(Option<Value>, Label), Refused> {
    let free = (None, Label::default());
    let Some(text) = body.get("text").filter(|text| !text.is_null()) else { return Ok(free) };
    let format = &text["format"];
    match format["type"].as_str() {
        None if format.is_null() => Ok(free),
        Some("text") => Ok(free),
        Some("json_object") => Ok((Some(json!({"type": "object"})), Label::default())),
        Some("json_schema") if format["schema"].is_object() => {
            Ok((Some(format["schema"].clone()), label(format, "text.format")?))
        }
        Some("json_schema") => Err(Refused::param("text.format.schema", "`text.format.schema` must be an object")),
        _ => Err(Refused::param("text.format", "`text.format.type` must be text, json_object or json_schema")),
    }
}

/// How an answer has to look, in the words of chats; nothing where it is free.
fn response_format(body: &Map<String, Value>) -> Option<Value> {
    let mut named = body.get("text")?.get("format")?.as_object()?.clone();
    let kind = named.remove("type").filter(|kind| kind != "text")?;
    Some(if kind == "json_schema" { json!({"type": kind, "json_schema": named}) } else { json!({"type": kind}) })
}

/// Puts what was said up to an answer before what is said now, and says which episode the answer belongs to.
pub(crate) async fn go_on(gateway: &Gateway, tenant: &Tenant, previous: &str, asked: &mut Asked) -> Result<TraceId, Refused> {
    let missing = || {
        let message = format!("there is no response `{}` on the record", previous.chars().take(128).collect::<String>());
        Refused::NoPrevious(message)
    };
    let id = answered_in(previous).ok_or_else(missing)?;
    let trace = gateway.record().store().trace(id).await.map_err(|_| Refused::Store)?;
    let trace = trace.filter(|trace| trace.tenant == *tenant).ok_or_else(missing)?;
    let before = said_until(&trace, previous).ok_or_else(missing)?;
    let is_unstored = |turn: &Turn| turn.extra.get(STORE).is_some_and(|store| store == false);
    if trace.turns().any(|turn| is_unstored(turn) && turn.extra.get("id").is_some_and(|id| id == previous)) {
        return Err(Refused::NoPrevious(format!("`{previous}` was asked for with `store` false: nobody can go on with it")));
    }
    let messages = &mut asked.conversation.messages;
    let n_standing = messages.iter().take_while(|message| message.extra.contains_key(INSTRUCTIONS)).count();
    messages.splice(n_standing..n_standing, before);
    asked.request.messages.clone_from(messages);
    Ok(id)
}

/// What was said up to and with this answer, without the instructions of its request.
fn said_until(trace: &Trace, answer: &str) -> Option<Vec<Message>> {
    let is_it = |turn: &Turn| turn.extra.get("id").is_some_and(|id| id == answer) && !has_failed(turn);
    let (segment, turn_idx) = trace.segments.iter().find_map(|segment| Some((segment, segment.turns.iter().position(is_it)?)))?;
    let said = segment.turns[..=turn_idx].iter().flat_map(heard);
    Some(said.filter(|message| !message.extra.contains_key(INSTRUCTIONS)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: &Value, expected: &str) {
        let mut body = json!({"model": "m", "input": "hi"});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = read(body.to_string().as_bytes()).err().map(|refused| refused.openai()["error"].to_string());
        assert_eq!(refused.is_none(), expected.is_empty(), "{change}: {refused:?}");
        assert!(refused.unwrap_or_default().contains(expected), "{change}");
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        check(&json!({"model": null}), r#""param":"model""#);
        check(&json!({"input": []}), r#""param":"input""#);
        check(&json!({"input": 7}), r#""param":"input""#);
        check(&json!({"input": [{"role": "king", "content": "hi"}]}), "input[0].role");
        check(&json!({"input": [{"type": "item_reference", "id": "x"}]}), "`item_reference`");
        check(&json!({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}), "`input_file`");
        check(&json!({"store": "no"}), r#""param":"store""#);
        check(&json!({"reasoning": {"effort": "often"}}), r#""param":"reasoning.effort""#);
        check(&json!({"reasoning": {"summary": "detailed"}}), r#""code":"unsupported_value""#);
        check(&json!({"reasoning": {"summary": "detailed"}}), r#""param":"reasoning.summary""#);
        check(&json!({"reasoning": "low"}), r#""param":"reasoning""#);
        check(&json!({"include": "all"}), r#""param":"include""#);
        check(&json!({"reasoning": {"budget": 7}}), r#""param":"reasoning.budget""#);
        check(&json!({"tools": [{"type": "web_search"}]}), "`web_search`");
        check(&json!({"conversation": "c"}), "previous_response_id");
        check(&json!({"background": true}), r#""param":"background""#);
        check(&json!({"tool_choice": {"type": "allowed_tools"}}), r#""param":"tool_choice""#);
        check(&json!({"tool_choice": "required", "parallel_tool_calls": false}), "");
        check(&json!({"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]}), r#""param":"include[1]""#);
        check(&json!({"text": {"format": {"type": "xml"}}}), r#""param":"text.format""#);
        check(&json!({"text": {"verbosity": "loud"}}), r#""param":"text.verbosity""#);
        check(&json!({"text": {"format": {"type": "json_schema", "schema": {}, "name": 7}}}), r#""param":"text.format.name""#);
        check(&json!({"max_output_tokens": 0}), r#""param":"max_output_tokens""#);
        check(&json!({"what_is_new": 1}), r#""code":"unsupported_parameter""#);
        check(&json!({"what_is_new": 1}), r#""param":"what_is_new""#);
        check(&json!({"truncation": "auto"}), r#""code":"unsupported_value""#);
        check(
            &json!({"store": false, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"verbosity": "low"}, "truncation": "disabled", "metadata": {"a": "b"},
            "parallel_tool_calls": true, "tool_choice": "auto", "background": false, "service_tier": "auto"}),
            "",
        );
    }

    #[test]
    fn what_is_said_of_a_schema_is_asked_for_and_kept_in_the_words_of_chats() {
        let named = json!({"name": "invoice", "description": "One invoice.", "strict": false, "schema": {"type": "object"}});
        let mut format = named.clone();
        format["type"] = "json_schema".into();
        let asked = json!({"model": "m", "input": "hi", "text": {"format": format}});
        let asked = read(asked.to_string().as_bytes()).unwrap();
        let (name, description) = (Some("invoice".to_owned()), Some("One invoice.".to_owned()));
        assert_eq!(asked.request.label, Label { name, description, strict: Some(false) });
        assert_eq!(asked.conversation.rest["response_format"], json!({"type": "json_schema", "json_schema": named}));
        // A chat that asks for the same is the same.
        let format = &asked.conversation.rest["response_format"];
        let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "response_format": format});
        let chat = crate::openai::read(chat.to_string().as_bytes()).unwrap();
        assert_eq!((chat.request.label, chat.request.schema), (asked.request.label, asked.request.schema));
        assert_eq!(chat.conversation.rest, asked.conversation.rest);
        let free = json!({"model": "m", "input": "hi", "text": {"format": {"type": "text"}}});
        assert!(!read(free.to_string().as_bytes()).unwrap().conversation.rest.contains_key("response_format"));
    }

    #[test]
    fn items_of_the_model_that_follow_each_other_are_one_message() {
        let input = json!([
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so", "annotations": []}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
        ]);
        let body = json!({"model": "m", "instructions": "be kind", "input": input});
        let messages = read(body.to_string().as_bytes()).unwrap().conversation.messages;
        let line = |message: &Message| {
            let calls: Vec<&str> = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
            format!("{:?} {} {}", message.role, message.content.text(), calls.join(" ")).trim().to_owned()
        };
        let lines: Vec<String> = messages.iter().map(line).collect();
        assert_eq!(lines, ["System be kind", "User hi", "Assistant so c1 c2", "Tool 1", "Tool 2", "Assistant  c3"]);
        assert_eq!(messages[2].reasoning.as_deref(), Some("hm"));
    }
}
