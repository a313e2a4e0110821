//! Every operation of a backend with host vectors at both ends, and the cases that all backends are held to.

use std::ops::Range;

use hone_engine::backend::{AdamStep, Backend, Heads, LinearBackward, Low, Moved, Put, Scored, ScoredGrad, Target, Turn};
use hone_engine::layout::{Group, Packed};
use hone_engine::random::Stream;

/// Compares a body's result on the backend in question with the readable one's, within a tolerance.
pub(crate) type Check<'a> = &'a dyn Fn(&str, f32, &dyn Fn(&dyn Ops) -> Vec<f32>);

/// One test for every operation, each held to the same `check`.
macro_rules! operation_tests {
    ($check:path: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::operations::$name(&$check);
            }
        )*
    };
    ($check:path) => {
        $crate::operations::operation_tests! {
            $check: norms products tables_and_biases attention_over_shared_and_lone_runs gated_units_and_updates
                heads_with_and_without_a_mask sizes_that_nobody_chose
        }
    };
}
pub(crate) use operation_tests;

fn values(seed: u64, len: usize) -> Vec<f32> {
    let stream = Stream::new(11, seed);
    (0..len as u64).map(|i| stream.normal(i)).collect()
}

/// Panics with the name and place of the first value that is too far off.
pub(crate) fn close(name: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let scale = expected.iter().fold(1.0f32, |a, x| a.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * scale, "{name}[{i}]: {f} instead of {e}");
    }
}

/// The operations with host vectors at both ends, so that one body serves every backend.
pub(crate) trait Ops {
    fn rmsnorm(&self, x: &[f32], gain: &[f32]) -> Vec<f32>;
    fn rmsnorm_backward(&self, x: &[f32], gain: &[f32], dy: &[f32]) -> Vec<f32>;
    fn linear(&self, x: &[f32], w: &[f32], shape: [usize; 3], put: Put) -> Vec<f32>;
    fn linear_backward(&self, dy: &[f32], w: &[f32], shape: [usize; 3]) -> Vec<f32>;
    fn weight_gradient(&self, dy: &[f32], x: &[f32], shape: [usize; 3]) -> Vec<f32>;
    fn embed(&self, table: &[f32], shape: [usize; 2], ids: &[u32]) -> Vec<f32>;
    fn bias(&self, x: &[f32], bias: &[f32]) -> Vec<f32>;
    fn attention(&self, heads: Heads, packed: &Packed) -> Vec<f32>;
    fn rope(&self, packed: &Packed, n_heads: usize, head_dim: usize) -> Vec<f32>;
    fn swiglu(&self, gate: &[f32], up: &[f32], dh: &[f32], cols: usize) -> Vec<f32>;
    fn swiglu_low(&self, shape: [usize; 3], adapters: &[(Range<usize>, [bool; 2])]) -> Vec<f32>;
    fn linears_backward(&self, rows: usize, n_in: usize, outs: &[usize], rank: usize) -> Vec<f32>;
    fn head(&self, x: &[f32], w: &[f32], shape: [usize; 3], targets: &[Target]) -> Vec<f32>;
    fn adamw(&self, w: &[f32], grad: &[f32]) -> Vec<f32>;
    fn sum_squares(&self, x: &[f32]) -> Vec<f32>;
}

fn eye<B: Backend>(b: &B, n: usize) -> B::Weight {
    let values: Vec<f32> = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
    b.weight(&b.upload(&values), n, n, true)
}

/// Reads an activation back by multiplying with the identity.
fn read<B: Backend>(b: &B, act: &B::Act, rows: usize, cols: usize) -> Vec<f32> {
    let mut out = b.zeros(rows * cols);
    b.linear(act, 0..rows, &eye(b, cols), Put::Set, &mut out, 0);
    b.download(&out)
}

