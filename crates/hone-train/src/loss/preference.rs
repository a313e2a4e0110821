//! DPO: of two answers to one prompt, the better one shall gain more over the reference than the worse one.
//!
//! With `margin = Σ(log p - log p_ref)` over the better minus the same over the worse:
//! `-(1 - smoothing) · log σ(beta · margin) - smoothing · log σ(-beta · margin)`, a mean over pairs. Smoothing is the share of
//! pairs believed to be the wrong way round.

use super::{Loss, Tokens};
use crate::TrainError;
use crate::error::within;
use hone_engine::backend::ScoredGrad;
use serde::{Deserialize, Serialize};

/// The loss over pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreferenceLoss {
    /// How strongly the reference holds.
    pub beta: f64,
    /// Share of pairs believed to be the wrong way round.
    #[serde(default)]
    pub label_smoothing: f64,
}

impl Default for PreferenceLoss {
    fn default() -> Self {
        Self { beta: 0.1, label_smoothing: 0.0 }
    }
}

impl PreferenceLoss {
    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        within("dpo.beta", self.beta, f64::MIN_POSITIVE..f64::INFINITY, "above 0")?;
        within("dpo.label_smoothing", self.label_smoothing, 0.0..0.5, "0 to below 0.5")
    }
}

/// Two answers, as places in the spans of a micro-batch; several where an episode has several sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The spans of the better.
    pub chosen: Vec<usize>,
    /// The spans of the worse.
    pub rejected: Vec<usize>,
}

/// The loss of the pairs of a micro-batch; each counts `1 / n_pairs_of_batch`. Advantages and shares are not looked at.
pub fn preference(options: &PreferenceLoss, tokens: &Tokens, pairs: &[Pair], n_pairs_of_batch: usize) -> Loss {
    let mut loss = Loss { grads: vec![ScoredGrad::default(); tokens.logprobs.len()], ..Loss::default() };
    let gain = |spans: &[usize]| -> f64 {
        let of_token = |t: usize| f64::from(tokens.logprobs[t]) - f64::from(tokens.reference[t]);
        spans.iter().flat_map(|&span| tokens.spans[span].clone()).map(of_token).sum()
    };
    let share = 1.0 / n_pairs_of_batch.max(1) as f64;
    for pair in pairs {
        let margin = options.beta * (gain(&pair.chosen) - gain(&pair.rejected));
        let smoothing = options.label_smoothing;
        loss.value -= share * ((1.0 - smoothing) * log_sigmoid(margin) + smoothing * log_sigmoid(-margin));
        let by_margin = -(1.0 - smoothing) * sigmoid(-margin) + smoothing * sigmoid(margin);
        let grad = (share * options.beta * by_margin) as f32;
        for (spans, grad) in [(&pair.chosen, grad), (&pair.rejected, -grad)] {
            spans.iter().flat_map(|&span| tokens.spans[span].clone()).for_each(|t| loss.grads[t].logprob += grad);
        }
        loss.tally.n_pairs += 1;
        loss.tally.n_pairs_right += usize::from(margin > 0.0);
        loss.tally.margin_sum += margin;
    }
    loss.tally.n_tokens = tokens.logprobs.len();
    loss.tally.entropy_sum = tokens.entropies.iter().map(|&entropy| f64::from(entropy)).sum();
    loss
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Without overflow for any `x`.
fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}
