//! `hone bench env`: steps per second of worlds on one core, beside plain Python implementations of the same rules.
//!
//! A step goes through the seam that policies use: a message in, the next messages and signals out. Episodes are recorded
//! first and then played again from their actions, so that nothing but the world is timed; beginning an episode counts.

use super::figures::Spread;
use super::scratch;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Plan, rollout};
use hone_trace::env::{Env, Split};
use hone_trace::{Message, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Measure steps per second of worlds, beside plain Python
///
/// One thread plays recorded episodes again: 2048 by random moves, desk and inbox by gold ones. Each round plays a world in
/// hone and then in Python; the ratio is of the two rates of a round, the median over the rounds with the least and the most.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of scenarios and moves
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Seconds of each side and round
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    seconds: f64,
    /// Rounds to measure
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

const WORLDS: [(&str, Player<'_>, &str); 3] = [
    ("2048", Player::Random, include_str!("../../../../bench/python/env_2048.py")),
    ("desk", Player::Gold, include_str!("../../../../bench/python/env_desk.py")),
    ("inbox", Player::Gold, include_str!("../../../../bench/python/env_inbox.py")),
];

/// How many different episodes are played again and again.
const N_EPISODES: usize = 200;

#[derive(Debug, Serialize)]
struct Figures {
    steps_per_s: f64,
    steps_per_s_spread: Spread,
    python_steps_per_s: f64,
    python_steps_per_s_spread: Spread,
    ratio: f64,
    ratio_spread: Spread,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    if !(0.01..=60.0).contains(&args.seconds) {
        return Err(Failure::user(format_args!("--seconds {} is not between 0.01 and 60", args.seconds)));
    }
    let folder = scratch::folder(context)?;
    let mut all = BTreeMap::new();
    for (name, player, python) in WORLDS {
        context.printer.say(&format!("playing {name}"));
        let world = context.wait(async |context| World::named(name, context).await)?;
        let episodes = record(world.env.as_ref(), player, args.seed)?;
        let script = folder.path().join("world.py");
        std::fs::write(&script, python).map_err(at_path(&script))?;
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..args.rounds {
            let here = play(world.env.as_ref(), &episodes, args.seconds)?;
            let there = play_python(&script, args.seconds, args.seed + u64::from(round))?;
            ours.push(here);
            theirs.push(there);
            ratios.push(here / there);
        }
        let (ours, theirs, ratios) = (Spread::of(&ours), Spread::of(&theirs), Spread::of(&ratios));
        all.insert(
            name,
            Figures {
                steps_per_s: ours.median,
                steps_per_s_spread: ours,
                python_steps_per_s: theirs.median,
                python_steps_per_s_spread: theirs,
                ratio: ratios.median,
                ratio_spread: ratios,
            },
        );
    }
    if context.printer.wants_json() {
        context.printer.json(&all)?;
    } else {
        let row = |(name, figures): (&&str, &Figures)| {
            let number = |value: f64| format!("{value:.0}");
            vec![
                (*name).to_owned(),
                number(figures.steps_per_s),
                number(figures.python_steps_per_s),
                figures.ratio_spread.to_string(),
            ]
        };
        context.printer.table(&["world", "steps/s", "Python steps/s", "ratio"], &all.iter().map(row).collect::<Vec<_>>())?;
    }
    Ok(Exit::Yes)
}

/// An episode as it was played.
struct Episode {
    scenario: Scenario,
    seed: u64,
    actions: Vec<Message>,
}

fn record(env: &dyn Env, player: Player<'_>, seed: u64) -> Result<Vec<Episode>, Failure> {
    let scenarios = env.scenarios(Split::Train, seed, N_EPISODES).map_err(Failure::world)?;
    let plan = Plan::new("bench", &scenarios, seed);
    let mut episodes = Vec::new();
    let mut left = scenarios.iter();
    rollout(env, player, &plan, |played| {
        if let (Some(scenario), Some(trace)) = (left.next(), played.traces.first()) {
            let actions = trace.turns().map(|turn| turn.answer.clone()).collect();
            episodes.push(Episode { scenario: scenario.clone(), seed: plan.world_seed(scenario, 0), actions });
        }
        ControlFlow::Continue(())
    });
    Ok(episodes)
}

/// Steps per second.
fn play(env: &dyn Env, episodes: &[Episode], seconds: f64) -> Result<f64, Failure> {
    let (start, mut n_steps) = (Instant::now(), 0_u64);
    loop {
        for episode in episodes {
            let mut reset = env.reset(&episode.scenario, episode.seed).map_err(Failure::world)?;
            for action in &episode.actions {
                let step = reset.episode.step(action).map_err(Failure::world)?;
                n_steps += 1;
                std::hint::black_box(&step.signals);
                if step.done.is_some() {
                    break;
                }
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed >= seconds {
            return Ok(n_steps as f64 / elapsed);
        }
    }
}

fn play_python(script: &Path, seconds: f64, seed: u64) -> Result<f64, Failure> {
    #[derive(Deserialize)]
    struct Printed {
        steps_per_s: f64,
    }
    let mut python = Command::new("python3");
    python.arg(script).args(["--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
    let output = python.output().map_err(|error| Failure::world(error).context("python3").hint("install Python 3"))?;
    if !output.status.success() {
        return Err(Failure::user(format_args!("the Python world failed: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let printed: Printed = serde_json::from_slice(&output.stdout).map_err(Failure::world)?;
    Ok(printed.steps_per_s)
}
