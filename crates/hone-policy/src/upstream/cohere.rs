//! Cohere's second chat interface: `POST /chat`.
//!
//! Messages and tools have OpenAI's form, answers have their own: a list of parts, a plan before tools are called, and reasons
//! in capitals. The plan counts as a thought, and is sent again as it was. Usage is what is charged; what was read besides,
//! such as Cohere's own instructions, is not. The pieces of a stream say which call they belong to by a number that is shared
//! with pieces of text, so calls are counted here. A stream is complete with `message-end`.

use super::calling::Calling;
use super::openai;
use super::reply::{Delta, Draft, Finish, Refusal, Reply, Tokens, Usage, WireError, broken, shortened};
use super::request::{ChatRequest, RequestError, Transfer, add_extra, with_pictures_of_users};
use super::spec::UpstreamSpec;
use super::sse::Event;
use super::wire::Assembler;
use hone_trace::{Message, Role};
use serde_json::{Map, Value, json};

/// Where a message keeps the plan that its calls follow.
const PLAN: &str = "tool_plan";
/// The most calls of one answer.
const N_CALLS_MAX: usize = 256;

pub(super) fn body(spec: &UpstreamSpec, request: &ChatRequest, transfer: Transfer) -> Result<Map<String, Value>, RequestError> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.into(), value));
    put("model", spec.model.as_str().into());
    put("messages", with_pictures_of_users(&request.messages).iter().map(message).collect());
    if let Some(tokens_max) = request.tokens_max() {
        put("max_tokens", tokens_max.into());
    }
    put("stream", (transfer == Transfer::Stream).into());
    put("seed", (request.seed >> 33).into());
    if !request.tools.is_empty() {
        put("tools", request.tools.iter().map(openai::tool).collect());
        if let Some(choice) = request.calling.as_ref().and_then(Calling::cohere) {
            put("tool_choice", choice);
        }
    }
    if let Some(schema) = request.labelled_schema() {
        put("response_format", json!({"type": "json_object", "json_schema": schema}));
    }
    if let Some(temperature) = request.sampling.temperature {
        put("temperature", temperature.into());
    }
    if let Some(top_p) = request.sampling.top_p {
        put("p", top_p.into());
    }
    if !request.sampling.stops.is_empty() {
        put("stop_sequences", json!(request.sampling.stops));
    }
    add_extra(&mut body, &request.sampling.extra)?;
    Ok(body)
}

fn message(message: &Message) -> Value {
    let mut json = openai::message(message);
    json.remove("name");
    if message.role == Role::Developer {
        json.insert("role".into(), "system".into());
    }
    if json["content"].is_null() {
        json.remove("content");
    }
    if let Some(plan) = message.extra.get(PLAN) {
        json.insert(PLAN.into(), plan.clone());
    }
    Value::Object(json)
}

pub(super) fn reply(json: &Value) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    let message = json.get("message").filter(|message| message.is_object());
    let message = message.ok_or_else(|| broken("the answer has no message"))?;
    let finish = match json["finish_reason"].as_str() {
        None => return Err(broken("the answer has no finish reason")),
        Some("MAX_TOKENS") => Finish::Length,
        Some("TOOL_CALL") => Finish::ToolCalls,
        Some(reason @ ("ERROR" | "TIMEOUT")) => {
            let said = json["error_message"].as_str().unwrap_or("the answer failed");
            let status = if reason == "TIMEOUT" { 408 } else { 503 };
            return Err(WireError::Failed(Refusal {
                status,
                code: reason.into(),
                message: shortened(said),
                words: Box::default(),
            }));
        }
        Some("ERROR_TOXIC") => Finish::Filtered,
        Some(_) => Finish::Stop,
    };
    let mut draft = Draft::default();
    match &message["content"] {
        Value::String(text) => draft.text.push_str(text),
        parts => {
            for part in parts.as_array().into_iter().flatten() {
                draft.text.push_str(part["text"].as_str().unwrap_or_default());
                draft.reasoning.push_str(part["thinking"].as_str().unwrap_or_default());
            }
        }
    }
    if let Some(plan) = message[PLAN].as_str().filter(|plan| !plan.is_empty()) {
        draft.reasoning.push_str(plan);
        draft.extra.insert(PLAN.into(), plan.into());
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().unwrap_or_default().to_owned();
        draft.call(call["id"].as_str(), function["name"].as_str(), arguments)?;
    }
    Ok(draft.finish(finish, None, usage(&json["usage"]), Tokens::default()))
}

fn usage(usage: &Value) -> Option<Usage> {
    // Counts are numbers that may have a decimal point.
    let count = |value: &Value| value.as_f64().map(|count| count.max(0.0) as u64);
    let charged =
        ["billed_units", "tokens"].into_iter().map(|key| &usage[key]).find(|units| units["input_tokens"].is_number())?;
    let tokens_in = count(&charged["input_tokens"])?;
    Some(Usage {
        tokens_in,
        tokens_out: count(&charged["output_tokens"]).unwrap_or(0),
        tokens_cached: count(&usage["cached_tokens"]).unwrap_or(0).min(tokens_in),
        tokens_cache_written: 0,
        tokens_thought: 0,
    })
}

