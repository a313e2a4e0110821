//! Queries: a list is a merge of index ranges that are each in order of time.
//!
//! Every filter that an index can answer names its ranges (per tenant, per reward band, per outcome); the
//! newest entries of each are merged, and only the winners' rows are read. All SQL is fixed text.

use super::fate::named;
use crate::growth;
use crate::rewards;
use crate::row::{band, field_key, field_literals, outcome_code, outcome_of_code};
use hone_trace::store::{Cursor, PAGE_BYTES_MAX, TraceQuery};
use hone_trace::{Category, ConfigHash, NextTurn, Reward, Tenant, Time, Trace, TraceHead, TraceId};
use rusqlite::types::{ToSql, Type};
use rusqlite::{Connection, OptionalExtension, Row, Statement};

/// The newest entries of one index range that pass the other filters.
macro_rules! pick {
    ($explain:literal, $at:literal, $seq:literal, $range:literal) => {
        concat!(
            $explain,
            "SELECT ",
            $at,
            ", ",
            $seq,
            " FROM ",
            $range,
            " AND ",
            $at,
            " >= :since AND (",
            $at,
            ", ",
            $seq,
            ") < (:before_at, :before_seq)
              AND (:reward_min IS NULL OR s.reward >= :reward_min)
              AND (:reward_max IS NULL OR s.reward <= :reward_max)
              AND (:only_tenant IS NULL OR s.tenant = :only_tenant)
              AND (:only_category IS NULL OR s.category = :only_category)
              AND (:only_config IS NULL OR s.config = :only_config)
              AND (:only_outcome IS NULL OR s.outcome = :only_outcome)
              AND (:json_path IS NULL OR
                   (SELECT CASE WHEN json_valid(b.body) THEN b.body -> :json_path END FROM bodies b WHERE b.seq = s.seq)
                   IN (:json_text, :json_literal))
              ORDER BY ",
            $at,
            " DESC, ",
            $seq,
            " DESC LIMIT :limit"
        )
    };
}

/// A kind of index range: the statement that reads one, and how SQLite says it does that.
struct Driver {
    pick: &'static str,
    explain: &'static str,
}

macro_rules! driver {
    ($name:ident, $at:literal, $seq:literal, $range:literal) => {
        const $name: Driver =
            Driver { pick: pick!("", $at, $seq, $range), explain: pick!("EXPLAIN QUERY PLAN ", $at, $seq, $range) };
    };
}

driver!(
    BY_CATEGORY,
    "s.at",
    "s.seq",
    "traces s INDEXED BY traces_by_category WHERE s.tenant = :tenant AND s.category IS :category AND s.band = :band"
);
driver!(BY_OUTCOME, "s.at", "s.seq", "traces s INDEXED BY traces_by_outcome WHERE s.tenant = :tenant AND s.outcome = :outcome");
driver!(BY_CONFIG, "s.at", "s.seq", "traces s INDEXED BY traces_by_config WHERE s.config = :config");
driver!(
    BY_FIELD,
    "f.at",
    "f.seq",
    "trace_fields f CROSS JOIN traces s ON s.seq = f.seq WHERE f.path = :field_path AND f.value = :field_value"
);

/// A query, ready to be asked.
struct Plan<'q> {
    driver: Driver,
    /// One for each range of the driver's index.
    ranges: Vec<Range>,
    query: &'q TraceQuery,
    /// Filters that the index does not answer by itself.
    only: Only,
}

#[derive(Clone, Default)]
struct Range {
    tenant: Option<i64>,
    category: Option<String>,
    band: Option<i16>,
    outcome: Option<i16>,
}

#[derive(Default)]
struct Only {
    tenant: Option<i64>,
    category: Option<String>,
    config: Option<[u8; 32]>,
    outcome: Option<i16>,
    json: Option<(String, String, Option<String>)>,
}

