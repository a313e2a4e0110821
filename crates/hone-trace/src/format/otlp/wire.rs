//! The wire form of spans: an export request is taken apart into spans, and values are read by the OTLP/JSON rules.
//!
//! Attributes stay the opaque list of pairs that they are: a key is never used as a path or a field name.

use crate::format::{DEPTH_MAX, Format, FormatError, LIST_LEN_MAX, analysis, check_len, check_line, origin, too_deep};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The longest key of an attribute, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 1024;

/// The name of the event that holds a judgement, and the attribute that says how much it gives.
pub(super) const EVALUATION: &str = "gen_ai.evaluation.result";
pub(super) const SCORE: &str = "gen_ai.evaluation.score.value";

/// How deep resources, scopes and spans stand in a request.
pub(super) const RESOURCE_DEPTH: usize = 3;
pub(super) const SCOPE_DEPTH: usize = 5;
const SPAN_DEPTH: usize = 7;

/// Where a span was made: its resource and scope, with everything that the request says of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    /// Shared by all scopes of the resource, however many there are.
    pub(super) resource: Arc<Map<String, Value>>,
    pub(super) scope: Arc<Map<String, Value>>,
}

/// Reads a request.
pub(super) fn request(text: &str) -> Result<Map<String, Value>, FormatError> {
    check_line(Format::Otlp, text)?;
    parsed(text)
}

/// Reads a request. What nests too deep in it is left empty: who takes the request apart refuses what holds it.
pub(super) fn request_in_parts(text: &str) -> Result<Map<String, Value>, FormatError> {
    check_len(text)?;
    match analysis::cut(text, DEPTH_MAX) {
        Cow::Borrowed(whole) => parsed(whole),
        Cow::Owned(cut) => parsed(&cut).map_err(|_| too_deep("")),
    }
}

fn parsed(text: &str) -> Result<Map<String, Value>, FormatError> {
    match serde_json::from_str(text).map_err(|error| FormatError::from_json(&error))? {
        Value::Object(request) => Ok(request),
        _ => Err(FormatError::new("", "an export request must be an object")),
    }
}

/// Takes a request apart and hands over each span with its place.
pub(super) fn apart(
    mut request: Map<String, Value>,
    mut each: impl FnMut(&Place, Map<String, Value>),
) -> Result<(), FormatError> {
    let Some(resources) = request.remove("resourceSpans") else {
        return Err(FormatError::new("", "`resourceSpans` is missing"));
    };
    let mut found = Vec::new();
    for (r, resource) in list(resources, || "resourceSpans".to_owned())?.into_iter().enumerate() {
        let mut resource = object(resource, || format!("resourceSpans[{r}]"))?;
        let scopes = list(resource.remove("scopeSpans").unwrap_or_default(), || format!("resourceSpans[{r}].scopeSpans"))?;
        let resource = Arc::new(resource);
        for (s, scope) in scopes.into_iter().enumerate() {
            let path = || format!("resourceSpans[{r}].scopeSpans[{s}]");
            let mut scope = object(scope, path)?;
            let spans = list(scope.remove("spans").unwrap_or_default(), || format!("{}.spans", path()))?;
            let mut checked = Vec::with_capacity(spans.len());
            for (n, span) in spans.into_iter().enumerate() {
                let path = || format!("{}.spans[{n}]", path());
                let span = object(span, path)?;
                check(&span, path)?;
                checked.push(span);
            }
            found.push((Place { resource: Arc::clone(&resource), scope: Arc::new(scope) }, checked));
        }
    }
    // Nothing is handed over before the whole line is known to be good.
    for (place, spans) in found {
        for span in spans {
            each(&place, span);
        }
    }
    Ok(())
}

/// Checks that what stands so deep in a request does not nest deeper than all of it may.
pub(super) fn check_depth(fields: &Map<String, Value>, depth: usize, path: impl Fn() -> String) -> Result<(), FormatError> {
    let is_too_deep = |value: &Value| analysis::is_deeper(value, DEPTH_MAX - depth);
    if fields.values().any(is_too_deep) { Err(too_deep(path())) } else { Ok(()) }
}

