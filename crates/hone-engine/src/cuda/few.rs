//! Our own products of few rows, as decoding needs them: see `kernels/decode.cu`.

use std::fmt;
use std::sync::Arc;

use super::Summed;
use super::compile::Code;
use super::device::{Device, Grid};

/// Steps of the inner dimension of one stage, and elements from row to row of it, as in the kernels.
const DEPTH: usize = 64;
const ROW: usize = DEPTH + 8;
/// Columns of a tile for low-rank parts, as in the kernels.
const EXTRA: usize = 32;
/// Widest input that is normed with the product: as much as a warp may hold of a row.
const NORMED_MAX: usize = 1024;

/// What happens to a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// A product, as the kernels read it. Its input is `x`, or with a `stream` the norm of that one; its low-rank part is read from `low`,
/// or computed on the way with `a`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Few {
    pub(super) x: u64,
    pub(super) w: u64,
    pub(super) low: u64,
    pub(super) a: u64,
    pub(super) stream: u64,
    pub(super) gain: u64,
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
    /// Tiles that one block computes in a row.
    pub(super) n_each: i32,
    pub(super) scale: f32,
    pub(super) eps: f32,
    /// Stages of a part and of a run of it: see `stages_of`.
    pub(super) part: i32,
    pub(super) run: i32,
}

/// A size of tile, with the names of its kernels: plain, of a norm, in parts, and each of these with an adapter.
#[derive(Debug)]
pub(super) struct Tile {
    names: [[&'static str; 2]; 3],
    rows: usize,
    cols: usize,
    threads: usize,
    n_stages: usize,
    /// Batches of more rows have larger tiles.
    rows_max: usize,
}

macro_rules! tile {
    ($name:literal, $rows:literal, $cols:literal, $threads:literal, $n_stages:literal, $rows_max:expr) => {
        Tile {
            names: [
                [$name, concat!($name, "_low")],
                [concat!($name, "_normed"), concat!($name, "_normed_low")],
                [concat!($name, "_parts"), concat!($name, "_parts_low")],
            ],
            rows: $rows,
            cols: $cols,
            threads: $threads,
            n_stages: $n_stages,
            rows_max: $rows_max,
        }
    };
}

/// The sizes of tile that the kernels have, larger ones first.
pub(super) static TILES: [Tile; 4] = [
    tile!("few_large", 64, 64, 256, 5, usize::MAX),
    tile!("few_middle", 32, 64, 256, 5, usize::MAX),
    tile!("few_narrow", 32, 32, 128, 8, usize::MAX),
    tile!("few_small", 16, 32, 64, 10, 64),
];

/// True when the kernels take this shape.
pub(super) fn fits(n: usize, then: Then) -> bool {
    n.is_multiple_of(if then == Then::Gate { 16 } else { 8 })
}

/// How many stages a part of `k` inputs and a run of it have: none when all inputs are one run, nothing where the kernels do not take such parts.
pub(super) fn stages_of(Summed { part, run }: Summed, k: usize, then: Then) -> Option<[i32; 2]> {
    let is_even = run.is_multiple_of(DEPTH) && part.is_multiple_of(run) && k.is_multiple_of(part);
    if run >= k { Some([0; 2]) } else { (then == Then::Add && is_even).then_some([part, run].map(|n| (n / DEPTH) as i32)) }
}

/// True when the kernels take the norm of rows of this width.
pub(super) fn norms(cols: usize) -> bool {
    cols <= NORMED_MAX && cols.is_multiple_of(4)
}

/// How a product is computed: its tile, and how many of them one block computes in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) tile: &'static Tile,
    pub(super) n_each: usize,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tile.names[0][0], self.n_each)
    }
}

