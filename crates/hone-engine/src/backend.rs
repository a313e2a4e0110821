//! The seam between the model and the machine: a score of operations, each with its backward.
//!
//! The model's forward and backward are written once over this trait. Buffers are opaque: the model never sees a slice
//! of device memory, and every transfer to the host is a named call, so a backend with its own memory can implement it.
//!
//! Numbers live in four forms. A `Buf` is an f32 vector. An `Act` is a matrix of activations in the form a matrix
//! product consumes (f32, or rounded to bf16). A `Weight` is a matrix in the form a product wants it (packed once, in
//! f32 or bf16). A `Kv` holds the key and value pages of one layer.
//!
//! The contract that makes sampling and training agree: an output row depends only on its own inputs (for attention,
//! on the keys up to its own position), through one order of summation that does not vary with the other rows of the
//! call, their number, or the number of workers.
//! Only [`Backend::burst`], a path around the model's own passes where a machine has a shorter one, knows of layers and adapters, and
//! only [`Backend::settle`] beside it of a model's sizes.
//! Knows nothing of token meaning.

use std::ops::Range;
use std::sync::Arc;

use crate::config::ModelConfig;
use crate::forward::AdapterRows;
use crate::layout::Layout;
use crate::model::Model;
use crate::param::Proj;
use crate::random::Stream;
use crate::sampler::{Drawn, SamplerOptions};

/// What matrix products are computed in; sums are f32 in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// Everything in f32, for parity with other implementations.
    F32,
    /// Weights in bf16, activations rounded to bf16 where a product consumes them.
    Bf16,
}

/// Whether a result replaces what the output holds or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Replace.
    Set,
    /// Add.
    Add,
}

/// Sizes that attention and rotation need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
}

/// Direction of a rotation: the backward of a rotation is the opposite rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// By the position's angle.
    Forward,
    /// By its negative.
    Backward,
}

/// The tokens a position may choose from: bit `id % 64` of word `id / 64`.
pub type Support = Arc<[u64]>;

/// One predicted token.
#[derive(Clone, Debug)]
pub struct Target {
    /// The token.
    pub id: u32,
    /// Logits are multiplied by this (1 / temperature).
    pub inv_temperature: f32,
    /// Log-probabilities are taken within this set, or the whole vocabulary.
    pub support: Option<Support>,
}

/// What the head says about one predicted token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Log-probability of the target.
    pub logprob: f32,
    /// Entropy of the distribution in nats.
    pub entropy: f32,
    /// Log of the normaliser, which the backward needs.
    pub log_norm: f32,
}

/// Gradient of the loss with respect to one [`Scored`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoredGrad {
    /// With respect to the log-probability.
    pub logprob: f32,
    /// With respect to the entropy.
    pub entropy: f32,
}

/// Constants of one AdamW update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Step size.
    pub lr: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Decoupled decay, times `lr`.
    pub weight_decay: f32,
    /// `1 - beta1^t`.
    pub correction1: f32,
    /// `1 - beta2^t`.
    pub correction2: f32,
    /// Gradients are multiplied by this first (clipping, averaging).
    pub grad_scale: f32,
}

/// One product among several: `y[to..] = x[rows] · wᵀ`.
pub struct Linear<'a, B: Backend + ?Sized> {
    /// The activations.
    pub x: &'a B::Act,
    /// Their rows that take part.
    pub rows: Range<usize>,
    /// The weights.
    pub w: &'a B::Weight,
    /// Replace or add.
    pub put: Put,
    /// The results.
    pub y: &'a mut B::Buf,
    /// The row of the first result.
    pub to: usize,
}

/// One part of the gradient of what several products have for input: `dx[to..] += dy[rows] · w`.
pub struct LinearBackward<'a, B: Backend + ?Sized> {
    /// The gradient of the results.
    pub dy: &'a B::Act,
    /// Its rows that take part.
    pub rows: Range<usize>,
    /// The weights.
    pub w: &'a B::Weight,
    /// The row of the first sum.
    pub to: usize,
}

/// What an adapter adds to rows of a matrix: `x · wᵀ`, or in a backward `x · w`.
pub struct Low<'a, B: Backend + ?Sized> {
    /// Narrow activations, one row for each that it adds to.
    pub x: &'a B::Act,
    /// The rows that it adds to.
    pub rows: Range<usize>,
    /// The weights.
    pub w: &'a B::Weight,
}

