//! Anthropic's messages: `POST /messages`.
//!
//! Instructions stand beside the conversation, tool results are spoken by the user, and neighbours of one role are one
//! message. A schema is asked for as a tool that must be called; its input is the answer. Thoughts come back
//! signed and are sent again as they were. `input_tokens` leaves out what was cached: it is added here.

use super::calling::Calling;
use super::manner::Manner;
use super::reply::{Delta, Draft, Finish, Refusal, Reply, Tokens, Usage, WireError, broken};
use super::request::{ChatRequest, Part, RequestError, TOKENS_MAX, Transfer, add_extra, arguments, in_turns, parameters, parts};
use super::spec::UpstreamSpec;
use super::sse::Event;
use super::wire::Assembler;
use hone_trace::{Message, Role, ToolSpec};
use serde_json::{Map, Value, json};

/// Where a message keeps thoughts as they came.
const THOUGHTS: &str = "thinking_blocks";
/// What stands between two blocks of text, as where they are read when they are sent again.
const BETWEEN: &str = "\n\n";
/// The most blocks of one answer.
const N_BLOCKS_MAX: usize = 1024;

pub(super) fn body(spec: &UpstreamSpec, request: &ChatRequest, transfer: Transfer) -> Result<Map<String, Value>, RequestError> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.into(), value));
    put("model", spec.model.as_str().into());
    put("max_tokens", request.tokens_max().unwrap_or(TOKENS_MAX).into());
    let is_standing = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let system: Vec<String> = request.messages.iter().filter(is_standing).map(|message| message.content.text()).collect();
    if !system.is_empty() {
        put("system", system.join("\n\n").into());
    }
    put("messages", messages(&request.messages)?.into());
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if let Some(choice) = request.calling.as_ref().and_then(Calling::anthropic).filter(|_| !tools.is_empty()) {
        put("tool_choice", choice);
    }
    if let Some(answer) = request.answer_tool() {
        let choice = match tools.is_empty() {
            true => json!({"type": "tool", "name": answer}),
            false => json!({"type": "any"}),
        };
        put("tool_choice", choice);
        tools.push(json!({"name": answer, "description": request.answer_description(), "input_schema": request.schema}));
    }
    if !tools.is_empty() {
        put("tools", tools.into());
    }
    if let Some(effort) = request.manner.as_ref().and_then(Manner::anthropic) {
        put("output_config", effort);
    }
    if let Some(temperature) = request.sampling.temperature {
        put("temperature", temperature.into());
    }
    if let Some(top_p) = request.sampling.top_p {
        put("top_p", top_p.into());
    }
    if !request.sampling.stops.is_empty() {
        put("stop_sequences", json!(request.sampling.stops));
    }
    if transfer == Transfer::Stream {
        put("stream", true.into());
    }
    add_extra(&mut body, &request.sampling.extra)?;
    Ok(body)
}

fn messages(messages: &[Message]) -> Result<Vec<Value>, RequestError> {
    in_turns(messages, "assistant", "content", |_, message| match message.role {
        Role::Tool => {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            Ok(vec![json!({"type": "tool_result", "tool_use_id": id, "content": blocks(message)?})])
        }
        Role::Assistant => said(message),
        _ => blocks(message),
    })
}

fn said(message: &Message) -> Result<Vec<Value>, RequestError> {
    let mut blocks = message.extra.get(THOUGHTS).and_then(Value::as_array).cloned().unwrap_or_default();
    blocks.extend(self::blocks(message)?);
    blocks.extend(
        message
            .tool_calls
            .iter()
            .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments(&call.arguments)})),
    );
    Ok(blocks)
}

fn blocks(message: &Message) -> Result<Vec<Value>, RequestError> {
    let block = |part| match part {
        Part::Text(text) => Ok(json!({"type": "text", "text": text})),
        Part::Data { media_type, base64 } => {
            Ok(json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": base64}}))
        }
        Part::Link(url) => Ok(json!({"type": "image", "source": {"type": "url", "url": url}})),
        Part::Other(value) if value["type"] == "image" || value["type"] == "document" => Ok(value.clone()),
        Part::Other(value) => Err(RequestError(format!("a part of type {} cannot be sent to this provider", value["type"]))),
    };
    parts(&message.content).into_iter().map(block).collect()
}

fn tool(tool: &ToolSpec) -> Value {
    let mut json = Map::new();
    json.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        json.insert("description".into(), description.as_str().into());
    }
    json.insert("input_schema".into(), parameters(tool));
    Value::Object(json)
}

