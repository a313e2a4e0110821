//! Calls: which function, with which arguments in which parameters.

use std::rc::Rc;

use crate::code::{Code, Compiled};
use crate::context::{ANY_PARAMS, Context, check_count};
use crate::fault::{ErrorKind, Fault};
use crate::frame::{Exit, Frame, Suspended};
use crate::function::{Body, Function, Method};
use crate::iterate::State;
use crate::library::{self, Native};
use crate::value::{HEAD_BYTES, SLOT_BYTES, Value};

/// Fuel for a function of the program that a native calls.
const LOOP_FUEL: u64 = 8;

/// Keyword arguments of a call.
pub(crate) type Keywords<'a> = &'a [(&'a str, Value)];

impl Context {
    /// Calls what is below the last `n_args` values of the stack. Says whether a frame was entered; otherwise the result has
    /// taken the place of function and arguments.
    pub(crate) fn call_top(&mut self, program: &Compiled, n_args: usize) -> Result<bool, Fault> {
        let at = self.stack.len() - n_args - 1;
        if let Value::Function(function) = &self.stack[at]
            && let Body::Code(code_idx) = function.body
        {
            let function = Rc::clone(function);
            let code = &program.codes[code_idx as usize];
            let n_params = code.params.n_positional;
            let n_missing = n_params.wrapping_sub(n_args);
            if code.params.is_plain() && n_args <= n_params && n_missing <= function.defaults.len() {
                let first = function.defaults.len() - n_missing;
                self.stack.extend_from_slice(&function.defaults[first..]);
            } else {
                let positional = self.stack.split_off(at + 1);
                let bound = bind(self, code, &function, positional, &[])?;
                self.stack.extend(bound);
            }
            return self.begin(program, code_idx, &function, at);
        }
        let callee = std::mem::take(&mut self.stack[at]);
        let result = self.with_args(n_args, |context, arguments| context.call_host(&callee, arguments, &[]))?;
        self.stack[at] = result;
        Ok(false)
    }

    /// Enters a function whose parameters are bound on the stack above `at`, or makes a generator of it.
    fn begin(&mut self, program: &Compiled, code_idx: u32, function: &Rc<Function>, at: usize) -> Result<bool, Fault> {
        let code = &program.codes[code_idx as usize];
        let n_args = self.stack.len() - at - 1;
        self.enter(program, code_idx, Some(function), n_args)?;
        if !code.is_generator {
            return Ok(true);
        }
        let generator = self.suspend_top()?;
        self.stack[at] = generator;
        Ok(false)
    }

    /// Makes a generator of the frame that was just entered.
    fn suspend_top(&mut self) -> Result<Value, Fault> {
        let Some(frame) = self.frames.pop() else { return Ok(Value::None) };
        self.ip = self.frames.last().map_or(0, |frame| frame.ip);
        let values = self.stack.split_off(frame.base);
        let bytes = HEAD_BYTES + SLOT_BYTES * (values.len() + frame.shared.len() + 8);
        let frame = Frame { ip: 0, ..frame };
        self.meter().iterator_of(State::Generator(Box::new(Suspended { frame, values })), bytes)
    }

    /// As `call_top`, the last arguments being given by these names.
    pub(crate) fn call_named_top(&mut self, program: &Compiled, n_args: usize, names: &[Box<str>]) -> Result<bool, Fault> {
        let named = self.stack.split_off(self.stack.len() - names.len());
        let positional = self.stack.split_off(self.stack.len() - (n_args - names.len()));
        let keywords: Vec<(&str, Value)> = names.iter().map(|name| &**name).zip(named).collect();
        self.call_bound_top(program, positional, &keywords)
    }

    /// As `call_top`, with a list of arguments and a dictionary of keyword arguments on the stack.
    pub(crate) fn call_spread_top(&mut self, program: &Compiled) -> Result<bool, Fault> {
        let (named, positional) = (self.pop(), self.pop());
        let positional = self.collect(&positional)?;
        let Value::Dict(named) = named else { return self.call_bound_top(program, positional, &[]) };
        let entries = named.entries()?;
        let mut keywords = Vec::with_capacity(entries.len());
        for (key, value) in &entries {
            match key.as_str() {
                Some(name) => keywords.push((name, value.clone())),
                None => return Err(Fault::type_error("keywords must be strings")),
            }
        }
        self.call_bound_top(program, positional, &keywords)
    }

    fn call_bound_top(&mut self, program: &Compiled, positional: Vec<Value>, keywords: Keywords<'_>) -> Result<bool, Fault> {
        let at = self.stack.len() - 1;
        if let Value::Function(function) = &self.stack[at]
            && let Body::Code(code_idx) = function.body
        {
            let function = Rc::clone(function);
            let bound = bind(self, &program.codes[code_idx as usize], &function, positional, keywords)?;
            self.stack.extend(bound);
            return self.begin(program, code_idx, &function, at);
        }
        let callee = std::mem::take(&mut self.stack[at]);
        self.stack[at] = self.call_host(&callee, &positional, keywords)?;
        Ok(false)
    }

    /// Calls a method of what is below the last `n_args` values of the stack.
    pub(crate) fn call_method_top(&mut self, program: &Compiled, n_args: usize, name: u32) -> Result<bool, Fault> {
        let at = self.stack.len() - n_args - 1;
        let name = &program.names[name as usize];
        let receiver = std::mem::take(&mut self.stack[at]);
        if let (false, Some(method)) = (matches!(receiver, Value::Module(_) | Value::Type(_)), name.method) {
            let result = self.with_args(n_args, |context, arguments| context.call_method(&receiver, method, arguments, &[]))?;
            self.stack[at] = result;
            return Ok(false);
        }
        self.stack[at] = self.attribute(&receiver, &name.text, name.method)?;
        self.call_top(program, n_args)
    }

    /// Moves the last values of the stack into arguments.
    fn with_args<T>(&mut self, n_args: usize, run: impl FnOnce(&mut Self, &[Value]) -> T) -> T {
        match n_args {
            0 => run(self, &[]),
            1 => {
                let a = self.pop();
                run(self, &[a])
            }
            2 => {
                let b = self.pop();
                let a = self.pop();
                run(self, &[a, b])
            }
            3 => {
                let c = self.pop();
                let b = self.pop();
                let a = self.pop();
                run(self, &[a, b, c])
            }
            _ => {
                let arguments = self.stack.split_off(self.stack.len() - n_args);
                run(self, &arguments)
            }
        }
    }

    /// Calls anything that is no function of the program in the loop that is running.
    fn call_host(&mut self, callee: &Value, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
        match callee {
            Value::Native(native) => self.call_native(native, arguments, keywords),
            Value::Function(function) => match function.body {
                Body::Built { name, n_params, run } => {
                    if let Some((keyword, _)) = keywords.first() {
                        return Err(unexpected(name, keyword));
                    }
                    if n_params != ANY_PARAMS {
                        check_count(name, arguments.len(), n_params, n_params)?;
                    }
                    run(self, &function.captured, arguments)
                }
                Body::Code(code_idx) => self.call_code(function, code_idx, arguments, keywords),
            },
            Value::Method(method) => self.call_bound_method(method, arguments, keywords),
            Value::Type(kind) => self.construct(*kind, arguments, keywords),
            other => Err(Fault::type_error(format!("'{}' object is not callable", other.type_name()))),
        }
    }

    /// Calls a value; the loop is started again for functions of the program.
    pub(crate) fn call_here(&mut self, callee: &Value, arguments: &[Value]) -> Result<Value, Fault> {
        self.call_host(callee, arguments, &[])
    }

    fn call_code(
        &mut self,
        function: &Rc<Function>,
        code_idx: u32,
        arguments: &[Value],
        keywords: Keywords<'_>,
    ) -> Result<Value, Fault> {
        let Some(program) = self.program.clone() else {
            return Err(Fault::type_error("a function of a program cannot be called without it"));
        };
        // Starting the loop again takes as long as some steps in it.
        self.meter.spend(LOOP_FUEL)?;
        let code = &program.codes[code_idx as usize];
        let at = self.stack.len();
        let waiting = self.ip;
        let bottom = self.frames.len();
        let bound = bind(self, code, function, arguments.to_vec(), keywords)?;
        self.stack.push(Value::Unset);
        self.stack.extend(bound);
        match self.begin(&program, code_idx, function, at) {
            Ok(true) => {}
            Ok(false) => return Ok(self.pop()),
            Err(fault) => {
                self.stack.truncate(at);
                return Err(fault);
            }
        }
        let exit = self.run_frames(bottom)?;
        self.ip = waiting;
        match exit {
            Exit::Returned(value) | Exit::Yielded(value, _) => Ok(value),
        }
    }

    pub(crate) fn call_native(&mut self, native: &Native, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
        let result = match native.body {
            library::Body::Variadic(body) => body(self, arguments, keywords),
            library::Body::Fixed(body) if keywords.is_empty() => {
                check_count(native.name(), arguments.len(), native.n_required(), native.params().len())?;
                body(self, arguments)
            }
            library::Body::Fixed(body) => {
                let arguments = bind_native(native, arguments, keywords)?;
                body(self, &arguments)
            }
        };
        result.map_err(|fault| fault.within(native.name()))
    }

    fn call_bound_method(&mut self, method: &Method, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
        if let Value::Type(kind) = method.receiver {
            return self.call_unbound(kind, method.name, arguments, keywords);
        }
        self.call_method(&method.receiver, method.name, arguments, keywords)
    }

    /// How many parameters a function of the program has.
    pub(crate) fn n_params_of_code(&self, code_idx: u32) -> Option<usize> {
        let code = self.program.as_ref()?.codes.get(code_idx as usize)?;
        (!code.params.has_rest).then_some(code.params.n_positional)
    }
}

fn unexpected(name: &str, keyword: &str) -> Fault {
    Fault::type_error(format!("{name}() has no parameter '{keyword}'"))
}

fn bind_native(native: &Native, arguments: &[Value], keywords: Keywords<'_>) -> Result<Vec<Value>, Fault> {
    let mut bound = arguments.to_vec();
    for (keyword, value) in keywords {
        let place = native.params().iter().position(|param| param == keyword);
        let place = place.ok_or_else(|| unexpected(native.name(), keyword))?;
        if bound.len() <= place {
            bound.resize(place + 1, Value::Unset);
        }
        if !matches!(bound[place], Value::Unset) {
            return Err(given_twice(native.name(), keyword));
        }
        bound[place] = value.clone();
    }
    let n_given = bound.iter().take(native.n_required()).filter(|value| !matches!(value, Value::Unset)).count();
    if n_given < native.n_required() {
        check_count(native.name(), n_given, native.n_required(), native.params().len())?;
    }
    check_count(native.name(), bound.len(), native.n_required(), native.params().len())?;
    Ok(bound)
}

fn given_twice(name: &str, keyword: &str) -> Fault {
    Fault::type_error(format!("{name}() got multiple values for argument '{keyword}'"))
}

/// Puts arguments into the parameters of a function of the program.
fn bind(
    context: &Context,
    code: &Code,
    function: &Function,
    positional: Vec<Value>,
    keywords: Keywords<'_>,
) -> Result<Vec<Value>, Fault> {
    let params = &code.params;
    let n_named = params.n_positional + params.n_keyword_only;
    let meter = context.meter();
    let n_given = positional.len();
    meter.spend((n_given + keywords.len()) as u64)?;
    let mut bound = positional;
    let rest = if n_given > params.n_positional { bound.split_off(params.n_positional) } else { Vec::new() };
    if !params.has_rest && !rest.is_empty() {
        let n_min = params.n_positional - params.n_positional_defaults;
        check_count(&code.name, n_given, n_min, params.n_positional)?;
    }
    bound.resize(n_named, Value::Unset);
    let mut others = Vec::new();
    for (keyword, value) in keywords {
        let place = params.names[params.n_positional_only..n_named].iter().position(|name| &**name == *keyword);
        match place {
            Some(place) => {
                let slot = &mut bound[params.n_positional_only + place];
                if !matches!(slot, Value::Unset) {
                    return Err(given_twice(&code.name, keyword));
                }
                *slot = value.clone();
            }
            None if params.has_keywords => others.push((*keyword, value.clone())),
            None => return Err(unexpected(&code.name, keyword)),
        }
    }
    fill_defaults(code, function, &mut bound)?;
    if params.has_rest {
        bound.push(meter.tuple(rest)?);
    }
    if params.has_keywords {
        let dict = meter.dict()?;
        for (keyword, value) in others {
            dict.insert(meter.str(keyword)?, value)?;
        }
        bound.push(Value::Dict(dict));
    }
    Ok(bound)
}

fn fill_defaults(code: &Code, function: &Function, bound: &mut [Value]) -> Result<(), Fault> {
    let params = &code.params;
    for (place, slot) in bound.iter_mut().enumerate().filter(|(_, slot)| matches!(slot, Value::Unset)) {
        let default = if place < params.n_positional {
            (place + params.n_positional_defaults).checked_sub(params.n_positional)
        } else {
            Some(params.n_positional_defaults + place - params.n_positional)
        };
        *slot = default.and_then(|default| function.defaults.get(default)).cloned().unwrap_or_default();
        if matches!(slot, Value::Unset) {
            let words = format!("{}() is missing the argument '{}'", code.name, params.names[place]);
            return Err(Fault::new(ErrorKind::Type, words));
        }
    }
    Ok(())
}
