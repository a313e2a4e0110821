//! How attention of one position each fills the multiprocessors: with keys and values on their way, in as many blocks of threads as
//! there are rows for. See `kernels/attend.cu`, whose sizes these are.

use crate::backend::Heads;

/// Threads of a block: four warps that attend, one that fetches.
pub(super) const THREADS: usize = 160;

/// Rows that one sequence may have, as in the kernels.
pub(in crate::cuda) const ROWS_MAX: usize = 8;

/// Pieces below which a block waits for one while it could work on another.
const PIECES_MIN: usize = 3;
/// Pieces beyond which there is nothing to gain.
pub(super) const PIECES_MAX: usize = 8;
/// Shared memory of every block that is the driver's.
const RESERVED: usize = 1024;

/// The grid and the shared memory of a launch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// Rows at once.
    pub(super) n_rows: usize,
    /// Pieces of a block, each 64 keys or 64 values.
    pub(super) n_pieces: usize,
    /// What they take.
    pub(super) bytes: usize,
}

impl Ring {
    /// For so many multiprocessors, of which a block may have so much shared memory.
    pub(super) fn new(
        n_processors: usize,
        shared_max: usize,
        heads: Heads,
        width: usize,
        n_rows: usize,
        n_pieces_max: usize,
        several: bool,
    ) -> Self {
        let Heads { n_heads, n_kv_heads, .. } = heads;
        // With two barriers.
        let piece = 64 * width * 2 + 16;
        let n_fresh = if several { ROWS_MAX } else { 1 };
        let declared = n_heads.div_ceil(8 * n_kv_heads) * (1920 + 16 * width) + n_fresh * 4 * width;
        let pieces_of = |n_blocks: usize| ((shared_max + RESERVED) / n_blocks).saturating_sub(declared + RESERVED) / piece;
        // By the registers that are left to a thread.
        let n_blocks_max = match width {
            _ if several => 1,
            0..=64 => 6,
            65..=128 => 4,
            _ => 2,
        };
        let n_blocks_max = (n_rows * n_kv_heads).div_ceil(n_processors).min(n_blocks_max);
        let n_blocks = (1..=n_blocks_max).rev().find(|&n| pieces_of(n) >= PIECES_MIN).unwrap_or(1);
        let n_pieces = pieces_of(n_blocks).clamp(1, n_pieces_max);
        let n_at_once = (n_blocks * n_processors / n_kv_heads).clamp(1, n_rows);
        Self { n_rows: n_at_once, n_pieces, bytes: n_pieces * piece }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows at once and pieces of a block, on a GPU of 132 multiprocessors with 227 KiB for a block.
    fn check(n_heads: usize, n_kv_heads: usize, head_dim: usize, n_rows: usize, expected: (usize, usize)) {
        let ring = Ring::new(132, 227 << 10, Heads { n_heads, n_kv_heads, head_dim }, head_dim, n_rows, PIECES_MAX, false);
        assert_eq!((ring.n_rows, ring.n_pieces), expected);
    }

    #[test]
    fn all_rows_at_once_where_they_fit() {
        check(9, 3, 64, 256, (256, 4));
        check(14, 2, 64, 256, (256, 6));
    }

    #[test]
    fn rows_after_each_other_where_they_do_not() {
        check(28, 4, 128, 256, (132, 3));
        check(16, 8, 256, 64, (33, 3));
    }

    #[test]
    fn few_rows_have_deep_rings() {
        check(28, 4, 128, 64, (64, 6));
        check(9, 3, 64, 1, (1, 8));
    }
}
