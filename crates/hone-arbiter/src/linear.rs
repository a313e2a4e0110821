//! Thompson sampling over features: a Bayesian linear model per arm, normal-inverse-gamma (Riquelme and others, ICLR 2018, "LinFullPost").
//!
//! `P += x x'`, `q += r x`, `mu = P^-1 q`, `a += 1/2`, `b = b0 + (yy - mu' P mu) / 2`. A score is Student's t with 2a degrees of freedom
//! around `x' mu` with scale `v sqrt(b / a  x' P^-1 x)`: the draw of a variance and of the weights in one. v tunes exploration.
//! What is kept of P is its Cholesky factor, moved by each row through Givens rotations: a row costs d² operations, and a decision
//! one triangular solve per arm. New arms begin with the weights of a model that all arms' rows taught, at the precision of the prior.
//!
//! Unlike [`Thompson`](crate::Thompson) it does not forget. Knows nothing of what features mean, nor of how they are scaled: values
//! near 1 suit the prior.

use crate::sampling::{Belief, win_shares};
use crate::thompson::with_floor;
use hone_trace::{Draws, V1};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The prior, and how much is explored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearSettings {
    /// The precision of each weight before any row.
    pub precision: f64,
    /// The shape of the noise's prior; at least 1.
    pub a: f64,
    /// Its scale: b / a is the variance that is expected of rewards.
    pub b: f64,
    /// The scale of exploration; 1 is what the model itself believes.
    pub exploration: f64,
    /// The least share of an arm.
    pub floor: f64,
}

impl Default for LinearSettings {
    fn default() -> Self {
        Self { precision: 0.25, a: 3.0, b: 0.5, exploration: 0.25, floor: 0.02 }
    }
}

/// What cannot be set or counted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LinearError {
    /// A number without meaning.
    #[error("{name} is {value}, and must be {wanted}")]
    Value {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What would do.
        wanted: &'static str,
    },
    /// Features of another kind.
    #[error("{found} features were given to a model of {known}")]
    Features {
        /// Those that were given.
        found: usize,
        /// Those of the model.
        known: usize,
    },
    /// More than is kept.
    #[error("{N_ARMS_MAX} versions are told apart already, and nothing is learned about more of them")]
    TooManyArms,
}

const N_ARMS_MAX: usize = 256;
const N_FEATURES_MAX: usize = 512;

/// A model per arm. Written down and read again it chooses the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Linear {
    v: V1,
    settings: LinearSettings,
    n_features: usize,
    /// Taught by the rows of all arms.
    pooled: Model,
    arms: BTreeMap<String, Model>,
}

/// Models as they were written down, by whomever.
#[derive(Deserialize)]
struct Written {
    v: V1,
    settings: LinearSettings,
    n_features: usize,
    pooled: Model,
    arms: BTreeMap<String, Model>,
}

impl TryFrom<Written> for Linear {
    type Error = LinearError;

    fn try_from(written: Written) -> Result<Self, LinearError> {
        let Written { v, settings, n_features, pooled, arms } = written;
        let empty = Self::new(settings, n_features)?;
        let lengths = |model: &Model| [model.mu.len(), model.q.len(), model.factor.len()];
        match std::iter::once(&pooled).chain(arms.values()).find(|model| lengths(model) != lengths(&empty.pooled)) {
            Some(model) => Err(LinearError::Features { found: model.mu.len(), known: n_features }),
            None => Ok(Self { v, settings, n_features, pooled, arms }),
        }
    }
}

/// The posterior of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Model {
    /// The lower triangle of the Cholesky factor of P, row by row.
    factor: Vec<f64>,
    q: Vec<f64>,
    mu: Vec<f64>,
    yy: f64,
    a: f64,
    b: f64,
}

