//! What each row says about the difference of two arms: AIPW scores, whose mean estimates it under any shares.
//!
//! `z = (m1 - c m0) + A (Y - m1) / w - c (1 - A) (Y - m0) / (1 - w)`, where A is 1 on the canary, w the canary's share when the
//! row was assigned, m1 and m0 the running means of the arms from the rows before, and c the weight of control: 1 for a
//! difference, 1.1 to ask for a gain of a tenth. Given the past, z is unbiased whatever m1 and m0 are, so ramp steps and a
//! drifting base rate do no harm, where raw means pooled over steps would (Simpson). The arm means are shrunk to the mean of both,
//! or the canary's first few rows would decide.
//!
//! For the same reason the variance is at least what it would be if both arms spread as all rows together do: ten failures in a
//! row have no spread of their own, and would otherwise pass for certainty where success is rare.

use crate::Arm;
use serde::{Deserialize, Serialize};

/// How many rows the common mean counts in the mean of an arm.
const SHRINKAGE: f64 = 10.0;

/// The running scores of one measure. Memory does not grow with the rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    control_weight: f64,
    canary: Sum,
    control: Sum,
    scores: Spread,
    values: Spread,
    /// The sum over rows of `1 / w + c² / (1 - w)`: the variance of a score where that of a value is 1.
    inflation: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    n: u64,
    sum: f64,
}

/// Rows that an arm lacks of those that it should have.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lack {
    /// How large a part of them, below 1.
    pub share: f64,
    /// What each of them might have been.
    pub value: f64,
}

/// What each arm lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lacking {
    /// The canary.
    pub canary: Lack,
    /// Control.
    pub control: Lack,
}

/// A mean and a sum of squares around it, by Welford's update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Spread {
    mean: f64,
    squares: f64,
}

impl Spread {
    /// Takes in the n-th value.
    fn add(&mut self, value: f64, n: u64) {
        let before = value - self.mean;
        self.mean += before / n as f64;
        self.squares += before * (value - self.mean);
    }

    /// Takes in so many values that are alike, after n others.
    fn add_alike(&mut self, value: f64, n_alike: f64, n: f64) {
        let before = value - self.mean;
        self.mean += before * n_alike / (n + n_alike);
        self.squares += before * before * n * n_alike / (n + n_alike);
    }

    fn variance(&self, n: f64) -> f64 {
        self.squares / (n - 1.0)
    }
}

impl Sum {
    fn mean(&self) -> f64 {
        self.sum / self.n.max(1) as f64
    }

    /// How many rows are lacking beside these.
    fn n_lacking(&self, lack: Lack) -> f64 {
        self.n as f64 * lack.share / (1.0 - lack.share)
    }
}

impl Scores {
    /// Scores of `mean(canary) - control_weight * mean(control)`.
    pub fn new(control_weight: f64) -> Self {
        let (sum, spread) = (Sum::default(), Spread::default());
        Self { control_weight, canary: sum, control: sum, scores: spread, values: spread, inflation: 0.0 }
    }

    /// Takes the next row in. The share must lie strictly between 0 and 1: without chance there is no comparison.
    pub fn add(&mut self, arm: Arm, canary_share: f64, value: f64) {
        debug_assert!(canary_share > 0.0 && canary_share < 1.0 && value.is_finite());
        let pooled = (self.canary.sum + self.control.sum) / (self.n().max(1) as f64);
        let shrunk = |sum: &Sum| (sum.sum + SHRINKAGE * pooled) / (sum.n as f64 + SHRINKAGE);
        let (canary_mean, control_mean) = (shrunk(&self.canary), shrunk(&self.control));
        let correction = match arm {
            Arm::Canary => (value - canary_mean) / canary_share,
            Arm::Control => -self.control_weight * (value - control_mean) / (1.0 - canary_share),
        };
        let score = canary_mean - self.control_weight * control_mean + correction;
        let sum = match arm {
            Arm::Canary => &mut self.canary,
            Arm::Control => &mut self.control,
        };
        sum.n += 1;
        sum.sum += value;
        let n = self.n();
        self.scores.add(score, n);
        self.values.add(value, n);
        self.inflation += 1.0 / canary_share + self.control_weight.powi(2) / (1.0 - canary_share);
    }

    /// Rows taken in.
    pub fn n(&self) -> u64 {
        self.canary.n + self.control.n
    }

    /// Rows of one arm.
    pub fn n_of(&self, arm: Arm) -> u64 {
        match arm {
            Arm::Canary => self.canary.n,
            Arm::Control => self.control.n,
        }
    }

    /// The estimate.
    pub fn mean(&self) -> f64 {
        self.scores.mean
    }