pub(super) fn reply(json: &Value, answer_tool: Option<&str>) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    let blocks = json["content"].as_array().ok_or_else(|| broken("the answer has no content"))?;
    let finish = match json["stop_reason"].as_str() {
        None => return Err(broken("the answer has no stop reason")),
        Some("tool_use") => Finish::ToolCalls,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::Filtered,
        Some(_) => Finish::Stop,
    };
    let mut draft = Draft::default();
    let mut thoughts = Vec::new();
    let mut is_answered = false;
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().unwrap_or_default();
                let is_next = !text.is_empty() && !draft.text.is_empty();
                draft.text.push_str(if is_next { BETWEEN } else { "" });
                draft.text.push_str(text);
            }
            Some("tool_use") => {
                let input = input(&block["input"]);
                if block["name"].as_str().is_some_and(|name| Some(name) == answer_tool) {
                    draft.text.push_str(&input);
                    is_answered = true;
                } else {
                    draft.call(block["id"].as_str(), block["name"].as_str(), input)?;
                }
            }
            Some("thinking" | "redacted_thinking") => {
                draft.reasoning.push_str(block["thinking"].as_str().unwrap_or_default());
                thoughts.push(block.clone());
            }
            // What the provider did on its own, such as a search; its words follow as text.
            Some(_) => {}
            None => return Err(broken("a block of the answer has no type")),
        }
    }
    if !thoughts.is_empty() {
        draft.extra.insert(THOUGHTS.into(), thoughts.into());
    }
    let finish = if is_answered && finish == Finish::ToolCalls && draft.calls.is_empty() { Finish::Stop } else { finish };
    Ok(draft.finish(finish, json["model"].as_str(), usage(&json["usage"]), Tokens::default()))
}

