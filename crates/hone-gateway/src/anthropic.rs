//! Anthropic's messages, as a server speaks them.
//!
//! Instructions stand beside the conversation, results of tools are blocks of the user's next message, and a stream tells every block's
//! beginning and end. The words of the record are those of OpenAI's form: a message with several results becomes several messages, and
//! what is said of the output is said as there.

use crate::ask::{Speaker, passed_on};
use crate::choices::Choices;
use crate::dashboard::Query;
use crate::error::Refused;
use crate::openai::{flag, number, parsed};
use crate::question::Asked;
use hone_policy::local::Piece;
use hone_policy::upstream::{Calling, ChatRequest, Delta, EFFORT, Finish, Manner, Reply, Sampling, TOOL_CHOICE, Usage};
use hone_trace::format::openai::Conversation;
use hone_trace::{Content, Message, Role, ToolRequest, ToolSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a client says how the output has to look: the newer word and the older one.
const OUTPUT_CONFIG: &str = "output_config";
const OUTPUT_FORMAT: &str = "output_format";

/// Reads a body, or says what is wrong with it.
pub(crate) fn read(bytes: &[u8]) -> Result<Asked, Refused> {
    let body: Map<String, Value> = parsed(bytes)?;
    let tokens_max = body.get("max_tokens").and_then(Value::as_u64).filter(|tokens| *tokens > 0);
    let tokens_max = tokens_max.ok_or_else(|| Refused::param("max_tokens", "max_tokens: a whole number above 0 is required"))?;
    asked(body, tokens_max)
}

/// Reads a body that asks for no answer, and so for none of any length.
pub(crate) fn read_unanswered(bytes: &[u8]) -> Result<Asked, Refused> {
    asked(parsed(bytes)?, 0)
}

fn asked(body: Map<String, Value>, tokens_max: u64) -> Result<Asked, Refused> {
    let model = body.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Refused::param("model", "model: Field required"))?.to_owned();
    let is_stream = flag(&body, "stream")?;
    let sampling = Sampling {
        temperature: number(&body, "temperature", 0.0, 2.0)?,
        top_p: number(&body, "top_p", 0.0, 1.0)?,
        stops: stops(&body)?,
        ..Sampling::default()
    };
    let messages = messages(&body)?;
    let tools = tools(&body)?;
    let mut rest = body.clone();
    for known in ["messages", "system", "tools", "stream"] {
        rest.remove(known);
    }
    let (mut schema, mut manner) = (None, None);
    if let Some(output) = Output::of(&body) {
        [OUTPUT_CONFIG, OUTPUT_FORMAT].into_iter().for_each(|said| drop(rest.remove(said)));
        rest.extend(output.manner.effort.map(|effort| (EFFORT.to_owned(), effort.into())));
        rest.extend(
            output
                .schema
                .as_ref()
                .map(|schema| ("response_format".to_owned(), json!({"type": "json_schema", "json_schema": {"schema": schema}}))),
        );
        (schema, manner) = (output.schema, Some(output.manner));
    }
    let request = ChatRequest {
        messages: messages.clone(),
        tools: Arc::from(tools.clone()),
        calling: Calling::of_anthropic(rest.get(TOOL_CHOICE).unwrap_or(&Value::Null)),
        manner,
        schema,
        sampling,
        tokens_max,
        ..ChatRequest::default()
    };
    Ok(Asked {
        model,
        is_stream,
        tells_usage: true,
        body,
        conversation: Conversation { messages, tools, rest },
        request,
        choices: Choices::default(),
        prompts: Vec::new(),
        previous: None,
    })
}

/// What is said of the output: how it has to look, and how much is thought for it.
struct Output {
    schema: Option<Value>,
    manner: Manner,
}

impl Output {
    /// Nothing where something else is said of it, which only a provider of this format knows.
    fn of(body: &Map<String, Value>) -> Option<Self> {
        let said = |name: &str| body.get(name).unwrap_or(&Value::Null);
        let config = said(OUTPUT_CONFIG);
        let mut others =
            config.as_object().into_iter().flatten().filter(|(name, _)| !["effort", "format"].contains(&name.as_str()));
        let format = Some(&config["format"]).filter(|format| !format.is_null()).unwrap_or_else(|| said(OUTPUT_FORMAT));
        let schema = format.get("schema").filter(|schema| schema.is_object() && format["type"] == "json_schema").cloned();
        let is_read = others.all(|(_, value)| value.is_null()) && schema.is_some() != format.is_null();
        Some(Self { schema, manner: Manner::of(&config["effort"], &Value::Null)? }).filter(|_| is_read)
    }
}

