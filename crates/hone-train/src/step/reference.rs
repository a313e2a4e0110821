//! The reference that divergence is measured from: never a second copy of the model.

use super::{StepOptions, check_batch, score, targets};
use crate::TrainError;
use crate::batch::Batch;
use crate::loss::KlEstimator;
use hone_engine::backend::Backend;
use hone_engine::host::{AdapterVersion, Host};
use hone_engine::trainer::Trainer;

/// The model that divergence is measured from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// The model with its adapter switched off.
    #[default]
    Base,
    /// An adapter that the host has loaded.
    Adapter(AdapterVersion),
    /// Whoever sampled the tokens, by the log-probs that it told: nothing is computed, and a model of which every parameter is
    /// trained has a reference too.
    Sampler,
}

/// Divergence of every episode from the reference, summed over its trained tokens: what a penalty in the reward takes off.
/// Zero for episodes that were left out.
pub fn kl_by_episode<B: Backend>(
    host: &Host<B>,
    trainer: &Trainer<B>,
    batch: &mut Batch,
    options: &StepOptions,
    estimator: KlEstimator,
) -> Result<Vec<f64>, TrainError> {
    check_batch(host, batch)?;
    score_reference(host, trainer, batch, options)?;
    let mut kl_e = vec![0.0; batch.n_tokens_by_episode().len()];
    for micro_batch in &batch.micro_batches {
        let logprobs: Vec<f32> = match micro_batch.sampler.iter().copied().collect() {
            Some(told) => told,
            None => score(host, trainer, micro_batch, options).iter().map(|scored| scored.logprob).collect(),
        };
        for ((place, &logprob), &reference) in micro_batch.places.iter().zip(&logprobs).zip(&micro_batch.reference) {
            kl_e[place.episode_idx] += estimator.value(f64::from(logprob), f64::from(reference));
        }
    }
    Ok(kl_e)
}

/// Asks the reference once per batch.
pub(super) fn score_reference<B: Backend>(
    host: &Host<B>,
    trainer: &Trainer<B>,
    batch: &mut Batch,
    options: &StepOptions,
) -> Result<(), TrainError> {
    let version = match options.reference {
        Reference::Base if trainer.adapter().is_none() => {
            return Err(TrainError::Conflict(
                "training every parameter leaves no reference but the sampler: train an adapter, or name one",
            ));
        }
        Reference::Base => None,
        Reference::Adapter(version) if host.pin(version).is_none() => return Err(TrainError::NoReference),
        Reference::Adapter(version) => Some(version),
        Reference::Sampler => return take_sampler(batch),
    };
    let wanted = Some((options.reference, options.temperature));
    if batch.scored_by == wanted {
        return Ok(());
    }
    for micro_batch in &mut batch.micro_batches {
        let scored = host.score(version, &micro_batch.packed, &targets(micro_batch, options));
        micro_batch.reference = scored.iter().map(|scored| scored.logprob).collect();
    }
    batch.scored_by = wanted;
    Ok(())
}

/// The sampler's own log-probs as those of the reference.
fn take_sampler(batch: &mut Batch) -> Result<(), TrainError> {
    for micro_batch in &mut batch.micro_batches {
        let told: Option<Vec<f32>> = micro_batch.sampler.iter().copied().collect();
        micro_batch.reference = told.ok_or(TrainError::Conflict("the sampler told no log-probs: it cannot be the reference"))?;
    }
    batch.scored_by = None;
    Ok(())
}
