//! Turning, mirroring, cutting, joining and scaling grids.

use crate::grid::Grid;
use crate::misuse::Misuse;

impl Grid {
    /// Upside down.
    pub fn hmirror(&self) -> Self {
        self.with(joined(self.cells().len(), self.rows().rev()))
    }

    /// Left and right exchanged.
    pub fn vmirror(&self) -> Self {
        let mut cells = self.cells().to_vec();
        cells.chunks_exact_mut(self.width().max(1)).for_each(<[i8]>::reverse);
        self.with(cells)
    }

    /// Rows become columns. Without columns nothing is left, not even rows.
    pub fn dmirror(&self) -> Self {
        let mut cells = Vec::with_capacity(self.cells().len());
        for column in 0..self.width() {
            cells.extend(self.column(column));
        }
        Self::new(self.width(), self.height(), cells)
    }

    /// Reflected in the other diagonal.
    pub fn cmirror(&self) -> Self {
        self.dmirror().rot180()
    }

    /// A quarter turn clockwise.
    pub fn rot90(&self) -> Self {
        self.dmirror().vmirror()
    }

    /// Half a turn.
    pub fn rot180(&self) -> Self {
        self.with(self.cells().iter().rev().copied().collect())
    }

    /// A quarter turn anticlockwise.
    pub fn rot270(&self) -> Self {
        self.dmirror().hmirror()
    }

    /// Rows and columns from `start`, as many as `dims` says, with the slices of Python: a negative bound counts from the
    /// end, what lies beyond the end is left out, an inverted range is empty.
    pub fn crop(&self, start: (i64, i64), dims: (i64, i64)) -> Self {
        let (top, bottom) = slice(start.0, start.0.saturating_add(dims.0), self.height());
        let (left, right) = slice(start.1, start.1.saturating_add(dims.1), self.width());
        self.cut(top..bottom, left..right)
    }

    /// Rows and columns inside the grid.
    fn cut(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Self {
        let (height, width) = (rows.len(), columns.len());
        Self::new(height, width, joined(height * width, rows.map(|row| &self.row(row)[columns.clone()])))
    }

    /// Without the outermost ring.
    pub fn trim(&self) -> Self {
        self.crop((1, 1), ((self.height() as i64 - 2).max(0), (self.width() as i64 - 2).max(0)))
    }

    /// The upper half; an odd middle row is in neither.
    pub fn top_half(&self) -> Self {
        self.cut(0..self.height() / 2, 0..self.width())
    }

    /// The lower half; an odd middle row is in neither.
    pub fn bottom_half(&self) -> Self {
        self.cut(self.height().div_ceil(2)..self.height(), 0..self.width())
    }

    /// The left half; an odd middle column is in neither, and no column at all leaves no rows.
    pub fn left_half(&self) -> Self {
        self.columns(0..self.width() / 2)
    }

    /// The right half; an odd middle column is in neither, and no column at all leaves no rows.
    pub fn right_half(&self) -> Self {
        self.columns(self.width().div_ceil(2)..self.width())
    }

    fn columns(&self, columns: std::ops::Range<usize>) -> Self {
        if columns.is_empty() { Self::default() } else { self.cut(0..self.height(), columns) }
    }

    /// `n` pieces side by side. If `n` does not divide the width, a column is skipped between them.
    pub fn hsplit(&self, n: i64) -> Result<Vec<Self>, Misuse> {
        let pieces = pieces(self.width(), n)?;
        Ok(pieces.map(|(start, len)| self.crop((0, start), (self.height() as i64, len))).collect())
    }

    /// `n` pieces one below the other. If `n` does not divide the height, a row is skipped between them.
    pub fn vsplit(&self, n: i64) -> Result<Vec<Self>, Misuse> {
        let pieces = pieces(self.height(), n)?;
        Ok(pieces.map(|(start, len)| self.crop((start, 0), (len, self.width() as i64))).collect())
    }

    /// `other` to the right, row by row up to the fewer rows.
    pub fn hconcat(&self, other: &Self) -> Self {
        let height = self.height().min(other.height());
        let width = self.width() + other.width();
        Self::new(height, width, joined(height * width, (0..height).flat_map(|row| [self.row(row), other.row(row)])))
    }

    /// `other` below, or a fault where the widths differ: a tuple of such rows is no grid.
    pub fn vconcat(&self, other: &Self) -> Result<Self, Misuse> {
        let width = if self.height() == 0 { other.width() } else { self.width() };
        if other.height() > 0 && other.width() != width {
            return Err(Misuse::Ragged(width, other.width()));
        }
        Ok(Self::new(self.height() + other.height(), width, [self.cells(), other.cells()].concat()))
    }

    /// Each cell `factor` times as wide; nothing of it for a factor below one.
    pub fn hupscale(&self, factor: usize) -> Self {
        let mut cells = Vec::with_capacity(self.cells().len() * factor);
        for &colour in self.cells() {
            cells.resize(cells.len() + factor, colour);
        }
        Self::new(self.height(), self.width() * factor, cells)
    }

    /// Each row `factor` times.
    pub fn vupscale(&self, factor: usize) -> Self {
        let cells = joined(self.cells().len() * factor, self.rows().flat_map(|row| std::iter::repeat_n(row, factor)));
        Self::new(self.height() * factor, self.width(), cells)
    }

    /// Rows and columns whose number is a multiple of `factor`.
    pub fn downscale(&self, factor: i64) -> Result<Self, Misuse> {
        let factor = at_least_one("the factor of downscale", factor)?;
        let cells = self.rows().step_by(factor).flat_map(|row| row.iter().step_by(factor)).copied().collect();
        Ok(Self::new(self.height().div_ceil(factor), self.width().div_ceil(factor), cells))
    }

    /// Without the one-coloured rows and columns, both judged on the original.
    pub fn compress(&self) -> Self {
        let columns: Vec<usize> = (0..self.width()).filter(|&column| !Self::is_plain(self.column(column))).collect();
        let rows: Vec<&[i8]> = self.rows().filter(|row| !Self::is_plain(row.iter().copied())).collect();
        let cells = rows.iter().flat_map(|row| columns.iter().map(|&column| row[column])).collect();
        Self::new(rows.len(), columns.len(), cells)
    }
}

/// Rows one after the other, so many cells in all.
fn joined<'a>(n_cells: usize, rows: impl Iterator<Item = &'a [i8]>) -> Vec<i8> {
    let mut cells = Vec::with_capacity(n_cells);
    rows.for_each(|row| cells.extend_from_slice(row));
    cells
}

