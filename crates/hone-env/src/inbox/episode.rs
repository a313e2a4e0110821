//! One question, from the first search to the answer.

use super::Truth;
use super::answer::{Kind, Verdict};
use super::mailbox::Mailbox;
use super::tools::{ANSWER, Asked, Refusal, TURNS_MAX};
use crate::{Call, calls, tool_result, unparsable};
use hone_trace::env::{EnvError, Play, Signals, Step};
use hone_trace::{ErrorEvent, Message, Role, ToolCall, TraceOutcome};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Calls of one answer that are carried out.
const CALLS_MAX: usize = 8;
/// What tools take by the world's own clock.
const SEARCH_MS: f64 = 20.0;
const READ_MS: f64 = 5.0;

/// An episode.
pub(super) struct Episode {
    mailbox: Arc<Mailbox>,
    truth: Truth,
    n_turns: usize,
    is_found: bool,
    is_well_formed: bool,
}

/// The answer that ended an episode.
struct Given {
    verdict: Verdict,
    are_sources_right: bool,
}

impl Episode {
    pub(super) fn new(mailbox: Arc<Mailbox>, truth: Truth) -> Self {
        Self { mailbox, truth, n_turns: 0, is_found: false, is_well_formed: true }
    }

    /// Carries out one call; the answer ends the episode.
    fn carry_out(&mut self, call: Call, step: &mut Step) -> Result<Option<Given>, EnvError> {
        let broken = |error: rusqlite::Error| EnvError::Broken(format!("the mailbox did not answer: {error}"));
        let mut ran = ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: Value::Object(call.arguments.clone()),
            success: Some(true),
            duration_ms: Some(0.0),
            extra: Map::new(),
        };
        let result = match Asked::read(call) {
            Ok(Asked::Search(search)) => {
                ran.duration_ms = Some(SEARCH_MS);
                Ok(json(&self.mailbox.search(&search).map_err(broken)?)?)
            }
            Ok(Asked::Read { message_id }) => {
                ran.duration_ms = Some(READ_MS);
                self.is_found |= self.truth.sources.contains(&message_id);
                match self.mailbox.read(&message_id).map_err(broken)? {
                    Some(opened) => Ok(json(&opened)?),
                    None => Err(("tool_error", "there is no mail of this id".to_owned())),
                }
            }
            Ok(Asked::Answer { answer, sources }) => {
                let verdict = self.truth.answer.verdict(&answer);
                step.tool_calls.push(ran);
                return Ok(Some(Given { verdict, are_sources_right: self.are_right(&sources, verdict) }));
            }
            Err(refusal) => Err(("bad_arguments", refusal)),
        };
        ran.success = Some(result.is_ok());
        match result {
            Ok(text) => step.messages.push(tool_result(&ran.id, &ran.name, text)),
            Err((kind, refusal)) => self.refuse(kind, refusal, &ran.id, &ran.name, step),
        }
        step.tool_calls.push(ran);
        Ok(None)
    }

    /// Tells the agent why its call was not carried out.
    fn refuse(&mut self, kind: &str, refusal: Refusal, id: &str, name: &str, step: &mut Step) {
        self.is_well_formed &= kind == "tool_error";
        step.messages.push(tool_result(id, name, format!("error: {refusal}")));
        step.errors.push(ErrorEvent { kind: kind.into(), recovered: true, message: refusal });
    }

    /// Whether a source tells the answer and none is about something else; for a rightful "I don't know", that there is none.
    fn are_right(&self, sources: &[String], verdict: Verdict) -> bool {
        if self.truth.answer.kind == Kind::Unknown {
            return verdict == Verdict::Correct && sources.is_empty();
        }
        sources.iter().any(|id| self.truth.sources.contains(id)) && sources.iter().all(|id| self.truth.thread.contains(id))
    }

    fn signals(&self, given: Option<&Given>) -> Signals {
        let flag = |is_so: bool| if is_so { 1.0 } else { 0.0 };
        let is = |verdict| flag(given.is_some_and(|given| given.verdict == verdict));
        Signals::from([
            ("correct", is(Verdict::Correct)),
            ("unknown", is(Verdict::Unknown)),
            ("wrong", is(Verdict::Wrong)),
            ("sources_right", flag(given.is_some_and(|given| given.are_sources_right))),
            ("found", flag(self.is_found)),
            ("format", flag(self.is_well_formed)),
        ])
    }
}

impl Play for Episode {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let mut step = Step::default();
        let mut given = None;
        self.n_turns += 1;
        for (request, call) in action.tool_calls.iter().zip(calls(action)).take(CALLS_MAX) {
            match call {
                Ok(call) => given = self.carry_out(call, &mut step)?,
                Err(error) => self.refuse("unparsable_action", error.message, &request.id, &request.name, &mut step),
            }
            if given.is_some() {
                break;
            }
        }
        for request in action.tool_calls.iter().skip(CALLS_MAX).filter(|_| given.is_none()) {
            let refusal = format!("at most {CALLS_MAX} calls at once");
            self.refuse("unparsable_action", refusal, &request.id, &request.name, &mut step);
        }
        if action.tool_calls.is_empty() {
            self.is_well_formed = false;
            step.errors.push(unparsable("the answer calls no tool"));
            step.messages
                .push(Message::text(Role::User, format!("Please call a tool. The final answer is given with {ANSWER}.")));
        }
        step.signals = self.signals(given.as_ref());
        step.done = match given {
            Some(Given { verdict: Verdict::Correct, .. }) => Some(TraceOutcome::Success),
            Some(_) => Some(TraceOutcome::Failure),
            None if self.n_turns >= TURNS_MAX => {
                let message = format!("no answer in {TURNS_MAX} turns");
                step.errors.push(ErrorEvent { kind: "turn_limit".into(), recovered: false, message });
                Some(TraceOutcome::Failure)
            }
            None => None,
        };
        Ok(step)
    }
}

fn json(value: &impl Serialize) -> Result<String, EnvError> {
    serde_json::to_string(value).map_err(|error| EnvError::Broken(format!("a mail has no JSON form: {error}")))
}
