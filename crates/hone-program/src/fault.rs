//! What ends a run: the kind, the line and words that say what to do differently.
//!
//! A [`Fault`] travels inside a run and may still be caught by `except`; an [`Error`] is what the caller of a run sees.

use std::fmt;

use crate::value::Value;

/// Characters of a message; what a program raises may be longer.
const MESSAGE_MAX: usize = 500;

/// Why a program did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The text is no program of the subset.
    Syntax,
    /// A name that nothing defines, or that has no value yet.
    Name,
    /// A value of a kind that cannot be used so.
    Type,
    /// A value of the right kind that cannot be used so.
    Value,
    /// A position outside of a sequence.
    Index,
    /// A key that a dictionary or set does not have.
    Key,
    /// A division by zero.
    ZeroDivision,
    /// An `assert` that does not hold.
    Assertion,
    /// An attribute or method that a value does not have.
    Attribute,
    /// A number beyond what can be represented.
    Overflow,
    /// An iterator that has no more values.
    StopIteration,
    /// Something the program raised that is none of the others.
    Raised,
    /// More steps than the limit allows.
    Fuel,
    /// More memory than the limit allows.
    Memory,
    /// Calls or values nested deeper than the limit allows.
    Depth,
}

impl ErrorKind {
    /// Whether it is a limit of the run, which no `except` catches.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::Fuel | Self::Memory | Self::Depth)
    }

    /// The kind in words, as messages begin.
    pub fn words(self) -> &'static str {
        match self {
            Self::Syntax => "syntax error",
            Self::Name => "name error",
            Self::Type => "type error",
            Self::Value => "value error",
            Self::Index => "index error",
            Self::Key => "key error",
            Self::ZeroDivision => "zero division",
            Self::Assertion => "assertion failed",
            Self::Attribute => "attribute error",
            Self::Overflow => "overflow",
            Self::StopIteration => "end of iteration",
            Self::Raised => "raised",
            Self::Fuel => "out of fuel",
            Self::Memory => "out of memory",
            Self::Depth => "too deep",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.words())
    }
}

/// The verdict on a program that did not finish: `line 3: type error: cannot add int and str`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}{}{message}", if message.is_empty() { "" } else { ": " })]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// The line of the source, counted from 1; 0 when no line is to blame.
    pub line: u32,
    /// What went wrong, in words.
    pub message: String,
}

/// A failure on its way up through a run.
#[derive(Debug)]
pub struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    line: u32,
    message: String,
    exception: Option<Value>,
}

impl Fault {
    /// A failure of this kind with these words.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, line: 0, message: message.into(), exception: None }))
    }

    /// A value of a kind that cannot be used so.
    pub fn type_error(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Type, message)
    }

    /// A value of the right kind that cannot be used so.
    pub fn value_error(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, message)
    }

    /// A position outside of a sequence.
    pub fn index_error(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Index, message)
    }

    /// A division by zero.
    pub fn zero_division() -> Self {
        Self::new(ErrorKind::ZeroDivision, "division by zero")
    }

    /// Calls or values nested too deeply.
    pub(crate) fn depth(what: &str, limit: usize) -> Self {
        Self::new(ErrorKind::Depth, format!("{what} nested deeper than {limit} levels"))
    }

    /// The same failure with the exception value that the program raised.
    pub(crate) fn with_exception(mut self, exception: Value) -> Self {
        self.0.exception = Some(exception);
        self
    }

    /// The same failure on this line, unless it has one already.
    pub(crate) fn at(mut self, line: u32) -> Self {
        if self.0.line == 0 {
            self.0.line = line;
        }
        self
    }

    /// The same failure with the name of the native in front of its words.
    pub fn within(mut self, name: &str) -> Self {
        if self.0.line == 0 && !self.0.kind.is_limit() && self.0.exception.is_none() {
            self.0.message = format!("{name}: {}", self.0.message);
        }
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What went wrong, in words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The exception value, where the program raised one.
    pub(crate) fn exception(&self) -> Option<&Value> {
        self.0.exception.as_ref()
    }

    /// The verdict that the caller of the run sees.
    pub fn into_error(self) -> Error {
        let Inner { kind, line, mut message, .. } = *self.0;
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
            message.truncate(end);
            message.push('…');
        }
        Error { kind, line, message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.kind, self.0.message)
    }
}