impl<B: Backend> Ops for B {
    fn rmsnorm(&self, x: &[f32], gain: &[f32]) -> Vec<f32> {
        let (cols, x, gain) = (gain.len(), self.upload(x), self.upload(gain));
        let rows = self.download(&x).len() / cols;
        let mut out = self.download(&Backend::rmsnorm(self, &x, &gain, 1e-5, cols));
        out.extend(read(self, &self.rmsnorm_act(&x, &gain, 1e-5, cols), rows, cols));
        out
    }

    fn rmsnorm_backward(&self, x: &[f32], gain: &[f32], dy: &[f32]) -> Vec<f32> {
        let mut out = Vec::new();
        for put in [Put::Set, Put::Add] {
            let (mut dx, mut dgain) = (self.upload(x), self.upload(gain));
            let (x, g, dy) = (self.upload(x), self.upload(gain), self.upload(dy));
            Backend::rmsnorm_backward(self, &x, &g, 1e-5, &dy, put, &mut dx, Some(&mut dgain));
            out.extend(self.download(&dx));
            out.extend(self.download(&dgain));
        }
        out
    }

    fn linear(&self, x: &[f32], w: &[f32], [rows, n_in, n_out]: [usize; 3], put: Put) -> Vec<f32> {
        let act = self.act(&self.upload(x), rows, n_in, 0.5);
        let weight = self.weight(&self.upload(w), n_out, n_in, false);
        let mut y = self.upload(&vec![1.0; (rows + 2) * n_out]);
        Backend::linear(self, &act, 1..rows, &weight, put, &mut y, 2);
        self.download(&y)
    }

    fn linear_backward(&self, dy: &[f32], w: &[f32], [rows, n_in, n_out]: [usize; 3]) -> Vec<f32> {
        let act = self.act(&self.upload(dy), rows, n_out, 1.0);
        let weight = self.weight(&self.upload(w), n_out, n_in, true);
        let mut dx = self.zeros(rows * n_in);
        Backend::linear_backward(self, &act, 0..rows, &weight, Put::Set, &mut dx, 0);
        self.download(&dx)
    }

    fn weight_gradient(&self, dy: &[f32], x: &[f32], [rows, n_in, n_out]: [usize; 3]) -> Vec<f32> {
        let (dy, x) = (self.act(&self.upload(dy), rows, n_out, 1.0), self.act(&self.upload(x), rows, n_in, 1.0));
        let mut dw = self.upload(&vec![1.0; n_in * n_out]);
        Backend::weight_gradient(self, &dy, &x, &mut dw);
        self.download(&dw)
    }

    fn embed(&self, table: &[f32], [rows, cols]: [usize; 2], ids: &[u32]) -> Vec<f32> {
        let weight = self.weight(&self.upload(table), rows, cols, false);
        let picked = Backend::embed(self, &weight, ids);
        let mut out = self.download(&picked);
        let mut dtable = self.zeros(rows * cols);
        self.embed_backward(&picked, cols, ids, &mut dtable);
        out.extend(self.download(&dtable));
        out.extend(self.download(&self.gather(&dtable, cols, ids)));
        out
    }

    fn bias(&self, x: &[f32], bias: &[f32]) -> Vec<f32> {
        let (mut y, bias) = (self.upload(x), self.upload(bias));
        Backend::bias(self, &mut y, &bias);
        let mut dbias = self.copy(&bias);
        self.bias_gradient(&y, &mut dbias);
        self.add(&bias, &mut dbias);
        let mut out = self.download(&y);
        out.extend(self.download(&dbias));
        out
    }

    fn attention(&self, heads: Heads, packed: &Packed) -> Vec<f32> {
        let rows = packed.layout.n_rows();
        let (q_dim, kv_dim) = (heads.n_heads * heads.head_dim, heads.n_kv_heads * heads.head_dim);
        let plan = self.plan(&packed.layout);
        let mut kv = self.kv(heads, packed.n_pages + 1);
        let (q, k) = (self.upload(&values(1, rows * q_dim)), self.upload(&values(2, rows * kv_dim)));
        let (v, dout) = (self.upload(&values(3, rows * kv_dim)), self.upload(&values(4, rows * q_dim)));
        self.kv_write(&mut kv, &k, &v, &plan);
        self.kv_copy(&mut kv, 0, packed.n_pages as u32);
        let (out, norm) = Backend::attention(self, &q, &kv, &plan);
        let (dq, dk, dv) = self.attention_backward(&q, &kv, &plan, &out, &norm, &dout);
        [out, norm, dq, dk, dv].iter().flat_map(|buf| self.download(buf)).collect()
    }

