//! Thompson sampling by task type: each arm is chosen as often as it may be the best one.
//!
//! Per task type and arm a Beta distribution of success and running means of cost and log-latency. A score is a draw of success less
//! what the arm costs and how long it takes: `s = theta - wc cost / cost_max - wl latency / latency_max`, against the dearest and the
//! slowest of the arms, so that the scale of a task's costs does not matter. Cost and latency enter by their means, not by draws: they
//! are known far better than success. Counts are discounted with every row of the task type, so that an arm that was not asked for long is tried again. Every arm keeps a floor of exploration, without which a log could not tell later what
//! another choice would have brought. A new arm begins with what its peers reached, at the weight of a few rows.
//!
//! Knows nothing of what an arm is or of when a row happened. Outcomes may come late: a row is counted when it is known.

use crate::sampling::{Belief, win_shares};
use hone_eval::{Spent, Thrift};
use hone_trace::{Draws, V1};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much is explored, and how fast is forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThompsonSettings {
    /// What is left of old counts after a row.
    pub discount: f64,
    /// The least share of an arm.
    pub floor: f64,
    /// How many rows the peers' mean counts for a new arm.
    pub prior_rows: f64,
}

impl Default for ThompsonSettings {
    fn default() -> Self {
        Self { discount: 0.999, floor: 0.02, prior_rows: 4.0 }
    }
}

/// What cannot be counted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThompsonError {
    /// A setting or a measure without meaning.
    #[error("{name} is {value}, and must be {wanted}")]
    Value {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What would do.
        wanted: &'static str,
    },
    /// More than is kept.
    #[error("{N_TASKS_MAX} task types are kept apart already; use fewer")]
    TooManyTasks,
    /// More than is kept.
    #[error("{N_ARMS_MAX} versions are told apart at this type of task already, and nothing is learned about more of them")]
    TooManyArms,
}

const N_TASKS_MAX: usize = 1_000;
const N_ARMS_MAX: usize = 256;

/// What an arm reached in one episode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// From 0 (failed) to 1 (solved).
    pub success: f64,
    /// The price, where it is known.
    pub cost_usd: Option<f64>,
    /// The time it took, where it is known.
    pub latency_ms: Option<f64>,
}

/// What is known about one arm at one task type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Rows, none of them forgotten.
    pub n_rows: u64,
    /// What its peers reached when it was new; the mean of success.
    pub prior: f64,
    successes: f64,
    failures: f64,
    cost_usd: Mean,
    log_latency_ms: Mean,
}

/// A mean whose old values fade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Mean {
    weight: f64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.weight += 1.0;
        self.sum += value;
    }

    fn fade(&mut self, discount: f64) {
        self.weight *= discount;
        self.sum *= discount;
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

impl Cell {
    fn new(prior: f64) -> Self {
        Self { n_rows: 0, prior, successes: 0.0, failures: 0.0, cost_usd: Mean::default(), log_latency_ms: Mean::default() }
    }

    /// The share of success, with the prior and without what is forgotten.
    pub fn success(&self, settings: &ThompsonSettings) -> f64 {
        let (a, b) = self.counts(settings);
        a / (a + b)
    }

    /// The mean cost, where one is known.
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost_usd.value()
    }

    /// The typical latency, where one is known.
    pub fn latency_ms(&self) -> Option<f64> {
        self.log_latency_ms.value().map(f64::exp)
    }

    /// Both of them.
    fn spent(&self) -> Spent {
        Spent { cost_usd: self.cost_usd(), latency_ms: self.latency_ms() }
    }

    /// Both are at least 1, which keeps the density bounded.
    fn counts(&self, settings: &ThompsonSettings) -> (f64, f64) {
        let prior = settings.prior_rows;
        (1.0 + prior * self.prior + self.successes, 1.0 + prior * (1.0 - self.prior) + self.failures)
    }
}

/// All that was learned. Written down and read again it chooses the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thompson {
    v: V1,
    settings: ThompsonSettings,
    cells: BTreeMap<String, BTreeMap<String, Cell>>,
}

impl Thompson {
    /// Nothing learned yet.
    pub fn new(settings: ThompsonSettings) -> Result<Self, ThompsonError> {
        let is_count = settings.prior_rows.is_finite() && settings.prior_rows >= 0.0;
        check("prior_rows", settings.prior_rows, is_count, "a number from 0")?;
        check("discount", settings.discount, settings.discount > 0.5 && settings.discount <= 1.0, "above 0.5 and at most 1")?;
        check("floor", settings.floor, (0.0..=0.5).contains(&settings.floor), "from 0 to 0.5")?;
        Ok(Self { v: V1, settings, cells: BTreeMap::new() })
    }

    /// How it was set.
    pub fn settings(&self) -> &ThompsonSettings {
        &self.settings
    }

    /// What is known about each arm at a task type.
    pub fn cells(&self, task: &str) -> impl Iterator<Item = (&str, &Cell)> {
        self.cells.get(task).into_iter().flatten().map(|(arm, cell)| (arm.as_str(), cell))
    }

