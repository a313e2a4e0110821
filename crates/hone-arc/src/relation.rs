//! How patches lie to each other, and what repeats within one.

use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::{BIAS, BITS, COMPONENT, Extent, Kind, PLACE, Patch, Place, key, place_of};

/// How far lines are drawn and things slide: further than any grid of a task is wide.
pub const FAR: i64 = 42;

impl Patch {
    /// Whether both have a cell in some row.
    pub fn shares_row(&self, other: &Self) -> bool {
        shares(self.places().map(|place| place.0), other.places().map(|place| place.0))
    }

    /// Whether both have a cell in some column.
    pub fn shares_column(&self, other: &Self) -> bool {
        shares(self.places().map(|place| place.1), other.places().map(|place| place.1))
    }

    /// The least number of steps along rows and columns from a cell of one to a cell of the other.
    pub fn manhattan(&self, other: &Self) -> Result<i64, Misuse> {
        let narrow = |place: Place| (place.0 as i32, place.1 as i32);
        let theirs: Vec<(i32, i32)> = other.places().map(narrow).collect();
        let steps = |a: (i32, i32)| theirs.iter().map(move |b| (a.0 - b.0).abs() + (a.1 - b.1).abs()).fold(i32::MAX, i32::min);
        let least = self.places().map(narrow).map(steps).min().filter(|_| !theirs.is_empty());
        least.map(i64::from).ok_or(Misuse::EmptyPatch("distance"))
    }

    /// Whether the least distance is exactly one.
    pub fn is_adjacent(&self, other: &Self) -> Result<bool, Misuse> {
        for patch in [self, other] {
            if patch.is_empty() || !lie_near(patch.keys()) {
                within_reach(patch.extent_of("distance")?)?;
            }
        }
        let (few, many) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        Ok(touches(few.keys(), 0, &many.place_keys()))
    }

    /// Whether the extremes lie on the edge of the grid.
    pub fn borders(&self, grid: &Grid) -> Result<bool, Misuse> {
        let extent = self.extent_of("border")?;
        Ok(extent.top == 0
            || extent.left == 0
            || extent.bottom == grid.height() as i64 - 1
            || extent.right == grid.width() as i64 - 1)
    }

    /// The direction from the centre of this to that of the other; equal centres give (0, -1).
    pub fn position(&self, other: &Self) -> Result<Place, Misuse> {
        let (from, to) = (self.extent_of("centre")?.center(), other.extent_of("centre")?.center());
        Ok(if from == to { (0, -1) } else { ((to.0 - from.0).signum(), (to.1 - from.1).signum()) })
    }

    /// The vector that brings this up to the other: along columns if they share one, else along rows, step by step until
    /// they are adjacent, and [`FAR`] steps if they never are.
    pub fn gravitate(&self, other: &Self) -> Result<Place, Misuse> {
        let (from, to) = (self.extent_of("centre")?.center(), other.extent_of("centre")?.center());
        let sense = |from: i64, to: i64| if from < to { 1 } else { -1 };
        let direction = match self.shares_column(other) {
            true => (sense(from.0, to.0), 0),
            false => (0, sense(from.1, to.1)),
        };
        within_reach(self.extent_of("centre")?)?;
        within_reach(other.extent_of("centre")?)?;
        let theirs = other.place_keys();
        let is_adjacent = |n: i64| touches(self.keys(), n * step(direction), &theirs);
        let n = (0..FAR).find(|&n| is_adjacent(n)).unwrap_or(FAR);
        Ok((n * direction.0, n * direction.1))
    }

    /// The least number of columns by which the object repeats; its width if it does not.
    pub fn hperiod(&self) -> Result<i64, Misuse> {
        self.period(|patch| patch.extent().map_or(0, |extent| extent.width()), (0, -1), |place| place.1)
    }

    /// The least number of rows by which the object repeats; its height if it does not.
    pub fn vperiod(&self) -> Result<i64, Misuse> {
        self.period(|patch| patch.extent().map_or(0, |extent| extent.height()), (-1, 0), |place| place.0)
    }

    fn period(&self, len: impl Fn(&Self) -> i64, back: Place, axis: impl Fn(Place) -> i64) -> Result<i64, Misuse> {
        let normal = self.normalize()?;
        let len = len(&normal);
        if len > 1 && self.kind() == Kind::Indices {
            return Err(Misuse::NeedsObject("a period"));
        }
        let agrees = |period: i64| {
            let mut staying = normal.keys().iter().filter(|&&key| axis(place_of(key)) >= period);
            staying.all(|key| normal.keys().binary_search(&key.wrapping_add_signed(period * step(back))).is_ok())
        };
        Ok((1..len).find(|&period| agrees(period)).unwrap_or(len))
    }
}

/// What a vector adds to a packed place, where no component leaves its bits.
fn step((down, right): Place) -> i64 {
    (down << BITS) + right
}

