//! `hone data`: whether traces are fit to learn from, and batches of those that are.

mod arc_edits;
mod gate;
mod key;
mod prepare;
mod reveal;

pub(crate) use prepare::{Made, Order, SHOWN};

use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use clap::{Subcommand, ValueEnum};
use hone_data::gate::{HeldOut, Purpose};
use hone_gateway::demonstrations::Demonstrations;
use hone_store::Database;
use hone_trace::Trace;
use hone_trace::store::TraceQuery;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Gate(gate::Args),
    Prepare(prepare::Args),
    Reveal(reveal::Args),
    ArcEdits(arc_edits::Args),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Gate(args) => context.wait(async |context| gate::run(args, context).await),
        Command::Prepare(args) => context.wait(async |context| prepare::run(args, context).await),
        Command::Reveal(args) => reveal::run(args, context),
        Command::ArcEdits(args) => context.wait(async |context| arc_edits::run(args, context).await),
    }
}

/// What data is for, by the name that the user gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PurposeName {
    /// To be imitated
    Sft,
    /// To be reinforced
    Rl,
}

impl From<PurposeName> for Purpose {
    fn from(name: PurposeName) -> Self {
        match name {
            PurposeName::Sft => Self::Sft,
            PurposeName::Rl => Self::Rl,
        }
    }
}

/// How many traces are asked for at once; the store gives fewer when they are large.
const PAGE_LEN: u32 = 500;

/// What people said answers should have been, where that matters: nobody is reinforced for what somebody else said.
async fn demonstrations(store: &dyn Database, purpose: Purpose) -> Result<Demonstrations, Failure> {
    match purpose {
        Purpose::Sft => Ok(Demonstrations::read(store).await?),
        Purpose::Rl => Ok(Demonstrations::default()),
    }
}

/// Hands over every trace of the store that is meant, with the answers of people where they gave some.
async fn each(
    store: &dyn Database,
    query: &TraceQuery,
    demonstrations: &Demonstrations,
    context: &Context<'_>,
    mut add: impl FnMut(&Trace),
) -> Result<(), Failure> {
    let bar = context.printer.count_bar("traces");
    let mut after = None;
    loop {
        let page = store.traces(query, after, PAGE_LEN).await?;
        for trace in page.items {
            add(&demonstrations.corrected(store, trace).await?);
            bar.inc(1);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// The list of what is held out.
pub(crate) fn held_out(path: Option<&Path>, user_field: &str) -> Result<HeldOut, Failure> {
    let mut held_out = HeldOut::default();
    let Some(path) = path else { return Ok(held_out) };
    let file = File::open(path).map_err(at_path(path))?;
    for line in hone_trace::lines::of_reader(BufReader::new(file)) {
        let (number, line) = line.map_err(at_path(path))?;
        held_out
            .add(&line, user_field)
            .map_err(|error| Failure::user(format_args!("{}, line {number}: {error}", path.display())))?;
    }
    Ok(held_out)
}
