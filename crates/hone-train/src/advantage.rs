//! Advantages: how much better an episode, a turn or a token was than could be expected.
//!
//! [`group`] compares the members of a group with each other, [`turns`] does so turn by turn, [`gae`] compares with an
//! estimate of the value instead. A group whose members all earned the same teaches nothing: it gives `None`.
//! [`select`] picks the groups worth training on, [`overlong`] and [`edit`] shape rewards before any of this.
//!
//! Knows nothing of tokens, models or where rewards come from.

mod gae;
mod shaping;
mod turns;

pub use gae::{Gae, gae, whitened};
pub use shaping::{Overlong, edit, overlong};
pub use turns::{TurnBaseline, discounted, turn_rewards, turns};

use serde::{Deserialize, Serialize};

/// Rewards closer together than this are the same: sums of components differ in their last bits.
const SPREAD_MIN: f64 = 1e-9;

/// What the rewards of a group are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Centring {
    /// Their mean. No division by the deviation: that inflates groups that almost agree.
    #[default]
    Mean,
    /// Their mean, in units of their deviation (of a sample, with n - 1).
    Deviation {
        /// Added to the deviation.
        epsilon: f64,
    },
    /// The mean of the others.
    LeaveOneOut,
}

/// The advantages of a group's members; `None` when there is no signal: fewer than two, all alike, or not numbers.
pub fn group(rewards_g: &[f64], centring: Centring) -> Option<Vec<f64>> {
    if !has_signal(rewards_g) {
        return None;
    }
    let n = rewards_g.len() as f64;
    let mean = rewards_g.iter().sum::<f64>() / n;
    let scale = match centring {
        Centring::Mean => 1.0,
        Centring::LeaveOneOut => n / (n - 1.0),
        Centring::Deviation { epsilon } => {
            let variance = rewards_g.iter().map(|reward| (reward - mean).powi(2)).sum::<f64>() / (n - 1.0);
            1.0 / (variance.sqrt() + epsilon)
        }
    };
    Some(rewards_g.iter().map(|reward| (reward - mean) * scale).collect())
}

/// The groups to train on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// Positions of the kept groups.
    pub kept: Vec<usize>,
    /// Groups without signal.
    pub n_without_signal: usize,
    /// Groups with signal beyond what was wanted.
    pub n_left_over: usize,
    /// Groups still to be sampled until there are as many as wanted.
    pub n_missing: usize,
}

/// Dynamic sampling: keeps the first `n_wanted` groups that have a signal, and says how many are missing.
pub fn select<'a>(groups: impl IntoIterator<Item = &'a [f64]>, n_wanted: usize) -> Selection {
    let mut selection = Selection::default();
    for (group_idx, rewards_g) in groups.into_iter().enumerate() {
        if !has_signal(rewards_g) {
            selection.n_without_signal += 1;
        } else if selection.kept.len() < n_wanted {
            selection.kept.push(group_idx);
        } else {
            selection.n_left_over += 1;
        }
    }
    selection.n_missing = n_wanted - selection.kept.len();
    selection
}

fn has_signal(rewards: &[f64]) -> bool {
    let (low, high) = rewards.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    rewards.iter().all(|reward| reward.is_finite()) && high - low > SPREAD_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rewards: &[f64], centring: Centring, expected: Option<&[f64]>) {
        let advantages = group(rewards, centring);
        match (&advantages, expected) {
            (Some(found), Some(expected)) => {
                assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
            }
            _ => assert_eq!(advantages.as_deref(), expected),
        }
    }

    #[test]
    fn rewards_are_compared_within_the_group() {
        check(&[1.0, 0.0, 0.0, 1.0], Centring::Mean, Some(&[0.5, -0.5, -0.5, 0.5]));
        check(&[1.0, 0.0, 0.0], Centring::LeaveOneOut, Some(&[1.0, -0.5, -0.5]));
        let by_deviation = Centring::Deviation { epsilon: 0.0 };
        check(&[3.0, 1.0], by_deviation, Some(&[0.5f64.sqrt(), -0.5f64.sqrt()]));
        check(&[1.0, 0.0], Centring::Deviation { epsilon: 0.5 - 0.5f64.sqrt() }, Some(&[1.0, -1.0]));
    }

    #[test]
    fn a_group_without_signal_has_no_advantages() {
        check(&[], Centring::Mean, None);
        check(&[1.0], Centring::Mean, None);
        check(&[0.3; 8], Centring::Mean, None);
        check(&[0.1 + 0.2, 0.3], Centring::Deviation { epsilon: 0.0 }, None);
        check(&[1.0, f64::NAN], Centring::Mean, None);
    }

    #[test]
    fn selection_keeps_what_teaches_and_says_what_is_missing() {
        let groups: [&[f64]; 5] = [&[1.0, 1.0], &[1.0, 0.0], &[0.0, 0.0], &[0.0, 0.5], &[0.2, 0.1]];
        let selection = select(groups, 2);
        assert_eq!(selection, Selection { kept: vec![1, 3], n_without_signal: 2, n_left_over: 1, n_missing: 0 });
        assert_eq!(select(groups, 4).n_missing, 1);
    }
}
