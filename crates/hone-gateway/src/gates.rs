//! What data gates found, as who asks them and who shows it both use it: lines of a log in the store.

use crate::events;
use hone_trace::store::{Event, Store, StoreError, Write};
use hone_trace::{EventId, Tenant, Time};
use serde::{Deserialize, Serialize};

/// The stream of the store's events that the log is.
const STREAM: &str = "gates";
/// Lines that are read at once, and verdicts that are kept of them, the newest.
const N_LINES: u32 = 1000;
const N_VERDICTS: usize = 200;

/// What all gates found in one look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether all pass.
    pub pass: bool,
    /// How many traces were looked at.
    pub traces: u64,
    /// What the data is for: `sft` or `rl`.
    pub purpose: String,
    /// Each of them.
    pub gates: Vec<Gate>,
}

/// What one gate found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// What it is held against.
    pub bar: f64,
    /// Whether it passes.
    pub pass: bool,
    /// Some of the records behind a failure.
    pub records: Vec<String>,
    /// What is wrong with each of them.
    pub why: Vec<String>,
}

/// Writes down what the gates found for this tenant.
pub async fn tell(store: &dyn Store, verdict: &impl Serialize, tenant: Tenant, now: Time) -> Result<(), StoreError> {
    let body = serde_json::to_value(verdict).unwrap_or_default();
    let id = EventId::derived(&["gates", tenant.as_str(), &now.unix_nanos().to_string(), &body.to_string()]);
    let event = Event { id, at: now, tenant, stream: STREAM.to_owned(), kind: "verdict".to_owned(), body };
    store.put(vec![Write::Event(event)]).await.map(drop)
}

/// What they found so far, oldest first. What cannot be read is of another version, and left out.
pub(crate) async fn read(store: &dyn Store, tenant: &Tenant) -> Result<Vec<(Time, Verdict)>, StoreError> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        // What is damaged is named where all is verified, and hides no other.
        let lines = events::read(store, STREAM, &mut after, N_LINES, drop).await?;
        for (_, event) in lines.iter().filter(|(_, event)| event.tenant == *tenant) {
            found.extend(Verdict::deserialize(&event.body).ok().map(|verdict| (event.at, verdict)));
        }
        found.drain(..found.len().saturating_sub(N_VERDICTS));
        match lines.last() {
            Some((number, _)) => after = *number,
            None => return Ok(found),
        }
    }
}
