//! An interpreter for programs that models write: a Python subset with exact fuel and memory.
//!
//! A program is parsed once and run many times. What it uses is counted, never timed: the same program on the same input
//! takes the same fuel and memory in every run, on every machine, on any number of threads. There is no way to a file, a
//! clock, randomness or the network, because nothing of the kind is there to be called.
//!
//! A host offers modules of native functions in a [`Library`], and may bring values of its own ([`Packed`]) that are tuples or
//! immutable sets to the program. Knows nothing of grids or models.
#![forbid(unsafe_code)]

mod code;
mod compile;
mod container;
mod context;
mod dict;
mod exception;
mod fault;
mod format;
mod function;
mod index;
mod invoke;
mod iterate;
mod kind;
mod library;
mod limits;
mod machine;
mod meter;
mod method;
mod number;
mod operate;
mod order;
mod packed;
mod program;
mod release;
mod sort;
mod source;
mod standard;
mod text;
mod value;
mod watch;

pub use context::Context;
pub use dict::Dict;
pub use fault::{Error, ErrorKind, Fault};
pub use function::{BuiltBody, Function, Method};
pub use iterate::Iter;
pub use kind::Type;
pub use library::{Constant, Library, Module, Native, NativeBody};
pub use limits::Limits;
pub use meter::{Charge, Meter};
pub use order::{equal, less, order};
pub use packed::{Items, Pack, Packed, Shape};
pub use program::{Program, Run, Session};
pub use sort::sort_by;
pub use value::{Big, Exception, FrozenSet, Growing, List, Range, Set, Str, Tuple, Value};
