//! A figure over the seeds.

use hone_eval::interval::mean;
use serde::Serialize;

/// A figure over the seeds.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) mean: f64,
    /// Half the width of its 95 % interval.
    pub(super) half_width: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Figure {
    pub(super) fn of<R>(runs: &[R], value: impl Fn(&R) -> f64) -> Self {
        let values: Vec<f64> = runs.iter().map(value).collect();
        let (mean, half_width) = mean(&values);
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        Self { mean, half_width, least, most }
    }
}
