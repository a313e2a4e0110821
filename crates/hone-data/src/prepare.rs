//! From clean traces to a batch: balanced over types of task and how hard they were, and divided so that no family of scenarios and no
//! user is on two sides.
//!
//! Types of task take turns, and inside of each its easy, medium and hard ones: while all have some left, all get the same. Which of
//! their traces come first is drawn by the seed. For reinforcement whole groups are drawn: an advantage is what a sample earned beyond its
//! siblings. Traces that share a family, a user or a group are one bundle, and so are their bundles; a bundle goes to the test or the
//! validation part when it still fits there, and otherwise to the training part.

mod bundle;
mod disguise;
mod manifest;

pub use disguise::disguise;
pub use manifest::{Digest, Manifest, Output, Rules};

use crate::facts::{Difficulty, Facts};
use crate::gate::Purpose;
use bundle::bundles;
use hone_trace::GroupId;
use hone_trace::env::Split;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a batch is to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plan {
    /// Draws which traces come first.
    pub seed: u64,
    /// The most traces.
    pub points_max: usize,
    /// The share that is kept to choose by.
    pub validation: f64,
    /// The share that is kept to report.
    pub test: f64,
}

/// Which candidates become the batch, in its order, each with its part.
pub fn choose(candidates: &[Facts], plan: &Plan, purpose: Purpose) -> Vec<(usize, Split)> {
    let chosen = balanced(candidates, plan, purpose);
    let facts: Vec<&Facts> = chosen.iter().map(|&idx| &candidates[idx]).collect();
    let mut bundles = bundles(&facts);
    bundles.sort_by_key(|members| members.iter().map(|&member| order(plan.seed, "bundle", facts[member])).min());
    let n_of = |share: f64| (share * chosen.len() as f64).floor();
    let mut parts = vec![Split::Train; chosen.len()];
    let (mut n_test, mut n_validation) = (0, 0);
    for members in bundles {
        let (part, n) = if (n_test + members.len()) as f64 <= n_of(plan.test) {
            (Split::Test, &mut n_test)
        } else if (n_validation + members.len()) as f64 <= n_of(plan.validation) {
            (Split::Validation, &mut n_validation)
        } else {
            continue;
        };
        *n += members.len();
        members.into_iter().for_each(|member| parts[member] = part);
    }
    let mut batch: Vec<(usize, Split)> = chosen.into_iter().zip(parts).collect();
    batch.sort_by_key(|&(idx, _)| order(plan.seed, "batch", &candidates[idx]));
    batch
}

/// The candidates in turns, until there are enough. What is drawn together goes by the first of it, and is left out where it is too much.
fn balanced(candidates: &[Facts], plan: &Plan, purpose: Purpose) -> Vec<usize> {
    let mut kinds: BTreeMap<&str, BTreeMap<Difficulty, VecDeque<Vec<usize>>>> = BTreeMap::new();
    let mut drawn: Vec<usize> = (0..candidates.len()).collect();
    drawn.sort_by_cached_key(|&idx| order(plan.seed, "draw", &candidates[idx]));
    for draw in draws(candidates, &drawn, purpose) {
        let Facts { category, difficulty, .. } = &candidates[draw[0]];
        kinds.entry(category.as_deref().unwrap_or("")).or_default().entry(*difficulty).or_default().push_back(draw);
    }
    let in_line = |levels: BTreeMap<_, VecDeque<_>>| VecDeque::from(in_turns(levels.into_values().collect()));
    let mut lines: Vec<VecDeque<Vec<usize>>> = kinds.into_values().map(in_line).collect();
    lines.sort_by_key(|line| line.iter().map(Vec::len).sum::<usize>());
    let mut taken = Vec::new();
    for draw in in_turns(lines) {
        if taken.len() + draw.len() <= plan.points_max {
            taken.extend(draw);
        }
    }
    taken
}

/// What is drawn together, in the order of the first of each: for reinforcement the samples of a group, otherwise every trace by itself.
fn draws(candidates: &[Facts], drawn: &[usize], purpose: Purpose) -> Vec<Vec<usize>> {
    let mut draws: Vec<Vec<usize>> = Vec::new();
    let mut places: HashMap<GroupId, usize> = HashMap::new();
    for &idx in drawn {
        let group = candidates[idx].group.filter(|_| purpose == Purpose::Rl);
        match group.and_then(|group| places.get(&group)) {
            Some(&place) => draws[place].push(idx),
            None => {
                places.extend(group.map(|group| (group, draws.len())));
                draws.push(vec![idx]);
            }
        }
    }
    draws
}

/// One of each line, again and again.
fn in_turns<T>(mut lines: Vec<VecDeque<T>>) -> Vec<T> {
    let mut taken = Vec::new();
    while lines.iter().any(|line| !line.is_empty()) {
        taken.extend(lines.iter_mut().filter_map(VecDeque::pop_front));
    }
    taken
}

