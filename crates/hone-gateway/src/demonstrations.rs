//! What people said answers should have been: which traces they said it of, and the traces to learn from that come of it.

use crate::{events, feedback};
use hone_trace::store::{Event, Store, StoreError};
use hone_trace::{Corrected, DEMONSTRATION, Demonstration, EventId, Tenant, Time, Trace, TraceId};
use serde_json::{Value, json};
use std::collections::HashSet;

/// The stream that names every trace of which somebody said it.
const STREAM: &str = "demonstrations";
/// Lines that are read at once.
const PAGE_LEN: u32 = 500;

/// The traces with demonstrations of a store, so that nobody asks for those of all others.
#[derive(Debug, Default)]
pub struct Demonstrations(HashSet<TraceId>);

impl Demonstrations {
    /// Those that a store has.
    pub async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let named = |(_, event): (u64, Event)| event.body["trace"].as_str().and_then(|id| id.parse().ok());
        Ok(Self(lines(store, STREAM).await?.into_iter().filter_map(named).collect()))
    }

    /// What was said of a trace, oldest first.
    pub async fn of(&self, store: &dyn Store, trace: &Trace) -> Result<Vec<Demonstration>, StoreError> {
        if !self.0.contains(&trace.id) {
            return Ok(Vec::new());
        }
        let said = lines(store, &feedback::stream(trace.id)).await?.into_iter().map(|(_, event)| event);
        let ours = said.filter(|event| event.tenant == trace.tenant && event.kind == DEMONSTRATION);
        let demonstration = |event: Event| Demonstration {
            id: event.id,
            at: event.at,
            turn_idx: event.body["turn_idx"].as_u64().and_then(|turn_idx| turn_idx.try_into().ok()),
            words: event.body["words"].as_str().unwrap_or_default().to_owned(),
        };
        Ok(ours.map(demonstration).collect())
    }

    /// A trace as it should be learned from: with the answers that people gave, where they did.
    pub async fn corrected(&self, store: &dyn Store, trace: Trace) -> Result<Trace, StoreError> {
        let said = self.of(store, &trace).await?;
        Ok(Corrected::of(&trace, &said).map_or(trace, |corrected| corrected.better))
    }
}

/// The line that names a trace of which somebody said it. It is written once, whatever is said later.
pub(crate) fn naming(trace: TraceId, tenant: Tenant, at: Time) -> Event {
    let facts = [tenant.as_str(), &trace.to_string(), DEMONSTRATION];
    let body: Value = json!({"trace": trace});
    Event { id: EventId::derived(&facts), at, tenant, stream: STREAM.to_owned(), kind: DEMONSTRATION.to_owned(), body }
}

/// All that can be read of a stream.
async fn lines(store: &dyn Store, stream: &str) -> Result<Vec<(u64, Event)>, StoreError> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let read = events::read(store, stream, &mut after, PAGE_LEN, drop).await?;
        let Some((last, _)) = read.last() else { return Ok(all) };
        after = *last;
        all.extend(read);
    }
}
