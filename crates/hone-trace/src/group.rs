//! A group: several traces of one scenario by one policy version. The unit of judging and of GRPO.

use crate::{GroupId, ScenarioId, Tenant, Time, TraceId, V1};
use serde::{Deserialize, Serialize};

/// Several traces of one scenario by one policy version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Version of this record.
    pub v: V1,
    /// Its id.
    pub id: GroupId,
    /// Whose data it is.
    pub tenant: Tenant,
    /// When it was put together.
    pub at: Time,
    /// The scenario that all of them met, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<ScenarioId>,
    /// The policy version that played them, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The traces, in the order in which they were sampled.
    pub traces: Vec<TraceId>,
}
