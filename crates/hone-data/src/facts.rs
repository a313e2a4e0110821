//! What a trace is judged, balanced and split by: its task, its family, its user, how hard it was, and what its answers say.

use hone_trace::{Content, GroupId, Message, Role, Trace, TraceId, Turn};
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
    pub scenario: Option<String>,
    /// Whose members stay on one side of a split.
    pub family: Option<String>,
    /// Whose traces stay on one side of a split.
    pub user: Option<String>,
    /// The group it was sampled in, whose members say something only together.
    pub group: Option<GroupId>,
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
        let question = Question::of(trace);
        let named = trace.scenario.as_ref().map(ToString::to_string);
        let of_scenario = || named.as_deref().map(|name| family_of(name).to_owned());
        let family = trace.metadata.get("family").and_then(Value::as_str).map(ToOwned::to_owned);
        let family = family.or_else(of_scenario).or_else(|| question.family());
        let scenario = named.or_else(|| question.scenario());
        Self {
            id: trace.id,
            category: trace.category.as_ref().map(ToString::to_string),
            user: user(trace, user_field),
            group: trace.group,
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
    let mut parts = user_path(field);
    let first = trace.metadata.get(parts.next()?)?;
    match parts.try_fold(first, |value, part| value.get(part))? {
        Value::Null | Value::Bool(_) => None,
        Value::String(user) => Some(user.clone()),
        user => Some(user.to_string()),
    }
}

/// The keys under which metadata names the user, the outermost first.
pub(crate) fn user_path(field: &str) -> impl Iterator<Item = &str> {
    field.strip_prefix("metadata.").unwrap_or(field).split('.')
}

/// The first question: its words in lower case, and what else it shows.
struct Question {
    words: String,
    others: String,
}

impl Question {
    fn of(trace: &Trace) -> Self {
        let asked = trace.turns().flat_map(|turn| &turn.input).find(|message| message.role == Role::User);
        let Some(message) = asked else { return Self { words: String::new(), others: String::new() } };
        let words = joined(&message.content.text().to_lowercase());
        let others = match &message.content {
            Content::Parts(parts) => parts.iter().filter(|part| part.get("text").is_none()).map(Value::to_string).collect(),
            _ => String::new(),
        };
        Self { words, others }
    }

    /// A name for all that ask the very same.
    fn scenario(&self) -> Option<String> {
        let is_empty = self.words.is_empty() && self.others.is_empty();
        (!is_empty).then(|| format!("question:{}", short_hash(&format!("{}\n{}", self.words, self.others))))
    }

    /// A name for all that differ in numbers alone. Without a word there is nothing that they have in common: a sum is one of its own.
    fn family(&self) -> Option<String> {
        let letters: String = self.words.chars().filter(|sign| sign.is_alphabetic() || sign.is_whitespace()).collect();
        let letters = joined(&letters);
        if letters.is_empty() { self.scenario() } else { Some(format!("questions:{}", short_hash(&letters))) }
    }
}

/// The words of a text with one blank between them.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(content: &Value) -> Facts {
        let trace = json!({
            "v": 1, "id": "01890a5d-ac96-774b-bcce-b302099a8057", "tenant": "default", "started": "2026-03-14T15:09:26Z",
            "config": "00".repeat(32),
            "segments": [{"turns": [{"input": [{"role": "user", "content": content}], "answer": {"role": "assistant", "content": "x"}}]}],
        });
        Facts::of(&serde_json::from_value(trace).expect("a trace"), "metadata.user")
    }

    fn picture(name: &str) -> Value {
        json!([{"type": "image_url", "image_url": {"url": format!("https://x/{name}.png")}}])
    }

    #[test]
    fn only_case_and_blanks_make_no_other_question() {
        let scenario = |content: Value| facts(&content).scenario;
        assert_eq!(scenario(json!("What  is 1 + 2?\n")), scenario(json!("what is 1 + 2?")));
        assert_eq!(scenario(json!("What is 1?")), scenario(json!([{"type": "text", "text": "What is 1?"}])));
        for (one, other) in [("What is 1 + 2?", "What is 1 + 3?"), ("7 * 3", "7 + 3"), ("What is 12?", "What is 1 2?")] {
            assert_ne!(scenario(json!(one)), scenario(json!(other)), "{one}");
        }
        assert_ne!(scenario(picture("a")), scenario(picture("b")));
    }

    #[test]
    fn questions_that_differ_in_numbers_alone_are_one_family() {
        let family = |content: Value| facts(&content).family;
        assert_eq!(family(json!("What is 1 + 2?")), family(json!("what is 10 + 20?")));
        assert_ne!(family(json!("Is 7 prime?")), family(json!("Is 7 even?")));
        // Sums and pictures without a word have nothing in common but that.
        assert_ne!(family(json!("12 + 30 = ?")), family(json!("7 * 3 = ?")));
        assert_ne!(family(json!("12 + 30 = ?")), family(picture("a")));
        assert_eq!(family(picture("a")), family(picture("a")));
    }

    #[test]
    fn what_asks_nothing_has_no_name() {
        let nothing = facts(&json!(" "));
        assert_eq!((nothing.scenario, nothing.family), (None, None));
    }
}
