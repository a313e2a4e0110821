//! A program: parsed once, run many times.

use std::sync::Arc;

use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use crate::code::{Compiled, Op};
use crate::context::Context;
use crate::fault::{Error, ErrorKind, Fault};
use crate::frame::Exit;
use crate::library::Library;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::value::Value;

/// A program that can be run, on any thread and any number of times.
#[derive(Clone, Debug)]
pub struct Program(Arc<Compiled>);

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    /// What was returned, or why nothing was.
    pub result: Result<Value, Error>,
    /// The steps that were taken.
    pub fuel: u64,
    /// The most bytes that values held at once.
    pub memory_peak: usize,
    /// What was printed.
    pub output: String,
}

/// Levels of a tree that an ordinary stack is enough for.
const SHALLOW: usize = 48;
/// Stack that a shallow tree needs.
const STACK_SHALLOW: usize = 1 << 20;
/// Stack for each level of a deeper one.
const STACK_PER_LEVEL: usize = 12 << 10;

impl Program {
    /// Reads a program that may import the modules of a library.
    pub fn parse(source: &str, library: &Arc<Library>, limits: &Limits) -> Result<Self, Error> {
        let (lines, depth) = crate::source::scan(source, limits.source)?;
        let compile = || {
            let parsed = parse_module(source).map_err(|error| syntax_error(&error, &lines))?;
            crate::compile::compile(parsed.syntax(), &lines, library)
        };
        let compiled = if depth <= SHALLOW {
            stacker::maybe_grow(STACK_SHALLOW, STACK_SHALLOW * 2, compile)
        } else {
            stacker::grow(STACK_SHALLOW + depth * STACK_PER_LEVEL, compile)
        };
        compiled.map(|compiled| Self(Arc::new(compiled)))
    }

    /// The names of its functions that are not inside of others.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.0.functions.iter().map(|name| &**name)
    }

    /// Whether it gives this name a meaning of its own outside of functions, wherever that stands: a builtin would be hidden by it.
    pub fn binds(&self, name: &str) -> bool {
        self.0.global_places.contains_key(name)
    }

    /// Runs the statements outside of functions, then a function with these values, all under one budget.
    pub fn run(&self, function: &str, arguments: &[Value], limits: &Limits) -> Run {
        self.run_with(limits, |context| context.call_global(function, arguments))
    }

    /// Runs the statements outside of functions alone.
    pub fn run_module(&self, limits: &Limits) -> Run {
        self.run_with(limits, |_| Ok(Value::None))
    }

    /// Runs the statements outside of functions once; the session then calls functions, each call under a budget of its own.
    ///
    /// Calls of one session share the variables outside of functions, as in one process of the language.
    pub fn start(&self, limits: &Limits) -> Result<Session, Error> {
        let mut context = self.context(limits);
        match context.run_module() {
            Ok(()) => Ok(Session { first_id: context.peek_id(), context }),
            Err(fault) => {
                let error = fault.into_error();
                drop(context.end_cycles(Ok(Value::None)));
                Err(error)
            }
        }
    }

    fn context(&self, limits: &Limits) -> Context {
        let mut context = Context::with_meter(Meter::new(limits.fuel, limits.memory), limits);
        context.program = Some(Arc::clone(&self.0));
        context.globals = vec![Value::Unset; self.0.globals.len()];
        context.constants = vec![Value::Unset; self.0.constants.len()];
        context
    }

    fn run_with(&self, limits: &Limits, then: impl FnOnce(&mut Context) -> Result<Value, Fault>) -> Run {
        let mut context = self.context(limits);
        let meter = context.meter().clone();
        let result = context.run_module().and_then(|()| then(&mut context));
        let result = context.end_cycles(result).map_err(Fault::into_error);
        Run { result, fuel: meter.fuel_used(), memory_peak: meter.memory_peak(), output: std::mem::take(&mut context.output) }
    }
}

impl Context {
    fn run_module(&mut self) -> Result<(), Fault> {
        let Some(program) = self.program.clone() else { return Ok(()) };
        self.stack.push(Value::Unset);
        self.enter(&program, 0, None, 0)?;
        match self.run_frames(0)? {
            Exit::Returned(_) | Exit::Yielded(..) => Ok(()),
        }
    }

    fn call_global(&mut self, name: &str, arguments: &[Value]) -> Result<Value, Fault> {
        let place = self.program.as_ref().and_then(|program| program.global_places.get(name).copied());
        match place.and_then(|place| self.globals.get(place as usize)).cloned() {
            None | Some(Value::Unset) => Err(Fault::new(ErrorKind::Name, format!("the program defines no '{name}'"))),
            Some(callee) => self.call(&callee, arguments),
        }
    }
}

/// A program whose statements outside of functions have run.
#[derive(Debug)]
pub struct Session {
    context: Context,
    first_id: u64,
}

impl Session {
    /// Calls a function of the program under a budget of its own. Functions are numbered alike in every call.
    pub fn call(&mut self, function: &str, arguments: &[Value], limits: &Limits) -> Run {
        let meter = Meter::new(limits.fuel, limits.memory);
        self.context.begin_call(&meter, limits, self.first_id);
        let result = self.context.call_global(function, arguments);
        let result = self.context.end_call(result).map_err(Fault::into_error);
        let output = std::mem::take(&mut self.context.output);
        Run { result, fuel: meter.fuel_used(), memory_peak: meter.memory_peak(), output }
    }

    /// Whether no call can leave anything behind for the next one: what stands outside of functions never changes.
    pub fn is_fixed(&self) -> bool {
        let stores = |op: &Op| matches!(op, Op::StoreGlobal(_) | Op::DeleteGlobal(_) | Op::ImportNames(_));
        let functions = self.context.program.iter().flat_map(|program| program.codes.iter().skip(1));
        !functions.flat_map(|code| &code.ops).any(stores) && crate::watch::are_fixed(&self.context.globals)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.context.end_cycles(Ok(Value::None)));
    }
}

fn syntax_error(error: &ruff_python_parser::ParseError, lines: &[u32]) -> Error {
    let offset = u32::from(error.range().start());
    let line = lines.partition_point(|&start| start <= offset) as u32;
    Error { kind: ErrorKind::Syntax, line, message: error.error.to_string() }
}