/// A master weight with all that moves it.
pub struct Moved<'a, B: Backend + ?Sized> {
    /// The weight.
    pub w: &'a mut B::Buf,
    /// Its first moment.
    pub m: &'a mut B::Buf,
    /// Its second moment.
    pub v: &'a mut B::Buf,
    /// Its gradient, which is zero afterwards.
    pub grad: &'a mut B::Buf,
    /// How it is moved.
    pub step: AdamStep,
}

/// A sequence that draws several tokens in a row, without asking in between. Where it is fed several tokens at once, because they are due
/// or guessed, each has a row, right behind the one before.
pub struct BurstRow<'a> {
    /// The token that is fed first; nothing stands for the last one that the burst before draws.
    pub id: Option<u32>,
    /// Its position.
    pub position: usize,
    /// How many rows before it are of the same sequence.
    pub n_behind: usize,
    /// Pages of all positions up to the last that is fed.
    pub pages: &'a [u32],
    /// How its tokens are drawn.
    pub sampler: SamplerOptions,
    /// Where its random numbers come from; the token at position p is drawn with number p.
    pub stream: Stream,
}

/// What a burst draws, part by part.
pub type Drawing = Box<dyn Iterator<Item = Draws> + Send>;

/// A part of what a burst draws: some tokens of every sequence, with their log-probabilities.
pub struct Draws {
    /// Sequences of the burst.
    pub n_sequences: usize,
    /// The next token of all sequences, then the one after it, and so on.
    pub tokens: Vec<(u32, f32)>,
}

impl Draws {
    /// The tokens of one sequence in their order.
    pub fn of(&self, sequence: usize) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.tokens.chunks_exact(self.n_sequences).map(move |of_all| of_all[sequence])
    }
}

/// A draw from a row of logits.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The row of logits.
    pub row: usize,
    /// How it is drawn; all draws of a row have the same.
    pub sampler: SamplerOptions,
    /// Uniform in [0, 1).
    pub u: f32,
    /// What may be drawn, when it is not the whole vocabulary.
    pub allowed: Option<Support>,
    /// Whether what the sampler leaves of that is told.
    pub keep_support: bool,
    /// How many of the likeliest tokens that could have been drawn are told.
    pub n_likeliest: usize,
}

