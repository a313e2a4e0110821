//! `hone env`: the worlds, and what a scenario of one looks like.

pub(crate) mod arc;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::play::{Play, PlayArgs};
use crate::policy::Ready;
use crate::world::{SHIPPED, World};
use hone_env::rollout::{Luck, rollout};
use hone_trace::RunId;
use serde_json::json;
use std::ops::ControlFlow;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the worlds that ship with hone
    List,
    Show(Show),
    Arc(arc::Args),
}

/// Show scenarios of a world, and how they are played best
///
/// Prints the conversation of the gold player. With --json one object per scenario, with its trace.
#[derive(Debug, clap::Args)]
struct Show {
    /// The world, such as desk, 2048 or math:sums
    #[arg(value_name = "WORLD")]
    env: String,
    /// How many scenarios
    #[arg(long, short, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// Who plays: gold, random or empty
    #[arg(long, default_value = "gold", value_parser = ["gold", "random", "empty"])]
    policy: String,
    #[command(flatten)]
    play: PlayArgs,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::List => list(context),
        Command::Show(args) => show(args, context),
        Command::Arc(args) => arc::run(args, context),
    }
}

fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    if context.printer.wants_json() {
        SHIPPED.iter().try_for_each(|world| context.printer.json(&json!({"name": world.name, "about": world.about})))?;
    } else {
        let rows: Vec<Vec<String>> = SHIPPED.iter().map(|world| vec![world.name.to_owned(), world.about.to_owned()]).collect();
        context.printer.table(&["world", "what it is"], &rows)?;
    }
    Ok(Exit::Yes)
}

fn show(args: &Show, context: &Context<'_>) -> Result<Exit, Failure> {
    let world = context.wait(async |context| World::named(&args.env, context).await)?;
    let scenarios = args.play.scenarios(&world, args.n as usize, context.printer)?;
    let ready = match args.policy.as_str() {
        "random" => Ready::Random,
        "empty" => Ready::Empty,
        _ => Ready::Gold,
    };
    let play = Play { n_samples: 1, luck: Luck::Shared, is_script: true };
    let plan = args.play.plan(RunId::derived(&["show", &world.name]), &context.settings.tenant, &scenarios, play);
    let mut shown = Ok(());
    let mut left = scenarios.iter();
    rollout(world.env.as_ref(), ready.player(), &plan, |mut played| {
        let (Some(scenario), Some(trace)) = (left.next(), played.traces.pop()) else { return ControlFlow::Break(()) };
        shown = match context.printer.wants_json() {
            true => context.printer.json(&json!({"scenario": scenario, "trace": trace})),
            false => crate::trace::show(&trace, context.printer),
        };
        if shown.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    shown.map(|()| Exit::Yes)
}
