//! The modules `functools`, `operator` and `copy`.

use crate::code::BinaryOp;
use crate::context::{ANY_PARAMS, Context, check_count};
use crate::fault::Fault;
use crate::invoke::Keywords;
use crate::library::Module;
use crate::order::{self, Comparison, NESTING_MAX};
use crate::value::Value;

pub(super) fn functools() -> Module {
    Module::new("functools")
        .function_with_optional("reduce", &["function", "iterable", "initial"], 2, reduce)
        .variadic("partial", partial)
        .variadic("lru_cache", cache)
        .function("cache", &["function"], |context, arguments| remembering(context, &arguments[0]))
        .function("cmp_to_key", &["function"], |_, _| Err(Fault::type_error("cmp_to_key is not part of the subset; use key=")))
}

fn reduce(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let iterator = context.iterate(&arguments[1])?;
    let first = match arguments.get(2) {
        Some(initial) => Some(initial.clone()),
        None => context.next(&iterator)?,
    };
    let Some(mut total) = first else { return Err(Fault::type_error("reduce() of empty iterable with no initial value")) };
    while let Some(item) = context.next(&iterator)? {
        total = context.call(&arguments[0], &[total, item])?;
    }
    Ok(total)
}

fn partial(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
    if arguments.is_empty() || !keywords.is_empty() {
        return Err(Fault::type_error("partial() takes a function and positional arguments"));
    }
    context.function("partial", ANY_PARAMS, arguments.to_vec(), |context, captured, arguments| {
        let all: Vec<Value> = captured[1..].iter().chain(arguments).cloned().collect();
        context.call(&captured[0], &all)
    })
}

/// `@lru_cache` and `@lru_cache(maxsize=None)`: remembers every result.
fn cache(context: &mut Context, arguments: &[Value], _: Keywords<'_>) -> Result<Value, Fault> {
    match arguments {
        [function] if function.is_callable() => remembering(context, function),
        _ => context.function("lru_cache", 1, Vec::new(), |context, _, arguments| remembering(context, &arguments[0])),
    }
}

fn remembering(context: &mut Context, function: &Value) -> Result<Value, Fault> {
    let known = Value::Dict(context.meter().dict()?);
    context.function("cached", ANY_PARAMS, vec![function.clone(), known], |context, captured, arguments| {
        let key = context.meter().tuple(arguments.to_vec())?;
        if let Value::Dict(known) = &captured[1]
            && let Some(value) = known.get(&key)?
        {
            return Ok(value);
        }
        let value = context.call(&captured[0], arguments)?;
        context.store_subscript(&captured[1], key, value.clone())?;
        Ok(value)
    })
}

macro_rules! binary {
    ($module:expr, $($name:literal $op:ident),*) => {
        $module$(.function($name, &["a", "b"], |context, arguments| context.binary(BinaryOp::$op, &arguments[0], &arguments[1])))*
    };
}

macro_rules! comparison {
    ($module:expr, $($name:literal $op:ident),*) => {
        $module$(.function($name, &["a", "b"], |context, arguments| {
            order::compare(Comparison::$op, &arguments[0], &arguments[1], context.meter()).map(Value::Bool)
        }))*
    };
}

pub(super) fn operator() -> Module {
    let module = Module::new("operator")
        .variadic("itemgetter", item_getter)
        .function("eq", &["a", "b"], |context, arguments| context.equal(&arguments[0], &arguments[1]).map(Value::Bool))
        .function("ne", &["a", "b"], |context, arguments| {
            context.equal(&arguments[0], &arguments[1]).map(|equal| Value::Bool(!equal))
        })
        .function("not_", &["a"], |context, arguments| Ok(Value::Bool(!context.truth(&arguments[0]))))
        .function("neg", &["a"], |context, arguments| context.binary(BinaryOp::Subtract, &Value::Int(0), &arguments[0]))
        .function("getitem", &["a", "b"], |context, arguments| context.subscript(&arguments[0], &arguments[1]))
        .function("contains", &["a", "b"], |context, arguments| context.contains(&arguments[0], &arguments[1]).map(Value::Bool));
    let module = comparison!(module, "lt" Less, "le" LessEqual, "gt" Greater, "ge" GreaterEqual);
    binary!(
        module, "add" Add, "sub" Subtract, "mul" Multiply, "truediv" Divide, "floordiv" FloorDivide, "mod" Modulo, "pow" Power,
        "and_" And, "or_" Or, "xor" Xor
    )
}

fn item_getter(context: &mut Context, arguments: &[Value], _: Keywords<'_>) -> Result<Value, Fault> {
    check_count("itemgetter", arguments.len(), 1, 64)?;
    context.function("itemgetter", 1, arguments.to_vec(), |context, captured, arguments| {
        if let [only] = captured {
            return context.subscript(&arguments[0], only);
        }
        let items = captured.iter().map(|index| context.subscript(&arguments[0], index)).collect::<Result<_, _>>()?;
        context.meter().tuple(items)
    })
}

pub(super) fn copy() -> Module {
    Module::new("copy")
        .function("copy", &["x"], |context, arguments| match &arguments[0] {
            value @ (Value::List(_) | Value::Dict(_) | Value::Set(_)) => {
                context.call_method(value, crate::method::MethodName::Copy, &[], &[])
            }
            other => Ok(other.clone()),
        })
        .function("deepcopy", &["x"], |context, arguments| deep_copy(context, &arguments[0], 0))
}

fn deep_copy(context: &mut Context, value: &Value, depth: usize) -> Result<Value, Fault> {
    context.spend(1)?;
    if depth > NESTING_MAX {
        return Err(Fault::depth("values", NESTING_MAX));
    }
    match value {
        Value::List(_) => {
            let items = context.collect(value)?;
            let items = items.iter().map(|item| deep_copy(context, item, depth + 1)).collect::<Result<_, _>>()?;
            context.meter().list(items)
        }
        Value::Tuple(tuple) if tuple.items.iter().any(Value::is_nest) => {
            let items = tuple.items.iter().map(|item| deep_copy(context, item, depth + 1)).collect::<Result<_, _>>()?;
            context.meter().tuple(items)
        }
        Value::Set(_) => context.call_method(value, crate::method::MethodName::Copy, &[], &[]),
        Value::Dict(dict) => {
            let copy = context.meter().dict_of(dict.kind, dict.default())?;
            for (key, value) in dict.entries()? {
                let value = deep_copy(context, &value, depth + 1)?;
                copy.insert(key, value)?;
            }
            Ok(Value::Dict(copy))
        }
        other => Ok(other.clone()),
    }
}
