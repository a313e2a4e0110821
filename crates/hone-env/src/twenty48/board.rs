//! A 2048 board in 64 bits: sixteen cells of four bits, each the exponent of its tile, 0 for an empty cell.
//!
//! The first cell of the first row is the lowest. A move slides four rows by looking each up in a table of all 65,536 rows;
//! columns are rows of the transposed board. Knows nothing of messages or of who plays.

use hone_trace::Draws;
use std::sync::OnceLock;

/// A board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Board(pub(crate) u64);

/// The tiles of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiles {
    /// The exponent of the highest, 0 when there is none.
    pub(crate) highest: u32,
    /// Their sum.
    pub(crate) sum: u32,
    /// How many cells have none.
    pub(crate) n_empty: usize,
}

/// A move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    Left,
    Right,
    Up,
    Down,
}

impl Move {
    pub(crate) const ALL: [Self; 4] = [Self::Left, Self::Right, Self::Up, Self::Down];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    pub(crate) fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dir| word.eq_ignore_ascii_case(dir.as_str()))
    }
}

impl Board {
    /// What the board is after this move, before a tile appears; the same board when nothing moves.
    pub(crate) fn slide(self, dir: Move) -> Self {
        let slides = slides();
        match dir {
            Move::Left => self.map_rows(&slides.left),
            Move::Right => self.map_rows(&slides.right),
            Move::Up => self.transpose().map_rows(&slides.left).transpose(),
            Move::Down => self.transpose().map_rows(&slides.right).transpose(),
        }
    }

    /// The moves that change the board.
    pub(crate) fn moves(self) -> impl Iterator<Item = Move> {
        Move::ALL.into_iter().filter(move |dir| self.slide(*dir) != self)
    }

    /// Whether some move changes the board.
    pub(crate) fn can_move(self) -> bool {
        (self.0 != 0 && self.n_empty() > 0) || Move::ALL.into_iter().any(|dir| self.slide(dir) != self)
    }

    /// Puts a 2 (nine times in ten) or a 4 into a random empty cell, of which there must be one.
    pub(crate) fn spawn(self, draws: &mut Draws) -> Self {
        let place = draws.below(self.n_empty());
        let exponent = if draws.below(10) == 0 { 2 } else { 1 };
        let mut empty = self.empty();
        (0..place).for_each(|_| empty &= empty - 1);
        Self(self.0 | exponent << empty.trailing_zeros())
    }

    /// How many cells are empty.
    pub(crate) fn n_empty(self) -> usize {
        self.empty().count_ones() as usize
    }

    /// The lowest bit of every empty cell.
    pub(crate) fn empty(self) -> u64 {
        let pairs = self.0 | self.0 >> 1;
        !(pairs | pairs >> 2) & 0x1111_1111_1111_1111
    }

    /// The exponents of the cells, row by row.
    pub(crate) fn cells(self) -> impl Iterator<Item = u32> {
        (0..16).map(move |idx| (self.0 >> (4 * idx)) as u32 & 15)
    }

    /// What is on it, in one look.
    pub(crate) fn tiles(self) -> Tiles {
        let (mut sum, mut seen) = (0, 1);
        for exponent in self.cells() {
            let tile = 1u32 << exponent;
            seen |= tile;
            sum += tile & !1;
        }
        Tiles { highest: seen.ilog2(), sum, n_empty: self.n_empty() }
    }

    /// The rows, first one first.
    pub(crate) fn rows(self) -> [u16; 4] {
        [self.0 as u16, (self.0 >> 16) as u16, (self.0 >> 32) as u16, (self.0 >> 48) as u16]
    }

    /// Rows become columns.
    pub(crate) fn transpose(self) -> Self {
        // First inside each block of two by two cells, then the blocks.
        let x = self.0;
        let x = (x & 0xf0f0_0f0f_f0f0_0f0f) | (x & 0x0000_f0f0_0000_f0f0) << 12 | (x & 0x0f0f_0000_0f0f_0000) >> 12;
        Self((x & 0xff00_ff00_00ff_00ff) | (x & 0x00ff_00ff_0000_0000) >> 24 | (x & 0x0000_0000_ff00_ff00) << 24)
    }

