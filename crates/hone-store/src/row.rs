//! What is written, as rows: the columns that queries need, the JSON text, and its hash.
//!
//! Encoding happens in the caller, so that the one writer only moves bytes.

use crate::Options;
use crate::growth::{TurnRow, holds_place};
use hone_trace::store::{Document, Event, Kind, Link, RECORD_BYTES_MAX, StoreError, Write};
use hone_trace::{NextTurn, Reward, Sorted, Trace, TraceId, TraceOutcome};
use serde::Serialize;
use serde_json::Value;

/// The first sixteen bytes of the BLAKE3 hash of a record's JSON text.
pub type Hash = [u8; 16];

/// A write that is checked and encoded, on whichever thread has the time for it.
pub struct Encoded(pub(crate) Row);

impl Encoded {
    /// Checks and encodes a write for a store that is opened with these options.
    pub fn of(write: &Write, options: &Options) -> Result<Self, StoreError> {
        Row::of(write, &options.indexed_fields).map(Self)
    }

    /// All writes of a put, or what is wrong with the first that cannot be written.
    pub(crate) fn all(writes: Vec<Write>, indexed_fields: &[String]) -> Result<Vec<Self>, StoreError> {
        writes.into_iter().map(|write| Row::of(&write, indexed_fields).map(Self)).collect()
    }
}

/// One write, encoded.
pub(crate) enum Row {
    Trace(Box<TraceRow>),
    Turn(TurnRow),
    Reward(RewardRow),
    Document(DocumentRow),
    Link(Link),
    Event(EventRow),
}

pub(crate) struct TraceRow {
    pub(crate) id: [u8; 16],
    pub(crate) tenant: String,
    pub(crate) at: i64,
    pub(crate) category: Option<String>,
    pub(crate) config: [u8; 32],
    pub(crate) outcome: i16,
    pub(crate) reward: Option<f64>,
    pub(crate) n_turns: i64,
    pub(crate) n_tokens: i64,
    pub(crate) cost_usd: f64,
    /// The paths it was encoded for, and the fields found there: (path, value).
    paths: Vec<String>,
    fields: Vec<(String, String)>,
    pub(crate) json: Json,
}

pub(crate) struct RewardRow {
    pub(crate) id: [u8; 16],
    pub(crate) trace: [u8; 16],
    /// Whether it is for the whole trace.
    pub(crate) of_trace: bool,
    pub(crate) json: Json,
}

pub(crate) struct DocumentRow {
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) revision: i64,
    pub(crate) tenant: String,
    pub(crate) at: i64,
    pub(crate) json: Json,
}

pub(crate) struct EventRow {
    pub(crate) id: [u8; 16],
    pub(crate) at: i64,
    pub(crate) tenant: String,
    pub(crate) stream: String,
    pub(crate) kind: String,
    pub(crate) json: Json,
}

/// A record's JSON text and its hash.
pub(crate) struct Json {
    pub(crate) text: String,
    pub(crate) hash: Hash,
}

impl Json {
    pub(crate) fn of(record: &impl Serialize, what: impl Fn() -> String) -> Result<Self, StoreError> {
        let text = hone_trace::json::to_vec(record);
        let text = text.map_err(|error| StoreError::Invalid { what: what(), reason: error.to_string() })?;
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        if text.len() > RECORD_BYTES_MAX {
            return Err(StoreError::TooLarge { what: what(), bytes: text.len() });
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Ok(Self { text, hash })
    }
}

impl Row {
    /// Checks and encodes a write.
    pub(crate) fn of(write: &Write, indexed_fields: &[String]) -> Result<Self, StoreError> {
        match write {
            Write::Trace(trace) => TraceRow::of(trace, indexed_fields).map(|row| Self::Trace(Box::new(row))),
            Write::Turn(trace, next) => TurnRow::of(*trace, next).map(Self::Turn),
            Write::Reward(trace, reward) => RewardRow::of(*trace, reward).map(Self::Reward),
            Write::Document(document) => DocumentRow::of(document).map(Self::Document),
            Write::Link(link) => {
                for part in [&link.from, &link.rel, &link.to] {
                    printable(part, || format!("link {} → {}", link.from, link.to))?;
                }
                Ok(Self::Link(link.clone()))
            }
            Write::Event(event) => EventRow::of(event).map(Self::Event),
        }
    }

