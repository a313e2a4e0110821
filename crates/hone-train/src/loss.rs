//! Losses as pure functions: log-probs in; a number, its gradient and its statistics out.
//!
//! A loss is `Σ share_t · loss_t` over the trained tokens of a whole batch. The shares hold the normaliser and are fixed
//! before the batch is cut into micro-batches, so how it is cut changes no value. Numbers are f32 at the edges and f64
//! inside, summed in token order. Gradients are with respect to each token's log-prob and entropy, which is where the
//! engine's backward begins.
//!
//! A *sequence* is a stretch of tokens that extends one history; only its trained tokens are here, so there is no mask.
//! Knows nothing of models, batches, rewards or how advantages were made.

mod correction;
mod imitation;
mod kl;
mod method;
mod normaliser;
mod policy;
mod preference;
mod value;

pub use correction::{Correction, Remedy};
pub use imitation::{awr_weights, imitation};
pub use kl::{Kl, KlEstimator};
pub use method::Method;
pub use normaliser::Normaliser;
pub use policy::{PolicyLoss, Surrogate, policy};
pub use preference::{Pair, PreferenceLoss, preference};
pub use value::{Valued, value};

use hone_engine::backend::ScoredGrad;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where importance is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Every token on its own.
    Token,
    /// The sequence as a whole.
    Sequence,
}

/// What is known of the trained tokens of a micro-batch, one entry per token.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// Log-probs under the weights in training.
    pub logprobs: &'a [f32],
    /// Entropies of the distributions they come from.
    pub entropies: &'a [f32],
    /// Log-probs under the policy that ratios compare with.
    pub old: &'a [f32],
    /// Log-probs that the sampler reported, where it did.
    pub sampler: &'a [Option<f32>],
    /// Log-probs under the reference; empty when none is used.
    pub reference: &'a [f32],
    /// Advantages; for imitation, how much each token counts.
    pub advantages: &'a [f32],
    /// Share of each token in the loss.
    pub shares: &'a [f64],
    /// Share of each token's entropy in the entropy bonus: one by the number of trained tokens in the batch.
    pub entropy_share: f64,
    /// The sequences: ascending, contiguous ranges of tokens.
    pub spans: &'a [Range<usize>],
}

/// A loss, its gradient and what was seen on the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The value.
    pub value: f64,
    /// Per token, the gradient with respect to its log-prob and entropy.
    pub grads: Vec<ScoredGrad>,
    /// What was seen.
    pub tally: Tally,
}

/// Sums over tokens, which add up over micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Trained tokens.
    pub n_tokens: usize,
    /// Sum of importance ratios.
    pub ratio_sum: f64,
    /// The largest ratio.
    pub ratio_max: f64,
    /// Tokens whose gradient was cut because the ratio was too low.
    pub n_clipped_low: usize,
    /// Tokens whose gradient was cut or bounded because the ratio was too high.
    pub n_clipped_high: usize,
    /// Sum of the estimates of the divergence from the reference.
    pub kl_sum: f64,
    /// Sum of the estimates of the divergence from the old policy.
    pub drift_sum: f64,
    /// Sum of entropies.
    pub entropy_sum: f64,
    /// Sum of correction weights for data that is older than the policy.
    pub correction_sum: f64,
    /// Pairs compared.
    pub n_pairs: usize,
    /// Pairs in which the better answer has the higher margin.
    pub n_pairs_right: usize,
    /// Sum of the margins of pairs.
    pub margin_sum: f64,
}

impl Tally {
    /// Adds what was seen in another micro-batch.
    pub fn add(&mut self, other: &Self) {
        self.n_tokens += other.n_tokens;
        self.ratio_sum += other.ratio_sum;
        self.ratio_max = self.ratio_max.max(other.ratio_max);
        self.n_clipped_low += other.n_clipped_low;
        self.n_clipped_high += other.n_clipped_high;
        self.kl_sum += other.kl_sum;
        self.drift_sum += other.drift_sum;
        self.entropy_sum += other.entropy_sum;
        self.correction_sum += other.correction_sum;
        self.n_pairs += other.n_pairs;
        self.n_pairs_right += other.n_pairs_right;
        self.margin_sum += other.margin_sum;
    }
}
