//! `hone reward score`: traces in the store get rewards by a recipe, group by group.

use super::standing;
use super::weigh::{Weighed, weigh};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::trace::Filter;
use hone_reward::lint::obstacle;
use hone_reward::{Scorer, lint};
use hone_trace::{GroupId, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Weigh traces in the store by a recipe
///
/// Traces of one group are judged together. A trace that cannot be scored is said with the reason and keeps what it has; the
/// exit code is then 1. Scoring twice by the same recipe writes the same rewards once. A judge that `hone reward calibrate`
/// refused is refused here too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file with a recipe
    #[arg(long, value_name = "FILE", conflicts_with = "env")]
    recipe: Option<PathBuf>,
    /// A world, by whose recipe is weighed
    #[arg(long, value_name = "WORLD")]
    env: Option<String>,
    /// Who judges, where the recipe asks for one: local:MODEL, PROVIDER:MODEL, URL#MODEL or script:FILE
    #[arg(long, value_name = "POLICY")]
    judge: Option<String>,
    /// The most traces that are weighed, newest first
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
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
    groups: usize,
    mean_reward: f64,
    /// For each signal that some traces lack, how many these are.
    lacking: BTreeMap<String, usize>,
    judge_calls: u32,
    spent_usd: f64,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let recipe = super::recipe(args.recipe.as_deref(), args.env.as_deref(), context)?;
    if let Some(finding) = obstacle(&lint(&recipe), args.force) {
        return Err(Failure::user(&finding.what).hint(format!("{}; or `--force`", finding.way_out)));
    }
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
    let groups = context.wait(async |context| groups(args, context).await)?;
    let groups: Vec<Vec<&Trace>> = groups.iter().map(|traces| traces.iter().collect()).collect();
    let keep = |writes| context.wait(async |context| Ok(context.store().await?.put(writes).await?));
    let Weighed { n_groups, n_scored, n_unscored, n_judge_calls, total, lacking } =
        weigh(&scorer, &groups, args.seed, context.printer, keep)?;
    let summary = Summary {
        scored: n_scored,
        unscored: n_unscored,
        groups: n_groups,
        mean_reward: if n_scored == 0 { 0.0 } else { total / n_scored as f64 },
        lacking,
        judge_calls: n_judge_calls,
        spent_usd: bank.budget.spent().known_usd,
    };
    if context.printer.wants_json() {
        context.printer.json(&summary)?;
    } else {
        let Summary { scored, unscored, groups, mean_reward, .. } = &summary;
        context
            .printer
            .plain(&format!("{scored} scored in {groups} groups, mean reward {mean_reward:.3}, {unscored} not scored"))?;
    }
    Ok(if summary.unscored == 0 { Exit::Yes } else { Exit::No })
}

/// The traces that are meant, those of a group together; a trace without a group is one of its own.
async fn groups(args: &Args, context: &Context<'_>) -> Result<Vec<Vec<Trace>>, Failure> {
    let (store, query) = (context.store_to_read().await?, args.filter.query(context));
    let mut by_group: BTreeMap<GroupId, Vec<Trace>> = BTreeMap::new();
    let (mut alone, mut after, mut left) = (Vec::new(), None, args.limit);
    while left > 0 {
        let page = store.traces(&query, after, left.min(1000)).await?;
        left -= u32::try_from(page.items.len()).unwrap_or(left).min(left);
        for trace in page.items {
            match trace.group {
                Some(group) => by_group.entry(group).or_default().push(trace),
                None => alone.push(vec![trace]),
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    by_group.values_mut().for_each(|traces| traces.sort_by_key(|trace| trace.id));
    Ok(by_group.into_values().chain(alone).collect())
}
