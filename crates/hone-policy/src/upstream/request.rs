//! What is asked of a provider, before it has a wire format.

use super::calling::Calling;
use super::manner::Manner;
use hone_trace::{Content, Message, Role, ToolSpec};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The most tokens of an answer where nobody says how many, and the format or the purse insists on a number.
pub(super) const TOKENS_MAX: u64 = 4096;

/// The words for the most tokens of an answer in OpenAI's format.
const OLDER: &str = "max_tokens";
const NEWER: &str = "max_completion_tokens";

/// What an answer is called where nobody says.
pub(super) const ANSWER: &str = "answer";
/// The longest name of a tool that every format takes.
const TOOL_NAME_LEN_MAX: usize = 64;

/// One question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    /// The whole conversation.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Arc<[ToolSpec]>,
    /// Which of them are called, where something is said of that which every format could be told.
    pub calling: Option<Calling>,
    /// How much is thought and said, where something is said of that which every format could be told.
    pub manner: Option<Manner>,
    /// The JSON schema that the answer follows, where one is asked for.
    pub schema: Option<Value>,
    /// What is said of the schema besides.
    pub label: Label,
    /// How the answer is drawn.
    pub sampling: Sampling,
    /// The most tokens of the answer; 0 leaves them to the provider.
    pub tokens_max: u64,
    /// The seed, where the provider takes one; waits between attempts are drawn from it, too.
    pub seed: u64,
    /// Milliseconds for the whole call, if that is less than the client's own limit.
    pub time_max_ms: Option<u64>,
    /// The whole body in the provider's own format, where the caller has it: it is sent as it is, but for the model and the transfer,
    /// and the answer comes as [`Reply::json`](super::Reply) or as [`Delta::Event`](super::Delta).
    pub body: Option<Map<String, Value>>,
    /// What is asked for in the body that is sent as it is.
    pub endpoint: Endpoint,
    /// Further headers for a body that is sent as it is; they come before our own.
    pub headers: HeaderMap,
}

/// What a server of OpenAI's format is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// The next message of a conversation.
    #[default]
    Chat,
    /// How a plain text goes on.
    Completions,
}

/// What a client says of the schema of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    /// What the answer is called.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether the schema must be followed to the letter.
    pub strict: Option<bool>,
}

impl ChatRequest {
    /// The name of the tool whose input is the answer when a schema was asked for, in formats that ask for one so: what the client calls
    /// the answer, unless that is no name of a tool or that of another one.
    pub(super) fn answer_tool(&self) -> Option<String> {
        self.schema.as_ref()?;
        let own = self.label.name.clone().filter(|name| is_tool_name(name));
        let others = (2..).map(|n| format!("{ANSWER}_{n}"));
        let mut names = own.into_iter().chain([ANSWER.to_owned()]).chain(others);
        names.find(|name| self.tools.iter().all(|tool| tool.name != *name))
    }

    /// What that tool is for.
    pub(super) fn answer_description(&self) -> &str {
        self.label.description.as_deref().filter(|said| !said.is_empty()).unwrap_or("Give the answer.")
    }

    /// The schema with what is said of it, for formats that have no other place for that. What it says of itself stays.
    pub(super) fn labelled_schema(&self) -> Option<Value> {
        let mut schema = self.schema.clone()?;
        if let Value::Object(schema) = &mut schema {
            for (key, said) in [("title", &self.label.name), ("description", &self.label.description)] {
                if let Some(said) = said {
                    schema.entry(key).or_insert_with(|| said.as_str().into());
                }
            }
        }
        Some(schema)
    }

    /// The most tokens of the answer, where that is asked for.
    pub(super) fn tokens_max(&self) -> Option<u64> {
        (self.tokens_max > 0).then_some(self.tokens_max)
    }

    /// Sets a limit of tokens where there is none, in the body that is sent as it is as well: only what is sent can hold, in a word that
    /// the provider knows.
    pub(super) fn limit_tokens(&mut self, tokens_key: &str) {
        self.tokens_max = self.tokens_max().unwrap_or(TOKENS_MAX);
        let key = if self.endpoint == Endpoint::Completions { OLDER } else { tokens_key };
        let Some(body) = &mut self.body else { return };
        let is_missing = |key: &str| body.get(key).is_none_or(Value::is_null);
        match (is_missing(OLDER), is_missing(NEWER)) {
            (true, true) => drop(body.insert(key.to_owned(), self.tokens_max.into())),
            // Who knows the older word alone passes over the newer one. Those that know the newer one know both.
            (true, false) if key == OLDER => drop(body.remove(NEWER).and_then(|limit| body.insert(OLDER.to_owned(), limit))),
            _ => {}
        }
        if let Some(said) = body.get(key).and_then(Value::as_u64) {
            self.tokens_max = said;
        }
    }

    /// How many answers a body that is sent as it is asks for.
    pub(super) fn n_answers(&self) -> u64 {
        let number = |name: &str| self.body.as_ref().and_then(|body| body.get(name)?.as_u64()).unwrap_or(1);
        let prompts = self.body.as_ref().and_then(|body| body.get("prompt")?.as_array());
        let n_prompts = prompts.map_or(1, |prompts| prompts.iter().filter(|prompt| !prompt.is_number()).count());
        number("n").max(number("best_of")).saturating_mul(n_prompts as u64).max(1)
    }
}

/// How an answer is drawn. What is `None` is left to the provider.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// How adventurous.
    pub temperature: Option<f64>,
    /// Draw from the likeliest tokens that have this much probability together.
    pub top_p: Option<f64>,
    /// Texts that end an answer.
    pub stops: Vec<String>,
    /// Ask for token ids and log-probs, as vLLM tells them.
    pub token_ids: bool,
    /// Further parameters, in the provider's own words.
    pub extra: Map<String, Value>,
}

