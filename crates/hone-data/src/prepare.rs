//! From clean traces to a batch: balanced over types of task and how hard they were, and divided so that no family of scenarios and no
//! user is on two sides.
//!
//! Types of task take turns, and inside of each its easy, medium and hard ones: while all have some left, all get the same. Which of
//! their traces come first is drawn by the seed. Traces that share a family or a user are one bundle, and so are their bundles; a bundle
//! goes to the test or the validation part when it still fits there, and otherwise to the training part.

mod bundle;
mod disguise;
mod manifest;

pub use disguise::disguise;
pub use manifest::{Digest, Manifest, Output, Rules};

use crate::facts::{Difficulty, Facts};
use bundle::bundles;
use hone_trace::env::Split;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

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
pub fn choose(candidates: &[Facts], plan: &Plan) -> Vec<(usize, Split)> {
    let chosen = balanced(candidates, plan);
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

/// The candidates in turns, until there are enough.
fn balanced(candidates: &[Facts], plan: &Plan) -> Vec<usize> {
    let mut kinds: BTreeMap<&str, BTreeMap<Difficulty, VecDeque<usize>>> = BTreeMap::new();
    let mut drawn: Vec<usize> = (0..candidates.len()).collect();
    drawn.sort_by_cached_key(|&idx| order(plan.seed, "draw", &candidates[idx]));
    for idx in drawn {
        let Facts { category, difficulty, .. } = &candidates[idx];
        kinds.entry(category.as_deref().unwrap_or("")).or_default().entry(*difficulty).or_default().push_back(idx);
    }
    let mut lines: Vec<VecDeque<usize>> =
        kinds.into_values().map(|levels| in_turns(levels.into_values().collect(), usize::MAX).into()).collect();
    lines.sort_by_key(VecDeque::len);
    in_turns(lines, plan.points_max)
}

/// One of each line, again and again.
fn in_turns(mut lines: Vec<VecDeque<usize>>, n_max: usize) -> Vec<usize> {
    let mut taken = Vec::new();
    while taken.len() < n_max && lines.iter().any(|line| !line.is_empty()) {
        let n_left = n_max - taken.len();
        taken.extend(lines.iter_mut().filter_map(VecDeque::pop_front).take(n_left));
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
        for (idx, _) in choose(&candidates, &PLAN) {
            *counts.entry(candidates[idx].category.as_deref().unwrap()).or_default() += 1;
            *levels.entry(candidates[idx].difficulty).or_default() += 1;
        }
        assert_eq!(counts, BTreeMap::from([("a", 130), ("b", 130), ("rare", 40)]));
        assert!(levels.values().all(|&n| (98..=102).contains(&n)), "{levels:?}");
    }

    #[test]
    fn no_family_and_no_user_is_on_two_sides() {
        let candidates: Vec<Facts> = (0..600).map(|n| facts(n, "a", n / 4, (n % 3 == 0).then_some(n / 7))).collect();
        let batch = choose(&candidates, &PLAN);
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
            choose(candidates, plan).into_iter().map(|(idx, part)| (candidates[idx].id, part)).collect()
        };
        assert_eq!(ids(&candidates, &PLAN), ids(&reversed, &PLAN));
        assert_ne!(ids(&candidates, &PLAN), ids(&candidates, &Plan { seed: 2, ..PLAN }));
    }
}
