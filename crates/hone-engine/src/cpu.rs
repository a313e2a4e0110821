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
mod pool;
mod rows;

use std::ops::Range;
use std::sync::Arc;

pub use aligned::Aligned;
use aligned::Arena;
use attention::{Part, Saved, Shape};
pub use isa::{Isa, Level};
use matmul::{Job, product};
pub use pack::Act;
use pack::{Numbers, Panels};
pub use pool::Pool;
use pool::Shares;

use crate::backend::{AdamStep, Backend, Dtype, Heads, Put, Scored, ScoredGrad, Target, Turn};
use crate::layout::{Layout, PAGE};

/// Rows of the head that are scored together.
const HEAD_ROWS: usize = 256;
/// Floats of logits that exist at once while sampling.
const LOGITS_MAX: usize = 1 << 22;
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

/// Pages of one layer.
#[derive(Debug)]
pub struct Kv {
    shape: Shape,
    data: Aligned<f32>,
}

/// A layout with the indices that kernels want.
#[derive(Debug)]
pub struct Plan {
    layout: Layout,
    /// Places sorted by row, and where each row's begin.
    by_row: Vec<(u32, u32)>,
    row_starts: Vec<usize>,
    /// Places of each written page begin here.
    page_starts: Vec<usize>,
    /// Runs of each group.
    groups: Vec<Vec<usize>>,
    /// Row stretches for the forward: (run, first row of the run, rows).
    parts: Vec<(usize, usize, usize)>,
    n_pages: usize,
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

    /// Logits of rows × vocabulary chunk into `scratch`, row-major.
    fn chunk_logits(&self, x: &Act, w: &Weight, rows: Range<usize>, ids: Range<usize>, scratch: &mut [f32]) {
        let job = Job { rows, stride: ids.len(), cols: ids, k0: 0, at: 0, put: Put::Set };
        product(&self.pool, self.isa, x, &w.forward, &job, scratch);
    }

    /// Calls `work(first id, ids, logits)` for each chunk of the vocabulary, for one block of rows.
    fn each_chunk(&self, x: &Act, w: &Weight, rows: &Range<usize>, mut work: impl FnMut(Range<usize>, &mut [f32])) {
        let vocab = w.forward.cols;
        let mut scratch = self.arena.take::<f32>(rows.len() * vocab.min(head::CHUNK));
        for first in (0..vocab).step_by(head::CHUNK) {
            let ids = first..(first + head::CHUNK).min(vocab);
            let scratch = &mut scratch[..rows.len() * ids.len()];
            self.chunk_logits(x, w, rows.clone(), ids.clone(), scratch);
            work(ids, scratch);
        }
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
        let cols = w.forward.cols;
        assert_eq!(x.cols, w.forward.k);
        let job = Job { rows, cols: 0..cols, k0: 0, stride: cols, at: to * cols, put };
        product(&self.pool, self.isa, x, &w.forward, &job, y);
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
        let shape = Shape::new(heads);
        Kv { shape, data: self.zeros(n_pages * shape.page_len()) }
    }

    fn kv_write(&self, kv: &mut Kv, k: &Aligned<f32>, v: &Aligned<f32>, plan: &Plan) {
        let shape = kv.shape;
        let Heads { n_kv_heads, head_dim, .. } = shape.heads;
        let shared = Shares(kv.data.as_mut_ptr());
        let len = kv.data.len();
        self.pool.run(plan.page_starts.len().saturating_sub(1), &|item| {
            let places = &plan.layout.places[plan.page_starts[item]..plan.page_starts[item + 1]];
            let at = places[0].page as usize * shape.page_len();
            assert!(at + shape.page_len() <= len, "page inside the store");
            // SAFETY: inside the store (asserted), and all places of a page are one item's.
            let page = unsafe { shared.part(at, shape.page_len()) };
            for place in places {
                let (offset, row) = (place.offset as usize, place.row as usize);
                for (head, page) in page.chunks_exact_mut(shape.head_len()).enumerate() {
                    let from = (row * n_kv_heads + head) * head_dim;
                    let (keys, values) = page.split_at_mut(PAGE * head_dim);
                    for (d, &x) in k[from..from + head_dim].iter().enumerate() {
                        keys[d * PAGE + offset] = x;
                    }
                    values[offset * shape.width..][..head_dim].copy_from_slice(&v[from..from + head_dim]);
                }
            }
        });
    }

