//! Runs that other machines have in a shared store: what it holds of them. Their files are where they were made.

use super::metrics::{Line, Metrics};
use super::record::{self, MACHINE};
use super::runs::{End, Files, Fork, Recorded, Run, Runs};
use crate::context::Context;
use crate::failure::Failure;
use hone_gateway::documents;
use hone_trace::store::{Cursor, Event, Kind, Store, StoreError};
use hone_trace::{Run as Record, RunState, V1};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Runs that are read at the most, newest first.
const N_RUNS_MAX: usize = 200;
/// Documents that are read at once.
const N_DOCUMENTS: u32 = 200;
/// Events that are read at once.
const N_EVENTS: u32 = 1000;

/// The run of this name: of this folder, or else what a shared store holds of it.
pub(super) fn find(name: &str, context: &Context<'_>) -> Result<Recorded, Failure> {
    let runs = Runs::of(&context.settings);
    if !runs.is_shared() || runs.has(name)? {
        return runs.read(name);
    }
    let found = context.wait(async |context| {
        let store = context.store().await?;
        match record::read(&*store, name, &context.settings.tenant).await? {
            Some(record) => Ok(Some(recorded(&*store, record).await?)),
            None => Ok(None),
        }
    });
    match found.map_err(|failure| failure.context(format_args!("`{name}` is no run of this folder, and others are not known")))? {
        Some(recorded) => Ok(recorded),
        None => runs.read(name),
    }
}

/// The runs of the tenant that a shared store has beside those of this folder, newest first. One that cannot be read is said, and does
/// not hide the others; nor do all of them hide those of this folder.
pub(super) fn others(here: &[String], context: &Context<'_>) -> Vec<Recorded> {
    if !Runs::of(&context.settings).is_shared() {
        return Vec::new();
    }
    let found = context.wait(async |context| {
        let (store, mut found) = (context.store().await?, Vec::new());
        for record in records(&*store, here, context).await? {
            let name = record::name(&record).unwrap_or_default().to_owned();
            match recorded(&*store, record).await {
                Ok(recorded) => found.push(recorded),
                Err(error) => context.printer.complain(&format!("{name}: {error}")),
            }
        }
        Ok(found)
    });
    found.unwrap_or_else(|failure| {
        context.printer.complain(&format!("runs of other machines are not known: {failure}"));
        Vec::new()
    })
}

async fn records(store: &dyn Store, here: &[String], context: &Context<'_>) -> Result<Vec<Record>, StoreError> {
    let tenant = &context.settings.tenant;
    let (mut found, mut after): (Vec<Record>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = documents::page(store, Kind::Run, after, N_DOCUMENTS).await?;
        for read in page.items {
            let record: Record = match read.and_then(|document| documents::word(&document)) {
                Ok(record) => record,
                Err(damaged) if damaged.tenant.as_ref() == Some(tenant) => {
                    context.printer.complain(&damaged.why.to_string());
                    continue;
                }
                Err(_) => continue,
            };
            if record.tenant != *tenant {
                continue;
            }
            if record::name(&record).is_some_and(|name| here.iter().all(|known| known != name)) {
                found.push(record);
            }
        }
        after = page.next;
        if after.is_none() || found.len() >= N_RUNS_MAX {
            found.truncate(N_RUNS_MAX);
            return Ok(found);
        }
    }
}

/// A run with all that the store holds of it.
async fn recorded(store: &dyn Store, record: Record) -> Result<Recorded, StoreError> {
    let name = record::name(&record).unwrap_or_default().to_owned();
    let (mut told, mut after) = (Told::default(), 0);
    loop {
        let events = store.events(Some(&record::stream(&name)), after, N_EVENTS).await?;
        let Some((last, _)) = events.last() else { break };
        after = *last;
        events.iter().filter(|(_, event)| event.tenant == record.tenant).for_each(|(_, event)| told.read(event));
    }
    let metrics = Metrics::of(told.lines);
    let end = match record.state {
        RunState::Running => None,
        RunState::Ended { ref reason, .. } => told.end.filter(|end| end.reason == *reason).or_else(|| {
            let step = metrics.last_step().unwrap_or(0);
            Some(End { reason: reason.clone(), why: "the store says no more".to_owned(), step, best_step: None })
        }),
        RunState::Failed { ref error, .. } => {
            let step = metrics.last_step().unwrap_or(0);
            Some(End { reason: "failed".to_owned(), why: error.clone(), step, best_step: None })
        }
    };
    let text = |key: &str| record.settings.get(key).and_then(Value::as_str).map(str::to_owned);
    let settings = record.settings.get("settings").and_then(Value::as_object).cloned().unwrap_or_default();
    let run = Run {
        v: V1,
        name,
        method: record.stage.clone(),
        model: text("model").unwrap_or_default(),
        model_hash: None,
        env: text("env"),
        seed: record.seed,
        settings: settings.into_iter().collect(),
        fork: text("fork").as_deref().and_then(fork),
        tenant: Some(record.tenant.clone()),
    };
    Ok(Recorded { run, metrics, end, files: Files::Elsewhere(text(MACHINE)), is_at_work: None })
}

/// What the events of a run told.
#[derive(Default)]
struct Told {
    lines: Vec<Line>,
    end: Option<End>,
}

impl Told {
    fn read(&mut self, event: &Event) {
        // What cannot be read is of another version, and changes nothing.
        match event.kind.as_str() {
            // What came before is of another run that had the name.
            "begin" => *self = Self::default(),
            "step" => self.lines.extend(Line::deserialize(&event.body)),
            "end" => self.end = End::deserialize(&event.body).ok().or(self.end.take()),
            _ => {}
        }
    }
}

/// Where it left another run, as the store has it: `RUN at step N`.
fn fork(text: &str) -> Option<Fork> {
    let (run, step) = text.rsplit_once(" at step ")?;
    Some(Fork { run: run.to_owned(), step: step.parse().ok()?, changes: BTreeMap::new() })
}
