//! Grids, patches and their elements as the interpreter sees them: tuples and sets with a representation of their own.

use crate::grid::Grid;
use crate::patch::{self, Kind, Patch, Place};
use hone_program::{Fault, Items, Meter, Packed, Shape, Value};
use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

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

/// A patch as a value. It may be in a set of patches at the same time.
#[derive(Debug, Clone)]
pub(super) struct SharedPatch(pub(super) Rc<Patch>);

/// The patch that a value is, if it is a packed one.
pub(super) fn as_patch(value: &Value) -> Option<&Patch> {
    value.packed::<SharedPatch>().map(|shared| &*shared.0)
}

/// The order of two patches as sets, where their elements are of one kind.
fn order_patches(a: &Patch, b: &Patch) -> Option<Ordering> {
    let is_comparable = a.kind() == b.kind() || a.is_empty() || b.is_empty();
    is_comparable.then(|| a.keys().cmp(b.keys()))
}

impl Packed for SharedPatch {
    fn shape(&self) -> Shape {
        Shape::FrozenSet
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn item(&self, idx: usize, meter: &Meter) -> Result<Value, Fault> {
        meter.pack(Point { kind: self.0.kind(), key: self.0.keys()[idx] })
    }

    fn bytes(&self) -> usize {
        size_of_val(self.0.keys())
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        order_patches(&self.0, &other.as_any().downcast_ref::<Self>()?.0)
    }

    fn contains(&self, value: &Value) -> Option<bool> {
        let point = Point::read(value)?;
        Some(point.kind == self.0.kind() && self.0.keys().binary_search(&point.key).is_ok())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A set of patches whose elements are all of one kind, ascending.
#[derive(Debug)]
pub(super) struct PatchSet {
    kind: Kind,
    patches: Vec<Rc<Patch>>,
    n_keys: usize,
}

impl PatchSet {
    /// The set of these patches, or `None` where they are not of one kind. The empty patch is of any.
    pub(super) fn of(mut patches: Vec<Rc<Patch>>) -> Option<Self> {
        let mut kinds = patches.iter().filter(|patch| !patch.is_empty()).map(|patch| patch.kind());
        let kind = kinds.next().unwrap_or(Kind::Indices);
        if kinds.any(|other| other != kind) {
            return None;
        }
        patches.sort_unstable_by(|a, b| a.keys().cmp(b.keys()));
        patches.dedup_by(|a, b| a.keys() == b.keys());
        let n_keys = patches.iter().map(|patch| patch.len()).sum();
        Some(Self { kind, patches, n_keys })
    }

    /// The keys of each patch.
    fn keys(&self) -> impl Iterator<Item = &[u64]> {
        self.patches.iter().map(|patch| patch.keys())
    }

    /// The patches, ascending.
    pub(super) fn patches(&self) -> &[Rc<Patch>] {
        &self.patches
    }
}

impl Packed for PatchSet {
    fn shape(&self) -> Shape {
        Shape::FrozenSet
    }

    fn len(&self) -> usize {
        self.patches.len()
    }

    fn item(&self, idx: usize, meter: &Meter) -> Result<Value, Fault> {
        meter.pack(SharedPatch(Rc::clone(&self.patches[idx])))
    }

    fn bytes(&self) -> usize {
        size_of_val(self.patches.as_slice()) + self.n_keys * size_of::<u64>()
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        let other = other.as_any().downcast_ref::<Self>()?;
        (self.kind == other.kind).then(|| self.keys().cmp(other.keys()))
    }

    fn contains(&self, value: &Value) -> Option<bool> {
        let wanted = as_patch(value)?;
        let is_kin = wanted.is_empty() || wanted.kind() == self.kind;
        Some(is_kin && self.patches.binary_search_by(|patch| patch.keys().cmp(wanted.keys())).is_ok())
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
    /// The point that a value is, in either representation: a pair of whole numbers, or a colour with such a pair.
    pub(super) fn read(value: &Value) -> Option<Self> {
        if let Some(&point) = value.packed::<Self>() {
            return Some(point);
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
    if let Some(point) = value.packed::<Point>() {
        return (point.kind == Kind::Indices).then(|| patch::place_of(point.key));
    }
    let Some(Items::Plain([row, column])) = value.as_tuple() else { return None };
    Some((row.as_int()?, column.as_int()?))
}

impl Packed for Point {
    fn shape(&self) -> Shape {
        Shape::Tuple
    }

    fn len(&self) -> usize {
        2
    }

    fn item(&self, idx: usize, meter: &Meter) -> Result<Value, Fault> {
        let (row, column) = patch::place_of(self.key);
        match (self.kind, idx) {
            (Kind::Indices, 0) => Ok(Value::Int(row)),
            (Kind::Indices, _) => Ok(Value::Int(column)),
            (Kind::Object, 0) => Ok(Value::Int(patch::colour_of(self.key))),
            (Kind::Object, _) => meter.pack(Self { kind: Kind::Indices, key: self.key & patch::PLACE }),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        let other = other.as_any().downcast_ref::<Self>()?;
        (self.kind == other.kind).then(|| self.key.cmp(&other.key))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
