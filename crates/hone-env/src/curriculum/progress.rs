//! What is known of one scenario: how its groups went, lately counting most.

use super::CurriculumOptions;
use serde::{Deserialize, Serialize};

/// The share of a stuck scenario's groups that it is played itself, whatever its variations earn: at least and at most.
const OWN_SHARE: (f64, f64) = (0.25, 0.75);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub(super) level: usize,
    pub(super) can_vary: bool,
    /// Groups played of the scenario itself.
    n_groups: u64,
    mean: f64,
    /// The running variance inside its groups.
    variance: f64,
    /// Groups in a row after which it was solved and steady.
    n_steady: u32,
    pub(super) is_retired: bool,
    /// Groups played of its variations.
    n_varied: u64,
    varied_mean: f64,
}

impl Progress {
    pub(super) fn new(level: usize, can_vary: bool) -> Self {
        Self {
            level,
            can_vary,
            n_groups: 0,
            mean: 0.0,
            variance: 0.0,
            n_steady: 0,
            is_retired: false,
            n_varied: 0,
            varied_mean: 0.0,
        }
    }

    pub(super) fn record(&mut self, rewards: &[f64], options: &CurriculumOptions) {
        let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
        let variance = rewards.iter().map(|reward| (reward - mean).powi(2)).sum::<f64>() / rewards.len() as f64;
        let share = if self.n_groups == 0 { 1.0 } else { options.latest_share };
        self.mean += share * (mean - self.mean);
        self.variance += share * (variance - self.variance);
        self.n_groups += 1;
        let is_steady = self.is_solved(options) && self.variance.sqrt() <= options.retire_deviation_max;
        self.n_steady = if is_steady { self.n_steady + 1 } else { 0 };
        self.is_retired |= self.n_steady >= options.retire_after;
    }

    pub(super) fn record_varied(&mut self, rewards: &[f64], options: &CurriculumOptions) {
        let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
        let share = if self.n_varied == 0 { 1.0 } else { options.latest_share };
        self.varied_mean += share * (mean - self.varied_mean);
        self.n_varied += 1;
    }

    /// The running mean of its own groups. `None` before the first.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.n_groups > 0).then_some(self.mean)
    }

    pub(super) fn is_solved(&self, options: &CurriculumOptions) -> bool {
        self.is_retired || self.mean().is_some_and(|mean| mean > options.solved_mean)
    }

    pub(super) fn is_stuck(&self, options: &CurriculumOptions) -> bool {
        self.n_groups >= u64::from(options.stuck_after) && self.mean < options.stuck_mean
    }

    /// How often a stuck scenario is played itself: the more, the better its variations go.
    pub(super) fn share_of_own(&self) -> f64 {
        self.varied_mean.clamp(OWN_SHARE.0, OWN_SHARE.1)
    }

    /// Whether these numbers can have come about.
    pub(super) fn is_sound(&self) -> bool {
        [self.mean, self.variance, self.varied_mean].into_iter().all(f64::is_finite)
            && self.variance >= 0.0
            && u64::from(self.n_steady) <= self.n_groups
            && (!self.is_retired || self.n_groups > 0)
    }
}
