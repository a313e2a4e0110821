//! Where a pattern occurs in a grid: the places of a row are the bits of a word, so that a run of equal cells is compared at all of
//! them at once.

use crate::bitmap::push_bits;
use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::{Extent, Kind, Patch, Place, colour_of, key, place_of, rectangle};

/// Grids of fewer columns have a bit for each column and for the one behind the last.
const COLUMNS_MAX: usize = 64;

impl Grid {
    /// Where the upper left corner of the object's rectangle can be put so that every cell meets its colour.
    pub fn occurrences(&self, object: &Patch) -> Result<Patch, Misuse> {
        if object.kind() == Kind::Indices && !object.is_empty() {
            return Err(Misuse::NeedsObject("occurrences"));
        }
        let Extent { top, left, bottom, right } = object.extent().unwrap_or(Extent { top: 0, left: 0, bottom: -1, right: -1 });
        let last = (self.height() as i64 - (bottom - top + 1), self.width() as i64 - (right - left + 1));
        // A colour that no grid can hold is nowhere.
        let is_colour = |&key: &u64| i8::try_from(colour_of(key)).is_ok();
        if last.0 < 0 || last.1 < 0 || !object.keys().iter().all(is_colour) {
            return Ok(Patch::default());
        }
        match self.width() < COLUMNS_MAX {
            true => self.as_bits(object.keys(), (top, left), last),
            false => self.one_by_one(object.keys(), (top, left), last),
        }
    }

    /// Looks for cells at the places up to the last, a row of places at a time.
    fn as_bits(&self, cells: &[u64], corner: Place, last: Place) -> Result<Patch, Misuse> {
        let mut found = vec![u64::MAX >> (COLUMNS_MAX as i64 - 1 - last.1); last.0 as usize + 1];
        let (mut of_colour, mut of_run) = (Vec::new(), Vec::new());
        let (mut colour, mut len) = (None, 0);
        // Cells of one colour that follow each other in a row are numbers that follow each other.
        for run in cells.chunk_by(|a, b| a + 1 == *b) {
            let at = place_of(run[0]);
            if colour != Some(colour_of(run[0])) {
                colour = Some(colour_of(run[0]));
                of_colour = self.rows().map(|row| bits_of(row, colour)).collect();
                len = 0;
            }
            if len != run.len() {
                len = run.len();
                of_run = of_colour.iter().map(|&bits| starts_of_runs(bits, len)).collect();
            }
            let behind = (at.1 - corner.1) as u32;
            let rows = &of_run[(at.0 - corner.0) as usize..];
            found.iter_mut().zip(rows).for_each(|(places, starts)| *places &= starts >> behind);
            if found.iter().all(|&places| places == 0) {
                return Ok(Patch::default());
            }
        }
        let mut keys = Vec::new();
        for (row, places) in (0..).zip(found) {
            push_bits(places, key((row, 0))?, &mut keys);
        }
        Ok(Patch::sorted(Kind::Indices, keys))
    }

    /// Looks for cells at one place after the other.
    fn one_by_one(&self, cells: &[u64], corner: Place, last: Place) -> Result<Patch, Misuse> {
        // The box lies inside, so that each cell is a fixed number of cells behind its upper left corner.
        let steps = |(row, column): Place| row as usize * self.width() + column as usize;
        let behind = |at: Place| steps((at.0 - corner.0, at.1 - corner.1));
        let wanted: Vec<(i64, usize)> = cells.iter().map(|&cell| (colour_of(cell), behind(place_of(cell)))).collect();
        let meets = |&place: &Place| {
            let here = &self.cells()[steps(place).min(self.cells().len())..];
            wanted.iter().all(|&(colour, step)| here.get(step).is_some_and(|&at| i64::from(at) == colour))
        };
        let keys = rectangle(0..=last.0, 0..=last.1).filter(meets).map(key).collect::<Result<_, _>>()?;
        Ok(Patch::sorted(Kind::Indices, keys))
    }
}

/// Which cells of a row have a colour.
fn bits_of(row: &[i8], colour: Option<i64>) -> u64 {
    row.iter().rev().fold(0, |bits, &at| (bits << 1) | u64::from(Some(i64::from(at)) == colour))
}

/// Which bits begin so many set bits.
fn starts_of_runs(bits: u64, len: usize) -> u64 {
    let (mut starts, mut covered) = (bits, 1);
    while covered < len {
        let step = covered.min(len - covered);
        starts &= starts >> step;
        covered += step;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;

    #[test]
    fn cells_that_the_object_does_not_name_are_ignored() {
        let object = Patch::object([(2, (8, 8)), (2, (8, 10))]).unwrap();
        let found = Grid::new(1, 4, vec![2, 6, 2, 2]).occurrences(&object).unwrap();
        assert_eq!(found, Patch::indices([(0, 0)]).unwrap());
        assert_eq!(Grid::new(1, 2, vec![1, 1]).occurrences(&Patch::default()).unwrap().len(), 6);
        assert_eq!(Grid::default().occurrences(&Patch::default()).unwrap().len(), 1);
    }

    #[test]
    fn bits_find_what_looking_at_every_place_finds() {
        let mut n_found = 0;
        for seed in 0..500 {
            let mut draws = Draws::new(seed, &["occur"]);
            let (height, width) = (1 + draws.below(12), 1 + draws.below(63));
            let n_colours = 1 + draws.below(3) as i64;
            let cells = (0..height * width).map(|_| draws.between(-1, n_colours) as i8 / 2).collect();
            let grid = Grid::new(height, width, cells);
            let side = 1 + draws.below(4) as i64;
            let part =
                (0..side * side).filter(|_| draws.below(4) > 0).map(|nth| (nth % 2 * (nth % 3), (nth / side - 2, nth % side)));
            let object = Patch::object(part).unwrap();
            let Some(extent) = object.extent() else { continue };
            let last = (height as i64 - extent.height(), width as i64 - extent.width());
            if last.0 < 0 || last.1 < 0 {
                assert!(grid.occurrences(&object).unwrap().is_empty(), "seed {seed}");
                continue;
            }
            let found = grid.occurrences(&object).unwrap();
            assert_eq!(found, grid.one_by_one(object.keys(), (extent.top, extent.left), last).unwrap(), "seed {seed}");
            n_found += usize::from(!found.is_empty());
        }
        assert!(n_found > 50, "{n_found}");
    }
}
