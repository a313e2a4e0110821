//! A grid as bytes: what the language calls a tuple of rows, each a tuple of colours.
//!
//! A grid without rows is legal, and so is one whose rows are empty. Colours are 0 to 9 in tasks; programs may use any
//! number from -128 to 127 as a mark in between. Equality and order are those of the tuple of tuples.
//! Knows nothing of values or programs.

use crate::misuse::Misuse;
use std::cmp::Ordering;

/// A rectangle of colours, row by row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Grid {
    height: usize,
    width: usize,
    cells: Vec<i8>,
}

impl Grid {
    /// A grid of these cells, row by row. A grid without rows has no width either.
    ///
    /// # Panics
    /// If there are not height times width cells: that is a bug of the caller.
    pub fn new(height: usize, width: usize, cells: Vec<i8>) -> Self {
        assert_eq!(cells.len(), height * width, "a grid has height times width cells");
        Self { height, width: if height == 0 { 0 } else { width }, cells }
    }

    /// A grid of these rows, or a fault where they have different lengths.
    pub fn from_rows<R: AsRef<[i8]>>(rows: &[R]) -> Result<Self, Misuse> {
        let width = rows.first().map_or(0, |row| row.as_ref().len());
        match rows.iter().map(|row| row.as_ref().len()).find(|&len| len != width) {
            Some(other) => Err(Misuse::Ragged(width, other)),
            None => Ok(Self::new(rows.len(), width, rows.iter().flat_map(|row| row.as_ref()).copied().collect())),
        }
    }

    /// One colour everywhere.
    pub fn canvas(colour: i8, height: usize, width: usize) -> Self {
        Self::new(height, width, vec![colour; height * width])
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of columns; none in a grid without rows.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All cells, row by row.
    pub fn cells(&self) -> &[i8] {
        &self.cells
    }

    /// The cells of one row.
    ///
    /// # Panics
    /// If the grid has no such row.
    pub fn row(&self, row: usize) -> &[i8] {
        &self.cells[row * self.width..(row + 1) * self.width]
    }

    /// The rows from the top down.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &[i8]> + ExactSizeIterator {
        (0..self.height).map(|row| self.row(row))
    }

    /// The cells of a column from the top down.
    pub fn column(&self, column: usize) -> impl Iterator<Item = i8> {
        self.cells.iter().skip(column).step_by(self.width.max(1)).copied()
    }

    /// The colour at a place, if it lies inside.
    pub fn at(&self, row: i64, column: i64) -> Option<i8> {
        self.place(row, column).map(|place| self.cells[place])
    }

    /// Where a place lies among the cells, if it lies inside.
    pub(crate) fn place(&self, row: i64, column: i64) -> Option<usize> {
        let row = usize::try_from(row).ok().filter(|&row| row < self.height)?;
        let column = usize::try_from(column).ok().filter(|&column| column < self.width)?;
        Some(row * self.width + column)
    }

    /// The same extent with other cells.
    pub(crate) fn with(&self, cells: Vec<i8>) -> Self {
        Self::new(self.height, self.width, cells)
    }

    /// Each cell changed by itself.
    pub(crate) fn map(&self, change: impl Fn(i8) -> i8) -> Self {
        self.with(self.cells.iter().map(|&colour| change(colour)).collect())
    }

    /// How often each colour occurs.
    pub fn counts(&self) -> Counts {
        Counts::of(self.cells.iter().copied())
    }

    /// The colour of most cells, the lowest on a tie.
    pub fn most_common(&self) -> Result<i8, Misuse> {
        self.counts().most().ok_or(Misuse::NoCells("mostcolor"))
    }

    /// A row or column is one-coloured if it has cells and they are equal.
    pub(crate) fn is_plain(mut cells: impl Iterator<Item = i8>) -> bool {
        cells.next().is_some_and(|first| cells.all(|colour| colour == first))
    }
}

/// Like tuples of rows: the first row that differs decides, and a proper prefix is smaller.
impl Ord for Grid {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.width == other.width {
            true => self.cells.cmp(&other.cells).then(self.height.cmp(&other.height)),
            false => self.rows().cmp(other.rows()),
        }
    }
}

impl PartialOrd for Grid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Colours of tasks, and a few more, are counted in an array.
const USUAL: usize = 16;

/// How often each colour of a grid occurs.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Of the colours from 0 on.
    usual: [u32; USUAL],
    /// Of all others, where one occurs.
    all: Option<Box<[u32; 256]>>,
}

impl Counts {
    /// Counts these colours.
    pub fn of(colours: impl Iterator<Item = i8>) -> Self {
        let mut counts = Self::default();
        for colour in colours {
            match counts.usual.get_mut(slot(colour)) {
                Some(count) => *count += 1,
                None => counts.all.get_or_insert_with(|| Box::new([0; 256]))[slot(colour)] += 1,
            }
        }
        counts
    }

    /// How many cells have this colour.
    pub fn get(&self, colour: i8) -> u32 {
        let unusual = || self.all.as_ref().map_or(0, |all| all[slot(colour)]);
        self.usual.get(slot(colour)).copied().unwrap_or_else(unusual)
    }

    /// The colours that occur with how often, from the lowest.
    pub fn occurring(&self) -> impl Iterator<Item = (i8, u32)> {
        let range = if self.all.is_some() { i8::MIN..=i8::MAX } else { 0..=USUAL as i8 - 1 };
        range.map(|colour| (colour, self.get(colour))).filter(|&(_, count)| count > 0)
    }

    /// The colour that occurs most, the lowest on a tie.
    pub fn most(&self) -> Option<i8> {
        self.occurring().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0))).map(|(colour, _)| colour)
    }

    /// The colour that occurs least but at least once, the lowest on a tie.
    pub fn least(&self) -> Option<i8> {
        self.occurring().min_by_key(|&(_, count)| count).map(|(colour, _)| colour)
    }
}

/// Where a colour is counted: those from 0 on come first.
fn slot(colour: i8) -> usize {
    usize::from(colour as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: &[&[i8]]) -> Grid {
        Grid::from_rows(rows).unwrap()
    }

    #[test]
    fn grids_order_like_tuples_of_rows() {
        let sorted = [
            Grid::default(),
            grid(&[&[]]),
            grid(&[&[], &[]]),
            grid(&[&[-1, 5]]),
            grid(&[&[0]]),
            grid(&[&[0], &[0]]),
            grid(&[&[0, 0]]),
            grid(&[&[0, 1]]),
            grid(&[&[1]]),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn ties_go_to_the_lowest_colour() {
        let tied = grid(&[&[5, 3, -1], &[3, 5, -1], &[9, 9, 7]]);
        assert_eq!(tied.counts().most(), Some(-1));
        assert_eq!(tied.counts().least(), Some(7));
        assert_eq!(Grid::default().most_common(), Err(Misuse::NoCells("mostcolor")));
        let counts = grid(&[&[127, 3, -128, 16, 15, 3]]).counts();
        assert_eq!(counts.occurring().collect::<Vec<_>>(), [(-128, 1), (3, 2), (15, 1), (16, 1), (127, 1)]);
        assert_eq!((counts.get(3), counts.get(16), counts.get(-1)), (2, 1, 0));
    }

    #[test]
    fn ragged_rows_are_refused_with_both_lengths() {
        assert_eq!(Grid::from_rows(&[&[1, 2][..], &[3][..]]), Err(Misuse::Ragged(2, 1)));
    }
}
