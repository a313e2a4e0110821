//! What a native function sees of the run that calls it: its meter, and the way back into the program.

use std::rc::Rc;
use std::sync::Arc;

use crate::code::Compiled;
use crate::fault::Fault;
use crate::frame::Frame;
use crate::function::{Body, BuiltBody, Function};
use crate::library;
use crate::limits::Limits;
use crate::meter::{Charge, Meter};
use crate::order;
use crate::value::{Growing, HEAD_BYTES, SLOT_BYTES, Value};
use crate::watch::Watched;

/// How many natives may wait for functions that they call, one inside the other.
const NATIVES_MAX: usize = 500;

/// The number of parameters of a built function that takes any.
pub(crate) const ANY_PARAMS: usize = usize::MAX;

/// A run under way, as its natives see it.
#[derive(Debug)]
pub struct Context {
    pub(crate) meter: Meter,
    pub(crate) limits: Limits,
    pub(crate) program: Option<Arc<Compiled>>,
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// The operation after the one that runs, in the frame on top.
    pub(crate) ip: usize,
    pub(crate) globals: Vec<Value>,
    pub(crate) constants: Vec<Value>,
    pub(crate) stack_charge: Charge,
    pub(crate) stack_bytes: usize,
    pub(crate) output: String,
    pub(crate) watched: Watched,
    next_id: u64,
    n_natives: usize,
}

impl Context {
    /// A run without a program: for natives that are called directly, in tests say.
    pub fn new(limits: &Limits) -> Self {
        Self::with_meter(Meter::new(limits.fuel, limits.memory), limits)
    }

    pub(crate) fn with_meter(meter: Meter, limits: &Limits) -> Self {
        let stack_charge = meter.nothing();
        Self {
            meter,
            limits: *limits,
            program: None,
            stack: Vec::new(),
            frames: Vec::new(),
            ip: 0,
            globals: Vec::new(),
            constants: Vec::new(),
            stack_charge,
            stack_bytes: 0,
            output: String::new(),
            watched: Watched::default(),
            next_id: library::ID_RUN,
            n_natives: 0,
        }
    }

    /// What counts this run's fuel and memory; values are made through it.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Uses fuel: one unit for each operation or element that is touched.
    #[inline]
    pub fn spend(&self, fuel: u64) -> Result<(), Fault> {
        self.meter.spend(fuel)
    }

    /// Calls a function with these values.
    pub fn call(&mut self, function: &Value, arguments: &[Value]) -> Result<Value, Fault> {
        self.meter.spend(1)?;
        self.nested(|context| context.call_here(function, arguments))
    }

