//! Patches: sets of cells (an object) or of places (indices), each element packed into one number.
//!
//! A place is `(row, column)`, a cell `(colour, (row, column))`. Packed as 20 bits a component with the sign shifted out, the
//! order of the numbers is the order of the tuples, so that a sorted vector is a set in the language's order, two sets compare
//! as slices, and dropping the colours is a mask. Knows nothing of values or programs.

use crate::misuse::Misuse;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// How far a component may lie from zero.
pub(crate) const BIAS: i64 = 1 << 19;
pub(crate) const BITS: u32 = 20;
pub(crate) const COMPONENT: u64 = (1 << BITS) - 1;
pub(crate) const PLACE: u64 = (1 << (2 * BITS)) - 1;

/// A place: row and column.
pub type Place = (i64, i64);

/// Packs a place into the lower bits.
pub(crate) fn key((row, column): Place) -> Result<u64, Misuse> {
    Ok((component(row)? << BITS) | component(column)?)
}

/// Packs a cell.
pub(crate) fn cell_key(colour: i64, place: Place) -> Result<u64, Misuse> {
    Ok((component(colour)? << (2 * BITS)) | key(place)?)
}

/// Packs a cell of a grid's colour at a packed place.
pub(crate) fn coloured(colour: i8, place: u64) -> u64 {
    ((i64::from(colour) + BIAS) as u64) << (2 * BITS) | place
}

fn component(value: i64) -> Result<u64, Misuse> {
    u64::try_from(value.saturating_add(BIAS)).ok().filter(|&packed| packed <= COMPONENT).ok_or(Misuse::TooFar)
}

/// The place of a packed place or cell.
pub(crate) fn place_of(key: u64) -> Place {
    (((key >> BITS) & COMPONENT) as i64 - BIAS, (key & COMPONENT) as i64 - BIAS)
}

/// The colour of a packed cell.
pub(crate) fn colour_of(key: u64) -> i64 {
    (key >> (2 * BITS)) as i64 - BIAS
}

/// Whether the elements have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Places only.
    Indices,
    /// Cells: places with colours.
    Object,
}

/// A set of cells or of places, ascending. The empty one is always of indices: there is only one empty set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Patch {
    kind: Kind,
    keys: Vec<u64>,
}

impl Default for Patch {
    fn default() -> Self {
        Self { kind: Kind::Indices, keys: Vec::new() }
    }
}

impl Patch {
    /// The set of these packed elements.
    pub(crate) fn of(kind: Kind, mut keys: Vec<u64>) -> Self {
        if keys.is_sorted_by(|a, b| a < b) {
            return Self::sorted(kind, keys);
        }
        if let Some(ascending) = crate::bitmap::ascending(&keys) {
            return Self::sorted(kind, ascending);
        }
        keys.sort_unstable();
        keys.dedup();
        Self::sorted(kind, keys)
    }

    /// The set of packed elements that are ascending and distinct already.
    pub(crate) fn sorted(kind: Kind, keys: Vec<u64>) -> Self {
        debug_assert!(keys.is_sorted_by(|a, b| a < b), "keys of a set ascend");
        let kind = if keys.is_empty() { Kind::Indices } else { kind };
        Self { kind, keys }
    }

    /// The set of these places.
    pub fn indices(places: impl IntoIterator<Item = Place>) -> Result<Self, Misuse> {
        let places = places.into_iter();
        let mut keys = Vec::with_capacity(places.size_hint().0);
        for place in places {
            keys.push(key(place)?);
        }
        Ok(Self::of(Kind::Indices, keys))
    }

    /// The places at distances that ascend from a place, none further than one row and one column.
    pub(crate) fn around(place: Place, distances: &[Place]) -> Result<Self, Misuse> {
        let middle = key(place)?;
        for side in [-1, 1] {
            key((place.0 + side, place.1 + side))?;
        }
        let beside = |(down, right): &Place| middle.wrapping_add_signed((down << BITS) + right);
        Ok(Self::sorted(Kind::Indices, distances.iter().map(beside).collect()))
    }

    /// The set of these cells.
    pub fn object(cells: impl IntoIterator<Item = (i64, Place)>) -> Result<Self, Misuse> {
        let cells = cells.into_iter();
        let mut keys = Vec::with_capacity(cells.size_hint().0);
        for (colour, place) in cells {
            keys.push(cell_key(colour, place)?);
        }
        Ok(Self::of(Kind::Object, keys))
    }

