//! The named methods: each is a choice of loss and of centring, and every one of them has been seen to learn.

use super::{Level, Normaliser, PolicyLoss, Surrogate};
use crate::advantage::Centring;
use serde::{Deserialize, Serialize};

/// A named method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every episode counts the same; advantages are divided by their deviation.
    Grpo,
    /// Every token counts the same against a constant length; advantages are only centred. The default.
    #[default]
    DrGrpo,
    /// Every token counts the same; the ratio may rise further than it may fall.
    Dapo,
    /// Ratios of whole sequences.
    Gspo,
    /// Bounded ratios as weights: no token loses its gradient.
    Cispo,
    /// Every token counts the same; otherwise as `Grpo`.
    Bnpo,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Grpo, Self::DrGrpo, Self::Dapo, Self::Gspo, Self::Cispo, Self::Bnpo];

    /// Its loss, without KL, correction or entropy bonus. `n_tokens_max` is the most tokens an episode may sample.
    pub fn loss(self, n_tokens_max: usize) -> PolicyLoss {
        let clipped = |low, high| Surrogate::Clipped { low, high, ratio_max: None };
        let (surrogate, level, normaliser) = match self {
            Self::Grpo => (clipped(0.2, 0.2), Level::Token, Normaliser::Episode),
            Self::DrGrpo => (clipped(0.2, 0.2), Level::Token, Normaliser::Constant { n_tokens: n_tokens_max }),
            Self::Dapo => (clipped(0.2, 0.28), Level::Token, Normaliser::Tokens),
            Self::Gspo => (clipped(3e-4, 4e-4), Level::Sequence, Normaliser::Episode),
            Self::Cispo => (Surrogate::Weighted { ratio_max: 5.0 }, Level::Token, Normaliser::Tokens),
            Self::Bnpo => (clipped(0.2, 0.2), Level::Token, Normaliser::Tokens),
        };
        PolicyLoss { surrogate, level, normaliser, kl: None, correction: None, entropy_bonus: 0.0 }
    }

    /// How it makes advantages of rewards.
    pub fn centring(self) -> Centring {
        match self {
            Self::DrGrpo => Centring::Mean,
            _ => Centring::Deviation { epsilon: 1e-4 },
        }
    }
}
