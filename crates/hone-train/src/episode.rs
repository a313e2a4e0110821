//! The trained tokens of an episode.
//!
//! A segment of a trace is a stretch of tokens `input · sampled · input · sampled …`; only what the policy chose is trained.
//! A turn whose tokens are unknown ends its segment for training: what follows it would be trained without its history.
//! Knows nothing of rewards, packing or models.

use hone_trace::{Segment, Trace};
use serde::{Deserialize, Serialize};

/// An episode for training; at least one token of it is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    sequences: Vec<Sequence>,
}

/// A stretch of tokens of which some are trained: at least one, and never the first, which nothing predicts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    ids: Vec<u32>,
    trained: Vec<Trained>,
    temperature: Option<f32>,
}

/// A trained token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trained {
    /// Where it stands in the sequence.
    pub position: usize,
    /// The turn that sampled it, counted over all segments.
    pub turn_idx: usize,
    /// The sampler's log-prob of it, where known.
    pub logprob: Option<f32>,
}

/// Why nothing of a trace can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untrainable {
    /// No turn tells its tokens.
    NoTokens,
    /// The tokens of the prompt are unknown.
    NoPrompt,
    /// Every sampled token was forced or unwanted.
    NothingChosen,
    /// One of its sequences is longer than a micro-batch may be.
    TooLong,
    /// It lacks a reward.
    NoReward,
    /// Its reward is too low to be imitated.
    LowQuality,
}

impl Episode {
    /// The trained tokens of a trace.
    pub fn of_trace(trace: &Trace) -> Result<Self, Untrainable> {
        Self::of_turns(trace, |_| true)
    }

    /// The trained tokens of some turns of a trace.
    pub fn of_turns(trace: &Trace, is_wanted: impl Fn(usize) -> bool) -> Result<Self, Untrainable> {
        let mut sequences = Vec::new();
        let (mut why, mut first_turn_idx) = (Untrainable::NoTokens, 0);
        for segment in &trace.segments {
            match sequence(segment, first_turn_idx, &is_wanted) {
                Ok(sequence) => sequences.push(sequence),
                Err(reason) => why = why.max(reason),
            }
            first_turn_idx += segment.turns.len();
        }
        if sequences.is_empty() { Err(why) } else { Ok(Self { sequences }) }
    }

    /// An episode of tokens that were rendered, not sampled; `is_trained` says which of them are trained.
    pub fn rendered(ids: Vec<u32>, is_trained: &[bool]) -> Result<Self, Untrainable> {
        let known = 1..ids.len().min(is_trained.len());
        let trained: Vec<Trained> = known
            .filter(|&position| is_trained[position])
            .map(|position| Trained { position, turn_idx: 0, logprob: None })
            .collect();
        if trained.is_empty() {
            return Err(Untrainable::NothingChosen);
        }
        Ok(Self { sequences: vec![Sequence { ids, trained, temperature: None }] })
    }

    /// The same where it is known at which temperature it was sampled: the sampler's log-probs are those of that temperature, so a
    /// step scores its tokens at it too, whatever its own is.
    pub fn sampled_at(mut self, temperature: f32) -> Self {
        self.sequences.iter_mut().for_each(|sequence| sequence.temperature = Some(temperature));
        self
    }

    /// The same without what the sampler said of its tokens, where that cannot be compared with what a step computes.
    pub fn untold(mut self) -> Self {
        let trained = self.sequences.iter_mut().flat_map(|sequence| &mut sequence.trained);
        trained.for_each(|token| token.logprob = None);
        self
    }

    /// Whether the sampler said how likely one of its tokens was.
    pub fn is_told(&self) -> bool {
        self.sequences.iter().flat_map(|sequence| &sequence.trained).any(|token| token.logprob.is_some())
    }

    /// One episode of the sequences of several.
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let sequences: Vec<Sequence> = parts.into_iter().flat_map(|part| part.sequences).collect();
        (!sequences.is_empty()).then_some(Self { sequences })
    }

    /// Its sequences, one per segment that has trained tokens.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// Tokens of its longest sequence.
    pub fn n_longest(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.ids.len()).max().unwrap_or(0)
    }

    /// How many tokens are trained.
    pub fn n_trained(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.trained.len()).sum()
    }
}

impl Sequence {
    /// All tokens.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The trained ones, positions ascending.
    pub fn trained(&self) -> &[Trained] {
        &self.trained
    }

    /// The temperature at which it was sampled, where that is known.
    pub fn temperature(&self) -> Option<f32> {
        self.temperature
    }

