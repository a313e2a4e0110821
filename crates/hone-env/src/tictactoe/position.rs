//! A position of tic-tac-toe: whose mark is where, and what it is worth.
//!
//! Nine cells, numbered from 0 in reading order. X begins; who moves follows from the marks.

use std::sync::OnceLock;

/// What ended a game.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The last mark made three in a line.
    Line,
    /// No cell is empty.
    Full,
}

/// A position: the cells of the side to move and of the other side, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Position {
    own: u16,
    other: u16,
}

const LINES: [u16; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
const FULL: u16 = 0o777;

impl Position {
    /// After the side to move took this cell.
    pub(super) fn take(self, cell: usize) -> Self {
        Self { own: self.other, other: self.own | 1 << cell }
    }

    /// The same marks with the other side to move.
    pub(super) fn passed(self) -> Self {
        Self { own: self.other, other: self.own }
    }

    /// The empty cells.
    pub(super) fn empty(self) -> impl Iterator<Item = usize> {
        (0..9).filter(move |cell| (self.own | self.other) >> cell & 1 == 0)
    }

    /// Whether the last mark ended the game.
    pub(super) fn end(self) -> Option<End> {
        if LINES.into_iter().any(|line| self.other & line == line) {
            Some(End::Line)
        } else if self.own | self.other == FULL {
            Some(End::Full)
        } else {
            None
        }
    }

    /// What both sides' best play comes to for the side to move: 1 wins, 0 draws, -1 loses.
    pub(super) fn value(self) -> i8 {
        static VALUES: OnceLock<Vec<Option<i8>>> = OnceLock::new();
        let values = VALUES.get_or_init(|| {
            let mut values = vec![None; 1 << 18];
            Self::default().solve(&mut values);
            values
        });
        values[self.idx()].unwrap_or(0)
    }

    fn solve(self, values: &mut [Option<i8>]) -> i8 {
        if let Some(value) = values[self.idx()] {
            return value;
        }
        let value = match self.end() {
            Some(End::Line) => -1,
            Some(End::Full) => 0,
            None => self.empty().map(|cell| -self.take(cell).solve(values)).max().unwrap_or(0),
        };
        values[self.idx()] = Some(value);
        value
    }

    fn idx(self) -> usize {
        usize::from(self.own) << 9 | usize::from(self.other)
    }

    /// The mark of the side to move.
    pub(super) fn to_move(self) -> char {
        if self.own.count_ones() == self.other.count_ones() { 'X' } else { 'O' }
    }

    /// The least of the eight positions that turning and mirroring make of this one.
    pub(super) fn canonical(self) -> Self {
        let moved = |to: fn(usize, usize) -> usize, position: Self| {
            let bits = |bits: u16| (0..9).filter(|cell| bits >> cell & 1 == 1).map(|cell| 1 << to(cell / 3, cell % 3)).sum();
            Self { own: bits(position.own), other: bits(position.other) }
        };
        let mut least = self;
        let mut position = self;
        for _ in 0..4 {
            position = moved(|row, column| 3 * column + row, position);
            least = least.min(position);
            position = moved(|row, column| 3 * (2 - row) + column, position);
            least = least.min(position);
        }
        least
    }

    /// The cells of the side to move and of the other side, as bits.
    pub(super) fn marks(self) -> [u16; 2] {
        [self.own, self.other]
    }

    /// The position with these marks of the side to move and of the other side. `None` when no game comes to it.
    pub(super) fn of_marks(own: u16, other: u16) -> Option<Self> {
        let is_fair = matches!(other.count_ones().checked_sub(own.count_ones()), Some(0 | 1)) && own & other == 0;
        let is_reachable = !LINES.into_iter().any(|line| own & line == line);
        (is_fair && is_reachable).then_some(Self { own, other })
    }

    /// Three lines of three cells, empty ones by their numbers.
    pub(super) fn text(self) -> String {
        let rows: Vec<String> = self.cells().collect::<Vec<_>>().chunks(3).map(|row| row.join(" ")).collect();
        rows.join("\n")
    }

    /// All cells in one word, for ids.
    pub(super) fn line(self) -> String {
        self.cells().collect()
    }

    /// The position that a text shows. `None` when it shows none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mut crosses, mut noughts, mut n_cells) = (0u16, 0u16, 0);
        for (cell, word) in text.split_ascii_whitespace().enumerate() {
            match word {
                _ if cell >= 9 => return None,
                "X" => crosses |= 1 << cell,
                "O" => noughts |= 1 << cell,
                _ if word.parse() == Ok(cell + 1) => {}
                _ => return None,
            }
            n_cells += 1;
        }
        let is_crosses_turn = match crosses.count_ones().checked_sub(noughts.count_ones())? {
            0 => true,
            1 => false,
            _ => return None,
        };
        let (own, other) = if is_crosses_turn { (crosses, noughts) } else { (noughts, crosses) };
        if n_cells == 9 { Self::of_marks(own, other) } else { None }
    }

    fn cells(self) -> impl Iterator<Item = String> {
        let (own, other) = if self.to_move() == 'X' { ("X", "O") } else { ("O", "X") };
        (0..9).map(move |cell| match (self.own >> cell & 1, self.other >> cell & 1) {
            (1, _) => own.to_owned(),
            (_, 1) => other.to_owned(),
            _ => (cell + 1).to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_back() {
        let text = "X 2 3\n4 O 6\n7 8 X";
        let position = Position::parse(text).unwrap();
        assert_eq!((position.text().as_str(), position.to_move()), (text, 'O'));
        for wrong in
            ["", "X", "O 2 3 4 5 6 7 8 9", "X X 3 4 5 6 7 8 9", "1 1 3 4 5 6 7 8 9", "1 2 3 4 5 6 7 8 9 10", "X X X O O 6 O 8 9"]
        {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ends_and_values() {
        let check = |text: &str, end: Option<End>, value: i8| {
            let position = Position::parse(text).unwrap();
            assert_eq!((position.end(), position.value()), (end, value), "{text}");
        };
        check("X X X O O 6 7 8 9", Some(End::Line), -1);
        check("X O X X O O O X X", Some(End::Full), 0);
        check("X X 3 O O 6 7 8 9", None, 1);
        check("X 2 3 4 5 6 7 8 9", None, 0);
        check("1 2 3 4 5 6 7 8 9", None, 0);
    }

    #[test]
    fn the_four_corners_are_one_opening() {
        let first: Vec<Position> = (0..9).map(|cell| Position::default().take(cell).canonical()).collect();
        let mut kinds = first.clone();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 3);
        assert!([2, 6, 8].into_iter().all(|corner| first[corner] == first[0]));
    }
}
