//! The tables, and how an older database becomes a newer one.

use hone_trace::store::StoreError;
use rusqlite::{Connection, TransactionBehavior};

/// Step n takes the schema from version n to n + 1. A published step is never changed.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE tenants (
        id   INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    ) STRICT;

    CREATE TABLE traces (
        seq      INTEGER PRIMARY KEY,
        id       BLOB NOT NULL,
        tenant   INTEGER NOT NULL REFERENCES tenants,
        at       INTEGER NOT NULL,
        category TEXT,
        config   BLOB NOT NULL,
        outcome  INTEGER NOT NULL,
        reward   REAL,
        band     INTEGER NOT NULL,
        n_turns  INTEGER NOT NULL,
        n_tokens INTEGER NOT NULL,
        cost_usd REAL NOT NULL,
        hash     BLOB NOT NULL
    ) STRICT;
    -- Apart from what lists show, so that a list reads few pages and a body fills its own.
    CREATE TABLE bodies (
        seq  INTEGER PRIMARY KEY REFERENCES traces,
        body TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX traces_id ON traces (id);
    CREATE INDEX traces_by_category ON traces (tenant, category, band, at, seq, reward, outcome);
    CREATE INDEX traces_by_outcome ON traces (tenant, outcome, at, seq);
    CREATE INDEX traces_by_config ON traces (config, at, seq);

    CREATE TABLE indexed_fields (
        path TEXT PRIMARY KEY
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE trace_fields (
        path  TEXT NOT NULL,
        value TEXT NOT NULL,
        at    INTEGER NOT NULL,
        seq   INTEGER NOT NULL REFERENCES traces,
        PRIMARY KEY (path, value, at, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE rewards (
        seq   INTEGER PRIMARY KEY,
        id    BLOB NOT NULL UNIQUE,
        trace BLOB NOT NULL,
        hash  BLOB NOT NULL,
        body  TEXT NOT NULL
    ) STRICT;
    CREATE INDEX rewards_by_trace ON rewards (trace);

    CREATE TABLE documents (
        seq      INTEGER PRIMARY KEY,
        kind     TEXT NOT NULL,
        id       TEXT NOT NULL,
        revision INTEGER NOT NULL,
        tenant   TEXT NOT NULL,
        at       INTEGER NOT NULL,
        hash     BLOB NOT NULL,
        body     TEXT NOT NULL,
        UNIQUE (kind, id, revision)
    ) STRICT;
    CREATE INDEX documents_by_time ON documents (kind, at, seq);

    CREATE TABLE links (
        src TEXT NOT NULL,
        rel TEXT NOT NULL,
        dst TEXT NOT NULL,
        PRIMARY KEY (src, rel, dst)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX links_by_target ON links (dst, rel, src);

    CREATE TABLE events (
        seq    INTEGER PRIMARY KEY AUTOINCREMENT,
        id     BLOB NOT NULL UNIQUE,
        at     INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        stream TEXT NOT NULL,
        kind   TEXT NOT NULL,
        hash   BLOB NOT NULL,
        body   TEXT NOT NULL
    ) STRICT;
    CREATE INDEX events_by_stream ON events (stream, seq);

    PRAGMA application_id = 1752133221;
    PRAGMA user_version = 1;
",
    "
    CREATE TABLE turns (
        seq      INTEGER PRIMARY KEY,
        trace    BLOB NOT NULL,
        turn_idx INTEGER NOT NULL,
        hash     BLOB NOT NULL,
        body     TEXT NOT NULL,
        UNIQUE (trace, turn_idx)
    ) STRICT;

    PRAGMA user_version = 2;
",
];

/// The schema that this binary writes.
pub(crate) const KNOWN: u32 = MIGRATIONS.len() as u32;

/// `hone` in ASCII: how a database says whose it is.
const APPLICATION_ID: u32 = 1_752_133_221;

/// Why a database cannot be used.
pub(crate) enum Refusal {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Brings the database to the known schema, or says why it cannot.
pub(crate) fn migrate(connection: &mut Connection, place: &str) -> Result<(), Refusal> {
    if version(connection)? == KNOWN && application(connection)? == APPLICATION_ID {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let found = version(&transaction)?;
    if found > KNOWN {
        return Err(Refusal::Store(StoreError::TooNew { place: place.to_owned(), found, known: KNOWN }));
    }
    let n_tables: u32 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let stranger = if found == 0 { n_tables > 0 } else { application(&transaction)? != APPLICATION_ID };
    if stranger {
        return Err(Refusal::Store(StoreError::Unavailable {
            place: place.to_owned(),
            reason: "it is a SQLite database of another program".to_owned(),
        }));
    }
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn application(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA application_id", [], |row| row.get(0))
}
