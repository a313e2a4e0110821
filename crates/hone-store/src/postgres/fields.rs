//! The index of declared fields, which all processes on one database share.
//!
//! A path is first written down, then what is there already is indexed. From the moment it is written down every writer
//! indexes it: each reads the paths in the transaction that writes its traces, and whoever writes a path down waits for those.
//! Until all is indexed a mark stands in `hone.meta`, and nobody looks there; whoever opens next with that path begins anew.
//! Paths that others declared stay.

use super::DUMP_LEN;
use super::connection::{Connection, failure};
use crate::row::fields;
use hone_trace::store::StoreError;
use tokio_postgres::GenericClient;
use tokio_postgres::error::SqlState;

/// All paths that writers index.
pub(super) const INDEXED: &str = "SELECT path FROM hone.indexed_fields";

/// Those under which every trace is found.
const READY: &str = "
    SELECT f.path FROM hone.indexed_fields f
    WHERE NOT EXISTS (SELECT FROM hone.meta m WHERE m.key = 'indexing ' || f.path) ORDER BY f.path";

/// A value of a trace at a path.
pub(super) struct Field {
    pub(super) path: String,
    pub(super) value: String,
    pub(super) at: i64,
    pub(super) seq: i64,
}

/// Adds the declared paths, and says which paths there then are. A role that may not write looks fields up in the bodies.
pub(super) async fn declare(connection: &mut Connection, declared: &[String]) -> Result<Vec<String>, StoreError> {
    let place = connection.place().to_owned();
    let failed = |error: tokio_postgres::Error| failure(&error, &place);
    let ready = ready(connection).await.map_err(failed)?;
    let added: Vec<&String> = declared.iter().filter(|path| !ready.contains(path)).collect();
    if added.is_empty() {
        return Ok(ready);
    }
    for path in added {
        match add(connection, path).await {
            Err(error) if may_not_write(&error) => return Ok(ready),
            added => added.map_err(failed)?,
        }
    }
    self::ready(connection).await.map_err(failed)
}

async fn ready(connection: &Connection) -> Result<Vec<String>, tokio_postgres::Error> {
    Ok(connection.client.query(READY, &[]).await?.iter().map(|row| row.get(0)).collect())
}

fn may_not_write(error: &tokio_postgres::Error) -> bool {
    let codes = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION];
    error.code().is_some_and(|code| codes.contains(code))
}

async fn add(connection: &mut Connection, path: &str) -> Result<(), tokio_postgres::Error> {
    let transaction = connection.client.transaction().await?;
    transaction.batch_execute("LOCK TABLE hone.indexed_fields IN ACCESS EXCLUSIVE MODE").await?;
    let mark = format!("indexing {path}");
    transaction.execute("INSERT INTO hone.meta (key, value) VALUES ($1, '') ON CONFLICT DO NOTHING", &[&mark]).await?;
    transaction.execute("INSERT INTO hone.indexed_fields (path) VALUES ($1) ON CONFLICT DO NOTHING", &[&path]).await?;
    transaction.commit().await?;
    let mut after = 0_i64;
    loop {
        let sql = "SELECT seq, at, coalesce(raw, body::text) FROM hone.traces WHERE seq > $1 ORDER BY seq LIMIT $2";
        let rows = connection.client.query(sql, &[&after, &DUMP_LEN]).await?;
        insert(&connection.client, &rows.iter().filter_map(|row| field(row, path)).collect::<Vec<_>>()).await?;
        match rows.last() {
            Some(last) if rows.len() as i64 == DUMP_LEN => after = last.get(0),
            _ => break,
        }
    }
    connection.client.execute("DELETE FROM hone.meta WHERE key = $1", &[&mark]).await?;
    Ok(())
}

/// What a row of number, time and JSON text has at this path. A damaged body has nothing; `verify` names it.
fn field(row: &tokio_postgres::Row, path: &str) -> Option<Field> {
    let body: serde_json::Value = serde_json::from_str(row.get(2)).ok()?;
    let (path, value) = fields(&body, &[path.to_owned()]).pop()?;
    Some(Field { path, value, at: row.get(1), seq: row.get(0) })
}

pub(super) async fn insert(client: &impl GenericClient, fields: &[Field]) -> Result<(), tokio_postgres::Error> {
    if fields.is_empty() {
        return Ok(());
    }
    let values = (
        fields.iter().map(|field| field.path.as_str()).collect::<Vec<_>>(),
        fields.iter().map(|field| field.value.as_str()).collect::<Vec<_>>(),
        fields.iter().map(|field| field.at).collect::<Vec<_>>(),
        fields.iter().map(|field| field.seq).collect::<Vec<_>>(),
    );
    client
        .execute(
            "INSERT INTO hone.trace_fields (path, value, at, seq)
             SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[]) ON CONFLICT DO NOTHING",
            &[&values.0, &values.1, &values.2, &values.3],
        )
        .await?;
    Ok(())
}
