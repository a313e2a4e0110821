//! `hone reward score`: traces in the store get rewards by a recipe, group by group.

use super::standing;
use super::weigh::{Unscored, Weighed, weigh};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::printer::counted;
use crate::trace::Filter;
use hone_reward::Scorer;
use hone_trace::store::{Field, Store, TraceQuery};
use hone_trace::{GiverKind, GroupId, Trace, TraceId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tokio::runtime::Handle;

/// The largest `--limit`: all these traces are held in memory.
const LIMIT_MAX: u32 = 1_000_000;

/// Where a trace says in its metadata in which world it was recorded.
const ENV_KEY: &str = "env";

/// Weigh traces in the store by a recipe
///
/// Traces of one group are judged together. A ruler is shown all of a group, also what the filter leaves out of it, which keeps what it
/// has. A trace that cannot be scored keeps what it has, and the exit code is then 1; five are told with the reason, and `--json` has
/// all. Episodes that broke with their world or got no answer keep what they have too, and are counted. Scoring twice by the same recipe writes the same rewards once. A trace that a person reported on as a whole keeps that for its
/// reward, unless `--overrule` is given. A judge that `hone reward calibrate` refused is refused here too.
#[derive(Debug, clap::Args)]
// What `PolicyArgs::of_judge` says: the judge that is measured is the one that training hears.
#[command(mut_arg("temperature", |arg| arg.default_value("0")), mut_arg("context", |arg| arg.default_value("4096")))]
pub(crate) struct Args {
    /// A file with a recipe
    #[arg(long, value_name = "FILE", conflicts_with = "env")]
    recipe: Option<PathBuf>,
    /// A world, by whose recipe its own traces are weighed; variants and options of its name do not narrow them, but for edit=true,
    /// which makes another world of it
    #[arg(long, value_name = "WORLD")]
    env: Option<String>,
    /// Who judges, where the recipe asks for one: local:MODEL, PROVIDER:MODEL, URL#MODEL or script:FILE
    #[arg(long, value_name = "POLICY")]
    judge: Option<String>,
    /// Weigh also what a person reported on: the recipe has the last word then
    #[arg(long)]
    overrule: bool,
    /// The most traces that are taken, newest first; a group that would be cut is left out whole
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(LIMIT_MAX)))]
    limit: u32,
    /// Accept a judge that was refused, and a recipe that is unwise where that can be forced
    #[arg(long)]
    force: bool,
    /// The seed of orders and ids
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// What was weighed.
#[derive(Debug, Serialize)]
struct Summary {
    scored: usize,
    unscored: usize,
    /// All of those that were not scored, with the reasons.
    unscored_traces: Vec<Unscored>,
    /// Episodes in which the world broke or no answer came, which keep what they have.
    broken: usize,
    /// Traces that a person reported on, which keep that for their reward.
    reported: usize,
    /// How many more traces are meant than the limit lets in.
    left_out_by_limit: usize,
    /// The limit that lets in all of them.
    limit_for_all: usize,
    groups: usize,
    /// Traces that the filter leaves out, which a ruler was shown as the rest of their groups.
    beside: usize,
    /// Nothing where none was scored.
    mean_reward: Option<f64>,
    /// For each signal that some traces lack, how many these are.
    lacking: BTreeMap<String, usize>,
    judge_calls: u32,
    spent_usd: f64,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let world = super::world_of(args.env.as_deref(), context)?;
    let world = world.as_deref();
    let recipe = super::recipe(args.recipe.as_deref(), world, context)?;
    super::is_wise(&recipe, args.force)?;
    let bank = Bank::open(&args.policy)?;
    let ready = args.judge.as_ref().map(|name| Ready::named(name, &args.policy, 8, &bank, context)).transpose()?;
    let judge = match &ready {
        Some(ready) => Some(ready.policy().ok_or_else(|| Failure::user("gold, random and empty play, and cannot judge"))?),
        None => None,
    };
    if judge.is_some() && !recipe.needs_judge() {
        return Err(Failure::user("--judge has no effect: no component of the recipe asks for one"));
    }
    let scorer = Scorer::new(&recipe, judge).map_err(|error| Failure::user(error).hint("name one with --judge"))?;
    if let (Some(name), Some(judge)) = (&args.judge, judge) {
        standing::trust(name, judge.config().hash(), args.env.as_deref(), args.force, context)?;
    }
    let is_ranked = recipe.ruler().is_some();
    let chosen = context.wait(async |context| choose(args, world, is_ranked, context).await)?;
    let Chosen { groups, beside, reported, n_left_out } = chosen;
    say_who_is_not_weighed(&beside, &reported, context);
    if let Some(world) = world.filter(|_| groups.is_empty() && reported.is_empty() && n_left_out == 0) {
        context
            .printer
            .say(&format!("no trace that fits was recorded in the world `{world}`; --recipe FILE weighs those of anywhere"));
    }
    let groups: Vec<Vec<&Trace>> = groups.iter().map(|traces| traces.iter().collect()).collect();
    let kept: BTreeSet<TraceId> = beside.union(&reported).copied().collect();
    let Weighed { n_groups, n_scored, n_unscored, n_broken, unscored, n_judge_calls, total, lacking } =
        context.wait(async |context| {
            let (store, handle) = (context.store().await?, Handle::current());
            let keep = |writes| Ok(handle.block_on(store.put(writes))?);
            tokio::task::block_in_place(|| weigh(&scorer, &groups, &kept, args.seed, context.printer, keep))
        })?;
    let summary = Summary {
        scored: n_scored,
        unscored: n_unscored,
        unscored_traces: unscored,
        broken: n_broken,
        reported: reported.len(),
        left_out_by_limit: n_left_out,
        limit_for_all: n_scored + n_unscored + n_broken + reported.len() + n_left_out,
        groups: n_groups,
        beside: beside.len(),
        mean_reward: (n_scored > 0).then(|| total / n_scored as f64),
        lacking,
        judge_calls: n_judge_calls,
        spent_usd: bank.budget.spent().known_usd,
    };
    if context.printer.wants_json() {
        context.printer.json(&summary)?;
    } else {
        let Summary { scored, unscored, .. } = &summary;
        let groups = counted(summary.groups as u64, "group");
        let mean = summary.mean_reward.map_or_else(String::new, |mean| format!(", mean reward {mean:.3}"));
        let broken = if n_broken == 0 { String::new() } else { format!(", {n_broken} broke and get no reward") };
        let left_out = left_out(n_left_out, summary.limit_for_all);
        context.printer.plain(&format!("{scored} scored in {groups}{mean}, {unscored} not scored{broken}{left_out}"))?;
    }
    let is_in_vain = n_scored == 0 && n_broken > 0;
    Ok(if summary.unscored == 0 && !is_in_vain { Exit::Yes } else { Exit::No })
}

