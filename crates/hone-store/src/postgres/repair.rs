//! Puts a record back that is not what was written, or a turn that is gone: the same as on SQLite.
//!
//! JSONB takes 1.0 and 1.00 for equal, and so does not see every change: the texts of the two are compared.

use super::jsonb;
use super::writer::Failed;
use crate::growth::{TurnRow, holds_place};
use crate::row::{Encoded, Row};
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// How a record is found and compared with the text at hand, and how it is written anew.
macro_rules! statements {
    ($table:literal, $key:literal) => {
        (
            concat!(
                "SELECT hash, coalesce(raw, body::text), ",
                "body::text = $2::text::jsonb::text AND raw IS NOT DISTINCT FROM $3::text AND $1::bytea IS NOT NULL FROM hone.",
                $table,
                " WHERE ",
                $key,
                " FOR UPDATE"
            ),
            concat!("UPDATE hone.", $table, " SET hash = $1::bytea, body = $2::text::jsonb, raw = $3::text WHERE ", $key),
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
    let ((select, update), key): (_, Vec<Box<dyn ToSql + Sync + Send>>) = match row {
        Row::Trace(row) => (statements!("traces", "id = $4"), vec![Box::new(Uuid::from_bytes(row.id))]),
        Row::Turn(row) => (
            statements!("turns", "trace = $4 AND turn_idx = $5"),
            vec![Box::new(Uuid::from_bytes(row.trace)), Box::new(row.turn_idx)],
        ),
        Row::Reward(row) => (statements!("rewards", "id = $4"), vec![Box::new(Uuid::from_bytes(row.id))]),
        Row::Document(row) => (
            statements!("documents", "kind = $4 AND id = $5 AND revision = $6"),
            vec![Box::new(row.kind.as_str()), Box::new(row.id.clone()), Box::new(row.revision)],
        ),
        Row::Event(row) => (statements!("events", "id = $4"), vec![Box::new(Uuid::from_bytes(row.id))]),
        Row::Link(_) => return Ok(false),
    };
    let Some(json) = row.json() else { return Ok(false) };
    let (body, raw) = jsonb::forms(&json.text);
    let (hash, body) = (json.hash.as_slice(), body.as_ref());
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&hash, &body, &raw];
    values.extend(key.iter().map(|value| &**value as &(dyn ToSql + Sync)));
    let Some(there) = tx.query_opt(select, &values).await? else {
        return if let Row::Turn(row) = row { put_back(tx, row).await } else { Ok(false) };
    };
    if !row.replaces(there.get(1), there.get(2), there.get(0)) {
        return Ok(false);
    }
    if let Row::Turn(row) = row
        && holds_place(there.get(1))
    {
        tx.execute(
            "UPDATE hone.traces SET n_tokens = least(n_tokens, 9223372036854775807 - $2::int8) + $2,
                                    cost_usd = cost_usd + $3::float8 WHERE id = $1",
            &[&Uuid::from_bytes(row.trace), &row.n_tokens, &row.cost_usd],
        )
        .await?;
    }
    Ok(tx.execute(update, &values).await? > 0)
}

/// A turn is put back where its trace counts it, does not hold it itself, and it is gone.
async fn put_back(tx: &Transaction<'_>, row: &TurnRow) -> Result<bool, Failed> {
    let (body, raw) = jsonb::forms(&row.json.text);
    let n_new = tx
        .execute(
            "INSERT INTO hone.turns (trace, turn_idx, hash, n_bytes, body, raw)
             SELECT $1::uuid, $2::int8, $3::bytea, $4::int8, $5::text::jsonb, $6::text FROM hone.traces t
             WHERE t.id = $1 AND $2 < t.n_turns
               AND $2 >= (SELECT count(*) FROM jsonb_path_query(t.body, '$.segments[*].turns[*]'))
             ON CONFLICT DO NOTHING",
            &[
                &Uuid::from_bytes(row.trace),
                &row.turn_idx,
                &row.json.hash.as_slice(),
                &(row.json.text.len() as i64),
                &body.as_ref(),
                &raw,
            ],
        )
        .await?;
    Ok(n_new > 0)
}
