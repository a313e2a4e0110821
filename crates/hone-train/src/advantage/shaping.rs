//! Rewards changed before they are compared: for episodes that are too long, and for edits of a common start.

use crate::TrainError;
use serde::{Deserialize, Serialize};

/// A soft punishment of length, as in DAPO: nothing up to `n_tokens_max - n_tokens_margin`, then linearly down to -1 at
/// `n_tokens_max`, and -1 beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlong {
    /// The length that is punished in full.
    pub n_tokens_max: usize,
    /// How long before it the punishment begins.
    pub n_tokens_margin: usize,
}

impl Overlong {
    /// Refuses a margin that is empty or longer than the whole.
    pub fn check(&self) -> Result<(), TrainError> {
        if self.n_tokens_margin == 0 || self.n_tokens_margin > self.n_tokens_max {
            return Err(TrainError::Conflict("the margin of the overlong punishment lies outside 1 to its full length"));
        }
        Ok(())
    }
}

/// What is added to the reward of an episode of this many sampled tokens.
pub fn overlong(shape: Overlong, n_tokens: usize) -> f64 {
    let free = shape.n_tokens_max.saturating_sub(shape.n_tokens_margin);
    let over = n_tokens.saturating_sub(free) as f64;
    -(over / shape.n_tokens_margin.max(1) as f64).min(1.0)
}

/// Edit mode: the rewards of turns that each left a state with a score, all members of the group having begun at a state
/// of score `start`. A turn earns what it changed; the sum is what the episode changed.
pub fn edit(start: f64, scores: &[f64]) -> Vec<f64> {
    let before = std::iter::once(start).chain(scores.iter().copied());
    scores.iter().zip(before).map(|(score, before)| score - before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n_tokens: usize, expected: f64) {
        let shape = Overlong { n_tokens_max: 100, n_tokens_margin: 20 };
        assert_eq!(overlong(shape, n_tokens), expected, "{n_tokens} tokens");
    }

    #[test]
    fn length_is_punished_softly_at_first() {
        check(0, 0.0);
        check(80, 0.0);
        check(85, -0.25);
        check(100, -1.0);
        check(1000, -1.0);
        assert!(Overlong { n_tokens_max: 10, n_tokens_margin: 11 }.check().is_err());
    }

    #[test]
    fn an_edit_earns_what_it_changed() {
        assert_eq!(edit(0.5, &[0.75, 0.25, 1.0]), [0.25, -0.5, 0.75]);
        assert_eq!(edit(0.5, &[]), Vec::<f64>::new());
    }
}
