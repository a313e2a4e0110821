//! A recorded episode, taken apart into what was done and what was told.

use super::canonical::{Act, arguments, words};
use hone_trace::{BlobHash, ErrorEvent, Message, Role, ToolCall, ToolRequest, ToolSpec, Trace, TraceId, TraceOutcome, Turn};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Turns of a record.
pub(super) const TURNS_MAX: usize = 2000;

/// A recorded episode.
pub(super) struct Record {
    pub(super) trace: TraceId,
    /// The type of task, where the trace says it.
    pub(super) category: Option<hone_trace::Category>,
    /// The same for records of the same first question.
    pub(super) family: String,
    pub(super) tools: Arc<[ToolSpec]>,
    /// What was said first.
    pub(super) opening: Vec<Message>,
    /// The answers of whoever played, one for each turn.
    pub(super) answers: Vec<Message>,
    pub(super) acts: Vec<Act>,
    /// What each call gave, by tool and arguments, in recorded order.
    pub(super) results: BTreeMap<(String, String), Vec<Told>>,
    /// What was said after answers in words.
    pub(super) replies: Vec<Reply>,
    /// What the last words met, where the record ends with words.
    pub(super) ending: Told,
    /// The first words of answers in words that ran tools: what begins so is a call.
    pub(super) verbs: BTreeSet<String>,
    /// The tools whose call is the final answer.
    pub(super) closing: BTreeSet<String>,
    pub(super) outcome: TraceOutcome,
}

/// What an action met.
#[derive(Clone, Default)]
pub(super) struct Told {
    /// The result of a call, where it gave one.
    pub(super) result: Option<Message>,
    /// What was said besides.
    pub(super) besides: Vec<Message>,
    /// The tools as they ran: one for a call, any number for words that a world reads as calls.
    pub(super) ran: Vec<ToolCall>,
    pub(super) errors: Vec<ErrorEvent>,
}

/// What was said after words.
pub(super) struct Reply {
    /// The words, canonically.
    pub(super) to: String,
    pub(super) told: Told,
    /// Whether a person said it: then it also fits other words.
    pub(super) is_by_user: bool,
}

/// The reward from which a record is a success where nobody said how it ended.
const REWARD_OF_SUCCESS: f64 = 0.5;

/// How a record ended, by what it earned where nobody said.
fn outcome(trace: &Trace) -> TraceOutcome {
    match (trace.outcome, trace.reward()) {
        (TraceOutcome::Unknown, Some(reward)) if reward.total >= REWARD_OF_SUCCESS => TraceOutcome::Success,
        (TraceOutcome::Unknown, Some(_)) => TraceOutcome::Failure,
        (known, _) => known,
    }
}

impl Record {
    /// Takes a trace apart, or says why it cannot be played again.
    pub(super) fn of(trace: &Trace) -> Result<Self, String> {
        let turns: Vec<&Turn> = trace.turns().collect();
        let Some(first) = turns.first() else { return Err("it has no turn".into()) };
        if turns.len() > TURNS_MAX {
            return Err(format!("it has {} turns, and at most {TURNS_MAX} are played again", turns.len()));
        }
        for (turn, number) in turns.iter().zip(1..) {
            if turn.input.is_empty() {
                return Err(format!("turn {number} answers nothing: no message comes before it"));
            }
            if let Some(request) = turn.answer.tool_calls.iter().find(|request| arguments(&request.arguments).is_none()) {
                return Err(format!("turn {number}: the arguments of {} are not a JSON object", request.name));
            }
        }
        let question = first.input.iter().find(|message| message.role == Role::User).unwrap_or(&first.input[0]);
        let tools = trace.segments.iter().find(|segment| !segment.turns.is_empty());
        let mut record = Self {
            trace: trace.id,
            category: trace.category.clone(),
            family: BlobHash::of(words(&question.content.text()).as_bytes()).to_string()[..16].to_owned(),
            tools: tools.map(|segment| segment.tools.as_slice().into()).unwrap_or_default(),
            opening: first.input.clone(),
            answers: turns.iter().map(|turn| turn.answer.clone()).collect(),
            acts: turns.iter().map(|turn| Act::of(&turn.answer)).collect(),
            results: BTreeMap::new(),
            replies: Vec::new(),
            ending: Told::default(),
            verbs: BTreeSet::new(),
            closing: BTreeSet::new(),
            outcome: outcome(trace),
        };
        for (turn_idx, turn) in turns.iter().enumerate() {
            match turns.get(turn_idx + 1) {
                Some(next) => record.tell(turn, &fresh(&next.input, &first.input), false),
                None => {
                    let tail = trace.segments.iter().rev().find(|segment| !segment.turns.is_empty());
                    record.tell(turn, tail.map_or(&[], |segment| &segment.tail), true);
                }
            }
        }
        Ok(record)
    }

