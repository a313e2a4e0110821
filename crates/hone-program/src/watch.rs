//! Values that may come to contain themselves.
//!
//! A cycle needs a list, set, dictionary or shared variable that was changed to hold another container after it was
//! made. Those are remembered, weakly, and emptied when the run ends, so that no cycle outlives it.

use std::collections::HashSet;
use std::rc::{Rc, Weak};

use crate::context::Context;
use crate::dict::Dict;
use crate::fault::Fault;
use crate::value::{List, Set, SharedCell, Value};

/// The containers of a run that were changed to hold others.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    all: Vec<Watch>,
    n_tidied: usize,
}

#[derive(Debug)]
enum Watch {
    List(Weak<List>),
    Set(Weak<Set>),
    Dict(Weak<Dict>),
    Cell(Weak<SharedCell>),
}

impl Watch {
    fn is_alive(&self) -> bool {
        match self {
            Self::List(list) => list.strong_count() > 0,
            Self::Set(set) => set.strong_count() > 0,
            Self::Dict(dict) => dict.strong_count() > 0,
            Self::Cell(cell) => cell.strong_count() > 0,
        }
    }

    fn value(&self) -> Option<Value> {
        match self {
            Self::List(list) => list.upgrade().map(Value::List),
            Self::Set(set) => set.upgrade().map(Value::Set),
            Self::Dict(dict) => dict.upgrade().map(Value::Dict),
            Self::Cell(cell) => cell.upgrade().map(Value::Cell),
        }
    }
}

impl Context {
    /// Remembers a container that now holds another one.
    pub(crate) fn watch(&mut self, container: &Value) {
        let (watched, watch) = match container {
            Value::List(list) => (&list.watched, Watch::List(Rc::downgrade(list))),
            Value::Set(set) => (&set.watched, Watch::Set(Rc::downgrade(set))),
            Value::Dict(dict) => (&dict.watched, Watch::Dict(Rc::downgrade(dict))),
            Value::Cell(cell) => (&cell.watched, Watch::Cell(Rc::downgrade(cell))),
            _ => return,
        };
        if watched.replace(true) {
            return;
        }
        let all = &mut self.watched.all;
        if all.len() >= 64 && all.len() >= self.watched.n_tidied * 2 {
            all.retain(Watch::is_alive);
            self.watched.n_tidied = all.len();
        }
        all.push(watch);
    }

    /// Ends a run: empties every remembered container that the result does not reach; refuses a result that contains itself.
    pub(crate) fn end_cycles(&mut self, result: Result<Value, Fault>) -> Result<Value, Fault> {
        self.globals.clear();
        self.constants.clear();
        self.end_call(result)
    }

    /// Ends a call of a session: as the end of a run, but what its global variables reach stays.
    pub(crate) fn end_call(&mut self, result: Result<Value, Fault>) -> Result<Value, Fault> {
        self.stack.clear();
        self.frames.clear();
        if self.watched.all.is_empty() {
            return result;
        }
        let (mut kept, is_cyclic) = match &result {
            Ok(value) => reach(value),
            Err(_) => (HashSet::new(), false),
        };
        if is_cyclic {
            kept.clear();
        }
        let result = if is_cyclic { Err(Fault::value_error("the result contains itself")) } else { result };
        let globals = reach_all(&self.globals);
        let mut waiting = Vec::new();
        for watch in std::mem::take(&mut self.watched.all) {
            let Some(value) = watch.value() else { continue };
            let place = address(&value);
            if globals.contains(&place) {
                self.watched.all.push(watch);
            } else if !kept.contains(&place) {
                empty(&value, &mut waiting);
            }
            waiting.push(value);
        }
        crate::release::release(waiting);
        result
    }
}

