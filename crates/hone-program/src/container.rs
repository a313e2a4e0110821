//! Operations on containers: making them, adding to them, taking them apart.

use std::rc::Rc;

use crate::code::{Compiled, Op};
use crate::context::Context;
use crate::distinct::{check_hashable, search};
use crate::fault::Fault;
use crate::order;
use crate::value::{List, SLOT_BYTES, Set, Value, container_bytes};

impl Context {
    /// Runs an operation on containers.
    pub(crate) fn step_container(&mut self, program: &Compiled, op: Op) -> Result<(), Fault> {
        match op {
            Op::Tuple(n) => {
                let items = self.take_top(n)?;
                let tuple = self.meter.tuple(items)?;
                self.stack.push(tuple);
            }
            Op::List(n) => {
                let items = self.take_top(n)?;
                let list = self.meter.list(items)?;
                self.stack.push(list);
            }
            Op::Set(n) => {
                let items = self.take_top(n)?;
                let set = self.meter.set(items)?;
                self.stack.push(set);
            }
            Op::Dict(_) => {
                let dict = self.meter.dict()?;
                self.stack.push(Value::Dict(dict));
            }
            Op::Append(below) => {
                let value = self.pop();
                if let Value::List(list) = &self.stack[self.stack.len() - below as usize] {
                    push(list, value)?;
                }
            }
            Op::Add(below) => {
                let value = self.pop();
                if let Value::Set(set) = &self.stack[self.stack.len() - below as usize] {
                    add(set, value)?;
                }
            }
            Op::Insert(below) => {
                let value = self.pop();
                let key = self.pop();
                if let Value::Dict(dict) = &self.stack[self.stack.len() - below as usize] {
                    dict.insert(key, value)?;
                }
            }
            Op::Extend => {
                let value = self.pop();
                let target = self.stack[self.stack.len() - 1].clone();
                match &target {
                    Value::Set(set) => {
                        for item in self.collect(&value)? {
                            add(set, item)?;
                        }
                    }
                    _ => self.extend_list(&target, &value)?,
                }
            }
            Op::Update { keywords } => {
                let value = self.pop();
                let target = self.stack[self.stack.len() - 1].clone();
                if !matches!(value, Value::Dict(_)) {
                    return Err(Fault::type_error(format!("what stands after ** must be a dict, not '{}'", value.type_name())));
                }
                if keywords {
                    self.check_new_keywords(&target, &value)?;
                }
                self.update_dict(&target, &value)?;
            }
            Op::ListToTuple => {
                let list = self.pop();
                let items = self.collect(&list)?;
                let tuple = self.meter.tuple(items)?;
                self.stack.push(tuple);
            }
            Op::Attribute(name) => {
                let value = self.pop();
                let name = &program.names[name as usize];
                let attribute = self.attribute(&value, &name.text, name.method)?;
                self.stack.push(attribute);
            }
            Op::Iterate => {
                let value = self.pop();
                let iterator = self.iterate(&value)?;
                self.stack.push(iterator);
            }
            Op::Unpack(n) => {
                let value = self.pop();
                self.unpack(&value, n as usize)?;
            }
            Op::UnpackStar { before, after } => {
                let value = self.pop();
                self.unpack_star(&value, before as usize, after as usize)?;
            }
            Op::Join(n) => {
                let parts = self.take_top(n)?;
                let joined = self.join("", &parts)?;
                self.stack.push(joined);
            }
            Op::Format { conversion } => {
                let specification = self.pop();
                let value = self.pop();
                let text = self.format_value(&value, conversion, specification.as_str().unwrap_or(""))?;
                self.stack.push(text);
            }
            other => return self.step_index(other),
        }
        Ok(())
    }

    fn take_top(&mut self, n: u32) -> Result<Vec<Value>, Fault> {
        self.meter.spend(u64::from(n))?;
        Ok(if n == 0 { Vec::new() } else { self.stack.split_off(self.stack.len() - n as usize) })
    }

