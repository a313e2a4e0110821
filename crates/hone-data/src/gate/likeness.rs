//! How alike two texts are: MinHash over runs of three words. The share of equal places of two signatures estimates the share of runs
//! that the texts have in common.

use super::check::Seen;
use hone_trace::TraceId;
use std::collections::HashMap;

/// Places of a signature: at a likeness of 0.95 the estimate is good to 0.02.
const N_PLACES: usize = 128;

/// Words that are looked at, at most.
const N_WORDS_MAX: usize = 8192;

/// Signatures that are kept of one scenario, and in all.
const N_OF_SCENARIO_MAX: usize = 64;
const N_MAX: usize = 1_000_000;

/// What is kept of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature(Box<[u16; N_PLACES]>);

impl Signature {
    pub(super) fn of(text: &str) -> Self {
        let mut least = [u64::MAX; N_PLACES];
        let words: Vec<u64> = text.split_whitespace().take(N_WORDS_MAX).map(hash).collect();
        let run = |words: &[u64]| words.iter().fold(0u64, |sum, word| mixed(sum.rotate_left(21) ^ word));
        // A text of one or two words is a run of its own.
        let runs = words.windows(3.min(words.len().max(1))).map(run);
        for run in runs {
            for (place, least) in (1u64..).zip(&mut least) {
                *least = (*least).min(mixed(run ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            }
        }
        Self(Box::new(least.map(|least| (least >> 48) as u16 ^ least as u16)))
    }

    fn likeness(&self, other: &Self) -> f64 {
        self.0.iter().zip(other.0.iter()).filter(|(one, other)| one == other).count() as f64 / N_PLACES as f64
    }
}

fn hash(word: &str) -> u64 {
    mixed(word.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The signatures of the traces so far, by scenario.
pub(super) struct Likeness {
    bar: f64,
    n: usize,
    kept: HashMap<String, Vec<(Signature, Seen)>>,
}

impl Likeness {
    pub(super) fn new(bar: f64) -> Self {
        Self { bar, n: 0, kept: HashMap::new() }
    }

    /// A trace of this scenario that is too much alike, of those that count.
    pub(super) fn find(&self, scenario: &str, signature: &Signature, counts: impl Fn(&Seen) -> bool) -> Option<TraceId> {
        let kept = self.kept.get(scenario)?;
        let alike = kept.iter().find(|(other, seen)| counts(seen) && other.likeness(signature) >= self.bar)?;
        Some(alike.1.id)
    }

    /// Keeps one in mind. Where there are too many, one that is learned from takes the place of one that is not.
    pub(super) fn add(&mut self, scenario: &str, signature: Signature, seen: Seen) {
        let kept = self.kept.entry(scenario.to_owned()).or_default();
        if kept.len() < N_OF_SCENARIO_MAX && self.n < N_MAX {
            kept.push((signature, seen));
            self.n += 1;
        } else if let Some(poor) = kept.iter_mut().find(|(_, other)| seen.is_point && !other.is_point) {
            *poor = (signature, seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_what_texts_have_in_common() {
        let words = |from: usize, to: usize| (from..to).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
        let likeness = |one: &str, other: &str| Signature::of(one).likeness(&Signature::of(other));
        assert_eq!(likeness(&words(0, 200), &words(0, 200)), 1.0);
        assert!(likeness(&words(0, 200), &words(200, 400)) < 0.05);
        // 298 of 302 runs in common.
        assert!(likeness(&words(0, 302), &words(2, 304)) > 0.95);
        let half = likeness(&words(0, 302), &words(100, 402));
        assert!((0.35..0.65).contains(&half), "{half}");
        assert_eq!(likeness("yes", "yes"), 1.0);
        assert!(likeness("yes", "no") < 0.05 && likeness("", "no") < 0.05);
    }
}
