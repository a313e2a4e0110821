//! The one owner of weights: a machine, a model, its adapters, the sequences that run on it.
//!
//! Whoever samples or trains holds this host (behind a lock, across threads) and asks. Adapters are pinned by version:
//! a running sequence keeps the version it was submitted with, whatever is loaded or dropped meanwhile.
//! Knows nothing of tokens' meaning, files, HTTP or SQL.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, Scored, ScoredGrad, Target};
use crate::batch::{BatchLimits, Batcher, Event, Finish, Request, RequestId, SubmitError, Token};
use crate::kv::Version;
use crate::layout::{Group, Packed};
use crate::lora::{Adapter, LoraWeights};
use crate::model::Model;
use crate::optim::Update;
use crate::random::Stream;
use crate::tape;
use crate::trainer::Trainer;

/// A loaded adapter version. Versions count up and are never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterVersion(pub u64);

/// A finished sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Why it ended.
    pub finish: Finish,
}

/// What was found when it was tried whether what is sampled is what is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Tokens that were drawn and scored.
    pub n_tokens: usize,
    /// The largest difference between both of their log-probabilities.
    pub mismatch: f32,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_tokens, mismatch } = *self;
        write!(f, "sampler and trainer: {n_tokens} log-probs tried, ")?;
        match mismatch {
            0.0 => f.write_str("the same to the last bit"),
            _ => write!(f, "one differs by {mismatch:.1e}; each step measures it, and ratios compare with what was sampled"),
        }
    }
}

/// Sequences of a try, and tokens of each: those that are given, and those that are drawn.
const TRIED: u64 = 16;
const TRIED_GIVEN: usize = 24;
const TRIED_DRAWN: usize = 8;

/// The owner of weights.
pub struct Host<B: Backend> {
    backend: B,
    model: Model<B>,
    adapters: BTreeMap<AdapterVersion, Arc<Adapter<B>>>,
    next_version: u64,
    batcher: Batcher<B>,
}

impl<B: Backend> Host<B> {
    /// Takes a machine and a model.
    pub fn new(backend: B, model: Model<B>, limits: BatchLimits) -> Self {
        let batcher = Batcher::new(&backend, &model, limits);
        Self { backend, model, adapters: BTreeMap::new(), next_version: 0, batcher }
    }

    /// The machine.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The model.
    pub fn model(&self) -> &Model<B> {
        &self.model
    }

    /// Loads an adapter as a new version.
    pub fn load(&mut self, weights: &LoraWeights) -> AdapterVersion {
        let adapter = Adapter::new(&self.backend, &self.model.config, weights, false);
        let version = AdapterVersion(self.next_version);
        self.next_version += 1;
        self.adapters.insert(version, Arc::new(adapter));
        version
    }

    /// Forgets a version; sequences that run on it keep it until they end.
    pub fn drop_adapter(&mut self, version: AdapterVersion) -> bool {
        self.batcher.adapter_dropped(Version(version.0));
        self.adapters.remove(&version).is_some()
    }

    /// Pins a version: what a request carries.
    pub fn pin(&self, version: AdapterVersion) -> Option<(Version, Arc<Adapter<B>>)> {
        self.adapters.get(&version).map(|adapter| (Version(version.0), Arc::clone(adapter)))
    }

    /// Takes a request into the queue.
    pub fn submit(&mut self, request: Request<B>) -> Result<RequestId, SubmitError> {
        self.batcher.submit(&self.model, request)
    }

    /// Withdraws a request.
    pub fn cancel(&mut self, request: RequestId) {
        self.batcher.cancel(request);
    }

    /// Moves everything that runs on by a token, or by a few.
    pub fn sample_step(&mut self) -> Vec<Event> {
        self.batcher.step(&self.backend, &self.model)
    }

    /// The same, for a caller that has asked for everything: the next tokens are begun before these are used.
    pub fn sample_ahead(&mut self) -> Vec<Event> {
        self.batcher.step_ahead(&self.backend, &self.model)
    }

