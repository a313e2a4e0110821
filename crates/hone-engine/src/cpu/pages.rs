//! Keys and values of one layer in pages, and attention over them, shared out to threads.
//!
//! Which rows and heads are whose item is decided here; what an item computes is in `attention.rs`.
#![expect(unsafe_code, reason = "threads write disjoint parts of shared results")]

use super::attention::{self, Part, Saved, Shape};
use super::pool::Shares;
use super::{Aligned, Cpu, Plan, rows};
use crate::backend::{Backend, Heads};
use crate::layout::PAGE;

/// Pages of one layer.
#[derive(Debug)]
pub struct Kv {
    shape: Shape,
    data: Aligned<f32>,
}

impl Kv {
    /// Empty pages. They take memory when they are first written to, so there may be more of them than are ever used.
    pub(super) fn new(heads: Heads, n_pages: usize) -> Self {
        let shape = Shape::new(heads);
        Self { shape, data: Aligned::lasting(n_pages * shape.page_len()) }
    }

    /// Writes the keys and values of all rows to their places. Keys stand column by column, as the walk reads them.
    pub(super) fn write(&mut self, cpu: &Cpu, k: &[f32], v: &[f32], plan: &Plan) {
        let shape = self.shape;
        let Heads { n_kv_heads, head_dim, .. } = shape.heads;
        let shared = Shares(self.data.as_mut_ptr());
        let len = self.data.len();
        cpu.pool.run(plan.page_starts.len().saturating_sub(1), &|item| {
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

    /// Copies a page.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let size = self.shape.page_len();
        self.data.copy_within(from as usize * size..(from as usize + 1) * size, to as usize * size);
    }

    /// Attends with all queries: outputs and log-normalisers.
    pub(super) fn attend(&self, cpu: &Cpu, q: &[f32], plan: &Plan) -> (Aligned<f32>, Aligned<f32>) {
        let shape = self.shape;
        let Heads { n_heads, n_kv_heads, head_dim } = shape.heads;
        let mut out = cpu.buf(q.len());
        let mut norms = cpu.buf(plan.layout.n_rows() * n_heads);
        let (out_shared, norms_shared) = (Shares(out.as_mut_ptr()), Shares(norms.as_mut_ptr()));
        // Many short runs go into one item: a decode step has hundreds.
        let n_units = plan.parts.len() * n_kv_heads;
        let per_item = (n_units / (16 * cpu.pool.n_threads())).max(1);
        cpu.pool.run(n_units.div_ceil(per_item), &|item| {
            let mut scratch = Vec::new();
            for unit in item * per_item..((item + 1) * per_item).min(n_units) {
                let (run, first, n_rows) = plan.parts[unit / n_kv_heads];
                let run = &plan.layout.runs[run];
                let part = Part { shape, kv: &self.data, run, kv_head: unit % n_kv_heads, first, n_rows };
                attention::attend(cpu.isa, &part, q, &mut scratch, &mut |row, head, values, norm| {
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

    /// Gradients of queries, keys and values.
    pub(super) fn attend_backward(
        &self,
        cpu: &Cpu,
        plan: &Plan,
        saved: &Saved<'_>,
    ) -> (Aligned<f32>, Aligned<f32>, Aligned<f32>) {
        let shape = self.shape;
        let Heads { n_heads, n_kv_heads, head_dim } = shape.heads;
        let (width, fan) = (shape.width, shape.fan());
        let mut dq = cpu.buf(saved.q.len());
        let grad_len = PAGE * width;
        let mut page_grads = cpu.zeros(plan.n_pages * n_kv_heads * 2 * grad_len);
        let (dq_shared, grads_shared) = (Shares(dq.as_mut_ptr()), Shares(page_grads.as_mut_ptr()));
        cpu.pool.run(plan.groups.len() * n_kv_heads, &|item| {
            let kv_head = item % n_kv_heads;
            for &run in &plan.groups[item / n_kv_heads] {
                let run = &plan.layout.runs[run];
                let part = Part { shape, kv: &self.data, run, kv_head, first: 0, n_rows: run.n_rows };
                let mut part_dq = cpu.buf(run.n_rows * fan * width);
                attention::attend_backward(cpu.isa, &part, saved, &mut part_dq, &mut |page, dk, dv| {
                    let at = (page as usize * n_kv_heads + kv_head) * 2 * grad_len;
                    // SAFETY: a page belongs to one group and this (group, kv head) is one item's.
                    let grads = unsafe { grads_shared.part(at, 2 * grad_len) };
                    let (key, value) = grads.split_at_mut(grad_len);
                    rows::add(cpu.isa, dk, key);
                    rows::add(cpu.isa, dv, value);
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
        let (mut dk, mut dv) = (cpu.buf(plan.layout.n_rows() * cols), cpu.buf(plan.layout.n_rows() * cols));
        for (side, to) in [&mut dk, &mut dv].into_iter().enumerate() {
            cpu.by_row(to, cols, |row, to| {
                to.fill(0.0);
                for &(page, offset) in &plan.by_row[plan.row_starts[row]..plan.row_starts[row + 1]] {
                    for (head, to) in to.chunks_exact_mut(head_dim).enumerate() {
                        let at = ((page as usize * n_kv_heads + head) * 2 + side) * grad_len + offset as usize * width;
                        rows::add(cpu.isa, &page_grads[at..at + head_dim], to);
                    }
                }
            });
        }
        (dq, dk, dv)
    }
}
