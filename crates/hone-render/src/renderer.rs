//! A model's tokenizer, chat template and tool format together: conversations to ids, sampled ids to answers.
//!
//! What people wrote goes into the template marked (see `mark.rs`), so that no message can forge another.
//! Knows nothing of sampling.

use crate::error::RenderError;
use crate::known::Known;
use crate::mark::Rendered;
use crate::template::{Given, Template};
use crate::tokenizer::Tokenizer;
use crate::tools::{Answer, ToolFormat};
use hone_trace::{Message, Time, ToolSpec};
use serde_json::{Map, Value as Json};
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
        self.render_known(&mut Known::default(), messages, setting, ending)
    }

    /// The template of conversations in this setting.
    pub(crate) fn template(&self, setting: &Setting) -> Result<&Template, RenderError> {
        let for_tools = self.tool_template.as_ref().filter(|_| !setting.tools.is_empty());
        for_tools.or(self.template.as_ref()).ok_or(RenderError::NoTemplate)
    }

    /// The same for one whose first messages are known, in this setting; then all of them are.
    pub(crate) fn render_known(
        &self,
        known: &mut Known,
        messages: &[Message],
        setting: &Setting,
        ending: Ending,
    ) -> Result<Rendered, RenderError> {
        let template = self.template(setting)?;
        let marker = known.learn(template, self.tokenizer.specials(), messages, setting)?;
        let given = Given {
            messages: known.messages.clone(),
            tools: known.tools.clone(),
            n_bytes: known.n_bytes,
            add_generation_prompt: ending == Ending::Answer,
            bos_token: self.tokenizer.bos_text(),
            eos_token: self.tokenizer.eos_text(),
            extra: &setting.extra,
            mark: Some(marker.mark()),
            now: setting.now,
        };
        Ok(marker.unmark(&template.run(&given)?))
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
