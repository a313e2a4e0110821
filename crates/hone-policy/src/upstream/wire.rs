//! The wire formats side by side: where each is asked, in which headers, with which body, and how its answer is read.
//!
//! Everything here is a pure function. A stream is put together into the body that the provider would have sent in one
//! piece, and read by the same function: there is one reader per format.

use super::key::{Key, KeyError};
use super::reply::{Delta, Reply, Usage, WireError};
use super::request::{ChatRequest, RequestError, Transfer};
use super::spec::UpstreamSpec;
use super::sse::Event;
use super::{anthropic, gemini, openai};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Chat completions.
    OpenAi,
    /// Messages.
    Anthropic,
    /// `generateContent`.
    Gemini,
}

/// Puts a stream together.
pub(super) trait Assembler: Send {
    /// Takes an event, and says what is new.
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError>;

    /// What the provider has said so far about the usage.
    fn usage(&self) -> Option<Usage>;

    /// Whether the provider has said that this is all.
    fn is_done(&self) -> bool;

    /// The whole answer. A stream that ended too early is an error.
    fn finish(self: Box<Self>) -> Result<Reply, WireError>;
}

/// The body of a request.
pub fn body(spec: &UpstreamSpec, request: &ChatRequest, transfer: Transfer) -> Result<Value, RequestError> {
    let body = match spec.provider.wire {
        Wire::OpenAi => openai::body(spec, request, transfer)?,
        Wire::Anthropic => anthropic::body(spec, request, transfer)?,
        Wire::Gemini => gemini::body(request)?,
    };
    Ok(Value::Object(body))
}

/// Reads an answer that came in one piece.
pub fn reply(wire: Wire, json: &Value, request: &ChatRequest) -> Result<Reply, WireError> {
    match wire {
        Wire::OpenAi => openai::reply(json),
        Wire::Anthropic => anthropic::reply(json, request.schema.is_some()),
        Wire::Gemini => gemini::reply(json),
    }
}

pub(super) fn assembler(wire: Wire, request: &ChatRequest) -> Box<dyn Assembler> {
    match wire {
        Wire::OpenAi => Box::new(openai::Stream::default()),
        Wire::Anthropic => Box::new(anthropic::Stream::new(request.schema.is_some())),
        Wire::Gemini => Box::new(gemini::Stream::default()),
    }
}

/// Where a request goes.
pub(super) fn url(spec: &UpstreamSpec, transfer: Transfer) -> Result<Url, RequestError> {
    let mut url = spec.base_url.clone();
    let mut path = url.path_segments_mut().map_err(|()| RequestError(format!("{} has no path", spec.base_url)))?;
    path.pop_if_empty();
    match spec.provider.wire {
        Wire::OpenAi => drop(path.extend(["chat", "completions"])),
        Wire::Anthropic => drop(path.push("messages")),
        Wire::Gemini => {
            let verb = if transfer == Transfer::Stream { "streamGenerateContent" } else { "generateContent" };
            path.extend(["models", &format!("{}:{verb}", spec.model)]);
        }
    }
    drop(path);
    if spec.provider.wire == Wire::Gemini && transfer == Transfer::Stream {
        url.set_query(Some("alt=sse"));
    }
    Ok(url)
}

pub(super) fn headers(wire: Wire, key: Option<&Key>) -> Result<HeaderMap, KeyError> {
    let mut headers = HeaderMap::new();
    if wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    if let Some(key) = key {
        let (name, prefix) = match wire {
            Wire::OpenAi => ("authorization", "Bearer "),
            Wire::Anthropic => ("x-api-key", ""),
            Wire::Gemini => ("x-goog-api-key", ""),
        };
        headers.insert(HeaderName::from_static(name), key.header(prefix)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_where_each_provider_expects_them() {
        let check = |spec: &str, transfer, expected: &str| {
            assert_eq!(url(&spec.parse().unwrap(), transfer).unwrap().as_str(), expected);
        };
        check("openai:m", Transfer::Stream, "https://api.openai.com/v1/chat/completions");
        check("http://h:1/v1/#m", Transfer::Plain, "http://h:1/v1/chat/completions");
        check("anthropic:m", Transfer::Stream, "https://api.anthropic.com/v1/messages");
        let gemini = "https://generativelanguage.googleapis.com/v1beta/models/m";
        check("gemini:m", Transfer::Plain, &format!("{gemini}:generateContent"));
        check("gemini:m", Transfer::Stream, &format!("{gemini}:streamGenerateContent?alt=sse"));
        // A model's name cannot lead elsewhere.
        let escaped = "https://generativelanguage.googleapis.com/v1beta/models/..%2Fx%3Fy:generateContent";
        check("gemini:../x?y", Transfer::Plain, escaped);
    }
}
