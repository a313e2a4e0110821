//! The functions that every program sees.

use crate::context::{Context, check_count};
use crate::decimal;
use crate::fault::{ErrorKind, Fault};
use crate::invoke::Keywords;
use crate::iterate::State;
use crate::kind::Type;
use crate::library::Module;
use crate::method::{arguments_of, need_int, need_str};
use crate::number::{self, Number};
use crate::order;
use crate::value::Value;

pub(super) fn add_to(module: Module) -> Module {
    module
        .function("len", &["obj"], len)
        .function("abs", &["x"], abs)
        .function("ord", &["c"], ord)
        .function("chr", &["i"], chr)
        .function("repr", &["obj"], |context, arguments| {
            let text = context.repr(&arguments[0])?;
            context.meter().string(text)
        })
        .function("callable", &["obj"], |_, arguments| Ok(Value::Bool(arguments[0].is_callable())))
        .function("id", &["obj"], |context, _| Ok(Value::Int(context.take_id() as i64)))
        .function("isinstance", &["obj", "kind"], |context, arguments| is_instance(context, &arguments[0], &arguments[1]))
        .function("divmod", &["a", "b"], divmod)
        .function_with_optional("pow", &["base", "exp", "mod"], 2, pow)
        .function_with_optional("round", &["number", "ndigits"], 1, round)
        .function_with_optional("sum", &["iterable", "start"], 1, sum)
        .function("any", &["iterable"], |context, arguments| any_or_all(context, &arguments[0], true))
        .function("all", &["iterable"], |context, arguments| any_or_all(context, &arguments[0], false))
        .function("iter", &["iterable"], |context, arguments| context.iterate(&arguments[0]))
        .function_with_optional("next", &["iterator", "default"], 1, next)
        .function("reversed", &["sequence"], reversed)
        .function_with_optional("enumerate", &["iterable", "start"], 1, enumerate)
        .function("filter", &["function", "iterable"], |context, arguments| {
            let source = context.iterate(&arguments[1])?;
            context.meter().iterator(State::Filter { function: arguments[0].clone(), source })
        })
        .function("bin", &["x"], |context, arguments| radix(context, &arguments[0], "#b"))
        .function("hex", &["x"], |context, arguments| radix(context, &arguments[0], "#x"))
        .function("oct", &["x"], |context, arguments| radix(context, &arguments[0], "#o"))
        .function_with_optional("format", &["value", "spec"], 1, |context, arguments| {
            let specification = arguments.get(1).map_or(Ok(""), |value| need_str(value, "the format"))?;
            let text = context.format_text(&arguments[0], specification)?;
            context.meter().string(text)
        })
        .variadic("map", map)
        .variadic("zip", zip)
        .variadic("sorted", sorted)
        .variadic("min", |context, arguments, keywords| extreme(context, arguments, keywords, "min"))
        .variadic("max", |context, arguments, keywords| extreme(context, arguments, keywords, "max"))
        .variadic("print", print)
}

fn len(_: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let len = match &arguments[0] {
        Value::Str(text) => text.n_chars,
        Value::List(list) => list.items.borrow().len(),
        Value::Set(set) => set.items.borrow().len(),
        Value::Dict(dict) => dict.len(),
        Value::Range(range) => return Ok(Value::Int(i64::try_from(range.len).unwrap_or(i64::MAX))),
        other => match other.container() {
            Some((_, items)) => items.len(),
            None => return Err(Fault::type_error(format!("object of type '{}' has no len()", other.type_name()))),
        },
    };
    Ok(Value::Int(len as i64))
}

fn abs(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    number::absolute(&arguments[0], context.meter())
        .unwrap_or_else(|| Err(Fault::type_error(format!("bad operand type for abs(): '{}'", arguments[0].type_name()))))
}

fn ord(_: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let mut letters = need_str(&arguments[0], "the character")?.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(Value::Int(i64::from(letter as u32))),
        _ => Err(Fault::type_error("expected a single character")),
    }
}

