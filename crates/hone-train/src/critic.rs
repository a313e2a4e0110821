//! PPO's critic, for episodes without a group: a linear estimate of what is still to come, read off the model's own hidden
//! states.
//!
//! The features of a token are the hidden state that predicts it, scaled to a mean square of 1, and a constant. The critic
//! learns from the clipped value loss by Adam. Unlike the usual value head its gradient does not reach the trunk: that
//! keeps sampler and trainer the same network, at the price of coarser estimates.
//! Knows nothing of the policy's loss.

use crate::TrainError;
use crate::advantage::{Gae, gae, whitened};
use crate::batch::{Advantage, Batch};
use crate::error::within;
use crate::loss::value;
use crate::step::check_batch;
use hone_engine::backend::Backend;
use hone_engine::forward::hidden;
use hone_engine::host::Host;
use hone_engine::trainer::Trainer;
use serde::{Deserialize, Serialize};

const BETAS: (f64, f64) = (0.9, 0.999);

/// The critic, with the moments of its optimiser: all that a resumed run needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Critic {
    weights: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
    n_moves: i32,
}

/// How advantages are estimated and the critic learns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticOptions {
    /// How much the next token's return counts.
    pub gamma: f64,
    /// From one-step (0) to whole returns (1).
    pub lambda: f64,
    /// How far an estimate may move in one batch, where bounded.
    pub clip: Option<f64>,
    /// Learning rate.
    pub lr: f64,
    /// Passes over a batch.
    pub n_epochs: usize,
}

impl Default for CriticOptions {
    fn default() -> Self {
        Self { gamma: 1.0, lambda: 0.95, clip: Some(0.2), lr: 0.01, n_epochs: 16 }
    }
}

/// What the critic made of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CriticStats {
    /// Value loss before the first move.
    pub loss: f64,
    /// Value loss after the last.
    pub loss_after: f64,
    /// Share of the returns' variance that the estimates explained beforehand.
    pub explained: f64,
}

impl CriticOptions {
    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        within("critic.gamma", self.gamma, 0.0..=1.0, "0 to 1")?;
        within("critic.lambda", self.lambda, 0.0..=1.0, "0 to 1")?;
        within("critic.clip", self.clip.unwrap_or(1.0), f64::MIN_POSITIVE..f64::INFINITY, "above 0")?;
        within("critic.lr", self.lr, 0.0..f64::INFINITY, "0 and above")?;
        within("critic.n_epochs", self.n_epochs as f64, 0.0..=1000.0, "0 to 1000")
    }
}

impl Critic {
    /// A critic that expects nothing, for a model of this width.
    pub fn new(dim: usize) -> Self {
        let zeros = vec![0.0; dim + 1];
        Self { weights: zeros.clone(), m: zeros.clone(), v: zeros, n_moves: 0 }
    }

    /// Gives every token of the batch its advantage and learns from the batch. `rewards_e` holds what every turn of every
    /// episode earned. Call it before the step: the estimates are those of the policy that the batch came to.
    pub fn judge<B: Backend>(
        &mut self,
        host: &Host<B>,
        trainer: &Trainer<B>,
        batch: &mut Batch,
        rewards_e: &[Vec<f64>],
        options: &CriticOptions,
    ) -> Result<CriticStats, TrainError> {
        options.check()?;
        check_batch(host, batch)?;
        let n_expected = batch.n_tokens_by_episode().len();
        if rewards_e.len() != n_expected {
            return Err(TrainError::Count { what: "episodes", n_given: rewards_e.len(), n_expected });
        }
        let dim = host.model().config.dim;
        if self.weights.len() != dim + 1 {
            return Err(TrainError::Count { what: "features", n_given: self.weights.len(), n_expected: dim + 1 });
        }
        let tokens_e = tokens(host, trainer, batch);
        let values_e: Vec<Vec<f64>> = tokens_e.iter().map(|tokens| self.estimates(tokens)).collect();
        let estimate = |((tokens, values), rewards): ((&Vec<Token>, &Vec<f64>), &Vec<f64>)| {
            gae(&by_token(tokens, rewards), values, 0.0, options.gamma, options.lambda)
        };
        let estimates: Vec<Gae> = tokens_e.iter().zip(&values_e).zip(rewards_e).map(estimate).collect();
        let mut white =
            whitened(&estimates.iter().flat_map(|gae| gae.advantages.iter().copied()).collect::<Vec<_>>()).into_iter();
        let advantages_e: Vec<Advantage> =
            estimates.iter().map(|gae| Advantage::Tokens(white.by_ref().take(gae.advantages.len()).collect())).collect();
        batch.set_advantages(&advantages_e)?;
        let returns: Vec<f64> = estimates.into_iter().flat_map(|gae| gae.returns).collect();
        Ok(self.learn(&tokens_e.concat(), &values_e.concat(), &returns, options))
    }

    fn estimates(&self, tokens: &[Token]) -> Vec<f64> {
        let dot = |token: &Token| token.features.iter().zip(&self.weights).map(|(&x, w)| f64::from(x) * w).sum();
        tokens.iter().map(dot).collect()
    }

    fn learn(&mut self, tokens: &[Token], old: &[f64], returns: &[f64], options: &CriticOptions) -> CriticStats {
        let mut stats = CriticStats { explained: explained(old, returns), ..CriticStats::default() };
        for epoch_idx in 0..=options.n_epochs {
            let loss = value(&self.estimates(tokens), old, returns, options.clip);
            stats.loss_after = loss.value;
            if epoch_idx == 0 {
                stats.loss = loss.value;
            }
            if epoch_idx == options.n_epochs || !loss.value.is_finite() {
                break;
            }
            let mut grads = vec![0.0; self.weights.len()];
            for (token, by_value) in tokens.iter().zip(&loss.grads) {
                grads.iter_mut().zip(&token.features).for_each(|(grad, &x)| *grad += by_value * f64::from(x));
            }
            self.move_by(&grads, options.lr);
        }
        stats
    }

