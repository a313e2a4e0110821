//! The types of the subset, exceptions among them, and what each is called.

use crate::fault::ErrorKind;
use crate::value::Value;

/// A type, as `int` or `ValueError` name it in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the type that the program calls by the name in `Type::name`")]
pub enum Type {
    None,
    Bool,
    Int,
    Float,
    Str,
    Tuple,
    List,
    Set,
    FrozenSet,
    Dict,
    DefaultDict,
    Counter,
    Range,
    Function,
    Iterator,
    Module,
    Type,
    Object,
    BaseException,
    Exception,
    ArithmeticError,
    LookupError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NameError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
    ZeroDivisionError,
}

/// Every type that a program may name, with the name.
pub(crate) const NAMED: &[(&str, Type)] = &[
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("float", Type::Float),
    ("str", Type::Str),
    ("tuple", Type::Tuple),
    ("list", Type::List),
    ("set", Type::Set),
    ("frozenset", Type::FrozenSet),
    ("dict", Type::Dict),
    ("range", Type::Range),
    ("type", Type::Type),
    ("object", Type::Object),
    ("BaseException", Type::BaseException),
    ("Exception", Type::Exception),
    ("ArithmeticError", Type::ArithmeticError),
    ("LookupError", Type::LookupError),
    ("AssertionError", Type::AssertionError),
    ("AttributeError", Type::AttributeError),
    ("IndexError", Type::IndexError),
    ("KeyError", Type::KeyError),
    ("NameError", Type::NameError),
    ("NotImplementedError", Type::NotImplementedError),
    ("OverflowError", Type::OverflowError),
    ("RuntimeError", Type::RuntimeError),
    ("StopIteration", Type::StopIteration),
    ("SyntaxError", Type::SyntaxError),
    ("TypeError", Type::TypeError),
    ("ValueError", Type::ValueError),
    ("ZeroDivisionError", Type::ZeroDivisionError),
];

impl Type {
    /// The type of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Unset | Value::None => Self::None,
            Value::Bool(_) => Self::Bool,
            Value::Int(_) | Value::Big(_) => Self::Int,
            Value::Float(_) => Self::Float,
            Value::Str(_) => Self::Str,
            Value::Tuple(_) | Value::Pair(_) => Self::Tuple,
            Value::FrozenSet(_) => Self::FrozenSet,
            Value::Packed(pack) => match pack.get().shape() {
                crate::packed::Shape::Tuple => Self::Tuple,
                crate::packed::Shape::FrozenSet => Self::FrozenSet,
            },
            Value::List(_) => Self::List,
            Value::Set(_) => Self::Set,
            Value::Dict(dict) => dict.kind,
            Value::Range(_) => Self::Range,
            Value::Native(_) | Value::Function(_) | Value::Method(_) => Self::Function,
            Value::Type(_) => Self::Type,
            Value::Exception(exception) => exception.kind,
            Value::Iterator(_) | Value::Cell(_) => Self::Iterator,
            Value::Module(_) => Self::Module,
        }
    }

    /// What the program calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Function => "function",
            Self::Iterator => "iterator",
            Self::Module => "module",
            Self::DefaultDict => "defaultdict",
            Self::Counter => "Counter",
            named => NAMED.iter().find(|(_, kind)| *kind == named).map_or("type", |(name, _)| name),
        }
    }

    /// Whether a value of this type is also one of `other`.
    pub(crate) fn is_a(self, other: Self) -> bool {
        if self == other || other == Self::Object {
            return true;
        }
        match other {
            Self::Int => self == Self::Bool,
            Self::Dict => matches!(self, Self::DefaultDict | Self::Counter),
            Self::BaseException => self.is_exception(),
            Self::Exception => self.is_exception() && self != Self::BaseException,
            Self::ArithmeticError => matches!(self, Self::ZeroDivisionError | Self::OverflowError),
            Self::LookupError => matches!(self, Self::IndexError | Self::KeyError),
            Self::RuntimeError => self == Self::NotImplementedError,
            _ => false,
        }
    }

    /// Whether it is a kind of exception.
    pub(crate) fn is_exception(self) -> bool {
        self >= Self::BaseException
    }

    /// The kind of verdict when this exception ends the run.
    pub(crate) fn error_kind(self) -> ErrorKind {
        match self {
            Self::AssertionError => ErrorKind::Assertion,
            Self::AttributeError => ErrorKind::Attribute,
            Self::IndexError => ErrorKind::Index,
            Self::KeyError => ErrorKind::Key,
            Self::NameError => ErrorKind::Name,
            Self::OverflowError => ErrorKind::Overflow,
            Self::StopIteration => ErrorKind::StopIteration,
            Self::TypeError => ErrorKind::Type,
            Self::ValueError => ErrorKind::Value,
            Self::ZeroDivisionError => ErrorKind::ZeroDivision,
            _ => ErrorKind::Raised,
        }
    }

    /// The exception that `except` sees for a failure of this kind; limits have none.
    pub(crate) fn of_error(kind: ErrorKind) -> Option<Self> {
        Some(match kind {
            ErrorKind::Fuel | ErrorKind::Memory | ErrorKind::Depth => return None,
            ErrorKind::Syntax => Self::SyntaxError,
            ErrorKind::Name => Self::NameError,
            ErrorKind::Type => Self::TypeError,
            ErrorKind::Value => Self::ValueError,
            ErrorKind::Index => Self::IndexError,
            ErrorKind::Key => Self::KeyError,
            ErrorKind::ZeroDivision => Self::ZeroDivisionError,
            ErrorKind::Assertion => Self::AssertionError,
            ErrorKind::Attribute => Self::AttributeError,
            ErrorKind::Overflow => Self::OverflowError,
            ErrorKind::StopIteration => Self::StopIteration,
            ErrorKind::Raised => Self::RuntimeError,
        })
    }
}