    /// Adds everything that a value iterates over to a list.
    pub(crate) fn extend_list(&mut self, target: &Value, value: &Value) -> Result<(), Fault> {
        let Value::List(list) = target else { return Ok(()) };
        if let Value::List(other) = value {
            let items = other.items.borrow().len();
            self.meter.spend(items as u64)?;
            self.meter.room(items * SLOT_BYTES)?;
        }
        let items = self.collect(value)?;
        let len = list.items.borrow().len() + items.len();
        list.charge.resize(container_bytes(len))?;
        let is_nested = items.iter().any(Value::is_nest);
        let mut target_items = list.items.borrow_mut();
        target_items.reserve_exact(items.len());
        target_items.extend(items);
        drop(target_items);
        if is_nested {
            self.watch(target);
        }
        Ok(())
    }

    fn check_new_keywords(&self, target: &Value, value: &Value) -> Result<(), Fault> {
        let (Value::Dict(target), Value::Dict(given)) = (target, value) else { return Ok(()) };
        for (key, _) in given.entries()? {
            if target.get(&key)?.is_some() {
                return Err(Fault::type_error(format!("multiple values for keyword argument '{}'", key.as_str().unwrap_or("?"))));
            }
        }
        Ok(())
    }

    /// Adds entries to a dictionary: those of another, or pairs.
    pub(crate) fn update_dict(&mut self, target: &Value, value: &Value) -> Result<(), Fault> {
        let Value::Dict(dict) = target else { return Ok(()) };
        let mut is_nested = false;
        if let Value::Dict(other) = value {
            for (key, value) in other.entries()? {
                is_nested |= value.is_nest() || key.is_nest();
                dict.insert(key, value)?;
            }
        } else {
            let iterator = self.iterate(value)?;
            while let Some(pair) = self.next(&iterator)? {
                let mut parts = self.collect(&pair)?;
                let (Some(value), Some(key), true) = (parts.pop(), parts.pop(), parts.is_empty()) else {
                    return Err(Fault::value_error("a dict is made of pairs: each element needs length 2"));
                };
                is_nested |= value.is_nest() || key.is_nest();
                dict.insert(key, value)?;
            }
        }
        if is_nested {
            self.watch(target);
        }
        Ok(())
    }

    fn unpack(&mut self, value: &Value, n: usize) -> Result<(), Fault> {
        self.meter.spend(n as u64)?;
        if let Some(items) = value.as_tuple()
            && items.len() == n
        {
            for idx in (0..n).rev() {
                let item = items.get(idx, &self.meter)?;
                self.stack.push(item);
            }
            return Ok(());
        }
        let items = self.collect_at_most(value, n)?;
        if items.len() < n {
            return Err(Fault::value_error(format!("not enough values to unpack (expected {n}, got {})", items.len())));
        }
        if items.len() > n {
            return Err(Fault::value_error(format!("too many values to unpack (expected {n})")));
        }
        self.stack.extend(items.into_iter().rev());
        Ok(())
    }

    /// The first elements: one more than wanted, where there are so many.
    fn collect_at_most(&mut self, value: &Value, n: usize) -> Result<Vec<Value>, Fault> {
        let iterator = match self.iterate(value) {
            Ok(iterator) => iterator,
            Err(_) => return Err(Fault::type_error(format!("cannot unpack non-iterable {} object", value.type_name()))),
        };
        let mut items = Vec::new();
        while items.len() <= n {
            match self.next(&iterator)? {
                Some(item) => items.push(item),
                None => break,
            }
        }
        Ok(items)
    }

    fn unpack_star(&mut self, value: &Value, before: usize, after: usize) -> Result<(), Fault> {
        let mut items = self.collect(value)?;
        if items.len() < before + after {
            let words = format!("not enough values to unpack (expected at least {}, got {})", before + after, items.len());
            return Err(Fault::value_error(words));
        }
        let last = items.split_off(items.len() - after);
        let middle = items.split_off(before);
        let middle = self.meter.list(middle)?;
        self.stack.extend(last.into_iter().rev());
        self.stack.push(middle);
        self.stack.extend(items.into_iter().rev());
        Ok(())
    }

