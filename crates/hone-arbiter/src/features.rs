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
}

impl Situation<'_> {
    /// The numbers.
    pub fn features(&self) -> Vec<f64> {
        let mut features = vec![0.0; N_FEATURES];
        let size = |n: usize, scale: f64| (n as f64).ln_1p() / scale;
        features[..4].copy_from_slice(&[1.0, size(self.n_chars, 10.0), size(self.n_messages, 3.0), size(self.n_tools, 3.0)]);
        let words = [("task", Some(self.task), 4, 12), ("role", self.role, 16, 5), ("segment", self.segment, 21, 6)];
        for (kind, word, from, n_places) in words.into_iter().chain([("domain", self.domain, 27, 5)]) {
            if let Some(word) = word {
                features[from + (Draws::new(0, &["feature", kind, word]).bits() % n_places) as usize] = 1.0;
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
        assert_eq!(features[4..].iter().sum::<f64>(), 1.0);
        let whole = Situation { role: Some("admin"), segment: Some("eu"), domain: Some("law"), ..bare }.features();
        assert_eq!(whole[4..].iter().sum::<f64>(), 4.0);
        assert_eq!(whole[16..21].iter().sum::<f64>(), 1.0);
        assert_eq!(whole[27..].iter().sum::<f64>(), 1.0);
        assert_ne!(features, Situation { task: "greeting", ..bare }.features());
    }
}
