//! The search itself: round by round, what the store has already is taken from there, and what is missing is asked for.

use super::budget::{Budget, Spent};
use super::line::Line;
use super::{Args, Round, Summary};
use crate::clock::RealClock;
use crate::context::Context;
use crate::cost::Forecast;
use crate::env::arc::edits::{self, Edit, Origin, Setup};
use crate::env::arc::read_programs;
use crate::failure::Failure;
use crate::gym::Broken;
use crate::policy::Bank;
use crate::printer::counted;
use crate::rollout::keep;
use crate::world::World;
use hone_arc::augment::Augmentation;
use hone_arc::shipped;
use hone_arc::task::Task;
use hone_arc::world::{ArcOptions, ArcWorld, damaged};
use hone_env::Player;
use hone_env::rollout::{Limits, Luck, Plan, Played, Timing};
use hone_reward::Recipe;
use hone_trace::env::Split;
use hone_trace::policy::PolicyErrorKind;
use hone_trace::{ConfigHash, Draws, RunId, Scenario, ScenarioId, Time, Trace};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The world of edits: one program an episode, weighed by what it gains.
pub(super) struct Edits {
    pub(super) arc: Arc<ArcWorld>,
    pub(super) world: World,
}

pub(super) fn world(args: &Args, context: &Context<'_>) -> Result<Edits, Failure> {
    let options = ArcOptions { turns_max: 1, ..ArcOptions::new(args.tasks.clone()) };
    let arc = Arc::new(ArcWorld::editing(options).map_err(Failure::user)?);
    let name = "arc-edit";
    let recipe = context.settings.rewards.get(name).cloned().or_else(|| Recipe::for_world(name));
    let recipe = recipe.ok_or_else(|| Failure::bug("the world of edits has no recipe"))?;
    let (env, own_recipe) = (Arc::clone(&arc) as Arc<_>, recipe.clone());
    let world = World { name: name.into(), env, recipe, own_recipe, replay: None };
    Ok(Edits { arc, world })
}

/// A search under way.
pub(super) struct Search<'a> {
    pub(super) args: &'a Args,
    pub(super) player: Player<'a>,
    pub(super) is_script: bool,
    pub(super) budget: Budget,
    pub(super) lines: Vec<Line>,
    pub(super) world: Edits,
    pub(super) forecast: Option<Forecast>,
    pub(super) setup: Setup,
    /// Edits that ended without an answer, with the first reason.
    pub(super) unanswered: Option<Broken>,
}

/// Edits of a line that are to be asked for in a round.
struct Missing {
    nth: usize,
    /// Those that were answered before.
    known: Vec<Edit>,
    /// Traces that the store has of them, answered or not: new ones are named after them.
    n_stored: usize,
}

/// What came of asking.
#[derive(Default)]
struct Asked {
    /// The lines with their new edits.
    edits: Vec<(usize, Vec<Edit>)>,
    /// Whether the money did not suffice for all.
    is_broke: bool,
    unanswered: Vec<Trace>,
}

pub(super) fn setup(args: &Args, recipe: &Recipe) -> Result<Setup, Failure> {
    let start = args.start.as_deref().map(read_programs).transpose()?;
    let start = start.map(|source| ConfigHash::of(source.as_bytes()).to_string());
    let (max_tokens, recipe) = (Some(args.max_tokens), Some(recipe.hash().to_string()));
    Ok(Setup { seed: args.seed, mistakes: args.mistakes, edits: args.edits, start, max_tokens, recipe })
}

/// The edits that the store has, by round and task.
pub(super) type Known = BTreeMap<(u64, String), Vec<Edit>>;

