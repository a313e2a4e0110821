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

/// Between these, models put what they think before they answer.
const THOUGHTS_BEGIN: &str = "<think>";
const THOUGHTS_END: &str = "</think>";

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

/// Asks until an answer holds an object that `read` takes: the last one that it does, thoughts left aside.
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

/// The last object that fits and was not merely thought: drafts come before the verdict. Or what is wrong with the largest of
/// them, which is the most likely to be meant.
fn fitting<T, C: Display>(text: &str, read: impl Fn(&Value) -> Result<T, C>) -> Result<T, Unheard<C>> {
    let mut last: Option<(Value, T)> = None;
    let mut worst: Option<(usize, C)> = None;
    for object in found::objects(&without_thoughts(text)) {
        // What stands inside a verdict is a part of it, not another one.
        if last.as_ref().is_some_and(|(verdict, _)| holds(verdict, &object)) {
            continue;
        }
        match read(&object) {
            Ok(value) => last = Some((object, value)),
            Err(complaint) => {
                let size = object.to_string().len();
                if worst.as_ref().is_none_or(|(largest, _)| size > *largest) {
                    worst = Some((size, complaint));
                }
            }
        }
    }
    if let Some((_, value)) = last.or_else(|| quoting(text, &read)) {
        return Ok(value);
    }
    Err(match worst {
        Some((_, complaint)) => Unheard::Unfit(complaint),
        None => Unheard::NoJson(text[..text.floor_char_boundary(200)].to_owned()),
    })
}

/// The last object that fits and has a mark of thoughts in its own words. Such a mark begins and ends no thoughts: the judge
/// speaks of a trace that has them.
fn quoting<T, C>(text: &str, read: impl Fn(&Value) -> Result<T, C>) -> Option<(Value, T)> {
    let quotes = |object: &Value| {
        let words = object.to_string();
        words.contains(THOUGHTS_BEGIN) || words.contains(THOUGHTS_END)
    };
    let fits = |object: Value| read(&object).ok().map(|value| (object, value));
    found::objects(text).filter(quotes).filter_map(fits).last()
}

/// What a reasoning model says outside of its thoughts. Where thoughts end that never began, their beginning stood in the
/// prompt; where they never end, the answer was cut off in them.
fn without_thoughts(text: &str) -> String {
    let (mut said, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(THOUGHTS_END) {
        match before.split_once(THOUGHTS_BEGIN) {
            Some((outside, _)) => said.push_str(outside),
            None => said.clear(),
        }
        rest = after;
    }
    said.push_str(rest.split_once(THOUGHTS_BEGIN).map_or(rest, |(outside, _)| outside));
    said
}

/// Whether this value stands somewhere inside the other, or is the same.
fn holds(outer: &Value, inner: &Value) -> bool {
    outer == inner
        || match outer {
            Value::Array(items) => items.iter().any(|item| holds(item, inner)),
            Value::Object(fields) => fields.values().any(|field| holds(field, inner)),
            _ => false,
        }
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
    use PolicyErrorKind::{Account, Budget, Refused, TooLong};
    matches!(kind, Account | Refused | TooLong | Budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(answer: &Value) -> Result<f64, String> {
        answer["result"].as_f64().ok_or_else(|| "it has no number `result`".to_owned())
    }

    #[track_caller]
    fn check(text: &str, heard: Option<f64>) {
        assert_eq!(fitting(text, result).ok(), heard, "{text}");
    }

    #[test]
    fn a_judge_that_cannot_answer_is_not_asked_again() {
        use crate::testing::Script;
        let check = |kind: PolicyErrorKind, n_calls: u32| {
            let judge = Script::new(move |_| Err(PolicyError { kind, message: "no".into(), llm_calls: Vec::new() }));
            let question = Question { messages: vec![Message::text(Role::User, "how good?")], schema: Value::Null, seed: 1 };
            let asked = ask(&judge, &question, Patience { n_retries: 2, tokens_max: 9 }, result);
            let Err((Unheard::Policy(error), bill)) = asked else { panic!("an answer to {kind}") };
            assert_eq!((error.kind, bill.n_calls), (kind, n_calls));
        };
        check(PolicyErrorKind::Account, 1);
        check(PolicyErrorKind::Refused, 1);
        check(PolicyErrorKind::Budget, 1);
        check(PolicyErrorKind::Provider, 3);
        check(PolicyErrorKind::Timeout, 3);
    }

    #[test]
    fn a_draft_in_thoughts_is_not_the_verdict() {
        check(r#"<think>Perhaps {"result": 0}?</think>{"result": 1}"#, Some(1.0));
        check(r#"Perhaps {"result": 0}? No.</think> {"result": 1}"#, Some(1.0));
        check(r#"<think>{"result": 0}</think>{"result": 1}<think>{"result": 0}, or not.</think> Done."#, Some(1.0));
        check(r#"<think>{"result": 0} or </think> rather {"result": 0.5} </think> {"result": 1}"#, Some(1.0));
        check(r#"<think>{"result": 0}</think> I cannot say."#, None);
        check(r#"<think>{"result": 0}, but wait"#, None);
    }

    #[test]
    fn of_several_verdicts_the_last_counts() {
        check(r#"First {"result": 0}. On reflection: {"result": 1}. That {"is": "all"}."#, Some(1.0));
        check(r#"{"result": 1, "parts": [{"result": 0}]}"#, Some(1.0));
        check(r#"{"answer": {"result": 1}}"#, Some(1.0));
    }

    #[test]
    fn a_verdict_may_speak_of_thoughts() {
        check(r#"{"explanation": "its <think> never ends", "result": 1}"#, Some(1.0));
        check(r#"{"explanation": "a stray </think>", "result": 1}"#, Some(1.0));
        check(r#"{"explanation": "<think></think> is empty", "result": 1}"#, Some(1.0));
        check(r#"<think>{"result": 0}</think>{"explanation": "a stray </think>", "result": 1}"#, Some(1.0));
    }

    #[test]
    fn what_is_wrong_is_said_of_the_verdict_and_not_of_a_draft() {
        let unheard =
            fitting(r#"<think>{"a": "long draft of it all"}</think>{"b": 1}"#, |object| Err::<(), _>(object.to_string()));
        assert_eq!(unheard, Err(Unheard::Unfit(r#"{"b":1}"#.to_owned())));
    }
}