/// Whether all packed elements surely lie within reach: their rows and columns are from -1024 to 1023.
fn lie_near(keys: &[u64]) -> bool {
    const NEAR: i64 = 1 << 10;
    const BEYOND: u64 = COMPONENT & !(2 * NEAR as u64 - 1);
    let lowest = ((BIAS - NEAR) as u64) << BITS | (BIAS - NEAR) as u64;
    // Whoever lies beyond leaves a high bit in one of the components, a row before the first one by what it borrows.
    let bits = keys.iter().fold(0, |bits, key| bits | (key & PLACE).wrapping_sub(lowest));
    bits & ((BEYOND << BITS | BEYOND) | !PLACE) == 0
}

/// Refuses a rectangle from which things could slide beyond the numbers that places have.
fn within_reach(extent: Extent) -> Result<(), Misuse> {
    let is_near = |at: i64| at.abs() < BIAS - FAR - 1;
    match [extent.top, extent.left, extent.bottom, extent.right].into_iter().all(is_near) {
        true => Ok(()),
        false => Err(Misuse::TooFar),
    }
}

/// Whether packed elements, moved, come within one step of packed places and no closer. All are within reach.
fn touches(moving: &[u64], by: i64, places: &[u64]) -> bool {
    let is_there = |key: u64| places.binary_search(&key).is_ok();
    let mut is_beside = false;
    for key in moving {
        let here = (key & PLACE).wrapping_add_signed(by);
        if is_there(here) {
            return false;
        }
        is_beside |= BESIDE.iter().any(|&side| is_there(here.wrapping_add_signed(step(side))));
    }
    is_beside
}

/// The places that share an edge.
const BESIDE: [Place; 4] = [(-1, 0), (0, -1), (0, 1), (1, 0)];

/// Whether two streams of numbers have one in common.
fn shares(a: impl Iterator<Item = i64>, b: impl Iterator<Item = i64>) -> bool {
    let distinct = |numbers: &mut Vec<i64>| {
        numbers.sort_unstable();
        numbers.dedup();
    };
    let (mut a, mut b) = (a.collect(), b.collect());
    distinct(&mut a);
    distinct(&mut b);
    a.iter().any(|number| b.binary_search(number).is_ok())
}

/// The straight segment between two places with both ends; nothing if it is neither straight nor exactly diagonal.
pub fn connect(a: Place, b: Place) -> Result<Patch, Misuse> {
    let (rows, columns) = (b.0.saturating_sub(a.0), b.1.saturating_sub(a.1));
    let (n_rows, n_columns) = (rows.unsigned_abs(), columns.unsigned_abs());
    if n_rows != 0 && n_columns != 0 && n_rows != n_columns {
        return Ok(Patch::default());
    }
    // Ends within bounds keep everything between them within bounds, and the length too.
    let (first, last) = (key(a)?.min(key(b)?), key(a)?.max(key(b)?));
    let n = n_rows.max(n_columns).max(1);
    let step = ((last - first) / n).max(1);
    let n_keys = (last - first) / step + 1;
    Ok(Patch::sorted(Kind::Indices, (0..n_keys).map(|nth| first + nth * step).collect()))
}

/// The segment from a place far beyond any grid.
pub fn shoot(start: Place, direction: Place) -> Result<Patch, Misuse> {
    let end = |at: i64, by: i64| at.saturating_add(by.saturating_mul(FAR));
    connect(start, (end(start.0, direction.0), end(start.1, direction.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(places: &[Place]) -> Patch {
        Patch::indices(places.iter().copied()).unwrap()
    }

    #[test]
    fn things_slide_until_they_touch() {
        assert_eq!(places(&[(9, 2)]).gravitate(&places(&[(3, 2)])).unwrap(), (-5, 0));
        assert_eq!(places(&[(1, 1)]).gravitate(&places(&[(4, 6)])).unwrap(), (0, 42));
        assert_eq!(places(&[(1, 1)]).gravitate(&places(&[(1, 2)])).unwrap(), (0, 0));
    }

    #[test]
    fn segments_are_straight_or_exactly_diagonal() {
        assert_eq!(connect((5, 0), (3, 2)).unwrap(), places(&[(3, 2), (4, 1), (5, 0)]));
        assert_eq!(connect((0, 0), (2, 3)).unwrap(), Patch::default());
        assert_eq!(connect((7, 7), (7, 7)).unwrap(), places(&[(7, 7)]));
        assert_eq!(shoot((0, 0), (1, 1)).unwrap().len(), 43);
        assert_eq!(shoot((2, 2), (0, 0)).unwrap().len(), 1);
        assert!(connect((i64::MIN, 0), (i64::MAX, 0)).is_err());
    }

    #[test]
    fn a_period_compares_colours_where_the_moved_object_stays() {
        let object = Patch::object([(7, (2, 1)), (4, (2, 2)), (7, (2, 3))]).unwrap();
        assert_eq!(object.hperiod().unwrap(), 2);
        assert_eq!(object.vperiod().unwrap(), 1);
        assert_eq!(places(&[(0, 0), (0, 1)]).hperiod(), Err(Misuse::NeedsObject("a period")));
        assert_eq!(Patch::default().hperiod().unwrap(), 0);
    }

    #[test]
    fn equal_centres_point_left() {
        assert_eq!(places(&[(6, 6)]).position(&places(&[(2, 9)])).unwrap(), (-1, 1));
        assert_eq!(places(&[(1, 1)]).position(&places(&[(1, 1)])).unwrap(), (0, -1));
    }
}
