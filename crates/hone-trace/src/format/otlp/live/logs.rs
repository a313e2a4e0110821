//! What was said, where it comes apart from the span of its call: in records of `POST /v1/logs`.
//!
//! A record that names an event of the GenAI conventions becomes that event of its span, as if it had come there: its body is what
//! older conventions put into `gen_ai.event.content`. Every other record is only counted.

use super::super::{secrets, wire};
use super::take::{self, Taken};
use super::{SpanId, id};
use crate::format::FormatError;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Where the body of a record stands among the attributes of its event.
const BODY: &str = "gen_ai.event.content";
/// The key of what is kept of a request.
pub(super) const TOLD: &str = "told";

/// An event on its way to its span.
#[derive(Debug, Clone)]
pub(in crate::format::otlp) struct Told {
    pub(in crate::format::otlp) span: SpanId,
    event: Value,
}

/// Events that came apart from their spans, as text, in the order in which they came, each once.
#[derive(Debug, Clone, Default)]
pub(in crate::format::otlp) struct AllTold {
    events: HashMap<SpanId, Vec<String>>,
    /// The memory that they hold.
    pub(in crate::format::otlp) bytes: usize,
}

impl AllTold {
    pub(in crate::format::otlp) fn add(&mut self, Told { span, event }: Told) {
        self.add_text(span, event.to_string());
    }

    pub(in crate::format::otlp) fn extend(&mut self, other: Self) {
        for (span, events) in other.events {
            events.into_iter().for_each(|event| self.add_text(span.clone(), event));
        }
    }

    /// Puts a span's events behind those that it has.
    pub(in crate::format::otlp) fn add_to(&self, span: &mut Map<String, Value>) {
        let (trace, span_id) = id(span);
        let Some(told) = self.events.get(&(trace.to_ascii_lowercase(), span_id.to_ascii_lowercase())) else { return };
        let events = span.entry("events").or_insert_with(|| Value::Array(Vec::new()));
        let told = told.iter().filter_map(|event| serde_json::from_str(event).ok());
        events.as_array_mut().into_iter().for_each(|events| events.extend(told.clone()));
    }

    fn add_text(&mut self, span: SpanId, event: String) {
        let told = self.events.entry(span).or_default();
        if !told.contains(&event) {
            self.bytes += event.len() + 128;
            told.push(event);
        }
    }
}

/// Takes what was said out of a request, and gives it with what is wrong with the records that are refused.
pub(in crate::format::otlp) fn told_in(request: &mut Map<String, Value>) -> Result<(Vec<Told>, Vec<FormatError>), FormatError> {
    let Some(logs) = request.remove("resourceLogs") else { return Ok((Vec::new(), Vec::new())) };
    let taken = take_logs(wire::made([("resourceLogs", logs)]))?;
    let list = taken.kept.and_then(|mut kept| kept.as_object_mut()?.remove(TOLD)).unwrap_or_default();
    Ok((told(list).collect(), taken.reasons))
}

/// Takes a request in its JSON form. One that is not of that form is refused as a whole; a bad record of a good request by itself.
pub fn take_logs(request: Value) -> Result<Taken, FormatError> {
    let Value::Object(mut request) = request else { return Err(FormatError::new("", "an export request must be an object")) };
    let mut taken = Taken::default();
    let mut told = Vec::new();
    let all = wire::list(request.remove("resourceLogs").unwrap_or_default(), || "resourceLogs".to_owned())?;
    for (r, resource) in all.into_iter().enumerate() {
        let path = format!("resourceLogs[{r}]");
        let mut resource = wire::object(resource, || path.clone())?;
        let all = wire::list(resource.remove("scopeLogs").unwrap_or_default(), || format!("{path}.scopeLogs"))?;
        for (s, scope) in all.into_iter().enumerate() {
            let path = format!("{path}.scopeLogs[{s}]");
            let mut scope = wire::object(scope, || path.clone())?;
            let records = wire::list(scope.remove("logRecords").unwrap_or_default(), || format!("{path}.logRecords"))?;
            for (n, record) in records.into_iter().enumerate() {
                let path = || format!("{path}.logRecords[{n}]");
                match wire::object(record, path).and_then(|record| event(record, path)) {
                    Ok(Some(event)) => {
                        taken.n_kept += 1;
                        told.push(event);
                    }
                    Ok(None) => taken.n_idle += 1,
                    Err(reason) => taken.refuse(reason),
                }
            }
        }
    }
    taken.kept = (!told.is_empty()).then(|| wire::made([(TOLD, Value::Array(told))]));
    Ok(taken)
}

/// The event of a record with the ids of its span; none if it tells of no model.
fn event(record: Map<String, Value>, path: impl Fn() -> String) -> Result<Option<Value>, FormatError> {
    let attributes = record.get("attributes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let named = record.get("eventName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = named.or_else(|| wire::text(attributes, "event.name")).unwrap_or_default().to_owned();
    if !name.starts_with("gen_ai.") {
        return Ok(None);
    }
    let mut record = take::with_ids(record, &path)?;
    wire::check(&record, &path)?;
    secrets::drop_from(&mut record);
    let mut attributes = match record.remove("attributes") {
        Some(Value::Array(attributes)) => attributes,
        _ => Vec::new(),
    };
    if let Some(mut body) = record.remove("body").filter(|body| !body.is_null()) {
        secrets::clean_any(&mut body);
        attributes.push(wire::attribute(BODY, body));
    }
    let is_time = |time: &&Value| wire::integer(time).is_some_and(|nanos| nanos > 0);
    let time = ["timeUnixNano", "observedTimeUnixNano"].iter().find_map(|key| record.get(*key).filter(is_time));
    let time = time.cloned().unwrap_or_else(|| "0".into());
    let event = wire::made([("timeUnixNano", time), ("name", name.into()), ("attributes", Value::Array(attributes))]);
    wire::check_judgement(&event, path)?;
    let [trace, span] = ["traceId", "spanId"].map(|key| (key, record.remove(key).unwrap_or_default()));
    Ok(Some(wire::made([trace, span, ("event", event)])))
}

/// The events of a request that was taken.
pub(super) fn told(list: Value) -> impl Iterator<Item = Told> {
    let list = if let Value::Array(list) = list { list } else { Vec::new() };
    list.into_iter().filter_map(|entry| match entry {
        Value::Object(mut entry) => Some(Told { span: id(&entry), event: entry.remove("event")? }),
        _ => None,
    })
}
