//! Places near the origin as bits: adding one is setting a bit, and they come out ascending.
//!
//! Lines and neighbours of all cells of a grid repeat the same few hundred places by the thousand.

use crate::patch::{BIAS, BITS, COMPONENT};

/// The first row and column that have a bit.
const FIRST: u64 = (BIAS - 64) as u64;
/// How many rows and columns have bits: a grid, and what is drawn beyond it on every side.
const SIDE: u64 = 192;
const WORDS_PER_ROW: u64 = SIDE / 64;

/// A set of places near the origin.
#[derive(Debug)]
pub(crate) struct Near(Vec<u64>);

impl Near {
    /// No place yet.
    pub(crate) fn new() -> Self {
        Self(vec![0; (SIDE * WORDS_PER_ROW) as usize])
    }

    /// Adds packed places; those that lie too far out are put behind `far`.
    pub(crate) fn add(&mut self, keys: &[u64], far: &mut Vec<u64>) {
        for &key in keys {
            let (row, column) = ((key >> BITS).wrapping_sub(FIRST), (key & COMPONENT).wrapping_sub(FIRST));
            match self.0.get_mut((row.min(SIDE) * WORDS_PER_ROW + column.min(SIDE - 1) / 64) as usize) {
                Some(word) if column < SIDE => *word |= 1 << (column % 64),
                _ => far.push(key),
            }
        }
    }

    /// The packed places, ascending, behind others.
    pub(crate) fn read_into(&self, keys: &mut Vec<u64>) {
        for (row, words) in (FIRST..).zip(self.0.chunks_exact(WORDS_PER_ROW as usize)) {
            for (start, word) in (FIRST..).step_by(64).zip(words) {
                crate::bitmap::push_bits(*word, (row << BITS) | start, keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::key;
    use hone_trace::Draws;

    #[test]
    fn places_come_out_ascending_and_once_and_far_ones_beside_them() {
        let mut draws = Draws::new(7, &["near"]);
        let mut keys: Vec<u64> = (0..2000).map(|_| key((draws.between(-70, 140), draws.between(-70, 140))).unwrap()).collect();
        keys.extend([key((-500_000, 3)).unwrap(), key((3, 500_000)).unwrap()]);
        let (mut near, mut found) = (Near::new(), Vec::new());
        near.add(&keys, &mut found);
        let n_far = found.len();
        assert!(found.iter().all(|key| keys.contains(key)) && n_far > 2);
        near.read_into(&mut found);
        assert!(found[n_far..].is_sorted_by(|a, b| a < b));
        keys.sort_unstable();
        keys.dedup();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, keys);
    }
}
