//! What is asked of the batcher, and what it tells.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Support};
use crate::constraint::Constraint;
use crate::kv::Version;
use crate::lora::Adapter;
use crate::sampler::{SamplerError, SamplerOptions};

/// Bounds of the batcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchLimits {
    /// Pages of keys and values, of sixteen positions each.
    pub n_pages: usize,
    /// Sequences that run at once.
    pub n_sequences_max: usize,
    /// Rows of one step; a step with more running sequences than this still feeds each one row.
    pub n_rows_max: usize,
    /// Requests that wait.
    pub queue_len_max: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { n_pages: 2048, n_sequences_max: 256, n_rows_max: 2048, queue_len_max: 65_536 }
    }
}

/// What to continue and how.
pub struct Request<B: Backend> {
    /// The prompt; not empty.
    pub prompt: Vec<u32>,
    /// Samples to draw from it.
    pub n_samples: usize,
    /// Most tokens of one sample, forced ones included.
    pub n_tokens_max: usize,
    /// How tokens are drawn.
    pub sampler: SamplerOptions,
    /// A sample ends after one of these.
    pub stop_ids: Vec<u32>,
    /// Random seed.
    pub seed: u64,
    /// Number of the first sample; sample i draws from stream (seed, sequence + i).
    pub sequence: u64,
    /// The adapter and its version.
    pub adapter: Option<(Version, Arc<Adapter<B>>)>,
    /// One rule per sample, or none at all.
    pub constraints: Vec<Box<dyn Constraint>>,
    /// Keep the support of every draw that did not have the whole vocabulary, for training on it.
    pub keep_support: bool,
    /// How many of the likeliest tokens are told beside each that was drawn.
    pub n_likeliest: usize,
    /// Guess tokens from what was said before, so that they come sooner. Guesses change no token and no bit.
    pub guesses: bool,
    /// What the answer is thought to say, where who asks knows: it is guessed before anything else.
    pub prediction: Vec<u32>,
    /// Who asks: prompts that were computed before, and answers that were given, serve the same asker alone.
    pub asker: u64,
}

impl<B: Backend> Request<B> {
    /// One plain sample.
    pub fn new(prompt: Vec<u32>, n_tokens_max: usize) -> Self {
        Self {
            prompt,
            n_samples: 1,
            n_tokens_max,
            sampler: SamplerOptions::default(),
            stop_ids: Vec::new(),
            seed: 0,
            sequence: 0,
            adapter: None,
            constraints: Vec::new(),
            keep_support: false,
            n_likeliest: 0,
            guesses: true,
            prediction: Vec::new(),
            asker: 0,
        }
    }

    /// The same samples in parts of at most so many, each of which draws what it would draw among all.
    pub(super) fn in_parts(mut self, n_samples_max: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        while self.n_samples > n_samples_max {
            let n_rules = self.constraints.len().min(n_samples_max);
            parts.push(Self {
                prompt: self.prompt.clone(),
                n_samples: n_samples_max,
                stop_ids: self.stop_ids.clone(),
                adapter: self.adapter.clone(),
                constraints: self.constraints.drain(..n_rules).collect(),
                prediction: self.prediction.clone(),
                ..self
            });
            self.n_samples -= n_samples_max;
            self.sequence = self.sequence.wrapping_add(n_samples_max as u64);
        }
        parts.push(self);
        parts
    }
}

/// One token of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The token.
    pub id: u32,
    /// Log-probability within the support it was drawn from; 0 for forced tokens.
    pub logprob: f32,
    /// Put there by a constraint, not drawn.
    pub forced: bool,
    /// The support, when it was not the whole vocabulary and the request asked to keep it.
    pub support: Option<Support>,
    /// The likeliest tokens in its place with their log-probabilities, as many as the request asked for; none for forced tokens.
    pub likeliest: Vec<(u32, f32)>,
}

impl Token {
    /// A token of which no more than this is known.
    pub fn new(id: u32, logprob: f32, forced: bool) -> Self {
        Self { id, logprob, forced, support: None, likeliest: Vec::new() }
    }
}

/// Why a sample ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A stop id, which is the last token.
    StopId,
    /// The constraint said so.
    Constraint,
    /// The request's or the model's length was reached.
    Length,
    /// No token could be drawn: the constraint allowed none.
    NoToken,
    /// No token could be drawn: the logits were not finite.
    NotFinite,
    /// The request was withdrawn.
    Cancelled,
}

/// Number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What happened to one sample in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The request.
    pub request: RequestId,
    /// The sample of it.
    pub sample: usize,
    /// New tokens.
    pub tokens: Vec<Token>,
    /// Set when the sample has ended.
    pub finish: Option<Finish>,
}

/// A request that cannot be met.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// Nothing to continue from.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// An id outside the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocab}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// Longer than the model or the pages allow.
    #[error("{n_tokens} tokens do not fit into {n_tokens_max}")]
    TooLong {
        /// Tokens asked for.
        n_tokens: usize,
        /// Tokens that fit.
        n_tokens_max: usize,
    },
    /// No samples, or a count of constraints that does not match.
    #[error("{n_samples} samples with {n_constraints} constraints cannot be drawn")]
    Samples {
        /// Samples asked for.
        n_samples: usize,
        /// Constraints given.
        n_constraints: usize,
    },
    /// The queue is full.
    #[error("{0} requests are waiting already")]
    QueueFull(usize),
    /// A sampler option is out of range.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}
