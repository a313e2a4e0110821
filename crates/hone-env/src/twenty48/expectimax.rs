//! Gold for 2048: the move with the best expected board a few tiles ahead.
//!
//! Own moves take the maximum, appearing tiles the mean over all empty cells. A board is worth the sum of its rows and
//! columns, looked up in a table: empty cells and neighbours that merge are good, rows that go up and down are bad.
//! It sees what a policy sees: the board, and neither the dice nor the rules' inner state.

use super::board::{Board, Move};
use std::sync::OnceLock;

/// What a board without a move is worth: less than any other.
const LOST: f32 = -1e6;

/// The best move, or `None` when nothing moves.
pub(crate) fn best_move(board: Board) -> Option<Move> {
    // The fewer empty cells, the nearer the danger and the smaller the tree.
    let n_ahead = if board.n_empty() <= 4 { 2 } else { 1 };
    let worths = board.moves().map(|dir| (dir, expected(board.slide(dir), n_ahead)));
    worths.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(dir, _)| dir)
}

/// The mean over the tiles that may appear.
fn expected(board: Board, n_ahead: u32) -> f32 {
    if n_ahead == 0 {
        return standing(board);
    }
    let (mut sum, mut empty) = (0.0, board.empty());
    while empty != 0 {
        let place = empty & empty.wrapping_neg();
        sum += 0.9 * best(Board(board.0 | place), n_ahead) + 0.1 * best(Board(board.0 | place << 1), n_ahead);
        empty ^= place;
    }
    sum / board.n_empty() as f32
}

/// The maximum over own moves.
fn best(board: Board, n_ahead: u32) -> f32 {
    let slid = Move::ALL.into_iter().map(|dir| board.slide(dir)).filter(|slid| *slid != board);
    slid.map(|slid| expected(slid, n_ahead - 1)).fold(LOST, f32::max)
}

fn standing(board: Board) -> f32 {
    let rows = rows();
    let side = |board: Board| board.rows().into_iter().map(|row| rows[usize::from(row)]).sum::<f32>();
    side(board) + side(board.transpose())
}

fn rows() -> &'static [f32] {
    static ROWS: OnceLock<Vec<f32>> = OnceLock::new();
    ROWS.get_or_init(|| (0..=u16::MAX).map(row_worth).collect())
}

fn row_worth(row: u16) -> f32 {
    let cells: [f32; 4] = std::array::from_fn(|idx| f32::from(row >> (4 * idx) & 15));
    let n_empty = cells.iter().filter(|cell| **cell == 0.0).count() as f32;
    let tiles: Vec<f32> = cells.iter().copied().filter(|cell| *cell > 0.0).collect();
    let n_merges = tiles.windows(2).filter(|pair| pair[0] == pair[1]).count() as f32;
    let (mut falls, mut rises) = (0.0, 0.0);
    for pair in cells.windows(2) {
        let step = pair[0].powi(4) - pair[1].powi(4);
        if step > 0.0 { falls += step } else { rises -= step }
    }
    let weight: f32 = cells.iter().map(|cell| cell.powf(3.5)).sum();
    270.0 * n_empty + 700.0 * n_merges - 47.0 * f32::min(falls, rises) - 11.0 * weight
}
