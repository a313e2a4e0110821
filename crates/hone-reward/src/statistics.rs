//! The few statistics that say how far a judge can be trusted.

use serde::{Deserialize, Serialize};

/// The 97.5 % point of the standard normal: intervals here hold 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// How far several rankings of the same things agree, as the mean over all pairs of rankings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// Kendall's tau-b: 1 when the rankings are the same, 0 when they are unrelated, -1 when reversed. Rankings in which
    /// everything ties say nothing and count as 0.
    pub tau: f64,
    /// The share of pairs of things that are put in the same order; tied in one ranking counts half, tied in both as agreement.
    pub pairs: f64,
    /// The mean over things of the standard deviation of their scores.
    pub spread: f64,
}

impl Agreement {
    /// Compares rankings, each with a score for every thing. There must be two things and two rankings to compare.
    pub fn of(rankings: &[Vec<f64>]) -> Option<Self> {
        let n_things = rankings.first()?.len();
        if rankings.len() < 2 || n_things < 2 {
            return None;
        }
        let (mut taus, mut shares) = (Vec::new(), Vec::new());
        for (i, one) in rankings.iter().enumerate() {
            for other in &rankings[i + 1..] {
                let (tau, share) = kendall(one, other);
                taus.push(tau);
                shares.push(share);
            }
        }
        let deviation = |thing: usize| {
            let scores: Vec<f64> = rankings.iter().map(|ranking| ranking[thing]).collect();
            let centre = mean(&scores);
            mean(&scores.iter().map(|score| (score - centre).powi(2)).collect::<Vec<_>>()).sqrt()
        };
        let spread = mean(&(0..n_things).map(deviation).collect::<Vec<_>>());
        Some(Self { tau: mean(&taus), pairs: mean(&shares), spread })
    }
}

/// Tau-b of two rankings, and the share of pairs in the same order.
fn kendall(one: &[f64], other: &[f64]) -> (f64, f64) {
    let (mut same, mut reversed, mut tied_one, mut tied_other, mut tied_both) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for i in 0..one.len() {
        for j in i + 1..one.len() {
            match (one[i] == one[j], other[i] == other[j]) {
                (true, true) => tied_both += 1.0,
                (true, false) => tied_one += 1.0,
                (false, true) => tied_other += 1.0,
                (false, false) if (one[i] > one[j]) == (other[i] > other[j]) => same += 1.0,
                (false, false) => reversed += 1.0,
            }
        }
    }
    let untied: f64 = same + reversed;
    let scale = ((untied + tied_one) * (untied + tied_other)).sqrt();
    let tau = if scale > 0.0 { (same - reversed) / scale } else { 0.0 };
    let n_pairs = untied + tied_one + tied_other + tied_both;
    (tau, (same + tied_both + (tied_one + tied_other) / 2.0) / n_pairs)
}

/// A share with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The share.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many independent trials it rests on.
    pub n: f64,
}

impl Share {
    /// The interval of Wilson. With no trial at all it is everything.
    pub fn wilson(value: f64, n: f64) -> Self {
        if n <= 0.0 {
            return Self { value, low: 0.0, high: 1.0, n: 0.0 };
        }
        let z2 = Z * Z;
        let centre = (value + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z / (1.0 + z2 / n) * (value * (1.0 - value) / n + z2 / (4.0 * n * n)).sqrt();
        Self { value, low: (centre - half).max(0.0), high: (centre + half).min(1.0), n }
    }
}

/// Pearson's correlation with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Correlation {
    /// The correlation; 0 when one side never varies.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many pairs it rests on.
    pub n: usize,
}

impl Correlation {
    /// The correlation of centred pairs; `n_free` of them are free to vary, after what was taken out by centring.
    pub fn of(pairs: &[(f64, f64)], n_free: usize) -> Self {
        let sum = |f: fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>();
        let (xx, yy, xy) = (sum(|(x, _)| x * x), sum(|(_, y)| y * y), sum(|(x, y)| x * y));
        let value = if xx > 1e-12 && yy > 1e-12 { (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0) } else { 0.0 };
        let (low, high) = if n_free > 3 {
            // Fisher's z, kept off the ends where it is infinite.
            let (z, half) = (value.clamp(-0.999_999, 0.999_999).atanh(), Z / (n_free as f64 - 3.0).sqrt());
            ((z - half).tanh(), (z + half).tanh())
        } else {
            (-1.0, 1.0)
        };
        Self { value, low, high, n: pairs.len() }
    }

    /// Whether it is surely there and at least this large.
    pub fn is_at_least(&self, size: f64) -> bool {
        self.value.abs() >= size && (self.low > 0.0 || self.high < 0.0)
    }
}

/// The mean; 0 of nothing.
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Wilson for 8 of 10, by the formula: 0.490 to 0.943.
        let share = Share::wilson(0.8, 10.0);
        assert!((share.low - 0.4902).abs() < 1e-4 && (share.high - 0.9433).abs() < 1e-4, "{share:?}");
        assert_eq!(Share::wilson(0.5, 0.0).low, 0.0);
        let agreement = |a: &[f64], b: &[f64]| Agreement::of(&[a.to_vec(), b.to_vec()]).unwrap();
        assert_eq!(agreement(&[1.0, 2.0, 3.0], &[0.1, 0.5, 0.9]).tau, 1.0);
        assert_eq!(agreement(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]).tau, -1.0);
        // Three pairs, one of them tied in one ranking: tau-b = 2 / sqrt(3 * 2).
        let tied = agreement(&[1.0, 2.0, 3.0], &[1.0, 2.0, 2.0]);
        assert!((tied.tau - 2.0 / 6f64.sqrt()).abs() < 1e-12 && (tied.pairs - 2.5 / 3.0).abs() < 1e-12, "{tied:?}");
        assert_eq!(agreement(&[1.0, 1.0], &[2.0, 2.0]).pairs, 1.0);
        assert_eq!(Agreement::of(&[vec![1.0, 2.0]]), None);
        let line = Correlation::of(&[(-1.0, -2.0), (0.0, 0.0), (1.0, 2.0)], 2);
        assert_eq!((line.value, line.low), (1.0, -1.0));
    }
}
