//! The readable backend: every operation as its formula, in one thread, over f32 or f64.
//!
//! It is what the fast kernels are tested against and, in f64, what finite differences are taken of. With
//! [`Dtype::Bf16`] it rounds weights and activations where a product consumes them, as the fast backend does.
//! It makes no promise of speed and walks no blocks: a softmax here is a plain softmax.

use std::marker::PhantomData;
use std::ops::Range;

use half::bf16;

use crate::backend::{AdamStep, Backend, Dtype, Heads, Put, Scored, ScoredGrad, Target, Turn};
use crate::layout::{Layout, PAGE};

/// The two float types formulas are written over.
pub trait Real:
    Copy
    + Send
    + Sync
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::iter::Sum
    + 'static
{
    /// From the host's f32.
    fn of(x: f32) -> Self;
    /// From f64.
    fn of64(x: f64) -> Self;
    /// To f64.
    fn to64(self) -> f64;
    /// Exponential.
    fn exp(self) -> Self {
        Self::of64(self.to64().exp())
    }
    /// Natural logarithm.
    fn ln(self) -> Self {
        Self::of64(self.to64().ln())
    }
    /// Square root.
    fn sqrt(self) -> Self {
        Self::of64(self.to64().sqrt())
    }
}

impl Real for f32 {
    fn of(x: f32) -> Self {
        x
    }
    fn of64(x: f64) -> Self {
        x as Self
    }
    fn to64(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn of(x: f32) -> Self {
        Self::from(x)
    }
    fn of64(x: f64) -> Self {
        x
    }
    fn to64(self) -> f64 {
        self
    }
}

/// The readable backend.
#[derive(Clone, Copy, Debug)]
pub struct Reference<F> {
    dtype: Dtype,
    float: PhantomData<F>,
}

/// A row-major matrix.
#[derive(Clone, Debug)]
pub struct Matrix<F> {
    /// Values, row by row.
    pub values: Vec<F>,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl<F: Real> Matrix<F> {
    fn row(&self, row: usize) -> &[F] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }
}

/// Pages as plain vectors, `[page][kv head][offset][head_dim]`.
#[derive(Clone, Debug)]
pub struct Pages<F> {
    heads: Heads,
    k: Vec<F>,
    v: Vec<F>,
}

impl<F: Real> Pages<F> {
    fn at(&self, page: u32, head: usize, offset: usize) -> Range<usize> {
        let width = self.heads.head_dim;
        let start = ((page as usize * self.heads.n_kv_heads + head) * PAGE + offset) * width;
        start..start + width
    }
}

impl<F: Real> Reference<F> {
    /// A reference that rounds as `dtype` asks.
    pub fn new(dtype: Dtype) -> Self {
        Self { dtype, float: PhantomData }
    }

    fn round(&self, x: F) -> F {
        match self.dtype {
            Dtype::F32 => x,
            Dtype::Bf16 => F::of(bf16::from_f32(x.to64() as f32).to_f32()),
        }
    }

    fn rounded(&self, values: Vec<F>, rows: usize, cols: usize) -> Matrix<F> {
        assert_eq!(values.len(), rows * cols);
        Matrix { values: values.into_iter().map(|x| self.round(x)).collect(), rows, cols }
    }

    fn row_logits(&self, x: &[F], w: &Matrix<F>) -> Vec<F> {
        (0..w.rows).map(|row| dot(x, w.row(row))).collect()
    }
}

fn dot<F: Real>(a: &[F], b: &[F]) -> F {
    a.iter().zip(b).map(|(&x, &y)| x * y).sum()
}

fn put_at<F: Real>(put: Put, to: &mut F, x: F) {
    match put {
        Put::Set => *to = x,
        Put::Add => *to += x,
    }
}

fn allowed(target: &Target, id: usize) -> bool {
    target.support.as_ref().is_none_or(|support| support[id / 64] >> (id % 64) & 1 == 1)
}

/// Log-probability, entropy and log-normaliser of a row, and the probabilities.
fn softmax<F: Real>(logits: &[F], target: &Target) -> (F, F, F, Vec<F>) {
    let zero = F::of(0.0);
    let z: Vec<F> = logits.iter().map(|&x| x * F::of(target.inv_temperature)).collect();
    let inside = |id: usize| allowed(target, id);
    let max = (0..z.len()).filter(|&i| inside(i)).map(|i| z[i]).fold(F::of64(-1e30), |a, b| if b > a { b } else { a });
    let norm: F = (0..z.len()).filter(|&i| inside(i)).map(|i| (z[i] - max).exp()).sum();
    let log_norm = max + norm.ln();
    let p: Vec<F> = (0..z.len()).map(|i| if inside(i) { (z[i] - log_norm).exp() } else { zero }).collect();
    let mean = dot(&p, &z);
    (z[target.id as usize] - log_norm, log_norm - mean, log_norm, p)
}

impl<F: Real> Backend for Reference<F> {
    type Buf = Vec<F>;
    type Act = Matrix<F>;
    type Weight = Matrix<F>;
    type Kv = Pages<F>;
    type Plan = Layout;

