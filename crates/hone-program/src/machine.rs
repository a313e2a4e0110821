//! The loop that runs operations.
//!
//! Calls of program functions push a frame and go on in the same loop, so recursion in a program takes no stack of the host.
//! Natives that call back start the loop again on top; how often is limited. Each operation spends one unit of fuel, and
//! what it touches on top of that.

use std::sync::Arc;

use crate::code::{BinaryOp, Code, Compiled, Const, Op};
use crate::context::{Context, truth};
use crate::fault::{ErrorKind, Fault};
use crate::frame::{Exit, Suspended};
use crate::iterate::{Advanced, returned_by};
use crate::number;
use crate::order;
use crate::unknown::{undefined, unset, unset_shared};
use crate::value::Value;

impl Context {
    #[inline]
    pub(crate) fn pop(&mut self) -> Value {
        self.stack.pop().unwrap_or_default()
    }

    #[inline]
    fn top(&self) -> &Value {
        self.stack.last().unwrap_or(&Value::Unset)
    }

    /// Runs operations until the frame at `bottom` is left or a fault comes up.
    pub(crate) fn steps(&mut self, program: &Arc<Compiled>, bottom: usize) -> Result<Exit, Fault> {
        let meter = self.meter.clone();
        'frame: loop {
            let Some(frame) = self.frames.last() else { return Ok(Exit::Returned(Value::None)) };
            let (code, base) = (&program.codes[frame.code as usize], frame.base);
            loop {
                let op = code.ops[self.ip];
                self.ip += 1;
                meter.spend(1)?;
                match op {
                    Op::Local(slot) => {
                        let value = self.stack[base + slot as usize].clone();
                        if matches!(value, Value::Unset) {
                            return Err(unset(code, slot));
                        }
                        self.stack.push(value);
                    }
                    Op::StoreLocal(slot) => {
                        let value = self.pop();
                        self.stack[base + slot as usize] = value;
                    }
                    Op::Int(number) => self.stack.push(Value::Int(i64::from(number))),
                    Op::Global(slot) => match &self.globals[slot as usize] {
                        Value::Unset => return Err(undefined(program, &program.globals[slot as usize])),
                        value => self.stack.push(value.clone()),
                    },
                    Op::StoreGlobal(slot) => {
                        let value = self.pop();
                        self.globals[slot as usize] = value;
                    }
                    Op::Builtin(place) => {
                        let value = program.builtins[place as usize].value(&self.meter)?;
                        self.stack.push(value);
                    }
                    Op::Call(n_args) => {
                        if self.call_top(program, n_args as usize)? {
                            continue 'frame;
                        }
                    }
                    Op::CallMethod { n_args, name } => {
                        if self.call_method_top(program, n_args as usize, name)? {
                            continue 'frame;
                        }
                    }
                    Op::CallNamed { n_args, names } => {
                        if self.call_named_top(program, n_args as usize, &program.keywords[names as usize])? {
                            continue 'frame;
                        }
                    }
                    Op::CallSpread => {
                        if self.call_spread_top(program)? {
                            continue 'frame;
                        }
                    }
                    Op::Return => {
                        let value = self.pop();
                        if let Some(frame) = self.frames.pop() {
                            self.stack.truncate(frame.base - 1);
                        }
                        if self.frames.len() <= bottom {
                            return Ok(Exit::Returned(value));
                        }
                        self.ip = self.frames.last().map_or(0, |frame| frame.ip);
                        self.stack.push(value);
                        continue 'frame;
                    }
                    Op::Yield => {
                        let value = self.pop();
                        let Some(mut frame) = self.frames.pop() else { return Ok(Exit::Returned(value)) };
                        frame.ip = self.ip;
                        let values = self.stack.split_off(frame.base);
                        self.stack.truncate(frame.base - 1);
                        return Ok(Exit::Yielded(value, Suspended { frame, values }));
                    }
                    Op::Jump(target) => self.ip = target as usize,
                    Op::JumpIfFalse(target) => {
                        if !truth(&self.pop()) {
                            self.ip = target as usize;
                        }
                    }
                    Op::JumpIfTrue(target) => {
                        if truth(&self.pop()) {
                            self.ip = target as usize;
                        }
                    }
                    Op::JumpIfFalseKeep(target) => {
                        if truth(self.top()) {
                            self.stack.pop();
                        } else {
                            self.ip = target as usize;
                        }
                    }
                    Op::JumpIfTrueKeep(target) => {
                        if truth(self.top()) {
                            self.ip = target as usize;
                        } else {
                            self.stack.pop();
                        }
                    }
                    Op::ForEach(target) => {
                        let step = match self.stack.last() {
                            Some(Value::Iterator(iter)) => iter.advance(&self.meter)?,
                            _ => Advanced::End,
                        };
                        let next = match step {
                            Advanced::Value(value) => Some(value),
                            Advanced::End => None,
                            Advanced::NeedsRun => {
                                let iterator = self.top().clone();
                                self.next(&iterator)?
                            }
                        };
                        match next {
                            Some(value) => self.stack.push(value),
                            None => {
                                self.stack.pop();
                                self.ip = target as usize;
                            }
                        }
                    }
                    Op::Delegate(target) => {
                        let iterator = self.top().clone();
                        match self.next(&iterator)? {
                            Some(value) => self.stack.push(value),
                            None => {
                                self.stack.pop();
                                self.stack.push(returned_by(&iterator));
                                self.ip = target as usize;
                            }
                        }
                    }
                    Op::Binary(op) | Op::InPlace(op) if self.small_binary(op) => {}
                    Op::Binary(op) => {
                        let b = self.pop();
                        let a = self.pop();
                        let result = self.binary(op, &a, &b)?;
                        self.stack.push(result);
                    }
                    Op::Compare(comparison) => {
                        if let [.., Value::Int(a), Value::Int(b)] = self.stack[..] {
                            self.replace_two(Value::Bool(order::holds(comparison, a.cmp(&b))));
                            continue;
                        }
                        let b = self.pop();
                        let a = self.pop();
                        let result = order::compare(comparison, &a, &b, &self.meter)?;
                        self.stack.push(Value::Bool(result));
                    }
                    Op::Equal => {
                        if let [.., Value::Int(a), Value::Int(b)] = self.stack[..] {
                            self.replace_two(Value::Bool(a == b));
                            continue;
                        }
                        self.step(program, code, base, op)?;
                    }
                    Op::Pop => drop(self.pop()),
                    Op::Try(target) => {
                        let height = self.stack.len();
                        if let Some(frame) = self.frames.last_mut() {
                            frame.tries.push((target, height - base));
                        }
                    }
                    Op::EndTry => {
                        if let Some(frame) = self.frames.last_mut() {
                            frame.tries.pop();
                        }
                    }
                    Op::Shared(slot) => {
                        let value = self.shared(slot);
                        if matches!(value, Value::Unset) {
                            return Err(unset_shared());
                        }
                        self.stack.push(value);
                    }
                    Op::StoreShared(slot) => self.store_shared(slot),
                    Op::RenewShared(slot) => {
                        let cell = self.meter.cell(Value::Unset)?;
                        if let Some(frame) = self.frames.last_mut() {
                            frame.shared[slot as usize] = cell;
                        }
                    }
                    Op::Constant(place) => {
                        let value = self.constant(program, place)?;
                        self.stack.push(value);
                    }
                    Op::Function { code, n_defaults } => {
                        let function = self.make_function(program, code, n_defaults as usize)?;
                        self.stack.push(function);
                    }
                    other => self.step(program, code, base, other)?,
                }
            }
        }
    }

    /// The operations that are rarer or longer.
    fn step(&mut self, program: &Compiled, code: &Code, base: usize, op: Op) -> Result<(), Fault> {
        match op {
            Op::None => self.stack.push(Value::None),
            Op::True => self.stack.push(Value::Bool(true)),
            Op::False => self.stack.push(Value::Bool(false)),
            Op::DeleteLocal(slot) => {
                let value = std::mem::take(&mut self.stack[base + slot as usize]);
                if matches!(value, Value::Unset) {
                    return Err(unset(code, slot));
                }
            }
            Op::DeleteGlobal(slot) => {
                let value = std::mem::take(&mut self.globals[slot as usize]);
                if matches!(value, Value::Unset) {
                    return Err(undefined(program, &program.globals[slot as usize]));
                }
            }
            Op::Undefined(name) => return Err(undefined(program, &program.names[name as usize].text)),
            Op::Duplicate => self.stack.push(self.top().clone()),
            Op::DuplicateTwo => {
                let len = self.stack.len();
                self.stack.extend_from_within(len - 2..);
            }
            Op::RotateTwo => {
                let len = self.stack.len();
                self.stack.swap(len - 1, len - 2);
            }
            Op::RotateThree => {
                let len = self.stack.len();
                self.stack[len - 3..].rotate_right(1);
            }
            Op::InPlace(op) => {
                let b = self.pop();
                let a = self.pop();
                let result = self.in_place(op, a, &b)?;
                self.stack.push(result);
            }
            Op::Negate | Op::Plus | Op::Invert | Op::Not => {
                let value = self.pop();
                let result = self.unary(op, &value)?;
                self.stack.push(result);
            }
            Op::Equal | Op::NotEqual | Op::Is | Op::IsNot | Op::In | Op::NotIn => {
                let b = self.pop();
                let a = self.pop();
                let result = match op {
                    Op::Equal => order::equal(&a, &b, &self.meter)?,
                    Op::NotEqual => !order::equal(&a, &b, &self.meter)?,
                    Op::Is => order::same(&a, &b, &self.meter)?,
                    Op::IsNot => !order::same(&a, &b, &self.meter)?,
                    Op::In => self.contains(&b, &a)?,
                    _ => !self.contains(&b, &a)?,
                };
                self.stack.push(Value::Bool(result));
            }
            Op::Raise => {
                let value = self.pop();
                return Err(self.raise(&value));
            }
            Op::Catches => {
                let kind = self.pop();
                let caught = self.catches(self.top(), &kind)?;
                self.stack.push(Value::Bool(caught));
            }
            Op::AssertFailed { message } => {
                let words = if message {
                    let value = self.pop();
                    self.text_of(&value)?
                } else {
                    String::new()
                };
                return Err(Fault::new(ErrorKind::Assertion, words));
            }
            Op::ImportNames(import) => {
                for (place, entry) in &program.imports[import as usize] {
                    self.meter.spend(1)?;
                    self.globals[*place as usize] = entry.value(&self.meter)?;
                }
            }
            Op::Module(place) => self.stack.push(Value::Module(Arc::clone(&program.modules[place as usize]))),
            Op::Imported(place) => {
                let value = program.entries[place as usize].value(&self.meter)?;
                self.stack.push(value);
            }
            other => return self.step_container(program, other),
        }
        Ok(())
    }

    /// An operation on two small numbers with a small result, which is most of arithmetic; says whether it was one.
    #[inline]
    fn small_binary(&mut self, op: BinaryOp) -> bool {
        let [.., Value::Int(a), Value::Int(b)] = self.stack[..] else { return false };
        let result = match op {
            BinaryOp::Add => a.checked_add(b),
            BinaryOp::Subtract => a.checked_sub(b),
            BinaryOp::Multiply => a.checked_mul(b),
            BinaryOp::Modulo if b > 0 => Some(a.rem_euclid(b)),
            BinaryOp::FloorDivide if b > 0 => Some(a.div_euclid(b)),
            _ => None,
        };
        match result {
            Some(number) => {
                self.replace_two(Value::Int(number));
                true
            }
            None => false,
        }
    }

    /// Puts a value in the place of the two on top, which are small numbers.
    #[inline]
    fn replace_two(&mut self, value: Value) {
        self.stack.pop();
        if let Some(top) = self.stack.last_mut() {
            *top = value;
        }
    }

    fn unary(&mut self, op: Op, value: &Value) -> Result<Value, Fault> {
        let result = match op {
            Op::Not => return Ok(Value::Bool(!truth(value))),
            Op::Negate => number::negate(value, &self.meter),
            Op::Invert => number::invert(value, &self.meter),
            _ => number::Number::of(value).map(|_| Ok(value.as_int().map_or_else(|| value.clone(), Value::Int))),
        };
        let sign = match op {
            Op::Negate => "-",
            Op::Invert => "~",
            _ => "+",
        };
        result.unwrap_or_else(|| Err(Fault::type_error(format!("bad operand type for unary {sign}: '{}'", value.type_name()))))
    }

    fn constant(&mut self, program: &Compiled, place: u32) -> Result<Value, Fault> {
        if place == u32::MAX {
            return Ok(Value::Unset);
        }
        let known = &self.constants[place as usize];
        if !matches!(known, Value::Unset) {
            return Ok(known.clone());
        }
        let value = match &program.constants[place as usize] {
            Const::Plain(constant) => constant.value(&self.meter)?,
            Const::Big(number) => self.meter.int(number.clone())?,
            Const::Ellipsis => Value::Type(crate::kind::Type::Object),
        };
        self.constants[place as usize] = value.clone();
        Ok(value)
    }
}
