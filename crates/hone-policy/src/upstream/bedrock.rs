//! Bedrock's Converse: `POST /model/MODEL/converse` and `/converse-stream`, the same for all of its models.
//!
//! Instructions stand beside the conversation, tool results are spoken by the user, and neighbours of one role are one
//! message. A schema is asked for as a tool that must be called; its input is the answer. A stream comes in
//! binary frames ([`super::frames`]); the stop reason completes the answer, the usage follows it. Thoughts come back signed
//! and are sent again as they were. `inputTokens` leaves out what was cached: it is added here. There are no seeds.

use super::calling::Calling;
use super::frames::Frame;
use super::reply::{Delta, Draft, Finish, Refusal, Reply, Tokens, Usage, WireError, broken};
use super::request::{ChatRequest, Part, RequestError, add_extra, arguments, in_turns, parameters, parts};
use super::sse::Event;
use super::wire::Assembler;
use hone_trace::{Message, Role, ToolSpec};
use serde_json::{Map, Value, json};

/// Where a message keeps thoughts as they came.
const THOUGHTS: &str = "reasoning_blocks";
/// The most blocks of one answer.
const N_BLOCKS_MAX: usize = 1024;

pub(super) fn body(request: &ChatRequest) -> Result<Map<String, Value>, RequestError> {
    let mut body = Map::new();
    let is_standing = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let system = request.messages.iter().filter(is_standing).map(|message| json!({"text": message.content.text()}));
    let system: Vec<Value> = system.collect();
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("messages".into(), messages(&request.messages)?.into());
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let mut tool_config = Map::new();
    tool_config.extend(request.calling.as_ref().and_then(Calling::bedrock).map(|choice| ("toolChoice".to_owned(), choice)));
    if let Some(answer) = request.answer_tool() {
        let choice = if tools.is_empty() { json!({"tool": {"name": answer}}) } else { json!({"any": {}}) };
        tool_config.insert("toolChoice".into(), choice);
        let spec = json!({"name": answer, "description": request.answer_description(), "inputSchema": {"json": request.schema}});
        tools.push(json!({"toolSpec": spec}));
    }
    if !tools.is_empty() {
        tool_config.insert("tools".into(), tools.into());
        body.insert("toolConfig".into(), tool_config.into());
    }
    let mut inference = Map::new();
    if let Some(tokens_max) = request.tokens_max() {
        inference.insert("maxTokens".into(), tokens_max.into());
    }
    if let Some(temperature) = request.sampling.temperature {
        inference.insert("temperature".into(), temperature.into());
    }
    if let Some(top_p) = request.sampling.top_p {
        inference.insert("topP".into(), top_p.into());
    }
    if !request.sampling.stops.is_empty() {
        inference.insert("stopSequences".into(), json!(request.sampling.stops));
    }
    body.insert("inferenceConfig".into(), inference.into());
    add_extra(&mut body, &request.sampling.extra)?;
    Ok(body)
}

