//! Going through values one by one, lazily.

use std::cell::RefCell;
use std::rc::Rc;

use crate::context::Context;
use crate::dict::Dict;
use crate::fault::{ErrorKind, Fault};
use crate::frame::Suspended;
use crate::meter::{Charge, Meter};
use crate::value::{HEAD_BYTES, Value};

/// Fuel for making an iterator beside that for a value: what it goes through is held in pieces of memory of their own.
const ITERATOR_FUEL: u64 = 10;

/// An iterator that is under way.
#[derive(Debug)]
pub struct Iter {
    state: RefCell<State>,
    _charge: Charge,
}

/// Where an iterator stands.
#[derive(Debug)]
pub(crate) enum State {
    /// It has given everything.
    Done,
    /// A list, tuple or set, at a position.
    Items { source: Value, place: usize, n_start: usize },
    /// A text, at a byte.
    Chars { source: Value, byte: usize },
    /// Numbers that are left of a range.
    Range { next: i64, step: i64, left: u64 },
    /// The keys of a dictionary.
    Keys { dict: Rc<Dict>, place: usize, n_start: usize },
    /// Positions of a sequence, backwards.
    Reversed { source: Value, left: usize },
    /// Elements with their number.
    Enumerate { source: Value, count: i64 },
    /// One element of each, until the first ends.
    Zip { sources: Rc<[Value]> },
    /// What a function makes of one element of each.
    Map { function: Value, sources: Rc<[Value]> },
    /// The elements that a function approves, or the true ones where it is `None`.
    Filter { function: Value, source: Value },
    /// A function of the program that yields.
    Generator(Box<Suspended>),
    /// A generator that has ended, with what it returned.
    Returned(Value),
    /// It is being advanced.
    Busy,
}

impl Meter {
    pub(crate) fn iterator(&self, state: State) -> Result<Value, Fault> {
        self.iterator_of(state, HEAD_BYTES)
    }

    /// An iterator that counts so many bytes.
    pub(crate) fn iterator_of(&self, state: State, bytes: usize) -> Result<Value, Fault> {
        self.spend(ITERATOR_FUEL)?;
        Ok(Value::Iterator(Rc::new(Iter { state: RefCell::new(state), _charge: self.charge(bytes)? })))
    }
}

/// What an iterator gives without the run's help.
pub(crate) enum Advanced {
    Value(Value),
    End,
    /// It calls functions or other iterators.
    NeedsRun,
}

impl Iter {
    /// The next value, where that needs nothing but the iterator.
    #[inline]
    pub(crate) fn advance(&self, meter: &Meter) -> Result<Advanced, Fault> {
        let Ok(mut state) = self.state.try_borrow_mut() else { return Ok(Advanced::NeedsRun) };
        match &mut *state {
            State::Range { .. } | State::Items { .. } | State::Chars { .. } | State::Keys { .. } | State::Reversed { .. } => {
                meter.spend(1)?;
                Ok(match advance(&mut state, meter)? {
                    Step::Value(value) => Advanced::Value(value),
                    _ => Advanced::End,
                })
            }
            _ => Ok(Advanced::NeedsRun),
        }
    }

    /// Copies the values it holds, for whoever follows them.
    pub(crate) fn copy_into(&self, children: &mut Vec<Value>) {
        match &*self.state.borrow() {
            State::Done | State::Range { .. } | State::Busy => {}
            State::Generator(suspended) => {
                children.extend_from_slice(&suspended.values);
                children.extend_from_slice(&suspended.frame.shared);
            }
            State::Items { source, .. }
            | State::Chars { source, .. }
            | State::Reversed { source, .. }
            | State::Enumerate { source, .. } => children.push(source.clone()),
            State::Keys { dict, .. } => children.push(Value::Dict(Rc::clone(dict))),
            State::Zip { sources } => children.extend_from_slice(sources),
            State::Map { function, sources } => {
                children.push(function.clone());
                children.extend_from_slice(sources);
            }
            State::Filter { function, source } => children.extend([function.clone(), source.clone()]),
            State::Returned(value) => children.push(value.clone()),
        }
    }

