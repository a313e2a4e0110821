//! Puts a record back that is not what was written.
//!
//! Text and hash were written together. Where exactly one of them agrees with the record at hand, the other was changed
//! since. Where neither does, it is another record, and nobody can say which of the two is right.

use crate::row::{Encoded, Hash, Json, Row, TraceRow};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

/// For each record whether it was put back. All of them or none.
pub(super) fn all(connection: &mut Connection, records: &[Encoded]) -> rusqlite::Result<Vec<bool>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let repaired = records.iter().map(|Encoded(row)| repair(&transaction, row)).collect::<rusqlite::Result<_>>()?;
    transaction.commit()?;
    Ok(repaired)
}

fn repair(tx: &Transaction<'_>, row: &Row) -> rusqlite::Result<bool> {
    let n_changed = match row {
        Row::Trace(row) => return trace(tx, row),
        Row::Link(_) => return Ok(false),
        Row::Turn(row) => {
            let Json { text, hash } = &row.json;
            tx.prepare_cached(
                "UPDATE turns SET hash = ?1, body = ?2 WHERE trace = ?3 AND turn_idx = ?4 AND (hash = ?1) <> (body = ?2)",
            )?
            .execute(params![hash, text, row.trace, row.turn_idx])?
        }
        Row::Reward(row) => {
            let Json { text, hash } = &row.json;
            tx.prepare_cached("UPDATE rewards SET hash = ?1, body = ?2 WHERE id = ?3 AND (hash = ?1) <> (body = ?2)")?
                .execute(params![hash, text, row.id])?
        }
        Row::Document(row) => {
            let Json { text, hash } = &row.json;
            tx.prepare_cached(
                "UPDATE documents SET hash = ?1, body = ?2
                 WHERE kind = ?3 AND id = ?4 AND revision = ?5 AND (hash = ?1) <> (body = ?2)",
            )?
            .execute(params![hash, text, row.kind.as_str(), row.id, row.revision])?
        }
        Row::Event(row) => {
            let Json { text, hash } = &row.json;
            tx.prepare_cached("UPDATE events SET hash = ?1, body = ?2 WHERE id = ?3 AND (hash = ?1) <> (body = ?2)")?
                .execute(params![hash, text, row.id])?
        }
    };
    Ok(n_changed > 0)
}

/// The body of a trace has a table of its own, and may be missing there.
fn trace(tx: &Transaction<'_>, row: &TraceRow) -> rusqlite::Result<bool> {
    let Json { text, hash } = &row.json;
    let there = tx
        .prepare_cached("SELECT t.seq, t.hash, b.body = ?2 FROM traces t LEFT JOIN bodies b ON b.seq = t.seq WHERE t.id = ?1")?
        .query_row(params![row.id, text], |found| {
            Ok((found.get::<_, i64>(0)?, found.get::<_, Hash>(1)? == *hash, found.get::<_, Option<bool>>(2)? == Some(true)))
        })
        .optional()?;
    let Some((seq, same_hash, same_text)) = there else { return Ok(false) };
    if same_hash == same_text {
        return Ok(false);
    }
    tx.prepare_cached("INSERT OR REPLACE INTO bodies (seq, body) VALUES (?1, ?2)")?.execute(params![seq, text])?;
    tx.prepare_cached("UPDATE traces SET hash = ?2 WHERE seq = ?1")?.execute(params![seq, hash])?;
    Ok(true)
}
