//! The two ways to talk with the desk, and what both have in common: how an answer is understood.

use super::fault::Fault;
use super::query::{Query, Wrong};
use super::ticket::Ticket;
use super::vocabulary::{Slot, Word};
use super::{natural, short};
use crate::Dialect;
use hone_trace::Message;
use serde_json::Value;

/// What an answer means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Answer(String),
    /// A question to the customer, and what it is about where that was said.
    Ask(Option<Slot>),
    Calls(Vec<Request>),
    /// It means nothing, for this reason.
    Unreadable(String),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) query: Result<Query, Refused>,
}

/// Why a call is not made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refused {
    /// It cannot be read, or there is no such tool.
    Unreadable(String),
    Wrong(Wrong),
}

impl Dialect {
    pub(crate) fn opening(self, ticket: &Ticket) -> Vec<Message> {
        match self {
            Self::Natural => natural::opening(ticket),
            Self::Short => short::opening(ticket),
        }
    }

    pub(crate) fn read(self, action: &Message) -> Action {
        match self {
            Self::Natural => natural::read(action),
            Self::Short => short::read(action),
        }
    }

    /// The answer that makes this call.
    pub(crate) fn call(self, query: &Query) -> Message {
        match self {
            Self::Natural => crate::call(query.tool(), &query.arguments()),
            Self::Short => crate::said(short::line(query)),
        }
    }

    /// The answer that asks the customer for this.
    pub(crate) fn ask(self, slot: Slot) -> Message {
        crate::said(match self {
            Self::Natural => natural::ask(slot).to_owned(),
            Self::Short => format!("ask {}", slot.word()),
        })
    }

    /// The answer that ends the episode.
    pub(crate) fn answer(self, text: &str) -> Message {
        crate::said(match self {
            Self::Natural => format!("answer: {text}"),
            Self::Short => format!("answer {text}"),
        })
    }

    /// What a tool says.
    pub(crate) fn result(self, query: &Query, text: String) -> String {
        match self {
            Self::Natural => text,
            Self::Short => short::result(query, &text),
        }
    }

    /// The value in what a tool said.
    pub(crate) fn value(self, text: &str) -> &str {
        match self {
            Self::Natural => text,
            Self::Short => short::value(text),
        }
    }

    pub(crate) fn fault(self, fault: Fault, garbled: &str) -> String {
        match self {
            Self::Natural => natural::fault(fault, garbled),
            Self::Short if fault == Fault::WrongData => format!("{} {garbled}", fault.word()),
            Self::Short => fault.word().to_owned(),
        }
    }

    pub(crate) fn wrong(self, wrong: &Wrong) -> String {
        match self {
            Self::Natural => format!("error: {wrong}"),
            Self::Short => format!("error {}", wrong.argument),
        }
    }

    pub(crate) fn unreadable(self, reason: &str) -> String {
        match self {
            Self::Natural => format!("error: {reason}"),
            Self::Short => short::usage(),
        }
    }

    /// What the customer says when asked: the fact that was missing, or nothing new.
    pub(crate) fn reply(self, ticket: &Ticket, told: Option<Slot>) -> String {
        match self {
            Self::Natural => natural::reply(ticket, told),
            Self::Short => short::reply(ticket, told),
        }
    }
}
