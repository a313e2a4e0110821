//! What cannot be rendered or read, in words that name the place and, where there is one, the way out.

/// A request that this crate cannot meet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A tokenizer file that is broken, or of a kind that is not known here.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A model without a chat template was asked to hold a conversation.
    #[error("the model has no chat template; give one, or use a model whose `tokenizer_config.json` has `chat_template`")]
    NoTemplate,
    /// A chat template that does not compile, fails, or takes more than it may.
    #[error("chat template: {0}")]
    Template(String),
    /// Something in a message that is no text, such as a picture, for a model that reads text alone.
    #[error(
        "message {at} has a part of type `{kind}`, and this model reads text alone: leave it out, or ask a model that takes it"
    )]
    Part {
        /// The place of the message, from 0.
        at: usize,
        /// Its type.
        kind: String,
    },
    /// Calls of tools, for a model whose chat template has no words for them.
    #[error(
        "message {at} calls tools, and the chat template of this model has no words for that: ask a model that is made for tools"
    )]
    Calls {
        /// The place of the message, from 0.
        at: usize,
    },
    /// A text that the tokenizer could not cut into tokens.
    #[error("text of {n_bytes} bytes could not be tokenized: {why}")]
    Text {
        /// Its size.
        n_bytes: usize,
        /// What the tokenizer said.
        why: String,
    },
    /// A text that has no room, however few tokens it may have.
    #[error("{n_bytes} bytes of text are at least {n_ids_min} tokens, which leave no room for an answer in {n_ids_max}")]
    TooLong {
        /// Its size.
        n_bytes: usize,
        /// The tokens of such a size where each is as long as the longest.
        n_ids_min: usize,
        /// How many there may be.
        n_ids_max: usize,
    },
    /// A schema or grammar that cannot be followed.
    #[error("grammar: {0}")]
    Grammar(String),
    /// A rule that this model's vocabulary cannot carry.
    #[error("rule: {0}")]
    Rule(String),
    /// An episode that was asked out of turn.
    #[error("episode: {0}")]
    Episode(String),
}

impl RenderError {
    pub(crate) fn tokenizer(what: impl Into<String>) -> Self {
        Self::Tokenizer(what.into())
    }

    pub(crate) fn template(what: impl Into<String>) -> Self {
        Self::Template(what.into())
    }
}
