//! What a trace is judged, balanced and split by: its task, its family, its user, how hard it was, and what its answers say.

use hone_trace::{Content, Message, Role, Trace, TraceId, Turn};
use serde::Serialize;
use serde_json::Value;

/// What is remembered of a trace when the trace itself is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The trace.
    pub id: TraceId,
    /// The type of task.
    pub category: Option<String>,
    /// What it was a try of: its scenario, or its first question where there is none.
    pub scenario: String,
    /// Whose members stay on one side of a split.
    pub family: String,
    /// Whose traces stay on one side of a split.
    pub user: Option<String>,
    /// How hard it was.
    pub difficulty: Difficulty,
}

/// How hard a task was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difficulty {
    /// Below a third, or done in one or two turns.
    Easy,
    /// Between, or up to five turns.
    Medium,
    /// From two thirds on, or more turns.
    Hard,
}

impl Difficulty {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Easy => "easy",
            Self::Medium => "medium",
            Self::Hard => "hard",
        }
    }

    /// `metadata.difficulty` from 0 to 1 where it is given, otherwise by the number of turns.
    fn of(trace: &Trace) -> Self {
        match trace.metadata.get("difficulty").and_then(Value::as_f64) {
            Some(given) if given < 1.0 / 3.0 => Self::Easy,
            Some(given) if given < 2.0 / 3.0 => Self::Medium,
            Some(_) => Self::Hard,
            None => match trace.turns().count() {
                0..=2 => Self::Easy,
                3..=5 => Self::Medium,
                _ => Self::Hard,
            },
        }
    }
}

impl Facts {
    /// Of this trace. `user_field` is where its metadata names the user.
    pub fn of(trace: &Trace, user_field: &str) -> Self {
        let scenario = trace.scenario.as_ref().map_or_else(|| question(trace), ToString::to_string);
        let family = match trace.metadata.get("family").and_then(Value::as_str) {
            Some(family) => family.to_owned(),
            None => family_of(&scenario).to_owned(),
        };
        Self {
            id: trace.id,
            category: trace.category.as_ref().map(ToString::to_string),
            user: user(trace, user_field),
            difficulty: Difficulty::of(trace),
            scenario,
            family,
        }
    }
}

/// A variation of a scenario, its fifth part, is of the family of the scenario: `desk/train/1/17/3`.
fn family_of(scenario: &str) -> &str {
    match scenario.match_indices('/').nth(3) {
        Some((at, _)) => &scenario[..at],
        None => scenario,
    }
}

fn user(trace: &Trace, field: &str) -> Option<String> {
    let mut parts = field.strip_prefix("metadata.").unwrap_or(field).split('.');
    let first = trace.metadata.get(parts.next()?)?;
    match parts.try_fold(first, |value, part| value.get(part))? {
        Value::String(user) => Some(user.clone()),
        Value::Number(user) => Some(user.to_string()),
        _ => None,
    }
}

/// The first question, in lower case and without digits: what differs in numbers alone is one question.
fn question(trace: &Trace) -> String {
    let asked = trace.turns().flat_map(|turn| &turn.input).find(|message| message.role == Role::User);
    let text = asked.map(|message| message.content.text().to_lowercase()).unwrap_or_default();
    let kept: String = text.chars().filter(|character| character.is_alphabetic() || character.is_whitespace()).collect();
    format!("question:{}", &blake3::hash(kept.split_whitespace().collect::<Vec<_>>().join(" ").as_bytes()).to_hex()[..32])
}

/// The hash of everything that was said, whoever said it and when.
pub(crate) fn content(trace: &Trace) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    for turn in trace.turns() {
        turn.input.iter().chain([&turn.answer]).for_each(|message| said(message, &mut add));
    }
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// The words of all answers, with the tools they called.
pub(crate) fn answers(trace: &Trace) -> String {
    let mut out = String::new();
    let mut add = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    trace.turns().map(|turn: &Turn| &turn.answer).for_each(|answer| said(answer, &mut add));
    out
}

fn said(message: &Message, add: &mut impl FnMut(&str)) {
    match &message.content {
        Content::None => {}
        Content::Text(text) => add(text),
        Content::Parts(parts) => parts.iter().for_each(|part| add(&part.to_string())),
    }
    for call in &message.tool_calls {
        add(&call.name);
        add(&call.arguments);
    }
}
