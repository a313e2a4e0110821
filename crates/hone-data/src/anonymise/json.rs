//! JSON inside of text, such as the arguments of a tool: every string and every long number is looked at as what its key says, and
//! everything else stays as it was written, blanks and order included.

use super::Hint;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

/// What makes another text of one, or leaves it as it is.
pub(crate) type Replace<'a> = dyn FnMut(&str, Hint) -> Option<String> + 'a;

/// Shorter numbers are nobody's.
pub(super) const NUMBER_LEN_MIN: usize = 7;

/// Whether a text is an object or a list in JSON.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Keys whose text says what stands beside it under [`LABELLED`], the first of them before the second: an attribute of a span is
/// `{"key": "user.phone", "value": {"intValue": 4155550132}}`.
pub(super) const LABELS: [&str; 2] = ["key", "name"];
pub(super) const LABELLED: &str = "value";

/// The text with its strings and numbers replaced, or nothing when all stay as they are. It must be JSON.
pub(super) fn replace(text: &str, hint: Hint, replace: &mut Replace<'_>) -> Option<String> {
    let (mut out, mut copied, mut n_opened) = (String::new(), 0, 0);
    let labels = labels(text);
    let mut around = vec![Around { all: hint, next: hint, label: None }];
    for (token, range) in Tokens::of(text) {
        let Some(here) = around.last_mut() else { break };
        let token_text = &text[range.clone()];
        let changed = match token {
            Token::Open => {
                let next = here.next;
                around.push(Around { all: next, next, label: labels.get(n_opened).cloned().flatten() });
                n_opened += 1;
                None
            }
            Token::Close => {
                around.pop();
                None
            }
            Token::Key => {
                let key = unescaped(token_text);
                let label = here.label.as_deref().filter(|_| key.eq_ignore_ascii_case(LABELLED));
                here.next = here.all.inside(label.unwrap_or(&key));
                replace(&key, Hint::KEY).map(|changed| quoted(&changed))
            }
            Token::Text => replace(&unescaped(token_text), here.next).map(|changed| quoted(&changed)),
            Token::Number => number(token_text, here.next, replace),
        };
        if let Some(changed) = changed {
            out.push_str(&text[copied..range.start]);
            out.push_str(&changed);
            copied = range.end;
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// An object or a list around a token.
struct Around<'t> {
    /// What is said of all that is inside.
    all: Hint,
    /// What is said of what comes next.
    next: Hint,
    /// What says more of the value beside it.
    label: Option<Cow<'t, str>>,
}

/// For every object and list, in the order in which they open, the text of its label. It may stand behind what it speaks of.
fn labels(text: &str) -> Vec<Option<Cow<'_, str>>> {
    let mut labels = Vec::new();
    // Where each of those around here stands in the list, and its last key.
    let mut around: Vec<(usize, Cow<'_, str>)> = Vec::new();
    for (token, range) in Tokens::of(text) {
        match (token, around.last_mut()) {
            (Token::Open, _) => {
                around.push((labels.len(), Cow::Borrowed("")));
                labels.push(None);
            }
            (Token::Close, _) => drop(around.pop()),
            (Token::Key, Some((_, last))) => *last = unescaped(&text[range]),
            (Token::Text, Some((place, key))) => {
                let is_first = key.eq_ignore_ascii_case(LABELS[0]);
                if is_first || key.eq_ignore_ascii_case(LABELS[1]) && labels[*place].is_none() {
                    labels[*place] = Some(unescaped(&text[range]));
                }
            }
            _ => {}
        }
    }
    labels
}

/// What a part of JSON is.
enum Token {
    Open,
    Close,
    Key,
    Text,
    Number,
}

/// The parts of JSON that say something, and where they stand.
struct Tokens<'t> {
    bytes: &'t [u8],
    at: usize,
    /// For each object or list around here whether it is an object.
    around: Vec<bool>,
    is_key: bool,
}

impl<'t> Tokens<'t> {
    fn of(text: &'t str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, around: Vec::new(), is_key: false }
    }
}

impl Iterator for Tokens<'_> {
    type Item = (Token, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (start, sign) = (self.at, *self.bytes.get(self.at)?);
            self.at += 1;
            let token = match sign {
                b'"' => {
                    self.at = string_end(self.bytes, start);
                    if self.is_key { Token::Key } else { Token::Text }
                }
                b'-' | b'0'..=b'9' => {
                    self.at = number_end(self.bytes, start);
                    Token::Number
                }
                b'{' | b'[' => {
                    self.is_key = sign == b'{';
                    self.around.push(self.is_key);
                    Token::Open
                }
                b'}' | b']' => {
                    self.around.pop();
                    self.is_key = false;
                    Token::Close
                }
                _ => {
                    if matches!(sign, b',' | b':') {
                        self.is_key = sign == b',' && self.around.last() == Some(&true);
                    }
                    continue;
                }
            };
            return Some((token, start..self.at));
        }
    }
}

