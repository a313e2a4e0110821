//! The best edits of a task, and the most of a family.

use super::{Edit, Rules};
use std::collections::{BTreeMap, BTreeSet};

/// The best of each task, in the order in which they come, and beside them what a person accepted.
pub(super) fn best(edits: &[Edit], left: &[usize], rules: &Rules, is_accepted: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let mut tasks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &nth in left {
        tasks.entry(edits[nth].task.as_str()).or_default().push(nth);
    }
    let kept: BTreeSet<usize> = tasks.values().flat_map(|task| best_of_task(edits, task, rules, is_accepted)).collect();
    left.iter().copied().filter(|nth| kept.contains(nth)).collect()
}

/// The best of one task, whose edits come by what they gained.
fn best_of_task(edits: &[Edit], task: &[usize], rules: &Rules, is_accepted: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let (accepted, rest): (Vec<usize>, Vec<usize>) = task.iter().copied().partition(|&nth| is_accepted(nth));
    let Some(&last) = rest.get(rules.top.saturating_sub(1)).or(rest.last()) else { return accepted };
    let bar = edits[last].gain;
    let mut chosen: Vec<usize> = rest.iter().copied().filter(|&nth| edits[nth].gain > bar + rules.epsilon).collect();
    let mut tied: Vec<usize> = rest.into_iter().filter(|&nth| (edits[nth].gain - bar).abs() <= rules.epsilon).collect();
    let mut covered: BTreeSet<usize> = accepted.iter().chain(&chosen).flat_map(|&nth| right(&edits[nth])).collect();
    while chosen.len() < rules.family_max && !tied.is_empty() {
        let added: Vec<usize> =
            tied.iter().map(|&nth| right(&edits[nth]).filter(|pair| !covered.contains(pair)).count()).collect();
        let most = added.iter().copied().max().unwrap_or(0);
        if chosen.len() >= rules.top && most == 0 {
            break;
        }
        // The first of several: they come by what they gained.
        let place = added.iter().position(|&n| n == most).unwrap_or(0);
        let nth = tied.remove(place);
        covered.extend(right(&edits[nth]));
        chosen.push(nth);
    }
    chosen.extend(accepted);
    chosen
}

/// The pairs that an edit gets right.
fn right(edit: &Edit) -> impl Iterator<Item = usize> {
    edit.right.iter().enumerate().filter(|(_, is_right)| **is_right).map(|(pair, _)| pair)
}

/// At most so many of each family: what a person accepted first, then what gained most.
pub(super) fn limited(edits: &[Edit], left: &[usize], max: usize, is_accepted: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &nth in left {
        families.entry(edits[nth].family.as_str()).or_default().push(nth);
    }
    let mut kept = BTreeSet::new();
    for mut family in families.into_values() {
        family.sort_by(|&a, &b| {
            is_accepted(b).cmp(&is_accepted(a)).then(edits[b].gain.total_cmp(&edits[a].gain)).then(edits[a].id.cmp(&edits[b].id))
        });
        kept.extend(family.into_iter().take(max));
    }
    left.iter().copied().filter(|nth| kept.contains(nth)).collect()
}
