//! Importance correction for data that another policy sampled: an older version of the weights, or a server whose
//! numerics differ.
//!
//! Each token's loss is multiplied by `w = p_old / p_sampler`, where `p_old` is the policy at the start of the step. Large
//! weights are either cut down (truncated importance sampling) or dropped with their tokens (masked). The weight is a
//! constant for the gradient. A token whose sampler log-prob is unknown has weight 1.

use super::{Level, Tokens};
use crate::TrainError;
use crate::error::within;
use serde::{Deserialize, Serialize};

/// How tokens of another policy are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Weights of single tokens, or the product over a sequence.
    pub level: Level,
    /// What happens outside the bounds.
    pub remedy: Remedy,
    /// Lower bound; 0 for none.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// What happens to a weight outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// It becomes the bound.
    Truncate,
    /// It becomes zero.
    Mask,
}

impl Default for Correction {
    /// Truncated importance sampling per token with the usual bound.
    fn default() -> Self {
        Self { level: Level::Token, remedy: Remedy::Truncate, low: 0.0, high: 2.0 }
    }
}

impl Correction {
    /// Refuses bounds that make no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        within("correction.high", self.high, 1.0..f64::INFINITY, "1 and above")?;
        within("correction.low", self.low, 0.0..=1.0, "0 to 1")
    }

    /// The weight of every token.
    pub fn weights(&self, tokens: &Tokens) -> Vec<f64> {
        let log_weight = |t: usize| tokens.sampler[t].map_or(0.0, |sampler| f64::from(tokens.old[t]) - f64::from(sampler));
        let mut weights = vec![1.0; tokens.old.len()];
        for span in tokens.spans {
            match self.level {
                Level::Token => span.clone().for_each(|t| weights[t] = self.bounded(log_weight(t).exp())),
                Level::Sequence => {
                    let weight = self.bounded(span.clone().map(log_weight).sum::<f64>().exp());
                    weights[span.clone()].fill(weight);
                }
            }
        }
        weights
    }

    fn bounded(&self, weight: f64) -> f64 {
        match self.remedy {
            Remedy::Truncate => weight.clamp(self.low, self.high),
            Remedy::Mask if (self.low..=self.high).contains(&weight) => weight,
            Remedy::Mask => 0.0,
        }
    }
}
