//! Writing a trace as spans: those it was read from, and fresh ones for what was not.
//!
//! A fresh span follows the GenAI conventions. They want the whole conversation on every model call, so a trace of our
//! own grows with the square of its turns: past [`FRESH_HISTORY_BYTES_MAX`] a span tells only what is new.

use super::assemble::reward_id;
use super::{NO_CALL, PLACES, SPAN, SPANS, call, wire};
use crate::store::RECORD_BYTES_MAX;
use crate::{EPISODE_NAME, GiverKind, LlmCall, Message, Reward, RewardId, Time, ToolCall, ToolSpec, Trace, Turn};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

/// How much repeated conversation the fresh spans of a trace may hold.
const FRESH_HISTORY_BYTES_MAX: usize = 8 << 20;

/// Writes one line: an export request with all spans of the trace.
pub(in crate::format) fn write(trace: &Trace) -> String {
    request(trace).to_string()
}

/// An export request with all spans of the trace, in its JSON form.
pub fn request(trace: &Trace) -> Value {
    let mut writer = Writer::new(trace);
    writer.all();
    writer.rewards();
    writer.request()
}

/// The spans of a trace, each with the number of its place, and without what hone itself would add to them.
pub(super) fn spans(trace: &Trace) -> impl Iterator<Item = (usize, Map<String, Value>)> {
    let mut writer = Writer::new(trace);
    writer.all();
    writer.spans.into_iter().map(|(place, _, fields)| (place, fields))
}

/// Whether the trace was read from spans.
pub(in crate::format) fn has_spans(trace: &Trace) -> bool {
    trace.metadata.contains_key(PLACES)
}

