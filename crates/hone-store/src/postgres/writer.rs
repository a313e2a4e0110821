//! Writers: puts queue up, and each writer commits together all that wait.
//!
//! A put is acknowledged after the server has committed it. When the connection breaks in the middle, no
//! one knows whether it did: the same rows are sent again, which is safe because they have ids.

use super::connection::{Connection, PROMPT, failure, passing, silent};
use super::{fields, grow, jsonb};
use crate::growth::TurnRow;
use crate::rewards;
use crate::row::{DocumentRow, EventRow, Hash, RewardRow, Row, TraceRow, band};
use hone_trace::store::{Link, Put, StoreError};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Transaction};
use uuid::Uuid;

const COMMIT_BYTES_MAX: usize = 2 << 20;
const TRIES_MAX: u32 = 4;

pub(crate) type Failed = tokio_postgres::Error;

/// Takes down what became of the write at (job, place in its answer).
pub(crate) trait Say: FnMut((usize, usize), Put) {}
impl<F: FnMut((usize, usize), Put)> Say for F {}

/// A put on its way.
pub(crate) struct Job {
    /// In the order of their rank, each with its place in the answer.
    pub(crate) rows: Vec<(usize, Row)>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Put>, StoreError>>,
}

/// Takes jobs from the queue until it is closed and empty.
pub(crate) async fn run(config: Config, connection: Connection, jobs: Arc<Mutex<mpsc::Receiver<Job>>>) {
    let place = connection.place().to_owned();
    let mut writer = Writer { place, config, connection: Some(connection), tenants: HashSet::new() };
    loop {
        let mut queue = jobs.lock().await;
        let Some(first) = queue.recv().await else { return };
        let mut bytes = first.bytes();
        let mut group = vec![first];
        while bytes < COMMIT_BYTES_MAX
            && let Ok(job) = queue.try_recv()
        {
            bytes += job.bytes();
            group.push(job);
        }
        drop(queue);
        writer.serve(group).await;
    }
}

struct Writer {
    place: String,
    config: Config,
    connection: Option<Connection>,
    /// Those that the database has a row of, unless it was put in another's place meanwhile.
    tenants: HashSet<String>,
}

impl Writer {
    /// Commits a group; when that fails, each put on its own, so that none suffers for its neighbour.
    async fn serve(&mut self, group: Vec<Job>) {
        match self.commit(&group).await {
            Ok(answers) => {
                for (job, answer) in group.into_iter().zip(answers) {
                    let _ = job.reply.send(Ok(answer));
                }
            }
            Err(error) if group.len() == 1 => {
                let job = group.into_iter().next().expect("a group of one");
                let _ = job.reply.send(Err(error));
            }
            Err(StoreError::Unavailable { reason, .. }) if self.connection.is_none() => {
                for job in group {
                    let error = StoreError::Unavailable { place: self.place.clone(), reason: reason.clone() };
                    let _ = job.reply.send(Err(error));
                }
            }
            Err(_) => {
                for job in group {
                    let answer = self.commit(std::slice::from_ref(&job)).await;
                    let _ = job.reply.send(answer.map(|mut answers| answers.swap_remove(0)));
                }
            }
        }
    }

    /// Tries until it is committed, or until trying again makes no sense.
    async fn commit(&mut self, group: &[Job]) -> Result<Vec<Vec<Put>>, StoreError> {
        let limit = limit(group);
        let mut n_tries = 0;
        loop {
            n_tries += 1;
            if self.connection.as_ref().is_none_or(|connection| connection.client.is_closed()) {
                self.connection = None;
                match Connection::open(&self.config).await {
                    Ok(connection) => self.connection = Some(connection),
                    Err(refused) if n_tries == TRIES_MAX => return Err(refused.error),
                    Err(_) => {
                        pause(n_tries).await;
                        continue;
                    }
                }
            }
            let Some(connection) = &mut self.connection else { continue };
            match tokio::time::timeout(limit, write(connection, &mut self.tenants, group)).await {
                Ok(Ok(answers)) => return Ok(answers),
                Ok(Err(error)) if passing(&error) && n_tries < TRIES_MAX => pause(n_tries).await,
                // A tenant without a row: the database is not the one that it was.
                Ok(Err(error)) if error.code() == Some(&SqlState::NOT_NULL_VIOLATION) && n_tries < TRIES_MAX => {
                    self.tenants.clear();
                }
                Ok(Err(error)) => return Err(failure(&error, &self.place)),
                // Nobody knows whether it was committed, as with a connection that broke.
                Err(_) => {
                    self.connection = None;
                    if n_tries == TRIES_MAX {
                        return Err(silent(&self.place, limit));
                    }
                }
            }
        }
    }
}

