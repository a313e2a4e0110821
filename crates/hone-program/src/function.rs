//! Functions as values: those of the program with what they close over, those that natives build, and bound methods.
//!
//! Each is numbered when it is created and compares by that number.

use std::fmt;

use crate::context::Context;
use crate::fault::Fault;
use crate::meter::Charge;
use crate::value::Value;

/// The body of a function that a native built: what it captured, then what it is called with.
pub type BuiltBody = fn(&mut Context, &[Value], &[Value]) -> Result<Value, Fault>;

/// A function of the program, or one that a native built.
pub struct Function {
    pub(crate) id: u64,
    pub(crate) body: Body,
    /// Cells of the program, or what the native gave it.
    pub(crate) captured: Vec<Value>,
    /// Values of parameters that a call leaves out.
    pub(crate) defaults: Vec<Value>,
    pub(crate) _charge: Charge,
}

/// What runs when a function is called.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Code of the program, by its number.
    Code(u32),
    /// A native body with its name and number of parameters.
    Built { name: &'static str, n_params: usize, run: BuiltBody },
}

impl fmt::Debug for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.body {
            Body::Code(code) => write!(formatter, "<function {} of code {code}>", self.id),
            Body::Built { name, .. } => write!(formatter, "<function {name} {}>", self.id),
        }
    }
}

/// A method with the value it belongs to.
#[derive(Debug)]
pub struct Method {
    pub(crate) id: u64,
    pub(crate) receiver: Value,
    pub(crate) name: crate::method::MethodName,
    pub(crate) _charge: Charge,
}
