//! The store for a fleet: the same records on PostgreSQL, bodies as JSONB, blobs in the database.

mod connection;
mod fields;
mod grow;
mod jsonb;
mod pool;
mod read;
mod repair;
mod schema;
mod url;
mod writer;

use crate::Options;
use crate::dump::{Counts, Database, Dumped, Info, LogLine, Lost, NO_HASH};
use crate::growth::turn_of;
use crate::row::{Encoded, Hash, Row, check_path};
use connection::{Connection, PATIENT, PROMPT, failure, within};
use hone_trace::store::{
    Answer, Cursor, Document, DocumentHead, Event, Field, Kind, Link, Page, Put, Store, StoreError, TraceQuery, Write,
};
use hone_trace::{BlobHash, EventId, NextTurn, Reward, Tenant, Time, Trace, TraceHead, TraceId};
use pool::{Pool, ask};
use read::parsed;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use writer::Job;

/// How many puts may wait; further ones wait outside.
const QUEUE_LEN_MAX: usize = 256;
/// Writers beside each other: the server spends most of a commit parsing JSON and compressing, on one core each.
const N_WRITERS: usize = 2;
/// The bytes of a blob that go into one row.
const BLOB_PART_BYTES: usize = 4 << 20;
/// Rows that a dump reads at a time.
const DUMP_LEN: i64 = 500;

/// Records in a PostgreSQL database.
pub struct Postgres {
    queue: mpsc::Sender<Job>,
    pool: Pool,
    indexed_fields: Arc<[String]>,
    place: String,
}

impl Postgres {
    /// Connects to this server, creating or migrating the schema `hone` where needed.
    pub async fn open(url: &str, options: &Options) -> Result<Self, StoreError> {
        options.indexed_fields.iter().try_for_each(|path| check_path(path))?;
        let config = url::read(url)?;
        let mut connection = Connection::open(&config).await?;
        schema::migrate(&mut connection).await?;
        let indexed_fields = fields::declare(&mut connection, &options.indexed_fields).await?;
        let (queue, jobs) = mpsc::channel(QUEUE_LEN_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        let place = connection.place().to_owned();
        // Opened now, so that a store that opens can also write. One writer is enough where the server has no room for more.
        let mut connections = vec![connection];
        while connections.len() < N_WRITERS {
            match Connection::open(&config).await {
                Ok(connection) => connections.push(connection),
                Err(refused) if refused.no_slot => break,
                Err(refused) => return Err(refused.error),
            }
        }
        for connection in connections {
            tokio::spawn(writer::run(config.clone(), connection, Arc::clone(&jobs)));
        }
        Ok(Self { queue, pool: Pool::new(config), indexed_fields: indexed_fields.into(), place })
    }

    fn failed(&self) -> impl Fn(tokio_postgres::Error) -> StoreError + use<> {
        let place = self.place.clone();
        move |error| failure(&error, &place)
    }
}

impl Store for Postgres {
    fn put(&self, writes: Vec<Write>) -> Answer<'_, Vec<Put>> {
        Box::pin(async move { self.put_encoded(Encoded::all(writes, &self.indexed_fields)?).await })
    }

