//! Queries: a list is a merge of index ranges that are each in order of time.
//!
//! The same ranges as on SQLite (per tenant, per reward band, per outcome), merged by the server: for each
//! range it reads only the newest entries of an index. All SQL is fixed text.

use super::connection::{Connection, failure};
use crate::dump::kind;
use crate::growth;
use crate::rewards;
use crate::row::{band, field_key, field_literals, fields, outcome_code, outcome_of_code};
use hone_trace::store::{Cursor, Document, Event, Field, Link, PAGE_BYTES_MAX, StoreError, TraceQuery};
use hone_trace::{Category, ConfigHash, EventId, NextTurn, Reward, Tenant, Time, Trace, TraceHead, TraceId};
use std::collections::HashMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The newest entries that fit. `$ranges` names the ranges, `$from` reads one of them.
macro_rules! pick {
    ($explain:literal, $ranges:literal, $from:literal) => {
        concat!(
            $explain,
            "SELECT p.at, p.seq FROM ",
            $ranges,
            " CROSS JOIN LATERAL (SELECT s.at, s.seq FROM ",
            $from,
            "   AND s.at >= $3::int8 AND (s.at, s.seq) < ($4::int8, $5::int8)
                AND ($6::float8 IS NULL OR s.reward >= $6)
                AND ($7::float8 IS NULL OR s.reward <= $7)
                AND ($8::int2 IS NULL OR s.outcome = $8)
                AND ($9::text IS NULL OR s.category = $9)
                AND ($10::bytea IS NULL OR s.config = $10)
                AND ($11::text[] IS NULL OR s.body #> $11 = ANY ($12::text[]::jsonb[]))
                ORDER BY s.at DESC, s.seq DESC LIMIT $2::int8) p
             WHERE ($1::text IS NULL OR n.name = $1)
               AND $13::int4 IS NOT NULL AND $14::int4 IS NOT NULL
             ORDER BY p.at DESC, p.seq DESC LIMIT $2"
        )
    };
}

struct Driver {
    pick: &'static str,
    explain: &'static str,
}

macro_rules! driver {
    ($name:ident, $ranges:literal, $from:literal) => {
        const $name: Driver = Driver {
            pick: pick!("", $ranges, $from),
            explain: pick!("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) ", $ranges, $from),
        };
    };
}

driver!(
    BY_CATEGORY,
    "hone.tenants n CROSS JOIN generate_series($13::int4, $14::int4) AS r(code)",
    "hone.traces s WHERE s.tenant = n.id AND s.category = $9 AND s.band = r.code"
);
driver!(
    BY_REWARD,
    "hone.tenants n CROSS JOIN generate_series($13::int4, $14::int4) AS r(code)",
    "hone.traces s WHERE s.tenant = n.id AND s.band + 0 = r.code"
);
driver!(
    BY_OUTCOME,
    "hone.tenants n CROSS JOIN generate_series($13::int4, $14::int4) AS r(code)",
    "hone.traces s WHERE s.tenant = n.id AND s.outcome = r.code"
);
driver!(BY_CONFIG, "hone.tenants n", "hone.traces s WHERE s.tenant = n.id AND s.config = $10");
driver!(
    BY_FIELD,
    "hone.tenants n",
    "(SELECT f.at, f.seq, t.tenant, t.reward, t.outcome, t.category, t.config, t.body
      FROM hone.trace_fields f JOIN hone.traces t ON t.seq = f.seq
      WHERE f.path = $15::text AND f.value = $16::text) s WHERE s.tenant = n.id"
);

/// A query, ready to be asked.
struct Plan {
    driver: Driver,
    /// The first and last code of the ranges: bands or outcomes.
    codes: (i32, i32),
    by_field: bool,
}

