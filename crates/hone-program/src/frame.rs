//! Functions under way: how a frame is entered, left, unwound by a fault, and put aside by a generator.

use std::rc::Rc;

use crate::code::{Code, Compiled};
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Body, Function};
use crate::iterate::State;
use crate::value::{HEAD_BYTES, SLOT_BYTES, Value};

/// A function under way.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) code: u32,
    /// Where it goes on after the call it waits for.
    pub(crate) ip: usize,
    /// Where its locals begin on the stack; what was called is right below.
    pub(crate) base: usize,
    /// Variables shared with closures: those it captured, then its own.
    pub(crate) shared: Vec<Value>,
    /// Handlers of faults with the height of the stack they expect above the locals' base.
    pub(crate) tries: Vec<(u32, usize)>,
}

/// A generator's frame while it waits.
#[derive(Debug)]
pub(crate) struct Suspended {
    pub(crate) frame: Frame,
    /// Its locals and what it had on the stack.
    pub(crate) values: Vec<Value>,
}

/// How a frame was left.
pub(crate) enum Exit {
    Returned(Value),
    Yielded(Value, Suspended),
}

/// Bytes that a frame counts beside its locals.
const FRAME_BYTES: usize = 96;

impl Context {
    /// Runs from the frame on top until the frame at `bottom` is left.
    pub(crate) fn run_frames(&mut self, bottom: usize) -> Result<Exit, Fault> {
        let Some(program) = self.program.clone() else {
            return Err(Fault::type_error("a function of a program cannot be called without it"));
        };
        let result = loop {
            match self.steps(&program, bottom) {
                Ok(exit) => break Ok(exit),
                Err(fault) => {
                    let fault = self.fault_here(&program, fault);
                    if let Err(fault) = self.unwind(fault, bottom) {
                        break Err(fault);
                    }
                }
            }
        };
        self.ip = self.frames.last().map_or(0, |frame| frame.ip);
        result
    }

    fn fault_here(&self, program: &Compiled, fault: Fault) -> Fault {
        let line = self.frames.last().and_then(|frame| {
            let code = program.codes.get(frame.code as usize)?;
            code.lines.get(self.ip.saturating_sub(1)).copied()
        });
        fault.at(line.unwrap_or(0))
    }

    /// Finds the handler of a fault among the frames down to `bottom`, or drops them all.
    fn unwind(&mut self, fault: Fault, bottom: usize) -> Result<(), Fault> {
        let mut fault = fault;
        while self.frames.len() > bottom {
            let Some(frame) = self.frames.last_mut() else { break };
            let base = frame.base;
            let handler = if fault.kind().is_limit() { None } else { frame.tries.pop() };
            let Some((target, height)) = handler else {
                self.frames.pop();
                self.stack.truncate(base - 1);
                continue;
            };
            self.ip = target as usize;
            self.stack.truncate(base + height);
            match self.exception_of(&fault) {
                Ok(exception) => {
                    self.stack.push(exception);
                    return Ok(());
                }
                Err(limit) => fault = limit,
            }
        }
        Err(fault)
    }

    /// Pushes the frame of a function whose arguments are the last `n_args` values on the stack, all bound.
    pub(crate) fn enter(
        &mut self,
        program: &Compiled,
        code_idx: u32,
        function: Option<&Rc<Function>>,
        n_args: usize,
    ) -> Result<(), Fault> {
        let code = &program.codes[code_idx as usize];
        if self.frames.len() >= self.limits.depth {
            return Err(Fault::depth("calls", self.limits.depth));
        }
        let base = self.stack.len() - n_args;
        let needed = (base + code.n_locals) * SLOT_BYTES + (self.frames.len() + 1) * FRAME_BYTES;
        if needed > self.stack_bytes {
            let bytes = needed.next_power_of_two().max(4096);
            self.stack_charge.resize(bytes)?;
            self.stack_bytes = bytes;
        }
        self.stack.resize(base + code.n_locals, Value::Unset);
        let shared = self.shared_of(code, function, base)?;
        if let Some(frame) = self.frames.last_mut() {
            frame.ip = self.ip;
        }
        self.frames.push(Frame { code: code_idx, ip: 0, base, shared, tries: Vec::new() });
        self.ip = 0;
        Ok(())
    }

    fn shared_of(&mut self, code: &Code, function: Option<&Rc<Function>>, base: usize) -> Result<Vec<Value>, Fault> {
        if code.captures.is_empty() && code.shared.is_empty() {
            return Ok(Vec::new());
        }
        let mut shared = Vec::with_capacity(code.captures.len() + code.shared.len());
        if let Some(function) = function {
            shared.extend_from_slice(&function.captured);
        }
        for param in &code.shared {
            let value = param.map_or(Value::Unset, |param| std::mem::take(&mut self.stack[base + param as usize]));
            shared.push(self.meter().cell(value)?);
        }
        Ok(shared)
    }

    /// Goes on with a generator until it yields or ends.
    pub(crate) fn resume(&mut self, suspended: Suspended) -> Result<(Option<Value>, State), Fault> {
        let Suspended { mut frame, values } = suspended;
        if self.frames.len() >= self.limits.depth {
            return Err(Fault::depth("calls", self.limits.depth));
        }
        if let Some(waiting) = self.frames.last_mut() {
            waiting.ip = self.ip;
        }
        self.stack.push(Value::Unset);
        frame.base = self.stack.len();
        self.ip = frame.ip;
        self.stack.extend(values);
        if frame.ip > 0 {
            // What `yield` is worth to the generator: nothing can be sent to it.
            self.stack.push(Value::None);
        }
        let bottom = self.frames.len();
        self.frames.push(frame);
        match self.run_frames(bottom)? {
            Exit::Yielded(value, suspended) => Ok((Some(value), State::Generator(Box::new(suspended)))),
            Exit::Returned(Value::None) => Ok((None, State::Done)),
            Exit::Returned(value) => Ok((None, State::Returned(value))),
        }
    }

    pub(crate) fn make_function(&mut self, program: &Compiled, code: u32, n_defaults: usize) -> Result<Value, Fault> {
        let captures = &program.codes[code as usize].captures;
        let charge = self.meter.charge(HEAD_BYTES + SLOT_BYTES * (captures.len() + n_defaults))?;
        let captured = match self.frames.last() {
            Some(frame) => captures.iter().filter_map(|&slot| frame.shared.get(slot as usize).cloned()).collect(),
            None => Vec::new(),
        };
        let defaults = if n_defaults == 0 { Vec::new() } else { self.stack.split_off(self.stack.len() - n_defaults) };
        let id = self.take_id();
        Ok(Value::Function(Rc::new(Function { id, body: Body::Code(code), captured, defaults, _charge: charge })))
    }

    pub(crate) fn shared(&self, slot: u32) -> Value {
        match self.frames.last().and_then(|frame| frame.shared.get(slot as usize)) {
            Some(Value::Cell(cell)) => cell.value.borrow().clone(),
            _ => Value::Unset,
        }
    }

    pub(crate) fn store_shared(&mut self, slot: u32) {
        let value = self.pop();
        let Some(Value::Cell(cell)) = self.frames.last().and_then(|frame| frame.shared.get(slot as usize)) else { return };
        let cell = Rc::clone(cell);
        let is_nest = value.is_nest();
        let before = cell.value.replace(value);
        drop(before);
        if is_nest {
            self.watch(&Value::Cell(cell));
        }
    }
}
