//! The policy-gradient losses of the GRPO family and of PPO: one formula, four choices.
//!
//! With `ratio = p / p_old`, of a token or the geometric mean over its sequence:
//! - clipped: `-min(ratio · A, clip(ratio, 1 - low, 1 + high) · A)`, nothing to gain outside the clip;
//! - weighted (CISPO): `-stop(min(ratio, max)) · A · log p`, every token keeps a gradient.
//!
//! Each is multiplied by the correction for foreign data; the penalty on divergence is added after that. The entropy bonus
//! is a mean over tokens, whatever the normaliser of the rest.

use super::{Correction, Kl, KlEstimator, Level, Loss, Normaliser, Tally, Tokens};
use crate::TrainError;
use crate::error::within;
use hone_engine::backend::ScoredGrad;
use serde::{Deserialize, Serialize};

/// A loss of this family.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLoss {
    /// What replaces the true objective.
    pub surrogate: Surrogate,
    /// Whose ratio it uses.
    pub level: Level,
    /// What the sum over tokens is divided by.
    pub normaliser: Normaliser,
    /// Divergence from the reference as a part of the loss.
    #[serde(default)]
    pub kl: Option<Kl>,
    /// Weights for data of another policy. With it, ratios compare with the policy at the start of the step; without it,
    /// with the sampler.
    #[serde(default)]
    pub correction: Option<Correction>,
    /// How much entropy is rewarded.
    #[serde(default)]
    pub entropy_bonus: f64,
}

/// What replaces the true objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Surrogate {
    /// PPO's clipped ratio.
    Clipped {
        /// The ratio may fall by this much.
        low: f64,
        /// And rise by this much.
        high: f64,
        /// The ratio of a bad token counts at most this much, where bounded.
        #[serde(default)]
        ratio_max: Option<f64>,
    },
    /// The log-prob weighted by the bounded ratio.
    Weighted {
        /// The bound.
        ratio_max: f64,
    },
}

impl PolicyLoss {
    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        match self.surrogate {
            Surrogate::Clipped { low, high, ratio_max } => {
                within("clip.low", low, 0.0..=1.0, "0 to 1")?;
                within("clip.high", high, 0.0..f64::INFINITY, "0 and above")?;
                within("ratio_max", ratio_max.unwrap_or(f64::MAX), 1.0 + high..f64::INFINITY, "1 + clip.high and above")?;
            }
            Surrogate::Weighted { ratio_max } => within("ratio_max", ratio_max, 1.0..f64::INFINITY, "1 and above")?,
        }
        if let Normaliser::Constant { n_tokens: 0 } = self.normaliser {
            return Err(TrainError::Conflict("the constant length of the normaliser is 0"));
        }
        if let Some(kl) = self.kl {
            within("kl.beta", kl.beta, 0.0..f64::INFINITY, "0 and above")?;
            if kl.estimator == KlEstimator::K1 {
                return Err(TrainError::Conflict(
                    "k1 as a loss has a gradient of mean zero: use k2 or k3, or put k1 into the reward",
                ));
            }
        }
        within("entropy_bonus", self.entropy_bonus, 0.0..f64::INFINITY, "0 and above")?;
        self.correction.map_or(Ok(()), |correction| correction.check())
    }
}

/// The loss of a micro-batch.
pub fn policy(options: &PolicyLoss, tokens: &Tokens) -> Loss {
    let n = tokens.logprobs.len();
    let mut loss = Loss { grads: Vec::with_capacity(n), ..Loss::default() };
    let weights = match options.correction {
        Some(correction) => correction.weights(tokens),
        None => vec![1.0; n],
    };
    let mut grads = vec![0.0; n];
    for span in tokens.spans {
        let log_ratio = |t: usize| f64::from(tokens.logprobs[t]) - f64::from(tokens.old[t]);
        let len = span.len().max(1) as f64;
        let of_sequence = span.clone().map(log_ratio).sum::<f64>() / len;
        // Of the terms that go through the ratio of the sequence, which every token of it moves by 1 / len.
        let mut shared_grad = 0.0;
        for t in span.clone() {
            let ratio = match options.level {
                Level::Token => log_ratio(t).exp(),
                Level::Sequence => of_sequence.exp(),
            };
            let term = surrogate(options.surrogate, ratio, f64::from(tokens.advantages[t]), f64::from(tokens.logprobs[t]));
            let factor = tokens.shares[t] * weights[t];
            loss.value += factor * term.value;
            grads[t] = factor * term.by_logprob;
            match options.level {
                Level::Token => grads[t] += factor * term.by_log_ratio,
                Level::Sequence => shared_grad += factor * term.by_log_ratio / len,
            }
            loss.tally.see(ratio, log_ratio(t), weights[t], &term);
        }
        span.clone().for_each(|t| grads[t] += shared_grad);
    }
    let entropy_factor = options.entropy_bonus * tokens.entropy_share;
    for (t, mut grad) in grads.into_iter().enumerate() {
        if let (Some(kl), Some(&reference)) = (options.kl, tokens.reference.get(t)) {
            let (logprob, reference) = (f64::from(tokens.logprobs[t]), f64::from(reference));
            let (estimate, factor) = (kl.estimator.value(logprob, reference), tokens.shares[t] * kl.beta);
            loss.value += factor * estimate;
            grad += factor * kl.estimator.grad(logprob, reference);
            loss.tally.kl_sum += estimate;
        }
        loss.value -= entropy_factor * f64::from(tokens.entropies[t]);
        loss.tally.entropy_sum += f64::from(tokens.entropies[t]);
        loss.grads.push(ScoredGrad { logprob: grad as f32, entropy: -entropy_factor as f32 });
    }
    loss.tally.n_tokens = n;
    loss
}

/// One token's term, and its gradient by the logarithm of the ratio and by the log-prob itself.
struct Term {
    value: f64,
    by_log_ratio: f64,
    by_logprob: f64,
    is_low: bool,
    is_high: bool,
}

fn surrogate(surrogate: Surrogate, ratio: f64, advantage: f64, logprob: f64) -> Term {
    match surrogate {
        Surrogate::Clipped { low, high, ratio_max } => {
            let clipped = ratio.clamp(1.0 - low, 1.0 + high);
            let bounded = ratio.min(ratio_max.unwrap_or(f64::INFINITY));
            let (free, fixed) = (bounded * advantage, clipped * advantage);
            let is_free = free < fixed || clipped == ratio;
            Term {
                value: -free.min(fixed),
                by_log_ratio: if is_free && bounded == ratio { -ratio * advantage } else { 0.0 },
                by_logprob: 0.0,
                is_low: ratio < 1.0 - low && advantage < 0.0,
                is_high: ratio > 1.0 + high && advantage > 0.0,
            }
        }
        Surrogate::Weighted { ratio_max } => {
            let weight = ratio.min(ratio_max);
            Term {
                value: -weight * advantage * logprob,
                by_log_ratio: 0.0,
                by_logprob: -weight * advantage,
                is_low: false,
                is_high: ratio > ratio_max && advantage > 0.0,
            }
        }
    }
}

impl Tally {
    fn see(&mut self, ratio: f64, log_ratio: f64, weight: f64, term: &Term) {
        self.ratio_sum += ratio;
        self.ratio_max = self.ratio_max.max(ratio);
        self.n_clipped_low += usize::from(term.is_low);
        self.n_clipped_high += usize::from(term.is_high);
        self.correction_sum += weight;
        // The tokens come from the old policy: k3 with the new one in the place of the reference.
        self.drift_sum += log_ratio.exp() - log_ratio - 1.0;
    }
}
