//! What another policy would have earned, estimated from the log of the one that chose.
//!
//! With the weight w = (the other's probability of what was chosen) / (the logged propensity):
//! IPS is the mean of `w r`; SNIPS is `Σ w r / Σ w`, steadier and a little biased; DR is the mean of `q(π) + w (r - q(chosen))` with a
//! model q of rewards, right when either the propensities or the model are. Each has a 95 % interval by the normal approximation,
//! for SNIPS by its linearisation. Rewards from 0 to 1 that are all alike have no spread, which is no certainty: for them an
//! interval is at least as wide as Wilson's over as many rows as the log is worth. The effective sample size `(Σ w)² / Σ w²` says how many rows the log is worth: below a floor
//! there is no estimate, because its interval would not hold either.
//!
//! Knows nothing of how q was made. It must not come from the rows that it is applied to.

use hone_eval::interval::{mean, wilson_of};
use serde::Serialize;

/// A row of the log, seen by the policy that is asked about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logged {
    /// What was earned.
    pub reward: f64,
    /// How likely the logging policy chose what it chose.
    pub propensity: f64,
    /// How likely the other policy would have chosen it.
    pub target: f64,
    /// What the model expects of what was chosen; 0 without a model.
    pub expected_chosen: f64,
    /// What the model expects of the other policy's choices; 0 without a model.
    pub expected_target: f64,
}

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

impl Estimate {
    fn of(values: &[f64]) -> Self {
        let (value, half_width) = mean(values);
        Self { value, half_width }
    }

    /// The same with an interval that reaches at least as far as Wilson's of so many rewards from 0 to 1.
    fn as_wide_as_wilson(self, n_effective: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 2 to the number of rows")]
        let (low, high) = wilson_of(self.value.clamp(0.0, 1.0), n_effective as usize);
        Self { half_width: self.half_width.max(self.value - low).max(high - self.value), ..self }
    }

    /// Whether this value lies in the interval.
    pub fn contains(&self, value: f64) -> bool {
        (self.value - value).abs() <= self.half_width
    }
}

/// All estimates of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OffPolicy {
    /// Rows of the log.
    pub n_rows: usize,
    /// How many rows of its own the log is worth to the other policy.
    pub n_effective: f64,
    /// The largest weight: one row alone that counts for many is a warning.
    pub weight_max: f64,
    /// Inverse propensity scores.
    pub ips: Estimate,
    /// The same, divided by the sum of weights.
    pub snips: Estimate,
    /// Doubly robust. Without a model it is IPS.
    pub dr: Estimate,
}

/// Why there is no estimate.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OffPolicyError {
    /// Too little in common between the two policies.
    #[error(
        "the log is worth {n_effective:.1} rows to this policy, and an estimate needs {n_effective_min}: let it choose for a while"
    )]
    TooFew {
        /// What it is worth.
        n_effective: f64,
        /// What is needed.
        n_effective_min: f64,
    },
    /// A row that no estimate can use.
    #[error("row {row_idx} of the log has a {name} of {value}, and must have {wanted}")]
    Row {
        /// Which row, from 0.
        row_idx: usize,
        /// Which number.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What would do.
        wanted: &'static str,
    },
}

/// Estimates what a policy would have earned, unless the log is worth fewer rows than `n_effective_min` to it.
pub fn off_policy(log: &[Logged], n_effective_min: f64) -> Result<OffPolicy, OffPolicyError> {
    log.iter().enumerate().try_for_each(|(row_idx, row)| check(row_idx, row))?;
    let weights: Vec<f64> = log.iter().map(|row| row.target / row.propensity).collect();
    let sum = weights.iter().fold(0.0, |sum, weight| sum + weight);
    let squares = weights.iter().fold(0.0, |sum, weight| sum + weight * weight);
    let n_effective = if squares > 0.0 { sum * sum / squares } else { 0.0 };
    if n_effective < n_effective_min.max(2.0) {
        return Err(OffPolicyError::TooFew { n_effective, n_effective_min: n_effective_min.max(2.0) });
    }
    let estimate = |value: &dyn Fn(&Logged, f64) -> f64| {
        Estimate::of(&log.iter().zip(&weights).map(|(row, &weight)| value(row, weight)).collect::<Vec<f64>>())
    };
    let ips = estimate(&|row, weight| weight * row.reward);
    let mean_weight = sum / log.len() as f64;
    let ratio = ips.value / mean_weight;
    let linearised = estimate(&|row, weight| weight * (row.reward - ratio) / mean_weight);
    let snips = Estimate { value: ratio, half_width: linearised.half_width };
    let dr = estimate(&|row, weight| row.expected_target + weight * (row.reward - row.expected_chosen));
    let mut rewards = log.iter().zip(&weights).filter(|(_, weight)| **weight > 0.0).map(|(row, _)| row.reward);
    let is_alike = rewards.next().is_some_and(|first| (0.0..=1.0).contains(&first) && rewards.all(|reward| reward == first));
    let honest = |estimate: Estimate| if is_alike { estimate.as_wide_as_wilson(n_effective) } else { estimate };
    Ok(OffPolicy {
        n_rows: log.len(),
        n_effective,
        weight_max: weights.iter().copied().fold(0.0, f64::max),
        ips: honest(ips),
        snips: honest(snips),
        dr: honest(dr),
    })
}

