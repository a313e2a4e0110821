//! What adapters add, where it is used.
//!
//! What an adapter adds to a wide matrix takes longer to write and read again than to compute. So gates add it to what they read: the gate
//! and the up that are kept stay those of the model alone, and the backward adds to them again. Everywhere else it is added by a kernel that
//! does nothing but read, add and write, faster than the library's products of so few columns. Both are used where they were seen to give
//! the bits of the library: a row must not depend on who computes it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use super::device::{Grid, args, locked};
use super::library::Address;
use super::product::{Kind, Shape};
use super::{Act, Buf, Cuda, Weight};
use crate::backend::{Backend, Low, Put, add_lows_backward};
use crate::random::Stream;

/// Rows of a block of threads, columns of a block of gates, and of one that only adds, as `kernels/gates.cu` has them.
const ROWS: usize = 64;
const PIECE: usize = 32;
const ADDED: usize = 64;
/// Inner sizes that there are kernels for.
const RANKS: [usize; 4] = [16, 32, 48, 64];
/// Rows of a trial.
const ROWS_TRIED: usize = 80;

/// By outputs and inner size, whether the kernels give the bits of the library.
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
        let Added { gate: [gate_x, gate_w], up: [up_x, up_w], rank } = added;
        let out = self.new_act(gate.len / cols, cols);
        let values = args![gate.address(), up.address(), out.rows, cols, gate_x, gate_w, up_x, up_w, out.address()];
        self.device.launch(&format!("swiglu_low_{rank}"), grid(out.rows, cols, PIECE), values);
        Some(out)
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
        let values = args![gate, up, dh, rows, cols, gate_x, gate_w, up_x, up_w, dh_x, dh_w, to_gate, to_up, stride];
        self.device.launch(&format!("swiglu_low_backward_{rank}"), grid(rows, cols, PIECE), values);
        Some((dgate, dup))
    }

    /// Two matrices side by side.
    pub(super) fn two_acts(&self, rows: usize, cols: usize) -> (Act, Act) {
        let mut two = self.new_acts(rows, &[cols, cols]).into_iter();
        (two.next().expect("the first of two"), two.next().expect("the second of two"))
    }

    /// Adds `x · wᵀ` to rows of a matrix, where our kernel gives the library's bits for it; whether it does.
    pub(super) fn adds_narrow(&self, x: &Act, rows: Range<usize>, w: &Weight, y: Address) -> bool {
        let is_ours = w.cols == x.cols && fits(w.rows, w.cols) && self.agrees(w.rows, w.cols);
        if is_ours {
            let from = x.address() + (rows.start * x.stride * 2) as u64;
            self.add_narrow((from, x.stride), w, w.cols, (y, rows.len(), w.rows), false);
        }
        is_ours
    }

    /// Adds `x · w` to rows of a matrix, where there is a kernel for it; whether there is.
    pub(super) fn adds_narrow_backward(&self, x: (Address, usize), w: &Weight, inner: usize, y: Address, rows: usize) -> bool {
        let is_ours = fits(w.cols, inner);
        if is_ours {
            self.add_narrow(x, w, inner, (y, rows, w.cols), true);
        }
        is_ours
    }

    fn add_narrow(
        &self,
        (x, x_stride): (Address, usize),
        w: &Weight,
        inner: usize,
        (y, rows, cols): (Address, usize, usize),
        is_turned: bool,
    ) {
        let values = args![x, x_stride, w.address(), w.stride, y, rows, cols, usize::from(is_turned)];
        self.device.launch(&format!("add_narrow_{inner}"), grid(rows, cols, ADDED), values);
    }

    /// What is added, where the kernels take it: the same answer for the same adapter, forward and backward.
    fn added(&self, rows: usize, cols: usize, low: &[[Option<Low<'_, Self>>; 2]]) -> Option<Added> {
        let [two] = low else { return None };
        let rank = two.iter().flatten().next()?.w.cols;
        let is_like =
            |low: &Low<'_, Self>| takes(low, rows, rank) && (low.w.rows, low.w.cols, low.w.stride) == (cols, rank, rank);
        if !fits(cols, rank) || !two.iter().flatten().all(is_like) || !self.agrees(cols, rank) {
            return None;
        }
        let [gate, up] = two.each_ref().map(|low| low.as_ref().map_or([0; 2], addresses));
        Some(Added { gate, up, rank })
    }

    /// Whether our kernels give the bits of a product that adds, tried once.
    fn agrees(&self, n: usize, inner: usize) -> bool {
        if let Some(&agrees) = locked(&self.agreed).get(&(n, inner)) {
            return agrees;
        }
        let drawn = |i: u64, len: usize| self.noise(Stream::new(0, i), 1.0, len).expect("a GPU makes noise");
        let x = self.act(&drawn(0, ROWS_TRIED * inner), ROWS_TRIED, inner, 1.0);
        let w = self.weight(&drawn(1, n * inner), n, inner, false);
        let ours = drawn(2, ROWS_TRIED * n);
        let theirs = self.copy(&ours);
        self.add_narrow((x.address(), x.stride), &w, inner, (ours.address(), ROWS_TRIED, n), false);
        let strides = [x.stride, w.stride, n];
        let shape = Shape { kind: Kind::Forward, rows: ROWS_TRIED, n, k: inner, strides, batch: 1, offsets: [0; 3] };
        self.products.multiply(shape, x.address(), w.address(), Put::Add, theirs.address());
        let agrees = self.device.is_same(ours.address(), theirs.address(), ROWS_TRIED * n);
        locked(&self.agreed).insert((n, inner), agrees);
        agrees
    }
}

/// Whether there are kernels for so many outputs of so many inputs.
fn fits(n: usize, inner: usize) -> bool {
    n.is_multiple_of(16) && RANKS.contains(&inner)
}

fn takes(low: &Low<'_, Cuda>, rows: usize, rank: usize) -> bool {
    low.rows == (0..rows) && (low.x.cols, low.x.stride) == (rank, rank)
}

fn addresses(low: &Low<'_, Cuda>) -> [Address; 2] {
    [low.x.address(), low.w.address()]
}

fn grid(rows: usize, cols: usize, per_block: usize) -> Grid {
    Grid { blocks: (cols.div_ceil(per_block), rows.div_ceil(ROWS)), threads: 128, shared: 0, early: false }
}