fn messages(body: &Map<String, Value>) -> Result<Vec<Message>, Refused> {
    let mut messages = Vec::new();
    match body.get("system") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => messages.push(Message::text(Role::System, text)),
        Some(Value::Array(blocks)) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            messages.push(Message::text(Role::System, texts.join("\n\n")));
        }
        Some(_) => return Err(Refused::param("system", "system: a text or a list of blocks is expected")),
    }
    let list = body.get("messages").and_then(Value::as_array).filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| Refused::param("messages", "messages: at least one message is required"))?;
    for (message_idx, message) in list.iter().enumerate() {
        let place = format!("messages.{message_idx}");
        let role = match message["role"].as_str() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => return Err(Refused::param(&place, format!("{place}.role: user or assistant is expected"))),
        };
        match &message["content"] {
            Value::String(text) => messages.push(Message::text(role, text)),
            Value::Array(blocks) => spoken(role, blocks, &place, &mut messages)?,
            _ => return Err(Refused::param(&place, format!("{place}.content: a text or a list of blocks is expected"))),
        }
    }
    Ok(messages)
}

/// The blocks of one message. Results of tools come first, each as a message of its own.
fn spoken(role: Role, blocks: &[Value], place: &str, messages: &mut Vec<Message>) -> Result<(), Refused> {
    let mut message = Message::text(role, "");
    let (mut parts, mut thoughts) = (Vec::new(), String::new());
    for (block_idx, block) in blocks.iter().enumerate() {
        let missing = |name: &str| {
            let place = format!("{place}.content.{block_idx}.{name}");
            Refused::param(&place, format!("{place}: Field required"))
        };
        match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().ok_or_else(|| missing("text"))?;
                parts.push(json!({"type": "text", "text": text}));
            }
            Some("image") => parts.push(picture(&block["source"]).ok_or_else(|| missing("source"))?),
            Some("thinking") => thoughts.push_str(block["thinking"].as_str().unwrap_or_default()),
            Some("tool_use") => message.tool_calls.push(ToolRequest {
                id: block["id"].as_str().ok_or_else(|| missing("id"))?.to_owned(),
                name: block["name"].as_str().ok_or_else(|| missing("name"))?.to_owned(),
                arguments: if block["input"].is_null() { "{}".into() } else { block["input"].to_string() },
                extra: Map::new(),
            }),
            Some("tool_result") => {
                let id = block["tool_use_id"].as_str().ok_or_else(|| missing("tool_use_id"))?;
                let mut result = Message { content: result_of(&block["content"]), ..Message::text(Role::Tool, "") };
                result.tool_call_id = Some(id.to_owned());
                if block["is_error"] == true {
                    result.extra.insert("is_error".into(), true.into());
                }
                messages.push(result);
            }
            // What only its provider reads, or did on its own, such as a search: no other could follow it, and its words are text.
            _ if role == Role::Assistant => {}
            _ => parts.push(block.clone()),
        }
    }
    message.reasoning = (!thoughts.is_empty()).then_some(thoughts);
    message.content = match parts.as_slice() {
        [] => Content::None,
        parts if parts.iter().all(|part| part["type"] == "text") => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            Content::Text(texts.join("\n\n"))
        }
        _ => Content::Parts(parts),
    };
    if message.content != Content::None || !message.tool_calls.is_empty() || message.reasoning.is_some() {
        messages.push(message);
    }
    Ok(())
}

fn picture(source: &Value) -> Option<Value> {
    let url = match source["type"].as_str()? {
        "base64" => format!("data:{};base64,{}", source["media_type"].as_str()?, source["data"].as_str()?),
        "url" => source["url"].as_str()?.to_owned(),
        _ => return None,
    };
    Some(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// What a tool gave: a text, unless there is more in it.
fn result_of(content: &Value) -> Content {
    let Value::Array(blocks) = content else { return Content::Text(content.as_str().unwrap_or_default().to_owned()) };
    if blocks.iter().all(|block| block["text"].is_string()) {
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        return Content::Text(texts.join("\n"));
    }
    let part = |block: &Value| match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => json!({"type": "text", "text": text}),
        (Some("image"), _) => picture(&block["source"]).unwrap_or_else(|| block.clone()),
        _ => block.clone(),
    };
    Content::Parts(blocks.iter().map(part).collect())
}

/// The list under this name, empty where there is none.
fn list<'a>(body: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], Refused> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(Refused::param(name, format!("{name}: Input should be a valid list"))),
    }
}

