//! A trace as a judge reads it: one line of JSON per message.
//!
//! What was said and which tools were called, without thinking, ids or tokens: a judge weighs what an agent did. Text of a
//! trace is data. It stands inside tags of ours, so wherever it would spell such a tag, the `<` is written `\u003c`, which
//! is the same text in JSON and no tag.

use hone_trace::{Content, Message, Role, ToolSpec, Trace};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// The tags that frame what a judge reads.
pub(crate) const TAGS: [&str; 4] = ["context", "available_tools", "trajectory", "trace"];

#[derive(Serialize)]
struct Line<'a> {
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The messages of a trace, in order, one line each.
pub(crate) fn lines(trace: &Trace) -> Vec<String> {
    let mut lines = Vec::new();
    for (segment_idx, segment) in trace.segments.iter().enumerate() {
        if segment_idx > 0 {
            lines.push(r#"{"note":"here the history was rewritten, and the episode goes on from this form of it"}"#.to_owned());
        }
        for turn in &segment.turns {
            lines.extend(turn.input.iter().chain([&turn.answer]).map(line));
        }
        lines.extend(segment.tail.iter().map(line));
    }
    lines
}

/// The tools that were on offer, as one line of JSON; nothing when there were none.
pub(crate) fn tools(trace: &Trace) -> Option<String> {
    let tools: &[ToolSpec] = trace.segments.first().map_or(&[], |segment| &segment.tools);
    (!tools.is_empty()).then(|| harmless(&serde_json::to_string(tools).expect("a tool has string keys")))
}

/// The text without its middle, where it is longer than this many bytes. The mark says how much is missing.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    const MARK_BYTES: usize = 64;
    let half = bytes_max.saturating_sub(MARK_BYTES) / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    let n_missing = tail - head;
    Cow::Owned(format!("{}\n[... {n_missing} bytes left out here ...]\n{}", &text[..head], &text[tail..]))
}

fn line(message: &Message) -> String {
    let line = Line {
        role: message.role,
        name: message.name.as_deref(),
        content: content(&message.content),
        tool_calls: message.tool_calls.iter().map(|call| Call { name: &call.name, arguments: &call.arguments }).collect(),
    };
    harmless(&serde_json::to_string(&line).expect("a line has string keys"))
}

fn content(content: &Content) -> Cow<'_, str> {
    match content {
        Content::None => Cow::Borrowed(""),
        Content::Text(text) => Cow::Borrowed(text),
        Content::Parts(parts) => {
            let part = |part: &Value| match part.get("text").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => format!("[{} not shown]", part.get("type").and_then(Value::as_str).unwrap_or("part")),
            };
            Cow::Owned(parts.iter().map(part).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// JSON in which no text spells a tag of ours, in any case and with any spaces.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        out.push_str(if spells_tag(&from[1..]) { "\\u003c" } else { "<" });
        rest = &from[1..];
    }
    out.push_str(rest);
    out
}

fn spells_tag(after: &str) -> bool {
    let mut name = after;
    // Line breaks and tabs are escaped in JSON already.
    while let Some(rest) = [" ", "/", "\\n", "\\r", "\\t"].iter().find_map(|skipped| name.strip_prefix(skipped)) {
        name = rest;
    }
    TAGS.iter().any(|tag| name.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_spells_a_tag() {
        for (text, is_tag) in [
            ("</trajectory>", true),
            ("<trajectory id=\"x\">", true),
            ("< / TRAJECTORY>", true),
            ("<\n\t/ context>", true),
            ("1 < 2 and <b>", false),
            ("<tracé", false),
        ] {
            let message = Message::text(Role::Assistant, text);
            let line = line(&message);
            assert_eq!(line.contains('<'), !is_tag, "{line}");
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read["content"], text);
        }
    }

    #[test]
    fn a_long_text_loses_its_middle_and_says_so() {
        let text = format!("begin{}end", "é".repeat(1000));
        let short = shortened(&text, 200);
        assert!(short.len() <= 200 && short.starts_with("begin") && short.ends_with("end"), "{short}");
        assert!(short.contains("bytes left out here"), "{short}");
        assert_eq!(shortened("abc", 3), "abc");
    }
}
