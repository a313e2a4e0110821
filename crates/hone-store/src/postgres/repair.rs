//! Puts a record back that is not what was written: the same as on SQLite.
//!
//! JSONB takes 1.0 and 1.00 for equal, and so does not see every change: the texts of the two are compared.

use super::jsonb;
use super::writer::Failed;
use crate::row::{Encoded, Row};
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

macro_rules! repair {
    ($table:literal, $key:literal) => {
        concat!(
            "UPDATE hone.",
            $table,
            " SET hash = $1::bytea, body = $2::text::jsonb, raw = $3::text WHERE ",
            $key,
            " AND (hash = $1) <> (body::text = $2::text::jsonb::text AND raw IS NOT DISTINCT FROM $3)"
        )
    };
}

/// For each record whether it was put back.
pub(super) async fn all(tx: &Transaction<'_>, records: &[Encoded]) -> Result<Vec<bool>, Failed> {
    let mut repaired = Vec::with_capacity(records.len());
    for Encoded(row) in records {
        repaired.push(repair(tx, row).await?);
    }
    Ok(repaired)
}

async fn repair(tx: &Transaction<'_>, row: &Row) -> Result<bool, Failed> {
    let (sql, json, key): (_, _, Vec<Box<dyn ToSql + Sync + Send>>) = match row {
        Row::Trace(row) => (repair!("traces", "id = $4"), &row.json, vec![Box::new(Uuid::from_bytes(row.id))]),
        Row::Turn(row) => (
            repair!("turns", "trace = $4 AND turn_idx = $5"),
            &row.json,
            vec![Box::new(Uuid::from_bytes(row.trace)), Box::new(row.turn_idx)],
        ),
        Row::Reward(row) => (repair!("rewards", "id = $4"), &row.json, vec![Box::new(Uuid::from_bytes(row.id))]),
        Row::Document(row) => (
            repair!("documents", "kind = $4 AND id = $5 AND revision = $6"),
            &row.json,
            vec![Box::new(row.kind.as_str()), Box::new(row.id.clone()), Box::new(row.revision)],
        ),
        Row::Event(row) => (repair!("events", "id = $4"), &row.json, vec![Box::new(Uuid::from_bytes(row.id))]),
        Row::Link(_) => return Ok(false),
    };
    let (body, raw) = jsonb::forms(&json.text);
    let (hash, body) = (json.hash.as_slice(), body.as_ref());
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&hash, &body, &raw];
    values.extend(key.iter().map(|value| &**value as &(dyn ToSql + Sync)));
    Ok(tx.execute(sql, &values).await? > 0)
}
