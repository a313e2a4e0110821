//! Packed elements in ascending order without a sort: each is a bit of a map, read from the lowest on.
//!
//! Lines, neighbours and copies of one object are put together by the thousand, within a rectangle of a few hundred places.
//! A map of that rectangle, one per colour, costs less than comparing them.

use crate::patch::{BITS, COMPONENT};

/// With fewer elements a sort is faster.
const LEN_MIN: usize = 24;
/// Words of the map that an element may cost.
const WORDS_PER_KEY: u64 = 8;

/// The distinct keys, ascending; `None` where they lie too far apart, or are too few, for a map.
pub(crate) fn ascending(keys: &[u64]) -> Option<Vec<u64>> {
    if keys.len() < LEN_MIN {
        return None;
    }
    let bounds = Bounds::of(keys);
    // A row of a colour is a line of whole words.
    let (rows, words_per_line) = (bounds.rows(), bounds.columns().div_ceil(64));
    let n_words = bounds.colours().checked_mul(rows * words_per_line)?;
    if n_words > WORDS_PER_KEY * keys.len() as u64 {
        return None;
    }
    let mut map = vec![0_u64; n_words as usize];
    for key in keys {
        let (colour, row, column) = parts(*key);
        let (line, at) = ((colour - bounds.low.0) * rows + (row - bounds.low.1), column - bounds.low.2);
        map[(line * words_per_line + at / 64) as usize] |= 1 << (at % 64);
    }
    let mut ascending = Vec::with_capacity(map.iter().map(|word| word.count_ones() as usize).sum());
    let mut words = map.into_iter();
    for colour in bounds.low.0..=bounds.high.0 {
        for row in bounds.low.1..=bounds.high.1 {
            let start = joined(colour, row, bounds.low.2);
            for (nth, word) in words.by_ref().take(words_per_line as usize).enumerate() {
                push_bits(word, start + 64 * nth as u64, &mut ascending);
            }
        }
    }
    Some(ascending)
}

/// The places of the bits of a word, from a start.
pub(crate) fn push_bits(mut word: u64, start: u64, places: &mut Vec<u64>) {
    while word != 0 {
        places.push(start + u64::from(word.trailing_zeros()));
        word &= word - 1;
    }
}

/// Colour, row and column, as they are packed.
type Parts = (u64, u64, u64);

fn parts(key: u64) -> Parts {
    (key >> (2 * BITS), (key >> BITS) & COMPONENT, key & COMPONENT)
}

fn joined(colour: u64, row: u64, column: u64) -> u64 {
    (colour << (2 * BITS)) | (row << BITS) | column
}

/// The least and the greatest of each part.
struct Bounds {
    low: Parts,
    high: Parts,
}

impl Bounds {
    fn of(keys: &[u64]) -> Self {
        let mut bounds = Self { low: (u64::MAX, u64::MAX, u64::MAX), high: (0, 0, 0) };
        for key in keys {
            let (colour, row, column) = parts(*key);
            let Self { low, high } = bounds;
            bounds.low = (low.0.min(colour), low.1.min(row), low.2.min(column));
            bounds.high = (high.0.max(colour), high.1.max(row), high.2.max(column));
        }
        bounds
    }

    fn colours(&self) -> u64 {
        self.high.0 - self.low.0 + 1
    }

    fn rows(&self) -> u64 {
        self.high.1 - self.low.1 + 1
    }

    fn columns(&self) -> u64 {
        self.high.2 - self.low.2 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::cell_key;
    use hone_trace::Draws;

    #[test]
    fn a_map_gives_what_a_sort_gives() {
        let mut n_maps = 0;
        for seed in 0..200 {
            let mut draws = Draws::new(seed, &["bitmap"]);
            let (side, n_colours) = (1 + draws.below(20) as i64, 1 + draws.below(3) as i64);
            let mut part = |end: i64| draws.between(-end, end);
            let keys: Vec<u64> = (0..200).map(|_| cell_key(part(n_colours), (part(side), part(side) - 5)).unwrap()).collect();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            sorted.dedup();
            n_maps += usize::from(ascending(&keys).is_some_and(|found| found == sorted));
            assert!(ascending(&keys).is_none_or(|found| found == sorted), "seed {seed}");
        }
        assert!(n_maps > 100, "{n_maps}");
    }

    #[test]
    fn elements_that_lie_far_apart_get_no_map() {
        let far: Vec<u64> = (0..100).map(|n| cell_key(0, (n * 1000, -n)).unwrap()).collect();
        assert_eq!(ascending(&far), None);
        assert_eq!(ascending(&far[..3]), None);
    }
}