    fn path(&self) -> String {
        format!("reference-f{}-{:?}", 8 * size_of::<F>(), self.dtype).to_lowercase()
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn buf(&self, len: usize) -> Vec<F> {
        vec![F::of(0.0); len]
    }

    fn zeros(&self, len: usize) -> Vec<F> {
        self.buf(len)
    }

    fn upload(&self, values: &[f32]) -> Vec<F> {
        values.iter().map(|&x| F::of(x)).collect()
    }

    fn download(&self, buf: &Vec<F>) -> Vec<f32> {
        buf.iter().map(|x| x.to64() as f32).collect()
    }

    fn copy(&self, from: &Vec<F>) -> Vec<F> {
        from.clone()
    }

    fn clear(&self, buf: &mut Vec<F>) {
        buf.fill(F::of(0.0));
    }

    fn add(&self, from: &Vec<F>, to: &mut Vec<F>) {
        to.iter_mut().zip(from).for_each(|(to, &x)| *to += x);
    }

    fn weight(&self, values: &Vec<F>, rows: usize, cols: usize, _trainable: bool) -> Matrix<F> {
        self.rounded(values.clone(), rows, cols)
    }

    fn prepare_backward(&self, _weight: &mut Matrix<F>) {}

    fn act(&self, x: &Vec<F>, rows: usize, cols: usize, scale: f32) -> Matrix<F> {
        self.rounded(x.iter().map(|&x| x * F::of(scale)).collect(), rows, cols)
    }

    fn gather(&self, x: &Vec<F>, cols: usize, rows: &[u32]) -> Vec<F> {
        rows.iter().flat_map(|&row| x[row as usize * cols..(row as usize + 1) * cols].iter().copied()).collect()
    }

    fn scatter_add(&self, dy: &Vec<F>, cols: usize, rows: &[u32], dx: &mut Vec<F>) {
        for (dy, &row) in dy.chunks_exact(cols).zip(rows) {
            let dx = &mut dx[row as usize * cols..(row as usize + 1) * cols];
            dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
        }
    }

    fn embed(&self, table: &Matrix<F>, ids: &[u32]) -> Vec<F> {
        ids.iter().flat_map(|&id| table.row(id as usize).iter().copied()).collect()
    }

    fn embed_backward(&self, dy: &Vec<F>, cols: usize, ids: &[u32], dtable: &mut Vec<F>) {
        self.scatter_add(dy, cols, ids, dtable);
    }

    fn rmsnorm(&self, x: &Vec<F>, gain: &Vec<F>, eps: f32, cols: usize) -> Vec<F> {
        let mut out = Vec::with_capacity(x.len());
        for x in x.chunks_exact(cols) {
            let inv = F::of(1.0) / (dot(x, x) / F::of64(cols as f64) + F::of(eps)).sqrt();
            out.extend(x.iter().zip(gain).map(|(&x, &gain)| x * inv * gain));
        }
        out
    }

    fn rmsnorm_act(&self, x: &Vec<F>, gain: &Vec<F>, eps: f32, cols: usize) -> Matrix<F> {
        self.rounded(self.rmsnorm(x, gain, eps, cols), x.len() / cols, cols)
    }

    /// With `n = x·inv` and `g = dy·gain`: `dx = inv·(g - n·mean(g·n))`, `dgain = Σ dy·n`.
    fn rmsnorm_backward(
        &self,
        x: &Vec<F>,
        gain: &Vec<F>,
        eps: f32,
        dy: &Vec<F>,
        put: Put,
        dx: &mut Vec<F>,
        mut dgain: Option<&mut Vec<F>>,
    ) {
        let cols = gain.len();
        let n = F::of64(cols as f64);
        for ((x, dy), dx) in x.chunks_exact(cols).zip(dy.chunks_exact(cols)).zip(dx.chunks_exact_mut(cols)) {
            let inv = F::of(1.0) / (dot(x, x) / n + F::of(eps)).sqrt();
            let mean = (0..cols).map(|i| dy[i] * gain[i] * x[i] * inv).sum::<F>() / n;
            for i in 0..cols {
                put_at(put, &mut dx[i], inv * (dy[i] * gain[i] - x[i] * inv * mean));
                if let Some(dgain) = dgain.as_deref_mut() {
                    dgain[i] += dy[i] * x[i] * inv;
                }
            }
        }
    }

    fn linear(&self, x: &Matrix<F>, rows: Range<usize>, w: &Matrix<F>, put: Put, y: &mut Vec<F>, to: usize) {
        for (i, row) in rows.enumerate() {
            for j in 0..w.rows {
                put_at(put, &mut y[(to + i) * w.rows + j], dot(x.row(row), w.row(j)));
            }
        }
    }

    fn linear_backward(&self, dy: &Matrix<F>, rows: Range<usize>, w: &Matrix<F>, put: Put, dx: &mut Vec<F>, to: usize) {
        for (i, row) in rows.enumerate() {
            for j in 0..w.cols {
                let sum = (0..w.rows).map(|n| dy.row(row)[n] * w.row(n)[j]).sum();
                put_at(put, &mut dx[(to + i) * w.cols + j], sum);
            }
        }
    }

    fn weight_gradient(&self, dy: &Matrix<F>, x: &Matrix<F>, dw: &mut Vec<F>) {
        assert_eq!(dy.rows, x.rows);
        for i in 0..dy.cols {
            for j in 0..x.cols {
                dw[i * x.cols + j] += (0..x.rows).map(|row| dy.row(row)[i] * x.row(row)[j]).sum();
            }
        }
    }

    fn bias(&self, y: &mut Vec<F>, bias: &Vec<F>) {
        for y in y.chunks_exact_mut(bias.len()) {
            y.iter_mut().zip(bias).for_each(|(y, &bias)| *y += bias);
        }
    }

    fn bias_gradient(&self, dy: &Vec<F>, dbias: &mut Vec<F>) {
        let cols = dbias.len();
        for dy in dy.chunks_exact(cols) {
            dbias.iter_mut().zip(dy).for_each(|(dbias, &dy)| *dbias += dy);
        }
    }

    fn plan(&self, layout: &Layout) -> Layout {
        layout.clone()
    }

    /// Pair `(x_i, x_{i + d/2})` turns by the angle of its position.
    fn rope(&self, x: &mut Vec<F>, head_dim: usize, angles: &Vec<F>, plan: &Layout, turn: Turn) {
        let half = head_dim / 2;
        let width = x.len() / plan.n_rows();
        for (row, x) in x.chunks_exact_mut(width).enumerate() {
            let angles = &angles[plan.positions[row] as usize * head_dim..];
            for head in x.chunks_exact_mut(head_dim) {
                for i in 0..half {
                    let (cos, sin) = (angles[i], angles[half + i]);
                    let sin = if turn == Turn::Forward { sin } else { -sin };
                    let (a, b) = (head[i], head[half + i]);
                    head[i] = a * cos - b * sin;
                    head[half + i] = b * cos + a * sin;
                }
            }
        }
    }

    fn kv(&self, heads: Heads, n_pages: usize) -> Pages<F> {
        let len = n_pages * PAGE * heads.n_kv_heads * heads.head_dim;
        Pages { heads, k: self.zeros(len), v: self.zeros(len) }
    }

    fn kv_write(&self, kv: &mut Pages<F>, k: &Vec<F>, v: &Vec<F>, plan: &Layout) {
        let width = kv.heads.head_dim;
        for place in &plan.places {
            for head in 0..kv.heads.n_kv_heads {
                let from = (place.row as usize * kv.heads.n_kv_heads + head) * width;
                let at = kv.at(place.page, head, place.offset as usize);
                kv.k[at.clone()].copy_from_slice(&k[from..from + width]);
                kv.v[at].copy_from_slice(&v[from..from + width]);
            }
        }
    }

    fn kv_copy(&self, kv: &mut Pages<F>, from: u32, to: u32) {
        let size = PAGE * kv.heads.n_kv_heads * kv.heads.head_dim;
        let (from, to) = (from as usize * size, to as usize * size);
        kv.k.copy_within(from..from + size, to);
        kv.v.copy_within(from..from + size, to);
    }

    fn attention(&self, q: &Vec<F>, kv: &Pages<F>, plan: &Layout) -> (Vec<F>, Vec<F>) {
        let Heads { n_heads, n_kv_heads, head_dim } = kv.heads;
        let scale = F::of64(1.0 / (head_dim as f64).sqrt());
        let mut out = self.zeros(q.len());
        let mut log_norms = self.zeros(plan.n_rows() * n_heads);
        for run in &plan.runs {
            for i in 0..run.n_rows {
                for head in 0..n_heads {
                    let row = run.row0 + i;
                    let at = (row * n_heads + head) * head_dim;
                    let kv_head = head / (n_heads / n_kv_heads);
                    let keys = |pos: usize| kv.at(run.pages[pos / PAGE], kv_head, pos % PAGE);
                    let n_keys = run.pos0 + i + 1;
                    let s: Vec<F> = (0..n_keys).map(|pos| dot(&q[at..at + head_dim], &kv.k[keys(pos)]) * scale).collect();
                    let max = s.iter().copied().fold(s[0], |a, b| if b > a { b } else { a });
                    let log_norm = max + s.iter().map(|&s| (s - max).exp()).sum::<F>().ln();
                    for (pos, &s) in s.iter().enumerate() {
                        let p = (s - log_norm).exp();
                        let v = &kv.v[keys(pos)];
                        out[at..at + head_dim].iter_mut().zip(v).for_each(|(out, &v)| *out += p * v);
                    }
                    log_norms[row * n_heads + head] = log_norm;
                }
            }
        }
        (out, log_norms)
    }

    /// `ds = p·(dout·v - dout·out)`, `dq = Σ ds·k·scale`, `dk = Σ ds·q·scale`, `dv = Σ p·dout`.
    fn attention_backward(
        &self,
        q: &Vec<F>,
        kv: &Pages<F>,
        plan: &Layout,
        out: &Vec<F>,
        log_norm: &Vec<F>,
        dout: &Vec<F>,
    ) -> (Vec<F>, Vec<F>, Vec<F>) {
        let Heads { n_heads, n_kv_heads, head_dim } = kv.heads;
        let scale = F::of64(1.0 / (head_dim as f64).sqrt());
        let mut dq = self.zeros(q.len());
        let mut grad = Pages { heads: kv.heads, k: self.zeros(kv.k.len()), v: self.zeros(kv.v.len()) };
        for run in &plan.runs {
            for i in 0..run.n_rows {
                for head in 0..n_heads {
                    let row = run.row0 + i;
                    let at = (row * n_heads + head) * head_dim;
                    let kv_head = head / (n_heads / n_kv_heads);
                    let (q, dout, out) = (&q[at..at + head_dim], &dout[at..at + head_dim], &out[at..at + head_dim]);
                    let shared = dot(dout, out);
                    for pos in 0..=run.pos0 + i {
                        let key = kv.at(run.pages[pos / PAGE], kv_head, pos % PAGE);
                        let (k, v) = (&kv.k[key.clone()], &kv.v[key.clone()]);
                        let p = (dot(q, k) * scale - log_norm[row * n_heads + head]).exp();
                        let ds = p * (dot(dout, v) - shared) * scale;
                        for d in 0..head_dim {
                            dq[at + d] += ds * k[d];
                            grad.k[key.start + d] += ds * q[d];
                            grad.v[key.start + d] += p * dout[d];
                        }
                    }
                }
            }
        }
        let width = n_kv_heads * head_dim;
        let (mut dk, mut dv) = (self.zeros(plan.n_rows() * width), self.zeros(plan.n_rows() * width));
        for place in &plan.places {
            for head in 0..n_kv_heads {
                let at = grad.at(place.page, head, place.offset as usize);
                let to = place.row as usize * width + head * head_dim;
                dk[to..to + head_dim].iter_mut().zip(&grad.k[at.clone()]).for_each(|(to, &x)| *to += x);
                dv[to..to + head_dim].iter_mut().zip(&grad.v[at]).for_each(|(to, &x)| *to += x);
            }
        }
        (dq, dk, dv)
    }

    fn swiglu(&self, gate: &Vec<F>, up: &Vec<F>, cols: usize) -> Matrix<F> {
        let one = F::of(1.0);
        let h = gate.iter().zip(up).map(|(&g, &u)| g / (one + (-g).exp()) * u).collect();
        self.rounded(h, gate.len() / cols, cols)
    }

    fn swiglu_backward(&self, gate: &Vec<F>, up: &Vec<F>, dh: &Vec<F>, cols: usize) -> (Matrix<F>, Matrix<F>) {
        let one = F::of(1.0);
        let (mut dgate, mut dup) = (Vec::with_capacity(dh.len()), Vec::with_capacity(dh.len()));
        for ((&g, &u), &dh) in gate.iter().zip(up).zip(dh) {
            let sigmoid = one / (one + (-g).exp());
            dgate.push(dh * u * sigmoid * (one + g * (one - sigmoid)));
            dup.push(dh * g * sigmoid);
        }
        let rows = dh.len() / cols;
        (self.rounded(dgate, rows, cols), self.rounded(dup, rows, cols))
    }

    fn head(&self, x: &Matrix<F>, w: &Matrix<F>, targets: &[Target]) -> Vec<Scored> {
        let score = |(row, target): (usize, &Target)| {
            let (logprob, entropy, log_norm, _) = softmax(&self.row_logits(x.row(row), w), target);
            let f32 = |x: F| x.to64() as f32;
            Scored { logprob: f32(logprob), entropy: f32(entropy), log_norm: f32(log_norm) }
        };
        targets.iter().enumerate().map(score).collect()
    }

    /// `dz = g_lp·(1[target] - p) - g_H·p·(z - mean z)`, times the inverse temperature; then the two products.
    fn head_backward(
        &self,
        x: &Matrix<F>,
        w: &Matrix<F>,
        targets: &[Target],
        _scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Vec<F>,
        mut dw: Option<&mut Vec<F>>,
    ) {
        self.clear(dx);
        for (row, (target, grad)) in targets.iter().zip(grads).enumerate() {
            let logits = self.row_logits(x.row(row), w);
            let (_, entropy, log_norm, p) = softmax(&logits, target);
            let inv = F::of(target.inv_temperature);
            for (id, &p) in p.iter().enumerate() {
                let hit = F::of(if id == target.id as usize { 1.0 } else { 0.0 });
                let above_mean = logits[id] * inv - (log_norm - entropy);
                let dz = F::of(grad.logprob) * (hit - p) - F::of(grad.entropy) * p * above_mean;
                let dlogit = self.round(dz * inv);
                for col in 0..w.cols {
                    dx[row * w.cols + col] += dlogit * w.row(id)[col];
                    if let Some(dw) = dw.as_deref_mut() {
                        dw[id * w.cols + col] += dlogit * x.row(row)[col];
                    }
                }
            }
        }
    }

    fn logits(&self, x: &Matrix<F>, w: &Matrix<F>, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        for row in 0..x.rows {
            let mut logits: Vec<f32> = self.row_logits(x.row(row), w).iter().map(|x| x.to64() as f32).collect();
            visit(row, &mut logits);
        }
    }

    fn score(&self, logits: &[f32], target: &Target) -> Scored {
        let logits: Vec<F> = logits.iter().map(|&x| F::of(x)).collect();
        let (logprob, entropy, log_norm, _) = softmax(&logits, target);
        let f32 = |x: F| x.to64() as f32;
        Scored { logprob: f32(logprob), entropy: f32(entropy), log_norm: f32(log_norm) }
    }

    fn pick(&self, logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32 {
        let (mut passed, mut last) = (0.0, 0);
        for (id, &logit) in logits.iter().enumerate().filter(|&(id, _)| allowed(target, id)) {
            passed += (f64::from(logit * target.inv_temperature) - f64::from(log_norm)).exp();
            last = id as u32;
            if passed > f64::from(u) {
                break;
            }
        }
        last
    }

    fn sum_squares(&self, buf: &Vec<F>) -> f64 {
        buf.iter().map(|x| x.to64() * x.to64()).sum()
    }

    fn adamw(&self, w: &mut Vec<F>, m: &mut Vec<F>, v: &mut Vec<F>, grad: &Vec<F>, step: &AdamStep) {
        let one = F::of(1.0);
        for i in 0..w.len() {
            let g = grad[i] * F::of(step.grad_scale);
            m[i] = F::of(step.beta1) * m[i] + (one - F::of(step.beta1)) * g;
            v[i] = F::of(step.beta2) * v[i] + (one - F::of(step.beta2)) * g * g;
            let root = (v[i] / F::of(step.correction2)).sqrt() + F::of(step.eps);
            let decayed = w[i] * (one - F::of(step.lr) * F::of(step.weight_decay));
            w[i] = decayed - F::of(step.lr) * (m[i] / F::of(step.correction1)) / root;
        }
    }
}
