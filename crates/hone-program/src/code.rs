//! The compact form in which programs run: operations on a stack, with names resolved to slots.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kind::Type;
use crate::library::{Constant, Entry, Library};
use crate::method::MethodName;
use crate::order::Comparison;

/// One operation. Operands are indices into the tables of the code or the program; "top" is the top of the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// Pushes a constant of the program.
    Constant(u32),
    /// Pushes a small whole number.
    Int(i32),
    None,
    True,
    False,
    /// Pushes a local variable.
    Local(u32),
    StoreLocal(u32),
    DeleteLocal(u32),
    /// Pushes a variable that closures share.
    Shared(u32),
    StoreShared(u32),
    /// Gives a shared variable a new place, so that closures made before keep the old one.
    RenewShared(u32),
    Global(u32),
    StoreGlobal(u32),
    DeleteGlobal(u32),
    /// Pushes one of the interpreter's own functions.
    Builtin(u32),
    /// Fails: nothing defines this name.
    Undefined(u32),
    Pop,
    Duplicate,
    DuplicateTwo,
    /// Moves the top below the value under it.
    RotateTwo,
    /// Moves the top below the two values under it.
    RotateThree,
    Binary(BinaryOp),
    /// As `Binary`, but lists, sets and dictionaries change in place.
    InPlace(BinaryOp),
    Negate,
    Plus,
    Invert,
    Not,
    Compare(Comparison),
    Equal,
    NotEqual,
    Is,
    IsNot,
    In,
    NotIn,
    Jump(u32),
    JumpIfFalse(u32),
    JumpIfTrue(u32),
    /// Jumps and keeps the top if it is false, else drops it.
    JumpIfFalseKeep(u32),
    JumpIfTrueKeep(u32),
    Tuple(u32),
    List(u32),
    Set(u32),
    /// A dictionary of so many pairs.
    Dict(u32),
    /// Adds the top to the list so many values below it.
    Append(u32),
    Add(u32),
    /// Adds the two values on top to the dictionary so many values below them.
    Insert(u32),
    /// Adds all elements of the top to the list or set under it.
    Extend,
    /// Adds all entries of the top to the dictionary under it; keys of keyword arguments must be texts and new.
    Update {
        keywords: bool,
    },
    ListToTuple,
    Subscript,
    /// Container and index on top, the value under them.
    StoreSubscript,
    DeleteSubscript,
    /// Container, start, stop and step.
    Slice,
    StoreSlice,
    DeleteSlice,
    Attribute(u32),
    /// Calls what is under so many arguments.
    Call(u32),
    /// As `Call`, with the last arguments given by the names of a table.
    CallNamed {
        n_args: u32,
        names: u32,
    },
    /// Function, list of arguments, dictionary of keyword arguments.
    CallSpread,
    /// Calls the method of what is under so many arguments.
    CallMethod {
        n_args: u32,
        name: u32,
    },
    Iterate,
    /// Pushes the next value of the iterator on top, or drops the iterator and jumps.
    ForEach(u32),
    /// Pushes the next element of the iterator on top, or replaces it by what it returned and jumps.
    Delegate(u32),
    Unpack(u32),
    UnpackStar {
        before: u16,
        after: u16,
    },
    /// Makes a function with so many defaults from the stack.
    Function {
        code: u32,
        n_defaults: u32,
    },
    Return,
    Yield,
    /// Faults from here on jump there.
    Try(u32),
    EndTry,
    Raise,
    /// Whether the exception under the top is of the type on top; keeps the exception.
    Catches,
    /// Fails with the top as its message, or without one.
    AssertFailed {
        message: bool,
    },
    /// Formats the value under the specification on top.
    Format {
        conversion: Conversion,
    },
    /// Joins so many texts.
    Join(u32),
    /// Gives names of a module to globals.
    ImportNames(u32),
    /// Pushes a module.
    Module(u32),
    /// Pushes an entry of a module.
    Imported(u32),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    ShiftLeft,
    ShiftRight,
    Or,
    Xor,
    And,
}

impl BinaryOp {
    /// The operator as it is written.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
            Self::Power => "**",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Or => "|",
            Self::Xor => "^",
            Self::And => "&",
        }
    }
}

/// How an interpolated value becomes text before it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    None,
    Str,
    Repr,
}

/// The code of one function, or of the module.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) name: Box<str>,
    pub(crate) ops: Vec<Op>,
    /// The source line of each operation.
    pub(crate) lines: Vec<u32>,
    /// Parameters first: positional, then by keyword only, then `*args`, then `**kwargs`.
    pub(crate) n_locals: usize,
    pub(crate) local_names: Vec<Box<str>>,
    pub(crate) params: Params,
    /// For each shared variable of its own the parameter that it starts with, if any.
    pub(crate) shared: Vec<Option<u32>>,
    /// Where a new function finds the shared variables it captures, among those of its maker.
    pub(crate) captures: Vec<u32>,
    pub(crate) is_generator: bool,
}

/// The parameters of a function.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub(crate) names: Vec<Box<str>>,
    /// How many cannot be given by name.
    pub(crate) n_positional_only: usize,
    pub(crate) n_positional: usize,
    pub(crate) n_keyword_only: usize,
    pub(crate) has_rest: bool,
    pub(crate) has_keywords: bool,
    /// Defaults of the last positional parameters, then one for each by keyword only.
    pub(crate) n_positional_defaults: usize,
}

impl Params {
    /// Whether a call with exactly the positional arguments needs no further work.
    pub(crate) fn is_plain(&self) -> bool {
        self.n_keyword_only == 0 && !self.has_rest && !self.has_keywords
    }
}

/// A name that attributes and methods are asked for by.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) text: Box<str>,
    pub(crate) method: Option<MethodName>,
}

/// A whole program, compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) codes: Vec<Code>,
    pub(crate) constants: Vec<Const>,
    pub(crate) names: Vec<Name>,
    pub(crate) keywords: Vec<Box<[Box<str>]>>,
    pub(crate) globals: Vec<Box<str>>,
    pub(crate) global_places: HashMap<Box<str>, u32>,
    pub(crate) builtins: Vec<Entry>,
    pub(crate) imports: Vec<Vec<(u32, Entry)>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) modules: Vec<Arc<crate::library::Module>>,
    pub(crate) functions: Vec<Box<str>>,
    pub(crate) library: Arc<Library>,
}

/// A constant of the source.
#[derive(Clone, Debug)]
pub(crate) enum Const {
    Plain(Constant),
    Big(num_bigint::BigInt),
    Ellipsis,
}

/// The type that an `Op::Catches` without a type means.
pub(crate) const CATCH_ALL: Type = Type::BaseException;
