//! What a run has seen so far: sums for the limits, the latest rewards and evaluations for the evidence, and the best.
//!
//! Everything has a limit: of the steps the last 4,096 rewards are kept, of the evaluations the last 16 with their scores.
//! What does not fit the rest (another number of tasks, a step that went back) is refused and changes nothing.

use crate::TrainError;
use crate::error::within;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Rewards of steps that are kept.
pub(super) const N_REWARDS_MAX: usize = 4096;
/// Evaluations that are kept, which is also the longest stretch over which a trend is looked for.
pub(super) const N_EVALUATIONS_MAX: usize = 16;
/// Validation tasks.
const N_TASKS_MAX: usize = 65_536;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSeen {
    /// Which, from 1.
    pub step: u64,
    /// Mean reward of its episodes. How sure it is shows in how much neighbouring steps differ.
    pub reward_mean: f64,
    /// Tokens that it took, sampled and trained.
    pub n_tokens: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// US dollars that it took.
    pub dollars: f64,
    /// Whether the weights moved; not so where loss or gradient were not finite.
    pub applied: bool,
}

/// One evaluation on the validation tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The step that it came after; 0 before the first.
    pub step: u64,
    /// From 0 to 1 per task, the same tasks in the same order every time: differences are taken task by task.
    pub scores: Vec<f32>,
    /// Tasks whose episode broke, so that it says nothing: the mean of the others stands in for their score.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_broken: usize,
    /// What else was measured.
    #[serde(default)]
    pub secondary: Secondary,
}

/// Means per validation task, where they were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Secondary {
    /// US dollars.
    pub cost: Option<f64>,
    /// Milliseconds.
    pub latency_ms: Option<f64>,
    /// Answers.
    pub turns: Option<f64>,
}

/// The best evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// The step that it came after.
    pub step: u64,
    /// Its mean score.
    pub score: f64,
}

/// What a run took: its steps, and what it did beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Tokens, sampled and trained.
    pub n_tokens: u64,
    /// Seconds.
    pub seconds: f64,
    /// US dollars.
    pub dollars: f64,
}

/// What a run has seen so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    step: u64,
    spent: Spent,
    /// Steps in a row up to the last that moved nothing.
    n_bad: u64,
    /// Rewards ever seen.
    n_rewards: u64,
    /// The latest rewards with their steps.
    rewards: VecDeque<(u64, f64)>,
    /// The latest evaluations.
    evaluations: VecDeque<Evaluation>,
    best: Option<Best>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Evaluation {
    /// Tasks that were measured.
    pub(super) fn n_measured(&self) -> usize {
        self.scores.len().saturating_sub(self.n_broken)
    }

    /// The mean score.
    pub fn mean(&self) -> f64 {
        self.scores.iter().fold(0.0, |sum, &score| sum + f64::from(score)) / self.scores.len().max(1) as f64
    }
}

impl Progress {
    /// Takes a step in. A reward that is not finite is left out.
    pub fn see_step(&mut self, seen: StepSeen) -> Result<(), TrainError> {
        within("step", seen.step as f64, (self.step + 1) as f64.., "what comes after the last step")?;
        within("seconds", seen.seconds, 0.0..f64::INFINITY, "0 and above")?;
        within("dollars", seen.dollars, 0.0..f64::INFINITY, "0 and above")?;
        self.step = seen.step;
        self.spent.n_tokens = self.spent.n_tokens.saturating_add(seen.n_tokens);
        self.spent.seconds += seen.seconds;
        self.spent.dollars += seen.dollars;
        self.n_bad = if seen.applied { 0 } else { self.n_bad + 1 };
        if seen.reward_mean.is_finite() {
            self.n_rewards += 1;
            push(&mut self.rewards, (seen.step, seen.reward_mean), N_REWARDS_MAX);
        }
        Ok(())
    }

    /// Takes in what was spent beside steps, such as on an evaluation: the limits are for all of it.
    pub fn see_spent(&mut self, spent: Spent) -> Result<(), TrainError> {
        within("seconds", spent.seconds, 0.0..f64::INFINITY, "0 and above")?;
        within("dollars", spent.dollars, 0.0..f64::INFINITY, "0 and above")?;
        self.spent.n_tokens = self.spent.n_tokens.saturating_add(spent.n_tokens);
        self.spent.seconds += spent.seconds;
        self.spent.dollars += spent.dollars;
        Ok(())
    }

    /// Takes an evaluation in.
    pub fn see_evaluation(&mut self, evaluation: Evaluation) -> Result<(), TrainError> {
        self.check_evaluation(&evaluation)?;
        let found = Best { step: evaluation.step, score: evaluation.mean() };
        if self.best.is_none_or(|best| found.score > best.score) {
            self.best = Some(found);
        }
        push(&mut self.evaluations, evaluation, N_EVALUATIONS_MAX);
        Ok(())
    }

    /// Whether the last evaluation is better than all before it: its weights are the ones to keep.
    pub fn is_best(&self) -> bool {
        let last = self.evaluations.back().map(|last| last.step);
        last.is_some() && last == self.best.map(|best| best.step)
    }

    /// The best evaluation, the earliest of equals.
    pub fn best(&self) -> Option<Best> {
        self.best
    }

    /// The last step.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// What steps, and all that was done beside them, took together.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    pub(super) fn n_bad(&self) -> u64 {
        self.n_bad
    }

    pub(super) fn n_rewards(&self) -> u64 {
        self.n_rewards
    }

    /// The latest rewards with their steps, oldest first.
    pub(super) fn rewards(&self) -> impl DoubleEndedIterator<Item = (u64, f64)> + ExactSizeIterator {
        self.rewards.iter().copied()
    }

    /// The latest evaluations, oldest first.
    pub fn evaluations(&self) -> impl DoubleEndedIterator<Item = &Evaluation> + ExactSizeIterator {
        self.evaluations.iter()
    }

    fn check_evaluation(&self, evaluation: &Evaluation) -> Result<(), TrainError> {
        let n_tasks = evaluation.scores.len();
        within("validation tasks", n_tasks as f64, 1.0..=N_TASKS_MAX as f64, "1 to 65536")?;
        within("step of an evaluation", evaluation.step as f64, self.step as f64.., "the last step and what comes after")?;
        if let Some(last) = self.evaluations.back() {
            within(
                "step of an evaluation",
                evaluation.step as f64,
                (last.step + 1) as f64..,
                "what comes after the last evaluation",
            )?;
            if last.scores.len() != n_tasks {
                let n_expected = last.scores.len();
                return Err(TrainError::Count { what: "validation tasks, the same every time", n_given: n_tasks, n_expected });
            }
        }
        for &score in &evaluation.scores {
            within("validation score", f64::from(score), 0.0..=1.0, "0 to 1")?;
        }
        let Secondary { cost, latency_ms, turns } = evaluation.secondary;
        for (name, value) in [("cost", cost), ("latency_ms", latency_ms), ("turns", turns)] {
            within(name, value.unwrap_or(0.0), 0.0..f64::INFINITY, "0 and above")?;
        }
        Ok(())
    }
}

/// Adds to the end and drops from the front what is too much.
fn push<T>(kept: &mut VecDeque<T>, item: T, n_max: usize) {
    if kept.len() == n_max {
        kept.pop_front();
    }
    kept.push_back(item);
}
