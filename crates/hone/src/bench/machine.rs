//! What this machine can do at best: products a second, bytes a second, and how much memory this process has held.

use super::figures::rounded;
use hone_engine::backend::{Backend, Dtype, Put};
use hone_engine::cpu::Cpu;
use hone_engine::random::Stream;
use serde::Serialize;
use std::time::Instant;

/// The limits of this machine, as the engine's own kernels reach them.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// Which instructions compute.
    pub(super) path: String,
    pub(super) threads: usize,
    /// Of a product with many rows, the best of five.
    pub(super) gflops: f64,
    /// Weights read by a product with one row, the best of three.
    pub(super) gb_per_s: f64,
}

impl Machine {
    pub(super) fn measure(n_threads: usize) -> Self {
        let backend = Cpu::new(Dtype::Bf16, n_threads);
        let (rows, n) = (1024, 1536);
        let values: Vec<f32> = (0..(n * n) as u64).map(|i| Stream::new(0, 0).uniform(i) - 0.5).collect();
        let values = backend.upload(&values);
        let weight = backend.weight(&values, n, n, false);
        let act = backend.act(&backend.upload(&values[..rows * n]), rows, n, 1.0);
        let mut out = backend.buf(rows * n);
        let flops = best_of(5, || {
            let begin = Instant::now();
            (0..8).for_each(|_| backend.linear(&act, 0..rows, &weight, Put::Set, &mut out, 0));
            8.0 * 2.0 * (rows * n * n) as f64 / begin.elapsed().as_secs_f64()
        });
        // More weights than any cache holds.
        let weights: Vec<_> = (0..128).map(|_| backend.weight(&values, n, n, false)).collect();
        let bandwidth = best_of(3, || {
            let begin = Instant::now();
            weights.iter().for_each(|weight| backend.linear(&act, 0..1, weight, Put::Set, &mut out, 0));
            weights.len() as f64 * (2 * n * n) as f64 / begin.elapsed().as_secs_f64()
        });
        Self { path: backend.path(), threads: n_threads, gflops: rounded(flops / 1e9), gb_per_s: rounded(bandwidth / 1e9) }
    }
}

/// The best of several measurements: noise only ever takes away.
pub(super) fn best_of(n: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..n).map(|_| measure()).fold(0.0, f64::max)
}

/// The most memory that this process has held, as Linux says; 0 elsewhere.
pub(super) fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    (kb / 1024.0).round()
}
