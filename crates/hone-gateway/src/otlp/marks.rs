//! How far spans are written, as the log itself tells it.
//!
//! A mark is a line of the log. When every request that stands before a mark is written, the next mark names that one. Only ids are
//! written down: a restore gives every event another number, and keeps their order. What earlier versions noted, a number, may be one
//! of another store and says nothing; without a mark the log is read from its beginning, which changes nothing but takes its time.
//!
//! Marks of another store know nothing of the requests that stand before them here, so that a merge leaves them out (`hone-store`).

use crate::events::{self, Place};
use crate::server::Gateway;
use hone_trace::store::{Event, StoreError, Write};
use hone_trace::{EventId, Tenant};
use serde_json::json;
use std::collections::HashMap;

/// Where the log keeps marks.
const STREAM: &str = "otlp.written";
/// Marks that are read at once.
const N_READ: u32 = 1000;

/// The marks that were read and written.
#[derive(Default)]
pub(super) struct Marks {
    /// The number of the last one.
    last: u64,
    /// The last one that was written here, with its number.
    own: Option<(EventId, u64)>,
}

impl Marks {
    /// Reads what is there. Says from where on something may not be written: that is so as long as the mark stands that says it.
    pub(super) async fn begin(&mut self, gateway: &Gateway) -> Result<Place, StoreError> {
        let (mut numbers, mut last, mut done, mut place) = (HashMap::new(), 0, 0, Place::default());
        loop {
            let marks = read(gateway, &mut last).await?;
            for (number, mark) in &marks {
                last = *number;
                numbers.insert(mark.id, last);
                let named = mark.body["done"].as_str().and_then(|id| id.parse().ok());
                if let Some(number) = named.and_then(|id: EventId| numbers.get(&id).copied()).filter(|number| *number >= done) {
                    (done, place) = (number, Place::behind(number, (last, mark.id)));
                }
            }
            if marks.is_empty() {
                self.last = last;
                return Ok(place);
            }
        }
    }

    /// Up to which number everything must be written before the next mark; nothing where there is none yet.
    pub(super) fn due(&self) -> Option<u64> {
        self.own.map(|(_, number)| number)
    }

    /// Writes a mark, which says that everything before the last one is written.
    pub(super) async fn put(&mut self, gateway: &Gateway) -> Result<(), StoreError> {
        let at = gateway.now();
        let id = EventId::derived(&[STREAM, &self.last.to_string(), &at.unix_nanos().to_string()]);
        let body = json!({"done": self.own.map(|(id, _)| id)});
        let event = Event { id, at, tenant: Tenant::default(), stream: STREAM.to_owned(), kind: "mark".to_owned(), body };
        gateway.record().store().put(vec![Write::Event(event)]).await?;
        // Its number is found by reading: other servers of the same store write marks, too.
        while self.own.is_none_or(|(own, _)| own != id) {
            let marks = read(gateway, &mut self.last).await?;
            let Some((last, _)) = marks.last() else { break };
            self.last = *last;
            self.own = marks.iter().find(|(_, mark)| mark.id == id).map(|(number, _)| (id, *number)).or(self.own);
        }
        Ok(())
    }
}

async fn read(gateway: &Gateway, after: &mut u64) -> Result<Vec<(u64, Event)>, StoreError> {
    events::read(gateway.record().store(), STREAM, after, N_READ, |text| gateway.log(text)).await
}
