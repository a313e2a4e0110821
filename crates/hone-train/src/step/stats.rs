//! What a step did, as one flat record. Loss, entropy, divergence and mismatch are those of the first epoch, when the policy
//! was still the one that the batch came to; ratios and clipping are means over all epochs.

use super::Epoch;
use crate::batch::Batch;
use crate::loss::Tally;
use hone_engine::optim::Update;
use serde::Serialize;

/// Why the weights did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// The loss was not finite.
    Loss,
    /// The gradient was not finite.
    Gradient,
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepStats {
    /// Moves of the weights.
    pub n_moves: usize,
    /// Why the step ended early, where it did.
    pub skipped: Option<Skipped>,
    /// Learning rate of the last move.
    pub lr: f32,
    /// Loss before the first move.
    pub loss: f64,
    /// Largest gradient norm of a move, before clipping.
    pub grad_norm: f64,
    /// Largest difference between the sampler's log-prob and the trainer's; 0 on policy, `None` when none was told.
    pub mismatch_max: Option<f64>,
    /// Share of tokens whose gradient was cut because their ratio was too low.
    pub clip_share_low: f64,
    /// Share of tokens whose gradient was cut or bounded because their ratio was too high.
    pub clip_share_high: f64,
    /// Mean importance ratio.
    pub ratio_mean: f64,
    /// Largest importance ratio.
    pub ratio_max: f64,
    /// Mean correction weight of foreign data.
    pub correction_mean: f64,
    /// Mean divergence of the last epoch's policy from the old one, per token.
    pub drift: f64,
    /// Mean divergence from the reference, per token; 0 when none is used.
    pub kl: f64,
    /// Mean entropy per token.
    pub entropy: f64,
    /// Share of pairs in which the better answer is ahead.
    pub pair_accuracy: f64,
    /// Mean margin of the better answer.
    pub pair_margin: f64,
    /// Episodes trained on.
    pub n_episodes: usize,
    /// Episodes left out because they do not fit.
    pub n_skipped: usize,
    /// Trained tokens.
    pub n_tokens: usize,
    /// Tokens computed per epoch, shared prompts once.
    pub n_rows: usize,
    /// Micro-batches per epoch.
    pub n_micro_batches: usize,
    /// Mean number of trained tokens of an episode.
    pub len_mean: f64,
    /// The most trained tokens of an episode.
    pub len_max: usize,
    #[serde(skip)]
    last_loss: f64,
    #[serde(skip)]
    all_epochs: Tally,
}

impl StepStats {
    pub(super) fn new(batch: &Batch) -> Self {
        let n_episodes = batch.n_episodes();
        Self {
            n_episodes,
            n_skipped: batch.skipped().len(),
            n_tokens: batch.n_tokens(),
            n_rows: batch.n_rows(),
            n_micro_batches: batch.n_micro_batches(),
            len_mean: batch.n_tokens() as f64 / n_episodes.max(1) as f64,
            len_max: batch.n_tokens_by_episode().iter().copied().max().unwrap_or(0),
            ..Self::default()
        }
    }

    pub(super) fn see_epoch(&mut self, epoch_idx: usize, epoch: &Epoch) {
        let mean = |sum: f64, n: usize| sum / n.max(1) as f64;
        let now = &epoch.tally;
        if epoch_idx == 0 {
            self.loss = epoch.loss;
            self.mismatch_max = epoch.mismatch_max;
            self.entropy = mean(now.entropy_sum, now.n_tokens);
            self.kl = mean(now.kl_sum, now.n_tokens);
            self.pair_accuracy = mean(now.n_pairs_right as f64, now.n_pairs);
            self.pair_margin = mean(now.margin_sum, now.n_pairs);
        }
        self.last_loss = epoch.loss;
        self.drift = mean(now.drift_sum, now.n_tokens);
        self.all_epochs.add(now);
        let all = &self.all_epochs;
        self.clip_share_low = mean(all.n_clipped_low as f64, all.n_tokens);
        self.clip_share_high = mean(all.n_clipped_high as f64, all.n_tokens);
        self.ratio_mean = mean(all.ratio_sum, all.n_tokens);
        self.ratio_max = all.ratio_max;
        self.correction_mean = mean(all.correction_sum, all.n_tokens);
    }

    pub(super) fn see_update(&mut self, update: &Update) {
        self.lr = update.lr;
        if update.applied {
            self.n_moves += 1;
            self.grad_norm = self.grad_norm.max(update.grad_norm);
        } else {
            self.grad_norm = update.grad_norm;
            self.skipped = Some(if self.last_loss.is_finite() { Skipped::Gradient } else { Skipped::Loss });
        }
    }
}
