//! Which node of the code before is which node of the code after.
//!
//! Four passes, in the spirit of GumTree: from the roots down along children that agree (first in everything, then in shape,
//! then in kind and name); equal subtrees wherever they went, largest first; parents whose children found each other; and, inside
//! what is matched by then, children of the same kind in order. Each pass is linear or n log n in the nodes still open, except
//! the alignment of children, whose table is bounded by `TABLE_MAX`.

use super::{
    language::Role,
    tree::{NONE, Tree},
};

/// Cells of the table that aligns two lists of children; longer lists are left to the later passes.
const TABLE_MAX: usize = 1 << 16;

/// Equal subtrees smaller than this are no evidence that code has moved.
const MOVED_SIZE_MIN: u32 = 3;

/// Counterparts that are considered for one parent.
const CANDIDATES_MAX: usize = 16;

pub(super) struct Matching {
    /// For each node before, the node after.
    pub(super) to: Vec<u32>,
    /// For each node after, the node before.
    pub(super) from: Vec<u32>,
    /// Nodes that may still be looked at in vain.
    work_left: usize,
}

impl Matching {
    pub(super) fn new(before: &Tree, after: &Tree) -> Self {
        let (n_before, n_after) = (before.nodes.len(), after.nodes.len());
        let mut matching = Self { to: vec![NONE; n_before], from: vec![NONE; n_after], work_left: 64 * (n_before + n_after) };
        if !before.nodes.is_empty() && !after.nodes.is_empty() {
            matching.down(before, after);
            matching.equal_subtrees(before, after);
            matching.up(before, after);
            matching.fill(before, after);
        }
        matching
    }

    pub(super) fn is_new(&self, after: u32) -> bool {
        self.from[after as usize] == NONE
    }

    fn pair(&mut self, before: u32, after: u32) {
        self.to[before as usize] = after;
        self.from[after as usize] = before;
    }

    fn pair_subtrees(&mut self, a: u32, b: u32, size: u32) {
        (0..size).for_each(|i| self.pair(a + i, b + i));
    }

    fn is_open(&self, a: u32, b: u32) -> bool {
        self.to[a as usize] == NONE && self.from[b as usize] == NONE
    }

    /// From the roots down along children that agree.
    fn down(&mut self, before: &Tree, after: &Tree) {
        let mut todo = vec![(0, 0)];
        while let Some((a, b)) = todo.pop() {
            if before.at(a).hash == after.at(b).hash {
                self.pair_subtrees(a, b, before.at(a).size);
                continue;
            }
            self.pair(a, b);
            let (children_a, children_b): (Vec<u32>, Vec<u32>) = (before.children(a).collect(), after.children(b).collect());
            align_by_turns(before, after, &children_a, &children_b, &mut todo);
        }
    }

    /// Equal subtrees wherever they went: those that are unique on both sides first, then in order.
    fn equal_subtrees(&mut self, before: &Tree, after: &Tree) {
        let open = |tree: &Tree, pairs: &[u32]| {
            let mut open: Vec<(std::cmp::Reverse<u32>, u64, u32)> = (0..tree.nodes.len() as u32)
                .filter(|&idx| pairs[idx as usize] == NONE && tree.at(idx).size >= MOVED_SIZE_MIN)
                .map(|idx| (std::cmp::Reverse(tree.at(idx).size), tree.at(idx).hash, idx))
                .collect();
            open.sort_unstable();
            open
        };
        let (open_a, open_b) = (open(before, &self.to), open(after, &self.from));
        for unique in [true, false] {
            let (mut a, mut b) = (0, 0);
            while a < open_a.len() && b < open_b.len() {
                let (key_a, key_b) = ((open_a[a].0, open_a[a].1), (open_b[b].0, open_b[b].1));
                if key_a < key_b {
                    a += 1;
                    continue;
                }
                if key_b < key_a {
                    b += 1;
                    continue;
                }
                let end = |open: &[(std::cmp::Reverse<u32>, u64, u32)], at: usize| {
                    at + open[at..].iter().take_while(|entry| (entry.0, entry.1) == key_a).count()
                };
                let (end_a, end_b) = (end(&open_a, a), end(&open_b, b));
                if !unique || (end_a == a + 1 && end_b == b + 1) {
                    let free_a: Vec<u32> =
                        open_a[a..end_a].iter().map(|e| e.2).filter(|&i| self.to[i as usize] == NONE).collect();
                    let free_b: Vec<u32> =
                        open_b[b..end_b].iter().map(|e| e.2).filter(|&i| self.from[i as usize] == NONE).collect();
                    free_a.iter().zip(&free_b).for_each(|(&a, &b)| self.pair_subtrees_open(before, after, a, b));
                }
                (a, b) = (end_a, end_b);
            }
        }
    }

    /// Pairs two equal subtrees, unless a part of one of them is taken. The work on refusals is bounded.
    fn pair_subtrees_open(&mut self, before: &Tree, after: &Tree, a: u32, b: u32) {
        let size = before.at(a).size;
        if before.at(a).hash != after.at(b).hash || self.work_left < size as usize {
            return;
        }
        if (0..size).all(|i| self.is_open(a + i, b + i)) {
            self.pair_subtrees(a, b, size);
        } else {
            self.work_left -= size as usize;
        }
    }

