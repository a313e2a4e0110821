//! What pages read from the store: documents of one tenant, and runs as their events tell them.
//!
//! A run is a document, and what it measured is a stream of events. Events are read once and kept for a while, so that a page
//! that asks for itself every second reads what is new, and no more.

use super::html::{Html, html};
use super::query::Query;
use crate::documents::{self, Damaged};
use crate::error::Refused;
use crate::events::{News, Place};
use crate::server::Gateway;
use hone_trace::store::{Cursor, Document, Event, Kind, Store, StoreError};
use hone_trace::{Run, RunId, RunState, Tenant, Time, TraceId};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Documents that are read at once, and how often for one page.
const N_DOCUMENTS: u32 = 200;
const N_READS_MAX: usize = 20;
/// Damaged documents that a list names.
const N_NAMED_MAX: usize = 10;
/// Events that are read at once.
const N_EVENTS: u32 = 1000;
/// Steps of a run that are kept.
const N_STEPS_MAX: usize = 100_000;
/// Alarms of a run that are kept.
const N_ALARMS_MAX: usize = 1000;
/// Runs whose events are kept.
const N_CURVES_MAX: usize = 32;

/// Documents of a tenant, and where to go on.
pub(super) struct Found<W> {
    pub(super) items: Vec<W>,
    /// What is said of those that cannot be read.
    pub(super) damaged: Vec<String>,
    pub(super) next: Option<Cursor>,
}

/// The newest `n` documents of a tenant, as far as they are found among those of others; one that is damaged hides no other.
pub(super) async fn of_tenant<W>(
    store: &dyn Store,
    kind: Kind,
    tenant: &Tenant,
    mut after: Option<Cursor>,
    n: usize,
    word: impl Fn(&Document) -> Result<W, Damaged>,
) -> Result<Found<W>, StoreError> {
    let is_ours = |read: &Result<Document, Damaged>| documents::is_of(read, tenant);
    // Where nobody else has records, the first read has all that is wanted and no more.
    let (mut items, mut limit) = (Vec::new(), u32::try_from(n).unwrap_or(N_DOCUMENTS).clamp(1, N_DOCUMENTS));
    for _ in 0..N_READS_MAX {
        let mut page = documents::page(store, kind, after, limit).await?;
        // A place in the list is known where a read ends: one that goes too far is repeated up to the last that is wanted.
        let mut ours = page.items.iter().zip(1..).filter(|(document, _)| is_ours(document));
        if let Some((_, end)) = ours.nth(n.saturating_sub(items.len() + 1))
            && end < limit
        {
            page = documents::page(store, kind, after, end).await?;
        }
        items.extend(page.items.into_iter().filter(is_ours));
        after = page.next;
        if after.is_none() || items.len() >= n {
            break;
        }
        limit = N_DOCUMENTS;
    }
    let mut found = Found { items: Vec::new(), damaged: Vec::new(), next: after };
    for read in items {
        match read.and_then(|document| word(&document)) {
            Ok(word) => found.items.push(word),
            // What is wrong inside is not for the page.
            Err(damaged) => found.damaged.push(format!("{} {}", kind.as_str(), damaged.id)),
        }
    }
    Ok(found)
}

/// The newest document of a tenant that can be read, among the first few.
pub(super) async fn newest<W>(
    store: &dyn Store,
    kind: Kind,
    tenant: &Tenant,
    word: impl Fn(&Document) -> Result<W, Damaged>,
) -> Result<Option<W>, StoreError> {
    let mut after = None;
    for _ in 0..N_READS_MAX {
        let found = of_tenant(store, kind, tenant, after, 1, &word).await?;
        after = found.next;
        if after.is_none() || !found.items.is_empty() {
            return Ok(found.items.into_iter().next());
        }
    }
    Ok(None)
}