    /// True when nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.batcher.is_idle()
    }

    /// Submits all requests and runs until they are done: per request, its samples in order.
    pub fn sample(&mut self, requests: Vec<Request<B>>) -> Result<Vec<Vec<Sample>>, SubmitError> {
        let mut places = BTreeMap::new();
        let mut samples = Vec::with_capacity(requests.len());
        for (place, request) in requests.into_iter().enumerate() {
            let empty = Sample { tokens: Vec::new(), finish: Finish::Cancelled };
            samples.push(vec![empty; request.n_samples]);
            match self.submit(request) {
                Ok(id) => places.insert(id, place),
                Err(error) => {
                    places.keys().for_each(|&id| self.batcher.cancel(id));
                    return Err(error);
                }
            };
        }
        let mut left: usize = samples.iter().map(Vec::len).sum();
        while left > 0 {
            for event in self.sample_ahead() {
                // Events of requests that others submitted are not ours to keep.
                let Some(&place) = places.get(&event.request) else {
                    continue;
                };
                let sample: &mut Sample = &mut samples[place][event.sample];
                sample.tokens.extend(event.tokens);
                if let Some(finish) = event.finish {
                    sample.finish = finish;
                    left -= 1;
                }
            }
        }
        Ok(samples)
    }

    /// Scores a packed batch without training.
    pub fn score(&self, adapter: Option<AdapterVersion>, packed: &Packed, targets: &[Target]) -> Vec<Scored> {
        let adapter = adapter.and_then(|version| self.adapters.get(&version));
        tape::score(&self.backend, &self.model, adapter.map(Arc::as_ref), packed, targets)
    }

    /// Tries whether a few tokens are drawn with the log-probabilities that training finds, before a run relies on it. It leaves nothing behind but
    /// what the backend has learned of the machine.
    pub fn try_promise(&mut self, adapter: Option<AdapterVersion>) -> Result<Tried, SubmitError> {
        let vocab = self.model.config.vocab as u64;
        let given = |i: u64| -> Vec<u32> {
            let stream = Stream::new(0, i);
            (0..TRIED_GIVEN as u64).map(|j| (stream.bits(j) % vocab) as u32).collect()
        };
        let request = |i: u64| {
            let adapter = adapter.and_then(|version| self.pin(version));
            Request { sequence: i, adapter, ..Request::new(given(i), TRIED_DRAWN) }
        };
        let requests: Vec<Request<B>> = (0..TRIED).map(request).collect();
        let samples = self.sample(requests)?;
        let drawn: Vec<&Token> = samples.iter().flatten().flat_map(|sample| &sample.tokens).collect();
        let group = |(i, samples): (u64, &Vec<Sample>)| {
            let ids = |sample: &Sample| sample.tokens.iter().map(|token| token.id).collect();
            Group { prompt: given(i), completions: samples.iter().map(ids).collect() }
        };
        let packed = Packed::new(&(0..).zip(&samples).map(group).collect::<Vec<_>>());
        let scored = self.score(adapter, &packed, &tape::plain_targets(&packed, 1.0));
        let mismatch = furthest(scored.iter().map(|scored| scored.logprob), drawn.iter().map(|token| token.logprob));
        Ok(Tried { n_tokens: drawn.len(), mismatch })
    }

    /// Adds a batch's gradients to a run; see [`Trainer::accumulate`].
    pub fn accumulate(
        &self,
        trainer: &mut Trainer<B>,
        packed: &Packed,
        targets: Vec<Target>,
        loss: impl FnOnce(&[Scored]) -> Vec<ScoredGrad>,
    ) -> Vec<Scored> {
        trainer.accumulate(&self.backend, &self.model, packed, targets, loss)
    }

    /// Applies a run's gradients. Full training changes this host's model, so known prefixes are no longer shared.
    pub fn step(&mut self, trainer: &mut Trainer<B>, lr: f32) -> Update {
        let update = trainer.step(&self.backend, &mut self.model, lr);
        if update.applied && trainer.adapter().is_none() {
            self.batcher.model_changed();
        }
        update
    }

    /// Takes up a saved state of a run; see [`Trainer::restore`].
    pub fn restore(
        &mut self,
        trainer: &mut Trainer<B>,
        state: &crate::trainer::TrainerState,
    ) -> Result<(), crate::error::LoadError> {
        trainer.restore(&self.backend, &mut self.model, state)?;
        self.batcher.model_changed();
        Ok(())
    }
}

/// The largest difference; what is no number is the largest of all.
fn furthest(scored: impl Iterator<Item = f32>, drawn: impl Iterator<Item = f32>) -> f32 {
    scored.zip(drawn).map(|(scored, drawn)| (scored - drawn).abs()).max_by(f32::total_cmp).unwrap_or(f32::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_differs_most() {
        let check = |scored: [f32; 2], drawn: [f32; 2]| furthest(scored.into_iter(), drawn.into_iter());
        assert_eq!(check([-1.0, -2.0], [-1.0, -2.0]), 0.0);
        assert_eq!(check([-1.0, -2.0], [-1.5, -2.25]), 0.5);
        assert!(check([f32::NAN, -2.0], [-1.0, -2.25]).is_nan());
        assert!(furthest(std::iter::empty(), std::iter::empty()).is_nan(), "nothing was compared");
    }

    #[test]
    fn who_runs_it_hears_what_came_of_a_try() {
        let check = |mismatch: f32, expected: &str| {
            let told = Tried { n_tokens: 128, mismatch }.to_string();
            assert!(told.starts_with("sampler and trainer: 128 log-probs tried, ") && told.contains(expected), "{told}");
        };
        check(0.0, "the same to the last bit");
        check(0.002, "one differs by 2.0e-3; each step measures it");
        check(f32::NAN, "one differs by NaN");
    }
}