impl Linear {
    /// Nothing learned yet about so many features.
    pub fn new(settings: LinearSettings, n_features: usize) -> Result<Self, LinearError> {
        let check = |name, value: f64, is_sound: bool, wanted| match is_sound && value.is_finite() {
            true => Ok(()),
            false => Err(LinearError::Value { name, value, wanted }),
        };
        check("precision", settings.precision, settings.precision > 0.0, "a number above 0")?;
        check("a", settings.a, settings.a >= 1.0, "a number from 1")?;
        check("b", settings.b, settings.b > 0.0, "a number above 0")?;
        check("exploration", settings.exploration, settings.exploration > 0.0, "a number above 0")?;
        check("floor", settings.floor, (0.0..=0.5).contains(&settings.floor), "from 0 to 0.5")?;
        check("n_features", n_features as f64, (1..=N_FEATURES_MAX).contains(&n_features), "from 1 to 512")?;
        let pooled = Model::new(&settings, &vec![0.0; n_features]);
        Ok(Self { v: V1, settings, n_features, pooled, arms: BTreeMap::new() })
    }

    /// Counts what an arm earned in this context.
    pub fn add(&mut self, arm: &str, x: &[f64], reward: f64) -> Result<(), LinearError> {
        self.check(x)?;
        if !reward.is_finite() {
            return Err(LinearError::Value { name: "reward", value: reward, wanted: "a finite number" });
        }
        if !self.arms.contains_key(arm) {
            if self.arms.len() >= N_ARMS_MAX {
                return Err(LinearError::TooManyArms);
            }
            self.arms.insert(arm.to_owned(), Model::new(&self.settings, &self.pooled.mu));
        }
        let (pooled, settings) = (&mut self.pooled, &self.settings);
        pooled.add(x, reward, settings);
        self.arms.get_mut(arm).into_iter().for_each(|model| model.add(x, reward, settings));
        Ok(())
    }

    /// Forgets an arm that is gone.
    pub fn retire(&mut self, arm: &str) {
        self.arms.remove(arm);
    }

    /// What is believed about each of these arms in this context.
    pub fn beliefs(&self, arms: &[&str], x: &[f64]) -> Result<Vec<Belief>, LinearError> {
        self.check(x)?;
        let mut solved = vec![0.0; x.len()];
        let mut unseen = None;
        let belief = |arm: &&str| match self.arms.get(*arm) {
            Some(model) => model.belief(x, &self.settings, &mut solved),
            None => *unseen.get_or_insert_with(|| {
                let model = Model::new(&self.settings, &self.pooled.mu);
                model.belief(x, &self.settings, &mut solved)
            }),
        };
        Ok(arms.iter().map(belief).collect())
    }

    /// Chooses one of these beliefs by one draw of each, or any of them as often as the floor asks; `None` of none. The draw is what is
    /// quick enough for the path of a request; [`Linear::propensities`] of the same beliefs is for the log, and can come later.
    pub fn choose(&self, beliefs: &[Belief], draws: &mut Draws) -> Option<usize> {
        let n = beliefs.len();
        if n == 0 {
            return None;
        }
        if draws.chance((self.settings.floor * n as f64).min(1.0)) {
            return Some(draws.below(n));
        }
        let scores: Vec<f64> = beliefs.iter().map(|belief| belief.draw(draws)).collect();
        (0..n).max_by(|&one, &other| scores[one].total_cmp(&scores[other]))
    }

    /// How likely each was to be chosen.
    pub fn propensities(&self, beliefs: &[Belief]) -> Vec<f64> {
        with_floor(&win_shares(beliefs), self.settings.floor)
    }

    fn check(&self, x: &[f64]) -> Result<(), LinearError> {
        if x.len() != self.n_features {
            return Err(LinearError::Features { found: x.len(), known: self.n_features });
        }
        match x.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(LinearError::Value { name: "a feature", value, wanted: "a finite number" }),
            None => Ok(()),
        }
    }
}

impl Model {
    /// The prior around these weights.
    fn new(settings: &LinearSettings, mu: &[f64]) -> Self {
        let n = mu.len();
        let mut factor = vec![0.0; n * (n + 1) / 2];
        (0..n).for_each(|row| factor[row_start(row) + row] = settings.precision.sqrt());
        let q: Vec<f64> = mu.iter().map(|weight| settings.precision * weight).collect();
        let yy = dot(&q, mu);
        Self { factor, q, mu: mu.to_vec(), yy, a: settings.a, b: settings.b }
    }

