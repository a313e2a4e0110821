//! One span: what it is, when it was, what it belongs to.

use super::{sdk, wire};
use crate::Time;
use serde_json::{Map, Value};

/// A span with the number of its place.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) place: usize,
    pub(super) fields: Map<String, Value>,
}

/// What a span tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call of a model.
    Llm,
    /// A call of a tool.
    Tool,
    /// The work of an agent as a whole, with what went in and came out.
    Agent,
    /// Something else.
    Other,
}

impl Span {
    pub(super) fn list(&self, key: &str) -> &[Value] {
        self.fields.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn attributes(&self) -> &[Value] {
        self.list("attributes")
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        wire::text(self.attributes(), key)
    }

    pub(super) fn field(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> Kind {
        let operation = self.text("gen_ai.operation.name");
        let openinference = self.text("openinference.span.kind");
        let traceloop = self.text("traceloop.span.kind");
        let request = self.text("llm.request.type");
        match (operation, openinference, traceloop, request) {
            (Some("execute_tool"), ..) | (_, Some("TOOL"), ..) | (_, _, Some("tool"), _) => Kind::Tool,
            (Some("chat" | "generate_content" | "text_completion"), ..) | (_, Some("LLM"), ..) => Kind::Llm,
            (Some("invoke_agent"), ..) | (_, Some("AGENT"), ..) | (_, _, Some("agent"), _) => Kind::Agent,
            (.., Some("chat" | "completion")) => Kind::Llm,
            (None, None, None, None) => sdk::kind(self).unwrap_or_else(|| if self.has_model() { Kind::Llm } else { Kind::Other }),
            _ => Kind::Other,
        }
    }

    fn has_model(&self) -> bool {
        ["gen_ai.request.model", "gen_ai.response.model", "llm.model_name"].iter().any(|key| self.text(key).is_some())
    }

    pub(super) fn started(&self) -> Option<Time> {
        self.time("startTimeUnixNano")
    }

    pub(super) fn ended(&self) -> Option<Time> {
        self.time("endTimeUnixNano")
    }

    fn time(&self, key: &str) -> Option<Time> {
        time(self.fields.get(key)?)
    }

    pub(super) fn duration_ms(&self) -> Option<f64> {
        let (started, ended) = (self.started()?, self.ended()?);
        (ended >= started).then(|| ended.millis_since(started))
    }

    /// The kind and the words of the error that this span ended with.
    pub(super) fn error(&self) -> Option<(String, String)> {
        let status = self.fields.get("status");
        let code = status.and_then(|status| status.get("code"));
        let failed = code.is_some_and(|code| code.as_u64() == Some(2) || code == "STATUS_CODE_ERROR");
        let kind = self.text("error.type");
        if !failed && kind.is_none() {
            return None;
        }
        let exception = self.list("events").iter().find(|event| event["name"] == "exception");
        let of_exception = |key| wire::text(exception?.get("attributes")?.as_array()?, key);
        let kind = kind.or_else(|| of_exception("exception.type")).unwrap_or("error");
        let said = status.and_then(|status| status.get("message")?.as_str()).filter(|said| !said.is_empty());
        let said = said.or_else(|| of_exception("exception.message")).unwrap_or_default();
        Some((kind.to_owned(), said.to_owned()))
    }
}

/// A time in nanoseconds, which may be a text or a number; 0 means unknown.
pub(super) fn time(value: &Value) -> Option<Time> {
    let nanos = wire::integer(value).and_then(|nanos| i64::try_from(nanos).ok());
    nanos.filter(|&nanos| nanos != 0).map(Time::from_unix_nanos)
}