/// A stream on its way to the body that would have come in one piece.
#[derive(Debug, Default)]
pub(super) struct Stream {
    text: String,
    thoughts: String,
    plan: String,
    calls: Vec<Call>,
    /// What the last event says.
    end: Option<Value>,
}

#[derive(Debug)]
struct Call {
    /// The number that its pieces carry.
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Stream {
    fn open(&mut self, json: &Value) -> Result<Delta, WireError> {
        if self.calls.len() >= N_CALLS_MAX {
            return Err(broken(format!("an answer has more than {N_CALLS_MAX} calls")));
        }
        let call = &json["delta"]["message"]["tool_calls"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name) = (text(&call["id"]), text(&call["function"]["name"]));
        let arguments = text(&call["function"]["arguments"]);
        let call_idx = self.calls.len();
        let (arguments_now, extra) = (arguments.clone(), Map::new());
        let delta = Delta::ToolCall { call_idx, id: Some(id.clone()), name: Some(name.clone()), arguments: arguments_now, extra };
        self.calls.push(Call { index: json["index"].as_u64(), id, name, arguments });
        Ok(delta)
    }

    fn add(&mut self, json: &Value) -> Result<Delta, WireError> {
        let index = json["index"].as_u64();
        let call_idx = self.calls.iter().rposition(|call| call.index == index);
        let call_idx = call_idx.ok_or_else(|| broken("a piece came for a call that has not begun"))?;
        let arguments = &json["delta"]["message"]["tool_calls"]["function"]["arguments"];
        let arguments = arguments.as_str().unwrap_or_default().to_owned();
        self.calls[call_idx].arguments.push_str(&arguments);
        Ok(Delta::arguments(call_idx, arguments))
    }

    /// Says `{}` for calls that have ended without a word of arguments.
    fn fill(&mut self, has_ended: impl Fn(&Call) -> bool) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for (call_idx, call) in self.calls.iter_mut().enumerate() {
            if has_ended(call) && call.arguments.trim().is_empty() {
                call.arguments.push_str("{}");
                deltas.push(Delta::arguments(call_idx, "{}"));
            }
        }
        deltas
    }

    fn say(&mut self, content: &Value) -> Option<Delta> {
        let part = |key: &str| content[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        if let Some(thought) = part("thinking") {
            self.thoughts.push_str(&thought);
            return Some(Delta::Reasoning(thought));
        }
        let text = part("text")?;
        self.text.push_str(&text);
        Some(Delta::Text(text))
    }
}

impl Assembler for Stream {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        let json: Value = serde_json::from_str(&event.data).map_err(|_| broken("an event of the stream is not JSON"))?;
        if let Some(refusal) = Refusal::read(&json, None) {
            return Err(WireError::Failed(refusal));
        }
        let message = &json["delta"]["message"];
        let delta = match json["type"].as_str() {
            Some("content-start" | "content-delta") => self.say(&message["content"]),
            Some("tool-plan-delta") => {
                let plan = message[PLAN].as_str().unwrap_or_default();
                self.plan.push_str(plan);
                Some(Delta::Reasoning(plan.to_owned())).filter(|_| !plan.is_empty())
            }
            Some("tool-call-start") => Some(self.open(&json)?),
            Some("tool-call-delta") => Some(self.add(&json)?),
            Some("tool-call-end") => return Ok(self.fill(|call| call.index == json["index"].as_u64())),
            Some("message-end") => {
                self.end = Some(json["delta"].clone());
                return Ok(self.fill(|_| true));
            }
            // The beginning, the ends of other parts, and citations.
            Some(_) => None,
            None => return Err(broken("an event of the stream has no type")),
        };
        Ok(delta.into_iter().collect())
    }

    fn usage(&self) -> Option<Usage> {
        usage(&self.end.as_ref()?["usage"])
    }

    fn is_done(&self) -> bool {
        self.end.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Reply, WireError> {
        let end = self.end.ok_or_else(|| broken("the stream was cut off before message-end"))?;
        let call = |call: &Call| json!({"id": call.id, "function": {"name": call.name, "arguments": call.arguments}});
        let calls: Value = self.calls.iter().map(call).collect();
        let content = json!([{"thinking": self.thoughts}, {"text": self.text}]);
        let message = json!({"content": content, PLAN: self.plan, "tool_calls": calls});
        let (finish, usage, error) = (&end["finish_reason"], &end["usage"], &end["error"]);
        reply(&json!({"message": message, "finish_reason": finish, "usage": usage, "error_message": error}))
    }
}
