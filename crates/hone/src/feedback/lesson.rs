//! GRPO on the training ground: many tries at the same task, and more of what earned more.
//!
//! Knows nothing of records or of what is said: who asks for a lesson sees every step.

use super::apprentice::{Apprentice, Improved};
use super::ground::Ground;
use crate::failure::Failure;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_trace::{Config, Draws};
use std::time::Instant;

/// Scenarios of a step, and samples of each.
pub(crate) const N_SCENARIOS: usize = 16;
const N_SAMPLES: usize = 16;
/// The learning rate at the start; at the end it is a fifth of it.
const LR: f32 = 5e-4;

/// A lesson.
#[derive(Clone, Copy)]
pub(crate) struct Lesson<'a> {
    /// What its records and dice are named by.
    pub(crate) name: &'a str,
    pub(crate) n_steps: usize,
    pub(crate) rewards: Rewards,
}

/// Whom a reward is given to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewards {
    /// Who earned it.
    Own,
    /// A random member of the group: what is left to learn is nothing.
    Permuted,
}

/// What a step was.
pub(crate) struct Step<'a> {
    /// Counted from 1.
    pub(crate) number: usize,
    /// Who played.
    pub(crate) config: &'a Config,
    pub(crate) groups: &'a [Played],
    pub(crate) improved: Improved,
    pub(crate) sampled_s: f64,
    pub(crate) trained_s: f64,
}

impl Lesson<'_> {
    /// Teaches, and shows every step.
    pub(crate) fn teach(
        self,
        apprentice: &mut Apprentice,
        ground: &Ground,
        mut see: impl FnMut(Step<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        apprentice.begin_anew()?;
        for (i, scenarios) in ground.tries(self.n_steps * N_SCENARIOS)?.chunks(N_SCENARIOS).enumerate() {
            let start = Instant::now();
            let policy = apprentice.policy()?;
            let player = Player::Policy(&policy);
            let mut groups = ground.play(self.name, player, scenarios, N_SAMPLES, i as u64)?;
            let sampled_s = start.elapsed().as_secs_f64();
            if self.rewards == Rewards::Permuted {
                permute(&mut groups, ground.seed() ^ (i as u64) << 32);
            }
            let improved = apprentice.improve(&groups, LR * (1.0 - 0.8 * i as f32 / self.n_steps as f32))?;
            let trained_s = start.elapsed().as_secs_f64() - sampled_s;
            see(Step { number: i + 1, config: &player.config(), groups: &groups, improved, sampled_s, trained_s })?;
        }
        Ok(())
    }
}

fn permute(groups: &mut [Played], seed: u64) {
    for (group_idx, played) in groups.iter_mut().enumerate() {
        let mut rewards: Vec<_> = played.traces.iter_mut().map(|trace| std::mem::take(&mut trace.rewards)).collect();
        Draws::new(seed, &["permuted", &group_idx.to_string()]).shuffle(&mut rewards);
        played.traces.iter_mut().zip(rewards).for_each(|(trace, rewards)| trace.rewards = rewards);
    }
}
