//! The fast backend for processors: packed products, vector kernels, a fixed set of threads.
//!
//! Chooses its instructions once, at construction, and says which in [`Backend::path`]. Every operation is cut into
//! items whose results do not depend on the cut or on who computes them; see the kernels for the order of each sum.
//! Knows nothing of layers or models.
#![expect(unsafe_code, reason = "threads write disjoint parts of shared results")]

mod aligned;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod head;
mod isa;
mod lanes;
mod matmul;
mod pack;
mod pages;
mod plan;
mod pool;
mod rows;
mod vocabulary;

use std::ops::Range;
use std::sync::Arc;

pub use aligned::Aligned;
use aligned::Arena;
use attention::Saved;
pub use isa::{Isa, Level};
use matmul::{Job, product};
pub use pack::Act;
use pack::{Numbers, Panels};
pub use pages::Kv;
pub use plan::Plan;
pub use pool::Pool;
use pool::Shares;

use crate::backend::{AdamStep, Backend, Dtype, Heads, Linear, Put, Scored, ScoredGrad, Target, Turn};
use crate::layout::Layout;

/// Floats per item of a vector operation.
const STRETCH: usize = 8192;
/// Below this many floats a second thread costs more than it brings.
const ALONE_MAX: usize = 24_576;

/// The fast backend.
#[derive(Debug)]
pub struct Cpu {
    dtype: Dtype,
    isa: Isa,
    pool: Pool,
    arena: Arc<Arena>,
}

/// A packed matrix, and its transpose once a backward needs it.
#[derive(Debug)]
pub struct Weight {
    forward: Panels,
    backward: Option<Panels>,
}

impl Cpu {
    /// The best this machine has, on `n_threads`.
    pub fn new(dtype: Dtype, n_threads: usize) -> Self {
        Self::with_isa(dtype, n_threads, Isa::best())
    }

    /// A chosen level of instructions.
    pub fn with_isa(dtype: Dtype, n_threads: usize, isa: Isa) -> Self {
        Self { dtype, isa, pool: Pool::new(n_threads), arena: Arc::default() }
    }

    /// The threads, for benchmarks.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Calls `work(row, output row)` for every row of `out`, on all threads.
    fn by_row(&self, out: &mut [f32], cols: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
        let rows = if out.len() <= ALONE_MAX { ALONE_MAX } else { STRETCH } / cols;
        let rows = rows.max(1);
        self.pool.pieces(out, rows * cols, &|item, out| {
            for (i, out) in out.chunks_exact_mut(cols).enumerate() {
                work(item * rows + i, out);
            }
        });
    }

    /// Makes an activation row by row, in either type.
    fn act_by_row(
        &self,
        rows: usize,
        cols: usize,
        f32_row: impl Fn(usize, &mut [f32]) + Sync,
        bf16_row: impl Fn(usize, &mut [u16]) + Sync,
    ) -> Act {
        let mut act = Act::new(self.dtype, rows, cols, &self.arena);
        let stride = act.stride;
        let per_item = if rows * stride <= ALONE_MAX { ALONE_MAX } else { STRETCH } / stride;
        let per_item = per_item.max(1);
        match &mut act.data {
            Numbers::F32(data) => self.pool.pieces(&mut data[..rows * stride], per_item * stride, &|item, out| {
                for (i, out) in out.chunks_exact_mut(stride).enumerate() {
                    out[cols..].fill(0.0);
                    f32_row(item * per_item + i, out);
                }
            }),
            Numbers::Bf16(data) => self.pool.pieces(&mut data[..rows * stride], per_item * stride, &|item, out| {
                for (i, out) in out.chunks_exact_mut(stride).enumerate() {
                    out[cols..].fill(0);
                    bf16_row(item * per_item + i, out);
                }
            }),
        }
        act
    }

    fn act_of(&self, x: &[f32], rows: usize, cols: usize, scale: f32) -> Act {
        let row = |row: usize| &x[row * cols..(row + 1) * cols];
        self.act_by_row(
            rows,
            cols,
            |i, out| matmul::scale_row(self.isa, row(i), scale, out),
            |i, out| matmul::round_row(self.isa, row(i), scale, out),
        )
    }
}

impl Backend for Cpu {
    type Buf = Aligned<f32>;
    type Act = Act;
    type Weight = Weight;
    type Kv = Kv;
    type Plan = Plan;

    fn path(&self) -> String {
        let dtype = if self.dtype == Dtype::F32 { "f32" } else { "bf16" };
        format!("cpu-{}-{dtype}", self.isa.name())
    }

