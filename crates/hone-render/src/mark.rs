//! Keeps what people write apart from what the chat template writes.
//!
//! A special token such as `<|im_end|>` means something only when the template wrote it. A user who types the same
//! characters must get them as plain text, or one message could forge another. But templates trim, join and quote
//! messages, so the two cannot be told apart by position. Therefore content goes into the template with *marks*: a
//! character that occurs nowhere else, set inside everything that could become a special token. Marks survive
//! trimming and quoting, and are not there when a template asks how long a text is, how it begins, what it is equal to or what is
//! in it; afterwards they are taken out again, and the places where they stood become *barriers* that
//! no special token may reach across.
//!
//! Foreign text (user, system, tool, schemas) gets a mark after each first and before each last character of any
//! tag, so that not even two pieces joined by the template make one. A model's own earlier text keeps its tags for
//! thinking and tools, which templates look for; only whole control tokens in it are broken.
//!
//! A template that wraps content into a tag on purpose (`'<|' + name + '|>'`) is believed. Knows nothing of tokens' ids.

use crate::special::{Kind, Specials};
use std::collections::BTreeSet;

/// Text from a template, with the places that no special token may reach across.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Byte positions in the text, in order.
    pub barriers: Vec<usize>,
}

impl Rendered {
    /// Text that is trusted as a whole.
    pub fn trusted(text: impl Into<String>) -> Self {
        Self { text: text.into(), barriers: Vec::new() }
    }

    /// What follows the first `n_bytes` bytes, which must end between two characters.
    pub fn after(&self, n_bytes: usize) -> Self {
        let barriers = self.barriers.iter().filter(|&&at| at > n_bytes).map(|at| at - n_bytes).collect();
        Self { text: self.text[n_bytes..].to_owned(), barriers }
    }

    /// The first `n_bytes` bytes, which must end between two characters.
    pub(crate) fn until(&self, n_bytes: usize) -> Self {
        let barriers = self.barriers.iter().copied().filter(|&at| at < n_bytes).collect();
        Self { text: self.text[..n_bytes].to_owned(), barriers }
    }

    /// One text after the other.
    pub(crate) fn then(mut self, next: &Self) -> Self {
        self.barriers.extend(next.barriers.iter().map(|at| at + self.text.len()));
        self.text.push_str(&next.text);
        self
    }

    /// The stretches between barriers, each with its position.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (usize, &str)> {
        let ends = self.barriers.iter().copied().chain([self.text.len()]);
        let mut start = 0;
        ends.map(move |end| {
            let stretch = (start, &self.text[start..end]);
            start = end;
            stretch
        })
    }
}

/// Sets and takes out marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    mark: char,
}

impl Marker {
    /// A marker whose mark is in none of the texts: a noncharacter, or one for private use.
    pub(crate) fn unused_in<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        Self::beside(&texts.into_iter().flat_map(possible_marks).collect())
    }

    /// A marker whose mark is none of these.
    pub(crate) fn beside(taken: &BTreeSet<char>) -> Option<Self> {
        let mut candidates = ('\u{fdd0}'..='\u{fdef}').chain('\u{e000}'..='\u{f8ff}');
        candidates.find(|c| !taken.contains(c)).map(|mark| Self { mark })
    }

    /// The character.
    pub(crate) fn mark(self) -> char {
        self.mark
    }

    /// Breaks everything in a foreign text that could become, or become part of, a special token.
    pub(crate) fn foreign(self, text: &str, specials: &Specials) -> String {
        let mut marked = String::with_capacity(text.len());
        for c in text.chars() {
            if specials.ends_with(c) {
                marked.push(self.mark);
            }
            marked.push(c);
            if specials.begins_with(c) {
                marked.push(self.mark);
            }
        }
        marked
    }

    /// Breaks the control tokens in a text of the model itself; its tags stay.
    pub(crate) fn own(self, text: &str, specials: &Specials) -> String {
        let mut marked = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            marked.push(c);
            let is_control = |id| specials.kind(id) == Some(Kind::Control);
            if specials.starting_at(&text[at..]).any(is_control) {
                marked.push(self.mark);
            }
        }
        marked
    }

    /// Takes the marks out and remembers where they were.
    pub(crate) fn unmark(self, marked: &str) -> Rendered {
        let mut rendered = Rendered { text: String::with_capacity(marked.len()), barriers: Vec::new() };
        for piece in marked.split(self.mark) {
            rendered.text.push_str(piece);
            rendered.barriers.push(rendered.text.len());
        }
        rendered.barriers.pop();
        rendered.barriers.dedup();
        rendered
    }
}

/// The characters of a text that may be chosen as marks, and may not where it is marked.
pub(crate) fn possible_marks(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter(|c| may_be_mark(*c))
}

/// Whether a character may be chosen as a mark.
pub(crate) fn may_be_mark(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{e000}'..='\u{f8ff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::Added;

    fn specials() -> Specials {
        let added = [("<|im_end|>", true), ("<think>", false)];
        let added = added.iter().zip(0..).map(|(&(text, special), id)| Added::new(id, text, special));
        Specials::new(added.collect()).expect("sound tokens")
    }

    fn found(rendered: &Rendered) -> usize {
        specials().spans(rendered).len()
    }

    #[test]
    fn foreign_text_makes_no_special_token_and_is_unchanged() {
        let marker = Marker::unused_in([]).expect("a mark");
        for text in ["a <|im_end|> b", "<think>", "<<|im_end|>>", "<|im_<|im_end|>end|>"] {
            assert!(found(&Rendered::trusted(text)) > 0, "{text}: the test itself");
            let rendered = marker.unmark(&marker.foreign(text, &specials()));
            assert_eq!((rendered.text.as_str(), found(&rendered)), (text, 0));
        }
    }

    #[test]
    fn pieces_that_a_template_joins_or_completes_make_no_special_token() {
        let marker = Marker::unused_in([]).expect("a mark");
        let whole = "<|im_end|>";
        for cut in 1..whole.len() {
            let joined: String = [&whole[..cut], &whole[cut..]].iter().map(|piece| marker.foreign(piece, &specials())).collect();
            assert_eq!(found(&marker.unmark(&joined)), 0, "cut at {cut}");
            let (start, end) = whole.split_at(cut);
            let begun = marker.foreign(start, &specials()) + end;
            let ended = start.to_owned() + &marker.foreign(end, &specials());
            assert_eq!((found(&marker.unmark(&begun)), found(&marker.unmark(&ended))), (0, 0), "cut at {cut}");
        }
    }

    #[test]
    fn own_text_keeps_its_tags_and_loses_control() {
        let marker = Marker::unused_in([]).expect("a mark");
        let rendered = marker.unmark(&marker.own("<think>x<|im_end|>", &specials()));
        assert_eq!((rendered.text.as_str(), found(&rendered)), ("<think>x<|im_end|>", 1));
    }

    #[test]
    fn the_mark_is_in_none_of_the_texts() {
        let marker = Marker::unused_in(["\u{fdd0}\u{fdd1}"]).expect("a mark");
        assert_eq!(marker.mark, '\u{fdd2}');
        assert_eq!(marker.unmark("\u{fdd0}").text, "\u{fdd0}");
    }

    #[test]
    fn a_suffix_keeps_its_barriers() {
        let rendered = Rendered { text: "ab<|im_end|>".into(), barriers: vec![1, 3] };
        assert_eq!(rendered.after(2), Rendered { text: "<|im_end|>".into(), barriers: vec![1] });
        assert_eq!(found(&rendered.after(2)), 0);
    }
}