/// How long a commit may take: a slow line carries a MiB a second.
fn limit(group: &[Job]) -> Duration {
    let n_mib = group.iter().map(Job::bytes).sum::<usize>() >> 20;
    PROMPT + Duration::from_secs(n_mib as u64)
}

async fn pause(n_tries: u32) {
    tokio::time::sleep(Duration::from_millis(5 << (2 * n_tries))).await;
}

impl Job {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|(_, row)| row.bytes()).sum()
    }
}

/// The rows of a group by kind, each with (job, place in its answer).
#[derive(Default)]
struct Sorted<'g> {
    traces: Vec<((usize, usize), &'g TraceRow)>,
    turns: Vec<((usize, usize), &'g TurnRow)>,
    rewards: Vec<((usize, usize), &'g RewardRow)>,
    documents: Vec<((usize, usize), &'g DocumentRow)>,
    links: Vec<((usize, usize), &'g Link)>,
    events: Vec<((usize, usize), &'g EventRow)>,
}

async fn write(connection: &mut Connection, tenants: &mut HashSet<String>, group: &[Job]) -> Result<Vec<Vec<Put>>, Failed> {
    let mut sorted = Sorted::default();
    let mut answers: Vec<Vec<Put>> = Vec::with_capacity(group.len());
    for (job_idx, job) in group.iter().enumerate() {
        answers.push(vec![Put::New; job.rows.len()]);
        for (place, row) in &job.rows {
            let at = (job_idx, *place);
            match row {
                Row::Trace(row) => sorted.traces.push((at, row)),
                Row::Turn(row) => sorted.turns.push((at, row)),
                Row::Reward(row) => sorted.rewards.push((at, row)),
                Row::Document(row) => sorted.documents.push((at, row)),
                Row::Link(link) => sorted.links.push((at, link)),
                Row::Event(row) => sorted.events.push((at, row)),
            }
        }
    }
    know_tenants(connection, tenants, &sorted.traces).await?;
    let statements = Statements::prepare(connection, &sorted).await?;
    let transaction = connection.client.transaction().await?;
    let mut say = |(job_idx, place): (usize, usize), put: Put| answers[job_idx][place] = put;
    put_traces(&transaction, &statements, &sorted.traces, &mut say).await?;
    if let Some(statements) = &statements.turns {
        let rewarded = sorted.rewards.iter().filter(|(_, row)| row.of_trace).map(|(_, row)| row.trace);
        grow::put_turns(&transaction, statements, &sorted.turns, rewarded, &mut say).await?;
    }
    put_rewards(&transaction, &statements, &sorted.rewards, &mut say).await?;
    for (at, row) in &sorted.documents {
        say(*at, put_document(&transaction, row).await?);
    }
    put_links(&transaction, &sorted.links, &mut say).await?;
    put_events(&transaction, &sorted.events, &mut say).await?;
    transaction.commit().await?;
    Ok(answers)
}

/// What the hot path needs prepared before the transaction begins.
struct Statements {
    traces: Option<[tokio_postgres::Statement; 2]>,
    turns: Option<grow::Statements>,
    rewards: Option<tokio_postgres::Statement>,
}

impl Statements {
    async fn prepare(connection: &mut Connection, sorted: &Sorted<'_>) -> Result<Self, Failed> {
        let traces = if sorted.traces.is_empty() {
            None
        } else {
            Some([connection.prepare(fields::INDEXED).await?, connection.prepare(INSERT_TRACES).await?])
        };
        let rewards = if sorted.rewards.is_empty() { None } else { Some(connection.prepare(INSERT_REWARDS).await?) };
        let turns = if sorted.turns.is_empty() { None } else { Some(grow::Statements::prepare(connection).await?) };
        Ok(Self { traces, turns, rewards })
    }
}

/// Tenants are found by name each time: the numbers of another database, put in this one's place, may be other tenants'.
const INSERT_TRACES: &str = "
    INSERT INTO hone.traces
        (id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens, cost_usd, hash, body, raw)
    SELECT i.id, (SELECT n.id FROM hone.tenants n WHERE n.name = i.tenant), i.at, i.category, i.config, i.outcome, i.reward, i.band, i.n_turns, i.n_tokens, i.cost_usd,
           i.hash, i.body::jsonb, i.raw
    FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::text[], $5::bytea[], $6::int2[], $7::float8[], $8::int2[],
                $9::int8[], $10::int8[], $11::float8[], $12::bytea[], $13::text[], $14::text[]) WITH ORDINALITY
         AS i(id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens, cost_usd, hash, body, raw, n)
    ORDER BY i.n ON CONFLICT (id) DO NOTHING RETURNING id, seq";

async fn put_traces(
    tx: &Transaction<'_>,
    statements: &Statements,
    rows: &[((usize, usize), &TraceRow)],
    say: &mut impl Say,
) -> Result<(), Failed> {
    let Some([indexed, statement]) = &statements.traces else { return Ok(()) };
    // In the order given: lists and training follow it. Two writers with the same traces in another order may wait for each
    // other; then the server ends one of the transactions, and it is tried again.
    let mut seen = HashSet::new();
    let unique: Vec<&TraceRow> = rows.iter().map(|(_, row)| *row).filter(|row| seen.insert(row.id)).collect();
    let forms: Vec<_> = unique.iter().map(|row| jsonb::forms(&row.json.text)).collect();
    let column = |f: fn(&TraceRow) -> &[u8]| -> Vec<&[u8]> { unique.iter().map(|row| f(row)).collect() };
    let values: [&(dyn ToSql + Sync); 14] = [
        &unique.iter().map(|row| Uuid::from_bytes(row.id)).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.tenant.as_str()).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.at).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.category.as_deref()).collect::<Vec<_>>(),
        &column(|row| &row.config),
        &unique.iter().map(|row| row.outcome).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.reward).collect::<Vec<_>>(),
        &unique.iter().map(|row| band::of(row.reward)).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.n_turns).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.n_tokens).collect::<Vec<_>>(),
        &unique.iter().map(|row| row.cost_usd).collect::<Vec<_>>(),
        &column(|row| &row.json.hash),
        &forms.iter().map(|(body, _)| body.as_ref()).collect::<Vec<_>>(),
        &forms.iter().map(|(_, raw)| *raw).collect::<Vec<_>>(),
    ];
    // Sent together and answered in this order.
    let (paths, new) = tokio::try_join!(tx.query(indexed, &[]), tx.query(statement, &values))?;
    let paths: Vec<String> = paths.iter().map(|row| row.get(0)).collect();
    let mut new: HashMap<[u8; 16], i64> = new.iter().map(|row| (row.get::<_, Uuid>(0).into_bytes(), row.get(1))).collect();
    let fields = unique.iter().filter_map(|row| Some((new.get(&row.id)?, row)));
    let fields = fields.flat_map(|(&seq, row)| {
        row.fields_at(&paths).into_iter().map(move |(path, value)| fields::Field { path, value, at: row.at, seq })
    });
    fields::insert(tx, &fields.collect::<Vec<_>>()).await?;
    let mut known: HashMap<[u8; 16], Hash> = HashMap::new();
    if new.len() < rows.len() {
        let ids: Vec<Uuid> = unique.iter().map(|row| Uuid::from_bytes(row.id)).collect();
        for row in tx.query("SELECT id, hash FROM hone.traces WHERE id = ANY ($1)", &[&ids]).await? {
            known.insert(row.get::<_, Uuid>(0).into_bytes(), hash_of(row.get(1)));
        }
    }
    for (at, row) in rows {
        let put = match new.remove(&row.id) {
            Some(_) => Put::New,
            None => same_or_conflict(known.get(&row.id), &row.json.hash),
        };
        say(*at, put);
    }
    Ok(())
}

