//! Methods of lists and tuples.

use std::rc::Rc;

use super::{MethodName, arguments_of, need_int, no_attribute};
use crate::container::push;
use crate::context::{Context, check_count, truth};
use crate::fault::Fault;
use crate::index::position;
use crate::invoke::Keywords;
use crate::order;
use crate::packed::Items;
use crate::sort::sort_by;
use crate::value::{List, SLOT_BYTES, Value, container_bytes};

impl Context {
    pub(super) fn list_method(
        &mut self,
        receiver: &Value,
        list: &Rc<List>,
        name: MethodName,
        arguments: &[Value],
        keywords: Keywords<'_>,
    ) -> Result<Value, Fault> {
        if name == MethodName::Sort {
            let [key, reverse] = arguments_of("sort", arguments, keywords, ["key", "reverse"], 0)?;
            check_count("sort", arguments.len(), 0, 0)?;
            return self.sort_in_place(list, &key, truth(&reverse));
        }
        if let Some((keyword, _)) = keywords.first() {
            return Err(Fault::type_error(format!("{}() takes no keyword argument '{keyword}'", name.text())));
        }
        let n_args = |min: usize, max: usize| check_count(name.text(), arguments.len(), min, max);
        match name {
            MethodName::Append => {
                n_args(1, 1)?;
                let is_nest = arguments[0].is_nest();
                push(list, arguments[0].clone())?;
                if is_nest {
                    self.watch(receiver);
                }
            }
            MethodName::Extend => {
                n_args(1, 1)?;
                self.extend_list(receiver, &arguments[0])?;
            }
            MethodName::Insert | MethodName::AppendLeft => {
                let (place, value) = match (name, arguments) {
                    (MethodName::AppendLeft, [value]) => (0, value),
                    (MethodName::Insert, [place, value]) => (need_int(place, "the index")?, value),
                    _ => return n_args(2, 2).map(|()| Value::None),
                };
                self.insert(list, place, value.clone())?;
                if value.is_nest() {
                    self.watch(receiver);
                }
            }
            MethodName::Pop => {
                n_args(0, 1)?;
                return self.pop_from(list, arguments.first().unwrap_or(&Value::Int(-1)));
            }
            MethodName::PopLeft => return self.pop_from(list, &Value::Int(0)),
            MethodName::Remove => {
                n_args(1, 1)?;
                let place = self.find_in(&list.items.borrow(), &arguments[0])?;
                let Some(place) = place else { return Err(Fault::value_error("list.remove(x): x not in list")) };
                self.pop_from(list, &Value::Int(place as i64))?;
            }
            MethodName::Clear => {
                let items = list.items.take();
                list.charge.resize(container_bytes(0))?;
                drop(items);
            }
            MethodName::Copy => {
                let items = self.collect(receiver)?;
                return self.meter.list(items);
            }
            MethodName::Reverse => {
                let mut items = list.items.borrow_mut();
                self.meter.spend(items.len() as u64 / 4)?;
                items.reverse();
            }
            MethodName::Count | MethodName::Index => return self.count_or_index(&list.items.borrow(), name, arguments),
            _ => return Err(no_attribute(receiver, name.text())),
        }
        Ok(Value::None)
    }

    pub(super) fn tuple_method(&mut self, items: Items<'_>, name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        if !matches!(name, MethodName::Count | MethodName::Index) {
            let tuple = self.meter.tuple(Vec::new())?;
            return Err(no_attribute(&tuple, name.text()));
        }
        match items {
            Items::Plain(items) => self.count_or_index(items, name, arguments),
            Items::Packed(_) => self.count_or_index(&items.to_vec(&self.meter)?, name, arguments),
        }
    }

    fn count_or_index(&self, items: &[Value], name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        if name == MethodName::Count {
            check_count("count", arguments.len(), 1, 1)?;
            let mut n_equal = 0;
            for item in items {
                self.meter.spend(1)?;
                n_equal += i64::from(order::equal(item, &arguments[0], &self.meter)?);
            }
            return Ok(Value::Int(n_equal));
        }
        check_count("index", arguments.len(), 1, 3)?;
        let bound = |place: usize, default: usize| match arguments.get(place) {
            None => Ok(default),
            Some(value) => need_int(value, "the bound").map(|bound| clip(bound, items.len())),
        };
        let (start, stop) = (bound(1, 0)?, bound(2, items.len())?);
        match self.find_in(items.get(start..stop).unwrap_or(&[]), &arguments[0])? {
            Some(place) => Ok(Value::Int((start + place) as i64)),
            None => Err(Fault::value_error(format!("{} is not in the sequence", self.repr(&arguments[0])?))),
        }
    }

    fn find_in(&self, items: &[Value], wanted: &Value) -> Result<Option<usize>, Fault> {
        for (place, item) in items.iter().enumerate() {
            self.meter.spend(1)?;
            if order::equal(item, wanted, &self.meter)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn insert(&mut self, list: &Rc<List>, place: i64, value: Value) -> Result<(), Fault> {
        let len = list.items.borrow().len();
        let place = clip(place, len);
        self.meter.spend((len - place) as u64 / 32)?;
        push(list, value)?;
        list.items.borrow_mut()[place..].rotate_right(1);
        Ok(())
    }

    fn pop_from(&mut self, list: &Rc<List>, index: &Value) -> Result<Value, Fault> {
        let mut items = list.items.borrow_mut();
        if items.is_empty() {
            return Err(Fault::index_error("pop from empty list"));
        }
        let place = position(index, items.len(), "list")?;
        self.meter.spend((items.len() - place) as u64 / 32)?;
        let value = items.remove(place);
        if items.capacity() > 64 && items.len() * 4 < items.capacity() {
            let room = items.len() * 2;
            items.shrink_to(room);
            list.charge.resize(container_bytes(room))?;
        }
        Ok(value)
    }

    /// Sorts a list; while keys are computed it is empty to the program, as changing it then would be a mistake.
    fn sort_in_place(&mut self, list: &Rc<List>, key: &Value, reverse: bool) -> Result<Value, Fault> {
        let mut items = list.items.take();
        let sorted = self.sort_values(&mut items, key, reverse);
        list.items.replace(items);
        sorted.map(|()| Value::None)
    }

    /// Sorts values stably, by a key where one is given.
    pub(crate) fn sort_values(&mut self, items: &mut Vec<Value>, key: &Value, reverse: bool) -> Result<(), Fault> {
        if reverse {
            items.reverse();
        }
        if matches!(key, Value::Unset | Value::None) {
            let meter = &self.meter;
            sort_by(items, meter, |a, b| order::less(a, b, meter))?;
        } else {
            let _scratch = self.meter.charge(items.len() * SLOT_BYTES * 2)?;
            let mut keyed = Vec::with_capacity(items.len());
            for item in items.iter() {
                keyed.push((self.call(key, std::slice::from_ref(item))?, item.clone()));
            }
            self.sort_by_key(&mut keyed)?;
            *items = keyed.into_iter().map(|(_, item)| item).collect();
        }
        if reverse {
            items.reverse();
        }
        Ok(())
    }
}

fn clip(place: i64, len: usize) -> usize {
    let place = if place < 0 { place.saturating_add(len as i64) } else { place };
    usize::try_from(place).unwrap_or(0).min(len)
}
