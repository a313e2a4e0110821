//! One step of training: a batch in, new weights and statistics out.
//!
//! The micro-batches of an epoch are accumulated, then the weights move once; `n_epochs` says how often a batch is used.
//! The old policy that ratios compare with is the sampler. With a correction for foreign data, or where the sampler told
//! no log-prob, it is the policy of the first epoch. The reference is the model with its adapter switched off, a loaded
//! adapter, or whoever sampled: there is no second copy of the model. A loss or gradient that is not finite moves nothing and ends the step.
//! Knows nothing of rewards, data, stopping or files.

mod reference;
mod stats;

pub use reference::{Reference, kl_by_episode};
pub use stats::{Skipped, StepStats};

use self::reference::score_reference;
use crate::TrainError;
use crate::batch::{Batch, MicroBatch};
use crate::error::within;
use crate::loss::{Loss, Normaliser, PolicyLoss, PreferenceLoss, Tally, Tokens, imitation, policy, preference};
use hone_engine::backend::{Backend, Scored, ScoredGrad, Target};
use hone_engine::host::Host;
use hone_engine::optim::Schedule;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::{self, plain_targets};
use hone_engine::trainer::Trainer;
use serde::{Deserialize, Serialize};

/// Passes over one batch.
const N_EPOCHS_MAX: usize = 64;

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Objective {
    /// A policy-gradient loss over advantages.
    Policy(PolicyLoss),
    /// Imitation; advantages say how much each token counts. A mean over tokens.
    Imitation,
    /// A comparison of pairs.
    Preference(PreferenceLoss),
}

/// How a step is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// What is minimised.
    pub objective: Objective,
    /// Passes over the batch, each with one move of the weights.
    pub n_epochs: usize,
    /// Learning rate by moves of the weights.
    pub schedule: Schedule,
    /// Temperature that the tokens were sampled with, where their episode tells none: log-probs are those of the tempered distribution.
    pub temperature: f32,
    /// The model that divergence is measured from.
    pub reference: Reference,
}

impl StepOptions {
    /// One epoch at temperature 1.
    pub fn new(objective: Objective, schedule: Schedule) -> Self {
        Self { objective, n_epochs: 1, schedule, temperature: 1.0, reference: Reference::Base }
    }

    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        within("n_epochs", self.n_epochs as f64, 1.0..=N_EPOCHS_MAX as f64, "1 to 64")?;
        within("temperature", f64::from(self.temperature), 0.0..=1e4, "0 to 10000")?;
        match &self.objective {
            Objective::Policy(loss) => loss.check(),
            Objective::Imitation => Ok(()),
            Objective::Preference(loss) => loss.check(),
        }
    }

    fn needs_reference(&self) -> bool {
        match &self.objective {
            Objective::Policy(loss) => loss.kl.is_some(),
            Objective::Imitation => false,
            Objective::Preference(_) => true,
        }
    }
}

/// Moves the weights by one batch.
pub fn step<B: Backend>(
    host: &mut Host<B>,
    trainer: &mut Trainer<B>,
    batch: &mut Batch,
    options: &StepOptions,
) -> Result<StepStats, TrainError> {
    let mut stats = begin(host, trainer, batch, options)?;
    let mut old_m: Vec<Vec<f32>> = Vec::new();
    for epoch_idx in 0..options.n_epochs {
        let epoch = accumulate(host, trainer, batch, options, &mut old_m);
        let update = host.step(trainer, options.schedule.lr(trainer.n_steps()));
        stats.see_epoch(epoch_idx, &epoch);
        stats.see_update(&update);
        if !update.applied {
            break;
        }
    }
    Ok(stats)
}

/// Loss of a batch under the weights in training, which stay as they are.
pub fn evaluate<B: Backend>(
    host: &Host<B>,
    trainer: &Trainer<B>,
    batch: &mut Batch,
    options: &StepOptions,
) -> Result<StepStats, TrainError> {
    let mut stats = begin(host, trainer, batch, options)?;
    let mut epoch = Epoch::default();
    for micro_batch in &batch.micro_batches {
        let scored = score(host, trainer, micro_batch, options);
        let old = old(micro_batch, &scored, options);
        epoch.see(micro_batch, &scored, &loss(batch, micro_batch, &scored, &old, options));
    }
    stats.see_epoch(0, &epoch);
    Ok(stats)
}

/// Refuses what makes no sense, and has the batch scored by the reference where the loss asks for one.
fn begin<B: Backend>(
    host: &Host<B>,
    trainer: &Trainer<B>,
    batch: &mut Batch,
    options: &StepOptions,
) -> Result<StepStats, TrainError> {
    options.check()?;
    check_batch(host, batch)?;
    if options.needs_reference() {
        score_reference(host, trainer, batch, options)?;
    }
    Ok(StepStats::new(batch))
}

/// What was seen in one pass over a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epoch {
    pub(crate) loss: f64,
    pub(crate) tally: Tally,
    /// The largest difference between the sampler's log-prob and the trainer's, where the sampler told any.
    pub(crate) mismatch_max: Option<f64>,
}

