//! Gates with what an adapter adds to them.
//!
//! What an adapter adds to a wide matrix takes longer to write and read again than to compute. So it is computed where it is used: the gate
//! and the up that are kept stay those of the model alone, and both directions add to what they read. That is done where it was seen to
//! give the bits of a product that adds: a row must not depend on who computes it.

use std::collections::HashMap;
use std::sync::Mutex;

use super::device::{Grid, args, locked};
use super::library::Address;
use super::product::{Kind, Shape};
use super::{Act, Buf, Cuda, Weight};
use crate::backend::{Backend, Low, Put, add_lows_backward};
use crate::random::Stream;

/// Rows and columns of a block of threads, as `kernels/gates.cu` has them.
const ROWS: usize = 64;
const COLS: usize = 32;
/// The highest rank that is worth it.
const RANK_MAX: usize = 64;
/// Rows of the trial.
const ROWS_TRIED: usize = 80;

/// By width and rank, whether the kernels give the bits of products that add.
pub(super) type Agreed = Mutex<HashMap<(usize, usize), bool>>;

/// What one adapter adds to all rows of both gates: where its narrow activations and weights are, or zeros.
struct Added {
    gate: [Address; 2],
    up: [Address; 2],
    rank: usize,
}

impl Cuda {
    /// The activations for the next product, or nothing where the gates must be added to first.
    pub(super) fn gates(&self, gate: &Buf, up: &Buf, cols: usize, low: &[[Option<Low<'_, Self>>; 2]]) -> Option<Act> {
        let added = self.added(gate.len / cols.max(1), cols, low)?;
        Some(self.gated(gate, up, cols, &added))
    }

    /// Gradients of both gates, or nothing where they were added to before.
    pub(super) fn gates_backward(
        &self,
        gate: &Buf,
        up: &Buf,
        dh: &mut Buf,
        cols: usize,
        low: &[[Option<Low<'_, Self>>; 2]],
        dlow: &[Low<'_, Self>],
    ) -> Option<(Act, Act)> {
        let rows = gate.len / cols.max(1);
        let Added { gate: [gate_x, gate_w], up: [up_x, up_w], rank } = self.added(rows, cols, low)?;
        let [dh_x, dh_w] = match dlow {
            [low] if takes(low, rows, rank) && (low.w.rows, low.w.cols, low.w.stride) == (rank, cols, cols) => addresses(low),
            parts => {
                add_lows_backward(self, dh, parts);
                [0; 2]
            }
        };
        let (dgate, dup) = self.two_acts(rows, cols);
        let (to_gate, to_up, stride) = (dgate.address(), dup.address(), dgate.stride);
        let (gate, up, dh) = (gate.address(), up.address(), dh.address());
        let values = args![gate, up, dh, rows, cols, gate_x, gate_w, up_x, up_w, dh_x, dh_w, rank, to_gate, to_up, stride];
        self.device.launch("swiglu_low_backward", grid(rows, cols), values);
        Some((dgate, dup))
    }

    /// Two matrices side by side.
    pub(super) fn two_acts(&self, rows: usize, cols: usize) -> (Act, Act) {
        let mut two = self.new_acts(rows, &[cols, cols]).into_iter();
        (two.next().expect("the first of two"), two.next().expect("the second of two"))
    }

    fn gated(&self, gate: &Buf, up: &Buf, cols: usize, added: &Added) -> Act {
        let &Added { gate: [gate_x, gate_w], up: [up_x, up_w], rank } = added;
        let out = self.new_act(gate.len / cols, cols);
        let (gate, up, to) = (gate.address(), up.address(), out.address());
        let values = args![gate, up, out.rows, cols, gate_x, gate_w, up_x, up_w, rank, to];
        self.device.launch("swiglu_low", grid(out.rows, cols), values);
        out
    }

    /// What is added, where the kernels take it: the same answer for the same adapter, forward and backward.
    fn added(&self, rows: usize, cols: usize, low: &[[Option<Low<'_, Self>>; 2]]) -> Option<Added> {
        let [two] = low else { return None };
        let rank = two.iter().flatten().next()?.w.cols;
        let fits = |low: &Low<'_, Self>| takes(low, rows, rank) && (low.w.rows, low.w.cols, low.w.stride) == (cols, rank, rank);
        let is_sized = rank.is_multiple_of(16) && rank <= RANK_MAX && cols.is_multiple_of(16);
        if !is_sized || !two.iter().flatten().all(fits) || !self.agrees(cols, rank) {
            return None;
        }
        let [gate, up] = two.each_ref().map(|low| low.as_ref().map_or([0; 2], addresses));
        Some(Added { gate, up, rank })
    }

    /// Whether the kernel gives the bits of products that add, tried once.
    fn agrees(&self, cols: usize, rank: usize) -> bool {
        if let Some(&agrees) = locked(&self.agreed).get(&(cols, rank)) {
            return agrees;
        }
        let drawn = |i: u64, len: usize| self.noise(Stream::new(0, i), 1.0, len).expect("a GPU makes noise");
        let [mut gate, mut up] = [0, 1].map(|i| drawn(i, ROWS_TRIED * cols));
        let [gate_x, up_x] = [2, 3].map(|i| self.act(&drawn(i, ROWS_TRIED * rank), ROWS_TRIED, rank, 1.0));
        let [gate_w, up_w] = [4, 5].map(|i| self.weight(&drawn(i, cols * rank), cols, rank, false));
        let added = Added { gate: [gate_x.address(), gate_w.address()], up: [up_x.address(), up_w.address()], rank };
        let ours = self.gated(&gate, &up, cols, &added);
        let add = |x: &Act, w: &Weight, y: &mut Buf| {
            let strides = [x.stride, w.stride, cols];
            let shape = Shape { kind: Kind::Forward, rows: ROWS_TRIED, n: cols, k: rank, strides, batch: 1, offsets: [0; 3] };
            self.products.multiply(shape, x.address(), w.address(), Put::Add, y.address());
        };
        add(&gate_x, &gate_w, &mut gate);
        add(&up_x, &up_w, &mut up);
        let added_before = self.swiglu(&gate, &up, cols);
        let agrees = self.device.is_same(ours.address(), added_before.address(), ROWS_TRIED * cols / 2);
        locked(&self.agreed).insert((cols, rank), agrees);
        agrees
    }
}

fn takes(low: &Low<'_, Cuda>, rows: usize, rank: usize) -> bool {
    low.rows == (0..rows) && (low.x.cols, low.x.stride) == (rank, rank)
}

fn addresses(low: &Low<'_, Cuda>) -> [Address; 2] {
    [low.x.address(), low.w.address()]
}

fn grid(rows: usize, cols: usize) -> Grid {
    Grid { blocks: (rows.div_ceil(ROWS), cols.div_ceil(COLS)), threads: 128, shared: 0, early: false }
}
