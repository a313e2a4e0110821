//! The record of what was answered: every call is a turn of a trace, durable before the end of its answer is sent.
//!
//! The first call of an episode writes its trace, every later one appends a turn: what was said since, and the answer. Calls of one
//! episode are written one after the other. When a conversation does not go on where the episode stood, because the client has rewritten
//! it, a new segment begins with the whole of it.

use crate::episode::{Digest, Episode, Episodes, digest};
use crate::feedback::answered_in;
use crate::lookout::STREAM;
use crate::otlp;
use hone_arbiter::log::Assigned;
use hone_trace::store::{Document, Event, Put, Store, StoreError, Write};
use hone_trace::{
    Category, Config, ConfigHash, Draws, EventId, Message, NextTurn, Segment, TURNS_MAX, Tenant, Time, ToolSpec, Trace, TraceId,
    Turn, V1,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Open episodes that are remembered.
const N_EPISODES_MAX: usize = 100_000;
/// Configs that are known to be on the record.
const N_CONFIGS_MAX: usize = 10_000;
/// How long that is relied on. A store may have lost a config without anything that tells: then it is there again with the next call.
const CONFIG_KNOWN_NS: u64 = 1_000_000_000;
/// Other servers of the same store may have written the next turn first; so often the place is looked up again. The longest pause before
/// that is in milliseconds: servers that keep getting in each other's way take turns by it.
const N_TRIES: u64 = 100;
const PAUSE_MS_MAX: u64 = 50;

/// A call that was answered, or failed.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) tenant: Tenant,
    pub(crate) episode: Joined,
    pub(crate) config: Config,
    pub(crate) config_hash: ConfigHash,
    /// The whole conversation as the client sent it, and what it says.
    pub(crate) said: Vec<Digest>,
    /// What was answered besides, where several answers were asked for.
    pub(crate) others: Vec<Digest>,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<ToolSpec>,
    /// The turn, but for its input.
    pub(crate) turn: Turn,
    /// Whether its tokens do not extend those of the turn before.
    pub(crate) is_new_segment: bool,
    pub(crate) ended: Time,
    /// Facts of an episode that begins with this call.
    pub(crate) category: Option<Category>,
    pub(crate) metadata: Map<String, Value>,
    /// The version of an agent that answered, where one did, and what the log of agents is told when the episode begins with this call.
    pub(crate) assigned: Option<Arc<Assigned>>,
    pub(crate) answered: Option<Event>,
}

/// The episode that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// One that begins with it, under an id that nobody has seen before.
    New(TraceId),
    /// One that the client named, or that its conversation goes on with.
    Named(TraceId),
}

impl Joined {
    pub(crate) fn trace(self) -> TraceId {
        match self {
            Self::New(trace) | Self::Named(trace) => trace,
        }
    }
}

/// Why a call is not on the record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotKept {
    /// Its episode is another tenant's.
    #[error("there is no such episode")]
    Foreign,
    /// Its episode is as long as one can be.
    #[error("the episode has {TURNS_MAX} turns: begin a new one")]
    Full,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The record.
pub(crate) struct Record {
    store: Arc<dyn Store>,
    episodes: Mutex<Episodes>,
    /// Who writes to an episode now. An entry lives as long as somebody does.
    writing: Mutex<HashMap<TraceId, Arc<tokio::sync::Mutex<()>>>>,
    /// Configs that are on the record, and since when that is known.
    configs: Mutex<HashMap<ConfigHash, Time>>,
    lost: Mutex<Option<Lost>>,
    begun: Arc<Mutex<HashMap<TraceId, Tenant>>>,
}

/// An episode whose first call is underway: who names it by its id means it, though it is not on the record yet.
pub(crate) struct Begun {
    trace: TraceId,
    all: Arc<Mutex<HashMap<TraceId, Tenant>>>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.trace);
    }
}

/// Calls that the store did not take, and that it does not know of yet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lost {
    n: u64,
    /// The last of them.
    at: Time,
}