/// Says which traces keep what they have, and why.
fn say_who_is_not_weighed(beside: &BTreeSet<TraceId>, reported: &BTreeSet<TraceId>, context: &Context<'_>) {
    let traces = |ids: &BTreeSet<TraceId>| counted(ids.len() as u64, "trace");
    if !beside.is_empty() {
        let rest = traces(beside);
        context.printer.say(&format!("{rest} that the filter leaves out: judged as the rest of their groups, and not weighed"));
    }
    if !reported.is_empty() {
        let told = traces(reported);
        context
            .printer
            .say(&format!("{told} that a person reported on: what was said stays the reward; `--overrule` weighs them too"));
    }
}

/// What the limit left out and how to go on; nothing where it left out nothing.
fn left_out(n: usize, limit_for_all: usize) -> String {
    match n {
        0 => String::new(),
        _ if limit_for_all > LIMIT_MAX as usize => format!(", {n} left out by the limit: go on with `--since` and `--until`"),
        _ => format!(", {n} left out by the limit: `--limit {limit_for_all}` weighs all"),
    }
}

/// The traces that are weighed, those of a group together; a trace without a group is one of its own.
struct Chosen {
    groups: Vec<Vec<Trace>>,
    /// Those that are there to be compared with.
    beside: BTreeSet<TraceId>,
    /// Those that a person reported on; among the groups only where they are there to be compared with too.
    reported: BTreeSet<TraceId>,
    n_left_out: usize,
}