    /// The least of the eight boards that turning and mirroring make of this one.
    pub(crate) fn canonical(self) -> Self {
        let mut least = self;
        let mut board = self;
        for _ in 0..4 {
            // A transposition and a mirroring together are a quarter turn.
            board = board.transpose();
            least = least.min(board);
            board = Self(board.rows().into_iter().fold(0, |sum, row| sum << 16 | u64::from(row)));
            least = least.min(board);
        }
        least
    }

    /// The board as four lines of four tiles, `.` for an empty cell.
    pub(crate) fn text(self) -> String {
        // Eight bytes are copied for every cell and only its own are kept.
        let (mut bytes, mut len) = ([0; 16 * 6 + 2], 0);
        for row in self.rows() {
            for column in 0..4 {
                let (cell, cell_len) = &CELLS[usize::from(row >> (4 * column) & 15)];
                bytes[len..len + 8].copy_from_slice(cell);
                len += cell_len;
            }
            bytes[len - 1] = b'\n';
        }
        String::from_utf8(bytes[..len - 1].to_vec()).expect("tiles are ASCII")
    }

    /// The board that a text shows. `None` when it shows none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut bits, mut n_cells) = (0, 0);
        for cell in text.split_ascii_whitespace() {
            let exponent = match cell {
                "." => 0,
                _ => cell
                    .parse()
                    .ok()
                    .filter(|tile: &u32| tile.is_power_of_two() && (2..=1 << 15).contains(tile))?
                    .trailing_zeros(),
            };
            if n_cells == 16 {
                return None;
            }
            bits |= u64::from(exponent) << (4 * n_cells);
            n_cells += 1;
        }
        (n_cells == 16).then_some(Self(bits))
    }

    fn map_rows(self, table: &[u16]) -> Self {
        let [a, b, c, d] = self.rows().map(|row| u64::from(table[usize::from(row)]));
        Self(a | b << 16 | c << 32 | d << 48)
    }
}

/// Every tile with a blank behind it, padded to eight bytes, and how many bytes count.
const CELLS: [([u8; 8], usize); 16] = {
    let texts: [&[u8]; 16] = [
        b". ", b"2 ", b"4 ", b"8 ", b"16 ", b"32 ", b"64 ", b"128 ", b"256 ", b"512 ", b"1024 ", b"2048 ", b"4096 ", b"8192 ",
        b"16384 ", b"32768 ",
    ];
    let mut cells = [([0; 8], 0); 16];
    let mut idx = 0;
    while idx < 16 {
        let mut byte = 0;
        while byte < texts[idx].len() {
            cells[idx].0[byte] = texts[idx][byte];
            byte += 1;
        }
        cells[idx].1 = texts[idx].len();
        idx += 1;
    }
    cells
};

struct Slides {
    left: Vec<u16>,
    right: Vec<u16>,
}

fn slides() -> &'static Slides {
    static SLIDES: OnceLock<Slides> = OnceLock::new();
    SLIDES.get_or_init(|| {
        let left: Vec<u16> = (0..=u16::MAX).map(slide_left).collect();
        let right = (0..=u16::MAX).map(|row| reverse(left[usize::from(reverse(row))])).collect();
        Slides { left, right }
    })
}

/// Tiles slide towards the first cell; two equal neighbours become one, once.
fn slide_left(row: u16) -> u16 {
    let (mut slid, mut n_done, mut waiting) = (0, 0, 0);
    let mut put = |exponent: u16| {
        slid |= exponent << (4 * n_done);
        n_done += 1;
    };
    for exponent in (0..4).map(|idx| row >> (4 * idx) & 15).filter(|&exponent| exponent > 0) {
        // No game goes on beyond a tile of 2^15, so two of them stay apart.
        if exponent == waiting && exponent < 15 {
            put(exponent + 1);
            waiting = 0;
        } else {
            if waiting > 0 {
                put(waiting);
            }
            waiting = exponent;
        }
    }
    if waiting > 0 {
        put(waiting);
    }
    slid
}

