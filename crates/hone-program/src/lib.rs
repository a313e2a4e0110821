//! An interpreter for programs that models write: a Python subset with exact fuel and memory.
//!
//! A [`Program`] is parsed once and run many times, on any thread. A host offers modules of native functions in a
//! [`Library`], and may bring values of its own ([`Packed`]) that are tuples or immutable sets to the program.
//!
//! ```
//! use std::sync::Arc;
//! use hone_program::{Library, Limits, Program, Value};
//!
//! let source = "def double(n):\n    return [n * 2 for _ in range(2)][0]";
//! let limits = Limits::default();
//! let program = Program::parse(source, &Arc::new(Library::new()), &limits)?;
//! let run = program.run("double", &[Value::Int(21)], &limits);
//! assert_eq!(run.result?.as_int(), Some(42));
//! # Ok::<(), hone_program::Error>(())
//! ```
//!
//! # The way of a program
//!
//! `source.rs` bounds size and nesting of the text, without recursion, before anything else looks at it. The tree of
//! `ruff_python_parser` is compiled by `compile/` into operations on a stack (`code.rs`) with names resolved to slots; what the
//! subset does not have is refused there, by name and line. `machine.rs` runs the operations; calls of the program's own functions take frames
//! (`frame.rs`), not stack of the host.
//!
//! # What is counted
//!
//! *Fuel* is spent by one unit for each operation, and by the sizes that it touches: elements that are copied or compared, bytes
//! of text, words of large numbers, values that are made. *Memory* is the size of values in our own model of them, asked for
//! before they are made and given back when they are dropped. Nothing is timed: the same program on the same input takes the same fuel and
//! memory in every run, on every machine, on any number of threads. A limit ends the run, and no `except` catches it.
//!
//! # The subset, and where it differs
//!
//! Functions with all kinds of parameters, closures, generators, comprehensions, unpacking, slices, f-strings, exceptions; the usual
//! types, their methods and builtins; parts of `math`, `itertools`, `functools`, `collections`, `operator`, `heapq`, `bisect`, `copy` and
//! `string`. No classes, `with`, `match`, `async`, bytes, complex numbers, regular expressions, and nothing that reaches a file, a clock, randomness
//! or the network: nothing of the kind is there to be called.
//!
//! - Sets iterate in ascending structural order (`order.rs`), so that nothing depends on hashes.
//! - `keys`, `values` and `items` of a dictionary are lists of that moment; what `itertools` gives is computed at once.
//! - Arguments of a method are evaluated before the method is looked up.
//! - Running out of fuel, memory or depth cannot be caught, and `is` compares numbers, texts and pairs that a host gave by value.
//!
//! Knows nothing of grids or models.
#![forbid(unsafe_code)]

mod code;
mod compile;
mod container;
mod context;
mod decimal;
mod dict;
mod distinct;
mod elements;
mod exception;
mod fault;
mod format;
mod frame;
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
mod pair;
mod program;
mod release;
mod scalar;
mod sort;
mod source;
mod standard;
mod text;
mod unknown;
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
pub use pair::Pair;
pub use program::{Program, Run, Session};
pub use sort::sort_by;
pub use value::{Big, Exception, FrozenSet, Growing, List, Range, Set, Str, Tuple, Value};