    /// The task types that are kept apart.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        self.cells.keys().map(String::as_str)
    }

    /// Whether this task type is kept apart, or would be. There is room for one more than those that say yes, for whatever has none.
    pub fn has_room_for(&self, task: &str) -> bool {
        self.cells.contains_key(task) || self.cells.len() + 1 < N_TASKS_MAX
    }

    /// Counts what an arm reached.
    pub fn add(&mut self, task: &str, arm: &str, reached: &Reached) -> Result<(), ThompsonError> {
        let Reached { success, cost_usd, latency_ms } = *reached;
        let from_zero = |name, value: f64| check(name, value, value.is_finite() && value >= 0.0, "a number from 0");
        check("success", success, (0.0..=1.0).contains(&success), "from 0 to 1")?;
        from_zero("cost_usd", cost_usd.unwrap_or(0.0))?;
        from_zero("latency_ms", latency_ms.unwrap_or(0.0))?;
        let prior = self.pooled(task);
        if !self.cells.contains_key(task) && self.cells.len() >= N_TASKS_MAX {
            return Err(ThompsonError::TooManyTasks);
        }
        let arms = self.cells.entry(task.to_owned()).or_default();
        if !arms.contains_key(arm) && arms.len() >= N_ARMS_MAX {
            return Err(ThompsonError::TooManyArms);
        }
        for cell in arms.values_mut() {
            cell.successes *= self.settings.discount;
            cell.failures *= self.settings.discount;
            cell.cost_usd.fade(self.settings.discount);
            cell.log_latency_ms.fade(self.settings.discount);
        }
        let cell = arms.entry(arm.to_owned()).or_insert_with(|| Cell::new(prior));
        cell.n_rows += 1;
        cell.successes += success;
        cell.failures += 1.0 - success;
        cost_usd.into_iter().for_each(|cost| cell.cost_usd.add(cost));
        latency_ms.into_iter().for_each(|latency| cell.log_latency_ms.add(latency.max(LATENCY_MS_MIN).ln()));
        Ok(())
    }

    /// Forgets an arm that is gone, at all task types.
    pub fn retire(&mut self, arm: &str) {
        self.cells.retain(|_, arms| {
            arms.remove(arm);
            !arms.is_empty()
        });
    }

    /// How likely each of these arms is chosen for a task type: the propensities that a log needs. This takes milliseconds for
    /// dozens of arms and changes only with what is learned, so it is kept between rows and chosen from by [`pick`].
    pub fn propensities(&self, task: &str, arms: &[&str], thrift: &Thrift) -> Vec<f64> {
        let prior = self.pooled(task);
        let known = self.cells.get(task);
        let cells: Vec<Cell> =
            arms.iter().map(|&arm| known.and_then(|cells| cells.get(arm)).copied().unwrap_or_else(|| Cell::new(prior))).collect();
        let spent: Vec<Spent> = cells.iter().map(Cell::spent).collect();
        let belief = |(cell, price): (&Cell, f64)| {
            let (a, b) = cell.counts(&self.settings);
            Belief::Beta { a, b, offset: -price }
        };
        let beliefs: Vec<Belief> = cells.iter().zip(thrift.prices(&spent)).map(belief).collect();
        with_floor(&win_shares(&beliefs), self.settings.floor)
    }

    /// What all arms reached at a task type, or at all of them while it is new: the mean of success.
    fn pooled(&self, task: &str) -> f64 {
        let sums = |(yes, no): (f64, f64), cell: &Cell| (yes + cell.successes, no + cell.failures);
        let (successes, failures) = match self.cells.get(task) {
            Some(arms) => arms.values().fold((0.0, 0.0), sums),
            None => self.cells.values().flat_map(BTreeMap::values).fold((0.0, 0.0), sums),
        };
        (1.0 + successes) / (2.0 + successes + failures)
    }
}

/// A clock cannot tell less apart, and the logarithm of 0 says nothing.
const LATENCY_MS_MIN: f64 = 1e-3;

/// Shares of which none is below the floor, or below an even share where that is less.
pub fn with_floor(shares: &[f64], floor: f64) -> Vec<f64> {
    let n = shares.len() as f64;
    let floor = floor.min(1.0 / n);
    shares.iter().map(|share| floor + (1.0 - n * floor) * share).collect()
}

/// Chooses by these propensities; `None` of none.
pub fn pick(propensities: &[f64], draws: &mut Draws) -> Option<usize> {
    let place = draws.uniform();
    let mut below = 0.0;
    let found = propensities.iter().position(|share| {
        below += share;
        place < below
    });
    // The sum may stay below 1 by a rounding.
    found.or(propensities.len().checked_sub(1))
}

