//! Turn-level advantages: each turn is credited with what came after it.
//!
//! The return of a turn is `G_k = r_k + gamma · G_(k+1)`. Its baseline is one number for the whole group (the mean over
//! members of their mean return), or the mean return of the same turn over the members that came so far.

use super::has_signal;
use hone_trace::{Reward, Trace};
use serde::{Deserialize, Serialize};

/// What the return of a turn is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnBaseline {
    /// One number for the group. Right when only the end is rewarded.
    #[default]
    Trajectory,
    /// One per turn. A turn that only one member reached has nothing to be compared with: its advantage is 0.
    PerTurn,
}

/// What each turn of a trace earned. Where the whole trace was rewarded, the rewards that its giver gave to single turns at
/// the same time are parts of that total, and the rest of it falls to the last turn: the sum is what the trace earned.
pub fn turn_rewards(trace: &Trace) -> Vec<f64> {
    let whole = trace.reward();
    let is_part = |reward: &&Reward| whole.is_none_or(|whole| reward.by == whole.by && reward.at == whole.at);
    let mut rewards = vec![0.0; trace.turns().count()];
    for reward in trace.rewards.iter().filter(is_part) {
        if let Some(turn) = reward.turn_idx.and_then(|turn_idx| rewards.get_mut(turn_idx as usize)) {
            *turn += reward.total;
        }
    }
    let given: f64 = rewards.iter().sum();
    if let (Some(last), Some(whole)) = (rewards.last_mut(), whole) {
        *last += whole.total - given;
    }
    rewards
}

/// The return of every turn.
pub fn discounted(rewards: &[f64], gamma: f64) -> Vec<f64> {
    let mut returns = rewards.to_vec();
    for turn_idx in (0..returns.len().saturating_sub(1)).rev() {
        returns[turn_idx] += gamma * returns[turn_idx + 1];
    }
    returns
}

/// The advantage of every turn of every member; `None` without signal.
pub fn turns(rewards_g: &[Vec<f64>], gamma: f64, baseline: TurnBaseline) -> Option<Vec<Vec<f64>>> {
    let mut returns_g: Vec<Vec<f64>> = rewards_g.iter().map(|rewards| discounted(rewards, gamma)).collect();
    if returns_g.len() < 2 || !has_signal(&returns_g.concat()) {
        return None;
    }
    match baseline {
        TurnBaseline::Trajectory => {
            let means: Vec<f64> = returns_g.iter().filter_map(|returns| mean(returns.iter().copied())).collect();
            let baseline = mean(means.into_iter())?;
            returns_g.iter_mut().flatten().for_each(|value| *value -= baseline);
        }
        TurnBaseline::PerTurn => {
            let n_turns_max = returns_g.iter().map(Vec::len).max()?;
            for turn_idx in 0..n_turns_max {
                let baseline = mean(returns_g.iter().filter_map(|returns| returns.get(turn_idx).copied()))?;
                returns_g.iter_mut().filter_map(|returns| returns.get_mut(turn_idx)).for_each(|value| *value -= baseline);
            }
        }
    }
    returns_g.iter().flatten().any(|advantage| advantage.abs() > super::SPREAD_MIN).then_some(returns_g)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{earned, sampled, trace, turn};

    #[test]
    fn the_rewards_of_turns_add_up_to_that_of_the_trace() {
        let turns = || (0..3).map(|_| turn(sampled("1 > 2"))).collect();
        let mut scored = trace(vec![turns()], Some(2.0));
        scored.rewards.extend([earned(Some(0), 0.5), earned(Some(0), 0.25), earned(Some(1), -1.0)]);
        assert_eq!(turn_rewards(&scored), [0.75, -1.0, 2.25]);
        // What somebody else said about a turn is no part of this total.
        scored.rewards[1].by.name = "other".into();
        assert_eq!(turn_rewards(&scored), [0.25, -1.0, 2.75]);
        let mut by_turn = trace(vec![turns()], None);
        by_turn.rewards.push(earned(Some(1), 1.0));
        assert_eq!(turn_rewards(&by_turn), [0.0, 1.0, 0.0]);
    }

    fn check(rewards_g: &[&[f64]], gamma: f64, baseline: TurnBaseline, expected: Option<&[&[f64]]>) {
        let rewards_g: Vec<Vec<f64>> = rewards_g.iter().map(|rewards| rewards.to_vec()).collect();
        let expected: Option<Vec<Vec<f64>>> = expected.map(|expected| expected.iter().map(|row| row.to_vec()).collect());
        assert_eq!(turns(&rewards_g, gamma, baseline), expected);
    }

    #[test]
    fn a_turn_is_credited_with_what_follows_it() {
        assert_eq!(discounted(&[1.0, 0.0, 4.0], 0.5), [2.0, 2.0, 4.0]);
        assert_eq!(discounted(&[], 0.5), Vec::<f64>::new());
        // Only the end is rewarded: every turn has the advantage of the whole.
        let ends: &[&[f64]] = &[&[0.0, 1.0], &[0.0, 0.0, 0.0]];
        check(ends, 1.0, TurnBaseline::Trajectory, Some(&[&[0.5, 0.5], &[-0.5, -0.5, -0.5]]));
        check(ends, 1.0, TurnBaseline::PerTurn, Some(&[&[0.5, 0.5], &[-0.5, -0.5, 0.0]]));
    }

    #[test]
    fn turns_are_compared_with_the_same_turn() {
        // Both lose half a point in the second turn; the first turn decides.
        let rewards: &[&[f64]] = &[&[2.0, -0.5], &[1.0, -0.5]];
        check(rewards, 0.0, TurnBaseline::PerTurn, Some(&[&[0.5, 0.0], &[-0.5, 0.0]]));
        check(rewards, 0.0, TurnBaseline::Trajectory, Some(&[&[1.5, -1.0], &[0.5, -1.0]]));
    }

    #[test]
    fn a_group_that_agrees_turn_by_turn_has_no_signal() {
        check(&[&[1.0, 0.0], &[1.0, 0.0]], 0.0, TurnBaseline::PerTurn, None);
        check(&[&[1.0], &[1.0]], 1.0, TurnBaseline::Trajectory, None);
        check(&[&[1.0, 0.0]], 1.0, TurnBaseline::Trajectory, None);
    }
}
