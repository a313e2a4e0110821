//! A run that is killed at random moments and goes on ends with the same bits as one that was left alone.

use super::own::Own;
use crate::failure::Failure;
use hone_trace::Draws;
use serde::Serialize;
use std::process::Stdio;
use std::time::Instant;

/// Runs that are killed.
const N_RUNS: usize = 20;
/// Kills of each.
const N_KILLS: usize = 3;
/// A world in which even a model that knows nothing earns something now and then.
const RECIPE: &str = r#"[reward.tictactoe]
components = [{ name = "readable", kind = "signal", signal = "format", range = [0, 1], weight = 1.0, role = "primary" }]
"#;
const WORDS: &str = "0 1 2 3 4 5 6 7 8 9 X O . you play the game answer with a number";
const MODEL: &str = "tiny:d32,l2,h2,kv1,ff64,v300,ctx512";
const SETTINGS: [&str; 18] = [
    "--env",
    "tictactoe",
    "--model",
    "tiny",
    "--steps",
    "30",
    "--scenarios",
    "4",
    "--samples",
    "8",
    "--answer-tokens",
    "4",
    "--validation",
    "16",
    "--validate-every",
    "3",
    "--lr",
    "1e-2",
];

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    runs: usize,
    kills: usize,
    equal: usize,
    /// The hash of the adapter at the end of the run that was left alone.
    adapter: String,
}

impl Figures {
    pub(super) fn told(&self) -> String {
        format!("{} of {} runs that were killed {} times in all ended with the same bits", self.equal, self.runs, self.kills)
    }
}

pub(super) fn run(seed: u64, say: impl Fn(&str)) -> Result<Figures, Failure> {
    let own = Own::new()?;
    own.write("hone.toml", RECIPE)?;
    own.write("words.txt", WORDS)?;
    own.json(&["model", "add", MODEL, "--name", "tiny", "--corpus", "words.txt"])?;
    let start = |name: &str, rest: &[&str]| own.command(&[&["train", "grpo", "--run", name], rest].concat());
    let began = Instant::now();
    let whole = own.json(&[&["train", "grpo", "--run", "whole"][..], &SETTINGS].concat())?;
    let span = began.elapsed();
    let adapter = whole["adapter"].as_str().unwrap_or_default().to_owned();
    let mut figures = Figures { runs: N_RUNS, kills: 0, equal: 0, adapter };
    let mut draws = Draws::new(seed, &["bench", "resume"]);
    for idx in 0..N_RUNS {
        let name = format!("killed-{idx}");
        let mut next = start(&name, &SETTINGS)?;
        for _ in 0..N_KILLS {
            let mut child = next.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(Failure::world)?;
            // Within the first part of what is left at most, so that hardly one is over before.
            std::thread::sleep(span.mul_f64(draws.uniform() / 3.0));
            // One that has ended already cannot be killed.
            figures.kills += usize::from(child.try_wait().map_err(Failure::world)?.is_none() && child.kill().is_ok());
            child.wait().map_err(Failure::world)?;
            let has_begun = own.folder().join(".hone/runs").join(&name).join("run.json").is_file();
            next = if has_begun { start(&name, &["--resume"])? } else { start(&name, &SETTINGS)? };
        }
        let output = next.output().map_err(Failure::world)?;
        let ended: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let is_equal = ended["adapter"] == figures.adapter.as_str();
        figures.equal += usize::from(is_equal);
        if !is_equal {
            say(&format!("{name} ended otherwise: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    Ok(figures)
}
