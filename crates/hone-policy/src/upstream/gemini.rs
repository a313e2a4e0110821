//! Gemini's `POST /models/MODEL:generateContent` and `:streamGenerateContent?alt=sse`.
//!
//! Instructions stand beside the conversation, the model is called `model`, a tool result names its tool and not its call.
//! Every event of a stream has the form of a whole answer; the stream is complete when one has told the finish reason.
//! Signatures of thoughts are kept with the calls that they came with, and sent again. Calls have no ids here, and get some.

use super::calling::Calling;
use super::reply::{CallIds, Delta, Draft, Finish, Refusal, Reply, Tokens, Usage, WireError, broken, is_blank};
use super::request::{ChatRequest, Part, RequestError, add_extra, arguments, in_turns, parameters, parts};
use super::spec::UpstreamSpec;
use super::sse::Event;
use super::wire::Assembler;
use hone_trace::{Message, Role, ToolSpec};
use serde_json::{Map, Value, json};

/// Where a call keeps the signature of the thought before it.
const SIGNATURE: &str = "thought_signature";
/// What stands for it where there is none: the call was another model's, or a client sent it back without. Newer models refuse a first call
/// of an answer that is not signed, and take this word instead; older ones look at neither.
const UNSIGNED: &str = "skip_thought_signature_validator";

pub(super) fn body(spec: &UpstreamSpec, request: &ChatRequest) -> Result<Map<String, Value>, RequestError> {
    let mut body = Map::new();
    let is_standing = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let system = request.messages.iter().filter(is_standing).map(|message| json!({"text": message.content.text()}));
    let system: Vec<Value> = system.collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    body.insert("contents".into(), contents(&request.messages)?.into());
    if !request.tools.is_empty() {
        let declarations: Value = request.tools.iter().map(tool).collect();
        body.insert("tools".into(), json!([{"functionDeclarations": declarations}]));
        body.extend(request.calling.as_ref().and_then(Calling::gemini).map(|config| ("toolConfig".to_owned(), config)));
    }
    let mut generation = Map::new();
    let mut put = |name: &str, value: Value| drop(generation.insert(name.into(), value));
    if let Some(tokens_max) = request.tokens_max() {
        put("maxOutputTokens", tokens_max.into());
    }
    // 32 bits with a sign.
    put("seed", (request.seed >> 33).into());
    if let Some(temperature) = request.sampling.temperature {
        put("temperature", temperature.into());
    }
    if let Some(top_p) = request.sampling.top_p {
        put("topP", top_p.into());
    }
    if let Some(thinking) = request.manner.and_then(|manner| manner.gemini(&spec.model)) {
        put("thinkingConfig", thinking);
    }
    if !request.sampling.stops.is_empty() {
        put("stopSequences", json!(request.sampling.stops));
    }
    if let Some(schema) = request.labelled_schema() {
        put("responseMimeType", "application/json".into());
        put("responseJsonSchema", schema);
    }
    let mut extra = request.sampling.extra.clone();
    // Most parameters belong here; the caller names the table as the provider does.
    if let Some(Value::Object(own)) = extra.remove("generationConfig") {
        add_extra(&mut generation, &own)?;
    }
    body.insert("generationConfig".into(), generation.into());
    add_extra(&mut body, &extra)?;
    Ok(body)
}

fn contents(messages: &[Message]) -> Result<Vec<Value>, RequestError> {
    in_turns(messages, "model", "parts", |message_idx, message| match message.role {
        Role::Tool => tool_result(message, &messages[..message_idx]),
        Role::Assistant => said(message),
        _ => plain(message),
    })
}

fn said(message: &Message) -> Result<Vec<Value>, RequestError> {
    let mut parts = plain(message)?;
    for (call_idx, call) in message.tool_calls.iter().enumerate() {
        let mut part = json!({"functionCall": {"name": call.name, "args": arguments(&call.arguments)}});
        let signature = call.extra.get(SIGNATURE).cloned();
        if let Some(signature) = signature.or_else(|| (call_idx == 0).then(|| UNSIGNED.into())) {
            part["thoughtSignature"] = signature;
        }
        parts.push(part);
    }
    Ok(parts)
}

/// What a tool gave: its texts as the result, and behind it what it showed.
fn tool_result(message: &Message, before: &[Message]) -> Result<Vec<Value>, RequestError> {
    let id = message.tool_call_id.as_deref();
    let mut calls = before.iter().rev().flat_map(|message| &message.tool_calls);
    let asked = calls.find(|call| Some(call.id.as_str()) == id).map(|call| call.name.as_str());
    let name = asked.or(message.name.as_deref()).unwrap_or_default();
    let result = json!({"functionResponse": {"name": name, "response": {"result": message.content.text()}}});
    let shown = plain(message)?.into_iter().filter(|part| part.get("text").is_none());
    Ok(std::iter::once(result).chain(shown).collect())
}

fn plain(message: &Message) -> Result<Vec<Value>, RequestError> {
    let part = |part| match part {
        Part::Text(text) => Ok(json!({"text": text})),
        Part::Data { media_type, base64 } => Ok(json!({"inlineData": {"mimeType": media_type, "data": base64}})),
        Part::Link(url) => Ok(json!({"fileData": {"fileUri": url}})),
        Part::Other(value) => Err(RequestError(format!("a part of type {} cannot be sent to this provider", value["type"]))),
    };
    parts(&message.content).into_iter().map(part).collect()
}

fn tool(tool: &ToolSpec) -> Value {
    let mut json = Map::new();
    json.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        json.insert("description".into(), description.as_str().into());
    }
    json.insert("parametersJsonSchema".into(), parameters(tool));
    Value::Object(json)
}

