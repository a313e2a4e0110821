//! Colouring grids. The size stays, and places outside are ignored.

use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::{colour_of, place_of};

/// A colour as a cell holds it.
pub(crate) fn colour(value: i64) -> Result<i8, Misuse> {
    i8::try_from(value).map_err(|_| Misuse::Colour(value))
}

impl Grid {
    /// A colour at packed places, in any order; only over `background` if there is one.
    pub(crate) fn fill(&self, value: i8, keys: &[u64], background: Option<i8>) -> Result<Self, Misuse> {
        self.put(keys.iter().map(|&key| (i64::from(value), key)), background)
    }

    /// Packed cells in their own colours, later ones over earlier ones; only over `background` if there is one.
    pub(crate) fn paint(&self, keys: &[u64], background: Option<i8>) -> Result<Self, Misuse> {
        self.put(keys.iter().map(|&key| (colour_of(key), key)), background)
    }

    fn put(&self, cells: impl Iterator<Item = (i64, u64)>, background: Option<i8>) -> Result<Self, Misuse> {
        if self.height() == 0 {
            return Err(Misuse::NoRows("cells to colour"));
        }
        let mut painted = self.cells().to_vec();
        for (value, key) in cells {
            let (row, column) = place_of(key);
            let Some(place) = self.place(row, column) else { continue };
            if background.is_none_or(|background| painted[place] == background) {
                painted[place] = colour(value)?;
            }
        }
        Ok(self.with(painted))
    }

    /// One colour becomes another everywhere.
    pub fn replace(&self, old: i64, new: i8) -> Self {
        self.map(|at| if i64::from(at) == old { new } else { at })
    }

    /// Two colours exchanged.
    pub fn switch(&self, a: i8, b: i8) -> Self {
        self.map(|at| {
            if at == a {
                b
            } else if at == b {
                a
            } else {
                at
            }
        })
    }

    /// The common colour where both agree, else the fallback; the size is that of this grid.
    pub fn cellwise(&self, other: &Self, fallback: i8) -> Result<Self, Misuse> {
        let mut cells = Vec::with_capacity(self.cells().len());
        for (row, colours) in self.rows().enumerate() {
            let theirs = if row < other.height() { other.row(row) } else { &[] };
            if theirs.len() < colours.len() {
                return Err(Misuse::Smaller(row, theirs.len()));
            }
            cells.extend(colours.iter().zip(theirs).map(|(&mine, &theirs)| if mine == theirs { mine } else { fallback }));
        }
        Ok(self.with(cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::cell_key;

    fn grid(rows: &[&[i8]]) -> Grid {
        Grid::from_rows(rows).unwrap()
    }

    #[test]
    fn later_cells_win_and_the_background_is_tested_as_painting_proceeds() {
        let cells = [cell_key(8, (0, 0)).unwrap(), cell_key(3, (0, 0)).unwrap(), cell_key(5, (0, -1)).unwrap()];
        assert_eq!(grid(&[&[4, 4]]).paint(&cells, None).unwrap(), grid(&[&[3, 4]]));
        assert_eq!(grid(&[&[4, 4]]).paint(&cells, Some(4)).unwrap(), grid(&[&[8, 4]]));
        assert!(Grid::default().paint(&cells, None).is_err());
    }

    #[test]
    fn cellwise_needs_a_second_grid_that_is_large_enough() {
        let a = grid(&[&[3, 8], &[5, 5]]);
        assert_eq!(a.cellwise(&grid(&[&[3, 9], &[2, 5]]), 0).unwrap(), grid(&[&[3, 0], &[0, 5]]));
        assert_eq!(a.cellwise(&grid(&[&[3, 9]]), 0), Err(Misuse::Smaller(1, 0)));
    }

    #[test]
    fn switching_is_not_two_replacements() {
        assert_eq!(grid(&[&[6, 2, 9]]).switch(9, 6), grid(&[&[9, 2, 6]]));
        assert_eq!(grid(&[&[6, 2, 9]]).replace(9, 6), grid(&[&[6, 2, 6]]));
    }
}