fn stops(body: &Map<String, Value>) -> Result<Vec<String>, Refused> {
    const NAME: &str = "stop_sequences";
    let text = |(idx, stop): (usize, &Value)| {
        let wrong = || Refused::param(NAME, format!("{NAME}.{idx}: Input should be a valid string"));
        stop.as_str().map(str::to_owned).ok_or_else(wrong)
    };
    list(body, NAME)?.iter().enumerate().map(text).collect()
}

fn tools(body: &Map<String, Value>) -> Result<Vec<ToolSpec>, Refused> {
    let tool = |(tool_idx, tool): (usize, &Value)| {
        let place = format!("tools.{tool_idx}.name");
        let name = tool["name"].as_str().ok_or_else(|| Refused::param(&place, format!("{place}: Field required")))?;
        let description = tool["description"].as_str().map(str::to_owned);
        Ok(ToolSpec { name: name.to_owned(), description, parameters: tool["input_schema"].clone(), extra: Map::new() })
    };
    list(body, "tools")?.iter().enumerate().map(tool).collect()
}

/// Who tells answers in this format.
pub(crate) struct Anthropic {
    pub(crate) id: String,
    pub(crate) model: String,
    /// The block that is being told, and what is told in it.
    block: Option<(usize, Kind)>,
    /// The calls that were told, which do not begin again.
    calls: BTreeSet<usize>,
    n_blocks: usize,
    is_passed_on: bool,
    /// The stop sequence that ended the answer.
    stop: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call(usize),
}

impl Anthropic {
    pub(crate) fn new(id: String, model: String) -> Self {
        Self { id, model, block: None, calls: BTreeSet::new(), n_blocks: 0, is_passed_on: false, stop: None }
    }

    fn head(&self) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [], "stop_reason": null,
            "stop_sequence": null, "usage": usage(None)})
    }

    /// Ends the block before, where this one is another.
    fn block(&mut self, kind: Kind, start: &Value) -> (String, usize) {
        match self.block {
            Some((block_idx, before)) if before == kind => (String::new(), block_idx),
            _ => {
                let told = self.close();
                let block_idx = self.n_blocks;
                self.n_blocks += 1;
                self.block = Some((block_idx, kind));
                let begun = json!({"type": "content_block_start", "index": block_idx, "content_block": start});
                (told + &event(&begun), block_idx)
            }
        }
    }

    /// Whether this is more of a call that was told to its end, such as the space that some write after it.
    fn is_late(&mut self, kind: Kind) -> bool {
        let is_open = self.block.is_some_and(|(_, open)| open == kind);
        matches!(kind, Kind::Call(call_idx) if !self.calls.insert(call_idx) && !is_open)
    }

    fn reason(&self, finish: Finish) -> &'static str {
        match finish {
            Finish::Stop if self.stop.is_some() => "stop_sequence",
            Finish::Stop => "end_turn",
            Finish::ToolCalls => "tool_use",
            Finish::Length => "max_tokens",
            Finish::Filtered => "refusal",
        }
    }

    fn close(&mut self) -> String {
        match self.block.take() {
            Some((block_idx, _)) => event(&json!({"type": "content_block_stop", "index": block_idx})),
            None => String::new(),
        }
    }
}

impl Speaker for Anthropic {
    fn whole(&self, reply: &Reply) -> Value {
        if let Some(Value::Object(came)) = &reply.json {
            return passed_on(came, &self.id, &self.model);
        }
        let message = &reply.message;
        let mut blocks = Vec::new();
        if let Some(thought) = &message.reasoning {
            blocks.push(json!({"type": "thinking", "thinking": thought, "signature": ""}));
        }
        let text = message.content.text();
        if !text.is_empty() {
            blocks.push(json!({"type": "text", "text": text}));
        }
        for call in &message.tool_calls {
            let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            blocks.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
        }
        let mut body = self.head();
        body["content"] = blocks.into();
        body["stop_reason"] = self.reason(reply.finish).into();
        body["stop_sequence"] = json!(self.stop);
        body["usage"] = usage(reply.usage.as_ref());
        body
    }

