//! One question to a judge model that must be answered in a given form.
//!
//! An answer that does not fit is sent back with the complaint, in the same conversation; a call that failed is made again
//! in a fresh one. After the last try the caller gets the last complaint, and everything that was paid for.
//! Knows nothing of traces, rubrics or groups.

use crate::found;
use hone_trace::policy::{AnswerLimits, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{LlmCall, Message, Role};
use serde_json::Value;
use std::fmt::Display;

/// What is asked.
pub(crate) struct Question {
    pub(crate) messages: Vec<Message>,
    pub(crate) schema: Value,
    pub(crate) seed: u64,
}

impl Question {
    pub(crate) fn new(system: String, user: String, schema: Value, seed: u64) -> Self {
        Self { messages: vec![Message::text(Role::System, system), Message::text(Role::User, user)], schema, seed }
    }
}

/// How patiently it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) n_retries: u32,
    pub(crate) tokens_max: u64,
}

/// An answer that fits.
#[derive(Debug)]
pub(crate) struct Heard<T> {
    pub(crate) value: T,
    pub(crate) bill: Bill,
}

/// What was called and paid for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bill {
    /// How often the judge was asked.
    pub n_calls: u32,
    /// The model calls behind it.
    pub llm_calls: Vec<LlmCall>,
}

impl Bill {
    /// Adds another bill to this one.
    pub fn add(&mut self, other: Self) {
        self.n_calls += other.n_calls;
        self.llm_calls.extend(other.llm_calls);
    }
}

/// Why no answer fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unheard<C: Display> {
    /// The judge gave no answer.
    #[error("the judge gave no answer: {0}")]
    Policy(PolicyError),
    /// There was no JSON object in it.
    #[error("the answer holds no JSON object: {0:?}")]
    NoJson(String),
    /// The object was not what was asked for.
    #[error("{0}")]
    Unfit(C),
}

impl<C: Display> Unheard<C> {
    /// The same, with another form of the complaint.
    pub(crate) fn map<D: Display>(self, complaint: impl FnOnce(C) -> D) -> Unheard<D> {
        match self {
            Self::Policy(error) => Unheard::Policy(error),
            Self::NoJson(text) => Unheard::NoJson(text),
            Self::Unfit(unfit) => Unheard::Unfit(complaint(unfit)),
        }
    }
}

/// Asks until an answer holds an object that `read` takes: the first one that it does.
pub(crate) fn ask<T, C: Display>(
    judge: &dyn Policy,
    question: &Question,
    patience: Patience,
    read: impl Fn(&Value) -> Result<T, C>,
) -> Result<Heard<T>, (Unheard<C>, Bill)> {
    let limits = AnswerLimits { tokens_max: patience.tokens_max, time_max_ms: None };
    let opening = Opening { tools: std::sync::Arc::default(), schema: Some(question.schema.clone()), seed: question.seed };
    let mut bill = Bill::default();
    let mut conversation: Option<Box<dyn Conversation>> = None;
    let mut input = question.messages.clone();
    loop {
        bill.n_calls += 1;
        let answered = match conversation.take() {
            Some(open) => Ok(open),
            None => judge.open(&opening),
        }
        .and_then(|mut open| open.answer(&input, limits).map(|answered| (open, answered)));
        let is_last = bill.n_calls > patience.n_retries;
        let unheard = match answered {
            Ok((open, answered)) => {
                bill.llm_calls.extend(answered.llm_calls);
                let text = answered.message.content.text();
                let unheard = match fitting(&text, &read) {
                    Ok(value) => return Ok(Heard { value, bill }),
                    Err(unheard) => unheard,
                };
                input = vec![Message::text(Role::User, complaint(&unheard))];
                conversation = Some(open);
                unheard
            }
            Err(mut error) => {
                bill.llm_calls.append(&mut error.llm_calls);
                let is_hopeless = is_hopeless(error.kind);
                let unheard = Unheard::Policy(error);
                if is_hopeless {
                    return Err((unheard, bill));
                }
                input.clone_from(&question.messages);
                unheard
            }
        };
        if is_last {
            return Err((unheard, bill));
        }
    }
}

/// The first object that fits; or what is wrong with the largest of them, which is the most likely to be meant.
fn fitting<T, C: Display>(text: &str, read: impl Fn(&Value) -> Result<T, C>) -> Result<T, Unheard<C>> {
    let mut worst: Option<(usize, C)> = None;
    for object in found::objects(text) {
        match read(&object) {
            Ok(value) => return Ok(value),
            Err(complaint) => {
                let size = object.to_string().len();
                if worst.as_ref().is_none_or(|(largest, _)| size > *largest) {
                    worst = Some((size, complaint));
                }
            }
        }
    }
    Err(match worst {
        Some((_, complaint)) => Unheard::Unfit(complaint),
        None => Unheard::NoJson(text[..text.floor_char_boundary(200)].to_owned()),
    })
}

fn complaint<C: Display>(unheard: &Unheard<C>) -> String {
    let what = match unheard {
        Unheard::Unfit(complaint) => complaint.to_string(),
        _ => "it holds no complete JSON object".to_owned(),
    };
    format!(
        "This answer cannot be used: {what}. Answer again, with the whole JSON object in the form asked for and nothing else."
    )
}

/// Whether asking again would be answered the same way.
fn is_hopeless(kind: PolicyErrorKind) -> bool {
    matches!(kind, PolicyErrorKind::Refused | PolicyErrorKind::TooLong | PolicyErrorKind::Budget)
}