impl Epoch {
    fn see(&mut self, micro_batch: &MicroBatch, scored: &[Scored], loss: &Loss) {
        self.loss += loss.value;
        self.tally.add(&loss.tally);
        for (scored, sampler) in scored.iter().zip(&micro_batch.sampler) {
            if let Some(sampler) = sampler {
                let difference = (f64::from(scored.logprob) - f64::from(*sampler)).abs();
                self.mismatch_max = Some(self.mismatch_max.map_or(difference, |most| most.max(difference)));
            }
        }
    }
}

fn accumulate<B: Backend>(
    host: &Host<B>,
    trainer: &mut Trainer<B>,
    batch: &Batch,
    options: &StepOptions,
    old_m: &mut Vec<Vec<f32>>,
) -> Epoch {
    let mut epoch = Epoch::default();
    // The trainer takes the mean over micro-batches; the shares already hold the normaliser, so the sum is wanted.
    let n_micro_batches = batch.n_micro_batches() as f32;
    for (m, micro_batch) in batch.micro_batches.iter().enumerate() {
        host.accumulate(trainer, &micro_batch.packed, targets(micro_batch, options), |scored| {
            if old_m.len() == m {
                old_m.push(old(micro_batch, scored, options));
            }
            let loss = loss(batch, micro_batch, scored, &old_m[m], options);
            epoch.see(micro_batch, scored, &loss);
            let scale = |grad: &ScoredGrad| ScoredGrad {
                logprob: grad.logprob * n_micro_batches,
                entropy: grad.entropy * n_micro_batches,
            };
            let mut grads: Vec<ScoredGrad> = loss.grads.iter().map(scale).collect();
            if !loss.value.is_finite() {
                // A gradient that is not a number makes the optimiser forget all of this step's gradients.
                grads.iter_mut().for_each(|grad| grad.logprob = f32::NAN);
            }
            grads
        });
    }
    epoch
}

fn loss(batch: &Batch, micro_batch: &MicroBatch, scored: &[Scored], old: &[f32], options: &StepOptions) -> Loss {
    let logprobs: Vec<f32> = scored.iter().map(|scored| scored.logprob).collect();
    let entropies: Vec<f32> = scored.iter().map(|scored| scored.entropy).collect();
    let normaliser = match &options.objective {
        Objective::Policy(loss) => loss.normaliser,
        _ => Normaliser::Tokens,
    };
    let tokens = Tokens {
        logprobs: &logprobs,
        entropies: &entropies,
        old,
        sampler: &micro_batch.sampler,
        reference: &micro_batch.reference,
        advantages: &micro_batch.advantages,
        shares: &batch.shares(micro_batch, normaliser),
        entropy_share: 1.0 / batch.n_tokens().max(1) as f64,
        spans: &micro_batch.spans,
    };
    match &options.objective {
        Objective::Policy(loss) => policy(loss, &tokens),
        Objective::Imitation => imitation(&tokens),
        Objective::Preference(loss) => preference(loss, &tokens, &micro_batch.pairs, batch.n_pairs()),
    }
}

/// Log-probs under the policy that ratios compare with.
fn old(micro_batch: &MicroBatch, scored: &[Scored], options: &StepOptions) -> Vec<f32> {
    let is_corrected = matches!(&options.objective, Objective::Policy(loss) if loss.correction.is_some());
    let told = |(scored, sampler): (&Scored, &Option<f32>)| sampler.filter(|_| !is_corrected).unwrap_or(scored.logprob);
    scored.iter().zip(&micro_batch.sampler).map(told).collect()
}

fn score<B: Backend>(host: &Host<B>, trainer: &Trainer<B>, micro_batch: &MicroBatch, options: &StepOptions) -> Vec<Scored> {
    let targets = targets(micro_batch, options);
    tape::score(host.backend(), host.model(), trainer.adapter(), &micro_batch.packed, &targets)
}

fn targets(micro_batch: &MicroBatch, options: &StepOptions) -> Vec<Target> {
    let inverse = |temperature| SamplerOptions { temperature, ..SamplerOptions::default() }.inv_temperature();
    let mut targets = plain_targets(&micro_batch.packed, inverse(options.temperature));
    for (target, told) in targets.iter_mut().zip(&micro_batch.temperatures) {
        target.inv_temperature = told.map_or(target.inv_temperature, inverse);
    }
    targets
}

/// Refuses what the model cannot compute.
pub(crate) fn check_batch<B: Backend>(host: &Host<B>, batch: &Batch) -> Result<(), TrainError> {
    let (vocab, n_tokens_max) = (host.model().config.vocab, host.model().n_positions);
    if batch.is_empty() {
        return Err(TrainError::EmptyBatch);
    }
    for packed in batch.micro_batches.iter().map(|micro_batch| &micro_batch.packed) {
        let targets = packed.targets.iter().map(|(_, id)| id);
        if let Some(&id) = packed.layout.ids.iter().chain(targets).find(|&&id| id as usize >= vocab) {
            return Err(TrainError::UnknownToken { id, vocab });
        }
        let n_tokens = packed.layout.positions.iter().max().map_or(0, |&last| last as usize + 1);
        if n_tokens > n_tokens_max {
            return Err(TrainError::TooLong { n_tokens, n_tokens_max });
        }
    }
    Ok(())
}
