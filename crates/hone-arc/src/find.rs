//! What is in a grid: its cells as patches, its connected parts, and where a pattern occurs.

use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::{BITS, Extent, Kind, Patch, Place, colour_of, coloured, key, place_of};
use std::ops::Range;

/// What makes cells one object.
#[derive(Debug, Clone, Copy)]
pub struct Grouping {
    /// Only cells of equal colour join.
    pub is_univalued: bool,
    /// Cells that touch at a corner join too.
    pub is_diagonal: bool,
    /// The most common colour is in no object.
    pub is_without_background: bool,
}

impl Grid {
    /// Every place.
    pub fn as_indices(&self) -> Result<Patch, Misuse> {
        match (self.height(), self.width()) {
            (0, _) | (_, 0) => Ok(Patch::default()),
            (height, width) => Extent { top: 0, left: 0, bottom: height as i64 - 1, right: width as i64 - 1 }.filled(),
        }
    }

    /// Every cell.
    pub fn as_object(&self) -> Result<Patch, Misuse> {
        self.object_where(|_| true)
    }

    /// The cells whose colour is asked for.
    fn object_where(&self, is_wanted: impl Fn(i8) -> bool) -> Result<Patch, Misuse> {
        // Cells ascend by colour first: each colour has its part of the keys, as long as it occurs often.
        let mut starts = [0_usize; 256];
        let mut n = 0;
        for (colour, count) in self.counts().occurring().filter(|&(colour, _)| is_wanted(colour)) {
            starts[usize::from(colour as u8)] = n;
            n += count as usize;
        }
        let mut keys = vec![0; n];
        for (start, row) in self.keyed_rows()? {
            for (place, &colour) in (start..).zip(row).filter(|&(_, &colour)| is_wanted(colour)) {
                let next = &mut starts[usize::from(colour as u8)];
                keys[*next] = coloured(colour, place);
                *next += 1;
            }
        }
        Ok(Patch::sorted(Kind::Object, keys))
    }

    /// The places that hold a colour.
    pub fn of_color(&self, colour: i64) -> Result<Patch, Misuse> {
        let mut keys = Vec::new();
        for (start, row) in self.keyed_rows()? {
            keys.extend((start..).zip(row).filter(|&(_, &at)| i64::from(at) == colour).map(|(place, _)| place));
        }
        Ok(Patch::sorted(Kind::Indices, keys))
    }

    /// The rows, each behind the packed place of its first cell: the places of a row are numbers that follow each other.
    fn keyed_rows(&self) -> Result<impl Iterator<Item = (u64, &[i8])>, Misuse> {
        key(((self.height() as i64 - 1).max(0), (self.width() as i64 - 1).max(0)))?;
        let first = key((0, 0))?;
        Ok((0..).map(move |row: u64| first + (row << BITS)).zip(self.rows()))
    }

    /// The cells of the grid at these places; places outside are dropped.
    pub fn object_at(&self, patch: &Patch) -> Result<Patch, Misuse> {
        let cells = patch.places().filter_map(|place| Some((i64::from(self.at(place.0, place.1)?), place)));
        Patch::object(cells)
    }

    /// The connected parts, in the order of sets.
    pub fn objects(&self, grouping: Grouping) -> Result<Vec<Patch>, Misuse> {
        if self.height() == 0 {
            return Err(Misuse::NoRows("objects"));
        }
        let background = if grouping.is_without_background { Some(self.most_common()?) } else { None };
        if self.cells().is_empty() {
            return Ok(Vec::new());
        }
        let mut parts = Parts::new(self, background);
        for start in parts.starts() {
            parts.grow(start, grouping);
        }
        // All cells ascend, and so do those of each part.
        let mut objects: Vec<Vec<u64>> = parts.lens.iter().map(|&len| Vec::with_capacity(len)).collect();
        for &key in self.object_where(|colour| Some(colour) != background)?.keys() {
            objects[parts.part_at(place_of(key))].push(key);
        }
        objects.sort_unstable();
        Ok(objects.into_iter().map(|keys| Patch::sorted(Kind::Object, keys)).collect())
    }

    /// One object per colour, from the lowest; without the most common colour on request.
    pub fn partition(&self, is_without_background: bool) -> Result<Vec<Patch>, Misuse> {
        let background = if is_without_background { Some(self.most_common()?) } else { None };
        let wanted = self.object_where(|colour| Some(colour) != background)?;
        let of_one_colour = wanted.keys().chunk_by(|&a, &b| colour_of(a) == colour_of(b));
        Ok(of_one_colour.map(|keys| Patch::sorted(Kind::Object, keys.to_vec())).collect())
    }

