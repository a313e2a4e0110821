//! A syntax tree as the comparison wants it: the named nodes in one flat list, parents before children.
//!
//! The subtree of node `i` is the slice `i .. i + size`. Every node has three fingerprints: `label` (itself: kind, text of a
//! leaf, signs such as `+`), `hash` (itself and all below) and `shape` (the same, blind to the text of identifiers). Comments,
//! layout, parentheses, separators and the choice of quotes leave no mark in any of them. The fingerprints are fast, not
//! cryptographic.
//!
//! Walks with a cursor and a stack of its own: depth costs memory, never the call stack.

use super::{DiffError, Language, NODES_MAX, language::Role};
use std::ops::Range;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The kind that the parser gives to text it could not understand.
const ERROR: u16 = u16::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) kind: u16,
    pub(super) role: Role,
    pub(super) parent: u32,
    /// The nearest function above.
    pub(super) function: u32,
    /// Nodes in the subtree, this one included.
    pub(super) size: u32,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) label: u64,
    pub(super) hash: u64,
    pub(super) shape: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) n_errors: usize,
}

/// What an earlier tree of almost the same text can still be used for.
pub(super) struct Reuse<'a> {
    pub(super) tree: &'a Tree,
    /// The part of the new text in which anything may have changed.
    pub(super) dirty: Range<usize>,
    /// How far the text behind `dirty` has moved.
    pub(super) shift: isize,
}

/// A node whose children are being read.
struct Open {
    /// `None` for a wrapper, which leaves no node.
    idx: Option<u32>,
    /// The label so far; of a wrapper, its field.
    label: u64,
    below: u64,
    shape_below: u64,
    n_children: u64,
    last_sign_is_comma: bool,
}

impl Tree {
    pub(super) fn build(
        parsed: &tree_sitter::Tree,
        text: &str,
        language: Language,
        reuse: Option<&Reuse<'_>>,
    ) -> Result<Self, DiffError> {
        let roles = language.roles();
        let role_of =
            |kind: u16| if kind == ERROR { Role::Plain } else { roles.get(usize::from(kind)).copied().unwrap_or(Role::Plain) };
        let mut tree =
            Self { nodes: Vec::with_capacity(reuse.map_or(text.len() / 8, |reuse| reuse.tree.nodes.len() + 64)), n_errors: 0 };
        let mut open: Vec<Open> = Vec::new();
        let mut cursor = parsed.walk();
        loop {
            let node = cursor.node();
            let role = role_of(node.kind_id());
            let field = cursor.field_id().map_or(0, |field| u64::from(field.get()));
            tree.n_errors += usize::from(node.is_error() || node.is_missing());
            let mut entered = false;
            match role {
                Role::Nothing => {}
                Role::Punctuation | Role::Sign | Role::Quote => {
                    if let Some(parent) = open.last_mut() {
                        parent.take_sign(role, node.kind_id(), &text[node.byte_range()], tree.role_of_open(parent.idx));
                    }
                }
                Role::Wrapper => {
                    entered = cursor.goto_first_child();
                    if entered {
                        open.push(Open::new(None, field));
                    }
                }
                _ => {
                    let parent = open.iter().rev().find_map(|outer| outer.idx).unwrap_or(NONE);
                    let copied = reuse.is_some_and(|reuse| {
                        !node.has_error() && tree.copy(reuse, node.kind_id(), node.byte_range(), parent, field, &mut open)
                    });
                    if !copied {
                        if tree.nodes.len() >= NODES_MAX {
                            return Err(DiffError::TooManyNodes);
                        }
                        let idx = tree.nodes.len() as u32;
                        tree.nodes.push(Node {
                            kind: node.kind_id(),
                            role,
                            parent,
                            function: tree.function_under(parent),
                            size: 1,
                            start: node.start_byte() as u32,
                            end: node.end_byte() as u32,
                            // Until the node is closed, the place under which its parent takes it in.
                            label: field,
                            hash: 0,
                            shape: 0,
                        });
                        let is_atom = role == Role::Atom || !cursor.goto_first_child();
                        let label = mix(SEED, u64::from(node.kind_id()));
                        let label = if is_atom { mix(label, bytes(&text.as_bytes()[node.byte_range()])) } else { label };
                        open.push(Open::new(Some(idx), label));
                        if is_atom {
                            tree.close(&mut open);
                        } else {
                            entered = true;
                        }
                    }
                }
            }
            if entered {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Ok(tree);
                }
                tree.close(&mut open);
            }
        }
    }

    /// The children of a node, in order.
    pub(super) fn children(&self, idx: u32) -> impl Iterator<Item = u32> + '_ {
        let end = idx + self.at(idx).size;
        let mut next = idx + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = next;
                next += self.at(child).size;
                child
            })
        })
    }

    pub(super) fn at(&self, idx: u32) -> &Node {
        &self.nodes[idx as usize]
    }

    /// The node and all below it.
    pub(super) fn subtree(&self, idx: u32) -> Range<u32> {
        idx..idx + self.at(idx).size
    }

    /// The nearest function above a child of this node.
    fn function_under(&self, parent: u32) -> u32 {
        match self.nodes.get(parent as usize) {
            Some(node) if node.role == Role::Function => parent,
            Some(node) => node.function,
            None => NONE,
        }
    }

    fn role_of_open(&self, idx: Option<u32>) -> Role {
        idx.map_or(Role::Wrapper, |idx| self.at(idx).role)
    }

    /// Ends the innermost open node: its fingerprints are known, and its parent takes them in.
    fn close(&mut self, open: &mut Vec<Open>) {
        let Some(done) = open.pop() else { return };
        let Some(idx) = done.idx else { return };
        let n_nodes = self.nodes.len() as u32;
        let node = &mut self.nodes[idx as usize];
        let field = node.label;
        let blind = if node.role == Role::Identifier { mix(SEED, u64::from(node.kind)) } else { done.label };
        node.size = n_nodes - idx;
        node.label = done.label;
        node.hash = finish(mix(done.label, done.below));
        node.shape = finish(mix(blind, done.shape_below));
        let (hash, shape) = (node.hash, node.shape);
        take(open, field, hash, shape);
    }

    /// Takes over the subtree of the earlier tree that stands at the same place, when nothing in it can have changed.
    fn copy(&mut self, reuse: &Reuse<'_>, kind: u16, place: Range<usize>, parent: u32, field: u64, open: &mut [Open]) -> bool {
        let shift = if place.end < reuse.dirty.start {
            0
        } else if place.start > reuse.dirty.end {
            reuse.shift
        } else {
            return false;
        };
        let (start, end) = ((place.start as isize - shift) as u32, (place.end as isize - shift) as u32);
        let old = &reuse.tree.nodes;
        let first = old.partition_point(|node| node.start < start);
        let Some(found) =
            old[first..].iter().take_while(|node| node.start == start).position(|node| node.kind == kind && node.end == end)
        else {
            return false;
        };
        let (from, to) = ((first + found) as u32, self.nodes.len() as u32);
        let size = old[from as usize].size;
        let function = self.function_under(parent);
        self.nodes.extend(old[from as usize..(from + size) as usize].iter().map(|node| Node {
            parent: node.parent.wrapping_sub(from).wrapping_add(to),
            function: if node.function == NONE || node.function < from { function } else { node.function - from + to },
            start: (node.start as isize + shift) as u32,
            end: (node.end as isize + shift) as u32,
            ..*node
        }));
        self.nodes[to as usize].parent = parent;
        take(open, field, old[from as usize].hash, old[from as usize].shape);
        true
    }
}

