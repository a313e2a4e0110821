//! Dictionaries: entries in the order of insertion, found through an index in the structural order of their keys.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

use crate::distinct::check_hashable;
use crate::fault::Fault;
use crate::kind::Type;
use crate::meter::{Charge, Meter};
use crate::order::order;
use crate::value::{HEAD_BYTES, SLOT_BYTES, Value};

/// Bytes that an entry counts: key, value and its place in the index.
const ENTRY_BYTES: usize = 2 * SLOT_BYTES + 8;
/// Fuel for an entry that is new, and for a table without any.
const ENTRY_FUEL: u64 = 4;

/// A dictionary.
#[derive(Debug)]
pub struct Dict {
    table: RefCell<Table>,
    pub(crate) kind: Type,
    /// What makes the value of a missing key, in a `defaultdict`.
    default: RefCell<Value>,
    pub(crate) watched: Cell<bool>,
    charge: Charge,
}

/// The entries; a removed one leaves a gap until the next tidying.
#[derive(Debug, Default)]
struct Table {
    entries: Vec<Option<(Value, Value)>>,
    /// Places of the entries, in the structural order of their keys.
    index: Vec<u32>,
}

impl Meter {
    /// An empty dictionary.
    pub fn dict(&self) -> Result<Rc<Dict>, Fault> {
        self.dict_of(Type::Dict, Value::None)
    }

    /// An empty dictionary of this type, with what makes missing values.
    pub(crate) fn dict_of(&self, kind: Type, default: Value) -> Result<Rc<Dict>, Fault> {
        self.spend(ENTRY_FUEL)?;
        let charge = self.charge(HEAD_BYTES)?;
        Ok(Rc::new(Dict { table: RefCell::default(), kind, default: default.into(), watched: false.into(), charge }))
    }
}

impl Dict {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.table.borrow().index.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value under a key.
    pub fn get(&self, key: &Value) -> Result<Option<Value>, Fault> {
        check_hashable(key, self.charge.meter())?;
        let table = self.table.borrow();
        Ok(match table.find(key, self.charge.meter())? {
            Ok(place) => table.entry(place).map(|(_, value)| value.clone()),
            Err(_) => None,
        })
    }

    /// Puts a value under a key.
    pub fn insert(&self, key: Value, value: Value) -> Result<(), Fault> {
        let meter = self.charge.meter();
        check_hashable(&key, meter)?;
        let mut table = self.table.borrow_mut();
        let before = match table.find(&key, meter)? {
            Ok(place) => table.replace(place, value),
            Err(place) => {
                let n_entries = table.entries.len() + 1;
                meter.spend(ENTRY_FUEL + (table.index.len() - place) as u64 / 64)?;
                self.charge.resize(HEAD_BYTES + ENTRY_BYTES * grown(n_entries))?;
                table.add(place, key, value);
                None
            }
        };
        drop(table);
        drop(before);
        Ok(())
    }

    /// Removes a key, and returns its entry.
    pub(crate) fn remove(&self, key: &Value) -> Result<Option<(Value, Value)>, Fault> {
        let meter = self.charge.meter();
        check_hashable(key, meter)?;
        let mut table = self.table.borrow_mut();
        let Ok(place) = table.find(key, meter)? else { return Ok(None) };
        meter.spend((table.index.len() - place) as u64 / 64)?;
        let entry = table.remove(place);
        meter.spend(table.tidy())?;
        self.charge.resize(HEAD_BYTES + ENTRY_BYTES * grown(table.entries.len()))?;
        Ok(entry)
    }

    /// What makes the value of a missing key; the absent value where nothing does.
    pub(crate) fn default(&self) -> Value {
        self.default.borrow().clone()
    }

    /// The entry that was put in last.
    pub(crate) fn last_key(&self) -> Option<Value> {
        self.table.borrow().entries.iter().rev().flatten().next().map(|(key, _)| key.clone())
    }

    /// The first entry at this place or behind it, with the place after it. Gaps before it cost fuel.
    pub(crate) fn entry_from(&self, place: usize) -> Result<Option<(usize, Value, Value)>, Fault> {
        let table = self.table.borrow();
        let left = table.entries.get(place..).unwrap_or(&[]);
        let n_gaps = left.iter().take_while(|entry| entry.is_none()).count();
        self.charge.meter().spend(n_gaps as u64 / 4)?;
        let entry = left.get(n_gaps).and_then(Option::as_ref);
        Ok(entry.map(|(key, value)| (place + n_gaps + 1, key.clone(), value.clone())))
    }