    fn trace(&self, id: TraceId) -> Answer<'_, Option<Trace>> {
        Box::pin(async move { ask!(self.pool, PROMPT, |connection| read::trace(connection, id).await) })
    }

    fn heads<'a>(&'a self, query: &'a TraceQuery, after: Option<Cursor>, limit: u32) -> Answer<'a, Page<TraceHead>> {
        Box::pin(async move {
            check(query)?;
            let patience = self.patience(query);
            let (items, next) =
                ask!(self.pool, patience, |connection| read::heads(connection, query, &self.indexed_fields, after, limit).await)?;
            Ok(Page { items, next })
        })
    }

    fn traces<'a>(&'a self, query: &'a TraceQuery, after: Option<Cursor>, limit: u32) -> Answer<'a, Page<Trace>> {
        Box::pin(async move {
            check(query)?;
            let patience = self.patience(query);
            let (items, next) =
                ask!(self.pool, patience, |connection| read::traces(connection, query, &self.indexed_fields, after, limit)
                    .await)?;
            Ok(Page { items, next })
        })
    }

    fn explain<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, String> {
        Box::pin(async move {
            check(query)?;
            ask!(self.pool, PATIENT, |connection| read::explain(connection, query, &self.indexed_fields).await)
        })
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let row = connection
                    .client
                    .query_opt(
                        "SELECT kind, id, revision, tenant, at, coalesce(raw, body::text) FROM hone.documents
                     WHERE kind = $1 AND id = $2 ORDER BY revision DESC LIMIT 1",
                        &[&kind.as_str(), &id],
                    )
                    .await
                    .map_err(self.failed())?;
                row.as_ref().map(read::document).transpose()
            })
        })
    }

    fn documents(&self, kind: Kind, after: Option<Cursor>, limit: u32) -> Answer<'_, Page<Document>> {
        let (at, seq) = after.map_or((i64::MAX, i64::MAX), |cursor| (cursor.at.unix_nanos(), cursor.seq));
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let rows = connection
                    .client
                    .query(
                        "SELECT d.kind, d.id, d.revision, d.tenant, d.at, coalesce(d.raw, d.body::text), d.seq
                     FROM hone.documents d
                     WHERE d.kind = $1 AND (d.at, d.seq) < ($2::int8, $3::int8) AND NOT EXISTS (
                         SELECT FROM hone.documents n WHERE n.kind = d.kind AND n.id = d.id AND n.revision = d.revision + 1)
                     ORDER BY d.at DESC, d.seq DESC LIMIT $4",
                        &[&kind.as_str(), &at, &seq, &i64::from(limit)],
                    )
                    .await
                    .map_err(self.failed())?;
                let last = rows.last().filter(|_| rows.len() == limit as usize);
                let next = last.map(|row| Cursor { at: Time::from_unix_nanos(row.get(4)), seq: row.get(6) });
                Ok(Page { items: rows.iter().map(read::document).collect::<Result<_, _>>()?, next })
            })
        })
    }

    fn document_heads(&self, kind: Kind, after: Option<Cursor>, limit: u32) -> Answer<'_, Page<DocumentHead>> {
        let (at, seq) = after.map_or((i64::MAX, i64::MAX), |cursor| (cursor.at.unix_nanos(), cursor.seq));
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let rows = connection
                    .client
                    .query(
                        "SELECT d.id, d.tenant, d.at, d.seq FROM hone.documents d
                     WHERE d.kind = $1 AND (d.at, d.seq) < ($2::int8, $3::int8) AND NOT EXISTS (
                         SELECT FROM hone.documents n WHERE n.kind = d.kind AND n.id = d.id AND n.revision = d.revision + 1)
                     ORDER BY d.at DESC, d.seq DESC LIMIT $4",
                        &[&kind.as_str(), &at, &seq, &i64::from(limit)],
                    )
                    .await
                    .map_err(self.failed())?;
                let last = rows.last().filter(|_| rows.len() == limit as usize);
                let next = last.map(|row| Cursor { at: Time::from_unix_nanos(row.get(2)), seq: row.get(3) });
                let head = |row: &tokio_postgres::Row| DocumentHead {
                    id: row.get(0),
                    tenant: Tenant::new(row.get::<_, String>(1)).ok(),
                };
                Ok(Page { items: rows.iter().map(head).collect(), next })
            })
        })
    }

    fn links_from<'a>(&'a self, node: &'a str) -> Answer<'a, Vec<Link>> {
        self.links("SELECT src, rel, dst FROM hone.links WHERE src = $1 ORDER BY rel, dst", node)
    }

    fn links_to<'a>(&'a self, node: &'a str) -> Answer<'a, Vec<Link>> {
        self.links("SELECT src, rel, dst FROM hone.links WHERE dst = $1 ORDER BY rel, src", node)
    }

    fn events<'a>(&'a self, stream: Option<&'a str>, after: u64, limit: u32) -> Answer<'a, Vec<(u64, Event)>> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let limit = i64::from(limit);
                let rows = match stream {
                    Some(stream) => {
                        connection
                            .client
                            .query(
                                "SELECT seq, id, at, tenant, stream, kind, coalesce(raw, body::text) FROM hone.events
                             WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                                &[&stream, &after, &limit],
                            )
                            .await
                    }
                    None => {
                        connection
                            .client
                            .query(
                                "SELECT seq, id, at, tenant, stream, kind, coalesce(raw, body::text) FROM hone.events
                             WHERE seq > $1 ORDER BY seq LIMIT $2",
                                &[&after, &limit],
                            )
                            .await
                    }
                };
                rows.map_err(self.failed())?.iter().map(read::event).collect()
            })
        })
    }

    fn event_ids<'a>(&'a self, stream: Option<&'a str>, after: u64, limit: u32) -> Answer<'a, Vec<(u64, EventId)>> {
        let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), i64::from(limit));
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let client = &connection.client;
                let rows = match stream {
                    Some(stream) => {
                        let sql = "SELECT seq, id FROM hone.events WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3";
                        client.query(sql, &[&stream, &after, &limit]).await
                    }
                    None => {
                        let sql = "SELECT seq, id FROM hone.events WHERE seq > $1 ORDER BY seq LIMIT $2";
                        client.query(sql, &[&after, &limit]).await
                    }
                };
                Ok(rows.map_err(self.failed())?.iter().map(read::event_id).collect())
            })
        })
    }

    fn put_blob(&self, bytes: Vec<u8>) -> Answer<'_, BlobHash> {
        Box::pin(async move {
            let hash = BlobHash::of(&bytes);
            ask!(self.pool, PATIENT, |connection| {
                let transaction = connection.begin().await?;
                // An empty blob has one empty part, so that it is there.
                let parts = if bytes.is_empty() { vec![&bytes[..]] } else { bytes.chunks(BLOB_PART_BYTES).collect() };
                for (idx, part) in parts.into_iter().enumerate() {
                    let idx = i32::try_from(idx).unwrap_or(i32::MAX);
                    transaction
                        .execute(
                            "INSERT INTO hone.blobs (hash, part, bytes) VALUES ($1, $2, $3)
                         ON CONFLICT (hash, part) DO UPDATE SET bytes = $3 WHERE blobs.bytes <> $3",
                            &[&hash.bytes().as_slice(), &idx, &part],
                        )
                        .await
                        .map_err(self.failed())?;
                }
                transaction.commit().await.map_err(self.failed())?;
                Ok(hash)
            })
        })
    }

    fn blob(&self, hash: BlobHash) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            ask!(self.pool, PATIENT, |connection| {
                let rows = connection
                    .client
                    .query("SELECT bytes FROM hone.blobs WHERE hash = $1 ORDER BY part", &[&hash.bytes().as_slice()])
                    .await
                    .map_err(self.failed())?;
                let bytes = || rows.iter().flat_map(|row| row.get::<_, &[u8]>(0)).copied().collect();
                Ok((!rows.is_empty()).then(bytes))
            })
        })
    }
}