    fn kv_copy(&self, kv: &mut Kv, from: u32, to: u32) {
        let size = kv.shape.page_len();
        kv.data.copy_within(from as usize * size..(from as usize + 1) * size, to as usize * size);
    }

    fn attention(&self, q: &Aligned<f32>, kv: &Kv, plan: &Plan) -> (Aligned<f32>, Aligned<f32>) {
        let shape = kv.shape;
        let Heads { n_heads, n_kv_heads, head_dim } = shape.heads;
        let mut out = self.buf(q.len());
        let mut norms = self.buf(plan.layout.n_rows() * n_heads);
        let (out_shared, norms_shared) = (Shares(out.as_mut_ptr()), Shares(norms.as_mut_ptr()));
        // Many short runs go into one item: a decode step has hundreds.
        let n_units = plan.parts.len() * n_kv_heads;
        let per_item = (n_units / (16 * self.pool.n_threads())).max(1);
        self.pool.run(n_units.div_ceil(per_item), &|item| {
            let mut scratch = Vec::new();
            for unit in item * per_item..((item + 1) * per_item).min(n_units) {
                let (run, first, n_rows) = plan.parts[unit / n_kv_heads];
                let run = &plan.layout.runs[run];
                let part = Part { shape, kv: &kv.data, run, kv_head: unit % n_kv_heads, first, n_rows };
                attention::attend(self.isa, &part, q, &mut scratch, &mut |row, head, values, norm| {
                    let at = row * n_heads + head;
                    // SAFETY: rows of parts are disjoint and heads of kv heads are disjoint, so each (row, head) is
                    // written by one unit; both lie inside the results.
                    unsafe {
                        out_shared.part(at * head_dim, head_dim).copy_from_slice(values);
                        norms_shared.part(at, 1)[0] = norm;
                    }
                });
            }
        });
        (out, norms)
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
        let shape = kv.shape;
        let Heads { n_heads, n_kv_heads, head_dim } = shape.heads;
        let (width, fan) = (shape.width, shape.fan());
        let mut dq = self.buf(q.len());
        let grad_len = PAGE * width;
        let mut page_grads = self.zeros(plan.n_pages * n_kv_heads * 2 * grad_len);
        let (dq_shared, grads_shared) = (Shares(dq.as_mut_ptr()), Shares(page_grads.as_mut_ptr()));
        let saved = Saved { q, out, log_norm, dout };
        self.pool.run(plan.groups.len() * n_kv_heads, &|item| {
            let kv_head = item % n_kv_heads;
            for &run in &plan.groups[item / n_kv_heads] {
                let run = &plan.layout.runs[run];
                let part = Part { shape, kv: &kv.data, run, kv_head, first: 0, n_rows: run.n_rows };
                let mut part_dq = self.buf(run.n_rows * fan * width);
                attention::attend_backward(self.isa, &part, &saved, &mut part_dq, &mut |page, dk, dv| {
                    let at = (page as usize * n_kv_heads + kv_head) * 2 * grad_len;
                    // SAFETY: a page belongs to one group and this (group, kv head) is one item's.
                    let grads = unsafe { grads_shared.part(at, 2 * grad_len) };
                    let (key, value) = grads.split_at_mut(grad_len);
                    rows::add(self.isa, dk, key);
                    rows::add(self.isa, dv, value);
                });
                for (i, from) in part_dq.chunks_exact(width).enumerate() {
                    let at = (run.row0 + i / fan) * n_heads + kv_head * fan + i % fan;
                    // SAFETY: each (row, head) belongs to one run and one kv head, hence to one item.
                    unsafe {
                        dq_shared.part(at * head_dim, head_dim).copy_from_slice(&from[..head_dim]);
                    };
                }
            }
        });
        let cols = n_kv_heads * head_dim;
        let (mut dk, mut dv) = (self.buf(plan.layout.n_rows() * cols), self.buf(plan.layout.n_rows() * cols));
        for (side, to) in [&mut dk, &mut dv].into_iter().enumerate() {
            self.by_row(to, cols, |row, to| {
                to.fill(0.0);
                for &(page, offset) in &plan.by_row[plan.row_starts[row]..plan.row_starts[row + 1]] {
                    for (head, to) in to.chunks_exact_mut(head_dim).enumerate() {
                        let at = ((page as usize * n_kv_heads + head) * 2 + side) * grad_len + offset as usize * width;
                        rows::add(self.isa, &page_grads[at..at + head_dim], to);
                    }
                }
            });
        }
        (dq, dk, dv)
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
        assert_eq!(x.rows, targets.len());
        let mut folds = vec![head::Fold::new(); targets.len()];
        for first in (0..x.rows).step_by(HEAD_ROWS) {
            let rows = first..(first + HEAD_ROWS).min(x.rows);
            let folds = &mut folds[rows.clone()];
            let targets = &targets[rows.clone()];
            self.each_chunk(x, w, &rows, |ids, logits| {
                self.pool.pieces(folds, 4, &|item, folds| {
                    for (i, fold) in folds.iter_mut().enumerate() {
                        let row = item * 4 + i;
                        fold.push(self.isa, &logits[row * ids.len()..][..ids.len()], ids.start, &targets[row]);
                    }
                });
            });
        }
        folds.iter().map(head::Fold::scored).collect()
    }

