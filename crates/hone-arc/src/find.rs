//! What is in a grid: its cells as patches, its connected parts, and where a pattern occurs.

use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::{Extent, Kind, Patch, Place, cell_key, colour_of, key};

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

/// The four cells that share an edge, then the four that share a corner.
const AROUND: [Place; 8] = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)];

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
        for (colour, place) in self.each().filter(|&(colour, _)| is_wanted(colour)) {
            let next = &mut starts[usize::from(colour as u8)];
            keys[*next] = cell_key(i64::from(colour), place)?;
            *next += 1;
        }
        Ok(Patch::sorted(Kind::Object, keys))
    }

    /// The places that hold a colour.
    pub fn of_color(&self, colour: i64) -> Result<Patch, Misuse> {
        let keys = self.each().filter(|&(at, _)| i64::from(at) == colour).map(|(_, place)| key(place));
        Ok(Patch::sorted(Kind::Indices, keys.collect::<Result<_, _>>()?))
    }

    /// Colours with their places, row by row.
    fn each(&self) -> impl Iterator<Item = (i8, Place)> {
        let row = |(row, colours): (usize, &'_ [i8])| (row as i64, colours.len());
        let places = self.rows().enumerate().map(row).flat_map(|(row, len)| (0..len as i64).map(move |column| (row, column)));
        self.cells().iter().copied().zip(places)
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
        let mut is_seen: Vec<bool> = self.cells().iter().map(|&colour| Some(colour) == background).collect();
        let (mut objects, mut waiting) = (Vec::new(), Vec::new());
        for start in 0..self.cells().len() {
            if !is_seen[start] {
                objects.push(self.grow(start, grouping, &mut is_seen, &mut waiting)?);
            }
        }
        objects.sort_unstable_by(|a, b| a.keys().cmp(b.keys()));
        Ok(objects)
    }

    /// The part that a cell belongs to. Cells that are seen belong to others. `waiting` is empty before and after.
    fn grow(&self, start: usize, grouping: Grouping, is_seen: &mut [bool], waiting: &mut Vec<usize>) -> Result<Patch, Misuse> {
        let around = if grouping.is_diagonal { &AROUND[..] } else { &AROUND[..4] };
        let mut keys = Vec::new();
        waiting.push(start);
        is_seen[start] = true;
        while let Some(at) = waiting.pop() {
            let (row, column) = ((at / self.width()) as i64, (at % self.width()) as i64);
            keys.push(cell_key(i64::from(self.cells()[at]), (row, column))?);
            for (down, right) in around {
                let Some(next) = self.place(row + down, column + right) else { continue };
                if !is_seen[next] && (!grouping.is_univalued || self.cells()[next] == self.cells()[at]) {
                    is_seen[next] = true;
                    waiting.push(next);
                }
            }
        }
        Ok(Patch::of(Kind::Object, keys))
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
