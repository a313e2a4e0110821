//! `hone env arc evolve`: programs get better by edits. In every round some edits of each task's best program are sampled and run;
//! the best of them, by the examples that everyone may see, is edited in the next round.
//!
//! Every edit is a trace of the store with what it gained. The same command again finds them there and goes on after them, so
//! a search may be killed at any time. Which edit is kept never depends on a hidden output.

mod budget;
mod line;

use super::edits::{self, Edit, Origin};
use super::read_programs;
use crate::clock::RealClock;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::play::TOLD_START;
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::rollout::keep;
use crate::world::World;
use budget::{Budget, Spent};
use hone_arc::augment::Augmentation;
use hone_arc::shipped;
use hone_arc::task::Task;
use hone_arc::world::{ArcOptions, ArcWorld, damaged, editor};
use hone_env::Player;
use hone_env::rollout::{Limits, Luck, Plan, Played, Timing};
use hone_reward::Recipe;
use hone_trace::env::Split;
use hone_trace::{ConfigHash, Draws, RunId, Scenario, ScenarioId};
use line::Line;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Search for better programs by edits, round by round
///
/// Each round samples edits of every task's best program, runs them and keeps the best. All edits go into the store with what they
/// gained, as traces that `hone trace list` shows and `hone data arc-edits` learns from. The same command again goes on where this one
/// stopped. With --json one object with what was found, round by round.
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
    /// Stop before more edits than this are asked for
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// Stop when this many tokens are read and written
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
    /// The budget that ended the search, if one did.
    stopped_by: Option<&'static str>,
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
    let mut search = Search { args, player, is_script, budget: Budget::new(args.calls, args.tokens), lines: Vec::new(), world };
    search.lines = search.begin(context)?;
    let known = search.known(context)?;
    let summary = search.run(known, &bank, context)?;
    summary.print(args, context)
}

/// The world of edits: one program an episode, weighed by what it gains.
struct Edits {
    arc: Arc<ArcWorld>,
    world: World,
}

fn world(args: &Args, context: &Context<'_>) -> Result<Edits, Failure> {
    let options = ArcOptions { turns_max: 1, ..ArcOptions::new(args.tasks.clone()) };
    let arc = Arc::new(ArcWorld::editing(options).map_err(Failure::user)?);
    let name = "arc-edit";
    let recipe = context.settings.rewards.get(name).cloned().or_else(|| Recipe::for_world(name));
    let recipe = recipe.ok_or_else(|| Failure::bug("the world of edits has no recipe"))?;
    let world = World { name: name.into(), env: Arc::clone(&arc) as Arc<_>, recipe, replay: None };
    Ok(Edits { arc, world })
}

struct Search<'a> {
    args: &'a Args,
    player: Player<'a>,
    is_script: bool,
    budget: Budget,
    lines: Vec<Line>,
    world: Edits,
}

/// The edits that the store has, by round and task.
type Known = BTreeMap<(u64, String), Vec<Edit>>;