    /// Notes what a turn met.
    fn tell(&mut self, turn: &Turn, said: &[Message], is_last: bool) {
        let errors: Vec<ErrorEvent> = turn.errors.iter().filter(|error| is_of_world(error)).cloned().collect();
        let Some(last_idx) = turn.answer.tool_calls.len().checked_sub(1) else {
            let is_by_user =
                turn.tool_calls.is_empty() && errors.is_empty() && said.iter().any(|message| message.role == Role::User);
            let told = Told { result: None, besides: said.to_vec(), ran: turn.tool_calls.clone(), errors };
            // What follows the last words is no reply: they end the episode.
            if is_last {
                self.ending = told;
                return;
            }
            let to = words(&turn.answer.content.text());
            if !turn.tool_calls.is_empty() {
                self.verbs.extend(verb(&to));
            }
            self.replies.push(Reply { to, told, is_by_user });
            return;
        };
        let is_cut = turn.errors.iter().any(|error| !error.recovered);
        let (mut results, mut ran) = (Vec::new(), turn.tool_calls.clone());
        let mut besides = said.to_vec();
        for request in &turn.answer.tool_calls {
            results.push((take_result(&mut besides, request), take_ran(&mut ran, request)));
        }
        let mut errors = errors.into_iter();
        for (idx, (request, (result, ran))) in turn.answer.tool_calls.iter().zip(results).enumerate() {
            let key = (request.name.clone(), arguments(&request.arguments).unwrap_or_default());
            if is_last && !is_cut && result.is_none() && !self.has_worked(&request.name) {
                self.closing.insert(request.name.clone());
            }
            let mut told = Told { result, ran: ran.into_iter().collect(), ..Told::default() };
            if idx == last_idx {
                (told.besides, told.errors) = (std::mem::take(&mut besides), errors.by_ref().collect());
            } else if has_failed(&told) {
                told.errors.extend(errors.next());
            }
            self.results.entry(key).or_default().push(told);
        }
    }

    /// Whether an earlier call of this tool did something else than fail.
    fn has_worked(&self, tool: &str) -> bool {
        self.results.iter().filter(|((name, _), _)| name == tool).any(|(_, told)| !told.iter().all(has_failed))
    }
}

/// The first word of canonical words.
pub(super) fn verb(words: &str) -> Option<String> {
    words.split(' ').next().filter(|word| !word.is_empty()).map(str::to_owned)
}

fn has_failed(told: &Told) -> bool {
    told.ran.iter().any(|ran| ran.success == Some(false))
}

/// What is new in the input of a turn. A rewritten history begins with what was said before, which is not told again.
fn fresh(input: &[Message], opening: &[Message]) -> Vec<Message> {
    let from = input.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |idx| idx + 1);
    let rest = &input[from..];
    if rest.starts_with(opening) { rest[opening.len()..].to_vec() } else { rest.to_vec() }
}

/// Errors of the policy and of the driver do not belong to the world that is played again.
fn is_of_world(error: &ErrorEvent) -> bool {
    let kind = error.kind.as_str();
    !kind.starts_with("policy_") && !["turn_limit", "token_limit", "time_limit", "loop", "env_error"].contains(&kind)
}

/// The message that answers this request: by its id, or else the first that names no other.
fn take_result(messages: &mut Vec<Message>, request: &ToolRequest) -> Option<Message> {
    let is_result = |message: &Message| message.role == Role::Tool;
    let by_id = |message: &Message| is_result(message) && message.tool_call_id.as_deref() == Some(request.id.as_str());
    let unnamed = |message: &Message| is_result(message) && (message.tool_call_id.is_none() || request.id.is_empty());
    let idx = messages.iter().position(by_id).or_else(|| messages.iter().position(unnamed))?;
    Some(messages.remove(idx))
}

fn take_ran(ran: &mut Vec<ToolCall>, request: &ToolRequest) -> Option<ToolCall> {
    let by_id = |call: &ToolCall| call.name == request.name && call.id == request.id;
    let by_name = |call: &ToolCall| call.name == request.name;
    let idx = ran.iter().position(by_id).or_else(|| ran.iter().position(by_name))?;
    Some(ran.remove(idx))
}
