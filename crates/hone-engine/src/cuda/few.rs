//! Our own products of few rows, as decoding needs them: see `kernels/decode.cu`.

use std::sync::Arc;

use super::device::{Device, Grid};

/// Columns of a tile, as in the kernels.
const TILE_COLS: usize = 64;
/// From so many tiles on, large ones keep the multiprocessors busy.
const TILES_ENOUGH: usize = 100;

/// What happens to a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is written.
    Set,
    /// It is added to what is there.
    Add,
    /// The first half of the outputs are gates of the second: `silu(gate)·up` is written, rounded.
    Gate,
    /// It is scaled, rounded and written.
    Round,
}

/// A stretch of the outputs and its adapter, as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    /// The adapter's second matrix; 0 for none.
    pub(super) b: u64,
    /// The stretch ends before this output.
    pub(super) end: i32,
    /// Where its part of a low row begins.
    pub(super) from: i32,
}

/// A product, as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Few {
    pub(super) x: u64,
    pub(super) w: u64,
    pub(super) low: u64,
    pub(super) y: u64,
    pub(super) act: u64,
    pub(super) stretches: [Stretch; 3],
    pub(super) rows: i32,
    pub(super) n: i32,
    pub(super) k: i32,
    pub(super) x_stride: i32,
    pub(super) w_stride: i32,
    pub(super) y_stride: i32,
    pub(super) mode: i32,
    pub(super) rank: i32,
    pub(super) low_stride: i32,
    pub(super) scale: f32,
}

/// A size of tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tile {
    /// Sixteen rows.
    Small,
    /// Thirty-two.
    Middle,
    /// Sixty-four.
    Large,
}

impl Tile {
    /// The one for so many rows and outputs.
    pub(super) fn fitting(rows: usize, n: usize) -> Self {
        match rows {
            0..=16 => Self::Small,
            _ if rows.div_ceil(64) * n.div_ceil(TILE_COLS) >= TILES_ENOUGH => Self::Large,
            _ => Self::Middle,
        }
    }
}

/// True when the kernels take this shape.
pub(super) fn fits(n: usize, then: Then) -> bool {
    n.is_multiple_of(if then == Then::Gate { 16 } else { 8 })
}

impl Few {
    /// Runs the product.
    pub(super) fn run(mut self, device: &Arc<Device>, tile: Tile, then: Then) {
        self.mode = then as i32;
        let (name, rows, n_stages) = match tile {
            Tile::Small => ("few_small", 16, 8),
            Tile::Middle => ("few_middle", 32, 6),
            Tile::Large => ("few_large", 64, 5),
        };
        let shared = n_stages * (rows + TILE_COLS) * (64 + 8) * 2;
        let blocks = ((self.n as usize).div_ceil(TILE_COLS), (self.rows as usize).div_ceil(rows));
        device.launch_with(name, Grid { blocks, threads: 128, shared, early: true }, &mut self);
    }
}
