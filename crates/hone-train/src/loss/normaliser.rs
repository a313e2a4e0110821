//! Normalisers: how much one token counts, fixed for a whole batch before it is cut into micro-batches.

use serde::{Deserialize, Serialize};

/// What a sum over tokens is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Normaliser {
    /// The number of episodes times a constant length: a token counts the same in a short and in a long episode.
    Constant {
        /// The length, usually the most tokens an episode may sample.
        n_tokens: usize,
    },
    /// Each episode's own length, then the number of episodes: all episodes count the same.
    Episode,
    /// The number of trained tokens in the batch: long episodes count more.
    Tokens,
}

impl Normaliser {
    /// The share of a token, by the length of its episode.
    pub fn share(self, n_tokens_of_episode: usize, n_episodes: usize, n_tokens: usize) -> f64 {
        let count = |n: usize| n.max(1) as f64;
        match self {
            Self::Constant { n_tokens } => 1.0 / (count(n_episodes) * count(n_tokens)),
            Self::Episode => 1.0 / (count(n_episodes) * count(n_tokens_of_episode)),
            Self::Tokens => 1.0 / count(n_tokens),
        }
    }
}
