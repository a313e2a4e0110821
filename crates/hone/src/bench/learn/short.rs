//! Short runs: GRPO on the service desk for 60 steps, several times from the same model with other tasks and other dice. Does
//! every one of them learn?

use super::figure::Figure;
use super::warm::Warm;
use crate::failure::Failure;
use crate::r#loop::Lesson;
use serde::Serialize;
use std::ops::ControlFlow;

/// Runs of a seed.
const N_RUNS: usize = 6;
/// Steps of a run.
const N_STEPS: usize = 60;
/// Points over imitation from which a run has converged.
const CONVERGED_POINTS: f64 = 15.0;

/// One seed: what every run gained, in points.
pub(super) struct Run {
    gains_points: Vec<f64>,
}

impl Run {
    pub(super) fn told(&self) -> String {
        let gains: Vec<String> = self.gains_points.iter().map(|gain| format!("{gain:+.1}")).collect();
        format!("{N_STEPS} steps gain {} points", gains.join(", "))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    runs: usize,
    converged: usize,
    gain_points: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        let gains: Vec<f64> = runs.iter().flat_map(|run| run.gains_points.iter().copied()).collect();
        Self {
            runs: gains.len(),
            converged: gains.iter().filter(|gain| **gain >= CONVERGED_POINTS).count(),
            gain_points: Figure::of(&gains, |gain| *gain),
        }
    }

    pub(super) fn told(&self) -> String {
        let Self { runs, converged, gain_points: Figure { mean, least, .. } } = self;
        format!("{converged} of {runs} short runs converged; {mean:.1} points in the mean, at least {least:.1}")
    }
}

pub(super) fn run(warm: &mut Warm) -> Result<Run, Failure> {
    let mut gains_points = Vec::with_capacity(N_RUNS);
    for run_idx in 0..N_RUNS {
        let name = format!("short {run_idx}");
        let lesson = Lesson::new(&name);
        let tries = warm.ground.tries_of_run(run_idx, N_STEPS * lesson.n_scenarios)?;
        warm.rewind()?;
        lesson.teach(&mut warm.learner, &warm.ground.gym(), &tries, |_, _| {}, |_, _| Ok(ControlFlow::Continue(())))?;
        gains_points.push(100.0 * (warm.measure(&name)?.completion - warm.sft.completion));
    }
    Ok(Run { gains_points })
}
