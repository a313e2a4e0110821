//! Which arm an episode belongs to: a hash of (salt, episode id) against the canary's share.
//!
//! The same episode always falls on the same place between 0 and 1, so it keeps its arm without any memory. A larger share
//! only adds episodes to the canary. The salt belongs to the experiment: two experiments cut the same episodes differently.
//! Where one id returns after the share has changed, the arm of its first episode is for the caller to remember.

use hone_trace::Draws;
use serde::{Deserialize, Serialize};

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// What serves now.
    Control,
    /// What would take over.
    Canary,
}

/// An arm with how likely it was, which every row of the log carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The side that answers.
    pub arm: Arm,
    /// The probability with which an episode went to the canary, whichever arm this one got.
    pub canary_share: f64,
}

impl Assignment {
    /// The probability of the arm that was chosen.
    pub fn propensity(&self) -> f64 {
        match self.arm {
            Arm::Canary => self.canary_share,
            Arm::Control => 1.0 - self.canary_share,
        }
    }
}

/// The arm of this episode (or user, whose episodes then stay together) at this share of the canary.
pub fn assign(salt: &str, id: &str, canary_share: f64) -> Assignment {
    let place = Draws::new(0, &["assignment", salt, id]).uniform();
    let arm = if place < canary_share { Arm::Canary } else { Arm::Control };
    Assignment { arm, canary_share }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canaries(salt: &str, share: f64) -> Vec<usize> {
        (0..20_000).filter(|id| assign(salt, &id.to_string(), share).arm == Arm::Canary).collect()
    }

    #[test]
    fn shares_are_kept_and_a_larger_one_only_adds() {
        let (tenth, half) = (canaries("a", 0.1), canaries("a", 0.5));
        assert!(tenth.len().abs_diff(2_000) < 150 && half.len().abs_diff(10_000) < 250, "{} {}", tenth.len(), half.len());
        assert!(tenth.iter().all(|id| half.binary_search(id).is_ok()));
        assert!(canaries("a", 0.0).is_empty());
        assert_eq!(canaries("a", 1.0).len(), 20_000);
    }

    #[test]
    fn experiments_cut_independently() {
        let (one, other) = (canaries("a", 0.5), canaries("b", 0.5));
        let both = one.iter().filter(|id| other.binary_search(id).is_ok()).count();
        assert!(both.abs_diff(5_000) < 250, "{both}");
    }

    #[test]
    fn the_propensity_is_that_of_the_chosen_arm() {
        let propensity = |arm| Assignment { arm, canary_share: 0.1 }.propensity();
        assert_eq!((propensity(Arm::Canary), propensity(Arm::Control)), (0.1, 0.9));
    }
}