    fn add(&mut self, x: &[f64], reward: f64, settings: &LinearSettings) {
        self.rotate_in(x);
        self.q.iter_mut().zip(x).for_each(|(q, x)| *q += reward * x);
        self.yy += reward * reward;
        self.a += 0.5;
        let mut solved = self.q.clone();
        self.solve_lower(&mut solved);
        self.solve_upper(&mut solved);
        self.mu = solved;
        // Rounding must not make the variance negative.
        self.b = settings.b + 0.5 * (self.yy - dot(&self.mu, &self.q)).max(0.0);
    }

    /// The factor of P + x x', by one rotation per column.
    fn rotate_in(&mut self, x: &[f64]) {
        let mut x = x.to_vec();
        for column in 0..x.len() {
            let diagonal = row_start(column) + column;
            let old = self.factor[diagonal];
            let new = old.hypot(x[column]);
            let (c, s) = (new / old, x[column] / old);
            self.factor[diagonal] = new;
            for (row, value) in x.iter_mut().enumerate().skip(column + 1) {
                let place = row_start(row) + column;
                self.factor[place] = (self.factor[place] + s * *value) / c;
                *value = c * *value - s * self.factor[place];
            }
        }
    }

    fn belief(&self, x: &[f64], settings: &LinearSettings, solved: &mut [f64]) -> Belief {
        solved.copy_from_slice(x);
        self.solve_lower(solved);
        let scale = settings.exploration * (self.b / self.a * dot(solved, solved)).sqrt();
        // Without any feature there is nothing to believe, and a scale of 0 is no distribution.
        Belief::Student { location: dot(x, &self.mu), scale: scale.max(1e-12), freedom: 2.0 * self.a }
    }

    /// Solves L y = x in place.
    fn solve_lower(&self, x: &mut [f64]) {
        for row in 0..x.len() {
            let (before, rest) = x.split_at_mut(row);
            let factors = &self.factor[row_start(row)..=row_start(row) + row];
            rest[0] = (rest[0] - dot(&factors[..row], before)) / factors[row];
        }
    }

    /// Solves L' y = x in place.
    fn solve_upper(&self, x: &mut [f64]) {
        for row in (0..x.len()).rev() {
            let (before, rest) = x.split_at_mut(row);
            let factors = &self.factor[row_start(row)..=row_start(row) + row];
            rest[0] /= factors[row];
            before.iter_mut().zip(factors).for_each(|(x, factor)| *x -= factor * rest[0]);
        }
    }
}

fn row_start(row: usize) -> usize {
    row * (row + 1) / 2
}