impl Search<'_> {
    /// The tasks that are searched, each with the program it starts from.
    fn begin(&self, context: &Context<'_>) -> Result<Vec<Line>, Failure> {
        let split = Split::ALL.into_iter().find(|split| split.as_str() == self.args.split).unwrap_or(Split::Train);
        let arc = &self.world.arc;
        let mut tasks: Vec<&Task> = arc.tasks().iter().filter(|task| arc.split(task) == split).collect();
        let given = self.args.start.as_deref().map(read_programs).transpose()?;
        let given = given.map(|source| shipped::single_programs(&source)).unwrap_or_default();
        if self.args.policy == "script" {
            let n = tasks.len();
            tasks.retain(|task| shipped::programs().contains_key(task.id.as_str()));
            context.printer.say(&format!("the script knows programs for {} of {n} tasks", tasks.len()));
        }
        if tasks.is_empty() {
            let reason = format!("{} has no tasks in its {} split that can be edited", self.args.tasks.display(), split.as_str());
            return Err(Failure::user(reason).hint("choose another part with --split"));
        }
        Draws::new(self.args.seed, &["arc", "evolve"]).shuffle(&mut tasks);
        tasks.truncate(self.args.n.map_or(usize::MAX, |n| n as usize));
        let augmented = |task: &Task| -> Vec<Task> {
            let mut draws = Draws::new(self.args.seed, &["arc", "augmented", &task.id]);
            let others = (0..self.args.augmented).map(|_| Augmentation::draw(&mut draws, task.train.len()).apply(task));
            std::iter::once(task.clone()).chain(others).collect()
        };
        let mut tasks: Vec<Task> = tasks.into_iter().flat_map(augmented).collect();
        tasks.sort_by(|a, b| a.id.cmp(&b.id));
        tasks.dedup_by(|a, b| a.id == b.id);
        let start = |task: &Task| {
            let mut draws = Draws::new(self.args.seed, &["arc", "mistakes", &task.id]);
            let given = given.get(task.id.as_str()).cloned();
            let spoilt = given.or_else(|| damaged(task, usize::from(self.args.mistakes), &mut draws));
            spoilt.unwrap_or_else(|| shipped::EMPTY.to_owned())
        };
        let begin = |task: Task| {
            let program = start(&task);
            Line::new(task, program)
        };
        Ok(tasks.into_iter().map(begin).collect())
    }

    /// What an earlier command of this name left in the store.
    fn known(&self, context: &Context<'_>) -> Result<Known, Failure> {
        let edits = context.wait(async |context| {
            let store = context.store().await?;
            edits::read(&*store, &context.settings.tenant, Some(&self.args.run)).await
        })?;
        let config: ConfigHash = self.player.config().hash();
        if edits.iter().any(|edit| edit.trace.config != config) {
            let text = format!("the search `{}` was made by another policy than {}", self.args.run, self.args.policy);
            return Err(Failure::user(text).hint("give this one another name with --run"));
        }
        let mut known = Known::new();
        for edit in edits {
            known.entry((edit.origin.round, edit.origin.task.clone())).or_default().push(edit);
        }
        Ok(known)
    }

    fn run(&mut self, mut known: Known, bank: &Bank, context: &Context<'_>) -> Result<Summary, Failure> {
        let mut rounds = Vec::new();
        let mut stopped_by = None;
        let bar = context.printer.count_bar("edits");
        for number in 1..=u64::from(self.args.rounds) {
            let mut round = Round { round: number, ..Round::default() };
            let open: Vec<usize> = (0..self.lines.len()).filter(|&nth| !self.lines[nth].is_right()).collect();
            let mut missing = Vec::new();
            for nth in open {
                match known.remove(&(number, self.lines[nth].task.id.clone())) {
                    Some(edits) => {
                        round.known += edits.len();
                        self.take(nth, &edits, &mut round);
                    }
                    None => missing.push(nth),
                }
            }
            stopped_by = self.play(missing, &mut round, context, &|n| bar.inc(n))?;
            round.examples_right = self.lines.iter().filter(|line| line.is_right()).count();
            if round.edits > 0 {
                let Round { edits, gained, examples_right, .. } = round;
                let (n_rounds, n_tasks) = (self.args.rounds, self.lines.len());
                context.printer.say(&format!(
                    "round {number}/{n_rounds}: {gained} of {edits} edits gained, {examples_right} of {n_tasks} tasks right on their examples"
                ));
                rounds.push(round);
            }
            if stopped_by.is_some() || round.examples_right == self.lines.len() {
                break;
            }
        }
        bar.finish_and_clear();
        let spent = Spent { usd: bank.budget.spent().known_usd, ..self.budget.spent };
        Ok(self.summary(rounds, spent, stopped_by))
    }

    /// Asks for edits of these tasks and keeps them. Says which budget ended it, if one did.
    fn play(
        &mut self,
        mut missing: Vec<usize>,
        round: &mut Round,
        context: &Context<'_>,
        tick: &dyn Fn(u64),
    ) -> Result<Option<&'static str>, Failure> {
        let n_edits = usize::from(self.args.edits);
        while !missing.is_empty() {
            let n = match self.budget.n_groups(n_edits, usize::from(self.args.concurrency)) {
                Ok(n) => n.min(missing.len()),
                Err(by) => return Ok(Some(by)),
            };
            let batch: Vec<usize> = missing.drain(..n).collect();
            let played = self.ask(&batch, round.round, context)?;
            let mut is_broke = played.len() < batch.len();
            for (nth, edits) in played {
                tick(edits.len() as u64);
                self.budget.take(&edits);
                is_broke |= edits.iter().any(|edit| has_error(edit, "policy_budget"));
                self.take(nth, &edits, round);
            }
            if is_broke {
                return Ok(Some("dollars"));
            }
        }
        Ok(None)
    }

    /// Samples edits of the best programs of these lines. All of them are durable when this returns.
    fn ask(&self, batch: &[usize], round: u64, context: &Context<'_>) -> Result<Vec<(usize, Vec<Edit>)>, Failure> {
        let mut places: BTreeMap<ScenarioId, usize> = BTreeMap::new();
        let mut scenarios: Vec<Scenario> = Vec::new();
        for &nth in batch {
            let line = &self.lines[nth];
            let scenario = self.world.arc.edit(&line.task, &line.program).map_err(Failure::user)?;
            places.insert(scenario.id.clone(), nth);
            scenarios.push(scenario);
        }
        let plan = self.plan(&scenarios, round, context);
        let mut played = Vec::new();
        let conflicts = keep::play(&self.world.world, self.player, &plan, context, |group: &mut Played| {
            let Some(&nth) = group.group.scenario.as_ref().and_then(|id| places.get(id)) else { return };
            let origin = self.lines[nth].origin(&self.args.run, round);
            group.traces.iter_mut().for_each(|trace| origin.note(trace));
            played.push((nth, group.traces.iter().cloned().filter_map(Edit::of).collect()));
        })?;
        match conflicts {
            0 => Ok(played),
            n => Err(Failure::user(format_args!("{n} records of the search `{}` are there with other content", self.args.run))
                .hint("give this one another name with --run")),
        }
    }

    fn plan<'b>(&self, scenarios: &'b [Scenario], round: u64, context: &Context<'_>) -> Plan<'b> {
        let number = round.to_string();
        Plan {
            run: RunId::derived(&["arc evolve", &self.args.run, &number]),
            tenant: context.settings.tenant.clone(),
            scenarios,
            n_samples: usize::from(self.args.edits),
            seed: Draws::new(self.args.seed, &["arc", "round", &number]).bits(),
            luck: Luck::Shared,
            limits: Limits { answer_tokens_max: self.args.max_tokens, ..Limits::default() },
            tokens_max: BTreeMap::new(),
            n_concurrent: usize::from(self.args.concurrency),
            timing: if self.is_script { Timing::Told(TOLD_START) } else { Timing::Real(&RealClock) },
        }
    }

    fn take(&mut self, nth: usize, edits: &[Edit], round: &mut Round) {
        round.edits += edits.len();
        round.gained += edits.iter().filter(|edit| edit.gain.is_some_and(|gain| gain > 0.0)).count();
        self.lines[nth].take(edits);
    }

    fn summary(&self, rounds: Vec<Round>, spent: Spent, stopped_by: Option<&'static str>) -> Summary {
        Summary {
            run: self.args.run.clone(),
            tasks: self.lines.len(),
            edits: rounds.iter().map(|round| round.edits).sum(),
            gained: rounds.iter().map(|round| round.gained).sum(),
            examples_right: self.lines.iter().filter(|line| line.is_right()).count(),
            solved: self.lines.iter().filter(|line| line.is_solved()).count(),
            rounds,
            spent,
            stopped_by,
        }
    }
}