impl Plan {
    fn of(query: &TraceQuery, indexed_fields: &[String]) -> Self {
        let bands = band::between(query.reward_min, query.reward_max);
        let bands = (i32::from(*bands.start()), i32::from(*bands.end()));
        let indexed = query.field.as_ref().is_some_and(|field| indexed_fields.contains(&field.path));
        let (driver, codes) = if indexed {
            (BY_FIELD, (0, 0))
        } else if query.category.is_some() {
            (BY_CATEGORY, bands)
        } else if query.config.is_some() {
            (BY_CONFIG, (0, 0))
        } else if query.reward_min.is_some() || query.reward_max.is_some() {
            (BY_REWARD, bands)
        } else {
            let outcome = query.outcome.map(|outcome| i32::from(outcome_code(outcome)));
            (BY_OUTCOME, outcome.map_or((0, 2), |code| (code, code)))
        };
        Self { driver, codes, by_field: indexed }
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        query: &TraceQuery,
        after: Option<Cursor>,
        limit: u32,
        explain: bool,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let mut before = query.until.map_or((i64::MAX, i64::MAX), |until| (until.unix_nanos(), i64::MIN));
        if let Some(cursor) = after {
            before = before.min((cursor.at.unix_nanos(), cursor.seq));
        }
        // A field with an index is found by it; one without is looked up in every body.
        let path: Option<Vec<&str>> = self.looked_up(query).map(|field| field.path.split('.').collect());
        let field_path = query.field.as_ref().map(|field| field.path.as_str());
        let field_forms = self.looked_up(query).map(|field| {
            let (text, literal) = field_literals(&field.value.replace('\0', "\u{fffd}"));
            [Some(text), literal].into_iter().flatten().collect::<Vec<_>>()
        });
        let field_key = query.field.as_ref().map(|field| field_key(&field.value));
        let mut values: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(16);
        let tenant = query.tenant.as_ref().map(Tenant::as_str);
        let limit = i64::from(limit);
        let since = query.since.map_or(i64::MIN, Time::unix_nanos);
        let outcome = query.outcome.map(outcome_code);
        let category = query.category.as_ref().map(Category::as_str);
        let config = query.config.map(|config| config.bytes().to_vec());
        values.extend([
            &tenant as &(dyn ToSql + Sync),
            &limit,
            &since,
            &before.0,
            &before.1,
            &query.reward_min,
            &query.reward_max,
        ]);
        values.extend([&outcome as &(dyn ToSql + Sync), &category, &config, &path, &field_forms, &self.codes.0, &self.codes.1]);
        if self.by_field {
            values.extend([&field_path as &(dyn ToSql + Sync), &field_key]);
        }
        let statement = connection.prepare(if explain { self.driver.explain } else { self.driver.pick }).await?;
        connection.client.query(&statement, &values).await
    }

    /// The (time, number) of the traces that fit, newest first.
    async fn pick(
        &self,
        connection: &mut Connection,
        query: &TraceQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Vec<(i64, i64)>, tokio_postgres::Error> {
        let mut found = Vec::new();
        let mut after = after;
        loop {
            let rows = self.ask(connection, query, after, limit, false).await?;
            let picked: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            let Some(field) = self.looked_up(query) else { return Ok(picked) };
            found.extend(with_field(connection, field, &picked).await?);
            found.truncate(limit as usize);
            let rest = next(&picked, limit);
            if rest.is_none() || found.len() == limit as usize {
                return Ok(found);
            }
            after = rest;
        }
    }

    /// The field that is asked for and that no index answers.
    fn looked_up<'q>(&self, query: &'q TraceQuery) -> Option<&'q Field> {
        query.field.as_ref().filter(|_| !self.by_field)
    }
}

/// Those of these traces that an index of the field would find. JSONB knows neither how a number was written nor a key from a
/// position in an array.
async fn with_field(
    connection: &mut Connection,
    field: &Field,
    picked: &[(i64, i64)],
) -> Result<Vec<(i64, i64)>, tokio_postgres::Error> {
    let wanted = [(field.path.clone(), field_key(&field.value))];
    let mut found = Vec::new();
    // In small handfuls, since bodies may be large.
    for handful in picked.chunks(32) {
        let seqs: Vec<i64> = handful.iter().map(|(_, seq)| *seq).collect();
        let statement = connection
            .prepare("SELECT at, seq, coalesce(raw, body::text) FROM hone.traces WHERE seq = ANY ($1) ORDER BY at DESC, seq DESC")
            .await?;
        for row in connection.client.query(&statement, &[&seqs]).await? {
            // A damaged body has no fields; `verify` names it.
            let Ok(body) = serde_json::from_str(row.get(2)) else { continue };
            if fields(&body, std::slice::from_ref(&field.path)) == wanted {
                found.push((row.get(0), row.get(1)));
            }
        }
    }
    Ok(found)
}

pub(crate) async fn heads(
    connection: &mut Connection,
    query: &TraceQuery,
    indexed_fields: &[String],
    after: Option<Cursor>,
    limit: u32,
) -> Result<(Vec<TraceHead>, Option<Cursor>), StoreError> {
    let place = connection.place().to_owned();
    let failed = |error: tokio_postgres::Error| failure(&error, &place);
    let picked = Plan::of(query, indexed_fields).pick(connection, query, after, limit).await.map_err(failed)?;
    let seqs: Vec<i64> = picked.iter().map(|(_, seq)| *seq).collect();
    let statement = connection
        .prepare(
            "SELECT t.id, n.name, t.at, t.category, t.config, t.outcome, t.reward, t.n_turns, t.n_tokens, t.cost_usd
             FROM hone.traces t JOIN hone.tenants n ON n.id = t.tenant
             WHERE t.seq = ANY ($1) ORDER BY t.at DESC, t.seq DESC",
        )
        .await
        .map_err(failed)?;
    let rows = connection.client.query(&statement, &[&seqs]).await.map_err(failed)?;
    let heads = rows.iter().map(head).collect::<Result<_, _>>()?;
    Ok((heads, next(&picked, limit)))
}

