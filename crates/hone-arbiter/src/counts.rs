//! An exact e-process for rare events: on which arm did each fall?
//!
//! Lindon and Malek (NeurIPS 2022, arXiv 2205.14762): given an event, it fell on the canary with probability w when both arms
//! are alike, and with `t = θ w / (1 - w + θ w)` when the canary has θ times as many per row. The product over events of
//! (t or 1 - t) over (w or 1 - w), with the share w of each event, has mean 1 when θ is 1, and so has a mixture over θ: that it
//! ever reaches 1/a then has probability a at most, at any number of events. Events are errors, or the assignments themselves: rows that do
//! not arrive in their shares are a sample-ratio mismatch. Knows nothing of how many rows had no event, and needs not.

use crate::Arm;
use serde::{Deserialize, Serialize};

/// Which ratios are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alternative {
    /// The canary has more: ratios from 1.2 to 300.
    More,
    /// The canary has more or fewer: ratios from a third to three.
    Different,
}

impl Alternative {
    /// The n-th ratio; they are evenly spread in logarithm.
    fn ratio(self, idx: usize) -> f64 {
        let (low, high): (f64, f64) = match self {
            Self::More => (1.2, 300.0),
            Self::Different => (1.0 / 3.0, 3.0),
        };
        low * (high / low).powf(idx as f64 / (N_RATIOS - 1) as f64)
    }
}

const N_RATIOS: usize = 32;

/// More evidence is not counted: records stay free of infinities, and a smaller product is valid as well.
const EVIDENCE_MAX: f64 = 1e100;

/// The evidence from all events so far. Memory does not grow with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    ratios: [f64; N_RATIOS],
    products: [f64; N_RATIOS],
    n_canary: u64,
    n_control: u64,
}

impl Counts {
    /// No events yet.
    pub fn new(alternative: Alternative) -> Self {
        let ratios = std::array::from_fn(|idx| alternative.ratio(idx));
        Self { ratios, products: [1.0; N_RATIOS], n_canary: 0, n_control: 0 }
    }

    /// An event fell on this arm while the canary had this share, strictly between 0 and 1.
    pub fn add(&mut self, arm: Arm, canary_share: f64) {
        debug_assert!(canary_share > 0.0 && canary_share < 1.0);
        for (product, ratio) in self.products.iter_mut().zip(&self.ratios) {
            let favour = match arm {
                Arm::Canary => *ratio,
                Arm::Control => 1.0,
            };
            *product = (*product * favour / (1.0 - canary_share + ratio * canary_share)).min(EVIDENCE_MAX);
        }
        match arm {
            Arm::Canary => self.n_canary += 1,
            Arm::Control => self.n_control += 1,
        }
    }

    /// The e-value: how many times better the alternative bets than "alike".
    pub fn evidence(&self) -> f64 {
        self.products.iter().fold(0.0, |sum, product| sum + product) / N_RATIOS as f64
    }

    /// Events that fell on this arm.
    pub fn n_of(&self, arm: Arm) -> u64 {
        match arm {
            Arm::Canary => self.n_canary,
            Arm::Control => self.n_control,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;

    /// After how many rows, if at all, these error rates are told apart at a share of 10 %.
    fn rows_to_alarm(canary_rate: f64, budget: f64, seed: u64) -> Option<usize> {
        let mut draws = Draws::new(seed, &["errors"]);
        let mut counts = Counts::new(Alternative::More);
        (1..=20_000).find(|_| {
            let arm = if draws.chance(0.1) { Arm::Canary } else { Arm::Control };
            if draws.chance(if arm == Arm::Canary { canary_rate } else { 0.01 }) {
                counts.add(arm, 0.1);
            }
            counts.evidence() >= 1.0 / budget
        })
    }

    fn median(canary_rate: f64, budget: f64) -> usize {
        let mut rows: Vec<usize> = (0..200).map(|seed| rows_to_alarm(canary_rate, budget, seed).unwrap_or(usize::MAX)).collect();
        rows.sort_unstable();
        rows[100]
    }

    #[test]
    fn evidence_is_the_mixture_of_likelihood_ratios() {
        let mut counts = Counts::new(Alternative::Different);
        [(Arm::Canary, 0.1), (Arm::Canary, 0.5), (Arm::Control, 0.5)].iter().for_each(|&(arm, share)| counts.add(arm, share));
        let likelihood = |ratio: f64| {
            let at = |share: f64| ratio * share / (1.0 - share + ratio * share);
            at(0.1) / 0.1 * (at(0.5) / 0.5) * ((1.0 - at(0.5)) / 0.5)
        };
        let mixture = (0..N_RATIOS).map(|idx| likelihood(Alternative::Different.ratio(idx))).sum::<f64>() / N_RATIOS as f64;
        assert!((counts.evidence() - mixture).abs() < 1e-12);
        assert_eq!((counts.n_of(Arm::Canary), counts.n_of(Arm::Control)), (2, 1));
    }

    #[test]
    fn more_errors_are_noticed_sooner_and_equal_ones_hardly_ever() {
        let medians = [0.05, 0.20, 1.0].map(|rate| median(rate, 0.01));
        assert!(medians[0] < 1_700 && medians[1] < 200 && medians[2] <= 30, "{medians:?}");
        let n_false = (0..400).filter(|&seed| rows_to_alarm(0.01, 0.05, seed).is_some()).count();
        assert!(n_false <= 20, "{n_false} of 400");
    }

    #[test]
    fn a_wrong_ratio_of_rows_is_noticed() {
        let mut draws = Draws::new(3, &["ratio"]);
        let mut counts = Counts::new(Alternative::Different);
        for _ in 0..20_000 {
            counts.add(if draws.chance(0.08) { Arm::Canary } else { Arm::Control }, 0.1);
        }
        assert!(counts.evidence() > 1e4, "{}", counts.evidence());
    }

    #[test]
    fn evidence_stays_finite() {
        let mut counts = Counts::new(Alternative::More);
        (0..10_000).for_each(|_| counts.add(Arm::Canary, 0.01));
        (0..10_000).for_each(|_| counts.add(Arm::Control, 0.01));
        assert!(counts.evidence().is_finite());
    }
}
