//! What is left of a calibration: a record of the figures, and the standing that it gives the judge.
//!
//! Whoever is about to take a judge's word asks for its standing first, so that all refuse by the same rule. Knows nothing of
//! where records are kept, nor which of several is the last.

use super::{Calibration, Floor};
use crate::statistics::Share;
use hone_trace::{BlobHash, V1};
use serde::{Deserialize, Serialize};

/// What was found when a judge was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Version of this record.
    pub v: V1,
    /// The judge.
    pub judge: String,
    /// The standards by which it judged, as the hash of their text.
    pub rubric: BlobHash,
    /// Groups that were shown.
    pub n_groups: usize,
    /// Groups that could not be scored.
    pub n_failed: usize,
    /// Pairs with different labels.
    pub n_pairs: usize,
    /// The share of pairs in the right order.
    pub agreement: Share,
    /// The least that the lower end of its interval had to be.
    pub floor: f64,
    /// Why the judge is refused; empty when it is not.
    pub refusals: Vec<String>,
}

impl Measurement {
    /// The record of a calibration by this rubric.
    pub fn of(found: &Calibration, floor: Floor, rubric: &str) -> Self {
        Self {
            v: V1,
            judge: found.judge.clone(),
            rubric: BlobHash::of(rubric.as_bytes()),
            n_groups: found.n_groups,
            n_failed: found.n_failed,
            n_pairs: found.n_pairs,
            agreement: found.agreement,
            floor: floor.agreement_min,
            refusals: found.refusals.clone(),
        }
    }
}

/// Whether a judge's word may be taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Nobody knows: it was never measured.
    Unmeasured,
    /// It may.
    Accepted,
    /// It may not, for these reasons.
    Refused(String),
}

impl Standing {
    /// The standing of a judge of whom this is the last record.
    pub fn of(last: Option<&Measurement>) -> Self {
        match last {
            None => Self::Unmeasured,
            Some(measured) if measured.refusals.is_empty() => Self::Accepted,
            Some(measured) => Self::Refused(measured.refusals.join("; ")),
        }
    }
}
