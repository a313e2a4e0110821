//! `hone trace`: traces in and out. Each subcommand is a file; they share which traces are meant.

mod export;
mod filter;
mod import;
mod list;
mod show;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use clap::{Subcommand, ValueEnum};
use hone_trace::format::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(import::Args),
    List(list::Args),
    Show(show::Args),
    Export(export::Args),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Import(args) => context.wait(async |context| import::run(args, context).await),
        Command::List(args) => context.wait(async |context| list::run(args, context).await),
        Command::Show(args) => context.wait(async |context| show::run(args, context).await),
        Command::Export(args) => context.wait(async |context| export::run(args, context).await),
    }
}

pub(crate) use filter::Filter;
pub(crate) use show::show;

/// `hone trace import FILE`, for those who measure it.
pub(crate) async fn import(file: &std::path::Path, context: &Context<'_>) -> Result<Exit, Failure> {
    import::run(&import::Args::of(file), context).await
}

/// A format by the name that the user gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Our own JSON lines, which leave out nothing
    Hone,
    /// OpenAI chat conversations, one per line
    Openai,
    /// ART trajectories and trajectory groups
    Art,
    /// OTLP/JSON spans with GenAI or OpenInference attributes
    Otlp,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Hone => Self::Hone,
            FormatName::Openai => Self::Openai,
            FormatName::Art => Self::Art,
            FormatName::Otlp => Self::Otlp,
        }
    }
}
