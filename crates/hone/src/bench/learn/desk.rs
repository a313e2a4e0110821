//! GRPO on the service desk. From the model that imitates the agent it goes three ways: by GRPO, by GRPO with every reward given
//! to a random member of its group, and by imitating on for as many tokens as GRPO trained.

use super::figure::Figure;
use super::warm::Warm;
use crate::failure::Failure;
use crate::gym::flat;
use crate::r#loop::{IMITATION_LR, Lesson, Line, N_TRACES, permute};
use hone_env::rollout::Played;
use serde::Serialize;
use std::ops::ControlFlow;
use std::time::Instant;

/// Traces that imitation goes on with, which it has not seen.
const N_TRACES_ON: usize = 60_000;
/// Points over the model before GRPO from which a run has converged.
const CONVERGED_POINTS: f64 = 30.0;

/// One seed.
pub(super) struct Run {
    script: Line,
    sft: Line,
    sft_continued: Line,
    grpo: Line,
    permuted: Line,
    seconds: f64,
}

impl Run {
    fn gain_points(&self) -> f64 {
        100.0 * (self.grpo.completion - self.sft.completion)
    }

    pub(super) fn told(&self) -> String {
        format!(
            "script {:.1} %, imitation {:.1} %, continued {:.1} %, GRPO {:.1} %, permuted {:.1} %; tools {:.1} % → {:.1} %; {:.0} s",
            100.0 * self.script.completion,
            100.0 * self.sft.completion,
            100.0 * self.sft_continued.completion,
            100.0 * self.grpo.completion,
            100.0 * self.permuted.completion,
            100.0 * self.sft.tool_adoption,
            100.0 * self.grpo.tool_adoption,
            self.seconds
        )
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    seeds: usize,
    script: Figure,
    sft: Figure,
    sft_continued: Figure,
    grpo: Figure,
    permuted: Figure,
    gain_points: Figure,
    permuted_gain_points: Figure,
    tool_adoption_start: Figure,
    tool_adoption_end: Figure,
    converged: usize,
    /// Of what a user waits for: manual, imitation, GRPO and its evaluation.
    seconds: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        Self {
            seeds: runs.len(),
            script: Figure::of(runs, |run| run.script.completion),
            sft: Figure::of(runs, |run| run.sft.completion),
            sft_continued: Figure::of(runs, |run| run.sft_continued.completion),
            grpo: Figure::of(runs, |run| run.grpo.completion),
            permuted: Figure::of(runs, |run| run.permuted.completion),
            gain_points: Figure::of(runs, Run::gain_points),
            permuted_gain_points: Figure::of(runs, |run| 100.0 * (run.permuted.completion - run.sft.completion)),
            tool_adoption_start: Figure::of(runs, |run| run.sft.tool_adoption),
            tool_adoption_end: Figure::of(runs, |run| run.grpo.tool_adoption),
            converged: runs.iter().filter(|run| run.gain_points() >= CONVERGED_POINTS).count(),
            seconds: Figure::of(runs, |run| run.seconds),
        }
    }

    pub(super) fn told(&self) -> String {
        let gain = self.gain_points.told(1.0, 1);
        format!("GRPO gains {gain} points over imitation; {} of {} runs converged", self.converged, self.seeds)
    }
}

pub(super) fn run(warm: &mut Warm, n_steps: usize) -> Result<Run, Failure> {
    let start = Instant::now();
    let lesson = Lesson::new("grpo");
    let tries = warm.ground.tries(n_steps * lesson.n_scenarios)?;
    let mut n_tokens = 0;
    warm.rewind()?;
    let count = |_: &mut _, step: crate::r#loop::Step<'_>| {
        n_tokens += step.improved.n_tokens;
        Ok(ControlFlow::Continue(()))
    };
    lesson.teach(&mut warm.learner, &warm.ground.gym(), &tries, |_, _| {}, count)?;
    let grpo = warm.measure("grpo")?;
    let seconds = warm.seconds + start.elapsed().as_secs_f64();

    warm.rewind()?;
    let seed = warm.seed;
    let shuffle = |groups: &mut [Played], round| permute(groups, seed ^ round << 32);
    lesson.teach(&mut warm.learner, &warm.ground.gym(), &tries, shuffle, |_, _| Ok(ControlFlow::Continue(())))?;
    let permuted = warm.measure("permuted")?;

    warm.rewind()?;
    let more = flat(warm.ground.demonstrations(N_TRACES as usize + N_TRACES_ON)?.1).split_off(N_TRACES as usize);
    warm.learner.imitate(&more, IMITATION_LR, n_tokens, |_, _| {})?;
    let sft_continued = warm.measure("sft continued")?;
    Ok(Run { script: warm.ground.measure_agent()?, sft: warm.sft.clone(), sft_continued, grpo, permuted, seconds })
}