    /// Goes one level deeper, where that is allowed; takes more stack from the heap when little is left.
    pub fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.n_natives >= NATIVES_MAX {
            return Err(Fault::depth("calls through natives", NATIVES_MAX));
        }
        self.n_natives += 1;
        let result = match self.n_natives.is_multiple_of(LEVELS_PER_LOOK) {
            true => stacker::maybe_grow(STACK_RED, STACK_MORE, || run(self)),
            false => run(self),
        };
        self.n_natives -= 1;
        result
    }

    /// How many parameters a function has; `None` where it takes any number, or is no function.
    #[inline]
    pub fn n_params(&self, function: &Value) -> Option<usize> {
        match function {
            Value::Native(native) => match native.body {
                library::Body::Fixed(_) => Some(native.params().len()),
                library::Body::Variadic(_) => None,
            },
            Value::Function(function) => match function.body {
                Body::Built { n_params, .. } => (n_params != ANY_PARAMS).then_some(n_params),
                Body::Code(code) => self.n_params_of_code(code),
            },
            _ => None,
        }
    }

    /// Builds a new function out of a native body and what it captures. It gets the next number of this run, and equals only
    /// itself.
    pub fn function(
        &mut self,
        name: &'static str,
        n_params: usize,
        captured: Vec<Value>,
        run: BuiltBody,
    ) -> Result<Value, Fault> {
        let charge = self.meter.charge(HEAD_BYTES + SLOT_BYTES * captured.len())?;
        let id = self.take_id();
        let body = Body::Built { name, n_params, run };
        Ok(Value::Function(Rc::new(Function { id, body, captured, defaults: Vec::new(), _charge: charge })))
    }

    /// The number that the next function will have.
    pub(crate) fn peek_id(&self) -> u64 {
        self.next_id
    }

    /// Starts a call under a new budget.
    pub(crate) fn begin_call(&mut self, meter: &Meter, limits: &Limits, first_id: u64) {
        self.meter = meter.clone();
        self.limits = *limits;
        self.stack_charge = meter.nothing();
        self.stack_bytes = 0;
        self.next_id = first_id;
    }

    pub(crate) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Whether a value counts as true.
    pub fn truth(&self, value: &Value) -> bool {
        truth(value)
    }

    /// Whether two values are equal.
    pub fn equal(&self, a: &Value, b: &Value) -> Result<bool, Fault> {
        order::equal(a, b, &self.meter)
    }

    /// The total order in which sets iterate.
    pub fn order(&self, a: &Value, b: &Value) -> Result<std::cmp::Ordering, Fault> {
        order(a, b, &self.meter)
    }

    /// Whether `a < b` in the sense of the language: sets by inclusion; a type error where both cannot be compared.
    pub fn less(&self, a: &Value, b: &Value) -> Result<bool, Fault> {
        order::less(a, b, &self.meter)
    }

    /// Sorts values stably by their keys, ascending in the sense of the language.
    pub fn sort_by_key(&self, keyed: &mut [(Value, Value)]) -> Result<(), Fault> {
        crate::sort::sort_by(keyed, &self.meter, |a, b| order::less(&a.0, &b.0, &self.meter))
    }

    /// Everything that a value iterates over. Spends fuel for each element, and asks for the room first.
    pub fn collect(&mut self, value: &Value) -> Result<Vec<Value>, Fault> {
        if let Some((_, items)) = value.container() {
            self.meter.spend(items.len() as u64 / 2 + 1)?;
            return items.to_vec(&self.meter);
        }
        match value {
            Value::List(list) => return self.copy_items(&list.items.borrow()),
            Value::Set(set) => return self.copy_items(&set.items.borrow()),
            Value::Range(range) => {
                self.meter.spend(range.len / 2 + 1)?;
                self.meter.room(usize::try_from(range.len).unwrap_or(usize::MAX).saturating_mul(SLOT_BYTES))?;
                let value = |idx: i64| Value::Int(range.start.wrapping_add(idx.wrapping_mul(range.step)));
                return Ok((0..range.len as i64).map(value).collect());
            }
            _ => {}
        }
        let iter = self.iterate(value)?;
        let mut items = Growing::new(&self.meter, 0)?;
        while let Some(item) = self.next(&iter)? {
            items.push(item)?;
        }
        Ok(items.into_vec())
    }

    fn copy_items(&self, items: &[Value]) -> Result<Vec<Value>, Fault> {
        self.meter.spend(items.len() as u64 / 2 + 1)?;
        self.meter.room(items.len() * SLOT_BYTES)?;
        Ok(items.to_vec())
    }
}

/// Levels after which the stack is looked at again; all of them fit into what must be left.
const LEVELS_PER_LOOK: usize = 4;
/// Stack that must be left then; more is taken from the heap otherwise.
const STACK_RED: usize = 256 << 10;
const STACK_MORE: usize = 1 << 20;

/// Whether a value counts as true.
pub(crate) fn truth(value: &Value) -> bool {
    match value {
        Value::Unset | Value::None => false,
        Value::Bool(truth) => *truth,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.text.is_empty(),
        Value::Tuple(tuple) => !tuple.items.is_empty(),
        Value::FrozenSet(set) => !set.items.is_empty(),
        Value::Packed(pack) => !pack.get().is_empty(),
        Value::List(list) => !list.items.borrow().is_empty(),
        Value::Set(set) => !set.items.borrow().is_empty(),
        Value::Dict(dict) => !dict.is_empty(),
        Value::Range(range) => range.len > 0,
        _ => true,
    }
}

/// Refuses a call with too few or too many values.
pub(crate) fn check_count(name: &str, n_given: usize, n_min: usize, n_max: usize) -> Result<(), Fault> {
    if (n_min..=n_max).contains(&n_given) {
        return Ok(());
    }
    let wanted = match (n_min, n_max) {
        (1, 1) => "1 argument".to_owned(),
        (min, max) if min == max => format!("{min} arguments"),
        (min, max) => format!("{min} to {max} arguments"),
    };
    Err(Fault::type_error(format!("{name}() takes {wanted} but {n_given} {} given", if n_given == 1 { "was" } else { "were" })))
}