fn reverse(row: u16) -> u16 {
    row << 12 | (row & 0x00f0) << 4 | (row & 0x0f00) >> 4 | row >> 12
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(rows: &str) -> Board {
        Board::parse(rows).unwrap()
    }

    #[test]
    fn tiles_slide_and_merge_once() {
        let check = |before: &str, dir: Move, after: &str| {
            let rest = " . . . . . . . . . . . .";
            let (before, after) = (board(&format!("{before}{rest}")), board(&format!("{after}{rest}")));
            assert_eq!(before.slide(dir), after, "{}", before.slide(dir).text());
            let turned = if dir == Move::Left { Move::Up } else { Move::Down };
            assert_eq!(before.transpose().slide(turned), after.transpose());
        };
        check("2 2 4 .", Move::Left, "4 4 . .");
        check("2 2 4 .", Move::Right, ". . 4 4");
        check("2 2 2 2", Move::Left, "4 4 . .");
        check("2 2 2 .", Move::Right, ". . 2 4");
        check("4 . . 4", Move::Left, "8 . . .");
        check("2 4 2 4", Move::Left, "2 4 2 4");
        check("32768 32768 . .", Move::Left, "32768 32768 . .");
    }

    #[test]
    fn a_text_is_read_back() {
        let mut draws = Draws::new(5, &["boards"]);
        for _ in 0..2000 {
            let some = Board(draws.bits() & draws.bits());
            assert_eq!(Board::parse(&some.text()), Some(some));
            assert_eq!(some.transpose().transpose(), some);
            assert_eq!(some.transpose().canonical(), some.canonical());
            assert_eq!(some.n_empty(), some.text().matches('.').count());
            let tiles = some.text().split_whitespace().filter_map(|tile| tile.parse::<u32>().ok()).sum::<u32>();
            assert_eq!(some.tiles().sum, tiles);
        }
        assert_eq!(board("2 . . . . 4 . . . . 8 . . . . 16").text(), "2 . . .\n. 4 . .\n. . 8 .\n. . . 16");
        assert_eq!(Board(u64::MAX).text().len(), 4 * 4 * 6 - 1);
        for wrong in ["", "2 2", "3 . . . . . . . . . . . . . . .", "65536 . . . . . . . . . . . . . . .", &". ".repeat(17)] {
            assert_eq!(Board::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn turned_and_mirrored_boards_are_one_family() {
        let corner = [0, 3, 12, 15].map(|cell| Board(1 << (4 * cell)).canonical());
        assert!(corner.iter().all(|board| *board == corner[0]));
        assert_ne!(Board(1 << 4).canonical(), corner[0]);
        // The eight images of a board without symmetry.
        let plain = board("2 4 8 16 . . . . . . . . . . . .");
        let turned = board(". . . 2 . . . 4 . . . 8 . . . 16");
        assert_eq!(plain.canonical(), turned.canonical());
    }

    #[test]
    fn twos_come_nine_times_in_ten_and_everywhere() {
        let mut draws = Draws::new(1, &["spawn"]);
        let (mut n_fours, mut cells) = (0, [0; 16]);
        for _ in 0..16_000 {
            let spawned = Board(0).spawn(&mut draws);
            n_fours += usize::from(spawned.tiles().highest == 2);
            cells[spawned.0.trailing_zeros() as usize / 4] += 1;
        }
        assert!((1450..1750).contains(&n_fours), "{n_fours}");
        assert!(cells.iter().all(|n| (850..1150).contains(n)), "{cells:?}");
        let nearly = board("2 4 2 4 4 2 4 2 2 4 2 4 4 2 4 .");
        assert!(nearly.can_move() && nearly.spawn(&mut draws).n_empty() == 0);
        assert!(!board("2 4 2 4 4 2 4 2 2 4 2 4 4 2 4 2").can_move());
    }
}
