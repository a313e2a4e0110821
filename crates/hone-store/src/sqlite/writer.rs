//! The one writer: puts queue up, and all that wait are committed together.
//!
//! A put is acknowledged after the commit that holds it has been synced to disk. A failed sync ends the
//! process: what the kernel then still holds is not knowable, so nothing may be promised any more.

use super::checkpoint::Checkpointer;
use super::fate;
use crate::growth::{Grown, Step, TurnRow};
use crate::rewards;
use crate::row::{DocumentRow, EventRow, Hash, RewardRow, Row, TraceRow, band};
use hone_trace::store::{Link, Put, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, Transaction, TransactionBehavior, params};
use std::collections::HashMap;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// How many puts may wait; further ones wait outside.
const QUEUE_LEN_MAX: usize = 256;
/// A commit takes no further put once it holds this much: small ones share a sync, large ones keep to themselves.
const COMMIT_BYTES_MAX: usize = 8 << 20;

/// A put on its way.
pub(crate) struct Job {
    /// In the order of their rank, each with its place in the answer.
    pub(crate) rows: Vec<(usize, Row)>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Put>, StoreError>>,
}

/// The queue to the writer's thread, which ends when the last handle is gone and everything is written.
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(connection: Connection, checkpointer: Checkpointer, place: String) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_LEN_MAX);
        let mut thread = Thread { connection, checkpointer, place, tenants: HashMap::new() };
        let thread = std::thread::Builder::new()
            .name("hone-writer".to_owned())
            .spawn(move || thread.run(jobs))
            .expect("the system can start a thread");
        Self { queue: Some(queue), thread: Some(thread) }
    }

    pub(crate) fn queue(&self) -> &mpsc::Sender<Job> {
        self.queue.as_ref().expect("the queue lives as long as the writer")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Thread {
    connection: Connection,
    checkpointer: Checkpointer,
    place: String,
    tenants: HashMap<String, i64>,
}

impl Thread {
    fn run(&mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            let mut bytes = first.bytes();
            let mut group = vec![first];
            while bytes < COMMIT_BYTES_MAX
                && let Ok(job) = jobs.try_recv()
            {
                bytes += job.bytes();
                group.push(job);
            }
            self.serve(group);
            if let Err(error) = self.checkpointer.after_commit(&self.connection, bytes) {
                fate::end_on_failed_sync(&error, &self.place);
            }
        }
    }

    /// Commits a group; when that fails, each put on its own, so that none suffers for its neighbour.
    fn serve(&mut self, group: Vec<Job>) {
        let n_jobs = group.len();
        match self.commit(&group) {
            Ok(answers) => {
                for (job, answer) in group.into_iter().zip(answers) {
                    let _ = job.reply.send(Ok(answer));
                }
            }
            Err(error) if n_jobs == 1 => {
                for job in group {
                    let _ = job.reply.send(Err(fate::of(&error, &self.place)));
                }
            }
            Err(_) => {
                for job in group {
                    self.serve(vec![job]);
                }
            }
        }
    }

    fn commit(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Vec<Put>>> {
        let result = self.write(group);
        if let Err(error) = &result {
            fate::end_on_failed_sync(error, &self.place);
            self.tenants.clear();
        }
        result
    }

    fn write(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Vec<Put>>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let paths = super::indexed_fields(&transaction)?;
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            let mut answer = vec![Put::New; job.rows.len()];
            for (place, row) in &job.rows {
                answer[*place] = match row {
                    Row::Trace(row) => put_trace(&transaction, &mut self.tenants, &paths, row)?,
                    Row::Turn(row) => put_turn(&transaction, row)?,
                    Row::Reward(row) => put_reward(&transaction, row)?,
                    Row::Document(row) => put_document(&transaction, row)?,
                    Row::Link(link) => put_link(&transaction, link)?,
                    Row::Event(row) => put_event(&transaction, row)?,
                };
            }
            answers.push(answer);
        }
        transaction.commit()?;
        Ok(answers)
    }
}

impl Job {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|(_, row)| row.bytes()).sum()
    }
}

fn put_trace(
    tx: &Transaction<'_>,
    tenants: &mut HashMap<String, i64>,
    paths: &[String],
    row: &TraceRow,
) -> rusqlite::Result<Put> {
    let tenant = tenant(tx, tenants, &row.tenant)?;
    let n_new = tx
        .prepare_cached(
            "INSERT INTO traces (id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens, cost_usd, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            row.id,
            tenant,
            row.at,
            row.category,
            row.config,
            row.outcome,
            row.reward,
            band::of(row.reward),
            row.n_turns,
            row.n_tokens,
            row.cost_usd,
            row.json.hash,
        ])?;
    if n_new == 0 {
        return compare(tx, "SELECT hash FROM traces WHERE id = ?1", [row.id], &row.json.hash);
    }
    let seq = tx.last_insert_rowid();
    tx.prepare_cached("INSERT INTO bodies (seq, body) VALUES (?1, ?2)")?.execute(params![seq, row.json.text])?;
    for (path, value) in row.fields_at(paths) {
        tx.prepare_cached("INSERT INTO trace_fields (path, value, at, seq) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![path, value, row.at, seq])?;
    }
    Ok(Put::New)
}