impl<'q> Plan<'q> {
    fn of(connection: &Connection, query: &'q TraceQuery, indexed_fields: &[String]) -> rusqlite::Result<Self> {
        let tenants = tenants(connection, query.tenant.as_ref())?;
        let bands = band::between(query.reward_min, query.reward_max);
        let by_band = |categories: &[(i64, Option<String>)]| {
            let ranges = categories.iter().flat_map(|(tenant, category)| {
                bands.clone().map(|band| Range {
                    tenant: Some(*tenant),
                    category: category.clone(),
                    band: Some(band),
                    outcome: None,
                })
            });
            ranges.collect()
        };
        let outcome = query.outcome.map(outcome_code);
        let indexed = query.field.as_ref().filter(|field| indexed_fields.contains(&field.path));
        let mut only = Only { outcome, ..Only::default() };
        if indexed.is_none()
            && let Some(field) = &query.field
        {
            let (text, literal) = field_literals(&field.value);
            only.json = Some((json_path(&field.path), text, literal));
        }
        let one_range = |only: &mut Only| match (&query.tenant, tenants.first()) {
            (Some(_), None) => Vec::new(),
            (Some(_), Some(&tenant)) => {
                only.tenant = Some(tenant);
                vec![Range::default()]
            }
            (None, _) => vec![Range::default()],
        };
        let (driver, ranges) = if indexed.is_some() {
            only.category = query.category.as_ref().map(|category| category.as_str().to_owned());
            only.config = query.config.map(|config| *config.bytes());
            (BY_FIELD, one_range(&mut only))
        } else if query.category.is_some() {
            only.config = query.config.map(|config| *config.bytes());
            let category = query.category.as_ref().map(|category| category.as_str().to_owned());
            let of_each: Vec<_> = tenants.iter().map(|&tenant| (tenant, category.clone())).collect();
            (BY_CATEGORY, by_band(&of_each))
        } else if query.config.is_some() {
            (BY_CONFIG, one_range(&mut only))
        } else if query.reward_min.is_some() || query.reward_max.is_some() {
            // Rewards are in order within a category only: a range for each of them, too.
            (BY_CATEGORY, by_band(&categories(connection, &tenants)?))
        } else {
            let codes = outcome.map_or(0..=2, |code| code..=code);
            let ranges = tenants.iter().flat_map(|&tenant| {
                codes.clone().map(move |code| Range { tenant: Some(tenant), outcome: Some(code), ..Range::default() })
            });
            (BY_OUTCOME, ranges.collect())
        };
        Ok(Self { driver, ranges, query, only })
    }

