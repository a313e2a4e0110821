//! `hone bench learn`: does training do what it promises, over several seeds and against its controls?
//!
//! Every part is a claim of its own, run once per seed; those on the service desk begin at the same model, which has read the
//! agent's manual and imitates the agent.

mod credit;
mod desk;
mod figure;
mod forgetting;
mod hacking;
mod logged;
mod own;
mod pace;
mod player;
mod resume;
mod ruler;
mod short;
mod smollm2;
mod tictactoe;
mod twenty48;
mod warm;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::r#loop::N_STEPS;
use clap::ValueEnum;
pub(super) use hacking::{Incidents, incidents};
use serde::Serialize;
use std::path::PathBuf;
pub(super) use warm::Warm;

/// Measure what training reaches on held-out tasks, beside its controls
///
/// Trains small models, once per seed and part; without `--only`, for every part. A part takes some minutes a seed on two cores.
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
    /// Steps of GRPO on the service desk; short runs have their own number, and a log is read without any
    #[arg(long, default_value_t = N_STEPS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Held-out tasks of the service desk; what is forgotten is measured on more
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=10_000))]
    tasks: u32,
    /// Keep the models that imitate the agent in this folder, and begin with them where they are there
    #[arg(long, value_name = "DIR")]
    warm: Option<PathBuf>,
    /// The model of the part `smollm2`: SmolLM2-135M-Instruct as a GGUF file or folder
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// GRPO on the service desk, beside imitation and permuted rewards
    Desk,
    /// PPO, AWR and DPO on the service desk, from recorded episodes alone
    Logged,
    /// GRPO on three categories of the service desk: what the others lose
    Forgetting,
    /// Short runs of GRPO on the service desk: how many learn
    Short,
    /// Rewards credited to turns against rewards credited to trajectories, on the service desk
    Credit,
    /// A judge's ranks against the recipe of the service desk as what GRPO learns from
    Ruler,
    /// A judge that can be fooled on the service desk: what an unguarded run loses, and when a guarded one stops
    Hacking,
    /// Tic-tac-toe: games not lost against a random opponent, by GRPO from an amateur's play
    Tictactoe,
    /// 2048: the highest tile, by GRPO from random legal play
    #[value(name = "2048")]
    Twenty48,
    /// SmolLM2 with an adapter on one-digit sums, which needs --model
    Smollm2,
    /// Runs that are killed and go on: whether they end with the same bits
    Resume,
}

impl Part {
    /// Whether it begins at the model that imitates the agent.
    fn is_warm(self) -> bool {
        !matches!(self, Self::Tictactoe | Self::Twenty48 | Self::Smollm2 | Self::Resume)
    }
}

#[derive(Debug, Default, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    desk: Option<desk::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logged: Option<logged::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forgetting: Option<forgetting::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    short: Option<short::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credit: Option<credit::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ruler: Option<ruler::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hacking: Option<hacking::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tictactoe: Option<tictactoe::Figures>,
    #[serde(rename = "2048", skip_serializing_if = "Option::is_none")]
    twenty48: Option<twenty48::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smollm2: Option<smollm2::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<resume::Figures>,
}

/// The runs of every part.
#[derive(Default)]
struct Runs {
    desk: Vec<desk::Run>,
    logged: Vec<logged::Run>,
    forgetting: Vec<forgetting::Run>,
    short: Vec<short::Run>,
    credit: Vec<credit::Run>,
    ruler: Vec<ruler::Run>,
    hacking: Vec<hacking::Run>,
    tictactoe: Vec<tictactoe::Run>,
    twenty48: Vec<twenty48::Run>,
    smollm2: Vec<smollm2::Run>,
    resume: Option<resume::Figures>,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    if args.only.contains(&Part::Smollm2) && args.model.is_none() {
        return Err(Failure::user("the part `smollm2` needs a model")
            .hint("--model PATH names SmolLM2-135M-Instruct, as a GGUF file or folder"));
    }
    let mut runs = Runs::default();
    for seed in args.seed..args.seed + u64::from(args.seeds) {
        runs.add(seed, args, context)?;
    }
    let figures = runs.figures();
    if context.printer.wants_json() {
        context.printer.json(&figures)?;
        return Ok(Exit::Yes);
    }
    for told in figures.told() {
        context.printer.plain(&told)?;
    }
    Ok(Exit::Yes)
}

