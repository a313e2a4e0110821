//! Reading one move from an answer in words, for games.
//!
//! The last complete `<move>…</move>` decides, and holds nothing but the move. Without one, the last word that is a move
//! decides, so that a policy may think aloud first. Words are runs of ASCII letters and digits; case does not matter.
//! Knows nothing of any game.

use hone_trace::{Content, Message};
use std::borrow::Cow;

const OPEN: &str = "<move>";
const CLOSE: &str = "</move>";

/// The move that an answer names, as `read` understands a single word. `None` when there is none.
pub(crate) fn last_move<T>(action: &Message, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = match &action.content {
        Content::Text(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.text()),
    };
    // Most answers are the bare word.
    if let Some(found) = read(&text) {
        return Some(found);
    }
    if let Some((before, _)) = text.rsplit_once(CLOSE)
        && let Some((_, inside)) = before.rsplit_once(OPEN)
    {
        return read(inside.trim());
    }
    text.rsplit(|c: char| !c.is_ascii_alphanumeric()).find_map(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_decides_before_the_last_word() {
        let read = |word: &str| word.eq_ignore_ascii_case("up").then_some("up").or((word == "left").then_some("left"));
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(last_move(&crate::said(text), read), expected, "{text}");
        };
        check("up", Some("up"));
        check(" UP.\n", Some("up"));
        check("Up or left? I say **left**!", Some("left"));
        check("<move>left</move> and not up", Some("left"));
        check("<move>left</move> no, <move> up </move>", Some("up"));
        check("<move>up, then left</move>", None);
        check("<move>up", Some("up"));
        check("</move>up<move>", Some("up"));
        check("upleft", None);
        check("", None);
    }
}
