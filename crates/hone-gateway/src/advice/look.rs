//! A look at what is on the record: the episodes, the configs behind them, and which of these are in use.

use crate::{documents, registry};
use hone_advise::{Advice, Candidate, Cluster, Failures, N_TASKS_MIN, Row, Scope, advise, is_script, quality};
use hone_eval::Thrift;
use hone_trace::store::{Kind, Store, StoreError, TraceQuery};
use hone_trace::{AgentName, Category, Config, ConfigHash, Tenant, Time, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Traces that are read at once.
const N_PAGE: u32 = 1000;
/// Configs that are read though they have too few episodes to be compared: those with the most.
const N_RARE_MAX: usize = 100;

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Whose episodes.
    pub tenant: Tenant,
    /// Advise on what serves under this agent, and tell how its episodes fail, of whichever version.
    pub agent: Option<AgentName>,
    /// Advise on this config.
    pub from: Option<ConfigHash>,
    /// The reward that says how well an episode went; without, how it ended, and else its last reward.
    pub metric: Option<String>,
    /// This type of task alone.
    pub category: Option<Category>,
    /// What cost and time are worth against success.
    pub thrift: Thrift,
    /// Episodes that began at this time or later.
    pub since: Option<Time>,
    /// Episodes that began before this time.
    pub until: Option<Time>,
    /// The most episodes, the newest.
    pub n_max: u32,
    /// The most configs in use that are advised on, those with the most episodes.
    pub n_used_max: usize,
}

/// What was looked at.
#[derive(Debug, Default)]
pub struct Seen {
    /// Episodes that configs are compared by.
    pub rows: Vec<Row>,
    /// Those that failed, of the agent that was asked for.
    pub failures: Failures,
    /// Episodes of adapters on tasks that they may have learned from: they say nothing of how good these are.
    pub n_studied: usize,
    /// What is known of the configs.
    pub configs: BTreeMap<ConfigHash, Config>,
    /// Records that are damaged, and were passed by.
    pub n_damaged: usize,
    /// Those of configs among them, each with how many episodes were left out with it: nobody knows what such a config is, nor whether it has
    /// learned from these very tasks.
    pub lost: Vec<(StoreError, usize)>,
    /// When the newest episode began.
    pub newest: Option<Time>,
    /// Whether older episodes were left out.
    pub has_older: bool,
}

impl Seen {
    /// Whether there was nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.n_episodes() == 0 && self.failures.n() == 0
    }

    /// How many episodes were looked at.
    pub fn n_episodes(&self) -> usize {
        self.rows.len() + self.n_studied
    }

    /// The episodes of each config.
    pub fn by_config(&self) -> BTreeMap<ConfigHash, Vec<&Row>> {
        let mut configs: BTreeMap<ConfigHash, Vec<&Row>> = BTreeMap::new();
        self.rows.iter().for_each(|row| configs.entry(row.config).or_default().push(row));
        configs
    }
}

/// A version of an agent that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The agent.
    pub agent: AgentName,
    /// The version.
    pub version: String,
    /// Its config.
    pub config: ConfigHash,
}

/// Why a config is advised on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Used {
    /// It is this version of this agent, which serves.
    Serves(AgentName, String),
    /// It was asked for.
    Asked,
    /// No agent has episodes, and it has the most of those that no script answers under.
    Most,
}

/// A config in use, and what there is to say of it.
#[derive(Debug)]
pub struct Advised {
    /// Which.
    pub from: ConfigHash,
    /// Why it is one.
    pub used: Used,
    /// What there is to say.
    pub advice: Advice,
}

impl Advised {
    /// The other configs over all tasks: first those that could be compared, then those that could not, with the most tasks first. With
    /// how many the former are.
    pub fn beside(&self) -> (Vec<&Candidate>, usize) {
        let mut all: Vec<&Candidate> = self.advice.candidates.iter().filter(|one| one.scope == Scope::All).collect();
        all.sort_by_key(|one| match one.compared {
            Ok(_) => (false, Reverse(0)),
            Err(hone_advise::Unlike::OtherTasks { .. }) => (true, Reverse(usize::MAX)),
            Err(hone_advise::Unlike::TooFew { n_to, .. }) => (true, Reverse(n_to)),
        });
        let n_compared = all.iter().filter(|one| one.compared.is_ok()).count();
        (all, n_compared)
    }
}

