//! Reading the log: past a damaged line, so that one does not hide all others, and on from a place, as long as it is the same log.

use hone_trace::EventId;
use hone_trace::store::{Event, Store, StoreError};

/// How far a stream was read by who follows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the last event.
    number: u64,
    /// A line that stood in the log when this was the place. Nobody reads behind another number than 0 without one.
    witness: Option<Line>,
}

/// The number of a line, and which one it is.
pub(crate) type Line = (u64, EventId);

/// What has come behind a place.
pub(crate) enum News {
    /// Oldest first; none when there are no more.
    Events(Vec<(u64, Event)>),
    /// The store was put in another's place, by a restore for instance. What was read may never have been, and the stream is read from
    /// its beginning.
    Replaced,
}

impl Place {
    /// Behind the event of this number, in the log in which this line stands.
    pub(crate) fn behind(number: u64, witness: Line) -> Self {
        Self { number, witness: Some(witness) }
    }

    /// Reads on.
    pub(crate) async fn news(
        &mut self,
        store: &dyn Store,
        stream: &str,
        limit: u32,
        say: impl Fn(String),
    ) -> Result<News, StoreError> {
        let (events, damaged) = read_past(store, stream, self.number, limit, say).await?;
        if !self.is_there(store).await? {
            *self = Self::default();
            return Ok(News::Replaced);
        }
        if let Some(last) = events.last().map(|(number, event)| (*number, event.id)).or(damaged) {
            *self = Self::behind(last.0, last);
        }
        Ok(News::Events(events))
    }

    /// Whether the log is the one that was read. It is looked up after what comes behind the place was read, so that nothing is taken of
    /// another store. What the line says is not read for that: it may be large, and the look is frequent.
    async fn is_there(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let Some(witness) = self.witness else { return Ok(true) };
        let found = store.event_ids(None, witness.0.saturating_sub(1), 1).await?;
        Ok(found.first() == Some(&witness))
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
    let (events, damaged) = read_past(store, stream, *after, limit, say).await?;
    if let Some((number, _)) = damaged {
        *after = number;
    }
    Ok(events)
}

/// The same, with the last damaged one that comes before them.
async fn read_past(
    store: &dyn Store,
    stream: &str,
    mut after: u64,
    mut limit: u32,
    say: impl Fn(String),
) -> Result<(Vec<(u64, Event)>, Option<Line>), StoreError> {
    let mut damaged = None;
    loop {
        match store.events(Some(stream), after, limit).await {
            // Those before it are read first, one by one.
            Err(StoreError::Damaged { .. }) if limit > 1 => limit = 1,
            Err(StoreError::Damaged { what, reason }) => {
                let next = store.event_ids(Some(stream), after, 1).await?;
                // Where it is gone, the store is being put in another's place.
                let Some((number, _)) = next.first() else { return Ok((Vec::new(), damaged)) };
                say(format!("{what} is damaged and passed by, `hone store verify` names all that are: {reason}"));
                (after, damaged) = (*number, next.first().copied());
            }
            read => return read.map(|events| (events, damaged)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_store::Options;
    use hone_trace::{Tenant, Time};
    use serde_json::json;
    use std::sync::Arc;

    const STREAM: &str = "followed";

    /// A log in a folder of its own.
    struct Log {
        store: Arc<dyn hone_store::Database>,
        folder: tempfile::TempDir,
    }

    impl Log {
        async fn of(names: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let place = hone_store::Place::Folder(folder.path().to_owned());
            let log = Self { store: hone_store::open(&place, &Options::default()).await.unwrap(), folder };
            log.write(names).await;
            log
        }

        async fn write(&self, names: &[&str]) {
            for name in names {
                let (id, at, tenant) = (EventId::derived(&[name]), Time::from_unix_nanos(1), Tenant::default());
                let event = Event { id, at, tenant, stream: STREAM.into(), kind: "line".into(), body: json!({"name": name}) };
                self.store.put(vec![hone_trace::store::Write::Event(event)]).await.unwrap();
            }
        }

        fn change(&self, sql: &str) {
            rusqlite::Connection::open(self.folder.path().join("hone.db")).unwrap().execute_batch(sql).unwrap();
        }

        fn damage_last(&self) {
            self.change("UPDATE events SET body = '{' WHERE seq = (SELECT max(seq) FROM events)");
        }

        /// Puts a log of these lines into its place, with numbers from 1 on.
        async fn replace(&self, names: &[&str]) {
            self.change("DELETE FROM events; DELETE FROM sqlite_sequence");
            self.write(names).await;
        }

        /// The names of the lines that are new, or `None` where the log is another one.
        async fn news(&self, place: &mut Place) -> Option<Vec<String>> {
            match place.news(&*self.store, STREAM, 10, drop).await.unwrap() {
                News::Replaced => None,
                News::Events(events) => {
                    Some(events.iter().map(|(_, event)| event.body["name"].as_str().unwrap().to_owned()).collect())
                }
            }
        }
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[tokio::test]
    async fn another_log_is_noticed_and_read_from_its_beginning() {
        let (log, mut place) = (Log::of(&["a", "b"]).await, Place::default());
        assert_eq!(log.news(&mut place).await, names(&["a", "b"]));
        log.write(&["c"]).await;
        assert_eq!(log.news(&mut place).await, names(&["c"]));
        assert_eq!(log.news(&mut place).await, names(&[]));
        log.replace(&["a", "b", "x", "y"]).await;
        assert_eq!(log.news(&mut place).await, None);
        assert_eq!(log.news(&mut place).await, names(&["a", "b", "x", "y"]));
    }

    #[tokio::test]
    async fn another_log_is_noticed_behind_a_damaged_line() {
        let (log, mut place) = (Log::of(&["a", "b"]).await, Place::default());
        log.damage_last();
        assert_eq!(log.news(&mut place).await, names(&["a"]));
        assert_eq!(log.news(&mut place).await, names(&[]));
        assert_eq!(log.news(&mut place).await, names(&[]), "the damaged one stands where it stood");
        log.replace(&["a", "x", "y"]).await;
        assert_eq!(log.news(&mut place).await, None);
        assert_eq!(log.news(&mut place).await, names(&["a", "x", "y"]));
    }

    #[tokio::test]
    async fn another_log_is_noticed_by_who_has_read_only_a_witness() {
        let log = Log::of(&["a", "b", "c"]).await;
        let mut place = Place::behind(2, (3, EventId::derived(&["c"])));
        assert_eq!(log.news(&mut place.clone()).await, names(&["c"]));
        log.replace(&["a", "b"]).await;
        assert_eq!(log.news(&mut place).await, None);
    }

    #[tokio::test]
    async fn what_the_last_line_says_is_not_read_again() {
        let (log, mut place) = (Log::of(&["a", "b"]).await, Place::default());
        assert_eq!(log.news(&mut place).await, names(&["a", "b"]));
        // Who reads it learns nothing from it now, and would not notice.
        log.replace(&["a", "x"]).await;
        log.damage_last();
        assert_eq!(log.news(&mut place).await, None);
    }
}
