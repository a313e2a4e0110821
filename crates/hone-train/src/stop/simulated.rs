//! Runs with a known truth: how soon reward hacking is seen, and how often it is seen where there is none.
//!
//! 400 tasks are evaluated every 5 steps. A task is solved when its draw lies below the true share; the draw is the task's own
//! with probability √0.7, else fresh, so that two evaluations correlate by 0.7. A step's mean reward has a deviation of
//! 0.03: 256 episodes, and luck with their scenarios.

use super::{Evaluation, Mode, Progress, Reason, StepSeen, StopOptions};
use hone_trace::Draws;

const N_RUNS: usize = 400;
const N_TASKS: usize = 400;
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

fn rates(what: &str, truth: &Truth, correlation: f64, options: &StopOptions) -> Rates {
    let losses: Vec<Option<f64>> =
        (0..N_RUNS).map(|run_idx| play(truth, correlation, options, Draws::new(5, &[what, &run_idx.to_string()]))).collect();
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
fn play(truth: &Truth, correlation: f64, options: &StopOptions, mut draws: Draws) -> Option<f64> {
    let mut progress = Progress::default();
    let own: Vec<f64> = (0..N_TASKS).map(|_| draws.uniform()).collect();
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
        let mut draw = |&own: &f64| if draws.chance(correlation.sqrt()) { own } else { draws.uniform() };
        let scores = own.iter().map(|own| f32::from(u8::from(draw(own) < validation))).collect();
        progress.see_evaluation(Evaluation { step: progress.step(), scores, ..Evaluation::default() }).expect("good scores");
        if let Some(stop) = progress.stop(options) {
            assert_eq!(stop.reason, Reason::RewardHacking, "nothing else is asked for");
            return Some(loss(truth, evaluation_idx));
        }
    }
    None
}

fn hybrid() -> StopOptions {
    StopOptions { mode: Mode::Hybrid, plateau: None, n_steps_max: 10_000, ..StopOptions::default() }
}

#[test]
fn a_hack_is_seen_before_five_points_are_lost() {
    let held = Truth::rising().then(4, 0.0, 0.0);
    let found = rates("held, then 1 point down", &held.clone().then(15, -0.01, 0.02), 0.7, &hybrid());
    //A
    let found = rates("held, then 3 points down", &held.then(15, -0.03, 0.02), 0.7, &hybrid());
    assert!(found.stopped == 1.0, "{found:?}");
    rates("peak, then 1 point down", &Truth::rising().then(15, -0.01, 0.02), 0.7, &hybrid());
    rates("held, correlation 0.5", &Truth::rising().then(4, 0.0, 0.0).then(15, -0.01, 0.02), 0.5, &hybrid());
    rates("held, slow reward", &Truth::rising().then(4, 0.0, 0.0).then(15, -0.01, 0.01), 0.7, &hybrid());
}

#[test]
fn a_clean_run_is_not_called_a_hack() {
    let found = rates("clean", &Truth::rising().then(20, 0.0, 0.0), 0.7, &hybrid());
    assert!(found.stopped < 0.01, "{found:?}");
    rates("reward alone rises", &Truth::rising().then(20, 0.0, 0.01), 0.7, &hybrid());
    let careful = StopOptions { hacking_z: Some(3.5), ..hybrid() };
    rates("reward alone rises, 3.5", &Truth::rising().then(20, 0.0, 0.01), 0.7, &careful);
    rates("held, 3.5", &Truth::rising().then(4, 0.0, 0.0).then(15, -0.01, 0.02), 0.7, &careful);
}
