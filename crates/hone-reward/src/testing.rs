//! A judge for tests, who answers by a function of what was shown; and traces to show.

use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{Config, Message, Role, Segment, Tenant, Time, Trace, TraceId, Turn};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What a judge is asked in one call.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Counted over all conversations.
    pub(crate) call_idx: usize,
    /// The whole conversation, up to what was said last.
    pub(crate) messages: Vec<Message>,
    pub(crate) opening: Opening,
}

impl Asked {
    /// What was said last.
    pub(crate) fn last(&self) -> String {
        self.messages.last().unwrap().content.text()
    }

    /// The trajectories that were shown, by id, in the order shown.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        let text = self.messages[1].content.text();
        let parts = text.split("<trajectory id=\"").skip(1);
        parts
            .map(|part| {
                let (id, rest) = part.split_once("\">\n").unwrap();
                (id.to_owned(), rest.split_once("\n</trajectory>").unwrap().0.to_owned())
            })
            .collect()
    }

    /// How good each trajectory is that was shown: the number after `q=`.
    pub(crate) fn qualities(&self) -> Vec<(String, f64)> {
        self.shown().into_iter().map(|(id, text)| (id, quality(&text))).collect()
    }
}

pub(crate) fn quality(text: &str) -> f64 {
    let number: String = text.rsplit("q=").next().unwrap().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().unwrap()
}

type Answer = Arc<dyn Fn(&Asked) -> Result<String, PolicyError> + Send + Sync>;

/// A judge that follows a script.
pub(crate) struct Script {
    config: Config,
    answer: Answer,
    pub(crate) keeps_to_schemas: bool,
    pub(crate) context_tokens: Option<usize>,
    pub(crate) calls: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    pub(crate) fn new(answer: impl Fn(&Asked) -> Result<String, PolicyError> + Send + Sync + 'static) -> Self {
        let config = Config { model: Some("scripted".into()), ..Config::default() };
        Self { config, answer: Arc::new(answer), keeps_to_schemas: false, context_tokens: None, calls: Arc::default() }
    }

    /// One who answers every call with a JSON made from it.
    pub(crate) fn says(answer: impl Fn(&Asked) -> Value + Send + Sync + 'static) -> Self {
        Self::new(move |asked| Ok(answer(asked).to_string()))
    }

    pub(crate) fn n_calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

impl Policy for Script {
    fn config(&self) -> &Config {
        &self.config
    }

    fn keeps_to_schemas(&self) -> bool {
        self.keeps_to_schemas
    }

    fn context_tokens(&self) -> Option<usize> {
        self.context_tokens
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        let (answer, calls) = (self.answer.clone(), self.calls.clone());
        Ok(Box::new(Talk { opening: opening.clone(), messages: Vec::new(), answer, calls }))
    }
}

struct Talk {
    opening: Opening,
    messages: Vec<Message>,
    answer: Answer,
    calls: Arc<Mutex<Vec<Asked>>>,
}

impl Conversation for Talk {
    fn answer(&mut self, input: &[Message], _limits: AnswerLimits) -> Result<Answered, PolicyError> {
        self.messages.extend_from_slice(input);
        let mut calls = self.calls.lock().unwrap();
        let asked = Asked { call_idx: calls.len(), messages: self.messages.clone(), opening: self.opening.clone() };
        calls.push(asked.clone());
        let message = Message::text(Role::Assistant, (self.answer)(&asked)?);
        self.messages.push(message.clone());
        Ok(Answered::of(message))
    }
}

pub(crate) fn timeout() -> PolicyError {
    PolicyError { kind: PolicyErrorKind::Timeout, message: "no answer in 60 s".into(), llm_calls: Vec::new() }
}

/// The answer of a judge with these scores.
pub(crate) fn scores(scores: &[(String, f64)]) -> Value {
    let entry =
        |(id, score): &(String, f64)| json!({"trajectory_id": id, "explanation": format!("about {score}"), "score": score});
    json!({"scores": scores.iter().map(entry).collect::<Vec<_>>()})
}

/// A trace of the task `find the key` with these answers.
pub(crate) fn trace(name: &str, answers: &[&str]) -> Trace {
    let turn = |(idx, answer): (usize, &&str)| {
        let asked = if idx == 0 { "find the key" } else { "go on" };
        Turn::new(vec![Message::text(Role::User, asked)], Message::text(Role::Assistant, *answer))
    };
    let turns = answers.iter().enumerate().map(turn).collect();
    Trace {
        segments: vec![Segment { turns, ..Segment::default() }],
        ..Trace::new(TraceId::derived(&[name]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash())
    }
}

/// A group in which each trace says how good it is.
pub(crate) fn group(qualities: &[f64]) -> Vec<Trace> {
    qualities
        .iter()
        .enumerate()
        .map(|(idx, quality)| trace(&format!("t{idx}"), &[&format!("attempt {idx} q={quality}")]))
        .collect()
}

pub(crate) fn refs(traces: &[Trace]) -> Vec<&Trace> {
    traces.iter().collect()
}
