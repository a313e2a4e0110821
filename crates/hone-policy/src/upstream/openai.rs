//! OpenAI's chat completions, which many servers speak: `POST /chat/completions`.
//!
//! Differences between servers are read leniently where nothing is lost (no id on a call, no arguments or an object of them, a call in
//! the older form, usage on a chunk without choices), strictly where half an answer could pass for a whole one: there is no answer without a finish
//! reason, and a stream without `[DONE]` is one only where every answer that was asked for has come to its finish reason. Token ids and
//! log-probs are read where vLLM tells them. Usage is read where it is told: Groq has a place of its own for it in streams, DeepSeek a word of its own for what was cached, and xAI does not count
//! thoughts among what was written.

use super::calling::{Calling, PARALLEL, TOOL_CHOICE};
use super::manner::{EFFORT, Manner, VERBOSITY};
use super::reply::{CallIds, Choice, Delta, Draft, Finish, Refusal, Reply, Tokens, Usage, WireError, broken, is_blank, is_whole};
use super::request::{ANSWER, ChatRequest, Label, RequestError, Transfer, add_extra, parameters, with_pictures_of_users};
use super::spec::UpstreamSpec;
use super::sse::Event;
use super::strict::is_strict;
use super::wire::Assembler;
use hone_trace::{Content, Message, Role, ToolSpec};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// What ends a stream.
pub(super) const DONE: &str = "[DONE]";
/// Where an answer in the older form has its one call.
const LEGACY: &str = "function_call";
/// The most calls of one answer.
const N_CALLS_MAX: usize = 256;
/// The most answers to one question.
const N_CHOICES_MAX: u64 = 1024;
const STRICT: &str = "strict";

pub(super) fn body(spec: &UpstreamSpec, request: &ChatRequest, transfer: Transfer) -> Result<Map<String, Value>, RequestError> {
    let provider = &spec.provider;
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.into(), value));
    put("model", spec.model.as_str().into());
    let messages = with_pictures_of_users(&request.messages);
    put("messages", messages.iter().map(|message| Value::Object(self::message(message))).collect());
    if let Some(tokens_max) = request.tokens_max() {
        put(provider.tokens_key, tokens_max.into());
    }
    if !request.tools.is_empty() {
        put("tools", request.tools.iter().map(own_tool).collect());
        if let Some(choice) = request.calling.as_ref().and_then(Calling::chat) {
            put(TOOL_CHOICE, choice);
        }
        if request.calling.as_ref().is_some_and(|calling| calling.is_single) {
            put(PARALLEL, false.into());
        }
    }
    if let Some(schema) = &request.schema {
        put("response_format", format(schema, &request.label));
    }
    let Manner { effort, verbosity } = request.manner.unwrap_or_default();
    for (name, said) in [(EFFORT, effort), (VERBOSITY, verbosity)] {
        said.into_iter().for_each(|said| put(name, said.into()));
    }
    if let Some(temperature) = request.sampling.temperature {
        put("temperature", temperature.into());
    }
    if let Some(top_p) = request.sampling.top_p {
        put("top_p", top_p.into());
    }
    if !request.sampling.stops.is_empty() {
        put("stop", json!(request.sampling.stops));
    }
    if let Some(seed_key) = provider.seed_key {
        // Some servers keep seeds in 32 bits with a sign.
        put(seed_key, (request.seed >> 33).into());
    }
    if request.sampling.token_ids {
        put("return_token_ids", true.into());
        put("logprobs", true.into());
    }
    if transfer == Transfer::Stream {
        put("stream", true.into());
        if provider.asks_usage {
            put("stream_options", json!({"include_usage": true}));
        }
    }
    add_extra(&mut body, &request.sampling.extra)?;
    Ok(body)
}

/// How an answer has to look. That it is an object, and no more, has a word of its own, which more servers know.
fn format(schema: &Value, label: &Label) -> Value {
    if *label == Label::default() && *schema == json!({"type": "object"}) {
        return json!({"type": "json_object"});
    }
    let (name, strict) = (label.name.as_deref().unwrap_or(ANSWER), label.strict.unwrap_or_else(|| is_strict(schema)));
    let mut named = json!({"name": name, "schema": schema, STRICT: strict});
    if let Some(description) = &label.description {
        named["description"] = description.as_str().into();
    }
    json!({"type": "json_schema", "json_schema": named})
}

