//! `hone env arc evolve`: programs get better by edits. In every round some edits of each task's best program are sampled and
//! run; the best of them, by the examples that everyone may see, is edited in the next round.
//!
//! Every edit is a trace of the store with what it gained. The same command again finds them there and goes on after them, so
//! a search may be killed at any time. Which edit is kept never depends on a hidden output.

mod budget;
mod likely;
mod line;
mod search;

use super::edits::Edit;
use crate::context::Context;
use crate::cost::Projected;
use crate::failure::{Exit, Failure};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::printer::counted;
use budget::{Budget, Spent};
use hone_arc::world::editor;
use hone_env::Player;
use search::{Search, world};
use serde::Serialize;
use std::path::PathBuf;

/// Search for better programs by edits, round by round
///
/// Each round samples edits of every task's best program, runs them and keeps the best. All edits go into the store with what
/// they gained, as traces that `hone trace list` shows and `hone data arc-edits` learns from. The same command again goes on
/// where this one stopped. With --json one object with what was found, round by round.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tasks: a folder of JSON files, or a file
    #[arg(long, value_name = "FOLDER|FILE.jsonl")]
    tasks: PathBuf,
    /// Who edits: script, local:MODEL, PROVIDER:MODEL or URL#MODEL
    ///
    /// The script knows the programs that ship with hone, and mends, spoils, copies and rambles as models do.
    #[arg(long, value_name = "POLICY")]
    policy: String,
    /// A name for this search, by which it is found again
    #[arg(long, default_value = "evolve", value_name = "NAME")]
    run: String,
    /// How many tasks; without this, all of the split
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: Option<u32>,
    /// Which part of the tasks
    #[arg(long, default_value = "train", value_parser = ["train", "validation", "test"])]
    split: String,
    /// Tasks that are made of each besides itself, turned, mirrored and recoloured; all are one family
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(..=100))]
    augmented: u16,
    /// The programs to start from; without this, those that ship with hone with mistakes in them
    #[arg(long, value_name = "FILE.py")]
    start: Option<PathBuf>,
    /// Mistakes that are put into a shipped program
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    mistakes: u8,
    /// How many rounds at most
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Edits of each task in a round
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    edits: u16,
    /// Stop before this command asks for more edits than this
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// Stop when this command has read and written this many tokens
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// The seed of tasks, mistakes and policies
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How many edits are asked for at once
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: u16,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 2048, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: u64,
    #[command(flatten)]
    policies: PolicyArgs,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Summary {
    run: String,
    tasks: usize,
    /// Edits in the store, those of earlier commands too.
    edits: usize,
    /// Those of them that gained something.
    gained: usize,
    /// Tasks whose best program is right on all examples.
    examples_right: usize,
    /// Tasks whose best program is right on the hidden pairs as well.
    solved: usize,
    rounds: Vec<Round>,
    #[serde(flatten)]
    spent: Spent,
    /// What it was likely to cost, where it costs something.
    #[serde(skip_serializing_if = "Option::is_none")]
    projection: Option<Projected>,
    /// The budget that ended the search, if one did.
    stopped_by: Option<&'static str>,
    /// Edits that ended without an answer, and were not kept.
    unanswered: usize,
    /// What was said of the first of them.
    #[serde(skip)]
    why_unanswered: Option<String>,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Round {
    round: u64,
    /// Edits that were made.
    edits: usize,
    /// Those of them that were in the store already.
    known: usize,
    gained: usize,
    /// Tasks that are right on all examples afterwards.
    examples_right: usize,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let bank = Bank::open(&args.policies)?;
    let ready = match args.policy.as_str() {
        "script" => None,
        "gold" | "random" | "empty" => {
            let text = format!("`{}` does not edit programs", args.policy);
            return Err(Failure::user(text).hint("write script, local:MODEL, PROVIDER:MODEL or URL#MODEL"));
        }
        name => Some(Ready::named(name, &args.policies, usize::from(args.concurrency), &bank, context)?),
    };
    let player = ready.as_ref().map_or(Player::Script("arc-editor", &editor), Ready::player);
    let is_script = ready.as_ref().is_none_or(Ready::is_script);
    let world = world(args, context)?;
    let (budget, setup) = (Budget::new(args.calls, args.tokens), search::setup(args, &world.world.recipe)?);
    let mut search =
        Search { args, player, is_script, budget, lines: Vec::new(), world, forecast: None, setup, unanswered: None };
    search.lines = search.begin(context)?;
    let known = search.known(context)?;
    if let Some(ready) = &ready {
        search.forecast = search.forecast(ready, &known, context)?;
    }
    let summary = search.run(known, &bank, context)?;
    summary.print(args, context)
}

impl Summary {
    fn print(&self, args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
        let printer = context.printer;
        if printer.wants_json() {
            printer.json(self)?;
        } else {
            let Self { run, tasks, edits, gained, examples_right, solved, spent, .. } = self;
            let (edits, tasks) = (counted(*edits as u64, "edit"), counted(*tasks as u64, "task"));
            let right = format!("{} right on their examples, {solved} of them solved", counted(*examples_right as u64, "task"));
            printer.plain(&format!("{run}: {edits} of {tasks}, {gained} gained; {right}"))?;
            printer.say(&format!("{} calls, {} tokens, ${:.4}", spent.calls, spent.tokens, spent.usd));
            printer.say(&format!("next: hone data arc-edits --run {run} --tasks {} --out DIR", args.tasks.display()));
        }
        if let Some(why) = &self.why_unanswered {
            let n = counted(self.unanswered as u64, "edit");
            printer.complain(&format!("{n} ended without an answer, the first so: {why}; the same command asks again"));
        }
        if let Some(by) = self.stopped_by {
            let text = format!("the budget of {by} ended the search");
            printer.complain(&format!("{text}; it is for one command: the same again goes on, with a larger one further"));
        }
        let n_known: usize = self.rounds.iter().map(|round| round.known).sum();
        let is_in_vain = self.unanswered > 0 && self.edits == n_known;
        Ok(if self.stopped_by.is_some() || is_in_vain { Exit::No } else { Exit::Yes })
    }
}
