//! The methods and attributes of values.

mod dict;
mod letter;
mod list;
mod number;
mod set;
mod str;

use std::rc::Rc;

use crate::context::{Context, check_count};
use crate::fault::{ErrorKind, Fault};
use crate::function::Method;
use crate::invoke::Keywords;
use crate::kind::Type;
use crate::value::{HEAD_BYTES, Value};

/// Writes the names of all methods once: as variants, and as text.
macro_rules! methods {
    ($($variant:ident $text:literal,)*) => {
        /// The name of a method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum MethodName {
            $($variant,)*
        }

        impl MethodName {
            /// The method of this name, if any type has one.
            pub(crate) fn named(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name as it is written.
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

methods! {
    Add "add",
    Append "append",
    AppendLeft "appendleft",
    BitCount "bit_count",
    BitLength "bit_length",
    Capitalize "capitalize",
    CaseFold "casefold",
    Center "center",
    Clear "clear",
    Copy "copy",
    Count "count",
    Difference "difference",
    DifferenceUpdate "difference_update",
    Discard "discard",
    Elements "elements",
    EndsWith "endswith",
    Extend "extend",
    Find "find",
    Format "format",
    FromKeys "fromkeys",
    Get "get",
    Index "index",
    Insert "insert",
    Intersection "intersection",
    IntersectionUpdate "intersection_update",
    IsAlnum "isalnum",
    IsAlpha "isalpha",
    IsAscii "isascii",
    IsDecimal "isdecimal",
    IsDigit "isdigit",
    IsDisjoint "isdisjoint",
    IsIdentifier "isidentifier",
    IsInteger "is_integer",
    IsLower "islower",
    IsNumeric "isnumeric",
    IsSpace "isspace",
    IsSubset "issubset",
    IsSuperset "issuperset",
    IsTitle "istitle",
    IsUpper "isupper",
    Items "items",
    Join "join",
    Keys "keys",
    LJust "ljust",
    LStrip "lstrip",
    Lower "lower",
    MostCommon "most_common",
    Partition "partition",
    Pop "pop",
    PopItem "popitem",
    PopLeft "popleft",
    RFind "rfind",
    RIndex "rindex",
    RJust "rjust",
    RPartition "rpartition",
    RSplit "rsplit",
    RStrip "rstrip",
    Remove "remove",
    RemovePrefix "removeprefix",
    RemoveSuffix "removesuffix",
    Replace "replace",
    Reverse "reverse",
    SetDefault "setdefault",
    Sort "sort",
    Split "split",
    SplitLines "splitlines",
    StartsWith "startswith",
    Strip "strip",
    Subtract "subtract",
    SwapCase "swapcase",
    SymmetricDifference "symmetric_difference",
    Title "title",
    Total "total",
    Union "union",
    Update "update",
    Upper "upper",
    Values "values",
    ZFill "zfill",
}

impl Context {
    /// Calls a method of a value.
    pub(crate) fn call_method(
        &mut self,
        receiver: &Value,
        name: MethodName,
        arguments: &[Value],
        keywords: Keywords<'_>,
    ) -> Result<Value, Fault> {
        self.meter.spend(1)?;
        match receiver {
            Value::List(list) => self.list_method(receiver, list, name, arguments, keywords),
            Value::Str(text) => self.str_method(receiver, text, name, arguments, keywords),
            Value::Dict(dict) => self.dict_method(receiver, dict, name, arguments, keywords),
            Value::Set(set) => self.set_method(receiver, set, name, arguments),
            Value::Int(_) | Value::Bool(_) | Value::Big(_) | Value::Float(_) => self.number_method(receiver, name, arguments),
            other => match other.container() {
                Some((crate::packed::Shape::Tuple, items)) => self.tuple_method(items, name, arguments),
                Some((crate::packed::Shape::FrozenSet, _)) => self.frozenset_method(receiver, name, arguments),
                None => Err(no_attribute(receiver, name.text())),
            },
        }
    }

    /// Calls a method through its type: `str.lower(text)`, `dict.fromkeys(keys)`.
    pub(crate) fn call_unbound(
        &mut self,
        kind: Type,
        name: MethodName,
        arguments: &[Value],
        keywords: Keywords<'_>,
    ) -> Result<Value, Fault> {
        if kind == Type::Dict && name == MethodName::FromKeys {
            return self.dict_from_keys(arguments);
        }
        let Some((receiver, rest)) = arguments.split_first() else {
            return Err(Fault::type_error(format!("{}.{}() needs an argument", kind.name(), name.text())));
        };
        if !Type::of(receiver).is_a(kind) {
            let words = format!("{}.{}() needs a '{}', not '{}'", kind.name(), name.text(), kind.name(), receiver.type_name());
            return Err(Fault::type_error(words));
        }
        if kind == Type::Set && name == MethodName::Union {
            return self.call_method(receiver, name, rest, keywords);
        }
        self.call_method(receiver, name, rest, keywords)
    }

    /// `value.name`, where it is not called at once.
    pub(crate) fn attribute(&mut self, value: &Value, name: &str, method: Option<MethodName>) -> Result<Value, Fault> {
        match (value, name) {
            (Value::Module(module), _) => match module.get(name) {
                Some(entry) => entry.value(&self.meter),
                None => Err(Fault::new(ErrorKind::Attribute, format!("the module {} has no '{name}'", module.name()))),
            },
            (Value::Exception(exception), "args") => Ok(exception.arguments.clone()),
            (Value::Type(kind), "__name__") => self.meter.str(kind.name()),
            (Value::Native(native), "__name__") => self.meter.str(native.name()),
            (Value::Function(function), "__name__") => {
                let name = match function.body {
                    crate::function::Body::Built { name, .. } => name.to_owned(),
                    crate::function::Body::Code(code) => {
                        let code = self.program.as_ref().and_then(|program| program.codes.get(code as usize));
                        code.map_or(String::new(), |code| code.name.to_string())
                    }
                };
                self.meter.string(name)
            }
            _ => match method.filter(|_| has_methods(value)) {
                Some(name) => {
                    let charge = self.meter.charge(HEAD_BYTES)?;
                    let id = self.take_id();
                    Ok(Value::Method(Rc::new(Method { id, receiver: value.clone(), name, _charge: charge })))
                }
                None => Err(no_attribute(value, name)),
            },
        }
    }
}

fn has_methods(value: &Value) -> bool {
    !matches!(
        value,
        Value::None | Value::Function(_) | Value::Native(_) | Value::Method(_) | Value::Iterator(_) | Value::Exception(_)
    )
}

pub(crate) fn no_attribute(value: &Value, name: &str) -> Fault {
    let hint = match (value, name) {
        (Value::None, _) => "; a function without return gives None",
        (Value::Tuple(_) | Value::Pair(_) | Value::Packed(_), "append" | "sort" | "insert" | "extend") => {
            "; a tuple cannot change: use a list"
        }
        _ => "",
    };
    Fault::new(ErrorKind::Attribute, format!("'{}' object has no attribute '{name}'{hint}", value.type_name()))
}

/// Arguments of a call in the order of these parameters; those left out are unset.
pub(crate) fn arguments_of<const N: usize>(
    name: &str,
    arguments: &[Value],
    keywords: Keywords<'_>,
    params: [&str; N],
    n_required: usize,
) -> Result<[Value; N], Fault> {
    check_count(name, arguments.len(), n_required.saturating_sub(keywords.len()), N)?;
    let mut bound = std::array::from_fn(|place| arguments.get(place).cloned().unwrap_or_default());
    for (keyword, value) in keywords {
        match params.iter().position(|param| param == keyword) {
            Some(place) if matches!(bound[place], Value::Unset) => bound[place] = value.clone(),
            Some(_) => return Err(Fault::type_error(format!("{name}() got multiple values for argument '{keyword}'"))),
            None => return Err(Fault::type_error(format!("{name}() has no parameter '{keyword}'"))),
        }
    }
    match bound.iter().take(n_required).position(|value| matches!(value, Value::Unset)) {
        Some(place) => Err(Fault::type_error(format!("{name}() is missing the argument '{}'", params[place]))),
        None => Ok(bound),
    }
}

/// A whole number that fits in 64 bits, or a type error that says what it is for.
pub(crate) fn need_int(value: &Value, what: &str) -> Result<i64, Fault> {
    match value {
        Value::Big(big) => Ok(if big.number.sign() == num_bigint::Sign::Minus { i64::MIN } else { i64::MAX }),
        other => other.as_int().ok_or_else(|| Fault::type_error(format!("{what} must be an int, not '{}'", value.type_name()))),
    }
}

/// A text, or a type error that says what it is for.
pub(crate) fn need_str<'v>(value: &'v Value, what: &str) -> Result<&'v str, Fault> {
    value.as_str().ok_or_else(|| Fault::type_error(format!("{what} must be a str, not '{}'", value.type_name())))
}