/// The traces that fit, each with the turns that it went on with and the rewards given to it later.
pub(crate) async fn traces(
    connection: &mut Connection,
    query: &TraceQuery,
    indexed_fields: &[String],
    after: Option<Cursor>,
    limit: u32,
) -> Result<(Vec<Trace>, Option<Cursor>), StoreError> {
    let place = connection.place().to_owned();
    let failed = |error: tokio_postgres::Error| failure(&error, &place);
    let picked = Plan::of(query, indexed_fields).pick(connection, query, after, limit).await.map_err(failed)?;
    let mut traces: Vec<Trace> = Vec::with_capacity(picked.len());
    let mut bytes = 0;
    // In small handfuls, so that a page of large traces ends before it is all in memory.
    for handful in picked.chunks(32) {
        let seqs: Vec<i64> = handful.iter().map(|(_, seq)| *seq).collect();
        let statement = connection.prepare(BODIES).await.map_err(failed)?;
        let rows = connection.client.query(&statement, &[&seqs]).await.map_err(failed)?;
        let first = traces.len();
        let mut full = None;
        for row in &rows {
            traces.push(parsed(row, 1, || format!("trace {}", row.get::<_, Uuid>(0)))?);
            bytes += row.get::<_, &str>(1).len() + usize::try_from(row.get::<_, i64>(2)).unwrap_or(0);
            if bytes >= PAGE_BYTES_MAX {
                full = Some(Cursor { at: Time::from_unix_nanos(row.get(3)), seq: row.get(4) });
                break;
            }
        }
        drop(rows);
        add_what_came_later(connection, &mut traces[first..]).await?;
        if full.is_some() {
            return Ok((traces, full));
        }
    }
    Ok((traces, next(&picked, limit)))
}

/// The traces' own bodies, each with the bytes of the turns that it went on with.
const BODIES: &str = "
    SELECT t.id, coalesce(t.raw, t.body::text),
           (SELECT coalesce(sum(u.n_bytes), 0)::int8 FROM hone.turns u WHERE u.trace = t.id), t.at, t.seq
    FROM hone.traces t WHERE t.seq = ANY ($1) ORDER BY t.at DESC, t.seq DESC";

pub(crate) async fn trace(connection: &mut Connection, id: TraceId) -> Result<Option<Trace>, StoreError> {
    let place = connection.place().to_owned();
    let failed = |error: tokio_postgres::Error| failure(&error, &place);
    let statement =
        connection.prepare("SELECT coalesce(raw, body::text) FROM hone.traces WHERE id = $1").await.map_err(failed)?;
    let row = connection.client.query_opt(&statement, &[&Uuid::from_bytes(id.bytes())]).await.map_err(failed)?;
    let Some(row) = row else { return Ok(None) };
    let mut trace = [parsed::<Trace>(&row, 0, || format!("trace {id}"))?];
    add_what_came_later(connection, &mut trace).await?;
    let [trace] = trace;
    Ok(Some(trace))
}

/// How the server answers, in its own words.
pub(crate) async fn explain(
    connection: &mut Connection,
    query: &TraceQuery,
    indexed_fields: &[String],
) -> Result<String, StoreError> {
    let rows = Plan::of(query, indexed_fields).ask(connection, query, None, 50, true).await;
    let rows = rows.map_err(|error| failure(&error, connection.place()))?;
    let lines: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    Ok(lines.join("\n") + "\n")
}

fn next(picked: &[(i64, i64)], limit: u32) -> Option<Cursor> {
    let &(at, seq) = picked.last().filter(|_| picked.len() == limit as usize)?;
    Some(Cursor { at: Time::from_unix_nanos(at), seq })
}

