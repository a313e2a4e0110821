//! A recommendation: a proposed change of a config, and what the user did with it.

use crate::{Category, ConfigHash, OutcomeId, RecommendationId, Tenant, Time, V1};
use serde::{Deserialize, Serialize};

/// A proposed change of a config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// Version of this record.
    pub v: V1,
    /// Its id.
    pub id: RecommendationId,
    /// Whose agent it is for.
    pub tenant: Tenant,
    /// When it was made.
    pub at: Time,
    /// What it optimises.
    pub kind: RecommendationKind,
    /// The config in use.
    pub from: ConfigHash,
    /// The config proposed.
    pub to: ConfigHash,
    /// The type of task that it is for, or `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// The measurements behind it.
    pub evidence: Vec<OutcomeId>,
    /// How sure the evidence makes it, from 0 to 1.
    pub confidence: f64,
    /// What the user did with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// What a recommendation optimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecommendationKind {
    /// The lowest cost that still does the job.
    Cheapest,
    /// The best result whatever it costs.
    HighestPerf,
    /// Both weighed.
    Balanced,
    /// Another model, all else equal.
    ModelSwitch,
}

/// What the user did with a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Took it.
    Accepted,
    /// Turned it down.
    Rejected,
}
