//! The two forms a product consumes: activations row by row, weights in panels of sixteen columns.
//!
//! A panel holds, for its sixteen output columns, all of k: in f32 as `[k][16]`, in bf16 as `[k/2][16][2]` (pairs of
//! k side by side, what the dot-product instructions read). Columns are padded to 32 and k to 32 with zeros, which add
//! nothing. Knows nothing of products.
#![expect(unsafe_code, reason = "threads write disjoint pieces of one matrix")]

use std::sync::Arc;
use std::sync::OnceLock;

use super::aligned::{Aligned, Arena};
use super::isa::{Isa, versions};
use super::lanes::{from_bf16, to_bf16};
use super::pool::{Pool, Shares};
use crate::backend::Dtype;

/// Columns per panel.
pub(crate) const PANEL: usize = 16;
/// Panels come in pairs, k in steps of this.
pub(crate) const STEP: usize = 32;
/// A width, in numbers, at which rows compete for the same places of a cache.
const SAME_PLACE: usize = 512;
/// Spare rows behind an activation, so that a tile may read past the last row.
const SPARE_ROWS: usize = 32;

/// Numbers in one of the two types.
#[derive(Debug)]
pub(crate) enum Numbers {
    F32(Aligned<f32>),
    Bf16(Aligned<u16>),
}

/// The right-hand side of a product: `cols` outputs, each a sum over `k`.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) cols: usize,
    pub(crate) k: usize,
    pub(crate) k_padded: usize,
    pub(crate) data: Numbers,
}

impl Panels {
    fn new(dtype: Dtype, cols: usize, k: usize, arena: Option<&Arc<Arena>>) -> Self {
        let (cols_padded, k_padded) = (cols.next_multiple_of(STEP), k.next_multiple_of(STEP));
        let len = cols_padded * k_padded;
        let data = match (dtype, arena) {
            (Dtype::F32, None) => Numbers::F32(Aligned::lasting(len)),
            (Dtype::Bf16, None) => Numbers::Bf16(Aligned::lasting(len)),
            (Dtype::F32, Some(arena)) => Numbers::F32(arena.take(len)),
            (Dtype::Bf16, Some(arena)) => Numbers::Bf16(arena.take(len)),
        };
        Self { cols, k, k_padded, data }
    }

    /// A weight `[n, k]`, row-major, for `x · wᵀ`.
    pub(crate) fn of_rows(pool: &Pool, dtype: Dtype, values: &[f32], n: usize, k: usize) -> Self {
        assert_eq!(values.len(), n * k);
        let mut panels = Self::new(dtype, n, k, None);
        let panel_len = PANEL * panels.k_padded;
        let row = |col: usize| values.get(col * k..(col + 1) * k).unwrap_or(&[]);
        match &mut panels.data {
            Numbers::F32(data) => pool.pieces(data, panel_len, &|panel, out| {
                let rows: [&[f32]; PANEL] = std::array::from_fn(|col| row(panel * PANEL + col));
                for (i, out) in out.chunks_exact_mut(PANEL).enumerate() {
                    for (out, row) in out.iter_mut().zip(&rows) {
                        *out = row.get(i).copied().unwrap_or(0.0);
                    }
                }
            }),
            Numbers::Bf16(data) => pool.pieces(data, panel_len, &|panel, out| {
                let rows: [&[f32]; PANEL] = std::array::from_fn(|col| row(panel * PANEL + col));
                for (pair, out) in out.chunks_exact_mut(2 * PANEL).enumerate() {
                    for (out, row) in out.chunks_exact_mut(2).zip(&rows) {
                        let at = |i: usize| row.get(i).map_or(0, |&x| to_bf16(x));
                        (out[0], out[1]) = (at(2 * pair), at(2 * pair + 1));
                    }
                }
            }),
        }
        panels
    }

