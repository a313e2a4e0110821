//! What a matching means: how many nodes were added, deleted, moved, renamed and updated.

use super::{
    language::Role,
    matching::Matching,
    tree::{NONE, Tree},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What changed, in nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffCounts {
    /// Nodes that are only in the code after.
    pub added: usize,
    /// Nodes that are only in the code before.
    pub deleted: usize,
    /// Subtrees that now stand elsewhere: under another parent, or in another order. One each, however large.
    pub moved: usize,
    /// Names that were replaced by a new name in every place. One each, however often they occur.
    pub renamed: usize,
    /// Nodes in place whose own text or sign changed: another number, another operator.
    pub updated: usize,
}

impl DiffCounts {
    /// The size of the change: one per node or move, half of one per name.
    pub fn cost(&self) -> f64 {
        (self.added + self.deleted + self.moved + self.updated) as f64 + 0.5 * self.renamed as f64
    }

    pub(super) fn new(before: &Tree, after: &Tree, matching: &Matching) -> Self {
        let renames = Renames::new(before, after, matching);
        let mut counts = Self { renamed: renames.0.len(), ..Self::default() };
        counts.deleted = matching.to.iter().filter(|&&b| b == NONE).count();
        counts.added = matching.from.iter().filter(|&&a| a == NONE).count();
        for a in 0..before.nodes.len() as u32 {
            let b = matching.to[a as usize];
            if b == NONE {
                continue;
            }
            counts.updated += usize::from(before.at(a).label != after.at(b).label && !renames.explain(before, after, a, b));
            let (parent_a, parent_b) = (before.at(a).parent, after.at(b).parent);
            if parent_a != NONE && parent_b != NONE && matching.to[parent_a as usize] != parent_b {
                counts.moved += 1;
            }
            if before.at(a).hash != after.at(b).hash {
                counts.moved += n_out_of_order(before, after, matching, a, b);
            }
        }
        counts
    }
}

/// The old and new labels of names that were replaced everywhere.
pub(super) struct Renames(BTreeMap<u64, u64>);

impl Renames {
    pub(super) fn new(before: &Tree, after: &Tree, matching: &Matching) -> Self {
        let mut pairs = BTreeSet::new();
        for a in 0..before.nodes.len() as u32 {
            let b = matching.to[a as usize];
            if b != NONE && before.at(a).role == Role::Identifier && before.at(a).label != after.at(b).label {
                pairs.insert((before.at(a).label, after.at(b).label));
            }
        }
        if pairs.is_empty() {
            return Self(BTreeMap::new());
        }
        let names = |tree: &Tree| -> BTreeSet<u64> {
            tree.nodes.iter().filter(|node| node.role == Role::Identifier).map(|node| node.label).collect()
        };
        let (names_before, names_after) = (names(before), names(after));
        let (mut n_old, mut n_new) = (BTreeMap::new(), BTreeMap::new());
        for (old, new) in &pairs {
            *n_old.entry(old).or_insert(0) += 1;
            *n_new.entry(new).or_insert(0) += 1;
        }
        let whole = |&&(old, new): &&(u64, u64)| {
            !names_after.contains(&old) && !names_before.contains(&new) && n_old[&old] == 1 && n_new[&new] == 1
        };
        Self(pairs.iter().filter(whole).copied().collect())
    }

    pub(super) fn explain(&self, before: &Tree, after: &Tree, a: u32, b: u32) -> bool {
        before.at(a).role == Role::Identifier && self.0.get(&before.at(a).label) == Some(&after.at(b).label)
    }
}

/// Children of a matched pair that stayed with it but changed places: all but a longest rising sequence.
fn n_out_of_order(before: &Tree, after: &Tree, matching: &Matching, a: u32, b: u32) -> usize {
    let partners: Vec<u32> = before
        .children(a)
        .map(|child| matching.to[child as usize])
        .filter(|&partner| partner != NONE && after.at(partner).parent == b)
        .collect();
    let mut tails: Vec<u32> = Vec::new();
    for &partner in &partners {
        let at = tails.partition_point(|&tail| tail < partner);
        if at == tails.len() { tails.push(partner) } else { tails[at] = partner }
    }
    partners.len() - tails.len()
}