fn empty(value: &Value, waiting: &mut Vec<Value>) {
    match value {
        Value::List(list) => waiting.append(&mut list.items.borrow_mut()),
        Value::Set(set) => waiting.append(&mut set.items.borrow_mut()),
        Value::Dict(dict) => dict.drain_into(waiting),
        Value::Cell(cell) => waiting.push(cell.value.take()),
        _ => {}
    }
}

fn address(value: &Value) -> usize {
    match value {
        Value::List(list) => Rc::as_ptr(list).cast::<()>() as usize,
        Value::Set(set) => Rc::as_ptr(set).cast::<()>() as usize,
        Value::Dict(dict) => Rc::as_ptr(dict).cast::<()>() as usize,
        Value::Cell(cell) => Rc::as_ptr(cell).cast::<()>() as usize,
        Value::Tuple(tuple) => Rc::as_ptr(tuple).cast::<()>() as usize,
        Value::FrozenSet(set) => Rc::as_ptr(set).cast::<()>() as usize,
        Value::Function(function) => Rc::as_ptr(function).cast::<()>() as usize,
        Value::Method(method) => Rc::as_ptr(method).cast::<()>() as usize,
        Value::Exception(exception) => Rc::as_ptr(exception).cast::<()>() as usize,
        Value::Iterator(iter) => Rc::as_ptr(iter).cast::<()>() as usize,
        _ => 0,
    }
}

/// Everything that a value leads to, and whether it leads back to itself.
fn reach(value: &Value) -> (HashSet<usize>, bool) {
    enum Visit {
        Enter(Value),
        Leave(usize),
    }
    let (mut done, mut open) = (HashSet::new(), HashSet::new());
    let mut waiting = vec![Visit::Enter(value.clone())];
    while let Some(visit) = waiting.pop() {
        match visit {
            Visit::Leave(place) => {
                open.remove(&place);
                done.insert(place);
            }
            Visit::Enter(value) => {
                let place = address(&value);
                if place == 0 || done.contains(&place) {
                    continue;
                }
                if !open.insert(place) {
                    return (done, true);
                }
                waiting.push(Visit::Leave(place));
                let mut children = Vec::new();
                children_of(&value, &mut children);
                waiting.extend(children.into_iter().filter(Value::is_nest).map(Visit::Enter));
            }
        }
    }
    (done, false)
}

/// Everything that values lead to.
fn reach_all(values: &[Value]) -> HashSet<usize> {
    let mut reached = HashSet::new();
    let mut waiting = values.to_vec();
    while let Some(value) = waiting.pop() {
        if value.is_nest() && reached.insert(address(&value)) {
            children_of(&value, &mut waiting);
        }
    }
    reached
}

/// Whether nothing that values lead to can change.
pub(crate) fn are_fixed(values: &[Value]) -> bool {
    let (mut reached, mut waiting) = (HashSet::new(), values.to_vec());
    while let Some(value) = waiting.pop() {
        if value.is_nest() && !matches!(value, Value::Tuple(_) | Value::FrozenSet(_) | Value::Function(_)) {
            return false;
        }
        if value.is_nest() && reached.insert(address(&value)) {
            children_of(&value, &mut waiting);
        }
    }
    true
}

fn children_of(value: &Value, children: &mut Vec<Value>) {
    match value {
        Value::List(list) => children.extend_from_slice(&list.items.borrow()),
        Value::Set(set) => children.extend_from_slice(&set.items.borrow()),
        Value::Dict(dict) => dict.copy_into(children),
        Value::Cell(cell) => children.push(cell.value.borrow().clone()),
        Value::Tuple(tuple) => children.extend_from_slice(&tuple.items),
        Value::FrozenSet(set) => children.extend_from_slice(&set.items),
        Value::Function(function) => {
            children.extend_from_slice(&function.captured);
            children.extend_from_slice(&function.defaults);
        }
        Value::Method(method) => children.push(method.receiver.clone()),
        Value::Exception(exception) => children.push(exception.arguments.clone()),
        Value::Iterator(iter) => iter.copy_into(children),
        _ => {}
    }
}