    fn rope(&self, packed: &Packed, n_heads: usize, head_dim: usize) -> Vec<f32> {
        let rows = packed.layout.n_rows();
        let angles = self.upload(&values(5, 512 * head_dim));
        let plan = self.plan(&packed.layout);
        let mut x = self.upload(&values(6, rows * n_heads * head_dim));
        Backend::rope(self, &mut x, head_dim, &angles, &plan, Turn::Forward);
        let mut out = self.download(&x);
        Backend::rope(self, &mut x, head_dim, &angles, &plan, Turn::Backward);
        out.extend(self.download(&x));
        out
    }

    fn swiglu(&self, gate: &[f32], up: &[f32], dh: &[f32], cols: usize) -> Vec<f32> {
        let rows = gate.len() / cols;
        let (gate, up, dh) = (self.upload(gate), self.upload(up), self.upload(dh));
        let mut out = read(self, &Backend::swiglu(self, &gate, &up, cols), rows, cols);
        let (dgate, dup) = self.swiglu_backward(&gate, &up, &dh, cols);
        out.extend(read(self, &dgate, rows, cols));
        out.extend(read(self, &dup, rows, cols));
        out
    }

    fn swiglu_low(&self, [rows, cols, rank]: [usize; 3], adapters: &[(Range<usize>, [bool; 2])]) -> Vec<f32> {
        let drawn = |seed: u64, len: usize| self.upload(&values(seed, len));
        let (mut gate, mut up, mut dh) = (drawn(1, rows * cols), drawn(2, rows * cols), drawn(3, rows * cols));
        let narrows: Vec<_> = (0u64..)
            .zip(adapters)
            .map(|(i, (rows, _))| self.act(&drawn(10 + i, rows.len() * rank), rows.len(), rank, 0.5))
            .collect();
        let (b, a) =
            (self.weight(&drawn(4, cols * rank), cols, rank, true), self.weight(&drawn(5, rank * cols), rank, cols, true));
        let low = |(x, (rows, _)): (_, &(Range<usize>, _)), w| Low { x, rows: rows.clone(), w };
        let both = |part @ (_, (_, is_adapted)): (_, &(Range<usize>, [bool; 2]))| is_adapted.map(|is| is.then(|| low(part, &b)));
        let lows: Vec<_> = narrows.iter().zip(adapters).map(both).collect();
        let dlow: Vec<_> = narrows.iter().zip(adapters).map(|part| low(part, &a)).collect();
        let mut out = read(self, &Backend::swiglu_low(self, &mut gate, &mut up, cols, &lows), rows, cols);
        let (dgate, dup) = self.swiglu_low_backward(&gate, &up, &mut dh, cols, &lows, &dlow);
        out.extend(read(self, &dgate, rows, cols));
        out.extend(read(self, &dup, rows, cols));
        out
    }

