//! `hone deploy`: agents and their versions, and the canaries by which a new version takes over.
//!
//! Everything here is a line of the log of agents; the servers of the same store follow it.

mod add;
mod change;
mod estimate;
mod status;

pub(crate) use status::word;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_trace::AgentName;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Add(add::Args),
    Start(change::StartArgs),
    Status(status::Args),
    Estimate(estimate::Args),
    /// Keep the canary at its share: only a person moves it on, and harm still takes it back
    Pause(Named),
    /// Let evidence decide again
    Resume(Named),
    /// Go to the next share at once, and from the last one to all of the traffic
    Promote(Named),
    /// Take the canary back at once: the version before it gets all of the traffic
    Rollback(Named),
}

#[derive(Debug, clap::Args)]
struct Named {
    /// The agent
    agent: AgentName,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    use hone_arbiter::canary::Command as Wish;
    context.wait(async |context| match &args.command {
        Command::Add(args) => add::run(args, context).await,
        Command::Start(args) => change::start(args, context).await,
        Command::Status(args) => status::run(args, context).await,
        Command::Estimate(args) => estimate::run(args, context).await,
        Command::Pause(named) => change::ask(&named.agent, Wish::Pause, context).await,
        Command::Resume(named) => change::ask(&named.agent, Wish::Resume, context).await,
        Command::Promote(named) => change::ask(&named.agent, Wish::Promote, context).await,
        Command::Rollback(named) => change::ask(&named.agent, Wish::Abort, context).await,
    })
}
