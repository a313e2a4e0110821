//! Every backward of the readable backend against central differences in f64. The fast kernels are compared with it.

use hone_engine::backend::{Backend, Dtype, Heads, Put, Target, Turn};
use hone_engine::layout::{Group, Packed};
use hone_engine::random::Stream;
use hone_engine::reference::Reference;

type R = Reference<f64>;
const STEP: f64 = 1e-5;

fn backend() -> R {
    Reference::new(Dtype::F32)
}

fn values(seed: u64, len: usize) -> Vec<f64> {
    let stream = Stream::new(21, seed);
    (0..len as u64).map(|i| f64::from(stream.normal(i))).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Compares a gradient with `(f(x + h) - f(x - h)) / 2h`, element by element.
fn check(name: &str, x: &[f64], gradient: &[f64], f: &dyn Fn(&Vec<f64>) -> f64) {
    assert_eq!(x.len(), gradient.len(), "{name}");
    let mut moved = x.to_vec();
    for i in 0..x.len() {
        moved[i] = x[i] + STEP;
        let above = f(&moved);
        moved[i] = x[i] - STEP;
        let below = f(&moved);
        moved[i] = x[i];
        let expected = (above - below) / (2.0 * STEP);
        let error = (gradient[i] - expected).abs();
        assert!(error <= 1e-6 * (1.0 + expected.abs()), "{name}[{i}]: {} instead of {expected}", gradient[i]);
    }
}

fn packed() -> Packed {
    let group = Group { prompt: vec![0; 18], completions: vec![vec![0; 4], vec![0; 3]] };
    Packed::new(&[group, Group { prompt: vec![], completions: vec![vec![0; 5]] }])
}

#[test]
fn rmsnorm() {
    let (b, cols) = (backend(), 12);
    let (x, gain, dy) = (values(1, 3 * cols), values(2, cols), values(3, 3 * cols));
    let (mut dx, mut dgain) = (b.zeros(x.len()), b.zeros(cols));
    b.rmsnorm_backward(&x, &gain, 1e-3, &dy, Put::Set, &mut dx, Some(&mut dgain));
    check("dx", &x, &dx, &|x| dot(&b.rmsnorm(x, &gain, 1e-3, cols), &dy));
    check("dgain", &gain, &dgain, &|gain| dot(&b.rmsnorm(&x, gain, 1e-3, cols), &dy));
}

#[test]
fn products_and_bias() {
    let b = backend();
    let (rows, n_in, n_out) = (4, 6, 5);
    let (x, w, bias, dy) = (values(1, rows * n_in), values(2, n_in * n_out), values(3, n_out), values(4, rows * n_out));
    let f = |x: &Vec<f64>, w: &Vec<f64>, bias: &Vec<f64>| {
        let mut y = b.zeros(rows * n_out);
        b.linear(&b.act(x, rows, n_in, 1.0), 0..rows, &b.weight(w, n_out, n_in, true), Put::Set, &mut y, 0);
        b.bias(&mut y, bias);
        dot(&y, &dy)
    };
    let (mut dx, mut dw, mut dbias) = (b.zeros(x.len()), b.zeros(w.len()), b.zeros(n_out));
    let dy_act = b.act(&dy, rows, n_out, 1.0);
    b.linear_backward(&dy_act, 0..rows, &b.weight(&w, n_out, n_in, true), Put::Set, &mut dx, 0);
    b.weight_gradient(&dy_act, &b.act(&x, rows, n_in, 1.0), &mut dw);
    b.bias_gradient(&dy, &mut dbias);
    check("dx", &x, &dx, &|x| f(x, &w, &bias));
    check("dw", &w, &dw, &|w| f(&x, w, &bias));
    check("dbias", &bias, &dbias, &|bias| f(&x, &w, bias));
}

#[test]
fn tables_and_rows() {
    let b = backend();
    let (table, dy) = (values(1, 7 * 4), values(2, 3 * 4));
    let mut dtable = b.zeros(table.len());
    b.embed_backward(&dy, 4, &[2, 6, 2], &mut dtable);
    check("dtable", &table, &dtable, &|t| dot(&b.embed(&b.weight(t, 7, 4, false), &[2, 6, 2]), &dy));
    check("gather", &table, &dtable, &|t| dot(&b.gather(t, 4, &[2, 6, 2]), &dy));
}

#[test]
fn rotation() {
    let b = backend();
    let (packed, head_dim) = (packed(), 6);
    let plan = b.plan(&packed.layout);
    let n = packed.layout.n_rows() * 2 * head_dim;
    let (x, dy) = (values(1, n), values(2, n));
    // True angles: the backward is the inverse only for a rotation.
    let angle = |i: usize| (i / head_dim) as f64 * 0.1 * (1 + i % (head_dim / 2)) as f64;
    let part = |i: usize| {
        if i % head_dim < head_dim / 2 { angle(i).cos() } else { angle(i).sin() }
    };
    let angles: Vec<f64> = (0..64 * head_dim).map(part).collect();
    let mut dx = dy.clone();
    b.rope(&mut dx, head_dim, &angles, &plan, Turn::Backward);
    check("dx", &x, &dx, &|x| {
        let mut y = x.clone();
        b.rope(&mut y, head_dim, &angles, &plan, Turn::Forward);
        dot(&y, &dy)
    });
}

#[test]
fn attention() {
    let b = backend();
    let heads = Heads { n_heads: 4, n_kv_heads: 2, head_dim: 6 };
    let packed = packed();
    let rows = packed.layout.n_rows();
    let plan = b.plan(&packed.layout);
    let (q, k, v) = (values(1, rows * 24), values(2, rows * 12), values(3, rows * 12));
    let dout = values(4, rows * 24);
    let run = |q: &Vec<f64>, k: &Vec<f64>, v: &Vec<f64>| {
        let mut kv = b.kv(heads, packed.n_pages);
        b.kv_write(&mut kv, k, v, &plan);
        let (out, norm) = b.attention(q, &kv, &plan);
        (out, norm, kv)
    };
    let (out, norm, kv) = run(&q, &k, &v);
    let (dq, dk, dv) = b.attention_backward(&q, &kv, &plan, &out, &norm, &dout);
    check("dq", &q, &dq, &|q| dot(&run(q, &k, &v).0, &dout));
    check("dk", &k, &dk, &|k| dot(&run(&q, k, &v).0, &dout));
    check("dv", &v, &dv, &|v| dot(&run(&q, &k, v).0, &dout));
}

#[test]
fn swiglu() {
    let (b, cols) = (backend(), 7);
    let (gate, up, dh) = (values(1, 2 * cols), values(2, 2 * cols), values(3, 2 * cols));
    let (dgate, dup) = b.swiglu_backward(&gate, &up, &dh, cols);
    check("dgate", &gate, &dgate.values, &|gate| dot(&b.swiglu(gate, &up, cols).values, &dh));
    check("dup", &up, &dup.values, &|up| dot(&b.swiglu(&gate, up, cols).values, &dh));
}

/// The head's scores leave the backend as f32, so here the formula is written out in f64.
#[test]
fn head() {
    let b = backend();
    let (rows, dim, vocab) = (3, 4, 70);
    let (x, w) = (values(1, rows * dim), values(2, vocab * dim));
    let support: Vec<u64> = vec![0xf0f0_f0f0_f0f0_f0f1, 0b10_1010];
    let targets: Vec<Target> = (0..rows)
        .map(|i| Target {
            id: [0, 65, 4][i],
            inv_temperature: 1.0 + 0.25 * i as f32,
            support: (i > 0).then(|| support.clone().into()),
        })
        .collect();
    let grads: Vec<_> =
        (0..rows).map(|i| hone_engine::backend::ScoredGrad { logprob: 1.0 - i as f32, entropy: 0.5 + i as f32 }).collect();
    let f = |x: &Vec<f64>, w: &Vec<f64>| -> f64 {
        let mut total = 0.0;
        for (row, (target, grad)) in targets.iter().zip(&grads).enumerate() {
            let inside = |id: usize| target.support.as_ref().is_none_or(|s| s[id / 64] >> (id % 64) & 1 == 1);
            let z =
                |id: usize| dot(&x[row * dim..(row + 1) * dim], &w[id * dim..(id + 1) * dim]) * f64::from(target.inv_temperature);
            let norm: f64 = (0..vocab).filter(|&id| inside(id)).map(|id| z(id).exp()).sum();
            let p = |id: usize| z(id).exp() / norm;
            let entropy: f64 = (0..vocab).filter(|&id| inside(id)).map(|id| -p(id) * p(id).ln()).sum();
            total += f64::from(grad.logprob) * p(target.id as usize).ln() + f64::from(grad.entropy) * entropy;
        }
        total
    };
    let act = b.act(&x, rows, dim, 1.0);
    let weight = b.weight(&w, vocab, dim, true);
    let scored = b.head(&act, &weight, &targets);
    let (mut dx, mut dw) = (b.zeros(x.len()), b.zeros(w.len()));
    b.head_backward(&act, &weight, &targets, &scored, &grads, &mut dx, Some(&mut dw));
    check("dx", &x, &dx, &|x| f(x, &w));
    check("dw", &w, &dw, &|w| f(&x, w));
}
