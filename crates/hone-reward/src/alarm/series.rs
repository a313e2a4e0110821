//! A bounded series of numbers, and the robust statistics that the alarms read from it.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The last values of something, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Series {
    values: VecDeque<f64>,
    len_max: usize,
    /// Values since the lowest block was last looked for.
    n_since: usize,
    base: Option<f64>,
}

/// Steps whose lowest median is the base of a run.
pub(super) const BASE_LEN: usize = 30;

impl Series {
    pub(super) fn new(len_max: usize) -> Self {
        Self { values: VecDeque::with_capacity(len_max), len_max, n_since: 0, base: None }
    }

    /// Takes a value in; what is not a number is left out.
    pub(super) fn push(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.values.len() == self.len_max {
            self.values.pop_front();
        }
        self.values.push_back(value);
        self.n_since += 1;
        if self.n_since >= BASE_LEN / 3 && self.values.len() >= BASE_LEN {
            self.n_since = 0;
            let now = median(&self.last(BASE_LEN));
            self.base = Some(self.base.map_or(now, |base| base.min(now)));
        }
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The lowest median of 30 values in a row, looked at every ten.
    pub(super) fn base(&self) -> Option<f64> {
        self.base
    }

    /// The last `n` values, or all.
    pub(super) fn last(&self, n: usize) -> Vec<f64> {
        self.values.iter().skip(self.values.len().saturating_sub(n)).copied().collect()
    }

    /// The values from `from` to `to` steps ago, the latest being 0 steps ago.
    pub(super) fn ago(&self, from: usize, to: usize) -> Vec<f64> {
        let len = self.values.len();
        (len.saturating_sub(to)..len.saturating_sub(from)).map(|at| self.values[at]).collect()
    }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// A deviation that outliers do not move: 1.4826 times the median distance from the median.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let centre = median(values);
    1.4826 * median(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// The direction of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slope {
    /// Theil–Sen: the median of the slopes between all pairs.
    pub(super) per_step: f64,
    /// Kendall's test of no trend, in standard deviations.
    pub(super) z: f64,
}

/// The direction of points (step, value), or `None` below four of them.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<Slope> {
    let n = points.len();
    if n < 4 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut score = 0.0;
    for (i, a) in points.iter().enumerate() {
        for b in &points[i + 1..] {
            if b.0 > a.0 {
                slopes.push((b.1 - a.1) / (b.0 - a.0));
                score += if b.1 > a.1 {
                    1.0
                } else if b.1 < a.1 {
                    -1.0
                } else {
                    0.0
                };
            }
        }
    }
    let n = n as f64;
    Some(Slope { per_step: median(&slopes), z: score / (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt() })
}
