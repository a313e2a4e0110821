//! The tables, in a schema of their own so that they never meet a user's, and how an older version becomes a newer one.

use super::connection::{Connection, PROMPT, failure, within, words};
use hone_trace::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::{GenericClient, Transaction};

/// Step n takes the schema from version n to n + 1. A published step is never changed.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE hone.tenants (
        id   INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    );

    CREATE TABLE hone.traces (
        seq      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id       UUID NOT NULL,
        tenant   INTEGER NOT NULL REFERENCES hone.tenants,
        at       BIGINT NOT NULL,
        category TEXT,
        config   BYTEA NOT NULL,
        outcome  SMALLINT NOT NULL,
        reward   DOUBLE PRECISION,
        band     SMALLINT NOT NULL,
        n_turns  BIGINT NOT NULL,
        n_tokens BIGINT NOT NULL,
        cost_usd DOUBLE PRECISION NOT NULL,
        hash     BYTEA NOT NULL,
        body     JSONB NOT NULL,
        raw      TEXT
    );
    CREATE UNIQUE INDEX traces_id ON hone.traces (id);
    CREATE INDEX traces_by_category ON hone.traces (tenant, category, band, at, seq) INCLUDE (reward, outcome);
    -- Written as an expression so that the planner cannot take it for a query by category and band, which
    -- it would without statistics.
    CREATE INDEX traces_by_reward ON hone.traces (tenant, (band + 0), at, seq) INCLUDE (reward);
    CREATE INDEX traces_by_outcome ON hone.traces (tenant, outcome, at, seq);
    CREATE INDEX traces_by_config ON hone.traces (config, at, seq);

    CREATE TABLE hone.indexed_fields (
        path TEXT PRIMARY KEY
    );
    CREATE TABLE hone.trace_fields (
        path  TEXT NOT NULL,
        value TEXT NOT NULL,
        at    BIGINT NOT NULL,
        seq   BIGINT NOT NULL,
        PRIMARY KEY (path, value, at, seq)
    );

    CREATE TABLE hone.rewards (
        seq   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id    UUID NOT NULL UNIQUE,
        trace UUID NOT NULL,
        hash  BYTEA NOT NULL,
        body  JSONB NOT NULL,
        raw   TEXT
    );
    CREATE INDEX rewards_by_trace ON hone.rewards (trace);

    CREATE TABLE hone.documents (
        seq      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        kind     TEXT NOT NULL,
        id       TEXT NOT NULL,
        revision BIGINT NOT NULL,
        tenant   TEXT NOT NULL,
        at       BIGINT NOT NULL,
        hash     BYTEA NOT NULL,
        body     JSONB NOT NULL,
        raw      TEXT,
        UNIQUE (kind, id, revision)
    );
    CREATE INDEX documents_by_time ON hone.documents (kind, at, seq);

    CREATE TABLE hone.links (
        src TEXT NOT NULL,
        rel TEXT NOT NULL,
        dst TEXT NOT NULL,
        PRIMARY KEY (src, rel, dst)
    );
    CREATE INDEX links_by_target ON hone.links (dst, rel, src);

    CREATE TABLE hone.events (
        seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id     UUID NOT NULL UNIQUE,
        at     BIGINT NOT NULL,
        tenant TEXT NOT NULL,
        stream TEXT NOT NULL,
        kind   TEXT NOT NULL,
        hash   BYTEA NOT NULL,
        body   JSONB NOT NULL,
        raw    TEXT
    );
    CREATE INDEX events_by_stream ON hone.events (stream, seq);

    CREATE TABLE hone.blobs (
        hash  BYTEA NOT NULL,
        part  INTEGER NOT NULL,
        bytes BYTEA NOT NULL,
        PRIMARY KEY (hash, part)
    );

    -- Bodies are large and compress well; lz4 does it several times faster, where the server has it.
    DO $$ BEGIN
        IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
            ALTER TABLE hone.traces ALTER COLUMN body SET COMPRESSION lz4;
            ALTER TABLE hone.traces ALTER COLUMN raw SET COMPRESSION lz4;
        END IF;
    END $$;
    ALTER TABLE hone.blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;
",
    "
    CREATE TABLE hone.turns (
        seq      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        trace    UUID NOT NULL,
        turn_idx BIGINT NOT NULL,
        hash     BYTEA NOT NULL,
        -- Of the text, so that a page knows what a trace holds before it reads it.
        n_bytes  BIGINT NOT NULL,
        body     JSONB NOT NULL,
        raw      TEXT,
        UNIQUE (trace, turn_idx)
    );
    DO $$ BEGIN
        IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
            ALTER TABLE hone.turns ALTER COLUMN body SET COMPRESSION lz4;
            ALTER TABLE hone.turns ALTER COLUMN raw SET COMPRESSION lz4;
        END IF;
    END $$;
