//! `hone advise`: in which ways episodes fail, and which config would do better than the one in use.
//!
//! What is found is kept in the store, so that advice can be taken or turned down later, and is not given twice.

mod answer;
mod look;
mod show;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_gateway::advice::AnswerError;

/// Say in which ways episodes fail, and which config would do better
///
/// Failures are put together by how they failed: errors, tools that refuse, repeated calls, parts of the reward that are missed, or what was
/// asked. Every other config with episodes of its own is compared with the one in use, on the tasks that both had or within types of task, and
/// what is surely better or cheaper is proposed. Exit code 1 when there are episodes, and none has an outcome.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    look: look::LookArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the advice that was given, and what became of it
    List,
    Accept(answer::AcceptArgs),
    Reject(answer::RejectArgs),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    context.wait(async |context| match &args.command {
        None => look::run(&args.look, context).await,
        Some(Command::List) => answer::list(context).await,
        Some(Command::Accept(args)) => answer::accept(args, context).await,
        Some(Command::Reject(args)) => answer::reject(args, context).await,
    })
}

/// Why nothing was written down.
fn busy(error: AnswerError) -> Failure {
    match error {
        AnswerError::Busy => Failure::user(error).hint("try again"),
        AnswerError::Store(error) => error.into(),
    }
}
