//! Operators between any two values: numbers, texts, sequences and sets.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::code::BinaryOp;
use crate::context::Context;
use crate::fault::Fault;
use crate::kind::Type;
use crate::meter::Meter;
use crate::number;
use crate::order::order;
use crate::packed::{Items, Shape};
use crate::value::{SLOT_BYTES, Value};

impl Context {
    /// An arithmetic operation between two values.
    pub(crate) fn binary(&mut self, op: BinaryOp, a: &Value, b: &Value) -> Result<Value, Fault> {
        if let (Value::Int(a), Value::Int(b), BinaryOp::Add) = (a, b, op)
            && let Some(sum) = a.checked_add(*b)
        {
            return Ok(Value::Int(sum));
        }
        if let Some(result) = number::binary(op, a, b, self.meter()) {
            return result;
        }
        if let (Value::Dict(a), Value::Dict(b)) = (a, b)
            && a.kind == Type::Counter
            && matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::And | BinaryOp::Or)
        {
            return self.combine_counters(op, a, b);
        }
        let result = match op {
            BinaryOp::Add => self.concatenate(a, b)?,
            BinaryOp::Multiply => self.repeat(a, b)?,
            BinaryOp::Modulo if a.as_str().is_some() => return self.format_percent(a, b),
            BinaryOp::Or if matches!((a, b), (Value::Dict(_), Value::Dict(_))) => return self.merge_dicts(a, b),
            BinaryOp::Subtract | BinaryOp::Or | BinaryOp::And | BinaryOp::Xor => set_operation(op, a, b, self.meter())?,
            _ => None,
        };
        result.ok_or_else(|| {
            let words = format!("unsupported operand type(s) for {}: '{}' and '{}'", op.sign(), a.type_name(), b.type_name());
            Fault::type_error(words)
        })
    }

    /// As `binary`, but a list, set or dictionary on the left changes.
    pub(crate) fn in_place(&mut self, op: BinaryOp, a: Value, b: &Value) -> Result<Value, Fault> {
        match (&a, op) {
            (Value::List(_), BinaryOp::Add) => {
                self.extend_list(&a, b)?;
                Ok(a)
            }
            (Value::List(list), BinaryOp::Multiply) if b.as_int().is_some() => {
                let Some(Value::List(repeated)) = self.repeat(&a, b)? else { return Ok(a) };
                let items = repeated.items.take();
                list.charge.resize(crate::value::container_bytes(items.len()))?;
                let before = list.items.replace(items);
                drop(before);
                Ok(a)
            }
            (Value::Set(set), BinaryOp::Subtract | BinaryOp::Or | BinaryOp::And | BinaryOp::Xor) => {
                match set_operation(op, &a, b, self.meter())? {
                    Some(Value::Set(changed)) => {
                        let items = changed.items.take();
                        set.charge.resize(crate::value::container_bytes(items.len()))?;
                        let before = set.items.replace(items);
                        drop(before);
                        self.watch(&a);
                        Ok(a)
                    }
                    _ => self.binary(op, &a, b),
                }
            }
            (Value::Dict(_), BinaryOp::Or) => {
                self.update_dict(&a, b)?;
                Ok(a)
            }
            _ => self.binary(op, &a, b),
        }
    }

    fn merge_dicts(&mut self, a: &Value, b: &Value) -> Result<Value, Fault> {
        let merged = Value::Dict(self.meter().dict()?);
        self.update_dict(&merged, a)?;
        self.update_dict(&merged, b)?;
        Ok(merged)
    }

    fn concatenate(&mut self, a: &Value, b: &Value) -> Result<Option<Value>, Fault> {
        let meter = self.meter();
        if let (Value::Str(a), Value::Str(b)) = (a, b) {
            let len = a.text.len() + b.text.len();
            meter.spend(len as u64 / 64)?;
            meter.room(len)?;
            return meter.string([&*a.text, &*b.text].concat()).map(Some);
        }
        if let (Value::List(a), Value::List(b)) = (a, b) {
            let (a, b) = (a.items.borrow(), b.items.borrow());
            meter.spend((a.len() + b.len()) as u64 / 4)?;
            meter.room((a.len() + b.len()) * SLOT_BYTES)?;
            return meter.list([&a[..], &b[..]].concat()).map(Some);
        }
        let (Some(a), Some(b)) = (a.as_tuple(), b.as_tuple()) else { return Ok(None) };
        meter.spend((a.len() + b.len()) as u64 / 4)?;
        meter.room((a.len() + b.len()) * SLOT_BYTES)?;
        let mut items = a.to_vec(meter)?;
        items.extend(b.to_vec(meter)?);
        meter.tuple(items).map(Some)
    }

    fn repeat(&mut self, a: &Value, b: &Value) -> Result<Option<Value>, Fault> {
        let (sequence, times) = match (a.as_int(), b.as_int()) {
            (None, Some(times)) => (a, times),
            (Some(times), None) => (b, times),
            _ => return Ok(None),
        };
        let times = usize::try_from(times).unwrap_or(0);
        let meter = self.meter();
        if let Value::Str(text) = sequence {
            let len = text.text.len().saturating_mul(times);
            meter.room(len)?;
            meter.spend(len as u64 / 64)?;
            return meter.string(text.text.repeat(times)).map(Some);
        }
        let borrowed;
        let (items, is_list) = match sequence {
            Value::List(list) => {
                borrowed = list.items.borrow();
                (Items::Plain(&borrowed), true)
            }
            other => match other.as_tuple() {
                Some(items) => (items, false),
                None => return Ok(None),
            },
        };
        let len = items.len().saturating_mul(times);
        meter.room(len.saturating_mul(SLOT_BYTES))?;
        meter.spend(len as u64 / 4)?;
        let once = items.to_vec(meter)?;
        let mut repeated = Vec::with_capacity(len);
        for _ in 0..if once.is_empty() { 0 } else { times } {
            repeated.extend_from_slice(&once);
        }
        if is_list { meter.list(repeated) } else { meter.tuple(repeated) }.map(Some)
    }
}