    /// The (time, number) of the traces that fit, newest first.
    fn pick(&self, connection: &Connection, after: Option<Cursor>, limit: u32) -> rusqlite::Result<Vec<(i64, i64)>> {
        let mut before = self.query.until.map_or((i64::MAX, i64::MAX), |until| (until.unix_nanos(), i64::MIN));
        if let Some(cursor) = after {
            before = before.min((cursor.at.unix_nanos(), cursor.seq));
        }
        let mut since = self.query.since.map_or(i64::MIN, Time::unix_nanos);
        let mut statement = connection.prepare_cached(self.driver.pick)?;
        let mut newest: Vec<(i64, i64)> = Vec::new();
        for range in &self.ranges {
            self.bind(&mut statement, range, since, before, limit)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                newest.push((row.get(0)?, row.get(1)?));
            }
            newest.sort_unstable_by(|a, b| b.cmp(a));
            newest.truncate(limit as usize);
            // What is older than the last of a full list cannot enter it from a later range.
            if newest.len() == limit as usize
                && let Some(&(at, _)) = newest.last()
            {
                since = since.max(at);
            }
        }
        Ok(newest)
    }

    fn bind(
        &self,
        statement: &mut Statement<'_>,
        range: &Range,
        since: i64,
        before: (i64, i64),
        limit: u32,
    ) -> rusqlite::Result<()> {
        let query = self.query;
        let field_value = query.field.as_ref().map(|field| field_key(&field.value));
        let json = self.only.json.as_ref();
        let values: [(&str, &dyn ToSql); 20] = [
            (":tenant", &range.tenant),
            (":band", &range.band),
            (":outcome", &range.outcome),
            (":category", &range.category),
            (":config", &query.config.map(|config| *config.bytes())),
            (":field_path", &query.field.as_ref().map(|field| field.path.as_str())),
            (":field_value", &field_value),
            (":since", &since),
            (":before_at", &before.0),
            (":before_seq", &before.1),
            (":reward_min", &query.reward_min),
            (":reward_max", &query.reward_max),
            (":only_tenant", &self.only.tenant),
            (":only_category", &self.only.category),
            (":only_config", &self.only.config),
            (":only_outcome", &self.only.outcome),
            (":json_path", &json.map(|json| json.0.as_str())),
            (":json_text", &json.map(|json| json.1.as_str())),
            (":json_literal", &json.and_then(|json| json.2.as_deref())),
            (":limit", &limit),
        ];
        for (name, value) in values {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn heads(
    connection: &Connection,
    query: &TraceQuery,
    indexed_fields: &[String],
    after: Option<Cursor>,
    limit: u32,
) -> rusqlite::Result<(Vec<TraceHead>, Option<Cursor>)> {
    let picked = Plan::of(connection, query, indexed_fields)?.pick(connection, after, limit)?;
    let mut statement = connection.prepare_cached(
        "SELECT t.id, n.name, t.at, t.category, t.config, t.outcome, t.reward, t.n_turns, t.n_tokens, t.cost_usd
         FROM traces t JOIN tenants n ON n.id = t.tenant WHERE t.seq = ?1",
    )?;
    let heads = picked.iter().map(|(_, seq)| statement.query_row([seq], head)).collect::<rusqlite::Result<_>>()?;
    Ok((heads, next(&picked, limit)))
}

/// The traces that fit, each with the turns that it went on with and the rewards given to it later.
pub(crate) fn traces(
    connection: &Connection,
    query: &TraceQuery,
    indexed_fields: &[String],
    after: Option<Cursor>,
    limit: u32,
) -> rusqlite::Result<(Vec<Trace>, Option<Cursor>)> {
    let picked = Plan::of(connection, query, indexed_fields)?.pick(connection, after, limit)?;
    let mut traces = Vec::with_capacity(picked.len());
    let mut bytes = 0;
    let mut statement =
        connection.prepare_cached("SELECT t.id, b.body FROM traces t JOIN bodies b ON b.seq = t.seq WHERE t.seq = ?1")?;
    for &(at, seq) in &picked {
        let mut rows = statement.query([seq])?;
        let Some(row) = rows.next()? else { continue };
        let (trace, n_bytes) = whole(connection, row)?;
        traces.push(trace);
        bytes += n_bytes;
        if bytes >= PAGE_BYTES_MAX {
            return Ok((traces, Some(Cursor { at: Time::from_unix_nanos(at), seq })));
        }
    }
    Ok((traces, next(&picked, limit)))
}

pub(crate) fn trace(connection: &Connection, id: TraceId) -> rusqlite::Result<Option<Trace>> {
    connection
        .prepare_cached("SELECT t.id, b.body FROM traces t JOIN bodies b ON b.seq = t.seq WHERE t.id = ?1")?
        .query_row([id.bytes()], |row| whole(connection, row))
        .optional()
        .map(|found| found.map(|(trace, _)| trace))
}

/// How SQLite reads one of the ranges, and how many it reads.
pub(crate) fn explain(connection: &Connection, query: &TraceQuery, indexed_fields: &[String]) -> rusqlite::Result<String> {
    let plan = Plan::of(connection, query, indexed_fields)?;
    let mut statement = connection.prepare(plan.driver.explain)?;
    plan.bind(&mut statement, plan.ranges.first().unwrap_or(&Range::default()), 0, (0, 0), 1)?;
    let mut text = format!("{} index ranges, merged newest first; each one:\n", plan.ranges.len());
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        text.push_str("  ");
        text.push_str(row.get_ref(3)?.as_str()?);
        text.push('\n');
    }
    Ok(text)
}

fn next(picked: &[(i64, i64)], limit: u32) -> Option<Cursor> {
    let &(at, seq) = picked.last().filter(|_| picked.len() == limit as usize)?;
    Some(Cursor { at: Time::from_unix_nanos(at), seq })
}

/// The trace of a row of id and body with all that came later, and the bytes of its JSON texts but for rewards.
fn whole(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<(Trace, usize)> {
    let id: [u8; 16] = row.get(0)?;
    let name = TraceId::from_bytes(id);
    let mut trace: Trace = named(parsed(row, 1), || format!("trace {name}"))?;
    let mut n_bytes = row.get_ref(1)?.as_str()?.len();
    // The row is still being read, so that all of this is one view.
    let mut statement = connection.prepare_cached("SELECT body FROM rewards WHERE trace = ?1 ORDER BY seq")?;
    let later: Vec<Reward> = statement
        .query_map([id], |row| named(parsed(row, 0), || format!("a reward of trace {name}")))?
        .collect::<rusqlite::Result<_>>()?;
    rewards::add(&mut trace.rewards, later);
    let turns: Vec<NextTurn> = connection
        .prepare_cached("SELECT body FROM turns WHERE trace = ?1 ORDER BY turn_idx")?
        .query_map([id], |row| {
            let next = named(parsed(row, 0), || format!("a turn of trace {name}"))?;
            n_bytes += row.get_ref(0)?.as_str()?.len();
            Ok(next)
        })?
        .collect::<rusqlite::Result<_>>()?;
    growth::append(&mut trace, turns).map_err(|error| damaged(0, error))?;
    Ok((trace, n_bytes))
}

/// The record in a column of JSON text.
pub(crate) fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| damaged(column, error))
}