impl Postgres {
    /// Sends every record, each page of them within its time.
    async fn dump_all(&self, connection: &mut Connection, sink: &mpsc::Sender<Dumped>) -> Result<(), StoreError> {
        let view = within(&self.place, PROMPT, connection.begin()).await?;
        // One snapshot for all tables: what is written meanwhile is not in this view.
        view.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").await.map_err(self.failed())?;
        let [traces, rest @ ..] = &TABLES;
        if !self.dump_table(&view, traces, sink).await? || !self.dump_turns(&view, sink).await? {
            return Ok(());
        }
        for table in rest {
            if !self.dump_table(&view, table, sink).await? {
                return Ok(());
            }
        }
        for row in self.rows(&view, "SELECT src, rel, dst FROM hone.links ORDER BY src, rel, dst", &[]).await? {
            if sink.send(Ok((NO_HASH, Write::Link(read::link(&row))))).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn rows(
        &self,
        view: &Transaction<'_>,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        within(&self.place, PATIENT, async { view.query(sql, values).await.map_err(self.failed()) }).await
    }

    /// Whether somebody still listens.
    async fn dump_table(&self, view: &Transaction<'_>, table: &Table, sink: &mpsc::Sender<Dumped>) -> Result<bool, StoreError> {
        let mut after = 0_i64;
        loop {
            let rows = self.rows(view, table.sql, &[&after, &DUMP_LEN]).await?;
            for row in &rows {
                if sink.send((table.read)(row)).await.is_err() {
                    return Ok(false);
                }
            }
            match rows.last() {
                Some(last) if rows.len() as i64 == DUMP_LEN => after = last.get("seq"),
                _ => return Ok(true),
            }
        }
    }

    /// Whether somebody still listens.
    async fn dump_turns(&self, view: &Transaction<'_>, sink: &mpsc::Sender<Dumped>) -> Result<bool, StoreError> {
        let mut last = (Uuid::nil(), -1_i64);
        loop {
            let rows = self.rows(view, TURNS, &[&last.0, &last.1, &DUMP_LEN]).await?;
            for row in &rows {
                if sink.send(turn(row)).await.is_err() {
                    return Ok(false);
                }
            }
            match rows.last() {
                Some(row) if rows.len() as i64 == DUMP_LEN => last = (row.get(0), row.get(1)),
                _ => return Ok(true),
            }
        }
    }

    /// How long a list may take: a field without an index is looked up in every body.
    fn patience(&self, query: &TraceQuery) -> Duration {
        let is_indexed = |field: &Field| self.indexed_fields.contains(&field.path);
        if query.field.as_ref().is_none_or(is_indexed) { PROMPT } else { PATIENT }
    }

    fn links<'a>(&'a self, sql: &'static str, node: &'a str) -> Answer<'a, Vec<Link>> {
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let rows = connection.client.query(sql, &[&node]).await.map_err(self.failed())?;
                Ok(rows.iter().map(read::link).collect())
            })
        })
    }
}

