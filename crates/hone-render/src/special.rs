//! The tokens that stand beside the ordinary vocabulary: control tokens, tags, and plain text that somebody added.
//!
//! They are cut out of a text before anything else looks at it, leftmost first, the longest of those. Plain text that asks for
//! it is looked for afterwards, in the normalised form of what is left. Control tokens and tags are looked for in the text as it
//! came only, unlike in the library behind us: nothing may become one on the way.
//! Knows nothing of who wrote the text: see `mark.rs`.

use crate::error::RenderError;
use crate::mark::Rendered;
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most added tokens; models have a few thousand at most.
const ADDED_MAX: usize = 1 << 14;
/// Most bytes of one, as the automaton that finds them has a table for each.
const ADDED_LEN_MAX: usize = 512;

/// What an added token is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Frames the conversation, such as `<|im_end|>`.
    Control,
    /// Has a meaning inside a message, such as `<think>`.
    Tag,
    /// Ordinary text, such as a run of spaces: anybody may write it.
    Text,
}

/// One added token.
#[derive(Debug, Clone)]
pub(crate) struct Added {
    pub(crate) id: u32,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    takes_space_before: bool,
    takes_space_after: bool,
    only_whole_words: bool,
    in_normal_form: bool,
}

impl Added {
    pub(crate) fn new(id: u32, text: &str, special: bool) -> Self {
        let looks_like_tag = text.len() > 2 && text.starts_with(['<', '[']) && text.ends_with(['>', ']']);
        let kind = match (special, looks_like_tag) {
            (true, _) => Kind::Control,
            (false, true) => Kind::Tag,
            (false, false) => Kind::Text,
        };
        let text = text.to_owned();
        let (takes_space_before, takes_space_after, only_whole_words, in_normal_form) = (false, false, false, false);
        Self { id, text, kind, takes_space_before, takes_space_after, only_whole_words, in_normal_form }
    }

    /// Reads an entry of `added_tokens`.
    pub(crate) fn from_json(json: &Json) -> Result<Self, RenderError> {
        let id = json.get("id").and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
        let text = json.get("content").and_then(Json::as_str);
        let (Some(id), Some(text)) = (id, text) else {
            return Err(RenderError::tokenizer(format!("an entry of `added_tokens` has no `id` and `content`: {json}")));
        };
        let flag = |name: &str| json.get(name).and_then(Json::as_bool).unwrap_or(false);
        Ok(Self {
            takes_space_before: flag("lstrip"),
            takes_space_after: flag("rstrip"),
            only_whole_words: flag("single_word"),
            in_normal_form: flag("normalized"),
            ..Self::new(id, text, flag("special"))
        })
    }

    /// Whether it is looked for in the normalised form of a text.
    fn is_late(&self) -> bool {
        self.in_normal_form && self.kind == Kind::Text
    }
}

/// All added tokens of a vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct Specials {
    added: Vec<Added>,
    by_id: BTreeMap<u32, usize>,
    everything: Finder,
    text_only: Finder,
    /// For the normalised form of a text.
    late: Finder,
    first_chars: Vec<char>,
    last_chars: Vec<char>,
}

/// Finds some of the added tokens.
#[derive(Debug, Clone)]
struct Finder {
    automaton: AhoCorasick,
    /// Positions in `added`, in the order of the automaton.
    places: Vec<usize>,
}

impl Finder {
    fn new(added: &[Added], wanted: impl Fn(&Added) -> bool, form: impl Fn(&str) -> String) -> Result<Self, RenderError> {
        let forms = added.iter().enumerate().filter(|(_, token)| wanted(token)).map(|(at, token)| (at, form(&token.text)));
        let (places, forms): (Vec<usize>, Vec<String>) = forms.filter(|(_, form)| !form.is_empty()).unzip();
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms);
        let automaton = built.map_err(|error| RenderError::tokenizer(format!("`added_tokens`: {error}")))?;
        Ok(Self { automaton, places })
    }

    fn find<'a>(&'a self, added: &'a [Added], text: &'a str) -> impl Iterator<Item = (Range<usize>, &'a Added)> {
        self.automaton.find_iter(text).map(|found| (found.range(), &added[self.places[found.pattern().as_usize()]]))
    }
}

impl Specials {
    #[cfg(test)]
    pub(crate) fn new(added: Vec<Added>) -> Result<Self, RenderError> {
        Self::with_forms(added, str::to_owned)
    }

    /// All tokens of a vocabulary, and what its normalizer makes of a text.
    pub(crate) fn with_forms(added: Vec<Added>, normalize: impl Fn(&str) -> String) -> Result<Self, RenderError> {
        let added: Vec<Added> = added.into_iter().filter(|token| !token.text.is_empty()).collect();
        if added.len() > ADDED_MAX {
            return Err(RenderError::tokenizer(format!("it has {} added tokens, at most {ADDED_MAX} are read", added.len())));
        }
        if let Some(token) = added.iter().find(|token| token.text.len() > ADDED_LEN_MAX) {
            return Err(RenderError::tokenizer(format!("the added token {} is longer than {ADDED_LEN_MAX} bytes", token.id)));
        }
        let (mut first_chars, mut last_chars) = (Vec::new(), Vec::new());
        for token in added.iter().filter(|token| token.kind != Kind::Text) {
            let mut chars = token.text.chars();
            let (Some(first), Some(last)) = (chars.next(), chars.next_back()) else {
                let what = format!("the special token {} is the single character `{}`", token.id, token.text);
                return Err(RenderError::tokenizer(format!("{what}, which any text may contain")));
            };
            first_chars.push(first);
            last_chars.push(last);
        }
        for chars in [&mut first_chars, &mut last_chars] {
            chars.sort_unstable();
            chars.dedup();
        }
        let everything = Finder::new(&added, |token| !token.is_late(), str::to_owned)?;
        let text_only = Finder::new(&added, |token| token.kind == Kind::Text && !token.is_late(), str::to_owned)?;
        let late = Finder::new(&added, Added::is_late, normalize)?;
        let by_id = added.iter().enumerate().map(|(at, token)| (token.id, at)).collect();
        Ok(Self { added, by_id, everything, text_only, late, first_chars, last_chars })
    }