    /// The transpose of this matrix: what was summed over becomes the outputs.
    pub(crate) fn transposed(&self, pool: &Pool) -> Self {
        let (from_len, n_from) = (PANEL * self.k_padded, self.cols);
        match &self.data {
            Numbers::F32(from) => {
                let mut panels = Self::new(Dtype::F32, self.k, self.cols, None);
                let to_len = PANEL * panels.k_padded;
                if let Numbers::F32(to) = &mut panels.data {
                    pool.pieces(to, to_len, &|panel, to| {
                        for (i, to) in to.chunks_exact_mut(PANEL).enumerate().take(n_from) {
                            for (col, to) in to.iter_mut().enumerate() {
                                let k = panel * PANEL + col;
                                let at = i / PANEL * from_len + k * PANEL + i % PANEL;
                                *to = if k < self.k { from[at] } else { 0.0 };
                            }
                        }
                    });
                }
                panels
            }
            Numbers::Bf16(from) => {
                let mut panels = Self::new(Dtype::Bf16, self.k, self.cols, None);
                let to_len = PANEL * panels.k_padded;
                if let Numbers::Bf16(to) = &mut panels.data {
                    pool.pieces(to, to_len, &|panel, to| {
                        // Sixteen old columns give eight rows of pairs; old and new padding are both zero.
                        for (block, to) in to.chunks_exact_mut(PANEL * PANEL).enumerate().take(n_from.div_ceil(PANEL)) {
                            let from = &from[block * from_len..(block + 1) * from_len];
                            for col in 0..PANEL {
                                let k = panel * PANEL + col;
                                if k >= self.k {
                                    continue;
                                }
                                let from = &from[k / 2 * 2 * PANEL..][..2 * PANEL];
                                for (pair, to) in to.chunks_exact_mut(2 * PANEL).enumerate() {
                                    to[2 * col] = from[4 * pair + k % 2];
                                    to[2 * col + 1] = from[4 * pair + 2 + k % 2];
                                }
                            }
                        }
                    });
                }
                panels
            }
        }
    }

    /// The element of output `col` at `k = i`.
    pub(crate) fn at(&self, col: usize, i: usize) -> f32 {
        let panel = col / PANEL * PANEL * self.k_padded;
        match &self.data {
            Numbers::F32(data) => data[panel + i * PANEL + col % PANEL],
            Numbers::Bf16(data) => from_bf16(data[panel + i / 2 * 2 * PANEL + col % PANEL * 2 + i % 2]),
        }
    }
}

/// A matrix of activations: rows padded in width, with spare rows behind.
#[derive(Debug)]
pub struct Act {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) stride: usize,
    pub(crate) data: Numbers,
    /// This matrix as the right-hand side of a sum over rows, made when a weight gradient first asks for it.
    by_rows: OnceLock<Panels>,
    /// This matrix turned, likewise.
    turned: OnceLock<Box<Act>>,
}

impl Act {
    /// A matrix with unspecified contents and zero padding columns.
    pub(crate) fn new(dtype: Dtype, rows: usize, cols: usize, arena: &Arc<Arena>) -> Self {
        let mut stride = cols.next_multiple_of(STEP);
        // Rows that begin a power of two apart fall into the same few places of a cache, and push each other out.
        if stride.is_multiple_of(SAME_PLACE) {
            stride += STEP;
        }
        let len = (rows + SPARE_ROWS) * stride;
        let data = match dtype {
            Dtype::F32 => Numbers::F32(arena.take(len)),
            Dtype::Bf16 => Numbers::Bf16(arena.take(len)),
        };
        Self { rows, cols, stride, data, by_rows: OnceLock::new(), turned: OnceLock::new() }
    }

