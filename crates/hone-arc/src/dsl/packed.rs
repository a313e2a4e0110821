//! Grids, patches and their elements as the interpreter sees them: tuples and sets with a representation of their own.

use crate::grid::Grid;
use crate::patch::{self, Kind, Patch};
use hone_program::{Fault, Items, Meter, Packed, Shape, Value};
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

impl Packed for Patch {
    fn shape(&self) -> Shape {
        Shape::FrozenSet
    }

    fn len(&self) -> usize {
        Patch::len(self)
    }

    fn item(&self, idx: usize, meter: &Meter) -> Result<Value, Fault> {
        meter.pack(Point { kind: self.kind(), key: self.keys()[idx] })
    }

    fn bytes(&self) -> usize {
        size_of_val(self.keys())
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        let other = other.as_any().downcast_ref::<Self>()?;
        let is_comparable = self.kind() == other.kind() || Patch::is_empty(self) || Patch::is_empty(other);
        is_comparable.then(|| self.keys().cmp(other.keys()))
    }

    fn contains(&self, value: &Value) -> Option<bool> {
        let point = Point::read(value)?;
        Some(point.kind == self.kind() && self.keys().binary_search(&point.key).is_ok())
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
        let place = Self::read(second).filter(|place| place.kind == Kind::Indices)?;
        let key = patch::cell_key(first, patch::place_of(place.key)).ok()?;
        Some(Self { kind: Kind::Object, key })
    }

    /// The kind and keys of values that are all points of one kind.
    pub(super) fn all(items: &[Value]) -> Option<(Kind, Vec<u64>)> {
        let kind = Self::read(items.first()?)?.kind;
        let key = |item: &Value| Self::read(item).filter(|point| point.kind == kind).map(|point| point.key);
        Some((kind, items.iter().map(key).collect::<Option<_>>()?))
    }
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
