//! The tables, in a schema of their own so that they never meet a user's, and how an older version becomes a newer one.

use super::connection::Connection;
use hone_trace::store::StoreError;

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

/// Brings the database to the known schema, or says why it cannot.
pub(crate) async fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let place = connection.place().to_owned();
    let transaction = connection.begin().await?;
    let failed = |error: tokio_postgres::Error| super::connection::failure(&error, &place);
    // One process at a time; the lock goes with the transaction.
    transaction
        .batch_execute(
            "SELECT pg_advisory_xact_lock(7522245733601128037);
             CREATE SCHEMA IF NOT EXISTS hone;
             CREATE TABLE IF NOT EXISTS hone.meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);",
        )
        .await
        .map_err(failed)?;
    let row = transaction.query_opt("SELECT value FROM hone.meta WHERE key = 'schema'", &[]).await.map_err(failed)?;
    let found: u32 = row.map_or(0, |row| row.get::<_, String>(0).parse().unwrap_or(u32::MAX));
    if found > KNOWN {
        return Err(StoreError::TooNew { place, found, known: KNOWN });
    }
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.batch_execute(step).await.map_err(failed)?;
    }
    transaction
        .execute(
            "INSERT INTO hone.meta (key, value) VALUES ('schema', $1) ON CONFLICT (key) DO UPDATE SET value = $1",
            &[&KNOWN.to_string()],
        )
        .await
        .map_err(failed)?;
    transaction.commit().await.map_err(failed)
}