impl Search<'_> {
    /// The tasks that are searched, each with the program it starts from.
    pub(super) fn begin(&self, context: &Context<'_>) -> Result<Vec<Line>, Failure> {
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
    pub(super) fn known(&self, context: &Context<'_>) -> Result<Known, Failure> {
        let edits = context.wait(async |context| {
            let store = context.store().await?;
            edits::read(&*store, &context.settings.tenant, Some(&self.args.run)).await
        })?;
        let config: ConfigHash = self.player.config().hash();
        if edits.iter().any(|edit| edit.trace.config != config) {
            let text = format!("the search `{}` was made by another policy than {}", self.args.run, self.args.policy);
            return Err(Failure::user(text).hint("give this one another name with --run"));
        }
        let others = edits.iter().filter_map(|edit| edit.origin.setup.as_ref());
        if let Some(differ) = others.map(|other| self.setup.differing(other)).find(|differ| !differ.is_empty()) {
            let text = format!("the search `{}` was made with {}", self.args.run, differ.join(" and "));
            return Err(Failure::user(text).hint("ask for the same again, or give this one another name with --run"));
        }
        self.compare(&edits, context)?;
        let mut known = Known::new();
        for edit in edits {
            known.entry((edit.origin.round, edit.origin.task.clone())).or_default().push(edit);
        }
        Ok(known)
    }

    /// Refuses to go on where a task is another than it was under the same name, and says what else differs from how the search was made
    /// before: edits of other tasks stay as they are, and what was weighed stays weighed.
    fn compare(&self, edits: &[Edit], context: &Context<'_>) -> Result<(), Failure> {
        let (run, printer) = (&self.args.run, context.printer);
        let tasks: BTreeMap<&str, String> =
            self.lines.iter().map(|line| (line.task.id.as_str(), edits::pairs_of(&line.task))).collect();
        let mut others = BTreeSet::new();
        for Origin { task, pairs, .. } in edits.iter().map(|edit| &edit.origin) {
            match (tasks.get(task.as_str()), pairs) {
                (None, _) => drop(others.insert(task)),
                (Some(now), Some(then)) if now != then => {
                    let text = format!("task {task} had other pairs when the search `{run}` was made");
                    return Err(Failure::user(text).hint("give this one another name with --run"));
                }
                _ => {}
            }
        }
        if !others.is_empty() {
            let n = counted(others.len() as u64, "task");
            printer.say(&format!("`{run}` has edits of {n} that this command does not search: they stay as they are"));
        }
        let recipes = edits.iter().filter_map(|edit| edit.origin.setup.as_ref()?.recipe.as_ref());
        if recipes.into_iter().any(|recipe| Some(recipe) != self.setup.recipe.as_ref()) {
            printer.complain(&format!("edits of `{run}` were weighed by another recipe before, and stay so"));
        }
        Ok(())
    }

    /// Plays the rounds.
    pub(super) fn run(&mut self, mut known: Known, bank: &Bank, context: &Context<'_>) -> Result<Summary, Failure> {
        let mut rounds = Vec::new();
        let mut stopped_by = None;
        let bar = context.printer.count_bar("edits");
        for number in 1..=u64::from(self.args.rounds) {
            let mut round = Round { round: number, ..Round::default() };
            let open: Vec<usize> = (0..self.lines.len()).filter(|&nth| !self.lines[nth].is_right()).collect();
            let mut missing = Vec::new();
            for nth in open {
                let mut known = known.remove(&(number, self.lines[nth].task.id.clone())).unwrap_or_default();
                let n_stored = known.len();
                known.retain(|edit| edit.trace.broken().is_none());
                round.known += known.len();
                if known.len() < usize::from(self.args.edits) {
                    self.lines[nth].begin_with(&known);
                    missing.push(Missing { nth, known, n_stored });
                } else {
                    self.take(nth, &known, &mut round);
                }
            }
            let n_unanswered = self.n_unanswered();
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
            // Where nothing is answered any more, the next round would be asked in vain too.
            let is_in_vain = self.n_unanswered() > n_unanswered && round.edits == round.known;
            if stopped_by.is_some() || is_in_vain || round.examples_right == self.lines.len() {
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
        missing: Vec<Missing>,
        round: &mut Round,
        context: &Context<'_>,
        tick: &dyn Fn(u64),
    ) -> Result<Option<&'static str>, Failure> {
        // A plan asks for equally many edits of each task; mostly that is all of them.
        let mut alike: BTreeMap<(usize, usize), Vec<Missing>> = BTreeMap::new();
        for one in missing {
            alike.entry((one.n_stored, one.known.len())).or_default().push(one);
        }
        while let Some(((n_stored, n_known), mut missing)) = alike.pop_first() {
            let n_edits = usize::from(self.args.edits) - n_known;
            while !missing.is_empty() {
                let n = match self.budget.n_groups(n_edits, usize::from(self.args.concurrency)) {
                    Ok(n) => n.min(missing.len()),
                    Err(by) => {
                        self.leave(missing.into_iter().chain(alike.into_values().flatten()), round);
                        return Ok(Some(by));
                    }
                };
                let batch: Vec<Missing> = missing.drain(..n).collect();
                let numbers: Vec<usize> = batch.iter().map(|one| one.nth).collect();
                let asked = self.ask(&numbers, round.round, Part { n_edits, n_stored }, context)?;
                if self.see(asked, batch, round, context, tick) {
                    self.leave(missing.into_iter().chain(alike.into_values().flatten()), round);
                    return Ok(Some("dollars"));
                }
            }
        }
        Ok(None)
    }

    /// Goes on without the edits that no budget is left for.
    fn leave(&mut self, missing: impl Iterator<Item = Missing>, round: &mut Round) {
        missing.for_each(|one| self.take(one.nth, &one.known, round));
    }

    /// Takes in what was asked for; whether the money is spent.
    fn see(&mut self, asked: Asked, batch: Vec<Missing>, round: &mut Round, context: &Context<'_>, tick: &dyn Fn(u64)) -> bool {
        let mut fresh: BTreeMap<usize, Vec<Edit>> = asked.edits.into_iter().collect();
        self.budget.take_vain(&asked.unanswered);
        if let Some(Broken { n, why }) = Broken::among(&asked.unanswered) {
            self.unanswered.get_or_insert(Broken { n: 0, why }).n += n;
        }
        for Missing { nth, mut known, .. } in batch {
            let edits = fresh.remove(&nth).unwrap_or_default();
            tick(edits.len() as u64);
            self.budget.take(&edits);
            if let Some(forecast) = &mut self.forecast {
                forecast.group(edits.iter().map(|edit| &edit.trace), context.printer);
            }
            known.extend(edits);
            self.take(nth, &known, round);
        }
        asked.is_broke
    }

    fn n_unanswered(&self) -> usize {
        self.unanswered.as_ref().map_or(0, |unanswered| unanswered.n)
    }

    /// Samples edits of the best programs of these lines. All of them are durable when this returns. Those without an answer are not
    /// kept, and are asked for again by the next command; a group that the money did not suffice for is so whole.
    fn ask(&self, batch: &[usize], round: u64, part: Part, context: &Context<'_>) -> Result<Asked, Failure> {
        let mut places: BTreeMap<ScenarioId, usize> = BTreeMap::new();
        let mut scenarios: Vec<Scenario> = Vec::new();
        for &nth in batch {
            let line = &self.lines[nth];
            let scenario = self.world.arc.edit(&line.task, &line.program).map_err(Failure::user)?;
            places.insert(scenario.id.clone(), nth);
            scenarios.push(scenario);
        }
        let plan = self.plan(&scenarios, round, part, context);
        let mut asked = Asked::default();
        let mut n_groups = 0;
        let conflicts = keep::play(&self.world.world, self.player, &plan, context, |group: &mut Played, _| {
            let Some(&nth) = group.group.scenario.as_ref().and_then(|id| places.get(id)) else { return };
            n_groups += 1;
            if group.traces.iter().any(is_cut_off) {
                asked.is_broke = true;
                group.traces.clear();
                return;
            }
            asked.unanswered.extend(group.traces.extract_if(.., |trace| trace.broken().is_some()));
            group.group.traces = group.traces.iter().map(|trace| trace.id).collect();
            let origin = self.lines[nth].origin(&self.args.run, round, &self.setup);
            group.traces.iter_mut().for_each(|trace| origin.note(trace));
            asked.edits.push((nth, group.traces.iter().cloned().filter_map(Edit::of).collect()));
        })?;
        asked.is_broke |= n_groups < batch.len();
        match conflicts {
            0 => Ok(asked),
            n => Err(Failure::user(format_args!("{n} records of the search `{}` are there with other content", self.args.run))
                .hint("give this one another name with --run")),
        }
    }

    pub(super) fn plan<'b>(&self, scenarios: &'b [Scenario], round: u64, part: Part, context: &Context<'_>) -> Plan<'b> {
        // What is asked for again has names and dice of its own.
        let number = if part.n_stored == 0 { round.to_string() } else { format!("{round} after {}", part.n_stored) };
        Plan {
            run: RunId::derived(&["arc evolve", &self.args.run, &number]),
            tenant: context.settings.tenant.clone(),
            scenarios,
            split: Split::ALL.into_iter().find(|split| split.as_str() == self.args.split),
            n_samples: part.n_edits,
            seed: Draws::new(self.args.seed, &["arc", "round", &number]).bits(),
            luck: Luck::Shared,
            limits: Limits { answer_tokens_max: self.args.max_tokens, ..Limits::default() },
            tokens_max: BTreeMap::new(),
            n_concurrent: usize::from(self.args.concurrency),
            timing: if self.is_script { Timing::Told(Time::TOLD) } else { Timing::Real(&RealClock) },
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
            projection: self.forecast.as_ref().map(Forecast::projected),
            stopped_by,
            unanswered: self.n_unanswered(),
            why_unanswered: self.unanswered.as_ref().map(|unanswered| unanswered.why.clone()),
        }
    }
}

/// Edits of one task that are asked for together.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) n_edits: usize,
    /// Traces that the store has of the round already.
    pub(super) n_stored: usize,
}

/// Whether the money did not suffice for a trace.
fn is_cut_off(trace: &Trace) -> bool {
    trace.turns().flat_map(|turn| &turn.errors).any(|error| error.kind == PolicyErrorKind::Budget.as_str())
}

impl Line {
    fn origin(&self, search: &str, round: u64, setup: &Setup) -> Origin {
        let (task, family, pairs) = (self.task.id.clone(), self.task.family.clone(), Some(edits::pairs_of(&self.task)));
        Origin { search: search.to_owned(), round, task, family, from: self.program.clone(), setup: Some(setup.clone()), pairs }
    }
}
