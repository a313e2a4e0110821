//! A run: one training, evaluation or rollout, from its start to the reason for its end.

use crate::{ConfigHash, RunId, Tenant, Time, V1, sorted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One training, evaluation or rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Version of this record.
    pub v: V1,
    /// Its id.
    pub id: RunId,
    /// Whose data it works on.
    pub tenant: Tenant,
    /// What it does, such as `grpo`.
    pub stage: String,
    /// When it began.
    pub started: Time,
    /// How far it has come.
    pub state: RunState,
    /// The config it started from.
    pub config: ConfigHash,
    /// The seed that fixes it.
    pub seed: u64,
    /// The run it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Its settings.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub settings: Map<String, Value>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunState {
    /// At work, or killed and waiting to be resumed.
    Running,
    /// Ended by itself.
    Ended {
        /// When.
        at: Time,
        /// Why.
        reason: String,
    },
    /// Given up.
    Failed {
        /// When.
        at: Time,
        /// What went wrong.
        error: String,
    },
}
