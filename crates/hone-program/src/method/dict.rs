//! Methods of dictionaries and counters.

use std::rc::Rc;

use super::{MethodName, arguments_of, need_int, no_attribute};
use crate::context::{Context, check_count};
use crate::dict::Dict;
use crate::fault::{ErrorKind, Fault};
use crate::invoke::Keywords;
use crate::kind::Type;
use crate::number;
use crate::order;
use crate::value::{Growing, Value};

impl Context {
    pub(super) fn dict_method(
        &mut self,
        receiver: &Value,
        dict: &Rc<Dict>,
        name: MethodName,
        arguments: &[Value],
        keywords: Keywords<'_>,
    ) -> Result<Value, Fault> {
        let n_args = |min: usize, max: usize| check_count(name.text(), arguments.len(), min, max);
        match name {
            MethodName::Get => {
                n_args(1, 2)?;
                let found = dict.get(&arguments[0])?;
                Ok(found.or_else(|| arguments.get(1).cloned()).unwrap_or(Value::None))
            }
            MethodName::SetDefault => {
                n_args(1, 2)?;
                if let Some(found) = dict.get(&arguments[0])? {
                    return Ok(found);
                }
                let value = arguments.get(1).cloned().unwrap_or(Value::None);
                self.store_subscript(receiver, arguments[0].clone(), value.clone())?;
                Ok(value)
            }
            MethodName::Keys => self.dict_parts(dict, |key, _| Ok(key)),
            MethodName::Values => self.dict_parts(dict, |_, value| Ok(value)),
            MethodName::Items => {
                let meter = self.meter.clone();
                self.dict_parts(dict, |key, value| meter.tuple(vec![key, value]))
            }
            MethodName::Pop => {
                n_args(1, 2)?;
                match (dict.remove(&arguments[0])?, arguments.get(1)) {
                    (Some((_, value)), _) => Ok(value),
                    (None, Some(default)) => Ok(default.clone()),
                    (None, None) => Err(Fault::new(ErrorKind::Key, format!("{} is not in the dict", self.repr(&arguments[0])?))),
                }
            }
            MethodName::PopItem => match dict.last_key() {
                Some(key) => {
                    let value = dict.remove(&key)?.map_or(Value::None, |(_, value)| value);
                    self.meter.tuple(vec![key, value])
                }
                None => Err(Fault::new(ErrorKind::Key, "popitem(): the dict is empty")),
            },
            MethodName::Clear => dict.clear().map(|()| Value::None),
            MethodName::Copy => {
                let copy = Value::Dict(self.meter.dict_of(dict.kind, dict.default())?);
                self.update_dict(&copy, receiver)?;
                Ok(copy)
            }
            MethodName::Update if dict.kind == Type::Counter => {
                n_args(0, 1)?;
                self.count_into(dict, arguments.first(), false).map(|()| Value::None)
            }
            MethodName::Update => {
                n_args(0, 1)?;
                if let Some(other) = arguments.first() {
                    self.update_dict(receiver, other)?;
                }
                for (keyword, value) in keywords {
                    let key = self.meter.str(keyword)?;
                    self.store_subscript(receiver, key, value.clone())?;
                }
                Ok(Value::None)
            }
            MethodName::Subtract if dict.kind == Type::Counter => {
                n_args(0, 1)?;
                self.count_into(dict, arguments.first(), true).map(|()| Value::None)
            }
            MethodName::MostCommon if dict.kind == Type::Counter => {
                let [n] = arguments_of("most_common", arguments, keywords, ["n"], 0)?;
                self.most_common(dict, &n)
            }
            MethodName::Elements if dict.kind == Type::Counter => self.counter_elements(dict),
            MethodName::Total if dict.kind == Type::Counter => {
                let mut total = Value::Int(0);
                for (_, count) in dict.entries()? {
                    total = self.binary(crate::code::BinaryOp::Add, &total, &count)?;
                }
                Ok(total)
            }
            _ => Err(no_attribute(receiver, name.text())),
        }
    }

