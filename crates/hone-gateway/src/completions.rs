//! OpenAI's completions of plain texts, as a server speaks them: `POST /v1/completions`.
//!
//! A prompt goes on as it stands, without a template: as text, as tokens, or as several of either, whose answers are numbered one after
//! the other. On the record the first prompt is what was said, and its first continuation the answer.

use crate::ask::{Speaker, passed_on};
use crate::choices::{Choices, told};
use crate::error::Refused;
use crate::openai::{TEMPERATURE_MAX, chunk_passed_on, finish, flag, line, number, parsed, stops, usage, whole_number};
use crate::question::Asked;
use hone_policy::local::{Piece, Prompt};
use hone_policy::upstream::{ChatRequest, Delta, Endpoint, Finish, Reply, Sampling};
use hone_trace::format::openai::Conversation;
use hone_trace::{Content, Message, Role, Time};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Tokens of an answer when the client sets no limit, as the format has it.
const TOKENS_MAX: u64 = 16;

/// Reads a body, or says what is wrong with it.
pub(crate) fn read(body: &[u8]) -> Result<Asked, Refused> {
    let body: Map<String, Value> = parsed(body)?;
    let model = body.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Refused::param("model", "`model` is missing: you must name one"))?.to_owned();
    let prompts = prompts(&body, "prompt")?;
    let is_stream = flag(&body, "stream")?;
    let tells_usage = match body.get("stream_options") {
        Some(Value::Object(options)) => flag(options, "include_usage")?,
        _ => false,
    };
    let messages: Vec<Message> = prompts.iter().take(1).map(message).collect();
    let request = ChatRequest {
        messages: messages.clone(),
        sampling: Sampling {
            temperature: number(&body, "temperature", 0.0, TEMPERATURE_MAX)?,
            top_p: number(&body, "top_p", 0.0, 1.0)?,
            stops: stops(&body)?,
            ..Sampling::default()
        },
        tokens_max: whole_number(&body, "max_tokens")?.unwrap_or(TOKENS_MAX),
        endpoint: Endpoint::Completions,
        ..ChatRequest::default()
    };
    let choices = Choices::of_completion(&body)?;
    let mut rest = body.clone();
    for known in ["prompt", "stream", "stream_options"] {
        rest.remove(known);
    }
    let conversation = Conversation { messages, tools: Vec::new(), rest };
    Ok(Asked { model, is_stream, tells_usage, body, conversation, request, choices, prompts, previous: None })
}