    pub(crate) fn kind(&self, id: u32) -> Option<Kind> {
        self.by_id.get(&id).map(|&at| self.added[at].kind)
    }

    pub(crate) fn id_of(&self, text: &str) -> Option<u32> {
        self.added.iter().find(|token| token.text == text).map(|token| token.id)
    }

    /// Whether a control token or tag begins with this character.
    pub(crate) fn begins_with(&self, c: char) -> bool {
        self.first_chars.binary_search(&c).is_ok()
    }

    /// Whether a control token or tag ends with this character.
    pub(crate) fn ends_with(&self, c: char) -> bool {
        self.last_chars.binary_search(&c).is_ok()
    }

    /// The added tokens that a text starts with.
    pub(crate) fn starting_at<'a>(&'a self, text: &'a str) -> impl Iterator<Item = u32> + 'a {
        let worth_a_look = text.starts_with(|c| self.begins_with(c));
        let candidates = self.added.iter().filter(move |_| worth_a_look);
        candidates.filter(|token| text.starts_with(&token.text)).map(|token| token.id)
    }

    /// Where added tokens of every kind are, in order and without overlap, none across a barrier.
    pub(crate) fn spans(&self, rendered: &Rendered) -> Vec<(Range<usize>, u32)> {
        let mut spans = Vec::new();
        for (start, stretch) in rendered.stretches() {
            let found = self.everything.find(&self.added, stretch);
            spans.extend(found.map(|(range, token)| (start + range.start..start + range.end, token)));
        }
        settle(&rendered.text, spans)
    }

    /// Where added tokens of kind `Text` are that are looked for in the text as it came.
    pub(crate) fn text_spans(&self, text: &str) -> Vec<(Range<usize>, u32)> {
        settle(text, self.text_only.find(&self.added, text).collect())
    }

    /// Where the added tokens are that are looked for in the normalised form of a text.
    pub(crate) fn late_spans(&self, normalized: &str) -> Vec<(Range<usize>, u32)> {
        settle(normalized, self.late.find(&self.added, normalized).collect())
    }
}

/// Drops matches inside words and gives neighbouring space to the tokens that take it.
fn settle(text: &str, found: Vec<(Range<usize>, &Added)>) -> Vec<(Range<usize>, u32)> {
    let mut spans: Vec<(Range<usize>, u32)> = Vec::with_capacity(found.len());
    for (mut range, token) in found {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if token.only_whole_words && (text[..range.start].ends_with(is_word) || text[range.end..].starts_with(is_word)) {
            continue;
        }
        let taken = spans.last().map_or(0, |(last, _)| last.end);
        // Space that the token before has taken may reach into this one only when it is space itself.
        range.start = range.start.max(taken);
        if range.is_empty() {
            continue;
        }
        if token.takes_space_before {
            range.start = taken + text[taken..range.start].trim_end().len();
        }
        if token.takes_space_after {
            range.end = text.len() - text[range.end..].trim_start().len();
        }
        spans.push((range, token.id));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: &str, text: &str, expected: &[&str]) {
        let json = format!(r#"{{"id":7,"content":"<x>","special":true{flags}}}"#);
        let token = Added::from_json(&serde_json::from_str(&json).expect("test JSON")).expect("an entry");
        let specials = Specials::new(vec![token]).expect("a token");
        let spans = specials.spans(&Rendered::trusted(text));
        assert_eq!(spans.iter().map(|(range, _)| &text[range.clone()]).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn flags_are_kept() {
        check("", "a <x> b<x>", &["<x>", "<x>"]);
        check(r#","lstrip":true"#, "a  <x> b", &["  <x>"]);
        check(r#","rstrip":true"#, "a <x> \n <x>b", &["<x> \n ", "<x>"]);
        check(r#","single_word":true"#, "a<x> <x> <x>b", &["<x>"]);
    }

    #[test]
    fn the_longest_wins() {
        let specials = Specials::new(vec![Added::new(0, "<a", true), Added::new(1, "<a>", true)]).expect("tokens");
        assert_eq!(specials.spans(&Rendered::trusted("<a><a"))[0].1, 1);
        assert_eq!(specials.spans(&Rendered::trusted("<a><a"))[1].1, 0);
    }

    #[test]
    fn runs_of_spaces_are_text_and_single_characters_are_refused() {
        let specials = Specials::new(vec![Added::new(0, "  ", false), Added::new(1, "<t>", false)]).expect("tokens");
        assert_eq!(specials.text_spans("a  b<t>"), vec![(1..3, 0)]);
        assert!(Specials::new(vec![Added::new(0, "<", true)]).is_err());
    }

    #[test]
    fn tokens_without_measure_are_refused() {
        let check = |n_tokens: u32, text: &str, says: &str| {
            let added = (0..n_tokens).map(|id| Added::new(id, text, true)).collect();
            let error = Specials::new(added).expect_err("must be refused").to_string();
            assert!(error.contains(says), "{error}");
        };
        check(1, &"x".repeat(ADDED_LEN_MAX + 1), "longer than");
        check(ADDED_MAX as u32 + 1, "<x>", "at most");
    }
}