    fn head_backward(
        &self,
        x: &Act,
        w: &Weight,
        targets: &[Target],
        scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Aligned<f32>,
        mut dw: Option<&mut Aligned<f32>>,
    ) {
        let dim = x.cols;
        let panels = w.backward.as_ref().expect("a head prepared for the backward");
        self.clear(dx);
        for first in (0..x.rows).step_by(HEAD_ROWS) {
            let rows = first..(first + HEAD_ROWS).min(x.rows);
            self.each_chunk(x, w, &rows, |ids, logits| {
                self.by_row(logits, ids.len(), |row, logits| {
                    let at = first + row;
                    head::gradient(self.isa, logits, ids.start, &targets[at], &scored[at], &grads[at]);
                });
                let dlogits = self.act_of(logits, rows.len(), ids.len(), 1.0);
                let job = Job { rows: 0..rows.len(), cols: 0..dim, k0: ids.start, stride: dim, at: first * dim, put: Put::Add };
                product(&self.pool, self.isa, &dlogits, panels, &job, dx);
                if let Some(dw) = dw.as_deref_mut() {
                    let turned = dlogits.turned(self.isa, &self.pool, &self.arena);
                    let job =
                        Job { rows: 0..ids.len(), cols: 0..dim, k0: first, stride: dim, at: ids.start * dim, put: Put::Add };
                    product(&self.pool, self.isa, turned, x.by_rows(&self.pool, &self.arena), &job, dw);
                }
            });
        }
    }

    fn logits(&self, x: &Act, w: &Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let vocab = w.forward.cols;
        let block = (LOGITS_MAX / vocab).clamp(1, x.rows.max(1));
        let mut scratch = self.arena.take::<f32>(block * vocab);
        for first in (0..x.rows).step_by(block) {
            let rows = first..(first + block).min(x.rows);
            let scratch = &mut scratch[..rows.len() * vocab];
            self.chunk_logits(x, w, rows, 0..vocab, scratch);
            self.pool.pieces(scratch, vocab, &|row, logits| visit(first + row, logits));
        }
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

impl Plan {
    fn new(layout: &Layout) -> Self {
        const PART_ROWS: usize = 64;
        let n_rows = layout.n_rows();
        let mut sorted: Vec<_> = layout.places.iter().map(|place| (place.row, place.page, place.offset)).collect();
        sorted.sort_unstable();
        let mut row_starts = vec![0; n_rows + 1];
        for &(row, ..) in &sorted {
            row_starts[row as usize + 1] += 1;
        }
        for row in 0..n_rows {
            row_starts[row + 1] += row_starts[row];
        }
        let mut page_starts: Vec<usize> = Vec::new();
        for (i, place) in layout.places.iter().enumerate() {
            if i == 0 || layout.places[i - 1].page != place.page {
                page_starts.push(i);
            }
        }
        if !page_starts.is_empty() {
            page_starts.push(layout.places.len());
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut parts = Vec::new();
        let mut group_of = std::collections::HashMap::new();
        for (i, run) in layout.runs.iter().enumerate() {
            let slot = *group_of.entry(run.group).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[slot].push(i);
            parts.extend((0..run.n_rows).step_by(PART_ROWS).map(|at| (i, at, PART_ROWS.min(run.n_rows - at))));
        }
        let n_pages = layout.runs.iter().flat_map(|run| &run.pages).map(|&page| page as usize + 1).max().unwrap_or(0);
        let by_row = sorted.into_iter().map(|(_, page, offset)| (page, offset)).collect();
        Self { layout: layout.clone(), by_row, row_starts, page_starts, groups, parts, n_pages }
    }
}