    /// Whether what stands under this record's key is to be replaced by it: it is not what was written, or only holds a place.
    /// Text and hash were written together, so that where one of them agrees with this record the other was changed.
    pub(crate) fn replaces(&self, text: &str, is_same_text: bool, hash: &[u8]) -> bool {
        let Some(json) = self.json() else { return false };
        match (hash == json.hash, is_same_text) {
            (true, true) => return false,
            (false, false) => {}
            _ => return true,
        }
        let found = match self {
            Self::Trace(_) => again::<Trace>(text),
            Self::Turn(_) if holds_place(text) => return true,
            Self::Turn(_) => again::<NextTurn>(text),
            Self::Reward(_) => again::<Reward>(text),
            Self::Document(_) | Self::Event(_) => {
                serde_json::from_str::<Value>(text).ok().and_then(|body| Json::of(&Sorted(&body), String::new).ok())
            }
            Self::Link(_) => return false,
        };
        found.is_none_or(|json| json.hash != hash)
    }

    pub(crate) fn json(&self) -> Option<&Json> {
        match self {
            Self::Trace(row) => Some(&row.json),
            Self::Turn(row) => Some(&row.json),
            Self::Reward(row) => Some(&row.json),
            Self::Document(row) => Some(&row.json),
            Self::Event(row) => Some(&row.json),
            Self::Link(_) => None,
        }
    }

    /// About how many bytes the database will write for it.
    pub(crate) fn bytes(&self) -> usize {
        let json = match self {
            Self::Link(link) => link.from.len() + link.rel.len() + link.to.len(),
            _ => self.json().map_or(0, |json| json.text.len()),
        };
        json + 256
    }

    /// The rows of one put in the order in which they are written, each with its place in the answer.
    pub(crate) fn ranked(encoded: Vec<Encoded>) -> Vec<(usize, Self)> {
        let mut rows: Vec<(usize, Self)> = encoded.into_iter().map(|Encoded(row)| row).enumerate().collect();
        rows.sort_by_key(|(_, row)| row.rank());
        rows
    }

    /// The order in which the rows of one put are written, so that a turn or a reward finds the trace beside it.
    fn rank(&self) -> u8 {
        match self {
            Self::Trace(_) => 0,
            Self::Turn(_) => 1,
            Self::Reward(_) => 2,
            Self::Document(_) => 3,
            Self::Link(_) => 4,
            Self::Event(_) => 5,
        }
    }
}

/// The record in this text as it would be written.
fn again<T: Serialize + serde::de::DeserializeOwned>(text: &str) -> Option<Json> {
    Json::of(&serde_json::from_str::<T>(text).ok()?, String::new).ok()
}

impl TraceRow {
    pub(crate) fn of(trace: &Trace, indexed_fields: &[String]) -> Result<Self, StoreError> {
        let what = || format!("trace {}", trace.id);
        trace.check().map_err(|error| StoreError::Invalid { what: what(), reason: error.to_string() })?;
        let json = Json::of(trace, what)?;
        let fields = if indexed_fields.is_empty() {
            Vec::new()
        } else {
            let body: Value = serde_json::from_str(&json.text)
                .map_err(|error| StoreError::Invalid { what: what(), reason: error.to_string() })?;
            fields(&body, indexed_fields)
        };
        let head = trace.head();
        Ok(Self {
            id: trace.id.bytes(),
            tenant: trace.tenant.as_str().to_owned(),
            at: trace.started.unix_nanos(),
            category: trace.category.as_ref().map(|category| category.as_str().to_owned()),
            config: *trace.config.bytes(),
            outcome: outcome_code(trace.outcome),
            reward: head.reward,
            n_turns: i64::from(head.n_turns),
            n_tokens: i64::try_from(head.n_tokens).unwrap_or(i64::MAX),
            cost_usd: head.cost_usd,
            paths: indexed_fields.to_vec(),
            fields,
            json,
        })
    }

