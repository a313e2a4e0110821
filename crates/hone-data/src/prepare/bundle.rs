//! Bundles: traces that share a family or a user, and those that share one with them.

use crate::facts::Facts;
use std::collections::{BTreeMap, HashMap};

/// The bundles of these traces, each as places in the list.
pub(super) fn bundles(facts: &[&Facts]) -> Vec<Vec<usize>> {
    let mut parents: Vec<usize> = (0..facts.len()).collect();
    let mut first: HashMap<(&str, &str), usize> = HashMap::new();
    for (idx, facts) in facts.iter().enumerate() {
        let names = [("family", &facts.family), ("user", &facts.user)];
        for (what, name) in names.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?))) {
            let other = *first.entry((what, name)).or_insert(idx);
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
