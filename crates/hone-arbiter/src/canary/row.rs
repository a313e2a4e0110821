//! What happened to one episode of a canary: an answer at once, and later an outcome or the end of waiting for one.

use crate::Arm;
use serde::{Deserialize, Serialize};

/// The largest quality, above and below zero.
pub const QUALITY_MAX: f64 = hone_trace::REWARD_MAX;

/// One thing that became known about one episode. An episode gives one `Assigned`, one `Answered`, and later one `Matured` or `Missing`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Who answered.
    pub arm: Arm,
    /// The canary's share when the episode was assigned.
    pub canary_share: f64,
    /// What became known.
    pub fact: Fact,
}

/// What became known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The episode was given to an arm. Known at once, so that a slow arm does not look like a small one.
    Assigned,
    /// The episode was answered, well or not.
    Answered {
        /// An error, a timeout or a broken schema.
        is_error: bool,
        /// The price, where it is known.
        cost_usd: Option<f64>,
        /// The time it took, where it is known.
        latency_ms: Option<f64>,
    },
    /// Its outcome came.
    Matured {
        /// From 0 (failed) to 1 (solved), or any scale that the margin is meant in, up to [`QUALITY_MAX`].
        quality: f64,
    },
    /// Its outcome did not come in time.
    Missing,
}

/// A row that cannot be counted. It changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RowError {
    /// Without chance there is no comparison.
    #[error("a share of {0} was logged, and only shares strictly between 0 and 1 compare two arms")]
    Share(f64),
    /// A quality beyond all measure, or no number.
    #[error("the quality of a row is {0:e}, and must be from -{QUALITY_MAX} to {QUALITY_MAX}")]
    Quality(f64),
    /// Not a number, or none that can be.
    #[error("the {name} of a row is {value}, and must be a finite number from 0")]
    Value {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: f64,
    },
}

impl Row {
    pub(super) fn check(&self) -> Result<(), RowError> {
        if !(self.canary_share > 0.0 && self.canary_share < 1.0) {
            return Err(RowError::Share(self.canary_share));
        }
        let from_zero = |name, value: f64| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(RowError::Value { name, value }),
        };
        match self.fact {
            Fact::Answered { cost_usd, latency_ms, .. } => {
                from_zero("cost_usd", cost_usd.unwrap_or(0.0))?;
                from_zero("latency_ms", latency_ms.unwrap_or(0.0))
            }
            Fact::Matured { quality } if quality.abs() <= QUALITY_MAX => Ok(()),
            Fact::Matured { quality } => Err(RowError::Quality(quality)),
            Fact::Assigned | Fact::Missing => Ok(()),
        }
    }
}
