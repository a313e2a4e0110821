//! The turns that traces go on with: all of a group at once, whichever traces they belong to.
//!
//! The rows of these traces are locked before anything is decided, so that of two writers with the same turn the second
//! sees what the first has done. Then the turns are inserted and the traces' counts updated, one statement each.

use super::connection::Connection;
use super::jsonb;
use super::writer::{Failed, Say, hash_of, same_or_conflict};
use crate::growth::{Grown, Step, TurnRow};
use crate::row::Hash;
use hone_trace::store::Put;
use std::collections::{HashMap, HashSet};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Statement, Transaction};
use uuid::Uuid;

/// In the order of their ids, so that two writers wait for each other instead of forever.
const LOCK: &str = "
    SELECT id, seq, n_turns, n_tokens, cost_usd FROM hone.traces WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE";

const KNOWN: &str = "
    SELECT i.trace, i.turn_idx, (SELECT u.hash FROM hone.turns u WHERE u.trace = i.trace AND u.turn_idx = i.turn_idx)
    FROM unnest($1::uuid[], $2::int8[]) AS i(trace, turn_idx)";

const INSERT: &str = "
    INSERT INTO hone.turns (trace, turn_idx, hash, n_bytes, body, raw)
    SELECT i.trace, i.turn_idx, i.hash, i.n_bytes, i.body::jsonb, i.raw
    FROM unnest($1::uuid[], $2::int8[], $3::bytea[], $4::int8[], $5::text[], $6::text[]) WITH ORDINALITY
         AS i(trace, turn_idx, hash, n_bytes, body, raw, n)
    ORDER BY i.n";

const COUNT: &str = "
    UPDATE hone.traces t SET n_turns = i.n_turns, n_tokens = i.n_tokens, cost_usd = i.cost_usd
    FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::float8[]) AS i(seq, n_turns, n_tokens, cost_usd) WHERE t.seq = i.seq";

/// What must be prepared before the transaction begins.
pub(crate) struct Statements {
    lock: Statement,
    insert: Statement,
    count: Statement,
}

impl Statements {
    pub(crate) async fn prepare(connection: &mut Connection) -> Result<Self, Failed> {
        Ok(Self {
            lock: connection.prepare(LOCK).await?,
            insert: connection.prepare(INSERT).await?,
            count: connection.prepare(COUNT).await?,
        })
    }
}

/// `rewarded` are the traces whose rows this transaction changes later: they are locked along with the others.
pub(crate) async fn put_turns(
    tx: &Transaction<'_>,
    statements: &Statements,
    rows: &[((usize, usize), &TurnRow)],
    rewarded: impl Iterator<Item = [u8; 16]>,
    say: &mut impl Say,
) -> Result<(), Failed> {
    let traces: Vec<Uuid> = rows.iter().map(|(_, row)| row.trace).chain(rewarded).map(Uuid::from_bytes).collect();
    let mut grown: HashMap<[u8; 16], Grown> = HashMap::new();
    for row in tx.query(&statements.lock, &[&traces]).await? {
        let found = Grown { seq: row.get(1), n_turns: row.get(2), n_tokens: row.get(3), cost_usd: row.get(4) };
        grown.insert(row.get::<_, Uuid>(0).into_bytes(), found);
    }
    let mut known = known(tx, rows, &grown).await?;
    let mut new: Vec<&TurnRow> = Vec::with_capacity(rows.len());
    for (at, row) in rows {
        let put = match grown.get_mut(&row.trace).map(|trace| trace.step(row)) {
            Some(Step::Write) => {
                known.insert((row.trace, row.turn_idx), row.json.hash);
                new.push(row);
                Put::New
            }
            Some(Step::Compare) => same_or_conflict(known.get(&(row.trace, row.turn_idx)), &row.json.hash),
            Some(Step::Gap) | None => Put::Conflict,
        };
        say(*at, put);
    }
    if new.is_empty() {
        return Ok(());
    }
    let longer: HashSet<[u8; 16]> = new.iter().map(|row| row.trace).collect();
    grown.retain(|trace, _| longer.contains(trace));
    insert(tx, statements, &new, &grown.into_values().collect::<Vec<_>>()).await
}

/// The hashes of those turns that are there already: of none, unless something is sent again.
async fn known(
    tx: &Transaction<'_>,
    rows: &[((usize, usize), &TurnRow)],
    grown: &HashMap<[u8; 16], Grown>,
) -> Result<HashMap<([u8; 16], i64), Hash>, Failed> {
    let is_there = |row: &&TurnRow| grown.get(&row.trace).is_some_and(|trace| row.turn_idx < trace.n_turns);
    let (traces, turns): (Vec<Uuid>, Vec<i64>) =
        rows.iter().map(|(_, row)| *row).filter(is_there).map(|row| (Uuid::from_bytes(row.trace), row.turn_idx)).unzip();
    if turns.is_empty() {
        return Ok(HashMap::new());
    }
    let found = tx.query(KNOWN, &[&traces, &turns]).await?;
    let hashes = found.iter().filter_map(|row| {
        let hash = row.get::<_, Option<&[u8]>>(2)?;
        Some(((row.get::<_, Uuid>(0).into_bytes(), row.get(1)), hash_of(hash)))
    });
    Ok(hashes.collect())
}

/// Both statements at once: neither needs the other's answer.
async fn insert(tx: &Transaction<'_>, statements: &Statements, new: &[&TurnRow], grown: &[Grown]) -> Result<(), Failed> {
    let forms: Vec<_> = new.iter().map(|row| jsonb::forms(&row.json.text)).collect();
    let turns: [&(dyn ToSql + Sync); 6] = [
        &new.iter().map(|row| Uuid::from_bytes(row.trace)).collect::<Vec<_>>(),
        &new.iter().map(|row| row.turn_idx).collect::<Vec<_>>(),
        &new.iter().map(|row| row.json.hash.as_slice()).collect::<Vec<_>>(),
        &new.iter().map(|row| row.json.text.len() as i64).collect::<Vec<_>>(),
        &forms.iter().map(|(body, _)| body.as_ref()).collect::<Vec<_>>(),
        &forms.iter().map(|(_, raw)| *raw).collect::<Vec<_>>(),
    ];
    let traces: [&(dyn ToSql + Sync); 4] = [
        &grown.iter().map(|trace| trace.seq).collect::<Vec<_>>(),
        &grown.iter().map(|trace| trace.n_turns).collect::<Vec<_>>(),
        &grown.iter().map(|trace| trace.n_tokens).collect::<Vec<_>>(),
        &grown.iter().map(|trace| trace.cost_usd).collect::<Vec<_>>(),
    ];
    tokio::try_join!(tx.execute(&statements.insert, &turns), tx.execute(&statements.count, &traces))?;
    Ok(())
}
