//! The default store: one SQLite file in write-ahead mode with full syncs, and blobs beside it.

mod checkpoint;
mod fate;
mod read;
mod repair;
mod scan;
mod schema;
mod writer;

use crate::blobs::Blobs;
use crate::dump::{self, Counts, Database, Dumped, Info, LogLine, Lost};
use crate::row::{Encoded, Row, check_path};
use crate::{Options, blobs};
use hone_trace::store::{
    Answer, Cursor, Document, DocumentHead, Event, Kind, Link, Page, Put, Store, StoreError, TraceQuery, Write,
};
use hone_trace::{BlobHash, EventId, Tenant, Time, Trace, TraceHead, TraceId};
use read::{damaged, parsed};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ffi, params};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use writer::{Job, Writer};

/// How long a statement waits for another process before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait before what SQLite itself does not wait for is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Records in one SQLite file.
pub struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    blobs: Blobs,
    indexed_fields: Arc<[String]>,
}

impl Sqlite {
    /// Opens `hone.db` in this folder, creating or migrating it where needed.
    pub async fn open(folder: &Path, options: &Options) -> Result<Self, StoreError> {
        let (folder, options) = (folder.to_owned(), options.clone());
        blocking(move || Self::open_blocking(&folder, &options)).await
    }

    fn open_blocking(folder: &Path, options: &Options) -> Result<Self, StoreError> {
        Self::open_writable(folder, options).map_err(|error| match error {
            StoreError::Unavailable { place, .. } if is_read_only(folder) => {
                // SQLite itself only says that it cannot open a file.
                let reason = "its folder is read-only, and SQLite writes there even to read; copy the folder to where it can be \
                              written, and open the copy";
                StoreError::Unavailable { place, reason: reason.to_owned() }
            }
            error => error,
        })
    }

    fn open_writable(folder: &Path, options: &Options) -> Result<Self, StoreError> {
        options.indexed_fields.iter().try_for_each(|path| check_path(path))?;
        let file = folder.join("hone.db");
        let place = file.display().to_string();
        let unusable = |error: std::io::Error| StoreError::Unavailable { place: place.clone(), reason: error.to_string() };
        std::fs::create_dir_all(folder.join("blobs")).map_err(unusable)?;
        let readers = Readers { file, vfs: options.sqlite_vfs.clone(), place: place.clone(), idle: Mutex::default() };
        let failed = |error: rusqlite::Error| fate::of(&error, &place);

        let mut writer = readers.connect(OpenFlags::SQLITE_OPEN_CREATE).map_err(failed)?;
        set_up_writer(&writer).map_err(failed)?;
        schema::migrate(&mut writer, &place).map_err(|refusal| match refusal {
            schema::Refusal::Sqlite(error) => fate::of(&error, &place),
            schema::Refusal::Store(error) => error,
        })?;
        blobs::sync_folder(folder).map_err(unusable)?;
        let indexed_fields = index_fields(&mut writer, &options.indexed_fields).map_err(failed)?;
        let checkpointer = readers.connect(OpenFlags::empty()).map_err(failed)?;
        set_up_writer(&checkpointer).map_err(failed)?;
        let checkpointer = checkpoint::Checkpointer::start(checkpointer, place.clone());
        Ok(Self {
            writer: Writer::start(writer, checkpointer, place),
            readers: Arc::new(readers),
            blobs: Blobs::new(folder.join("blobs")),
            indexed_fields: indexed_fields.into(),
        })
    }

    /// Runs a read on a connection of its own, off the caller's thread.
    fn read<'a, T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        let readers = Arc::clone(&self.readers);
        Box::pin(blocking(move || readers.with(ask)))
    }

    fn files<'a, T: Send + 'static>(&self, ask: impl FnOnce(&Blobs) -> std::io::Result<T> + Send + 'static) -> Answer<'a, T> {
        let (blobs, place) = (self.blobs.clone(), self.readers.place.clone());
        Box::pin(blocking(move || {
            ask(&blobs).map_err(|error| match error.kind() {
                std::io::ErrorKind::StorageFull => StoreError::Full(place),
                _ => StoreError::Unavailable { place, reason: error.to_string() },
            })
        }))
    }
}