impl Few {
    /// The ways in which it can be computed on this GPU, one for each tile, those first that should take the least time.
    pub(super) fn ways(&self, device: &Device) -> Vec<Way> {
        let fitting = TILES.iter().filter(|tile| (self.rows as usize) <= tile.rows_max && self.shared(tile) <= device.shared_max);
        let time = |way: &Way| self.time(*way, device.n_processors);
        let each = fitting.filter_map(|tile| {
            let n_each_max = if self.stream == 0 { 1 } else { self.n_tiles(tile).min(16) };
            (1..=n_each_max).map(|n_each| Way { tile, n_each }).min_by(|a, b| time(a).total_cmp(&time(b)))
        });
        let mut ways: Vec<Way> = each.collect();
        ways.sort_by(|a, b| time(a).total_cmp(&time(b)));
        ways
    }

    /// Runs the product.
    pub(super) fn run(mut self, device: &Arc<Device>, Way { tile, n_each }: Way, then: Then) {
        (self.mode, self.n_each) = (then as i32, n_each as i32);
        let of_input = if self.part > 0 { 2 } else { usize::from(self.stream != 0) };
        let name = tile.names[of_input][usize::from(self.a != 0)];
        let blocks = (self.n_tiles(tile).div_ceil(n_each), (self.rows as usize).div_ceil(tile.rows));
        device.launch_with(
            Code::Rows,
            name,
            Grid { blocks, threads: tile.threads, shared: self.shared(tile), early: true },
            &mut self,
        );
    }

    /// Whether the low-rank part of this rank can be computed on the way: its columns have room beside a tile's, and no tile has outputs
    /// of two adapters but with a gate.
    pub(super) fn takes_low(&self, rank: usize, then: Then) -> bool {
        let aligned = self.stretches.iter().all(|stretch| stretch.b == 0 || stretch.end % 64 == 0 || stretch.end == self.n);
        if then == Then::Gate { 2 * rank <= EXTRA } else { rank <= EXTRA && aligned }
    }

    /// Tiles in a row of outputs.
    fn n_tiles(&self, tile: &Tile) -> usize {
        (self.n as usize).div_ceil(tile.cols)
    }

    /// What a multiprocessor has to fetch, relative to others: the kernels wait for memory, not for products.
    fn time(&self, Way { tile, n_each }: Way, n_processors: usize) -> f32 {
        let n_blocks = self.n_tiles(tile).div_ceil(n_each) * (self.rows as usize).div_ceil(tile.rows);
        let rows = tile.rows.min(self.rows as usize) * if self.stream == 0 { 1 } else { 2 };
        (n_blocks as f32 / n_processors as f32).max(1.0) * (n_each * tile.cols + rows) as f32
    }

    /// Bytes of shared memory of a block.
    fn shared(&self, tile: &Tile) -> usize {
        let extra = if self.a == 0 { 0 } else { EXTRA };
        let low = if self.a == 0 { 0 } else { tile.rows * (EXTRA + 8) * 2 };
        let normed = (tile.rows.min(self.rows as usize) + 1) * ((self.k as usize).next_multiple_of(DEPTH) + 8) * 2;
        let (resident, streamed) = if self.stream == 0 { (0, tile.rows) } else { (normed, 0) };
        resident + low + tile.n_stages * (streamed + tile.cols + extra) * ROW * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_runs_have_whole_stages_and_are_added() {
        let check = |part: usize, run: usize, k: usize, then: Then, expected: Option<[i32; 2]>| {
            assert_eq!(stages_of(Summed { part, run }, k, then), expected);
        };
        check(192, 64, 576, Then::Add, Some([3, 1]));
        check(256, 128, 1536, Then::Add, Some([4, 2]));
        check(64, 64, 576, Then::Add, Some([1, 1]));
        check(256, 128, 256, Then::Add, Some([4, 2]));
        check(576, 576, 576, Then::Set, Some([0, 0]));
        check(64, 64, 64, Then::Gate, Some([0, 0]));
        check(192, 64, 576, Then::Set, None);
        check(192, 96, 576, Then::Add, None);
        check(192, 128, 576, Then::Add, None);
        check(128, 64, 576, Then::Add, None);
    }
}