/// The newest traces that are meant, as many as the limit lets in; where they are ranked, with the rest of their groups.
async fn choose(args: &Args, world: Option<&str>, is_ranked: bool, context: &Context<'_>) -> Result<Chosen, Failure> {
    let (store, mut query) = (context.store_to_read().await?, args.filter.query(context));
    let all = TraceQuery { tenant: query.tenant.clone(), ..TraceQuery::default() };
    let is_filtered = query != all;
    // The store looks for one field: that of the user, and otherwise the world.
    let is_sifted = world.is_none() || query.field.is_none();
    if let (Some(world), None) = (world, &query.field) {
        query.field = Some(Field { path: format!("metadata.{ENV_KEY}"), value: world.to_owned() });
    }
    let is_meant = |trace: &Trace| world.is_none_or(|world| trace.metadata.get(ENV_KEY).is_some_and(|env| env == world));
    let (mut sieve, mut after, mut left) = (Sieve::default(), None, args.limit);
    loop {
        // Heads are small and say neither group nor world: they do where no group can be cut, and the store looks at the world.
        if left == 0 && is_sifted && sieve.by_group.is_empty() {
            let page = store.heads(&query, after, 1000).await?;
            page.items.iter().for_each(|_| sieve.leave(None));
            after = page.next;
        } else {
            let page = store.traces(&query, after, 1000).await?;
            for trace in page.items.into_iter().filter(is_meant) {
                if left == 0 {
                    sieve.leave(trace.group);
                } else {
                    left -= 1;
                    sieve.take(trace);
                }
            }
            after = page.next;
        }
        if after.is_none() {
            break;
        }
    }
    if is_ranked && is_filtered {
        complete(&mut sieve, &all, &*store).await?;
    }
    let chosen = sieve.chosen();
    Ok(if args.overrule { chosen } else { chosen.heeding(is_ranked) })
}

/// Adds what a filter left out of the groups that are weighed: the place of a trace in a part of its group says nothing of the whole.
async fn complete(sieve: &mut Sieve, all: &TraceQuery, store: &(impl Store + ?Sized)) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = store.traces(all, after, 1000).await?;
        page.items.into_iter().for_each(|trace| sieve.add(trace));
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Sorts traces into those that are weighed and those beyond the limit, which come later.
#[derive(Default)]
struct Sieve {
    by_group: BTreeMap<GroupId, Vec<Trace>>,
    alone: Vec<Vec<Trace>>,
    beside: BTreeSet<TraceId>,
    n_left_out: usize,
}

impl Sieve {
    fn take(&mut self, trace: Trace) {
        match trace.group {
            Some(group) => self.by_group.entry(group).or_default().push(trace),
            None => self.alone.push(vec![trace]),
        }
    }

    /// A trace beyond the limit takes its whole group with it: a part of a group would be judged as if it were all.
    fn leave(&mut self, group: Option<GroupId>) {
        let cut = group.and_then(|group| self.by_group.remove(&group)).unwrap_or_default();
        self.n_left_out += 1 + cut.len();
    }

    /// A trace that stands beside those of its group, where one of them is weighed. An episode that broke is compared with nothing.
    fn add(&mut self, trace: Trace) {
        let Some(traces) = trace.group.and_then(|group| self.by_group.get_mut(&group)) else { return };
        if trace.broken().is_none() && traces.iter().all(|known| known.id != trace.id) {
            self.beside.insert(trace.id);
            traces.push(trace);
        }
    }

    fn chosen(mut self) -> Chosen {
        self.by_group.values_mut().for_each(|traces| traces.sort_by_key(|trace| trace.id));
        let groups = self.by_group.into_values().chain(self.alone).collect();
        Chosen { groups, beside: self.beside, reported: BTreeSet::new(), n_left_out: self.n_left_out }
    }
}