impl Store for Sqlite {
    fn put(&self, writes: Vec<Write>) -> Answer<'_, Vec<Put>> {
        Box::pin(async move { self.put_encoded(Encoded::all(writes, &self.indexed_fields)?).await })
    }

    fn trace(&self, id: TraceId) -> Answer<'_, Option<Trace>> {
        self.read(move |connection| read::trace(connection, id))
    }

    fn heads<'a>(&'a self, query: &'a TraceQuery, after: Option<Cursor>, limit: u32) -> Answer<'a, Page<TraceHead>> {
        let (query, fields) = (query.clone(), Arc::clone(&self.indexed_fields));
        if let Some(refusal) = refused(&query) {
            return refusal;
        }
        self.read(move |connection| {
            let (items, next) = read::heads(connection, &query, &fields, after, limit)?;
            Ok(Page { items, next })
        })
    }

    fn traces<'a>(&'a self, query: &'a TraceQuery, after: Option<Cursor>, limit: u32) -> Answer<'a, Page<Trace>> {
        let (query, fields) = (query.clone(), Arc::clone(&self.indexed_fields));
        if let Some(refusal) = refused(&query) {
            return refusal;
        }
        self.read(move |connection| {
            let (items, next) = read::traces(connection, &query, &fields, after, limit)?;
            Ok(Page { items, next })
        })
    }

    fn explain<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, String> {
        let (query, fields) = (query.clone(), Arc::clone(&self.indexed_fields));
        if let Some(refusal) = refused(&query) {
            return refusal;
        }
        self.read(move |connection| read::explain(connection, &query, &fields))
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        let id = id.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT kind, id, revision, tenant, at, body, hash FROM documents
                     WHERE kind = ?1 AND id = ?2 ORDER BY revision DESC LIMIT 1",
                )?
                .query_row(params![kind.as_str(), id], document)
                .optional()
        })
    }

    fn documents(&self, kind: Kind, after: Option<Cursor>, limit: u32) -> Answer<'_, Page<Document>> {
        let (at, seq) = after.map_or((i64::MAX, i64::MAX), |cursor| (cursor.at.unix_nanos(), cursor.seq));
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT d.kind, d.id, d.revision, d.tenant, d.at, d.body, d.hash, d.seq FROM documents d
                 WHERE d.kind = ?1 AND (d.at, d.seq) < (?2, ?3) AND NOT EXISTS (
                     SELECT 1 FROM documents n WHERE n.kind = d.kind AND n.id = d.id AND n.revision = d.revision + 1)
                 ORDER BY d.at DESC, d.seq DESC LIMIT ?4",
            )?;
            let mut rows = statement.query(params![kind.as_str(), at, seq, limit])?;
            let (mut items, mut next) = (Vec::new(), None);
            while let Some(row) = rows.next()? {
                items.push(document(row)?);
                next = Some(Cursor { at: Time::from_unix_nanos(row.get(4)?), seq: row.get(7)? });
            }
            let next = next.filter(|_| items.len() == limit as usize);
            Ok(Page { items, next })
        })
    }

    fn document_heads(&self, kind: Kind, after: Option<Cursor>, limit: u32) -> Answer<'_, Page<DocumentHead>> {
        let (at, seq) = after.map_or((i64::MAX, i64::MAX), |cursor| (cursor.at.unix_nanos(), cursor.seq));
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT d.id, d.tenant, d.at, d.seq FROM documents d
                 WHERE d.kind = ?1 AND (d.at, d.seq) < (?2, ?3) AND NOT EXISTS (
                     SELECT 1 FROM documents n WHERE n.kind = d.kind AND n.id = d.id AND n.revision = d.revision + 1)
                 ORDER BY d.at DESC, d.seq DESC LIMIT ?4",
            )?;
            let mut rows = statement.query(params![kind.as_str(), at, seq, limit])?;
            let (mut items, mut next) = (Vec::new(), None);
            while let Some(row) = rows.next()? {
                items.push(DocumentHead { id: row.get(0)?, tenant: Tenant::new(row.get::<_, String>(1)?).ok() });
                next = Some(Cursor { at: Time::from_unix_nanos(row.get(2)?), seq: row.get(3)? });
            }
            let next = next.filter(|_| items.len() == limit as usize);
            Ok(Page { items, next })
        })
    }

    fn links_from<'a>(&'a self, node: &'a str) -> Answer<'a, Vec<Link>> {
        let node = node.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT src, rel, dst FROM links WHERE src = ?1 ORDER BY rel, dst")?
                .query_map([node], link)?
                .collect()
        })
    }

    fn links_to<'a>(&'a self, node: &'a str) -> Answer<'a, Vec<Link>> {
        let node = node.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT src, rel, dst FROM links WHERE dst = ?1 ORDER BY rel, src")?
                .query_map([node], link)?
                .collect()
        })
    }

    fn events<'a>(&'a self, stream: Option<&'a str>, after: u64, limit: u32) -> Answer<'a, Vec<(u64, Event)>> {
        let stream = stream.map(str::to_owned);
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.read(move |connection| match stream {
            Some(stream) => connection
                .prepare_cached(
                    "SELECT seq, id, at, tenant, stream, kind, body, hash FROM events
                     WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
                )?
                .query_map(params![stream, after, limit], event)?
                .collect(),
            None => connection
                .prepare_cached(
                    "SELECT seq, id, at, tenant, stream, kind, body, hash FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
                )?
                .query_map(params![after, limit], event)?
                .collect(),
        })
    }

    fn event_ids<'a>(&'a self, stream: Option<&'a str>, after: u64, limit: u32) -> Answer<'a, Vec<(u64, EventId)>> {
        let stream = stream.map(str::to_owned);
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.read(move |connection| match stream {
            Some(stream) => connection
                .prepare_cached("SELECT seq, id FROM events WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?
                .query_map(params![stream, after, limit], event_id)?
                .collect(),
            None => connection
                .prepare_cached("SELECT seq, id FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2")?
                .query_map(params![after, limit], event_id)?
                .collect(),
        })
    }

    fn put_blob(&self, bytes: Vec<u8>) -> Answer<'_, BlobHash> {
        self.files(move |blobs| blobs.put(&bytes))
    }

    fn blob(&self, hash: BlobHash) -> Answer<'_, Option<Vec<u8>>> {
        self.files(move |blobs| blobs.get(hash))
    }
}

