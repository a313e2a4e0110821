//! Applying functions over containers.

use super::containers::merged;
use super::declare;
use super::fused;
use super::gathered::Gathered;
use super::loose::Loose;
use super::read::{Outcome, container, elements, set};
use hone_program::{Context, Fault, Pair, Shape, Value};

declare! {
    apply(function: Callable, container: Container) -> Container: "The function of each element, in the same kind.";
    rapply(functions: Container, value: Any) -> Container: "Each function of the one value.";
    mapply(function: Callable, container: ContainerContainer) -> FrozenSet: "apply, then merge.";
    papply(function: Callable, a: Tuple, b: Tuple) -> Tuple: "The function of the elements of a and b at equal positions.";
    mpapply(function: Callable, a: Tuple, b: Tuple) -> Tuple: "papply, then merge into a tuple.";
    prapply(function: Callable, a: Container, b: Container) -> FrozenSet:
        "The function of every pair of an element of a and one of b.";
}

fn apply(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let Some(pair) = arguments[1].as_pair() {
        return to_pair(context, &arguments[0], pair);
    }
    let (shape, results) = applied(context, &arguments[0], &arguments[1])?;
    container(context, shape, results)
}

/// The function of both elements of a pair.
pub(super) fn to_pair(context: &mut Context, function: &Value, pair: Pair) -> Outcome {
    context.spend(3)?;
    let first = fused::apply(context, function, Loose::Made(pair.element(0)))?.into_value(context)?;
    let second = fused::apply(context, function, Loose::Made(pair.element(1)))?.into_value(context)?;
    context.meter().pair(first, second)
}

fn applied(context: &mut Context, function: &Value, container: &Value) -> Result<(Shape, Vec<Value>), Fault> {
    let (shape, items) = elements(context, container)?;
    let mut results = Vec::with_capacity(items.len());
    // Many lines and parts are empty: a set takes the first of them only.
    let mut has_empty = false;
    for item in items.iter() {
        let result = fused::apply(context, function, Loose::Kept(item))?;
        let is_empty = matches!(&result, Loose::Patch(patch) if patch.is_empty());
        if !(is_empty && has_empty && shape == Shape::FrozenSet) {
            results.push(result.into_value(context)?);
        }
        has_empty |= is_empty;
    }
    Ok((shape, results))
}

fn rapply(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (shape, functions) = elements(context, &arguments[0])?;
    let mut results = Vec::with_capacity(functions.len());
    for function in functions.iter() {
        results.push(fused::value(context, function, &arguments[1])?);
    }
    container(context, shape, results)
}

fn mapply(context: &mut Context, arguments: &[Value]) -> Outcome {
    if arguments[1].as_frozenset().is_some() {
        let (_, items) = elements(context, &arguments[1])?;
        let mut gathered = Gathered::new(context)?;
        for item in items.iter() {
            gathered.take(context, &arguments[0], item)?;
        }
        return gathered.into_value(context);
    }
    let (shape, results) = applied(context, &arguments[0], &arguments[1])?;
    merged(context, shape, &results)
}

fn papply(context: &mut Context, arguments: &[Value]) -> Outcome {
    let results = in_parallel(context, arguments)?;
    context.meter().tuple(results)
}

fn in_parallel(context: &mut Context, arguments: &[Value]) -> Result<Vec<Value>, Fault> {
    let (_, a) = elements(context, &arguments[1])?;
    let (_, b) = elements(context, &arguments[2])?;
    let mut results = Vec::with_capacity(a.len().min(b.len()));
    for (x, y) in a.iter().zip(b.iter()) {
        results.push(fused::apply_two(context, &arguments[0], Loose::Kept(x), Loose::Kept(y))?.into_value(context)?);
    }
    Ok(results)
}

fn mpapply(context: &mut Context, arguments: &[Value]) -> Outcome {
    let results = in_parallel(context, arguments)?;
    merged(context, Shape::Tuple, &results)
}

fn prapply(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (_, a) = elements(context, &arguments[1])?;
    let (_, b) = elements(context, &arguments[2])?;
    context.meter().room(a.len().saturating_mul(b.len()).saturating_mul(size_of::<Value>()))?;
    let mut results = Vec::with_capacity(a.len() * b.len());
    for x in a.iter() {
        for y in b.iter() {
            results.push(fused::apply_two(context, &arguments[0], Loose::Kept(x), Loose::Kept(y))?.into_value(context)?);
        }
    }
    set(context, results)
}
