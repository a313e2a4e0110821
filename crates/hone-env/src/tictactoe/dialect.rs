//! The two ways to tell a game of tic-tac-toe.
//!
//! In the short one a cell is a letter, `a` to `i` in reading order, and a taken cell is a word: `ma` is mine at `a`, `ta` theirs. So a
//! word means the same wherever it stands, and a small model need not count. Behind the marks stand the empty cells.

use super::position::Position;
use crate::Dialect;

/// The rules, for who plays this mark.
pub(super) fn rules(dialect: Dialect, mark: char) -> String {
    match dialect {
        Dialect::Short => "take a cell".to_owned(),
        Dialect::Natural => format!(
            "You play tic-tac-toe as {mark}. Empty cells are shown by their numbers. Answer with the number of the cell you take. \
             A cell that is not empty loses the game."
        ),
    }
}

/// What a policy sees of a position in which it is to move.
pub(super) fn told(dialect: Dialect, position: Position) -> String {
    match dialect {
        Dialect::Natural => position.text(),
        Dialect::Short => {
            let words = |prefix: &str, cells: u16| {
                let chosen = (0..9).filter(|cell| cells >> cell & 1 == 1);
                chosen.map(|cell| format!(" {prefix}{}", letter(cell))).collect::<String>()
            };
            let [mine, theirs] = position.marks();
            format!("|{}{} |{}", words("m", mine), words("t", theirs), words("", !(mine | theirs)))
        }
    }
}

/// The position that a text shows. `None` when it shows none.
pub(super) fn read(dialect: Dialect, text: &str) -> Option<Position> {
    if dialect == Dialect::Natural {
        return Position::parse(text);
    }
    let (mut mine, mut theirs) = (0, 0);
    for word in text.strip_prefix('|')?.split_once('|')?.0.split_ascii_whitespace() {
        match *word.as_bytes() {
            [b'm', cell @ b'a'..=b'i'] => mine |= 1 << (cell - b'a'),
            [b't', cell @ b'a'..=b'i'] => theirs |= 1 << (cell - b'a'),
            _ => return None,
        }
    }
    Position::of_marks(mine, theirs)
}

/// How a policy names a cell.
pub(super) fn name(dialect: Dialect, cell: usize) -> String {
    match dialect {
        Dialect::Natural => (cell + 1).to_string(),
        Dialect::Short => letter(cell).to_string(),
    }
}

/// The cell that a word names: by its number, `1` to `9`, or its column and row, `a1` (first) to `c3` (last); in the short dialect by
/// its letter.
pub(super) fn cell(dialect: Dialect, word: &str) -> Option<usize> {
    match (dialect, word.as_bytes()) {
        (Dialect::Short, &[cell @ b'a'..=b'i']) => Some(usize::from(cell - b'a')),
        (Dialect::Natural, &[digit @ b'1'..=b'9']) => Some(usize::from(digit - b'1')),
        (Dialect::Natural, &[column, row @ b'1'..=b'3']) => match column.to_ascii_lowercase() {
            column @ b'a'..=b'c' => Some(3 * usize::from(row - b'1') + usize::from(column - b'a')),
            _ => None,
        },
        _ => None,
    }
}

fn letter(cell: usize) -> char {
    char::from(b'a' + cell as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back_in_both_dialects() {
        for text in ["X 2 3\n4 O 6\n7 8 X", "1 2 3\n4 5 6\n7 8 9", "X O X\nX O O\nO X 9"] {
            let position = Position::parse(text).unwrap();
            for dialect in [Dialect::Natural, Dialect::Short] {
                assert_eq!(read(dialect, &told(dialect, position)), Some(position), "{text}");
            }
        }
        let position = Position::parse("X 2 3 4 O 6 7 8 X").unwrap();
        assert_eq!(told(Dialect::Short, position), "| me ta ti | b c d f g h");
        for wrong in ["| mj | c", "ma", "| ma mb | c", "| ta tb | c", "| ma ta tb tc | d", "| ma ta | b"] {
            assert_eq!(read(Dialect::Short, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_cell_has_a_number_and_a_place_or_a_letter() {
        let check = |word: &str, natural: Option<usize>, short: Option<usize>| {
            assert_eq!((cell(Dialect::Natural, word), cell(Dialect::Short, word)), (natural, short), "{word}");
        };
        check("1", Some(0), None);
        check("9", Some(8), None);
        check("b2", Some(4), None);
        check("C1", Some(2), None);
        check("a3", Some(6), None);
        check("a", None, Some(0));
        check("i", None, Some(8));
        ["0", "10", "d1", "a4", "", "j", "2b"].into_iter().for_each(|word| check(word, None, None));
    }
}
