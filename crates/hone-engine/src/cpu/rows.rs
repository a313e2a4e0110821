//! Kernels that work on one row (or one stretch of a vector) at a time.
//!
//! Norms, rotation, SwiGLU and AdamW, each written once and compiled per instruction level. Sums run over sixteen lanes
//! folded by one tree. They know nothing of threads: callers cut the work into rows.
#![expect(unsafe_code, reason = "kernels are compiled per instruction level")]

use super::isa::versions;
use super::lanes::{dot, exp1, fma1, to_bf16};
use crate::backend::{AdamStep, Put, Turn};

versions! {
    /// `out = x·gain / sqrt(mean(x²) + eps)`.
    pub(crate) fn rmsnorm = rmsnorm_any(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32])
}

#[inline(always)]
fn inverse_rms<const FMA: bool>(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot::<FMA>(x, x) / x.len() as f32 + eps).sqrt()
}

#[inline(always)]
fn rmsnorm_any<const FMA: bool>(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
    let inverse = inverse_rms::<FMA>(x, eps);
    for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
        *out = x * inverse * gain;
    }
}

versions! {
    /// The same, rounded to bf16, padded with zeros.
    pub(crate) fn rmsnorm_bf16 = rmsnorm_bf16_any(x: &[f32], gain: &[f32], eps: f32, out: &mut [u16])
}

#[inline(always)]
fn rmsnorm_bf16_any<const FMA: bool>(x: &[f32], gain: &[f32], eps: f32, out: &mut [u16]) {
    let inverse = inverse_rms::<FMA>(x, eps);
    for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
        *out = to_bf16(x * inverse * gain);
    }
    out[x.len()..].fill(0);
}

versions! {
    /// With `n = x·inv` and `g = dy·gain`: `dx = inv·(g - n·mean(g·n))`. Returns `inv`.
    pub(crate) fn rmsnorm_backward = rmsnorm_backward_any(
        x: &[f32], gain: &[f32], eps: f32, dy: &[f32], put: Put, dx: &mut [f32]) -> f32
}

#[inline(always)]
fn rmsnorm_backward_any<const FMA: bool>(x: &[f32], gain: &[f32], eps: f32, dy: &[f32], put: Put, dx: &mut [f32]) -> f32 {
    const BLOCK: usize = 64;
    let inverse = inverse_rms::<FMA>(x, eps);
    // The weighted gradient is made block by block: its dot product with x has one fixed order.
    let mut total = 0.0;
    let mut weighted = [0.0; BLOCK];
    for ((x, gain), dy) in x.chunks(BLOCK).zip(gain.chunks(BLOCK)).zip(dy.chunks(BLOCK)) {
        let weighted = &mut weighted[..x.len()];
        for ((to, &gain), &dy) in weighted.iter_mut().zip(gain).zip(dy) {
            *to = gain * dy;
        }
        total += dot::<FMA>(weighted, x);
    }
    let mean = total * inverse / x.len() as f32;
    let back = inverse * inverse * mean;
    for (((dx, &x), &gain), &dy) in dx.iter_mut().zip(x).zip(gain).zip(dy) {
        let grad = inverse * (gain * dy) - back * x;
        *dx = if put == Put::Add { *dx + grad } else { grad };
    }
    inverse
}

versions! {
    /// Rotates the heads of one row by the angles of its position (cos first, then sin).
    pub(crate) fn rope = rope_any(row: &mut [f32], head_dim: usize, angles: &[f32], turn: Turn)
}

#[inline(always)]
fn rope_any<const FMA: bool>(row: &mut [f32], head_dim: usize, angles: &[f32], turn: Turn) {
    let (cos, sin) = angles[..head_dim].split_at(head_dim / 2);
    let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
    for head in row.chunks_exact_mut(head_dim) {
        let (low, high) = head.split_at_mut(head_dim / 2);
        for (((low, high), &cos), &sin) in low.iter_mut().zip(high).zip(cos).zip(sin) {
            let (a, b, sin) = (*low, *high, sin * sign);
            *low = a * cos - b * sin;
            *high = b * cos + a * sin;
        }
    }
}

#[inline(always)]
fn silu<const FMA: bool>(x: f32) -> (f32, f32) {
    let sigmoid = 1.0 / (1.0 + exp1::<FMA>(-x));
    (x * sigmoid, sigmoid)
}

