//! Attention of few rows over many keys, in two launches of many blocks of threads: see `kernels/attend_far.cu`, whose sizes these are.
//!
//! One block of threads for a row and a key head takes as long as there are keys, and with few rows nobody else has anything to do. In two
//! launches all have: the scores, which are independent of each other, and the values by columns, each of which is added up in its order.

use crate::config::ModelConfig;
use crate::cuda::Kv;
use crate::cuda::device::{Device, Grid};
use crate::cuda::memory::Memory;
use crate::layout::PAGE;

/// Keys of a block, and blocks that are looked at together.
const KEYS: usize = 64;
const AT_ONCE: usize = 4;
/// Columns of a block of threads, and pieces on their way to it, each of these columns and of scores.
const TILE: usize = 16;
const TILE_PIECES: usize = 4;
/// Threads of both kernels.
const THREADS_SCORES: usize = 160;
const THREADS_VALUES: usize = 192;

/// Below so many keys a second launch takes longer than it saves.
const KEYS_MIN: usize = 1024;
/// Of the multiprocessors, one for so many rows and key heads has enough to do without.
const BUSY: usize = 2;
/// Most bytes of scores.
const SCORES_MAX: usize = 32 << 20;

/// What lies between the two launches.
pub(super) struct Far {
    pub(super) n_blocks_max: usize,
    pub(super) scores: Memory,
    pub(super) largest: Memory,
    /// Bytes of shared memory of both kernels.
    shared: (usize, usize),
}

/// Sizes of both launches, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    scores: usize,
    largest: usize,
    shared: (usize, usize),
}

impl Sizes {
    /// Where two launches pay, on so many multiprocessors of which a block may have so much shared memory.
    fn new(n_processors: usize, shared_max: usize, config: &ModelConfig, n_rows: usize, n_pages_max: usize) -> Option<Self> {
        let (n_keys, n_kv_heads) = (n_pages_max * PAGE, config.n_kv_heads);
        let (width, eights) = (config.head_dim.next_multiple_of(16), (config.n_heads / n_kv_heads).div_ceil(8));
        let n_parts = n_rows * n_kv_heads * n_keys / 16;
        let sizes = Self {
            scores: n_parts * eights * 32 * 16,
            largest: n_parts * eights * 8 * 4,
            shared: (
                AT_ONCE * KEYS * width * 2,
                TILE_PIECES * AT_ONCE * (KEYS * TILE * 2 + 4 * eights * 512) + n_keys / KEYS * eights * 32,
            ),
        };
        // What the kernels declare themselves.
        let declared = eights * 8 * (2 * AT_ONCE * (KEYS + 8) * 2 + 16 * width) + (64 << 6);
        let fits = sizes.shared.0.max(sizes.shared.1) + declared <= shared_max;
        let pays = n_keys >= KEYS_MIN && n_rows * n_kv_heads * BUSY <= n_processors;
        (pays && fits && sizes.scores <= SCORES_MAX).then_some(sizes)
    }
}

impl Far {
    /// Nothing where one launch is as good.
    pub(super) fn new(device: &std::sync::Arc<Device>, config: &ModelConfig, n_rows: usize, n_pages_max: usize) -> Option<Self> {
        let Sizes { scores, largest, shared } = Sizes::new(device.n_processors, device.shared_max, config, n_rows, n_pages_max)?;
        let [scores, largest] = [scores, largest].map(|bytes| device.memory(bytes));
        Some(Self { n_blocks_max: n_pages_max * PAGE / KEYS, scores, largest, shared })
    }

    /// A block of threads for some blocks of keys of each row and key head.
    pub(super) fn of_scores(&self, kv: &Kv, n_rows: usize) -> Grid {
        let blocks = (n_rows * self.n_blocks_max.div_ceil(AT_ONCE), kv.heads.n_kv_heads);
        Grid { blocks, threads: THREADS_SCORES, shared: self.shared.0, early: true }
    }

    /// A block of threads for some columns of each row and key head.
    pub(super) fn of_values(&self, kv: &Kv, n_rows: usize) -> Grid {
        let blocks = (n_rows * kv.width / TILE, kv.heads.n_kv_heads);
        Grid { blocks, threads: THREADS_VALUES, shared: self.shared.1, early: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    /// Megabytes of scores for some rows of a shape and so many keys, on a GPU of 132 multiprocessors with 227 KiB for a block.
    fn check(shape: &str, n_rows: usize, n_keys: usize, expected: Option<usize>) {
        let config = shapes::named(shape).expect("a shape");
        let sizes = Sizes::new(132, 227 << 10, &config, n_rows, n_keys / PAGE);
        assert_eq!(sizes.map(|sizes| sizes.scores >> 20), expected, "{shape} {n_rows} {n_keys}");
    }

    #[test]
    fn two_launches_are_for_many_keys_of_few_rows() {
        check("qwen2.5-7b", 1, 256, None);
        check("qwen2.5-7b", 1, 8192, Some(1));
        check("qwen2.5-7b", 8, 8192, Some(8));
        check("qwen2.5-7b", 32, 8192, None);
        check("llama-3.1-8b", 1, 131_072, Some(32));
        check("llama-3.1-8b", 4, 131_072, None);
    }
}