    /// The fields at the paths that the database indexes. Another process may have declared more than it was encoded for.
    pub(crate) fn fields_at(&self, paths: &[String]) -> Vec<(String, String)> {
        if paths.iter().all(|path| self.paths.contains(path)) {
            return self.fields.iter().filter(|(path, _)| paths.contains(path)).cloned().collect();
        }
        let body: Value = serde_json::from_str(&self.json.text).expect("it was JSON a moment ago");
        fields(&body, paths)
    }
}

impl RewardRow {
    fn of(trace: TraceId, reward: &Reward) -> Result<Self, StoreError> {
        let what = || format!("reward {}", reward.id);
        let numbers = reward.components.iter().flat_map(|part| [part.value, part.weight]);
        if !numbers.chain([reward.total]).all(f64::is_finite) {
            return Err(StoreError::Invalid { what: what(), reason: "a number is not finite".to_owned() });
        }
        let of_trace = reward.turn_idx.is_none();
        Ok(Self { id: reward.id.bytes(), trace: trace.bytes(), of_trace, json: Json::of(reward, what)? })
    }
}

impl DocumentRow {
    fn of(document: &Document) -> Result<Self, StoreError> {
        let what = || format!("{} {}", document.kind.as_str(), document.id);
        printable(&document.id, what)?;
        Ok(Self {
            kind: document.kind,
            id: document.id.clone(),
            revision: i64::from(document.revision),
            tenant: document.tenant.as_str().to_owned(),
            at: document.at.unix_nanos(),
            json: Json::of(&Sorted(&document.body), what)?,
        })
    }
}

impl EventRow {
    fn of(event: &Event) -> Result<Self, StoreError> {
        let what = || format!("event {}", event.id);
        printable(&event.stream, what)?;
        printable(&event.kind, what)?;
        Ok(Self {
            id: event.id.bytes(),
            at: event.at.unix_nanos(),
            tenant: event.tenant.as_str().to_owned(),
            stream: event.stream.clone(),
            kind: event.kind.clone(),
            json: Json::of(&Sorted(&event.body), what)?,
        })
    }
}

/// The longest key by which something is found.
const KEY_BYTES_MAX: usize = 512;

fn printable(key: &str, what: impl Fn() -> String) -> Result<(), StoreError> {
    let reason = if key.is_empty() {
        "a key is empty"
    } else if key.len() > KEY_BYTES_MAX {
        "a key is longer than 512 bytes"
    } else if key.chars().any(char::is_control) {
        "a key has control characters"
    } else {
        return Ok(());
    };
    Err(StoreError::Invalid { what: what(), reason: reason.to_owned() })
}

/// The values at the declared paths: texts as they are, numbers and booleans in their JSON form.
pub(crate) fn fields(body: &Value, paths: &[String]) -> Vec<(String, String)> {
    let value_at = |path: &String| {
        let value = path.split('.').try_fold(body, |value, key| value.get(key))?;
        match value {
            Value::String(text) => Some((path.clone(), field_key(text))),
            Value::Number(_) | Value::Bool(_) => Some((path.clone(), field_key(&value.to_string()))),
            _ => None,
        }
    };
    paths.iter().filter_map(value_at).collect()
}

/// The form in which a field's value is indexed: long texts by their hash, since an index entry is short.
pub(crate) fn field_key(value: &str) -> String {
    const LONGEST: usize = 256;
    if value.len() > LONGEST {
        format!("blake3:{}", blake3::hash(value.as_bytes()).to_hex())
    } else {
        value.replace('\0', "\u{fffd}")
    }
}

/// Checks a path such as `metadata.customer`.
pub(crate) fn check_path(path: &str) -> Result<(), StoreError> {
    let good = !path.is_empty()
        && path.len() <= KEY_BYTES_MAX
        && path.split('.').all(|key| !key.is_empty() && !key.contains(['"', '\\']) && !key.chars().any(char::is_control));
    let reason = || "a field is a path of keys joined by dots, such as metadata.customer".to_owned();
    if good { Ok(()) } else { Err(StoreError::Invalid { what: format!("field `{path}`"), reason: reason() }) }
}

/// The JSON forms that stand for a field's value: as a text, and as a number or boolean where it is how one is written.
pub(crate) fn field_literals(value: &str) -> (String, Option<String>) {
    let literal = serde_json::from_str::<Value>(value).ok().filter(|literal| literal.is_number() || literal.is_boolean());
    let literal = literal.map(|literal| literal.to_string()).filter(|literal| literal == value);
    (Value::from(value).to_string(), literal)
}

/// Rewards in bands of 0.05 from −1 to 1, so that an index can answer "newest with a reward from a to b":
/// every band is in order of time, the inner ones fit whole, and only the two at the ends are filtered.
pub(crate) mod band {
    use std::ops::RangeInclusive;

