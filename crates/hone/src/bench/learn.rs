//! `hone bench learn`: does training do what it promises, over several seeds and against its controls?
//!
//! Every part is a claim of its own, run once per seed; those on the service desk begin at the same model, which has read the
//! agent's manual and imitates the agent.

mod desk;
mod figure;
mod player;
mod tictactoe;
mod twenty48;
mod warm;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::feedback::N_STEPS;
use clap::ValueEnum;
use serde::Serialize;
use std::path::PathBuf;
use warm::Warm;

/// Measure what training reaches on held-out tasks, beside its controls
///
/// Trains small models once per seed. Takes five to ten minutes a seed on two cores for the service desk alone, and about as long for
/// each game.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Run only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Steps of GRPO on the service desk
    #[arg(long, default_value_t = N_STEPS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Held-out tasks of the service desk
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=10_000))]
    tasks: u32,
    /// Keep the models that imitate the agent in this folder, and begin with them where they are there
    #[arg(long, value_name = "DIR")]
    warm: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// GRPO on the service desk, beside imitation and permuted rewards
    Desk,
    /// Tic-tac-toe against a random opponent, by GRPO from random play
    Tictactoe,
    /// 2048, by GRPO from random play
    #[value(name = "2048")]
    Twenty48,
}

impl Part {
    /// Whether it begins at the model that imitates the agent.
    fn is_warm(self) -> bool {
        matches!(self, Self::Desk)
    }
}

#[derive(Debug, Default, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    desk: Option<desk::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tictactoe: Option<tictactoe::Figures>,
    #[serde(rename = "2048", skip_serializing_if = "Option::is_none")]
    twenty48: Option<twenty48::Figures>,
}

/// The runs of every part.
#[derive(Default)]
struct Runs {
    desk: Vec<desk::Run>,
    tictactoe: Vec<tictactoe::Run>,
    twenty48: Vec<twenty48::Run>,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let mut runs = Runs::default();
    for seed in args.seed..args.seed + u64::from(args.seeds) {
        runs.add(seed, args, context)?;
    }
    let figures = Figures {
        desk: (!runs.desk.is_empty()).then(|| desk::Figures::of(&runs.desk)),
        tictactoe: (!runs.tictactoe.is_empty()).then(|| tictactoe::Figures::of(&runs.tictactoe)),
        twenty48: (!runs.twenty48.is_empty()).then(|| twenty48::Figures::of(&runs.twenty48)),
    };
    if context.printer.wants_json() {
        context.printer.json(&figures)?;
        return Ok(Exit::Yes);
    }
    let told = [
        figures.desk.map(|figures| figures.told()),
        figures.tictactoe.map(|figures| figures.told()),
        figures.twenty48.map(|figures| figures.told()),
    ];
    for line in told.iter().flatten() {
        context.printer.plain(line)?;
    }
    Ok(Exit::Yes)
}

impl Runs {
    /// One seed.
    fn add(&mut self, seed: u64, args: &Args, context: &Context<'_>) -> Result<(), Failure> {
        let parts: Vec<Part> = Part::value_variants().iter().copied().filter(|part| args.wants(*part)).collect();
        let say = |part: Part, text: &str| {
            let name = part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            context.printer.say(&format!("seed {seed}  {name}: {text}"));
        };
        let mut warm = match parts.iter().any(|part| part.is_warm()) {
            true => Some(Warm::new(seed, args.tasks as usize, args.warm.as_deref(), context)?),
            false => None,
        };
        for part in parts {
            match (part, &mut warm) {
                (Part::Desk, Some(warm)) => {
                    let run = desk::run(warm, args.steps as usize)?;
                    say(part, &run.told());
                    self.desk.push(run);
                }
                (Part::Tictactoe, _) => {
                    let run = tictactoe::run(seed, context)?;
                    say(part, &run.told());
                    self.tictactoe.push(run);
                }
                (Part::Twenty48, _) => {
                    let run = twenty48::run(seed, context)?;
                    say(part, &run.told());
                    self.twenty48.push(run);
                }
                (Part::Desk, None) => return Err(Failure::bug("a part without its model")),
            }
        }
        Ok(())
    }
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}