    /// Tokens before the first trained one: what members of a group may share.
    pub fn prompt(&self) -> &[u32] {
        &self.ids[..self.trained.first().map_or(0, |first| first.position)]
    }

    /// Tokens from the first trained one to the last: what follows them changes nothing.
    pub fn completion(&self) -> &[u32] {
        let end = self.trained.last().map_or(0, |last| last.position + 1);
        &self.ids[self.prompt().len()..end]
    }
}

fn sequence(segment: &Segment, first_turn_idx: usize, is_wanted: &impl Fn(usize) -> bool) -> Result<Sequence, Untrainable> {
    let mut sequence = Sequence::default();
    let known = segment.turns.iter().map_while(|turn| turn.sampled.as_ref());
    for (turn_idx, sampled) in (first_turn_idx..).zip(known) {
        if sampled.input_ids.is_empty() {
            // Every turn is asked something, so its input has tokens; here they were not told.
            if sequence.ids.is_empty() {
                return Err(Untrainable::NoPrompt);
            }
            break;
        }
        sequence.ids.extend(&sampled.input_ids);
        let first = sequence.ids.len();
        for i in 0..sampled.ids.len() {
            let is_forced = u32::try_from(i).is_ok_and(|i| sampled.forced.binary_search(&i).is_ok());
            if is_wanted(turn_idx) && !is_forced {
                sequence.trained.push(Trained { position: first + i, turn_idx, logprob: sampled.logprobs.get(i).copied() });
            }
        }
        sequence.ids.extend(&sampled.ids);
    }
    match (sequence.ids.is_empty(), sequence.trained.is_empty()) {
        (true, _) => Err(Untrainable::NoTokens),
        (false, true) => Err(Untrainable::NothingChosen),
        (false, false) => Ok(sequence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sampled, trace, turn};

    /// The tokens of a sequence and the positions of the trained ones.
    type Expected = (&'static [u32], &'static [usize]);

    /// A turn as `input > sampled`, a forced token with a `!`; `?` for a turn whose tokens are unknown.
    fn check(segments: &[&[&str]], expected: Result<&[Expected], Untrainable>) {
        let segments = segments.iter().map(|turns| turns.iter().map(|text| turn(sampled(text))).collect()).collect();
        let found = Episode::of_trace(&trace(segments, None));
        let found = found.map(|episode| {
            let pick = |sequence: &Sequence| {
                (sequence.ids.clone(), sequence.trained.iter().map(|token| token.position).collect::<Vec<_>>())
            };
            episode.sequences.iter().map(pick).collect::<Vec<_>>()
        });
        let expected = expected.map(|rows| rows.iter().map(|(ids, at)| (ids.to_vec(), at.to_vec())).collect::<Vec<_>>());
        assert_eq!(found, expected);
    }

    #[test]
    fn only_what_was_chosen_is_trained() {
        check(&[&["1 2 > 3 4"]], Ok(&[(&[1, 2, 3, 4], &[2, 3])]));
        check(&[&["1 2 > 3 4!", "5 > 6! 7"]], Ok(&[(&[1, 2, 3, 4, 5, 6, 7], &[2, 6])]));
        check(&[&["1 > 2"], &["8 9 > 3"]], Ok(&[(&[1, 2], &[1]), (&[8, 9, 3], &[2])]));
    }

    #[test]
    fn an_unknown_turn_ends_its_segment() {
        check(&[&["1 > 2", "?", "3 > 4"]], Ok(&[(&[1, 2], &[1])]));
        check(&[&["1 > 2", "> 4"]], Ok(&[(&[1, 2], &[1])]));
        check(&[&["?", "3 > 4"], &["5 > 6"]], Ok(&[(&[5, 6], &[1])]));
    }

    #[test]
    fn what_cannot_be_trained_says_why() {
        check(&[&["?"]], Err(Untrainable::NoTokens));
        check(&[], Err(Untrainable::NoTokens));
        check(&[&["> 3 4"]], Err(Untrainable::NoPrompt));
        check(&[&["1 > 3!"]], Err(Untrainable::NothingChosen));
        assert_eq!(Episode::rendered(vec![1, 2], &[true, false]), Err(Untrainable::NothingChosen));
    }

    #[test]
    fn the_prompt_ends_at_the_first_trained_token() {
        let episode = Episode::rendered(vec![1, 2, 3, 4, 5], &[false, false, true, false]).expect("one is trained");
        let sequence = &episode.sequences[0];
        assert_eq!((sequence.prompt(), sequence.completion()), (&[1, 2][..], &[3][..]));
    }
}
