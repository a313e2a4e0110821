//! Containers: selecting, ranking, counting.

use super::containers::{element, merged};
use super::declare;
use super::fused;
use super::loose::Loose;
use super::packed::{Point, as_patch};
use super::read::{Outcome, elements, int, len, part, patch_value, set};
use crate::patch::Patch;
use hone_program::{Context, Fault, Items, Shape, Value};
use std::borrow::Cow;

declare! {
    sfilter(container: Container, condition: Callable) -> Container:
        "The elements for which the condition holds, in the same kind.";
    mfilter(container: Container, function: Callable) -> FrozenSet: "sfilter, then merge.";
    extract(container: Container, condition: Callable) -> Any: "The first element for which the condition holds.";
    sizefilter(container: Container, n: Integer) -> FrozenSet: "The elements that have exactly n elements.";
    colorfilter(objs: Objects, value: Integer) -> Objects: "The objects of this colour.";
    order(container: Container, compfunc: Callable) -> Tuple: "The elements sorted by what compfunc gives, lowest first.";
    maximum(container: IntegerSet) -> Integer: "The greatest element; 0 if there is none.";
    minimum(container: IntegerSet) -> Integer: "The least element; 0 if there is none.";
    valmax(container: Container, compfunc: Callable) -> Integer: "The greatest that compfunc gives for an element.";
    valmin(container: Container, compfunc: Callable) -> Integer: "The least that compfunc gives for an element.";
    argmax(container: Container, compfunc: Callable) -> Any: "The element for which compfunc gives the greatest.";
    argmin(container: Container, compfunc: Callable) -> Any: "The element for which compfunc gives the least.";
    mostcommon(container: Container) -> Any: "The value that occurs most in a tuple.";
    leastcommon(container: Container) -> Any: "The value that occurs least in a tuple.";
}

fn sfilter(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let Some(patch) = as_patch(&arguments[0]) {
        return filtered_patch(context, patch, &arguments[1]);
    }
    let (shape, kept) = filtered(context, &arguments[0], &arguments[1])?;
    part(context, shape, kept)
}

/// The elements of a patch for which a condition holds, without making them values all at once.
fn filtered_patch(context: &mut Context, patch: &Patch, condition: &Value) -> Outcome {
    context.spend(patch.len() as u64 / 2 + 1)?;
    context.meter().room(patch.len().saturating_mul(size_of::<u64>()))?;
    let mut kept = Vec::with_capacity(patch.len());
    for &key in patch.keys() {
        let item = Loose::Made(Point { kind: patch.kind(), key }.value());
        if fused::apply(context, condition, item)?.is_true() {
            kept.push(key);
        }
    }
    patch_value(context, Patch::sorted(patch.kind(), kept))
}

fn filtered(context: &mut Context, container: &Value, condition: &Value) -> Result<(Shape, Vec<Value>), Fault> {
    let (shape, items) = elements(context, container)?;
    let mut kept = Vec::with_capacity(items.len());
    for item in items.iter() {
        if fused::apply(context, condition, Loose::Kept(item))?.is_true() {
            kept.push(item.clone());
        }
    }
    Ok((shape, kept))
}

fn mfilter(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (shape, kept) = filtered(context, &arguments[0], &arguments[1])?;
    merged(context, shape, &kept)
}

fn extract(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (_, items) = elements(context, &arguments[0])?;
    for item in items.iter() {
        if fused::apply(context, &arguments[1], Loose::Kept(item))?.is_true() {
            return Ok(item.clone());
        }
    }
    Err(Fault::value_error("no element meets the condition"))
}

fn sizefilter(context: &mut Context, arguments: &[Value]) -> Outcome {
    let n = int(&arguments[1])?;
    let (shape, items) = elements(context, &arguments[0])?;
    let mut kept = Vec::new();
    for item in items.iter() {
        if len(context, item)? as i64 == n {
            kept.push(item.clone());
        }
    }
    match shape {
        Shape::FrozenSet => part(context, shape, kept),
        Shape::Tuple => set(context, kept),
    }
}

fn colorfilter(context: &mut Context, arguments: &[Value]) -> Outcome {
    let mut kept = Vec::new();
    for item in elements(context, &arguments[0])?.1.iter() {
        let cell = element(context, item, |_| 0)?;
        let colour = element(context, &cell, |_| 0)?;
        if context.equal(&colour, &arguments[1])? {
            kept.push(item.clone());
        }
    }
    set(context, kept)
}

/// Each element behind what a function gives for it.
fn keyed(context: &mut Context, container: &Value, function: &Value) -> Result<Vec<(Value, Value)>, Fault> {
    let (_, items) = elements(context, container)?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items.iter() {
        keyed.push((fused::value(context, function, item)?, item.clone()));
    }
    Ok(keyed)
}

fn order(context: &mut Context, arguments: &[Value]) -> Outcome {
    let mut keyed = keyed(context, &arguments[0], &arguments[1])?;
    context.sort_by_key(&mut keyed)?;
    context.meter().tuple(keyed.into_iter().map(|(_, item)| item).collect())
}

/// Which of two is better.
type Better = fn(&Context, &Value, &Value) -> Result<bool, Fault>;

fn is_more(context: &Context, challenger: &Value, incumbent: &Value) -> Result<bool, Fault> {
    context.less(incumbent, challenger)
}

fn is_less(context: &Context, challenger: &Value, incumbent: &Value) -> Result<bool, Fault> {
    context.less(challenger, incumbent)
}

