//! Conversations whose spans lie anywhere in a file, with memory only for those that are open.

use super::assemble;
use super::live::{self, AllTold, Told};
use super::places::Places;
use super::span::Span;
use super::wire::{self, Place};
use crate::format::origin::{Origin, Registrar};
use crate::format::{FormatError, Imported, LIST_LEN_MAX};
use crate::store::RECORD_BYTES_MAX;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The most bytes of spans that wait for the rest of their conversations.
const OPEN_BYTES_MAX: usize = 256 << 20;

/// The hash of what names a conversation.
type Key = [u8; 16];

/// Where in a file each conversation ends, as a first pass over it has found.
#[derive(Debug, Default)]
pub struct Plan {
    /// The last line with a span that names its conversation.
    conversations: HashMap<Key, u64>,
    /// The last line with a span that names none, by its trace.
    traces: HashMap<Key, u64>,
    /// The conversation that a trace belongs to, where one of its spans says so: the first one said.
    of_trace: HashMap<Key, Key>,
    /// The others that its spans name.
    also_of_trace: HashMap<Key, Vec<Key>>,
    /// The last line with a record of what was said, by its trace.
    told: HashMap<Key, u64>,
}

impl Plan {
    /// Notes the conversations of this line. A line that is refused here will be refused in the second pass too.
    pub fn note(&mut self, line_no: u64, line: &str) -> Result<(), FormatError> {
        let (told, _) = parts(line, |_, span| {
            let trace = trace_key(&span);
            match conversation(&span) {
                Some(name) => {
                    let key = hash("conversation", name);
                    self.conversations.insert(key, line_no);
                    if *self.of_trace.entry(trace).or_insert(key) != key {
                        let also = self.also_of_trace.entry(trace).or_default();
                        also.extend(Some(key).filter(|key| !also.contains(key)));
                    }
                }
                None => {
                    self.traces.insert(trace, line_no);
                }
            }
        })?;
        self.told.extend(told.iter().map(|told| (trace_hash(&told.span.0), line_no)));
        Ok(())
    }

    /// How many conversations the file holds.
    pub fn n_conversations(&self) -> usize {
        self.conversations.len() + self.traces.keys().filter(|trace| !self.of_trace.contains_key(*trace)).count()
    }

    /// Joins the spans that name no conversation with the one of their trace.
    fn settle(&mut self) {
        for (trace, line_no) in std::mem::take(&mut self.traces) {
            let key = self.of_trace.get(&trace).copied().unwrap_or(trace);
            let last = self.conversations.entry(key).or_insert(line_no);
            *last = line_no.max(*last);
        }
        for (trace, line_no) in std::mem::take(&mut self.told) {
            for key in self.keys(trace) {
                self.conversations.entry(key).and_modify(|last| *last = line_no.max(*last));
            }
        }
    }

    /// All conversations that a trace has spans of.
    fn keys(&self, trace: Key) -> Vec<Key> {
        let first = self.of_trace.get(&trace).copied().unwrap_or(trace);
        let also = self.also_of_trace.get(&trace).into_iter().flatten().copied();
        std::iter::once(first).chain(also).filter(|key| self.conversations.contains_key(key)).collect()
    }

    fn key(&self, span: &Map<String, Value>) -> Key {
        match conversation(span) {
            Some(name) => hash("conversation", name),
            None => {
                let trace = trace_key(span);
                self.of_trace.get(&trace).copied().unwrap_or(trace)
            }
        }
    }
}

/// What a span says of its conversation.
pub(super) fn conversation(span: &Map<String, Value>) -> Option<&str> {
    let attributes = span.get("attributes")?.as_array()?;
    let names = ["gen_ai.conversation.id", "session.id", "langfuse.session.id"];
    names.into_iter().find_map(|key| wire::text(attributes, key).filter(|name| !name.is_empty()))
}

/// Takes a line apart: each span with its place, then what was said apart from spans, and what is wrong with the rest of that.
fn parts(line: &str, each: impl FnMut(&Place, Map<String, Value>)) -> Result<(Vec<Told>, Vec<FormatError>), FormatError> {
    let mut request = wire::request(line)?;
    let has_logs = request.contains_key("resourceLogs");
    let told = live::told_in(&mut request)?;
    if request.contains_key("resourceSpans") || !has_logs {
        wire::apart(request, each)?;
    }
    Ok(told)
}

fn trace_key(span: &Map<String, Value>) -> Key {
    trace_hash(span.get("traceId").and_then(Value::as_str).unwrap_or_default())
}

fn trace_hash(id: &str) -> Key {
    hash("trace", &id.to_ascii_lowercase())
}

fn hash(kind: &str, name: &str) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes()).update(b"\0").update(name.as_bytes());
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

/// The second pass: yields each conversation as soon as its last line has been read.
#[derive(Debug)]
pub struct Assembler {
    stream: Stream,
    registrar: Registrar,
}

impl Assembler {
    /// Starts the second pass over the file of this plan.
    pub fn new(plan: Plan, origin: Origin) -> Self {
        Self { stream: Stream::new(plan), registrar: Registrar::new(origin) }
    }

    /// Reads the next line, and gives the conversations that end on it.
    pub fn line(&mut self, line_no: u64, line: &str) -> Result<Imported, FormatError> {
        self.stream.line(line_no, line, &mut self.registrar)
    }