pub(super) fn message(message: &Message) -> Map<String, Value> {
    let mut json = Map::new();
    json.insert("role".into(), json!(message.role));
    let content = match &message.content {
        Content::None if message.role == Role::Assistant && !message.tool_calls.is_empty() => Value::Null,
        Content::None => "".into(),
        Content::Text(text) => text.as_str().into(),
        Content::Parts(parts) => json!(parts),
    };
    json.insert("content".into(), content);
    if !message.tool_calls.is_empty() {
        let calls = message
            .tool_calls
            .iter()
            .map(|call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}));
        json.insert("tool_calls".into(), calls.collect());
    }
    if let Some(id) = &message.tool_call_id {
        json.insert("tool_call_id".into(), id.as_str().into());
    }
    if let (Some(name), Role::User) = (&message.name, message.role) {
        json.insert("name".into(), name.as_str().into());
    }
    json
}

pub(super) fn tool(tool: &ToolSpec) -> Value {
    let mut function = Map::new();
    function.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        function.insert("description".into(), description.as_str().into());
    }
    function.insert("parameters".into(), parameters(tool));
    json!({"type": "function", "function": function})
}

/// The same with what this format alone knows: whether calls must follow the schema, where somebody said so.
fn own_tool(spec: &ToolSpec) -> Value {
    let mut tool = tool(spec);
    if let Some(strict) = spec.extra.get(STRICT).filter(|strict| strict.is_boolean()) {
        tool["function"][STRICT] = strict.clone();
    }
    tool
}

/// Fills in what some servers leave out of their calls, so that what is told is what is read: ids, and `{}` where there are no arguments.
pub(super) fn mend(json: &mut Value, ids: CallIds, is_passed_on: bool) {
    let answer = json["id"].clone();
    for choice in json.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
        let is_cut = is_cut(&choice["finish_reason"]);
        let Some(message) = choice.get_mut("message").and_then(Value::as_object_mut) else { continue };
        if !is_passed_on {
            renew(message);
        }
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
        for (call_idx, call) in calls.filter_map(Value::as_object_mut).enumerate() {
            if is_blank(call.get("id")) {
                call.insert("id".into(), ids.id(&answer, call_idx).into());
            }
            let function = call.get_mut("function").and_then(Value::as_object_mut);
            if let Some(function) = function.filter(|function| !is_cut && is_blank(function.get("arguments"))) {
                function.insert("arguments".into(), "{}".into());
            }
        }
    }
}

/// Whether the answer ended where its tokens did: what was silent until then may have had more to say.
fn is_cut(finish: &Value) -> bool {
    matches!(finish.as_str(), Some("length" | "model_length"))
}

/// Writes a call of the older form in the newer one: who did not ask in the older form does not look for it.
fn renew(message: &mut Map<String, Value>) {
    if let Some(function) = message.remove(LEGACY).filter(Value::is_object) {
        let call = json!({"index": 0, "function": function});
        add_calls(message, [call]);
    }
}

fn add_calls(message: &mut Map<String, Value>, calls: impl IntoIterator<Item = Value>) {
    match message.get_mut("tool_calls") {
        Some(Value::Array(list)) => list.extend(calls),
        _ => drop(message.insert("tool_calls".into(), calls.into_iter().collect())),
    }
}

pub(super) fn reply(json: &Value) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    let mut choices: Vec<&Value> = json["choices"].as_array().into_iter().flatten().collect();
    choices.sort_by_key(|choice| choice["index"].as_u64());
    let (first, others) = choices.split_first().ok_or_else(|| broken("the answer has no choice"))?;
    let others = others.iter().map(|choice| answer(json, choice).map(Choice::from)).collect::<Result<_, _>>()?;
    Ok(Reply { others, ..answer(json, first)? })
}