const INSERT_REWARDS: &str = "
    INSERT INTO hone.rewards (id, trace, hash, body, raw)
    SELECT i.id, i.trace, i.hash, i.body::jsonb, i.raw
    FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::text[], $5::text[]) WITH ORDINALITY
         AS i(id, trace, hash, body, raw, n)
    WHERE EXISTS (SELECT FROM hone.traces t WHERE t.id = i.trace)
    ORDER BY i.n ON CONFLICT (id) DO NOTHING RETURNING id";

async fn put_rewards(
    tx: &Transaction<'_>,
    statements: &Statements,
    rows: &[((usize, usize), &RewardRow)],
    say: &mut impl Say,
) -> Result<(), Failed> {
    let Some(statement) = &statements.rewards else { return Ok(()) };
    let ids: Vec<Uuid> = rows.iter().map(|(_, row)| Uuid::from_bytes(row.id)).collect();
    let forms: Vec<_> = rows.iter().map(|(_, row)| jsonb::forms(&row.json.text)).collect();
    let new = tx
        .query(
            statement,
            &[
                &ids,
                &rows.iter().map(|(_, row)| Uuid::from_bytes(row.trace)).collect::<Vec<_>>(),
                &rows.iter().map(|(_, row)| row.json.hash.as_slice()).collect::<Vec<_>>(),
                &forms.iter().map(|(body, _)| body.as_ref()).collect::<Vec<_>>(),
                &forms.iter().map(|(_, raw)| *raw).collect::<Vec<_>>(),
            ],
        )
        .await?;
    let mut new: HashMap<[u8; 16], ()> = new.iter().map(|row| (row.get::<_, Uuid>(0).into_bytes(), ())).collect();
    let mut known: HashMap<[u8; 16], Hash> = HashMap::new();
    if new.len() < rows.len() {
        for row in tx.query("SELECT id, hash FROM hone.rewards WHERE id = ANY ($1)", &[&ids]).await? {
            known.insert(row.get::<_, Uuid>(0).into_bytes(), hash_of(row.get(1)));
        }
    }
    let mut rewarded: BTreeSet<Uuid> = BTreeSet::new();
    for (at, row) in rows {
        let put = match new.remove(&row.id) {
            Some(()) => Put::New,
            None => same_or_conflict(known.get(&row.id), &row.json.hash),
        };
        if put == Put::New && row.of_trace {
            rewarded.insert(Uuid::from_bytes(row.trace));
        }
        say(*at, put);
    }
    find_by_reward(tx, &rewarded.into_iter().collect::<Vec<_>>()).await
}

