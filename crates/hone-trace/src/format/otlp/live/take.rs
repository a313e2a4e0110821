//! What is kept of a request.

use super::super::span::{Kind, Span};
use super::super::{secrets, wire};
use super::is_root;
use crate::format::otlp::stream::conversation;
use crate::format::{FormatError, LIST_LEN_MAX};
use serde_json::{Map, Value};

/// The most reasons that are told; the others are counted.
const N_REASONS: usize = 4;

/// A request, and what is kept of it.
#[derive(Debug, Default)]
pub struct Taken {
    /// The request with the spans that are kept, if there are any.
    pub kept: Option<Value>,
    /// How many are kept.
    pub n_kept: u64,
    /// How many say nothing of an agent.
    pub n_idle: u64,
    /// How many are no spans as OTLP wants them.
    pub n_refused: u64,
    /// What is wrong with the first of these.
    pub reasons: Vec<FormatError>,
    /// How many are refused for other reasons.
    pub n_untold: u64,
    /// The traces that an idle span ended.
    pub ended: Vec<String>,
}

/// Takes a request in its JSON form. One that is not of that form is refused as a whole; a bad span of a good request by itself, and
/// with a resource or scope that nests too deep the spans that have it.
pub fn take(request: Value) -> Result<Taken, FormatError> {
    let Value::Object(mut request) = request else { return Err(FormatError::new("", "an export request must be an object")) };
    let mut taken = Taken::default();
    let mut resources = Vec::new();
    let all = wire::list(request.remove("resourceSpans").unwrap_or_default(), || "resourceSpans".to_owned())?;
    for (r, resource) in all.into_iter().enumerate() {
        let path = format!("resourceSpans[{r}]");
        let mut resource = wire::object(resource, || path.clone())?;
        let mut scopes = Vec::new();
        let all = wire::list(resource.remove("scopeSpans").unwrap_or_default(), || format!("{path}.scopeSpans"))?;
        let place = wire::check_depth(&resource, wire::RESOURCE_DEPTH, || path.clone());
        for (s, scope) in all.into_iter().enumerate() {
            let path = format!("{path}.scopeSpans[{s}]");
            let mut scope = wire::object(scope, || path.clone())?;
            let spans = wire::list(scope.remove("spans").unwrap_or_default(), || format!("{path}.spans"))?;
            let place = place.clone().and_then(|()| wire::check_depth(&scope, wire::SCOPE_DEPTH, || path.clone()));
            if let Err(reason) = place {
                taken.refuse_all(spans.len(), reason);
                continue;
            }
            let spans = spans.into_iter().enumerate();
            let kept: Vec<Value> = spans.filter_map(|(n, span)| taken.span(span, || format!("{path}.spans[{n}]"))).collect();
            if !kept.is_empty() {
                clean_inner(&mut scope, "scope");
                scope.insert("spans".to_owned(), Value::Array(kept));
                scopes.push(Value::Object(scope));
            }
        }
        if !scopes.is_empty() {
            clean_inner(&mut resource, "resource");
            resource.insert("scopeSpans".to_owned(), Value::Array(scopes));
            resources.push(Value::Object(resource));
        }
    }
    taken.kept = (!resources.is_empty()).then(|| wire::made([("resourceSpans", Value::Array(resources))]));
    Ok(taken)
}

impl Taken {
    /// Counts what is not as OTLP wants it.
    pub(super) fn refuse(&mut self, reason: FormatError) {
        self.refuse_all(1, reason);
    }

    /// Counts so many that are wrong for one reason, which is told once.
    fn refuse_all(&mut self, n: usize, reason: FormatError) {
        self.n_refused += n as u64;
        match self.reasons.contains(&reason) {
            true => {}
            false if self.reasons.len() == N_REASONS => self.n_untold += n as u64,
            false => self.reasons.extend(Some(reason).filter(|_| n > 0)),
        }
    }

    /// The span if it is kept; otherwise it is counted.
    fn span(&mut self, span: Value, path: impl Fn() -> String) -> Option<Value> {
        let fields = match wire::object(span, &path).and_then(|fields| checked(fields, &path)) {
            Ok(fields) => fields,
            Err(reason) => {
                self.refuse(reason);
                return None;
            }
        };
        let mut span = Span { place: 0, fields };
        if !says_something(&span) {
            self.n_idle += 1;
            self.ended.extend(Some(span.field("traceId").to_owned()).filter(|_| is_root(&span.fields)));
            return None;
        }
        self.n_kept += 1;
        secrets::drop_from(&mut span.fields);
        for key in ["events", "links"] {
            for entry in span.fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
                entry.as_object_mut().map(secrets::drop_from);
            }
        }
        Some(Value::Object(span.fields))
    }
}

fn clean_inner(place: &mut Map<String, Value>, key: &str) {
    place.get_mut(key).and_then(Value::as_object_mut).map(secrets::drop_from);
}

/// Whether a span tells of a model, a tool, an agent, an error, a conversation or a judgement.
fn says_something(span: &Span) -> bool {
    let is_judged = || span.list("events").iter().any(|event| event["name"] == wire::EVALUATION);
    span.kind() != Kind::Other || span.error().is_some() || conversation(&span.fields).is_some() || is_judged()
}

/// The span with ids in small letters, if it is one.
fn checked(span: Map<String, Value>, path: &impl Fn() -> String) -> Result<Map<String, Value>, FormatError> {
    let span = with_ids(span, path)?;
    wire::check(&span, path)?;
    for (e, event) in span.get("events").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let attributes = event.get("attributes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if attributes.len() > LIST_LEN_MAX {
            return Err(FormatError::new(format!("{}.events[{e}].attributes", path()), "has too many entries"));
        }
    }
    Ok(span)
}

/// A span or what is said of one, with the ids in small letters, if they are ids.
pub(super) fn with_ids(mut fields: Map<String, Value>, path: &impl Fn() -> String) -> Result<Map<String, Value>, FormatError> {
    for (key, n_digits) in [("traceId", 32), ("spanId", 16)] {
        let id = fields.get(key).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let is_id =
            id.len() == n_digits && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.bytes().any(|byte| byte != b'0');
        if !is_id {
            let reason = format!("must be {n_digits} hexadecimal digits that are not all zero");
            return Err(FormatError::new(format!("{}.{key}", path()), reason));
        }
        fields.insert(key.to_owned(), id.into());
    }
    Ok(fields)
}