pub(super) fn reply(json: &Value, ids: CallIds) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    if let Some(reason) = json["promptFeedback"]["blockReason"].as_str() {
        let message = format!("the prompt was blocked: {reason}");
        return Err(WireError::Failed(Refusal { status: 400, code: reason.to_owned(), message, words: Box::default() }));
    }
    let candidate = json["candidates"].get(0).ok_or_else(|| broken("the answer has no candidate"))?;
    let mut draft = Draft::default();
    let finish = match candidate["finishReason"].as_str() {
        None => return Err(broken("the answer has no finish reason")),
        Some("MAX_TOKENS") => Finish::Length,
        Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS")) => {
            let said = candidate["finishMessage"].as_str().unwrap_or(reason);
            draft.broken.push(super::reply::shortened(said));
            Finish::Stop
        }
        Some("STOP" | "OTHER" | "FINISH_REASON_UNSPECIFIED") => Finish::Stop,
        Some(_) => Finish::Filtered,
    };
    for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
        let text = part["text"].as_str().unwrap_or_default();
        if part["thought"] == true {
            draft.reasoning.push_str(text);
        } else {
            draft.text.push_str(text);
        }
        if let Some(call) = part.get("functionCall") {
            let id = id(call, ids, &json["responseId"], draft.calls.len());
            let added = draft.call(Some(&id), call["name"].as_str(), args(call))?;
            added.extra.extend(signature(part));
        }
    }
    Ok(draft.finish(finish, json["modelVersion"].as_str(), usage(&json["usageMetadata"]), Tokens::default()))
}

/// The signature that came with a call, under the name that the call keeps it under.
fn signature(part: &Value) -> Option<(String, Value)> {
    Some((SIGNATURE.to_owned(), part.get("thoughtSignature")?.clone()))
}

/// The id of a call: its own, where it has one after all.
fn id(call: &Value, ids: CallIds, answer: &Value, call_idx: usize) -> String {
    call["id"].as_str().filter(|id| !id.is_empty()).map_or_else(|| ids.id(answer, call_idx), str::to_owned)
}

fn args(call: &Value) -> String {
    if is_blank(call.get("args")) { "{}".to_owned() } else { call["args"].to_string() }
}

fn usage(usage: &Value) -> Option<Usage> {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    let prompt = usage["promptTokenCount"].as_u64()?;
    Some(Usage {
        tokens_in: prompt.saturating_add(count("toolUsePromptTokenCount")),
        tokens_out: count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount")),
        tokens_cached: count("cachedContentTokenCount").min(prompt),
        tokens_cache_written: 0,
        tokens_thought: count("thoughtsTokenCount"),
    })
}

/// A stream on its way to the body that would have come in one piece.
#[derive(Debug)]
pub(super) struct Stream {
    ids: CallIds,
    /// What the provider calls the answer.
    id: Value,
    model: Value,
    usage: Value,
    feedback: Value,
    parts: Vec<Value>,
    finish: Value,
    finish_message: Value,
    n_calls: usize,
}

impl Stream {
    pub(super) fn new(ids: CallIds) -> Self {
        Self {
            ids,
            id: Value::Null,
            model: Value::Null,
            usage: Value::Null,
            feedback: Value::Null,
            parts: Vec::new(),
            finish: Value::Null,
            finish_message: Value::Null,
            n_calls: 0,
        }
    }
}

impl Assembler for Stream {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        let json: Value = serde_json::from_str(&event.data).map_err(|_| broken("an event of the stream is not JSON"))?;
        if let Some(refusal) = Refusal::read(&json, None) {
            return Err(WireError::Failed(refusal));
        }
        let keep = |old: &mut Value, new: &Value| {
            if !new.is_null() {
                *old = new.clone();
            }
        };
        if self.id.is_null() {
            self.id = json["responseId"].clone();
        }
        keep(&mut self.model, &json["modelVersion"]);
        keep(&mut self.usage, &json["usageMetadata"]);
        keep(&mut self.feedback, &json["promptFeedback"]);
        let candidate = &json["candidates"][0];
        keep(&mut self.finish, &candidate["finishReason"]);
        keep(&mut self.finish_message, &candidate["finishMessage"]);
        let mut deltas = Vec::new();
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let mut part = part.clone();
            let extra = signature(&part).into_iter().collect();
            match part["text"].as_str().filter(|text| !text.is_empty()) {
                Some(text) if part["thought"] == true => deltas.push(Delta::Reasoning(text.to_owned())),
                Some(text) => deltas.push(Delta::Text(text.to_owned())),
                None => {}
            }
            if let Some(call) = part.get_mut("functionCall").filter(|call| call.is_object()) {
                let (name, arguments) = (call["name"].as_str().map(str::to_owned), args(call));
                let id = id(call, self.ids, &self.id, self.n_calls);
                // The whole answer has the id that was told here.
                call["id"] = id.as_str().into();
                deltas.push(Delta::ToolCall { call_idx: self.n_calls, id: Some(id), name, arguments, extra });
                self.n_calls += 1;
            }
            self.parts.push(part);
        }
        Ok(deltas)
    }

    fn usage(&self) -> Option<Usage> {
        usage(&self.usage)
    }

    /// The usage may follow the finish reason, so only the end of the stream ends it.
    fn is_done(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Reply, WireError> {
        let is_blocked = self.feedback["blockReason"].is_string();
        if self.finish.is_null() && !is_blocked {
            return Err(broken("the stream was cut off before its finish reason"));
        }
        let candidate =
            json!({"content": {"parts": self.parts}, "finishReason": self.finish, "finishMessage": self.finish_message});
        let json = json!({"modelVersion": self.model, "usageMetadata": self.usage, "promptFeedback": self.feedback,
            "candidates": [candidate]});
        reply(&json, self.ids)
    }
}
