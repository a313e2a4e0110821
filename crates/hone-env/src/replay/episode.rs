//! A record played again: what was met then is met again, and what is new is answered by the fallback.

use super::Fallback;
use super::canonical::{Act, arguments, distance, likeness};
use super::record::{Record, Told, verb};
use crate::{tool_result, unparsable};
use hone_trace::env::{EnvError, Play, Signals, Step};
use hone_trace::{ErrorEvent, Message, Role, ToolCall, ToolRequest, TraceOutcome};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Calls of one answer that are answered.
const CALLS_MAX: usize = 64;

/// An episode.
pub(super) struct Episode {
    record: Arc<Record>,
    fallback: Arc<Fallback>,
    played: Played,
    /// How often each recorded call was made.
    n_made: BTreeMap<(String, String), usize>,
    /// Which replies were given.
    is_given: Vec<bool>,
}

/// What a step found of its action in the record.
#[derive(Default)]
struct Looked {
    n_asked: usize,
    n_recorded: usize,
    /// Whether the fallback ends the episode.
    is_over: bool,
}

impl Episode {
    pub(super) fn new(record: Arc<Record>, fallback: Arc<Fallback>) -> Self {
        let (played, is_given) = (Played::new(record.acts.len()), vec![false; record.replies.len()]);
        Self { record, fallback, played, n_made: BTreeMap::new(), is_given }
    }

    fn call(&mut self, request: &ToolRequest, step: &mut Step, looked: &mut Looked) {
        looked.n_asked += 1;
        let record = Arc::clone(&self.record);
        let Some(spelt) = arguments(&request.arguments) else {
            step.errors.push(unparsable(format!("the arguments of {} are not a JSON object", request.name)));
            return self.fall_back(request, None, step, looked);
        };
        let key = (request.name.clone(), spelt);
        match record.results.get(&key) {
            Some(told) => {
                let n_made = self.n_made.entry(key).or_default();
                let told = &told[(*n_made).min(told.len() - 1)];
                *n_made += 1;
                looked.n_recorded += 1;
                tell(request, told, step);
            }
            None => self.fall_back(request, self.nearest(&key.0, &key.1), step, looked),
        }
    }

    /// Answers a call that was never recorded; `nearest` is what the nearest recorded one met.
    fn fall_back(&self, request: &ToolRequest, nearest: Option<&Told>, step: &mut Step, looked: &mut Looked) {
        let text = match &*self.fallback {
            Fallback::End => {
                looked.is_over = true;
                step.errors.push(not_recorded(&request.name, "and the replay ends here", false));
                return;
            }
            Fallback::Nearest => {
                if let Some(told) = nearest {
                    step.errors.push(not_recorded(&request.name, "the nearest recorded call answers", true));
                    return tell(request, told, step);
                }
                super::UNAVAILABLE
            }
            Fallback::Say(text) => text,
        };
        step.errors.push(not_recorded(&request.name, "a fixed text answers", true));
        step.messages.push(tool_result(&request.id, &request.name, text));
        step.tool_calls.push(ToolCall { success: Some(false), ..plain(request) });
    }

    fn nearest(&self, name: &str, spelt: &str) -> Option<&Told> {
        let of_tool = self.record.results.iter().filter(|((tool, _), _)| tool == name);
        let with_distance = of_tool.map(|((_, arguments), told)| (distance(spelt, arguments), told));
        with_distance.min_by(|one, other| one.0.total_cmp(&other.0)).and_then(|(_, told)| told.first())
    }

    /// Answers words with what was said to them, or else with what a person said next.
    fn reply(&mut self, words: &str) -> Option<Told> {
        let (record, is_given) = (&self.record, &self.is_given);
        let place = |is_it: &dyn Fn(usize) -> bool| (0..is_given.len()).find(|&idx| is_it(idx));
        let is_exact = |idx: usize| record.replies[idx].to == words;
        let is_final = matches!(record.acts.last(), Some(Act::Words(last)) if last == words);
        let exact = place(&|idx| is_exact(idx) && !is_given[idx]);
        let other = || {
            let again = (0..is_given.len()).rev().find(|&idx| is_exact(idx));
            again.or_else(|| place(&|idx| record.replies[idx].is_by_user && !is_given[idx]))
        };
        let idx = exact.or_else(|| if is_final { None } else { other() })?;
        self.is_given[idx] = true;
        Some(self.record.replies[idx].told.clone())
    }

