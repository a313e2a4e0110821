//! The ids of a row of logits that may be drawn, by rank: larger logits first, then lower ids.
//!
//! Of a large vocabulary only a few ids are ever asked for. What the largest logit of every 64 ids says about the rest is enough to pass
//! almost all of them by.

use std::cmp::Ordering;

use crate::backend::Support;

/// A row, and what may be drawn of it.
pub(super) struct Row<'a> {
    logits: &'a [f32],
    allowed: Option<&'a [u64]>,
    /// The largest logit of every 64 ids; none is less than all logits.
    tops: Vec<f32>,
}

impl<'a> Row<'a> {
    /// Nothing where a logit that may be drawn is no number.
    pub(super) fn new(logits: &'a [f32], allowed: &'a Option<Support>) -> Option<Self> {
        let mut row = Self { logits, allowed: allowed.as_deref(), tops: Vec::with_capacity(logits.len().div_ceil(64)) };
        for block in 0..logits.len().div_ceil(64) {
            let top = match row.word(block) {
                u64::MAX => largest(row.block(block))?,
                _ => row.ids_of(block).try_fold(f32::NEG_INFINITY, |top, id| larger(top, logits[id as usize]))?,
            };
            row.tops.push(top);
        }
        Some(row)
    }

    fn block(&self, block: usize) -> &'a [f32] {
        &self.logits[64 * block..self.logits.len().min(64 * (block + 1))]
    }

    /// Which of 64 ids may be drawn.
    fn word(&self, block: usize) -> u64 {
        self.allowed.map_or(u64::MAX, |words| words[block])
    }

    fn ids_of(&self, block: usize) -> impl Iterator<Item = u32> + 'a {
        let (word, n) = (self.word(block), self.block(block).len());
        (0..n).filter(move |i| word >> i & 1 == 1).map(move |i| (64 * block + i) as u32)
    }

    /// The largest logit.
    pub(super) fn top(&self) -> f32 {
        self.tops.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    }

    /// The id that comes first.
    pub(super) fn first(&self) -> Option<u32> {
        let top = self.top();
        let blocks = (0..self.tops.len()).filter(|&block| self.tops[block] == top);
        blocks.flat_map(|block| self.ids_of(block)).find(|&id| self.logits[id as usize] == top)
    }

    /// The ids that come first, as many as are wanted or there are, in no order.
    pub(super) fn firsts(&self, n: usize) -> Vec<u32> {
        // As many blocks have an id that is not below this.
        let least = match n {
            0 => return Vec::new(),
            n if n > self.tops.len() => f32::NEG_INFINITY,
            n => *self.tops.clone().select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1,
        };
        let mut ids = self.not_below(least);
        if n < ids.len() {
            ids.select_nth_unstable_by(n - 1, |&a, &b| self.rank(a, b));
            ids.truncate(n);
        }
        ids
    }

    /// All ids with at least this logit, in their own order.
    pub(super) fn not_below(&self, least: f32) -> Vec<u32> {
        let blocks = (0..self.tops.len()).filter(|&block| self.tops[block] >= least);
        blocks.flat_map(|block| self.ids_of(block)).filter(|&id| self.logits[id as usize] >= least).collect()
    }

    /// Which of two ids comes first.
    pub(super) fn rank(&self, a: u32, b: u32) -> Ordering {
        self.logits[b as usize].partial_cmp(&self.logits[a as usize]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
    }
}

/// Nothing where the second is no number.
fn larger(top: f32, logit: f32) -> Option<f32> {
    (!logit.is_nan()).then_some(if logit > top { logit } else { top })
}

/// The largest of some logits, several at a time.
fn largest(logits: &[f32]) -> Option<f32> {
    let (mut tops, mut is_number) = ([f32::NEG_INFINITY; 8], [true; 8]);
    let (eights, rest) = logits.as_chunks::<8>();
    for eight in eights {
        for (i, &logit) in eight.iter().enumerate() {
            tops[i] = if logit > tops[i] { logit } else { tops[i] };
            is_number[i] &= !logit.is_nan();
        }
    }
    let all = is_number.iter().all(|&is| is).then_some(tops)?;
    all.into_iter().chain(rest.iter().copied()).try_fold(f32::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn the_first_ids_are_those_of_a_sorted_row() {
        for (vocab, levels) in [(1, 1.0), (63, 5.0), (64, 100.0), (1000, 7.0), (1001, 1e6)] {
            let logits: Vec<f32> = (0..vocab).map(|id| (Stream::new(1, 2).uniform(id) * levels).floor() - 2.0).collect();
            let every_third: Support = (0..vocab.div_ceil(64)).map(|_| 0x9249_2492_4924_9249).collect();
            for allowed in [None, Some(every_third)] {
                let row = Row::new(&logits, &allowed).expect("numbers");
                let inside = |&id: &u32| allowed.as_ref().is_none_or(|words| words[id as usize / 64] >> (id % 64) & 1 == 1);
                let mut sorted: Vec<u32> = (0..vocab as u32).filter(inside).collect();
                sorted.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
                assert_eq!(row.first(), sorted.first().copied());
                for n in [0, 1, 2, 10, 200, vocab as usize, 5000] {
                    let mut found = row.firsts(n);
                    found.sort_unstable_by(|&a, &b| row.rank(a, b));
                    assert_eq!(found, sorted[..n.min(sorted.len())], "{n} of {vocab}");
                }
                let least = logits[sorted[sorted.len() / 2] as usize];
                let mut expected: Vec<u32> = sorted.into_iter().filter(|&id| logits[id as usize] >= least).collect();
                expected.sort_unstable();
                assert_eq!(row.not_below(least), expected);
            }
        }
    }

    #[test]
    fn what_is_no_number_counts_only_where_it_may_be_drawn() {
        for at in [0, 7, 63, 64, 69] {
            let mut logits = vec![1.0; 70];
            logits[at] = f32::NAN;
            assert!(Row::new(&logits, &None).is_none(), "{at}");
            let mut words = [u64::MAX; 2];
            words[at / 64] ^= 1 << (at % 64);
            assert!(Row::new(&logits, &Some(words.into())).is_some(), "{at}");
        }
        let nothing = Some([0u64].into());
        let row = Row::new(&[1.0, 2.0], &nothing).expect("numbers");
        assert_eq!((row.first(), row.firsts(3)), (None, vec![]));
    }
}
