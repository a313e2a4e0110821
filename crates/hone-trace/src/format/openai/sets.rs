//! Data sets that say the same in words of their own: they are put into those of `choices.rs` and of a conversation.
//!
//! | wire | word |
//! |---|---|
//! | ShareGPT's `conversations`: `from` and `value` | messages; with `chosen` and `rejected` beside them, a prompt |
//! | `human`, `gpt`, `system` and their like in `from` | the role |
//! | `function_call`, a text that holds a call or a list of them | an answer with tool requests |
//! | `observation` | a tool message, of the first request without one |
//! | `chosen` and `rejected` of `from` and `value`, or lists of these | messages |
//! | Alpaca's `instruction`, and `input` behind an empty line | what a user says, behind `system` and `history` (pairs of question and answer) |
//! | `output` | the completion |
//! | texts of `chosen` and `rejected` without a prompt in which `Human:` and `Assistant:` take turns, as Anthropic's sets have them | conversations |

use super::logged::SYSTEM;
use crate::format::FormatError;
use crate::format::object::{self, json_inside};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

pub(super) const CONVERSATIONS: &str = "conversations";
const INSTRUCTION: &str = "instruction";
const PAIR: [&str; 2] = ["chosen", "rejected"];

/// Where Anthropic's sets begin with somebody's words.
const SPEAKERS: [(&str, &str); 2] = [("\n\nHuman:", "user"), ("\n\nAssistant:", "assistant")];

/// Whether a key says that a line is of such a set.
pub(super) fn is_key(key: &str) -> bool {
    [CONVERSATIONS, INSTRUCTION].contains(&key)
}

/// Puts a line without `messages` into the words of the others: what is left are these, and what comes back are the messages of a
/// conversation.
pub(super) fn reword(rest: &mut Map<String, Value>) -> Result<Option<Value>, FormatError> {
    let is_compared = PAIR.iter().all(|key| rest.contains_key(*key));
    let mut prompt = None;
    if let Some(Value::Array(said)) = rest.get(CONVERSATIONS) {
        let mut messages = messages(CONVERSATIONS, said)?;
        rest.remove(CONVERSATIONS);
        put_system(rest, &mut messages);
        if !is_compared {
            return Ok(Some(messages.into()));
        }
        prompt = Some(messages);
    } else if rest.get(INSTRUCTION).is_some_and(Value::is_string)
        && (is_compared || rest.get("output").is_some_and(Value::is_string))
    {
        let asked = [rest.remove(INSTRUCTION), rest.remove("input")];
        let asked: Vec<&str> = asked.iter().flatten().filter_map(Value::as_str).filter(|text| !text.is_empty()).collect();
        let mut messages = history(rest)?;
        messages.push(json!({"role": "user", "content": asked.join("\n\n")}));
        put_system(rest, &mut messages);
        prompt = Some(messages);
        if !is_compared && let Some(output) = rest.remove("output") {
            rest.insert("completion".to_owned(), output);
        }
    }
    rest.extend(prompt.map(|messages| ("prompt".to_owned(), messages.into())));
    for key in PAIR.into_iter().filter(|_| is_compared) {
        let answer = match rest.get(key) {
            Some(Value::Array(said)) if said.iter().any(|entry| entry.get("from").is_some()) => messages(key, said)?.into(),
            Some(said @ Value::Object(_)) => vec![Speech::default().message(key, said)?].into(),
            Some(Value::String(text)) if !rest.contains_key("prompt") => in_turns(text).unwrap_or_else(|| text.as_str().into()),
            _ => continue,
        };
        rest.insert(key.to_owned(), answer);
    }
    Ok(None)
}

/// The instructions that stand beside messages, in front of them.
fn put_system(rest: &mut Map<String, Value>, messages: &mut Vec<Value>) {
    let begins = messages.first().is_some_and(|first| first["role"] == SYSTEM);
    let Some(system) = rest.get(SYSTEM).and_then(Value::as_str).filter(|_| !begins) else { return };
    if !system.is_empty() {
        messages.insert(0, json!({"role": SYSTEM, "content": system}));
    }
    rest.remove(SYSTEM);
}

