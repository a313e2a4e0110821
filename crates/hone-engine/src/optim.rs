//! AdamW with f32 master weights, clipping and schedules.
//!
//! `m = β1·m + (1-β1)·g`, `v = β2·v + (1-β2)·g²`, `w -= lr·(m̂ / (√v̂ + ε) + decay·w)`; decay only on matrices. Before that the
//! gradients are scaled to a global norm of at most `clip`. The norm is a sum over parameters in canonical order, each
//! over fixed chunks, so a step is the same to the bit whoever computes it. Knows nothing of models.

use serde::{Deserialize, Serialize};

use crate::backend::{AdamStep, Backend, Moved};

/// Constants of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamOptions {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Decoupled decay of matrices.
    pub weight_decay: f32,
    /// Largest global gradient norm; larger gradients are scaled down. 0 turns clipping off.
    pub clip: f32,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, clip: 1.0 }
    }
}

/// Learning rate as a function of the step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// The same at every step.
    Constant {
        /// The rate.
        lr: f32,
    },
    /// Linear warm-up, then half a cosine down to `floor` at `n_steps`.
    Cosine {
        /// The highest rate.
        lr: f32,
        /// The last rate.
        floor: f32,
        /// Steps of warm-up.
        n_warmup: u64,
        /// Steps in all.
        n_steps: u64,
    },
    /// Linear warm-up, then linear down to zero at `n_steps`.
    Linear {
        /// The highest rate.
        lr: f32,
        /// Steps of warm-up.
        n_warmup: u64,
        /// Steps in all.
        n_steps: u64,
    },
}

impl Schedule {
    /// The rate of a step, counted from 0.
    pub fn lr(self, step: u64) -> f32 {
        let ramp = |n_warmup: u64| ((step + 1) as f32 / n_warmup.max(1) as f32).min(1.0);
        let progress = |n_warmup: u64, n_steps: u64| {
            let n = n_steps.saturating_sub(n_warmup).max(1);
            (step.saturating_sub(n_warmup) as f32 / n as f32).min(1.0)
        };
        match self {
            Self::Constant { lr } => lr,
            Self::Cosine { lr, n_warmup, .. } | Self::Linear { lr, n_warmup, .. } if step < n_warmup => lr * ramp(n_warmup),
            Self::Cosine { lr, floor, n_warmup, n_steps } => {
                let wave = (1.0 + (std::f32::consts::PI * progress(n_warmup, n_steps)).cos()) / 2.0;
                floor + (lr - floor) * wave
            }
            Self::Linear { lr, n_warmup, n_steps } => lr * (1.0 - progress(n_warmup, n_steps)),
        }
    }
}

/// One trained tensor.
pub struct Slot<B: Backend> {
    /// f32 master.
    pub master: B::Buf,
    /// First moment.
    pub m: B::Buf,
    /// Second moment.
    pub v: B::Buf,
    /// Gradients are summed here.
    pub grad: B::Buf,
    /// Subject to weight decay.
    pub decayed: bool,
}

impl<B: Backend> Slot<B> {
    /// A slot at the start of training.
    pub fn new(backend: &B, values: &[f32], decayed: bool) -> Self {
        let zeros = || backend.zeros(values.len());
        Self { master: backend.upload(values), m: zeros(), v: zeros(), grad: zeros(), decayed }
    }
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Learning rate used.
    pub lr: f32,
    /// False when the gradient was not finite: then nothing changed but the gradients, which were cleared.
    pub applied: bool,
}

/// Updates all slots and clears their gradients. `step` counts from 0; gradients are divided by `n_accumulated` first.
pub fn update<'a, B: Backend>(
    backend: &B,
    options: &AdamOptions,
    step: u64,
    lr: f32,
    n_accumulated: f32,
    slots: impl Iterator<Item = &'a mut Slot<B>>,
) -> Update {
    let mut slots: Vec<_> = slots.collect();
    let grads: Vec<&B::Buf> = slots.iter().map(|slot| &slot.grad).collect();
    let total: f64 = backend.sums_squares(&grads).into_iter().sum();
    let grad_norm = total.sqrt() / f64::from(n_accumulated);
    let applied = grad_norm.is_finite();
    let t = i32::try_from(step + 1).unwrap_or(i32::MAX);
    let clip = f64::from(options.clip);
    let shrink = if options.clip > 0.0 && grad_norm > clip { clip / grad_norm } else { 1.0 };
    if !applied {
        slots.iter_mut().for_each(|slot| backend.clear(&mut slot.grad));
        return Update { grad_norm, lr, applied };
    }
    let moved = slots.into_iter().map(|Slot { master, m, v, grad, decayed }| {
        let step = AdamStep {
            lr,
            beta1: options.beta1,
            beta2: options.beta2,
            eps: options.eps,
            weight_decay: if *decayed { options.weight_decay } else { 0.0 },
            correction1: (1.0 - f64::from(options.beta1).powi(t)) as f32,
            correction2: (1.0 - f64::from(options.beta2).powi(t)) as f32,
            grad_scale: (shrink / f64::from(n_accumulated)) as f32,
        };
        Moved { w: master, m, v, grad, step }
    });
    backend.adamw_all(moved.collect());
    Update { grad_norm, lr, applied }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: Schedule, step: u64, expected: f32) {
        let lr = schedule.lr(step);
        assert!((lr - expected).abs() < 1e-6, "{schedule:?} at {step}: {lr}");
    }

    #[test]
    fn schedules_warm_up_and_come_down() {
        let cosine = Schedule::Cosine { lr: 1.0, floor: 0.1, n_warmup: 4, n_steps: 24 };
        check(cosine, 0, 0.25);
        check(cosine, 3, 1.0);
        check(cosine, 4, 1.0);
        check(cosine, 14, 0.55);
        check(cosine, 24, 0.1);
        check(cosine, 1000, 0.1);
        let linear = Schedule::Linear { lr: 1.0, n_warmup: 0, n_steps: 10 };
        check(linear, 0, 1.0);
        check(linear, 5, 0.5);
        check(linear, 10, 0.0);
        check(Schedule::Constant { lr: 0.3 }, 7, 0.3);
    }
}