    /// All entries, in order. The room is asked for first.
    pub fn entries(&self) -> Result<Vec<(Value, Value)>, Fault> {
        let table = self.table.borrow();
        self.charge.meter().spend(table.index.len() as u64)?;
        self.charge.meter().room(table.index.len() * ENTRY_BYTES)?;
        Ok(table.entries.iter().flatten().cloned().collect())
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) -> Result<(), Fault> {
        let table = self.table.take();
        self.charge.resize(HEAD_BYTES)?;
        drop(table);
        Ok(())
    }

    /// Copies keys and values, for whoever follows them.
    pub(crate) fn copy_into(&self, children: &mut Vec<Value>) {
        let table = self.table.borrow();
        children.extend(table.entries.iter().flatten().flat_map(|(key, value)| [key.clone(), value.clone()]));
        children.push(self.default());
    }

    /// Moves keys and values out, for whoever drops them.
    pub(crate) fn drain_into(&self, waiting: &mut Vec<Value>) {
        let table = self.table.take();
        waiting.extend(table.entries.into_iter().flatten().flat_map(|(key, value)| [key, value]));
        waiting.push(self.default.take());
    }
}

impl Drop for Dict {
    fn drop(&mut self) {
        let is_nested =
            |entry: &Option<(Value, Value)>| entry.as_ref().is_some_and(|(key, value)| key.is_nest() || value.is_nest());
        if self.default.get_mut().is_nest() || self.table.get_mut().entries.iter().any(is_nested) {
            let mut waiting = Vec::new();
            self.drain_into(&mut waiting);
            crate::release::release(waiting);
        }
    }
}

/// The room that is counted for so many entries.
fn grown(n_entries: usize) -> usize {
    if n_entries == 0 { 0 } else { n_entries.next_power_of_two().max(4) }
}

impl Table {
    fn find(&self, key: &Value, meter: &Meter) -> Result<Result<usize, usize>, Fault> {
        meter.spend(1)?;
        let (mut low, mut high) = (0, self.index.len());
        while low < high {
            let middle = (low + high) / 2;
            let Some((other, _)) = self.entry(middle) else { break };
            match order(other, key, meter)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    fn entry(&self, place: usize) -> Option<&(Value, Value)> {
        self.entries.get(*self.index.get(place)? as usize)?.as_ref()
    }

    fn replace(&mut self, place: usize, value: Value) -> Option<Value> {
        let entry = self.entries.get_mut(*self.index.get(place)? as usize)?.as_mut()?;
        Some(std::mem::replace(&mut entry.1, value))
    }

    fn add(&mut self, place: usize, key: Value, value: Value) {
        self.index.insert(place, self.entries.len() as u32);
        self.entries.push(Some((key, value)));
    }

    fn remove(&mut self, place: usize) -> Option<(Value, Value)> {
        let entry = self.index.remove(place) as usize;
        self.entries.get_mut(entry)?.take()
    }

    /// Closes the gaps when they are more than the entries; says how much work that was.
    fn tidy(&mut self) -> u64 {
        while matches!(self.entries.last(), Some(None)) {
            self.entries.pop();
        }
        let n_before = self.entries.len();
        if n_before < 16 || n_before < self.index.len() * 2 {
            return 0;
        }
        let mut moved = vec![0; n_before];
        let mut n_kept = 0;
        for (place, entry) in self.entries.iter().enumerate() {
            moved[place] = n_kept;
            n_kept += u32::from(entry.is_some());
        }
        self.entries.retain(Option::is_some);
        for place in &mut self.index {
            *place = moved[*place as usize];
        }
        n_before as u64 / 8
    }
}

/// Whether two dictionaries have the same keys with equal values.
pub(crate) fn equal(
    a: &Dict,
    b: &Dict,
    meter: &Meter,
    equal_values: impl Fn(&Value, &Value) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let (a, b) = (a.table.borrow(), b.table.borrow());
    if a.index.len() != b.index.len() {
        return Ok(false);
    }
    for place in 0..a.index.len() {
        meter.spend(1)?;
        let (Some((key_a, value_a)), Some((key_b, value_b))) = (a.entry(place), b.entry(place)) else { return Ok(false) };
        if order(key_a, key_b, meter)?.is_ne() || !equal_values(value_a, value_b)? {
            return Ok(false);
        }
    }
    Ok(true)
}