impl Database for Postgres {
    fn put_encoded(&self, writes: Vec<Encoded>) -> Answer<'_, Vec<Put>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let gone = || StoreError::Unavailable { place: self.place.clone(), reason: "its writers have ended".to_owned() };
            self.queue.send(Job { rows: Row::ranked(writes), reply }).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }

    fn repair(&self, writes: Vec<Encoded>) -> Answer<'_, Vec<bool>> {
        Box::pin(async move {
            ask!(self.pool, PATIENT, |connection| {
                let transaction = connection.begin().await?;
                let repaired = repair::all(&transaction, &writes).await.map_err(self.failed())?;
                transaction.commit().await.map_err(self.failed())?;
                Ok(repaired)
            })
        })
    }

    fn dump(&self, sink: mpsc::Sender<Dumped>) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut loan = self.pool.take().await?;
            let dumped = self.dump_all(&mut loan, &sink).await;
            // What went wrong may go wrong with the next, too.
            if dumped.is_err() {
                loan.discard();
            }
            dumped
        })
    }

    fn lines<'a>(&'a self, stream: &'a str, after: u64, limit: u32) -> Answer<'a, Vec<LogLine>> {
        let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), i64::from(limit));
        Box::pin(async move {
            ask!(self.pool, PROMPT, |connection| {
                let sql =
                    "SELECT seq, id, body ->> 'agent' FROM hone.events WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3";
                let rows = connection.client.query(sql, &[&stream, &after, &limit]).await.map_err(self.failed())?;
                let line = |row: &tokio_postgres::Row| LogLine {
                    number: row.get::<_, i64>(0).unsigned_abs(),
                    id: EventId::from_bytes(row.get::<_, Uuid>(1).into_bytes()),
                    agent: row.get(2),
                };
                Ok(rows.iter().map(line).collect())
            })
        })
    }

    fn complaints(&self) -> Answer<'_, Vec<String>> {
        Box::pin(async move {
            ask!(self.pool, PATIENT, |connection| {
                let rows = connection
                    .client
                    .query("SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'", &[])
                    .await
                    .map_err(self.failed())?;
                let off = |row: &tokio_postgres::Row| {
                    format!("the server runs with {} = off: a power cut can lose what was acknowledged", row.get::<_, &str>(0))
                };
                let mut complaints: Vec<String> = rows.iter().map(off).collect();
                for (sql, lost) in [
                    (LOST_TURNS, Lost::Turns),
                    (TURNS_WITHOUT_TRACE, Lost::TraceOfTurns),
                    (REWARDS_WITHOUT_TRACE, Lost::TraceOfRewards),
                ] {
                    let rows = connection.client.query(sql, &[]).await.map_err(self.failed())?;
                    let told = |row: &tokio_postgres::Row| lost.told(trace_id(row), row.get(1));
                    complaints.extend(rows.iter().map(told));
                }
                Ok(complaints)
            })
        })
    }

    fn info(&self) -> Answer<'_, Info> {
        Box::pin(async move {
            ask!(self.pool, PATIENT, |connection| {
                let row = connection
                    .client
                    .query_one(
                        "SELECT (SELECT count(*) FROM hone.traces), (SELECT count(*) FROM hone.turns),
                            (SELECT count(*) FROM hone.rewards), (SELECT count(*) FROM hone.documents),
                            (SELECT count(*) FROM hone.links), (SELECT count(*) FROM hone.events),
                            current_setting('server_version'),
                            (SELECT coalesce(sum(n_turns), 0)::int8 FROM hone.traces),
                            (SELECT count(reward) FROM hone.traces)",
                        &[],
                    )
                    .await
                    .map_err(self.failed())?;
                let count = |column: usize| row.get::<_, i64>(column).unsigned_abs();
                let counts = Counts {
                    traces: count(0),
                    turns: count(1),
                    rewards: count(2),
                    documents: count(3),
                    links: count(4),
                    events: count(5),
                };
                let engine = format!("PostgreSQL {}", row.get::<_, &str>(6));
                let (n_turns, n_rewarded) = (count(7), count(8));
                Ok(Info { place: self.place.clone(), engine, schema: schema::KNOWN, counts, n_turns, n_rewarded })
            })
        })
    }

    fn blob_hashes(&self) -> Answer<'_, Vec<BlobHash>> {
        Box::pin(async move {
            ask!(self.pool, PATIENT, |connection| {
                let rows = connection.client.query("SELECT hash FROM hone.blobs WHERE part = 0 ORDER BY hash", &[]).await;
                let rows = rows.map_err(self.failed())?;
                Ok(rows.iter().map(|row| BlobHash::from_bytes(row.get::<_, &[u8]>(0).try_into().unwrap_or_default())).collect())
            })
        })
    }
}