/// The innermost open node takes in a finished child. What stands in parentheses counts as if it stood there without, so the
/// child has the field of the outermost pair.
fn take(open: &mut [Open], field: u64, hash: u64, shape: u64) {
    let Some(parent_at) = open.iter().rposition(|outer| outer.idx.is_some()) else { return };
    let field = open.get(parent_at + 1).map_or(field, |wrapper| wrapper.label);
    let parent = &mut open[parent_at];
    parent.below = mix(mix(parent.below, field), hash);
    parent.shape_below = mix(mix(parent.shape_below, field), shape);
    parent.n_children += 1;
    parent.last_sign_is_comma = false;
}

impl Open {
    fn new(idx: Option<u32>, label: u64) -> Self {
        Self { idx, label, below: 0, shape_below: 0, n_children: 0, last_sign_is_comma: false }
    }

    fn take_sign(&mut self, role: Role, kind: u16, text: &str, parent: Role) {
        let is_comma = text == ",";
        match role {
            Role::Quote => {
                let prefix = text.trim_end_matches(['"', '\'']).to_ascii_lowercase();
                if !prefix.is_empty() {
                    self.label = mix(self.label, bytes(prefix.as_bytes()));
                }
            }
            // A hole in a list, `[, a]`, is the one comma that means something.
            Role::Punctuation if is_comma && self.last_sign_is_comma => self.label = mix(self.label, self.n_children),
            Role::Punctuation if parent == Role::Placed => self.label = mix(mix(self.label, u64::from(kind)), self.n_children),
            Role::Punctuation => {}
            _ if parent == Role::Wrapper => {}
            _ if parent == Role::Placed => self.label = mix(mix(self.label, u64::from(kind)), self.n_children),
            _ => self.label = mix(self.label, u64::from(kind)),
        }
        self.last_sign_is_comma = is_comma || (self.n_children == 0 && text == "[");
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(state: u64, value: u64) -> u64 {
    (state.rotate_left(23) ^ value).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

fn bytes(text: &[u8]) -> u64 {
    let mut state = mix(SEED, text.len() as u64);
    for chunk in text.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state, u64::from_le_bytes(word));
    }
    finish(state)
}