/// Locks the rows, as one writer must not miss what another gives to the same trace. A trace's own text is read only where it may
/// hold a reward.
const LOCK_REWARDED: &str = "
    SELECT id, CASE WHEN reward IS NOT NULL THEN (body -> 'rewards')::text END
    FROM hone.traces WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE";

/// Brings the rewards that traces are found by to those that count now.
async fn find_by_reward(tx: &Transaction<'_>, traces: &[Uuid]) -> Result<(), Failed> {
    if traces.is_empty() {
        return Ok(());
    }
    let locked = tx.query(LOCK_REWARDED, &[&traces]).await?;
    let later = "SELECT trace, coalesce(raw, body::text) FROM hone.rewards WHERE trace = ANY ($1) ORDER BY seq";
    let later = tx.query(later, &[&traces]).await?;
    let mut given: HashMap<Uuid, Vec<&str>> = HashMap::new();
    later.iter().for_each(|row| given.entry(row.get(0)).or_default().push(row.get(1)));
    let mut counts = |row: &tokio_postgres::Row| {
        let trace: Uuid = row.get(0);
        (trace, rewards::total(row.get(1), given.remove(&trace).unwrap_or_default()))
    };
    let (traces, totals): (Vec<Uuid>, Vec<Option<f64>>) = locked.iter().map(&mut counts).unzip();
    let bands: Vec<i16> = totals.iter().map(|total| band::of(*total)).collect();
    tx.execute(
        "UPDATE hone.traces t SET reward = i.reward, band = i.band
         FROM unnest($1::uuid[], $2::float8[], $3::int2[]) AS i(id, reward, band) WHERE t.id = i.id",
        &[&traces, &totals, &bands],
    )
    .await?;
    Ok(())
}