/// Which documents a list does not show.
pub(super) fn left_out(damaged: &[String]) -> Html {
    let mut page = Html::default();
    for what in damaged.iter().take(N_NAMED_MAX) {
        html!(page, "<p><span class=\"tag bad\">damaged</span> <code>{}</code> cannot be read and is not shown.</p>", what);
    }
    if damaged.len() > N_NAMED_MAX {
        html!(page, "<p>So are {} more.</p>", damaged.len() - N_NAMED_MAX);
    }
    if !damaged.is_empty() {
        html!(page, "<p class=\"quiet\"><code>hone store verify</code> names all that is damaged.</p>");
    }
    page
}

/// The place in a list from which a query asks to go on.
pub(super) fn asked_after(query: &Query) -> Result<Option<Cursor>, Refused> {
    let wrong = |text: &str| Refused::param("after", format!("`{text}` under after is no place in this list"));
    query.get("after").map(|text| cursor(text).ok_or_else(|| wrong(text))).transpose()
}

/// A place in a list, as an address has it.
fn cursor(text: &str) -> Option<Cursor> {
    let (at, seq) = text.split_once('.')?;
    Some(Cursor { at: Time::from_unix_nanos(at.parse().ok()?), seq: seq.parse().ok()? })
}

/// The text of such a place.
pub(super) fn cursor_text(cursor: Cursor) -> String {
    format!("{}.{}", cursor.at.unix_nanos(), cursor.seq)
}

/// A run by what it is called.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) run: Run,
}

impl Named {
    pub(super) fn of(document: &Document) -> Result<Self, Damaged> {
        let run: Run = documents::word(document)?;
        let name = run.settings.get("name").and_then(Value::as_str).map_or_else(|| run.id.to_string(), str::to_owned);
        Ok(Self { name, run })
    }

    /// A fact that it was started with.
    pub(super) fn fact(&self, name: &str) -> Option<&str> {
        self.run.settings.get(name).and_then(Value::as_str)
    }

    /// All facts that it was started with, as text.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let own =
            self.run.settings.iter().filter(|(key, value)| !matches!(key.as_str(), "name" | "settings") && !value.is_null());
        let given = self.run.settings.get("settings").and_then(Value::as_object).into_iter().flatten();
        let facts = own.chain(given).map(|(key, value)| (key.clone(), text(value)));
        let fixed = [("method".to_owned(), self.run.stage.clone()), ("seed".to_owned(), self.run.seed.to_string())];
        fixed.into_iter().chain(facts).collect()
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.run.state == RunState::Running
    }
}

/// The run of this name.
pub(super) async fn run_named(store: &dyn Store, tenant: &Tenant, name: &str) -> Result<Option<Named>, StoreError> {
    let id = RunId::derived(&["run", tenant.as_str(), name]);
    let document = store.document(Kind::Run, &id.to_string()).await?;
    document.filter(|document| document.tenant == *tenant).map(|document| Named::of(&document)).transpose().map_err(|run| run.why)
}

/// What a run has measured so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curve {
    /// How far its log was read.
    place: Place,
    steps: BTreeMap<u64, Step>,
    alarms: BTreeMap<(u64, String), Alarm>,
}

/// What was measured at a step.
#[derive(Debug, Clone, Deserialize)]
struct Step {
    step: u64,
    /// Seconds since 1970.
    at: f64,
    values: BTreeMap<String, f64>,
}

/// A sign of reward hacking, as the run told it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Alarm {
    pub(super) kind: String,
    pub(super) step: u64,
    pub(super) sentence: String,
    pub(super) action: String,
    pub(super) traces: Vec<TraceId>,
}

