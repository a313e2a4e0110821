//! The output head a chunk of the vocabulary at a time: log-probability, entropy, and their gradient.
//!
//! With `z = logit / temperature` inside the allowed set: `log_norm = log Σ e^z`, `logprob = z_target - log_norm`,
//! `entropy = log_norm - Σ p·z`. A row's chunks are folded in order with a running maximum; the sampler folds a row of
//! logits by the same code, so both get the same bits. The gradient is
//! `dz = g_lp·(1[target] - p) - g_H·p·(z - mean z)`.
#![expect(clippy::needless_range_loop, reason = "lanes are indexed; such a loop is one vector instruction")]
#![expect(unsafe_code, reason = "kernels are compiled per instruction level")]

use super::isa::{Isa, versions};
use super::lanes::{LANES, V, ZERO, exp, exp1, fma, load, load_part, max, store, sum, to_bf16};
use crate::backend::{Scored, ScoredGrad, Target};

/// Columns of the vocabulary that are folded at once. Part of the order of summation.
pub(crate) const CHUNK: usize = 2048;

/// A row's normaliser so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    top: f32,
    norm: f32,
    weighted: f32,
    at_target: f32,
}

impl Fold {
    pub(crate) fn new() -> Self {
        Self { top: f32::NEG_INFINITY, norm: 0.0, weighted: 0.0, at_target: f32::NEG_INFINITY }
    }

    /// Folds the logits of ids `first..first + logits.len()`.
    pub(crate) fn push(&mut self, isa: Isa, logits: &[f32], first: usize, target: &Target) {
        fold(isa, self, logits, first, target);
    }

    pub(crate) fn scored(&self) -> Scored {
        let log_norm = self.top + self.norm.ln();
        Scored { logprob: self.at_target - log_norm, entropy: log_norm - self.weighted / self.norm, log_norm }
    }
}

/// Bits of the allowed set for sixteen ids from `first`.
#[inline(always)]
fn allowed(target: &Target, first: usize) -> u64 {
    match &target.support {
        None => u64::MAX,
        Some(support) => support[first / 64] >> (first % 64),
    }
}

versions! {
    fn fold = fold_any(row: &mut Fold, logits: &[f32], first: usize, target: &Target)
}

#[inline(always)]
fn masked<const FMA: bool>(logits: &[f32], first: usize, target: &Target) -> (V, u64) {
    let inside = if logits.len() >= LANES { u64::MAX } else { (1 << logits.len()) - 1 };
    let bits = allowed(target, first) & inside;
    let mut z = if logits.len() == LANES { load(logits) } else { load_part(logits) };
    for i in 0..LANES {
        z[i] *= target.inv_temperature;
    }
    (z, bits)
}

#[inline(always)]
fn fold_any<const FMA: bool>(row: &mut Fold, logits: &[f32], first: usize, target: &Target) {
    let mut tops = [f32::NEG_INFINITY; LANES];
    for (i, logits) in logits.chunks(LANES).enumerate() {
        let (z, bits) = masked::<FMA>(logits, first + i * LANES, target);
        for i in 0..LANES {
            let z = if bits >> i & 1 == 1 { z[i] } else { f32::NEG_INFINITY };
            tops[i] = if z > tops[i] { z } else { tops[i] };
        }
    }
    let top = max(&tops);
    if let Some(&logit) = (target.id as usize).checked_sub(first).and_then(|at| logits.get(at)) {
        row.at_target = logit * target.inv_temperature;
    }
    if top == f32::NEG_INFINITY {
        return;
    }
    let (mut norm, mut weighted) = (ZERO, ZERO);
    for (i, logits) in logits.chunks(LANES).enumerate() {
        let (z, bits) = masked::<FMA>(logits, first + i * LANES, target);
        let mut shifted = z;
        for i in 0..LANES {
            shifted[i] -= top;
        }
        let mut e = exp::<FMA>(&shifted);
        for i in 0..LANES {
            e[i] = if bits >> i & 1 == 1 { e[i] } else { 0.0 };
            norm[i] += e[i];
        }
        weighted = fma::<FMA>(&e, &z, &weighted);
    }
    let (norm, weighted) = (sum(&norm), sum(&weighted));
    let both = if top > row.top { top } else { row.top };
    let (old, new) = (exp1::<FMA>(row.top - both), exp1::<FMA>(top - both));
    let old = if row.top == f32::NEG_INFINITY { 0.0 } else { old };
    row.norm = row.norm * old + norm * new;
    row.weighted = row.weighted * old + weighted * new;
    row.top = both;
}