    fn piece(&mut self, piece: &Piece) -> String {
        let delta = &piece.delta;
        if let Delta::Event(data) = delta {
            self.is_passed_on = true;
            let Ok(mut told) = serde_json::from_str::<Value>(data) else { return String::new() };
            if told["type"] == "message_start" {
                told["message"]["id"] = self.id.as_str().into();
                told["message"]["model"] = self.model.as_str().into();
            }
            // The end is told once the call is durable.
            return if told["type"] == "message_stop" { String::new() } else { event(&told) };
        }
        let start = match self.n_blocks {
            0 => event(&json!({"type": "message_start", "message": self.head()})),
            _ => String::new(),
        };
        let (kind, block, piece) = match delta {
            Delta::Text(text) => (Kind::Text, json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text})),
            Delta::Reasoning(text) => (
                Kind::Thinking,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                json!({"type": "thinking_delta", "thinking": text}),
            ),
            Delta::ToolCall { call_idx, id, name, arguments, .. } => (
                Kind::Call(*call_idx),
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": arguments}),
            ),
            Delta::Event(_) => return String::new(),
        };
        if self.is_late(kind) {
            return start;
        }
        let (begun, block_idx) = self.block(kind, &block);
        start + &begun + &event(&json!({"type": "content_block_delta", "index": block_idx, "delta": piece}))
    }

    fn stopped_by(&mut self, stop: String) {
        self.stop = Some(stop);
    }

    fn end(&mut self, reply: &Reply) -> String {
        let mut told = String::new();
        if !self.is_passed_on {
            if self.n_blocks == 0 {
                told += &event(&json!({"type": "message_start", "message": self.head()}));
            }
            told += &self.close();
            let delta = json!({"stop_reason": self.reason(reply.finish), "stop_sequence": self.stop});
            told += &event(&json!({"type": "message_delta", "delta": delta, "usage": usage(reply.usage.as_ref())}));
        }
        told + &event(&json!({"type": "message_stop"}))
    }

    fn ping(&self) -> &'static str {
        "event: ping\ndata: {\"type\": \"ping\"}\n\n"
    }

    fn failed(&mut self, refused: &Refused) -> String {
        event(&refused.anthropic())
    }
}

/// An event of a stream, under the name that it also says inside.
fn event(body: &Value) -> String {
    format!("event: {}\ndata: {body}\n\n", body["type"].as_str().unwrap_or("error"))
}

/// What was read from a cache or put into one is told beside what was read afresh.
fn usage(usage: Option<&Usage>) -> Value {
    let Usage { tokens_in, tokens_out, tokens_cached, tokens_cache_written, .. } = usage.copied().unwrap_or_default();
    let fresh = tokens_in.saturating_sub(tokens_cached).saturating_sub(tokens_cache_written);
    json!({"input_tokens": fresh, "output_tokens": tokens_out, "cache_read_input_tokens": tokens_cached,
        "cache_creation_input_tokens": tokens_cache_written})
}

/// A model as lists show it. When it was made is not known, which is said so there.
pub(crate) fn model(name: &str) -> Value {
    json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
}

/// A page of the models of these names: those behind or before one, and so many at most.
pub(crate) fn models(names: &[&str], query: &Query) -> Result<Value, Refused> {
    let place =
        |key: &str| query.get(key).map(|id| names.iter().position(|name| *name == id).ok_or_else(|| unknown(key))).transpose();
    let unknown_limit = || Refused::param("limit", "limit: a whole number above 0 is expected");
    let n_max = query.get("limit").map(|limit| limit.parse().ok().filter(|n| *n > 0).ok_or_else(unknown_limit)).transpose()?;
    let n_max: usize = n_max.unwrap_or(names.len());
    let (first, end) = (place("after_id")?.map_or(0, |idx| idx + 1), place("before_id")?.unwrap_or(names.len()));
    let between = names.get(first..end).unwrap_or_default();
    let n_left = between.len().saturating_sub(n_max);
    let page = if query.get("before_id").is_some() { &between[n_left..] } else { &between[..between.len() - n_left] };
    let all: Vec<Value> = page.iter().map(|name| model(name)).collect();
    Ok(json!({"data": all, "has_more": n_left > 0, "first_id": page.first(), "last_id": page.last()}))
}

fn unknown(key: &str) -> Refused {
    Refused::param(key, format!("{key}: there is no such model"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_has_ended_does_not_begin_again() {
        let mut anthropic = Anthropic::new("msg_1".into(), "m".into());
        let mut tell = |call_idx, id: Option<&str>, arguments: &str| {
            let (id, name) = (id.map(str::to_owned), id.map(|_| "f".to_owned()));
            let delta = Delta::ToolCall { call_idx, id, name, arguments: arguments.into(), extra: Map::new() };
            anthropic.piece(&Piece { choice_idx: 0, delta, tokens: Vec::new() })
        };
        let told =
            [(0, Some("a"), "{"), (0, None, "}"), (1, Some("b"), "{}")].map(|(idx, id, said)| tell(idx, id, said)).concat();
        assert_eq!((told.matches("content_block_start").count(), told.matches("\"partial_json\"").count()), (2 * 2, 3), "{told}");
        assert_eq!(tell(0, None, " "), "");
    }
}
