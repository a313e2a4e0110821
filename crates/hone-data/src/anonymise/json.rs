//! JSON inside of text, such as the arguments of a tool: every string and every long number is looked at as what its key says, and
//! everything else stays as it was written, blanks and order included.

use super::Hint;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::fmt::Write;

/// What makes another text of one, or leaves it as it is.
pub(crate) type Replace<'a> = dyn FnMut(&str, Hint) -> Option<String> + 'a;

/// Shorter numbers are nobody's.
pub(super) const NUMBER_LEN_MIN: usize = 7;

/// Whether a text is an object or a list in JSON.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The text with its strings and numbers replaced, or nothing when all stay as they are. It must be JSON.
pub(super) fn replace(text: &str, hint: Hint, replace: &mut Replace<'_>) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    // For each object or list around here whether it is an object, and what its key says.
    let mut around: Vec<(bool, Hint)> = Vec::new();
    let (mut hint, mut is_key) = (hint, false);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => string_end(bytes, at),
            b'-' | b'0'..=b'9' => number_end(bytes, at),
            sign => {
                match sign {
                    b'{' | b'[' => {
                        around.push((sign == b'{', hint));
                        is_key = sign == b'{';
                    }
                    b'}' | b']' => {
                        around.pop();
                        is_key = false;
                    }
                    b',' => {
                        is_key = around.last().is_some_and(|(is_object, _)| *is_object);
                        hint = around.last().map_or(Hint::NONE, |(_, hint)| *hint);
                    }
                    b':' => is_key = false,
                    _ => {}
                }
                at += 1;
                continue;
            }
        };
        let token = &text[at..end];
        let changed = if bytes[at] == b'"' {
            let value = unescaped(token);
            let changed = replace(&value, if is_key { Hint::KEY } else { hint });
            if is_key {
                hint = Hint::of_key(&value);
            }
            changed.map(|changed| quoted(&changed))
        } else {
            number(token, hint, replace)
        };
        if let Some(changed) = changed {
            out.push_str(&text[copied..at]);
            out.push_str(&changed);
            copied = end;
        }
        at = end;
    }
    (copied > 0).then(|| out + &text[copied..])
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
        check(r#"{"phone":["p",{"q":"p"}],"z":"p"}"#, Some(r#"{"phone":["P",{"q":"p"}],"z":"p"}"#));
    }

    #[test]
    fn other_text_is_not_json() {
        assert!(!is_json("{not json}") && !is_json("12") && !is_json(""));
    }
}
