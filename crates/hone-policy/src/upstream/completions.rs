//! OpenAI's completions of plain texts, as their servers still speak them: `POST /completions`.
//!
//! They are only ever passed on: a body comes in this format and goes out in it. What comes back is read for the record. Several
//! prompts, or several answers to one, come as choices with numbers. As in chats there is no answer without a finish reason, and a
//! stream may end without `[DONE]` only where every one of them has it.

use super::openai::{DONE, usage};
use super::reply::{Choice, Delta, Draft, Finish, Refusal, Reply, Tokens, Usage, WireError, broken};
use super::sse::Event;
use super::wire::Assembler;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The most choices of one stream.
const N_CHOICES_MAX: u64 = 4096;

pub(super) fn reply(json: &Value) -> Result<Reply, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    let mut choices: Vec<&Value> = json["choices"].as_array().into_iter().flatten().collect();
    choices.sort_by_key(|choice| choice["index"].as_u64());
    let mut read = choices.into_iter().map(choice);
    let first = read.next().ok_or_else(|| broken("the answer has no choice"))??;
    let others = read.collect::<Result<Vec<Choice>, WireError>>()?;
    let draft = Draft { text: first.message.content.text(), ..Draft::default() };
    Ok(Reply { others, ..draft.finish(first.finish, json["model"].as_str(), usage(&json["usage"]), first.tokens) })
}

fn choice(choice: &Value) -> Result<Choice, WireError> {
    let text = choice["text"].as_str().ok_or_else(|| broken("a choice has no text"))?;
    let finish = match choice["finish_reason"].as_str() {
        None => return Err(broken("the answer has no finish reason")),
        Some("length") => Finish::Length,
        Some("content_filter") => Finish::Filtered,
        Some(_) => Finish::Stop,
    };
    let tokens = Tokens { told: choice["logprobs"].clone(), ..Tokens::default() };
    let draft = Draft { text: text.to_owned(), ..Draft::default() };
    Ok(Choice::from(draft.finish(finish, None, None, tokens)))
}

/// A stream on its way to the body that would have come in one piece.
#[derive(Debug)]
pub(super) struct Stream {
    model: Value,
    usage: Value,
    choices: BTreeMap<u64, Part>,
    /// How many answers were asked for.
    n_asked: u64,
    is_done: bool,
}

impl Stream {
    pub(super) fn new(n_asked: u64) -> Self {
        Self { model: Value::Null, usage: Value::Null, choices: BTreeMap::new(), n_asked, is_done: false }
    }

    /// Whether every answer has said why it ended.
    fn has_ended(&self) -> bool {
        self.choices.len() as u64 >= self.n_asked && self.choices.values().all(|part| part.finish.is_string())
    }
}

#[derive(Debug, Default)]
struct Part {
    text: String,
    /// Lists under the names that the format has for them.
    logprobs: Map<String, Value>,
    finish: Value,
}

impl Part {
    fn push(&mut self, choice: &Value) {
        self.text.push_str(choice["text"].as_str().unwrap_or_default());
        if !choice["finish_reason"].is_null() {
            self.finish = choice["finish_reason"].clone();
        }
        for (name, list) in choice["logprobs"].as_object().into_iter().flatten() {
            let all = self.logprobs.entry(name.clone()).or_insert_with(|| json!([]));
            if let (Value::Array(all), Value::Array(list)) = (all, list) {
                all.extend(list.iter().cloned());
            }
        }
    }
}

impl Assembler for Stream {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        if self.is_done {
            return Err(broken("the stream goes on after [DONE]"));
        }
        if event.data.trim() == DONE {
            self.is_done = true;
            return Ok(Vec::new());
        }
        let json: Value = serde_json::from_str(&event.data).map_err(|_| broken("an event of the stream is not JSON"))?;
        if let Some(refusal) = Refusal::read(&json, None) {
            return Err(WireError::Failed(refusal));
        }
        for (place, told) in [(&mut self.model, &json["model"]), (&mut self.usage, &json["usage"])] {
            if !told.is_null() {
                *place = told.clone();
            }
        }
        let mut deltas = Vec::new();
        for choice in json["choices"].as_array().into_iter().flatten() {
            let index = choice["index"].as_u64().unwrap_or(0);
            if index >= N_CHOICES_MAX {
                return Err(broken(format!("there is a choice {index}")));
            }
            self.choices.entry(index).or_default().push(choice);
            if let (0, Some(text)) = (index, choice["text"].as_str()) {
                deltas.push(Delta::Text(text.to_owned()));
            }
        }
        Ok(deltas)
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
        let choice = |(index, part): (&u64, &Part)| {
            let logprobs = if part.logprobs.is_empty() { Value::Null } else { Value::Object(part.logprobs.clone()) };
            json!({"index": index, "text": part.text, "finish_reason": part.finish, "logprobs": logprobs})
        };
        let choices: Vec<Value> = self.choices.iter().map(choice).collect();
        reply(&json!({"model": self.model, "usage": self.usage, "choices": choices}))
    }
}
