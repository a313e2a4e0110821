//! What can be seen in JSON text without reading it: how deep it nests, and its first keys.

use serde_json::Value;
use std::borrow::Cow;

/// How deep lists and objects nest. Text that is not JSON gives some number: the reader refuses it later.
pub(super) fn depth(text: &str) -> usize {
    let opened = brackets(text).filter(|(.., bracket)| matches!(bracket, Bracket::Opens));
    opened.map(|(_, depth, _)| depth).max().unwrap_or(0)
}

/// The text with nothing left in the lists and objects that nest deeper than this: one place that nests too deep can then be read with
/// the others, and refused alone.
pub(super) fn cut(text: &str, n_levels: usize) -> Cow<'_, str> {
    if depth(text) <= n_levels {
        return text.into();
    }
    let (mut kept, mut start) = (String::new(), Some(0));
    for (at, _, bracket) in brackets(text).filter(|(_, depth, _)| *depth == n_levels + 1) {
        match (bracket, start) {
            (Bracket::Opens, Some(from)) => {
                kept += &text[from..=at];
                start = None;
            }
            (Bracket::Closes, None) => start = Some(at),
            _ => {}
        }
    }
    kept += start.map_or("", |from| &text[from..]);
    kept.into()
}

#[derive(Clone, Copy)]
enum Bracket {
    Opens,
    Closes,
}

/// Where lists and objects begin and end, and how deep they are.
fn brackets(text: &str) -> impl Iterator<Item = (usize, usize, Bracket)> {
    let (mut bytes, mut depth, mut in_string) = (text.bytes().enumerate(), 0_usize, false);
    std::iter::from_fn(move || {
        loop {
            let (at, byte) = bytes.next()?;
            match byte {
                b'"' => in_string = !in_string,
                b'\\' if in_string => drop(bytes.next()),
                b'{' | b'[' if !in_string => {
                    depth += 1;
                    return Some((at, depth, Bracket::Opens));
                }
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    return Some((at, depth + 1, Bracket::Closes));
                }
                _ => {}
            }
        }
    })
}

/// Whether the lists and objects of a value nest deeper than this.
pub(super) fn is_deeper(value: &Value, n_levels: usize) -> bool {
    let Some(n_inner) = n_levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(list) => list.iter().any(|inner| is_deeper(inner, n_inner)),
        Value::Object(map) => map.values().any(|inner| is_deeper(inner, n_inner)),
        _ => false,
    }
}

/// The keys of the outermost object, as far as the text goes. Keys with escapes are given as they stand.
pub(super) fn top_level_keys(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    std::iter::from_fn(move || {
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let start = at;
                    while bytes.get(at).is_some_and(|&byte| byte != b'"') {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    let end = at.min(bytes.len());
                    at = end + 1;
                    let rest = bytes.get(at..).unwrap_or_default();
                    let is_key = rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                    if depth == 1 && is_key {
                        return text.get(start..end);
                    }
                }
                _ => {}
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn depth_counts_what_is_not_inside_a_text() {
        for (text, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{"b":"[[\"[["}]}"#, 3), ("]]][", 1), ("\"\\", 0)] {
            assert_eq!(depth(text), expected, "{text}");
            let Ok(value) = serde_json::from_str(text) else { continue };
            assert!(!is_deeper(&value, expected) && (expected == 0 || is_deeper(&value, expected - 1)), "{text}");
        }
    }

    #[test]
    fn what_nests_too_deep_is_left_empty() {
        for (text, expected) in [
            (r#"{"a":[1,[2]],"b":[3]}"#, r#"{"a":[1,[]],"b":[3]}"#),
            (r#"[[[{"x":[1]}],"]",[[]]],[4]]"#, r#"[[[],"]",[]],[4]]"#),
            (r#"[["é",["é"]],{"x":{}}]"#, r#"[["é",[]],{"x":{}}]"#),
            ("[[[", "[[["),
            ("]]][[[]", "]]][[[]"),
        ] {
            assert_eq!(cut(text, 2), expected, "{text}");
        }
    }

    #[test]
    fn a_format_is_known_by_its_top_level_keys() {
        for (line, expected) in [
            (r#"{"v":1,"id":"…","segments":[{"#, Some(Format::Hone)),
            (r#"{"tools":[{"messages":1}],"messages":[{"role":"user""#, Some(Format::Openai)),
            (r#"{"reward":1,"messages_and_choices" : []}"#, Some(Format::Art)),
            ("{\n  \"resourceSpans\": [", Some(Format::Otlp)),
            (r#"{"text":"messages","x":"\\"}"#, None),
            (r#"["messages"]"#, None),
            (r#"{"a\"#, None),
            ("", None),
        ] {
            assert_eq!(Format::detect(line), expected, "{line}");
        }
    }
}
