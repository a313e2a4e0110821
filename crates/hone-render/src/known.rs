//! A conversation as a template is given it, each message made ready once.
//!
//! A conversation is rendered after every turn, and a template may look at all of it. But what it is given of a message does not change
//! while others follow, as long as none of them holds the character by which texts are marked (see `mark.rs`).
//! Knows nothing of what templates do with it.

use crate::error::RenderError;
use crate::mark::{Marker, possible_marks};
use crate::renderer::Setting;
use crate::special::Specials;
use crate::template::{Template, text_len};
use crate::tools;
use hone_trace::{Content, Message, Role};
use minijinja::Value;
use minijinja::value::Serde;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

/// The messages so far and the tools, marked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) messages: Vec<Value>,
    pub(crate) tools: Vec<Value>,
    /// The bytes of both.
    pub(crate) n_bytes: usize,
    marker: Option<Marker>,
    /// Characters of all texts that no mark may be.
    taken: BTreeSet<char>,
}

impl Known {
    /// Makes ready what is new. The first messages must be those that are known.
    pub(crate) fn learn(
        &mut self,
        template: &Template,
        specials: &Specials,
        messages: &[Message],
        setting: &Setting,
    ) -> Result<Marker, RenderError> {
        let (takes_parts, empty) = (template.takes_parts(), if template.asks_for_content() { Json::Null } else { json!("") });
        let fresh = messages.iter().enumerate().skip(self.messages.len());
        let plain: Vec<(Role, Json)> = fresh
            .map(|(i, message)| Ok((message.role, message_json(i, message, takes_parts, &empty)?)))
            .collect::<Result<_, RenderError>>()?;
        let is_first = self.marker.is_none();
        let tools: Vec<Json> = setting.tools.iter().filter(|_| is_first).map(tools::tool_json).collect();
        let mut texts = Vec::new();
        if is_first {
            texts.push(template.source());
            setting.extra.values().for_each(|json| collect_texts(json, &mut texts));
        }
        plain.iter().map(|(_, json)| json).chain(&tools).for_each(|json| collect_texts(json, &mut texts));
        self.taken.extend(texts.into_iter().flat_map(possible_marks));
        let marker = Marker::beside(&self.taken);
        let marker = marker.ok_or_else(|| RenderError::template("the conversation uses up every private character"))?;
        if self.marker.is_some_and(|before| before != marker) {
            *self = Self::default();
            return self.learn(template, specials, messages, setting);
        }
        self.marker = Some(marker);

        let foreign = |text: &str| marker.foreign(text, specials);
        let own = |text: &str| marker.own(text, specials);
        for (role, json) in &plain {
            let marked = match role {
                Role::Assistant => map_texts(json, &own),
                Role::System | Role::Developer | Role::User | Role::Tool => map_texts(json, &foreign),
            };
            self.n_bytes += text_len(&marked);
            self.messages.push(Value::from(Serde(&marked)));
        }
        for tool in &tools {
            let marked = map_texts(tool, &foreign);
            self.n_bytes += text_len(&marked);
            self.tools.push(Value::from(Serde(&marked)));
        }
        Ok(marker)
    }
}

/// A message in the form that templates expect. Most of them join the content with other texts, so a list of texts is one to them.
fn message_json(at: usize, message: &Message, takes_parts: bool, empty: &Json) -> Result<Json, RenderError> {
    let content = match &message.content {
        Content::None => empty.clone(),
        Content::Text(text) => json!(text),
        Content::Parts(parts) if takes_parts => json!(parts),
        Content::Parts(parts) => match parts.iter().find(|part| part["type"] != "text" || !part["text"].is_string()) {
            Some(other) => return Err(RenderError::Part { at, kind: other["type"].as_str().unwrap_or("unknown").to_owned() }),
            None => json!(message.content.text()),
        },
    };
    let mut json = Map::new();
    json.insert("role".into(), json!(message.role));
    json.insert("content".into(), content);
    let optional = [("reasoning_content", &message.reasoning), ("tool_call_id", &message.tool_call_id), ("name", &message.name)];
    for (key, value) in optional {
        if let Some(value) = value {
            json.insert(key.into(), value.as_str().into());
        }
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let function = json!({"name": call.name, "arguments": tools::arguments(call)});
            json!({"id": call.id, "type": "function", "function": function})
        });
        json.insert("tool_calls".into(), calls.collect());
    }
    Ok(Json::Object(json))
}

fn collect_texts<'a>(json: &'a Json, texts: &mut Vec<&'a str>) {
    match json {
        Json::String(text) => texts.push(text),
        Json::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Json::Object(map) => map.iter().for_each(|(key, value)| {
            texts.push(key);
            collect_texts(value, texts);
        }),
        _ => {}
    }
}

/// Changes every text, keys included.
fn map_texts(json: &Json, change: &impl Fn(&str) -> String) -> Json {
    match json {
        Json::String(text) => Json::String(change(text)),
        Json::Array(items) => items.iter().map(|item| map_texts(item, change)).collect(),
        Json::Object(map) => map.iter().map(|(key, value)| (change(key), map_texts(value, change))).collect(),
        other => other.clone(),
    }
}
