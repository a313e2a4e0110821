//! An outcome: what happened under a config, as measured over many traces.

use crate::{Category, ConfigHash, OutcomeId, Tenant, Time, V1};
use serde::{Deserialize, Serialize};

/// What happened under a config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Version of this record.
    pub v: V1,
    /// Its id.
    pub id: OutcomeId,
    /// Whose traces it is made of.
    pub tenant: Tenant,
    /// When it was measured.
    pub at: Time,
    /// The config that produced it.
    pub config: ConfigHash,
    /// The type of task, or `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// How many traces it is made of.
    pub n_traces: u64,
    /// How many different scenarios they are of, where that is known: repeats of one are not independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_scenarios: Option<u64>,
    /// The share that succeeded.
    pub success: f64,
    /// The share of scenarios solved in all of 3 repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<f64>,
    /// Turns per solved task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_per_solved: Option<f64>,
    /// Tokens per solved task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_solved: Option<f64>,
    /// US dollars per trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Median time of an episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p50_ms: Option<f64>,
    /// The most frequent way to fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_pattern: Option<String>,
}
