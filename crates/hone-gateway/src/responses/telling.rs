//! How an answer is told as a response: in one piece, or as events that are numbered.
//!
//! Every item of the output is told when it begins, in pieces, and once more when it is whole. The last event has all of it.

use crate::ask::Speaker;
use crate::error::Refused;
use crate::question::Asked;
use crate::responses::STORE;
use hone_policy::local::Piece;
use hone_policy::upstream::{Delta, Finish, Reply, Usage};
use hone_trace::{Message, Time};
use serde_json::{Map, Value, json};

/// Who tells answers in this format.
pub(crate) struct Responses {
    /// What the response says of the request, and its id.
    head: Map<String, Value>,
    id: String,
    items: Vec<Item>,
    n_events: u64,
}

/// An item of the output.
struct Item {
    kind: Kind,
    id: String,
    /// The text, or the arguments.
    said: String,
    is_open: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Call { call_idx: usize, id: String, name: String },
}

impl Item {
    fn new(kind: Kind, answer: &str, item_idx: usize) -> Self {
        let word = match kind {
            Kind::Text => "msg",
            Kind::Reasoning => "rs",
            Kind::Call { .. } => "fc",
        };
        Self { kind, id: format!("{word}_{answer}_{item_idx}"), said: String::new(), is_open: true }
    }

    fn json(&self, status: &str) -> Value {
        match &self.kind {
            Kind::Text => {
                let content = if status == "in_progress" { Vec::new() } else { vec![self.part()] };
                json!({"type": "message", "id": self.id, "status": status, "role": "assistant", "content": content})
            }
            Kind::Reasoning => {
                let content = if status == "in_progress" { Vec::new() } else { vec![self.part()] };
                json!({"type": "reasoning", "id": self.id, "status": status, "summary": [], "content": content})
            }
            Kind::Call { id, name, .. } => json!({"type": "function_call", "id": self.id, "status": status, "call_id": id,
                "name": name, "arguments": self.said}),
        }
    }

    fn part(&self) -> Value {
        match self.kind {
            Kind::Reasoning => json!({"type": "reasoning_text", "text": self.said}),
            _ => json!({"type": "output_text", "text": self.said, "annotations": [], "logprobs": []}),
        }
    }
}

impl Responses {
    pub(crate) fn new(id: String, created: Time, asked: &Asked) -> Self {
        let said =
            |name: &str, otherwise: Value| asked.body.get(name).filter(|value| !value.is_null()).cloned().unwrap_or(otherwise);
        let mut text = said("text", json!({}));
        if text["format"].is_null() {
            text["format"] = json!({"type": "text"});
        }
        let head = json!({
            "id": id,
            "object": "response",
            "created_at": created.unix_nanos().div_euclid(1_000_000_000),
            "model": asked.model,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": said("instructions", Value::Null),
            "max_output_tokens": said("max_output_tokens", Value::Null),
            "metadata": said("metadata", json!({})),
            "parallel_tool_calls": said("parallel_tool_calls", true.into()),
            "previous_response_id": said("previous_response_id", Value::Null),
            "reasoning": {"effort": asked.request.manner.and_then(|manner| manner.effort), "summary": null},
            "store": said(STORE, true.into()),
            "temperature": said("temperature", Value::Null),
            "text": text,
            "tool_choice": said("tool_choice", "auto".into()),
            "tools": said("tools", json!([])),
            "top_p": said("top_p", Value::Null),
            "truncation": "disabled",
            "user": said("user", Value::Null),
        });
        let head = head.as_object().cloned().unwrap_or_default();
        Self { head, id, items: Vec::new(), n_events: 0 }
    }

    /// The response with this output.
    fn body(&self, status: &str, output: Vec<Value>, usage: Value) -> Value {
        let mut body = self.head.clone();
        body.insert("status".into(), status.into());
        body.insert("output".into(), output.into());
        body.insert("usage".into(), usage);
        Value::Object(body)
    }

    /// The whole response, once it has ended.
    fn ended(&self, reply: &Reply, output: Vec<Value>) -> Value {
        let (status, reason) = status(reply.finish);
        let mut body = self.body(status, output, reply.usage.as_ref().map_or(Value::Null, usage));
        if let Some(reason) = reason {
            body["incomplete_details"] = json!({ "reason": reason });
        }
        body
    }