fn messages(messages: &[Message]) -> Result<Vec<Value>, RequestError> {
    in_turns(messages, "assistant", "content", |_, message| match message.role {
        Role::Tool => {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            Ok(vec![json!({"toolResult": {"toolUseId": id, "content": blocks(message)?}})])
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
            .map(|call| json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": arguments(&call.arguments)}})),
    );
    Ok(blocks)
}

fn blocks(message: &Message) -> Result<Vec<Value>, RequestError> {
    let block = |part| match part {
        Part::Text(text) => Ok(json!({"text": text})),
        Part::Data { media_type, base64 } => match media_type.strip_prefix("image/") {
            Some(format) => Ok(json!({"image": {"format": format, "source": {"bytes": base64}}})),
            None => Err(RequestError(format!("a part of type {media_type} cannot be sent to this provider"))),
        },
        Part::Link(_) => Err(RequestError("this provider fetches no pictures: put them into the message as data".into())),
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
    json.insert("inputSchema".into(), json!({"json": parameters(tool)}));
    json!({ "toolSpec": json })
}

pub(super) fn reply(json: &Value, answer_tool: Option<&str>) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    let blocks = json["output"]["message"]["content"].as_array().ok_or_else(|| broken("the answer has no content"))?;
    let mut draft = Draft::default();
    let finish = match json["stopReason"].as_str() {
        None => return Err(broken("the answer has no stop reason")),
        Some("tool_use") => Finish::ToolCalls,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("guardrail_intervened" | "content_filtered") => Finish::Filtered,
        Some(reason @ ("malformed_model_output" | "malformed_tool_use")) => {
            draft.broken.push(reason.to_owned());
            Finish::Stop
        }
        Some(_) => Finish::Stop,
    };
    let mut thoughts = Vec::new();
    let mut is_answered = false;
    for block in blocks {
        draft.text.push_str(block["text"].as_str().unwrap_or_default());
        if let Some(call) = block.get("toolUse").filter(|call| is_ours(call)) {
            let input = match &call["input"] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            if call["name"].as_str().is_some_and(|name| Some(name) == answer_tool) {
                draft.text.push_str(&input);
                is_answered = true;
            } else {
                draft.call(call["toolUseId"].as_str(), call["name"].as_str(), input)?;
            }
        }
        if let Some(thought) = block.get("reasoningContent") {
            draft.reasoning.push_str(thought["reasoningText"]["text"].as_str().unwrap_or_default());
            thoughts.push(block.clone());
        }
    }
    if !thoughts.is_empty() {
        draft.extra.insert(THOUGHTS.into(), thoughts.into());
    }
    let finish = if is_answered && finish == Finish::ToolCalls && draft.calls.is_empty() { Finish::Stop } else { finish };
    Ok(draft.finish(finish, None, usage(&json["usage"]), Tokens::default()))
}

/// Whether a call is for us: some tools are the provider's own, and it calls them by itself.
fn is_ours(call: &Value) -> bool {
    call["type"] != "server_tool_use"
}

fn usage(usage: &Value) -> Option<Usage> {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    let (cached, written) = (count("cacheReadInputTokens"), count("cacheWriteInputTokens"));
    Some(Usage {
        tokens_in: usage["inputTokens"].as_u64()?.saturating_add(cached).saturating_add(written),
        tokens_out: count("outputTokens"),
        tokens_cached: cached,
        tokens_cache_written: written,
        tokens_thought: 0,
    })
}

/// What a frame says. An exception becomes an error in the form that is read everywhere.
pub(super) fn event(frame: &Frame) -> Result<Event, WireError> {
    let text = std::str::from_utf8(&frame.payload).map_err(|_| broken("the payload of a frame is not UTF-8"))?;
    let failed = |kind: &str, message: &str| Event {
        kind: "exception".into(),
        data: json!({"error": {"type": kind, "message": message}}).to_string(),
    };
    Ok(match frame.header(":message-type") {
        Some("exception") => {
            let json: Value = serde_json::from_str(text).unwrap_or_default();
            failed(frame.header(":exception-type").unwrap_or_default(), json["message"].as_str().unwrap_or(text))
        }
        Some("error") => {
            failed(frame.header(":error-code").unwrap_or_default(), frame.header(":error-message").unwrap_or_default())
        }
        _ => Event { kind: frame.header(":event-type").unwrap_or_default().to_owned(), data: text.to_owned() },
    })
}

/// A stream on its way to the body that would have come in one piece.
#[derive(Debug)]
pub(super) struct Stream {
    answer_tool: Option<String>,
    blocks: Vec<Block>,
    n_calls: usize,
    stop_reason: Value,
    usage: Value,
    is_done: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Call {
        /// `None` when it is the answer.
        call_idx: Option<usize>,
        id: String,
        name: String,
        input: String,
    },
    Thought {
        text: String,
        signature: String,
        /// A thought that only the provider can read.
        redacted: String,
    },
}

impl Stream {
    pub(super) fn new(answer_tool: Option<String>) -> Self {
        let (stop_reason, usage) = (Value::Null, Value::Null);
        Self { answer_tool, blocks: Vec::new(), n_calls: 0, stop_reason, usage, is_done: false }
    }

    /// The block that a piece belongs to. Only calls are announced: others begin with their first piece.
    fn block(&mut self, json: &Value, new: impl FnOnce() -> Block) -> Result<&mut Block, WireError> {
        let block_idx = json["contentBlockIndex"].as_u64().and_then(|idx| usize::try_from(idx).ok());
        let block_idx = block_idx.filter(|idx| *idx <= self.blocks.len() && *idx < N_BLOCKS_MAX);
        let block_idx = block_idx.ok_or_else(|| broken("a piece came for a block out of order"))?;
        if block_idx == self.blocks.len() {
            self.blocks.push(new());
        }
        Ok(&mut self.blocks[block_idx])
    }

    fn open(&mut self, json: &Value) -> Result<Option<Delta>, WireError> {
        let Some(call) = json["start"].get("toolUse").filter(|call| is_ours(call)) else { return Ok(None) };
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        let (id, name) = (text("toolUseId"), text("name"));
        let is_answer = self.answer_tool.as_deref() == Some(name.as_str());
        let call_idx = (!is_answer).then_some(self.n_calls);
        self.n_calls += usize::from(!is_answer);
        let n_blocks = self.blocks.len();
        self.block(json, || Block::Call { call_idx, id: id.clone(), name: name.clone(), input: String::new() })?;
        if self.blocks.len() == n_blocks {
            return Err(broken("a block begins twice"));
        }
        let delta =
            |call_idx| Delta::ToolCall { call_idx, id: Some(id), name: Some(name), arguments: String::new(), extra: Map::new() };
        Ok(call_idx.map(delta))
    }

    fn add(&mut self, json: &Value) -> Result<Option<Delta>, WireError> {
        let delta = &json["delta"];
        let piece = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (said, input, thought) = (piece(&delta["text"]), piece(&delta["toolUse"]["input"]), &delta["reasoningContent"]);
        let new = || match thought.is_object() {
            true => Block::Thought { text: String::new(), signature: String::new(), redacted: String::new() },
            false => Block::Text(String::new()),
        };
        Ok(match self.block(json, new)? {
            Block::Text(text) => {
                text.push_str(&said);
                Some(said).filter(|said| !said.is_empty()).map(Delta::Text)
            }
            Block::Call { call_idx, input: so_far, .. } => {
                so_far.push_str(&input);
                Some(match *call_idx {
                    Some(call_idx) => Delta::arguments(call_idx, input),
                    None => Delta::Text(input),
                })
            }
            Block::Thought { text, signature, redacted } => {
                let more = piece(&thought["text"]);
                text.push_str(&more);
                signature.push_str(&piece(&thought["signature"]));
                redacted.push_str(&piece(&thought["redactedContent"]));
                Some(more).filter(|more| !more.is_empty()).map(Delta::Reasoning)
            }
        })
    }

    /// Says `{}` for a call that ends without a word of input.
    fn close(&mut self, json: &Value) -> Option<Delta> {
        let block_idx = json["contentBlockIndex"].as_u64().and_then(|idx| usize::try_from(idx).ok())?;
        match self.blocks.get_mut(block_idx)? {
            Block::Call { call_idx: Some(call_idx), input, .. } if input.trim().is_empty() => {
                input.push_str("{}");
                Some(Delta::arguments(*call_idx, "{}"))
            }
            _ => None,
        }
    }
}

impl Block {
    /// As it would have come in one piece.
    fn json(self) -> Value {
        match self {
            Self::Text(text) => json!({ "text": text }),
            Self::Call { id, name, input, .. } => {
                // Text that is no JSON stays text, and is read as what the model wrote.
                let input = serde_json::from_str(&input).unwrap_or(Value::String(input));
                json!({"toolUse": {"toolUseId": id, "name": name, "input": input}})
            }
            Self::Thought { redacted, .. } if !redacted.is_empty() => {
                json!({"reasoningContent": {"redactedContent": redacted}})
            }
            Self::Thought { text, signature, .. } => {
                let mut thought = json!({ "text": text });
                if !signature.is_empty() {
                    thought["signature"] = signature.into();
                }
                json!({"reasoningContent": {"reasoningText": thought}})
            }
        }
    }
}

impl Assembler for Stream {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        let json: Value = serde_json::from_str(&event.data).map_err(|_| broken("an event of the stream is not JSON"))?;
        if let Some(refusal) = Refusal::read(&json, None) {
            return Err(WireError::Failed(refusal));
        }
        let delta = match event.kind.as_str() {
            "contentBlockStart" => self.open(&json)?,
            "contentBlockDelta" => self.add(&json)?,
            "contentBlockStop" => self.close(&json),
            "messageStop" => {
                self.stop_reason = json["stopReason"].clone();
                None
            }
            "metadata" => {
                self.usage = json["usage"].clone();
                self.is_done = !self.stop_reason.is_null();
                None
            }
            // The beginning, and kinds that are yet to be invented.
            _ => None,
        };
        Ok(delta.into_iter().collect())
    }

    fn usage(&self) -> Option<Usage> {
        usage(&self.usage)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self: Box<Self>) -> Result<Reply, WireError> {
        if self.stop_reason.is_null() {
            return Err(broken("the stream was cut off before messageStop"));
        }
        let content: Value = self.blocks.into_iter().map(Block::json).collect();
        let output = json!({"message": {"content": content}});
        reply(&json!({"output": output, "stopReason": self.stop_reason, "usage": self.usage}), self.answer_tool.as_deref())
    }
}
