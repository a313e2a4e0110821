//! Values of the host that are tuples or immutable sets to the program, in a representation of their own.
//!
//! A packed value must iterate, index, compare and order exactly as the plain one with the same elements would. Two of the
//! same representation compare without unpacking; beside any other value they are unpacked element by element.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt::Debug;

use crate::fault::Fault;
use crate::meter::{Charge, Meter};
use crate::value::Value;

/// What a packed value is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A tuple.
    Tuple,
    /// An immutable set.
    FrozenSet,
}

/// A tuple or immutable set in a representation of the host. Immutable, and without further values inside that could
/// nest: what it holds is numbers.
pub trait Packed: Any + Debug {
    /// What it is to the program; the same for the life of the value.
    fn shape(&self) -> Shape;

    /// How many elements it has.
    fn len(&self) -> usize;

    /// Whether it has no element.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `idx < len`; those of a set in ascending structural order, without repetition.
    fn item(&self, idx: usize, meter: &Meter) -> Result<Value, Fault>;

    /// Bytes that it holds, counted when it becomes a value.
    fn bytes(&self) -> usize;

    /// Bytes that comparing it looks at: a unit of fuel per 16. More than it holds where it shares what it holds.
    fn compared_bytes(&self) -> usize {
        self.bytes()
    }

    /// The structural order against a value of the same representation; `None` when the other has a different one.
    fn order(&self, other: &dyn Packed) -> Option<Ordering>;

    /// Whether both are equal; `None` when the other has a different representation.
    fn equal(&self, other: &dyn Packed) -> Option<bool> {
        self.order(other).map(Ordering::is_eq)
    }

    /// Whether a value is among the elements; `None` where the representation does not tell, and all are asked.
    fn contains(&self, _value: &Value) -> Option<bool> {
        None
    }

    /// Itself, for `downcast_ref`.
    fn as_any(&self) -> &dyn Any;
}

/// A packed value with the memory it holds.
#[derive(Debug)]
pub struct Pack {
    packed: Box<dyn Packed>,
    _charge: Charge,
}

impl Pack {
    pub(crate) fn new(packed: impl Packed, charge: Charge) -> Self {
        Self { packed: Box::new(packed), _charge: charge }
    }

    /// The host's value.
    pub fn get(&self) -> &dyn Packed {
        &*self.packed
    }
}

/// The elements of a tuple or immutable set, in either representation.
#[derive(Clone, Copy, Debug)]
pub enum Items<'a> {
    /// Plain values.
    Plain(&'a [Value]),
    /// A representation of the host.
    Packed(&'a dyn Packed),
}

impl Items<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(items) => items.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `idx < len`.
    #[inline]
    pub fn get(&self, idx: usize, meter: &Meter) -> Result<Value, Fault> {
        match self {
            Self::Plain(items) => Ok(items.get(idx).cloned().unwrap_or_default()),
            Self::Packed(packed) => packed.item(idx, meter),
        }
    }

    /// All elements, plain. The room is asked for first.
    pub fn to_vec(&self, meter: &Meter) -> Result<Vec<Value>, Fault> {
        meter.room(crate::value::container_bytes(self.len()))?;
        match self {
            Self::Plain(items) => Ok(items.to_vec()),
            Self::Packed(packed) => {
                let mut items = Vec::with_capacity(packed.len());
                for idx in 0..packed.len() {
                    items.push(packed.item(idx, meter)?);
                }
                Ok(items)
            }
        }
    }
}
