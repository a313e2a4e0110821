//! Groups of traces get rewards by a recipe, and keep them.

use crate::clock::now;
use crate::failure::Failure;
use crate::printer::Printer;
use hone_reward::{Attempt, Scorer};
use hone_trace::store::{Put, Write};
use hone_trace::{GiverKind, Reward, RewardId, Trace};
use serde_json::Value;
use std::collections::BTreeMap;

/// Traces that cannot be scored are told up to this many.
const N_TOLD_MAX: usize = 5;

/// What was weighed.
#[derive(Debug, Default)]
pub(crate) struct Weighed {
    pub(crate) n_groups: usize,
    pub(crate) n_scored: usize,
    pub(crate) n_unscored: usize,
    pub(crate) n_judge_calls: u32,
    /// The sum of the rewards of those that were scored.
    pub(crate) total: f64,
    /// For each signal that some traces lack, how many these are.
    pub(crate) lacking: BTreeMap<String, usize>,
}

/// Weighs what is judged together, group by group; `keep` writes what is new of each.
pub(crate) fn weigh(
    scorer: &Scorer<'_>,
    groups: &[Vec<&Trace>],
    seed: u64,
    printer: &Printer,
    mut keep: impl FnMut(Vec<Write>) -> Result<Vec<Put>, Failure>,
) -> Result<Weighed, Failure> {
    let bar = printer.count_bar("weighed");
    let mut weighed = Weighed { n_groups: groups.len(), ..Weighed::default() };
    for group in groups {
        let attempts: Vec<Attempt<'_>> = group.iter().map(|&trace| Attempt { trace, item: &Value::Null }).collect();
        let scored = scorer.score_group(&attempts, seed, now());
        weighed.n_judge_calls += scored.bill().n_calls;
        let mut writes = Vec::new();
        for (trace, scored) in group.iter().zip(scored.traces) {
            bar.inc(1);
            match scored {
                Ok(scored) => {
                    weighed.n_scored += 1;
                    weighed.total += scored.reward.total;
                    for signal in scorer.lacking(trace) {
                        *weighed.lacking.entry(signal.to_owned()).or_default() += 1;
                    }
                    let fresh = fresh(trace, scored.turns.into_iter().chain([scored.reward]).collect());
                    writes.extend(fresh.into_iter().map(|reward| Write::Reward(trace.id, reward)));
                }
                Err(error) => {
                    weighed.n_unscored += 1;
                    if weighed.n_unscored <= N_TOLD_MAX {
                        printer.complain(&format!("trace {}: {error}", trace.id));
                    }
                }
            }
        }
        keep(writes)?;
    }
    bar.finish_and_clear();
    for (signal, &n) in &weighed.lacking {
        let n_scored = weighed.n_scored;
        let text = format!(
            "{n} of {n_scored} traces have no signal `{signal}`, which counts as its `missing` there: 0 unless it is set"
        );
        // That a few have none may be meant, that all have none is a slip.
        if n == n_scored { printer.complain(&text) } else { printer.say(&text) }
    }
    Ok(weighed)
}

/// What is to be written of the rewards of a trace, the last of which is for the whole of it. Nothing, where a recipe said the same last.
/// Where it said so before, and another one has spoken since, it says so again under other ids: the last word counts.
fn fresh(trace: &Trace, mut rewards: Vec<Reward>) -> Vec<Reward> {
    let is_of_recipe = |reward: &&Reward| reward.turn_idx.is_none() && reward.by.kind != GiverKind::Human;
    let (last, whole) = (trace.rewards.iter().rev().find(is_of_recipe), rewards.last());
    let Some((last, whole)) = last.zip(whole) else { return rewards };
    if last.id == whole.id || (&last.by, &last.components, last.total) == (&whole.by, &whole.components, whole.total) {
        return vec![];
    }
    let is_known = |reward: &Reward| trace.rewards.iter().any(|known| known.id == reward.id);
    if rewards.iter().any(is_known) {
        rewards.iter_mut().for_each(|reward| reward.id = RewardId::derived(&[&reward.id.to_string(), &last.id.to_string()]));
    }
    rewards
}