fn check(name: &'static str, value: f64, is_sound: bool, wanted: &'static str) -> Result<(), ThompsonError> {
    if is_sound { Ok(()) } else { Err(ThompsonError::Value { name, value, wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(is_solved: bool) -> Reached {
        Reached { success: f64::from(u8::from(is_solved)), cost_usd: Some(0.01), latency_ms: Some(500.0) }
    }

    /// The shares after these many rounds of choosing among arms of these rates.
    fn play(thompson: &mut Thompson, rates: &[f64], n_rounds: usize, seed: u64) -> Vec<f64> {
        let names: Vec<String> = (0..rates.len()).map(|idx| idx.to_string()).collect();
        let arms: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut draws = Draws::new(seed, &["play"]);
        for _ in 0..n_rounds {
            let chosen = pick(&thompson.propensities("code", &arms, &Thrift::default()), &mut draws).unwrap();
            let is_solved = draws.chance(rates[chosen]);
            thompson.add("code", arms[chosen], &reached(is_solved)).unwrap();
        }
        thompson.propensities("code", &arms, &Thrift::default())
    }

    #[test]
    fn the_best_arm_gets_the_traffic_and_the_others_the_floor() {
        let mut thompson = Thompson::new(ThompsonSettings::default()).unwrap();
        let shares = play(&mut thompson, &[0.5, 0.8, 0.6], 1_500, 1);
        assert!(shares[1] > 0.85 && shares.iter().all(|&share| share >= 0.02), "{shares:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // The world turns round, and so does the choice.
        let shares = play(&mut thompson, &[0.8, 0.3, 0.6], 3_000, 2);
        assert!(shares[0] > 0.7, "{shares:?}");
    }

    #[test]
    fn cost_and_latency_count() {
        // How often `plain` is chosen, whose costs and times are these, and that solves 4 of 5, as often as `dear`, or so much less.
        let share = |plain: (f64, f64), dear: (f64, f64), n_solved: usize| {
            let mut thompson = Thompson::new(ThompsonSettings::default()).unwrap();
            let reached = |is_solved: bool, (cost, latency): (f64, f64)| {
                let success = f64::from(u8::from(is_solved));
                Reached { success, cost_usd: Some(cost), latency_ms: Some(latency) }
            };
            for row in 0..400 {
                thompson.add("code", "plain", &reached(row % 5 < n_solved, plain)).unwrap();
                thompson.add("code", "dear", &reached(row % 5 != 0, dear)).unwrap();
            }
            thompson.propensities("code", &["plain", "dear"], &Thrift::default())[0]
        };
        // Who comes second begins with what the first has reached, which is a little better than nothing known.
        assert!((share((0.01, 500.0), (0.01, 500.0), 4) - 0.5).abs() < 0.1);
        assert!(share((0.01, 500.0), (0.03, 500.0), 4) > 0.9);
        assert!(share((0.01, 500.0), (0.01, 5_000.0), 4) > 0.8);
        // However dear success is, it is not given away for less than a few points.
        assert!(share((0.02, 2_000.0), (0.5, 40_000.0), 3) < 0.1);
    }

    #[test]
    fn a_new_arm_begins_with_what_its_peers_reached() {
        let mut thompson = Thompson::new(ThompsonSettings::default()).unwrap();
        (0..300).for_each(|row| thompson.add("code", "old", &reached(row % 10 != 0)).unwrap());
        thompson.add("code", "new", &reached(true)).unwrap();
        let prior = thompson.cells("code").find(|(arm, _)| *arm == "new").unwrap().1.prior;
        assert!((prior - 0.9).abs() < 0.02, "{prior}");
        // An unseen arm is neither shunned nor preferred blindly.
        let shares = thompson.propensities("code", &["old", "unseen"], &Thrift::default());
        assert!((0.2..0.6).contains(&shares[1]), "{shares:?}");
        assert_eq!(thompson.propensities("other", &["a", "b"], &Thrift::default()), [0.5, 0.5]);
    }

    #[test]
    fn learned_state_survives_a_restart_and_an_arm_can_be_retired() {
        let mut thompson = Thompson::new(ThompsonSettings::default()).unwrap();
        play(&mut thompson, &[0.5, 0.8], 300, 3);
        let read: Thompson = serde_json::from_str(&serde_json::to_string(&thompson).unwrap()).unwrap();
        let shares = |of: &Thompson| of.propensities("code", &["0", "1"], &Thrift::default());
        assert_eq!((&read, shares(&read)), (&thompson, shares(&thompson)));
        thompson.retire("0");
        assert_eq!(thompson.cells("code").map(|(arm, _)| arm).collect::<Vec<_>>(), ["1"]);
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let refuse = |settings, name: &str| assert!(Thompson::new(settings).unwrap_err().to_string().starts_with(name));
        refuse(ThompsonSettings { discount: 0.0, ..Default::default() }, "discount is 0");
        refuse(ThompsonSettings { floor: 0.9, ..Default::default() }, "floor is 0.9");
        refuse(ThompsonSettings { prior_rows: -1.0, ..Default::default() }, "prior_rows is -1");
        let mut thompson = Thompson::new(ThompsonSettings::default()).unwrap();
        assert!(thompson.add("code", "a", &Reached { success: 1.5, ..reached(true) }).is_err());
        (0..N_ARMS_MAX).for_each(|arm| thompson.add("code", &arm.to_string(), &reached(true)).unwrap());
        assert_eq!(thompson.add("code", "one more", &reached(true)), Err(ThompsonError::TooManyArms));
    }
}
