//! Which of the library's algorithms agree to the bit for a weight, which is fastest for a size of batch, and whether our own
//! products give the same bits.

use super::{Algorithm, Call, Kind, Products, Shape, fits};
use crate::backend::Put;
use crate::cuda::device::{Grid, args, locked};
use crate::cuda::few::{self, Few, TILES, Then, Way};
use crate::cuda::library::Address;
use crate::cuda::memory::Memory;

/// Algorithms asked for per size of batch.
const OFFERS: usize = 16;
/// Rows with which algorithms are compared.
const COMPARED: usize = 256;
/// Sizes of batch with a choice of their own; more rows than the last take the last's.
const SIZES: [usize; 7] = [16, 64, 128, 256, 512, 2048, 8192];
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
        fits(shape) && self.tuned(shape, right).is_some_and(|tuned| tuned.few_agree)
    }

    /// Tries the library's algorithms on this weight, once per shape.
    pub(super) fn tuned(&self, shape: &Shape, right: Address) -> Option<Tuned> {
        let key = (shape.kind, shape.n, shape.k, shape.strides[1]);
        if let Some(tuned) = locked(&self.tuned).get(&key) {
            return Some(tuned.clone());
        }
        let bounded = |rows: usize| rows.min((TRIED_MAX / shape.strides[2].max(shape.strides[0])).max(SIZES[0]));
        let of_rows = |rows: usize| Shape { rows: bounded(rows), ..*shape };
        let offers =
            SIZES.map(|rows| self.offers(&of_rows(rows), OFFERS).into_iter().map(|offer| offer.algorithm).collect::<Vec<_>>());
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
        let tuned = Tuned { by_size, few_agree, n_agree: agreeing.len(), n_tried: all.len() };
        locked(&self.tuned).insert(key, tuned.clone());
        Some(tuned)
    }

    /// The largest set of algorithms that give the same bits, of those led by one of the first offers, and whether our own products
    /// give the same.
    fn agreeing(&self, shape: &Shape, offers: &[Algorithm], left: Address, right: Address) -> (Vec<Algorithm>, bool) {
        let layouts = self.layouts(shape).map(|layout| layout as usize);
        let len = shape.rows * shape.strides[2];
        let [first, second] = [(), ()].map(|()| self.device.memory(len * 4));
        [&first, &second].iter().for_each(|memory| self.device.clear(memory.address(), len * 4));
        let differs = self.device.memory(4);
        let run = |algorithm: Algorithm, out: &Memory| {
            self.try_run(shape, &Call { layouts, algorithm }, [left, right, out.address()], Put::Set) == 0
        };
        let same = |first: &Memory, second: &Memory| {
            self.device.clear(differs.address(), 4);
            let sides = args![first.address(), second.address(), len, differs.address()];
            self.device.launch("differs", Grid::each(len), sides);
            self.device.read::<u32>(differs.address(), 1) == [0]
        };
        let mut best = Vec::new();
        for &leader in offers.iter().take(4) {
            if !run(leader, &first) {
                continue;
            }
            let agrees = |algorithm: &&Algorithm| run(**algorithm, &second) && same(&first, &second);
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
                TILES.iter().all(|tile| {
                    self.device.clear(second.address(), len * 4);
                    few_of(shape, [left, right, second.address()]).run(&self.device, Way { tile, n_each: 1 }, Then::Set);
                    same(&first, &second)
                })
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
fn few_of(shape: &Shape, [x, w, y]: [Address; 3]) -> Few {
    let [x_stride, w_stride, y_stride] = shape.strides.map(|stride| stride as i32);
    let (rows, n, k) = (shape.rows as i32, shape.n as i32, shape.k as i32);
    Few { x, w, y, rows, n, k, x_stride, w_stride, y_stride, ..Few::default() }
}
