//! `hone train`: what training runs there are, how each went, and what sets two apart.
#![cfg_attr(not(test), expect(dead_code, reason = "the commands that train write runs; until they are here only tests do"))]

mod compare;
mod list;
mod live;
mod metrics;
mod plot;
mod runs;
mod show;
mod sinks;
mod telemetry;
mod tensorboard;

use crate::context::Context;
use crate::failure::{Exit, Failure};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Compare(compare::Args),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::List(args) => list::run(args, context),
        Command::Show(args) => show::run(args, context),
        Command::Compare(args) => compare::run(args, context),
    }
}
