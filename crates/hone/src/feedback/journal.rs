//! What a loop has done, stage by stage. Every stage that ends is a line of the store's log with what it came to, so a loop that was
//! killed goes on after the last one, and who looks on sees how far it is.

use crate::clock::now;
use crate::context::Context;
use crate::failure::Failure;
use hone_store::Database;
use hone_trace::EventId;
use hone_trace::store::{Event, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Lines of a loop that are read at once: it has about ten.
const N_LINES: u32 = 1000;
/// The stage that a loop begins with.
pub(super) const BEGIN: &str = "begin";
/// The stage that a loop ends with.
pub(super) const END: &str = "end";

/// The journal of one loop.
pub(super) struct Journal<'a> {
    context: &'a Context<'a>,
    runtime: &'a Runtime,
    store: Arc<dyn Database>,
    pub(super) name: String,
    done: BTreeMap<String, Value>,
}

impl<'a> Journal<'a> {
    /// The journal of a new loop, or of the last one to go on with it. The second loop of `desk` is called `desk-2`.
    pub(super) fn open(of: &str, goes_on: bool, runtime: &'a Runtime, context: &'a Context<'a>) -> Result<Self, Failure> {
        let store = runtime.block_on(context.store())?;
        let mut last: Option<(String, BTreeMap<String, Value>)> = None;
        for number in 1.. {
            let name = numbered(of, number);
            let done = read(&name, runtime, &store)?;
            if done.is_empty() {
                let (name, done) = match last {
                    Some(last) if goes_on => last,
                    None if goes_on => {
                        return Err(Failure::user("there is no loop to go on with").hint("begin one with `hone loop`"));
                    }
                    _ => (name, done),
                };
                return Ok(Self { context, runtime, store, name, done });
            }
            last = Some((name, done));
        }
        Err(Failure::bug("there is always a next number"))
    }

    /// All that was written down of loops of this name, the oldest first.
    pub(super) fn of_all(
        of: &str,
        runtime: &Runtime,
        store: &Arc<dyn Database>,
    ) -> Result<Vec<BTreeMap<String, Value>>, Failure> {
        let mut all = Vec::new();
        loop {
            let done = read(&numbered(of, all.len() + 1), runtime, store)?;
            if done.is_empty() {
                return Ok(all);
            }
            all.push(done);
        }
    }

    /// What a stage came to, where it has ended.
    pub(super) fn known<T: DeserializeOwned>(&self, stage: &str) -> Result<Option<T>, Failure> {
        let wrong = |error| Failure::world(error).context(format_args!("stage `{stage}` of {}", self.name));
        self.done.get(stage).map(|done| T::deserialize(done).map_err(wrong)).transpose()
    }

    /// What a stage comes to: as it was written down, or by doing the work and writing that down.
    pub(super) fn stage<T: Serialize + DeserializeOwned>(
        &mut self,
        stage: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(known) = self.known(stage)? {
            return Ok(known);
        }
        let result = work()?;
        let body = serde_json::to_value(&result).map_err(Failure::bug)?;
        let event = Event {
            id: EventId::derived(&["loop", &self.name, stage]),
            at: now(),
            tenant: self.context.settings.tenant.clone(),
            stream: stream(&self.name),
            kind: stage.to_owned(),
            body: body.clone(),
        };
        self.runtime.block_on(self.store.put(vec![Write::Event(event)]))?;
        self.done.insert(stage.to_owned(), body);
        Ok(result)
    }
}

/// What a loop is called.
fn numbered(of: &str, number: usize) -> String {
    if number == 1 { of.to_owned() } else { format!("{of}-{number}") }
}

/// The stages of a loop that have ended.
fn read(name: &str, runtime: &Runtime, store: &Arc<dyn Database>) -> Result<BTreeMap<String, Value>, Failure> {
    let lines = runtime.block_on(store.events(Some(&stream(name)), 0, N_LINES))?;
    Ok(lines.into_iter().map(|(_, event)| (event.kind, event.body)).collect())
}

/// What the lines of a loop belong to.
fn stream(name: &str) -> String {
    format!("loop:{name}")
}
