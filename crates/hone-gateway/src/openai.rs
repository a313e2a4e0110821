//! OpenAI's chat completions, as a server speaks them: a body in, a question out; a reply in, a body or a stream of chunks out.
//!
//! An answer that comes from a server of the same format is passed on as it came, under the name that the client asked for and with an
//! id by which feedback finds it. Any other is put into these words. Parameters that such an answer could not follow are refused by name where ignoring them would mislead.

use crate::ask::{Speaker, passed_on};
use crate::choices::{Choices, told};
use crate::error::Refused;
use crate::question::Asked;
use hone_policy::local::Piece;
use hone_policy::upstream::{
    Calling, ChatRequest, Delta, EFFORT, Finish, Label, Manner, PARALLEL, Reply, Sampling, TOOL_CHOICE, Usage, VERBOSITY,
};
use hone_trace::format::check_depth;
use hone_trace::format::openai::{Conversation, message_json};
use hone_trace::{Content, Message, Time};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The highest temperature that is sent on.
pub(crate) const TEMPERATURE_MAX: f64 = 2.0;

/// Reads a body, or says what is wrong with it.
pub(crate) fn read(body: &[u8]) -> Result<Asked, Refused> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
    let mut conversation = Conversation::read(text)?;
    if conversation.messages.is_empty() {
        return Err(Refused::param("messages", "`messages` is empty: there is nothing to answer"));
    }
    let whole: Map<String, Value> = serde_json::from_str(text).map_err(|_| malformed("the body is not a JSON object"))?;
    let rest = &conversation.rest;
    let model = rest.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Refused::param("model", "`model` is missing: you must name one"))?.to_owned();
    let is_stream = flag(rest, "stream")?;
    let tells_usage = match rest.get("stream_options") {
        Some(Value::Object(options)) => flag(options, "include_usage")?,
        _ => false,
    };
    let tokens_max = match whole_number(rest, "max_completion_tokens")? {
        None => whole_number(rest, "max_tokens")?,
        some => some,
    };
    let (schema, label) = schema(rest)?;
    let said = |name: &str| rest.get(name).unwrap_or(&Value::Null);
    let request = ChatRequest {
        messages: conversation.messages.clone(),
        tools: Arc::from(conversation.tools.clone()),
        calling: Calling::of_chat(said(TOOL_CHOICE), said(PARALLEL)),
        manner: Manner::of(said(EFFORT), said(VERBOSITY)),
        schema,
        label,
        sampling: Sampling {
            temperature: number(rest, "temperature", 0.0, TEMPERATURE_MAX)?,
            top_p: number(rest, "top_p", 0.0, 1.0)?,
            stops: stops(rest)?,
            ..Sampling::default()
        },
        tokens_max: tokens_max.unwrap_or(0),
        // Providers are sent the upper 31 bits.
        seed: seed(rest).unwrap_or(0) << 33,
        ..ChatRequest::default()
    };
    let choices = Choices::of_chat(rest)?;
    conversation.rest.remove("stream");
    conversation.rest.remove("stream_options");
    let (prompts, previous) = (Vec::new(), None);
    Ok(Asked { model, is_stream, tells_usage, body: whole, conversation, request, choices, prompts, previous })
}

/// Reads a body that is JSON. What nests too deep could not be read back from the record.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
    check_depth(text)?;
    serde_json::from_str(text).map_err(|error| malformed(&format!("the body cannot be read: {error}")))
}

pub(crate) fn malformed(message: &str) -> Refused {
    Refused::Malformed { param: None, message: message.to_owned() }
}

pub(crate) fn flag(map: &Map<String, Value>, name: &str) -> Result<bool, Refused> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Refused::param(name, format!("`{name}` must be true or false"))),
    }
}

pub(crate) fn whole_number(map: &Map<String, Value>, name: &str) -> Result<Option<u64>, Refused> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().filter(|number| *number > 0) {
            Some(number) => Ok(Some(number)),
            None => Err(Refused::param(name, format!("`{name}` must be a whole number above 0"))),
        },
    }
}

pub(crate) fn number(map: &Map<String, Value>, name: &str, low: f64, high: f64) -> Result<Option<f64>, Refused> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| (low..=high).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Refused::param(name, format!("`{name}` must be a number from {low} to {high}"))),
        },
    }
}

/// The seed that a client gives, where it is a whole number. Some count below 0.
pub(crate) fn seed(rest: &Map<String, Value>) -> Option<u64> {
    let seed = rest.get("seed")?;
    seed.as_u64().or_else(|| seed.as_i64().map(i64::cast_unsigned))
}

/// What a client thinks that an answer will say.
pub(crate) fn predicted(prediction: &Value) -> Option<String> {
    match &prediction["content"] {
        _ if prediction["type"] != "content" => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().map(|part| part["text"].as_str()).collect(),
        _ => None,
    }
}

