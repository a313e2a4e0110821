//! The registry: agents with their versions, and the adapters that some of them run on.

use crate::{AdapterId, AgentName, BlobHash, ConfigHash, DataHash, RunId, Tenant, Time, V1};
use serde::{Deserialize, Serialize};

/// A named entry of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Version of this record.
    pub v: V1,
    /// Its name, which works as a model name.
    pub name: AgentName,
    /// Whose agent it is.
    pub tenant: Tenant,
    /// When this state of the entry was written.
    pub at: Time,
    /// Whether it takes traffic.
    pub state: AgentState,
    /// Its versions, oldest first.
    pub versions: Vec<AgentVersion>,
}

/// Whether an agent takes traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It takes traffic.
    Active,
    /// It is kept for the record.
    Retired,
}

/// One version of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentVersion {
    /// Its name, such as `v3`.
    pub version: String,
    /// What shapes it.
    pub config: ConfigHash,
    /// Its share of the traffic, from 0 to 1.
    pub share: f64,
}

/// LoRA weights with the run, the data and the base model that made them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Version of this record.
    pub v: V1,
    /// The hash of the weights.
    pub id: AdapterId,
    /// Whose data made it.
    pub tenant: Tenant,
    /// When it was made.
    pub at: Time,
    /// The base model.
    pub base: String,
    /// The run that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The data that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataHash>,
    /// Where its files are.
    pub blob: BlobHash,
}