    fn event(&mut self, kind: &str, mut body: Value) -> String {
        body["type"] = kind.into();
        body["sequence_number"] = self.n_events.into();
        self.n_events += 1;
        format!("event: {kind}\ndata: {body}\n\n")
    }

    /// An event about an item.
    fn of_item(&mut self, kind: &str, item_idx: usize, mut body: Value) -> String {
        body["item_id"] = self.items[item_idx].id.as_str().into();
        body["output_index"] = item_idx.into();
        self.event(kind, body)
    }

    fn begin(&mut self) -> String {
        let body = self.body("in_progress", Vec::new(), Value::Null);
        self.event("response.created", json!({"response": body})) + &self.event("response.in_progress", json!({"response": body}))
    }

    /// The place of the item that a piece goes to, and what is told when it begins with it.
    fn open(&mut self, kind: Kind) -> (String, usize) {
        let is_it = |item: &Item| item.is_open && item.kind == kind;
        if let Some(item_idx) = self.items.iter().position(is_it) {
            return (String::new(), item_idx);
        }
        // A thought that is told late does not end what is said.
        let mut told = String::new();
        for item_idx in 0..self.items.len() {
            if kind != Kind::Reasoning {
                told += &self.close(item_idx, "completed");
            }
        }
        let (item_idx, has_parts) = (self.items.len(), kind == Kind::Text);
        let item = Item::new(kind, self.id.trim_start_matches("resp_"), item_idx);
        let (added, part) = (item.json("in_progress"), item.part());
        self.items.push(item);
        told += &self.event("response.output_item.added", json!({"output_index": item_idx, "item": added}));
        if has_parts {
            told += &self.of_item("response.content_part.added", item_idx, json!({"content_index": 0, "part": part}));
        }
        (told, item_idx)
    }

    /// Tells an item once more when it is whole.
    fn close(&mut self, item_idx: usize, status: &str) -> String {
        let item = &mut self.items[item_idx];
        if !std::mem::replace(&mut item.is_open, false) {
            return String::new();
        }
        let (whole, part, said) = (item.json(status), item.part(), item.said.clone());
        let told = match item.kind.clone() {
            Kind::Text => {
                let done = json!({"content_index": 0, "text": said, "logprobs": []});
                let told = self.of_item("response.output_text.done", item_idx, done);
                told + &self.of_item("response.content_part.done", item_idx, json!({"content_index": 0, "part": part}))
            }
            Kind::Reasoning => self.of_item("response.reasoning_text.done", item_idx, json!({"content_index": 0, "text": said})),
            Kind::Call { name, .. } => {
                let done = json!({"arguments": said, "name": name});
                self.of_item("response.function_call_arguments.done", item_idx, done)
            }
        };
        told + &self.event("response.output_item.done", json!({"output_index": item_idx, "item": whole}))
    }
}

impl Speaker for Responses {
    fn whole(&self, reply: &Reply) -> Value {
        let (status, _) = status(reply.finish);
        let answer = self.id.trim_start_matches("resp_");
        let output = items(&reply.message, answer).iter().map(|item| item.json(status)).collect();
        self.ended(reply, output)
    }

    fn piece(&mut self, piece: &Piece) -> String {
        let start = if self.n_events == 0 { self.begin() } else { String::new() };
        let (kind, event, said, mut body) = match &piece.delta {
            Delta::Text(text) if text.is_empty() => return start,
            Delta::Text(text) => (Kind::Text, "response.output_text.delta", text, json!({"content_index": 0, "logprobs": []})),
            Delta::Reasoning(text) => (Kind::Reasoning, "response.reasoning_text.delta", text, json!({"content_index": 0})),
            Delta::ToolCall { call_idx, id, name, arguments, .. } => {
                let is_it = |item: &&Item| matches!(&item.kind, Kind::Call { call_idx: idx, .. } if idx == call_idx);
                let known = self.items.iter().find(is_it);
                // A call that was told to its end does not begin again, for the space that some write after it least of all.
                if known.is_some_and(|item| !item.is_open) {
                    return start;
                }
                let (id, name) = (id.clone().unwrap_or_default(), name.clone().unwrap_or_default());
                let kind = known.map_or(Kind::Call { call_idx: *call_idx, id, name }, |item| item.kind.clone());
                (kind, "response.function_call_arguments.delta", arguments, json!({}))
            }
            // Nobody is asked in this format.
            Delta::Event(_) => return start,
        };
        let (begun, item_idx) = self.open(kind);
        self.items[item_idx].said.push_str(said);
        body["delta"] = said.as_str().into();
        let told = if said.is_empty() { String::new() } else { self.of_item(event, item_idx, body) };
        start + &begun + &told
    }