impl Chosen {
    /// The same, but what a person reported on stays as it is: it is only there to be compared with, and that where there is a ranking.
    fn heeding(mut self, is_ranked: bool) -> Self {
        let Self { groups, beside, reported, .. } = &mut self;
        let told = groups.iter().flatten().filter(|trace| !beside.contains(&trace.id) && is_reported(trace));
        reported.extend(told.map(|trace| trace.id));
        if !is_ranked {
            groups.iter_mut().for_each(|traces| traces.retain(|trace| !reported.contains(&trace.id)));
        }
        groups.retain(|traces| traces.iter().any(|trace| !beside.contains(&trace.id) && !reported.contains(&trace.id)));
        let kept: BTreeSet<TraceId> = groups.iter().flatten().map(|trace| trace.id).collect();
        beside.retain(|id| kept.contains(id));
        self
    }
}

/// Whether a person said what the whole of a trace is worth.
fn is_reported(trace: &Trace) -> bool {
    trace.rewards.iter().any(|reward| reward.turn_idx.is_none() && reward.by.kind == GiverKind::Human)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Config, Giver, Reward, RewardId, Tenant, Time};

    /// Letters are groups, a dot is a trace without one; newest first.
    #[track_caller]
    fn check(traces: &str, limit: usize, sizes: &[usize], n_left_out: usize) {
        let mut sieve = Sieve::default();
        for (idx, letter) in traces.chars().enumerate() {
            let group = (letter != '.').then(|| GroupId::derived(&[&letter.to_string()]));
            let id = TraceId::derived(&[&idx.to_string()]);
            let trace = Trace::new(id, Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
            if idx < limit { sieve.take(Trace { group, ..trace }) } else { sieve.leave(group) }
        }
        let chosen = sieve.chosen();
        let mut found: Vec<usize> = chosen.groups.iter().map(Vec::len).collect();
        found.sort_unstable();
        assert_eq!((found.as_slice(), chosen.n_left_out), (sizes, n_left_out), "{traces} {limit}");
    }

    #[test]
    fn the_limit_never_cuts_through_a_group() {
        check("aaabbb", 6, &[3, 3], 0);
        check("aaabbb", 4, &[3], 3);
        check("aaabbb", 3, &[3], 3);
        check("ababab", 5, &[3], 3);
        check("a.bb.a", 4, &[1, 2], 3);
        check("aaaa", 3, &[], 4);
        check("....", 3, &[1, 1, 1], 1);
    }

    /// Capitals are traces that a person reported on, dots are there to be compared with; all are one group.
    #[track_caller]
    fn check_heeding(traces: &str, is_ranked: bool, n_judged: usize, n_reported: usize, n_beside: usize) {
        let by = Giver { kind: GiverKind::Human, name: "thumb".into(), config: None };
        let id = |idx: usize| TraceId::derived(&[&idx.to_string()]);
        let report = Reward::sum(RewardId::derived(&["r"]), Time::from_unix_nanos(0), by, vec![]);
        let trace = |(idx, letter): (usize, char)| Trace {
            rewards: if letter.is_uppercase() { vec![report.clone()] } else { vec![] },
            ..Trace::new(id(idx), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash())
        };
        let beside = traces.chars().enumerate().filter(|(_, letter)| *letter == '.').map(|(idx, _)| id(idx)).collect();
        let groups = vec![traces.chars().enumerate().map(trace).collect()];
        let chosen = Chosen { groups, beside, reported: BTreeSet::new(), n_left_out: 0 }.heeding(is_ranked);
        let found = (chosen.groups.iter().map(Vec::len).sum(), chosen.reported.len(), chosen.beside.len());
        assert_eq!(found, (n_judged, n_reported, n_beside), "{traces}");
    }

    #[test]
    fn what_a_person_reported_on_is_ranked_with_its_group_and_weighed_nowhere() {
        check_heeding("aaa", true, 3, 0, 0);
        check_heeding("aAa", true, 3, 1, 0);
        check_heeding("aAa.", true, 4, 1, 1);
        check_heeding("AA.", true, 0, 2, 0);
        check_heeding("aAa", false, 2, 1, 0);
        check_heeding("AA", false, 0, 2, 0);
    }

    #[test]
    fn what_the_limit_left_out_is_said_with_the_way_on() {
        assert_eq!(left_out(0, 10), "");
        assert_eq!(left_out(3, 10_003), ", 3 left out by the limit: `--limit 10003` weighs all");
        assert_eq!(left_out(3, 1_000_003), ", 3 left out by the limit: go on with `--since` and `--until`");
    }
}
