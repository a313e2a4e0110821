//! What has been gathered as a trace, or as what a trace goes on with.

use super::super::places::Places;
use super::super::span::{Kind, Span, time};
use super::super::{PLACES, SPAN, SPANS, assemble, write};
use super::{Gathering, SpanId, id};
use crate::format::FormatError;
use crate::format::origin::{Origin, Registrar};
use crate::{Config, NextTurn, Reward, Time, ToolCall, ToolSpec, Trace, TraceId, Turn, V1};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// What has become of spans.
#[derive(Debug)]
pub enum Woven {
    /// Nothing: no model and no tool took part, or all of it is known.
    Nothing,
    /// A trace, and the config of its agent.
    New(Box<Trace>, Box<Config>),
    /// What a trace goes on with: turns, and judgements of any of its turns.
    Next(Vec<NextTurn>, Vec<Reward>),
}

impl Gathering {
    /// Makes a trace of this id, or goes on with the one that is there.
    pub fn weave(&self, id: TraceId, known: Option<&Trace>, origin: &Origin) -> Result<Woven, FormatError> {
        match known {
            None => Ok(match assembled(self.spans().collect(), &self.places, origin)? {
                Some((trace, config)) => Woven::New(Box::new(Trace { id, ..trace }), Box::new(config)),
                None => Woven::Nothing,
            }),
            Some(known) => self.go_on(known, origin),
        }
    }

    /// Forgets the spans that a trace has.
    pub fn forget(&mut self, trace: &Trace) {
        let seen = span_ids(trace);
        let is_new = |text: &str| serde_json::from_str(text).is_ok_and(|span: Map<String, Value>| !seen.contains(&id(&span)));
        self.spans.retain(|(_, text)| is_new(text));
    }

    fn go_on(&self, known: &Trace, origin: &Origin) -> Result<Woven, FormatError> {
        let seen = span_ids(known);
        let mut fresh: Vec<Span> = self.spans().filter(|span| !seen.contains(&id(&span.fields))).collect();
        if fresh.is_empty() {
            return Ok(Woven::Nothing);
        }
        let mut places = known.metadata.get(PLACES).map(Places::of).unwrap_or_default();
        let numbers: Vec<usize> = self.places.iter().map(|place| places.number(&place)).collect();
        fresh.iter_mut().for_each(|span| span.place = numbers[span.place]);
        let all = write::spans(known).map(|(place, fields)| Span { place, fields }).chain(fresh.iter().cloned()).collect();
        let whole = assembled(all, &places, origin)?.map(|(trace, _)| trace).filter(|whole| goes_on(known, whole));
        // Where something came too late for its place, what is new begins by itself. Who called a model that is known is no turn.
        let has_calls = known.turns().any(|turn| !turn.llm_calls.is_empty());
        let made = match whole {
            Some(whole) => Some(whole),
            None => {
                let fresh = fresh.into_iter().filter(|span| !has_calls || span.kind() != Kind::Agent).collect();
                assembled(fresh, &places, origin)?.map(|(trace, _)| trace)
            }
        };
        Ok(made.map_or(Woven::Nothing, |made| next(known, &made, &seen)))
    }
}

fn assembled(spans: Vec<Span>, places: &Places, origin: &Origin) -> Result<Option<(Trace, Config)>, FormatError> {
    let mut registrar = Registrar::new(origin.clone());
    let made = assemble::trace(spans, places, &mut registrar)?;
    // A registrar that is new has met no config before.
    Ok(made.and_then(|(trace, config)| Some((trace, config?))))
}

/// Whether a trace begins with the model calls of the one that is known.
fn goes_on(known: &Trace, whole: &Trace) -> bool {
    let n_known = calls(known).count();
    calls(known).eq(calls(whole).take(n_known))
}

/// The model calls of a trace, by their spans.
fn calls(trace: &Trace) -> impl Iterator<Item = SpanId> {
    trace.turns().filter_map(called)
}

/// The model call of a turn, by its span.
fn called(turn: &Turn) -> Option<SpanId> {
    turn.llm_calls.first().and_then(|call| span_id(&call.extra))
}

