//! What is known about an episode when somebody must be chosen for it, as numbers near 1.
//!
//! Sizes enter by their logarithms. Words (the type of task, who asks, from where) enter by the place that a hash gives them among a
//! few: two words may share a place, and the list of words needs no keeper.

use hone_trace::Draws;

/// How many numbers there are.
pub const N_FEATURES: usize = 32;

/// What is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Situation<'a> {
    /// The type of task.
    pub task: &'a str,
    /// Characters of the conversation so far.
    pub n_chars: usize,
    /// Its messages.
    pub n_messages: usize,
    /// Tools on offer.
    pub n_tools: usize,
    /// The role of who asks.
    pub role: Option<&'a str>,
    /// The segment that they belong to.
    pub segment: Option<&'a str>,
    /// The domain that it is about.
    pub domain: Option<&'a str>,
    /// The config that they have now.
    pub config: Option<&'a str>,
    /// The cluster of failures that it belongs to.
    pub failure: Option<&'a str>,
    /// What a success at this type of task costs, as far as is known.
    pub usd_per_success: Option<f64>,
}

/// The price of a success that counts as 1.
const REFERENCE_USD: f64 = 0.1;

impl Situation<'_> {
    /// The numbers.
    pub fn features(&self) -> Vec<f64> {
        let mut features = vec![0.0; N_FEATURES];
        let size = |n: usize, scale: f64| (n as f64).ln_1p() / scale;
        let price = (self.usd_per_success.unwrap_or(0.0).max(0.0) / REFERENCE_USD).ln_1p().min(1.5);
        let numbers = [1.0, size(self.n_chars, 10.0), size(self.n_messages, 3.0), size(self.n_tools, 3.0), price];
        features[..numbers.len()].copy_from_slice(&numbers);
        let words = [
            ("task", Some(self.task), 5..13),
            ("role", self.role, 13..16),
            ("segment", self.segment, 16..20),
            ("domain", self.domain, 20..24),
            ("config", self.config, 24..28),
            ("failure", self.failure, 28..32),
        ];
        for (kind, word, places) in words {
            if let Some(word) = word {
                let draw = Draws::new(0, &["feature", kind, word]).bits() as usize;
                features[places.start + draw % places.len()] = 1.0;
            }
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_near_one_and_words_have_their_places() {
        let bare = Situation { task: "refund", n_chars: 100_000, n_messages: 40, n_tools: 30, ..Situation::default() };
        let features = bare.features();
        assert_eq!(features.len(), N_FEATURES);
        assert!(features.iter().all(|number| (0.0..=1.5).contains(number)), "{features:?}");
        assert_eq!((features[4], features[5..].iter().sum::<f64>()), (0.0, 1.0));
        let whole = Situation { role: Some("admin"), segment: Some("eu"), domain: Some("law"), ..bare };
        let whole = Situation { config: Some("v1"), failure: Some("loops"), usd_per_success: Some(0.1), ..whole }.features();
        assert!(whole[4] > 0.5 && whole.iter().all(|number| (0.0..=1.5).contains(number)), "{whole:?}");
        for places in [5..13, 13..16, 16..20, 20..24, 24..28, 28..32] {
            assert_eq!(whole[places.clone()].iter().sum::<f64>(), 1.0, "{places:?}");
        }
        assert_ne!(features, Situation { task: "greeting", ..bare }.features());
    }
}
