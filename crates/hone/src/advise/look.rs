//! A look at what is on the record: the episodes, the configs behind them, and which of these are in use.

use super::{record, show};
use crate::context::Context;
use crate::deploy::live;
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use hone_advise::{Advice, Failures, Row, advise, quality};
use hone_gateway::registry;
use hone_store::Database;
use hone_trace::store::{Kind, StoreError, TraceQuery};
use hone_trace::{AgentName, Category, Config, ConfigHash, Time, Trace};
use std::collections::BTreeMap;

/// Traces that are read at once.
const N_PAGE: u32 = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct LookArgs {
    /// Advise on what serves under this agent; without this, on every agent, or where there is none on the config with the most episodes
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Advise on this config
    #[arg(long, value_name = "HASH", conflicts_with = "agent")]
    from: Option<ConfigHash>,
    /// What says how well an episode went, such as a metric_name of feedback; without this, how it ended, and else its last reward
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Look at this type of task alone
    #[arg(long)]
    category: Option<Category>,
    /// Look at episodes that began at this time or later, such as 2026-03-14 or 2026-03-14T15:09:26Z
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Look at episodes that began before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// The most episodes that are looked at, the newest
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Ways to fail that are shown, the most frequent; --json has all
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    top: u32,
}

/// What was looked at.
pub(super) struct Seen {
    /// Episodes that configs are compared by.
    pub(super) rows: Vec<Row>,
    pub(super) failures: Failures,
    /// Episodes of adapters on tasks that they may have learned from: they say nothing of how good these are.
    pub(super) n_studied: usize,
    pub(super) configs: BTreeMap<ConfigHash, Config>,
}

/// Why a config is advised on.
pub(super) enum Used {
    /// It is this version of this agent, which serves.
    Serves(AgentName, String),
    /// It was asked for.
    Asked,
    /// No agent has episodes, and it has the most.
    Most,
}

/// A config in use, and what there is to say of it.
pub(super) struct Advised {
    pub(super) from: ConfigHash,
    pub(super) used: Used,
    pub(super) advice: Advice,
}

pub(super) async fn run(args: &LookArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let seen = see(args, &store, context).await?;
    if seen.rows.is_empty() && seen.failures.n() == 0 {
        let none = Failure::user("there are no episodes to look at");
        return Err(none.hint("import some with `hone trace import FILE`, or ask with other options"));
    }
    let used = in_use(args, &seen, &store, context).await?;
    let advised: Vec<Advised> =
        used.into_iter().map(|(from, used)| Advised { from, used, advice: advise(from, &seen.rows, &seen.configs) }).collect();
    let given = record::keep(&advised, &seen.rows, &store, context).await?;
    show::tell(&seen, &advised, &given, args.top as usize, context)?;
    let has_outcomes = seen.rows.iter().any(|row| row.quality.is_some());
    Ok(if has_outcomes { Exit::Yes } else { Exit::No })
}

async fn see(args: &LookArgs, store: &std::sync::Arc<dyn Database>, context: &Context<'_>) -> Result<Seen, Failure> {
    let query = TraceQuery {
        tenant: Some(context.settings.tenant.clone()),
        category: args.category.clone(),
        since: args.since,
        until: args.until,
        ..TraceQuery::default()
    };
    let metric = args.metric.as_deref();
    let (mut all, mut failures): (Vec<(Row, bool)>, Failures) = (Vec::new(), Failures::default());
    let (mut after, mut left) = (None, args.limit);
    let bar = context.printer.count_bar("traces");
    while left > 0 {
        let page = store.traces(&query, after, left.min(N_PAGE)).await?;
        for trace in &page.items {
            failures.see(trace, quality(trace, metric));
            all.push((Row::of(trace, metric), is_study(trace)));
        }
        bar.inc(page.items.len() as u64);
        left -= u32::try_from(page.items.len()).unwrap_or(left).min(left);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    let (mut configs, mut damaged) = (BTreeMap::new(), BTreeMap::new());
    for (row, _) in &all {
        if !configs.contains_key(&row.config) && !damaged.contains_key(&row.config) {
            let document = store.document(Kind::Config, &row.config.to_string()).await;
            match document.and_then(|document| document.map(|document| document.word::<Config>()).transpose()) {
                Ok(config) => configs.extend(config.map(|config| (row.config, config))),
                Err(error @ StoreError::Damaged { .. }) => drop(damaged.entry(row.config).or_insert(error)),
                Err(error) => return Err(error.into()),
            }
        }
    }
    // Nobody knows what such a config is, nor whether it has learned from these very tasks.
    for (config, error) in &damaged {
        let n_episodes = all.iter().filter(|(row, _)| row.config == *config).count() as u64;
        context.printer.complain(&format!("{error}; left out with it: {}", counted(n_episodes, "episode")));
    }
    all.retain(|(row, _)| !damaged.contains_key(&row.config));
    let n_seen = all.len();
    let learned = |row: &Row| configs.get(&row.config).is_some_and(|config| config.adapter.is_some());
    let rows: Vec<Row> = all.into_iter().filter(|(row, is_study)| !(*is_study && learned(row))).map(|(row, _)| row).collect();
    Ok(Seen { n_studied: n_seen - rows.len(), rows, failures, configs })
}

/// Whether an adapter may have learned from the task of a trace.
fn is_study(trace: &Trace) -> bool {
    trace.metadata.get("split").is_some_and(|split| split == "train")
}

/// The configs that are in use, and why each is one.
async fn in_use(
    args: &LookArgs,
    seen: &Seen,
    store: &std::sync::Arc<dyn Database>,
    context: &Context<'_>,
) -> Result<Vec<(ConfigHash, Used)>, Failure> {
    let has_rows = |config: &ConfigHash| seen.rows.iter().any(|row| row.config == *config);
    if let Some(from) = args.from {
        return match has_rows(&from) {
            true => Ok(vec![(from, Used::Asked)]),
            false => Err(Failure::user(format_args!("no episode of config {from} was looked at"))
                .hint("`hone trace list --json` names the config of each episode")),
        };
    }
    let entries = registry::agents(&**store).await?;
    let ours = entries.sound.into_iter().filter(|entry| entry.tenant == context.settings.tenant);
    let wanted: Vec<_> = ours.filter(|entry| args.agent.as_ref().is_none_or(|agent| entry.name == *agent)).collect();
    if let (Some(agent), true) = (&args.agent, wanted.is_empty()) {
        return Err(Failure::user(format_args!("there is no agent `{agent}`")).hint("`hone deploy status` names all"));
    }
    let (fleet, _) = registry::history(&**store).await?;
    let serving = wanted.iter().filter_map(|entry| {
        let version = entry.versions.iter().find(|version| version.version == live(entry, &fleet))?;
        Some((version.config, Used::Serves(entry.name.clone(), version.version.clone())))
    });
    let found: Vec<_> = serving.filter(|(config, _)| args.agent.is_some() || has_rows(config)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut counts: BTreeMap<ConfigHash, usize> = BTreeMap::new();
    seen.rows.iter().for_each(|row| *counts.entry(row.config).or_default() += 1);
    Ok(counts.into_iter().max_by_key(|(_, n)| *n).map(|(config, _)| (config, Used::Most)).into_iter().collect())
}