fn order(seed: u64, what: &str, facts: &Facts) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(what.as_bytes()).update(&facts.id.bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::TraceId;
    use std::collections::BTreeSet;

    fn facts(n: usize, category: &str, family: usize, user: Option<usize>) -> Facts {
        Facts {
            id: TraceId::derived(&[&n.to_string()]),
            category: Some(category.to_owned()),
            scenario: Some(format!("s{family}")),
            family: Some(format!("f{family}")),
            user: user.map(|user| format!("u{user}")),
            group: None,
            difficulty: [Difficulty::Easy, Difficulty::Medium, Difficulty::Hard][n % 3],
        }
    }

    const PLAN: Plan = Plan { seed: 1, points_max: 300, validation: 0.1, test: 0.1 };

    #[test]
    fn types_of_task_get_the_same_while_they_last() {
        let candidates: Vec<Facts> = (0..1000)
            .map(|n| {
                facts(
                    n,
                    if n < 40 {
                        "rare"
                    } else if n % 2 == 0 {
                        "a"
                    } else {
                        "b"
                    },
                    n,
                    None,
                )
            })
            .collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut levels: BTreeMap<Difficulty, usize> = BTreeMap::new();
        for (idx, _) in choose(&candidates, &PLAN, Purpose::Sft) {
            *counts.entry(candidates[idx].category.as_deref().unwrap()).or_default() += 1;
            *levels.entry(candidates[idx].difficulty).or_default() += 1;
        }
        assert_eq!(counts, BTreeMap::from([("a", 130), ("b", 130), ("rare", 40)]));
        assert!(levels.values().all(|&n| (98..=102).contains(&n)), "{levels:?}");
    }

    #[test]
    fn no_family_and_no_user_is_on_two_sides() {
        let candidates: Vec<Facts> = (0..600).map(|n| facts(n, "a", n / 4, (n % 3 == 0).then_some(n / 7))).collect();
        let batch = choose(&candidates, &PLAN, Purpose::Sft);
        let mut sides: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for &(idx, part) in &batch {
            let names = [candidates[idx].family.clone(), candidates[idx].user.clone()];
            names.into_iter().flatten().for_each(|name| {
                sides.entry(name).or_default().insert(part.as_str());
            });
        }
        assert!(sides.values().all(|sides| sides.len() == 1));
        let n_of = |part: Split| batch.iter().filter(|(_, of)| *of == part).count();
        assert!(
            (20..=30).contains(&n_of(Split::Test)) && (20..=30).contains(&n_of(Split::Validation)),
            "{} {}",
            n_of(Split::Test),
            n_of(Split::Validation)
        );
    }

    #[test]
    fn the_batch_is_fixed_by_the_seed_and_not_by_the_order() {
        let candidates: Vec<Facts> = (0..500).map(|n| facts(n, "a", n, None)).collect();
        let reversed: Vec<Facts> = candidates.iter().rev().cloned().collect();
        let ids = |candidates: &[Facts], plan: &Plan| -> Vec<(TraceId, Split)> {
            choose(candidates, plan, Purpose::Sft).into_iter().map(|(idx, part)| (candidates[idx].id, part)).collect()
        };
        assert_eq!(ids(&candidates, &PLAN), ids(&reversed, &PLAN));
        assert_ne!(ids(&candidates, &PLAN), ids(&candidates, &Plan { seed: 2, ..PLAN }));
    }

    #[test]
    fn reinforcement_draws_whole_groups() {
        let of_group = |n: usize| Facts { group: Some(GroupId::derived(&[&(n / 4).to_string()])), ..facts(n, "a", n / 4, None) };
        let candidates: Vec<Facts> = (0..40).map(of_group).collect();
        // Two more do not make a group.
        let plan = Plan { points_max: 22, ..PLAN };
        let sizes = |purpose: Purpose| {
            let mut sizes: BTreeMap<GroupId, usize> = BTreeMap::new();
            for (idx, _) in choose(&candidates, &plan, purpose) {
                *sizes.entry(candidates[idx].group.unwrap()).or_default() += 1;
            }
            sizes.into_values().collect::<Vec<usize>>()
        };
        assert_eq!(sizes(Purpose::Rl), [4; 5]);
        assert_eq!(sizes(Purpose::Sft).into_iter().sum::<usize>(), 22);
    }

    #[test]
    fn no_group_is_on_two_sides() {
        let of_group =
            |n: usize| Facts { group: Some(GroupId::derived(&[&(n / 4).to_string()])), family: None, ..facts(n, "a", n, None) };
        let candidates: Vec<Facts> = (0..200).map(of_group).collect();
        let mut sides: BTreeMap<GroupId, BTreeSet<&str>> = BTreeMap::new();
        for (idx, part) in choose(&candidates, &PLAN, Purpose::Rl) {
            sides.entry(candidates[idx].group.unwrap()).or_default().insert(part.as_str());
        }
        assert!(sides.len() == 50 && sides.values().all(|sides| sides.len() == 1));
    }
}