    fn dict_parts(&mut self, dict: &Dict, part: impl Fn(Value, Value) -> Result<Value, Fault>) -> Result<Value, Fault> {
        let mut parts = Growing::new(&self.meter, dict.len())?;
        self.meter.spend(2 * dict.len() as u64)?;
        for (key, value) in dict.entries()? {
            parts.push(part(key, value)?)?;
        }
        parts.into_list()
    }

    pub(super) fn dict_from_keys(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        check_count("fromkeys", arguments.len(), 1, 2)?;
        let value = arguments.get(1).cloned().unwrap_or(Value::None);
        let dict = Value::Dict(self.meter.dict()?);
        for key in self.collect(&arguments[0])? {
            self.store_subscript(&dict, key, value.clone())?;
        }
        Ok(dict)
    }

    /// Counts elements, or adds the counts of a dictionary.
    pub(crate) fn count_into(&mut self, counter: &Rc<Dict>, source: Option<&Value>, subtract: bool) -> Result<(), Fault> {
        let op = if subtract { crate::code::BinaryOp::Subtract } else { crate::code::BinaryOp::Add };
        let counts = match source {
            None => return Ok(()),
            Some(Value::Dict(other)) => other.entries()?,
            Some(source) => {
                let items = self.collect(source)?;
                items.into_iter().map(|item| (item, Value::Int(1))).collect()
            }
        };
        for (key, count) in counts {
            let before = counter.get(&key)?.unwrap_or(Value::Int(0));
            let after = self.binary(op, &before, &count)?;
            counter.insert(key, after)?;
        }
        Ok(())
    }

    fn most_common(&mut self, counter: &Rc<Dict>, n: &Value) -> Result<Value, Fault> {
        let mut counted = Vec::with_capacity(counter.len());
        self.meter.spend(counter.len() as u64)?;
        for (key, count) in counter.entries()? {
            let negative = number::negate(&count, &self.meter).unwrap_or_else(|| Ok(Value::Int(0)))?;
            counted.push((negative, self.meter.tuple(vec![key, count])?));
        }
        self.sort_by_key(&mut counted)?;
        let n = match n {
            Value::Unset | Value::None => counted.len(),
            n => usize::try_from(need_int(n, "n")?).unwrap_or(0),
        };
        self.meter.list(counted.into_iter().take(n).map(|(_, pair)| pair).collect())
    }

    fn counter_elements(&mut self, counter: &Rc<Dict>) -> Result<Value, Fault> {
        let mut elements = Growing::new(&self.meter, 0)?;
        for (key, count) in counter.entries()? {
            for _ in 0..need_int(&count, "a count")? {
                self.meter.spend(1)?;
                elements.push(key.clone())?;
            }
        }
        let list = elements.into_list()?;
        self.iterate(&list)
    }

    /// Sums or differences of two counters; counts that are not positive are dropped.
    pub(crate) fn combine_counters(&mut self, op: crate::code::BinaryOp, a: &Rc<Dict>, b: &Rc<Dict>) -> Result<Value, Fault> {
        use crate::code::BinaryOp;
        let combined = self.meter.dict_of(Type::Counter, Value::None)?;
        let zero = Value::Int(0);
        let keys: Vec<Value> = a.entries()?.into_iter().chain(b.entries()?).map(|(key, _)| key).collect();
        for key in keys {
            let (in_a, in_b) = (a.get(&key)?.unwrap_or(Value::Int(0)), b.get(&key)?.unwrap_or(Value::Int(0)));
            let count = match op {
                BinaryOp::Add | BinaryOp::Subtract => self.binary(op, &in_a, &in_b)?,
                BinaryOp::And if order::less(&in_b, &in_a, &self.meter)? => in_b,
                BinaryOp::Or if order::less(&in_a, &in_b, &self.meter)? => in_b,
                _ => in_a,
            };
            if order::less(&zero, &count, &self.meter)? {
                combined.insert(key, count)?;
            }
        }
        Ok(Value::Dict(combined))
    }
}