    /// Moves the values it holds out, for whoever drops them.
    pub(crate) fn drain_into(&self, waiting: &mut Vec<Value>) {
        match self.state.replace(State::Done) {
            State::Done | State::Range { .. } | State::Busy => {}
            State::Generator(suspended) => {
                waiting.extend(suspended.values);
                waiting.extend(suspended.frame.shared);
            }
            State::Items { source, .. }
            | State::Chars { source, .. }
            | State::Reversed { source, .. }
            | State::Enumerate { source, .. } => waiting.push(source),
            State::Keys { dict, .. } => waiting.push(Value::Dict(dict)),
            State::Zip { sources } => waiting.extend_from_slice(&sources),
            State::Map { function, sources } => {
                waiting.push(function);
                waiting.extend_from_slice(&sources);
            }
            State::Filter { function, source } => waiting.extend([function, source]),
            State::Returned(value) => waiting.push(value),
        }
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        let mut waiting = Vec::new();
        self.drain_into(&mut waiting);
        crate::release::release(waiting);
    }
}

/// Fuel for a step of an iterator that is asked from outside of the loop, and for taking up a generator again: each is
/// worth several operations.
const STEP_FUEL: u64 = 6;

impl Context {
    /// An iterator over a value.
    pub fn iterate(&mut self, value: &Value) -> Result<Value, Fault> {
        let state = match value {
            Value::Iterator(_) => return Ok(value.clone()),
            Value::Tuple(_) | Value::Pair(_) | Value::FrozenSet(_) | Value::Packed(_) | Value::List(_) => {
                State::Items { source: value.clone(), place: 0, n_start: 0 }
            }
            Value::Set(set) => State::Items { source: value.clone(), place: 0, n_start: set.items.borrow().len() },
            Value::Str(_) => State::Chars { source: value.clone(), byte: 0 },
            Value::Range(range) => State::Range { next: range.start, step: range.step, left: range.len },
            Value::Dict(dict) => State::Keys { dict: Rc::clone(dict), place: 0, n_start: dict.len() },
            other => return Err(Fault::type_error(format!("'{}' object is not iterable", other.type_name()))),
        };
        self.meter().iterator(state)
    }

    /// The next value of an iterator, or `None` at its end.
    pub fn next(&mut self, iterator: &Value) -> Result<Option<Value>, Fault> {
        let Value::Iterator(iter) = iterator else {
            return Err(Fault::type_error(format!("'{}' object is not an iterator", iterator.type_name())));
        };
        self.meter().spend(STEP_FUEL)?;
        let step = {
            let Ok(mut state) = iter.state.try_borrow_mut() else {
                return Err(Fault::value_error("the iterator is being advanced already"));
            };
            advance(&mut state, self.meter())?
        };
        match step {
            Step::Value(value) => Ok(Some(value)),
            Step::End => {
                let before = iter.state.replace(State::Done);
                drop(before);
                Ok(None)
            }
            Step::Enumerate(source, count) => self.next_numbered(&source, count),
            Step::Zip(sources) => Ok(match self.next_of_each(&sources)? {
                Some(values) => Some(self.meter().tuple(values)?),
                None => None,
            }),
            Step::Map(function, sources) => match self.next_of_each(&sources)? {
                Some(values) => self.call(&function, &values).map(Some),
                None => Ok(None),
            },
            Step::Filter(function, source) => self.next_approved(&function, &source),
            Step::Resume(suspended) => self.next_yielded(iter, *suspended),
        }
    }

    fn next_numbered(&mut self, source: &Value, count: i64) -> Result<Option<Value>, Fault> {
        match self.next_nested(source)? {
            Some(value) => self.meter().tuple(vec![Value::Int(count), value]).map(Some),
            None => Ok(None),
        }
    }