/// Adds the turns that these traces went on with and the rewards given to them.
async fn add_what_came_later(connection: &mut Connection, traces: &mut [Trace]) -> Result<(), StoreError> {
    let place = connection.place().to_owned();
    let failed = |error: tokio_postgres::Error| failure(&error, &place);
    let ids: Vec<Uuid> = traces.iter().map(|trace| Uuid::from_bytes(trace.id.bytes())).collect();
    let rewards = connection
        .prepare("SELECT trace, seq, coalesce(raw, body::text) FROM hone.rewards WHERE trace = ANY ($1)")
        .await
        .map_err(failed)?;
    let turns = connection
        .prepare("SELECT trace, turn_idx, coalesce(raw, body::text) FROM hone.turns WHERE trace = ANY ($1)")
        .await
        .map_err(failed)?;
    // Sent together and answered in this order: the turns that a reward speaks of are then there.
    let values: [&(dyn ToSql + Sync); 1] = [&ids];
    let client = &connection.client;
    let (rewards, turns) = tokio::try_join!(client.query(&rewards, &values), client.query(&turns, &values)).map_err(failed)?;
    let mut given = by_trace::<Reward>(rewards, "a reward")?;
    let mut turns = by_trace::<NextTurn>(turns, "a turn")?;
    for trace in traces {
        rewards::add(&mut trace.rewards, given.remove(&trace.id.bytes()).unwrap_or_default());
        growth::append(trace, turns.remove(&trace.id.bytes()).unwrap_or_default())?;
    }
    Ok(())
}

/// The records in rows of trace, number and JSON text: those of each trace in the order of their numbers.
fn by_trace<T: serde::de::DeserializeOwned>(mut rows: Vec<Row>, what: &str) -> Result<HashMap<[u8; 16], Vec<T>>, StoreError> {
    rows.sort_by_key(|row| row.get::<_, i64>(1));
    let mut found: HashMap<[u8; 16], Vec<T>> = HashMap::new();
    for row in rows {
        let trace = row.get::<_, Uuid>(0);
        found.entry(trace.into_bytes()).or_default().push(parsed(&row, 2, || format!("{what} of trace {trace}"))?);
    }
    Ok(found)
}

/// The record in a column of JSON text.
pub(crate) fn parsed<T: serde::de::DeserializeOwned>(
    row: &Row,
    column: usize,
    what: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    serde_json::from_str(row.get(column)).map_err(|error| StoreError::Damaged { what: what(), reason: error.to_string() })
}

fn damaged(what: String) -> impl FnOnce(hone_trace::NameError) -> StoreError {
    move |error| StoreError::Damaged { what, reason: error.to_string() }
}

fn head(row: &Row) -> Result<TraceHead, StoreError> {
    let id = TraceId::from_bytes(row.get::<_, Uuid>(0).into_bytes());
    let what = || format!("trace {id}");
    let category = row.get::<_, Option<String>>(3).map(Category::new).transpose();
    Ok(TraceHead {
        id,
        tenant: Tenant::new(row.get::<_, String>(1)).map_err(damaged(what()))?,
        started: Time::from_unix_nanos(row.get(2)),
        category: category.map_err(damaged(what()))?,
        config: ConfigHash::from_bytes(row.get::<_, &[u8]>(4).try_into().unwrap_or_default()),
        outcome: outcome_of_code(row.get(5)),
        reward: row.get(6),
        n_turns: u32::try_from(row.get::<_, i64>(7)).unwrap_or(u32::MAX),
        n_tokens: row.get::<_, i64>(8).unsigned_abs(),
        cost_usd: row.get(9),
    })
}

/// kind, id, revision, tenant, at, body.
pub(crate) fn document(row: &Row) -> Result<Document, StoreError> {
    let (name, id): (&str, String) = (row.get(0), row.get(1));
    let what = || format!("{name} {id}");
    let kind = kind(name).map_err(|error| StoreError::Damaged { what: what(), reason: error.to_string() })?;
    let revision = u32::try_from(row.get::<_, i64>(2)).unwrap_or(u32::MAX);
    let tenant = Tenant::new(row.get::<_, String>(3)).map_err(damaged(what()))?;
    let body = parsed(row, 5, what)?;
    Ok(Document { kind, revision, tenant, at: Time::from_unix_nanos(row.get(4)), body, id })
}

/// src, rel, dst.
pub(crate) fn link(row: &Row) -> Link {
    Link { from: row.get(0), rel: row.get(1), to: row.get(2) }
}

/// seq, id.
pub(crate) fn event_id(row: &Row) -> (u64, EventId) {
    (row.get::<_, i64>(0).unsigned_abs(), EventId::from_bytes(row.get::<_, Uuid>(1).into_bytes()))
}

/// seq, id, at, tenant, stream, kind, body.
pub(crate) fn event(row: &Row) -> Result<(u64, Event), StoreError> {
    let (number, id) = event_id(row);
    let what = || format!("event {id}");
    let event = Event {
        id,
        at: Time::from_unix_nanos(row.get(2)),
        tenant: Tenant::new(row.get::<_, String>(3)).map_err(damaged(what()))?,
        stream: row.get(4),
        kind: row.get(5),
        body: parsed(row, 6, what)?,
    };
    Ok((number, event))
}
