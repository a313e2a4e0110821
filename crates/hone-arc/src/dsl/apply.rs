//! Applying functions over containers.

use super::containers::merged;
use super::declare;
use super::fused::{Fused, Joint};
use super::gathered::Gathered;
use super::loose::Loose;
use super::read::{Outcome, container, elements, set};
use hone_program::{Context, Fault, Shape, Value};

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
    let (shape, results) = applied(context, &arguments[0], &arguments[1])?;
    container(context, shape, results)
}

fn applied(context: &mut Context, function: &Value, container: &Value) -> Result<(Shape, Vec<Value>), Fault> {
    let (shape, items) = elements(context, container)?;
    let function = Fused::new(function, items.len());
    let mut results = Vec::with_capacity(items.len());
    // Many lines and parts are empty: a set takes the first of them only.
    let mut has_empty = false;
    for item in &items {
        let result = function.apply(context, &Loose::Kept(item))?;
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
    for function in functions {
        results.push(context.call(&function, &arguments[1..])?);
    }
    container(context, shape, results)
}

fn mapply(context: &mut Context, arguments: &[Value]) -> Outcome {
    if arguments[1].as_frozenset().is_some() {
        let (_, items) = elements(context, &arguments[1])?;
        let function = Fused::new(&arguments[0], items.len());
        let mut gathered = Gathered::new(context)?;
        for item in &items {
            gathered.take(context, &function, &Loose::Kept(item))?;
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
    let function = Joint::new(&arguments[0]);
    for (x, y) in a.iter().zip(&b) {
        results.push(function.apply(context, &Loose::Kept(x), &Loose::Kept(y))?.into_value(context)?);
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
    let function = Joint::new(&arguments[0]);
    for x in &a {
        for y in &b {
            results.push(function.apply(context, &Loose::Kept(x), &Loose::Kept(y))?.into_value(context)?);
        }
    }
    set(context, results)
}