    fn n_rows_light(&self) -> usize {
        match (self.isa.level(), self.dtype) {
            // A tile has sixteen rows, filled or not; what is left is their attention and their draws.
            (Level::Amx, Dtype::Bf16) => 8,
            (Level::Avx512 | Level::Avx512Bf16 | Level::Amx, Dtype::F32) => 4,
            _ => 2,
        }
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn buf(&self, len: usize) -> Aligned<f32> {
        self.arena.take(len)
    }

    fn zeros(&self, len: usize) -> Aligned<f32> {
        self.arena.zeros(len)
    }

    fn upload(&self, values: &[f32]) -> Aligned<f32> {
        let mut buf = self.buf(values.len());
        buf.copy_from_slice(values);
        buf
    }

    fn download(&self, buf: &Aligned<f32>) -> Vec<f32> {
        buf.to_vec()
    }

    fn copy(&self, from: &Aligned<f32>) -> Aligned<f32> {
        let mut to = self.buf(from.len());
        self.pool.pieces(&mut to, STRETCH, &|item, to| {
            to.copy_from_slice(&from[item * STRETCH..][..to.len()]);
        });
        to
    }

    fn clear(&self, buf: &mut Aligned<f32>) {
        self.pool.pieces(buf, STRETCH, &|_, part| part.fill(0.0));
    }

    fn add(&self, from: &Aligned<f32>, to: &mut Aligned<f32>) {
        self.pool.pieces(to, STRETCH, &|item, to| {
            rows::add(self.isa, &from[item * STRETCH..], to);
        });
    }

    fn weight(&self, values: &Aligned<f32>, rows: usize, cols: usize, trainable: bool) -> Weight {
        let forward = Panels::of_rows(&self.pool, self.dtype, values, rows, cols);
        let backward = trainable.then(|| forward.transposed(&self.pool));
        Weight { forward, backward }
    }

    fn prepare_backward(&self, weight: &mut Weight) {
        if weight.backward.is_none() {
            weight.backward = Some(weight.forward.transposed(&self.pool));
        }
    }

    fn act(&self, x: &Aligned<f32>, rows: usize, cols: usize, scale: f32) -> Act {
        assert_eq!(x.len(), rows * cols);
        self.act_of(x, rows, cols, scale)
    }

    fn gather(&self, x: &Aligned<f32>, cols: usize, rows: &[u32]) -> Aligned<f32> {
        let mut out = self.buf(rows.len() * cols);
        self.by_row(&mut out, cols, |i, out| {
            out.copy_from_slice(&x[rows[i] as usize * cols..][..cols]);
        });
        out
    }

    fn scatter_add(&self, dy: &Aligned<f32>, cols: usize, rows: &[u32], dx: &mut Aligned<f32>) {
        for (dy, &row) in dy.chunks_exact(cols).zip(rows) {
            rows::add(self.isa, dy, &mut dx[row as usize * cols..][..cols]);
        }
    }

    fn embed(&self, table: &Weight, ids: &[u32]) -> Aligned<f32> {
        let cols = table.forward.k;
        let mut out = self.buf(ids.len() * cols);
        self.by_row(&mut out, cols, |row, out| {
            for (i, out) in out.iter_mut().enumerate() {
                *out = table.forward.at(ids[row] as usize, i);
            }
        });
        out
    }

    fn embed_backward(&self, dy: &Aligned<f32>, cols: usize, ids: &[u32], dtable: &mut Aligned<f32>) {
        self.scatter_add(dy, cols, ids, dtable);
    }

    fn rmsnorm(&self, x: &Aligned<f32>, gain: &Aligned<f32>, eps: f32, cols: usize) -> Aligned<f32> {
        let mut out = self.buf(x.len());
        self.by_row(&mut out, cols, |row, out| {
            rows::rmsnorm(self.isa, &x[row * cols..][..cols], gain, eps, out);
        });
        out
    }

    fn rmsnorm_act(&self, x: &Aligned<f32>, gain: &Aligned<f32>, eps: f32, cols: usize) -> Act {
        let row = |row: usize| &x[row * cols..][..cols];
        self.act_by_row(
            x.len() / cols,
            cols,
            |i, out| rows::rmsnorm(self.isa, row(i), gain, eps, &mut out[..cols]),
            |i, out| rows::rmsnorm_bf16(self.isa, row(i), gain, eps, out),
        )
    }

    fn rmsnorm_backward(
        &self,
        x: &Aligned<f32>,
        gain: &Aligned<f32>,
        eps: f32,
        dy: &Aligned<f32>,
        put: Put,
        dx: &mut Aligned<f32>,
        dgain: Option<&mut Aligned<f32>>,
    ) {
        let cols = gain.len();
        let n_rows = x.len() / cols;
        let mut inverses = self.buf(n_rows);
        let shared = Shares(inverses.as_mut_ptr());
        self.by_row(dx, cols, |row, dx| {
            let at = row * cols;
            let inverse = rows::rmsnorm_backward(self.isa, &x[at..][..cols], gain, eps, &dy[at..][..cols], put, dx);
            // SAFETY: one element per row, and each row is one item's.
            unsafe { shared.part(row, 1)[0] = inverse };
        });
        if let Some(dgain) = dgain {
            // Each column is one thread's, rows in order.
            self.pool.pieces(dgain, 64, &|item, dgain| {
                for row in 0..n_rows {
                    let at = row * cols + item * 64;
                    let n = dgain.len();
                    rows::add_product(self.isa, &x[at..][..n], &dy[at..][..n], inverses[row], dgain);
                }
            });
        }
    }

    fn linear(&self, x: &Act, rows: Range<usize>, w: &Weight, put: Put, y: &mut Aligned<f32>, to: usize) {
        self.linears(vec![Linear { x, rows, w, put, y, to }]);
    }

    fn linears(&self, products: Vec<Linear<'_, Self>>) {
        let products = products.into_iter().map(|Linear { x, rows, w, put, y, to }| {
            let cols = w.forward.cols;
            assert_eq!(x.cols, w.forward.k);
            (x, &w.forward, Job { rows, cols: 0..cols, k0: 0, stride: cols, at: to * cols, put }, &mut y[..])
        });
        matmul::products(&self.pool, self.isa, products.collect());
    }

    fn linear_backward(&self, dy: &Act, rows: Range<usize>, w: &Weight, put: Put, dx: &mut Aligned<f32>, to: usize) {
        let panels = w.backward.as_ref().expect("a weight prepared for the backward");
        let cols = panels.cols;
        assert_eq!(dy.cols, panels.k);
        let job = Job { rows, cols: 0..cols, k0: 0, stride: cols, at: to * cols, put };
        product(&self.pool, self.isa, dy, panels, &job, dx);
    }

    /// A narrow `x` (the inside of an adapter) is turned instead of a wide `dy`, and the result turned back: far fewer
    /// numbers move, and each element is the same sum over rows in order.
    fn weight_gradient(&self, dy: &Act, x: &Act, dw: &mut Aligned<f32>) {
        assert_eq!(dy.rows, x.rows);
        let narrow = x.cols < dy.cols;
        let (left, right) = if narrow { (x, dy) } else { (dy, x) };
        let (turned, panels) = (left.turned(self.isa, &self.pool, &self.arena), right.by_rows(&self.pool, &self.arena));
        let put = if narrow { Put::Set } else { Put::Add };
        let job = Job { rows: 0..left.cols, cols: 0..right.cols, k0: 0, stride: right.cols, at: 0, put };
        if !narrow {
            product(&self.pool, self.isa, turned, panels, &job, dw);
            return;
        }
        let mut back = self.buf(left.cols * right.cols);
        product(&self.pool, self.isa, turned, panels, &job, &mut back);
        self.by_row(dw, left.cols, |row, dw| {
            dw.iter_mut().enumerate().for_each(|(col, dw)| *dw += back[col * right.cols + row]);
        });
    }

    fn bias(&self, y: &mut Aligned<f32>, bias: &Aligned<f32>) {
        self.by_row(y, bias.len(), |_, y| rows::add(self.isa, bias, y));
    }

    fn bias_gradient(&self, dy: &Aligned<f32>, dbias: &mut Aligned<f32>) {
        let cols = dbias.len();
        self.pool.pieces(dbias, 64, &|item, dbias| {
            for row in dy.chunks_exact(cols) {
                rows::add(self.isa, &row[item * 64..], dbias);
            }
        });
    }

    fn plan(&self, layout: &Layout) -> Plan {
        Plan::new(layout)
    }

    fn rope(&self, x: &mut Aligned<f32>, head_dim: usize, angles: &Aligned<f32>, plan: &Plan, turn: Turn) {
        let cols = x.len() / plan.layout.n_rows().max(1);
        self.by_row(x, cols.max(1), |row, x| {
            let at = plan.layout.positions[row] as usize * head_dim;
            rows::rope(self.isa, x, head_dim, &angles[at..at + head_dim], turn);
        });
    }

    fn kv(&self, heads: Heads, n_pages: usize) -> Kv {
        Kv::new(heads, n_pages)
    }

    fn kv_write(&self, kv: &mut Kv, k: &Aligned<f32>, v: &Aligned<f32>, plan: &Plan) {
        kv.write(self, k, v, plan);
    }

    fn kv_copy(&self, kv: &mut Kv, from: u32, to: u32) {
        kv.copy(from, to);
    }

    fn attention(&self, q: &Aligned<f32>, kv: &Kv, plan: &Plan) -> (Aligned<f32>, Aligned<f32>) {
        kv.attend(self, q, plan)
    }

    fn attention_backward(
        &self,
        q: &Aligned<f32>,
        kv: &Kv,
        plan: &Plan,
        out: &Aligned<f32>,
        log_norm: &Aligned<f32>,
        dout: &Aligned<f32>,
    ) -> (Aligned<f32>, Aligned<f32>, Aligned<f32>) {
        kv.attend_backward(self, plan, &Saved { q, out, log_norm, dout })
    }

    fn swiglu(&self, gate: &Aligned<f32>, up: &Aligned<f32>, cols: usize) -> Act {
        let row = |row: usize| (&gate[row * cols..][..cols], &up[row * cols..][..cols]);
        self.act_by_row(
            gate.len() / cols,
            cols,
            |i, out| rows::swiglu(self.isa, row(i).0, row(i).1, out),
            |i, out| rows::swiglu_bf16(self.isa, row(i).0, row(i).1, out),
        )
    }

    fn swiglu_backward(&self, gate: &Aligned<f32>, up: &Aligned<f32>, dh: &Aligned<f32>, cols: usize) -> (Act, Act) {
        let rows = dh.len() / cols;
        let mut dgate = Act::new(self.dtype, rows, cols, &self.arena);
        let mut dup = Act::new(self.dtype, rows, cols, &self.arena);
        let stride = dgate.stride;
        let row = |i: usize| (&gate[i * cols..][..cols], &up[i * cols..][..cols], &dh[i * cols..][..cols]);
        match (&mut dgate.data, &mut dup.data) {
            (Numbers::F32(dgate), Numbers::F32(dup)) => {
                let dup = Shares(dup.as_mut_ptr());
                self.pool.pieces(&mut dgate[..rows * stride], stride, &|i, dgate| {
                    // SAFETY: one row of `dup`, and each row is one item's.
                    let dup = unsafe { dup.part(i * stride, stride) };
                    dgate[cols..].fill(0.0);
                    dup[cols..].fill(0.0);
                    let (gate, up, dh) = row(i);
                    rows::swiglu_backward(self.isa, gate, up, dh, dgate, dup);
                });
            }
            (Numbers::Bf16(dgate), Numbers::Bf16(dup)) => {
                let dup = Shares(dup.as_mut_ptr());
                self.pool.pieces(&mut dgate[..rows * stride], stride, &|i, dgate| {
                    // SAFETY: one row of `dup`, and each row is one item's.
                    let dup = unsafe { dup.part(i * stride, stride) };
                    dgate[cols..].fill(0);
                    dup[cols..].fill(0);
                    let (gate, up, dh) = row(i);
                    rows::swiglu_backward_bf16(self.isa, gate, up, dh, dgate, dup);
                });
            }
            _ => unreachable!("both have the backend's type"),
        }
        (dgate, dup)
    }

    fn head(&self, x: &Act, w: &Weight, targets: &[Target]) -> Vec<Scored> {
        vocabulary::score(self, x, w, targets)
    }

    fn head_backward(
        &self,
        x: &Act,
        w: &Weight,
        targets: &[Target],
        scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Aligned<f32>,
        dw: Option<&mut Aligned<f32>>,
    ) {
        vocabulary::score_backward(self, x, w, &vocabulary::Scores { targets, scored, grads }, dx, dw);
    }

    fn logits(&self, x: &Act, w: &Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        vocabulary::each_row(self, x, w, visit);
    }

    fn score(&self, logits: &[f32], target: &Target) -> Scored {
        let mut fold = head::Fold::new();
        for (i, logits) in logits.chunks(head::CHUNK).enumerate() {
            fold.push(self.isa, logits, i * head::CHUNK, target);
        }
        fold.scored()
    }

    fn pick(&self, logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32 {
        head::pick(self.isa, logits, target, log_norm, u)
    }

    fn sum_squares(&self, buf: &Aligned<f32>) -> f64 {
        let mut sums = vec![0f64; buf.len().div_ceil(STRETCH)];
        self.pool.pieces(&mut sums, 1, &|item, sum| {
            let part = &buf[item * STRETCH..buf.len().min((item + 1) * STRETCH)];
            sum[0] = part.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        });
        sums.iter().sum()
    }

    fn adamw(&self, w: &mut Aligned<f32>, m: &mut Aligned<f32>, v: &mut Aligned<f32>, grad: &Aligned<f32>, step: &AdamStep) {
        let (m, v) = (Shares(m.as_mut_ptr()), Shares(v.as_mut_ptr()));
        self.pool.pieces(w, STRETCH, &|item, w| {
            let at = item * STRETCH;
            // SAFETY: moments have the weight's length, and each stretch is one item's.
            let (m, v) = unsafe { (m.part(at, w.len()), v.part(at, w.len())) };
            rows::adamw(self.isa, w, m, v, &grad[at..], step);
        });
    }
}