    /// This matrix packed for sums over its rows: `cols` outputs, `k` = rows.
    pub(crate) fn by_rows(&self, pool: &Pool, arena: &Arc<Arena>) -> &Panels {
        self.by_rows.get_or_init(|| match &self.data {
            Numbers::F32(data) => {
                let mut panels = Panels::new(Dtype::F32, self.cols, self.rows, Some(arena));
                let panel_len = PANEL * panels.k_padded;
                if let Numbers::F32(out) = &mut panels.data {
                    pool.pieces(out, panel_len, &|panel, out| {
                        let col0 = panel * PANEL;
                        for (row, out) in out.chunks_exact_mut(PANEL).enumerate() {
                            if row < self.rows && col0 < self.stride {
                                out.copy_from_slice(&data[row * self.stride + col0..][..PANEL]);
                            } else {
                                out.fill(0.0);
                            }
                        }
                    });
                }
                panels
            }
            Numbers::Bf16(data) => self.pairs_of_rows(data, pool, arena),
        })
    }

    /// One item packs 32 rows: each panel gets one kibibyte in one piece.
    fn pairs_of_rows(&self, data: &[u16], pool: &Pool, arena: &Arc<Arena>) -> Panels {
        let mut panels = Panels::new(Dtype::Bf16, self.cols, self.rows, Some(arena));
        let panel_len = PANEL * panels.k_padded;
        let (n_items, piece) = (panels.k_padded / STEP, STEP * PANEL);
        if let Numbers::Bf16(out) = &mut panels.data {
            let n_panels = out.len() / panel_len;
            let out = Shares(out.as_mut_ptr());
            pool.run(n_items, &|item| {
                for panel in 0..n_panels {
                    // SAFETY: piece `item` of panel `panel` lies inside the panels, and each item has its own piece of
                    // every panel.
                    let out = unsafe { out.part(panel * panel_len + item * piece, piece) };
                    self.interleave(data, item * STEP, panel * PANEL, out);
                }
            });
        }
        panels
    }

    /// Sixteen columns of 32 rows as pairs of rows; what lies outside the matrix is zero.
    fn interleave(&self, data: &[u16], row0: usize, col0: usize, out: &mut [u16]) {
        for (pair, out) in out.chunks_exact_mut(2 * PANEL).enumerate() {
            let row = row0 + 2 * pair;
            // Rows are padded to whole panels with zeros, so sixteen columns are readable wherever one is.
            let line = |row: usize| -> &[u16] {
                if row < self.rows && col0 < self.stride { &data[row * self.stride + col0..][..PANEL] } else { &[0; PANEL] }
            };
            let (even, odd) = (line(row), line(row + 1));
            for i in 0..PANEL {
                out[2 * i] = even[i];
                out[2 * i + 1] = odd[i];
            }
        }
    }

    /// This matrix turned: `cols` rows of `rows` numbers.
    pub(crate) fn turned(&self, isa: Isa, pool: &Pool, arena: &Arc<Arena>) -> &Self {
        self.turned.get_or_init(|| {
            let dtype = if matches!(self.data, Numbers::F32(_)) { Dtype::F32 } else { Dtype::Bf16 };
            let mut out = Self::new(dtype, self.cols, self.rows, arena);
            let (stride, rows) = (out.stride, out.rows);
            match (&self.data, &mut out.data) {
                (Numbers::F32(from), Numbers::F32(to)) => {
                    pool.pieces(&mut to[..rows * stride], PANEL * stride, &|item, to| {
                        turn(from, self.stride, self.rows, item * PANEL, stride, to);
                    });
                }
                (Numbers::Bf16(from), Numbers::Bf16(to)) => {
                    pool.pieces(&mut to[..rows * stride], PANEL * stride, &|item, to| {
                        turn_bf16(isa, from, self.stride, self.rows, item * PANEL, stride, to);
                    });
                }
                _ => unreachable!("both sides have the same type"),
            }
            Box::new(out)
        })
    }
}