    fn move_by(&mut self, grads: &[f64], lr: f64) {
        self.n_moves = self.n_moves.saturating_add(1);
        let corrections = (1.0 - BETAS.0.powi(self.n_moves), 1.0 - BETAS.1.powi(self.n_moves));
        for (i, grad) in grads.iter().enumerate() {
            self.m[i] = BETAS.0 * self.m[i] + (1.0 - BETAS.0) * grad;
            self.v[i] = BETAS.1 * self.v[i] + (1.0 - BETAS.1) * grad * grad;
            self.weights[i] -= lr * (self.m[i] / corrections.0) / ((self.v[i] / corrections.1).sqrt() + 1e-8);
        }
    }
}

/// A trained token as the critic sees it.
#[derive(Clone, Debug)]
struct Token {
    turn_idx: usize,
    features: Vec<f32>,
}

/// The trained tokens of every episode, in order.
fn tokens<B: Backend>(host: &Host<B>, trainer: &Trainer<B>, batch: &Batch) -> Vec<Vec<Token>> {
    let (backend, model) = (host.backend(), host.model());
    let mut found: Vec<(usize, usize, Token)> = Vec::new();
    for micro_batch in &batch.micro_batches {
        let packed = &micro_batch.packed;
        let mut kvs: Vec<_> = model.blocks.iter().map(|_| backend.kv(model.heads(), packed.n_pages)).collect();
        let adapters: Vec<_> = trainer.adapter().map(|adapter| (0..packed.layout.n_rows(), adapter)).into_iter().collect();
        let x = hidden(backend, model, &packed.layout, &mut kvs, &adapters);
        let rows: Vec<u32> = packed.targets.iter().map(|&(row, _)| row).collect();
        let states = backend.download(&backend.gather(&x, model.config.dim, &rows));
        for (place, state) in micro_batch.places.iter().zip(states.chunks(model.config.dim)) {
            let token = Token { turn_idx: place.turn_idx, features: features(state) };
            found.push((place.episode_idx, place.token_idx, token));
        }
    }
    found.sort_by_key(|&(episode_idx, token_idx, _)| (episode_idx, token_idx));
    let mut tokens_e: Vec<Vec<Token>> = batch.n_tokens_by_episode().iter().map(|_| Vec::new()).collect();
    found.into_iter().for_each(|(episode_idx, _, token)| tokens_e[episode_idx].push(token));
    tokens_e
}

fn features(state: &[f32]) -> Vec<f32> {
    let mean_square = state.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / state.len().max(1) as f64;
    let scale = 1.0 / (mean_square + 1e-6).sqrt();
    state.iter().map(|&x| (f64::from(x) * scale) as f32).chain([1.0]).collect()
}

/// Each turn's reward at its last trained token; that of a turn without any at the last one before it, or else the first.
fn by_token(tokens: &[Token], rewards: &[f64]) -> Vec<f64> {
    let mut by_token = vec![0.0; tokens.len()];
    for (turn_idx, reward) in rewards.iter().enumerate() {
        let n_until = tokens.partition_point(|token| token.turn_idx <= turn_idx);
        if let Some(slot) = by_token.get_mut(n_until.saturating_sub(1)) {
            *slot += reward;
        }
    }
    by_token
}

/// One minus the share of variance that is left.
fn explained(values: &[f64], returns: &[f64]) -> f64 {
    let variance = |numbers: &[f64]| {
        let mean = numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    };
    let left: Vec<f64> = returns.iter().zip(values).map(|(target, value)| target - value).collect();
    let total = variance(returns);
    if total > 0.0 { 1.0 - variance(&left) / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(turn_idx: usize, x: f32) -> Token {
        Token { turn_idx, features: vec![x, 1.0] }
    }

    #[test]
    fn rewards_fall_on_the_last_token_of_their_turn() {
        let tokens = [token(0, 0.0), token(0, 0.0), token(2, 0.0)];
        assert_eq!(by_token(&tokens, &[1.0, 0.5, 4.0]), [0.0, 1.5, 4.0]);
        assert_eq!(by_token(&tokens[2..], &[1.0, 0.5, 4.0]), [5.5]);
        assert_eq!(by_token(&[], &[1.0]), Vec::<f64>::new());
    }

    #[test]
    fn a_critic_learns_a_line() {
        let tokens: Vec<Token> = (0..20).map(|i| token(0, i as f32 / 10.0 - 1.0)).collect();
        let returns: Vec<f64> = tokens.iter().map(|token| 2.0 * f64::from(token.features[0]) - 0.5).collect();
        let mut critic = Critic::new(1);
        let options = CriticOptions { clip: None, n_epochs: 400, lr: 0.05, ..CriticOptions::default() };
        let first = critic.learn(&tokens, &critic.estimates(&tokens), &returns, &options);
        assert!(first.loss_after < 1e-3 * first.loss && first.explained.abs() < 1e-9, "{first:?}");
        let second = critic.learn(&tokens, &critic.estimates(&tokens), &returns, &options);
        assert!(second.explained > 0.99, "{second:?}");
        // A clip holds the estimates near where they were.
        let mut held = Critic::new(1);
        held.learn(&tokens, &[0.0; 20], &returns, &CriticOptions { clip: Some(0.1), ..options });
        let largest = |critic: &Critic| critic.estimates(&tokens).into_iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        assert!(largest(&held) < 0.5 * largest(&critic), "{} and {}", largest(&held), largest(&critic));
    }
}