    fn linears_backward(&self, rows: usize, n_in: usize, outs: &[usize], rank: usize) -> Vec<f32> {
        let drawn = |seed: u64, len: usize| self.upload(&values(seed, len));
        let bufs = |seed: u64, widths: &[usize]| -> Vec<B::Buf> {
            (seed..).zip(widths).map(|(seed, width)| drawn(seed, rows * width)).collect()
        };
        let weights = |seed: u64, heights: &[usize]| -> Vec<B::Weight> {
            let each = (seed..).zip(heights).map(|(seed, &height)| self.weight(&drawn(seed, height * n_in), height, n_in, true));
            let mut all: Vec<B::Weight> = each.collect();
            self.adjoin(&mut all.iter_mut().collect::<Vec<_>>());
            all
        };
        let ranks = vec![rank; outs.len()];
        let [wide, narrow] = [(1, outs), (20, &ranks[..])].map(|(seed, widths)| {
            let bufs = bufs(seed, widths);
            let sized: Vec<_> = bufs.iter().zip(widths).map(|(buf, width)| (buf, *width)).collect();
            (self.acts(&sized, rows, 0.5), weights(seed + 10, widths))
        });
        let part = |dy, w| LinearBackward { dy, rows: 0..rows, w, to: 1 };
        let parts = (0..outs.len()).flat_map(|i| [part(&wide.0[i], &wide.1[i]), part(&narrow.0[i], &narrow.1[i])]);
        let mut dx = drawn(40, (rows + 1) * n_in);
        Backend::linears_backward(self, parts.collect(), Put::Set, &mut dx);
        self.download(&dx)
    }

    fn head(&self, x: &[f32], w: &[f32], [rows, dim, vocab]: [usize; 3], targets: &[Target]) -> Vec<f32> {
        let act = self.act(&self.upload(x), rows, dim, 1.0);
        let weight = self.weight(&self.upload(w), vocab, dim, true);
        let scored = Backend::head(self, &act, &weight, targets);
        let grads: Vec<ScoredGrad> = (0..rows).map(|i| ScoredGrad { logprob: 1.0 - i as f32 * 0.3, entropy: 0.2 }).collect();
        let (mut dx, mut dw) = (self.buf(rows * dim), self.zeros(vocab * dim));
        self.head_backward(&act, &weight, targets, &scored, &grads, &mut dx, Some(&mut dw));
        let again = std::sync::Mutex::new(vec![None; rows]);
        self.logits(&act, &weight, &|row, logits| {
            again.lock().expect("no panic")[row] = Some(self.score(logits, &targets[row]));
        });
        let again: Vec<Scored> = again.into_inner().expect("no panic").into_iter().flatten().collect();
        if !self.path().starts_with("reference") {
            assert_eq!(again, scored, "the sampler's score is the trainer's");
        }
        let mut out: Vec<f32> = scored.iter().flat_map(|s| [s.logprob, s.entropy, s.log_norm]).collect();
        out.extend(self.download(&dx));
        out.extend(self.download(&dw));
        out
    }

    fn adamw(&self, w: &[f32], grad: &[f32]) -> Vec<f32> {
        let (mut w, grad) = (self.upload(w), self.upload(grad));
        let (mut m, mut v) = (self.copy(&grad), self.copy(&grad));
        self.clear(&mut m);
        self.clear(&mut v);
        let step = AdamStep {
            lr: 0.01,
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            weight_decay: 0.1,
            correction1: 0.1,
            correction2: 0.01,
            grad_scale: 0.5,
        };
        Backend::adamw(self, &mut w, &mut m, &mut v, &grad, &step);
        let [mut other_w, mut other_m, mut other_v, mut other_grad] = [&w, &m, &v, &grad].map(|buf| self.copy(buf));
        let [mut third_w, mut third_m, mut third_v, mut third_grad] = [&w, &m, &v, &grad].map(|buf| self.copy(buf));
        self.adamw_all(vec![
            Moved { w: &mut other_w, m: &mut other_m, v: &mut other_v, grad: &mut other_grad, step },
            Moved {
                w: &mut third_w,
                m: &mut third_m,
                v: &mut third_v,
                grad: &mut third_grad,
                step: AdamStep { lr: 0.1, ..step },
            },
        ]);
        let all = [w, m, v, other_w, other_m, other_v, other_grad, third_w, third_m, third_v, third_grad];
        all.iter().flat_map(|buf| self.download(buf)).collect()
    }

    fn sum_squares(&self, x: &[f32]) -> Vec<f32> {
        vec![Backend::sum_squares(self, &self.upload(x)) as f32]
    }
}

