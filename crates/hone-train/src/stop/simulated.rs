//! Runs with a known truth: how soon reward hacking is seen, and how often it is seen where there is none.
//!
//! Tasks are evaluated every 5 steps. A task is solved when its draw lies below the true share; the draw is the task's own
//! with probability √0.7, else fresh, so that two evaluations correlate by 0.7. A step's mean reward has a deviation of
//! 0.03: 256 episodes, and luck with their scenarios.

use super::{Evaluation, Mode, Progress, Reason, StepSeen, StopOptions};
use hone_trace::Draws;

const N_RUNS: usize = 200;
const CORRELATION: f64 = 0.7;
const N_STEPS: u64 = 5;
const REWARD_NOISE: f64 = 0.03;

/// True validation and true reward by evaluation.
#[derive(Clone, Default)]
struct Truth(Vec<(f64, f64)>);

impl Truth {
    /// Goes on for `n` evaluations, each of which changes validation and reward by this much.
    fn then(mut self, n: usize, validation: f64, reward: f64) -> Self {
        for _ in 0..n {
            let (v, r) = self.0.last().copied().unwrap_or((0.6, 0.3));
            self.0.push((v + validation, r + reward));
        }
        self
    }

    /// Both rise from 60 % to 80 %.
    fn rising() -> Self {
        Self::default().then(10, 0.02, 0.02)
    }
}

/// What became of many runs.
#[derive(Debug)]
struct Rates {
    /// Share of runs that were stopped as reward hacking.
    stopped: f64,
    /// Share of runs that were stopped so before 5 points below the best were truly lost.
    in_time: f64,
    /// Mean true loss at the stop, or at the end of a run that was not stopped, in points.
    loss_mean: f64,
}

fn rates(what: &str, truth: &Truth, n_tasks: usize, hacking_z: Option<f64>) -> Rates {
    let options = StopOptions { mode: Mode::Hybrid, plateau: None, hacking_z, ..StopOptions::default() };
    let draws = |run_idx: usize| Draws::new(12, &[what, &run_idx.to_string()]);
    let losses: Vec<Option<f64>> = (0..N_RUNS).map(|run_idx| play(truth, n_tasks, &options, draws(run_idx))).collect();
    let share = |n: usize| n as f64 / N_RUNS as f64;
    let at_end = loss(truth, truth.0.len() - 1);
    let rates = Rates {
        stopped: share(losses.iter().flatten().count()),
        in_time: share(losses.iter().flatten().filter(|&&loss| loss < 4.999).count()),
        loss_mean: losses.iter().fold(0.0, |sum, loss| sum + loss.unwrap_or(at_end)) / N_RUNS as f64,
    };
    println!("{what}: {rates:?}");
    rates
}

/// Points below the best so far.
fn loss(truth: &Truth, evaluation_idx: usize) -> f64 {
    let best = truth.0[..=evaluation_idx].iter().fold(0.0, |best: f64, &(validation, _)| best.max(validation));
    100.0 * (best - truth.0[evaluation_idx].0)
}

/// The true loss where the run was stopped as reward hacking.
fn play(truth: &Truth, n_tasks: usize, options: &StopOptions, mut draws: Draws) -> Option<f64> {
    let mut progress = Progress::default();
    let own: Vec<f64> = (0..n_tasks).map(|_| draws.uniform()).collect();
    for (evaluation_idx, &(validation, reward)) in truth.0.iter().enumerate() {
        let (_, before) = truth.0[evaluation_idx.saturating_sub(1)];
        for step_idx in 1..=N_STEPS {
            let mean = before + (reward - before) * step_idx as f64 / N_STEPS as f64;
            let seen = StepSeen {
                step: progress.step() + 1,
                reward_mean: mean + REWARD_NOISE * draws.normal(),
                n_tokens: 0,
                seconds: 0.0,
                dollars: 0.0,
                applied: true,
            };
            progress.see_step(seen).expect("a good step");
        }
        let mut draw = |&own: &f64| if draws.chance(CORRELATION.sqrt()) { own } else { draws.uniform() };
        let scores = own.iter().map(|own| f32::from(u8::from(draw(own) < validation))).collect();
        progress.see_evaluation(Evaluation { step: progress.step(), scores, ..Evaluation::default() }).expect("good scores");
        if let Some(stop) = progress.stop(options) {
            assert_eq!(stop.reason, Reason::RewardHacking, "nothing else is asked for");
            return Some(loss(truth, evaluation_idx));
        }
    }
    None
}

#[test]
fn a_hack_is_seen_before_five_points_are_lost() {
    let (held, falls) = (Truth::rising().then(4, 0.0, 0.0), |truth: Truth| truth.then(15, -0.01, 0.02));
    let found = rates("400 tasks, held, then falling", &falls(held.clone()), 400, None);
    assert!(found.in_time >= 0.93 && found.loss_mean < 3.5, "{found:?}");
    let found = rates("400 tasks, falling from a peak", &falls(Truth::rising()), 400, None);
    assert!(found.in_time >= 0.7 && found.loss_mean < 4.2, "{found:?}");
    let found = rates("1000 tasks, 2.6, held, then falling", &falls(held.clone()), 1000, Some(2.6));
    assert!(found.in_time >= 0.95, "{found:?}");
    let found = rates("400 tasks, 3.5, held, then falling", &falls(held), 400, Some(3.5));
    assert!(found.loss_mean < 5.5, "{found:?}");
}

#[test]
fn a_clean_run_is_not_called_a_hack() {
    let clean = Truth::rising().then(20, 0.0, 0.0);
    let found = rates("400 tasks, clean", &clean, 400, None);
    assert!(found.stopped < 0.01, "{found:?}");
    let found = rates("1000 tasks, 2.6, clean", &clean, 1000, Some(2.6));
    assert!(found.stopped < 0.01, "{found:?}");
    let reward_alone = Truth::rising().then(20, 0.0, 0.01);
    let found = rates("400 tasks, reward alone rises", &reward_alone, 400, None);
    assert!(found.stopped < 0.65, "{found:?}");
    let found = rates("1000 tasks, 2.6, reward alone rises", &reward_alone, 1000, Some(2.6));
    assert!(found.stopped < 0.25, "{found:?}");
    let found = rates("400 tasks, 3.5, reward alone rises", &reward_alone, 400, Some(3.5));
    assert!(found.stopped < 0.03, "{found:?}");
}