/// The part of `len` elements that a slice of Python means.
fn slice(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let bound = |at: i64| {
        let len = len as i64;
        (if at < 0 { at.saturating_add(len).max(0) } else { at.min(len) }) as usize
    };
    let (start, stop) = (bound(start), bound(stop));
    (start, stop.max(start))
}

/// Where `n` pieces of `len` begin, and how long each is; fewer than none are none.
fn pieces(len: usize, n: i64) -> Result<impl Iterator<Item = (i64, i64)>, Misuse> {
    if n == 0 {
        return Err(Misuse::NoPieces);
    }
    let (piece, gap) = (len as i64 / n, i64::from(len as i64 % n != 0));
    Ok((0..n).map(move |nth| (nth.saturating_mul(piece + gap), piece)))
}

fn at_least_one(what: &'static str, n: i64) -> Result<usize, Misuse> {
    usize::try_from(n).ok().filter(|&n| n > 0).ok_or(Misuse::AtLeastOne(what, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: &[&[i8]]) -> Grid {
        Grid::from_rows(rows).unwrap()
    }

    #[test]
    fn turns_and_mirrors_of_two_rows() {
        let two = grid(&[&[6, 7, 8], &[1, 2, 3]]);
        assert_eq!(two.rot90(), grid(&[&[1, 6], &[2, 7], &[3, 8]]));
        assert_eq!(two.rot270(), grid(&[&[8, 3], &[7, 2], &[6, 1]]));
        assert_eq!(two.cmirror(), grid(&[&[3, 8], &[2, 7], &[1, 6]]));
        assert_eq!(two.dmirror(), grid(&[&[6, 1], &[7, 2], &[8, 3]]));
    }

    #[test]
    fn crop_follows_python_slices() {
        let two = grid(&[&[1, 2, 3], &[4, 5, 6]]);
        assert_eq!(two.crop((1, 1), (4, 4)), grid(&[&[5, 6]]));
        assert_eq!(two.crop((-1, -2), (1, 1)).height(), 0);
        assert_eq!(two.crop((-2, -2), (1, 1)), grid(&[&[2]]));
        assert_eq!(two.crop((0, 2), (2, -1)), grid(&[&[], &[]]));
        assert_eq!(two.crop((i64::MAX, 0), (i64::MAX, 1)), Grid::default());
    }

    #[test]
    fn a_separator_is_skipped_between_pieces() {
        assert_eq!(grid(&[&[3, 3, 0, 6, 6]]).hsplit(2).unwrap(), [grid(&[&[3, 3]]), grid(&[&[6, 6]])]);
        assert_eq!(grid(&[&[1], &[2], &[3]]).vsplit(2).unwrap(), [grid(&[&[1]]), grid(&[&[3]])]);
        assert!(grid(&[&[1]]).hsplit(0).is_err());
    }

    #[test]
    fn grids_without_rows_or_columns_join_like_tuples() {
        let empty_rows = Grid::canvas(0, 2, 0);
        let column = grid(&[&[1], &[2]]);
        assert_eq!(empty_rows.hconcat(&column), column);
        assert_eq!(Grid::default().vconcat(&column).unwrap(), column);
        assert_eq!(column.vconcat(&Grid::default()).unwrap(), column);
        assert!(column.vconcat(&empty_rows).is_err());
        assert_eq!(empty_rows.dmirror(), Grid::default());
        assert_eq!(column.left_half(), Grid::default());
        assert_eq!(column.trim(), Grid::default());
    }
}