    /// What is in either of two sets of one kind.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let kind = if self.is_empty() { other.kind } else { self.kind };
        let (a, b) = (&self.keys[..], &other.keys[..]);
        let mut keys = Vec::with_capacity(a.len() + b.len());
        let (mut at_a, mut at_b) = (0, 0);
        while let (Some(&first_a), Some(&first_b)) = (a.get(at_a), b.get(at_b)) {
            keys.push(first_a.min(first_b));
            at_a += usize::from(first_a <= first_b);
            at_b += usize::from(first_b <= first_a);
        }
        keys.extend_from_slice(&a[at_a..]);
        keys.extend_from_slice(&b[at_b..]);
        Self::sorted(kind, keys)
    }

    /// What is in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        if self.kind != other.kind {
            return Self::default();
        }
        let (few, many) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        Self::sorted(self.kind, kept(&few.keys, &many.keys, true))
    }

    /// What is in this set and not in the other.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        if self.kind != other.kind {
            return self.clone();
        }
        Self::sorted(self.kind, kept(&self.keys, &other.keys, false))
    }

    /// Cells or places.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The packed elements, ascending, for whoever adds to them.
    pub(crate) fn into_keys(self) -> Vec<u64> {
        self.keys
    }

    /// The packed elements, ascending.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The places, once per element.
    pub fn places(&self) -> impl Iterator<Item = Place> + Clone {
        self.keys.iter().map(|&key| place_of(key))
    }

    /// The colours, once per cell; none for indices.
    pub fn colours(&self) -> impl Iterator<Item = i64> {
        let keys = if self.kind == Kind::Object { &self.keys[..] } else { &[] };
        keys.iter().map(|&key| colour_of(key))
    }

    /// The set without colours.
    pub fn to_indices(&self) -> Self {
        Self { kind: Kind::Indices, keys: self.place_keys().into_owned() }
    }

    /// The packed places, ascending.
    pub(crate) fn place_keys(&self) -> Cow<'_, [u64]> {
        match self.kind {
            Kind::Indices => Cow::Borrowed(&self.keys),
            Kind::Object => Cow::Owned(Self::of(Kind::Indices, self.keys.iter().map(|key| key & PLACE).collect()).keys),
        }
    }

    /// The places as cells of one colour.
    pub fn recolor(&self, colour: i64) -> Result<Self, Misuse> {
        let packed = component(colour)? << (2 * BITS);
        let mut indices = self.to_indices();
        indices.keys.iter_mut().for_each(|key| *key |= packed);
        Ok(Self::sorted(Kind::Object, indices.keys))
    }

    /// The smallest rectangle around the places.
    pub fn extent(&self) -> Option<Extent> {
        Extent::around(&self.keys)
    }

    /// The rectangle, or a fault that says what an empty patch lacks.
    pub fn extent_of(&self, what: &'static str) -> Result<Extent, Misuse> {
        self.extent().ok_or(Misuse::EmptyPatch(what))
    }

    /// Moved by a vector.
    pub fn shift(&self, by: Place) -> Result<Self, Misuse> {
        let Some(extent) = self.extent() else { return Ok(Self::default()) };
        let moved = |at: i64, by: i64| component(at.saturating_add(by));
        for corner in [(extent.top, extent.left), (extent.bottom, extent.right)] {
            moved(corner.0, by.0)?;
            moved(corner.1, by.1)?;
        }
        // No component leaves its bits, so that adding to the whole number is adding to each, and order stays.
        let step = by.0.wrapping_mul(1 << BITS).wrapping_add(by.1);
        Ok(Self { kind: self.kind, keys: self.keys.iter().map(|key| key.wrapping_add_signed(step)).collect() })
    }

    /// Moved so that the rectangle begins at (0, 0).
    pub fn normalize(&self) -> Result<Self, Misuse> {
        self.extent().map_or_else(|| Ok(Self::default()), |extent| self.shift((-extent.top, -extent.left)))
    }

    /// Each place changed by itself, colours kept.
    fn moved(&self, change: impl Fn(Place) -> Place) -> Result<Self, Misuse> {
        let keys = self.keys.iter().map(|&at| Ok((at & !PLACE) | key(change(place_of(at)))?)).collect::<Result<_, _>>()?;
        Ok(Self::of(self.kind, keys))
    }

    /// Upside down within its rectangle.
    pub fn hmirror(&self) -> Result<Self, Misuse> {
        let extent = self.extent_of("mirror image")?;
        self.moved(|(row, column)| (extent.top + extent.bottom - row, column))
    }

    /// Left and right exchanged within its rectangle.
    pub fn vmirror(&self) -> Result<Self, Misuse> {
        let extent = self.extent_of("mirror image")?;
        self.moved(|(row, column)| (row, extent.left + extent.right - column))
    }

    /// Transposed; the upper left corner stays.
    pub fn dmirror(&self) -> Result<Self, Misuse> {
        let Extent { top, left, .. } = self.extent_of("mirror image")?;
        self.moved(|(row, column)| (top + column - left, left + row - top))
    }

    /// Reflected in the other diagonal; the upper left corner of the rectangle stays.
    pub fn cmirror(&self) -> Result<Self, Misuse> {
        self.vmirror()?.dmirror()?.vmirror()
    }

    /// Every cell as a block of `factor` times `factor`; the upper left corner stays.
    pub fn upscale(&self, factor: i64) -> Result<Self, Misuse> {
        let Some(Extent { top, left, .. }) = self.extent() else { return Ok(Self::default()) };
        if self.kind == Kind::Indices {
            return Err(Misuse::NeedsObject("upscale"));
        }
        let mut keys = Vec::new();
        for &at in &self.keys {
            let (row, column) = place_of(at);
            let corner = (top + (row - top) * factor, left + (column - left) * factor);
            for place in rectangle(0..=factor - 1, 0..=factor - 1) {
                keys.push((at & !PLACE) | key((corner.0 + place.0, corner.1 + place.1))?);
            }
        }
        Ok(Self::of(Kind::Object, keys))
    }
}