versions! {
    /// The gradient with respect to a chunk of logits.
    pub(crate) fn gradient = gradient_any(
        logits: &[f32], first: usize, target: &Target, scored: &Scored, grad: &ScoredGrad, out: &mut [f32])
}

#[inline(always)]
fn gradient_any<const FMA: bool>(
    logits: &[f32],
    first: usize,
    target: &Target,
    scored: &Scored,
    grad: &ScoredGrad,
    out: &mut [f32],
) {
    for (i, (logits, out)) in logits.chunks(LANES).zip(out.chunks_mut(LANES)).enumerate() {
        let dz = gradient_lanes::<FMA>(logits, first + i * LANES, target, scored, grad);
        if out.len() == LANES { store(&dz, out) } else { out.copy_from_slice(&dz[..out.len()]) }
    }
}

versions! {
    /// The same, rounded to bf16.
    pub(crate) fn gradient_bf16 = gradient_bf16_any(
        logits: &[f32], first: usize, target: &Target, scored: &Scored, grad: &ScoredGrad, out: &mut [u16])
}

#[inline(always)]
fn gradient_bf16_any<const FMA: bool>(
    logits: &[f32],
    first: usize,
    target: &Target,
    scored: &Scored,
    grad: &ScoredGrad,
    out: &mut [u16],
) {
    const BLOCK: usize = 256;
    let mut exact = [0.0; BLOCK];
    for (i, (logits, out)) in logits.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let exact = &mut exact[..logits.len()];
        gradient_any::<FMA>(logits, first + i * BLOCK, target, scored, grad, exact);
        for (to, &x) in out.iter_mut().zip(&*exact) {
            *to = to_bf16(x);
        }
    }
}

/// Up to sixteen logits; lanes behind the last are zero.
#[inline(always)]
fn gradient_lanes<const FMA: bool>(logits: &[f32], first: usize, target: &Target, scored: &Scored, grad: &ScoredGrad) -> V {
    let mean = scored.log_norm - scored.entropy;
    let (z, bits) = masked::<FMA>(logits, first, target);
    let mut shifted = z;
    for i in 0..LANES {
        shifted[i] -= scored.log_norm;
    }
    let e = exp::<FMA>(&shifted);
    // The lane of the target, or none of the sixteen.
    let chosen = target.id.wrapping_sub(first as u32);
    let mut dz = ZERO;
    for i in 0..LANES {
        let p = if bits >> i & 1 == 1 { e[i] } else { 0.0 };
        let one = if chosen == i as u32 { grad.logprob * target.inv_temperature } else { 0.0 };
        dz[i] = (-grad.logprob * p - grad.entropy * p * (z[i] - mean)) * target.inv_temperature + one;
    }
    dz
}

versions! {
    /// The first id at which the cumulative probability passes `u`, or the last allowed id with any probability.
    pub(crate) fn pick = pick_any(logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32
}

#[inline(always)]
fn pick_any<const FMA: bool>(logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32 {
    let (mut passed, mut last) = (0f64, 0);
    for (i, part) in logits.chunks(LANES).enumerate() {
        let (z, bits) = masked::<FMA>(part, i * LANES, target);
        let mut shifted = z;
        for i in 0..LANES {
            shifted[i] -= log_norm;
        }
        let mut p = exp::<FMA>(&shifted);
        for i in 0..LANES {
            // The exponential is clamped, so what has no probability is cut off here.
            p[i] = if bits >> i & 1 == 1 && shifted[i] > -87.0 { p[i] } else { 0.0 };
        }
        let all = f64::from(sum(&p));
        if all == 0.0 {
            continue;
        }
        if passed + all <= f64::from(u) {
            passed += all;
            last = (i * LANES) as u32 + (LANES - 1 - trailing(&p)) as u32;
            continue;
        }
        for (lane, &p) in p.iter().enumerate().filter(|&(_, &p)| p > 0.0) {
            passed += f64::from(p);
            last = (i * LANES + lane) as u32;
            if passed > f64::from(u) {
                return last;
            }
        }
    }
    last
}

/// Zero lanes at the end.
#[inline(always)]
fn trailing(p: &V) -> usize {
    p.iter().rev().take_while(|&&p| p == 0.0).count()
}
