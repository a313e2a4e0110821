//! What of an answer may be told while it is still being drawn: what will stand in the message, and nothing that may be cut off it.
//!
//! Held back are stop strings and what may become one, thoughts, white space around what is said, and, where tools are on offer, all of
//! it: what looks like text may turn out to be a call. Of a plain text that goes on nothing but stop strings is held back.

use hone_render::stop::cut;

const THINK_OPEN: &str = "<think>";
const THINK_CLOSE: &str = "</think>";

/// An answer that is coming.
pub(super) struct Telling<'a> {
    stops: &'a [String],
    text: String,
    /// Whether the prompt ends inside a thought.
    is_thinking: bool,
    /// Whether nothing is told before the end.
    is_silent: bool,
    /// Whether it is a plain text that goes on, and no message.
    is_plain: bool,
    /// Where what may be told begins, once that is known.
    start: Option<usize>,
    n_told: usize,
}

impl<'a> Telling<'a> {
    pub(super) fn new(stops: &'a [String], is_thinking: bool, is_silent: bool) -> Self {
        Self { stops, text: String::new(), is_thinking, is_silent, is_plain: false, start: None, n_told: 0 }
    }

    /// A plain text that goes on.
    pub(super) fn plain(stops: &'a [String]) -> Self {
        Self { is_plain: true, start: Some(0), ..Self::new(stops, false, false) }
    }

    /// Takes what a token says, and gives what may be told now; often nothing.
    pub(super) fn push(&mut self, piece: &str) -> &str {
        self.text.push_str(piece);
        if self.is_silent {
            return "";
        }
        self.start = self.start.or_else(|| self.begin());
        let Some(start) = self.start else { return "" };
        let n_held = self.stops.iter().map(|stop| stop.len().saturating_sub(1)).max().unwrap_or(0);
        let end = cut(&self.text, self.stops).len().min(self.text.len().saturating_sub(n_held));
        let sure = &self.text[..self.text.floor_char_boundary(end)];
        let end = if self.is_plain { sure.len() } else { sure.trim_end().len() };
        let from = self.n_told.max(start);
        if end <= from {
            return "";
        }
        self.n_told = end;
        &self.text[from..end]
    }

    /// What was not told yet of what was said in the end.
    pub(super) fn rest<'c>(&self, content: &'c str) -> &'c str {
        let told = self.start.map_or("", |start| &self.text[start..self.n_told.max(start)]);
        content.strip_prefix(told).unwrap_or_default()
    }

    fn begin(&self) -> Option<usize> {
        let said = self.text.trim_start();
        let after = match self.is_thinking || said.starts_with(THINK_OPEN) {
            true => self.text.find(THINK_CLOSE)? + THINK_CLOSE.len(),
            // It may be a thought yet.
            false if THINK_OPEN.starts_with(said) => return None,
            false => 0,
        };
        let begun = self.text[after..].trim_start();
        (!begun.is_empty()).then(|| self.text.len() - begun.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces, parted by `|`, and those that are told after each; then what is left of the content.
    fn check(is_thinking: bool, stops: &[&str], pieces: &str, told: &str, content: &str, rest: &str) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut telling = Telling::new(&stops, is_thinking, false);
        let found: Vec<String> = pieces.split('|').map(|piece| telling.push(piece).to_owned()).collect();
        assert_eq!(found.join("|"), told, "{pieces}");
        assert_eq!(telling.rest(content), rest, "{pieces}");
    }

    #[test]
    fn what_stands_in_the_message_is_told_as_soon_as_it_is_sure() {
        check(false, &[], "It| is| so.", "It| is| so.", "It is so.", "");
        check(false, &[], "  |It |is| ", "|It| is|", "It is", "");
        check(false, &["\n\n"], "It is|\n|so|\n\n|more", "It i|s|\ns|o|", "It is\nso", "");
        check(false, &[], "caf|\u{e9}", "caf|\u{e9}", "caf\u{e9}", "");
    }

    #[test]
    fn of_a_plain_text_only_stop_strings_are_held_back() {
        let stops = ["\n\n".to_owned()];
        let mut telling = Telling::plain(&stops);
        let told: Vec<String> = [" <think>", " so ", "\n\nmore"].iter().map(|piece| telling.push(piece).to_owned()).collect();
        assert_eq!((told.concat().as_str(), telling.rest(" <think> so ")), (" <think> so ", ""));
    }

    #[test]
    fn thoughts_are_not_told() {
        check(false, &[], "<thi|nk>so|</think>|\n\n|yes", "||||yes", "yes", "");
        check(false, &[], "<|b>", "|<b>", "<b>", "");
        check(true, &[], "so|</think>\n|yes", "||yes", "yes", "");
        check(false, &[], "<think>for ever", "", "", "");
    }

    #[test]
    fn with_tools_on_offer_all_of_it_waits() {
        let mut telling = Telling::new(&[], false, true);
        assert_eq!(telling.push("{\"name\":"), "");
        assert_eq!(telling.rest("said besides"), "said besides");
    }
}
