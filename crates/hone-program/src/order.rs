//! How values compare: equality, the comparisons of the language, and the total order in which sets iterate.
//!
//! Three relations. *Equality* is structural; a tuple never equals a set, and `True == 1 == 1.0`. *Comparison* (`<`) is
//! the language's: numbers, texts, sequences lexicographically, sets by inclusion; other pairs are a type error.
//! *Structural order* is total on hashable values: numbers by size, tuples lexicographically, sets as the ascending sequence
//! of their elements, functions by their number; across kinds in a fixed order. It finds elements in sets and keys in
//! dictionaries, so there is no hash that could collide. All three spend fuel for each element they look at.

use std::cmp::Ordering;

use crate::fault::{ErrorKind, Fault};
use crate::meter::Meter;
use crate::packed::{Items, Packed, Shape};
use crate::scalar::compare_scalars;
use crate::value::Value;

/// How deeply nested values may be when they are compared or printed.
pub(crate) const NESTING_MAX: usize = 200;

/// A comparison operator of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Whether two values are equal.
#[inline]
pub fn equal(a: &Value, b: &Value, meter: &Meter) -> Result<bool, Fault> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(a == b),
        _ => equal_at(a, b, meter, 0),
    }
}

/// The total order in which sets iterate. Lists, sets and dictionaries have no place in it: they may change.
#[inline]
pub fn order(a: &Value, b: &Value, meter: &Meter) -> Result<Ordering, Fault> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        _ => order_at(a, b, meter, 0),
    }
}

/// Whether `a < b` in the sense of the language, where both can be compared.
pub fn less(a: &Value, b: &Value, meter: &Meter) -> Result<bool, Fault> {
    compare(Comparison::Less, a, b, meter)
}

/// One of the four comparisons of the language.
#[inline]
pub(crate) fn compare(operator: Comparison, a: &Value, b: &Value, meter: &Meter) -> Result<bool, Fault> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(holds(operator, a.cmp(b))),
        _ => compare_at(operator, a, b, meter, 0),
    }
}

pub(crate) fn too_deep() -> Fault {
    Fault::depth("values", NESTING_MAX)
}

fn equal_at(a: &Value, b: &Value, meter: &Meter, depth: usize) -> Result<bool, Fault> {
    meter.spend(1)?;
    if let Some(ordering) = compare_scalars(a, b, meter)? {
        return Ok(ordering.is_some_and(Ordering::is_eq));
    }
    if depth > NESTING_MAX {
        return Err(too_deep());
    }
    match (a, b) {
        (Value::List(a), Value::List(b)) => equal_slices(&a.items.borrow(), &b.items.borrow(), meter, depth),
        (Value::Dict(a), Value::Dict(b)) => crate::dict::equal(a, b, meter, |a, b| equal_at(a, b, meter, depth + 1)),
        (Value::Range(a), Value::Range(b)) => Ok(a.shape() == b.shape()),
        _ => with_items(a, b, |a, b| match (a, b) {
            (Some((shape_a, a)), Some((shape_b, b))) if shape_a == shape_b => equal_items(a, b, meter, depth),
            _ => Ok(false),
        })
        .unwrap_or_else(|| same(a, b, meter)),
    }
}

fn equal_items(a: Items<'_>, b: Items<'_>, meter: &Meter, depth: usize) -> Result<bool, Fault> {
    match (a, b) {
        (Items::Plain(a), Items::Plain(b)) => equal_slices(a, b, meter, depth),
        (Items::Packed(a), Items::Packed(b)) if a.len() != b.len() => Ok(false),
        (Items::Packed(a), Items::Packed(b)) => {
            if let Some(equal) = a.equal(b) {
                spend_for(a, b, meter)?;
                return Ok(equal);
            }
            equal_one_by_one(Items::Packed(a), Items::Packed(b), meter, depth)
        }
        (a, b) => equal_one_by_one(a, b, meter, depth),
    }
}

fn spend_for(a: &dyn Packed, b: &dyn Packed, meter: &Meter) -> Result<(), Fault> {
    meter.spend(1 + a.compared_bytes().min(b.compared_bytes()) as u64 / 16)
}