/// One of the answers to a question.
fn answer(json: &Value, choice: &Value) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(choice, None) {
        return Err(WireError::Failed(refusal));
    }
    let message = choice.get("message").filter(|message| message.is_object());
    let message = message.ok_or_else(|| broken("the answer has no message"))?;
    let finish = match choice["finish_reason"].as_str() {
        None => return Err(broken("the answer has no finish reason")),
        Some("error") => return Err(broken("the provider says that the answer failed")),
        Some("length" | "model_length") => Finish::Length,
        Some("tool_calls" | "function_call") => Finish::ToolCalls,
        Some("content_filter") => Finish::Filtered,
        Some(_) => Finish::Stop,
    };
    let mut draft = Draft::default();
    content(&message["content"], &mut draft)?;
    for key in ["reasoning_content", "reasoning"] {
        if draft.reasoning.is_empty() {
            draft.reasoning.push_str(message[key].as_str().unwrap_or_default());
        }
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        draft.call(call["id"].as_str(), function["name"].as_str(), arguments(function))?;
    }
    if let Some(function) = message.get(LEGACY).filter(|function| function.is_object()) {
        let call = draft.call(None, function["name"].as_str(), arguments(function))?;
        // As such a call is read when it is sent again: it has no id.
        call.id.clear();
        call.extra.insert("hone.form".into(), LEGACY.into());
    }
    let refused = message["refusal"].as_str().filter(|text| !text.is_empty());
    let finish = refused.map_or(finish, |_| Finish::Filtered);
    if let Some(refused) = refused {
        draft.text.push_str(refused);
        draft.extra.insert("refusal".into(), refused.into());
    }
    Ok(draft.finish(finish, json["model"].as_str(), usage(&json["usage"]), tokens(json, choice)?))
}

