//! One file of code, parsed.

use super::{
    DiffError, Language, STEPS_MAX, TEXT_LEN_MAX,
    tree::{Reuse, Tree},
};
use std::ops::{ControlFlow, Range};
use tree_sitter::{InputEdit, ParseOptions, Parser, Point};

/// The text of one file with its tree. Parse it once and compare it as often as needed.
#[derive(Debug, Clone)]
pub struct Source {
    language: Language,
    text: String,
    parsed: tree_sitter::Tree,
    pub(super) tree: Tree,
}

impl Source {
    /// Parses a file. Text that is not in the language still gives a tree; `n_syntax_errors` says how much was not understood.
    pub fn parse(language: Language, text: impl Into<String>) -> Result<Self, DiffError> {
        let text = text.into();
        let parsed = parse(language, &text, None)?;
        let tree = Tree::build(&parsed, &text, language, None)?;
        Ok(Self { language, text, parsed, tree })
    }

    /// Parses a later version of this file. What lies outside the part that changed is taken over instead of parsed again;
    /// the result is the same as that of [`Source::parse`].
    pub fn edited(&self, text: impl Into<String>) -> Result<Self, DiffError> {
        let text = text.into();
        check_len(&text)?;
        let (old, new) = changed_parts(self.text.as_bytes(), text.as_bytes());
        let mut earlier = self.parsed.clone();
        earlier.edit(&InputEdit {
            start_byte: old.start,
            old_end_byte: old.end,
            new_end_byte: new.end,
            start_position: point(&self.text, old.start),
            old_end_position: point(&self.text, old.end),
            new_end_position: point(&text, new.end),
        });
        let parsed = parse(self.language, &text, Some(&earlier))?;
        let dirty = earlier
            .changed_ranges(&parsed)
            .fold(new.clone(), |dirty, range| dirty.start.min(range.start_byte)..dirty.end.max(range.end_byte));
        let reuse = Reuse { tree: &self.tree, dirty, shift: text.len() as isize - self.text.len() as isize };
        let tree = Tree::build(&parsed, &text, self.language, Some(&reuse))?;
        Ok(Self { language: self.language, text, parsed, tree })
    }

    /// The language.
    pub fn language(&self) -> Language {
        self.language
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Nodes that count: comments, layout and punctuation are none.
    pub fn n_nodes(&self) -> usize {
        self.tree.nodes.len()
    }

    /// Places that the parser did not understand.
    pub fn n_syntax_errors(&self) -> usize {
        self.tree.n_errors
    }

    pub(super) fn text_of(&self, idx: u32) -> &str {
        let node = self.tree.at(idx);
        self.text.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// The first few kilobytes of a node: enough to know what it is, and never a whole file for each of many nodes.
    pub(super) fn head_of(&self, idx: u32) -> &str {
        let text = self.text_of(idx);
        &text[..text.floor_char_boundary(4096)]
    }

    /// First and last line of a node, counted from 1.
    pub(super) fn lines_of(&self, idx: u32) -> (usize, usize) {
        let node = self.tree.at(idx);
        let line = |at: u32| 1 + self.text.as_bytes()[..at as usize].iter().filter(|&&byte| byte == b'\n').count();
        (line(node.start), line(node.end.max(node.start + 1) - 1))
    }
}

fn parse(language: Language, text: &str, earlier: Option<&tree_sitter::Tree>) -> Result<tree_sitter::Tree, DiffError> {
    check_len(text)?;
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).map_err(|_| DiffError::Grammar(language.name()))?;
    let mut n_steps = 0;
    let mut count = |_: &tree_sitter::ParseState| {
        n_steps += 1;
        if n_steps > STEPS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut count);
    let read = |at: usize, _: Point| text.as_bytes().get(at..).unwrap_or_default();
    parser.parse_with_options(&mut { read }, earlier, Some(options)).ok_or(DiffError::TooManySteps)
}

fn check_len(text: &str) -> Result<(), DiffError> {
    if text.len() > TEXT_LEN_MAX { Err(DiffError::TooLong { n_bytes: text.len() }) } else { Ok(()) }
}

/// What remains of both texts without what they begin and end with alike.
fn changed_parts(old: &[u8], new: &[u8]) -> (Range<usize>, Range<usize>) {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let behind = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(|(a, b)| a == b).count();
    (before..old.len() - behind, before..new.len() - behind)
}

fn point(text: &str, at: usize) -> Point {
    let before = &text.as_bytes()[..at];
    let row = before.iter().filter(|&&byte| byte == b'\n').count();
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count();
    Point { row, column }
}