/// What a tool is called with.
fn input(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Null => "{}".to_owned(),
        other => other.to_string(),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    let (cached, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    Some(Usage {
        tokens_in: usage["input_tokens"].as_u64()?.saturating_add(cached).saturating_add(written),
        tokens_out: count("output_tokens"),
        tokens_cached: cached,
        tokens_cache_written: written,
        tokens_thought: 0,
    })
}

/// A stream on its way to the body that would have come in one piece.
#[derive(Debug)]
pub(super) struct Stream {
    answer_tool: Option<String>,
    model: Value,
    usage: Map<String, Value>,
    stop_reason: Value,
    blocks: Vec<Block>,
    /// Whether text was told.
    has_text: bool,
    is_done: bool,
}

#[derive(Debug)]
struct Block {
    json: Map<String, Value>,
    /// The input of a tool, which comes as text.
    input: String,
    call_idx: Option<usize>,
    is_closed: bool,
}

impl Stream {
    pub(super) fn new(answer_tool: Option<String>) -> Self {
        let (model, stop_reason) = (Value::Null, Value::Null);
        Self { answer_tool, model, usage: Map::new(), stop_reason, blocks: Vec::new(), has_text: false, is_done: false }
    }

    fn count(&mut self, usage: &Value) {
        // Counts are cumulative: the last one told holds.
        let told = usage.as_object().into_iter().flatten().filter(|(_, value)| value.is_u64());
        told.for_each(|(key, value)| drop(self.usage.insert(key.clone(), value.clone())));
    }

    fn open(&mut self, json: &Value) -> Result<Option<Delta>, WireError> {
        let block = json["content_block"].as_object().ok_or_else(|| broken("a block begins without content"))?;
        if json["index"].as_u64() != Some(self.blocks.len() as u64) || self.blocks.len() >= N_BLOCKS_MAX {
            return Err(broken("a block begins out of order"));
        }
        let is_call = block.get("type").is_some_and(|kind| kind == "tool_use");
        let n_calls = self.blocks.iter().filter(|block| block.call_idx.is_some()).count();
        let is_answer = block.get("name").and_then(Value::as_str).is_some_and(|name| Some(name) == self.answer_tool.as_deref());
        let call_idx = (is_call && !is_answer).then_some(n_calls);
        self.blocks.push(Block { json: block.clone(), input: String::new(), call_idx, is_closed: false });
        let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(call_idx.map(|call_idx| Delta::ToolCall {
            call_idx,
            id: text("id"),
            name: text("name"),
            arguments: String::new(),
            extra: Map::new(),
        }))
    }

    fn add(&mut self, json: &Value) -> Result<Option<Delta>, WireError> {
        let block_idx = json["index"].as_u64().and_then(|idx| usize::try_from(idx).ok());
        let block = block_idx.and_then(|idx| self.blocks.get_mut(idx)).filter(|block| !block.is_closed);
        let block = block.ok_or_else(|| broken("a piece came for a block that is not open"))?;
        let delta = &json["delta"];
        let text = |key: &str| delta[key].as_str().unwrap_or_default().to_owned();
        Ok(match delta["type"].as_str() {
            Some("text_delta") => {
                let piece = text("text");
                let is_next = self.has_text && !piece.is_empty() && is_blank_text(&block.json);
                append(&mut block.json, "text", &piece);
                Some(Delta::Text(if is_next { format!("{BETWEEN}{piece}") } else { piece }))
            }
            Some("thinking_delta") => {
                append(&mut block.json, "thinking", &text("thinking"));
                Some(Delta::Reasoning(text("thinking")))
            }
            Some("signature_delta") => {
                append(&mut block.json, "signature", &text("signature"));
                None
            }
            Some("input_json_delta") => {
                let arguments = text("partial_json");
                block.input.push_str(&arguments);
                Some(match block.call_idx {
                    Some(call_idx) => Delta::arguments(call_idx, arguments),
                    None => Delta::Text(arguments),
                })
            }
            _ => None,
        })
    }

    /// Ends a block. The input of a call that came in no piece is told here: it stood at the beginning, or is `{}`.
    fn close(&mut self, json: &Value) -> Option<Delta> {
        let block_idx = json["index"].as_u64().and_then(|idx| usize::try_from(idx).ok());
        let block = block_idx.and_then(|idx| self.blocks.get_mut(idx)).filter(|block| !block.is_closed)?;
        block.is_closed = true;
        let is_call = block.json.get("type").is_some_and(|kind| kind == "tool_use");
        if !is_call || !block.input.trim().is_empty() {
            return None;
        }
        let arguments = input(block.json.get("input").unwrap_or(&Value::Null));
        Some(match block.call_idx {
            Some(call_idx) => Delta::arguments(call_idx, arguments),
            None => Delta::Text(arguments),
        })
    }
}

fn is_blank_text(block: &Map<String, Value>) -> bool {
    block.get("text").and_then(Value::as_str).is_none_or(str::is_empty)
}

fn append(json: &mut Map<String, Value>, key: &str, text: &str) {
    match json.get_mut(key) {
        Some(Value::String(old)) => old.push_str(text),
        _ => drop(json.insert(key.into(), text.into())),
    }
}

impl Assembler for Stream {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        let json: Value = serde_json::from_str(&event.data).map_err(|_| broken("an event of the stream is not JSON"))?;
        if let Some(refusal) = Refusal::read(&json, None) {
            return Err(WireError::Failed(refusal));
        }
        let delta = match json["type"].as_str() {
            Some("message_start") => {
                self.model = json["message"]["model"].clone();
                self.count(&json["message"]["usage"]);
                None
            }
            Some("content_block_start") => self.open(&json)?,
            Some("content_block_delta") => self.add(&json)?,
            Some("content_block_stop") => self.close(&json),
            Some("message_delta") => {
                self.stop_reason = json["delta"]["stop_reason"].clone();
                self.count(&json["usage"]);
                None
            }
            Some("message_stop") => {
                self.is_done = true;
                None
            }
            // `ping`, and kinds that are yet to be invented.
            Some(_) => None,
            None => return Err(broken("an event of the stream has no type")),
        };
        let is_empty = |delta: &Delta| matches!(delta, Delta::Text(text) | Delta::Reasoning(text) if text.is_empty());
        let delta = delta.filter(|delta| !is_empty(delta));
        self.has_text |= matches!(delta, Some(Delta::Text(_)));
        Ok(delta.into_iter().collect())
    }

    fn usage(&self) -> Option<Usage> {
        usage(&Value::Object(self.usage.clone()))
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self: Box<Self>) -> Result<Reply, WireError> {
        if !self.is_done {
            return Err(broken("the stream was cut off before message_stop"));
        }
        if self.blocks.iter().any(|block| !block.is_closed) {
            return Err(broken("the stream ended in the middle of a block"));
        }
        let block = |mut block: Block| {
            if !block.input.trim().is_empty() {
                // Text that is no JSON stays text, and is read as what the model wrote.
                let input = serde_json::from_str(&block.input).unwrap_or_else(|_| Value::String(block.input.clone()));
                block.json.insert("input".into(), input);
            }
            Value::Object(block.json)
        };
        let content: Value = self.blocks.into_iter().map(block).collect();
        let (model, stop_reason, usage) = (self.model, self.stop_reason, self.usage);
        reply(
            &json!({"model": model, "stop_reason": stop_reason, "usage": usage, "content": content}),
            self.answer_tool.as_deref(),
        )
    }
}
