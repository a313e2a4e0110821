//! A batch: the trained tokens of many episodes, packed with shared prompts and cut into micro-batches.
//!
//! Sequences with the same prompt stand in one group of the engine's layout, so the prompt is computed once. Only trained
//! tokens become targets: the head, the most costly product of a small model, never sees the rest. The order is that of
//! the episodes, prompts in the order in which they first come, so the same episodes make the same batch.
//! Knows nothing of losses, weights or where advantages come from.

mod packing;

use self::packing::{Member, Open, members, n_rows};
use crate::TrainError;
use crate::episode::{Episode, Untrainable};
use crate::loss::{Normaliser, Pair};
use crate::step::Reference;
use hone_engine::layout::Packed;
use std::collections::BTreeMap;
use std::ops::Range;

/// Many episodes, ready for a step.
#[derive(Debug)]
pub struct Batch {
    pub(crate) micro_batches: Vec<MicroBatch>,
    /// Trained tokens of every episode given; 0 for one that was left out.
    n_tokens_e: Vec<usize>,
    skipped: Vec<(usize, Untrainable)>,
    n_pairs: usize,
    /// Whose log-probs the micro-batches hold as reference, and at which temperature those that tell none.
    pub(crate) scored_by: Option<(Reference, f32)>,
}

/// What is computed at once.
#[derive(Debug, Default)]
pub(crate) struct MicroBatch {
    pub(crate) packed: Packed,
    /// The tokens of each sequence.
    pub(crate) spans: Vec<Range<usize>>,
    pub(crate) places: Vec<Place>,
    pub(crate) sampler: Vec<Option<f32>>,
    /// The temperature at which each was sampled, where that is known.
    pub(crate) temperatures: Vec<Option<f32>>,
    pub(crate) advantages: Vec<f32>,
    /// Empty until a reference was asked.
    pub(crate) reference: Vec<f32>,
    pub(crate) pairs: Vec<Pair>,
}

/// Where a trained token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) episode_idx: usize,
    pub(crate) turn_idx: usize,
    /// Counted over the trained tokens of the episode.
    pub(crate) token_idx: usize,
}

/// What an episode's tokens are trained with; for imitation, how much they count.
#[derive(Clone, Debug, PartialEq)]
pub enum Advantage {
    /// The same for all of its tokens.
    Episode(f64),
    /// One per turn.
    Turns(Vec<f64>),
    /// One per trained token.
    Tokens(Vec<f64>),
}

impl Batch {
    /// Packs episodes into micro-batches of at most `n_rows_max` rows (tokens computed, shared ones once). An episode with
    /// a sequence longer than that is left out. All advantages are 1.
    pub fn new(episodes: &[Episode], n_rows_max: usize) -> Self {
        let mut by_prompt: BTreeMap<&[u32], usize> = BTreeMap::new();
        let mut units: Vec<Vec<Vec<Member>>> = Vec::new();
        let mut skipped = Vec::new();
        for (episode_idx, episode) in episodes.iter().enumerate() {
            let members = members(episode_idx, episode);
            if members.iter().any(|&member| n_rows([member], |_| false) > n_rows_max) {
                skipped.push((episode_idx, Untrainable::TooLong));
                continue;
            }
            for member in members {
                let next = units.len();
                let place = *by_prompt.entry(member.sequence.prompt()).or_insert(next);
                if place == next {
                    units.push(Vec::new());
                }
                units[place].push(vec![member]);
            }
        }
        Self::pack(episodes, &units.concat(), skipped, n_rows_max)
    }

    /// Packs pairs of a better and a worse episode. Both of a pair are in one micro-batch; episode `2 i` is the better of
    /// pair `i`. A pair that does not fit is left out.
    pub fn of_pairs(pairs: &[[Episode; 2]], n_rows_max: usize) -> Self {
        let (mut units, mut skipped) = (Vec::new(), Vec::new());
        for (pair_idx, pair) in pairs.iter().enumerate() {
            let unit: Vec<Member> = (2 * pair_idx..).zip(pair).flat_map(|(idx, episode)| members(idx, episode)).collect();
            if n_rows(unit.iter().copied(), |_| false) > n_rows_max {
                skipped.extend([(2 * pair_idx, Untrainable::TooLong), (2 * pair_idx + 1, Untrainable::TooLong)]);
            } else {
                units.push(unit);
            }
        }
        let mut batch = Self::pack(pairs.as_flattened(), &units, skipped, n_rows_max);
        batch.micro_batches.iter_mut().for_each(MicroBatch::find_pairs);
        batch.n_pairs = units.len();
        batch
    }

