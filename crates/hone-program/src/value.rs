//! The values of a program: sixteen bytes, cheap to clone, each knowing what memory it holds.
//!
//! Whatever is larger than a number lies behind a counted pointer. Values belong to one thread. They are made through a
//! [`Meter`], which counts them; a value that is dropped gives its memory back, however deeply it is nested.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use num_bigint::BigInt;

use crate::dict::Dict;
use crate::elements::Elements;
use crate::fault::Fault;
use crate::function::{Body, Function, Method};
use crate::iterate::Iter;
use crate::kind::Type;
use crate::library::{Module, Native};
use crate::meter::{Charge, Meter};
use crate::packed::{Items, Pack, Packed, Shape};
use crate::pair::Pair;

/// Bytes that a value of any kind counts beside its contents.
pub(crate) const HEAD_BYTES: usize = 64;
/// Bytes that one element of a container counts.
pub(crate) const SLOT_BYTES: usize = size_of::<Value>();

/// Fuel for a pair that takes no memory.
const PAIR_FUEL: u64 = 5;

/// A value of a program.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// A name that has no value yet; natives never see it.
    #[doc(hidden)]
    #[default]
    Unset,
    /// The absent value.
    None,
    /// A boolean, which counts as 0 or 1.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A whole number that does not fit in 64 bits.
    Big(Rc<Big>),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Str(Rc<Str>),
    /// A tuple of values.
    Tuple(Rc<Tuple>),
    /// A tuple of two small numbers, or of one and such a tuple.
    Pair(Pair),
    /// An immutable set, in ascending structural order.
    FrozenSet(Rc<FrozenSet>),
    /// A tuple or an immutable set in a representation of the host.
    Packed(Rc<Pack>),
    /// A list.
    List(Rc<List>),
    /// A mutable set, in ascending structural order.
    Set(Rc<Set>),
    /// A dictionary, in the order of insertion.
    Dict(Rc<Dict>),
    /// The numbers of `range`.
    Range(Rc<Range>),
    /// A function of the host.
    Native(Arc<Native>),
    /// A function of the program, or one that a native built.
    Function(Rc<Function>),
    /// A method with the value it belongs to.
    Method(Rc<Method>),
    /// A type such as `int`, or a kind of exception.
    Type(Type),
    /// Something that can be raised.
    Exception(Rc<Exception>),
    /// An iterator that is under way.
    Iterator(Rc<Iter>),
    /// A module of the host.
    Module(Arc<Module>),
    /// A variable that closures share.
    #[doc(hidden)]
    Cell(Rc<SharedCell>),
}

/// A whole number beyond 64 bits.
#[derive(Debug)]
pub struct Big {
    pub(crate) number: BigInt,
    _charge: Charge,
}

/// A text that knows how many characters it has.
#[derive(Debug)]
pub struct Str {
    pub(crate) text: Box<str>,
    pub(crate) n_chars: usize,
    _charge: Charge,
}

/// The elements of a tuple.
#[derive(Debug)]
pub struct Tuple {
    pub(crate) items: Elements,
    _charge: Charge,
}

/// The elements of an immutable set, sorted and distinct.
#[derive(Debug)]
pub struct FrozenSet {
    pub(crate) items: Vec<Value>,
    _charge: Charge,
}

/// The elements of a list.
#[derive(Debug)]
pub struct List {
    pub(crate) items: RefCell<Vec<Value>>,
    pub(crate) charge: Charge,
    pub(crate) watched: std::cell::Cell<bool>,
}

/// The elements of a mutable set, sorted and distinct.
#[derive(Debug)]
pub struct Set {
    pub(crate) items: RefCell<Vec<Value>>,
    pub(crate) charge: Charge,
    pub(crate) watched: std::cell::Cell<bool>,
}

/// The numbers of `range(start, stop, step)`.
#[derive(Debug)]
pub struct Range {
    pub(crate) start: i64,
    pub(crate) step: i64,
    pub(crate) len: u64,
    pub(crate) stop: i64,
    _charge: Charge,
}

impl Range {
    /// What tells ranges apart: how many numbers, the first where there is one, the step where there are several.
    pub(crate) fn shape(&self) -> (u64, i64, i64) {
        (self.len, if self.len > 0 { self.start } else { 0 }, if self.len > 1 { self.step } else { 0 })
    }
}

/// An exception of the program: its type and what it was made with.
#[derive(Debug)]
pub struct Exception {
    pub(crate) kind: Type,
    pub(crate) arguments: Value,
    _charge: Charge,
}

/// A variable that closures share.
#[derive(Debug)]
pub struct SharedCell {
    pub(crate) value: RefCell<Value>,
    pub(crate) watched: std::cell::Cell<bool>,
    _charge: Charge,
}

