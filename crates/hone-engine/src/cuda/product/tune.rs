//! Which of the library's algorithms agree to the bit for a weight, which is fastest for a size of batch, and whether our own
//! products give the same bits.

use super::{Algorithm, Call, Kind, Products, Shape, fits};
use crate::backend::Put;
use crate::cuda::ProductsBy;
use crate::cuda::device::{Grid, args, locked};
use crate::cuda::few::{self, Few, TILES, Then, Way};
use crate::cuda::library::Address;
use crate::cuda::memory::Memory;
use crate::cuda::wide;

/// Algorithms asked for per size of batch.
const OFFERS: usize = 16;
/// Rows with which algorithms are compared.
const COMPARED: usize = 256;
/// Sizes of batch with a choice of their own; more rows than the last take the last's.
const SIZES: [usize; 7] = [16, 64, 128, 256, 512, 2048, 8192];
/// Up to so many rows, tiles are tried that the library does not offer, for weights that are at least so wide either way.
const VARIED_ROWS_MAX: usize = 512;
const VARIED_WIDTH_MIN: usize = 256;
/// Outputs of a tile, and the library's numbers for tiles of so many outputs and 64 or 128 rows.
const WIDTHS: [(usize, [u32; 2]); 22] = [
    (24, [59, 60]),
    (32, [12, 14]),
    (40, [80, 81]),
    (48, [92, 93]),
    (56, [104, 105]),
    (64, [15, 17]),
    (72, [124, 125]),
    (80, [134, 135]),
    (88, [143, 144]),
    (96, [27, 28]),
    (104, [157, 158]),
    (112, [164, 165]),
    (120, [170, 171]),
    (128, [18, 20]),
    (136, [178, 179]),
    (144, [183, 184]),
    (152, [188, 189]),
    (160, [193, 30]),
    (168, [196, 197]),
    (176, [200, 201]),
    (184, [204, 205]),
    (192, [208, 31]),
];
/// The library's numbers for clusters of 1×1, 2×1 and 1×2 blocks.
const CLUSTERS: [u16; 3] = [2, 3, 5];
/// Results that are tried with are no more than this, however wide the weight.
const TRIED_MAX: usize = 1 << 28;
/// Runs of which the mean is taken.
const TIMED: usize = 8;

/// What was found out about a weight's shape.
#[derive(Clone, Debug)]
pub(super) struct Tuned {
    by_size: [Algorithm; SIZES.len()],
    /// Whether our own products give the same bits.
    few_agree: bool,
    pub(super) n_agree: usize,
    pub(super) n_tried: usize,
}

impl Tuned {
    /// The fastest algorithm for so many rows.
    pub(super) fn fastest(&self, rows: usize) -> Algorithm {
        self.by_size[SIZES.iter().position(|&size| rows <= size).unwrap_or(SIZES.len() - 1)]
    }
}

impl Products {
    /// Whether our own products of this weight give the bits of the library's.
    pub(in crate::cuda) fn few_agree(&self, shape: &Shape, right: Address) -> bool {
        fits(shape) && (self.by == ProductsBy::Ours || self.tuned(shape, right).is_some_and(|tuned| tuned.few_agree))
    }

    /// Tries the library's algorithms on this weight, once per shape.
    pub(super) fn tuned(&self, shape: &Shape, right: Address) -> Option<Tuned> {
        let key = (shape.kind, shape.n, shape.k, shape.strides[1]);
        let known = locked(&self.tuned).get(&key).cloned();
        known.unwrap_or_else(|| {
            let tuned = self.tune(shape, right);
            locked(&self.tuned).insert(key, tuned.clone());
            tuned
        })
    }

    fn tune(&self, shape: &Shape, right: Address) -> Option<Tuned> {
        let bounded = |rows: usize| rows.min((TRIED_MAX / shape.strides[2].max(shape.strides[0])).max(SIZES[0]));
        let of_rows = |rows: usize| Shape { rows: bounded(rows), ..*shape };
        let mut offers =
            SIZES.map(|rows| self.offers(&of_rows(rows), OFFERS).into_iter().map(|offer| offer.algorithm).collect::<Vec<_>>());
        let wide = shape.kind == Kind::Forward && shape.n.min(shape.k) >= VARIED_WIDTH_MIN;
        if let Some(like) = offers.iter().flatten().copied().find(|algorithm| wide && self.has_widths(algorithm)) {
            for (offers, rows) in offers.iter_mut().zip(SIZES).filter(|(_, rows)| *rows <= VARIED_ROWS_MAX) {
                offers.extend(self.varied(&of_rows(rows), like));
            }
        }
        let mut all: Vec<Algorithm> = Vec::new();
        for &algorithm in offers.iter().flatten() {
            if !all.contains(&algorithm) {
                all.push(algorithm);
            }
        }
        let largest = bounded(SIZES[SIZES.len() - 1]).max(bounded(COMPARED));
        let left = self.noise(largest * shape.strides[0]);
        let out = self.device.memory(largest * shape.strides[2] * 4);
        let (agreeing, few_agree) = self.agreeing(&of_rows(COMPARED), &all, left.address(), right);
        let first = *agreeing.first()?;
        let mut by_size = [first; SIZES.len()];
        for (size, &rows) in SIZES.iter().enumerate() {
            let shape = of_rows(rows);
            let layouts = self.layouts(&shape).map(|layout| layout as usize);
            let addresses = [left.address(), right, out.address()];
            let mut best_ms = f32::MAX;
            for &algorithm in offers[size].iter().filter(|algorithm| agreeing.contains(algorithm)) {
                let call = Call { layouts, algorithm };
                let run = || self.try_run(&shape, &call, addresses, Put::Set);
                let timed = |_| {
                    run();
                };
                let ms = if run() == 0 { self.device.mean_ms(TIMED, timed) } else { f32::MAX };
                if ms < best_ms {
                    (best_ms, by_size[size]) = (ms, algorithm);
                }
            }
            self.forget(layouts);
        }
        Some(Tuned { by_size, few_agree, n_agree: agreeing.len(), n_tried: all.len() })
    }