async fn put_document(tx: &Transaction<'_>, row: &DocumentRow) -> Result<Put, Failed> {
    let kind = row.kind.as_str();
    let (body, raw) = jsonb::forms(&row.json.text);
    // A revision needs the one before it.
    let n_new = tx
        .execute(
            "INSERT INTO hone.documents (kind, id, revision, tenant, at, hash, body, raw)
             SELECT $1::text, $2::text, $3::int8, $4::text, $5::int8, $6::bytea, $7::text::jsonb, $8::text
             WHERE $3 = 0 OR EXISTS (SELECT FROM hone.documents WHERE kind = $1 AND id = $2 AND revision = $3 - 1)
             ON CONFLICT (kind, id, revision) DO NOTHING",
            &[&kind, &row.id, &row.revision, &row.tenant, &row.at, &row.json.hash.as_slice(), &body.as_ref(), &raw],
        )
        .await?;
    if n_new == 1 {
        return Ok(Put::New);
    }
    let known = tx
        .query_opt(
            "SELECT hash FROM hone.documents WHERE kind = $1 AND id = $2 AND revision = $3",
            &[&kind, &row.id, &row.revision],
        )
        .await?
        .map(|found| hash_of(found.get(0)));
    Ok(same_or_conflict(known.as_ref(), &row.json.hash))
}

async fn put_links(tx: &Transaction<'_>, rows: &[((usize, usize), &Link)], say: &mut impl Say) -> Result<(), Failed> {
    for (at, link) in rows {
        let n_new = tx
            .execute(
                "INSERT INTO hone.links (src, rel, dst) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                &[&link.from, &link.rel, &link.to],
            )
            .await?;
        say(*at, if n_new == 1 { Put::New } else { Put::Same });
    }
    Ok(())
}

async fn put_events(tx: &Transaction<'_>, rows: &[((usize, usize), &EventRow)], say: &mut impl Say) -> Result<(), Failed> {
    if rows.is_empty() {
        return Ok(());
    }
    // Numbers are given out before they are committed: without this lock a reader could see number 8, and
    // number 7 only later. It goes with the transaction.
    tx.execute("SELECT pg_advisory_xact_lock(7522245733601128038)", &[]).await?;
    for (at, row) in rows {
        let (body, raw) = jsonb::forms(&row.json.text);
        let id = Uuid::from_bytes(row.id);
        let n_new = tx
            .execute(
                "INSERT INTO hone.events (id, at, tenant, stream, kind, hash, body, raw)
                 VALUES ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8) ON CONFLICT (id) DO NOTHING",
                &[&id, &row.at, &row.tenant, &row.stream, &row.kind, &row.json.hash.as_slice(), &body.as_ref(), &raw],
            )
            .await?;
        if n_new == 1 {
            say(*at, Put::New);
            continue;
        }
        let known = tx.query_opt("SELECT hash FROM hone.events WHERE id = $1", &[&id]).await?;
        say(*at, same_or_conflict(known.map(|found| hash_of(found.get(0))).as_ref(), &row.json.hash));
    }
    Ok(())
}

/// Gives tenants that are new a row, outside the transaction: it is never taken back.
async fn know_tenants(
    connection: &mut Connection,
    tenants: &mut HashSet<String>,
    rows: &[((usize, usize), &TraceRow)],
) -> Result<(), Failed> {
    let unknown: BTreeSet<&str> =
        rows.iter().map(|(_, row)| row.tenant.as_str()).filter(|name| !tenants.contains(*name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = Vec::from_iter(unknown);
    let statement = "INSERT INTO hone.tenants (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING";
    connection.client.execute(statement, &[&unknown]).await?;
    tenants.extend(unknown.into_iter().map(str::to_owned));
    Ok(())
}

pub(crate) fn hash_of(bytes: &[u8]) -> Hash {
    bytes.try_into().unwrap_or_default()
}

pub(crate) fn same_or_conflict(known: Option<&Hash>, hash: &Hash) -> Put {
    if known == Some(hash) { Put::Same } else { Put::Conflict }
}
