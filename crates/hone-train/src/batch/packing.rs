//! Laying sequences out: those with the same prompt share its rows, and only trained tokens become targets.

use super::{MicroBatch, Place};
use crate::episode::{Episode, Sequence};
use hone_engine::layout::{Group, Packed};
use std::collections::BTreeMap;

/// A sequence on its way into the batch.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) episode_idx: usize,
    /// Trained tokens of the episode before this sequence.
    pub(super) first_token_idx: usize,
    pub(super) sequence: &'a Sequence,
}

/// Its sequences, each with the number of trained tokens before it.
pub(super) fn members(episode_idx: usize, episode: &Episode) -> Vec<Member<'_>> {
    let mut first_token_idx = 0;
    let member = |sequence| {
        let member = Member { episode_idx, first_token_idx, sequence };
        first_token_idx += sequence.trained().len();
        member
    };
    episode.sequences().iter().map(member).collect()
}

/// Rows that these add to a micro-batch which has some prompts already.
pub(super) fn n_rows<'a>(members: impl IntoIterator<Item = Member<'a>>, has_prompt: impl Fn(&[u32]) -> bool) -> usize {
    let (mut new_prompts, mut n) = (Vec::new(), 0);
    for Member { sequence, .. } in members {
        n += sequence.completion().len() - 1;
        if !has_prompt(sequence.prompt()) && !new_prompts.contains(&sequence.prompt()) {
            new_prompts.push(sequence.prompt());
            n += sequence.prompt().len();
        }
    }
    n
}

/// A micro-batch that is being filled.
#[derive(Default)]
pub(super) struct Open<'a> {
    pub(super) by_prompt: BTreeMap<&'a [u32], usize>,
    groups: Vec<Vec<Member<'a>>>,
}

impl<'a> Open<'a> {
    pub(super) fn push(&mut self, member: Member<'a>) {
        let next = self.groups.len();
        let place = *self.by_prompt.entry(member.sequence.prompt()).or_insert(next);
        if place == next {
            self.groups.push(Vec::new());
        }
        self.groups[place].push(member);
    }

    pub(super) fn close(self) -> MicroBatch {
        let group = |members: &Vec<Member>| Group {
            prompt: members[0].sequence.prompt().to_vec(),
            completions: members.iter().map(|member| member.sequence.completion().to_vec()).collect(),
        };
        let groups: Vec<Group> = self.groups.iter().map(group).collect();
        let mut micro_batch = MicroBatch { packed: Packed::new(&groups), ..MicroBatch::default() };
        let mut targets = Vec::new();
        for (members, spans) in self.groups.iter().zip(&mut micro_batch.packed.spans) {
            for (Member { episode_idx, first_token_idx, sequence }, span) in members.iter().zip(spans) {
                let (first_target, n_prompt) = (span.0, sequence.prompt().len());
                let start = targets.len();
                for (i, token) in sequence.trained().iter().enumerate() {
                    targets.push(micro_batch.packed.targets[first_target + token.position - n_prompt]);
                    micro_batch.sampler.push(token.logprob);
                    micro_batch.temperatures.push(sequence.temperature());
                    let (turn_idx, token_idx) = (token.turn_idx, first_token_idx + i);
                    micro_batch.places.push(Place { episode_idx: *episode_idx, turn_idx, token_idx });
                }
                *span = (start, targets.len());
                micro_batch.spans.push(start..targets.len());
            }
        }
        micro_batch.packed.targets = targets;
        micro_batch.advantages = vec![1.0; micro_batch.places.len()];
        micro_batch
    }
}
