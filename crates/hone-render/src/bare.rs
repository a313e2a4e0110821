//! A marked text as a template may look at it: without its marks, and with the way back to them.
//!
//! A template that searches a text must find what people wrote in it, for which see `mark.rs`. What it cuts out has the marks on both
//! sides of every character. What it puts in the place of something is marked all over: nobody writes a special token by writing what
//! a template would replace by one. Knows nothing of templates.

use std::ops::Range;

/// A text without its marks.
pub(crate) struct Bare<'t> {
    marked: &'t str,
    mark: char,
    text: String,
    /// Where each character begins, without marks and with them.
    starts: Vec<(usize, usize)>,
}

impl<'t> Bare<'t> {
    /// Nothing where a text has no marks.
    pub(crate) fn of(marked: &'t str, mark: Option<char>) -> Option<Self> {
        let mark = mark.filter(|mark| marked.contains(*mark))?;
        let (mut text, mut starts) = (String::with_capacity(marked.len()), Vec::new());
        for (at, c) in marked.char_indices().filter(|(_, c)| *c != mark) {
            starts.push((text.len(), at));
            text.push(c);
        }
        Some(Self { marked, mark, text, starts })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn n_chars(&self) -> usize {
        self.starts.len()
    }

    /// A character with its marks.
    pub(crate) fn character(&self, idx: usize) -> &'t str {
        let end = self.starts.get(idx + 1).map_or(self.text.len(), |next| next.0);
        self.cut(self.starts[idx].0..end)
    }

    /// A stretch of the text, with the marks in it and on both of its sides.
    fn cut(&self, range: Range<usize>) -> &'t str {
        if range.is_empty() {
            return "";
        }
        let (start, end) = (self.marked_at(range.start), self.marked_at(range.end));
        let n_before = if self.marked[..start].ends_with(self.mark) { self.mark.len_utf8() } else { 0 };
        &self.marked[start - n_before..end]
    }

    fn marked_at(&self, at: usize) -> usize {
        self.starts.binary_search_by_key(&at, |start| start.0).map_or(self.marked.len(), |idx| self.starts[idx].1)
    }

    /// Pieces of the text in their order, with their marks. So many bytes lie between two of them, or else nothing that could be taken for
    /// the next one.
    pub(crate) fn pieces(&self, pieces: &[&str], n_between: Option<usize>) -> Vec<&'t str> {
        let mut at = 0;
        let mut place = |piece: &str| {
            let start = at + n_between.map_or_else(|| self.text[at..].find(piece).unwrap_or(0), |_| 0);
            let end = start + piece.len();
            at = end + n_between.unwrap_or(0);
            self.cut(start..end)
        };
        pieces.iter().map(|piece| place(piece)).collect()
    }

    /// The text with something in the place of something else, so many times at the most.
    pub(crate) fn replaced(&self, old: &str, new: &str, n_max: usize) -> String {
        let mut barred = String::new();
        for c in new.chars().filter(|c| *c != self.mark) {
            barred.extend([self.mark, c]);
        }
        if !barred.is_empty() {
            barred.push(self.mark);
        }
        let (mut replaced, mut at) = (String::with_capacity(self.marked.len()), 0);
        for (found, _) in self.text.match_indices(old).take(n_max) {
            replaced.extend([self.cut(at..found), &barred]);
            at = found + old.len();
        }
        replaced + self.cut(at..self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::mark::Marker;
    use crate::special::{Added, Specials};
    use crate::template::{Scene, Template};
    use serde_json::json;

    const TEXT: &str = "one</t>two</t>\n <|end|> ";

    /// What a template makes of the text, and how many special tokens are in that.
    fn rendered(source: &str) -> (String, usize) {
        let added = [("</t>", false), ("<|end|>", true)].into_iter().zip(0..);
        let specials = Specials::new(added.map(|((text, special), id)| Added::new(id, text, special)).collect()).unwrap();
        let marker = Marker::unused_in([]).unwrap();
        let content = marker.foreign(TEXT, &specials);
        let (messages, mark) = (vec![json!({"role": "user", "content": content})], Some(marker.mark()));
        let scene = Scene { messages, mark, ..Scene::default() };
        let source = format!("{{% set c = messages[0].content %}}{source}");
        let rendered = marker.unmark(&Template::new(&source).unwrap().render(&scene).unwrap());
        let n_specials = specials.spans(&rendered).len();
        (rendered.text, n_specials)
    }

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(rendered(source), (expected.to_owned(), 0), "{source}");
    }

    #[test]
    fn a_template_finds_what_people_wrote() {
        check("{{ c.find('</t>') }} {{ c.rfind('</t>') }} {{ c.count('</t>') }} {{ c.find('<t>') }}", "3 10 2 -1");
        check("{{ c[:c.find('</t>')] }}|{{ c[c.rfind('</t>') + 4:].strip() }}", "one|<|end|>");
        check(
            "{{ c.split('</t>') | length }}{{ c.split('</t>')[1] }}{{ c.split('</t>', 1)[1].strip() }}",
            "3twotwo</t>\n <|end|>",
        );
        check("{{ (c | split('</t>'))[0] }}{{ c.split()[1] }}", "one<|end|>");
        check("{{ c.splitlines()[1].strip() }} {{ (c | lines)[1] | trim }}", "<|end|> <|end|>");
        check("{{ c.strip(' >|dne<') }}{{ 'x' }}{{ (c | trim(' >|dne<')) }}", "one</t>two</t>\nxone</t>two</t>\n");
        check("{{ c.strip() }}", TEXT.trim());
    }

    #[test]
    fn what_replaces_something_that_people_wrote_is_no_special_token() {
        check("{{ c.replace('</t>', '|') }}", "one|two|\n <|end|> ");
        check("{{ c | replace('</t>', '', 1) }}", "onetwo</t>\n <|end|> ");
        check("{{ c.replace('</t>', '<|end|>').strip() }}", "one<|end|>two<|end|>\n <|end|>");
        check("{{ c.replace('</t>two</t>\\n <|end|> ', '<|e') ~ 'nd|>' }}", "one<|end|>");
        // What a template writes itself is its own affair.
        assert_eq!(rendered("{{ c.split('</t>')[0] }}<|end|>"), ("one<|end|>".to_owned(), 1));
    }
}
