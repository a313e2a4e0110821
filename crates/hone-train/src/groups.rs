//! Groups of scored traces, made into a batch: rewards become advantages, traces become trained tokens, and what is left
//! out is counted with its reason.
//!
//! A trace that cannot be trained still counts in the baseline of its group: it was sampled from the same policy. An episode
//! that broke says nothing of the policy: what is left of its group is compared, where that is two or more.
//! Knows nothing of losses or models.

use crate::TrainError;
use crate::advantage::{self, Centring, Overlong, TurnBaseline};
use crate::batch::{Advantage, Batch};
use crate::episode::{Episode, Untrainable};
use hone_trace::Trace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whom a reward is credited to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Credit {
    /// Every token of the episode.
    Episode(Centring),
    /// The tokens of each turn, by what came after it.
    Turns {
        /// How much the next turn's return counts.
        gamma: f64,
        /// What returns are compared with.
        baseline: TurnBaseline,
    },
}

/// How groups become a batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOptions {
    /// Whom a reward is credited to.
    pub credit: Credit,
    /// The punishment of length, where there is one.
    #[serde(default)]
    pub overlong: Option<Overlong>,
    /// Rows of a micro-batch.
    pub n_rows_max: usize,
}

/// What became of the groups and traces that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Groups given.
    pub n_groups: usize,
    /// Groups whose members earned the same, or of which episodes that broke left fewer than two.
    pub n_without_signal: usize,
    /// Groups with a trace that nobody scored.
    pub n_unscored: usize,
    /// Traces of all groups that say nothing of the policy: the world broke, or no answer came.
    pub n_broken: usize,
    /// Traces of the groups that are trained on.
    pub n_traces: usize,
    /// Those of them that are left out, by reason.
    pub untrainable: BTreeMap<Untrainable, usize>,
}

impl Counts {
    /// Adds what became of other groups.
    pub fn add(&mut self, other: &Self) {
        self.n_groups += other.n_groups;
        self.n_without_signal += other.n_without_signal;
        self.n_unscored += other.n_unscored;
        self.n_broken += other.n_broken;
        self.n_traces += other.n_traces;
        other.untrainable.iter().for_each(|(why, n)| *self.untrainable.entry(*why).or_default() += n);
    }
}

/// Groups, ready for a step.
#[derive(Debug)]
pub struct Groups {
    /// The batch; its episodes are the trainable traces, group by group.
    pub batch: Batch,
    /// What became of what was given.
    pub counts: Counts,
    credit: Credit,
    groups: Vec<Vec<Member>>,
}

/// One trace of a kept group: what each of its turns earned, and its episode where it has one.
#[derive(Debug)]
struct Member {
    rewards: Vec<f64>,
    episode_idx: Option<usize>,
}

impl Groups {
    /// Makes a batch of groups; those without signal are left out.
    pub fn new(groups: &[&[Trace]], options: &GroupOptions) -> Result<Self, TrainError> {
        if let Credit::Turns { gamma, .. } = options.credit {
            crate::error::within("gamma", gamma, 0.0..=1.0, "0 to 1")?;
        }
        if let Some(overlong) = options.overlong {
            overlong.check()?;
        }
        let mut counts = Counts { n_groups: groups.len(), ..Counts::default() };
        let (mut kept, mut episodes) = (Vec::new(), Vec::new());
        for traces in groups {
            let whole: Vec<&Trace> = traces.iter().filter(|trace| trace.broken().is_none()).collect();
            let n_broken = traces.len() - whole.len();
            counts.n_broken += n_broken;
            if whole.iter().any(|trace| trace.rewards.is_empty()) {
                counts.n_unscored += 1;
                continue;
            }
            let rewards_g: Vec<Vec<f64>> = whole.iter().map(|trace| rewards(trace, options.overlong)).collect();
            let is_torn = n_broken > 0 && whole.len() < 2;
            if is_torn || advantages(&rewards_g, options.credit).is_none() {
                counts.n_without_signal += 1;
                continue;
            }
            counts.n_traces += whole.len();
            let mut member = |(trace, rewards): (&Trace, Vec<f64>)| match Episode::of_trace(trace) {
                Ok(episode) => {
                    episodes.push(episode);
                    Member { rewards, episode_idx: Some(episodes.len() - 1) }
                }
                Err(why) => {
                    *counts.untrainable.entry(why).or_default() += 1;
                    Member { rewards, episode_idx: None }
                }
            };
            kept.push(whole.into_iter().zip(rewards_g).map(&mut member).collect());
        }
        let batch = Batch::new(&episodes, options.n_rows_max);
        for &(_, why) in batch.skipped() {
            *counts.untrainable.entry(why).or_default() += 1;
        }
        let mut groups = Self { batch, counts, credit: options.credit, groups: kept };
        groups.compare()?;
        Ok(groups)
    }

    /// Takes a penalty (such as `beta · KL`) off the reward of every episode and compares again.
    pub fn penalise(&mut self, penalties_e: &[f64]) -> Result<(), TrainError> {
        for member in self.groups.iter_mut().flatten() {
            let penalty = member.episode_idx.and_then(|episode_idx| penalties_e.get(episode_idx));
            if let (Some(penalty), Some(last)) = (penalty, member.rewards.last_mut()) {
                *last -= penalty;
            }
        }
        self.compare()
    }

    /// What each kept group's members earned in all, after penalties.
    pub fn rewards(&self) -> Vec<Vec<f64>> {
        self.groups.iter().map(|members| members.iter().map(|member| member.rewards.iter().sum()).collect()).collect()
    }