/// How many times as long keys must be for looking each one up to be faster than going along.
const MANY: usize = 16;

/// The keys that are, or are not, among others; both ascend.
fn kept(keys: &[u64], others: &[u64], is_wanted: bool) -> Vec<u64> {
    let mut kept = Vec::with_capacity(keys.len());
    if others.len() > MANY * keys.len() {
        kept.extend(keys.iter().filter(|key| others.binary_search(key).is_ok() == is_wanted));
    } else {
        let mut is_there = Walk::along(others);
        kept.extend(keys.iter().filter(|&&key| is_there.meets(key) == is_wanted));
    }
    kept
}

/// Goes along ascending keys beside others that ascend as well.
struct Walk<'a> {
    ahead: &'a [u64],
}

impl<'a> Walk<'a> {
    fn along(keys: &'a [u64]) -> Self {
        Self { ahead: keys }
    }

    /// Whether a key is there; each is greater than the one before.
    fn meets(&mut self, key: u64) -> bool {
        while let [first, rest @ ..] = self.ahead
            && *first < key
        {
            self.ahead = rest;
        }
        self.ahead.first() == Some(&key)
    }
}

/// A rectangle by its first and last rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first row.
    pub top: i64,
    /// The first column.
    pub left: i64,
    /// The last row.
    pub bottom: i64,
    /// The last column.
    pub right: i64,
}

impl Extent {
    /// The rectangle around packed places or cells, in any order.
    pub(crate) fn around(keys: &[u64]) -> Option<Self> {
        let (mut top, mut left, mut bottom, mut right) = (COMPONENT, COMPONENT, 0, 0);
        for key in keys {
            let (row, column) = ((key >> BITS) & COMPONENT, key & COMPONENT);
            (top, left, bottom, right) = (top.min(row), left.min(column), bottom.max(row), right.max(column));
        }
        let at = |packed: u64| packed as i64 - BIAS;
        (!keys.is_empty()).then(|| Self { top: at(top), left: at(left), bottom: at(bottom), right: at(right) })
    }

    /// The number of rows.
    pub fn height(&self) -> i64 {
        self.bottom - self.top + 1
    }

    /// The number of columns.
    pub fn width(&self) -> i64 {
        self.right - self.left + 1
    }

    /// The middle, to the lower right of it where an extent is even.
    pub fn center(&self) -> Place {
        (self.top + self.height() / 2, self.left + self.width() / 2)
    }

    /// The four corners: upper left, upper right, lower left, lower right.
    pub fn corners(&self) -> [Place; 4] {
        [(self.top, self.left), (self.top, self.right), (self.bottom, self.left), (self.bottom, self.right)]
    }