/// Writes columns `col0..` of `from` as rows of `to`, padded with zeros, 32 rows of `from` at a time.
fn turn(from: &[f32], from_stride: usize, n_from: usize, col0: usize, stride: usize, to: &mut [f32]) {
    let n_cols = to.len() / stride;
    let mut square = [[0.0; STEP]; PANEL];
    for row0 in (0..stride).step_by(STEP) {
        for i in 0..STEP {
            // Rows of `from` are padded to whole panels, so sixteen columns are always readable.
            let line = from.get((row0 + i) * from_stride + col0..).filter(|_| row0 + i < n_from);
            for (col, square) in square.iter_mut().enumerate() {
                square[i] = line.map_or(0.0, |line| line[col]);
            }
        }
        for (square, to) in square.iter().zip(to.chunks_exact_mut(stride)).take(n_cols) {
            to[row0..row0 + STEP].copy_from_slice(square);
        }
    }
}

versions! {
    /// The same for bf16. Two rows side by side are sixteen words of 32 bits, and sixteen such pairs a square, which is
    /// turned by swapping its corners, then theirs, and so on.
    fn turn_bf16 = turn_bf16_any(from: &[u16], from_stride: usize, n_from: usize, col0: usize, stride: usize, to: &mut [u16])
}

#[inline(always)]
fn turn_bf16_any<const FMA: bool>(from: &[u16], from_stride: usize, n_from: usize, col0: usize, stride: usize, to: &mut [u16]) {
    let n_cols = to.len() / stride;
    let line = |row: usize| -> [u16; PANEL] {
        let mut line = [0; PANEL];
        if row < n_from {
            line.copy_from_slice(&from[row * from_stride + col0..][..PANEL]);
        }
        line
    };
    for row0 in (0..stride).step_by(STEP) {
        let mut square = [[0u32; PANEL]; PANEL];
        for (pair, square) in square.iter_mut().enumerate() {
            let (even, odd) = (line(row0 + 2 * pair), line(row0 + 2 * pair + 1));
            for i in 0..PANEL {
                square[i] = u32::from(even[i]) | u32::from(odd[i]) << 16;
            }
        }
        swap_corners::<8>(&mut square);
        swap_corners::<4>(&mut square);
        swap_corners::<2>(&mut square);
        swap_corners::<1>(&mut square);
        for (square, to) in square.iter().zip(to.chunks_exact_mut(stride)).take(n_cols) {
            for (to, &pair) in to[row0..row0 + STEP].chunks_exact_mut(2).zip(square) {
                (to[0], to[1]) = (pair as u16, (pair >> 16) as u16);
            }
        }
    }
}

/// In every square of `2·S`, the upper right and the lower left quarter change places.
#[inline(always)]
fn swap_corners<const S: usize>(square: &mut [[u32; PANEL]; PANEL]) {
    for i in 0..PANEL {
        if i & S != 0 {
            continue;
        }
        let (upper, lower) = (square[i], square[i + S]);
        for j in 0..PANEL {
            if j & S == 0 {
                square[i][j + S] = lower[j];
            } else {
                square[i + S][j - S] = upper[j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_moves_every_number_to_its_place() {
        for isa in Isa::available() {
            for (n_rows, n_cols) in [(1, 1), (31, 16), (32, 17), (70, 40)] {
                let (from_stride, stride) = (usize::next_multiple_of(n_cols, STEP), usize::next_multiple_of(n_rows, STEP));
                let from: Vec<u16> = (0..n_rows * from_stride).map(|i| i as u16 + 1).collect();
                for col0 in (0..n_cols).step_by(PANEL) {
                    let n_turned = PANEL.min(n_cols - col0);
                    let mut to = vec![9; n_turned * stride];
                    turn_bf16(isa, &from, from_stride, n_rows, col0, stride, &mut to);
                    for (col, to) in to.chunks_exact(stride).enumerate() {
                        let expected = |row: usize| if row < n_rows { from[row * from_stride + col0 + col] } else { 0 };
                        assert!(to.iter().enumerate().all(|(row, &x)| x == expected(row)), "{isa:?} {n_rows}x{n_cols} {col0}");
                    }
                }
            }
        }
    }
}
