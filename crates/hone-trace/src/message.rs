//! What is said in an episode: messages, the tool calls that an answer asks for, and the tools on offer.

use crate::sorted;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Standing instructions.
    System,
    /// Standing instructions, under the name that newer models give them.
    Developer,
    /// The person or program that asks.
    User,
    /// The policy.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Nothing, as in an answer that only calls tools.
    #[default]
    None,
    /// Plain text.
    Text(String),
    /// Typed parts (text, images and so on) in the form in which they came.
    Parts(#[serde(serialize_with = "sorted::list")] Vec<Value>),
}

impl Content {
    /// All text of the message, parts joined by line breaks.
    pub fn text(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                texts.join("\n")
            }
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Written by hand because most of a trace is text: the derived form copies every text once more.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a list of parts, or null")
            }

            fn visit_unit<E>(self) -> Result<Content, E> {
                Ok(Content::None)
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    #[serde(default, skip_serializing_if = "Content::is_none")]
    pub content: Content,
    /// The thinking before the answer, where the provider shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The tool calls that this answer asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolRequest>,
    /// The call that this tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The speaker's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What a foreign format said of this message besides; kept so that it can be given back.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message of plain text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: Content::Text(text.into()),
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            extra: Map::new(),
        }
    }

    /// Whether it says nothing and calls nothing.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.content.text().trim().is_empty()
    }
}

/// A tool call as the policy wrote it. The arguments are its own text, which may not even be JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    /// The id by which the result refers to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, verbatim.
    pub arguments: String,
    /// What a foreign format said of this call besides.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub extra: Map<String, Value>,
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, in the words that the policy sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    #[serde(default, skip_serializing_if = "Value::is_null", serialize_with = "sorted::value")]
    pub parameters: Value,
    /// What a foreign format said of this tool besides.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub extra: Map<String, Value>,
}
