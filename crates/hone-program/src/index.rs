//! Subscripts and slices: reading, storing, deleting.

use std::rc::Rc;

use crate::code::Op;
use crate::context::Context;
use crate::fault::{ErrorKind, Fault};
use crate::kind::Type;
use crate::order::missing_key;
use crate::value::{List, SLOT_BYTES, Str, Value, container_bytes};

/// The positions that a slice names in a sequence of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: i64,
    step: i64,
    len: usize,
}

impl Span {
    /// The positions of `start:stop:step` among `len` elements.
    pub(crate) fn of(start: &Value, stop: &Value, step: &Value, len: usize) -> Result<Self, Fault> {
        let step = part(step)?.unwrap_or(1);
        if step == 0 {
            return Err(Fault::value_error("slice step cannot be zero"));
        }
        let len = len as i64;
        let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let clip = |place: i64| (if place < 0 { place.saturating_add(len) } else { place }).clamp(low, high);
        let start = part(start)?.map_or(if step > 0 { low } else { high }, clip);
        let stop = part(stop)?.map_or(if step > 0 { high } else { low }, clip);
        let n = if step > 0 {
            (stop - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs())
        } else {
            (start - stop).max(0).unsigned_abs().div_ceil(step.unsigned_abs())
        };
        Ok(Self { start, step, len: n as usize })
    }

    fn places(self) -> impl Iterator<Item = usize> {
        (0..self.len as i64).map(move |idx| self.start.wrapping_add(idx.wrapping_mul(self.step)) as usize)
    }
}

fn part(value: &Value) -> Result<Option<i64>, Fault> {
    match value {
        Value::None => Ok(None),
        Value::Big(big) => Ok(Some(if big.number.sign() == num_bigint::Sign::Minus { i64::MIN } else { i64::MAX })),
        other => match other.as_int() {
            Some(number) => Ok(Some(number)),
            None => Err(Fault::type_error(format!("slice indices must be integers or None, not {}", other.type_name()))),
        },
    }
}

/// The position that an index means among `len` elements.
pub(crate) fn position(index: &Value, len: usize, what: &str) -> Result<usize, Fault> {
    let Some(idx) = index.as_int() else {
        if matches!(index, Value::Big(_)) {
            return Err(Fault::index_error(format!("{what} index out of range")));
        }
        return Err(Fault::type_error(format!("{what} indices must be integers or slices, not {}", index.type_name())));
    };
    let place = if idx < 0 { idx.saturating_add(len as i64) } else { idx };
    match usize::try_from(place) {
        Ok(place) if place < len => Ok(place),
        _ => Err(Fault::index_error(format!("{what} index out of range: {idx} in a {what} of length {len}"))),
    }
}

