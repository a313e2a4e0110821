//! Spans that come while the agent is still at work: in any order, in any number of requests, and perhaps twice.
//!
//! A request is first [taken](take): bad spans are named and left out, secrets dropped, and what says nothing of an agent is only
//! counted. What is left of it is kept, and later cut into [pieces], which are [gathered](Gathering) by conversation. What has been
//! gathered becomes a new trace, or what a trace that is there [goes on](Woven::Next) with. A span that the trace has is passed
//! over, so that it counts once however often it comes.
//!
//! Some agents tell in [log records](take_logs) what was said in a call, apart from its span: they are gathered too, and become events
//! of the span.
//!
//! A trace only grows. A model call that comes after later ones were written is appended as a segment of its own, with its own time;
//! a tool call whose turn was written before it came stands on the next turn.

mod logs;
mod take;
mod weave;

pub use logs::take_logs;
pub use take::{Taken, take};
pub use weave::Woven;

use super::call;
use super::places::Places;
use super::span::{Kind, Span};
use super::stream::conversation;
use super::wire::{self, Place};
use crate::format::FormatError;
pub(super) use logs::{AllTold, Told, told_in};
use logs::{TOLD, told};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Reads an export request in its JSON form. What nests too deep is refused when the request is taken.
pub fn read_json(bytes: &[u8]) -> Result<Value, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new("", "the body is not UTF-8"))?;
    wire::request_in_parts(text).map(Value::Object)
}

/// A span, or what was said in one, on its way to its conversation.
#[derive(Debug)]
pub struct Piece(Part);

#[derive(Debug)]
enum Part {
    Span(Place, Map<String, Value>),
    Told(Told),
}

/// Cuts a request that was taken into its spans, or into what it says of spans.
pub fn pieces(request: Value) -> Result<Vec<Piece>, FormatError> {
    let mut request = wire::object(request, String::new)?;
    if let Some(list) = request.remove(TOLD) {
        return Ok(told(list).map(|told| Piece(Part::Told(told))).collect());
    }
    let mut pieces = Vec::new();
    wire::apart(request, |place, span| pieces.push(Piece(Part::Span(place.clone(), span))))?;
    Ok(pieces)
}

impl Piece {
    /// What it says of its conversation.
    pub fn conversation(&self) -> Option<&str> {
        match &self.0 {
            Part::Span(_, span) => conversation(span),
            Part::Told(_) => None,
        }
    }

    /// Its OpenTelemetry trace.
    pub fn trace(&self) -> &str {
        match &self.0 {
            Part::Span(_, span) => span.get("traceId").and_then(Value::as_str).unwrap_or_default(),
            Part::Told(told) => &told.span.0,
        }
    }

    /// Whether nothing is above it, so that its trace has ended.
    pub fn is_root(&self) -> bool {
        matches!(&self.0, Part::Span(_, span) if is_root(span))
    }
}

fn is_root(span: &Map<String, Value>) -> bool {
    span.get("parentSpanId").and_then(Value::as_str).is_none_or(|parent| parent.bytes().all(|digit| digit == b'0'))
}

/// Trace and span: what makes two spans the same.
pub(super) type SpanId = (String, String);

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
    told: AllTold,
    bytes: usize,
}

impl Gathering {
    /// Takes a piece in, unless it is there already.
    pub fn add(&mut self, piece: Piece) {
        match piece.0 {
            Part::Span(place, span) if self.ids.insert(id(&span)) => {
                let text = Value::Object(span).to_string();
                self.bytes += text.len() + 128;
                self.spans.push((self.places.number(&place), text));
            }
            Part::Span(..) => {}
            Part::Told(told) => self.told.add(told),
        }
    }

    /// Takes in all that another one has.
    pub fn extend(&mut self, other: &Self) {
        let places: Vec<Place> = other.places.iter().collect();
        for (place, text) in &other.spans {
            self.add(Piece(Part::Span(places[*place].clone(), fields(text))));
        }
        self.told.extend(other.told.clone());
    }

    /// Whether there is something to make a trace of. Of what was said alone there is not: its span is still to come.
    pub fn has_spans(&self) -> bool {
        !self.spans.is_empty()
    }

    /// Whether every model call says what went in or came out. Where one does not, that may still come.
    pub fn says_all(&self) -> bool {
        self.spans().filter(|span| span.kind() == Kind::Llm).all(|span| call::says_something(&span))
    }

    /// The memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes + self.told.bytes + self.places.bytes
    }

    /// The spans, each with the events that came apart from it.
    fn spans(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().map(|(place, text)| {
            let mut span = Span { place: *place, fields: fields(text) };
            self.told.add_to(&mut span.fields);
            span
        })
    }
}

fn fields(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}