impl Record {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let episodes = Mutex::new(Episodes::new(N_EPISODES_MAX));
        Self {
            store,
            episodes,
            writing: Mutex::default(),
            configs: Mutex::default(),
            lost: Mutex::default(),
            begun: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// An episode begins with a call that is now underway.
    pub(crate) fn begin(&self, tenant: &Tenant, trace: TraceId) -> Begun {
        lock(&self.begun).insert(trace, tenant.clone());
        Begun { trace, all: Arc::clone(&self.begun) }
    }

    /// The episode that a client means by a name: one that has this id, or else the one that it calls so. A name in the form of an id is
    /// as good as any: the same one means something else to every tenant.
    pub(crate) async fn named(&self, tenant: &Tenant, name: &str) -> Result<TraceId, StoreError> {
        let called = called(tenant, name);
        let Ok(id) = name.parse() else { return Ok(called) };
        let is_begun = || lock(&self.begun).get(&id) == Some(tenant);
        let is_open = |trace| lock(&self.episodes).get(tenant, trace).is_some();
        let has_id = is_open(id) || is_begun() || !is_open(called) && self.store.trace(id).await?.is_some();
        Ok(if has_id { id } else { called })
    }

    /// The version of an agent that has answered an episode so far, where one has.
    pub(crate) async fn assigned(&self, tenant: &Tenant, episode: Joined) -> Result<Option<Arc<Assigned>>, StoreError> {
        let Joined::Named(trace) = episode else { return Ok(None) };
        let known = lock(&self.episodes).get(tenant, trace).cloned();
        let episode = match known {
            Some(episode) => Some(episode),
            None => self.read(tenant, trace).await?.inspect(|read| lock(&self.episodes).keep(read.clone())),
        };
        Ok(episode.and_then(|episode| episode.assigned))
    }

    /// Whether a call may be written to this episode: who asks in one of another tenant, or in one that is full, is not to be answered.
    pub(crate) async fn can_join(&self, tenant: &Tenant, episode: Joined) -> Result<(), NotKept> {
        let Joined::Named(trace) = episode else { return Ok(()) };
        let known = lock(&self.episodes).get(tenant, trace).map(|episode| episode.n_turns);
        let n_turns = match known {
            Some(n_turns) => n_turns,
            None => match self.store.trace(trace).await? {
                Some(found) if found.tenant != *tenant => return Err(NotKept::Foreign),
                Some(found) => u32::try_from(found.turns().count()).unwrap_or(u32::MAX),
                None => 0,
            },
        };
        if n_turns >= TURNS_MAX { Err(NotKept::Full) } else { Ok(()) }
    }

    /// The episode that this conversation goes on with, if it goes on with one. Who does not go on with it after all puts it back.
    pub(crate) fn find(&self, tenant: &Tenant, said: &[Digest]) -> Option<TraceId> {
        let mut episodes = lock(&self.episodes);
        let found = episodes.find(tenant, said)?;
        // One that is full has ended; what is said further begins another.
        episodes.get(tenant, found).filter(|episode| episode.n_turns < TURNS_MAX).map(|episode| episode.trace)
    }

    /// A conversation that was found does not go on after all.
    pub(crate) fn put_back(&self, episode: TraceId) {
        lock(&self.episodes).put_back(episode);
    }

    /// Writes a call down, and answers when that is durable.
    pub(crate) async fn keep(&self, call: Call) -> Result<(), NotKept> {
        let trace = call.episode.trace();
        let turn_of = Arc::clone(lock(&self.writing).entry(trace).or_default());
        let held = turn_of.lock().await;
        let ended = call.ended;
        let kept = self.write(call).await;
        if let Err(NotKept::Store(error)) = &kept {
            self.lose(error, ended);
            // Who tries again goes on with the same episode.
            self.put_back(trace);
        }
        drop(held);
        let mut writing = lock(&self.writing);
        if Arc::strong_count(&turn_of) == 2 {
            writing.remove(&trace);
        }
        kept
    }

    /// A call could not be kept, which counts where the store takes nothing.
    fn lose(&self, error: &StoreError, at: Time) {
        // What it was told before it may no longer know.
        lock(&self.configs).clear();
        if matches!(error, StoreError::Full(_) | StoreError::Unavailable { .. }) {
            let mut lost = lock(&self.lost);
            *lost = Some(Lost { n: lost.map_or(0, |lost| lost.n) + 1, at });
        }
    }

    /// Whether an answer could be kept. After a failure this is known when the store has taken that there was one: until then nobody is
    /// asked for an answer, which would be paid for and lost.
    pub(crate) async fn can_keep(&self) -> Result<(), StoreError> {
        let Some(told) = *lock(&self.lost) else { return Ok(()) };
        // Who asks at the same time writes the very same.
        let event = Event {
            id: EventId::derived(&["not_recorded", &told.at.unix_nanos().to_string(), &told.n.to_string()]),
            at: told.at,
            tenant: Tenant::default(),
            stream: STREAM.to_owned(),
            kind: "not_recorded".to_owned(),
            body: json!({"n": told.n}),
        };
        self.store.put(vec![Write::Event(event)]).await?;
        let mut lost = lock(&self.lost);
        if *lost == Some(told) {
            *lost = None;
        }
        Ok(())
    }

    /// Forgets what is remembered of the store: it may be another one.
    pub(crate) fn forget(&self) {
        *lock(&self.episodes) = Episodes::new(N_EPISODES_MAX);
        lock(&self.configs).clear();
    }

    /// Writes a line of the log down, and waits for nobody: what follows from it does not depend on it.
    pub(crate) fn note(&self, event: Event) {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { drop(store.put(vec![Write::Event(event)]).await) });
    }