/// Groups that cross page borders in every way: shared and lone, empty prompts, single tokens.
fn packed() -> Packed {
    let group = |prompt: usize, completions: &[usize]| Group {
        prompt: vec![1; prompt],
        completions: completions.iter().map(|&n| vec![2; n]).collect(),
    };
    Packed::new(&[group(21, &[9, 1, 30]), group(16, &[5, 2]), group(0, &[40]), group(70, &[2])])
}

/// Norms, forward and backward.
pub(crate) fn norms(check: Check<'_>) {
    for cols in [8, 24, 64, 100, 576, 1100] {
        let (x, gain, dy) = (values(1, 5 * cols), values(2, cols), values(3, 5 * cols));
        check("rmsnorm", 2e-6, &|b| b.rmsnorm(&x, &gain));
        check("rmsnorm_backward", 5e-6, &|b| b.rmsnorm_backward(&x, &gain, &dy));
    }
}

/// Products and their gradients, on sizes that fill no tile.
pub(crate) fn products(check: Check<'_>) {
    for shape @ [rows, n_in, n_out] in
        [[2, 8, 8], [7, 33, 47], [16, 64, 32], [33, 96, 70], [70, 16, 130], [300, 40, 16], [512, 48, 24], [9, 512, 1024]]
    {
        let (x, w, dy) = (values(1, rows * n_in), values(2, n_in * n_out), values(3, rows * n_out));
        check("linear", 4e-6, &|b| b.linear(&x, &w, shape, Put::Set));
        check("linear add", 4e-6, &|b| b.linear(&x, &w, shape, Put::Add));
        check("linear_backward", 4e-6, &|b| b.linear_backward(&dy, &w, shape));
        check("weight_gradient", 4e-6, &|b| b.weight_gradient(&dy, &x, shape));
    }
    for shape @ [rows, n_in, n_out] in [[70, 16, 144], [7, 32, 16], [130, 48, 96], [65, 64, 80]] {
        let (x, w) = (values(1, rows * n_in), values(2, n_in * n_out));
        check("narrow add", 4e-6, &|b| b.linear(&x, &w, shape, Put::Add));
    }
    for (rows, n_in, outs, rank) in
        [(67, 96, &[96, 32, 32][..], 16), (9, 64, &[72, 72], 8), (5, 30, &[20, 12], 16), (70, 48, &[64], 64)]
    {
        check("linears_backward", 6e-6, &|b| b.linears_backward(rows, n_in, outs, rank));
    }
}

/// Tables, gathers and biases.
pub(crate) fn tables_and_biases(check: Check<'_>) {
    let (table, x, bias) = (values(1, 50 * 20), values(2, 9 * 70), values(3, 70));
    check("embed", 1e-6, &|b| b.embed(&table, [50, 20], &[3, 49, 3, 0]));
    check("bias", 2e-6, &|b| b.bias(&x, &bias));
}

/// Attention and rotation over groups that share a prompt and over lone ones.
pub(crate) fn attention_over_shared_and_lone_runs(check: Check<'_>) {
    for (n_heads, n_kv_heads, head_dim) in [(4, 4, 16), (6, 2, 64), (9, 3, 8), (2, 1, 24)] {
        let heads = Heads { n_heads, n_kv_heads, head_dim };
        check("attention", 2e-5, &|b| b.attention(heads, &packed()));
        check("rope", 2e-6, &|b| b.rope(&packed(), n_heads, head_dim));
    }
}

