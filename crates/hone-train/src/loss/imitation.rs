//! Imitation: `-c · log p`, where `c` says how much a token counts. SFT counts all alike; AWR counts an episode by
//! `exp(advantage / temperature)`, bounded, so good ones are imitated more and bad ones hardly.

use super::{Loss, Tokens};
use crate::TrainError;
use crate::error::within;
use hone_engine::backend::ScoredGrad;

/// The loss of a micro-batch; `tokens.advantages` say how much each token counts.
pub fn imitation(tokens: &Tokens) -> Loss {
    let mut loss = Loss { grads: Vec::with_capacity(tokens.logprobs.len()), ..Loss::default() };
    for (t, &logprob) in tokens.logprobs.iter().enumerate() {
        let factor = tokens.shares[t] * f64::from(tokens.advantages[t]);
        loss.value -= factor * f64::from(logprob);
        loss.tally.entropy_sum += f64::from(tokens.entropies[t]);
        loss.grads.push(ScoredGrad { logprob: -factor as f32, entropy: 0.0 });
    }
    loss.tally.n_tokens = tokens.logprobs.len();
    loss
}

/// How much each episode counts in advantage-weighted imitation.
pub fn awr_weights(advantages: &[f64], temperature: f64, weight_max: f64) -> Result<Vec<f64>, TrainError> {
    within("awr.temperature", temperature, f64::MIN_POSITIVE..f64::INFINITY, "above 0")?;
    within("awr.weight_max", weight_max, f64::MIN_POSITIVE..f64::INFINITY, "above 0")?;
    Ok(advantages.iter().map(|advantage| (advantage / temperature).exp().min(weight_max)).collect())
}