fn chr(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let code = need_int(&arguments[0], "the code")?;
    match u32::try_from(code).ok().and_then(char::from_u32) {
        Some(letter) => context.meter().str(letter.encode_utf8(&mut [0; 4])),
        None => Err(Fault::value_error(format!("{code} is not the code of a character"))),
    }
}

fn radix(context: &mut Context, value: &Value, specification: &str) -> Result<Value, Fault> {
    if !matches!(Number::of(value), Some(Number::Int(_) | Number::Big(_))) {
        return Err(Fault::type_error(format!("'{}' object cannot be interpreted as an integer", value.type_name())));
    }
    let text = context.format_text(value, specification)?;
    context.meter().string(text)
}

/// Whether a value is of a type, or of one of a tuple of types.
fn is_instance(context: &mut Context, value: &Value, kind: &Value) -> Result<Value, Fault> {
    if let Value::Type(kind) = kind {
        return Ok(Value::Bool(Type::of(value).is_a(*kind)));
    }
    let Some(kinds) = kind.as_tuple() else {
        return Err(Fault::type_error("isinstance() arg 2 must be a type or a tuple of types"));
    };
    for idx in 0..kinds.len() {
        context.spend(1)?;
        let kind = kinds.get(idx, context.meter())?;
        if let Value::Type(kind) = kind
            && Type::of(value).is_a(kind)
        {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn divmod(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    use crate::code::BinaryOp;
    let quotient = context.binary(BinaryOp::FloorDivide, &arguments[0], &arguments[1])?;
    let rest = context.binary(BinaryOp::Modulo, &arguments[0], &arguments[1])?;
    context.meter().tuple(vec![quotient, rest])
}

fn pow(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [base, exponent, modulus] if !matches!(modulus, Value::None | Value::Unset) => {
            number::power_modulo(base, exponent, modulus, context.meter())
        }
        [base, exponent, ..] => context.binary(crate::code::BinaryOp::Power, base, exponent),
        _ => Ok(Value::None),
    }
}

fn round(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let n_digits = match arguments.get(1) {
        None | Some(Value::None | Value::Unset) => None,
        Some(value) => Some(need_int(value, "ndigits")?),
    };
    decimal::round(&arguments[0], n_digits, context.meter())
}

fn sum(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let mut total = arguments.get(1).cloned().unwrap_or(Value::Int(0));
    if matches!(total, Value::Str(_)) {
        return Err(Fault::type_error("sum() can't sum strings; use ''.join(seq)"));
    }
    let iterator = context.iterate(&arguments[0])?;
    while let Some(item) = context.next(&iterator)? {
        total = context.binary(crate::code::BinaryOp::Add, &total, &item)?;
    }
    Ok(total)
}

fn any_or_all(context: &mut Context, iterable: &Value, wanted: bool) -> Result<Value, Fault> {
    let iterator = context.iterate(iterable)?;
    while let Some(item) = context.next(&iterator)? {
        if context.truth(&item) == wanted {
            return Ok(Value::Bool(wanted));
        }
    }
    Ok(Value::Bool(!wanted))
}

fn next(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    match (context.next(&arguments[0])?, arguments.get(1)) {
        (Some(item), _) => Ok(item),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(Fault::new(ErrorKind::StopIteration, "the iterator has no more values")),
    }
}

fn reversed(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let source = &arguments[0];
    let left = match source {
        Value::List(list) => list.items.borrow().len(),
        Value::Range(range) => usize::try_from(range.len).unwrap_or(usize::MAX),
        Value::Str(_) | Value::Dict(_) => {
            let items = context.collect(source)?;
            let left = items.len();
            let source = context.meter().tuple(items)?;
            return context.meter().iterator(State::Reversed { source, left });
        }
        other => match other.as_tuple() {
            Some(items) => items.len(),
            None => return Err(Fault::type_error(format!("'{}' object is not reversible", other.type_name()))),
        },
    };
    context.meter().iterator(State::Reversed { source: source.clone(), left })
}

fn enumerate(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let count = arguments.get(1).map_or(Ok(0), |start| need_int(start, "start"))?;
    let source = context.iterate(&arguments[0])?;
    context.meter().iterator(State::Enumerate { source, count })
}

fn iterators(context: &mut Context, arguments: &[Value]) -> Result<Vec<Value>, Fault> {
    arguments.iter().map(|argument| context.iterate(argument)).collect()
}

fn map(context: &mut Context, arguments: &[Value], _: Keywords<'_>) -> Result<Value, Fault> {
    let [function, sources @ ..] = arguments else { return Err(Fault::type_error("map() must have at least two arguments")) };
    if sources.is_empty() {
        return Err(Fault::type_error("map() must have at least two arguments"));
    }
    let sources = iterators(context, sources)?;
    context.meter().iterator(State::Map { function: function.clone(), sources: sources.into() })
}

fn zip(context: &mut Context, arguments: &[Value], _: Keywords<'_>) -> Result<Value, Fault> {
    let sources = iterators(context, arguments)?;
    context.meter().iterator(State::Zip { sources: sources.into() })
}

fn sorted(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
    check_count("sorted", arguments.len(), 1, 1)?;
    let [iterable, key, reverse] = arguments_of("sorted", arguments, keywords, ["iterable", "key", "reverse"], 1)?;
    let mut items = context.collect(&iterable)?;
    let reverse = context.truth(&reverse);
    context.sort_values(&mut items, &key, reverse)?;
    context.meter().list(items)
}

/// The first of the smallest or largest elements.
fn extreme(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>, name: &str) -> Result<Value, Fault> {
    let (mut key, mut default) = (Value::None, Value::Unset);
    for (keyword, value) in keywords {
        match *keyword {
            "key" => key = value.clone(),
            "default" => default = value.clone(),
            other => return Err(Fault::type_error(format!("{name}() has no parameter '{other}'"))),
        }
    }
    let iterator = match arguments {
        [] => return Err(Fault::type_error(format!("{name} expected at least 1 argument, got 0"))),
        [iterable] => context.iterate(iterable)?,
        several => {
            let several = context.meter().tuple(several.to_vec())?;
            context.iterate(&several)?
        }
    };
    let mut best: Option<(Value, Value)> = None;
    while let Some(item) = context.next(&iterator)? {
        let rank = if matches!(key, Value::None) { item.clone() } else { context.call(&key, std::slice::from_ref(&item))? };
        let is_better = match &best {
            None => true,
            Some((best, _)) if name == "min" => order::less(&rank, best, context.meter())?,
            Some((best, _)) => order::less(best, &rank, context.meter())?,
        };
        if is_better {
            best = Some((rank, item));
        }
    }
    match (best, default) {
        (Some((_, item)), _) => Ok(item),
        (None, Value::Unset) => Err(Fault::value_error(format!("{name}() arg is an empty sequence"))),
        (None, default) => Ok(default),
    }
}

/// Writes into the output of the run, as far as its limit allows.
/// Fuel for a call of `print` beside the texts that it makes.
const PRINT_FUEL: u64 = 8;

fn print(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
    context.spend(PRINT_FUEL)?;
    let (mut separator, mut end) = (" ".to_owned(), "\n".to_owned());
    for (keyword, value) in keywords {
        match (*keyword, value) {
            ("sep", Value::None) | ("end", Value::None) | ("flush", _) => {}
            ("sep", value) => separator = need_str(value, "sep")?.to_owned(),
            ("end", value) => end = need_str(value, "end")?.to_owned(),
            (other, _) => return Err(Fault::type_error(format!("print() has no parameter '{other}'"))),
        }
    }
    for (idx, argument) in arguments.iter().enumerate() {
        if idx > 0 {
            context.write_output(&separator);
        }
        let text = context.text_of(argument)?;
        context.write_output(&text);
    }
    context.write_output(&end);
    Ok(Value::None)
}

impl Context {
    fn write_output(&mut self, text: &str) {
        let mut len = text.len().min(self.limits.output - self.output.len().min(self.limits.output));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        self.output.push_str(&text[..len]);
    }
}