",
];

/// The schema that this binary writes.
pub(crate) const KNOWN: u32 = MIGRATIONS.len() as u32;

/// What an owner is told to run.
const MAKE_UTF8: &str = "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0";
const LET_READ: &str = "GRANT USAGE ON SCHEMA hone and GRANT SELECT ON ALL TABLES IN SCHEMA hone";

/// Brings the database to the known schema, or says why it cannot. One that is there needs no right but to read, and no lock.
pub(crate) async fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let place = connection.place().to_owned();
    let found = within(&place, PROMPT, async { Found::of(&connection.client, &place).await }).await?;
    if found.encoding != "UTF8" {
        let reason = format!("its encoding is {}, and records are UTF-8: make it with {MAKE_UTF8}", found.encoding);
        return Err(StoreError::Unavailable { place, reason });
    }
    if found.version == KNOWN {
        return Ok(());
    }
    let transaction = connection.begin().await?;
    match bring_up(&transaction, &place).await {
        Ok(()) => transaction.commit().await.map_err(|error| failure(&error, &place)),
        Err(Stopped::Store(error)) => Err(error),
        Err(Stopped::Server(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            drop(transaction);
            let grant = if found.has_schema {
                "GRANT USAGE, CREATE ON SCHEMA hone, and the rights on its tables,"
            } else {
                "GRANT CREATE ON DATABASE"
            };
            let reason = format!("{}: let its owner run {grant} for this role, or open it once as its owner", words(&error));
            Err(StoreError::Unavailable { place, reason })
        }
        Err(Stopped::Server(error)) => Err(failure(&error, &place)),
    }
}

/// What stands there before anything is done.
struct Found {
    encoding: String,
    has_schema: bool,
    version: u32,
}

impl Found {
    async fn of(client: &impl GenericClient, place: &str) -> Result<Self, StoreError> {
        let failed = |error: tokio_postgres::Error| match error.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                let reason = format!("{}: a role that reads needs {LET_READ}", words(&error));
                StoreError::Unavailable { place: place.to_owned(), reason }
            }
            _ => failure(&error, place),
        };
        let row = client
            .query_one(
                "SELECT current_setting('server_encoding'), to_regnamespace('hone') IS NOT NULL,
                        to_regclass('hone.meta') IS NOT NULL",
                &[],
            )
            .await
            .map_err(failed)?;
        let (encoding, has_schema, has_meta) = (row.get(0), row.get(1), row.get(2));
        let version = if has_meta { version(client, place).await.map_err(|stopped| stopped.told(failed))? } else { 0 };
        Ok(Self { encoding, has_schema, version })
    }
}

/// Why a step was not done.
enum Stopped {
    Server(tokio_postgres::Error),
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Stopped {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl Stopped {
    fn told(self, failed: impl Fn(tokio_postgres::Error) -> StoreError) -> StoreError {
        match self {
            Self::Server(error) => failed(error),
            Self::Store(error) => error,
        }
    }
}

/// The version of the schema, which is not newer than this binary; 0 where none is said.
async fn version(client: &impl GenericClient, place: &str) -> Result<u32, Stopped> {
    let row = client.query_opt("SELECT value FROM hone.meta WHERE key = 'schema'", &[]).await?;
    let Some(said) = row.map(|row| row.get::<_, String>(0)) else { return Ok(0) };
    let Ok(found) = said.parse::<u32>() else {
        let reason = format!("the schema that hone.meta names, `{said}`, is no number");
        return Err(Stopped::Store(StoreError::Damaged { what: place.to_owned(), reason }));
    };
    if found > KNOWN {
        return Err(Stopped::Store(StoreError::TooNew { place: place.to_owned(), found, known: KNOWN }));
    }
    Ok(found)
}

async fn bring_up(transaction: &Transaction<'_>, place: &str) -> Result<(), Stopped> {
    // One process at a time; the lock goes with the transaction. What another has done meanwhile is seen after it.
    transaction.batch_execute("SELECT pg_advisory_xact_lock(7522245733601128037)").await?;
    // `IF NOT EXISTS` asks for the right to create even where there is nothing to create, and to_regnamespace may still answer
    // from before the lock.
    let there = transaction.query_opt("SELECT nspname FROM pg_namespace WHERE nspname = 'hone'", &[]).await?;
    if there.is_none() {
        transaction.batch_execute("CREATE SCHEMA hone").await?;
    }
    transaction.batch_execute("CREATE TABLE IF NOT EXISTS hone.meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)").await?;
    let found = version(transaction, place).await?;
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.batch_execute(step).await?;
    }
    transaction
        .execute(
            "INSERT INTO hone.meta (key, value) VALUES ('schema', $1) ON CONFLICT (key) DO UPDATE SET value = $1",
            &[&KNOWN.to_string()],
        )
        .await?;
    Ok(())
}
