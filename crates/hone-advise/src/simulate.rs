//! Simulated fleets: how often advice errs, and how often it finds what is there to be found.
//!
//! Several configs answer tasks of several types, some easy and some hard, and each config got another mix of them, as happens where nobody
//! leaves it to chance. Beside it stands what averages would have said: the config whose mean is higher by a one-sided test.

use crate::recommend::{MARGIN, advise};
use crate::row::Row;
use hone_eval::{Episode, Thrift};
use hone_trace::{Category, ConfigHash, Draws, RecommendationKind, Time};
use serde::Serialize;
use std::collections::BTreeMap;

const N_CONFIGS: usize = 4;
/// How often each type of task is solved by the config in use.
const TYPES: [(&str, f64); 4] = [("greeting", 0.95), ("lookup", 0.8), ("change", 0.6), ("dispute", 0.3)];
/// What an episode costs.
const COST_USD: f64 = 0.01;

/// What is true of the one config that differs from all others.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Truth {
    name: &'static str,
    /// How much more often it solves a task.
    lift: f64,
    /// What its episodes cost, against those of the others.
    cost: f64,
}

const TRUTHS: [Truth; 5] = [
    Truth { name: "all alike", lift: 0.0, cost: 1.0 },
    Truth { name: "one better by 5 points", lift: 0.05, cost: 1.0 },
    Truth { name: "one better by 10 points", lift: 0.1, cost: 1.0 },
    Truth { name: "one as good at half the cost", lift: 0.0, cost: 0.5 },
    Truth { name: "one worse by 6 points at half the cost", lift: -0.06, cost: 0.5 },
];

/// How advice did where something is true.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// What is true.
    pub truth: &'static str,
    /// How many fleets.
    pub n_fleets: usize,
    /// Episodes of each config.
    pub n_episodes: usize,
    /// The share of fleets in which a config was proposed that is not better, or not cheaper, or worse beyond the margin.
    pub wrong: f64,
    /// The share in which the config that is better or cheaper was proposed.
    pub found: f64,
    /// The share in which averages would have named a config that is not better.
    pub wrong_by_averages: f64,
}

/// Asks for advice in so many fleets of each kind.
pub fn study(seed: u64, n_fleets: usize, n_episodes: usize) -> Vec<Study> {
    TRUTHS.iter().map(|truth| one(*truth, seed, n_fleets, n_episodes)).collect()
}

fn one(truth: Truth, seed: u64, n_fleets: usize, n_episodes: usize) -> Study {
    let hash = |idx: usize| ConfigHash::of(&[u8::try_from(idx).expect("there are few configs")]);
    let other = hash(N_CONFIGS - 1);
    let (mut n_wrong, mut n_found, mut n_by_averages) = (0, 0, 0);
    for fleet in 0..n_fleets {
        let mut draws = Draws::new(seed, &["advice", truth.name, &fleet.to_string()]);
        let mut rows = Vec::new();
        for idx in 0..N_CONFIGS {
            let mix: Vec<f64> = TYPES.iter().map(|_| 0.1 + draws.uniform()).collect();
            let is_other = idx == N_CONFIGS - 1;
            let (lift, cost) = if is_other { (truth.lift, truth.cost) } else { (0.0, 1.0) };
            rows.extend((0..n_episodes).map(|_| row(&mut draws, &mix, hash(idx), lift, cost)));
        }
        let advice = advise(hash(0), &rows, &BTreeMap::new(), &Thrift::default());
        let is_right = |to: ConfigHash, kind: RecommendationKind| {
            let (lift, cost) = if to == other { (truth.lift, truth.cost) } else { (0.0, 1.0) };
            match kind {
                RecommendationKind::HighestPerf => lift > 0.0,
                _ => lift > 0.0 || (cost < 1.0 && lift >= -MARGIN),
            }
        };
        n_wrong += usize::from(advice.proposals.iter().any(|proposal| !is_right(proposal.to, proposal.kind)));
        n_found += usize::from(advice.proposals.iter().any(|proposal| proposal.to == other && is_right(other, proposal.kind)));
        let named = best_by_average(&rows, hash(0));
        n_by_averages += usize::from(named.is_some_and(|to| to != other || truth.lift <= 0.0));
    }
    let share = |n: usize| n as f64 / n_fleets.max(1) as f64;
    let (wrong, found, wrong_by_averages) = (share(n_wrong), share(n_found), share(n_by_averages));
    Study { truth: truth.name, n_fleets, n_episodes, wrong, found, wrong_by_averages }
}

fn row(draws: &mut Draws, mix: &[f64], config: ConfigHash, lift: f64, cost: f64) -> Row {
    let mut place = draws.uniform() * mix.iter().sum::<f64>();
    let which = mix.iter().position(|weight| {
        place -= weight;
        place < 0.0
    });
    let (category, base) = TYPES[which.unwrap_or(TYPES.len() - 1)];
    let is_solved = draws.chance((base + lift).clamp(0.0, 1.0));
    let cost_usd = COST_USD * cost * (0.5 * draws.normal()).exp();
    let episode = Episode {
        scenario: None,
        is_solved,
        score: None,
        n_turns: 1,
        n_tokens: 100,
        cost_usd: Some(cost_usd),
        duration_ms: None,
        is_broken: false,
        failure: None,
    };
    let (category, quality) = (Category::new(category).ok(), Some(f64::from(u8::from(is_solved))));
    Row { config, category, world: None, at: Time::from_unix_nanos(0), quality, episode }
}

/// The config that the highest average names, where a one-sided test of 5 % finds it above the one in use.
fn best_by_average(rows: &[Row], from: ConfigHash) -> Option<ConfigHash> {
    let mut counts: BTreeMap<ConfigHash, (f64, f64)> = BTreeMap::new();
    for row in rows {
        let (sum, n) = counts.entry(row.config).or_default();
        *sum += row.quality.unwrap_or(0.0);
        *n += 1.0;
    }
    let of = |config: &ConfigHash| counts.get(config).map(|(sum, n)| (sum / n, *n));
    let (ours, n_ours) = of(&from)?;
    let best = counts.keys().filter(|config| **config != from).max_by(|a, b| {
        let mean = |config| of(config).map_or(0.0, |(mean, _)| mean);
        mean(a).total_cmp(&mean(b))
    })?;
    let (theirs, n_theirs) = of(best)?;
    let error = (ours * (1.0 - ours) / n_ours + theirs * (1.0 - theirs) / n_theirs).sqrt();
    (error > 0.0 && (theirs - ours) / error > 1.645).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_errs_seldom_and_finds_what_is_there() {
        let found = study(7, 120, 400);
        let of = |name: &str| found.iter().find(|study| study.truth == name).unwrap();
        assert!(found.iter().all(|study| study.wrong <= 0.06), "{found:?}");
        assert!(of("one better by 10 points").found > 0.5, "{found:?}");
        assert!(of("all alike").wrong_by_averages > 0.3, "averages are misled by who got which tasks: {found:?}");
    }
}
