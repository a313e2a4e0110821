//! One episode at the desk: at most four answers, and what the tools, the customer and the check say to them.

use super::answer::is_right;
use super::dialect::{Action, Refused, Request};
use super::fault::Luck;
use super::query::Query;
use super::ticket::Ticket;
use super::vocabulary::Slot;
use crate::Dialect;
use hone_trace::env::{EnvError, Play, Signals, Step};
use hone_trace::{ErrorEvent, Message, Role, ToolCall, TraceOutcome};
use serde_json::Map;

/// How often the agent may speak. The longest way is two look-ups, or a question and a look-up; one retry; the answer.
pub const N_ANSWERS_MAX: usize = 4;

pub(crate) struct Episode {
    pub(crate) dialect: Dialect,
    pub(crate) ticket: Ticket,
    pub(crate) truth: String,
    pub(crate) luck: Luck,
    /// Which of the look-ups that the ticket takes have been told.
    pub(crate) is_told: [bool; 2],
    pub(crate) n_answers: usize,
    pub(crate) is_over: bool,
}

impl Play for Episode {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if self.is_over {
            return Err(EnvError::Broken("the episode is over".into()));
        }
        self.n_answers += 1;
        let mut step = match self.dialect.read(action) {
            Action::Answer(text) => self.answered(&text),
            Action::Ask(slot) => self.asked(slot),
            Action::Calls(requests) => self.called(requests),
            Action::Unreadable(reason) => Step {
                messages: vec![Message::text(Role::User, self.dialect.unreadable(&reason))],
                errors: vec![crate::unparsable(reason)],
                signals: Signals::from([("format", 0.0)]),
                ..Step::default()
            },
        };
        if step.done.is_none() && self.n_answers == N_ANSWERS_MAX {
            step.signals.0.push(("correct".into(), 0.0));
            step.done = Some(TraceOutcome::Failure);
        }
        self.is_over = step.done.is_some();
        Ok(step)
    }
}

impl Episode {
    fn answered(&self, text: &str) -> Step {
        let is_right = is_right(text, &self.truth);
        Step {
            signals: Signals::from([("format", 1.0), ("correct", f64::from(is_right))]),
            done: Some(if is_right { TraceOutcome::Success } else { TraceOutcome::Failure }),
            ..Step::default()
        }
    }

    /// The customer tells what is missing, unless the question was clearly about something else.
    fn asked(&self, slot: Option<Slot>) -> Step {
        let told = self.ticket.missing.filter(|&missing| slot.is_none_or(|slot| slot == missing));
        Step {
            messages: vec![Message::text(Role::User, self.dialect.reply(&self.ticket, told))],
            signals: Signals::from([("format", 1.0), ("asked", f64::from(told.is_some()))]),
            ..Step::default()
        }
    }

    fn called(&mut self, requests: Vec<Request>) -> Step {
        let mut step = Step::default();
        let (mut is_readable, mut is_ok, mut n_needed) = (true, true, 0_u32);
        for Request { id, tool, arguments, query } in requests {
            let (text, error) = match query {
                Ok(query) => {
                    let (text, error, is_needed) = self.run(&query);
                    n_needed += u32::from(is_needed);
                    (text, error)
                }
                Err(Refused::Wrong(wrong)) => (self.dialect.wrong(&wrong), Some(("tool_refused", wrong.to_string()))),
                Err(Refused::Unreadable(reason)) => {
                    step.messages.push(crate::tool_result(&id, &tool, self.dialect.unreadable(&reason)));
                    step.errors.push(crate::unparsable(reason));
                    is_readable = false;
                    continue;
                }
            };
            let is_timeout = matches!(error, Some(("tool_timeout", _)));
            let success = error.is_none();
            is_ok &= success;
            step.messages.push(crate::tool_result(&id, &tool, text));
            if let Some((kind, message)) = error {
                step.errors.push(ErrorEvent { kind: kind.into(), recovered: true, message });
            }
            let duration_ms = Some(self.luck.duration_ms(is_timeout));
            step.tool_calls.push(ToolCall { id, name: tool, arguments, success: Some(success), duration_ms, extra: Map::new() });
        }
        step.signals = Signals::from([("format", f64::from(is_readable))]);
        if !step.tool_calls.is_empty() {
            step.signals.0.extend([("tool_ok".into(), f64::from(is_ok)), ("needed".into(), f64::from(n_needed))]);
        }
        step
    }

    /// What a tool says, the type and words of the error when it failed, and whether it was needed: it told what the ticket
    /// cannot be answered without, for the first time.
    fn run(&mut self, query: &Query) -> (String, Option<(&'static str, String)>, bool) {
        let value = match query.run(&self.ticket.records) {
            Ok(value) => value,
            Err(wrong) => return (self.dialect.wrong(&wrong), Some(("tool_refused", wrong.to_string())), false),
        };
        match self.luck.strike() {
            None => {
                let is_needed =
                    self.ticket.look_up(query, &value).is_some_and(|idx| !std::mem::replace(&mut self.is_told[idx], true));
                (self.dialect.result(query, value), None, is_needed)
            }
            Some(fault) => {
                let garbled = self.luck.garble(&value);
                let told = self.dialect.fault(fault, &garbled);
                (told.clone(), Some((fault.error(), told)), false)
            }
        }
    }
}
