//! The head over the whole vocabulary, a block of rows and a chunk of ids at a time: logits are never whole.
//!
//! What happens to a chunk of logits is in `head.rs`.

use super::matmul::{Job, product};
use super::{Act, Aligned, Cpu, Weight, head};
use crate::backend::{Backend, Put, Scored, ScoredGrad, Target};
use std::ops::Range;

/// Rows that are scored together.
const HEAD_ROWS: usize = 256;
/// Floats of logits that exist at once while sampling.
const LOGITS_MAX: usize = 1 << 22;

/// What was scored, its scores, and the gradients with respect to them.
pub(super) struct Scores<'a> {
    pub(super) targets: &'a [Target],
    pub(super) scored: &'a [Scored],
    pub(super) grads: &'a [ScoredGrad],
}

/// Logits of rows × vocabulary chunk into `scratch`, row-major.
fn chunk_logits(cpu: &Cpu, x: &Act, w: &Weight, rows: Range<usize>, ids: Range<usize>, scratch: &mut [f32]) {
    let job = Job { rows, stride: ids.len(), cols: ids, k0: 0, at: 0, put: Put::Set };
    product(&cpu.pool, cpu.isa, x, &w.forward, &job, scratch);
}

/// Calls `work(first id, ids, logits)` for each chunk of the vocabulary, for one block of rows.
fn each_chunk(cpu: &Cpu, x: &Act, w: &Weight, rows: &Range<usize>, mut work: impl FnMut(Range<usize>, &mut [f32])) {
    let vocab = w.forward.cols;
    let mut scratch = cpu.arena.take::<f32>(rows.len() * vocab.min(head::CHUNK));
    for first in (0..vocab).step_by(head::CHUNK) {
        let ids = first..(first + head::CHUNK).min(vocab);
        let scratch = &mut scratch[..rows.len() * ids.len()];
        chunk_logits(cpu, x, w, rows.clone(), ids.clone(), scratch);
        work(ids, scratch);
    }
}

/// The score of every target.
pub(super) fn score(cpu: &Cpu, x: &Act, w: &Weight, targets: &[Target]) -> Vec<Scored> {
    assert_eq!(x.rows, targets.len());
    let mut folds = vec![head::Fold::new(); targets.len()];
    for first in (0..x.rows).step_by(HEAD_ROWS) {
        let rows = first..(first + HEAD_ROWS).min(x.rows);
        let folds = &mut folds[rows.clone()];
        let targets = &targets[rows.clone()];
        each_chunk(cpu, x, w, &rows, |ids, logits| {
            cpu.pool.pieces(folds, 4, &|item, folds| {
                for (i, fold) in folds.iter_mut().enumerate() {
                    let row = item * 4 + i;
                    fold.push(cpu.isa, &logits[row * ids.len()..][..ids.len()], ids.start, &targets[row]);
                }
            });
        });
    }
    folds.iter().map(head::Fold::scored).collect()
}

/// Adds the gradients of the scores to `dx`, which is cleared first, and to `dw`.
pub(super) fn score_backward(
    cpu: &Cpu,
    x: &Act,
    w: &Weight,
    scores: &Scores<'_>,
    dx: &mut Aligned<f32>,
    mut dw: Option<&mut Aligned<f32>>,
) {
    let dim = x.cols;
    let panels = w.backward.as_ref().expect("a head prepared for the backward");
    cpu.clear(dx);
    for first in (0..x.rows).step_by(HEAD_ROWS) {
        let rows = first..(first + HEAD_ROWS).min(x.rows);
        each_chunk(cpu, x, w, &rows, |ids, logits| {
            let of = |row: usize| {
                let at = first + row;
                (&logits[row * ids.len()..][..ids.len()], &scores.targets[at], &scores.scored[at], &scores.grads[at])
            };
            let dlogits = cpu.act_by_row(
                rows.len(),
                ids.len(),
                |row, out| {
                    let (logits, target, scored, grad) = of(row);
                    head::gradient(cpu.isa, logits, ids.start, target, scored, grad, &mut out[..ids.len()]);
                },
                |row, out| {
                    let (logits, target, scored, grad) = of(row);
                    head::gradient_bf16(cpu.isa, logits, ids.start, target, scored, grad, out);
                },
            );
            let job = Job { rows: 0..rows.len(), cols: 0..dim, k0: ids.start, stride: dim, at: first * dim, put: Put::Add };
            product(&cpu.pool, cpu.isa, &dlogits, panels, &job, dx);
            if let Some(dw) = dw.as_deref_mut() {
                let turned = dlogits.turned(cpu.isa, &cpu.pool, &cpu.arena);
                let job = Job { rows: 0..ids.len(), cols: 0..dim, k0: first, stride: dim, at: ids.start * dim, put: Put::Add };
                product(&cpu.pool, cpu.isa, turned, x.by_rows(&cpu.pool, &cpu.arena), &job, dw);
            }
        });
    }
}

/// Shows every row of logits, a block of rows at a time.
pub(super) fn each_row(cpu: &Cpu, x: &Act, w: &Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let vocab = w.forward.cols;
    let block = (LOGITS_MAX / vocab).clamp(1, x.rows.max(1));
    let mut scratch = cpu.arena.take::<f32>(block * vocab);
    for first in (0..x.rows).step_by(block) {
        let rows = first..(first + block).min(x.rows);
        let scratch = &mut scratch[..rows.len() * vocab];
        chunk_logits(cpu, x, w, rows, 0..vocab, scratch);
        cpu.pool.pieces(scratch, vocab, &|row, logits| visit(first + row, logits));
    }
}