impl Database for Sqlite {
    fn put_encoded(&self, writes: Vec<Encoded>) -> Answer<'_, Vec<Put>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let gone =
                || StoreError::Unavailable { place: self.readers.place.clone(), reason: "its writer has ended".to_owned() };
            self.writer.queue().send(Job { rows: Row::ranked(writes), reply }).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }

    fn repair(&self, writes: Vec<Encoded>) -> Answer<'_, Vec<bool>> {
        let readers = Arc::clone(&self.readers);
        Box::pin(blocking(move || {
            let failed = |error: rusqlite::Error| {
                fate::end_on_failed_sync(&error, &readers.place);
                fate::of(&error, &readers.place)
            };
            let mut connection = readers.connect(OpenFlags::empty()).map_err(failed)?;
            set_up_writer(&connection).map_err(failed)?;
            repair::all(&mut connection, &writes).map_err(failed)
        }))
    }

    fn dump(&self, sink: mpsc::Sender<Dumped>) -> Answer<'_, ()> {
        self.read(move |connection| {
            // One read transaction: what is written meanwhile is not in this view.
            let view = connection.unchecked_transaction()?;
            scan::all(&view, &sink)
        })
    }

    fn lines<'a>(&'a self, stream: &'a str, after: u64, limit: u32) -> Answer<'a, Vec<LogLine>> {
        let (stream, after) = (stream.to_owned(), i64::try_from(after).unwrap_or(i64::MAX));
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT seq, id, CASE WHEN json_valid(body) THEN CAST(body ->> '$.agent' AS TEXT) END FROM events
                     WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
                )?
                .query_map(params![stream, after, limit], |row| {
                    let number = row.get::<_, i64>(0)?.unsigned_abs();
                    Ok(LogLine { number, id: EventId::from_bytes(row.get(1)?), agent: row.get(2)? })
                })?
                .collect()
        })
    }

    fn complaints(&self) -> Answer<'_, Vec<String>> {
        self.read(|connection| {
            let mut complaints = Vec::new();
            // Where a page is damaged the examination itself ends early.
            let ended = [examined(connection, &mut complaints), missing(connection, &mut complaints)];
            for ended in ended {
                match ended {
                    Err(error) if !fate::is_corrupt(&error) => return Err(error),
                    Err(error) if complaints.is_empty() => complaints.push(error.to_string()),
                    _ => {}
                }
            }
            Ok(complaints)
        })
    }

    fn info(&self) -> Answer<'_, Info> {
        let place = self.readers.place.clone();
        self.read(move |connection| {
            let (counts, n_turns, n_rewarded) = connection.query_row(
                "SELECT (SELECT count(*) FROM traces), (SELECT count(*) FROM turns), (SELECT count(*) FROM rewards),
                        (SELECT count(*) FROM documents), (SELECT count(*) FROM links), (SELECT count(*) FROM events),
                        (SELECT coalesce(sum(n_turns), 0) FROM traces), (SELECT count(reward) FROM traces)",
                [],
                |row| {
                    let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
                    let counts = Counts {
                        traces: count(0)?,
                        turns: count(1)?,
                        rewards: count(2)?,
                        documents: count(3)?,
                        links: count(4)?,
                        events: count(5)?,
                    };
                    Ok((counts, count(6)?, count(7)?))
                },
            )?;
            let engine = format!("SQLite {}", rusqlite::version());
            Ok(Info { place, engine, schema: schema::KNOWN, counts, n_turns, n_rewarded })
        })
    }

    fn blob_hashes(&self) -> Answer<'_, Vec<BlobHash>> {
        self.files(Blobs::list)
    }
}

