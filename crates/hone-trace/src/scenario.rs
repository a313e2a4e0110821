//! A scenario: one task instance.

use crate::{Category, Family, ScenarioId, V1, sorted};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One task instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this record.
    pub v: V1,
    /// Everything that fixes it, a starting program included.
    pub id: ScenarioId,
    /// The type of task.
    pub category: Category,
    /// What the world starts from.
    #[serde(serialize_with = "sorted::value")]
    pub input: Value,
    /// The right answer, which no policy ever sees.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "sorted::option")]
    pub truth: Option<Value>,
    /// From 0 (easy) to 1 (hard), where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<f64>,
    /// The family whose members stay on one side of a split.
    pub family: Family,
}