    fn end(&mut self, reply: &Reply) -> String {
        let mut told = if self.n_events == 0 { self.begin() } else { String::new() };
        let (status, reason) = status(reply.finish);
        for item_idx in 0..self.items.len() {
            told += &self.close(item_idx, status);
        }
        let output = self.items.iter().map(|item| item.json(status)).collect();
        let body = self.ended(reply, output);
        let last = if reason.is_some() { "response.incomplete" } else { "response.completed" };
        told + &self.event(last, json!({"response": body}))
    }

    fn failed(&mut self, refused: &Refused) -> String {
        let mut told = if self.n_events == 0 { self.begin() } else { String::new() };
        let said = refused.openai()["error"].clone();
        let (code, message) = (&said["code"], &said["message"]);
        told += &self.event("error", json!({"code": code, "message": message, "param": said["param"]}));
        let output = self.items.iter().map(|item| item.json("incomplete")).collect();
        let mut body = self.body("failed", output, Value::Null);
        body["error"] = json!({"code": code.as_str().unwrap_or("server_error"), "message": message});
        told + &self.event("response.failed", json!({"response": body}))
    }
}

/// The items of an answer that comes in one piece.
fn items(message: &Message, answer: &str) -> Vec<Item> {
    let text = message.content.text();
    let thought = message.reasoning.iter().map(|thought| (Kind::Reasoning, thought.clone()));
    let text = Some(text).filter(|text| !text.is_empty() || message.tool_calls.is_empty()).map(|text| (Kind::Text, text));
    let calls =
        message.tool_calls.iter().enumerate().map(|(call_idx, call)| {
            (Kind::Call { call_idx, id: call.id.clone(), name: call.name.clone() }, call.arguments.clone())
        });
    let all = thought.chain(text).chain(calls).enumerate();
    all.map(|(item_idx, (kind, said))| Item { said, ..Item::new(kind, answer, item_idx) }).collect()
}

/// What became of an answer, and why it is not complete where it is not.
fn status(finish: Finish) -> (&'static str, Option<&'static str>) {
    match finish {
        Finish::Stop | Finish::ToolCalls => ("completed", None),
        Finish::Length => ("incomplete", Some("max_output_tokens")),
        Finish::Filtered => ("incomplete", Some("content_filter")),
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.tokens_in,
        "input_tokens_details": {"cached_tokens": usage.tokens_cached},
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"reasoning_tokens": usage.tokens_thought},
        "total_tokens": usage.tokens_in + usage.tokens_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_has_ended_does_not_begin_again() {
        let asked = crate::responses::read(br#"{"model": "m", "input": "so?"}"#).expect("a question");
        let mut responses = Responses::new("resp_1".into(), Time::from_unix_nanos(0), &asked);
        let mut tell = |call_idx, id: Option<&str>, arguments: &str| {
            let (id, name) = (id.map(str::to_owned), id.map(|_| "f".to_owned()));
            let delta = Delta::ToolCall { call_idx, id, name, arguments: arguments.into(), extra: Map::new() };
            responses.piece(&Piece { choice_idx: 0, delta, tokens: Vec::new() })
        };
        let told =
            [(0, Some("a"), "{"), (0, None, "}"), (1, Some("b"), "{}")].map(|(idx, id, said)| tell(idx, id, said)).concat();
        assert_eq!(told.matches("event: response.output_item.added").count(), 2, "{told}");
        assert_eq!(tell(0, None, " "), "");
        assert_eq!(responses.items.iter().map(|item| item.said.as_str()).collect::<Vec<_>>(), ["{}", "{}"]);
    }
}
