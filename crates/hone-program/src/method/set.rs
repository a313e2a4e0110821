//! Methods of sets.

use std::rc::Rc;

use super::{MethodName, no_attribute};
use crate::code::BinaryOp;
use crate::container::{add, discard};
use crate::context::{Context, check_count};
use crate::fault::{ErrorKind, Fault};
use crate::operate::set_operation;
use crate::order::Comparison;
use crate::value::{Set, Value, container_bytes};

impl Context {
    pub(super) fn set_method(
        &mut self,
        receiver: &Value,
        set: &Rc<Set>,
        name: MethodName,
        arguments: &[Value],
    ) -> Result<Value, Fault> {
        let n_args = |n: usize| check_count(name.text(), arguments.len(), n, n);
        match name {
            MethodName::Add => {
                n_args(1)?;
                add(set, arguments[0].clone())?;
                if arguments[0].is_nest() {
                    self.watch(receiver);
                }
            }
            MethodName::Discard => {
                n_args(1)?;
                discard(set, &arguments[0])?;
            }
            MethodName::Remove => {
                n_args(1)?;
                if !discard(set, &arguments[0])? {
                    return Err(Fault::new(ErrorKind::Key, format!("{} is not in the set", self.repr(&arguments[0])?)));
                }
            }
            MethodName::Pop => {
                n_args(0)?;
                let mut items = set.items.borrow_mut();
                if items.is_empty() {
                    return Err(Fault::new(ErrorKind::Key, "pop from an empty set"));
                }
                self.meter.spend(items.len() as u64 / 32)?;
                return Ok(items.remove(0));
            }
            MethodName::Clear => {
                let items = set.items.take();
                set.charge.resize(container_bytes(0))?;
                drop(items);
            }
            MethodName::Update | MethodName::DifferenceUpdate | MethodName::IntersectionUpdate => {
                let op = match name {
                    MethodName::Update => BinaryOp::Or,
                    MethodName::DifferenceUpdate => BinaryOp::Subtract,
                    _ => BinaryOp::And,
                };
                for other in arguments {
                    let other = self.as_set(other)?;
                    self.in_place(op, receiver.clone(), &other)?;
                }
            }
            _ => return self.frozenset_method(receiver, name, arguments),
        }
        Ok(Value::None)
    }

    pub(super) fn frozenset_method(&mut self, receiver: &Value, name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        let op = match name {
            MethodName::Union => BinaryOp::Or,
            MethodName::Intersection => BinaryOp::And,
            MethodName::Difference => BinaryOp::Subtract,
            MethodName::SymmetricDifference => BinaryOp::Xor,
            MethodName::Copy => {
                return Ok(match set_operation(BinaryOp::Or, receiver, receiver, &self.meter)? {
                    Some(copy) => copy,
                    None => receiver.clone(),
                });
            }
            MethodName::IsSubset | MethodName::IsSuperset | MethodName::IsDisjoint => {
                check_count(name.text(), arguments.len(), 1, 1)?;
                let other = self.as_set(&arguments[0])?;
                let result = match name {
                    MethodName::IsSubset => crate::order::compare(Comparison::LessEqual, receiver, &other, &self.meter)?,
                    MethodName::IsSuperset => crate::order::compare(Comparison::GreaterEqual, receiver, &other, &self.meter)?,
                    _ => match set_operation(BinaryOp::And, receiver, &other, &self.meter)? {
                        Some(common) => !self.truth(&common),
                        None => false,
                    },
                };
                return Ok(Value::Bool(result));
            }
            _ => return Err(no_attribute(receiver, name.text())),
        };
        let mut result = receiver.clone();
        for other in arguments {
            let other = self.as_set(other)?;
            if let Some(changed) = set_operation(op, &result, &other, &self.meter)? {
                result = changed;
            }
        }
        if arguments.is_empty() { self.frozenset_method(receiver, MethodName::Copy, &[]) } else { Ok(result) }
    }

    /// A value as a set: itself, or one of what it iterates over.
    fn as_set(&mut self, value: &Value) -> Result<Value, Fault> {
        if matches!(value, Value::Set(_)) || value.as_frozenset().is_some() {
            return Ok(value.clone());
        }
        let items = self.collect(value)?;
        self.meter.frozenset(items)
    }
}
