//! When two actions are the same: calls by tool and arguments, whatever the order of keys, the spaces or the spelling of numbers;
//! words by their text, whatever the case, the spaces or the spelling of numbers.

use hone_trace::Message;
use serde_json::Value;
use std::fmt::Write;

/// What was done in one answer, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Tools were called, with these arguments.
    Calls(Vec<(String, String)>),
    /// Something was said.
    Words(String),
}

impl Act {
    /// Arguments that are no JSON object are compared as they are written.
    pub(super) fn of(answer: &Message) -> Self {
        if answer.tool_calls.is_empty() {
            return Self::Words(words(&answer.content.text()));
        }
        let call = |name: &str, text: &str| (name.to_owned(), arguments(text).unwrap_or_else(|| text.to_owned()));
        Self::Calls(answer.tool_calls.iter().map(|request| call(&request.name, &request.arguments)).collect())
    }
}

/// The one spelling of these arguments, when they are a JSON object.
pub(super) fn arguments(text: &str) -> Option<String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
    let mut out = String::with_capacity(text.len());
    spell(&value, &mut out);
    Some(out)
}

fn spell(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64() {
            // Beyond 2^53 a whole number has no exact double, so it is spelt by its own digits.
            Some(float) if !(number.is_i64() || number.is_u64()) || float.abs() < 9e15 => {
                let _ = write!(out, "{float}");
            }
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::Array(items) => {
            out.push('[');
            for (idx, item) in items.iter().enumerate() {
                out.push_str(if idx == 0 { "" } else { "," });
                spell(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (idx, key) in keys.into_iter().enumerate() {
                let _ = write!(out, "{}{}:", if idx == 0 { "" } else { "," }, Value::from(key.as_str()));
                spell(&map[key], out);
            }
            out.push('}');
        }
        plain => {
            let _ = write!(out, "{plain}");
        }
    }
}

/// The one spelling of these words.
pub(super) fn words(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(|word| number(word).unwrap_or_else(|| word.to_lowercase())).collect();
    words.join(" ")
}

/// `1,234.50` and `1234.5` are the same number.
fn number(word: &str) -> Option<String> {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
        && word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.,".contains(&byte));
    let bare = word.strip_suffix(['.', ',']);
    let mut groups = bare.unwrap_or(word).split('.').next()?.split(',').skip(1);
    if !is_number || groups.any(|group| group.len() != 3) {
        return None;
    }
    let value: f64 = bare.unwrap_or(word).replace(',', "").parse().ok()?;
    let ending = if bare.is_some() { &word[word.len() - 1..] } else { "" };
    Some(format!("{value}{ending}"))
}

/// How far apart two calls of the same tool are, from 0 (the same) to 1: the share of their arguments that differ, where values
/// that are partly alike differ partly.
pub(super) fn distance(one: &str, other: &str) -> f64 {
    let object = |text: &str| serde_json::from_str::<Value>(text).ok();
    let (Some(Value::Object(one)), Some(Value::Object(other))) = (object(one), object(other)) else { return 1.0 };
    let n_keys = one.len() + other.keys().filter(|key| !one.contains_key(*key)).count();
    if n_keys == 0 {
        return 0.0;
    }
    let alike: f64 = one.iter().filter_map(|(key, value)| Some(likeness(&value.to_string(), &other.get(key)?.to_string()))).sum();
    1.0 - alike / n_keys as f64
}

/// From 0 (nothing alike) to 1 (equal), by the pairs of neighbouring letters that both have.
pub(super) fn likeness(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    let pairs = |text: &str| -> Vec<(char, char)> {
        let text: Vec<char> = text.to_lowercase().chars().take(1000).collect();
        let mut pairs: Vec<(char, char)> = text.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.sort_unstable();
        pairs
    };
    let (one, mut other) = (pairs(one), pairs(other));
    let n_all = one.len() + other.len();
    let n_shared = one.iter().filter(|pair| other.binary_search(pair).map(|idx| other.remove(idx)).is_ok()).count();
    if n_all == 0 { 0.0 } else { 0.99 * 2.0 * n_shared as f64 / n_all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_matter_and_content_does() {
        let same = |one: &str, other: &str| assert_eq!(arguments(one).unwrap(), arguments(other).unwrap());
        same(r#"{"b": [1, 2.50], "a": {"x": null}}"#, r#"{"a":{"x":null},"b":[1.0,2.5]}"#);
        same("", "{}");
        same(r#"{"n": 1e3}"#, r#"{"n": 1000}"#);
        let differ = |one: &str, other: &str| assert_ne!(arguments(one).unwrap(), arguments(other).unwrap());
        differ(r#"{"a": "1"}"#, r#"{"a": 1}"#);
        differ(r#"{"a": [1, 2]}"#, r#"{"a": [2, 1]}"#);
        differ(r#"{"a": 9007199254740993}"#, r#"{"a": 9007199254740992}"#);
        differ(r#"{"a": "x,"}"#, r#"{"a": "x"}"#);
        assert_eq!(arguments("[1]"), None);
        assert_eq!(arguments("{"), None);
    }

    #[test]
    fn words_are_compared_without_case_spaces_and_spelling_of_numbers() {
        let same = |one: &str, other: &str| assert_eq!(words(one), words(other));
        same("  The total\nis 1,234.50.", "the total is 1234.5.");
        same("Room A", "room a");
        let differ = |one: &str, other: &str| assert_ne!(words(one), words(other));
        differ("12", "13");
        differ("2025-03-12", "2025-03-13");
        differ("1,2", "12");
        differ("", "no");
    }

    #[test]
    fn near_arguments_are_nearer_than_far_ones() {
        let apart = |one: &str, other: &str| distance(&arguments(one).unwrap(), &arguments(other).unwrap());
        let query = r#"{"q": "atlas review, \"room\"}", "n": 5}"#;
        assert_eq!(apart(query, query), 0.0);
        assert!(apart(query, r#"{"q": "atlas review", "n": 5}"#) < apart(query, r#"{"q": "invoice 12", "n": 5}"#));
        assert!(apart(query, r#"{"q": "invoice 12", "n": 5}"#) < apart(query, r#"{"other": 1}"#));
        assert_eq!(apart("{}", "{}"), 0.0);
    }
}