struct Writer<'a> {
    trace: &'a Trace,
    /// Place, turn if it is a model call, and fields.
    spans: Vec<(usize, Option<u32>, Map<String, Value>)>,
    /// Rewards that the events of the spans tell of.
    told: HashSet<RewardId>,
    fresh_bytes: usize,
    bytes: usize,
    n_fresh: u64,
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self { trace, spans: Vec::new(), told: HashSet::new(), fresh_bytes: 0, bytes: 0, n_fresh: 0 }
    }

    fn all(&mut self) {
        let trace = self.trace;
        let mut turn_idx = 0;
        for segment in &trace.segments {
            let mut history = Vec::new();
            for (n, turn) in segment.turns.iter().enumerate() {
                let n_known = history.len();
                history.extend(&turn.input);
                self.turn(&history, n_known, turn, turn_idx);
                if n == 0 {
                    self.tools(&segment.tools, turn_idx);
                }
                history.extend(Some(&turn.answer).filter(|answer| !call::is_empty(answer)));
                turn_idx = u32::saturating_add(turn_idx, 1);
            }
        }
        for other in others(trace) {
            if let Some(fields) = other["span"].as_object() {
                self.push(number(other), None, fields.clone());
            }
        }
    }

    fn turn(&mut self, history: &[&Message], n_known: usize, turn: &Turn, turn_idx: u32) {
        let own = [LlmCall::default()];
        let (calls, last) = match turn.llm_calls.as_slice() {
            [] if turn.extra.contains_key(NO_CALL) => (&[][..], 0),
            [] => (&own[..], 0),
            calls => (calls, calls.len() - 1),
        };
        for (idx, llm) in calls.iter().enumerate() {
            let (place, mut fields, from) = match note(&llm.extra) {
                Some((place, fields, from)) => {
                    (place, fields.clone(), call::all_keys().filter(|key| from.iter().any(|known| known == key)).collect())
                }
                None => (
                    usize::MAX,
                    self.fresh_llm(turn, llm),
                    call::OWN.into_iter().filter(|key| idx == last || !tells(key)).collect(),
                ),
            };
            let is_fresh = place == usize::MAX;
            let from: Vec<&str> = from;
            for key in from {
                let full = if is_fresh { self.fresh_bytes < FRESH_HISTORY_BYTES_MAX } else { self.bytes < 2 * RECORD_BYTES_MAX };
                let history = if full || !call::is_history(key) { history } else { &history[n_known..] };
                let written = call::written(key, llm, history, &turn.answer);
                if is_fresh && is_nothing(&written) {
                    continue;
                }
                if call::is_history(key) {
                    let n_bytes: usize =
                        written.iter().map(|attribute| attribute["value"]["stringValue"].as_str().map_or(0, str::len)).sum();
                    self.bytes += n_bytes;
                    self.fresh_bytes += if is_fresh { n_bytes } else { 0 };
                }
                append(&mut fields, "attributes", written);
            }
            self.push(place, Some(turn_idx), fields);
        }
        for tool in &turn.tool_calls {
            let (place, mut fields, from) = match note(&tool.extra) {
                Some((place, fields, from)) => {
                    (place, fields.clone(), call::tool_keys().filter(|key| from.iter().any(|known| known == key)).collect())
                }
                None => (usize::MAX, self.fresh_tool(turn, tool), call::OWN_TOOL.to_vec()),
            };
            let from: Vec<&str> = from;
            for key in from {
                append(&mut fields, "attributes", call::written_tool(key, tool));
            }
            self.push(place, None, fields);
        }
    }

    /// Writes the tools on offer on the first model call of a segment, unless its span tells them itself.
    fn tools(&mut self, tools: &[ToolSpec], turn_idx: u32) {
        let of_turn = self.spans.iter_mut().rev().find(|(place, turn, _)| *turn == Some(turn_idx) && *place == usize::MAX);
        if let (Some((.., fields)), false) = (of_turn, tools.is_empty()) {
            let written = wire::any_text(&call::written_tools(tools).to_string());
            append(fields, "attributes", vec![wire::attribute(call::DEFINITIONS, written)]);
        }
    }

    fn push(&mut self, place: usize, turn_idx: Option<u32>, fields: Map<String, Value>) {
        let events = fields.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let judged = events.iter().enumerate().filter(|(_, event)| event["name"] == wire::EVALUATION);
        self.told.extend(judged.map(|(idx, _)| reward_id(&fields, idx)));
        self.spans.push((place, turn_idx, fields));
    }

    fn fresh(
        &mut self,
        name: String,
        operation: &str,
        started: Time,
        duration_ms: Option<f64>,
        status: Value,
    ) -> Map<String, Value> {
        let id = self.trace.id;
        let digest = blake3::hash(format!("{id} {}", self.n_fresh).as_bytes());
        self.n_fresh += 1;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let nanos = started.unix_nanos().max(0);
        let mut fields = Map::from_iter([
            ("traceId".to_owned(), hex(&id.bytes()).into()),
            ("spanId".to_owned(), hex(&digest.as_bytes()[..8]).into()),
            ("name".to_owned(), name.into()),
            ("kind".to_owned(), 3.into()),
            ("startTimeUnixNano".to_owned(), nanos.to_string().into()),
            ("status".to_owned(), status),
        ]);
        if let Some(duration) = duration_ms.filter(|duration| (0.0..1e12).contains(duration)) {
            let ended = nanos.saturating_add((duration * 1e6) as i64);
            fields.insert("endTimeUnixNano".to_owned(), ended.to_string().into());
        }
        let mut attributes = vec![
            wire::attribute("gen_ai.operation.name", wire::any_text(operation)),
            wire::attribute("gen_ai.conversation.id", wire::any_text(&id.to_string())),
        ];
        let category = self.trace.category.as_ref();
        attributes.extend(category.map(|category| wire::attribute("category", wire::any_text(category.as_str()))));
        let name = self.trace.metadata.get(EPISODE_NAME).and_then(Value::as_str);
        attributes.extend(name.map(|name| wire::attribute(EPISODE_NAME, wire::any_text(name))));
        append(&mut fields, "attributes", attributes);
        fields
    }

    fn fresh_llm(&mut self, turn: &Turn, llm: &LlmCall) -> Map<String, Value> {
        let name = format!("chat {}", llm.model).trim_end().to_owned();
        let error = turn.errors.first();
        let status = error.map_or_else(|| json!({}), |error| json!({"code": 2, "message": error.message}));
        let started = turn.started.unwrap_or(self.trace.started);
        let mut fields = self.fresh(name, "chat", started, llm.duration_ms, status);
        let kind = error.map(|error| wire::attribute("error.type", wire::any_text(&error.kind)));
        append(&mut fields, "attributes", Vec::from_iter(kind));
        fields
    }

    fn fresh_tool(&mut self, turn: &Turn, tool: &ToolCall) -> Map<String, Value> {
        let status = match tool.success {
            Some(false) => json!({"code": 2}),
            Some(true) => json!({"code": 1}),
            None => json!({}),
        };
        let started = turn.started.unwrap_or(self.trace.started);
        self.fresh(format!("execute_tool {}", tool.name), "execute_tool", started, tool.duration_ms, status)
    }

    /// Writes the rewards that no span tells of: on the model call of their turn, or on the first for the whole trace.
    fn rewards(&mut self) {
        let trace = self.trace;
        let mut by_turn: BTreeMap<u32, usize> = BTreeMap::new();
        for (idx, (_, turn_idx, _)) in self.spans.iter().enumerate() {
            if let Some(turn_idx) = turn_idx {
                by_turn.entry(*turn_idx).or_insert(idx);
            }
        }
        for reward in trace.rewards.iter().filter(|reward| !self.told.contains(&reward.id)) {
            let at = match reward.turn_idx {
                Some(turn_idx) => by_turn.get(&turn_idx),
                None => by_turn.values().next(),
            };
            let Some((_, _, fields)) = at.and_then(|&at| self.spans.get_mut(at)) else { continue };
            append(fields, "events", vec![event(reward)]);
        }
    }

    /// All spans under their scopes, and these under their resources.
    fn request(self) -> Value {
        let places = self.trace.metadata.get(PLACES);
        let list = |key| places.and_then(|places| places.get(key)?.as_array()).map(Vec::as_slice).unwrap_or_default();
        let (resources, scopes) = (list("resources"), list("scopes"));
        let known = |place: usize| {
            let scope = scopes.get(place).filter(|place| place["scope"].is_object())?;
            let resource = usize::try_from(scope["resource"].as_u64()?).ok()?;
            resources.get(resource).is_some_and(Value::is_object).then_some(resource)
        };
        let mut by_resource: BTreeMap<usize, BTreeMap<usize, Vec<Value>>> = BTreeMap::new();
        for (place, _, fields) in self.spans {
            let (resource, place) = known(place).map_or((usize::MAX, usize::MAX), |resource| (resource, place));
            by_resource.entry(resource).or_default().entry(place).or_default().push(Value::Object(fields));
        }
        let own = || json!({"resource": {"attributes": [wire::attribute("service.name", wire::any_text("hone"))]}});
        let requests = by_resource.into_iter().map(|(resource, by_scope)| {
            let scopes = by_scope.into_iter().map(|(place, spans)| {
                let known = scopes.get(place).map(|place| place["scope"].clone());
                let mut scope = known.unwrap_or_else(|| json!({"scope": {"name": "hone"}}));
                scope["spans"] = Value::Array(spans);
                scope
            });
            let scopes = scopes.collect();
            let mut resource = resources.get(resource).cloned().unwrap_or_else(own);
            resource["scopeSpans"] = scopes;
            resource
        });
        wire::made([("resourceSpans", requests.collect())])
    }
}

