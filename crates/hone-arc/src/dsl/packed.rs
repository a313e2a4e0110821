//! Grids, patches and their elements as the interpreter sees them: tuples and sets with a representation of their own.

use crate::grid::Grid;
use crate::patch::{self, Kind, Patch, Place};
use hone_program::{Fault, Items, Meter, Packed, Pair, Shape, Value};
use std::any::Any;
use std::cmp::Ordering;

impl Packed for Grid {
    fn shape(&self) -> Shape {
        Shape::Tuple
    }

    fn len(&self) -> usize {
        self.height()
    }

    fn item(&self, idx: usize, meter: &Meter) -> Result<Value, Fault> {
        meter.tuple(self.row(idx).iter().map(|&colour| Value::Int(i64::from(colour))).collect())
    }

    fn bytes(&self) -> usize {
        self.cells().len()
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        other.as_any().downcast_ref::<Self>().map(|other| self.cmp(other))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The patch that a value is, if it is a packed one.
#[inline]
pub(super) fn as_patch(value: &Value) -> Option<&Patch> {
    value.packed::<Patch>()
}

/// The order of two patches as sets, where their elements are of one kind.
fn order_patches(a: &Patch, b: &Patch) -> Option<Ordering> {
    let is_comparable = a.kind() == b.kind() || a.is_empty() || b.is_empty();
    is_comparable.then(|| a.keys().cmp(b.keys()))
}

impl Packed for Patch {
    fn shape(&self) -> Shape {
        Shape::FrozenSet
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn item(&self, idx: usize, _: &Meter) -> Result<Value, Fault> {
        Ok(Point { kind: self.kind(), key: self.keys()[idx] }.value())
    }

    fn bytes(&self) -> usize {
        size_of_val(self.keys())
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        order_patches(self, other.as_any().downcast_ref::<Self>()?)
    }

    fn contains(&self, value: &Value) -> Option<bool> {
        let point = Point::read(value)?;
        Some(point.kind == self.kind() && self.keys().binary_search(&point.key).is_ok())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A set of patches whose elements are all of one kind, ascending. Each is a value of its own, which counts its own memory.
#[derive(Debug)]
pub(super) struct PatchSet {
    kind: Kind,
    patches: Vec<Value>,
    n_keys: usize,
}

impl PatchSet {
    /// The set of these values, or why there is none: they are not all patches of one kind. The empty patch is of any.
    pub(super) fn of(items: Vec<Value>) -> Result<Self, Vec<Value>> {
        let Some(patches) = items.iter().map(as_patch).collect::<Option<Vec<_>>>() else { return Err(items) };
        let mut kinds = patches.iter().filter(|patch| !patch.is_empty()).map(|patch| patch.kind());
        let kind = kinds.next().unwrap_or(Kind::Indices);
        if kinds.any(|other| other != kind) {
            return Err(items);
        }
        let mut n_keys = patches.iter().map(|patch| patch.len()).sum();
        if patches.is_sorted_by(|a, b| a.keys() < b.keys()) {
            return Ok(Self { kind, patches: items, n_keys });
        }
        let mut ranked: Vec<(&[u64], &Value)> = patches.iter().map(|patch| patch.keys()).zip(&items).collect();
        ranked.sort_unstable_by_key(|(keys, _)| *keys);
        ranked.dedup_by_key(|(keys, _)| *keys);
        n_keys = ranked.iter().map(|(keys, _)| keys.len()).sum();
        let patches = ranked.into_iter().map(|(_, value)| value.clone()).collect();
        Ok(Self { kind, patches, n_keys })
    }

    /// The keys of each patch.
    fn keys(&self) -> impl Iterator<Item = &[u64]> {
        self.patches().map(Patch::keys)
    }

    /// The patches as values, ascending.
    pub(super) fn values(&self) -> &[Value] {
        &self.patches
    }

    /// The patches, ascending.
    pub(super) fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.patches.iter().filter_map(as_patch)
    }
}

impl Packed for PatchSet {
    fn shape(&self) -> Shape {
        Shape::FrozenSet
    }

    fn len(&self) -> usize {
        self.patches.len()
    }

    fn item(&self, idx: usize, _: &Meter) -> Result<Value, Fault> {
        Ok(self.patches[idx].clone())
    }

    fn bytes(&self) -> usize {
        size_of_val(self.patches.as_slice())
    }

    fn compared_bytes(&self) -> usize {
        self.bytes() + self.n_keys * size_of::<u64>()
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        let other = other.as_any().downcast_ref::<Self>()?;
        (self.kind == other.kind).then(|| self.keys().cmp(other.keys()))
    }

    fn contains(&self, value: &Value) -> Option<bool> {
        let wanted = as_patch(value)?;
        let is_kin = wanted.is_empty() || wanted.kind() == self.kind;
        Some(is_kin && self.patches.binary_search_by(|patch| as_patch(patch).map(Patch::keys).cmp(&Some(wanted.keys()))).is_ok())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An element of a patch: a pair to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) kind: Kind,
    pub(super) key: u64,
}

impl Point {
    /// The point that a pair is.
    #[inline]
    pub(super) fn of(pair: Pair) -> Self {
        Self { kind: if pair.is_nested() { Kind::Object } else { Kind::Indices }, key: pair.key() }
    }

    /// The point as a value.
    #[inline]
    pub(super) fn value(self) -> Value {
        Value::Pair(match self.kind {
            Kind::Indices => Pair::flat(self.key),
            Kind::Object => Pair::nested(self.key),
        })
    }

    /// The point that a value is, in either representation: a pair of whole numbers, or a colour with such a pair.
    pub(super) fn read(value: &Value) -> Option<Self> {
        if let Some(pair) = value.as_pair() {
            return Some(Self::of(pair));
        }
        let Some(Items::Plain([first, second])) = value.as_tuple() else { return None };
        let first = first.as_int()?;
        if let Some(second) = second.as_int() {
            return Some(Self { kind: Kind::Indices, key: patch::key((first, second)).ok()? });
        }
        let key = patch::cell_key(first, place_in(second)?).ok()?;
        Some(Self { kind: Kind::Object, key })
    }

    /// The point that the first of several values is.
    pub(super) fn read_first(items: &[Value]) -> Option<Self> {
        items.first().and_then(Self::read)
    }

    /// The kind and keys of values that are all points of one kind.
    pub(super) fn all(items: &[Value]) -> Option<(Kind, Vec<u64>)> {
        let kind = Self::read_first(items)?.kind;
        let key = |item: &Value| Self::read(item).filter(|point| point.kind == kind).map(|point| point.key);
        Some((kind, items.iter().map(key).collect::<Option<_>>()?))
    }
}

/// The place of a cell. One level deep and no deeper: pairs of pairs may nest without end.
fn place_in(value: &Value) -> Option<Place> {
    if let Some(pair) = value.as_pair() {
        return pair.numbers();
    }
    let Some(Items::Plain([row, column])) = value.as_tuple() else { return None };
    Some((row.as_int()?, column.as_int()?))
}