/// Traces that count more turns than there are, with how many are missing.
const LOST_TURNS: &str = "
    SELECT c.id, c.n_turns - c.own - u.n FROM (
        SELECT t.id, t.n_turns, (SELECT count(*) FROM jsonb_path_query(t.body, '$.segments[*].turns[*]')) AS own
        FROM hone.traces t) c
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM hone.turns u WHERE u.trace = c.id AND u.turn_idx >= c.own AND u.turn_idx < c.n_turns) u
    WHERE c.n_turns - c.own - u.n > 0";

const TURNS_WITHOUT_TRACE: &str = "
    SELECT u.trace, count(*) FROM hone.turns u
    WHERE NOT EXISTS (SELECT FROM hone.traces t WHERE t.id = u.trace) GROUP BY u.trace";

const REWARDS_WITHOUT_TRACE: &str = "
    SELECT r.trace, count(*) FROM hone.rewards r
    WHERE NOT EXISTS (SELECT FROM hone.traces t WHERE t.id = r.trace) GROUP BY r.trace";

/// The turns after one of them: those of a trace together and in their order, also where one was put back later.
const TURNS: &str = "
    SELECT trace, turn_idx, coalesce(raw, body::text), hash FROM hone.turns
    WHERE (trace, turn_idx) > ($1, $2) ORDER BY trace, turn_idx LIMIT $3";

fn trace_id(row: &tokio_postgres::Row) -> TraceId {
    TraceId::from_bytes(row.get::<_, Uuid>(0).into_bytes())
}

fn turn(row: &tokio_postgres::Row) -> Dumped {
    let trace = trace_id(row);
    let what = || turn_of(trace, u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX));
    let next: NextTurn = parsed(row, 2, what)?;
    Ok((hash(row), Write::Turn(trace, Box::new(next))))
}

/// How a dump reads a table: from number $1 on, at most $2 rows.
struct Table {
    sql: &'static str,
    read: fn(&tokio_postgres::Row) -> Dumped,
}

const TABLES: [Table; 4] = [
    Table {
        sql: "SELECT id, coalesce(raw, body::text), hash, seq FROM hone.traces WHERE seq > $1 ORDER BY seq LIMIT $2",
        read: |row| {
            let trace: Trace = parsed(row, 1, || format!("trace {}", row.get::<_, Uuid>(0)))?;
            Ok((hash(row), Write::Trace(Box::new(trace))))
        },
    },
    Table {
        sql: "SELECT id, coalesce(raw, body::text), trace, hash, seq FROM hone.rewards WHERE seq > $1 ORDER BY seq LIMIT $2",
        read: |row| {
            let reward: Reward = parsed(row, 1, || format!("reward {}", row.get::<_, Uuid>(0)))?;
            let trace = TraceId::from_bytes(row.get::<_, Uuid>(2).into_bytes());
            Ok((hash(row), Write::Reward(trace, reward)))
        },
    },
    Table {
        sql: "SELECT kind, id, revision, tenant, at, coalesce(raw, body::text), hash, seq FROM hone.documents
              WHERE seq > $1 ORDER BY seq LIMIT $2",
        read: |row| Ok((hash(row), Write::Document(read::document(row)?))),
    },
    Table {
        sql: "SELECT seq, id, at, tenant, stream, kind, coalesce(raw, body::text), hash FROM hone.events
              WHERE seq > $1 ORDER BY seq LIMIT $2",
        read: |row| Ok((hash(row), Write::Event(read::event(row)?.1))),
    },
];

fn hash(row: &tokio_postgres::Row) -> Hash {
    row.get::<_, &[u8]>("hash").try_into().unwrap_or_default()
}

fn check(query: &TraceQuery) -> Result<(), StoreError> {
    query.field.as_ref().map_or(Ok(()), |field| check_path(&field.path))
}