pub(crate) fn stops(map: &Map<String, Value>) -> Result<Vec<String>, Refused> {
    let wrong = || Refused::param("stop", "`stop` must be a text or a list of texts");
    match map.get("stop") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(stop)) => Ok(vec![stop.clone()]),
        Some(Value::Array(list)) => list.iter().map(|stop| stop.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

/// The schema that an answer has to follow, where one is asked for, and what is said of it.
fn schema(map: &Map<String, Value>) -> Result<(Option<Value>, Label), Refused> {
    let free = (None, Label::default());
    let Some(format) = map.get("response_format").filter(|format| !format.is_null()) else { return Ok(free) };
    let named = &format["json_schema"];
    match format["type"].as_str() {
        Some("text") => Ok(free),
        Some("json_object") => Ok((Some(json!({"type": "object"})), Label::default())),
        Some("json_schema") if named["schema"].is_object() => {
            Ok((Some(named["schema"].clone()), label(named, "response_format.json_schema")?))
        }
        Some("json_schema") => Err(Refused::param("response_format", "`response_format.json_schema.schema` must be an object")),
        _ => Err(Refused::param("response_format", "`response_format.type` must be text, json_object or json_schema")),
    }
}

/// What is said of a schema beside it.
pub(crate) fn label(named: &Value, place: &str) -> Result<Label, Refused> {
    let wrong = |key: &str, must_be: &str| {
        let param = format!("{place}.{key}");
        Refused::param(&param, format!("`{param}` must be {must_be}"))
    };
    let text = |key: &str| match &named[key] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(wrong(key, "a text")),
    };
    let strict = match &named["strict"] {
        Value::Null => None,
        Value::Bool(strict) => Some(*strict),
        _ => return Err(wrong("strict", "true or false")),
    };
    Ok(Label { name: text("name")?, description: text("description")?, strict })
}

/// Who tells answers in this format.
pub(crate) struct OpenAi {
    /// The id of the answer.
    pub(crate) id: String,
    pub(crate) created: Time,
    /// The name that the client asked for.
    pub(crate) model: String,
    pub(crate) tells_usage: bool,
    /// Answers of which something was told.
    begun: BTreeSet<usize>,
    /// Whether pieces came in this format already.
    is_passed_on: bool,
}

impl OpenAi {
    pub(crate) fn new(id: String, created: Time, model: String, tells_usage: bool) -> Self {
        Self { id, created, model, tells_usage, begun: BTreeSet::new(), is_passed_on: false }
    }

    fn head(&self, object: &str) -> Value {
        let created = self.created.unix_nanos().div_euclid(1_000_000_000);
        json!({"id": self.id, "object": object, "created": created, "model": self.model})
    }

    fn chunk(&self, index: usize, delta: &Value, logprobs: &Value, finish: Option<&str>) -> String {
        let mut body = self.head("chat.completion.chunk");
        body["choices"] = json!([{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}]);
        if self.tells_usage {
            body["usage"] = Value::Null;
        }
        line(&body)
    }
}

/// A chunk of a server that speaks this format itself.
pub(crate) fn chunk_passed_on(data: &str, id: &str, model: &str, tells_usage: bool) -> String {
    let Ok(Value::Object(mut chunk)) = serde_json::from_str::<Value>(data) else { return String::new() };
    let is_empty = chunk.get("choices").is_none_or(|choices| choices.as_array().is_none_or(Vec::is_empty));
    if is_empty && !tells_usage {
        return String::new();
    }
    if chunk.get("choices").is_some_and(Value::is_null) {
        chunk.insert("choices".into(), json!([]));
    }
    line(&passed_on(&chunk, id, model))
}

impl Speaker for OpenAi {
    fn whole(&self, reply: &Reply) -> Value {
        if let Some(Value::Object(came)) = &reply.json {
            return passed_on(came, &self.id, &self.model);
        }
        let first = (&reply.message, reply.finish, &reply.tokens.told);
        let others = reply.others.iter().map(|choice| (&choice.message, choice.finish, &choice.tokens.told));
        let choices = std::iter::once(first).chain(others).enumerate().map(|(index, (message, reason, told))| {
            json!({"index": index, "message": said(message), "logprobs": logprobs(told), "finish_reason": finish(reason)})
        });
        let mut body = self.head("chat.completion");
        body["choices"] = choices.collect();
        body["usage"] = reply.usage.as_ref().map_or(Value::Null, usage);
        body
    }

