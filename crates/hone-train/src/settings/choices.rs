//! Settings that are a choice among words.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What learns from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Imitation of good traces.
    Sft,
    /// Many tries at the same task, and more of what earned more.
    Grpo,
    /// Imitation of all traces, the better ones more.
    Awr,
    /// Of two tries at the same task, more of the better one.
    Dpo,
    /// More of what earned more than a value estimate expected, from traces without groups.
    Ppo,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sft, Self::Grpo, Self::Awr, Self::Dpo, Self::Ppo];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sft => "sft",
            Self::Grpo => "grpo",
            Self::Awr => "awr",
            Self::Dpo => "dpo",
            Self::Ppo => "ppo",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a reward is credited to the whole episode or to its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditName {
    /// To every token of the episode.
    Episode,
    /// To the tokens of each turn, by what came after it.
    Turns,
}

/// What rewards of a group are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CentringName {
    /// Their mean.
    Mean,
    /// Their mean, in units of their deviation.
    Deviation,
    /// The mean of the others.
    LeaveOneOut,
}

/// Where divergence costs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlPlace {
    /// In the loss.
    Loss,
    /// In the reward.
    Reward,
}

/// What becomes of tokens whose sampler was another policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CorrectionName {
    /// They are weighed, and weights cut down, where samples may be older than the weights; else nothing.
    Auto,
    /// Nothing.
    None,
    /// They are weighed, and large weights cut down.
    Truncate,
    /// They are weighed, and those with large weights dropped.
    Mask,
}

/// What validation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Tasks that were solved.
    Solved,
    /// Tasks in which every answer could be read: what imitation learns first.
    Format,
    /// Tasks that earned at least a half: for worlds whose outcome only a recipe knows, such as a replay.
    Rewarded,
}
