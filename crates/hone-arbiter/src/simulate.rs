//! Simulated canaries and bandits: how often they err, and after how many rows they decide.
//!
//! Episodes arrive one by one and are assigned by chance at the canary's share. Quality is solved or not, errors, cost and latency
//! are drawn beside it. The base rate may drift, outcomes may come late and some never come, the same for both arms; and nothing may
//! be heard of just the canary's failures, or of control's successes. The canary sees what a real one would, and never the truth.

mod labels;
mod study;

pub use labels::{Labelled, mean_reward};
pub use study::{Condition, Improve, Study, study};

use crate::Arm;
use crate::canary::{Canary, Decision, Fact, Row, Settings, State};
use hone_trace::Draws;

/// What is true in a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World {
    /// How often control solves an episode at the beginning.
    pub base: f64,
    /// How much that changes over the longest possible run, evenly.
    pub drift: f64,
    /// How much more often the canary solves one.
    pub lift: f64,
    /// How often an answer of the canary is an error; for control it is 1 %. An error solves nothing.
    pub error_rate: f64,
    /// The mean number of episodes that begin before an outcome comes.
    pub n_delay_mean: f64,
    /// The share of outcomes that never come.
    pub missing: f64,
    /// The share of the canary's failures of which nothing is heard, and which nobody has given up yet.
    pub silent: f64,
    /// The same of control's successes.
    pub modest: f64,
}

impl World {
    /// A base rate of 0.8 with outcomes at once, a canary that is better by this much and has no more errors than control.
    pub fn with_lift(lift: f64) -> Self {
        Self { base: 0.8, drift: 0.0, lift, error_rate: ERROR_RATE, n_delay_mean: 0.0, missing: 0.0, silent: 0.0, modest: 0.0 }
    }

    /// A canary that only fails.
    pub fn dead() -> Self {
        Self { error_rate: 1.0, ..Self::with_lift(0.0) }
    }
}

const ERROR_RATE: f64 = 0.01;

/// Longer delays are cut: whoever waits for outcomes gives up at some time.
const N_DELAY_MAX: usize = 4096;

/// How one simulated canary ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// Where it stood at the end; still running when it showed nothing.
    pub state: State,
    /// Episodes that began until then.
    pub n_rows: usize,
    /// Those whose outcome had come, or had been given up, by then.
    pub n_outcomes: usize,
    /// Those that the canary answered.
    pub n_canary: usize,
    /// What ended it.
    pub last: Option<Decision>,
}

/// Plays one canary to its end, or until its rows are spent.
///
/// # Panics
///
/// Under settings that no canary accepts.
pub fn play(settings: &Settings, world: &World, seed: u64, run: usize) -> Played {
    let mut draws = Draws::new(seed, &["canary", &run.to_string()]);
    let mut canary = Canary::new(settings.clone()).expect("whoever simulates gives sound settings");
    // What matures when the n-th next episode begins, as a ring.
    let mut due: Vec<Vec<Row>> = vec![Vec::new(); if world.n_delay_mean > 0.0 { N_DELAY_MAX } else { 1 }];
    let n_rows_max = usize::try_from(settings.n_rows_max).unwrap_or(usize::MAX);
    let (mut n_canary, mut n_outcomes) = (0, 0);
    for n_rows in 1..=n_rows_max {
        let canary_share = canary.share();
        let arm = if draws.chance(canary_share) { Arm::Canary } else { Arm::Control };
        n_canary += usize::from(arm == Arm::Canary);
        let (answer, outcome) = world.episode(arm, n_rows as f64 / n_rows_max as f64, &mut draws);
        let delay = if world.n_delay_mean > 0.0 { -world.n_delay_mean * (1.0 - draws.uniform()).ln() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative and cut")]
        let due_idx = (n_rows + (delay as usize).min(due.len() - 1)) % due.len();
        due[due_idx].extend(outcome.map(|fact| Row { arm, canary_share, fact }));
        let now_idx = n_rows % due.len();
        let matured = std::mem::take(&mut due[now_idx]);
        n_outcomes += matured.len();
        let known = [Fact::Assigned, answer].map(|fact| Row { arm, canary_share, fact });
        for row in known.into_iter().chain(matured.iter().copied()) {
            let decision = canary.observe(&row).expect("shares and values of a simulation are sound");
            if matches!(canary.state(), State::Promoted | State::RolledBack) {
                return Played { state: canary.state(), n_rows, n_outcomes, n_canary, last: decision };
            }
        }
        due[now_idx] = matured;
        due[now_idx].clear();
    }
    Played { state: canary.state(), n_rows: n_rows_max, n_outcomes, n_canary, last: None }
}

impl World {
    /// The answer of one episode after this share of the longest run, and its outcome if it is heard of.
    fn episode(&self, arm: Arm, elapsed: f64, draws: &mut Draws) -> (Fact, Option<Fact>) {
        let (lift, error_rate) = match arm {
            Arm::Canary => (self.lift, self.error_rate),
            Arm::Control => (0.0, ERROR_RATE),
        };
        let is_error = draws.chance(error_rate);
        // Errors are among what is not solved, so that the rate is what the world says.
        let rate = (self.base + self.drift * elapsed + lift) / (1.0 - ERROR_RATE);
        let is_solved = draws.chance(rate) && !is_error;
        let answer = Fact::Answered {
            is_error,
            cost_usd: Some(0.002 * (0.5 + draws.uniform())),
            latency_ms: Some(400.0 * (0.5 * draws.normal()).exp()),
        };
        let quality = f64::from(u8::from(is_solved));
        let outcome = if draws.chance(self.missing) { Fact::Missing } else { Fact::Matured { quality } };
        let silent = match (arm, is_solved) {
            (Arm::Canary, false) => self.silent,
            (Arm::Control, true) => self.modest,
            _ => 0.0,
        };
        let is_silent = silent > 0.0 && draws.chance(silent);
        (answer, (!is_silent).then_some(outcome))
    }
}