    /// Whether a value is in a container.
    pub(crate) fn contains(&mut self, container: &Value, value: &Value) -> Result<bool, Fault> {
        match container {
            Value::Str(text) => match value.as_str() {
                Some(part) => {
                    self.meter.spend((text.text.len() + part.len()) as u64 / 8)?;
                    Ok(text.text.contains(part))
                }
                None => {
                    Err(Fault::type_error(format!("'in <string>' requires string as left operand, not {}", value.type_name())))
                }
            },
            Value::Dict(dict) => Ok(dict.get(value)?.is_some()),
            Value::Set(set) => {
                check_hashable(value, &self.meter)?;
                Ok(search(&set.items.borrow(), value, &self.meter)?.is_ok())
            }
            Value::FrozenSet(set) => {
                check_hashable(value, &self.meter)?;
                Ok(search(&set.items, value, &self.meter)?.is_ok())
            }
            Value::Packed(pack) => match pack.get().contains(value) {
                Some(found) => Ok(found),
                None => self.contains_by_search(container, value),
            },
            Value::Range(range) if value.as_int().is_some() => {
                let offset = i128::from(value.as_int().unwrap_or(0)) - i128::from(range.start);
                let step = i128::from(range.step);
                Ok(offset % step == 0 && (0..i128::from(range.len)).contains(&(offset / step)))
            }
            Value::List(list) => {
                let items = list.items.borrow();
                for item in items.iter() {
                    self.meter.spend(1)?;
                    if order::equal(item, value, &self.meter)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => self.contains_by_search(container, value),
        }
    }

    fn contains_by_search(&mut self, container: &Value, value: &Value) -> Result<bool, Fault> {
        let iterator = match self.iterate(container) {
            Ok(iterator) => iterator,
            Err(_) => return Err(Fault::type_error(format!("argument of type '{}' is not iterable", container.type_name()))),
        };
        while let Some(item) = self.next(&iterator)? {
            if order::equal(&item, value, &self.meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Adds a value at the end of a list; whoever may close a cycle by it watches the list.
pub(crate) fn push(list: &Rc<List>, value: Value) -> Result<(), Fault> {
    let mut items = list.items.borrow_mut();
    if items.len() == items.capacity() {
        let room = (items.len() * 2).max(8);
        list.charge.resize(container_bytes(room))?;
        let more = room - items.len();
        items.reserve_exact(more);
    }
    items.push(value);
    Ok(())
}

/// Adds a value to a set; says whether it is new.
pub(crate) fn add(set: &Rc<Set>, value: Value) -> Result<bool, Fault> {
    let meter = set.charge.meter();
    check_hashable(&value, meter)?;
    let mut items = set.items.borrow_mut();
    let place = match items.last() {
        Some(last) if order(last, &value, meter)?.is_lt() => items.len(),
        _ => match search(&items, &value, meter)? {
            Ok(_) => return Ok(false),
            Err(place) => place,
        },
    };
    meter.spend(1 + (items.len() - place) as u64 / 32)?;
    if items.len() == items.capacity() {
        let room = (items.len() * 2).max(8);
        set.charge.resize(container_bytes(room))?;
        let more = room - items.len();
        items.reserve_exact(more);
    }
    items.insert(place, value);
    Ok(true)
}

/// Removes a value from a set; says whether it was there.
pub(crate) fn discard(set: &Rc<Set>, value: &Value) -> Result<bool, Fault> {
    let meter = set.charge.meter();
    check_hashable(value, meter)?;
    let mut items = set.items.borrow_mut();
    match search(&items, value, meter)? {
        Ok(place) => {
            meter.spend(1 + (items.len() - place) as u64 / 32)?;
            let removed = items.remove(place);
            drop(items);
            drop(removed);
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}
