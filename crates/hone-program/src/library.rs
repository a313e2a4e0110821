//! What a host offers to programs: modules of named native functions and constants.
//!
//! A library is built once and shared by all threads. Its functions are numbered in the order in which they were added,
//! so that they compare and order the same in every run.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::Context;
use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::Value;

/// The body of a native function with named parameters; it is called with as many values as the call gave.
pub type NativeBody = fn(&mut Context, &[Value]) -> Result<Value, Fault>;
/// The body of a native function that takes any number of values and sees keywords itself.
pub(crate) type VariadicBody = fn(&mut Context, &[Value], &[(&str, Value)]) -> Result<Value, Fault>;

/// The numbers of the interpreter's own functions begin here; types have those below.
const ID_BUILTIN: u64 = 1 << 8;
/// The numbers of a host's functions begin here.
const ID_HOST: u64 = 1 << 16;
/// The numbers of functions that are created in a run begin here.
pub(crate) const ID_RUN: u64 = 1 << 32;

/// A constant of a module.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// The absent value.
    None,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Str(String),
    /// A tuple.
    Tuple(Vec<Constant>),
}

impl Constant {
    /// The value in a run.
    pub fn value(&self, meter: &Meter) -> Result<Value, Fault> {
        Ok(match self {
            Self::None => Value::None,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Str(text) => meter.str(text)?,
            Self::Tuple(items) => meter.tuple(items.iter().map(|item| item.value(meter)).collect::<Result<_, _>>()?)?,
        })
    }
}

/// A native function: its name, its parameters and its body.
#[derive(Clone, Debug)]
pub struct Native {
    id: u64,
    name: &'static str,
    params: &'static [&'static str],
    n_required: usize,
    pub(crate) body: Body,
}

/// How a native function takes its values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    Fixed(NativeBody),
    Variadic(VariadicBody),
}

impl Native {
    /// The number by which it compares.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The names of its parameters; none where it takes any number.
    pub fn params(&self) -> &'static [&'static str] {
        self.params
    }

    /// How many of its parameters a call has to give.
    pub(crate) fn n_required(&self) -> usize {
        self.n_required
    }
}

/// What stands under a name of a module.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Function(Arc<Native>),
    Constant(Constant),
    Type(crate::kind::Type),
}

/// Named functions and constants that a program imports together.
#[derive(Debug, Default)]
pub struct Module {
    name: &'static str,
    entries: HashMap<&'static str, Entry>,
    order: Vec<&'static str>,
}

impl Module {
    /// A module without entries.
    pub fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// The name by which programs import it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The names of its entries, in the order in which they were added.
    pub fn names(&self) -> &[&'static str] {
        &self.order
    }

    /// Adds a function with these parameters, all of which a call has to give.
    pub fn function(self, name: &'static str, params: &'static [&'static str], body: NativeBody) -> Self {
        self.function_with_optional(name, params, params.len(), body)
    }

    /// Adds a function of which a call has to give the first `n_required` parameters. One that was left out before another that
    /// was given by its name arrives as [`Value::Unset`].
    pub fn function_with_optional(
        self,
        name: &'static str,
        params: &'static [&'static str],
        n_required: usize,
        body: NativeBody,
    ) -> Self {
        self.native(Native { id: 0, name, params, n_required, body: Body::Fixed(body) })
    }

    /// Adds a constant.
    pub fn constant(self, name: &'static str, value: Constant) -> Self {
        self.entry(name, Entry::Constant(value))
    }

    /// Adds a function that takes any number of values.
    pub(crate) fn variadic(self, name: &'static str, body: VariadicBody) -> Self {
        self.native(Native { id: 0, name, params: &[], n_required: 0, body: Body::Variadic(body) })
    }

    /// Adds a type under a name.
    pub(crate) fn kind(self, name: &'static str, kind: crate::kind::Type) -> Self {
        self.entry(name, Entry::Type(kind))
    }

    fn native(self, native: Native) -> Self {
        self.entry(native.name, Entry::Function(Arc::new(native)))
    }

    fn entry(mut self, name: &'static str, entry: Entry) -> Self {
        if self.entries.insert(name, entry).is_none() {
            self.order.push(name);
        }
        self
    }

    /// What stands under a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    fn numbered(mut self, next_id: &mut u64) -> Self {
        for name in &self.order {
            if let Some(Entry::Function(native)) = self.entries.get_mut(name) {
                *native = Arc::new(Native { id: *next_id, ..Native::clone(native) });
                *next_id += 1;
            }
        }
        self
    }
}

impl Entry {
    /// The value in a run.
    pub(crate) fn value(&self, meter: &Meter) -> Result<Value, Fault> {
        match self {
            Self::Function(native) => Ok(Value::Native(Arc::clone(native))),
            Self::Constant(constant) => constant.value(meter),
            Self::Type(kind) => Ok(Value::Type(*kind)),
        }
    }
}

/// All modules that programs of a host may import.
#[derive(Debug)]
pub struct Library {
    modules: HashMap<&'static str, Arc<Module>>,
    next_id: u64,
}

impl Default for Library {
    fn default() -> Self {
        Self::new()
    }
}

impl Library {
    /// A library with the interpreter's own modules: `math`, `typing` and the like.
    pub fn new() -> Self {
        let mut library = Self { modules: HashMap::new(), next_id: ID_BUILTIN };
        for module in crate::standard::modules() {
            library.add(module);
        }
        library.next_id = ID_HOST;
        library
    }

    /// Adds a module under its name.
    pub fn add(&mut self, module: Module) {
        let module = module.numbered(&mut self.next_id);
        self.modules.insert(module.name, Arc::new(module));
    }

    /// Lets programs import a module by a second name; its functions are the same ones. Without effect where there is no such module.
    pub fn alias(&mut self, alias: &'static str, name: &str) {
        if let Some(module) = self.modules.get(name).cloned() {
            self.modules.insert(alias, module);
        }
    }

    /// The module that programs import by this name.
    pub fn module(&self, name: &str) -> Option<&Arc<Module>> {
        self.modules.get(name)
    }

    /// The native function of a module.
    pub fn native(&self, module: &str, name: &str) -> Option<&Arc<Native>> {
        match self.modules.get(module)?.get(name)? {
            Entry::Function(native) => Some(native),
            Entry::Constant(_) | Entry::Type(_) => None,
        }
    }

    /// The names by which modules can be imported, sorted.
    pub fn module_names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.modules.keys().copied().filter(|name| *name != crate::standard::BUILTINS).collect();
        names.sort_unstable();
        names
    }
}