    /// Whether an algorithm says that it has all of the tiles that are tried.
    fn has_widths(&self, algorithm: &Algorithm) -> bool {
        let tiles = self.tiles(algorithm);
        WIDTHS.iter().flat_map(|(_, numbers)| numbers).all(|number| tiles.contains(number))
    }

    /// Algorithms like this one with the smallest tiles that the multiprocessors compute in as few rounds as any, or in one more.
    fn varied(&self, shape: &Shape, like: Algorithm) -> Vec<Algorithm> {
        let mut varied = Vec::new();
        for (which, rows) in [64, 128].into_iter().enumerate() {
            let rounds = |width: usize| (shape.n.div_ceil(width) * shape.rows.div_ceil(rows)).div_ceil(self.device.n_processors);
            let fewest = rounds(WIDTHS[WIDTHS.len() - 1].0);
            let tiles = [fewest, fewest + 1].map(|n| WIDTHS.iter().find(|(width, _)| rounds(*width) <= n));
            for (_, numbers) in tiles.into_iter().flatten() {
                varied.extend(CLUSTERS.iter().filter_map(|&cluster| self.like(shape, like, numbers[which], cluster)));
            }
        }
        varied
    }

    /// The largest set of algorithms that give the same bits, of those led by one of the first offers, and whether our own products
    /// give the same.
    fn agreeing(&self, shape: &Shape, offers: &[Algorithm], left: Address, right: Address) -> (Vec<Algorithm>, bool) {
        let layouts = self.layouts(shape).map(|layout| layout as usize);
        let len = shape.rows * shape.strides[2];
        let [first, second] = [(), ()].map(|()| self.device.memory(len * 4));
        [&first, &second].iter().for_each(|memory| self.device.clear(memory.address(), len * 4));
        let run = |algorithm: Algorithm, out: &Memory| {
            self.try_run(shape, &Call { layouts, algorithm }, [left, right, out.address()], Put::Set) == 0
        };
        let same_rows = |rows: usize| self.device.is_same(first.address(), second.address(), rows * shape.strides[2]);
        let mut best = Vec::new();
        for &leader in offers.iter().take(4) {
            if !run(leader, &first) {
                continue;
            }
            let agrees = |algorithm: &&Algorithm| run(**algorithm, &second) && same_rows(shape.rows);
            let agreeing: Vec<Algorithm> = offers.iter().filter(agrees).copied().collect();
            if agreeing.len() > best.len() {
                best = agreeing;
            }
            if 2 * best.len() > offers.len() {
                break;
            }
        }
        let few_agree = shape.kind == Kind::Forward
            && few::fits(shape.n, Then::Set)
            && best.first().is_some_and(|&leader| {
                run(leader, &first);
                let few = few_of(shape, [left, right, second.address()]);
                let agrees = |rows: usize, run: &dyn Fn(&Few)| {
                    self.device.clear(second.address(), len * 4);
                    run(&Few { rows: rows as i32, ..few });
                    same_rows(rows)
                };
                let tile_agrees = |tile| agrees(shape.rows, &|few| few.run(&self.device, Way { tile, n_each: 1 }, Then::Set));
                let wide_agree = |rows: usize| {
                    let ways = wide::ways(&Few { rows: rows as i32, ..few }, &self.device, Then::Set);
                    ways.into_iter().all(|way| agrees(rows, &|few| way.run(few, &self.device, Then::Set)))
                };
                TILES.iter().all(tile_agrees) && [shape.rows, 64, 32, 16, 8].into_iter().all(wide_agree)
            });
        self.forget(layouts);
        (best, few_agree)
    }

    /// Random numbers in bf16.
    fn noise(&self, len: usize) -> Memory {
        let memory = self.device.memory(len * 2);
        self.device.launch("noise", Grid::each(len), args![memory.address(), len]);
        memory
    }
}

/// A forward product as our own.
pub(super) fn few_of(shape: &Shape, [x, w, y]: [Address; 3]) -> Few {
    let [x_stride, w_stride, y_stride] = shape.strides.map(|stride| stride as i32);
    let (rows, n, k) = (shape.rows as i32, shape.n as i32, shape.k as i32);
    Few { x, w, y, rows, n, k, x_stride, w_stride, y_stride, ..Few::default() }
}
