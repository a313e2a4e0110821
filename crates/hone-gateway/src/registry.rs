//! The registry of agents, as who deploys and who serves both use it.
//!
//! A new state of an entry is the next revision of its document. Two who write at once do not overwrite each other: the second reads what
//! the first wrote, and tries again.

use crate::events;
use hone_arbiter::canary::{Action, Command, Decision};
use hone_arbiter::log::{Ended, Line, STREAM};
use hone_arbiter::{Change, Deployment, Fleet};
use hone_trace::store::{Document, Event, Kind, Put, Store, StoreError, Write};
use hone_trace::{Agent, AgentName, AgentState, AgentVersion, Config, EventId, Tenant, Time, V1};
use std::collections::BTreeSet;

/// Lines of the log that are read at once.
pub(crate) const N_LINES: u32 = 1000;
/// Entries that are read at once.
const N_AGENTS: u32 = 100;
/// So often another may be first.
const N_TRIES: usize = 8;

/// A decision, and the line that caused it.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The line.
    pub cause: EventId,
    /// When it was written.
    pub at: Time,
    /// Whose canary.
    pub agent: AgentName,
    /// Which.
    pub canary: EventId,
    /// The decision.
    pub decision: Box<Decision>,
}

/// The agents of the log and all decisions about their canaries, from the first line to the last.
pub async fn history(store: &dyn Store) -> Result<(Fleet, Vec<Decided>), StoreError> {
    let (mut fleet, mut decided) = (Fleet::default(), Vec::new());
    read(store, |event| {
        // What cannot be read changes nothing; the server says so.
        if let Ok(Change::Decided { agent, canary, decision }) = fleet.read(event) {
            decided.push(Decided { cause: event.id, at: event.at, agent, canary, decision });
        }
    })
    .await?;
    Ok((fleet, decided))
}

/// The episodes that a route of this tenant chose an agent for and that have an outcome.
pub async fn ended(store: &dyn Store, tenant: &Tenant, route: &str) -> Result<Vec<Ended>, StoreError> {
    let mut all = Vec::new();
    read(store, |event| {
        if let (true, Ok(Line::Ended(ended))) = (event.tenant == *tenant, Line::of(event)) {
            all.extend(Some(*ended).filter(|ended| ended.chosen.as_ref().is_some_and(|chosen| chosen.route == route)));
        }
    })
    .await?;
    Ok(all)
}

/// Reads the whole log.
async fn read(store: &dyn Store, mut see: impl FnMut(&Event)) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        // A line that is damaged changes nothing, as one that cannot be read; the server says so.
        let lines = events::read(store, STREAM, &mut after, N_LINES, drop).await?;
        lines.iter().for_each(|(_, event)| see(event));
        match lines.last() {
            Some((number, _)) => after = *number,
            None => return Ok(()),
        }
    }
}

/// An agent's entry, and its revision.
pub async fn agent(store: &dyn Store, name: &AgentName) -> Result<Option<(Agent, u32)>, StoreError> {
    let Some(document) = store.document(Kind::Agent, name.as_str()).await? else { return Ok(None) };
    Ok(Some((document.word()?, document.revision)))
}

/// The entries of all tenants, by name.
#[derive(Debug, Default)]
pub struct Entries {
    /// Those that can be read.
    pub sound: Vec<Agent>,
    /// Those that cannot, and why.
    pub damaged: Vec<(AgentName, StoreError)>,
}