/// Four sums side by side, which a compiler may keep in one register.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let (ones, others) = (one.chunks_exact(4), other.chunks_exact(4));
    let rest = ones.remainder().iter().zip(others.remainder()).fold(0.0, |sum, (one, other)| sum + one * other);
    let mut sums = [0.0; 4];
    for (one, other) in ones.zip(others) {
        for lane in 0..4 {
            sums[lane] += one[lane] * other[lane];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(n: usize, draws: &mut Draws) -> Vec<f64> {
        (0..n).map(|idx| if idx == 0 { 1.0 } else { draws.normal() }).collect()
    }

    #[test]
    fn the_factor_is_that_of_the_sum() {
        let (n, mut draws) = (7, Draws::new(1, &["factor"]));
        let settings = LinearSettings { precision: 1.0, ..LinearSettings::default() };
        let mut model = Model::new(&settings, &vec![0.0; n]);
        let mut p: Vec<Vec<f64>> = (0..n).map(|row| (0..n).map(|column| f64::from(u8::from(row == column))).collect()).collect();
        let mut q = vec![0.0; n];
        for _ in 0..200 {
            let (x, reward) = (context(n, &mut draws), draws.normal());
            model.add(&x, reward, &settings);
            for (row, weights) in p.iter_mut().enumerate() {
                q[row] += reward * x[row];
                weights.iter_mut().zip(&x).for_each(|(weight, value)| *weight += x[row] * value);
            }
        }
        let at = |row: usize, column: usize| if column <= row { model.factor[row_start(row) + column] } else { 0.0 };
        for (row, weights) in p.iter().enumerate() {
            for (column, weight) in weights.iter().enumerate() {
                let product: f64 = (0..n).map(|k| at(row, k) * at(column, k)).sum();
                assert!((product - weight).abs() < 1e-9, "{row} {column}");
            }
            // The weights solve P mu = q.
            assert!((dot(weights, &model.mu) - q[row]).abs() < 1e-9);
        }
    }

    #[test]
    fn contexts_decide_who_is_chosen() {
        let mut linear = Linear::new(LinearSettings::default(), 3).unwrap();
        let mut draws = Draws::new(2, &["contexts"]);
        let arms = ["left", "right"];
        let mut n_right = 0;
        for round in 0..1_500 {
            let x = context(3, &mut draws);
            let beliefs = linear.beliefs(&arms, &x).unwrap();
            let chosen = linear.choose(&beliefs, &mut draws).unwrap();
            let best = usize::from(x[1] > 0.0);
            n_right += usize::from(round >= 500 && chosen == best);
            let rate = if chosen == best { 0.9 } else { 0.1 };
            linear.add(arms[chosen], &x, f64::from(u8::from(draws.chance(rate)))).unwrap();
        }
        assert!(n_right > 900, "{n_right} of 1000");
    }

    #[test]
    fn propensities_are_how_often_each_is_chosen() {
        let mut linear = Linear::new(LinearSettings { exploration: 1.0, ..LinearSettings::default() }, 2).unwrap();
        let mut draws = Draws::new(3, &["propensities"]);
        for row in 0..20 {
            let x = context(2, &mut draws);
            linear.add(["a", "b"][row % 2], &x, draws.normal()).unwrap();
        }
        let beliefs = linear.beliefs(&["a", "b", "unseen"], &[1.0, 0.3]).unwrap();
        let propensities = linear.propensities(&beliefs);
        let mut counts = [0.0; 3];
        (0..50_000).for_each(|_| counts[linear.choose(&beliefs, &mut draws).unwrap()] += 1.0 / 50_000.0);
        assert!(propensities.iter().zip(counts).all(|(p, n)| (p - n).abs() < 0.008), "{propensities:?} {counts:?}");
    }

    #[test]
    fn a_new_arm_begins_with_what_all_have_learned() {
        let mut linear = Linear::new(LinearSettings::default(), 2).unwrap();
        (0..200).for_each(|row| linear.add("old", &[1.0, f64::from(row % 3)], 0.7).unwrap());
        let location = |arm| match linear.beliefs(&[arm], &[1.0, 1.0]).unwrap()[0] {
            Belief::Student { location, scale, .. } => (location, scale),
            Belief::Beta { .. } => (f64::NAN, f64::NAN),
        };
        assert!((location("old").0 - location("new").0).abs() < 0.02 && location("new").1 > 5.0 * location("old").1);
    }

    #[test]
    fn learned_state_survives_and_nonsense_is_refused() {
        let mut linear = Linear::new(LinearSettings::default(), 2).unwrap();
        linear.add("a", &[1.0, 0.3], 0.7).unwrap();
        assert_eq!(serde_json::from_str::<Linear>(&serde_json::to_string(&linear).unwrap()).unwrap(), linear);
        let mut json = serde_json::to_value(&linear).unwrap();
        json["arms"]["a"]["mu"] = vec![0.0].into();
        assert!(serde_json::from_value::<Linear>(json).unwrap_err().to_string().contains("1 features"));
        assert_eq!(linear.add("a", &[1.0], 0.5), Err(LinearError::Features { found: 1, known: 2 }));
        assert!(linear.add("a", &[1.0, f64::NAN], 0.5).is_err() && linear.add("a", &[1.0, 1.0], f64::NAN).is_err());
        assert!(Linear::new(LinearSettings { a: 0.5, ..LinearSettings::default() }, 2).is_err());
        assert_eq!(linear.choose(&[], &mut Draws::new(1, &[])), None);
    }
}
