//! Chat messages and tools in the form of the OpenAI API, which the `openai` and `art` formats share.
//!
//! | wire | word |
//! |---|---|
//! | `role`, `content`, `name`, `tool_call_id` | the same |
//! | `role: "function"` | [`Role::Tool`], noted as `hone.role` |
//! | `reasoning_content`, else `reasoning` | `reasoning`; the second spelling is noted as `hone.reasoning` |
//! | `tool_calls[]` | [`ToolRequest`](crate::ToolRequest), see [`call`] |
//! | `function_call` | the last [`ToolRequest`](crate::ToolRequest), noted as `hone.form` |
//! | anything else (`weight`, `refusal`, `audio` …) | `extra` |
//! | a known key that is `null`, or an empty `tool_calls` | `extra`, so that it can be told from a missing one |
//!
//! Not kept: the order of keys, and all but the last of repeated keys.

pub(super) mod call;
pub(super) mod tool;

use super::object::{self, Object, Read};
use crate::turn::WEIGHT;
use crate::{Content, Message, Role, Segment, Turn};
use call::{Call, LEGACY, is_legacy};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::{borrow::Cow, fmt};

/// A message as it is read.
#[derive(Default)]
pub(super) struct Chat {
    role: Option<Role>,
    content: Content,
    reasoning: [Option<Value>; 2],
    tool_calls: Vec<Call>,
    function_call: Option<Call>,
    tool_call_id: Option<String>,
    name: Option<String>,
    extra: Map<String, Value>,
}

impl Object for Chat {
    const WHAT: &'static str = "a message";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        let extra = &mut self.extra;
        match &*key {
            "role" => {
                let (role, legacy) = role(&map.next_value::<Cow<'de, str>>()?).map_err(A::Error::custom)?;
                self.role = Some(role);
                if legacy {
                    extra.insert("hone.role".to_owned(), "function".into());
                }
            }
            "content" => match map.next_value()? {
                Said(Content::None) => {
                    self.content = Content::None;
                    extra.insert(key.into_owned(), Value::Null);
                }
                Said(content) => {
                    extra.remove(&*key);
                    self.content = content;
                }
            },
            "reasoning_content" => self.reasoning[0] = Some(map.next_value()?),
            "reasoning" => self.reasoning[1] = Some(map.next_value()?),
            "tool_calls" => self.tool_calls = object::list(&key, map, extra)?,
            "function_call" => match map.next_value::<Option<Read<call::Function>>>()? {
                Some(Read(function)) => self.function_call = Some(Call::legacy(function)),
                None => {
                    extra.insert(key.into_owned(), Value::Null);
                }
            },
            "tool_call_id" => self.tool_call_id = object::text(&key, map, extra)?,
            "name" => self.name = object::text(&key, map, extra)?,
            _ => object::leftover(key, map, extra)?,
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        if self.role.is_none() { Err(("", "`role` is missing".to_owned())) } else { Ok(()) }
    }
}

impl Chat {
    /// The message, once it has been read to its end.
    pub(super) fn into_message(self) -> Message {
        let mut extra = self.extra;
        let [content, other] = self.reasoning;
        let (reasoning, left) = match (content, other) {
            (Some(Value::String(text)), other) => (Some(text), [None, other]),
            (None, Some(Value::String(text))) => {
                extra.insert("hone.reasoning".to_owned(), "reasoning".into());
                (Some(text), [None, None])
            }
            (content, other) => (None, [content, other]),
        };
        for (key, value) in REASONING.into_iter().zip(left) {
            extra.extend(value.map(|value| (key.to_owned(), value)));
        }
        let calls = self.tool_calls.into_iter().chain(self.function_call);
        Message {
            role: self.role.unwrap_or(Role::Assistant),
            content: self.content,
            reasoning,
            tool_calls: calls.map(|call| call.request).collect(),
            tool_call_id: self.tool_call_id,
            name: self.name,
            extra,
        }
    }

    /// Whether no word of a message was there, only leftovers.
    pub(super) fn is_bare(&self) -> bool {
        self.role.is_none()
            && self.content == Content::None
            && self.reasoning.iter().all(Option::is_none)
            && self.tool_calls.is_empty()
            && self.function_call.is_none()
            && self.tool_call_id.is_none()
            && self.name.is_none()
            && KNOWN.iter().all(|&key| !self.extra.contains_key(key))
    }

    /// All keys without a word.
    pub(super) fn into_leftovers(self) -> Map<String, Value> {
        self.extra
    }

    pub(super) fn is_answer(&self) -> bool {
        self.role == Some(Role::Assistant)
    }
}

/// The keys of a message that have a word.
pub(super) const KNOWN: [&str; 8] =
    ["role", "content", "reasoning_content", "reasoning", "tool_calls", LEGACY, "tool_call_id", "name"];

/// The same and what marks a choice.
const HIDDEN: [&str; 9] =
    ["role", "content", "reasoning_content", "reasoning", "tool_calls", LEGACY, "tool_call_id", "name", "message"];

const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The role of this name, and whether it is the legacy name of a tool.
fn role(name: &str) -> Result<(Role, bool), String> {
    Ok(match name {
        "system" => (Role::System, false),
        "developer" => (Role::Developer, false),
        "user" => (Role::User, false),
        "assistant" => (Role::Assistant, false),
        "tool" => (Role::Tool, false),
        "function" => (Role::Tool, true),
        other => {
            let other = object::short(other);
            return Err(format!("`{other}` is not a role: system, developer, user, assistant, tool or function"));
        }
    })
}

/// What a message says, read without the copy that an untagged enum makes.
struct Said(Content);

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a list of parts or null")
            }

            fn visit_unit<E: Error>(self) -> Result<Content, E> {
                Ok(Content::None)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }
        deserializer.deserialize_any(Visit).map(Said)
    }
}