    /// Words that begin like recorded words which ran a tool, taken as a call.
    fn as_request(&self, words: &str) -> Option<ToolRequest> {
        let is_final = matches!(self.record.acts.last(), Some(Act::Words(last)) if verb(last) == verb(words));
        let name = verb(words).filter(|verb| !is_final && self.record.verbs.contains(verb))?;
        Some(ToolRequest { id: String::new(), name, arguments: String::new(), extra: Map::new() })
    }

    fn nearest_words(&self, words: &str) -> Option<&Told> {
        let of_verb = self.record.replies.iter().filter(|reply| verb(&reply.to) == verb(words));
        let with_likeness = of_verb.map(|reply| (likeness(words, &reply.to), &reply.told));
        with_likeness.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, told)| told)
    }
}

impl Play for Episode {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let act = Act::of(action);
        self.played.push(&act, &self.record.acts);
        let is_at_end = self.played.is_whole();
        let mut step = Step::default();
        let mut looked = Looked::default();
        let mut is_final = false;
        match &act {
            Act::Calls(calls) => {
                for request in action.tool_calls.iter().take(CALLS_MAX) {
                    self.call(request, &mut step, &mut looked);
                }
                for request in action.tool_calls.iter().skip(CALLS_MAX) {
                    looked.n_asked += 1;
                    refuse(request, &mut step);
                }
                is_final = calls.iter().any(|(name, _)| self.record.closing.contains(name));
                if is_final {
                    // The final answer needs no result, so none was missed.
                    (looked.is_over, looked.n_recorded) = (false, looked.n_asked);
                    step.errors.retain(|error| error.kind != "not_recorded");
                }
            }
            Act::Words(words) => match (self.reply(words), self.as_request(words)) {
                (Some(told), _) if !is_at_end => {
                    (looked.n_asked, looked.n_recorded) = (1, 1);
                    (step.messages, step.tool_calls, step.errors) = (told.besides, told.ran, told.errors);
                }
                (None, Some(request)) if !is_at_end => {
                    looked.n_asked = 1;
                    self.fall_back(&request, self.nearest_words(words), &mut step, &mut looked);
                }
                _ => is_final = true,
            },
        }
        let is_same = is_at_end || is_final && self.record.acts.last() == Some(&act);
        if is_same && matches!(act, Act::Words(_)) {
            let Told { besides, ran, errors, .. } = self.record.ending.clone();
            (step.messages, step.tool_calls, step.errors) = (besides, ran, errors);
        }
        step.done = if is_same {
            Some(self.record.outcome)
        } else if is_final {
            // Silence answers nothing, which needs no judge.
            Some(if act == Act::Words(String::new()) { TraceOutcome::Failure } else { TraceOutcome::Unknown })
        } else if looked.is_over {
            Some(TraceOutcome::Unknown)
        } else if self.played.n_acts >= 2 * self.record.acts.len() + 2 {
            let message = format!("no final answer in {} turns", self.played.n_acts);
            step.errors.push(ErrorEvent { kind: "turn_limit".into(), recovered: false, message });
            Some(TraceOutcome::Failure)
        } else {
            None
        };
        let from_record = if looked.n_asked == 0 { 1.0 } else { looked.n_recorded as f64 / looked.n_asked as f64 };
        let drift = self.played.drift(step.done.is_some());
        let flag = |is_so: bool| if is_so { 1.0 } else { 0.0 };
        step.signals = Signals::from([
            ("from_record", from_record),
            ("drift", drift),
            ("same_answer", flag(is_same)),
            ("solved", flag(step.done == Some(TraceOutcome::Success))),
        ]);
        Ok(step)
    }
}

