//! The command line of hone: it reads the settings, wires the parts together, prints and exits. Nothing else.
//!
//! One file per subcommand. What a command does for the loop lives in the crate that is named after the stage;
//! this crate knows no wire format and no mathematics, and SQL only in `bench`, for what a database does by itself.

mod adapters;
mod advise;
mod bench;
mod chat;
mod cli;
mod clock;
mod config;
mod context;
mod cost;
mod data;
mod deploy;
mod device;
mod docs;
mod doctor;
mod durable;
mod env;
mod eval;
mod failure;
mod gym;
mod held;
mod init;
mod key;
mod learner;
mod r#loop;
mod model;
mod page;
mod play;
mod policy;
mod printer;
mod reward;
mod rollout;
mod scale;
mod serve;
mod settings;
mod standing;
mod store;
mod trace;
mod train;
mod visible;
mod world;

pub use failure::{Exit, Failure, Kind};
pub use printer::{Printer, Style, Wishes};
pub use settings::{Flags, Settings, Variables};

use clap::Parser;
use cli::{Cli, Command};
use context::Context;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// The whole program: 0 for yes, 1 for a clear no, 2 for an error.
pub fn main() -> ExitCode {
    let variables = Variables::of_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version go to stdout, mistakes to stderr; whether anybody reads it is not our matter.
            let _ = usage.print();
            return if usage.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let printer = Printer::new(cli.everywhere.wishes(&variables));
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&cli, &variables, &printer)))
        .unwrap_or_else(|_| Err(Failure::bug("hone stopped in the middle of its work")));
    let flushed = printer.flush();
    match outcome.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) if failure.kind == Kind::Closed => ExitCode::SUCCESS,
        Err(failure) => {
            printer.failure(&failure);
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli, variables: &Variables, printer: &Printer) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Docs(args) => docs::run(args, printer),
        Command::Init(args) => init::run(args, &cli.everywhere.flags(), printer),
        Command::Config(args) => config::run(args, &Context::load(cli, variables, printer)?),
        Command::Doctor => Context::load(cli, variables, printer)?.wait(doctor::run),
        Command::Model(args) => model::run(args, &Context::load(cli, variables, printer)?),
        Command::Chat(args) => chat::run(args, &Context::load(cli, variables, printer)?),
        Command::Loop(args) => r#loop::run(args, &Context::load(cli, variables, printer)?),
        Command::Env(args) => env::run(args, &Context::load(cli, variables, printer)?),
        Command::Data(args) => data::run(args, &Context::load(cli, variables, printer)?),
        Command::Rollout(args) => rollout::run(args, &Context::load(cli, variables, printer)?),
        Command::Reward(args) => reward::run(args, &Context::load(cli, variables, printer)?),
        Command::Eval(args) => eval::run(args, &Context::load(cli, variables, printer)?),
        Command::Serve(args) => serve::run(args, &Context::load(cli, variables, printer)?),
        Command::Key(args) => key::run(args, &Context::load(cli, variables, printer)?),
        Command::Deploy(args) => deploy::run(args, &Context::load(cli, variables, printer)?),
        Command::Advise(args) => advise::run(args, &Context::load(cli, variables, printer)?),
        Command::Store(args) => store::run(args, &Context::load(cli, variables, printer)?),
        Command::Bench(args) => bench::run(args, &Context::load(cli, variables, printer)?),
        Command::Train(args) => train::run(args, &Context::load(cli, variables, printer)?),
        Command::Trace(args) => trace::run(args, &Context::load(cli, variables, printer)?),
    }
}
