//! All records of one view, table by table.
//!
//! A table is read from end to end. Where a damaged page ends that, the numbers of the records left are taken from an index,
//! and each is read by itself: those that cannot be read are named, and all others are still there. Where that index is damaged
//! too, every number up to the last is tried.

use super::fate;
use super::read::parsed;
use super::{document, event, link};
use crate::dump::{Dumped, NO_HASH};
use crate::growth::turn_of;
use crate::row::Hash;
use hone_trace::store::{Link, StoreError, Write};
use hone_trace::{EventId, RewardId, TraceId};
use rusqlite::{Connection, OptionalExtension, Row};
use std::collections::{HashMap, HashSet};
use tokio::sync::mpsc;

/// How the records of one table are read.
struct Table {
    /// One of its records in words.
    what: &'static str,
    /// All of them in their order.
    all: &'static str,
    /// The one with this number.
    one: &'static str,
    /// The greatest number.
    last: &'static str,
    /// Only their keys, in the same order, from an index.
    keys: &'static str,
    record: fn(&Row<'_>) -> rusqlite::Result<(Hash, Write)>,
    /// What a record is called, from its key, with which every row begins.
    name: fn(&Row<'_>) -> rusqlite::Result<String>,
}

macro_rules! table {
    ($what:literal, $key:literal, $rest:literal, $from:literal, $index:literal, $order:literal, $record:expr, $name:expr) => {
        Table {
            what: $what,
            all: concat!("SELECT ", $key, ", ", $rest, ", s.seq AS number FROM ", $from, " ORDER BY ", $order),
            one: concat!("SELECT ", $key, ", ", $rest, ", s.seq AS number FROM ", $from, " WHERE s.seq = ?1"),
            last: concat!("SELECT max(seq) FROM ", $what, "s"),
            keys: concat!("SELECT ", $key, ", s.seq AS number FROM ", $what, "s s INDEXED BY ", $index, " ORDER BY ", $order),
            record: $record,
            name: $name,
        }
    };
}

const TRACES: Table = table!(
    "trace",
    "s.id",
    "s.hash, b.body",
    "traces s LEFT JOIN bodies b ON b.seq = s.seq",
    "traces_id",
    "s.seq",
    |row| Ok((row.get(1)?, Write::Trace(Box::new(parsed(row, 2)?)))),
    |row| Ok(format!("trace {}", TraceId::from_bytes(row.get(0)?)))
);

/// Those of a trace together and in their order, also where one was put back later.
const TURNS: Table = table!(
    "turn",
    "s.trace, s.turn_idx",
    "s.hash, s.body",
    "turns s",
    "sqlite_autoindex_turns_1",
    "s.trace, s.turn_idx",
    |row| Ok((row.get(2)?, Write::Turn(TraceId::from_bytes(row.get(0)?), Box::new(parsed(row, 3)?)))),
    |row| Ok(turn_of(TraceId::from_bytes(row.get(0)?), row.get(1)?))
);

const REWARDS: Table = table!(
    "reward",
    "s.id",
    "s.hash, s.body, s.trace",
    "rewards s",
    "sqlite_autoindex_rewards_1",
    "s.seq",
    |row| Ok((row.get(1)?, Write::Reward(TraceId::from_bytes(row.get(3)?), parsed(row, 2)?))),
    |row| Ok(format!("reward {}", RewardId::from_bytes(row.get(0)?)))
);

const DOCUMENTS: Table = table!(
    "document",
    "s.kind, s.id, s.revision",
    "s.tenant, s.at, s.body, s.hash",
    "documents s",
    "sqlite_autoindex_documents_1",
    "s.seq",
    |row| Ok((row.get(6)?, Write::Document(document(row)?))),
    |row| Ok(format!("{} {}", row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?))
);

const EVENTS: Table = table!(
    "event",
    "s.seq, s.id",
    "s.at, s.tenant, s.stream, s.kind, s.body, s.hash",
    "events s",
    "sqlite_autoindex_events_1",
    "s.seq",
    |row| Ok((row.get(7)?, Write::Event(event(row)?.1))),
    |row| Ok(format!("event {}", EventId::from_bytes(row.get(1)?)))
);

/// Sends every record: what others refer to comes first. When nobody listens any more it ends as if all were well.
pub(super) fn all(view: &Connection, sink: &mpsc::Sender<Dumped>) -> rusqlite::Result<()> {
    for table in [TRACES, TURNS, REWARDS, DOCUMENTS] {
        table.send(view, sink)?;
    }
    links(view, sink)?;
    EVENTS.send(view, sink)
}

/// Whether anybody listens still.
fn send(sink: &mpsc::Sender<Dumped>, record: rusqlite::Result<(Hash, Write)>, what: impl FnOnce() -> String) -> bool {
    sink.blocking_send(record.map_err(|error| fate::damage(&error, what))).is_ok()
}

impl Table {
    fn send(&self, view: &Connection, sink: &mpsc::Sender<Dumped>) -> rusqlite::Result<()> {
        let mut n_read = 0;
        let mut statement = view.prepare(self.all)?;
        let mut rows = statement.query([])?;
        loop {
            match rows.next() {
                Ok(Some(row)) if send(sink, (self.record)(row), || self.name(row)) => n_read += 1,
                Ok(_) => return Ok(()),
                Err(error) if fate::is_corrupt(&error) => return self.salvage(view, sink, n_read),
                Err(error) => return Err(error),
            }
        }
    }

    fn name(&self, row: &Row<'_>) -> String {
        (self.name)(row).unwrap_or_else(|_| format!("a {}", self.what))
    }

    /// Sends what is left after so many records, each read by itself.
    fn salvage(&self, view: &Connection, sink: &mpsc::Sender<Dumped>, n_read: usize) -> rusqlite::Result<()> {
        let read = self.first(view, n_read)?;
        let mut keys = Vec::new();
        let (numbers, end): (Vec<i64>, _) = match self.list(view, &mut keys) {
            Ok(()) => (keys.iter().map(|(number, _)| *number).collect(), Ok(())),
            Err(error) if fate::is_corrupt(&error) => {
                let known = keys.iter().map(|(number, _)| number).chain(&read).max().copied().unwrap_or_default();
                let last = view.query_row(self.last, [], |row| row.get::<_, Option<i64>>(0));
                let (last, end) = last.map_or_else(|error| (known, Err(error)), |last| (last.unwrap_or(known), Ok(())));
                ((1..=last).collect(), end)
            }
            Err(error) => return Err(error),
        };
        let names: HashMap<i64, String> = keys.into_iter().collect();
        let mut statement = view.prepare(self.one)?;
        for number in numbers.into_iter().filter(|number| !read.contains(number)) {
            let name = || names.get(&number).cloned().unwrap_or_else(|| format!("{} number {number}", self.what));
            let listens = match statement.query_row([number], |row| Ok((self.record)(row))).optional() {
                Ok(Some(record)) => send(sink, record, name),
                Ok(None) if names.contains_key(&number) => sink.blocking_send(Err(gone(name()))).is_ok(),
                Ok(None) => true,
                Err(error) if fate::is_corrupt(&error) => send(sink, Err(error), name),
                Err(error) => return Err(error),
            };
            if !listens {
                return Ok(());
            }
        }
        match end {
            Err(error) if fate::is_corrupt(&error) => {
                send(sink, Err(error), || format!("the end of the {}s", self.what));
                Ok(())
            }
            end => end,
        }
    }

    /// The numbers of the first records.
    fn first(&self, view: &Connection, n_records: usize) -> rusqlite::Result<HashSet<i64>> {
        view.prepare(self.all)?.query_map([], |row| row.get("number"))?.take(n_records).collect()
    }

    /// The number and the name of each, as far as the index can be read.
    fn list(&self, view: &Connection, keys: &mut Vec<(i64, String)>) -> rusqlite::Result<()> {
        let mut statement = view.prepare(self.keys)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            keys.push((row.get("number")?, self.name(row)));
        }
        Ok(())
    }
}

/// A record that only the index still knows.
fn gone(what: String) -> StoreError {
    StoreError::Damaged { what, reason: "it is gone".to_owned() }
}

/// The table and the index by target both hold all of a link: what one cannot say is taken from the other.
fn links(view: &Connection, sink: &mpsc::Sender<Dumped>) -> rusqlite::Result<()> {
    let mut n_read = 0;
    let mut statement = view.prepare(LINKS)?;
    let mut rows = statement.query([])?;
    let failed = loop {
        match rows.next() {
            Ok(Some(row)) if send(sink, link(row).map(as_write), || "a link".to_owned()) => n_read += 1,
            Ok(_) => return Ok(()),
            Err(error) if fate::is_corrupt(&error) => break error,
            Err(error) => return Err(error),
        }
    };
    let read: HashSet<Link> = view.prepare(LINKS)?.query_map([], link)?.take(n_read).collect::<rusqlite::Result<_>>()?;
    let mut statement = view.prepare(LINKS_BY_TARGET)?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next().and_then(|row| row.map(link).transpose()) {
            Ok(Some(link)) if read.contains(&link) || send(sink, Ok(as_write(link.clone())), String::new) => {}
            Ok(_) => return Ok(()),
            Err(error) if fate::is_corrupt(&error) => {
                send(sink, Err(failed), || "the end of the links".to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

const LINKS: &str = "SELECT src, rel, dst FROM links ORDER BY src, rel, dst";
const LINKS_BY_TARGET: &str = "SELECT src, rel, dst FROM links INDEXED BY links_by_target ORDER BY dst, rel, src";

fn as_write(link: Link) -> (Hash, Write) {
    (NO_HASH, Write::Link(link))
}