fn equal_slices(a: &[Value], b: &[Value], meter: &Meter, depth: usize) -> Result<bool, Fault> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b) {
        let is_equal = match (a, b) {
            (Value::Int(a), Value::Int(b)) => {
                meter.spend(1)?;
                a == b
            }
            _ => equal_at(a, b, meter, depth + 1)?,
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_one_by_one(a: Items<'_>, b: Items<'_>, meter: &Meter, depth: usize) -> Result<bool, Fault> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for idx in 0..a.len() {
        if !equal_at(&a.get(idx, meter)?, &b.get(idx, meter)?, meter, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The structural order of hashable values, at this depth of nesting.
fn order_at(a: &Value, b: &Value, meter: &Meter, depth: usize) -> Result<Ordering, Fault> {
    meter.spend(1)?;
    let (rank_a, rank_b) = (rank(a), rank(b));
    if rank_a != rank_b {
        return Ok(rank_a.cmp(&rank_b));
    }
    if let Some(ordering) = compare_scalars(a, b, meter)? {
        return Ok(ordering.unwrap_or_else(|| order_nan(a, b)));
    }
    if let (Value::Range(a), Value::Range(b)) = (a, b) {
        return Ok(a.shape().cmp(&b.shape()));
    }
    if depth > NESTING_MAX {
        return Err(too_deep());
    }
    with_items(a, b, |a, b| match (a, b) {
        (Some((_, a)), Some((_, b))) => order_items(a, b, meter, depth),
        _ => Ok(Ordering::Equal),
    })
    .unwrap_or_else(|| Ok(identity(a).cmp(&identity(b))))
}

/// Numbers that are no numbers come first, and are equal among themselves.
fn order_nan(a: &Value, b: &Value) -> Ordering {
    let is_nan = |value: &Value| matches!(value, Value::Float(number) if number.is_nan());
    is_nan(b).cmp(&is_nan(a))
}

fn order_items(a: Items<'_>, b: Items<'_>, meter: &Meter, depth: usize) -> Result<Ordering, Fault> {
    if let (Items::Packed(a), Items::Packed(b)) = (a, b)
        && let Some(ordering) = a.order(b)
    {
        spend_for(a, b, meter)?;
        return Ok(ordering);
    }
    for idx in 0..a.len().min(b.len()) {
        let ordering = match (a, b) {
            (Items::Plain(a), Items::Plain(b)) => order_at(&a[idx], &b[idx], meter, depth + 1)?,
            _ => order_at(&a.get(idx, meter)?, &b.get(idx, meter)?, meter, depth + 1)?,
        };
        if ordering.is_ne() {
            return Ok(ordering);
        }
    }
    Ok(a.len().cmp(&b.len()))
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Unset | Value::None => 0,
        Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => 1,
        Value::Str(_) => 2,
        Value::Tuple(_) | Value::Pair(_) => 3,
        Value::FrozenSet(_) | Value::Set(_) => 4,
        Value::Packed(pack) => match pack.get().shape() {
            Shape::Tuple => 3,
            Shape::FrozenSet => 4,
        },
        Value::Native(_) | Value::Function(_) | Value::Type(_) | Value::Method(_) => 5,
        Value::Range(_) => 6,
        Value::List(_) => 7,
        Value::Dict(_) => 8,
        Value::Exception(_) | Value::Iterator(_) | Value::Module(_) | Value::Cell(_) => 9,
    }
}

/// The number by which functions and other opaque values are told apart.
fn identity(value: &Value) -> u64 {
    match value {
        Value::Type(kind) => *kind as u64,
        Value::Native(native) => native.id(),
        Value::Function(function) => function.id,
        Value::Method(method) => method.id,
        _ => 0,
    }
}

/// Whether two opaque values are the same one. Texts are where they are equal.
pub(crate) fn same(a: &Value, b: &Value, meter: &Meter) -> Result<bool, Fault> {
    use std::rc::Rc;
    Ok(match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Native(a), Value::Native(b)) => a.id() == b.id(),
        (Value::Function(a), Value::Function(b)) => a.id == b.id,
        (Value::Method(a), Value::Method(b)) => a.id == b.id,
        (Value::Str(a), Value::Str(b)) => {
            Rc::ptr_eq(a, b) || {
                meter.spend(a.text.len().min(b.text.len()) as u64 / 16)?;
                a.text == b.text
            }
        }
        (Value::Tuple(a), Value::Tuple(b)) => Rc::ptr_eq(a, b),
        (Value::Pair(a), Value::Pair(b)) => a == b,
        (Value::FrozenSet(a), Value::FrozenSet(b)) => Rc::ptr_eq(a, b),
        (Value::Packed(a), Value::Packed(b)) => Rc::ptr_eq(a, b),
        (Value::List(a), Value::List(b)) => Rc::ptr_eq(a, b),
        (Value::Set(a), Value::Set(b)) => Rc::ptr_eq(a, b),
        (Value::Dict(a), Value::Dict(b)) => Rc::ptr_eq(a, b),
        (Value::Exception(a), Value::Exception(b)) => Rc::ptr_eq(a, b),
        (Value::Iterator(a), Value::Iterator(b)) => Rc::ptr_eq(a, b),
        (Value::Module(a), Value::Module(b)) => a.name() == b.name(),
        _ => false,
    })
}

/// One of the four comparisons, at this depth of nesting.
fn compare_at(operator: Comparison, a: &Value, b: &Value, meter: &Meter, depth: usize) -> Result<bool, Fault> {
    meter.spend(1)?;
    if let Some(ordering) = compare_scalars(a, b, meter)? {
        return match (a, b) {
            (Value::None, _) | (_, Value::None) => Err(cannot_compare(operator, a, b)),
            _ => Ok(ordering.is_some_and(|ordering| holds(operator, ordering))),
        };
    }
    if depth > NESTING_MAX {
        return Err(too_deep());
    }
    if let (Value::List(list_a), Value::List(list_b)) = (a, b) {
        let (list_a, list_b) = (list_a.items.borrow(), list_b.items.borrow());
        return compare_sequences(operator, Items::Plain(&list_a), Items::Plain(&list_b), meter, depth);
    }
    with_items(a, b, |items_a, items_b| match (items_a, items_b) {
        (Some((Shape::Tuple, items_a)), Some((Shape::Tuple, items_b))) => {
            compare_sequences(operator, items_a, items_b, meter, depth)
        }
        (Some((Shape::FrozenSet, items_a)), Some((Shape::FrozenSet, items_b))) => {
            compare_inclusion(operator, items_a, items_b, meter)
        }
        _ => Err(cannot_compare(operator, a, b)),
    })
    .unwrap_or_else(|| Err(cannot_compare(operator, a, b)))
}

fn compare_sequences(operator: Comparison, a: Items<'_>, b: Items<'_>, meter: &Meter, depth: usize) -> Result<bool, Fault> {
    for idx in 0..a.len().min(b.len()) {
        if let (Items::Plain(a), Items::Plain(b)) = (a, b) {
            if !equal_at(&a[idx], &b[idx], meter, depth + 1)? {
                return compare_at(operator, &a[idx], &b[idx], meter, depth + 1);
            }
            continue;
        }
        let (a, b) = (a.get(idx, meter)?, b.get(idx, meter)?);
        if !equal_at(&a, &b, meter, depth + 1)? {
            return compare_at(operator, &a, &b, meter, depth + 1);
        }
    }
    Ok(holds(operator, a.len().cmp(&b.len())))
}

/// Sets compare by inclusion: `a > b` when `b` is a proper subset of `a`.
fn compare_inclusion(operator: Comparison, a: Items<'_>, b: Items<'_>, meter: &Meter) -> Result<bool, Fault> {
    match operator {
        Comparison::Less => Ok(a.len() < b.len() && is_subset(a, b, meter)?),
        Comparison::LessEqual => is_subset(a, b, meter),
        Comparison::Greater => Ok(b.len() < a.len() && is_subset(b, a, meter)?),
        Comparison::GreaterEqual => is_subset(b, a, meter),
    }
}

/// Whether every element of `small` is in `large`; both are in ascending structural order.
pub(crate) fn is_subset(small: Items<'_>, large: Items<'_>, meter: &Meter) -> Result<bool, Fault> {
    if small.len() > large.len() {
        return Ok(false);
    }
    let mut place = 0;
    for idx in 0..small.len() {
        let wanted = small.get(idx, meter)?;
        loop {
            if place == large.len() {
                return Ok(false);
            }
            let ordering = order(&large.get(place, meter)?, &wanted, meter)?;
            meter.spend(1)?;
            place += 1;
            match ordering {
                Ordering::Less => {}
                Ordering::Equal => break,
                Ordering::Greater => return Ok(false),
            }
        }
    }
    Ok(true)
}

pub(crate) fn holds(operator: Comparison, ordering: Ordering) -> bool {
    match operator {
        Comparison::Less => ordering.is_lt(),
        Comparison::LessEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterEqual => ordering.is_ge(),
    }
}

#[cold]
fn cannot_compare(operator: Comparison, a: &Value, b: &Value) -> Fault {
    let sign = match operator {
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterEqual => ">=",
    };
    Fault::type_error(format!("'{sign}' not supported between instances of '{}' and '{}'", a.type_name(), b.type_name()))
}

/// The elements of both, where at least one is a tuple or a set of either kind.
fn with_items<T>(
    a: &Value,
    b: &Value,
    then: impl FnOnce(Option<(Shape, Items<'_>)>, Option<(Shape, Items<'_>)>) -> T,
) -> Option<T> {
    match (a, b) {
        (Value::Set(a), Value::Set(b)) => {
            let (a, b) = (a.items.borrow(), b.items.borrow());
            Some(then(Some((Shape::FrozenSet, Items::Plain(&a))), Some((Shape::FrozenSet, Items::Plain(&b)))))
        }
        (Value::Set(a), b) => {
            let a = a.items.borrow();
            Some(then(Some((Shape::FrozenSet, Items::Plain(&a))), b.container()))
        }
        (a, Value::Set(b)) => {
            let b = b.items.borrow();
            Some(then(a.container(), Some((Shape::FrozenSet, Items::Plain(&b)))))
        }
        (a, b) => {
            let (a, b) = (a.container(), b.container());
            (a.is_some() || b.is_some()).then(|| then(a, b))
        }
    }
}

/// A failure that says which key is missing.
pub(crate) fn missing_key(words: String) -> Fault {
    Fault::new(ErrorKind::Key, words)
}
