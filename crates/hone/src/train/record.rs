//! A run as the store has it: a document that says what it was started with and how far it has come, for who looks from elsewhere.
//!
//! The folder of the run is the truth; what it measured is a stream of events beside this. Where a run begins under the name of one
//! whose folder is gone, the stream says so: what stands before that is of the other.

use super::runs::Run;
use hone_trace::store::{Document, Event, Kind, Store, StoreError, Write};
use hone_trace::{Config, EventId, Run as Record, RunId, RunState, Tenant, Time, V1};
use serde_json::{Map, Value, json};

/// The fact that says which machine has the files of a run.
pub(super) const MACHINE: &str = "machine";

/// So often another may be first.
const N_TRIES: usize = 8;

/// Whether the store has a run of this name.
pub(super) async fn is_known(store: &dyn Store, name: &str, tenant: &Tenant) -> Result<bool, StoreError> {
    Ok(read(store, name, tenant).await?.is_some())
}

/// What the store has of the run of this name.
pub(super) async fn read(store: &dyn Store, name: &str, tenant: &Tenant) -> Result<Option<Record>, StoreError> {
    store.document(Kind::Run, &id(name, tenant).to_string()).await?.as_ref().map(Document::word).transpose()
}

/// What a run is called.
pub(super) fn name(record: &Record) -> Option<&str> {
    record.settings.get("name").and_then(Value::as_str)
}

/// Writes down how far a run has come, unless the store says so already.
pub(super) async fn tell(store: &dyn Store, run: &Run, tenant: &Tenant, state: RunState, now: Time) -> Result<(), StoreError> {
    let id = id(&run.name, tenant);
    let config = Config { model: Some(run.model.clone()), ..Config::default() };
    for _ in 0..N_TRIES {
        let found = store.document(Kind::Run, &id.to_string()).await?;
        let known: Option<Record> = found.as_ref().map(Document::word).transpose()?;
        let is_another = known.as_ref().is_some_and(|known| is_another(known, run));
        let started = known.as_ref().filter(|_| !is_another).map_or(now, |known| known.started);
        let revision = found.map_or(0, |document| document.revision + 1);
        let (tenant, stage, state) = (tenant.clone(), run.method.clone(), state.clone());
        let parent = run.fork.as_ref().map(|fork| self::id(&fork.run, &tenant));
        let (seed, settings, config_hash) = (run.seed, facts(run), config.hash());
        let record = Record { v: V1, id, tenant, stage, started, state, config: config_hash, seed, parent, settings };
        if known.is_some_and(|known| known == record) {
            return Ok(());
        }
        let document = Document::of(&record, revision, record.tenant.clone(), now);
        let config = Document::of(&config, 0, record.tenant.clone(), now);
        let mut writes = vec![Write::Document(document), Write::Document(config)];
        if is_another {
            writes.push(Write::Event(begun(run, &record.tenant, now)));
        }
        let puts = store.put(writes).await?;
        if puts.first() != Some(&hone_trace::store::Put::Conflict) {
            return Ok(());
        }
    }
    Err(StoreError::Invalid { what: format!("run {}", run.name), reason: "somebody else kept writing to it".to_owned() })
}

/// The stream of what a run measured.
pub(super) fn stream(name: &str) -> String {
    format!("run:{name}")
}

/// Whether what the store knows under the name of a run is another one: it began at another time.
fn is_another(known: &Record, run: &Run) -> bool {
    let started = known.settings.get("settings").and_then(|settings| settings.get("started"));
    started != run.settings.get("started")
}

/// Says in the stream of a run that another one of its name begins here.
fn begun(run: &Run, tenant: &Tenant, at: Time) -> Event {
    let (stream, body) = (stream(&run.name), json!({"started": run.settings.get("started")}));
    let id = EventId::derived(&[&stream, tenant.as_str(), "begin", &body.to_string()]);
    Event { id, at, tenant: tenant.clone(), stream, kind: "begin".to_owned(), body }
}

fn id(name: &str, tenant: &Tenant) -> RunId {
    RunId::derived(&["run", tenant.as_str(), name])
}

fn facts(run: &Run) -> Map<String, Value> {
    let fork = run.fork.as_ref().map(|fork| format!("{} at step {}", fork.run, fork.step));
    let facts = json!({
        "name": run.name, "model": run.model, "env": run.env, "fork": fork, "settings": run.settings, MACHINE: machine()
    });
    match facts {
        Value::Object(facts) => facts.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    }
}

/// What this machine calls itself, where it says so.
fn machine() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