/// Cuts a conversation into turns: each answer ends one. `turn` makes it from what was said before and the entry.
pub(super) fn segment<T>(
    entries: impl IntoIterator<Item = T>,
    mut split: impl FnMut(T, &mut Vec<Message>) -> Option<Turn>,
) -> Segment {
    let mut segment = Segment::default();
    let mut said = Vec::new();
    for entry in entries {
        segment.turns.extend(split(entry, &mut said));
    }
    segment.tail = said;
    segment
}

/// Takes a message into the conversation: an answer ends the turn.
pub(super) fn take(message: Message, said: &mut Vec<Message>) -> Option<Turn> {
    if message.role == Role::Assistant {
        Some(Turn::new(std::mem::take(said), message))
    } else {
        said.push(message);
        None
    }
}

/// A message as it is written. In a list that also holds choices, a leftover `message` would make it one.
pub(super) enum Written<'a> {
    Plain(&'a Message),
    BesideChoices(&'a Message),
    /// What was answered before anybody was asked: whoever learns from the line learns nothing from it, as its `weight` says.
    History(&'a Message),
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (Self::Plain(message) | Self::BesideChoices(message) | Self::History(message)) = self;
        let beside_choices = matches!(self, Self::BesideChoices(_));
        let mut out = Out::new(serializer.serialize_map(None)?, &message.extra);
        let legacy = message.role == Role::Tool && message.extra.get("hone.role").is_some_and(|role| role == "function");
        if legacy {
            out.put("role", "function")?;
        } else {
            out.put("role", &message.role)?;
        }
        match &message.content {
            Content::None => out.nothing("content", Value::is_null)?,
            content => out.put("content", content)?,
        }
        let other = message.extra.get("hone.reasoning").is_some_and(|key| key == "reasoning");
        match &message.reasoning {
            Some(text) if other => out.put("reasoning", text)?,
            Some(text) => {
                out.put("reasoning_content", text)?;
                out.nothing("reasoning", |_| true)?;
            }
            None => {
                out.nothing("reasoning_content", |_| true)?;
                out.nothing("reasoning", |_| true)?;
            }
        }
        out.list("tool_calls", message.tool_calls.iter().filter(|call| !is_legacy(call)).map(call::Written))?;
        match message.tool_calls.iter().rfind(|call| is_legacy(call)) {
            Some(call) => out.put(LEGACY, &call::WrittenFunction(call))?,
            None => out.nothing(LEGACY, Value::is_null)?,
        }
        out.text("tool_call_id", message.tool_call_id.as_deref())?;
        out.text("name", message.name.as_deref())?;
        if matches!(self, Self::History(_)) && !message.extra.contains_key(WEIGHT) {
            out.put(WEIGHT, &0)?;
        }
        let n_hidden = if beside_choices { HIDDEN.len() } else { KNOWN.len() };
        out.end(&HIDDEN[..n_hidden])
    }
}

/// Writes one object: the words first, then what is left over in `extra`.
pub(super) struct Out<'a, M> {
    map: M,
    extra: &'a Map<String, Value>,
}

impl<'a, M: SerializeMap> Out<'a, M> {
    pub(super) fn new(map: M, extra: &'a Map<String, Value>) -> Self {
        Self { map, extra }
    }

    pub(super) fn put(&mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Result<(), M::Error> {
        self.map.serialize_entry(key, value)
    }

    /// Writes what is left over under a known key that has no word, if it is a value that belongs there.
    pub(super) fn nothing(&mut self, key: &str, belongs: impl Fn(&Value) -> bool) -> Result<(), M::Error> {
        match self.extra.get(key).filter(|value| belongs(value)) {
            Some(value) => self.put(key, value),
            None => Ok(()),
        }
    }

    pub(super) fn text(&mut self, key: &str, text: Option<&str>) -> Result<(), M::Error> {
        match text {
            Some(text) => self.put(key, text),
            None => self.nothing(key, Value::is_null),
        }
    }

    pub(super) fn list<T: Serialize>(&mut self, key: &str, list: impl Iterator<Item = T>) -> Result<(), M::Error> {
        let mut list = list.peekable();
        if list.peek().is_none() {
            return self.nothing(key, |value| value.is_null() || value.as_array().is_some_and(Vec::is_empty));
        }
        self.put(key, &list.collect::<Vec<T>>())
    }

    /// Writes an object whose entries have words together with those that are left over.
    pub(super) fn merge(&mut self, key: &str, entries: &mut Map<String, Value>) -> Result<(), M::Error> {
        match self.extra.get(key) {
            Some(Value::Object(left)) => {
                for (key, value) in left {
                    entries.entry(key).or_insert_with(|| value.clone());
                }
                self.put(key, &*entries)
            }
            Some(other) if entries.is_empty() => self.put(key, other),
            _ if entries.is_empty() => Ok(()),
            _ => self.put(key, &*entries),
        }
    }

    /// Writes the rest of the leftovers: all but our own notes and the keys that have been dealt with.
    pub(super) fn end(mut self, known: &[&str]) -> Result<M::Ok, M::Error> {
        for (key, value) in self.extra {
            if !known.contains(&key.as_str()) && !key.starts_with("hone.") {
                self.put(key, value)?;
            }
        }
        self.map.end()
    }
}
