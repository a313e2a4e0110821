//! What a canary must show, how fast its share grows, and what takes it back.

use crate::Sequence;
use serde::{Deserialize, Serialize};

/// What must be shown before the canary takes over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// By the end a relative gain of quality of at least `gain` (0.1 is a tenth), and at each step non-inferiority.
    Improve {
        /// The relative gain.
        gain: f64,
        /// How much worse, in points of quality, still counts as not worse.
        margin: f64,
    },
    /// Not worse by more than a margin, for what is cheaper or faster.
    NonInferior {
        /// In points of quality.
        margin: f64,
    },
}

impl Rule {
    pub(super) fn margin(self) -> f64 {
        match self {
            Self::Improve { margin, .. } | Self::NonInferior { margin } => margin,
        }
    }
}

/// A step on the way to all of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The canary's share, strictly between 0 and 1.
    pub share: f64,
    /// Outcomes of the canary that must have matured at this stage before it can be left upwards.
    pub n_canary_min: u64,
    /// The harm, in points of quality, that must be excluded before it is left upwards; the rule's margin when none is given. A
    /// small share needs very many rows to exclude a small harm, and exposes few episodes to it.
    pub harm_max: Option<f64>,
}

/// What becomes of a canary that has shown nothing within its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// It is paused, and a person decides.
    Hold,
    /// It is taken back.
    RollBack,
}

/// All that decides about a canary besides its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What must be shown.
    pub rule: Rule,
    /// Shares in rising order. Leaving the last upwards means all of the traffic.
    pub stages: Vec<Stage>,
    /// The probability of a wrong decision about quality. A fifth of it is for promoting what is worse, the rest for taking
    /// back what is not: the first mistake reaches everybody, the second costs a new attempt.
    pub quality_budget: f64,
    /// The probability, shared by all guardrails, that one of them speaks up without a cause.
    pub guard_budget: f64,
    /// The relative rise of mean cost that takes the canary back; `None` for no look at cost.
    pub cost_rise_max: Option<f64>,
    /// The relative rise of typical latency (the geometric mean) that takes the canary back; `None` for no look at latency.
    pub latency_rise_max: Option<f64>,
    /// Rows after which harm is expected to show; the bounds that take the canary back are tightest near it.
    pub n_rows_to_harm: u64,
    /// Rows after which what the rule asks for is expected to show; the bounds that promote are tightest near it.
    pub n_rows_to_promote: u64,
    /// Rows after which `at_end` applies.
    pub n_rows_max: u64,
    /// What becomes of it then.
    pub at_end: AtEnd,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rule: Rule::Improve { gain: 0.10, margin: 0.03 },
            stages: vec![
                Stage { share: 0.1, n_canary_min: 50, harm_max: Some(0.2) },
                Stage { share: 0.5, n_canary_min: 1500, harm_max: None },
            ],
            quality_budget: 0.05,
            guard_budget: 0.05,
            cost_rise_max: Some(0.2),
            latency_rise_max: Some(0.2),
            n_rows_to_harm: 1500,
            n_rows_to_promote: 20_000,
            n_rows_max: 20_000,
            at_end: AtEnd::Hold,
        }
    }
}

/// Settings under which no canary can run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the canary's {name} is {value}, and must be {wanted}")]
pub struct SettingsError {
    /// Which one.
    pub name: &'static str,
    /// What it is.
    pub value: String,
    /// What would do.
    pub wanted: &'static str,
}

/// What promoting has of the budget of quality.
const PROMOTE_PART: f64 = 0.2;

/// Stages of one canary.
const N_STAGES_MAX: usize = 20;

impl Settings {
    /// Refuses what has no meaning, and names it.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let refuse = |name, value: &dyn std::fmt::Display, wanted| Err(SettingsError { name, value: value.to_string(), wanted });
        if self.stages.is_empty() || self.stages.len() > N_STAGES_MAX {
            return refuse("number of stages", &self.stages.len(), "1 to 20");
        }
        let mut below = 0.0;
        for stage in &self.stages {
            if !(stage.share > below && stage.share < 1.0) {
                return refuse("share", &stage.share, "between 0 and 1, and larger than that of the stage before");
            }
            if let Some(harm) = stage.harm_max.filter(|harm| !(harm.is_finite() && *harm >= self.rule.margin())) {
                return refuse("harm_max", &harm, "at least the margin");
            }
            below = stage.share;
        }
        for (name, budget) in [("quality_budget", self.quality_budget), ("guard_budget", self.guard_budget)] {
            if !(budget > 0.0 && budget <= 0.25) {
                return refuse(name, &budget, "above 0 and at most 0.25");
            }
        }
        for (name, rise) in [("cost_rise_max", self.cost_rise_max), ("latency_rise_max", self.latency_rise_max)] {
            if let Some(rise) = rise.filter(|rise| !(rise.is_finite() && *rise >= 0.0)) {
                return refuse(name, &rise, "a number from 0");
            }
        }
        if !(self.rule.margin().is_finite() && self.rule.margin() >= 0.0) {
            return refuse("margin", &self.rule.margin(), "a number from 0");
        }
        match self.rule {
            Rule::Improve { gain, .. } if !(gain.is_finite() && gain >= 0.0) => return refuse("gain", &gain, "a number from 0"),
            // Exactly nothing worse cannot be shown of what is exactly as good.
            Rule::NonInferior { margin } if margin == 0.0 => return refuse("margin", &margin, "above 0 under non_inferior"),
            _ => {}
        }
        for (name, n_rows) in [("n_rows_to_harm", self.n_rows_to_harm), ("n_rows_to_promote", self.n_rows_to_promote)] {
            if !(1..=self.n_rows_max).contains(&n_rows) {
                return refuse(name, &n_rows, "from 1 to n_rows_max");
            }
        }
        Ok(())
    }

    /// The budget of each measured guardrail and of the sample ratio.
    pub(super) fn guard_part(&self) -> f64 {
        let n_measured = u32::from(self.cost_rise_max.is_some()) + u32::from(self.latency_rise_max.is_some());
        // Errors, which tell of a dead canary first, have two parts.
        self.guard_budget / f64::from(n_measured + 1 + 2)
    }

    /// The budget of errors.
    pub(super) fn error_part(&self) -> f64 {
        2.0 * self.guard_part()
    }

    /// What takes the canary back for its quality.
    pub(super) fn harm_sequence(&self) -> Sequence {
        Sequence::new((1.0 - PROMOTE_PART) * self.quality_budget, self.n_rows_to_harm)
    }

    /// What lets it leave a stage upwards. A step before the last hands over to a stage that can still take it back, so it is as
    /// quick as harm is; the last one has a budget of its own.
    pub(super) fn step_sequence(&self, stage_idx: usize) -> Sequence {
        if stage_idx + 1 < self.stages.len() {
            return self.harm_sequence();
        }
        Sequence::new(PROMOTE_PART * self.quality_budget, self.n_rows_to_promote)
    }

    /// What takes it back for cost or latency.
    pub(super) fn guard_sequence(&self) -> Sequence {
        Sequence::new(self.guard_part(), self.n_rows_to_harm)
    }
}
