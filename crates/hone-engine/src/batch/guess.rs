//! Guesses: what a sequence may say next, because its prompt or its own words said it before.
//!
//! Agents repeat what they read: names, arguments, whole lines. Guessed tokens are fed behind those that are due, as further rows of
//! the same step, which take little time where a step waits for the weights. Every row draws its token as always; where that is the
//! guessed one, the row behind it had the right input, and its draw counts too. So guesses change when tokens are drawn, never which.
//! Knows ids only.

/// Tokens at the end that must have been there before, all in a row, for a guess.
const ALIKE_MIN: usize = 2;
/// Tokens of which more tell no more.
const ALIKE_MAX: usize = 8;
/// Tokens that are guessed at first.
const FIRST: usize = 4;

/// How many tokens of a sequence are worth a guess: its guesses tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    n: usize,
    n_max: usize,
}

impl Trust {
    /// Never in more than so many.
    pub(super) fn new(n_max: usize) -> Self {
        Self { n: FIRST.min(n_max), n_max }
    }

    /// At most so many tokens that may come next.
    pub(super) fn guess(self, ids: &[u32], n_max: usize) -> Vec<u32> {
        continuation(ids, n_max.min(self.n))
    }

    /// So many of the guessed tokens were right: twice as many next time where all were, else no more than were, and one.
    pub(super) fn learn(&mut self, n_guessed: usize, n_right: usize) {
        if n_guessed > 0 {
            let n = if n_right == n_guessed { self.n.max(2 * n_right) } else { n_right + 1 };
            self.n = n.min(self.n_max);
        }
    }
}

/// What followed the place that is most alike to the end, the last such place; where that reaches the end it goes round.
fn continuation(ids: &[u32], n: usize) -> Vec<u32> {
    let Some(place) = most_alike(ids).filter(|_| n > 0) else {
        return Vec::new();
    };
    (place..ids.len()).cycle().take(n).map(|i| ids[i]).collect()
}

/// The place before which stand the same tokens as at the end, the most of them.
fn most_alike(ids: &[u32]) -> Option<usize> {
    let (mut best, mut n_best) = (None, ALIKE_MIN - 1);
    for place in (1..ids.len()).rev() {
        let alike = ids[..place].iter().rev().zip(ids.iter().rev()).take(ALIKE_MAX).take_while(|(a, b)| a == b).count();
        if alike > n_best {
            (best, n_best) = (Some(place), alike);
            if alike == ALIKE_MAX {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_longest_likeness_is_guessed() {
        // `7 8` was there twice, `5 7 8` once.
        assert_eq!(continuation(&[5, 7, 8, 1, 2, 9, 7, 8, 3, 4, 5, 7, 8], 2), [1, 2]);
        assert_eq!(continuation(&[6, 7, 8, 1, 2, 9, 7, 8, 3, 4, 5, 7, 8], 2), [3, 4], "the last one among equals");
    }

    #[test]
    fn one_token_alone_is_no_likeness() {
        assert!(continuation(&[1, 2, 3, 1], 4).is_empty());
        assert!(continuation(&[1], 4).is_empty() && continuation(&[], 4).is_empty());
        assert!(continuation(&[1, 2, 3, 1, 2], 0).is_empty());
    }

    #[test]
    fn a_round_is_guessed_to_go_on() {
        assert_eq!(continuation(&[4, 1, 2, 3, 1, 2, 3], 5), [1, 2, 3, 1, 2]);
        assert_eq!(continuation(&[7, 7, 7], 4), [7; 4]);
    }

    #[test]
    fn trust_follows_what_was_right() {
        let mut trust = Trust::new(6);
        let mut after = |n_guessed, n_right| {
            trust.learn(n_guessed, n_right);
            trust.n
        };
        assert_eq!([after(4, 4), after(6, 0), after(1, 1), after(0, 0), after(2, 1)], [6, 1, 2, 2, 2]);
        assert!(Trust::new(0).guess(&[7, 7, 7], 4).is_empty());
    }
}