    /// Writes down a trace that nothing goes on with, and answers when that is durable.
    pub(crate) async fn keep_alone(&self, config: &Config, trace: Trace) -> Result<(), StoreError> {
        let config = Document::of(config, 0, trace.tenant.clone(), trace.started);
        let ended = trace.ended.unwrap_or(trace.started);
        let kept = self.store.put(vec![Write::Document(config), Write::Trace(Box::new(trace))]).await;
        kept.map(drop).inspect_err(|error| self.lose(error, ended))
    }

    async fn write(&self, call: Call) -> Result<(), NotKept> {
        // After a failure the conversation stands where it stood: who tries again in this episode goes on there.
        let said_last = (!has_failed(&call.turn)).then(|| digest(&call.turn.answer));
        let mut episode = self.episode(&call).await?;
        for n_lost in 0..N_TRIES {
            if n_lost > 1 {
                let id = call.turn.extra.get("id").and_then(Value::as_str).unwrap_or_default();
                let pause_ms = Draws::new(n_lost, &[id]).bits() % n_lost.min(PAUSE_MS_MAX);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            if episode.as_ref().is_some_and(|episode| episode.n_turns >= TURNS_MAX) {
                return Err(NotKept::Full);
            }
            let (write, turn_idx) = next(&call, episode.as_ref());
            let config = self.config(&call);
            let is_told = config.is_some();
            let answered = call.answered.clone().filter(|_| episode.is_none()).map(Write::Event);
            let puts = self.store.put([config, answered, Some(write)].into_iter().flatten().collect()).await?;
            if puts.last() == Some(&Put::Conflict) {
                let there = self.store.trace(call.episode.trace()).await?;
                if there.as_ref().is_some_and(|trace| trace.tenant != call.tenant) {
                    return Err(NotKept::Foreign);
                }
                // Where the store has lost the episode, it begins anew.
                lock(&self.configs).clear();
                episode = there.map(|trace| known(&trace));
                continue;
            }
            let history: Vec<Digest> = call.said.iter().copied().chain(said_last).collect();
            let n_answered = match said_last {
                Some(_) => history.len(),
                None => episode.as_ref().map_or(0, |episode| episode.n_answered_in(&history)),
            };
            let Call { tenant, assigned, others, .. } = call;
            let trace = call.episode.trace();
            lock(&self.episodes).keep(Episode { trace, tenant, n_turns: turn_idx + 1, history, n_answered, others, assigned });
            if is_told {
                self.know(call.config_hash, call.ended);
            }
            return Ok(());
        }
        let what = format!("trace {}", call.episode.trace());
        Err(NotKept::Store(StoreError::Invalid { what, reason: "somebody else kept writing to it".to_owned() }))
    }

    /// A config is on the record now.
    fn know(&self, config: ConfigHash, now: Time) {
        let mut configs = lock(&self.configs);
        if configs.len() >= N_CONFIGS_MAX {
            configs.clear();
        }
        configs.insert(config, now);
    }

    /// The config as a document, unless it is known to be on the record.
    fn config(&self, call: &Call) -> Option<Write> {
        let is_recent = |since: &Time| call.ended.unix_nanos().abs_diff(since.unix_nanos()) < CONFIG_KNOWN_NS;
        let is_known = lock(&self.configs).get(&call.config_hash).is_some_and(is_recent);
        (!is_known).then(|| Write::Document(Document::of(&call.config, 0, call.tenant.clone(), call.ended)))
    }

    async fn episode(&self, call: &Call) -> Result<Option<Episode>, StoreError> {
        let Joined::Named(trace) = call.episode else { return Ok(None) };
        let known = lock(&self.episodes).get(&call.tenant, trace).cloned();
        match known {
            Some(episode) => Ok(Some(episode)),
            None => self.read(&call.tenant, trace).await,
        }
    }

    /// How far an episode has come, from the store.
    async fn read(&self, tenant: &Tenant, trace: TraceId) -> Result<Option<Episode>, StoreError> {
        let trace = self.store.trace(trace).await?.filter(|trace| trace.tenant == *tenant);
        Ok(trace.as_ref().map(known))
    }
}

/// How far an episode has come by its trace.
fn known(trace: &Trace) -> Episode {
    let (mut history, mut n_answered) = (Vec::new(), 0);
    for turn in trace.segments.last().into_iter().flat_map(|segment| &segment.turns) {
        history.extend(heard(turn).map(digest));
        n_answered = if has_failed(turn) { n_answered } else { history.len() };
    }
    Episode {
        trace: trace.id,
        tenant: trace.tenant.clone(),
        n_turns: u32::try_from(trace.turns().count()).unwrap_or(u32::MAX),
        history,
        n_answered,
        others: Vec::new(),
        assigned: assigned_to(trace).map(Arc::new),
    }
}

/// The episode that clients of a tenant call so.
pub(crate) fn called(tenant: &Tenant, name: &str) -> TraceId {
    TraceId::derived(&["episode", tenant.as_str(), name])
}

/// The traces that somebody of a tenant may mean by a name: an episode that its client calls so, a conversation that was told by spans, or
/// the one of an answer with this id.
pub fn episodes_called(tenant: &Tenant, name: &str) -> Vec<TraceId> {
    std::iter::once(called(tenant, name)).chain(otlp::ids(tenant, name)).chain(answered_in(name)).collect()
}

/// Where the metadata of a trace say which version of an agent answered.
pub const AGENT: &str = "agent";

/// The version of an agent that an episode began with, where its record says one.
pub(crate) fn assigned_to(trace: &Trace) -> Option<Assigned> {
    trace.metadata.get(AGENT).and_then(|assigned| Assigned::deserialize(assigned).ok())
}

/// What was said in a turn; the answer of one that failed was not.
pub(crate) fn heard(turn: &Turn) -> impl Iterator<Item = &Message> {
    turn.input.iter().chain((!has_failed(turn)).then_some(&turn.answer))
}

pub(crate) fn has_failed(turn: &Turn) -> bool {
    turn.errors.iter().any(|error| !error.recovered)
}

/// What this call writes, and the number of its turn.
fn next(call: &Call, episode: Option<&Episode>) -> (Write, u32) {
    let Call { said, messages, tools, turn, .. } = call;
    let Some(episode) = episode else {
        let mut trace =
            Trace::new(call.episode.trace(), call.tenant.clone(), turn.started.unwrap_or(call.ended), call.config_hash);
        trace.ended = Some(call.ended);
        trace.category = call.category.clone();
        trace.metadata = call.metadata.clone();
        if let Some(assigned) = &call.assigned {
            trace.category = Some(assigned.task.clone());
            trace.metadata.insert(AGENT.into(), serde_json::to_value(&**assigned).unwrap_or_default());
        }
        let turn = Turn { input: messages.clone(), ..turn.clone() };
        trace.segments = vec![Segment { tools: tools.clone(), turns: vec![turn], tail: Vec::new() }];
        return (Write::Trace(Box::new(trace)), 0);
    };
    let goes_on = said.starts_with(&episode.history) && !call.is_new_segment;
    let n_heard = if goes_on { episode.history.len() } else { 0 };
    let next = NextTurn {
        v: V1,
        turn_idx: episode.n_turns,
        segment: (!goes_on).then(|| tools.clone()),
        turn: Turn { input: messages[n_heard..].to_vec(), ..turn.clone() },
        ended: call.ended,
    };
    (Write::Turn(episode.trace, Box::new(next)), episode.n_turns)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
