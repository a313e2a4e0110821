//! Function builders: each gives a new function, which equals only itself.

use super::declare;
use super::fused;
use super::loose::Loose;
use super::read::{Outcome, int};
use hone_program::{Context, Fault, Value};

declare! {
    compose(outer: Callable, inner: Callable) -> Callable: "The function x -> outer(inner(x)).";
    chain(h: Callable, g: Callable, f: Callable) -> Callable: "The function x -> h(g(f(x))).";
    matcher(function: Callable, target: Any) -> Callable: "The function x -> whether function(x) equals the target.";
    rbind(function: Callable, fixed: Any) -> Callable: "The function with its last parameter fixed.";
    lbind(function: Callable, fixed: Any) -> Callable: "The function with its first parameter fixed.";
    power(function: Callable, n: Integer) -> Callable: "The function applied n times.";
    fork(outer: Callable, a: Callable, b: Callable) -> Callable: "The function x -> outer(a(x), b(x)).";
}

fn compose(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.function("compose", 1, arguments.to_vec(), |context, captured, arguments| {
        let inner = fused::apply(context, &captured[1], Loose::Kept(&arguments[0]))?;
        fused::apply(context, &captured[0], inner)?.into_value(context)
    })
}

fn chain(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.function("chain", 1, arguments.to_vec(), |context, captured, arguments| {
        let inner = fused::apply(context, &captured[2], Loose::Kept(&arguments[0]))?;
        let middle = fused::apply(context, &captured[1], inner)?;
        fused::apply(context, &captured[0], middle)?.into_value(context)
    })
}

fn matcher(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.function("matcher", 1, arguments.to_vec(), |context, captured, arguments| {
        let result = fused::value(context, &captured[0], &arguments[0])?;
        Ok(Value::Bool(context.equal(&result, &captured[1])?))
    })
}

fn fork(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.function("fork", 1, arguments.to_vec(), |context, captured, arguments| {
        let a = fused::apply(context, &captured[1], Loose::Kept(&arguments[0]))?;
        let b = fused::apply(context, &captured[2], Loose::Kept(&arguments[0]))?;
        fused::apply_two(context, &captured[0], a, b)?.into_value(context)
    })
}

fn power(context: &mut Context, arguments: &[Value]) -> Outcome {
    match int(&arguments[1])? {
        1 => Ok(arguments[0].clone()),
        n if n < 1 => Err(Fault::value_error(format!("a function is applied at least once, and n is {n}"))),
        _ => context.function("power", 1, arguments.to_vec(), |context, captured, arguments| {
            let n = int(&captured[1])?;
            let mut result = Loose::Kept(&arguments[0]);
            for _ in 0..n {
                result = fused::apply(context, &captured[0], result)?;
            }
            result.into_value(context)
        }),
    }
}

/// How many parameters remain when one is fixed. None remain of a function of one: such a binding cannot be called.
fn remaining(context: &Context, function: &Value) -> Result<usize, Fault> {
    match context.n_params(function) {
        Some(n) => Ok(n.saturating_sub(1)),
        None if function.is_callable() => {
            Err(Fault::type_error("a function that takes any number of values has no parameter to fix"))
        }
        None => Err(Fault::type_error(format!("a function is needed, and this is a {}", function.type_name()))),
    }
}

fn nothing_remains() -> Fault {
    Fault::type_error("the function has one parameter, and with that fixed nothing remains to be called")
}

fn rbind(context: &mut Context, arguments: &[Value]) -> Outcome {
    let n = remaining(context, &arguments[0])?;
    context.function("rbind", n, arguments.to_vec(), |context, captured, arguments| match arguments {
        [] => Err(nothing_remains()),
        [x] => context.call(&captured[0], &[x.clone(), captured[1].clone()]),
        [x, y] => context.call(&captured[0], &[x.clone(), y.clone(), captured[1].clone()]),
        more => context.call(&captured[0], &[more, &captured[1..]].concat()),
    })
}

fn lbind(context: &mut Context, arguments: &[Value]) -> Outcome {
    let n = remaining(context, &arguments[0])?;
    context.function("lbind", n, arguments.to_vec(), |context, captured, arguments| match arguments {
        [] => Err(nothing_remains()),
        [x] => context.call(&captured[0], &[captured[1].clone(), x.clone()]),
        [x, y] => context.call(&captured[0], &[captured[1].clone(), x.clone(), y.clone()]),
        more => context.call(&captured[0], &[&captured[1..], more].concat()),
    })
}
