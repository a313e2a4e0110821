//! Puts a record back that is not what was written, or a turn that is gone.

use crate::growth::{TurnRow, holds_place};
use crate::row::{Encoded, Json, Row, TraceRow};
use rusqlite::{Connection, OptionalExtension, ToSql, Transaction, TransactionBehavior, params};

/// For each record whether it was put back. All of them or none.
pub(super) fn all(connection: &mut Connection, records: &[Encoded]) -> rusqlite::Result<Vec<bool>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let repaired = records.iter().map(|Encoded(row)| repair(&transaction, row)).collect::<rusqlite::Result<_>>()?;
    transaction.commit()?;
    Ok(repaired)
}

/// The values of a record's key.
type Key<'r> = Vec<Box<dyn ToSql + 'r>>;

/// How a record is found, and written anew: its key comes first, then its hash and its text.
fn statements(row: &Row) -> Option<(&'static str, &'static str, Key<'_>)> {
    Some(match row {
        Row::Turn(row) => (
            "SELECT hash, body FROM turns WHERE trace = ?1 AND turn_idx = ?2",
            "UPDATE turns SET hash = ?3, body = ?4 WHERE trace = ?1 AND turn_idx = ?2",
            vec![Box::new(row.trace), Box::new(row.turn_idx)],
        ),
        Row::Reward(row) => (
            "SELECT hash, body FROM rewards WHERE id = ?1",
            "UPDATE rewards SET hash = ?2, body = ?3 WHERE id = ?1",
            vec![Box::new(row.id)],
        ),
        Row::Document(row) => (
            "SELECT hash, body FROM documents WHERE kind = ?1 AND id = ?2 AND revision = ?3",
            "UPDATE documents SET hash = ?4, body = ?5 WHERE kind = ?1 AND id = ?2 AND revision = ?3",
            vec![Box::new(row.kind.as_str()), Box::new(&row.id), Box::new(row.revision)],
        ),
        Row::Event(row) => (
            "SELECT hash, body FROM events WHERE id = ?1",
            "UPDATE events SET hash = ?2, body = ?3 WHERE id = ?1",
            vec![Box::new(row.id)],
        ),
        Row::Trace(_) | Row::Link(_) => return None,
    })
}

fn repair(tx: &Transaction<'_>, row: &Row) -> rusqlite::Result<bool> {
    if let Row::Trace(of_trace) = row {
        return trace(tx, row, of_trace);
    }
    let (Some((select, update, key)), Some(json)) = (statements(row), row.json()) else { return Ok(false) };
    let mut values: Vec<&dyn ToSql> = key.iter().map(|value| &**value).collect();
    let there = tx
        .prepare_cached(select)?
        .query_row(values.as_slice(), |found| Ok((found.get::<_, Vec<u8>>(0)?, found.get::<_, String>(1)?)))
        .optional()?;
    let Some((hash, text)) = there else {
        return if let Row::Turn(row) = row { put_back(tx, row) } else { Ok(false) };
    };
    if !row.replaces(&text, text == json.text, &hash) {
        return Ok(false);
    }
    if let Row::Turn(row) = row
        && holds_place(&text)
    {
        tx.prepare_cached(
            "UPDATE traces SET n_tokens = min(n_tokens, 9223372036854775807 - ?2) + ?2, cost_usd = cost_usd + ?3 WHERE id = ?1",
        )?
        .execute(params![row.trace, row.n_tokens, row.cost_usd])?;
    }
    values.extend([&json.hash as &dyn ToSql, &json.text]);
    Ok(tx.prepare_cached(update)?.execute(values.as_slice())? > 0)
}

/// A turn is put back where its trace counts it, does not hold it itself, and it is gone.
fn put_back(tx: &Transaction<'_>, row: &TurnRow) -> rusqlite::Result<bool> {
    let n_new = tx
        .prepare_cached(
            "INSERT INTO turns (trace, turn_idx, hash, body)
             SELECT ?1, ?2, ?3, ?4 FROM traces t JOIN bodies b ON b.seq = t.seq
             WHERE t.id = ?1 AND ?2 < t.n_turns AND CASE WHEN json_valid(b.body) THEN ?2 >= (
                 SELECT coalesce(sum(json_array_length(s.value, '$.turns')), 0) FROM json_each(b.body, '$.segments') s) END",
        )?
        .execute(params![row.trace, row.turn_idx, row.json.hash, row.json.text])?;
    Ok(n_new > 0)
}

/// The body of a trace has a table of its own, and may be missing there.
fn trace(tx: &Transaction<'_>, row: &Row, of_trace: &TraceRow) -> rusqlite::Result<bool> {
    let Json { text, hash } = &of_trace.json;
    let there = tx
        .prepare_cached("SELECT t.seq, t.hash, b.body FROM traces t LEFT JOIN bodies b ON b.seq = t.seq WHERE t.id = ?1")?
        .query_row([of_trace.id], |found| {
            Ok((found.get::<_, i64>(0)?, found.get::<_, Vec<u8>>(1)?, found.get::<_, Option<String>>(2)?))
        })
        .optional()?;
    let Some((seq, found_hash, found)) = there else { return Ok(false) };
    if found.is_some_and(|found| !row.replaces(&found, found == *text, &found_hash)) {
        return Ok(false);
    }
    tx.prepare_cached("INSERT OR REPLACE INTO bodies (seq, body) VALUES (?1, ?2)")?.execute(params![seq, text])?;
    tx.prepare_cached("UPDATE traces SET hash = ?2 WHERE seq = ?1")?.execute(params![seq, hash])?;
    Ok(true)
}
