//! The seam to worlds: scenarios come out, episodes are played in them.
//!
//! A world measures and never weighs: what a step was worth is told as named signals, and only `hone-reward` turns signals
//! into a reward. Everything about an episode is fixed by its scenario, its seed and the actions taken.
//! Knows nothing of models, rewards or the store.

use crate::policy::Conversation;
use crate::{ErrorEvent, Message, Scenario, ToolCall, ToolSpec, TraceOutcome};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// The word on a trace for a world that broke.
pub const ENV_ERROR: &str = "env_error";

/// A world.
pub trait Env: Send + Sync {
    /// Its name, such as `desk`.
    fn name(&self) -> &str;

    /// The first `n` scenarios of a split. The same seed gives the same scenarios, and a longer list begins with the shorter.
    /// Fewer come back when the world has no more. No family is in two splits.
    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError>;

    /// Begins an episode.
    fn reset(&self, scenario: &Scenario, seed: u64) -> Result<Reset, EnvError>;

    /// Who plays this scenario as well as it can be played. It may look at the hidden truth.
    fn gold(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError>;

    /// Who plays well-formed actions at random.
    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError>;

    /// The last signals of the best possible episode: what 1.0 means on a normalised scale.
    fn best(&self, scenario: &Scenario) -> Signals;

    /// A variation of this scenario that is no harder, where the world has such. Its id is that of no scenario of a split.
    fn vary(&self, _scenario: &Scenario, _seed: u64) -> Option<Scenario> {
        None
    }
}

/// The parts that scenarios are divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// To learn from.
    Train,
    /// To choose by.
    Validation,
    /// To report.
    Test,
}

impl Split {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// An episode that has begun.
pub struct Reset {
    /// The episode.
    pub episode: Box<dyn Play>,
    /// The tools on offer: most worlds offer the same ones in every episode.
    pub tools: Arc<[ToolSpec]>,
    /// What is said first: standing instructions and the task.
    pub messages: Vec<Message>,
}

/// An episode in a world.
pub trait Play: Send {
    /// Takes the policy's answer and says what comes of it. An answer that makes no sense is an outcome like any other; an
    /// error means that the world itself broke.
    fn step(&mut self, action: &Message) -> Result<Step, EnvError>;

    /// The same for an episode that has this much time left. A world that waits for somebody waits no longer and says
    /// [`EnvError::Late`]; one that only computes needs no limit.
    fn step_within(&mut self, action: &Message, _time_max_ms: Option<u64>) -> Result<Step, EnvError> {
        self.step(action)
    }
}

/// What comes of an action.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// What is said to the policy next: tool results, the user's reply.
    pub messages: Vec<Message>,
    /// The tools that ran, with what they took by the world's own clock.
    pub tool_calls: Vec<ToolCall>,
    /// What went wrong: an unparsable action, a tool that failed.
    pub errors: Vec<ErrorEvent>,
    /// What was measured.
    pub signals: Signals,
    /// How the episode ended; `None` when it goes on.
    pub done: Option<TraceOutcome>,
}

/// Named measurements of one step, in the order in which the world tells them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals(pub Vec<(Cow<'static, str>, f64)>);

impl Signals {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }
}

impl<const N: usize> From<[(&'static str, f64); N]> for Signals {
    fn from(pairs: [(&'static str, f64); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect())
    }
}

/// Why a world cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The scenario is not one of this world, or is damaged.
    #[error("scenario {scenario}: {reason}")]
    Scenario {
        /// Its id.
        scenario: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What the world is made from is missing or damaged.
    #[error("{place}: {reason}")]
    Data {
        /// Which file or address.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The world broke in the middle of an episode.
    #[error("{0}")]
    Broken(String),
    /// The time of the episode ran out before the world answered.
    #[error("{0}")]
    Late(String),
}