/// Sets are compared by how many elements they have: by inclusion, most pairs would be neither greater nor less.
fn is_more_or_larger(context: &Context, challenger: &Value, incumbent: &Value) -> Result<bool, Fault> {
    match (challenger.as_frozenset(), incumbent.as_frozenset()) {
        (Some(challenger), Some(incumbent)) => Ok(challenger.len() > incumbent.len()),
        _ => is_more(context, challenger, incumbent),
    }
}

/// The best by its key with that key, the first of equals.
fn best(context: &mut Context, arguments: &[Value], is_better: Better) -> Result<Option<(Value, Value)>, Fault> {
    let (_, items) = elements(context, &arguments[0])?;
    let mut best: Option<(Value, &Value)> = None;
    for item in items.iter() {
        let key = fused::value(context, &arguments[1], item)?;
        if best.as_ref().map_or(Ok(true), |(incumbent, _)| is_better(context, &key, incumbent))? {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(key, item)| (key, item.clone())))
}

/// The best element itself; 0 if there is none.
fn best_element(context: &mut Context, container: &Value, is_better: Better) -> Outcome {
    if let Some((_, Items::Plain(items))) = container.container() {
        context.spend(items.len() as u64 + 1)?;
        return best_of(context, items, is_better);
    }
    let (_, items) = elements(context, container)?;
    best_of(context, &items, is_better)
}

fn best_of(context: &Context, items: &[Value], is_better: Better) -> Outcome {
    let mut items = items.iter();
    let Some(mut incumbent) = items.next() else { return Ok(Value::Int(0)) };
    for challenger in items {
        if is_better(context, challenger, incumbent)? {
            incumbent = challenger;
        }
    }
    Ok(incumbent.clone())
}

fn maximum(context: &mut Context, arguments: &[Value]) -> Outcome {
    best_element(context, &arguments[0], is_more)
}

fn minimum(context: &mut Context, arguments: &[Value]) -> Outcome {
    best_element(context, &arguments[0], is_less)
}

/// The best key; what the function gives for 0 if there is no element.
fn best_key(context: &mut Context, arguments: &[Value], is_better: Better) -> Outcome {
    match best(context, arguments, is_better)? {
        Some((key, _)) => Ok(key),
        None => context.call(&arguments[1], &[Value::Int(0)]),
    }
}

fn valmax(context: &mut Context, arguments: &[Value]) -> Outcome {
    best_key(context, arguments, is_more)
}

fn valmin(context: &mut Context, arguments: &[Value]) -> Outcome {
    best_key(context, arguments, is_less)
}

/// The element of the best key.
fn best_by_key(context: &mut Context, arguments: &[Value], is_better: Better) -> Outcome {
    let found = best(context, arguments, is_better)?;
    found.map(|(_, item)| item).ok_or_else(|| Fault::value_error("an empty container has no best element"))
}

fn argmax(context: &mut Context, arguments: &[Value]) -> Outcome {
    best_by_key(context, arguments, is_more_or_larger)
}

fn argmin(context: &mut Context, arguments: &[Value]) -> Outcome {
    best_by_key(context, arguments, is_less)
}

fn mostcommon(context: &mut Context, arguments: &[Value]) -> Outcome {
    let items = of_tuple(context, &arguments[0])?;
    most_of(tally(context, &items)?).ok_or_else(nothing)
}

fn leastcommon(context: &mut Context, arguments: &[Value]) -> Outcome {
    let items = of_tuple(context, &arguments[0])?;
    least_of(tally(context, &items)?).ok_or_else(nothing)
}

fn of_tuple<'a>(context: &mut Context, value: &'a Value) -> Result<Cow<'a, [Value]>, Fault> {
    match elements(context, value)? {
        (Shape::Tuple, items) => Ok(items),
        (Shape::FrozenSet, _) => Err(Fault::type_error("a tuple is needed: in a set everything occurs once")),
    }
}

/// The value that occurs most among ascending ones, the lowest on a tie.
pub(super) fn most_of(tally: Vec<(Value, usize)>) -> Option<Value> {
    // The last of equal maxima wins, so that the lowest value has to come last.
    tally.into_iter().rev().max_by_key(|(_, n)| *n).map(|(value, _)| value)
}

/// The value that occurs least among ascending ones, the lowest on a tie.
pub(super) fn least_of(tally: Vec<(Value, usize)>) -> Option<Value> {
    tally.into_iter().min_by_key(|(_, n)| *n).map(|(value, _)| value)
}

fn nothing() -> Fault {
    Fault::value_error("nothing occurs in an empty container")
}

/// The distinct values in ascending order with how often each occurs.
pub(super) fn tally(context: &Context, items: &[Value]) -> Result<Vec<(Value, usize)>, Fault> {
    let distinct = context.meter().frozenset(items.to_vec())?;
    let mut tally = Vec::new();
    if let Some(values) = distinct.as_frozenset() {
        for idx in 0..values.len() {
            tally.push((values.get(idx, context.meter())?, 0));
        }
    }
    for item in items {
        let place = place_of(context, &tally, item)?;
        tally[place].1 += 1;
    }
    Ok(tally)
}

/// Where a value stands among ascending ones, one of which it equals.
fn place_of(context: &Context, tally: &[(Value, usize)], item: &Value) -> Result<usize, Fault> {
    let (mut low, mut high) = (0, tally.len() - 1);
    while low < high {
        let middle = (low + high) / 2;
        if context.order(&tally[middle].0, item)?.is_lt() { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
