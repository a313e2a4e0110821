//! `hone train`: an adapter that does better, and what a person wants to know of the run that made it.

mod compare;
mod elsewhere;
mod finished;
mod flags;
mod grpo;
mod interrupt;
mod list;
mod live;
mod logged;
mod material;
mod meter;
mod metrics;
mod plot;
mod record;
mod runs;
mod sampler;
mod session;
mod show;
mod sinks;
mod start;
mod state;
mod telemetry;
mod tensorboard;
mod timed;

pub(crate) use finished::Finished;
pub(crate) use grpo::practise;
pub(crate) use logged::{best_and_worst, imitate};
pub(crate) use start::RunArgs;

use crate::context::Context;
use crate::failure::{Exit, Failure};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Imitate good traces
    ///
    /// Takes traces of the store whose reward is at least --quality-min, and of those the turns that went well. Where people said what an
    /// answer should have been, takes theirs.
    Sft(Box<logged::Args<0>>),
    Grpo(Box<grpo::Args>),
    /// Imitate all traces, the better ones more
    ///
    /// How much a trace counts follows from what it earned beyond the mean of its category.
    Awr(Box<logged::Args<2>>),
    /// Learn from pairs of a better and a worse trace
    ///
    /// Takes groups of the store: of each the best and the worst, where they differ by --pair-margin or more. Where people said what an answer
    /// should have been, theirs is the better one.
    Dpo(Box<logged::Args<3>>),
    /// Learn from traces without groups, by an estimate of what was to be expected
    ///
    /// Takes traces of the store whose tokens and log-probs the sampler told.
    Ppo(Box<logged::Args<4>>),
    /// Ask a run to stop after its present step
    Stop {
        /// The name of the run
        run: String,
    },
    /// Take the adapter of a step for the best, and end the run
    ///
    /// For rewards that nothing can check: look at what the steps gave with `hone trace list` and choose.
    Prefer {
        /// The run and the step, as RUN@STEP
        step: String,
    },
    List(list::Args),
    Show(show::Args),
    Compare(compare::Args),
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Sft(args) => logged::run(args, context),
        Command::Grpo(args) => grpo::run(args, context),
        Command::Awr(args) => logged::run(args, context),
        Command::Dpo(args) => logged::run(args, context),
        Command::Ppo(args) => logged::run(args, context),
        Command::Stop { run } => start::ask_to_stop(run, context),
        Command::Prefer { step } => start::prefer(step, context),
        Command::List(args) => list::run(args, context),
        Command::Show(args) => show::run(args, context),
        Command::Compare(args) => compare::run(args, context),
    }
}
