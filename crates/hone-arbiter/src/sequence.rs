//! Asymptotic confidence sequences: bounds on a mean that hold at every row at once, so that one may look after each.
//!
//! Waudby-Smith and others (Annals of Statistics 2024, arXiv 2103.06476). One-sided, for a budget a:
//! `h = sqrt(V 2 (n r² + 1) / (n r)² ln(1 + sqrt(n r² + 1) / (2 a)))`, with
//! `r = sqrt((-2 ln 2a + ln(-2 ln 2a + 1)) / n*)`, which makes h tightest near n* rows. For reports there is the e-value of
//! the two-sided twin: how many times better "there is a difference" bets than "there is none".

use crate::Scores;

/// A one-sided sequence for one budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sequence {
    budget: f64,
    rho: f64,
}

impl Sequence {
    /// A sequence that errs with at most this probability (below a half), tightest near this many rows.
    pub fn new(budget: f64, n_expected: u64) -> Self {
        Self { budget, rho: tuned(2.0 * budget, n_expected) }
    }

    /// How far the mean may be on one side of the estimate; infinite while there is none.
    pub fn half_width(&self, scores: &Scores) -> f64 {
        self.half_width_of(scores.n(), scores.variance())
    }

    /// The same for so many rows with scores of this variance.
    pub fn half_width_of(&self, n: u64, variance: f64) -> f64 {
        let n = n as f64;
        if variance.is_infinite() {
            return f64::INFINITY;
        }
        let spread = n * self.rho * self.rho + 1.0;
        (variance * 2.0 * spread / (n * self.rho).powi(2) * (spread.sqrt() / (2.0 * self.budget)).ln_1p()).sqrt()
    }
}

/// The e-value of "the mean is not 0", from the two-sided mixture for a budget of 0.05; 1 while there is no estimate. Its
/// inverse, at most 1, is a p-value that stays valid however often one looks.
pub fn e_value(scores: &Scores, n_expected: u64) -> f64 {
    let (n, variance, rho) = (scores.n() as f64, scores.variance(), tuned(0.05, n_expected));
    if variance.is_infinite() || variance <= 0.0 {
        return 1.0;
    }
    let spread = n * rho * rho + 1.0;
    // S² = n D² / SE² with SE² = V / n.
    let exponent = rho * rho * (n * scores.mean()).powi(2) / variance / (2.0 * spread);
    exponent.min(E_EXPONENT_MAX).exp() / spread.sqrt()
}

/// Beyond e to this power evidence is only counted as so much, which keeps records free of infinities.
const E_EXPONENT_MAX: f64 = 230.0;

fn tuned(budget: f64, n_expected: u64) -> f64 {
    let log = -2.0 * budget.ln();
    ((log + log.ln_1p()) / n_expected.max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arm;
    use hone_trace::Draws;

    fn scores(truth: f64, n: usize, seed: u64) -> Scores {
        let mut draws = Draws::new(seed, &["scores"]);
        let mut scores = Scores::new(1.0);
        for _ in 0..n {
            let arm = *draws.pick(&[Arm::Canary, Arm::Control]);
            scores.add(arm, 0.5, draws.normal() + if arm == Arm::Canary { truth } else { 0.0 });
        }
        scores
    }

    #[test]
    fn the_width_is_that_of_the_formula() {
        let sequence = Sequence::new(0.05, 2000);
        // By hand: r² = 6.329 / 2000.
        assert!((sequence.rho - 0.056_254).abs() < 1e-6, "{}", sequence.rho);
        let scores = scores(0.0, 1000, 1);
        let unit = sequence.half_width(&scores) / scores.variance().sqrt();
        assert!((unit - 0.089_79).abs() < 1e-5, "{unit}");
    }

    #[test]
    fn looking_at_every_row_errs_within_the_budget() {
        let sequence = Sequence::new(0.05, 500);
        let errs = |seed: &u64| {
            let mut draws = Draws::new(*seed, &["peeking"]);
            let mut scores = Scores::new(1.0);
            (0..2000).any(|row| {
                let arm = *draws.pick(&[Arm::Canary, Arm::Control]);
                scores.add(arm, 0.5, draws.normal());
                row >= 50 && scores.mean() + sequence.half_width(&scores) < 0.0
            })
        };
        let n_errors = (0..400).filter(errs).count();
        assert!((1..=20).contains(&n_errors), "{n_errors} of 400");
    }

    #[test]
    fn evidence_grows_with_a_difference_only() {
        assert!(e_value(&scores(0.0, 3000, 2), 2000) < 1.0);
        assert!(e_value(&scores(0.2, 3000, 2), 2000) > 1000.0);
        assert!(e_value(&scores(50.0, 3000, 2), 2000).is_finite());
        assert_eq!(e_value(&Scores::new(1.0), 2000), 1.0);
    }
}