/// All entries of all tenants.
pub async fn agents(store: &dyn Store) -> Result<Entries, StoreError> {
    match list(store).await {
        Ok(sound) => return Ok(Entries { sound, ..Entries::default() }),
        Err(StoreError::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    // A list ends at what is damaged. The log has all names, and each is asked for by itself.
    let (mut names, mut entries) = (BTreeSet::new(), Entries::default());
    read(store, |event| {
        if let Ok(Line::Registered { agent }) = Line::of(event) {
            names.insert(agent);
        }
    })
    .await?;
    for name in names {
        match agent(store, &name).await {
            Ok(found) => entries.sound.extend(found.map(|(agent, _)| agent)),
            Err(error @ StoreError::Damaged { .. }) => entries.damaged.push((name, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

async fn list(store: &dyn Store) -> Result<Vec<Agent>, StoreError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.documents(Kind::Agent, after, N_AGENTS).await?;
        for document in page.items {
            all.push(document.word::<Agent>()?);
        }
        after = page.next;
        if after.is_none() {
            all.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(all);
        }
    }
}

/// The version of an agent that serves.
pub fn live<'a>(entry: &'a Agent, fleet: &'a Fleet) -> &'a str {
    if let Some(deployment) = fleet.deployment(&entry.name) {
        return deployment.live();
    }
    entry.versions.iter().max_by(|a, b| a.share.total_cmp(&b.share)).map_or("", |version| &version.version)
}

/// Why a version is not added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The name is another tenant's.
    #[error("the name is taken")]
    Taken,
    /// Another version has this name.
    #[error("there is a version of this name with another config")]
    Other,
    /// Somebody else kept writing.
    #[error("somebody else keeps writing to this entry; try again")]
    Busy,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Adds a version to an agent, which is made if there is none. The first version of an agent serves at once, any other waits for a canary.
/// Says whether it is new.
pub async fn add(
    store: &dyn Store,
    name: &AgentName,
    version: &str,
    config: &Config,
    tenant: &Tenant,
    now: Time,
) -> Result<bool, AddError> {
    for _ in 0..N_TRIES {
        let found = agent(store, name).await?;
        if found.as_ref().is_some_and(|(agent, _)| agent.tenant != *tenant) {
            return Err(AddError::Taken);
        }
        let there = found.as_ref().and_then(|(agent, _)| agent.versions.iter().find(|there| there.version == version));
        match there {
            Some(there) if there.config == config.hash() => return Ok(false),
            Some(_) => return Err(AddError::Other),
            None => {}
        }
        let share = if found.is_some() { 0.0 } else { 1.0 };
        let (mut entry, revision) = match found {
            Some((agent, revision)) => (agent, revision + 1),
            None => {
                let (name, tenant, versions) = (name.clone(), tenant.clone(), Vec::new());
                (Agent { v: V1, name, tenant, at: now, state: AgentState::Active, versions }, 0)
            }
        };
        entry.at = now;
        entry.versions.push(AgentVersion { version: version.to_owned(), config: config.hash(), share });
        let line = Line::Registered { agent: name.clone() };
        let id = EventId::derived(&["registered", name.as_str(), &revision.to_string(), version]);
        let writes = vec![
            Write::Document(Document::of(config, 0, tenant.clone(), now)),
            Write::Document(Document::of(&entry, revision, tenant.clone(), now)),
            Write::Event(line.event(id, now, tenant.clone())),
        ];
        if store.put(writes).await?.get(1) != Some(&Put::Conflict) {
            return Ok(true);
        }
    }
    Err(AddError::Busy)
}

/// Why nothing is asked of a canary.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The tenant has no agent of this name.
    #[error("there is no such agent")]
    NoAgent,
    /// None runs, or another one than the one that is meant.
    #[error("no canary runs")]
    NoCanary,
    /// It cannot go on, for it has not stopped.
    #[error("the canary is not paused")]
    NotPaused,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Asks something of the canary of an agent that runs; where one is named, of that one alone. Says what the log says then, and what was
/// decided from its first line on.
pub async fn ask(
    store: &dyn Store,
    name: &AgentName,
    canary: Option<EventId>,
    command: Command,
    tenant: &Tenant,
    now: Time,
) -> Result<(Fleet, Vec<Decided>), AskError> {
    let entry = agent(store, name).await?.filter(|(entry, _)| entry.tenant == *tenant);
    entry.ok_or(AskError::NoAgent)?;
    let (mut fleet, _) = history(store).await?;
    let running = fleet.deployment(name).filter(|deployment| deployment.is_running());
    let running = running.map(|deployment| deployment.id).filter(|id| canary.is_none_or(|canary| canary == *id));
    let line = Line::Asked { agent: name.clone(), canary: running.ok_or(AskError::NoCanary)?, command };
    let id = EventId::derived(&["asked", name.as_str(), &now.unix_nanos().to_string()]);
    let event = line.event(id, now, tenant.clone());
    // Asked of a copy first: what cannot be done is not written.
    if matches!(fleet.read(&event), Ok(Change::Nothing)) {
        return Err(AskError::NotPaused);
    }
    store.put(vec![Write::Event(event)]).await?;
    let (fleet, decided) = history(store).await?;
    if let Some(deployment) = fleet.deployment(name) {
        settle(store, name, deployment, now).await?;
    }
    for decided in decided.iter().filter(|decided| decided.cause == id) {
        write_down(store, decided.clone(), tenant.clone(), now).await?;
    }
    Ok((fleet, decided))
}

/// Writes a decision down, unless that was done before.
pub async fn write_down(store: &dyn Store, decided: Decided, tenant: Tenant, now: Time) -> Result<(), StoreError> {
    let Decided { cause, agent, canary, decision, .. } = decided;
    if decision.action != Action::Hold {
        let line = Line::Decided { agent, canary, decision };
        store.put(vec![Write::Event(line.event(Line::decision_id(cause), now, tenant))]).await?;
    }
    Ok(())
}

/// Brings the shares in the registry to what the log says. Says whether something had to be written.
pub async fn settle(store: &dyn Store, name: &AgentName, deployment: &Deployment, now: Time) -> Result<bool, StoreError> {
    for n_tries in 0..N_TRIES {
        let Some((mut entry, revision)) = agent(store, name).await? else { return Ok(n_tries > 0) };
        let is_other = |version: &AgentVersion| version.share != deployment.share(&version.version);
        if !entry.versions.iter().any(is_other) {
            return Ok(n_tries > 0);
        }
        entry.at = now;
        entry.versions.iter_mut().for_each(|version| version.share = deployment.share(&version.version));
        store.put(vec![Write::Document(Document::of(&entry, revision + 1, entry.tenant.clone(), now))]).await?;
    }
    Ok(true)
}
