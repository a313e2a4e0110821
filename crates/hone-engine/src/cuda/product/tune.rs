//! Which of the library's algorithms agree to the bit for a weight, which is fastest for a size of batch, and whether our own
//! products give the same bits.

use std::fmt;

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
/// Runs of which the mean is taken, and milliseconds that they take together: a long product is not timed so often.
const TIMED: usize = 8;
const TIMED_MS: f32 = 6.0;
/// Milliseconds that the host may need to ask for a product.
const ASKED_MS: f32 = 0.02;

/// What was found out about a weight's shape.
#[derive(Clone, Debug, PartialEq)]
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

    /// As it was written.
    fn read(text: &str) -> Option<Self> {
        let (facts, algorithms) = text.split_once('\n')?;
        let [few_agree, n_agree, n_tried] = facts.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let words = |line: &str| line.split(' ').map(|word| u64::from_str_radix(word, 16).ok()).collect::<Option<Vec<_>>>();
        let algorithm = |line: &str| words(line)?.try_into().ok();
        let by_size = algorithms.lines().map(algorithm).collect::<Option<Vec<Algorithm>>>()?.try_into().ok()?;
        Some(Self { by_size, few_agree: few_agree.parse().ok()?, n_agree: n_agree.parse().ok()?, n_tried: n_tried.parse().ok()? })
    }
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.few_agree, self.n_agree, self.n_tried)?;
        self.by_size.iter().try_for_each(|algorithm| {
            let words = algorithm.map(|word| format!("{word:x}"));
            write!(f, "\n{}", words.join(" "))
        })
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
            let question = format!("product {key:?}");
            let kept = self.kept.get(&question).and_then(|found| self.tuned_before(shape, right, &found));
            let tuned = kept.or_else(|| {
                let tuned = self.tune(shape, right)?;
                self.kept.put(&question, &tuned.to_string());
                Some(tuned)
            });
            locked(&self.tuned).insert(key, tuned.clone());
            tuned
        })
    }

    /// What was found at an earlier start, where the library still takes it and all of it still agrees.
    fn tuned_before(&self, shape: &Shape, right: Address, found: &str) -> Option<Tuned> {
        let tuned = Tuned::read(found)?;
        let takes = |(algorithm, rows): (&Algorithm, usize)| self.takes(&of_rows(shape, rows), algorithm);
        if !tuned.by_size.iter().zip(SIZES).all(takes) {
            return None;
        }
        let (all, compared) = (distinct(&tuned.by_size), of_rows(shape, COMPARED));
        let left = self.noise(compared.rows * shape.strides[0]);
        let (agreeing, few_agree) = self.agreeing(&compared, &all, left.address(), right);
        (agreeing.len() == all.len() && few_agree == tuned.few_agree).then_some(tuned)
    }

    fn tune(&self, shape: &Shape, right: Address) -> Option<Tuned> {
        let of_rows = |rows: usize| of_rows(shape, rows);
        let mut offers =
            SIZES.map(|rows| self.offers(&of_rows(rows), OFFERS).into_iter().map(|offer| offer.algorithm).collect::<Vec<_>>());
        let wide = shape.kind == Kind::Forward && shape.n.min(shape.k) >= VARIED_WIDTH_MIN;
        if let Some(like) = offers.iter().flatten().copied().find(|algorithm| wide && self.has_widths(algorithm)) {
            for (offers, rows) in offers.iter_mut().zip(SIZES).filter(|(_, rows)| *rows <= VARIED_ROWS_MAX) {
                offers.extend(self.varied(&of_rows(rows), like));
            }
        }
        let all = distinct(offers.iter().flatten());
        let largest = of_rows(SIZES[SIZES.len() - 1].max(COMPARED)).rows;
        let left = self.noise(largest * shape.strides[0]);
        let out = self.device.memory(largest * shape.strides[2] * 4);
        let (agreeing, few_agree) = self.agreeing(&of_rows(COMPARED), &all, left.address(), right);
        let first = *agreeing.first()?;
        let mut by_size = [first; SIZES.len()];
        for (size, &rows) in SIZES.iter().enumerate() {
            let shape = of_rows(rows);
            if size > 0 && shape.rows == of_rows(SIZES[size - 1]).rows {
                by_size[size] = by_size[size - 1];
                continue;
            }
            let layouts = self.layouts(&shape).map(|layout| layout as usize);
            let addresses = [left.address(), right, out.address()];
            let mut best_ms = f32::MAX;
            for &algorithm in offers[size].iter().filter(|algorithm| agreeing.contains(algorithm)) {
                let run = || self.try_run(&shape, &Call { layouts, algorithm }, addresses, Put::Set);
                let again = |_| {
                    run();
                };
                // The first run also brings the kernel to the GPU; the second tells whether it is worth more.
                if run() != 0 {
                    continue;
                }
                let once_ms = self.device.time_ms(|| again(0));
                if once_ms > 1.25 * best_ms + ASKED_MS {
                    continue;
                }
                let ms = self.device.mean_ms(((TIMED_MS / once_ms) as usize).clamp(1, TIMED), again);
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

/// A product of so many rows, or of as many as are tried at most.
fn of_rows(shape: &Shape, rows: usize) -> Shape {
    Shape { rows: rows.min((TRIED_MAX / shape.strides[2].max(shape.strides[0])).max(SIZES[0])), ..*shape }
}

fn distinct<'a>(algorithms: impl IntoIterator<Item = &'a Algorithm>) -> Vec<Algorithm> {
    let mut all: Vec<Algorithm> = Vec::new();
    for algorithm in algorithms {
        if !all.contains(algorithm) {
            all.push(*algorithm);
        }
    }
    all
}

/// A forward product as our own.
pub(super) fn few_of(shape: &Shape, [x, w, y]: [Address; 3]) -> Few {
    let [x_stride, w_stride, y_stride] = shape.strides.map(|stride| stride as i32);
    let (rows, n, k) = (shape.rows as i32, shape.n as i32, shape.k as i32);
    Few { x, w, y, rows, n, k, x_stride, w_stride, y_stride, ..Few::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_read_as_it_was_written_or_not_at_all() {
        let by_size = std::array::from_fn(|size| std::array::from_fn(|word| u64::MAX / (1 + size * 8 + word) as u64));
        let tuned = Tuned { by_size, few_agree: true, n_agree: 47, n_tried: 48 };
        let text = tuned.to_string();
        assert_eq!(Tuned::read(&text), Some(tuned));
        let last = text.rfind(' ').unwrap();
        for other in ["", "true 47 48", &text[..last], &format!("{text}\n0"), &text.replace("true", "yes"), &format!("{text} 0")]
        {
            assert_eq!(Tuned::read(other), None, "{other}");
        }
    }
}