    /// The variance of one score; infinite until both arms have been seen, because before nothing can be said.
    pub fn variance(&self) -> f64 {
        if self.canary.n == 0 || self.control.n == 0 {
            return f64::INFINITY;
        }
        let n = self.n() as f64;
        self.scores.variance(n).max(self.variance_alike(&self.values, n))
    }

    /// The estimate and the variance with the rows that each arm lacks. That they were not seen is no reason to be surer: the variance is
    /// never less than without them, and they do not count as rows.
    pub fn with(&self, lacking: Lacking) -> (f64, f64) {
        let Lacking { canary, control } = lacking;
        let mean = self.mean() - canary.share * (self.canary.mean() - canary.value)
            + self.control_weight * control.share * (self.control.mean() - control.value);
        let (mut values, mut n) = (self.values, self.n() as f64);
        for (sum, lack) in [(&self.canary, canary), (&self.control, control)] {
            values.add_alike(lack.value, sum.n_lacking(lack), n);
            n += sum.n_lacking(lack);
        }
        (mean, self.variance().max(self.variance_alike(&values, n)))
    }

    /// The variance of one score if both arms spread as these n values do together.
    fn variance_alike(&self, values: &Spread, n: f64) -> f64 {
        values.variance(n) * self.inflation / self.n() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;

    /// The estimate over rows whose base rate and share both change in the middle.
    fn ramp(control_weight: f64, truth: f64, seed: u64) -> (f64, f64) {
        let mut draws = Draws::new(seed, &["ramp"]);
        let mut scores = Scores::new(control_weight);
        for row in 0..20_000 {
            let (share, base) = if row < 10_000 { (0.1, 0.3) } else { (0.5, 0.7) };
            let arm = if draws.chance(share) { Arm::Canary } else { Arm::Control };
            let rate = base + if arm == Arm::Canary { truth } else { 0.0 };
            scores.add(arm, share, f64::from(u8::from(draws.chance(rate))));
        }
        (scores.mean(), (scores.variance() / 20_000.0).sqrt())
    }

    #[track_caller]
    fn check(control_weight: f64, truth: f64, expected: f64) {
        let (mean, error) = ramp(control_weight, truth, 5);
        assert!((mean - expected).abs() < 3.0 * error && error < 0.012, "{mean} ± {error}, not {expected}");
    }

    #[test]
    fn a_ramp_over_a_changing_base_rate_is_not_confounded() {
        // Raw pooled means would differ by +0.13 in the first case: the canary's rows fall on the better half.
        check(1.0, 0.0, 0.0);
        check(1.0, 0.1, 0.1);
        check(1.1, 0.1, 0.1 - 0.1 * 0.5);
    }

    #[test]
    fn a_streak_of_failures_is_no_certainty() {
        let mut scores = Scores::new(1.0);
        (0..90).for_each(|row| scores.add(Arm::Control, 0.1, f64::from(u8::from(row % 10 == 0))));
        (0..10).for_each(|_| scores.add(Arm::Canary, 0.1, 0.0));
        // Values of variance 0.083 at a share of 10 %.
        assert!((scores.variance() - 0.0827 * (10.0 + 1.0 / 0.9)).abs() < 1e-3, "{}", scores.variance());
    }

    /// Thumbs at a share of a half: all of them, and without those that one arm lacks.
    fn thumbs(lacks: Arm, value: f64) -> (Scores, Scores) {
        let (mut all, mut some) = (Scores::new(1.1), Scores::new(1.1));
        for row in 0..8_000 {
            let arm = if row % 2 == 0 { Arm::Canary } else { Arm::Control };
            let thumb = if row / 2 % 4 == 0 { -value } else { value };
            all.add(arm, 0.5, -thumb);
            if arm != lacks || -thumb != value {
                some.add(arm, 0.5, -thumb);
            }
        }
        (all, some)
    }

    #[test]
    fn rows_that_are_lacking_count_as_if_they_had_come() {
        let check = |lacks: Arm, value: f64| {
            let (all, some) = thumbs(lacks, value);
            let lack = |arm: Arm| if arm == lacks { Lack { share: 0.25, value } } else { Lack::default() };
            let (mean, variance) = some.with(Lacking { canary: lack(Arm::Canary), control: lack(Arm::Control) });
            assert!((mean - all.mean()).abs() < 0.01 && some.mean() > all.mean() + 0.4, "{mean} {}", all.mean());
            assert!((variance / all.variance() - 1.0).abs() < 0.01, "{variance} {}", all.variance());
            assert_eq!(some.with(Lacking::default()), (some.mean(), some.variance()));
        };
        check(Arm::Canary, -1.0);
        check(Arm::Control, 1.0);
    }

    #[test]
    fn one_arm_alone_says_nothing() {
        let mut scores = Scores::new(1.0);
        (0..50).for_each(|_| scores.add(Arm::Control, 0.1, 1.0));
        assert_eq!(scores.variance(), f64::INFINITY);
    }
}