impl Value {
    /// The whole number, where it is one of 64 bits; booleans count as 0 and 1.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bool(truth) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(&text.text),
            _ => None,
        }
    }

    /// The elements, where it is a tuple or immutable set, in either representation.
    #[inline]
    pub fn container(&self) -> Option<(Shape, Items<'_>)> {
        match self {
            Self::Tuple(tuple) => Some((Shape::Tuple, Items::Plain(&tuple.items))),
            Self::FrozenSet(set) => Some((Shape::FrozenSet, Items::Plain(&set.items))),
            Self::Packed(pack) => Some((pack.get().shape(), Items::Packed(pack.get()))),
            Self::Pair(pair) => Some((Shape::Tuple, Items::Packed(pair))),
            _ => None,
        }
    }

    /// The elements of a tuple, in either representation.
    #[inline]
    pub fn as_tuple(&self) -> Option<Items<'_>> {
        self.container().and_then(|(shape, items)| (shape == Shape::Tuple).then_some(items))
    }

    /// The elements of an immutable set, in either representation.
    #[inline]
    pub fn as_frozenset(&self) -> Option<Items<'_>> {
        self.container().and_then(|(shape, items)| (shape == Shape::FrozenSet).then_some(items))
    }

    /// The host's own representation, where the value has this one.
    #[inline]
    pub fn packed<T: Packed>(&self) -> Option<&T> {
        match self {
            Self::Packed(pack) => pack.get().as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The pair, where the value holds one in itself.
    #[inline]
    pub fn as_pair(&self) -> Option<Pair> {
        match self {
            Self::Pair(pair) => Some(*pair),
            _ => None,
        }
    }

    /// The name and what it captured, where it is a function that a native built.
    #[inline]
    pub fn as_built(&self) -> Option<(&'static str, &[Value])> {
        match self {
            Self::Function(function) => match function.body {
                Body::Built { name, .. } => Some((name, &function.captured)),
                Body::Code(_) => None,
            },
            _ => None,
        }
    }

    /// Whether it counts as true.
    #[inline]
    pub fn is_true(&self) -> bool {
        crate::context::truth(self)
    }

    /// Whether it can be called.
    pub fn is_callable(&self) -> bool {
        matches!(self, Self::Native(_) | Self::Function(_) | Self::Method(_) | Self::Type(_))
    }

    /// The name of its type, as the program would say it.
    pub fn type_name(&self) -> &'static str {
        Type::of(self).name()
    }

    /// Whether dropping or walking it may lead into further values.
    #[inline]
    pub(crate) fn is_nest(&self) -> bool {
        matches!(
            self,
            Self::Tuple(_)
                | Self::FrozenSet(_)
                | Self::List(_)
                | Self::Set(_)
                | Self::Dict(_)
                | Self::Function(_)
                | Self::Method(_)
                | Self::Exception(_)
                | Self::Iterator(_)
                | Self::Cell(_)
        )
    }
}

impl Meter {
    /// A text.
    pub fn str(&self, text: &str) -> Result<Value, Fault> {
        let charge = self.charge(HEAD_BYTES + text.len())?;
        Ok(Value::Str(Rc::new(Str { n_chars: count_chars(text), text: text.into(), _charge: charge })))
    }

    /// A text that was made already; ask [`Meter::room`] before making a large one.
    pub fn string(&self, text: String) -> Result<Value, Fault> {
        let charge = self.charge(HEAD_BYTES + text.len())?;
        Ok(Value::Str(Rc::new(Str { n_chars: count_chars(&text), text: text.into_boxed_str(), _charge: charge })))
    }

    /// A tuple of these elements.
    pub fn tuple(&self, items: Vec<Value>) -> Result<Value, Fault> {
        let items = match <[Value; 2]>::try_from(items) {
            Ok([first, second]) => return self.pair(first, second),
            Err(items) => items,
        };
        let charge = self.charge(container_bytes(items.len()))?;
        Ok(Value::Tuple(Rc::new(Tuple { items: Elements::Any(items), _charge: charge })))
    }

    /// A tuple of two elements; small numbers take no memory of their own.
    #[inline]
    pub fn pair(&self, first: Value, second: Value) -> Result<Value, Fault> {
        let small = match (&first, &second) {
            (Value::Int(first), Value::Int(second)) => Pair::new(*first, *second),
            (Value::Int(first), Value::Pair(second)) => second.behind(*first),
            _ => None,
        };
        if let Some(pair) = small {
            // Whatever asks for a pair does some work for it.
            self.spend(PAIR_FUEL)?;
            return Ok(Value::Pair(pair));
        }
        let charge = self.charge(container_bytes(2))?;
        Ok(Value::Tuple(Rc::new(Tuple { items: Elements::Two([first, second]), _charge: charge })))
    }

    /// An immutable set of these elements: sorted, repeated ones dropped.
    pub fn frozenset(&self, mut items: Vec<Value>) -> Result<Value, Fault> {
        let charge = self.charge(container_bytes(items.len()))?;
        crate::distinct::sort_distinct(&mut items, self)?;
        charge.resize(container_bytes(items.len()))?;
        Ok(Value::FrozenSet(Rc::new(FrozenSet { items, _charge: charge })))
    }

    /// An immutable set of elements that the caller knows to be in ascending structural order and distinct.
    pub fn frozenset_sorted(&self, items: Vec<Value>) -> Result<Value, Fault> {
        let charge = self.charge(container_bytes(items.len()))?;
        Ok(Value::FrozenSet(Rc::new(FrozenSet { items, _charge: charge })))
    }