impl Curve {
    fn read(&mut self, event: &Event) {
        // What cannot be read is of another version, and changes nothing.
        match event.kind.as_str() {
            // What was measured before is of another run that had the name.
            "begin" => {
                self.steps.clear();
                self.alarms.clear();
            }
            "step" if self.steps.len() < N_STEPS_MAX => {
                let Ok(read) = Step::deserialize(&event.body) else { return };
                let step = self.steps.entry(read.step).or_insert_with(|| Step { values: BTreeMap::new(), ..read.clone() });
                step.at = read.at;
                step.values.extend(read.values);
            }
            "alarm" if self.alarms.len() < N_ALARMS_MAX => {
                let Ok(alarm) = Alarm::deserialize(&event.body) else { return };
                self.alarms.insert((alarm.step, alarm.kind.clone()), alarm);
            }
            _ => {}
        }
    }

    /// A value at the steps at which it was measured.
    pub(super) fn series(&self, name: &str) -> Vec<(f64, f64)> {
        self.steps.values().filter_map(|step| Some((step.step as f64, *step.values.get(name)?))).collect()
    }

    /// The last of a value.
    pub(super) fn last(&self, name: &str) -> Option<f64> {
        self.steps.values().rev().find_map(|step| step.values.get(name).copied())
    }

    /// The step of the highest value and the value, of several the first.
    pub(super) fn highest(&self, name: &str) -> Option<(f64, f64)> {
        self.series(name).into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.steps.values().flat_map(|step| step.values.keys().map(String::as_str)).collect()
    }

    pub(super) fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.values()
    }

    pub(super) fn last_step(&self) -> Option<u64> {
        self.steps.keys().next_back().copied()
    }

    /// When something was measured last.
    #[expect(clippy::cast_possible_truncation, reason = "what is beyond the range of times stops at its end")]
    pub(super) fn at(&self) -> Option<Time> {
        self.steps.values().next_back().map(|step| Time::from_unix_nanos((step.at * 1e9) as i64))
    }
}

/// What runs have measured, kept for a while.
#[derive(Default)]
pub(crate) struct Curves(Mutex<HashMap<(Tenant, String), Arc<Curve>>>);

/// What this run has measured so far.
pub(super) async fn curve(gateway: &Gateway, tenant: &Tenant, name: &str) -> Result<Arc<Curve>, StoreError> {
    let (kept, key) = (&gateway.curves().0, (tenant.clone(), name.to_owned()));
    let mut curve = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned().unwrap_or_default();
    let stream = format!("run:{name}");
    loop {
        let grown = Arc::make_mut(&mut curve);
        let events = match grown.place.news(gateway.record().store(), &stream, N_EVENTS, |text| gateway.log(text)).await? {
            News::Events(events) => events,
            News::Replaced => {
                *grown = Curve::default();
                continue;
            }
        };
        events.iter().filter(|(_, event)| event.tenant == *tenant).for_each(|(_, event)| grown.read(event));
        if events.is_empty() {
            break;
        }
    }
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= N_CURVES_MAX && !kept.contains_key(&key) {
        kept.clear();
    }
    kept.insert(key, Arc::clone(&curve));
    Ok(curve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::EventId;
    use serde_json::json;

    #[test]
    fn a_run_that_begins_again_has_nothing_of_the_one_before_it() {
        let mut curve = Curve::default();
        let event = |kind: &str, body: Value| Event {
            id: EventId::derived(&[kind, &body.to_string()]),
            at: Time::from_unix_nanos(0),
            tenant: Tenant::default(),
            stream: "run:r".to_owned(),
            kind: kind.to_owned(),
            body,
        };
        let step = |step: u64, reward: f64| event("step", json!({"step": step, "at": 1.0, "values": {"reward": reward}}));
        let alarm = json!({"kind": "length", "step": 1, "sentence": "longer", "action": "look", "traces": []});
        [step(1, 0.5), step(2, 0.75), event("alarm", alarm)].iter().for_each(|event| curve.read(event));
        assert_eq!((curve.series("reward").len(), curve.alarms().count()), (2, 1));
        [event("begin", Value::Null), step(1, 0.25)].iter().for_each(|event| curve.read(event));
        assert_eq!((curve.series("reward"), curve.alarms().count()), (vec![(1.0, 0.25)], 0));
    }
}