    /// Units stay together and are taken in order.
    fn pack(episodes: &[Episode], units: &[Vec<Member>], skipped: Vec<(usize, Untrainable)>, n_rows_max: usize) -> Self {
        let mut n_tokens_e: Vec<usize> = episodes.iter().map(Episode::n_trained).collect();
        skipped.iter().for_each(|&(episode_idx, _)| n_tokens_e[episode_idx] = 0);
        let mut batch = Self { micro_batches: Vec::new(), n_tokens_e, skipped, n_pairs: 0, scored_by: None };
        let (mut open, mut n_open_rows) = (Open::default(), 0);
        for unit in units {
            let cost = n_rows(unit.iter().copied(), |prompt| open.by_prompt.contains_key(prompt));
            if n_open_rows > 0 && n_open_rows + cost > n_rows_max {
                batch.micro_batches.push(std::mem::take(&mut open).close());
                n_open_rows = 0;
            }
            n_open_rows += n_rows(unit.iter().copied(), |prompt| open.by_prompt.contains_key(prompt));
            unit.iter().for_each(|&member| open.push(member));
        }
        if n_open_rows > 0 {
            batch.micro_batches.push(open.close());
        }
        batch
    }

    /// Gives every episode its advantage.
    pub fn set_advantages(&mut self, advantages_e: &[Advantage]) -> Result<(), TrainError> {
        let count = |what, n_given, n_expected| Err(TrainError::Count { what, n_given, n_expected });
        if advantages_e.len() != self.n_tokens_e.len() {
            return count("episodes", advantages_e.len(), self.n_tokens_e.len());
        }
        for micro_batch in &mut self.micro_batches {
            for (place, slot) in micro_batch.places.iter().zip(&mut micro_batch.advantages) {
                let found = match &advantages_e[place.episode_idx] {
                    Advantage::Episode(value) => Some(value),
                    Advantage::Turns(values) => values.get(place.turn_idx),
                    Advantage::Tokens(values) => values.get(place.token_idx),
                };
                match (found, &advantages_e[place.episode_idx]) {
                    (Some(&value), _) => *slot = value as f32,
                    (None, Advantage::Turns(values)) => return count("turns", values.len(), place.turn_idx + 1),
                    (None, Advantage::Episode(_)) => {}
                    (None, Advantage::Tokens(values)) => {
                        return count("trained tokens", values.len(), self.n_tokens_e[place.episode_idx]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there is nothing to train on.
    pub fn is_empty(&self) -> bool {
        self.micro_batches.is_empty()
    }

    /// The episodes that were left out, and why.
    pub fn skipped(&self) -> &[(usize, Untrainable)] {
        &self.skipped
    }

    /// Trained tokens of every episode given; 0 for one that was left out.
    pub fn n_tokens_by_episode(&self) -> &[usize] {
        &self.n_tokens_e
    }

    /// Trained tokens in all.
    pub fn n_tokens(&self) -> usize {
        self.n_tokens_e.iter().sum()
    }

    /// Episodes that are trained on.
    pub fn n_episodes(&self) -> usize {
        self.n_tokens_e.len() - self.skipped.len()
    }

    /// Pairs that are trained on.
    pub fn n_pairs(&self) -> usize {
        self.n_pairs
    }

    /// Tokens that are computed, shared prompts once.
    pub fn n_rows(&self) -> usize {
        self.micro_batches.iter().map(|micro_batch| micro_batch.packed.layout.n_rows()).sum()
    }

    /// What is computed at once.
    pub fn n_micro_batches(&self) -> usize {
        self.micro_batches.len()
    }

    /// The share of every token of a micro-batch in a loss.
    pub(crate) fn shares(&self, micro_batch: &MicroBatch, normaliser: Normaliser) -> Vec<f64> {
        let (n_episodes, n_tokens) = (self.n_episodes(), self.n_tokens());
        let share = |place: &Place| normaliser.share(self.n_tokens_e[place.episode_idx], n_episodes, n_tokens);
        micro_batch.places.iter().map(share).collect()
    }
}

impl MicroBatch {
    fn find_pairs(&mut self) {
        let mut pairs: BTreeMap<usize, Pair> = BTreeMap::new();
        for (span_idx, span) in self.spans.iter().enumerate() {
            let episode_idx = self.places[span.start].episode_idx;
            let pair = pairs.entry(episode_idx / 2).or_default();
            if episode_idx.is_multiple_of(2) { pair.chosen.push(span_idx) } else { pair.rejected.push(span_idx) }
        }
        self.pairs = pairs.into_values().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sampled, trace, turn};

    fn episode(turns: &[&str]) -> Episode {
        let turns = turns.iter().map(|text| turn(sampled(text))).collect();
        Episode::of_trace(&trace(vec![turns], None)).expect("trainable")
    }

    fn episodes() -> Vec<Episode> {
        vec![episode(&["1 2 > 3 4", "5 > 6!  7"]), episode(&["9 9 > 8"]), episode(&["1 2 > 4 4 4"])]
    }

    #[test]
    fn prompts_are_shared_and_only_chosen_tokens_are_targets() {
        let batch = Batch::new(&episodes(), 1000);
        let [micro_batch] = &batch.micro_batches[..] else { panic!("one micro-batch") };
        let ids: Vec<u32> = micro_batch.packed.targets.iter().map(|&(_, id)| id).collect();
        assert_eq!(ids, [3, 4, 7, 4, 4, 4, 8]);
        assert_eq!(micro_batch.spans, [0..3, 3..6, 6..7]);
        // Prompt of two, completions of five and three without their last; then a prompt of two alone.
        assert_eq!(batch.n_rows(), 2 + 4 + 2 + 2);
        // The token 7 is predicted from the row of the forced 6.
        let row = micro_batch.packed.targets[2].0;
        assert_eq!(micro_batch.packed.layout.ids[row as usize], 6);
        let logprobs: Vec<f32> = micro_batch.sampler.iter().map(|logprob| logprob.expect("known")).collect();
        assert_eq!(logprobs, [-0.3, -0.4, -0.7, -0.4, -0.4, -0.4, -0.8]);
        assert_eq!((batch.n_tokens(), batch.n_episodes()), (7, 3));
    }

    #[test]
    fn advantages_go_to_episodes_turns_or_tokens() {
        let mut batch = Batch::new(&episodes(), 1000);
        let advantages = [Advantage::Turns(vec![1.0, 2.0]), Advantage::Episode(3.0), Advantage::Tokens(vec![4.0, 5.0, 6.0])];
        batch.set_advantages(&advantages).expect("all are there");
        assert_eq!(batch.micro_batches[0].advantages, [1.0, 1.0, 2.0, 4.0, 5.0, 6.0, 3.0]);
        assert!(batch.set_advantages(&advantages[..2]).is_err());
        let short = [Advantage::Turns(vec![1.0]), Advantage::Episode(3.0), Advantage::Episode(3.0)];
        assert_eq!(batch.set_advantages(&short), Err(TrainError::Count { what: "turns", n_given: 1, n_expected: 2 }));
    }

    #[test]
    fn micro_batches_keep_to_their_limit_and_what_does_not_fit_is_named() {
        let batch = Batch::new(&episodes(), 6);
        let rows: Vec<usize> = batch.micro_batches.iter().map(|micro_batch| micro_batch.packed.layout.n_rows()).collect();
        assert_eq!(rows, [6, 6]);
        let batch = Batch::new(&episodes(), 4);
        assert_eq!(batch.skipped(), [(0, Untrainable::TooLong)]);
        assert_eq!(batch.n_tokens_by_episode(), [0, 1, 3]);
        assert!(batch.micro_batches.iter().all(|micro_batch| micro_batch.packed.layout.n_rows() <= 4));
        assert_eq!(Batch::new(&[], 4).n_micro_batches(), 0);
    }

    #[test]
    fn shares_do_not_depend_on_how_a_batch_is_cut() {
        for normaliser in [Normaliser::Episode, Normaliser::Tokens, Normaliser::Constant { n_tokens: 4 }] {
            let shares = |n_rows_max| {
                let batch = Batch::new(&episodes(), n_rows_max);
                batch.micro_batches.iter().flat_map(|micro_batch| batch.shares(micro_batch, normaliser)).collect::<Vec<f64>>()
            };
            let whole: Vec<f64> = shares(1000);
            let total: f64 = whole.iter().sum();
            assert!((total - if matches!(normaliser, Normaliser::Constant { .. }) { 7.0 / 12.0 } else { 1.0 }).abs() < 1e-12);
            assert_eq!(whole, shares(6));
        }
    }

    #[test]
    fn an_episode_of_two_segments_counts_its_tokens_through() {
        let segments = [&["1 > 2 3"][..], &["8 9 > 4", "5 > 6"][..]];
        let turns = |texts: &[&str]| texts.iter().map(|text| turn(sampled(text))).collect();
        let episode = Episode::of_trace(&trace(segments.into_iter().map(turns).collect(), None)).expect("trainable");
        let mut batch = Batch::new(&[episode], 1000);
        batch.set_advantages(&[Advantage::Tokens(vec![1.0, 2.0, 3.0, 4.0])]).expect("four tokens");
        assert_eq!(batch.micro_batches[0].advantages, [1.0, 2.0, 3.0, 4.0]);
        batch.set_advantages(&[Advantage::Turns(vec![1.0, 2.0, 3.0])]).expect("three turns");
        assert_eq!(batch.micro_batches[0].advantages, [1.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn both_of_a_pair_stay_together() {
        let pairs = [[episode(&["1 2 > 3"]), episode(&["1 2 > 4 5"])], [episode(&["7 > 8"]), episode(&["7 > 9"])]];
        let batch = Batch::of_pairs(&pairs, 3);
        assert_eq!((batch.n_micro_batches(), batch.n_pairs()), (2, 2));
        for micro_batch in &batch.micro_batches {
            assert_eq!(micro_batch.pairs, [Pair { chosen: vec![0], rejected: vec![1] }]);
        }
        assert_eq!(Batch::of_pairs(&pairs, 2).skipped().len(), 2);
    }
}