    /// A tuple or immutable set in a representation of the host.
    pub fn pack(&self, packed: impl Packed) -> Result<Value, Fault> {
        let charge = self.charge(HEAD_BYTES + packed.bytes())?;
        Ok(Value::Packed(Rc::new(Pack::new(packed, charge))))
    }

    /// A list of these elements.
    pub fn list(&self, items: Vec<Value>) -> Result<Value, Fault> {
        let charge = self.charge(container_bytes(items.len()))?;
        Ok(Value::List(Rc::new(List { items: RefCell::new(items), charge, watched: false.into() })))
    }

    /// A mutable set of these elements.
    pub fn set(&self, mut items: Vec<Value>) -> Result<Value, Fault> {
        let charge = self.charge(container_bytes(items.len()))?;
        crate::distinct::sort_distinct(&mut items, self)?;
        charge.resize(container_bytes(items.len()))?;
        Ok(Value::Set(Rc::new(Set { items: RefCell::new(items), charge, watched: false.into() })))
    }

    /// A whole number of any size.
    pub fn int(&self, number: BigInt) -> Result<Value, Fault> {
        match i64::try_from(&number) {
            Ok(small) => Ok(Value::Int(small)),
            Err(_) => {
                let charge = self.charge(HEAD_BYTES + number.bits() as usize / 8)?;
                Ok(Value::Big(Rc::new(Big { number, _charge: charge })))
            }
        }
    }

    /// The numbers from `start` in steps, so many.
    pub(crate) fn range(&self, start: i64, stop: i64, step: i64, len: u64) -> Result<Value, Fault> {
        Ok(Value::Range(Rc::new(Range { start, stop, step, len, _charge: self.charge(HEAD_BYTES)? })))
    }

    /// An exception of this type.
    pub(crate) fn exception(&self, kind: Type, arguments: Vec<Value>) -> Result<Value, Fault> {
        let arguments = self.tuple(arguments)?;
        Ok(Value::Exception(Rc::new(Exception { kind, arguments, _charge: self.charge(HEAD_BYTES)? })))
    }

    /// A variable that closures share.
    pub(crate) fn cell(&self, value: Value) -> Result<Value, Fault> {
        let charge = self.charge(HEAD_BYTES)?;
        Ok(Value::Cell(Rc::new(SharedCell { value: RefCell::new(value), watched: false.into(), _charge: charge })))
    }
}

/// Bytes that a container of so many elements counts.
pub(crate) fn container_bytes(len: usize) -> usize {
    HEAD_BYTES.saturating_add(len.saturating_mul(SLOT_BYTES))
}

fn count_chars(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

/// Elements that are being collected, counted as they come and before room is made for them.
#[derive(Debug)]
pub struct Growing {
    items: Vec<Value>,
    charge: Charge,
    room: usize,
}

impl Growing {
    /// Room for so many elements, for a start.
    pub fn new(meter: &Meter, capacity: usize) -> Result<Self, Fault> {
        let charge = meter.charge(container_bytes(capacity))?;
        Ok(Self { items: Vec::with_capacity(capacity), charge, room: capacity })
    }

    /// Adds an element.
    #[inline]
    pub fn push(&mut self, value: Value) -> Result<(), Fault> {
        if self.items.len() == self.room {
            let room = (self.room * 2).max(8);
            self.charge.resize(container_bytes(room))?;
            self.items.reserve_exact(room - self.items.len());
            self.room = room;
        }
        self.items.push(value);
        Ok(())
    }

    /// What was collected.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// What was collected, not counted any more; hand it to a [`Meter`] to make a value of it.
    pub fn into_vec(self) -> Vec<Value> {
        self.items
    }

    /// A tuple of what was collected.
    pub fn into_tuple(mut self) -> Result<Value, Fault> {
        self.fit()?;
        Ok(Value::Tuple(Rc::new(Tuple { items: Elements::Any(self.items), _charge: self.charge })))
    }

    /// A list of what was collected.
    pub fn into_list(mut self) -> Result<Value, Fault> {
        self.fit()?;
        Ok(Value::List(Rc::new(List { items: RefCell::new(self.items), charge: self.charge, watched: false.into() })))
    }

    /// An immutable set of what was collected.
    pub fn into_frozenset(mut self) -> Result<Value, Fault> {
        crate::distinct::sort_distinct(&mut self.items, self.charge.meter())?;
        self.fit()?;
        Ok(Value::FrozenSet(Rc::new(FrozenSet { items: self.items, _charge: self.charge })))
    }

    /// A mutable set of what was collected.
    pub fn into_set(mut self) -> Result<Value, Fault> {
        crate::distinct::sort_distinct(&mut self.items, self.charge.meter())?;
        self.fit()?;
        Ok(Value::Set(Rc::new(Set { items: RefCell::new(self.items), charge: self.charge, watched: false.into() })))
    }

    fn fit(&mut self) -> Result<(), Fault> {
        self.items.shrink_to_fit();
        self.charge.resize(container_bytes(self.items.len()))
    }
}
