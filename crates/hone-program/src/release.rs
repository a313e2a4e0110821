//! Letting go of values without recursion: a nest of a million lists must not fill the stack when it is dropped.
//!
//! Whoever owns elements hands them to [`release`] when it is dropped; the elements of elements that nobody else holds
//! join the same work list.

use std::rc::Rc;

use crate::function::Function;
use crate::value::{Exception, FrozenSet, List, Set, SharedCell, Tuple, Value};

/// Drops these values and what only they hold, one after the other.
pub(crate) fn release(mut waiting: Vec<Value>) {
    while let Some(mut value) = waiting.pop() {
        if value.is_nest() {
            take_children(&mut value, &mut waiting);
        }
    }
}

/// Drops these values; a work list is made only where one of them holds further values.
#[inline]
pub(crate) fn release_items(items: &mut Vec<Value>) {
    if items.iter().any(Value::is_nest) {
        release(std::mem::take(items));
    }
}

fn take_children(value: &mut Value, waiting: &mut Vec<Value>) {
    match value {
        Value::Tuple(tuple) => {
            if let Some(tuple) = Rc::get_mut(tuple) {
                tuple.items.drain_into(waiting);
            }
        }
        Value::FrozenSet(set) => {
            if let Some(set) = Rc::get_mut(set) {
                waiting.append(&mut set.items);
            }
        }
        Value::Function(function) => {
            if let Some(function) = Rc::get_mut(function) {
                waiting.append(&mut function.captured);
                waiting.append(&mut function.defaults);
            }
        }
        Value::List(list) if Rc::strong_count(list) == 1 => waiting.append(&mut list.items.borrow_mut()),
        Value::Set(set) if Rc::strong_count(set) == 1 => waiting.append(&mut set.items.borrow_mut()),
        Value::Dict(dict) if Rc::strong_count(dict) == 1 => dict.drain_into(waiting),
        Value::Cell(cell) if Rc::strong_count(cell) == 1 => waiting.push(cell.value.take()),
        Value::Iterator(iter) if Rc::strong_count(iter) == 1 => iter.drain_into(waiting),
        Value::Method(method) => {
            if let Some(method) = Rc::get_mut(method) {
                waiting.push(std::mem::take(&mut method.receiver));
            }
        }
        Value::Exception(exception) => {
            if let Some(exception) = Rc::get_mut(exception) {
                waiting.push(std::mem::take(&mut exception.arguments));
            }
        }
        _ => {}
    }
}

impl Drop for Tuple {
    fn drop(&mut self) {
        if self.items.iter().any(Value::is_nest) {
            let mut waiting = Vec::new();
            self.items.drain_into(&mut waiting);
            release(waiting);
        }
    }
}

impl Drop for FrozenSet {
    fn drop(&mut self) {
        release_items(&mut self.items);
    }
}

impl Drop for List {
    fn drop(&mut self) {
        release_items(self.items.get_mut());
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        release_items(self.items.get_mut());
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        release_items(&mut self.captured);
        release_items(&mut self.defaults);
    }
}

impl Drop for SharedCell {
    fn drop(&mut self) {
        let value = self.value.get_mut();
        if value.is_nest() {
            release(vec![std::mem::take(value)]);
        }
    }
}

impl Drop for Exception {
    fn drop(&mut self) {
        release(vec![std::mem::take(&mut self.arguments)]);
    }
}
