//! What can be seen in JSON text without reading it: how deep it nests, and its first keys.

use serde_json::Value;

/// How deep lists and objects nest. Text that is not JSON gives some number: the reader refuses it later.
pub(super) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string) = (0_usize, 0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
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
