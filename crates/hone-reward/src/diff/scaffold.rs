//! Scaffolding: what a change brings in to pass without solving.
//!
//! Each detector looks at one version of the file and lists the nodes that have its smell. A finding is a node of the code after
//! whose counterpart before did not have it. Deleted checks and edited tests are read from the matching itself.

mod check;
mod dead;
mod hard_coded;
mod swallowed;
mod test;

use super::{Asked, Source, language::Role, matching::Matching};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Findings kept for one change.
const FINDINGS_MAX: usize = 64;

/// Nodes of a literal, and of a condition, that are looked at.
const LITERAL_SIZE_MAX: usize = 4096;

/// One piece of scaffolding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Which version of the file the lines are from.
    pub side: Side,
    /// First line, counted from 1.
    pub line_first: usize,
    /// Last line.
    pub line_last: usize,
    /// What it is.
    pub kind: FindingKind,
    /// The kind of the node, in the words of the grammar.
    pub node: String,
}

/// A version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The code before.
    Before,
    /// The code after.
    After,
}

impl Side {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// What kind of scaffolding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A test was changed, switched off or removed.
    TestEdited,
    /// An assertion or a guard that raises an error is gone, or can no longer fail.
    CheckRemoved,
    /// A literal answer for a literal input.
    HardCoded,
    /// An error is caught or dropped without a word.
    ErrorSwallowed,
    /// Code that never runs.
    DeadCode,
}

impl FindingKind {
    /// What happened, in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::TestEdited => "a test was edited",
            Self::CheckRemoved => "a check was removed",
            Self::HardCoded => "a value is hard-coded to an input",
            Self::ErrorSwallowed => "an error is swallowed",
            Self::DeadCode => "code that never runs",
        }
    }
}

pub(super) fn findings(before: &Source, after: &Source, matching: &Matching, asked: &Asked) -> Vec<Finding> {
    let mut found: Vec<(Side, FindingKind, u32)> = Vec::new();
    let introduced: [(FindingKind, Detector); 4] = [
        (FindingKind::HardCoded, hard_coded::nodes),
        (FindingKind::ErrorSwallowed, swallowed::nodes),
        (FindingKind::DeadCode, dead::nodes),
        (FindingKind::CheckRemoved, check::hollow),
    ];
    for (kind, nodes) in introduced {
        let now = nodes(after, asked);
        if now.is_empty() {
            continue;
        }
        let earlier: BTreeSet<u32> = nodes(before, asked).into_iter().collect();
        let new = now.into_iter().filter(|&idx| matching.is_new(idx) || !earlier.contains(&matching.from[idx as usize]));
        found.extend(new.map(|idx| (Side::After, kind, idx)));
    }
    found.extend(check::removed(before, after, matching).into_iter().map(|idx| (Side::Before, FindingKind::CheckRemoved, idx)));
    found
        .extend(test::edited(before, after, matching, asked).into_iter().map(|(side, idx)| (side, FindingKind::TestEdited, idx)));
    found.truncate(FINDINGS_MAX);
    let mut findings: Vec<Finding> = found.into_iter().map(|(side, kind, idx)| finding(before, after, side, kind, idx)).collect();
    findings.sort_unstable();
    findings
}

type Detector = fn(&Source, &Asked) -> Vec<u32>;

fn finding(before: &Source, after: &Source, side: Side, kind: FindingKind, idx: u32) -> Finding {
    let source = if side == Side::Before { before } else { after };
    let (line_first, line_last) = source.lines_of(idx);
    Finding { side, line_first, line_last, kind, node: source.kind(idx).to_owned() }
}

impl Source {
    fn all(&self) -> std::ops::Range<u32> {
        0..self.tree.nodes.len() as u32
    }

    fn role(&self, idx: u32) -> Role {
        self.tree.at(idx).role
    }

    fn kind(&self, idx: u32) -> &'static str {
        self.language().kind_name(self.tree.at(idx).kind)
    }

    fn parent_role(&self, idx: u32) -> Option<Role> {
        self.tree.nodes.get(self.tree.at(idx).parent as usize).map(|parent| parent.role)
    }

    /// The attributes in front of items (Rust), by item.
    fn attributes(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut by_item: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut waiting = Vec::new();
        for attribute in self.nodes_of(Role::Attribute) {
            waiting.push(attribute);
            let next = attribute + self.tree.at(attribute).size;
            let is_last = self.tree.nodes.get(next as usize).is_none_or(|node| node.role != Role::Attribute);
            if is_last {
                by_item.insert(next, std::mem::take(&mut waiting));
            }
        }
        by_item
    }

    fn nodes_of(&self, role: Role) -> impl Iterator<Item = u32> + '_ {
        self.all().filter(move |&idx| self.role(idx) == role)
    }

    fn kids(&self, idx: u32) -> Vec<u32> {
        self.tree.children(idx).collect()
    }

    /// The statements of a body: blocks, lists of statements and `else` are looked through.
    fn statements(&self, body: u32) -> Vec<u32> {
        let mut body = body;
        loop {
            match (self.role(body), self.kids(body).as_slice()) {
                (Role::Block | Role::Else, [only]) if matches!(self.role(*only), Role::Block) => body = *only,
                (Role::Block | Role::Else, kids) => return kids.to_vec(),
                _ => return vec![body],
            }
        }
    }

    /// The thing inside a statement that is only an expression.
    fn bare(&self, idx: u32) -> u32 {
        match self.kids(idx).as_slice() {
            [only] if self.role(idx) == Role::Statement => *only,
            _ => idx,
        }
    }

    /// The block that an `if`, `except` or `catch` runs: its first child that is a block, or else its last child.
    fn body(&self, idx: u32) -> Option<u32> {
        let kids = self.kids(idx);
        kids.iter()
            .copied()
            .find(|&kid| self.role(kid) == Role::Block)
            .or_else(|| kids.last().copied().filter(|_| kids.len() > 1))
    }

    /// The name that a call or macro invokes: the last identifier of its first child.
    fn callee(&self, call: u32) -> &str {
        let Some(function) = self.tree.children(call).next() else { return "" };
        self.tree.subtree(function).rev().find(|&idx| self.role(idx) == Role::Identifier).map_or("", |idx| self.text_of(idx))
    }

    /// The name that a function, class or module has.
    fn name_of(&self, idx: u32) -> &str {
        self.tree.children(idx).find(|&kid| self.role(kid) == Role::Identifier).map_or("", |kid| self.text_of(kid))
    }

    /// Whether a node is written out in full: a number, a text, a constant, or a list of such.
    fn is_literal(&self, idx: u32) -> bool {
        match self.role(idx) {
            Role::Number | Role::Constant => true,
            Role::Text => !self.tree.subtree(idx).any(|below| matches!(self.role(below), Role::Identifier | Role::Call)),
            // Looked at by its leaves, without recursion. In Go the type of the elements comes first.
            Role::Composite => {
                let values = match self.kind(idx) {
                    "composite_literal" => self.tree.children(idx).last().unwrap_or(idx),
                    _ => idx,
                };
                let is_computed = |below| matches!(self.role(below), Role::Identifier | Role::Call | Role::Macro | Role::Lambda);
                (self.tree.at(values).size as usize) < LITERAL_SIZE_MAX && !self.tree.subtree(values).any(is_computed)
            }
            // A signed number; the sign is in the label.
            Role::Plain => {
                let kids = self.kids(idx);
                kids.len() == 1 && self.role(kids[0]) == Role::Number && self.text_of(idx).starts_with(['-', '+'])
            }
            _ => false,
        }
    }
}
