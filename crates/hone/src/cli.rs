//! The command line as a tree of types. Help texts are the comments on them.

use crate::printer::Wishes;
use crate::settings::{Flags, Variables};
use crate::{
    advise, bench, chat, config, data, deploy, docs, env, eval, init, key, r#loop, model, reward, rollout, serve, store, trace,
    train,
};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const ABOUT: &str = "\
Your agent's traces in, a better agent out

    requests, games ─▶ trace ─▶ reward ─▶ data ─▶ train ─▶ eval ─▶ deploy ─┐
         ▲                                                                 │
         └────────────────── served by the new adapter ────────────────────┘

Stages meet in records in a store: SQLite beside your hone.toml, or PostgreSQL. Each can run alone, be stopped at any \
moment and run again.";

/// Your agent's traces in, a better agent out
#[derive(Debug, Parser)]
#[command(name = "hone", version, long_about = ABOUT, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 yes, 1 a clear no, 2 an error. Data goes to stdout, everything else to stderr.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = EVERYWHERE)]
pub(crate) struct Everywhere {
    /// Print data as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Say nothing but errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Read settings from this file instead of the nearest hone.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep records in this folder
    #[arg(long, global = true, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Keep records on this PostgreSQL server; HONE_DATABASE_URL keeps the password off the command line
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<String>,
    /// Work on the data of this tenant
    #[arg(long, global = true, value_name = "NAME")]
    tenant: Option<String>,
    /// Compute with models on this: cpu, cuda (one NVIDIA GPU), or auto, the GPU where there is one
    #[arg(long, global = true, value_name = "MACHINE")]
    device: Option<String>,
}

/// The heading of the options that every command has.
pub(crate) const EVERYWHERE: &str = "Everywhere";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Loop(r#loop::Args),
    Init(init::Args),
    /// Import, list, show and export traces
    Trace(Box<trace::Args>),
    /// Add, list, show and export models
    Model(model::Args),
    Chat(Box<chat::Args>),
    /// List worlds and show scenarios of one
    Env(env::Args),
    Rollout(Box<rollout::Args>),
    /// Weigh traces, check recipes and judges
    Reward(reward::Args),
    /// Say whether traces are fit to learn from, and make private, balanced batches of them
    Data(Box<data::Args>),
    /// Train adapters, and see how runs went
    Train(train::Args),
    /// Say how good a policy is on tasks it has not seen
    Eval(eval::Args),
    Serve(Box<serve::Args>),
    /// Make, list and revoke keys to the server
    Key(key::Args),
    /// Register agents, and roll new versions out on evidence
    Deploy(deploy::Args),
    Advise(Box<advise::Args>),
    /// Back up, restore, verify and describe the store
    Store(store::Args),
    /// Say which settings are in effect and where each came from
    Config(config::Args),
    /// Say what this machine has and what that means
    ///
    /// One line each for cores, instruction sets, memory, GPU, database and disk. Exit code 1 when hone cannot
    /// work here, for instance because the configured database does not answer.
    Doctor,
    /// Measure what is published, with references in the same run
    Bench(bench::Args),
    #[command(hide = true)]
    Docs(docs::Args),
}

impl Everywhere {
    pub(crate) fn wishes(&self, variables: &Variables) -> Wishes {
        let dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
        Wishes { json: self.json, quiet: self.quiet, plain: dumb || variables.get("NO_COLOR").is_some() }
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            folder: self.folder.clone(),
            database_url: self.database_url.clone(),
            tenant: self.tenant.clone(),
            device: self.device.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_argument_is_mistaken_for_one_that_every_command_has() {
        fn check(command: &clap::Command, everywhere: &[&str]) {
            for arg in command.get_arguments() {
                assert!(!everywhere.contains(&arg.get_id().as_str()), "`{}`: {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(|below| check(below, everywhere));
        }
        let command = Cli::command();
        let everywhere: Vec<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        assert!(everywhere.contains(&"folder"));
        command.get_subcommands().for_each(|below| check(below, &everywhere));
    }

    #[test]
    fn help_begins_with_a_verb_and_ends_without_a_full_stop() {
        fn check(command: &clap::Command) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.'), "`{}`: {about}", command.get_name());
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty() && !help.ends_with('.'), "`{}` {}: {help}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