impl Context {
    /// Runs an operation on subscripts.
    pub(crate) fn step_index(&mut self, op: Op) -> Result<(), Fault> {
        match op {
            Op::Subscript => {
                let index = self.pop();
                let container = self.pop();
                let item = self.subscript(&container, &index)?;
                self.stack.push(item);
            }
            Op::StoreSubscript => {
                let index = self.pop();
                let container = self.pop();
                let value = self.pop();
                self.store_subscript(&container, index, value)?;
            }
            Op::DeleteSubscript => {
                let index = self.pop();
                let container = self.pop();
                self.delete_subscript(&container, &index)?;
            }
            Op::Slice => {
                let (step, stop, start) = (self.pop(), self.pop(), self.pop());
                let container = self.pop();
                let slice = self.slice(&container, &start, &stop, &step)?;
                self.stack.push(slice);
            }
            Op::StoreSlice => {
                let (step, stop, start) = (self.pop(), self.pop(), self.pop());
                let container = self.pop();
                let value = self.pop();
                let items = self.collect(&value)?;
                self.store_slice(&container, (&start, &stop, &step), items)?;
            }
            Op::DeleteSlice => {
                let (step, stop, start) = (self.pop(), self.pop(), self.pop());
                let container = self.pop();
                self.delete_slice(&container, (&start, &stop, &step))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// `container[index]`.
    pub(crate) fn subscript(&mut self, container: &Value, index: &Value) -> Result<Value, Fault> {
        match container {
            Value::List(list) => {
                let items = list.items.borrow();
                Ok(items[position(index, items.len(), "list")?].clone())
            }
            Value::Dict(dict) => match dict.get(index)? {
                Some(value) => Ok(value),
                None => self.missing(container, index),
            },
            Value::Str(text) => {
                let place = position(index, text.n_chars, "string")?;
                self.meter.str(self.letter(text, place)?)
            }
            Value::Range(range) => {
                let place = position(index, usize::try_from(range.len).unwrap_or(usize::MAX), "range")?;
                Ok(Value::Int(range.start.wrapping_add((place as i64).wrapping_mul(range.step))))
            }
            other => match other.as_tuple() {
                Some(items) => items.get(position(index, items.len(), "tuple")?, &self.meter),
                None => Err(Fault::type_error(format!("'{}' object is not subscriptable", other.type_name()))),
            },
        }
    }

    fn letter<'t>(&self, text: &'t Str, place: usize) -> Result<&'t str, Fault> {
        if text.n_chars == text.text.len() {
            return Ok(&text.text[place..=place]);
        }
        self.meter.spend(place as u64 / 8)?;
        let mut letters = text.text.char_indices().skip(place);
        let start = letters.next().map_or(0, |(byte, _)| byte);
        let end = letters.next().map_or(text.text.len(), |(byte, _)| byte);
        Ok(&text.text[start..end])
    }

    /// What a dictionary gives for a key it does not have.
    fn missing(&mut self, container: &Value, key: &Value) -> Result<Value, Fault> {
        let Value::Dict(dict) = container else { return Ok(Value::None) };
        if dict.kind == Type::Counter {
            return Ok(Value::Int(0));
        }
        let default = dict.default();
        if matches!(default, Value::None) {
            let words = self.repr(key)?;
            let exception = self.meter.exception(Type::KeyError, vec![key.clone()])?;
            return Err(missing_key(format!("{words} is not in the dict")).with_exception(exception));
        }
        let value = self.call(&default, &[])?;
        self.store_subscript(container, key.clone(), value.clone())?;
        Ok(value)
    }

    /// `container[index] = value`.
    pub(crate) fn store_subscript(&mut self, container: &Value, index: Value, value: Value) -> Result<(), Fault> {
        let is_nest = value.is_nest();
        match container {
            Value::List(list) => {
                let mut items = list.items.borrow_mut();
                let place = position(&index, items.len(), "list")?;
                let before = std::mem::replace(&mut items[place], value);
                drop(items);
                drop(before);
            }
            Value::Dict(dict) => {
                let is_nest = is_nest || index.is_nest();
                dict.insert(index, value)?;
                if is_nest {
                    self.watch(container);
                }
                return Ok(());
            }
            other => {
                let words = format!("'{}' object does not support item assignment", other.type_name());
                let hint = if matches!(other.type_name(), "tuple" | "str") { "; it cannot change: build a new one" } else { "" };
                return Err(Fault::type_error(words + hint));
            }
        }
        if is_nest {
            self.watch(container);
        }
        Ok(())
    }

    fn delete_subscript(&mut self, container: &Value, index: &Value) -> Result<(), Fault> {
        match container {
            Value::List(list) => {
                let mut items = list.items.borrow_mut();
                let place = position(index, items.len(), "list")?;
                self.meter.spend((items.len() - place) as u64 / 32)?;
                let removed = items.remove(place);
                drop(items);
                drop(removed);
                Ok(())
            }
            Value::Dict(dict) => match dict.remove(index)? {
                Some(_) => Ok(()),
                None => Err(Fault::new(ErrorKind::Key, format!("{} is not in the dict", self.repr(index)?))),
            },
            other => Err(Fault::type_error(format!("'{}' object doesn't support item deletion", other.type_name()))),
        }
    }

    /// `container[start:stop:step]`.
    pub(crate) fn slice(&mut self, container: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Fault> {
        let meter = &self.meter;
        match container {
            Value::List(list) => {
                let items = list.items.borrow();
                let span = Span::of(start, stop, step, items.len())?;
                meter.spend(span.len as u64 / 2)?;
                meter.room(span.len * SLOT_BYTES)?;
                meter.list(span.places().map(|place| items[place].clone()).collect())
            }
            Value::Str(text) => {
                let span = Span::of(start, stop, step, text.n_chars)?;
                meter.spend(text.text.len() as u64 / 16 + span.len as u64 / 4)?;
                if text.n_chars == text.text.len() {
                    if span.step == 1 {
                        let start = span.start as usize;
                        return meter.str(text.text.get(start..start + span.len).unwrap_or(""));
                    }
                    meter.room(span.len)?;
                    let bytes = text.text.as_bytes();
                    return meter.string(span.places().map(|place| char::from(bytes[place])).collect());
                }
                meter.room(text.text.len() * 5)?;
                let letters: Vec<char> = text.text.chars().collect();
                meter.string(span.places().map(|place| letters[place]).collect())
            }
            Value::Range(range) => {
                let span = Span::of(start, stop, step, usize::try_from(range.len).unwrap_or(usize::MAX >> 1))?;
                let first = range.start.wrapping_add(span.start.wrapping_mul(range.step));
                let step = range.step.saturating_mul(span.step);
                let stop = first.wrapping_add(step.wrapping_mul(span.len as i64));
                meter.range(first, stop, step, span.len as u64)
            }
            other => match other.as_tuple() {
                Some(items) => {
                    let span = Span::of(start, stop, step, items.len())?;
                    meter.spend(span.len as u64 / 2)?;
                    meter.room(span.len * SLOT_BYTES)?;
                    let items = span.places().map(|place| items.get(place, meter)).collect::<Result<_, _>>()?;
                    meter.tuple(items)
                }
                None => Err(Fault::type_error(format!("'{}' object is not subscriptable", other.type_name()))),
            },
        }
    }

    fn store_slice(
        &mut self,
        container: &Value,
        (start, stop, step): (&Value, &Value, &Value),
        items: Vec<Value>,
    ) -> Result<(), Fault> {
        let list = changeable(container)?;
        let is_nested = items.iter().any(Value::is_nest);
        let len = list.items.borrow().len();
        let span = Span::of(start, stop, step, len)?;
        self.meter.spend((len + items.len()) as u64 / 8)?;
        let mut removed = Vec::new();
        if span.step == 1 {
            list.charge.resize(container_bytes(len - span.len + items.len()))?;
            let from = span.start as usize;
            removed.extend(list.items.borrow_mut().splice(from..from + span.len, items));
        } else {
            if items.len() != span.len {
                let words = format!("attempt to assign sequence of size {} to extended slice of size {}", items.len(), span.len);
                return Err(Fault::value_error(words));
            }
            let mut target = list.items.borrow_mut();
            removed.extend(span.places().zip(items).map(|(place, item)| std::mem::replace(&mut target[place], item)));
        }
        drop(removed);
        if is_nested {
            self.watch(container);
        }
        Ok(())
    }

    fn delete_slice(&mut self, container: &Value, (start, stop, step): (&Value, &Value, &Value)) -> Result<(), Fault> {
        let list = changeable(container)?;
        let mut items = list.items.borrow_mut();
        self.meter.spend(items.len() as u64)?;
        let span = Span::of(start, stop, step, items.len())?;
        let mut is_removed = vec![false; items.len()];
        span.places().for_each(|place| is_removed[place] = true);
        let marked = items.iter_mut().zip(&is_removed).filter(|(_, is_removed)| **is_removed);
        let removed: Vec<Value> = marked.map(|(item, _)| std::mem::take(item)).collect();
        let mut is_removed = is_removed.iter();
        items.retain(|_| is_removed.next() != Some(&true));
        drop(items);
        drop(removed);
        Ok(())
    }
}

fn changeable(container: &Value) -> Result<&Rc<List>, Fault> {
    match container {
        Value::List(list) => Ok(list),
        other => Err(Fault::type_error(format!("'{}' object does not support item assignment", other.type_name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(start: Option<i64>, stop: Option<i64>, step: Option<i64>, len: usize) -> Vec<usize> {
        let value = |part: Option<i64>| part.map_or(Value::None, Value::Int);
        Span::of(&value(start), &value(stop), &value(step), len).unwrap().places().collect()
    }

    #[test]
    fn slices_clip_and_count_from_the_end() {
        assert_eq!(places(None, None, None, 3), [0, 1, 2]);
        assert_eq!(places(Some(-2), None, None, 3), [1, 2]);
        assert_eq!(places(None, None, Some(-1), 3), [2, 1, 0]);
        assert_eq!(places(Some(9), Some(-9), Some(-2), 4), [3, 1]);
        assert_eq!(places(Some(i64::MIN), Some(i64::MAX), Some(i64::MAX), 4), [0]);
        assert_eq!(places(Some(2), Some(1), None, 4), [0; 0]);
        assert_eq!(places(None, None, Some(i64::MIN), 4), [3]);
    }
}