/// Tells what was recorded, under the id of the new request.
fn tell(request: &ToolRequest, told: &Told, step: &mut Step) {
    if let Some(result) = &told.result {
        let tool_call_id = (!request.id.is_empty()).then(|| request.id.clone());
        step.messages.push(Message { tool_call_id, role: Role::Tool, ..result.clone() });
    }
    step.messages.extend_from_slice(&told.besides);
    step.errors.extend_from_slice(&told.errors);
    let (success, duration_ms) = told.ran.first().map_or((None, None), |ran| (ran.success, ran.duration_ms));
    step.tool_calls.push(ToolCall { success, duration_ms, ..plain(request) });
}

/// Answers a call too many.
fn refuse(request: &ToolRequest, step: &mut Step) {
    let refusal = format!("at most {CALLS_MAX} calls at once");
    step.messages.push(tool_result(&request.id, &request.name, format!("error: {refusal}")));
    step.tool_calls.push(ToolCall { success: Some(false), ..plain(request) });
    step.errors.push(unparsable(refusal));
}

fn plain(request: &ToolRequest) -> ToolCall {
    ToolCall {
        id: request.id.clone(),
        name: request.name.clone(),
        arguments: serde_json::from_str(&request.arguments).unwrap_or(Value::Null),
        success: None,
        duration_ms: None,
        extra: Map::new(),
    }
}

fn not_recorded(tool: &str, then: &str, recovered: bool) -> ErrorEvent {
    ErrorEvent { kind: "not_recorded".into(), recovered, message: format!("this call of {tool} is not in the record: {then}") }
}

/// How far what was played is from what was recorded: the edits that make one into the other, act by act.
struct Played {
    n_acts: usize,
    /// The edits from all acts so far to each beginning of the record.
    edits: Vec<usize>,
}

impl Played {
    fn new(n_recorded: usize) -> Self {
        Self { n_acts: 0, edits: (0..=n_recorded).collect() }
    }

    fn push(&mut self, act: &Act, recorded: &[Act]) {
        self.n_acts += 1;
        let mut diagonal = std::mem::replace(&mut self.edits[0], self.n_acts);
        for (idx, other) in recorded.iter().enumerate() {
            let replaced = diagonal + usize::from(act != other);
            diagonal = self.edits[idx + 1];
            self.edits[idx + 1] = replaced.min(diagonal + 1).min(self.edits[idx] + 1);
        }
    }

    /// Whether all of the record was played, act by act.
    fn is_whole(&self) -> bool {
        self.n_acts + 1 == self.edits.len() && self.edits[self.n_acts] == 0
    }

    /// From 0 (the same) to 1 (nothing in common), against as much of the record, or all of it in the end.
    fn drift(&self, is_over: bool) -> f64 {
        let n_recorded = self.edits.len() - 1;
        let n_compared = if is_over { n_recorded } else { n_recorded.min(self.n_acts) };
        self.edits[n_compared] as f64 / self.n_acts.max(n_compared).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_counts_the_edits_between_play_and_record() {
        let acts = |text: &str| -> Vec<Act> { text.chars().map(|c| Act::Words(c.to_string())).collect() };
        let check = |played: &str, recorded: &str, running: f64, in_the_end: f64| {
            let recorded = acts(recorded);
            let mut so_far = Played::new(recorded.len());
            acts(played).iter().for_each(|act| so_far.push(act, &recorded));
            assert_eq!((so_far.drift(false), so_far.drift(true)), (running, in_the_end), "{played}");
            assert_eq!(so_far.is_whole(), acts(played) == recorded);
        };
        check("abc", "abc", 0.0, 0.0);
        check("ab", "abcd", 0.0, 0.5);
        check("xyz", "abc", 1.0, 1.0);
        check("axc", "abc", 1.0 / 3.0, 1.0 / 3.0);
        check("aabc", "abc", 0.25, 0.25);
        check("abcdef", "abc", 0.5, 0.5);
    }
}
