//! The two ways to tell a game of 2048.
//!
//! In the short one every tile is a word of two letters: where it lies, `a` to `p` in reading order, and what it is, `a` for 2, `b`
//! for 4 and so on. So a word means the same wherever it stands, and a small model need not count. Behind the tiles stand the
//! moves that change something: `L`, `R`, `U` or `D` with how many tiles the move merges away, `a` for none, `b` for one and so on.

use super::board::{Board, Move};
use crate::Dialect;

/// The rules, for this exponent of the tile that wins.
pub(super) fn rules(dialect: Dialect, winning: u32) -> String {
    match dialect {
        Dialect::Short => "take a move".to_owned(),
        Dialect::Natural => format!(
            "You play 2048 on a board of 4 by 4. A move slides all tiles left, right, up or down; two equal tiles that meet \
             become one of twice the value, and then a new tile appears in an empty cell. Reach the tile {} to win. A move \
             that changes nothing loses the game. Answer with one word: left, right, up or down.",
            1 << winning
        ),
    }
}

/// What a policy sees of a board.
pub(super) fn told(dialect: Dialect, board: Board) -> String {
    match dialect {
        Dialect::Natural => board.text(),
        Dialect::Short => {
            let tiles = (0..).zip(board.cells()).filter(|(_, exponent)| *exponent > 0);
            let tiles: Vec<String> = tiles.map(|(cell, exponent)| word(cell, exponent)).collect();
            let moves: Vec<String> = board.moves().map(|dir| named(dir, board.slide(dir).n_empty() - board.n_empty())).collect();
            format!("| {} | {}", tiles.join(" "), moves.join(" "))
        }
    }
}

/// The board that a text shows. `None` when it shows none.
pub(super) fn read(dialect: Dialect, text: &str) -> Option<Board> {
    if dialect == Dialect::Natural {
        return Board::parse(text);
    }
    let tiles = text.strip_prefix('|')?.split_once('|')?.0;
    tiles.split_ascii_whitespace().try_fold(Board(0), |board, word| {
        let (cell, exponent) = tile(word)?;
        Some(Board(board.0 | exponent << (4 * cell)))
    })
}

/// Every word of the short dialect, as it stands in a board and as an answer begins.
pub(super) fn words() -> String {
    let tiles = (0..16).flat_map(|cell| (1..=HIGHEST_USUAL).map(move |exponent| word(cell, exponent)));
    let moves = Move::ALL.into_iter().flat_map(|dir| (0..=N_MERGED_MAX).map(move |n_merged| named(dir, n_merged)));
    let words: Vec<String> = tiles.chain(moves).collect();
    format!("{}\n| {} |", Move::ALL.map(Move::as_str).join("\n"), words.join(" "))
}

/// The exponent of the highest tile that is a word of its own in a small vocabulary: 2048. Higher ones are spelled.
const HIGHEST_USUAL: u32 = 11;

/// The most tiles that a move merges away: two in every line.
const N_MERGED_MAX: usize = 8;

/// The word for a move that merges so many tiles away.
fn named(dir: Move, n_merged: usize) -> String {
    let initial = dir.as_str().as_bytes()[0].to_ascii_uppercase();
    [initial, b'a' + n_merged as u8].map(char::from).iter().collect()
}

/// The word for a tile.
fn word(cell: u8, exponent: u32) -> String {
    [b'a' + cell, b'a' + (exponent - 1) as u8].map(char::from).iter().collect()
}

/// The cell and the exponent that a word stands for.
fn tile(word: &str) -> Option<(u32, u64)> {
    match *word.as_bytes() {
        [cell @ b'a'..=b'p', tile @ b'a'..=b'o'] => Some((u32::from(cell - b'a'), u64::from(tile - b'a') + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_read_back_in_both_dialects() {
        let board = Board(0xf000_0021_4300_1b0a);
        for dialect in [Dialect::Natural, Dialect::Short] {
            assert_eq!(read(dialect, &told(dialect, board)), Some(board));
            assert_eq!(read(dialect, "a a a"), None);
            assert_eq!(read(dialect, "| aa qa | left"), None);
        }
        assert_eq!(told(Dialect::Short, board), "| aj ck da gc hd ia jb po | La Ra Ua Da");
        assert_eq!(told(Dialect::Short, Board(0x1100_1111)), "| aa ba ca da ga ha | Ld Rd Uc Dc");
    }
}