/// What the known trace goes on with, of one that was made of more spans, or of the new ones alone.
fn next(known: &Trace, made: &Trace, seen: &HashSet<SpanId>) -> Woven {
    let n_known = known.turns().count();
    let is_new = |call: &ToolCall| span_id(&call.extra).is_some_and(|id| !seen.contains(&id));
    let mut turns: Vec<(Option<Vec<ToolSpec>>, Turn)> = Vec::new();
    let mut late = Vec::new();
    for segment in &made.segments {
        for (n, turn) in segment.turns.iter().enumerate() {
            let tool_calls = turn.tool_calls.iter().filter(|call| is_new(call)).cloned();
            match called(turn) {
                Some(id) if !seen.contains(&id) => {
                    let tools = (n == 0).then(|| segment.tools.clone());
                    turns.push((tools, Turn { tool_calls: tool_calls.collect(), ..turn.clone() }));
                }
                _ => late.extend(tool_calls),
            }
        }
    }
    match turns.first_mut() {
        Some((_, first)) => drop(first.tool_calls.splice(0..0, late)),
        None if late.is_empty() => {}
        None => turns.push((None, assemble::without_call(late))),
    }
    if let Some((_, last)) = turns.last_mut() {
        let others = write::others(made).filter(|other| other["span"].as_object().is_some_and(|span| !seen.contains(&id(span))));
        let others: Vec<Value> = others.cloned().collect();
        if !others.is_empty() {
            last.extra.insert(SPANS.to_owned(), Value::Array(others));
        }
    }
    let rewards = rewards(known, made, &turns);
    let number = |n: usize| u32::try_from(n_known + n).unwrap_or(u32::MAX);
    let nexts = turns.into_iter().enumerate().map(|(n, (segment, turn))| NextTurn {
        v: V1,
        turn_idx: number(n),
        segment,
        ended: ended(&turn).or(known.ended).unwrap_or(known.started),
        turn,
    });
    Woven::Next(nexts.collect(), rewards)
}

/// The judgements that are new, by the turns as they stand on the trace.
fn rewards(known: &Trace, made: &Trace, turns: &[(Option<Vec<ToolSpec>>, Turn)]) -> Vec<Reward> {
    let given: HashSet<_> = known.rewards.iter().map(|reward| reward.id).collect();
    let stands = known.turns().chain(turns.iter().map(|(_, turn)| turn)).enumerate();
    let stands: HashMap<SpanId, usize> = stands.filter_map(|(n, turn)| Some((called(turn)?, n))).collect();
    let of_made: Vec<Option<SpanId>> = made.turns().map(called).collect();
    let moved = |turn_idx: u32| u32::try_from(*stands.get(of_made.get(turn_idx as usize)?.as_ref()?)?).ok();
    let new = made.rewards.iter().filter(|reward| !given.contains(&reward.id));
    new.map(|reward| Reward { turn_idx: reward.turn_idx.and_then(moved), ..reward.clone() }).collect()
}

/// When the last span of a turn ended.
fn ended(turn: &Turn) -> Option<Time> {
    let notes = turn.llm_calls.iter().map(|call| &call.extra).chain(turn.tool_calls.iter().map(|call| &call.extra));
    notes.filter_map(|extra| time(extra.get(SPAN)?.get("span")?.get("endTimeUnixNano")?)).max()
}

/// The ids of all spans that a trace holds.
fn span_ids(trace: &Trace) -> HashSet<SpanId> {
    let calls = trace.turns().flat_map(|turn| turn.llm_calls.iter().map(|call| &call.extra));
    let tools = trace.turns().flat_map(|turn| turn.tool_calls.iter().map(|call| &call.extra));
    let others = write::others(trace).filter_map(|other| other.get("span")?.as_object()).map(id);
    calls.chain(tools).filter_map(span_id).chain(others).collect()
}

fn span_id(extra: &Map<String, Value>) -> Option<SpanId> {
    extra.get(SPAN)?.get("span")?.as_object().map(id)
}
