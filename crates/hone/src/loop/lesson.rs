//! GRPO in a gym: many tries at the same task, and more of what earned more.
//!
//! Knows nothing of records or of what is said: who asks for a lesson sees every step, and may weigh what was done anew before
//! anything is learned from it.

use crate::failure::Failure;
use crate::gym::{Exercise, Gym};
use crate::learner::Learner;
use hone_engine::optim::Schedule;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_trace::{Draws, Scenario, Trace};
use hone_train::advantage::Centring;
use hone_train::groups::{Credit, GroupOptions, Groups};
use hone_train::loss::Method;
use hone_train::step::{Objective, StepOptions};
use std::ops::ControlFlow;

/// Rows computed at once.
const N_ROWS_MAX: usize = 8192;
/// The most tokens of an episode that are trained.
const EPISODE_TOKENS_MAX: usize = 112;
/// Added to the deviation of a group's rewards, so that groups that almost agree stay small.
const DEVIATION_MIN: f64 = 0.05;

/// A lesson.
#[derive(Clone, Copy)]
pub(crate) struct Lesson<'a> {
    /// What its records and dice are named by.
    pub(crate) name: &'a str,
    /// Scenarios of a step.
    pub(crate) n_scenarios: usize,
    /// Tries at each.
    pub(crate) n_samples: usize,
    /// How often the weights move in a step, each time by another part of its scenarios.
    pub(crate) n_moves: usize,
    /// The learning rate at the start; at the end it is a fifth of it.
    pub(crate) lr: f32,
    /// How many moves the learning rate takes to get there. The first moves of Adam go equally far for every weight.
    pub(crate) n_warm: usize,
    /// Whom a reward is credited to.
    pub(crate) credit: Credit,
}

impl<'a> Lesson<'a> {
    /// What the desk is taught by.
    pub(crate) fn new(name: &'a str) -> Self {
        let credit = Credit::Episode(Centring::Deviation { epsilon: DEVIATION_MIN });
        Self { name, n_scenarios: 16, n_samples: 16, n_moves: 1, lr: 5e-4, n_warm: 0, credit }
    }
}

/// What a step was.
pub(crate) struct Step<'a> {
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) groups: &'a [Played],
    pub(crate) improved: Improved,
}

/// What a step did to the model.
#[derive(Default)]
pub(crate) struct Improved {
    pub(crate) n_without_signal: usize,
    pub(crate) n_tokens: usize,
    pub(crate) entropy: f64,
    pub(crate) mismatch_max: f64,
}

impl Improved {
    /// Adds what another part of the step did.
    fn add(&mut self, other: &Self) {
        let n_tokens = self.n_tokens + other.n_tokens;
        let share = other.n_tokens as f64 / n_tokens.max(1) as f64;
        self.entropy += share * (other.entropy - self.entropy);
        self.n_tokens = n_tokens;
        self.n_without_signal += other.n_without_signal;
        self.mismatch_max = self.mismatch_max.max(other.mismatch_max);
    }
}

impl Lesson<'_> {
    /// Teaches with these scenarios, and shows every step until told to stop. `weigh` may change the rewards of a step's groups.
    pub(crate) fn teach(
        self,
        learner: &mut Learner,
        gym: &Gym<'_>,
        scenarios: &[Scenario],
        mut weigh: impl FnMut(&mut [Played], u64),
        mut see: impl FnMut(&mut Learner, Step<'_>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        learner.begin_anew()?;
        let n_steps = scenarios.len().div_ceil(self.n_scenarios);
        let mut n_moved = 0;
        for (i, scenarios) in scenarios.chunks(self.n_scenarios).enumerate() {
            let policy = learner.policy()?;
            let player = Player::Policy(&policy);
            let round = i as u64;
            let mut groups = gym.play(Exercise { name: self.name, round, n_samples: self.n_samples }, player, scenarios)?;
            weigh(&mut groups, round);
            let lr = self.lr * (1.0 - 0.8 * i as f32 / n_steps as f32);
            let mut improved = Improved::default();
            for part in groups.chunks(groups.len().div_ceil(self.n_moves).max(1)) {
                n_moved += 1;
                let lr = lr * (n_moved as f32 / self.n_warm.max(1) as f32).min(1.0);
                improved.add(&self.improve(learner, part, lr)?);
            }
            let step = Step { number: i + 1, groups: &groups, improved };
            if see(learner, step)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Does more of what earned more than its siblings.
    fn improve(&self, learner: &mut Learner, groups: &[Played], lr: f32) -> Result<Improved, Failure> {
        let traces: Vec<&[Trace]> = groups.iter().map(|played| played.traces.as_slice()).collect();
        let options = GroupOptions { credit: self.credit, overlong: None, n_rows_max: N_ROWS_MAX };
        let groups = Groups::new(&traces, &options).map_err(Failure::bug)?;
        let n_without_signal = groups.counts.n_without_signal;
        if groups.batch.is_empty() {
            return Ok(Improved { n_without_signal, ..Improved::default() });
        }
        let n_tokens = groups.batch.n_tokens();
        let objective = Objective::Policy(Method::Dapo.loss(EPISODE_TOKENS_MAX));
        let told = learner.step(groups.batch, StepOptions::new(objective, Schedule::Constant { lr }))?;
        Ok(Improved { n_without_signal, n_tokens, entropy: told.entropy, mismatch_max: told.mismatch_max.unwrap_or(0.0) })
    }
}

/// Gives every reward to a random member of its group that has one: what is left to learn is nothing. Only whole episodes keep a reward: a turn
/// of one trace may be none of another's, and what it earned is part of the whole.
pub(crate) fn permute(groups: &mut [Played], seed: u64) {
    for (group_idx, played) in groups.iter_mut().enumerate() {
        let mut members: Vec<&mut Trace> = played.traces.iter_mut().filter(|trace| trace.broken().is_none()).collect();
        let mut rewards: Vec<_> = members.iter_mut().map(|trace| std::mem::take(&mut trace.rewards)).collect();
        Draws::new(seed, &["permuted", &group_idx.to_string()]).shuffle(&mut rewards);
        for (trace, mut rewards) in members.into_iter().zip(rewards) {
            rewards.retain(|reward| reward.turn_idx.is_none());
            trace.rewards = rewards;
        }
    }
}