fn check(row_idx: usize, row: &Logged) -> Result<(), OffPolicyError> {
    let finite = "a finite number";
    let found = [
        ("propensity", row.propensity, row.propensity > 0.0 && row.propensity <= 1.0, "one above 0 and at most 1"),
        ("target", row.target, (0.0..=1.0).contains(&row.target), "one from 0 to 1"),
        ("reward", row.reward, row.reward.is_finite(), finite),
        ("expected_chosen", row.expected_chosen, row.expected_chosen.is_finite(), finite),
        ("expected_target", row.expected_target, row.expected_target.is_finite(), finite),
    ];
    match found.into_iter().find(|(_, _, is_sound, _)| !is_sound) {
        Some((name, value, _, wanted)) => Err(OffPolicyError::Row { row_idx, name, value, wanted }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;

    const RATES: [f64; 3] = [0.2, 0.5, 0.7];
    const LOGGING: [f64; 3] = [0.6, 0.3, 0.1];
    const TARGET: [f64; 3] = [0.1, 0.2, 0.7];
    const TRUTH: f64 = 0.1 * 0.2 + 0.2 * 0.5 + 0.7 * 0.7;

    /// A log of a bandit whose truth is known, and a model that is off by this much.
    fn log(n: usize, model_error: f64, seed: u64) -> Vec<Logged> {
        let mut draws = Draws::new(seed, &["log"]);
        let expected = |arm: usize| RATES[arm] + model_error;
        let expected_target = (0..3).map(|arm| TARGET[arm] * expected(arm)).sum();
        let row = |_| {
            let arm = crate::pick(&LOGGING, &mut draws).unwrap();
            let reward = f64::from(u8::from(draws.chance(RATES[arm])));
            let (propensity, target) = (LOGGING[arm], TARGET[arm]);
            Logged { reward, propensity, target, expected_chosen: expected(arm), expected_target }
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn intervals_hold_the_truth_of_a_known_bandit() {
        let found: Vec<OffPolicy> = (0..300).map(|seed| off_policy(&log(1_000, 0.3, seed), 50.0).unwrap()).collect();
        for estimate in [|found: &OffPolicy| found.ips, |found: &OffPolicy| found.snips, |found: &OffPolicy| found.dr] {
            let n_held = found.iter().filter(|found| estimate(found).contains(TRUTH)).count();
            let bias = found.iter().map(|found| estimate(found).value - TRUTH).sum::<f64>() / 300.0;
            assert!((273..=297).contains(&n_held) && bias.abs() < 0.01, "{n_held} of 300, bias {bias}");
        }
    }

    #[test]
    fn a_good_model_makes_the_interval_narrow() {
        let (good, bad) = (off_policy(&log(1_000, 0.0, 1), 50.0).unwrap(), off_policy(&log(1_000, 0.5, 1), 50.0).unwrap());
        assert!(good.dr.half_width < 0.9 * bad.dr.half_width && good.dr.half_width < 0.9 * good.ips.half_width);
    }

    #[test]
    fn numbers_are_those_of_a_calculation_by_hand() {
        let row = |reward, propensity, target| Logged { reward, propensity, target, expected_chosen: 0.5, expected_target: 0.6 };
        let found = off_policy(&[row(1.0, 0.5, 0.5), row(0.0, 0.5, 0.5), row(1.0, 0.25, 0.5)], 2.0).unwrap();
        // Weights 1, 1 and 2.
        assert!((found.ips.value - 1.0).abs() < 1e-12 && (found.snips.value - 0.75).abs() < 1e-12);
        assert!((found.dr.value - (0.6 + (0.5 - 0.5 + 1.0) / 3.0)).abs() < 1e-12);
        assert!((found.n_effective - 16.0 / 6.0).abs() < 1e-12 && found.weight_max == 2.0);
        // Linearised 0.1875, -0.5625 and 0.375: a variance of 0.24609 over 3 rows.
        assert!((found.snips.half_width - 0.561_36).abs() < 1e-4, "{}", found.snips.half_width);
    }

    #[test]
    fn sixty_successes_in_a_row_are_no_certainty() {
        let row = Logged { reward: 1.0, propensity: 0.5, target: 1.0, expected_chosen: 0.9, expected_target: 0.9 };
        let found = off_policy(&[row; 60], 50.0).unwrap();
        for estimate in [found.snips, found.dr] {
            assert!(estimate.half_width > 0.06 && !estimate.contains(0.93 - 0.1), "{estimate:?}");
        }
        // The log is worth what it is worth, however many rows it has.
        let mut rows = vec![row; 60];
        rows.extend([Logged { target: 0.0, ..row }; 600]);
        assert!((off_policy(&rows, 50.0).unwrap().snips.half_width - found.snips.half_width).abs() < 1e-12);
    }

    #[test]
    fn rare_success_is_covered_as_it_should_be() {
        let held = |seed: u64| {
            let mut draws = Draws::new(seed, &["rare"]);
            let row = |_| {
                let target = f64::from(u8::from(draws.chance(0.5)));
                let reward = f64::from(u8::from(draws.chance(0.98)));
                Logged { reward, propensity: 0.5, target, expected_chosen: 0.0, expected_target: 0.0 }
            };
            off_policy(&(0..120).map(row).collect::<Vec<_>>(), 20.0).unwrap().snips.contains(0.98)
        };
        let n_held = (0..400).filter(|seed| held(*seed)).count();
        // Three in ten logs have no failure at all, and by their spread none of these would hold the truth.
        assert!(n_held >= 372, "{n_held} of 400");
    }

    #[test]
    fn too_little_in_common_is_refused() {
        let refuse = |log: &[Logged], says: &str| {
            let error = off_policy(log, 100.0).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        let rows = log(200, 0.0, 1);
        refuse(&rows, "an estimate needs 100");
        refuse(&[], "worth 0.0 rows");
        refuse(&[Logged { propensity: 0.0, ..rows[0] }], "row 0 of the log has a propensity of 0");
        refuse(&[rows[0], Logged { reward: f64::NAN, ..rows[1] }], "row 1 of the log has a reward of NaN");
    }
}
