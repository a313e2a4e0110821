//! A choice: the answer of a trainable turn.
//!
//! | wire | word |
//! |---|---|
//! | `message` | the answer |
//! | `token_ids`, else tokens of the form `token_id:17` in `logprobs.content` | the sampled ids; `hone.ids` says which |
//! | `logprobs.content[].logprob`, one for each id | the log-probs, in 32 bits |
//! | everything else (`finish_reason`, `index` …) | the turn's `extra["hone.choice"]` |
//!
//! What is left of the entries of `logprobs.content` is held once if it is the same for all. A log-prob that
//! needs more than 32 bits stays there too, so that nothing is lost.

use crate::format::chat;
use crate::{Message, Sampled, Turn};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

pub(super) const NOTE: &str = "hone.choice";
const IDS: &str = "hone.ids";

/// The turn of a choice, from its message and its other keys.
pub(super) fn turn(input: Vec<Message>, answer: Message, mut rest: Map<String, Value>) -> Turn {
    let mut turn = Turn::new(input, answer);
    if let Some((sampled, source)) = sampled(&mut rest) {
        turn.sampled = Some(sampled);
        turn.extra.insert(IDS.to_owned(), source.into());
    }
    turn.extra.insert(NOTE.to_owned(), Value::Object(rest));
    turn
}

/// Takes ids and log-probs out of a choice, and says where the ids were.
fn sampled(rest: &mut Map<String, Value>) -> Option<(Sampled, &'static str)> {
    let content = rest.get("logprobs").and_then(|logprobs| logprobs.get("content")?.as_array());
    let listed = rest.get("token_ids").and_then(Value::as_array).filter(|ids| !ids.is_empty());
    let (ids, source) = match listed {
        Some(ids) => (ids.iter().map(id).collect::<Option<Vec<u32>>>()?, "token_ids"),
        None => {
            let content = content.filter(|content| !content.is_empty())?;
            (content.iter().map(id_of_token).collect::<Option<Vec<u32>>>()?, "tokens")
        }
    };
    let logprobs = content.filter(|content| content.len() == ids.len()).and_then(|content| {
        let values = content.iter().map(|entry| finite32(entry.as_object()?.get("logprob")?));
        values.collect::<Option<Vec<f32>>>()
    });
    if source == "tokens" && logprobs.is_none() {
        return None;
    }
    let logprobs = logprobs.unwrap_or_default();
    if source == "token_ids" {
        rest.remove("token_ids");
    }
    if !logprobs.is_empty() {
        let content = rest.get_mut("logprobs").and_then(|logprobs| logprobs.get_mut("content"))?;
        strip(content, &logprobs, source);
    }
    Some((Sampled { ids, logprobs, ..Sampled::default() }, source))
}

/// Takes out of each entry what is told elsewhere, and folds equal leftovers into one.
fn strip(content: &mut Value, logprobs: &[f32], source: &str) {
    let Some(entries) = content.as_array_mut() else { return };
    for (entry, &logprob) in entries.iter_mut().filter_map(Value::as_object_mut).zip(logprobs) {
        if entry.get("logprob").is_some_and(|value| same_value(value, &number(logprob))) {
            entry.remove("logprob");
        }
        if source == "tokens" {
            entry.remove("token");
        }
    }
    if entries.windows(2).all(|pair| pair[0] == pair[1]) {
        *content = entries.pop().unwrap_or_default();
    }
}

/// Whether two numbers are the same, in whatever form they are written.
fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || b.as_f64().is_some_and(|b| a.as_f64() == Some(b) && same_number(a, b)),
        _ => false,
    }
}

/// Whether this number is exactly that value.
fn same_number(number: &serde_json::Number, value: f64) -> bool {
    match (number.as_u64(), number.as_i64()) {
        (Some(exact), _) => value < 9e15 && value as u64 == exact,
        (_, Some(exact)) => value > -9e15 && value as i64 == exact,
        _ => true,
    }
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// The id in `token_id:17`, written as we would write it.
fn id_of_token(entry: &Value) -> Option<u32> {
    let digits = entry.as_object()?.get("token")?.as_str()?.strip_prefix("token_id:")?;
    digits.parse().ok().filter(|id: &u32| id.to_string() == digits)
}

fn finite32(value: &Value) -> Option<f32> {
    Some(value.as_f64()? as f32).filter(|logprob| logprob.is_finite())
}

/// A log-prob in the shortest decimal form that gives its 32 bits back.
fn number(logprob: f32) -> Value {
    logprob.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A choice as it is written.
pub(super) struct Written<'a>(pub(super) &'a Turn);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let turn = self.0;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("message", &chat::Written::Plain(&turn.answer))?;
        let mut rest = match turn.extra.get(NOTE) {
            Some(Value::Object(rest)) => rest.clone(),
            _ => plain(turn),
        };
        if let Some(sampled) = &turn.sampled {
            fill(&mut rest, sampled, turn.extra.get(IDS).and_then(Value::as_str));
        }
        for (key, value) in rest.iter().filter(|(key, _)| !foreign_to_choice(key)) {
            out.serialize_entry(key, value)?;
        }
        out.end()
    }
}

/// Keys that would make the choice unreadable as one.
fn foreign_to_choice(key: &str) -> bool {
    key == "message" || key.starts_with("hone.") || chat::KNOWN.contains(&key)
}

/// What a choice of our own says besides the answer and its tokens.
fn plain(turn: &Turn) -> Map<String, Value> {
    let reason = if turn.answer.tool_calls.is_empty() { "stop" } else { "tool_calls" };
    Map::from_iter([("finish_reason".to_owned(), reason.into()), ("index".to_owned(), 0.into())])
}

/// Puts ids and log-probs back where they were, or where ART looks for them.
fn fill(rest: &mut Map<String, Value>, sampled: &Sampled, source: Option<&str>) {
    let in_tokens = sampled.logprobs.len() == sampled.ids.len() && source != Some("token_ids") && !sampled.ids.is_empty();
    if !in_tokens {
        rest.insert("token_ids".to_owned(), sampled.ids.iter().copied().collect());
    }
    if sampled.logprobs.is_empty() || sampled.logprobs.len() != sampled.ids.len() {
        return;
    }
    let logprobs = rest.entry("logprobs").or_insert(Value::Null);
    if !logprobs.is_object() {
        *logprobs = serde_json::json!({"content": {"bytes": [], "top_logprobs": []}, "refusal": null});
    }
    let Some(content) = logprobs.as_object_mut().map(|logprobs| logprobs.entry("content").or_insert(Value::Null)) else { return };
    let left = std::mem::take(content);
    let entries = sampled.ids.iter().zip(&sampled.logprobs).enumerate().map(|(idx, (id, &logprob))| {
        let mut entry = match &left {
            Value::Array(entries) => entries.get(idx).and_then(Value::as_object).cloned().unwrap_or_default(),
            Value::Object(same) => same.clone(),
            _ => Map::new(),
        };
        if !entry.get("logprob").is_some_and(|value| finite32(value) == Some(logprob)) {
            entry.insert("logprob".to_owned(), number(logprob));
        }
        if in_tokens {
            entry.insert("token".to_owned(), format!("token_id:{id}").into());
        }
        Value::Object(entry)
    });
    *content = entries.collect();
}