/// What SQLite says of its own file.
fn examined(connection: &Connection, found: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        // One row may hold many lines, below the name of the database.
        found.extend(line.lines().filter(|line| *line != "ok" && !line.starts_with("***")).map(str::to_owned));
    }
    Ok(())
}

/// What others speak of and is not there.
fn missing(connection: &Connection, found: &mut Vec<String>) -> rusqlite::Result<()> {
    for (sql, lost) in
        [(LOST_TURNS, Lost::Turns), (TURNS_WITHOUT_TRACE, Lost::TraceOfTurns), (REWARDS_WITHOUT_TRACE, Lost::TraceOfRewards)]
    {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            found.push(lost.told(TraceId::from_bytes(row.get(0)?), row.get(1)?));
        }
    }
    Ok(())
}

/// Traces that count more turns than there are, with how many are missing.
const LOST_TURNS: &str = "
    SELECT c.id, c.n_turns - c.own - (
        SELECT count(*) FROM turns u WHERE u.trace = c.id AND u.turn_idx >= c.own AND u.turn_idx < c.n_turns) AS n_lost
    FROM (SELECT t.id, t.n_turns, CASE WHEN json_valid(b.body) THEN (
              SELECT coalesce(sum(json_array_length(s.value, '$.turns')), 0) FROM json_each(b.body, '$.segments') s) END AS own
          FROM traces t JOIN bodies b ON b.seq = t.seq) c
    WHERE n_lost > 0";

const TURNS_WITHOUT_TRACE: &str = "
    SELECT u.trace, count(*) FROM turns u WHERE NOT EXISTS (SELECT 1 FROM traces t WHERE t.id = u.trace) GROUP BY u.trace";

const REWARDS_WITHOUT_TRACE: &str = "
    SELECT r.trace, count(*) FROM rewards r WHERE NOT EXISTS (SELECT 1 FROM traces t WHERE t.id = r.trace) GROUP BY r.trace";

/// Connections that no one reads with at the moment.
struct Readers {
    file: std::path::PathBuf,
    vfs: Option<String>,
    place: String,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    fn with<T>(&self, ask: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let failed = |error: rusqlite::Error| fate::of(&error, &self.place);
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect(OpenFlags::empty()).map_err(failed)?,
        };
        let answer = ask(&connection).map_err(failed);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        answer
    }

    fn connect(&self, more: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.file, flags, vfs.as_str())?,
            None => Connection::open_with_flags(&self.file, flags)?,
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.execute_batch("PRAGMA cache_size = -8192")?;
        Ok(connection)
    }
}

/// Whether files cannot be made in this folder, whatever the reason.
fn is_read_only(folder: &Path) -> bool {
    let trial = folder.join(format!(".writable.{}", std::process::id()));
    match std::fs::File::create(&trial) {
        Ok(_) => {
            let _ = std::fs::remove_file(&trial);
            false
        }
        Err(error) => {
            matches!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied)
        }
    }
}

fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    // SQLite keeps the old mode when it cannot change it, and only says so in its answer.
    let mode = keep_log(connection)?;
    if mode != "wal" {
        let refusal = "the file system does not let SQLite keep a write-ahead log";
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(refusal.to_owned())));
    }
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -65536;
         PRAGMA foreign_keys = OFF;",
    )
}

/// Has the file keep a write-ahead log, and says which mode it is in then. Of two that ask for it at once in a fresh
/// file, each reads what the other has to lock: SQLite refuses one of them at once, and that one asks again.
fn keep_log(connection: &Connection) -> rusqlite::Result<String> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < deadline => {
                std::thread::sleep(BUSY_PAUSE);
            }
            mode => return mode,
        }
    }
}

/// The paths that are indexed, whichever process declared them.
fn indexed_fields(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare_cached("SELECT path FROM indexed_fields ORDER BY path")?.query_map([], |row| row.get(0))?.collect()
}

/// Adds the declared paths to the index of fields, and says which paths it then holds. What others declared stays.
fn index_fields(connection: &mut Connection, declared: &[String]) -> rusqlite::Result<Vec<String>> {
    let known = indexed_fields(connection)?;
    let added: Vec<&String> = declared.iter().filter(|path| !known.contains(path)).collect();
    if added.is_empty() {
        return Ok(known);
    }
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for path in added {
        transaction.execute("INSERT OR IGNORE INTO indexed_fields (path) VALUES (?1)", [path])?;
        let mut statement = transaction.prepare("SELECT t.seq, t.at, b.body FROM traces t JOIN bodies b ON b.seq = t.seq")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // A damaged body has no fields; `verify` names it.
            let Ok(body) = parsed::<serde_json::Value>(row, 2) else { continue };
            for (path, value) in crate::row::fields(&body, std::slice::from_ref(path)) {
                transaction
                    .prepare_cached("INSERT OR IGNORE INTO trace_fields (path, value, at, seq) VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![path, value, row.get::<_, i64>(1)?, row.get::<_, i64>(0)?])?;
            }
        }
    }
    let indexed = indexed_fields(&transaction)?;
    transaction.commit()?;
    Ok(indexed)
}

fn document(row: &rusqlite::Row<'_>) -> rusqlite::Result<Document> {
    let (name, id): (String, String) = (row.get(0)?, row.get(1)?);
    let read = || {
        Ok(Document {
            kind: dump::kind(&name).map_err(|error| damaged(0, error))?,
            id: id.clone(),
            revision: row.get(2)?,
            tenant: Tenant::new(row.get::<_, String>(3)?).map_err(|error| damaged(3, error))?,
            at: Time::from_unix_nanos(row.get(4)?),
            body: parsed(row, 5)?,
        })
    };
    fate::named(read(), || format!("{name} {id}"))
}

fn link(row: &rusqlite::Row<'_>) -> rusqlite::Result<Link> {
    Ok(Link { from: row.get(0)?, rel: row.get(1)?, to: row.get(2)? })
}

fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<(u64, Event)> {
    let id = EventId::from_bytes(row.get(1)?);
    let read = || {
        let event = Event {
            id,
            at: Time::from_unix_nanos(row.get(2)?),
            tenant: Tenant::new(row.get::<_, String>(3)?).map_err(|error| damaged(3, error))?,
            stream: row.get(4)?,
            kind: row.get(5)?,
            body: parsed(row, 6)?,
        };
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), event))
    };
    fate::named(read(), || format!("event {id}"))
}

fn event_id(row: &rusqlite::Row<'_>) -> rusqlite::Result<(u64, EventId)> {
    // Where the id itself is damaged there is still a number.
    Ok((row.get::<_, i64>(0)?.unsigned_abs(), EventId::from_bytes(row.get(1).unwrap_or_default())))
}

/// A query that cannot be asked, such as one with a malformed path.
fn refused<'a, T: Send + 'a>(query: &TraceQuery) -> Option<Answer<'a, T>> {
    let error = query.field.as_ref().and_then(|field| check_path(&field.path).err())?;
    Some(Box::pin(std::future::ready(Err(error))))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
