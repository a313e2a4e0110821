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
//! | Dolly's `context` and `response` | the same as `input` and `output` |
//! | texts of `prompt`, `chosen` and `rejected` in which `Human:` and `Assistant:` take turns, as Anthropic's sets have them | conversations |

use super::choices::{PAIR, told};
use crate::format::FormatError;
use crate::format::object::{self, json_inside};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

pub(super) const CONVERSATIONS: &str = "conversations";
const INSTRUCTION: &str = "instruction";

/// Where Anthropic's sets begin with somebody's words.
const SPEAKERS: [(&str, &str); 2] = [("\n\nHuman:", "user"), ("\n\nAssistant:", "assistant")];

/// Whether a key says that a line is of such a set.
pub(super) fn is_key(key: &str) -> bool {
    [CONVERSATIONS, INSTRUCTION].contains(&key)
}

/// Puts a line without `messages` into the words of the others: what is left are these, and what comes back are the messages of a
/// conversation.
pub(super) fn reword(rest: &mut Map<String, Value>) -> Result<Option<Value>, FormatError> {
    let is_compared = PAIR.iter().all(|key| told(rest, key).is_some());
    let is_complete = told(rest, "prompt").is_some() && (is_compared || told(rest, "completion").is_some());
    let is_openai = told(rest, "preferred_output").is_some();
    let mut speech = Speech::default();
    if let Some(said) = told(rest, CONVERSATIONS) {
        let Value::Array(said) = said else {
            return Err(FormatError::new(CONVERSATIONS, "must be a list of entries with `from` and `value`"));
        };
        let messages = speech.messages(CONVERSATIONS, said)?;
        rest.remove(CONVERSATIONS);
        if !is_compared {
            return Ok(Some(messages.into()));
        }
        rest.insert("prompt".to_owned(), messages.into());
    } else if told(rest, INSTRUCTION).is_some() && !is_complete && !is_openai {
        instruct(rest, is_compared)?;
    }
    let mut is_script = false;
    if let Some(turns) = told(rest, "prompt").and_then(Value::as_str).and_then(in_turns) {
        (is_script, _) = (true, rest.insert("prompt".to_owned(), turns));
    }
    for key in PAIR.into_iter().filter(|_| is_compared) {
        let answer = match rest.get(key) {
            Some(Value::Array(said)) if said.iter().any(|entry| entry.get("from").is_some()) => {
                speech.clone().messages(key, said)?.into()
            }
            Some(said @ Value::Object(_)) => vec![speech.clone().message(key, said)?].into(),
            Some(Value::String(text)) => in_turns(text).unwrap_or_else(|| if is_script { text.trim() } else { text }.into()),
            _ => continue,
        };
        rest.insert(key.to_owned(), answer);
    }
    Ok(None)
}

/// An instruction, with what belongs to it, as a prompt, and its output as the completion. Dolly's set has other words for both.
fn instruct(rest: &mut Map<String, Value>, is_compared: bool) -> Result<(), FormatError> {
    let is_dolly = told(rest, "output").is_none() && told(rest, "response").is_some_and(Value::is_string);
    let [input, output] = if is_dolly { ["context", "response"] } else { ["input", "output"] };
    for key in ["prompt", "completion"] {
        if told(rest, key).is_some() {
            let reason = format!("stands beside `{INSTRUCTION}`: take one of them out, as nobody knows which counts");
            return Err(FormatError::new(key, reason));
        }
    }
    if !is_compared && told(rest, output).is_none() {
        return Err(FormatError::new("", format!("`{output}` is missing beside `{INSTRUCTION}`")));
    }
    let mut text = |key: &str| match rest.remove(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(FormatError::new(key, "must be a text")),
    };
    let asked: Vec<String> = [text(INSTRUCTION)?, text(input)?].into_iter().filter(|text| !text.is_empty()).collect();
    let answered = if is_compared { None } else { Some(text(output)?) };
    let mut messages = history(rest)?;
    messages.push(json!({"role": "user", "content": asked.join("\n\n")}));
    rest.insert("prompt".to_owned(), messages.into());
    rest.extend(answered.map(|answered| ("completion".to_owned(), answered.into())));
    Ok(())
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

/// Calls have no ids where only their order says what answers them: here they get some. What is open when something else is said or called
/// stays without an answer.
#[derive(Clone, Default)]
struct Speech {
    n_calls: usize,
    open: VecDeque<String>,
}

impl Speech {
    fn messages(&mut self, key: &str, said: &[Value]) -> Result<Vec<Value>, FormatError> {
        said.iter().enumerate().map(|(i, entry)| self.message(&format!("{key}[{i}]"), entry)).collect()
    }

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
            "system" => "system",
            "function_call" | "tool_call" => {
                message.insert("tool_calls".to_owned(), self.calls(text).ok_or_else(|| refused(".value", NO_CALL))?);
                message.insert("role".to_owned(), "assistant".into());
                return Ok(message.into());
            }
            "observation" | "function_response" | "tool_response" | "tool" | "function" => {
                match message.get("tool_call_id").and_then(Value::as_str) {
                    Some(told) => self.open.retain(|id| id != told),
                    None => message.extend(self.open.pop_front().map(|id| ("tool_call_id".to_owned(), id.into()))),
                }
                "tool"
            }
            other => {
                let reason = format!("`{}` is not known: human, gpt, system, function_call or observation", object::short(other));
                return Err(refused(".from", &reason));
            }
        };
        if role != "tool" {
            self.open.clear();
        }
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
        self.open.clear();
        let mut call = |call: &Value| {
            let mut rest = call.as_object()?.clone();
            let Value::String(name) = rest.remove("name")? else { return None };
            let told = |rest: &mut Map<String, Value>, key: &str| rest.remove(key).filter(|value| !value.is_null());
            let arguments = match told(&mut rest, "arguments").or_else(|| told(&mut rest, "parameters")) {
                None => "{}".to_owned(),
                Some(Value::String(text)) => text,
                Some(json) => json.to_string(),
            };
            self.n_calls += 1;
            let id = match told(&mut rest, "id") {
                Some(Value::String(id)) => id,
                _ => format!("call_{}", self.n_calls),
            };
            self.open.push_back(id.clone());
            rest.extend([("id".to_owned(), id.into()), ("type".to_owned(), "function".into())]);
            rest.insert("function".to_owned(), json!({"name": name, "arguments": arguments}));
            Some(Value::from(rest))
        };
        calls.iter().map(&mut call).collect::<Option<Vec<Value>>>().map(Value::from)
    }
}

const NO_CALL: &str = "must be a call as JSON, with `name` and `arguments`, or a list of them";

/// The messages of a text in which two take turns, if it is one. It may end where the next answer begins.
fn in_turns(text: &str) -> Option<Value> {
    let mut marks: Vec<(usize, &str, &str)> =
        SPEAKERS.iter().flat_map(|&(mark, role)| text.match_indices(mark).map(move |(at, _)| (at, mark, role))).collect();
    marks.sort_unstable();
    marks.first().filter(|&&(at, ..)| at == 0)?;
    let ends = marks.iter().skip(1).map(|&(at, ..)| at).chain([text.len()]);
    let said = marks.iter().zip(ends).map(|(&(at, mark, role), end)| (role, text[at + mark.len()..end].trim()));
    let mut messages: Vec<Value> = said.map(|(role, said)| json!({"role": role, "content": said})).collect();
    messages.pop_if(|last| last["role"] == "assistant" && last["content"] == "");
    Some(messages.into())
}
