//! `hone bench`: each published figure as one command, with its references measured in the same run.
//!
//! Machines are noisy, so what is published is a ratio of two rates of one run, with its spread.

mod advise;
mod alarms;
mod anonymise;
mod arc;
mod bandit;
mod bombs;
mod canary;
mod crash;
mod dashboard;
mod diff;
mod env;
mod figures;
mod gateway;
mod grpo;
mod guards;
mod guess;
mod kills;
mod large;
mod learn;
mod machine;
mod on_core;
mod onpolicy;
mod postgres;
mod resume;
mod sample;
mod scratch;
mod sqlite;
mod step;
mod store;
mod swap;
mod writer;

use crate::context::Context;
use crate::failure::{Exit, Failure};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Store(store::Args),
    Crash(crash::Args),
    Large(large::Args),
    Onpolicy(onpolicy::Args),
    Grpo(grpo::Args),
    Guards(guards::Args),
    Guess(guess::Args),
    Env(env::Args),
    Advise(advise::Args),
    Alarms(alarms::Args),
    Anonymise(anonymise::Args),
    Arc(arc::Args),
    Bombs(bombs::Args),
    Diff(diff::Args),
    Learn(learn::Args),
    Loop(kills::Args),
    Canary(canary::Args),
    Bandit(bandit::Args),
    Gateway(gateway::Args),
    Swap(swap::Args),
    Dashboard(dashboard::Args),
    #[command(hide = true)]
    GatewayMock(gateway::mock::Args),
    #[command(hide = true)]
    CrashWriter(writer::Args),
    #[command(hide = true)]
    OnpolicyRun(resume::Run),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Store(args) => context.wait(async |context| store::run(args, context).await),
        Command::Crash(args) => context.wait(async |context| crash::run(args, context).await),
        Command::Large(args) => context.wait(async |context| large::run(args, context).await),
        Command::Onpolicy(args) => onpolicy::run(args, context),
        Command::Grpo(args) => grpo::run(args, context),
        Command::Guards(args) => guards::run(args, context),
        Command::Guess(args) => guess::run(args, context),
        Command::Env(args) => env::run(args, context),
        Command::Advise(args) => advise::run(args, context),
        Command::Alarms(args) => alarms::run(args, context),
        Command::Anonymise(args) => anonymise::run(args, context),
        Command::Arc(args) => arc::run(args, context),
        Command::Bombs(args) => bombs::run(args, context),
        Command::Diff(args) => diff::run(args, context),
        Command::Learn(args) => learn::run(args, context),
        Command::Loop(args) => kills::run(args, context),
        Command::Canary(args) => canary::run(args, context),
        Command::Bandit(args) => bandit::run(args, context),
        Command::Gateway(args) => context.wait(async |context| gateway::run(args, context).await),
        Command::Swap(args) => context.wait(async |context| swap::run(args, context).await),
        Command::Dashboard(args) => context.wait(async |context| dashboard::run(args, context).await),
        Command::GatewayMock(args) => {
            context.wait(async |context| gateway::mock::run(args, context.printer).await)?;
            Ok(Exit::Yes)
        }
        Command::OnpolicyRun(run) => resume::run(run),
        Command::CrashWriter(args) => context.wait(async |context| writer::run(args, context).await),
    }
}