/// A machine that computes.
pub trait Backend: Send + Sync + 'static {
    /// A vector of f32.
    type Buf: Send + Sync;
    /// A matrix of activations, ready for a product.
    type Act: Send + Sync;
    /// A matrix of weights, ready for a product.
    type Weight: Send + Sync;
    /// The pages of one layer.
    type Kv: Send + Sync;
    /// A layout in the backend's own form.
    type Plan: Send + Sync;

    /// The device and code path, for the record of a run: results repeat to the bit on the same path.
    fn path(&self) -> String;
    /// What products are computed in.
    fn dtype(&self) -> Dtype;
    /// The widest head that attention takes.
    fn head_dim_max(&self) -> usize {
        usize::MAX
    }

    /// A vector with unspecified contents.
    fn buf(&self, len: usize) -> Self::Buf;
    /// A vector of zeros.
    fn zeros(&self, len: usize) -> Self::Buf;
    /// A vector copied from the host.
    fn upload(&self, values: &[f32]) -> Self::Buf;
    /// Normal numbers of a stream times a deviation, where the machine makes them faster than they could be sent to it.
    fn noise(&self, _stream: Stream, _deviation: f32, _len: usize) -> Option<Self::Buf> {
        None
    }
    /// A vector copied to the host.
    fn download(&self, buf: &Self::Buf) -> Vec<f32>;
    /// Copies a vector.
    fn copy(&self, from: &Self::Buf) -> Self::Buf;
    /// Sets a vector to zero.
    fn clear(&self, buf: &mut Self::Buf);
    /// `to += from`.
    fn add(&self, from: &Self::Buf, to: &mut Self::Buf);
    /// Packs a row-major matrix; `trainable` ones are also made ready for the backward product.
    fn weight(&self, values: &Self::Buf, rows: usize, cols: usize, trainable: bool) -> Self::Weight;
    /// Lays weights that share an input side by side, where that lets one product do for several. Changes no value.
    fn adjoin(&self, _weights: &mut [&mut Self::Weight]) {}
    /// Says how products with this weight are summed, where that depends on the model. Asked of every projection's weight before its first
    /// product.
    fn settle(&self, _config: &ModelConfig, _proj: Proj, _weight: &mut Self::Weight) {}
    /// Makes a packed weight ready for the backward product (idempotent).
    fn prepare_backward(&self, weight: &mut Self::Weight);
    /// Rounds `scale · x` to the form a product consumes.
    fn act(&self, x: &Self::Buf, rows: usize, cols: usize, scale: f32) -> Self::Act;
    /// The same of several matrices of as many rows, each with its number of columns: side by side, where that lets one product do for
    /// several.
    fn acts(&self, parts: &[(&Self::Buf, usize)], rows: usize, scale: f32) -> Vec<Self::Act> {
        parts.iter().map(|(x, cols)| self.act(x, rows, *cols, scale)).collect()
    }
    /// Copies rows of a matrix in the given order, repeats allowed.
    fn gather(&self, x: &Self::Buf, cols: usize, rows: &[u32]) -> Self::Buf;
    /// The backward of [`Backend::gather`]: adds row `i` of `dy` to row `rows[i]` of `dx`, in order.
    fn scatter_add(&self, dy: &Self::Buf, cols: usize, rows: &[u32], dx: &mut Self::Buf);

    /// Rows of the table.
    fn embed(&self, table: &Self::Weight, ids: &[u32]) -> Self::Buf;
    /// `dtable[ids[i]] += dy[i]`, in order.
    fn embed_backward(&self, dy: &Self::Buf, cols: usize, ids: &[u32], dtable: &mut Self::Buf);

    /// `x · gain / sqrt(mean(x²) + eps)` per row.
    fn rmsnorm(&self, x: &Self::Buf, gain: &Self::Buf, eps: f32, cols: usize) -> Self::Buf;
    /// The same, straight into the form a product consumes.
    fn rmsnorm_act(&self, x: &Self::Buf, gain: &Self::Buf, eps: f32, cols: usize) -> Self::Act;
    /// Gradients of [`Backend::rmsnorm`]; both results are added or set as `put` says for `dx`, always added for `dgain`.
    #[expect(clippy::too_many_arguments, reason = "the backward of a norm needs all of its forward")]
    fn rmsnorm_backward(
        &self,
        x: &Self::Buf,
        gain: &Self::Buf,
        eps: f32,
        dy: &Self::Buf,
        put: Put,
        dx: &mut Self::Buf,
        dgain: Option<&mut Self::Buf>,
    );

    /// `y[to..] = x[rows] · wᵀ`.
    fn linear(&self, x: &Self::Act, rows: Range<usize>, w: &Self::Weight, put: Put, y: &mut Self::Buf, to: usize);
    /// Products that do not wait for each other: the same results as one by one, in fewer rounds of the threads.
    fn linears(&self, products: Vec<Linear<'_, Self>>) {
        for Linear { x, rows, w, put, y, to } in products {
            self.linear(x, rows, w, put, y, to);
        }
    }
    /// `dx[to..] = dy[rows] · w`.
    fn linear_backward(&self, dy: &Self::Act, rows: Range<usize>, w: &Self::Weight, put: Put, dx: &mut Self::Buf, to: usize);
    /// The gradient of what several products have for input: the first part is put, and those behind it are added. Machines add in
    /// orders of their own.
    fn linears_backward(&self, parts: Vec<LinearBackward<'_, Self>>, put: Put, dx: &mut Self::Buf) {
        for (i, LinearBackward { dy, rows, w, to }) in parts.into_iter().enumerate() {
            self.linear_backward(dy, rows, w, if i == 0 { put } else { Put::Add }, dx, to);
        }
    }
    /// `dw += dyᵀ · x`, summed over rows in order.
    fn weight_gradient(&self, dy: &Self::Act, x: &Self::Act, dw: &mut Self::Buf);
    /// Adds a bias to every row.
    fn bias(&self, y: &mut Self::Buf, bias: &Self::Buf);
    /// Column sums of `dy`, rows in order.
    fn bias_gradient(&self, dy: &Self::Buf, dbias: &mut Self::Buf);

    /// Uploads a layout.
    fn plan(&self, layout: &Layout) -> Self::Plan;
    /// Rotates heads in place by the angles of their rows' positions; `angles` holds cos and sin per (position, pair).
    fn rope(&self, x: &mut Self::Buf, head_dim: usize, angles: &Self::Buf, plan: &Self::Plan, turn: Turn);
    /// Pages with zero keys and values.
    fn kv(&self, heads: Heads, n_pages: usize) -> Self::Kv;
    /// Writes keys and values to their places.
    fn kv_write(&self, kv: &mut Self::Kv, k: &Self::Buf, v: &Self::Buf, plan: &Self::Plan);
    /// Copies a page.
    fn kv_copy(&self, kv: &mut Self::Kv, from: u32, to: u32);
    /// Causal attention of every row over its run's pages; also the log of each softmax's normaliser per (row, head).
    fn attention(&self, q: &Self::Buf, kv: &Self::Kv, plan: &Self::Plan) -> (Self::Buf, Self::Buf);
    /// Gradients of attention with respect to queries, keys and values, given its results.
    fn attention_backward(
        &self,
        q: &Self::Buf,
        kv: &Self::Kv,
        plan: &Self::Plan,
        out: &Self::Buf,
        log_norm: &Self::Buf,
        dout: &Self::Buf,
    ) -> (Self::Buf, Self::Buf, Self::Buf);

    /// `silu(gate) · up`, ready for a product.
    fn swiglu(&self, gate: &Self::Buf, up: &Self::Buf, cols: usize) -> Self::Act;
    /// Gradients of [`Backend::swiglu`] with respect to gate and up, ready for a product.
    fn swiglu_backward(&self, gate: &Self::Buf, up: &Self::Buf, dh: &Self::Buf, cols: usize) -> (Self::Act, Self::Act);

    /// [`Backend::swiglu`] of a gate and an up to which adapters add something, each to its own rows. Whether that is in `gate` and `up`
    /// afterwards, or is added again by [`Backend::swiglu_low_backward`], is the backend's affair.
    fn swiglu_low(&self, gate: &mut Self::Buf, up: &mut Self::Buf, cols: usize, low: &[[Option<Low<'_, Self>>; 2]]) -> Self::Act {
        add_lows(self, [&mut *gate, &mut *up], low);
        self.swiglu(gate, up, cols)
    }
    /// Gradients of [`Backend::swiglu_low`] with respect to gate and up, where adapters add to `dh` too.
    fn swiglu_low_backward(
        &self,
        gate: &Self::Buf,
        up: &Self::Buf,
        dh: &mut Self::Buf,
        cols: usize,
        _low: &[[Option<Low<'_, Self>>; 2]],
        dlow: &[Low<'_, Self>],
    ) -> (Self::Act, Self::Act) {
        add_lows_backward(self, dh, dlow);
        self.swiglu_backward(gate, up, dh, cols)
    }

    /// Log-probability and entropy of each row's target; logits exist only a chunk at a time.
    fn head(&self, x: &Self::Act, w: &Self::Weight, targets: &[Target]) -> Vec<Scored>;
    /// The backward of [`Backend::head`]: sets `dx`, adds to `dw` where given.
    #[expect(clippy::too_many_arguments, reason = "the backward of the head needs all of its forward")]
    fn head_backward(
        &self,
        x: &Self::Act,
        w: &Self::Weight,
        targets: &[Target],
        scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Self::Buf,
        dw: Option<&mut Self::Buf>,
    );
    /// Shows each row's logits to `visit`, a bounded number of rows at a time; calls may run at once on several threads.
    fn logits(&self, x: &Self::Act, w: &Self::Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync));
    /// Scores one row of logits as [`Backend::head`] would, to the bit.
    fn score(&self, logits: &[f32], target: &Target) -> Scored;

    /// The id at which the cumulative probability within the target's support passes `u`; `log_norm` is from `score`.
    fn pick(&self, logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32;

    /// What the sampler leaves of what may be drawn from a row of logits; nothing when nothing is left.
    fn cut(&self, logits: &[f32], sampler: &SamplerOptions, allowed: &Option<Support>) -> Option<Support> {
        sampler.narrow(logits, allowed, |logits, target| self.score(logits, target).log_norm)
    }

    /// Draws where the logits are, instead of showing them to the host, one token per ask or none where the logits are not finite. `None`
    /// where there is no such path.
    fn draw(&self, _x: &Self::Act, _w: &Self::Weight, _asks: &[Ask]) -> Option<Vec<Option<Drawn>>> {
        None
    }
    /// Feeds a token to each of these rows, and gives the head's input of all of them, where there is a shorter path for few rows than the
    /// general pass, with the same bits. Rows of one sequence follow each other, as many as are light. `None` where this model or these
    /// adapters cannot be run so.
    fn feed(
        &self,
        _model: &Model<Self>,
        _kvs: &mut [Self::Kv],
        _adapters: &AdapterRows<'_, Self>,
        _rows: &[BurstRow<'_>],
    ) -> Option<Self::Act>
    where
        Self: Sized,
    {
        None
    }
    /// Rows of a step that take no longer than one, because it waits for the weights: room for guesses.
    fn n_rows_light(&self) -> usize {
        1
    }
    /// Tokens that could be drawn, of each of so many sequences, in the time that guesses add to a step.
    fn guess_cost(&self, _n_sequences: usize) -> f32 {
        0.0
    }
    /// Most tokens a sequence may draw in one [`Backend::burst`]; 0 where there is no such path.
    fn burst_max(&self) -> usize {
        0
    }
    /// Lets every sequence draw so many tokens in a row, the same as step by step. What is drawn comes part by part, so that what is
    /// there can be used while the rest is computed; whatever else uses the keys and values comes after that. The next burst of the same
    /// sequences, in the same order, may begin before all of this one was taken. `None` where this model or these adapters cannot be run
    /// so.
    fn burst(
        &self,
        _model: &Model<Self>,
        _kvs: &mut [Self::Kv],
        _adapters: &AdapterRows<'_, Self>,
        _rows: &[BurstRow<'_>],
        _n_tokens: usize,
    ) -> Option<Drawing>
    where
        Self: Sized,
    {
        None
    }

    /// Sum of squares in f64, over fixed chunks in order.
    fn sum_squares(&self, buf: &Self::Buf) -> f64;
    /// The same of several vectors; a backend that must wait for each answer can wait once.
    fn sums_squares(&self, bufs: &[&Self::Buf]) -> Vec<f64> {
        bufs.iter().map(|buf| self.sum_squares(buf)).collect()
    }
    /// One AdamW update of a master weight and its moments.
    fn adamw(&self, w: &mut Self::Buf, m: &mut Self::Buf, v: &mut Self::Buf, grad: &Self::Buf, step: &AdamStep);
    /// The same of several, whose gradients are cleared.
    fn adamw_all(&self, all: Vec<Moved<'_, Self>>) {
        for Moved { w, m, v, grad, step } in all {
            self.adamw(w, m, v, grad, &step);
            self.clear(grad);
        }
    }
}

/// Adds what adapters add to several results, each to its own rows.
pub(crate) fn add_lows<B: Backend + ?Sized, const N: usize>(
    backend: &B,
    mut into: [&mut B::Buf; N],
    low: &[[Option<Low<'_, B>>; N]],
) {
    for of_adapter in low {
        let added = into.iter_mut().zip(of_adapter).filter_map(|(y, low)| {
            let &Low { x, ref rows, w } = low.as_ref()?;
            Some(Linear { x, rows: 0..rows.len(), w, put: Put::Add, y: &mut **y, to: rows.start })
        });
        backend.linears(added.collect());
    }
}

/// Adds what adapters add to the gradient of an input.
pub(crate) fn add_lows_backward<B: Backend + ?Sized>(backend: &B, dx: &mut B::Buf, dlow: &[Low<'_, B>]) {
    for Low { x, rows, w } in dlow {
        backend.linear_backward(x, 0..rows.len(), w, Put::Add, dx, rows.start);
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;

    #[test]
    fn a_sequence_has_its_own_tokens_in_their_order() {
        let draws = Draws { n_sequences: 2, tokens: vec![(1, -0.1), (2, -0.2), (3, -0.3), (4, -0.4)] };
        assert_eq!(draws.of(0).collect::<Vec<_>>(), [(1, -0.1), (3, -0.3)]);
        assert_eq!(draws.of(1).collect::<Vec<_>>(), [(2, -0.2), (4, -0.4)]);
    }
}