    /// Every place inside.
    pub fn filled(&self) -> Result<Patch, Misuse> {
        let (first, last) = (key((self.top, self.left))?, key((self.bottom, self.right))?);
        let width = (last & COMPONENT) - (first & COMPONENT);
        let mut keys = Vec::with_capacity(usize::try_from(self.area()).unwrap_or(0));
        // Columns are the lowest bits: the places of a row are numbers that follow each other.
        for row in (first >> BITS)..=(last >> BITS) {
            let start = (row << BITS) | (first & COMPONENT);
            keys.extend(start..=start + width);
        }
        Ok(Patch::sorted(Kind::Indices, keys))
    }

    /// The places on the edge.
    pub fn outline(&self) -> Result<Patch, Misuse> {
        let upper = (self.left..=self.right).map(|column| (self.top, column));
        let lower = (self.left..=self.right).map(|column| (self.bottom, column));
        let sides = (self.top + 1..self.bottom).flat_map(|row| [(row, self.left), (row, self.right)]);
        Patch::indices(upper.chain(sides).chain(lower))
    }

    /// One wider on every side.
    pub fn grown(&self) -> Self {
        Self { top: self.top - 1, left: self.left - 1, bottom: self.bottom + 1, right: self.right + 1 }
    }

    /// One narrower on every side; bounds that cross over are exchanged.
    pub fn shrunk(&self) -> Self {
        let (top, bottom) = (self.top + 1, self.bottom - 1);
        let (left, right) = (self.left + 1, self.right - 1);
        Self { top: top.min(bottom), left: left.min(right), bottom: top.max(bottom), right: left.max(right) }
    }

    /// How many places lie inside.
    pub fn area(&self) -> i64 {
        self.height().saturating_mul(self.width())
    }
}

/// The places of a rectangle, row by row.
pub(crate) fn rectangle(rows: RangeInclusive<i64>, columns: RangeInclusive<i64>) -> impl Iterator<Item = Place> {
    rows.flat_map(move |row| columns.clone().map(move |column| (row, column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(places: &[Place]) -> Patch {
        Patch::indices(places.iter().copied()).unwrap()
    }

    #[test]
    fn packed_order_is_the_order_of_tuples() {
        let sorted = [(-524_288, 524_287), (-2, 5), (-1, -7), (-1, 0), (0, -1), (0, 0), (0, 1), (524_287, -524_288)];
        assert!(sorted.iter().map(|&place| key(place).unwrap()).is_sorted());
        assert!(sorted.iter().all(|&place| place_of(key(place).unwrap()) == place));
        assert_eq!(key((0, 524_288)), Err(Misuse::TooFar));
        assert_eq!(colour_of(cell_key(-3, (4, -5)).unwrap()), -3);
        assert_eq!(place_of(cell_key(-3, (4, -5)).unwrap()), (4, -5));
    }

    #[test]
    fn a_shift_moves_every_component_and_stays_in_bounds() {
        let object = Patch::object([(7, (0, 0)), (2, (3, -4))]).unwrap();
        assert_eq!(object.shift((-2, 5)).unwrap(), Patch::object([(7, (-2, 5)), (2, (1, 1))]).unwrap());
        assert_eq!(object.shift((0, i64::MIN)), Err(Misuse::TooFar));
        assert_eq!(object.shift((524_285, 0)), Err(Misuse::TooFar));
    }

    #[test]
    fn mirrors_stay_in_their_rectangle() {
        assert_eq!(places(&[(4, 1), (4, 3)]).dmirror().unwrap(), places(&[(4, 1), (6, 1)]));
        assert_eq!(places(&[(4, 1), (4, 2), (5, 2)]).cmirror().unwrap(), places(&[(4, 1), (4, 2), (5, 2)]));
        assert_eq!(places(&[(4, 1), (5, 3)]).hmirror().unwrap(), places(&[(5, 1), (4, 3)]));
        assert_eq!(Patch::default().vmirror(), Err(Misuse::EmptyPatch("mirror image")));
    }

    #[test]
    fn crossed_bounds_of_an_inner_outline_are_exchanged() {
        let two = places(&[(0, 0), (1, 1)]).extent().unwrap();
        assert_eq!(two.shrunk().outline().unwrap(), two.filled().unwrap());
        let one = places(&[(5, 5)]).extent().unwrap();
        assert_eq!(one.shrunk().outline().unwrap().len(), 8);
    }

    #[test]
    fn there_is_one_empty_set() {
        assert_eq!(Patch::object([]).unwrap(), Patch::default());
        assert_eq!(Patch::default().recolor(3).unwrap(), Patch::default());
    }
}