/// What was found.
#[derive(Debug)]
pub struct Look {
    /// What was looked at.
    pub seen: Arc<Seen>,
    /// In which ways episodes failed, the most frequent first.
    pub clusters: Vec<Cluster>,
    /// What there is to say of the configs in use.
    pub advised: Vec<Advised>,
    /// Configs in use that there was no room for.
    pub n_more_used: usize,
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The tenant has no agent of this name that serves.
    #[error("there is no agent `{0}`")]
    NoAgent(AgentName),
    /// Nothing of this config was looked at.
    #[error("no episode of config {0} was looked at")]
    NoEpisode(ConfigHash),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Looks. `go_on` hears how many traces came with each read, and says whether there is time for more. What takes long to compute is computed
/// beside the threads that serve.
pub async fn look(
    store: &dyn Store,
    asked: &Asked,
    serving: &[Serving],
    go_on: impl FnMut(usize) -> bool,
) -> Result<Look, LookError> {
    let seen = Arc::new(see(store, asked, go_on).await?);
    let mut used = in_use(asked, &seen, serving)?;
    let n_more_used = used.len().saturating_sub(asked.n_used_max);
    if n_more_used > 0 {
        let by_config = seen.by_config();
        used.sort_by_key(|(config, _)| Reverse(by_config.get(config).map_or(0, Vec::len)));
        used.truncate(asked.n_used_max);
    }
    let (shared, thrift) = (Arc::clone(&seen), asked.thrift);
    let (clusters, advised) = aside(move || {
        let clusters = shared.failures.clusters();
        let on = |(from, used)| Advised { from, used, advice: advise(from, &shared.rows, &shared.configs, &thrift) };
        (clusters, used.into_iter().map(on).collect())
    })
    .await;
    Ok(Look { seen, clusters, advised, n_more_used })
}

/// Computes something on a thread that may take its time.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It cannot be called off, so it can only have panicked.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn see(store: &dyn Store, asked: &Asked, mut go_on: impl FnMut(usize) -> bool) -> Result<Seen, StoreError> {
    let query = TraceQuery {
        tenant: Some(asked.tenant.clone()),
        category: asked.category.clone(),
        since: asked.since,
        until: asked.until,
        ..TraceQuery::default()
    };
    let lens = Arc::new(Lens { metric: asked.metric.clone(), agent: of_agent(store, asked).await? });
    let (mut seen, mut after, mut left) = (Heap::default(), None, asked.n_max);
    while left > 0 {
        let (page, n_damaged) = documents::traces(store, &query, after, left.min(N_PAGE)).await?;
        let n_read = page.items.len() + n_damaged;
        let lens = Arc::clone(&lens);
        seen = aside(move || seen.with(&page.items, &lens, n_damaged)).await;
        left -= u32::try_from(n_read).unwrap_or(left).min(left);
        after = page.next;
        // A read of nothing must not be repeated for ever.
        if !go_on(n_read) || after.is_none() || n_read == 0 {
            break;
        }
    }
    let (mut configs, mut lost) = (BTreeMap::new(), Vec::new());
    for config in seen.wanted() {
        let document = store.document(Kind::Config, &config.to_string()).await;
        match document.and_then(|document| document.map(|document| document.word::<Config>()).transpose()) {
            Ok(found) => configs.extend(found.map(|found| (config, found))),
            Err(error @ StoreError::Damaged { .. }) => {
                let n_before = seen.rows.len();
                seen.rows.retain(|(row, _)| row.config != config);
                lost.push((error, n_before - seen.rows.len()));
            }
            Err(error) => return Err(error),
        }
    }
    let n_damaged = seen.n_damaged + lost.len();
    let n_seen = seen.rows.len();
    let learned = |row: &Row| configs.get(&row.config).is_some_and(|config: &Config| config.adapter.is_some());
    let rows: Vec<Row> =
        seen.rows.into_iter().filter(|(row, is_study)| !(*is_study && learned(row))).map(|(row, _)| row).collect();
    let (n_studied, failures) = (n_seen - rows.len(), seen.failures);
    let newest = rows.iter().map(|row| row.at).max();
    let has_older = match after {
        Some(_) => !matches!(store.heads(&query, after, 1).await, Ok(page) if page.items.is_empty()),
        None => false,
    };
    Ok(Seen { rows, failures, n_studied, configs, n_damaged, lost, newest, has_older })
}

