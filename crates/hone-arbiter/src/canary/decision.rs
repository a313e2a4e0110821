//! What was decided about a canary, by whom and why, with the numbers it was decided on: a record for the log.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing changes.
    Hold,
    /// The next stage, or all of the traffic.
    Promote,
    /// No traffic any more.
    RollBack,
    /// The share stays, and only a person raises it.
    Pause,
    /// The machine may raise it again.
    Resume,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The rules in this crate.
    Machine,
    /// Somebody.
    Person,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Quality fell.
    QualityWorse,
    /// The mean cost rose beyond what is allowed.
    CostHigher,
    /// Latency rose beyond what is allowed.
    LatencyHigher,
    /// Errors fall on the canary more often than its share explains.
    MoreErrors,
    /// Rows do not arrive in the shares that were logged: the comparison itself is broken.
    SampleRatio,
    /// What this stage asks for was shown.
    Shown,
    /// Too few outcomes at this stage.
    TooFewRows,
    /// A guardrail that is on was fed too few rows to be relied upon.
    GuardMissing,
    /// Outcomes would do, if one side did not lack more of them than the other, missing or still awaited.
    OutcomesMissing,
    /// Enough rows, and still open.
    NotShown,
    /// No decision within the rows that it was given.
    RowsSpent,
    /// A person paused it.
    Paused,
    /// It has ended.
    Ended,
    /// A person wanted it so.
    Asked,
}

/// A decision with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What is done.
    pub action: Action,
    /// Who decided.
    pub by: Actor,
    /// Why.
    pub reason: Reason,
    /// The canary's share from now on.
    pub share: f64,
    /// What was known.
    pub numbers: Numbers,
}

/// What was known when it was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// The stage that the rows came from last.
    pub stage_idx: usize,
    /// Rows of the canary.
    pub canary: ArmNumbers,
    /// Rows of control.
    pub control: ArmNumbers,
    /// Quality of the canary less that of control.
    pub quality: Bound,
    /// Whether quality is a rate: every outcome was a failure, 0, or a success, 1.
    #[serde(default)]
    pub is_rate: bool,
    /// The two-sided e-value of a difference in quality; its inverse is a p-value.
    pub quality_evidence: f64,
    /// Under `improve`: quality of the canary less (1 + gain) times that of control.
    pub gain: Option<Bound>,
    /// The share of outcomes that the canary lacks beyond control, missing or still awaited, which counts against it.
    pub excess_missing: f64,
    /// Mean cost of the canary less (1 + allowed rise) times that of control.
    pub cost: Option<Bound>,
    /// Mean logarithm of the canary's latency less that of control.
    pub log_latency: Option<Bound>,
    /// The e-value of more errors on the canary.
    pub error_evidence: f64,
    /// The e-value at which errors take the canary back.
    pub error_evidence_max: f64,
    /// The e-value of a wrong sample ratio.
    pub sample_ratio_evidence: f64,
    /// The e-value at which a wrong sample ratio takes the canary back.
    pub sample_ratio_evidence_max: f64,
}

impl Numbers {
    /// The difference in quality as it is shown: that of two rates is nowhere beyond 1. What is decided on are the bounds as they are.
    pub fn quality_shown(&self) -> Bound {
        let within = |value: f64| if self.is_rate { value.clamp(-1.0, 1.0) } else { value };
        let Bound { estimate, low, high } = self.quality;
        Bound { estimate: within(estimate), low: low.map(within), high: high.map(within) }
    }

    /// Outcomes of each arm that may still come: what is told beside the numbers, from which it follows.
    pub fn n_awaited(&self) -> BTreeMap<&'static str, u64> {
        [("canary", self.canary), ("control", self.control)].map(|(arm, numbers)| (arm, numbers.n_awaited())).into()
    }
}

/// Rows of one arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmNumbers {
    /// Episodes that were answered.
    pub n_answered: u64,
    /// Those that ended in an error.
    pub n_errors: u64,
    /// Outcomes that came.
    pub n_matured: u64,
    /// Outcomes that did not.
    pub n_missing: u64,
}

impl ArmNumbers {
    /// Outcomes that may still come.
    pub fn n_awaited(&self) -> u64 {
        self.n_answered.saturating_sub(self.n_matured + self.n_missing)
    }
}

/// An estimate with its one-sided bounds, each of which holds at every row with the probability that its budget leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The estimate.
    pub estimate: f64,
    /// The truth is hardly below; `None` while nothing is known.
    pub low: Option<f64>,
    /// The truth is hardly above.
    pub high: Option<f64>,
}
