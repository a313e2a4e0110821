//! The two ways to tell a game of 2048.
//!
//! In the short one a tile is a letter, `a` for 2, `b` for 4 and so on, so that every cell is one token of a small vocabulary and
//! stands at the same place on every board; behind the rows stand the moves that change something.

use super::board::{Board, Move};

/// How the game is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// With the rules in sentences and the tiles by their numbers.
    #[default]
    Natural,
    /// In one line, with the tiles by letters and the moves that change something, for small models.
    Short,
}

impl Dialect {
    /// The rules, for this exponent of the tile that wins.
    pub(super) fn rules(self, winning: u32) -> String {
        match self {
            Self::Short => "take a move".to_owned(),
            Self::Natural => format!(
                "You play 2048 on a board of 4 by 4. A move slides all tiles left, right, up or down; two equal tiles that meet \
                 become one of twice the value, and then a new tile appears in an empty cell. Reach the tile {} to win. A move \
                 that changes nothing loses the game. Answer with one word: left, right, up or down.",
                1 << winning
            ),
        }
    }

    /// What a policy sees of a board.
    pub(super) fn told(self, board: Board) -> String {
        match self {
            Self::Natural => board.text(),
            Self::Short => {
                let cells: Vec<String> = board.cells().map(|exponent| letter(exponent).to_string()).collect();
                let rows = cells.chunks(4).map(|row| row.join(" "));
                let moves: Vec<&str> = board.moves().map(Move::as_str).collect();
                rows.chain([moves.join(" ")]).map(|line| format!("| {line}")).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The board that a text shows. `None` when it shows none.
    pub(super) fn read(self, text: &str) -> Option<Board> {
        if self == Self::Natural {
            return Board::parse(text);
        }
        let cells: Vec<u64> = text.split_ascii_whitespace().filter(|word| *word != "|").map_while(exponent).collect();
        (cells.len() == 16).then(|| Board(cells.iter().rev().fold(0, |board, exponent| board << 4 | exponent)))
    }
}

/// Every word of the short dialect: at the start of a line and after a space.
pub(super) fn words() -> String {
    let letters = (0..16).map(|exponent| letter(exponent).to_string());
    let words: Vec<String> = letters.chain(Move::ALL.map(|dir| dir.as_str().to_owned())).chain(["|".to_owned()]).collect();
    [words.join("\n"), words.join(" ")].join("\n")
}

/// `.` for an empty cell, then the alphabet.
fn letter(exponent: u32) -> char {
    match exponent {
        0 => '.',
        _ => char::from(b'a' + (exponent - 1) as u8),
    }
}

/// The exponent that a letter stands for.
fn exponent(word: &str) -> Option<u64> {
    (0..16).find(|&exponent| word.parse() == Ok(letter(exponent))).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_read_back_in_both_dialects() {
        let board = Board(0xf000_0021_4300_1b0a);
        for dialect in [Dialect::Natural, Dialect::Short] {
            assert_eq!(dialect.read(&dialect.told(board)), Some(board));
            assert_eq!(dialect.read("a a a"), None);
        }
        assert_eq!(Dialect::Short.told(board), "| j . k a | . . c d | a b . . | . . . o | left right up down");
        assert_eq!(Dialect::Short.read(&"p ".repeat(16)), None);
    }
}
