//! Draws from the distributions that the bandits believe in, and how often each of several would be the largest.
//!
//! The last is the propensity of Thompson sampling: the integral of one density times the distribution functions of all
//! others. It is taken by the trapezoidal rule on a grid that has the places where each density lives, narrow or wide, so there is
//! no Monte Carlo error in what is logged.

use hone_trace::Draws;
use serde::{Deserialize, Serialize};

/// What is believed about a score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Belief {
    /// A Beta distribution moved by an offset. Both counts are at least 1, so its density is bounded.
    Beta {
        /// Successes, counting the prior.
        a: f64,
        /// Failures, counting the prior.
        b: f64,
        /// What is added to it.
        offset: f64,
    },
    /// Student's t.
    Student {
        /// The middle.
        location: f64,
        /// The spread.
        scale: f64,
        /// Degrees of freedom.
        freedom: f64,
    },
}

impl Belief {
    /// The same, less a price.
    pub fn less(self, price: f64) -> Self {
        match self {
            Self::Beta { a, b, offset } => Self::Beta { a, b, offset: offset - price },
            Self::Student { location, scale, freedom } => Self::Student { location: location - price, scale, freedom },
        }
    }

    /// A score as it may be.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        match *self {
            Self::Beta { a, b, offset } => {
                let (yes, no) = (gamma(a, draws), gamma(b, draws));
                yes / (yes + no) + offset
            }
            Self::Student { location, scale, freedom } => {
                location + scale * draws.normal() / (gamma(freedom / 2.0, draws) / (freedom / 2.0)).sqrt()
            }
        }
    }

    /// The mean and the standard deviation, or what comes close to one.
    fn moments(&self) -> (f64, f64) {
        match *self {
            Self::Beta { a, b, offset } => {
                let n = a + b;
                (a / n + offset, (a * b / (n * n * (n + 1.0))).sqrt())
            }
            Self::Student { location, scale, .. } => (location, scale),
        }
    }

    /// Where it can be at all.
    fn support(&self) -> (f64, f64) {
        match *self {
            Self::Beta { offset, .. } => (offset, offset + 1.0),
            Self::Student { .. } => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// The logarithm of the density, up to a constant.
    fn log_density(&self, at: f64) -> f64 {
        match *self {
            Self::Beta { a, b, offset } => {
                let x = at - offset;
                let term = |count: f64, x: f64| if count > 1.0 { (count - 1.0) * x.max(0.0).ln() } else { 0.0 };
                if (-1e-12..=1.0 + 1e-12).contains(&x) { term(a, x) + term(b, 1.0 - x) } else { f64::NEG_INFINITY }
            }
            Self::Student { location, scale, freedom } => {
                -0.5 * (freedom + 1.0) * (((at - location) / scale).powi(2) / freedom).ln_1p()
            }
        }
    }
}

/// How often each of these would be the largest if all were drawn; the sum is 1.
pub fn win_shares(beliefs: &[Belief]) -> Vec<f64> {
    let grid = grid(beliefs);
    if grid.len() < 2 {
        return vec![1.0 / beliefs.len().max(1) as f64; beliefs.len()];
    }
    // The mass of each belief in each cell of the grid.
    let masses: Vec<Vec<f64>> = beliefs.iter().map(|belief| masses(belief, &grid)).collect();
    let mut shares = vec![0.0; beliefs.len()];
    let mut below = vec![0.0; beliefs.len()];
    for cell in 0..grid.len() - 1 {
        // Both are in this cell with a probability that the middle of the cell stands for.
        let middle: Vec<f64> = below.iter().zip(&masses).map(|(below, masses)| below + 0.5 * masses[cell]).collect();
        let (before, after) = products(&middle);
        for (idx, share) in shares.iter_mut().enumerate() {
            *share += masses[idx][cell] * before[idx] * after[idx];
            below[idx] += masses[idx][cell];
        }
    }
    let total = shares.iter().fold(0.0, |sum, share| sum + share);
    shares.iter().map(|share| share / total).collect()
}

/// Places per belief, and how many deviations they reach to each side.
const N_PLACES: usize = 41;
const REACH: f64 = 7.0;

fn grid(beliefs: &[Belief]) -> Vec<f64> {
    let mut places = Vec::with_capacity(beliefs.len() * (N_PLACES + 2));
    for belief in beliefs {
        let ((mean, deviation), (low, high)) = (belief.moments(), belief.support());
        places.extend([low, high].into_iter().filter(|end| end.is_finite()));
        places.extend((0..N_PLACES).map(|idx| {
            let step = 2.0 * idx as f64 / (N_PLACES - 1) as f64 - 1.0;
            // Denser in the middle, and further out for heavy tails.
            (mean + deviation * REACH * step * (0.3 + 0.7 * step * step)).clamp(low, high)
        }));
    }
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// The trapezoid of each cell, scaled so that the sum is 1.
fn masses(belief: &Belief, grid: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = grid.iter().map(|&at| belief.log_density(at)).collect();
    let peak = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let densities: Vec<f64> = logs.iter().map(|log| (log - peak).exp()).collect();
    let cell = |idx: usize| 0.5 * (densities[idx] + densities[idx + 1]) * (grid[idx + 1] - grid[idx]);
    let masses: Vec<f64> = (0..grid.len() - 1).map(cell).collect();
    let total = masses.iter().fold(0.0, |sum, mass| sum + mass);
    masses.iter().map(|mass| mass / total).collect()
}

/// For each place the product of all factors before it, and of all after it.
fn products(factors: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut before, mut after) = (vec![1.0; factors.len()], vec![1.0; factors.len()]);
    for idx in 1..factors.len() {
        before[idx] = before[idx - 1] * factors[idx - 1];
        let back = factors.len() - 1 - idx;
        after[back] = after[back + 1] * factors[back + 1];
    }
    (before, after)
}

/// A Gamma draw of this shape (at least 1) and scale 1, by Marsaglia and Tsang.
fn gamma(shape: f64, draws: &mut Draws) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = draws.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - draws.uniform()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quadrature against counting who wins.
    #[track_caller]
    fn check(beliefs: &[Belief]) {
        let mut draws = Draws::new(1, &["wins"]);
        let mut wins = vec![0.0; beliefs.len()];
        let n = 100_000;
        for _ in 0..n {
            let scores: Vec<f64> = beliefs.iter().map(|belief| belief.draw(&mut draws)).collect();
            let best = (0..scores.len()).max_by(|&one, &other| scores[one].total_cmp(&scores[other])).unwrap_or(0);
            wins[best] += 1.0 / f64::from(n);
        }
        let shares = win_shares(beliefs);
        let far = shares.iter().zip(&wins).map(|(share, wins)| (share - wins).abs()).fold(0.0, f64::max);
        assert!(far < 0.006, "{shares:?} {wins:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    const fn beta(a: f64, b: f64, offset: f64) -> Belief {
        Belief::Beta { a, b, offset }
    }

    const fn student(location: f64, scale: f64, freedom: f64) -> Belief {
        Belief::Student { location, scale, freedom }
    }

    #[test]
    fn shares_are_how_often_a_draw_wins() {
        check(&[beta(1.0, 1.0, 0.0), beta(1.0, 1.0, 0.0)]);
        check(&[beta(8.0, 3.0, 0.0), beta(80.0, 30.0, 0.0), beta(2.0, 1.0, -0.2)]);
        check(&[beta(900.0, 100.0, 0.0), beta(1.0, 1.0, 0.0), beta(890.0, 110.0, 0.05)]);
        check(&[student(0.0, 1.0, 6.0), student(0.5, 0.01, 2000.0), student(0.4, 0.3, 10.0)]);
        check(&[student(0.3, 0.1, 6.0); 12]);
        check(&[beta(5.0, 5.0, 0.0)]);
    }

    #[test]
    fn nothing_to_choose_from_has_no_shares() {
        assert!(win_shares(&[]).is_empty());
    }
}