/// Gates, updates, sums of squares.
pub(crate) fn gated_units_and_updates(check: Check<'_>) {
    for cols in [16, 50, 384] {
        let (gate, up, dh) = (values(1, 6 * cols), values(2, 6 * cols), values(3, 6 * cols));
        check("swiglu", 2e-6, &|b| b.swiglu(&gate, &up, &dh, cols));
        check("adamw", 2e-6, &|b| b.adamw(&gate, &up));
        check("sum_squares", 1e-6, &|b| b.sum_squares(&gate));
    }
    // Some are added in the kernel of the gates, others before it. Results are rounded, to one side or the other.
    for shape @ [rows, _, _] in [[6, 48, 16], [67, 96, 16], [70, 64, 32], [5, 32, 64], [9, 50, 16], [6, 48, 8], [20, 32, 48]] {
        let (one, all) = (rows / 2, 0..rows);
        for adapters in
            [vec![(all.clone(), [true; 2])], vec![(all, [false, true])], vec![(0..one, [true; 2]), (one..rows, [true, false])]]
        {
            check("swiglu_low", 1e-2, &|b| b.swiglu_low(shape, &adapters));
        }
    }
}

/// Scores and gradients of the head, whole vocabulary and parts of it.
pub(crate) fn heads_with_and_without_a_mask(check: Check<'_>) {
    for [rows, dim, vocab] in [[3, 16, 50], [5, 32, 256], [270, 8, 70], [2, 16, 5000]] {
        let (x, w) = (values(1, rows * dim), values(2, dim * vocab));
        let target = |i: usize, support: Option<u64>| Target {
            id: (i * 7 % vocab) as u32,
            inv_temperature: 1.0 + i as f32 * 0.01,
            support: support.map(|bits| {
                let mut words = vec![bits; vocab.div_ceil(64)];
                words[i * 7 % vocab / 64] |= 1 << (i * 7 % vocab % 64);
                words.into()
            }),
        };
        let free: Vec<Target> = (0..rows).map(|i| target(i, None)).collect();
        let masked: Vec<Target> = (0..rows).map(|i| target(i, Some(0x5a5a_0000_ffff_0001))).collect();
        check("head", 1e-5, &|b| b.head(&x, &w, [rows, dim, vocab], &free));
        check("masked head", 1e-5, &|b| b.head(&x, &w, [rows, dim, vocab], &masked));
    }
}

/// Every operation once more, on sizes that were drawn at random.
pub(crate) fn sizes_that_nobody_chose(check: Check<'_>) {
    for seed in 0..6 {
        let stream = Stream::new(13, seed);
        let below = |place: u64, max: u64| 1 + (stream.bits(place) % max) as usize;
        let shape @ [rows, n_in, n_out] = [1 + below(0, 80), below(1, 200), below(2, 200)];
        let (x, w, dy) = (values(1, rows * n_in), values(2, n_in * n_out), values(3, rows * n_out));
        check("linear", 4e-6, &|b| b.linear(&x, &w, shape, Put::Set));
        check("linear_backward", 4e-6, &|b| b.linear_backward(&dy, &w, shape));
        check("weight_gradient", 4e-6, &|b| b.weight_gradient(&dy, &x, shape));
        check("rmsnorm", 2e-6, &|b| b.rmsnorm(&x, &values(4, n_in)));
        check("swiglu", 2e-6, &|b| b.swiglu(&x, &values(5, rows * n_in), &values(6, rows * n_in), n_in));
        let n_kv_heads = below(3, 3);
        let heads = Heads { n_heads: n_kv_heads * below(4, 4), n_kv_heads, head_dim: 8 * below(5, 12) };
        let group = |place: u64| Group {
            prompt: vec![1; below(place, 90) - 1],
            completions: (1..=below(place + 1, 5) as u64).map(|i| vec![2; 1 + below(place + 1 + i, 60)]).collect(),
        };
        let packed = Packed::new(&[group(10), group(20), group(30)]);
        check("attention", 2e-5, &|b| b.attention(heads, &packed));
        check("rope", 2e-6, &|b| b.rope(&packed, heads.n_heads, heads.head_dim));
        let (dim, vocab) = (n_in, 8 + below(6, 3000));
        let target = |i: usize| Target { id: (i * 13 % vocab) as u32, inv_temperature: 0.8, support: None };
        let targets: Vec<Target> = (0..rows).map(target).collect();
        check("head", 1e-5, &|b| b.head(&x, &values(7, dim * vocab), [rows, dim, vocab], &targets));
    }
}