/// The arguments of a call, which some servers send as an object.
fn arguments(function: &Value) -> String {
    match &function["arguments"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Text, or the parts in which some servers send text and thoughts.
fn content(content: &Value, draft: &mut Draft) -> Result<(), WireError> {
    match content {
        Value::Null => {}
        Value::String(text) => draft.text.push_str(text),
        Value::Array(parts) => {
            for part in parts {
                draft.text.push_str(part["text"].as_str().unwrap_or_default());
                draft.reasoning.push_str(part["thinking"].as_str().unwrap_or_default());
                for thought in part["thinking"].as_array().into_iter().flatten() {
                    draft.reasoning.push_str(thought["text"].as_str().unwrap_or_default());
                }
            }
        }
        _ => return Err(broken("the content of the answer is neither text nor a list of parts")),
    }
    Ok(())
}

pub(super) fn usage(usage: &Value) -> Option<Usage> {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let tokens_in = usage["prompt_tokens"].as_u64()?;
    let (written, thought) = (count(&usage["completion_tokens"]), count(&usage["completion_tokens_details"]["reasoning_tokens"]));
    let with_thoughts = written.saturating_add(thought);
    // The sum tells whether thoughts are among what was written.
    let is_apart = usage["total_tokens"].as_u64() == Some(tokens_in.saturating_add(with_thoughts));
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
    let tokens_out = if is_apart { with_thoughts } else { written };
    Some(Usage {
        tokens_in,
        tokens_out,
        tokens_cached: cached.unwrap_or_else(|| count(&usage["prompt_cache_hit_tokens"])).min(tokens_in),
        tokens_cache_written: 0,
        tokens_thought: thought.min(tokens_out),
    })
}

fn tokens(json: &Value, choice: &Value) -> Result<Tokens, WireError> {
    let prompt = json.get("prompt_token_ids").or_else(|| choice.get("prompt_token_ids")).unwrap_or(&Value::Null);
    let told = choice["logprobs"]["content"].clone();
    let logprobs = told.as_array().into_iter().flatten();
    let logprobs: Vec<f32> = logprobs.filter_map(|token| token["logprob"].as_f64()).map(|logprob| logprob as f32).collect();
    let ids = ids(&choice["token_ids"])?;
    if !ids.is_empty() && !logprobs.is_empty() && ids.len() != logprobs.len() {
        return Err(broken(format!("{} token ids came with {} log-probs", ids.len(), logprobs.len())));
    }
    Ok(Tokens { prompt_ids: self::ids(prompt)?, ids, logprobs, told })
}

fn ids(list: &Value) -> Result<Vec<u32>, WireError> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = list.as_array().into_iter().flatten().map(id).collect();
    ids.ok_or_else(|| broken("a token id is not a number"))
}

/// A stream on its way to the body that would have come in one piece.
#[derive(Debug)]
pub(super) struct Stream {
    ids: CallIds,
    is_passed_on: bool,
    /// The last event, where something was filled in.
    mended: Option<String>,
    /// What the provider calls the answer.
    id: Value,
    model: Value,
    usage: Value,
    prompt_ids: Value,
    choices: BTreeMap<u64, Part>,
    /// How many answers were asked for.
    n_asked: u64,
    is_done: bool,
}

/// One of the answers.
#[derive(Debug, Default)]
struct Part {
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Call>,
    /// The call of the older form.
    legacy: Option<Call>,
    /// What was not told yet.
    waiting: VecDeque<Delta>,
    /// The call that is being told.
    open_idx: Option<usize>,
    /// Whether no more pieces come.
    has_ended: bool,
    finish: Value,
    prompt_ids: Value,
    token_ids: Vec<Value>,
    logprobs: Vec<Value>,
}

#[derive(Debug, Default)]
struct Call {
    /// What the server counts it as.
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl Call {
    /// Whether it has said all that it is called with. Most pieces end in the middle, and are not read for that.
    fn is_whole(&self) -> bool {
        self.arguments.trim_end().ends_with('}') && is_whole(&self.arguments)
    }
}

impl Part {
    /// Takes a piece of a call, and gives it the id that it lacks.
    fn call(&mut self, json: &mut Value, made: impl Fn(usize) -> String) -> Result<Delta, WireError> {
        // Servers that leave the index out send whole calls.
        let n_calls = self.calls.len() as u64;
        let index = json["index"].as_u64().unwrap_or(n_calls);
        let call_idx = self.known_idx(json, index).unwrap_or(self.calls.len());
        if index > n_calls || call_idx >= N_CALLS_MAX {
            return Err(broken(format!("a piece of tool call {index} came when there were {n_calls}")));
        }
        if call_idx == self.calls.len() {
            self.calls.push(Call { index, ..Call::default() });
        }
        if json["index"].is_u64() {
            json["index"] = call_idx.into();
        }
        let call = &mut self.calls[call_idx];
        let begins = call.id.is_empty();
        if begins && is_blank(json.get("id")) && json.is_object() {
            json["id"] = made(call_idx).into();
        }
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        // Some servers say them again and again: the first ones count.
        let (id, name) = (text(&json["id"]).filter(|_| begins), text(&json["function"]["name"]).filter(|_| call.name.is_empty()));
        let arguments = arguments(&json["function"]);
        if begins {
            call.id = id.clone().unwrap_or_default();
        }
        if call.name.is_empty() {
            call.name = name.clone().unwrap_or_default();
        }
        call.arguments.push_str(&arguments);
        Ok(Delta::ToolCall { call_idx, id, name, arguments, extra: Map::new() })
    }

    /// The call that a piece belongs to: the last of its index, unless it begins another. Some servers count every call as the first.
    fn known_idx(&self, json: &Value, index: u64) -> Option<usize> {
        let id = json["id"].as_str().unwrap_or_default();
        let mut own = (0..self.calls.len()).rev().filter(|call_idx| self.calls[*call_idx].index == index);
        let same_idx = own.clone().find(|call_idx| self.calls[*call_idx].id == id);
        let last_idx = own.next()?;
        let names_another = !id.is_empty() && !is_blank(json["function"].get("name"));
        same_idx.or_else(|| (!names_another || !self.calls[last_idx].is_whole()).then_some(last_idx))
    }

    /// Says `{}` for calls that have ended without a word of arguments, unless they were cut off.
    fn fill(&mut self, choice: &mut Value) -> Vec<Delta> {
        if is_cut(&self.finish) {
            return Vec::new();
        }
        let mut silent = Vec::new();
        for (call_idx, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| call.arguments.trim().is_empty()) {
            call.arguments.push_str("{}");
            silent.push(call_idx);
        }
        if let (false, Some(choice)) = (silent.is_empty(), choice.as_object_mut()) {
            let delta = choice.entry("delta").or_insert(Value::Null);
            if delta.is_null() {
                *delta = json!({});
            }
            let pieces = silent.iter().map(|call_idx| json!({"index": call_idx, "function": {"arguments": "{}"}}));
            delta.as_object_mut().into_iter().for_each(|delta| add_calls(delta, pieces.clone()));
        }
        silent.into_iter().map(|call_idx| Delta::arguments(call_idx, "{}")).collect()
    }

    /// What may be told by now. Some are told one call after the other, and a call that has ended does not begin again: what comes
    /// beside a call waits until that has said all, or until no more comes.
    fn released(&mut self) -> Vec<Delta> {
        let mut told = Vec::new();
        while let Some(delta) = self.next_idx().and_then(|idx| self.waiting.remove(idx)) {
            if let Delta::ToolCall { call_idx, .. } = &delta {
                self.open_idx = Some(*call_idx);
            }
            told.push(delta);
        }
        told
    }

    /// The place of what is told next among what waits.
    fn next_idx(&mut self) -> Option<usize> {
        let Some(open_idx) = self.open_idx.filter(|_| !self.waiting.is_empty()) else { return Some(0) };
        let is_of_it = |delta: &Delta| matches!(delta, Delta::ToolCall { call_idx, .. } if *call_idx == open_idx);
        let next_idx = self.waiting.iter().position(is_of_it);
        if next_idx.is_none() && (self.has_ended || self.calls[open_idx].is_whole()) {
            self.open_idx = None;
            return Some(0);
        }
        next_idx
    }

    /// What is left to be told at the end.
    fn rest(&mut self) -> Vec<Delta> {
        let filled = self.fill(&mut Value::Null);
        self.waiting.extend(filled);
        self.has_ended = true;
        self.released()
    }

    fn push(&mut self, choice: &mut Value, made: impl Fn(usize) -> String) -> Result<Vec<Delta>, WireError> {
        keep(&mut self.finish, &choice["finish_reason"]);
        keep(&mut self.prompt_ids, &choice["prompt_token_ids"]);
        self.token_ids.extend(choice["token_ids"].as_array().into_iter().flatten().cloned());
        self.logprobs.extend(choice["logprobs"]["content"].as_array().into_iter().flatten().cloned());
        let delta = &choice["delta"];
        let mut piece = Draft::default();
        content(&delta["content"], &mut piece)?;
        let thought = ["reasoning_content", "reasoning"].into_iter().find_map(|key| delta[key].as_str());
        piece.reasoning.push_str(thought.unwrap_or_default());
        let refusal = delta["refusal"].as_str().unwrap_or_default();
        self.refusal.push_str(refusal);
        if let Some(function) = delta.get(LEGACY).filter(|function| function.is_object()) {
            let call = self.legacy.get_or_insert_default();
            call.name.push_str(function["name"].as_str().unwrap_or_default());
            call.arguments.push_str(&arguments(function));
        }
        if !piece.reasoning.is_empty() {
            self.reasoning.push_str(&piece.reasoning);
            self.waiting.push_back(Delta::Reasoning(piece.reasoning));
        }
        self.text.push_str(&piece.text);
        piece.text.push_str(refusal);
        if !piece.text.is_empty() {
            self.waiting.push_back(Delta::Text(piece.text));
        }
        let calls = choice.pointer_mut("/delta/tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            let told = self.call(call, &made)?;
            self.waiting.push_back(told);
        }
        // Some servers say "" until they have a reason.
        if self.finish.as_str().is_some_and(|reason| !reason.is_empty()) {
            let filled = self.fill(choice);
            self.waiting.extend(filled);
            self.has_ended = true;
        }
        Ok(self.released())
    }

    fn json(&self, index: u64) -> Value {
        let calls =
            self.calls.iter().map(|call| json!({"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}));
        let legacy = self.legacy.as_ref().map(|call| json!({"name": call.name, "arguments": call.arguments}));
        let message = json!({"content": self.text, "reasoning_content": self.reasoning, "refusal": self.refusal,
            "tool_calls": calls.collect::<Value>(), LEGACY: legacy});
        let logprobs = if self.logprobs.is_empty() { Value::Null } else { json!({"content": self.logprobs}) };
        json!({"index": index, "message": message, "finish_reason": self.finish, "prompt_token_ids": self.prompt_ids,
            "token_ids": self.token_ids, "logprobs": logprobs})
    }
}

/// Keeps what was told last.
fn keep(old: &mut Value, new: &Value) {
    if !new.is_null() {
        *old = new.clone();
    }
}

impl Stream {
    pub(super) fn new(ids: CallIds, is_passed_on: bool, n_asked: u64) -> Self {
        let (id, model, usage, prompt_ids) = (Value::Null, Value::Null, Value::Null, Value::Null);
        let choices = BTreeMap::new();
        Self { ids, is_passed_on, mended: None, id, model, usage, prompt_ids, choices, n_asked, is_done: false }
    }

    /// Whether every answer has said why it ended. Some servers leave it at that.
    fn has_ended(&self) -> bool {
        self.choices.len() as u64 >= self.n_asked && self.choices.values().all(|part| part.has_ended)
    }
}

impl Assembler for Stream {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        if self.is_done {
            return Err(broken("the stream goes on after [DONE]"));
        }
        if event.data.trim() == DONE {
            self.is_done = true;
            return Ok(self.choices.get_mut(&0).map(Part::rest).unwrap_or_default());
        }
        let came: Value = serde_json::from_str(&event.data).map_err(|_| broken("an event of the stream is not JSON"))?;
        let mut json = came.clone();
        if let Some(refusal) = Refusal::read(&json, None) {
            return Err(WireError::Failed(refusal));
        }
        if self.id.is_null() {
            self.id = json["id"].clone();
        }
        keep(&mut self.model, &json["model"]);
        keep(&mut self.usage, &json["x_groq"]["usage"]);
        keep(&mut self.usage, &json["usage"]);
        keep(&mut self.prompt_ids, &json["prompt_token_ids"]);
        let mut deltas = Vec::new();
        for choice in json.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
            if let (false, Some(Value::Object(delta))) = (self.is_passed_on, choice.get_mut("delta")) {
                renew(delta);
            }
            let index = choice["index"].as_u64().unwrap_or(0);
            if index >= N_CHOICES_MAX {
                return Err(broken(format!("there is a choice {index}")));
            }
            let made = |call_idx| self.ids.id(&self.id, call_idx);
            let told = self.choices.entry(index).or_default().push(choice, made)?;
            // Where several answers were asked for, the first is the one that is told.
            if index == 0 {
                deltas.extend(told);
            }
        }
        self.mended = (json != came).then(|| json.to_string());
        Ok(deltas)
    }

    fn passed_on(&self, event: &Event) -> String {
        self.mended.clone().unwrap_or_else(|| event.data.clone())
    }

    fn usage(&self) -> Option<Usage> {
        usage(&self.usage)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self: Box<Self>) -> Result<Reply, WireError> {
        if !self.is_done && !self.has_ended() {
            return Err(broken("the stream was cut off before its finish reason and [DONE]"));
        }
        let mut choices: Vec<Value> = self.choices.iter().map(|(index, part)| part.json(*index)).collect();
        if choices.is_empty() {
            choices.push(Part::default().json(0));
        }
        let prompt_ids = if self.prompt_ids.is_null() { choices[0]["prompt_token_ids"].take() } else { self.prompt_ids };
        reply(&json!({"model": self.model, "usage": self.usage, "prompt_token_ids": prompt_ids, "choices": choices}))
    }
}