/// Checks that a span, or what is said of one, can be read and kept.
pub(super) fn check(span: &Map<String, Value>, path: impl Fn() -> String) -> Result<(), FormatError> {
    check_depth(span, SPAN_DEPTH, &path)?;
    if span.get("traceId").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(FormatError::new(format!("{}.traceId", path()), "must be a text that is not empty"));
    }
    for key in ["attributes", "events", "links"] {
        let Some(value) = span.get(key).filter(|value| !value.is_null()) else { continue };
        let wrong = |reason: &str| FormatError::new(format!("{}.{key}", path()), reason);
        let entries = value.as_array().ok_or_else(|| wrong("must be a list"))?;
        if entries.len() > LIST_LEN_MAX {
            return Err(wrong(&format!("has more than {LIST_LEN_MAX} entries")));
        }
        if let Some(idx) = entries.iter().position(|entry| !entry.is_object()) {
            return Err(FormatError::new(format!("{}.{key}[{idx}]", path()), "must be an object"));
        }
        let long = |entry: &Value| key == "attributes" && entry["key"].as_str().is_none_or(|key| key.len() > KEY_BYTES_MAX);
        if let Some(idx) = entries.iter().position(long) {
            let reason = format!("must be a text of at most {KEY_BYTES_MAX} bytes");
            return Err(FormatError::new(format!("{}.attributes[{idx}].key", path()), reason));
        }
    }
    let events = span.get("events").and_then(Value::as_array).into_iter().flatten();
    events.enumerate().try_for_each(|(idx, event)| check_judgement(event, || format!("{}.events[{idx}]", path())))
}

/// Checks that what an event gives is a reward, where it gives one.
pub(super) fn check_judgement(event: &Value, path: impl Fn() -> String) -> Result<(), FormatError> {
    let refused = judged(event).map(origin::check_reward).and_then(Result::err);
    refused.map_or(Ok(()), |reason| Err(FormatError::new(format!("{}.{SCORE}", path()), reason)))
}

/// What an event gives as a judgement.
pub(super) fn judged(event: &Value) -> Option<f64> {
    let attributes = event.get("attributes").filter(|_| event["name"] == EVALUATION)?.as_array()?;
    find(attributes, SCORE).and_then(number)
}

pub(super) fn list(value: Value, path: impl Fn() -> String) -> Result<Vec<Value>, FormatError> {
    match value {
        Value::Array(list) if list.len() > LIST_LEN_MAX => {
            Err(FormatError::new(path(), format!("has more than {LIST_LEN_MAX} entries")))
        }
        Value::Array(list) => Ok(list),
        Value::Null => Ok(Vec::new()),
        _ => Err(FormatError::new(path(), "must be a list")),
    }
}

pub(super) fn object(value: Value, path: impl Fn() -> String) -> Result<Map<String, Value>, FormatError> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(FormatError::new(path(), "must be an object")),
    }
}

/// An object of these entries, which are moved, not copied.
pub(super) fn made<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// An attribute as it is written.
pub(super) fn attribute(key: &str, value: Value) -> Value {
    made([("key", key.into()), ("value", value)])
}

pub(super) fn any_text(text: &str) -> Value {
    json!({"stringValue": text})
}

pub(super) fn any_int(n: u64) -> Value {
    json!({"intValue": n.to_string()})
}

/// The first value of this key in a list of attributes.
pub(super) fn find<'a>(attributes: &'a [Value], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute["key"] == key).map(|attribute| &attribute["value"])
}

pub(super) fn text<'a>(attributes: &'a [Value], key: &str) -> Option<&'a str> {
    find(attributes, key)?.get("stringValue")?.as_str()
}

/// A number, whether it came as an integer (a text in JSON, or a number) or as a double.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match (value.get("doubleValue"), value.get("intValue")) {
        (Some(double), _) => double.as_f64(),
        (_, Some(int)) => int.as_f64().or_else(|| int.as_str()?.parse::<i64>().ok().map(|int| int as f64)),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// An unsigned integer, which came as a text or as a number.
pub(super) fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A value as plain JSON, unless it holds bytes or a number that JSON does not know.
pub(super) fn plain(value: &Value) -> Option<Value> {
    let object = value.as_object()?;
    let Some((kind, inner)) = object.iter().next().filter(|_| object.len() == 1) else {
        return object.is_empty().then_some(Value::Null);
    };
    let list = |inner: &Value| inner.get("values").and_then(Value::as_array).cloned().unwrap_or_default();
    match kind.as_str() {
        "stringValue" if inner.is_string() => Some(inner.clone()),
        "boolValue" if inner.is_boolean() => Some(inner.clone()),
        "intValue" if inner.is_i64() || inner.is_u64() => Some(inner.clone()),
        "intValue" => inner.as_str()?.parse::<i64>().ok().map(Value::from),
        "doubleValue" if inner.is_number() => Some(inner.clone()),
        "arrayValue" => list(inner).iter().map(plain).collect(),
        "kvlistValue" => {
            let pair = |pair: &Value| Some((pair["key"].as_str()?.to_owned(), plain(&pair["value"])?));
            list(inner).iter().map(pair).collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        _ => None,
    }
}

/// Whether two values say the same: integers may be texts or numbers.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    a == b
        || match (a.get("intValue"), b.get("intValue")) {
            (Some(a), Some(b)) => integer(a).is_some_and(|n| integer(b) == Some(n)),
            _ => match (a.get("doubleValue"), b.get("doubleValue")) {
                (Some(Value::Number(a)), Some(Value::Number(b))) => a.as_f64() == b.as_f64() && a.is_f64() && b.is_f64(),
                _ => false,
            },
        }
}
