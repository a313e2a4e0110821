//! A real model on a laptop: SmolLM2 with an adapter learns one-digit sums by `hone train grpo`, as a user would run it.

use super::figure::Figure;
use super::own::Own;
use crate::failure::Failure;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// The task, fixed beforehand.
const WORLD: &str = "math:sums?digits_max=1";
const ANSWER_TOKENS: &str = "32";
const N_STEPS: &str = "60";
const LR: &str = "3e-4";
/// Held-out tasks, or all that there are, and how often each is played.
const N_TASKS: &str = "100";
const N_REPEATS: &str = "8";

/// One seed.
pub(super) struct Run {
    start: f64,
    end: f64,
    /// The first validation at or above 70 %.
    steps_to_70: Option<u64>,
    seconds: f64,
}

impl Run {
    pub(super) fn told(&self) -> String {
        let steps = self.steps_to_70.map_or_else(|| "never".to_owned(), |step| format!("at step {step}"));
        format!("{:.1} → {:.1} %, 70 % of validation {steps}; {:.0} s", 100.0 * self.start, 100.0 * self.end, self.seconds)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    start: Figure,
    end: Figure,
    seconds: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        Self {
            start: Figure::of(runs, |run| run.start),
            end: Figure::of(runs, |run| run.end),
            seconds: Figure::of(runs, |run| run.seconds),
        }
    }

    pub(super) fn told(&self) -> String {
        format!("SmolLM2 on one-digit sums: {:.1} → {:.1} % of held-out tasks", 100.0 * self.start.mean, 100.0 * self.end.mean)
    }
}

pub(super) fn run(seed: u64, model: &Path) -> Result<Run, Failure> {
    let own = Own::new()?;
    let model = model.to_string_lossy().into_owned();
    let seed = seed.to_string();
    let measure = |adapter: Option<&str>| {
        let policy = format!("local:{model}");
        let mut args = vec!["eval", "baseline", "--env", WORLD, "--policy", &policy, "--split", "test", "-n", N_TASKS];
        args.extend(["--repeats", N_REPEATS, "--max-tokens", ANSWER_TOKENS, "--temperature", "1", "--seed", &seed]);
        args.extend(adapter.iter().flat_map(|adapter| ["--adapter", adapter]));
        own.json(&args)?["accuracy"].as_f64().ok_or_else(|| Failure::bug("an accuracy"))
    };
    let start = measure(None)?;
    let began = std::time::Instant::now();
    let args = ["train", "grpo", "--env", WORLD, "--model", &model, "--run", "sums", "--steps", N_STEPS, "--lr", LR];
    own.json(&[&args[..], &["--answer-tokens", ANSWER_TOKENS, "--seed", &seed]].concat())?;
    let seconds = began.elapsed().as_secs_f64();
    let best = own.folder().join(".hone/runs/sums/best");
    let end = measure(Some(&best.to_string_lossy()))?;
    let shown = own.json(&["train", "show", "sums"])?;
    let lines = shown["metrics"].as_array().cloned().unwrap_or_default();
    let is_there = |line: &&Value| line["values"]["validation"].as_f64().is_some_and(|share| share >= 0.7);
    let steps_to_70 = lines.iter().find(is_there).and_then(|line| line["step"].as_u64());
    Ok(Run { start, end, steps_to_70, seconds })
}