    /// Every one-coloured row and column as an object, in the order of sets.
    pub fn frontiers(&self) -> Result<Vec<Patch>, Misuse> {
        let rows = (0..self.height()).filter(|&row| Self::is_plain(self.row(row).iter().copied()));
        let columns = (0..self.width()).filter(|&column| Self::is_plain(self.column(column)));
        let row = |row: usize| {
            Patch::object(self.row(row).iter().enumerate().map(|(column, &at)| (i64::from(at), (row as i64, column as i64))))
        };
        let column = |column: usize| {
            Patch::object(self.column(column).enumerate().map(|(row, at)| (i64::from(at), (row as i64, column as i64))))
        };
        let mut found = rows.map(row).chain(columns.map(column)).collect::<Result<Vec<_>, _>>()?;
        found.sort_unstable_by(|a, b| a.keys().cmp(b.keys()));
        found.dedup();
        Ok(found)
    }
}

/// Which part each cell of a grid belongs to. A cell more on every side belongs to none, so that every cell has all its neighbours.
struct Parts {
    width: usize,
    colours: Vec<i8>,
    parts: Vec<u32>,
    /// How many cells each part has.
    lens: Vec<usize>,
    waiting: Vec<usize>,
}

/// The part of a cell that is in none yet, and that of one that is in none for good.
const OPEN: u32 = u32::MAX;
const NO_PART: u32 = u32::MAX - 1;

impl Parts {
    fn new(grid: &Grid, background: Option<i8>) -> Self {
        let width = grid.width() + 2;
        let n_cells = width * (grid.height() + 2);
        let (mut colours, mut parts) = (vec![0; n_cells], vec![NO_PART; n_cells]);
        for (row, cells) in (1..).zip(grid.rows()) {
            let start = row * width + 1;
            colours[start..start + cells.len()].copy_from_slice(cells);
            for (part, &colour) in parts[start..].iter_mut().zip(cells) {
                *part = if Some(colour) == background { NO_PART } else { OPEN };
            }
        }
        Self { width, colours, parts, lens: Vec::new(), waiting: Vec::new() }
    }

    /// Every cell, from the first on.
    fn starts(&self) -> Range<usize> {
        0..self.parts.len()
    }

    /// Makes a part of a cell, if it is in none yet, and of all that join it.
    fn grow(&mut self, start: usize, grouping: Grouping) {
        if self.parts[start] != OPEN {
            return;
        }
        // The four cells that share an edge, then the four that share a corner.
        let around = [self.width, 1, self.width + 1, self.width - 1];
        let around = if grouping.is_diagonal { &around[..] } else { &around[..2] };
        let part = self.lens.len() as u32;
        let mut len = 0;
        self.parts[start] = part;
        self.waiting.push(start);
        while let Some(at) = self.waiting.pop() {
            len += 1;
            for next in around.iter().flat_map(|step| [at - step, at + step]) {
                if self.parts[next] == OPEN && (!grouping.is_univalued || self.colours[next] == self.colours[at]) {
                    self.parts[next] = part;
                    self.waiting.push(next);
                }
            }
        }
        self.lens.push(len);
    }

    /// The part of a cell that is in one.
    fn part_at(&self, (row, column): Place) -> usize {
        self.parts[(row as usize + 1) * self.width + column as usize + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: &[&[i8]]) -> Grid {
        Grid::from_rows(rows).unwrap()
    }

    fn object(cells: &[(i64, Place)]) -> Patch {
        Patch::object(cells.iter().copied()).unwrap()
    }

    const MIXED: Grouping = Grouping { is_univalued: false, is_diagonal: false, is_without_background: true };

    #[test]
    fn neighbours_of_any_colour_join_unless_one_is_asked_for() {
        let two = grid(&[&[0, 3, 5], &[0, 0, 0]]);
        assert_eq!(two.objects(MIXED).unwrap(), [object(&[(3, (0, 1)), (5, (0, 2))])]);
        let apart = Grouping { is_univalued: true, ..MIXED };
        assert_eq!(two.objects(apart).unwrap(), [object(&[(3, (0, 1))]), object(&[(5, (0, 2))])]);
    }

    #[test]
    fn corners_join_on_request_and_a_plain_grid_has_no_object() {
        let diagonal = grid(&[&[0, 3], &[3, 0], &[0, 0]]);
        assert_eq!(diagonal.objects(MIXED).unwrap().len(), 2);
        assert_eq!(diagonal.objects(Grouping { is_diagonal: true, ..MIXED }).unwrap().len(), 1);
        assert!(grid(&[&[4, 4]]).objects(MIXED).unwrap().is_empty());
        assert_eq!(Grid::default().objects(MIXED), Err(Misuse::NoRows("objects")));
    }

    #[test]
    fn a_single_cell_is_one_frontier_not_two() {
        assert_eq!(grid(&[&[5]]).frontiers().unwrap().len(), 1);
        assert_eq!(grid(&[&[5, 5], &[5, 1]]).frontiers().unwrap().len(), 2);
    }
}
