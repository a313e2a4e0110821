//! Divergence from a reference, estimated from the sampled token alone. With `d = log p_ref - log p`:
//!
//! `k1 = -d` is unbiased and may be negative; `k2 = d²/2` is never negative and slightly biased; `k3 = eᵈ - d - 1` is
//! unbiased and never negative. As a loss, only k2 has the gradient of the true divergence in expectation; that of k1 is
//! noise around zero, so [`crate::loss::PolicyLoss::check`] refuses it there. In a reward all three serve.

use serde::{Deserialize, Serialize};

/// Which estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlEstimator {
    /// The difference of log-probs.
    K1,
    /// Half its square.
    K2,
    /// The control-variate form.
    K3,
}

/// A penalty on divergence as a part of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kl {
    /// Which estimate.
    pub estimator: KlEstimator,
    /// How much it counts.
    pub beta: f64,
}

impl KlEstimator {
    /// The estimate for one token.
    pub fn value(self, logprob: f64, reference: f64) -> f64 {
        let d = reference - logprob;
        match self {
            Self::K1 => -d,
            Self::K2 => d * d / 2.0,
            Self::K3 => d.exp() - d - 1.0,
        }
    }

    /// Its gradient with respect to the log-prob.
    pub fn grad(self, logprob: f64, reference: f64) -> f64 {
        let d = reference - logprob;
        match self {
            Self::K1 => 1.0,
            Self::K2 => -d,
            Self::K3 => 1.0 - d.exp(),
        }
    }
}