fn put_turn(tx: &Transaction<'_>, row: &TurnRow) -> rusqlite::Result<Put> {
    let grown = tx
        .prepare_cached("SELECT seq, n_turns, n_tokens, cost_usd FROM traces WHERE id = ?1")?
        .query_row([row.trace], |found| {
            Ok(Grown { seq: found.get(0)?, n_turns: found.get(1)?, n_tokens: found.get(2)?, cost_usd: found.get(3)? })
        })
        .optional()?;
    let Some(mut grown) = grown else { return Ok(Put::Conflict) };
    match grown.step(row) {
        Step::Gap => return Ok(Put::Conflict),
        Step::Compare => {
            let sql = "SELECT hash FROM turns WHERE trace = ?1 AND turn_idx = ?2";
            return compare(tx, sql, params![row.trace, row.turn_idx], &row.json.hash);
        }
        Step::Write => {}
    }
    tx.prepare_cached("INSERT INTO turns (trace, turn_idx, hash, body) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        row.trace,
        row.turn_idx,
        row.json.hash,
        row.json.text
    ])?;
    tx.prepare_cached("UPDATE traces SET n_turns = ?2, n_tokens = ?3, cost_usd = ?4 WHERE seq = ?1")?.execute(params![
        grown.seq,
        grown.n_turns,
        grown.n_tokens,
        grown.cost_usd
    ])?;
    Ok(Put::New)
}

fn put_reward(tx: &Transaction<'_>, row: &RewardRow) -> rusqlite::Result<Put> {
    let n_new = tx
        .prepare_cached(
            "INSERT INTO rewards (id, trace, hash, body) SELECT ?1, ?2, ?3, ?4 FROM traces WHERE id = ?2
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![row.id, row.trace, row.json.hash, row.json.text])?;
    if n_new == 0 {
        return compare(tx, "SELECT hash FROM rewards WHERE id = ?1", [row.id], &row.json.hash);
    }
    if row.of_trace {
        let total = total(tx, row)?;
        tx.prepare_cached("UPDATE traces SET reward = ?2, band = ?3 WHERE id = ?1")?.execute(params![
            row.trace,
            total,
            band::of(total)
        ])?;
    }
    Ok(Put::New)
}

/// The reward that a trace is found by after this one was written. Its own text is read only where it may hold one.
fn total(tx: &Transaction<'_>, row: &RewardRow) -> rusqlite::Result<Option<f64>> {
    let own: Option<String> = tx
        .prepare_cached(
            "SELECT CASE WHEN t.reward IS NOT NULL AND json_valid(b.body) THEN b.body -> '$.rewards' END
             FROM traces t LEFT JOIN bodies b ON b.seq = t.seq WHERE t.id = ?1",
        )?
        .query_row([row.trace], |found| found.get(0))?;
    let later: Vec<String> = tx
        .prepare_cached("SELECT body FROM rewards WHERE trace = ?1 ORDER BY seq")?
        .query_map([row.trace], |found| found.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rewards::total(own.as_deref(), later.iter().map(String::as_str)))
}

fn put_document(tx: &Transaction<'_>, row: &DocumentRow) -> rusqlite::Result<Put> {
    let known: Option<Hash> = tx
        .prepare_cached("SELECT hash FROM documents WHERE kind = ?1 AND id = ?2 AND revision = ?3")?
        .query_row(params![row.kind.as_str(), row.id, row.revision], |found| found.get(0))
        .optional()?;
    if let Some(hash) = known {
        return Ok(if hash == row.json.hash { Put::Same } else { Put::Conflict });
    }
    let follows = row.revision == 0
        || tx.prepare_cached("SELECT 1 FROM documents WHERE kind = ?1 AND id = ?2 AND revision = ?3")?.exists(params![
            row.kind.as_str(),
            row.id,
            row.revision - 1
        ])?;
    if !follows {
        return Ok(Put::Conflict);
    }
    tx.prepare_cached("INSERT INTO documents (kind, id, revision, tenant, at, hash, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![row.kind.as_str(), row.id, row.revision, row.tenant, row.at, row.json.hash, row.json.text])?;
    Ok(Put::New)
}

fn put_link(tx: &Transaction<'_>, link: &Link) -> rusqlite::Result<Put> {
    let n_new = tx
        .prepare_cached("INSERT INTO links (src, rel, dst) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![link.from, link.rel, link.to])?;
    Ok(if n_new == 1 { Put::New } else { Put::Same })
}

fn put_event(tx: &Transaction<'_>, row: &EventRow) -> rusqlite::Result<Put> {
    let n_new = tx
        .prepare_cached(
            "INSERT INTO events (id, at, tenant, stream, kind, hash, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![row.id, row.at, row.tenant, row.stream, row.kind, row.json.hash, row.json.text])?;
    if n_new == 0 {
        return compare(tx, "SELECT hash FROM events WHERE id = ?1", [row.id], &row.json.hash);
    }
    Ok(Put::New)
}

fn compare(tx: &Transaction<'_>, sql: &'static str, key: impl Params, hash: &Hash) -> rusqlite::Result<Put> {
    let known: Option<Hash> = tx.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
    Ok(if known == Some(*hash) { Put::Same } else { Put::Conflict })
}

fn tenant(tx: &Transaction<'_>, tenants: &mut HashMap<String, i64>, name: &str) -> rusqlite::Result<i64> {
    if let Some(&id) = tenants.get(name) {
        return Ok(id);
    }
    tx.prepare_cached("INSERT INTO tenants (name) VALUES (?1) ON CONFLICT DO NOTHING")?.execute([name])?;
    let id = tx.prepare_cached("SELECT id FROM tenants WHERE name = ?1")?.query_row([name], |row| row.get(0))?;
    tenants.insert(name.to_owned(), id);
    Ok(id)
}
