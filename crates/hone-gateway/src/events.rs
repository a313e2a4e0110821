//! Reading the log: past a damaged line, so that one does not hide all others, and on from a place, as long as it is the same log.

use hone_trace::EventId;
use hone_trace::store::{Event, Store, StoreError};

/// How far a stream was read by who follows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the last event.
    number: u64,
    /// Which one that was, unless it was damaged.
    last: Option<EventId>,
}

/// What has come behind a place.
pub(crate) enum News {
    /// Oldest first; none when there are no more.
    Events(Vec<(u64, Event)>),
    /// The store was put in another's place, by a restore for instance. What was read may never have been, and the stream is read from
    /// its beginning.
    Replaced,
}

impl Place {
    /// Behind the event of this number.
    pub(crate) fn behind(number: u64) -> Self {
        Self { number, last: None }
    }

    /// Reads on.
    pub(crate) async fn news(
        &mut self,
        store: &dyn Store,
        stream: &str,
        limit: u32,
        say: impl Fn(String),
    ) -> Result<News, StoreError> {
        let mut number = self.number;
        let events = read(store, stream, &mut number, limit, say).await?;
        if !self.is_there(store, stream).await? {
            *self = Self::default();
            return Ok(News::Replaced);
        }
        match events.last() {
            Some((number, event)) => *self = Self { number: *number, last: Some(event.id) },
            None if number != self.number => *self = Self::behind(number),
            None => {}
        }
        Ok(News::Events(events))
    }

    /// Whether the event that was read last stands where it stood. It is looked up after what comes behind it was read, so that nothing
    /// is taken of another store.
    async fn is_there(&self, store: &dyn Store, stream: &str) -> Result<bool, StoreError> {
        let Some(last) = self.last else { return Ok(true) };
        match store.events(Some(stream), self.number.saturating_sub(1), 1).await {
            Ok(events) => Ok(events.first().is_some_and(|(number, event)| (*number, event.id) == (self.number, last))),
            // It can be read no longer, and tells nothing.
            Err(StoreError::Damaged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// The events of a stream after this number, oldest first: perhaps less than `limit`, and none when there are no more. Of a damaged one
/// it is said which; then the number is that one's, so that it is said once.
pub(crate) async fn read(
    store: &dyn Store,
    stream: &str,
    after: &mut u64,
    limit: u32,
    say: impl Fn(String),
) -> Result<Vec<(u64, Event)>, StoreError> {
    let mut limit = limit;
    loop {
        match store.events(Some(stream), *after, limit).await {
            // Those before it are read first, one by one.
            Err(StoreError::Damaged { .. }) if limit > 1 => limit = 1,
            Err(StoreError::Damaged { what, reason }) => {
                say(format!("{what} is damaged and passed by, `hone store verify` names all that are: {reason}"));
                *after = number_of(store, stream, *after, &what).await?;
            }
            read => return read,
        }
    }
}

/// The number of the damaged event that comes next: the store names it without its number, but gives what comes behind that.
async fn number_of(store: &dyn Store, stream: &str, mut before: u64, what: &str) -> Result<u64, StoreError> {
    let mut step = 1;
    while !is_behind(store, stream, before.saturating_add(step), what).await? {
        before = before.saturating_add(step);
        step = step.saturating_mul(2);
    }
    let mut behind = before.saturating_add(step);
    while behind - before > 1 {
        let middle = before + (behind - before) / 2;
        match is_behind(store, stream, middle, what).await? {
            true => behind = middle,
            false => before = middle,
        }
    }
    Ok(behind)
}

async fn is_behind(store: &dyn Store, stream: &str, number: u64, what: &str) -> Result<bool, StoreError> {
    match store.events(Some(stream), number, 1).await {
        Err(StoreError::Damaged { what: found, .. }) => Ok(found != what),
        read => read.map(|_| true),
    }
}
