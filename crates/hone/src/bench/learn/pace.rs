//! How fast a lesson is learned: steps until three quarters of a few validation tasks are solved, and what held-out tasks say at
//! the end.

use super::figure::Figure;
use super::warm::Warm;
use crate::failure::Failure;
use crate::gym::{Exercise, solved};
use crate::r#loop::Lesson;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_trace::env::Split;
use std::ops::ControlFlow;

/// The share of solved tasks that is waited for.
const GOAL: f64 = 0.75;
/// Tasks that it is looked for on, and how often.
const N_TASKS: usize = 300;
const N_STEPS_BETWEEN: usize = 5;

/// How fast a lesson was learned.
pub(super) struct Pace {
    /// Steps until the goal, where it was reached.
    n_steps: Option<usize>,
    /// The steps that there were.
    n_steps_max: usize,
    /// Held-out completion at the end.
    completion: f64,
}

impl Pace {
    /// Of a lesson that begins at the model that imitates. `weigh` may change the rewards of a step's groups.
    pub(super) fn of(
        warm: &mut Warm,
        lesson: Lesson<'_>,
        n_steps_max: usize,
        weigh: impl FnMut(&mut [Played], u64),
    ) -> Result<Self, Failure> {
        warm.rewind()?;
        let gym = warm.ground.gym();
        let tries = warm.ground.tries(n_steps_max * lesson.n_scenarios)?;
        let tasks = gym.scenarios(Split::Validation, N_TASKS)?;
        let mut n_steps = None;
        lesson.teach(&mut warm.learner, &gym, &tries, weigh, |learner, step| {
            if n_steps.is_none() && step.number.is_multiple_of(N_STEPS_BETWEEN) {
                let exercise = Exercise { name: "pace", round: step.number as u64, n_samples: 1 };
                let played = gym.play(exercise, Player::Policy(&learner.policy()?), &tasks)?;
                n_steps = (solved(&played) >= GOAL).then_some(step.number);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Self { n_steps, n_steps_max, completion: warm.measure(lesson.name)?.completion })
    }

    pub(super) fn told(&self) -> String {
        let steps = match self.n_steps {
            Some(n_steps) => format!("{:.0} % after {n_steps} steps", 100.0 * GOAL),
            None => format!("below {:.0} % after {} steps", 100.0 * GOAL, self.n_steps_max),
        };
        format!("{steps}, {:.1} % at the end", 100.0 * self.completion)
    }

    /// Steps until the goal over the seeds; a run that did not get there counts with all of its steps, and is not among the
    /// number that did.
    pub(super) fn steps<R>(runs: &[R], pace: impl Fn(&R) -> &Self) -> (Figure, usize) {
        let steps = |run: &R| pace(run).n_steps.unwrap_or(pace(run).n_steps_max) as f64;
        (Figure::of(runs, steps), runs.iter().filter(|run| pace(run).n_steps.is_some()).count())
    }

    pub(super) fn completion<R>(runs: &[R], pace: impl Fn(&R) -> &Self) -> Figure {
        Figure::of(runs, |run| pace(run).completion)
    }
}