/// Our notes on spans that have no word: on the trace, or on the turn that it went on with when they came.
pub(super) fn others(trace: &Trace) -> impl Iterator<Item = &Value> {
    let notes = std::iter::once(&trace.metadata).chain(trace.turns().map(|turn| &turn.extra));
    notes.filter_map(|facts| facts.get(SPANS)?.as_array()).flatten()
}

/// Our note on a call: its place, the rest of its span, and the keys that the words give back.
fn note(extra: &Map<String, Value>) -> Option<(usize, &Map<String, Value>, &[Value])> {
    let note = extra.get(SPAN)?;
    let fields = note.get("span")?.as_object().filter(|fields| fields.get("traceId").is_some_and(Value::is_string))?;
    Some((number(note), fields, note.get("from").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()))
}

fn number(note: &Value) -> usize {
    note["place"].as_u64().and_then(|place| usize::try_from(place).ok()).unwrap_or(usize::MAX - 1)
}

/// Whether only the call that led to the answer writes this key.
fn tells(key: &str) -> bool {
    key.ends_with(".messages")
}

/// Whether a fresh attribute says nothing, such as a count of 0.
fn is_nothing(written: &[Value]) -> bool {
    written.iter().all(|attribute| attribute["value"]["intValue"] == "0")
}

/// Appends to a list of the span, which is made if it is not there.
fn append(fields: &mut Map<String, Value>, key: &str, entries: Vec<Value>) {
    if entries.is_empty() {
        return;
    }
    let list = fields.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(entries);
    }
}

fn event(reward: &Reward) -> Value {
    let giver = match reward.by.kind {
        GiverKind::Check => "check",
        GiverKind::Rubric => "rubric",
        GiverKind::Judge => "judge",
        GiverKind::Human => "human",
        GiverKind::Import => "import",
    };
    let mut attributes = vec![
        wire::attribute("gen_ai.evaluation.name", wire::any_text(&reward.by.name)),
        wire::attribute(wire::SCORE, json!({"doubleValue": reward.total})),
        wire::attribute("hone.giver", wire::any_text(giver)),
    ];
    if reward.turn_idx.is_none() {
        attributes.push(wire::attribute("hone.scope", wire::any_text("trace")));
    }
    attributes
        .extend(reward.explanation.iter().map(|text| wire::attribute("gen_ai.evaluation.explanation", wire::any_text(text))));
    json!({"timeUnixNano": reward.at.unix_nanos().max(0).to_string(), "name": wire::EVALUATION, "attributes": attributes})
}