/// What was asked and answered before.
fn history(rest: &mut Map<String, Value>) -> Result<Vec<Value>, FormatError> {
    let Some(history) = rest.remove("history").filter(|history| !history.is_null()) else { return Ok(Vec::new()) };
    let is_said = |pair: &Value| matches!(pair.as_array().map(Vec::as_slice), Some([Value::String(_), Value::String(_)]));
    let pairs = history.as_array().filter(|pairs| pairs.iter().all(is_said));
    let pairs = pairs.ok_or_else(|| FormatError::new("history", "must be a list of questions, each with its answer"))?;
    Ok(pairs
        .iter()
        .flat_map(|pair| [("user", &pair[0]), ("assistant", &pair[1])])
        .map(|(role, said)| json!({"role": role, "content": said}))
        .collect())
}

fn messages(key: &str, said: &[Value]) -> Result<Vec<Value>, FormatError> {
    let mut speech = Speech::default();
    said.iter().enumerate().map(|(i, entry)| speech.message(&format!("{key}[{i}]"), entry)).collect()
}

/// Calls have no ids where only their order says what answers them: here they get some.
#[derive(Default)]
struct Speech {
    n_calls: usize,
    open: VecDeque<String>,
}

impl Speech {
    /// The entry at this place as a message. What has a role is one.
    fn message(&mut self, path: &str, entry: &Value) -> Result<Value, FormatError> {
        let refused = |key: &str, reason: &str| FormatError::new(format!("{path}{key}"), reason);
        let Value::Object(entry) = entry else { return Err(refused("", "must have `from` and `value`")) };
        if entry.contains_key("role") && !entry.contains_key("from") {
            return Ok(entry.clone().into());
        }
        let mut message = entry.clone();
        let from = message.remove("from").unwrap_or_default();
        let said = message.remove("value").or_else(|| message.remove("content")).unwrap_or_default();
        let (Some(from), Some(text)) = (from.as_str(), said.as_str()) else {
            return Err(refused("", "`from` and `value` must be texts"));
        };
        let role = match from {
            "human" | "user" => "user",
            "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" | "bot" => "assistant",
            "system" => SYSTEM,
            "function_call" | "tool_call" => {
                message.insert("tool_calls".to_owned(), self.calls(text).ok_or_else(|| refused(".value", NO_CALL))?);
                message.insert("role".to_owned(), "assistant".into());
                return Ok(message.into());
            }
            "observation" | "function_response" | "tool_response" | "tool" | "function" => {
                message.extend(self.open.pop_front().map(|id| ("tool_call_id".to_owned(), id.into())));
                "tool"
            }
            other => {
                let reason = format!("`{}` is not known: human, gpt, system, function_call or observation", object::short(other));
                return Err(refused(".from", &reason));
            }
        };
        message.insert("role".to_owned(), role.into());
        message.insert("content".to_owned(), said);
        Ok(message.into())
    }

    /// The calls that a text holds.
    fn calls(&mut self, text: &str) -> Option<Value> {
        let calls = match json_inside(text)? {
            Value::Array(calls) if !calls.is_empty() => calls,
            one @ Value::Object(_) => vec![one],
            _ => return None,
        };
        let mut call = |call: &Value| {
            let name = call.get("name")?.as_str()?;
            let arguments = match call.get("arguments").or_else(|| call.get("parameters")) {
                None | Some(Value::Null) => "{}".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(json) => json.to_string(),
            };
            self.n_calls += 1;
            let id = format!("call_{}", self.n_calls);
            self.open.push_back(id.clone());
            Some(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
        };
        calls.iter().map(&mut call).collect::<Option<Vec<Value>>>().map(Value::from)
    }
}

const NO_CALL: &str = "must be a call as JSON, with `name` and `arguments`, or a list of them";

/// The messages of a text in which two take turns, if it is one.
fn in_turns(text: &str) -> Option<Value> {
    let first = |text: &str| SPEAKERS.iter().filter_map(|&(mark, role)| Some((text.find(mark)?, mark, role))).min();
    let (mut at, mut mark, mut role) = first(text).filter(|&(at, ..)| at == 0)?;
    let (mut rest, mut messages) = (text, Vec::new());
    loop {
        rest = &rest[at + mark.len()..];
        let next = first(rest);
        let said = rest[..next.map_or(rest.len(), |(at, ..)| at)].trim();
        messages.push(json!({"role": role, "content": said}));
        match next {
            Some(next) => (at, mark, role) = next,
            None => return Some(messages.into()),
        }
    }
}