/// What episodes are looked at by.
struct Lens {
    metric: Option<String>,
    /// The configs whose failures are told, where not all are.
    agent: Option<BTreeSet<ConfigHash>>,
}

/// The configs of all versions of the agent that was asked for.
async fn of_agent(store: &dyn Store, asked: &Asked) -> Result<Option<BTreeSet<ConfigHash>>, StoreError> {
    let Some(agent) = &asked.agent else { return Ok(None) };
    let entries = registry::agents(store).await?.sound.into_iter();
    let meant = entries.filter(|entry| entry.tenant == asked.tenant && entry.name == *agent);
    Ok(Some(meant.flat_map(|entry| entry.versions).map(|version| version.config).collect()))
}

/// What was seen so far, each episode with whether an adapter may have learned from its task.
#[derive(Default)]
struct Heap {
    rows: Vec<(Row, bool)>,
    failures: Failures,
    n_damaged: usize,
}

impl Heap {
    fn with(mut self, traces: &[Trace], lens: &Lens, n_damaged: usize) -> Self {
        let metric = lens.metric.as_deref();
        for trace in traces {
            if lens.agent.as_ref().is_none_or(|configs| configs.contains(&trace.config)) {
                self.failures.see(trace, quality(trace, metric));
            }
            self.rows.push((Row::of(trace, metric), is_study(trace)));
        }
        self.n_damaged += n_damaged;
        self
    }

    /// The configs to read: those that may be compared, those that may have learned from their tasks, and some of the others.
    fn wanted(&self) -> Vec<ConfigHash> {
        let mut counts: BTreeMap<ConfigHash, (usize, bool)> = BTreeMap::new();
        for (row, is_study) in &self.rows {
            let (n, studies) = counts.entry(row.config).or_default();
            *n += 1;
            *studies |= is_study;
        }
        let is_needed = |n: usize, studies: bool| studies || n >= N_TASKS_MIN;
        let (needed, mut rare): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, (n, studies))| is_needed(*n, *studies));
        rare.sort_by_key(|(_, (n, _))| Reverse(*n));
        needed.into_iter().chain(rare.into_iter().take(N_RARE_MAX)).map(|(config, _)| config).collect()
    }
}

/// Whether an adapter may have learned from the task of a trace.
fn is_study(trace: &Trace) -> bool {
    trace.metadata.get("split").is_some_and(|split| split == "train")
}

/// The versions of agents of a tenant that serve, as the log of agents says.
pub async fn serving(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Serving>, StoreError> {
    let (fleet, _) = registry::history(store).await?;
    let ours = registry::agents(store).await?.sound.into_iter().filter(|entry| entry.tenant == *tenant);
    let serving = ours.filter_map(|entry| {
        let live = registry::live(&entry, &fleet);
        let version = entry.versions.iter().find(|version| version.version == live)?;
        Some(Serving { agent: entry.name.clone(), version: version.version.clone(), config: version.config })
    });
    Ok(serving.collect())
}

/// The configs that are in use, and why each is one.
fn in_use(asked: &Asked, seen: &Seen, serving: &[Serving]) -> Result<Vec<(ConfigHash, Used)>, LookError> {
    let by_config = seen.by_config();
    let has_rows = |config: &ConfigHash| by_config.contains_key(config);
    if let Some(from) = asked.from {
        return if has_rows(&from) { Ok(vec![(from, Used::Asked)]) } else { Err(LookError::NoEpisode(from)) };
    }
    let is_wanted = |one: &&Serving| match &asked.agent {
        Some(agent) => one.agent == *agent,
        None => has_rows(&one.config),
    };
    let used = |one: &Serving| (one.config, Used::Serves(one.agent.clone(), one.version.clone()));
    let found: Vec<_> = serving.iter().filter(is_wanted).map(used).collect();
    match &asked.agent {
        Some(agent) if found.is_empty() => return Err(LookError::NoAgent(agent.clone())),
        _ if !found.is_empty() => return Ok(found),
        _ => {}
    }
    let is_served = |config: &ConfigHash| !seen.configs.get(config).is_some_and(is_script);
    let most = by_config.into_iter().max_by_key(|(config, rows)| (is_served(config), rows.len()));
    Ok(most.map(|(config, _)| (config, Used::Most)).into_iter().collect())
}