    fn next_of_each(&mut self, sources: &[Value]) -> Result<Option<Vec<Value>>, Fault> {
        let mut values = Vec::with_capacity(sources.len());
        for source in sources {
            match self.next_nested(source)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok((!sources.is_empty()).then_some(values))
    }

    fn next_approved(&mut self, function: &Value, source: &Value) -> Result<Option<Value>, Fault> {
        while let Some(value) = self.next_nested(source)? {
            let approved = match function {
                Value::None => self.truth(&value),
                function => {
                    let verdict = self.call(function, std::slice::from_ref(&value))?;
                    self.truth(&verdict)
                }
            };
            if approved {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// What a generator yields next. One that fails has ended.
    fn next_yielded(&mut self, iter: &Rc<Iter>, suspended: Suspended) -> Result<Option<Value>, Fault> {
        self.meter().spend(STEP_FUEL)?;
        match self.nested(|context| context.resume(suspended)) {
            Ok((value, state)) => {
                iter.state.replace(state);
                Ok(value)
            }
            Err(fault) => {
                iter.state.replace(State::Done);
                Err(fault)
            }
        }
    }

    fn next_nested(&mut self, source: &Value) -> Result<Option<Value>, Fault> {
        if let Value::Iterator(iter) = source {
            match iter.advance(self.meter())? {
                Advanced::Value(value) => return Ok(Some(value)),
                Advanced::End => return Ok(None),
                Advanced::NeedsRun => {}
            }
        }
        self.nested(|context| context.next(source))
    }
}

/// What one step of an iterator comes to; the last four need the run and are done outside of the borrow.
enum Step {
    Value(Value),
    End,
    Enumerate(Value, i64),
    Zip(Rc<[Value]>),
    Map(Value, Rc<[Value]>),
    Filter(Value, Value),
    Resume(Box<Suspended>),
}

fn advance(state: &mut State, meter: &Meter) -> Result<Step, Fault> {
    Ok(match state {
        State::Done => Step::End,
        State::Items { source, place, n_start } => match item_at(source, *place, *n_start, meter)? {
            Some(item) => {
                *place += 1;
                Step::Value(item)
            }
            None => Step::End,
        },
        State::Chars { source, byte } => match source.as_str().and_then(|text| text[*byte..].chars().next()) {
            Some(letter) => {
                *byte += letter.len_utf8();
                Step::Value(meter.str(letter.encode_utf8(&mut [0; 4]))?)
            }
            None => Step::End,
        },
        State::Range { next, step, left } => {
            if *left == 0 {
                return Ok(Step::End);
            }
            let value = *next;
            *left -= 1;
            *next = next.wrapping_add(*step);
            Step::Value(Value::Int(value))
        }
        State::Keys { dict, place, n_start } => {
            if dict.len() != *n_start {
                return Err(changed("dictionary"));
            }
            match dict.entry_from(*place)? {
                Some((after, key, _)) => {
                    *place = after;
                    Step::Value(key)
                }
                None => Step::End,
            }
        }
        State::Reversed { source, left } => match left.checked_sub(1) {
            Some(place) => {
                *left = place;
                item_at(source, place, 0, meter)?.map_or(Step::End, Step::Value)
            }
            None => Step::End,
        },
        State::Enumerate { source, count } => {
            let number = *count;
            *count = count.wrapping_add(1);
            Step::Enumerate(source.clone(), number)
        }
        State::Zip { sources } => Step::Zip(sources.clone()),
        State::Map { function, sources } => Step::Map(function.clone(), sources.clone()),
        State::Filter { function, source } => Step::Filter(function.clone(), source.clone()),
        State::Returned(_) => Step::End,
        State::Busy => return Err(Fault::value_error("the generator is already running")),
        State::Generator(_) => match std::mem::replace(state, State::Busy) {
            State::Generator(suspended) => Step::Resume(suspended),
            _ => Step::End,
        },
    })
}

/// What a generator returned that has just ended; `None` of any other iterator.
pub(crate) fn returned_by(iterator: &Value) -> Value {
    let Value::Iterator(iter) = iterator else { return Value::None };
    match iter.state.replace(State::Done) {
        State::Returned(value) => value,
        _ => Value::None,
    }
}

/// The element of a sequence or set at a place, or `None` behind its end.
pub(crate) fn item_at(source: &Value, place: usize, n_start: usize, meter: &Meter) -> Result<Option<Value>, Fault> {
    Ok(match source {
        Value::List(list) => list.items.borrow().get(place).cloned(),
        Value::Set(set) => {
            let items = set.items.borrow();
            if n_start != 0 && items.len() != n_start {
                return Err(changed("set"));
            }
            items.get(place).cloned()
        }
        Value::Range(range) => {
            ((place as u64) < range.len).then(|| Value::Int(range.start.wrapping_add((place as i64).wrapping_mul(range.step))))
        }
        other => match other.container() {
            Some((_, items)) if place < items.len() => Some(items.get(place, meter)?),
            _ => None,
        },
    })
}

fn changed(what: &str) -> Fault {
    Fault::new(ErrorKind::Raised, format!("{what} changed size during iteration; iterate over a copy"))
}