/// The texts that a parameter has.
pub(crate) fn prompts(body: &Map<String, Value>, param: &str) -> Result<Vec<Prompt>, Refused> {
    let refused = |why: &str| Refused::param(param, format!("`{param}` {why}"));
    let wrong = || refused("must be a text, a list of texts, a list of tokens or a list of such lists");
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong);
    let ids = |list: &Vec<Value>| list.iter().map(id).collect::<Result<Vec<u32>, Refused>>().map(Prompt::Ids);
    match body.get(param) {
        None | Some(Value::Null) => Err(refused("is missing: there is no text")),
        Some(Value::String(text)) => Ok(vec![Prompt::Text(text.clone())]),
        Some(Value::Array(list)) if list.is_empty() => Err(refused("is empty: there is no text")),
        Some(Value::Array(list)) if list[0].is_number() => Ok(vec![ids(list)?]),
        Some(Value::Array(list)) => list
            .iter()
            .map(|prompt| match prompt {
                Value::String(text) => Ok(Prompt::Text(text.clone())),
                Value::Array(list) => ids(list),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// A prompt as it stands on the record.
pub(crate) fn message(prompt: &Prompt) -> Message {
    match prompt {
        Prompt::Text(text) => Message::text(Role::User, text),
        Prompt::Ids(ids) => {
            let content = Content::Parts(vec![json!({"type": "token_ids", "ids": ids})]);
            Message { content, ..Message::text(Role::User, "") }
        }
    }
}

/// Who tells answers in this format.
pub(crate) struct Completions {
    id: String,
    created: Time,
    /// The name that the client asked for.
    model: String,
    tells_usage: bool,
    /// How much of each answer's text the told tokens make up.
    offsets: BTreeMap<usize, usize>,
    /// Whether pieces came in this format already.
    is_passed_on: bool,
}

impl Completions {
    pub(crate) fn new(id: String, created: Time, model: String, tells_usage: bool) -> Self {
        Self { id, created, model, tells_usage, offsets: BTreeMap::new(), is_passed_on: false }
    }

    fn body(&self, choices: &[Value]) -> Value {
        let created = self.created.unix_nanos().div_euclid(1_000_000_000);
        json!({"id": self.id, "object": "text_completion", "created": created, "model": self.model, "choices": choices})
    }

    fn chunk(&self, index: usize, text: &str, logprobs: &Value, reason: Option<Finish>) -> String {
        let mut body = self.body(&[choice(index, text, logprobs, reason)]);
        if self.tells_usage {
            body["usage"] = Value::Null;
        }
        line(&body)
    }
}

impl Speaker for Completions {
    fn whole(&self, reply: &Reply) -> Value {
        if let Some(Value::Object(came)) = &reply.json {
            return passed_on(came, &self.id, &self.model);
        }
        let first = (&reply.message, reply.finish, &reply.tokens.told);
        let others = reply.others.iter().map(|choice| (&choice.message, choice.finish, &choice.tokens.told));
        let choices = std::iter::once(first).chain(others).enumerate().map(|(index, (message, reason, told))| {
            let logprobs = told.as_array().map_or(Value::Null, |told| logprobs(told, &mut 0));
            choice(index, &message.content.text(), &logprobs, Some(reason))
        });
        let mut body = self.body(&choices.collect::<Vec<_>>());
        body["usage"] = reply.usage.as_ref().map_or(Value::Null, usage);
        body
    }

    fn piece(&mut self, piece: &Piece) -> String {
        match &piece.delta {
            Delta::Event(data) => {
                self.is_passed_on = true;
                chunk_passed_on(data, &self.id, &self.model, self.tells_usage)
            }
            Delta::Text(text) => {
                let offset = self.offsets.entry(piece.choice_idx).or_default();
                let logprobs = if piece.tokens.is_empty() { Value::Null } else { logprobs(&told(&piece.tokens), offset) };
                self.chunk(piece.choice_idx, text, &logprobs, None)
            }
            Delta::Reasoning(_) | Delta::ToolCall { .. } => String::new(),
        }
    }

    fn end(&mut self, reply: &Reply) -> String {
        let mut told = String::new();
        if !self.is_passed_on {
            let reasons = std::iter::once(reply.finish).chain(reply.others.iter().map(|choice| choice.finish));
            told = reasons.enumerate().map(|(index, reason)| self.chunk(index, "", &Value::Null, Some(reason))).collect();
            if self.tells_usage {
                let mut body = self.body(&[]);
                body["usage"] = reply.usage.as_ref().map_or(Value::Null, usage);
                told += &line(&body);
            }
        }
        told + "data: [DONE]\n\n"
    }

    fn failed(&mut self, refused: &Refused) -> String {
        line(&refused.openai())
    }
}

fn choice(index: usize, text: &str, logprobs: &Value, reason: Option<Finish>) -> Value {
    json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason.map(finish)})
}

/// Tokens in this format's words: lists beside each other. `offset` is how much of the text came before them, in characters.
fn logprobs(told: &[Value], offset: &mut usize) -> Value {
    let mut offsets = Vec::with_capacity(told.len());
    for token in told {
        offsets.push(*offset);
        *offset += n_begun(token);
    }
    let has_alternatives = told.iter().any(|token| token["top_logprobs"].as_array().is_some_and(|all| !all.is_empty()));
    json!({
        "tokens": told.iter().map(word).collect::<Vec<_>>(),
        "token_logprobs": told.iter().map(|token| token["logprob"].clone()).collect::<Vec<_>>(),
        "top_logprobs": has_alternatives.then(|| told.iter().map(alternatives).collect::<Vec<_>>()),
        "text_offset": offsets,
    })
}

/// What else was likely, by its text. Two tokens of one text are told apart by spelling the less likely one in bytes.
fn alternatives(token: &Value) -> Value {
    let mut table = Map::new();
    for one in token["top_logprobs"].as_array().into_iter().flatten() {
        let word = word(one);
        let key = if table.contains_key(&word) { spelled(&bytes(one)) } else { word };
        table.insert(key, one["logprob"].clone());
    }
    Value::Object(table)
}

/// A token's text. A part of a character has none of its own and is spelled in bytes, as OpenAI does it.
fn word(token: &Value) -> String {
    match String::from_utf8(bytes(token)) {
        Ok(text) => text,
        Err(error) => spelled(error.as_bytes()),
    }
}

fn spelled(bytes: &[u8]) -> String {
    bytes.iter().fold("bytes:".to_owned(), |text, byte| format!("{text}\\x{byte:02x}"))
}

fn bytes(token: &Value) -> Vec<u8> {
    let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
    match token["bytes"].as_array() {
        Some(bytes) => bytes.iter().filter_map(byte).collect(),
        None => token["token"].as_str().unwrap_or_default().as_bytes().to_vec(),
    }
}

/// How many characters begin in a token: one that several tokens make up is counted with the first.
fn n_begun(token: &Value) -> usize {
    bytes(token).iter().filter(|&&byte| byte & 0b1100_0000 != 0b1000_0000).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prompt: &Value, expected: Result<&[Prompt], &str>) {
        let asked = read(json!({"model": "m", "prompt": prompt}).to_string().as_bytes());
        match (asked, expected) {
            (Ok(asked), Ok(expected)) => assert_eq!(asked.prompts, expected, "{prompt}"),
            (Err(refused), Err(expected)) => assert!(refused.to_string().contains(expected), "{prompt}: {refused}"),
            (asked, _) => panic!("{prompt}: {:?}", asked.map(|asked| asked.prompts)),
        }
    }

    #[test]
    fn prompts_come_in_four_forms() {
        let text = |text: &str| Prompt::Text(text.into());
        check(&json!("a"), Ok(&[text("a")]));
        check(&json!(["a", "b"]), Ok(&[text("a"), text("b")]));
        check(&json!([1, 2]), Ok(&[Prompt::Ids(vec![1, 2])]));
        check(&json!([[1], [2]]), Ok(&[Prompt::Ids(vec![1]), Prompt::Ids(vec![2])]));
        check(&json!([]), Err("`prompt` is empty"));
        check(&json!(null), Err("`prompt` is missing"));
        check(&json!([1, -2]), Err("`prompt` must be"));
        check(&json!({"a": 1}), Err("`prompt` must be"));
    }

    #[test]
    fn tokens_are_told_as_lists_beside_each_other() {
        let told = json!([{"token": "h\u{e9}", "logprob": -1.0, "top_logprobs": [{"token": "x", "logprob": -0.5}]},
            {"token": "y", "logprob": -2.0, "top_logprobs": []}]);
        let mut offset = 3;
        let lists = logprobs(told.as_array().unwrap(), &mut offset);
        let expected = json!({"tokens": ["h\u{e9}", "y"], "token_logprobs": [-1.0, -2.0], "text_offset": [3, 5],
            "top_logprobs": [{"x": -0.5}, {}]});
        assert_eq!((lists, offset), (expected, 6));
    }

    #[test]
    fn parts_of_characters_are_spelled_and_fall_together_with_nothing() {
        let one =
            |bytes: &[u8], logprob: f64| json!({"token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes});
        let mut first = one(b"\xe2\x82", -1.0);
        let likeliest = [one(b"\xe2\x82", -1.0), one(b"\xe2\x83", -2.0), one(b"\xf0", -3.0), one(b"a", -4.0), one(b"a", -5.0)];
        first["top_logprobs"] = json!(likeliest);
        let mut offset = 2;
        let lists = logprobs(&[first, one(b"\xac", -0.5), one("\u{fffd}".as_bytes(), -0.1)], &mut offset);
        let expected =
            json!({r"bytes:\xe2\x82": -1.0, r"bytes:\xe2\x83": -2.0, r"bytes:\xf0": -3.0, "a": -4.0, r"bytes:\x61": -5.0});
        assert_eq!(lists["top_logprobs"][0], expected);
        assert_eq!(lists["tokens"], json!([r"bytes:\xe2\x82", r"bytes:\xac", "\u{fffd}"]));
        assert_eq!((lists["text_offset"].clone(), offset), (json!([2, 3, 3]), 4));
    }
}