versions! {
    /// `silu(gate)·up` in f32.
    pub(crate) fn swiglu = swiglu_any(gate: &[f32], up: &[f32], out: &mut [f32])
}

#[inline(always)]
fn swiglu_any<const FMA: bool>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = silu::<FMA>(gate).0 * up;
    }
}

versions! {
    /// `silu(gate)·up`, rounded to bf16.
    pub(crate) fn swiglu_bf16 = swiglu_bf16_any(gate: &[f32], up: &[f32], out: &mut [u16])
}

#[inline(always)]
fn swiglu_bf16_any<const FMA: bool>(gate: &[f32], up: &[f32], out: &mut [u16]) {
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = to_bf16(silu::<FMA>(gate).0 * up);
    }
}

#[inline(always)]
fn swiglu_gradients<const FMA: bool>(gate: f32, up: f32, dh: f32) -> (f32, f32) {
    let (value, sigmoid) = silu::<FMA>(gate);
    (dh * up * sigmoid * (1.0 + gate * (1.0 - sigmoid)), dh * value)
}

versions! {
    /// Gradients with respect to gate and up in f32.
    pub(crate) fn swiglu_backward = swiglu_backward_any(
        gate: &[f32], up: &[f32], dh: &[f32], dgate: &mut [f32], dup: &mut [f32])
}

#[inline(always)]
fn swiglu_backward_any<const FMA: bool>(gate: &[f32], up: &[f32], dh: &[f32], dgate: &mut [f32], dup: &mut [f32]) {
    for ((((dgate, dup), &gate), &up), &dh) in dgate.iter_mut().zip(dup).zip(gate).zip(up).zip(dh) {
        (*dgate, *dup) = swiglu_gradients::<FMA>(gate, up, dh);
    }
}

versions! {
    /// Gradients with respect to gate and up, rounded to bf16.
    pub(crate) fn swiglu_backward_bf16 = swiglu_backward_bf16_any(
        gate: &[f32], up: &[f32], dh: &[f32], dgate: &mut [u16], dup: &mut [u16])
}

#[inline(always)]
fn swiglu_backward_bf16_any<const FMA: bool>(gate: &[f32], up: &[f32], dh: &[f32], dgate: &mut [u16], dup: &mut [u16]) {
    for ((((dgate, dup), &gate), &up), &dh) in dgate.iter_mut().zip(dup).zip(gate).zip(up).zip(dh) {
        let (g, u) = swiglu_gradients::<FMA>(gate, up, dh);
        (*dgate, *dup) = (to_bf16(g), to_bf16(u));
    }
}

versions! {
    /// `to += from`.
    pub(crate) fn add = add_any(from: &[f32], to: &mut [f32])
}

#[inline(always)]
fn add_any<const FMA: bool>(from: &[f32], to: &mut [f32]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

versions! {
    /// `to += scale·a·b`, lane by lane.
    pub(crate) fn add_product = add_product_any(a: &[f32], b: &[f32], scale: f32, to: &mut [f32])
}

#[inline(always)]
fn add_product_any<const FMA: bool>(a: &[f32], b: &[f32], scale: f32, to: &mut [f32]) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = fma1::<FMA>(a * scale, b, *to);
    }
}

versions! {
    /// One AdamW update of a stretch.
    pub(crate) fn adamw = adamw_any(w: &mut [f32], m: &mut [f32], v: &mut [f32], grad: &[f32], step: &AdamStep)
}

#[inline(always)]
fn adamw_any<const FMA: bool>(w: &mut [f32], m: &mut [f32], v: &mut [f32], grad: &[f32], step: &AdamStep) {
    let keep = 1.0 - step.lr * step.weight_decay;
    for (((w, m), v), &grad) in w.iter_mut().zip(m).zip(v).zip(grad) {
        let grad = grad * step.grad_scale;
        *m = step.beta1 * *m + (1.0 - step.beta1) * grad;
        *v = step.beta2 * *v + (1.0 - step.beta2) * grad * grad;
        let root = (*v / step.correction2).sqrt() + step.eps;
        *w = *w * keep - step.lr * (*m / step.correction1) / root;
    }
}
