//! No text panics or hangs: arbitrary bytes, and valid documents with damage.

use crate::traces;
use hone_trace::format::{Format, Origin, Reader, write};
use proptest::prelude::*;

/// Reads the line in every format and writes whatever came of it in every format.
fn survives(line: &str) {
    let _ = Format::detect(line);
    for format in Format::ALL {
        let Ok(imported) = Reader::new(format, Origin::default()).line(line) else { continue };
        for trace in &imported.traces {
            trace.check().unwrap();
            for other in Format::ALL {
                let written = write(trace, other);
                assert!(other != format || Reader::new(format, Origin::default()).line(&written).is_ok(), "{line}\n{written}");
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_text_is_survived(bytes: Vec<u8>, text in "\\PC{0,60}") {
        survives(&String::from_utf8_lossy(&bytes));
        survives(&text);
    }

    #[test]
    fn damage_is_survived(
        trace in traces::trace(),
        at: prop::sample::Index,
        byte: u8,
        len in 0_usize..20,
        piece in prop::sample::select(vec!["", "null", "[]", "{}", "\"\"", "-0", "1e999", "18446744073709551616", "[[[[[[[[", "\\u0000", ",", "}"]),
    ) {
        for format in Format::ALL {
            let mut bytes = write(&trace, format).into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            survives(&String::from_utf8_lossy(&bytes));
            let end = (at + len).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
            survives(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn hostile_lines_are_answered_in_time() {
    let deep = "[".repeat(1_000_000);
    let messages = r#"{"role":"assistant","content":"x"},"#.repeat(100_001);
    let spans = r#"{"traceId":"1","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}]},"#.repeat(5_000);
    let keys: String = (0..10_000)
        .map(|n| format!(r#"{{"key":"llm.input_messages.{n}.message.role","value":{{"stringValue":"user"}}}},"#))
        .collect();
    let kind = r#"{"key":"openinference.span.kind","value":{"stringValue":"LLM"}}"#;
    // Many calls without messages and then many with one, and many scopes under one large resource.
    let parts = r#"{"traceId":"1","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.system_instructions","value":{"stringValue":"[]"}}]},"#.repeat(5_000);
    let scopes = r#"{"spans":[{"traceId":"1","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}]}],"name":"a"},{"spans":[{"traceId":"1"}]},"#.repeat(3_000);
    let large = "x".repeat(1_000_000);
    for line in [
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}{}]}}]}}]}}"#, parts.trim_end_matches(',')),
        format!(r#"{{"resourceSpans":[{{"resource":{{"x":"{large}"}},"scopeSpans":[{}]}}]}}"#, scopes.trim_end_matches(',')),
        deep.clone(),
        format!(r#"{{"messages":{deep}"#),
        format!(r#"{{"messages":[{}]}}"#, messages.trim_end_matches(',')),
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#, spans.trim_end_matches(',')),
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"1","attributes":[{keys}{kind}]}}]}}]}}]}}"#),
    ] {
        survives(&line);
    }
    let long = Reader::new(Format::Openai, Origin::default()).line(&messages_line(&messages)).unwrap_err();
    assert_eq!(long.to_string().split(" (").next().unwrap(), "messages: the list has more than 100000 entries");
}

fn messages_line(messages: &str) -> String {
    format!(r#"{{"messages":[{}]}}"#, messages.trim_end_matches(','))
}
