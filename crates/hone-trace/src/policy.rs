//! The seam to policies: anything that answers a conversation, be it a local model, a provider or a script.
//!
//! A conversation keeps its own history: each answer is given only what was said since the one before, so that a local
//! model extends the tokens that it sampled and renders nothing twice.
//! Knows nothing of worlds, tokens' meaning or wire formats.

use crate::{Config, ErrorEvent, LlmCall, Message, Sampled, ToolSpec};
use serde_json::Value;
use std::sync::Arc;

/// Anything that answers conversations.
pub trait Policy: Send + Sync {
    /// Everything that shapes it. Its hash stands on every trace that it makes.
    fn config(&self) -> &Config;

    /// Whether an answer cannot but follow the schema that is asked for, whatever that says.
    fn keeps_to_schemas(&self) -> bool {
        false
    }

    /// Whether answers can call tools. Where they cannot, the model may not even be told of those on offer.
    fn calls_tools(&self) -> bool {
        true
    }

    /// The longest conversation in tokens, answers included, where that is known.
    fn context_tokens(&self) -> Option<usize> {
        None
    }

    /// Begins a conversation.
    fn open(&self, opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError>;
}

/// What stays the same during a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Opening {
    /// The tools on offer.
    pub tools: Arc<[ToolSpec]>,
    /// The JSON schema that every answer follows, where one is asked for.
    pub schema: Option<Value>,
    /// The seed of everything drawn at random.
    pub seed: u64,
}

/// One conversation with a policy.
pub trait Conversation: Send {
    /// Answers what was said since the answer before. The caller waits; the policy keeps to its own time limits.
    fn answer(&mut self, input: &[Message], limits: AnswerLimits) -> Result<Answered, PolicyError>;
}

/// What an answer may cost at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Tokens written.
    pub tokens_max: u64,
    /// Milliseconds, where there is a limit.
    pub time_max_ms: Option<u64>,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self { tokens_max: 1024, time_max_ms: None }
    }
}

/// An answer, with what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// What was said.
    pub message: Message,
    /// The calls of a model behind it: several when one was retried.
    pub llm_calls: Vec<LlmCall>,
    /// What went wrong on the way, and what of the answer could not be read.
    pub errors: Vec<ErrorEvent>,
    /// Its tokens, where the sampler told them.
    pub sampled: Option<Sampled>,
    /// Whether history was rewritten before this answer, so that a new segment begins with it.
    pub is_new_segment: bool,
}

impl Answered {
    /// An answer of which only the words are known.
    pub fn of(message: Message) -> Self {
        Self { message, llm_calls: Vec::new(), errors: Vec::new(), sampled: None, is_new_segment: false }
    }
}

/// Why a policy gave no answer. The kind goes on the trace as the type of the error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct PolicyError {
    /// What kind of failure.
    pub kind: PolicyErrorKind,
    /// In the words of whoever failed.
    pub message: String,
    /// The calls that were made and paid for in vain.
    pub llm_calls: Vec<LlmCall>,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyErrorKind {
    /// No answer in time.
    Timeout,
    /// The provider asked to come back later, too often.
    RateLimit,
    /// The provider failed.
    Provider,
    /// The answer broke the protocol.
    Protocol,
    /// The provider does not serve us at all: a wrong key, no credit.
    Account,
    /// The provider refused the request itself: an unknown model, a malformed request.
    Refused,
    /// The conversation no longer fits the model.
    TooLong,
    /// The money is spent.
    Budget,
    /// Who asked has left in the middle of the answer.
    Abandoned,
}

impl PolicyErrorKind {
    /// The word for it on a trace.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "policy_timeout",
            Self::RateLimit => "policy_rate_limit",
            Self::Provider => "policy_provider",
            Self::Protocol => "policy_protocol",
            Self::Account => "policy_account",
            Self::Refused => "policy_refused",
            Self::TooLong => "policy_too_long",
            Self::Budget => "policy_budget",
            Self::Abandoned => "policy_abandoned",
        }
    }
}

impl std::fmt::Display for PolicyErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
