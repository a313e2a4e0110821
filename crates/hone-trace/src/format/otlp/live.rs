//! Spans that come while the agent is still at work: in any order, in any number of requests, and perhaps twice.
//!
//! A request is first [taken](take): bad spans are named and left out, secrets dropped, and what says nothing of an agent is only
//! counted. What is left of it is kept, and later cut into [pieces], which are [gathered](Gathering) by conversation. What has been
//! gathered becomes a new trace, or what a trace that is there [goes on](Woven::Next) with. A span that the trace has is passed
//! over, so that it counts once however often it comes.
//!
//! A trace only grows. A model call that comes after later ones were written is appended as a segment of its own, with its own time;
//! a tool call whose turn was written before it came stands on the next turn.

mod take;
mod weave;

pub use take::{Taken, take};
pub use weave::Woven;

use super::places::Places;
use super::span::Span;
use super::stream::conversation;
use super::wire::{self, Place};
use crate::format::{Format, FormatError, check_line};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Reads an export request in its JSON form.
pub fn read_json(bytes: &[u8]) -> Result<Value, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new("", "the body is not UTF-8"))?;
    check_line(Format::Otlp, text)?;
    serde_json::from_str(text).map_err(|error| FormatError::from_json(&error))
}

/// A span on its way to its conversation.
#[derive(Debug)]
pub struct Piece {
    place: Place,
    span: Map<String, Value>,
}

/// Cuts a request that was taken into its spans.
pub fn pieces(request: Value) -> Result<Vec<Piece>, FormatError> {
    let mut pieces = Vec::new();
    wire::apart(request, |place, span| pieces.push(Piece { place: place.clone(), span }))?;
    Ok(pieces)
}

impl Piece {
    /// What it says of its conversation.
    pub fn conversation(&self) -> Option<&str> {
        conversation(&self.span)
    }

    /// Its OpenTelemetry trace.
    pub fn trace(&self) -> &str {
        self.span.get("traceId").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether nothing is above it, so that its trace has ended.
    pub fn is_root(&self) -> bool {
        is_root(&self.span)
    }
}

fn is_root(span: &Map<String, Value>) -> bool {
    span.get("parentSpanId").and_then(Value::as_str).is_none_or(|parent| parent.bytes().all(|digit| digit == b'0'))
}

/// Trace and span: what makes two spans the same.
type SpanId = (String, String);

fn id(span: &Map<String, Value>) -> SpanId {
    let text = |key| span.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("traceId"), text("spanId"))
}

/// Spans of one conversation, each once.
#[derive(Debug, Default)]
pub struct Gathering {
    places: Places,
    /// The number of the place, and the span as text: that takes a tenth of the memory.
    spans: Vec<(usize, String)>,
    ids: HashSet<SpanId>,
    bytes: usize,
}

impl Gathering {
    /// Takes a span in, unless it is there already.
    pub fn add(&mut self, piece: Piece) {
        let Piece { place, span } = piece;
        if self.ids.insert(id(&span)) {
            let text = Value::Object(span).to_string();
            self.bytes += text.len() + 128;
            self.spans.push((self.places.number(&place), text));
        }
    }

    /// Takes in all spans of another one.
    pub fn extend(&mut self, other: &Self) {
        let places: Vec<Place> = other.places.iter().collect();
        for span in other.spans() {
            self.add(Piece { place: places[span.place].clone(), span: span.fields });
        }
    }

    /// The memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes + self.places.bytes
    }

    fn spans(&self) -> impl Iterator<Item = Span> {
        let fields = |text: &str| serde_json::from_str(text).unwrap_or_default();
        self.spans.iter().map(move |(place, text)| Span { place: *place, fields: fields(text) })
    }
}