impl Figures {
    /// A line for every part.
    fn told(&self) -> Vec<String> {
        let Self { desk, logged, forgetting, short, credit, ruler, hacking, tictactoe, twenty48, smollm2, resume } = self;
        let all = [
            desk.as_ref().map(desk::Figures::told),
            logged.as_ref().map(logged::Figures::told),
            forgetting.as_ref().map(forgetting::Figures::told),
            short.as_ref().map(short::Figures::told),
            credit.as_ref().map(credit::Figures::told),
            ruler.as_ref().map(ruler::Figures::told),
            hacking.as_ref().map(hacking::Figures::told),
            tictactoe.as_ref().map(tictactoe::Figures::told),
            twenty48.as_ref().map(twenty48::Figures::told),
            smollm2.as_ref().map(smollm2::Figures::told),
            resume.as_ref().map(resume::Figures::told),
        ];
        all.into_iter().flatten().collect()
    }
}

impl Runs {
    fn figures(self) -> Figures {
        Figures {
            desk: some(&self.desk, desk::Figures::of),
            logged: some(&self.logged, logged::Figures::of),
            forgetting: some(&self.forgetting, forgetting::Figures::of),
            short: some(&self.short, short::Figures::of),
            credit: some(&self.credit, credit::Figures::of),
            ruler: some(&self.ruler, ruler::Figures::of),
            hacking: some(&self.hacking, hacking::Figures::of),
            tictactoe: some(&self.tictactoe, tictactoe::Figures::of),
            twenty48: some(&self.twenty48, twenty48::Figures::of),
            smollm2: some(&self.smollm2, smollm2::Figures::of),
            resume: self.resume,
        }
    }

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
        let n_steps = args.steps as usize;
        for part in parts {
            let told = |text: &str| say(part, text);
            match (part, &mut warm) {
                (Part::Desk, Some(warm)) => keep(&mut self.desk, desk::run(warm, n_steps)?, desk::Run::told, told),
                (Part::Logged, Some(warm)) => keep(&mut self.logged, logged::run(warm)?, logged::Run::told, told),
                (Part::Forgetting, Some(warm)) => {
                    keep(&mut self.forgetting, forgetting::run(warm, n_steps)?, forgetting::Run::told, told);
                }
                (Part::Short, Some(warm)) => keep(&mut self.short, short::run(warm)?, short::Run::told, told),
                (Part::Credit, Some(warm)) => keep(&mut self.credit, credit::run(warm, n_steps)?, credit::Run::told, told),
                (Part::Ruler, Some(warm)) => keep(&mut self.ruler, ruler::run(warm, n_steps)?, ruler::Run::told, told),
                (Part::Hacking, Some(warm)) => self.hacking.extend(hacking::run(warm, told)?),
                (Part::Tictactoe, _) => keep(&mut self.tictactoe, tictactoe::run(seed, context)?, tictactoe::Run::told, told),
                (Part::Twenty48, _) => keep(&mut self.twenty48, twenty48::run(seed, context)?, twenty48::Run::told, told),
                (Part::Smollm2, _) => match &args.model {
                    Some(model) => keep(&mut self.smollm2, smollm2::run(seed, model)?, smollm2::Run::told, told),
                    None => told("left out, because it needs a model: --model PATH"),
                },
                // Once is enough: every one of its runs is killed at other moments.
                (Part::Resume, _) if self.resume.is_some() => {}
                (Part::Resume, _) => self.resume = Some(resume::run(seed, told)?),
                (_, None) => return Err(Failure::bug("a part without its model")),
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

/// Tells of a run and keeps it.
fn keep<R>(runs: &mut Vec<R>, run: R, tell: impl Fn(&R) -> String, told: impl Fn(&str)) {
    told(&tell(&run));
    runs.push(run);
}

/// The figures of a part, where it was run.
fn some<R, F>(runs: &[R], figures: impl Fn(&[R]) -> F) -> Option<F> {
    (!runs.is_empty()).then(|| figures(runs))
}