    fn compare(&mut self) -> Result<(), TrainError> {
        let mut advantages_e = vec![Advantage::Episode(0.0); self.batch.n_tokens_by_episode().len()];
        for members in &self.groups {
            let rewards_g: Vec<Vec<f64>> = members.iter().map(|member| member.rewards.clone()).collect();
            // A penalty may take the signal away; then the group stands still.
            let Some(advantages_g) = advantages(&rewards_g, self.credit) else { continue };
            for (member, advantage) in members.iter().zip(advantages_g) {
                if let Some(episode_idx) = member.episode_idx {
                    advantages_e[episode_idx] = advantage;
                }
            }
        }
        self.batch.set_advantages(&advantages_e)
    }
}

/// What every turn earned, the punishment of length at the last.
fn rewards(trace: &Trace, shape: Option<Overlong>) -> Vec<f64> {
    let mut rewards = advantage::turn_rewards(trace);
    if let (Some(shape), Some(last)) = (shape, rewards.last_mut()) {
        let n_tokens = trace.turns().filter_map(|turn| turn.sampled.as_ref()).map(|sampled| sampled.ids.len()).sum();
        *last += advantage::overlong(shape, n_tokens);
    }
    rewards
}

fn advantages(rewards_g: &[Vec<f64>], credit: Credit) -> Option<Vec<Advantage>> {
    match credit {
        Credit::Episode(centring) => {
            let totals_g: Vec<f64> = rewards_g.iter().map(|rewards| rewards.iter().sum()).collect();
            Some(advantage::group(&totals_g, centring)?.into_iter().map(Advantage::Episode).collect())
        }
        Credit::Turns { gamma, baseline } => {
            Some(advantage::turns(rewards_g, gamma, baseline)?.into_iter().map(Advantage::Turns).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{earned, sampled, trace, turn};
    use hone_trace::ErrorEvent;

    fn scored(turns: &[&str], reward: f64) -> Trace {
        trace(vec![turns.iter().map(|text| turn(sampled(text))).collect()], Some(reward))
    }

    fn options(credit: Credit) -> GroupOptions {
        GroupOptions { credit, overlong: None, n_rows_max: 1000 }
    }

    const EPISODE: Credit = Credit::Episode(Centring::Mean);

    #[test]
    fn groups_become_a_batch_and_what_is_left_out_is_counted() {
        let good = [scored(&["1 > 2"], 1.0), scored(&["1 > 3"], 0.0), scored(&["?"], 0.0), scored(&["> 4"], 0.0)];
        let same = [scored(&["1 > 2"], 1.0), scored(&["1 > 3"], 1.0)];
        let unscored = [trace(vec![vec![turn(sampled("1 > 2"))]], None)];
        let groups = Groups::new(&[&good, &same, &unscored], &options(EPISODE)).expect("good options");
        assert_eq!(groups.batch.micro_batches[0].advantages, [0.75, -0.25]);
        let untrainable = BTreeMap::from([(Untrainable::NoTokens, 1), (Untrainable::NoPrompt, 1)]);
        let expected = Counts { n_groups: 3, n_without_signal: 1, n_unscored: 1, n_broken: 0, n_traces: 4, untrainable };
        assert_eq!(groups.counts, expected);
    }

    #[test]
    fn an_episode_that_broke_is_no_failure_and_what_is_left_of_its_group_is_compared() {
        let broken = |kind: &str, reward| {
            let mut trace = scored(&["1 > 9"], reward);
            let error = ErrorEvent { kind: kind.into(), recovered: false, message: "as planned".into() };
            trace.segments[0].turns[0].errors.push(error);
            trace
        };
        let left = [scored(&["1 > 2"], 1.0), broken("env_error", 0.0), scored(&["1 > 3"], 0.0), broken("policy_provider", 0.0)];
        let torn = [scored(&["1 > 2"], 1.0), broken("env_error", 0.0)];
        let own = [scored(&["1 > 2"], 1.0), broken("policy_too_long", 0.0)];
        for credit in [EPISODE, Credit::Turns { gamma: 1.0, baseline: TurnBaseline::Trajectory }] {
            let groups = Groups::new(&[&left, &torn, &own], &options(credit)).expect("good options");
            assert_eq!(groups.batch.micro_batches[0].advantages, [0.5, -0.5, 0.5, -0.5], "{credit:?}");
            let counts = Counts { n_groups: 3, n_without_signal: 1, n_broken: 3, n_traces: 4, ..Counts::default() };
            assert_eq!(groups.counts, counts);
        }
    }

    #[test]
    fn turns_are_credited_with_their_own_rewards() {
        let mut first = scored(&["1 > 2", "3 > 4"], 1.0);
        first.rewards.push(earned(Some(0), 1.0));
        let second = scored(&["1 > 2", "3 > 4"], 0.0);
        let credit = Credit::Turns { gamma: 0.0, baseline: TurnBaseline::PerTurn };
        let groups = Groups::new(&[&[first, second]], &options(credit)).expect("good options");
        assert_eq!(groups.batch.micro_batches[0].advantages, [0.5, 0.0, -0.5, 0.0]);
    }

    #[test]
    fn penalties_and_length_change_what_was_earned() {
        let pair = [scored(&["1 > 2"], 1.0), scored(&["1 > 3 3 3"], 0.0)];
        let mut groups = Groups::new(&[&pair], &options(EPISODE)).expect("good options");
        groups.penalise(&[0.5, 0.0]).expect("one per episode");
        assert_eq!(groups.rewards(), [[0.5, 0.0]]);
        assert_eq!(groups.batch.micro_batches[0].advantages, [0.25, -0.25, -0.25, -0.25]);
        let overlong = Some(Overlong { n_tokens_max: 4, n_tokens_margin: 2 });
        let groups = Groups::new(&[&pair], &GroupOptions { overlong, ..options(EPISODE) }).expect("good options");
        assert_eq!(groups.rewards(), [[1.0, -0.5]]);
    }
}