    const NONE: i16 = -1;
    const LAST: i16 = 40;

    /// The band of a reward; traces without one have a band of their own.
    pub(crate) fn of(reward: Option<f64>) -> i16 {
        #[expect(clippy::cast_possible_truncation, reason = "clamped to a small range first")]
        reward.map_or(NONE, |reward| (reward * 20.0).floor().clamp(-20.0, 20.0) as i16 + 20)
    }

    /// The bands that hold rewards from `min` to `max`; all of them when there is no bound.
    pub(crate) fn between(min: Option<f64>, max: Option<f64>) -> RangeInclusive<i16> {
        match (min, max) {
            (None, None) => NONE..=LAST,
            (min, max) => min.map_or(0, |min| of(Some(min)))..=max.map_or(LAST, |max| of(Some(max))),
        }
    }
}

pub(crate) fn outcome_code(outcome: TraceOutcome) -> i16 {
    match outcome {
        TraceOutcome::Unknown => 0,
        TraceOutcome::Success => 1,
        TraceOutcome::Failure => 2,
    }
}

pub(crate) fn outcome_of_code(code: i16) -> TraceOutcome {
    match code {
        1 => TraceOutcome::Success,
        2 => TraceOutcome::Failure,
        _ => TraceOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_lies_in_the_bands_that_a_range_around_it_names() {
        for reward in [-7.0, -1.0, -0.51, 0.0, 0.049, 0.05, 0.5, 0.99, 1.0, 250.0] {
            let band = band::of(Some(reward));
            assert!(band::between(Some(reward), Some(reward)).contains(&band), "{reward}");
            assert!(band::between(Some(reward - 0.3), None).contains(&band), "{reward}");
            assert!(band::between(None, Some(reward + 0.3)).contains(&band), "{reward}");
        }
        assert!(!band::between(None, Some(1.0)).contains(&band::of(None)));
        assert!(band::between(None, None).contains(&band::of(None)));
    }

    #[test]
    fn only_numbers_and_booleans_as_they_are_written_are_literals() {
        for literal in ["true", "7", "-0.0", "1e-7", "1e+21"] {
            assert_eq!(field_literals(literal).1.as_deref(), Some(literal));
        }
        for text in ["null", "[1]", "{}", "\"acme\"", "acme", "1E-7", "1e21", "0.0000001", " 7", "1e400"] {
            assert_eq!(field_literals(text).1, None, "{text}");
        }
    }

    #[test]
    fn paths_are_keys_joined_by_dots() {
        for good in ["metadata.customer", "outcome", "metrics.a-b"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "a..b", "a.\"b", "a\n"] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
    }
}
