//! A model's tokenizer, chat template and tool format together: conversations to ids, sampled ids to answers.
//!
//! What people wrote goes into the template marked (see `mark.rs`), so that no message can forge another.
//! Knows nothing of sampling.

use crate::error::RenderError;
use crate::mark::{Marker, Rendered};
use crate::template::{Scene, Template};
use crate::tokenizer::Tokenizer;
use crate::tools::{self, Answer, ToolFormat};
use hone_trace::{Content, Message, Role, Time, ToolSpec};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// Everything that it takes to speak with one model. Made once, shared by all episodes.
#[derive(Debug, Clone)]
pub struct Renderer {
    tokenizer: Arc<Tokenizer>,
    template: Option<Template>,
    /// For conversations with tools, where the model has another one for them.
    tool_template: Option<Template>,
    tool_format: ToolFormat,
}

/// What stays the same during an episode, besides the messages.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Further variables for the template, such as `enable_thinking`.
    pub extra: Map<String, Json>,
    /// The time for templates that print one; without it they fail.
    pub now: Option<Time>,
    /// How many exchanges before the present one the model is shown, besides the standing instructions; without it, all.
    pub memory: Option<usize>,
    /// How many ids an episode may have at most; what must have more is refused before it is tokenized.
    pub n_ids_max: Option<usize>,
}

/// How a rendering ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the beginning of an answer, for the model to continue.
    Answer,
    /// With the last message.
    Message,
}

impl Renderer {
    /// Takes the chat template that came with the tokenizer. Without one only plain text can be encoded.
    pub fn new(tokenizer: Tokenizer) -> Result<Self, RenderError> {
        let [source, of_tools] = [tokenizer.chat_template(), tokenizer.tool_template()].map(|source| source.map(str::to_owned));
        Self::with_templates(tokenizer, source.as_deref(), of_tools.as_deref())
    }

    /// Takes another chat template.
    pub fn with_template(tokenizer: Tokenizer, source: &str) -> Result<Self, RenderError> {
        Self::with_templates(tokenizer, Some(source), None)
    }

    /// Takes another chat template, and one for conversations with tools where there is one of their own.
    pub fn with_templates(tokenizer: Tokenizer, source: Option<&str>, of_tools: Option<&str>) -> Result<Self, RenderError> {
        Ok(Self {
            tokenizer: Arc::new(tokenizer),
            template: source.map(Template::new).transpose()?,
            tool_template: of_tools.map(Template::new).transpose()?,
            tool_format: of_tools.or(source).map_or(ToolFormat::None, ToolFormat::detect),
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// How the model writes tool calls.
    pub fn tool_format(&self) -> ToolFormat {
        self.tool_format
    }

    /// Renders a conversation.
    pub fn render(&self, messages: &[Message], setting: &Setting, ending: Ending) -> Result<Rendered, RenderError> {
        let for_tools = self.tool_template.as_ref().filter(|_| !setting.tools.is_empty());
        let template = for_tools.or(self.template.as_ref()).ok_or(RenderError::NoTemplate)?;
        let (takes_parts, empty) = (template.takes_parts(), if template.asks_for_content() { Json::Null } else { json!("") });
        let plain = messages.iter().enumerate().map(|(i, message)| message_json(i, message, takes_parts, &empty));
        let plain: Vec<Json> = plain.collect::<Result<_, _>>()?;
        let tools: Vec<Json> = setting.tools.iter().map(tools::tool_json).collect();
        let mut texts = vec![template.source()];
        plain.iter().chain(&tools).chain(setting.extra.values()).for_each(|json| collect_texts(json, &mut texts));
        let marker = Marker::unused_in(texts);
        let marker = marker.ok_or_else(|| RenderError::template("the conversation uses up every private character"))?;

        let specials = self.tokenizer.specials();
        let foreign = |text: &str| marker.foreign(text, specials);
        let own = |text: &str| marker.own(text, specials);
        let marked = messages.iter().zip(&plain).map(|(message, json)| match message.role {
            Role::Assistant => map_texts(json, &own),
            Role::System | Role::Developer | Role::User | Role::Tool => map_texts(json, &foreign),
        });
        let scene = Scene {
            messages: marked.collect(),
            tools: tools.iter().map(|tool| map_texts(tool, &foreign)).collect(),
            add_generation_prompt: ending == Ending::Answer,
            bos_token: self.tokenizer.bos_text().to_owned(),
            eos_token: self.tokenizer.eos_text().to_owned(),
            extra: setting.extra.clone(),
            mark: Some(marker.mark()),
            now: setting.now,
        };
        Ok(marker.unmark(&template.render(&scene)?))
    }

    /// The ids of a conversation, for the model to answer.
    pub fn prompt(&self, messages: &[Message], setting: &Setting) -> Result<Vec<u32>, RenderError> {
        self.tokenizer.encode_rendered(&self.render(messages, setting, Ending::Answer)?)
    }

    /// The text of a sampled answer, without the token that ended it.
    pub fn answer_text(&self, ids: &[u32]) -> String {
        let said = match ids.split_last() {
            Some((last, said)) if self.tokenizer.eos_ids().contains(last) => said,
            _ => ids,
        };
        self.tokenizer.decode_continuation(said)
    }

    /// Takes a sampled answer apart.
    pub fn read(&self, ids: &[u32]) -> Answer {
        self.tool_format.read(&self.answer_text(ids))
    }

    /// Whether tokenizing the text of an answer again would give other ids than were sampled. Nothing here ever does
    /// so; a count of such answers says how much harm it would have done.
    pub fn would_differ(&self, ids: &[u32]) -> bool {
        let text = self.tokenizer.decode(ids);
        self.tokenizer.encode_rendered(&Rendered::trusted(text)).is_ok_and(|again| again != ids)
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
