//! What happened to one episode of a canary: an answer at once, and later an outcome or the end of waiting for one.

use crate::Arm;
use serde::{Deserialize, Serialize};

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
        /// From 0 (failed) to 1 (solved), or any scale that the margin is meant in.
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
    /// Not a number, or beyond all measure.
    #[error("the {name} of a row is {value}, and must be a finite number{}", if *.from_zero { " from 0" } else { "" })]
    Value {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: f64,
        /// Whether it must not be negative.
        from_zero: bool,
    },
}

impl Row {
    pub(super) fn check(&self) -> Result<(), RowError> {
        if !(self.canary_share > 0.0 && self.canary_share < 1.0) {
            return Err(RowError::Share(self.canary_share));
        }
        let finite = |name, value: f64, from_zero: bool| match value.is_finite() && !(from_zero && value < 0.0) {
            true => Ok(()),
            false => Err(RowError::Value { name, value, from_zero }),
        };
        match self.fact {
            Fact::Answered { cost_usd, latency_ms, .. } => {
                finite("cost_usd", cost_usd.unwrap_or(0.0), true)?;
                finite("latency_ms", latency_ms.unwrap_or(0.0), true)
            }
            Fact::Matured { quality } => finite("quality", quality, false),
            Fact::Assigned | Fact::Missing => Ok(()),
        }
    }
}