    /// Parents whose children found each other. Children come after parents in the list, so backwards is bottom-up.
    fn up(&mut self, before: &Tree, after: &Tree) {
        for a in (0..before.nodes.len() as u32).rev() {
            if self.to[a as usize] != NONE || before.at(a).size == 1 {
                continue;
            }
            let mut votes: Vec<(u32, u32)> = Vec::new();
            for child in before.children(a) {
                let partner = self.to[child as usize];
                if partner == NONE || partner == 0 {
                    continue;
                }
                let candidate = after.at(partner).parent;
                if after.at(candidate).kind != before.at(a).kind || !self.is_open(a, candidate) {
                    continue;
                }
                let weight = before.at(child).size;
                match votes.iter().position(|vote| vote.0 == candidate) {
                    Some(at) => votes[at].1 += weight,
                    None if votes.len() < CANDIDATES_MAX => votes.push((candidate, weight)),
                    None => {}
                }
            }
            let best = votes.iter().max_by_key(|vote| (vote.1, std::cmp::Reverse(vote.0)));
            if let Some(&(b, _)) = best.filter(|&&(b, weight)| 10 * weight >= before.at(a).size + after.at(b).size) {
                self.pair(a, b);
            }
        }
    }

    /// Inside what is matched, children of the same kind in order; what they contain follows, as children come later.
    fn fill(&mut self, before: &Tree, after: &Tree) {
        for a in 0..before.nodes.len() as u32 {
            let b = self.to[a as usize];
            if b == NONE || before.at(a).hash == after.at(b).hash {
                continue;
            }
            let keys: [fn(&Tree, u32) -> u64; 2] = [|tree, idx| tree.at(idx).hash, |tree, idx| u64::from(tree.at(idx).kind)];
            for key in keys {
                let free_a: Vec<u32> = before.children(a).filter(|&child| self.to[child as usize] == NONE).collect();
                let free_b: Vec<u32> = after.children(b).filter(|&child| self.from[child as usize] == NONE).collect();
                for (i, j) in align(&free_a, &free_b, |&i| key(before, i), |&j| key(after, j)) {
                    let (a, b) = (free_a[i], free_b[j]);
                    self.pair_subtrees_open(before, after, a, b);
                    self.pair(a, b);
                }
            }
        }
    }
}

/// Pairs children in order: equal ones first, then, between those, equal shapes, equal names, and a lone pair of one kind.
fn align_by_turns(before: &Tree, after: &Tree, a: &[u32], b: &[u32], pairs: &mut Vec<(u32, u32)>) {
    let keys: [fn(&Tree, u32) -> u64; 3] = [|tree, idx| tree.at(idx).hash, |tree, idx| tree.at(idx).shape, signature];
    let mut gaps = vec![(0..a.len(), 0..b.len())];
    for key in keys {
        let mut next = Vec::new();
        for (in_a, in_b) in gaps {
            let (mut from_a, mut from_b) = (in_a.start, in_b.start);
            for (i, j) in align(&a[in_a.clone()], &b[in_b.clone()], |&i| key(before, i), |&j| key(after, j)) {
                let (i, j) = (in_a.start + i, in_b.start + j);
                pairs.push((a[i], b[j]));
                next.push((from_a..i, from_b..j));
                (from_a, from_b) = (i + 1, j + 1);
            }
            next.push((from_a..in_a.end, from_b..in_b.end));
        }
        next.retain(|(in_a, in_b)| !in_a.is_empty() && !in_b.is_empty());
        gaps = next;
    }
    for (in_a, in_b) in gaps {
        if in_a.len() == 1 && in_b.len() == 1 && before.at(a[in_a.start]).kind == after.at(b[in_b.start]).kind {
            pairs.push((a[in_a.start], b[in_b.start]));
        }
    }
}

/// Kind and first name below: what makes `def total(...)` the same function after its body changed. Things without a
/// name of their own are told apart by their place, so that they never match by this.
fn signature(tree: &Tree, idx: u32) -> u64 {
    let name = tree.children(idx).find(|&child| tree.at(child).role == Role::Identifier);
    match name {
        Some(name) if matches!(tree.at(idx).role, Role::Function | Role::Plain | Role::Binding | Role::Module) => {
            tree.at(name).label ^ u64::from(tree.at(idx).kind)
        }
        _ => tree.at(idx).hash,
    }
}

/// The longest common subsequence of two lists under these keys, as pairs of positions in order.
fn align<A, B>(a: &[A], b: &[B], key_a: impl Fn(&A) -> u64, key_b: impl Fn(&B) -> u64) -> Vec<(usize, usize)> {
    let (a, b): (Vec<u64>, Vec<u64>) = (a.iter().map(key_a).collect(), b.iter().map(key_b).collect());
    let n_first = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let n_last = a[n_first..].iter().rev().zip(b[n_first..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_a, middle_b) = (&a[n_first..a.len() - n_last], &b[n_first..b.len() - n_last]);
    let mut pairs: Vec<(usize, usize)> = (0..n_first).map(|i| (i, i)).collect();
    if middle_a.len() * middle_b.len() <= TABLE_MAX {
        pairs.extend(longest_common(middle_a, middle_b).into_iter().map(|(i, j)| (n_first + i, n_first + j)));
    }
    pairs.extend((0..n_last).rev().map(|i| (a.len() - 1 - i, b.len() - 1 - i)));
    pairs
}

fn longest_common(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let width = b.len() + 1;
    let mut best = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let (here, below, right) = (i * width + j, (i + 1) * width + j, i * width + j + 1);
            best[here] = if a[i] == b[j] { best[below + 1] + 1 } else { best[below].max(best[right]) };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if best[(i + 1) * width + j] >= best[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}
