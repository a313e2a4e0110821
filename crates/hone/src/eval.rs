//! `hone eval`: how good a policy is, on tasks that it has not seen.

mod baseline;

pub(crate) use baseline::report;

use crate::context::Context;
use crate::failure::{Exit, Failure};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Baseline(baseline::Args),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Baseline(args) => baseline::run(args, context),
    }
}
