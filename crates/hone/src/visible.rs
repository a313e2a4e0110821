//! Text from traces and files, made safe for a terminal: control characters are shown, never obeyed.
//!
//! A trace holds what a model or a web page wrote. Printed as it is, it could move the cursor, recolour the screen,
//! set the title or reorder a line; so escape sequences, C1 controls and bidirectional overrides become `\u{…}`.

use std::borrow::Cow;
use std::fmt::Write;

/// The text on one line: line breaks and tabs are escaped as well.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// The text on as many lines as it has.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && c != '\t' && is_unsafe(c))
}

/// JSON in which even the controls that JSON allows inside a string are escaped. They stand nowhere else.
pub(crate) fn json(text: String) -> String {
    if !text.contains(is_unsafe) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            // All of them lie in the basic plane, so that one escape says it.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

fn escape(text: &str, hit: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hit) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !hit(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{061c}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_are_shown() {
        for (text, on_a_line, in_a_block) in [
            ("plain – text", "plain – text", "plain – text"),
            ("\u{1b}[31mred", "\\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\r\nb\tc", "a\\r\\nb\\tc", "a\\r\nb\tc"),
            ("\u{9b}2J", "\\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b", "a\\u{202e}b"),
            ("\u{7}", "\\u{7}", "\\u{7}"),
        ] {
            assert_eq!(line(text), on_a_line);
            assert_eq!(block(text), in_a_block);
        }
    }

    proptest! {
        #[test]
        fn escaped_json_says_the_same(text in any::<String>()) {
            let escaped = json(serde_json::to_string(&text).unwrap());
            prop_assert!(!escaped.contains(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }
}