fn head(row: &Row<'_>) -> rusqlite::Result<TraceHead> {
    let id = TraceId::from_bytes(row.get(0)?);
    named(head_of(id, row), || format!("trace {id}"))
}

fn head_of(id: TraceId, row: &Row<'_>) -> rusqlite::Result<TraceHead> {
    Ok(TraceHead {
        id,
        tenant: Tenant::new(row.get::<_, String>(1)?).map_err(|error| damaged(1, error))?,
        started: Time::from_unix_nanos(row.get(2)?),
        category: row.get::<_, Option<String>>(3)?.map(Category::new).transpose().map_err(|error| damaged(3, error))?,
        config: ConfigHash::from_bytes(row.get(4)?),
        outcome: outcome_of_code(row.get(5)?),
        reward: row.get(6)?,
        n_turns: row.get(7)?,
        n_tokens: row.get::<_, i64>(8)?.unsigned_abs(),
        cost_usd: row.get(9)?,
    })
}

/// An error that says what is stored is not what was written.
pub(crate) fn damaged(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn tenants(connection: &Connection, only: Option<&Tenant>) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT id FROM tenants WHERE ?1 IS NULL OR name = ?1")?
        .query_map([only.map(Tenant::as_str)], |row| row.get(0))?
        .collect()
}

/// All categories of these tenants, by a jump in the index from one to the next; traces without one count as one.
fn categories(connection: &Connection, tenants: &[i64]) -> rusqlite::Result<Vec<(i64, Option<String>)>> {
    let mut statement = connection.prepare_cached(
        "SELECT category FROM traces INDEXED BY traces_by_category WHERE tenant = ?1 AND category > ?2 ORDER BY category LIMIT 1",
    )?;
    let mut found = Vec::new();
    for &tenant in tenants {
        found.push((tenant, None));
        let mut last = String::new();
        while let Some(category) = statement.query_row((tenant, &last), |row| row.get::<_, String>(0)).optional()? {
            found.push((tenant, Some(category.clone())));
            last = category;
        }
    }
    Ok(found)
}

/// `metadata.customer` as SQLite writes it: `$."metadata"."customer"`.
fn json_path(path: &str) -> String {
    path.split('.').fold("$".to_owned(), |path, key| path + ".\"" + key + "\"")
}
