//! Bundles: traces that share a family, a user or a group, and those that share one with them.

use crate::facts::Facts;
use hone_trace::GroupId;
use std::collections::{BTreeMap, HashMap};

/// What traces have in common.
#[derive(PartialEq, Eq, Hash)]
enum Tie<'a> {
    Family(&'a str),
    User(&'a str),
    Group(GroupId),
}

/// The bundles of these traces, each as places in the list.
pub(super) fn bundles(facts: &[&Facts]) -> Vec<Vec<usize>> {
    let mut parents: Vec<usize> = (0..facts.len()).collect();
    let mut first: HashMap<Tie<'_>, usize> = HashMap::new();
    for (idx, facts) in facts.iter().enumerate() {
        let family = facts.family.as_deref().map(Tie::Family);
        let user = facts.user.as_deref().map(Tie::User);
        for tie in [family, user, facts.group.map(Tie::Group)].into_iter().flatten() {
            let other = *first.entry(tie).or_insert(idx);
            let (one, other) = (root(&mut parents, idx), root(&mut parents, other));
            parents[one.max(other)] = one.min(other);
        }
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for idx in 0..facts.len() {
        members.entry(root(&mut parents, idx)).or_default().push(idx);
    }
    members.into_values().collect()
}

fn root(parents: &mut [usize], mut idx: usize) -> usize {
    while parents[idx] != idx {
        parents[idx] = parents[parents[idx]];
        idx = parents[idx];
    }
    idx
}