    /// Gives the conversations that are still open: those whose last line was not read or was refused.
    pub fn finish(&mut self) -> Imported {
        let mut imported = Imported::default();
        let mut rest: Vec<(Key, Open)> = std::mem::take(&mut self.stream.open).into_iter().collect();
        rest.sort_by_key(|(key, _)| *key);
        for (_, open) in rest {
            open.close(&mut imported, &mut self.registrar);
        }
        self.stream.open_bytes = 0;
        imported
    }
}

/// The conversations that are open.
#[derive(Debug)]
pub(super) struct Stream {
    plan: Plan,
    open: HashMap<Key, Open>,
    open_bytes: usize,
    /// Conversations that grew too large: the rest of their spans is passed over.
    dropped: HashSet<Key>,
}

impl Stream {
    pub(super) fn new(mut plan: Plan) -> Self {
        plan.settle();
        Self { plan, open: HashMap::new(), open_bytes: 0, dropped: HashSet::new() }
    }

    pub(super) fn line(&mut self, line_no: u64, line: &str, registrar: &mut Registrar) -> Result<Imported, FormatError> {
        let mut here: Vec<(Key, Open)> = Vec::new();
        let mut position: HashMap<Key, usize> = HashMap::new();
        let mut at = |key: Key, here: &mut Vec<(Key, Open)>| {
            *position.entry(key).or_insert_with(|| {
                here.push((key, Open::default()));
                here.len() - 1
            })
        };
        let (told, refused) = parts(line, |place, span| {
            let at = at(self.plan.key(&span), &mut here);
            here[at].1.add(place, span);
        })?;
        let mut imported = Imported { refused, ..Imported::default() };
        for told in told {
            let keys = self.plan.keys(trace_hash(&told.span.0));
            imported.n_records_skipped += u64::from(keys.is_empty());
            for key in keys {
                let at = at(key, &mut here);
                here[at].1.told.add(told.clone());
            }
        }
        for (key, mut part) in here {
            if self.dropped.contains(&key) {
                continue;
            }
            let ends = self.plan.conversations.get(&key).is_none_or(|&last| last <= line_no);
            if !ends {
                part.fold();
            }
            let open = match self.open.remove(&key) {
                Some(mut open) => {
                    self.open_bytes -= open.weight();
                    open.extend(part);
                    open
                }
                None => part,
            };
            if ends {
                open.close(&mut imported, registrar);
                continue;
            }
            let bytes = open.weight();
            if bytes > RECORD_BYTES_MAX || self.open_bytes + bytes > OPEN_BYTES_MAX {
                self.dropped.insert(key);
                let n = open.spans.len();
                let reason = format!(
                    "a conversation of {n} spans so far is refused: it has more than {RECORD_BYTES_MAX} bytes, or more than \
                     {OPEN_BYTES_MAX} bytes of conversations are unfinished here; sort the file by conversation"
                );
                imported.refused.push(FormatError::new("", reason));
                continue;
            }
            self.open_bytes += bytes;
            self.open.insert(key, open);
        }
        Ok(imported)
    }
}

/// A conversation of which more is to come.
#[derive(Debug, Default)]
struct Open {
    places: Places,
    spans: Vec<(usize, Held)>,
    told: AllTold,
    /// The bytes of the spans that are held as text.
    bytes: usize,
}

/// A span is held as text while it waits: that takes a tenth of the memory.
#[derive(Debug)]
enum Held {
    Parsed(Map<String, Value>),
    Text(String),
}

impl Open {
    fn add(&mut self, place: &Place, span: Map<String, Value>) {
        let at = self.places.number(place);
        self.spans.push((at, Held::Parsed(span)));
    }

    /// The bytes that it holds while it waits.
    fn weight(&self) -> usize {
        self.bytes + self.told.bytes + self.places.bytes
    }

    fn extend(&mut self, part: Self) {
        let numbers: Vec<usize> = part.places.iter().map(|place| self.places.number(&place)).collect();
        self.bytes += part.bytes;
        self.told.extend(part.told);
        self.spans.extend(part.spans.into_iter().map(|(at, held)| (numbers[at], held)));
    }

    fn fold(&mut self) {
        for (_, held) in &mut self.spans {
            if let Held::Parsed(span) = held {
                let text = serde_json::to_string(span).unwrap_or_default();
                self.bytes += text.len() + 64;
                *held = Held::Text(text);
            }
        }
    }

    fn close(self, imported: &mut Imported, registrar: &mut Registrar) {
        let n_spans = self.spans.len();
        if n_spans > LIST_LEN_MAX {
            let reason = format!("a conversation has {n_spans} spans; at most {LIST_LEN_MAX} are taken");
            return imported.refused.push(FormatError::new("", reason));
        }
        let spans = self.spans.into_iter().map(|(place, held)| {
            let mut fields = match held {
                Held::Parsed(fields) => fields,
                Held::Text(text) => serde_json::from_str(&text).unwrap_or_default(),
            };
            self.told.add_to(&mut fields);
            Span { place, fields }
        });
        match assemble::trace(spans.collect(), &self.places, registrar) {
            Ok(Some((trace, config))) => {
                imported.traces.push(trace);
                imported.configs.extend(config);
            }
            Ok(None) => imported.n_spans_skipped += n_spans as u64,
            Err(error) => imported.refused.push(error),
        }
    }
}