/// One of `- | & ^` between two sets; the result has the kind of the first. `None` where one is no set.
pub(crate) fn set_operation(op: BinaryOp, a: &Value, b: &Value, meter: &Meter) -> Result<Option<Value>, Fault> {
    let (Some((is_mutable, a)), Some((_, b))) = (set_items(a, meter)?, set_items(b, meter)?) else { return Ok(None) };
    let items = combine_sorted(op, &a, &b, meter)?;
    if is_mutable {
        return meter.set_sorted(items).map(Some);
    }
    meter.frozenset_sorted(items).map(Some)
}

/// The elements of a set of any kind, and whether it can change.
fn set_items(value: &Value, meter: &Meter) -> Result<Option<(bool, Vec<Value>)>, Fault> {
    match value {
        Value::Set(set) => {
            let items = set.items.borrow();
            meter.spend(items.len() as u64)?;
            meter.room(items.len() * SLOT_BYTES)?;
            Ok(Some((true, items.clone())))
        }
        other => match other.container() {
            Some((Shape::FrozenSet, items)) => {
                meter.spend(items.len() as u64)?;
                Ok(Some((false, items.to_vec(meter)?)))
            }
            _ => Ok(None),
        },
    }
}

/// Merges two ascending sequences of distinct values.
pub(crate) fn combine_sorted(op: BinaryOp, a: &[Value], b: &[Value], meter: &Meter) -> Result<Vec<Value>, Fault> {
    meter.room((a.len() + b.len()) * SLOT_BYTES)?;
    let (only_a, both, only_b) = match op {
        BinaryOp::Or => (true, true, true),
        BinaryOp::And => (false, true, false),
        BinaryOp::Xor => (true, false, true),
        _ => (true, false, false),
    };
    let mut merged = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match order(&a[i], &b[j], meter)? {
            Ordering::Less => {
                merged.extend(only_a.then(|| a[i].clone()));
                i += 1;
            }
            Ordering::Greater => {
                merged.extend(only_b.then(|| b[j].clone()));
                j += 1;
            }
            Ordering::Equal => {
                merged.extend(both.then(|| a[i].clone()));
                i += 1;
                j += 1;
            }
        }
        meter.spend(1)?;
    }
    if only_a {
        merged.extend_from_slice(&a[i..]);
    }
    if only_b {
        merged.extend_from_slice(&b[j..]);
    }
    Ok(merged)
}

impl Meter {
    /// A mutable set of elements that are in ascending structural order and distinct already.
    pub(crate) fn set_sorted(&self, items: Vec<Value>) -> Result<Value, Fault> {
        let charge = self.charge(crate::value::container_bytes(items.len()))?;
        Ok(Value::Set(Rc::new(crate::value::Set { items: items.into(), charge, watched: false.into() })))
    }
}