fn has_error(edit: &Edit, kind: &str) -> bool {
    edit.trace.turns().flat_map(|turn| &turn.errors).any(|error| error.kind == kind)
}

impl Line {
    fn origin(&self, search: &str, round: u64) -> Origin {
        let (task, family) = (self.task.id.clone(), self.task.family.clone());
        Origin { search: search.to_owned(), round, task, family, from: self.program.clone() }
    }
}

impl Summary {
    fn print(&self, args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
        let printer = context.printer;
        if printer.wants_json() {
            printer.json(self)?;
        } else {
            let Self { run, tasks, edits, gained, examples_right, solved, spent, .. } = self;
            printer.plain(&format!(
                "{run}: {edits} edits of {tasks} tasks, {gained} gained; {examples_right} tasks right on their examples, {solved} of them solved"
            ))?;
            printer.say(&format!("{} calls, {} tokens, ${:.4}", spent.calls, spent.tokens, spent.usd));
            printer.say(&format!("next: hone data arc-edits --run {run} --tasks {} --out DIR", args.tasks.display()));
        }
        match self.stopped_by {
            Some(by) => {
                printer.complain(&format!("the budget of {by} ended the search; the same command with a larger one goes on"));
                Ok(Exit::No)
            }
            None => Ok(Exit::Yes),
        }
    }
}
