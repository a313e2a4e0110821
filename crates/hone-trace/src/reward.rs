//! Rewards: named components with weights, their sum, and who gave them.

use crate::{ConfigHash, RewardId, Time};
use serde::{Deserialize, Serialize};

/// The largest reward that comes from outside, above and below zero. Sums of squares stay finite below it, so that one of them cannot
/// drown all others.
pub const REWARD_MAX: f64 = 1e6;

/// One judgement of a trace, or of one of its turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reward {
    /// Its id.
    pub id: RewardId,
    /// When it was given.
    pub at: Time,
    /// Who gave it.
    pub by: Giver,
    /// The turn it is for, counted from 0 over all segments; `None` for the whole trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_idx: Option<u32>,
    /// The parts it is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The number that training sees: the weighted sum of the components where there are any.
    pub total: f64,
    /// The giver's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// One named part of a reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub value: f64,
    /// How much it counts.
    pub weight: f64,
}

/// Who gave a reward.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Giver {
    /// What kind of giver.
    pub kind: GiverKind,
    /// Which one: the name of the check, the model of the judge.
    pub name: String,
    /// The config of the giver, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigHash>,
}

/// What kind of giver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GiverKind {
    /// A verifiable check.
    Check,
    /// Weighted criteria, each judged on its own.
    Rubric,
    /// A model that ranks a group.
    Judge,
    /// A person.
    Human,
    /// A number that came with an imported trace.
    Import,
}

impl Reward {
    /// A reward for a whole trace that is the weighted sum of these components.
    pub fn sum(id: RewardId, at: Time, by: Giver, components: Vec<Component>) -> Self {
        let total = components.iter().map(|part| part.value * part.weight).sum();
        Self { id, at, by, turn_idx: None, components, total, explanation: None }
    }
}