/// Why a request cannot be put into a provider's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(pub String);

/// How the answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transfer {
    /// In pieces, so that a provider that hangs is noticed early.
    #[default]
    Stream,
    /// In one piece.
    Plain,
}

/// A part of a message.
pub(super) enum Part<'a> {
    Text(&'a str),
    /// A picture inside the message.
    Data {
        media_type: &'a str,
        base64: &'a str,
    },
    /// A picture elsewhere, which the provider fetches.
    Link(&'a str),
    /// Something else, in the form in which it came.
    Other(&'a Value),
}

/// The parts of a message in OpenAI's form.
pub(super) fn parts(content: &Content) -> Vec<Part<'_>> {
    let part = |value| -> Part<'_> {
        let value: &Value = value;
        let url = || value["image_url"]["url"].as_str();
        match (value["type"].as_str(), value["text"].as_str()) {
            (Some("text" | "input_text" | "output_text"), Some(text)) => Part::Text(text),
            (Some("image_url"), _) => match url() {
                Some(url) => match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
                    Some((media_type, base64)) => Part::Data { media_type, base64 },
                    None => Part::Link(url),
                },
                None => Part::Other(value),
            },
            _ => Part::Other(value),
        }
    };
    match content {
        Content::None => Vec::new(),
        Content::Text(text) if text.is_empty() => Vec::new(),
        Content::Text(text) => vec![Part::Text(text)],
        Content::Parts(values) => values.iter().map(part).collect(),
    }
}

/// The conversation for formats in which only users show pictures: those that tools gave follow on their results, as if a user showed them.
pub(super) fn with_pictures_of_users(messages: &[Message]) -> Cow<'_, [Message]> {
    let is_picture = |part: &Value| part["type"] == "image_url";
    let shows = |message: &Message| matches!(&message.content, Content::Parts(parts) if parts.iter().any(is_picture));
    if !messages.iter().any(|message| message.role == Role::Tool && shows(message)) {
        return Cow::Borrowed(messages);
    }
    let (mut told, mut pictures) = (Vec::with_capacity(messages.len()), Vec::new());
    let show = |told: &mut Vec<Message>, pictures: &mut Vec<Value>| {
        if !pictures.is_empty() {
            told.push(Message { content: Content::Parts(std::mem::take(pictures)), ..Message::text(Role::User, "") });
        }
    };
    for message in messages {
        if message.role != Role::Tool {
            show(&mut told, &mut pictures);
        }
        let mut message = message.clone();
        if let (Role::Tool, Content::Parts(parts)) = (message.role, &mut message.content) {
            let (shown, mut rest): (Vec<Value>, _) = parts.drain(..).partition(is_picture);
            if rest.is_empty() {
                rest.push(json!({"type": "text", "text": "(a picture, which follows)"}));
            }
            *parts = rest;
            pictures.extend(shown);
        }
        told.push(message);
    }
    show(&mut told, &mut pictures);
    Cow::Owned(told)
}

/// The conversation for formats in which two sides take turns: neighbours of one side are joined. `model` is the format's word for the
/// side that answers, `content` for what is said. Instructions stand elsewhere there.
pub(super) fn in_turns(
    messages: &[Message],
    model: &str,
    content: &str,
    mut blocks: impl FnMut(usize, &Message) -> Result<Vec<Value>, RequestError>,
) -> Result<Vec<Value>, RequestError> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (message_idx, message) in messages.iter().enumerate() {
        let role = match message.role {
            Role::System | Role::Developer => continue,
            Role::User | Role::Tool => "user",
            Role::Assistant => model,
        };
        let said = blocks(message_idx, message)?;
        match turns.last_mut() {
            _ if said.is_empty() => {}
            Some((last, together)) if *last == role => together.extend(said),
            _ => turns.push((role, said)),
        }
    }
    Ok(turns.into_iter().map(|(role, said)| json!({"role": role, content: said})).collect())
}

/// Whether every format takes this for the name of a tool.
fn is_tool_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=TOOL_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_sign)
}

/// The schema of a tool's arguments, for formats that insist on one.
pub(super) fn parameters(tool: &ToolSpec) -> Value {
    if tool.parameters.is_null() { json!({"type": "object", "properties": {}}) } else { tool.parameters.clone() }
}

/// The arguments of a call as an object, for formats that insist on one. What a model wrote instead is shown to it as it is.
pub(super) fn arguments(text: &str) -> Value {
    match serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }) {
        Ok(Value::Object(map)) => Value::Object(map),
        _ => json!({ "unreadable": text }),
    }
}

/// Adds the caller's own parameters; what the conversation is made of is not theirs to replace.
pub(super) fn add_extra(body: &mut Map<String, Value>, extra: &Map<String, Value>) -> Result<(), RequestError> {
    for (name, value) in extra {
        if let Some(old) = body.insert(name.clone(), value.clone()) {
            return Err(RequestError(format!("the parameter `{name}` is set twice: {old} and {value}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_that_a_body_asks_for_are_paid_for() {
        let check = |body: Value, expected: u64| {
            let request = ChatRequest { body: body.as_object().cloned(), ..ChatRequest::default() };
            assert_eq!(request.n_answers(), expected, "{body}");
        };
        check(json!(null), 1);
        check(json!({"n": 3}), 3);
        check(json!({"prompt": "a", "n": 2, "best_of": 5}), 5);
        check(json!({"prompt": ["a", "b"], "n": 2}), 4);
        check(json!({"prompt": [1, 2, 3]}), 1);
        check(json!({"prompt": [[1], [2]]}), 2);
    }
}
