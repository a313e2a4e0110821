//! Numbers of a measurement: percentiles of times, and ratios of rates over several rounds.

use serde::Serialize;
use std::time::Duration;

/// Times of many repeats of one thing.
#[derive(Debug, Default)]
pub(super) struct Times {
    millis: Vec<f64>,
}

impl Times {
    pub(super) fn of_seconds(seconds: &[f64]) -> Self {
        Self { millis: seconds.iter().map(|seconds| seconds * 1e3).collect() }
    }

    pub(super) fn add(&mut self, time: Duration) {
        self.millis.push(time.as_secs_f64() * 1e3);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.millis.extend(other.millis);
    }

    pub(super) fn len(&self) -> usize {
        self.millis.len()
    }

    /// The time that this share of the repeats stayed within; 0 when there were none.
    pub(super) fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.millis.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
        let place = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied().map_or(0.0, rounded)
    }
}

/// One figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |idx: usize| sorted.get(idx).copied().map_or(0.0, rounded);
        Self { median: at(sorted.len() / 2), least: at(0), most: at(sorted.len().saturating_sub(1)) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} to {})", self.median, self.least, self.most)
    }
}

/// Three digits after the point are more than any of these is good for.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_sorted_list() {
        let mut times = Times::default();
        for millis in (1..=100).rev() {
            times.add(Duration::from_millis(millis));
        }
        assert_eq!((times.percentile(0.5), times.percentile(0.99), times.percentile(1.0)), (50.0, 99.0, 100.0));
        assert_eq!(Times::default().percentile(0.5), 0.0);
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
    }
}
