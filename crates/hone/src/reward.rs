//! `hone reward`: how traces are weighed, how far a judge can be trusted, and whether the reward was learned instead of the task.

mod alarms;
mod calibrate;
mod diff;
mod lint;
mod score;
mod standing;
mod weigh;

pub(crate) use standing::trust;
pub(crate) use weigh::{Weighed, weigh};

use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::world::name_on_traces;
use hone_reward::lint::obstacle;
use hone_reward::{Recipe, lint as findings};
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Score(Box<score::Args>),
    Lint(lint::Args),
    Calibrate(Box<calibrate::Args>),
    Diff(diff::Args),
    Alarms(alarms::Args),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Score(args) => score::run(args, context),
        Command::Lint(args) => lint::run(args, context),
        Command::Calibrate(args) => calibrate::run(args, context),
        Command::Diff(args) => diff::run(args, context),
        Command::Alarms(args) => context.wait(async |context| alarms::run(args, context).await),
    }
}

/// The recipe in a file, or the one of a world, by what the world is called on its traces.
fn recipe(file: Option<&Path>, world: Option<&str>, context: &Context<'_>) -> Result<Recipe, Failure> {
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(at_path(path))?;
        return Recipe::parse(&text).map_err(|error| Failure::user(format_args!("{}: {error}", path.display())));
    }
    let Some(name) = world else {
        return Err(Failure::user("no recipe is named").hint("give a file with --recipe, or a world with --env"));
    };
    context.settings.rewards.get(name).cloned().or_else(|| Recipe::for_world(name)).ok_or_else(|| {
        Failure::user(format_args!("there is no recipe for `{name}`"))
            .hint(format!("write one under `[reward.{name}]` in hone.toml"))
    })
}

/// What a world is called on its traces, as far as one is named.
fn world_of(env: Option<&str>, context: &Context<'_>) -> Result<Option<String>, Failure> {
    env.map(|env| context.wait(async |context| name_on_traces(env, context).await)).transpose()
}

/// Refuses a recipe that teaches something else than is meant, unless that can be forced and is.
pub(crate) fn is_wise(recipe: &Recipe, force: bool) -> Result<(), Failure> {
    match obstacle(&findings(recipe), force) {
        Some(finding) => Err(Failure::user(&finding.what).hint(format!("{}; or `--force`", finding.way_out))),
        None => Ok(()),
    }
}
