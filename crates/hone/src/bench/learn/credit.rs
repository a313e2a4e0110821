//! Whom a reward is credited to: every token of the episode, or the tokens of each turn by what came after it.

use super::figure::Figure;
use super::pace::Pace;
use super::warm::Warm;
use crate::failure::Failure;
use crate::r#loop::Lesson;
use hone_train::advantage::TurnBaseline;
use hone_train::groups::Credit;
use serde::Serialize;

/// Turns are compared with the same turn of the siblings, and what comes later counts almost in full.
const TURNS: Credit = Credit::Turns { gamma: 0.95, baseline: TurnBaseline::PerTurn };

/// One seed.
pub(super) struct Run {
    trajectory: Pace,
    turn: Pace,
}

impl Run {
    pub(super) fn told(&self) -> String {
        format!("by trajectory {}; by turn {}", self.trajectory.told(), self.turn.told())
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    seeds: usize,
    /// Steps to 75 %; a run that did not get there counts with all of its steps.
    trajectory_steps: Figure,
    turn_steps: Figure,
    /// How many runs got there.
    trajectory_reached: usize,
    turn_reached: usize,
    /// Held-out completion at the end.
    trajectory: Figure,
    turn: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        let (trajectory_steps, trajectory_reached) = Pace::steps(runs, |run| &run.trajectory);
        let (turn_steps, turn_reached) = Pace::steps(runs, |run| &run.turn);
        Self {
            seeds: runs.len(),
            trajectory_steps,
            turn_steps,
            trajectory_reached,
            turn_reached,
            trajectory: Pace::completion(runs, |run| &run.trajectory),
            turn: Pace::completion(runs, |run| &run.turn),
        }
    }

    pub(super) fn told(&self) -> String {
        format!(
            "steps to 75 %: {:.0} by trajectory ({} of {seeds} runs got there), {:.0} by turn ({} of {seeds})",
            self.trajectory_steps.mean,
            self.trajectory_reached,
            self.turn_steps.mean,
            self.turn_reached,
            seeds = self.seeds
        )
    }
}

pub(super) fn run(warm: &mut Warm, n_steps: usize) -> Result<Run, Failure> {
    let lesson = Lesson::new("credit");
    let trajectory = Pace::of(warm, lesson, n_steps, |_, _| {})?;
    let turn = Pace::of(warm, Lesson { credit: TURNS, ..lesson }, n_steps, |_, _| {})?;
    Ok(Run { trajectory, turn })
}