/// What a number is replaced by: another number, or a string where there is no such number.
pub(super) fn number(token: &str, hint: Hint, replace: &mut Replace<'_>) -> Option<String> {
    // Some programs write every number with a fraction: 4155550132.0.
    let (whole, fraction) = token.split_at(token.find('.').unwrap_or(token.len()));
    let is_whole = whole.len() >= NUMBER_LEN_MIN
        && whole.bytes().all(|byte| byte.is_ascii_digit())
        && fraction.bytes().all(|byte| matches!(byte, b'.' | b'0'));
    let changed = is_whole.then(|| replace(whole, hint)).flatten()?;
    let is_number = changed.bytes().all(|byte| byte.is_ascii_digit()) && !changed.starts_with('0');
    Some(if is_number { changed + fraction } else { quoted(&changed) })
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn number_end(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
        .count()
}

fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('\\') {
        serde_json::from_str(token).map_or(Cow::Borrowed(token), Cow::Owned)
    } else {
        Cow::Borrowed(&token[1..token.len() - 1])
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    let _ = write!(out, "{}", serde_json::Value::from(text));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert!(is_json(text), "{text}");
        let replaced = replace(text, Hint::NONE, &mut |value, hint| match value {
            "a" => Some("b\"".to_owned()),
            "1234567" => Some("7654321".to_owned()),
            "7777777" => Some("x".to_owned()),
            "k" if hint == Hint::KEY => Some("K".to_owned()),
            "p" if hint == Hint::of_key("phone") => Some("P".to_owned()),
            _ => None,
        });
        assert_eq!(replaced.as_deref(), expected);
    }

    #[test]
    fn only_what_changes_is_written_anew() {
        check(r#" { "x" : [1, "q\n", null] } "#, None);
        check(r#"{"x": "a" ,"y":[ "\u0061",2]}"#, Some(r#"{"x": "b\"" ,"y":[ "b\"",2]}"#));
        check(r#"{"n":1234567,"m":7777777,"o":1234567.5}"#, Some(r#"{"n":7654321,"m":"x","o":1234567.5}"#));
        check(r#"{"n":1234567.0,"m":7777777.0,"o":1234567.05}"#, Some(r#"{"n":7654321.0,"m":"x","o":1234567.05}"#));
        check(r#"{"k":"k"}"#, Some(r#"{"K":"k"}"#));
        check(r#"{"phone":["p",{"q":"p"}],"z":"p"}"#, Some(r#"{"phone":["P",{"q":"P"}],"z":"p"}"#));
        check(r#"[{"key":"user.phone","value":{"v":["p"]}},"p"]"#, Some(r#"[{"key":"user.phone","value":{"v":["P"]}},"p"]"#));
        check(r#"{"Value":"p","x":{"Name":"p"},"Name":"phone"}"#, Some(r#"{"Value":"P","x":{"Name":"p"},"Name":"phone"}"#));
    }

    #[test]
    fn other_text_is_not_json() {
        assert!(!is_json("{not json}") && !is_json("12") && !is_json(""));
    }
}