    fn piece(&mut self, piece: &Piece) -> String {
        let said = match &piece.delta {
            Delta::Event(data) => {
                self.is_passed_on = true;
                return chunk_passed_on(data, &self.id, &self.model, self.tells_usage);
            }
            Delta::Text(text) => json!({"content": text}),
            Delta::Reasoning(text) => json!({"reasoning_content": text}),
            Delta::ToolCall { call_idx, id, name, arguments, extra } => {
                let mut function = json!({"arguments": arguments});
                // Who sends the call back may have to send this with it.
                let mut call = Value::Object(extra.clone());
                call["index"] = (*call_idx).into();
                if let Some(name) = name {
                    function["name"] = name.as_str().into();
                    call["type"] = "function".into();
                }
                if let Some(id) = id {
                    call["id"] = id.as_str().into();
                }
                call["function"] = function;
                json!({"tool_calls": [call]})
            }
        };
        let index = piece.choice_idx;
        let role = match self.begun.insert(index) {
            true => self.chunk(index, &json!({"role": "assistant", "content": ""}), &Value::Null, None),
            false => String::new(),
        };
        let tokens = if piece.tokens.is_empty() { Value::Null } else { told(&piece.tokens).into() };
        role + &self.chunk(index, &said, &logprobs(&tokens), None)
    }

    fn end(&mut self, reply: &Reply) -> String {
        let mut told = String::new();
        if !self.is_passed_on {
            let reasons = std::iter::once(reply.finish).chain(reply.others.iter().map(|choice| choice.finish));
            for (index, reason) in reasons.enumerate() {
                told += &self.chunk(index, &json!({}), &Value::Null, Some(finish(reason)));
            }
            if self.tells_usage {
                let mut body = self.head("chat.completion.chunk");
                body["choices"] = json!([]);
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

/// An answer as a message of this format.
fn said(message: &Message) -> Value {
    let mut told = message_json(message);
    if message.content == Content::None {
        told["content"] = Value::Null;
    }
    told["refusal"] = Value::Null;
    told
}

fn logprobs(told: &Value) -> Value {
    if told.is_null() { Value::Null } else { json!({"content": told, "refusal": null}) }
}

/// An event of a stream.
pub(crate) fn line(body: &Value) -> String {
    format!("data: {body}\n\n")
}

pub(crate) fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Filtered => "content_filter",
    }
}

pub(crate) fn usage(usage: &Usage) -> Value {
    let mut told = json!({
        "prompt_tokens": usage.tokens_in,
        "completion_tokens": usage.tokens_out,
        "total_tokens": usage.tokens_in + usage.tokens_out,
        "prompt_tokens_details": {"cached_tokens": usage.tokens_cached},
    });
    // Who counts none may not tell them apart.
    if usage.tokens_thought > 0 {
        told["completion_tokens_details"] = json!({"reasoning_tokens": usage.tokens_thought});
    }
    told
}

/// A model as lists show it.
pub(crate) fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "hone"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &Value, expected: &str) {
        let refused = read(body.to_string().as_bytes()).err().map(|refused| refused.openai()["error"].to_string());
        assert!(refused.as_ref().is_some_and(|refused| refused.contains(expected)), "{body}: {refused:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let user = json!([{"role": "user", "content": "hi"}]);
        check(&json!({"messages": user}), r#""param":"model""#);
        check(&json!({"model": "m"}), "`messages` is missing");
        check(&json!({"model": "m", "messages": []}), r#""param":"messages""#);
        check(&json!({"model": "m", "messages": [{"role": "king", "content": "hi"}]}), "messages[0].role");
        check(&json!({"model": "m", "messages": user, "temperature": 3}), r#""param":"temperature""#);
        check(&json!({"model": "m", "messages": user, "max_tokens": 0}), r#""param":"max_tokens""#);
        check(&json!({"model": "m", "messages": user, "stream": "yes"}), r#""param":"stream""#);
        check(&json!({"model": "m", "messages": user, "stop": [1]}), r#""param":"stop""#);
        check(&json!({"model": "m", "messages": user, "response_format": {"type": "xml"}}), r#""param":"response_format""#);
        let format = json!({"type": "json_schema", "json_schema": {"schema": {}, "strict": "yes"}});
        check(
            &json!({"model": "m", "messages": user, "response_format": format}),
            r#""param":"response_format.json_schema.strict""#,
        );
        check(&json!([]), "message");
    }

    #[test]
    fn a_request_is_read_and_kept_as_it_came() {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true, "seed": 7,
            "stream_options": {"include_usage": true}, "max_completion_tokens": 9, "logit_bias": {"1": 2}, "stop": "x"});
        let asked = read(body.to_string().as_bytes()).unwrap();
        assert!(asked.is_stream && asked.tells_usage);
        assert_eq!((asked.request.tokens_max, asked.request.seed >> 33), (9, 7));
        assert_eq!(asked.request.sampling.stops, ["x"]);
        assert_eq!(Value::Object(asked.body), body);
        assert!(!asked.conversation.rest.contains_key("stream"));
    }
}
