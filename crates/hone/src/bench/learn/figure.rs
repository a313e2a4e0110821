//! A figure over the seeds.

use hone_eval::interval::mean;
use serde::Serialize;

/// A figure over the seeds.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) mean: f64,
    /// Half the width of its 95 % interval; one seed has none, nor have two alike.
    pub(super) half_width: Option<f64>,
    /// Of how many seeds.
    #[serde(skip)]
    n: usize,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Figure {
    pub(super) fn of<R>(runs: &[R], value: impl Fn(&R) -> f64) -> Self {
        let values: Vec<f64> = runs.iter().map(value).collect();
        let (mean, half_width) = mean(&values);
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        Self { mean, half_width: Some(half_width).filter(|half| half.is_finite()), n: values.len(), least, most }
    }

    /// The mean in these units, and how sure it is, to so many decimals.
    pub(super) fn told(&self, unit: f64, decimals: usize) -> String {
        let mean = self.mean / unit;
        match self.half_width.map(|half| half / unit) {
            Some(half) => format!("{mean:.decimals$} ± {half:.decimals$}"),
            None => format!("{mean:.decimals$} (n={})", self.n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_does_not_say_how_sure_it_is() {
        let told = |shares: &[f64]| Figure::of(shares, |share| *share).told(0.01, 1);
        assert_eq!(told(&[0.5]), "50.0 (n=1)");
        assert_eq!(told(&[0.5, 0.5]), "50.0 (n=2)");
        assert_eq!(told(&[0.4, 0.6]), "50.0 ± 19.6");
    }
}
