//! Containers: building, membership, joining.

use super::declare;
use super::packed::{PatchSet, Point, as_patch};
use super::read::{Outcome, container, elements, grid_value, int, len, make, part, patch_value, set, sort, touch};
use crate::grid::Grid;
use crate::patch::Patch;
use hone_program::{Context, Fault, Items, Shape, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

declare! {
    identity(x: Any) -> Any: "x itself.";
    contained(value: Any, container: Container) -> Boolean: "Whether the value is an element.";
    size(container: Container) -> Integer: "The number of elements; of a grid, its rows.";
    initset(value: Any) -> FrozenSet: "The set of this one value.";
    insert(value: Any, container: FrozenSet) -> FrozenSet: "The set with the value in it.";
    remove(value: Any, container: Container) -> Container: "Without every element that equals the value.";
    other(container: Container, value: Any) -> Any: "The first element that is not the value.";
    combine(a: Container, b: Container) -> Container: "The elements of a, then those of b, in the kind of a.";
    intersection(a: FrozenSet, b: FrozenSet) -> FrozenSet: "What is in both sets.";
    difference(a: FrozenSet, b: FrozenSet) -> FrozenSet: "What is in a and not in b.";
    merge(containers: ContainerContainer) -> Container: "The elements of the elements, in the kind of the outer container.";
    dedupe(tup: Tuple) -> Tuple: "The first of equal elements, in order.";
    repeat(item: Any, num: Integer) -> Tuple: "A tuple of num copies.";
    interval(start: Integer, stop: Integer, step: Integer) -> Tuple: "Numbers from start in steps, before stop.";
    totuple(container: FrozenSet) -> Tuple: "The elements as a tuple.";
    product(a: Container, b: Container) -> FrozenSet: "All pairs of an element of a and one of b.";
    pair(a: Tuple, b: Tuple) -> TupleTuple: "Pairs of the elements at equal positions.";
    first(container: Container) -> Any: "The first element; of a cell, its colour.";
    last(container: Container) -> Any: "The last element; of a cell, its index.";
}

fn identity(_: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(arguments[0].clone())
}

fn contained(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (value, container) = (&arguments[0], &arguments[1]);
    Ok(Value::Bool(is_in(context, value, container)?))
}

/// Whether a value is an element of a container.
fn is_in(context: &mut Context, value: &Value, container: &Value) -> Result<bool, Fault> {
    if let Some(is_there) = told(context, value, container)? {
        return Ok(is_there);
    }
    let (_, items) = elements(context, container)?;
    is_among(context, value, container, &items)
}

/// Whether a value is an element, where the container's own representation tells.
fn told(context: &Context, value: &Value, container: &Value) -> Result<Option<bool>, Fault> {
    context.spend(1)?;
    match container.container() {
        Some((_, Items::Packed(packed))) => {
            context.spend(u64::from((packed.len() + 1).ilog2()))?;
            Ok(packed.contains(value))
        }
        _ => Ok(None),
    }
}

/// Whether a value is an element of a container that has these elements.
fn is_among(context: &Context, value: &Value, container: &Value, items: &[Value]) -> Result<bool, Fault> {
    if let Some(is_there) = told(context, value, container)? {
        return Ok(is_there);
    }
    if matches!(container, Value::FrozenSet(_)) {
        return is_in_order(context, value, items);
    }
    for item in items {
        context.spend(1)?;
        if context.equal(item, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a value is among ascending ones.
fn is_in_order(context: &Context, value: &Value, items: &[Value]) -> Result<bool, Fault> {
    let (mut low, mut high) = (0, items.len());
    while low < high {
        context.spend(1)?;
        let middle = usize::midpoint(low, high);
        match context.order(&items[middle], value)? {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(true),
            Ordering::Greater => high = middle,
        }
    }
    Ok(false)
}

fn size(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(len(context, &arguments[0])? as i64))
}

fn initset(context: &mut Context, arguments: &[Value]) -> Outcome {
    set(context, vec![arguments[0].clone()])
}

/// The elements of a set, or a fault: a tuple has no such operation.
fn of_set<'a>(context: &mut Context, value: &'a Value) -> Result<Cow<'a, [Value]>, Fault> {
    match elements(context, value)? {
        (Shape::FrozenSet, items) => Ok(items),
        (Shape::Tuple, _) => Err(Fault::type_error("a set is needed, and this is a tuple")),
    }
}

fn insert(context: &mut Context, arguments: &[Value]) -> Outcome {
    let mut items = of_set(context, &arguments[1])?.into_owned();
    items.push(arguments[0].clone());
    set(context, items)
}

fn remove(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (shape, items) = without(context, &arguments[1], &arguments[0])?;
    part(context, shape, items)
}

/// A container's elements that do not equal the value.
fn without(context: &mut Context, container: &Value, value: &Value) -> Result<(Shape, Vec<Value>), Fault> {
    let (shape, items) = elements(context, container)?;
    let mut kept = Vec::with_capacity(items.len());
    for item in items.iter() {
        if !context.equal(item, value)? {
            kept.push(item.clone());
        }
    }
    Ok((shape, kept))
}

fn other(context: &mut Context, arguments: &[Value]) -> Outcome {
    for item in elements(context, &arguments[0])?.1.iter() {
        if !context.equal(item, &arguments[1])? {
            return Ok(item.clone());
        }
    }
    Err(Fault::value_error("there is no other element"))
}

fn combine(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (&arguments[0], &arguments[1]);
    if let (Some(a), Some(b)) = (a.packed::<Grid>(), b.packed::<Grid>()) {
        make(context, (a.cells().len() + b.cells().len()) as i64, 1)?;
        if let Ok(joined) = a.vconcat(b) {
            return grid_value(context, joined);
        }
    }
    if let (Some(a), Some(b)) = (as_patch(a), as_patch(b)) {
        return merged_patches(context, &[a, b]);
    }
    let (shape, items) = elements(context, a)?;
    let (_, more) = elements(context, b)?;
    context.meter().room((items.len() + more.len()) * size_of::<Value>())?;
    container(context, shape, [&items[..], &more[..]].concat())
}

fn intersection(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (&arguments[0], &arguments[1]);
    if let (Some(a), Some(b)) = (as_patch(a), as_patch(b)) {
        touch(context, a.len() + b.len())?;
        return patch_value(context, a.intersection(b));
    }
    let theirs = of_set(context, b)?;
    let mut items = Vec::new();
    for item in of_set(context, a)?.iter() {
        if is_among(context, item, b, &theirs)? {
            items.push(item.clone());
        }
    }
    part(context, Shape::FrozenSet, items)
}

fn difference(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (&arguments[0], &arguments[1]);
    if let (Some(a), Some(b)) = (as_patch(a), as_patch(b)) {
        touch(context, a.len() + b.len())?;
        return patch_value(context, a.difference(b));
    }
    let (shape, items) = elements(context, a)?;
    let (_, theirs) = elements(context, b)?;
    let mut kept = Vec::new();
    for item in items.iter() {
        if !is_among(context, item, b, &theirs)? {
            kept.push(item.clone());
        }
    }
    part(context, shape, kept)
}

fn merge(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let Some(set) = arguments[0].packed::<PatchSet>() {
        let patches: Vec<&Patch> = set.patches().collect();
        return merged_patches(context, &patches);
    }
    let (shape, containers) = elements(context, &arguments[0])?;
    merged(context, shape, &containers)
}

/// The elements of containers in one container of this kind.
pub(super) fn merged(context: &mut Context, shape: Shape, containers: &[Value]) -> Outcome {
    if shape == Shape::FrozenSet
        && let Some(patches) = containers.iter().map(as_patch).collect::<Option<Vec<_>>>()
    {
        return merged_patches(context, &patches);
    }
    if shape == Shape::Tuple
        && let Some(grids) = containers.iter().map(Value::packed::<Grid>).collect::<Option<Vec<_>>>()
        && let Some(joined) = stacked(context, &grids)?
    {
        return grid_value(context, joined);
    }
    let mut items = Vec::new();
    for inner in containers {
        let (_, inner) = elements(context, inner)?;
        context.spend(inner.len() as u64)?;
        items.extend_from_slice(&inner);
    }
    container(context, shape, items)
}

/// The union of patches; those of one kind stay packed.
fn merged_patches(context: &mut Context, patches: &[&Patch]) -> Outcome {
    let n: usize = patches.iter().map(|patch| patch.len()).sum();
    make(context, n as i64, size_of::<u64>())?;
    sort(context, n)?;
    let mut kinds = patches.iter().filter(|patch| !patch.is_empty()).map(|patch| patch.kind());
    let kind = kinds.next().unwrap_or(Patch::default().kind());
    if kinds.all(|other| other == kind) {
        if let [a, b] = patches {
            return patch_value(context, a.union(b));
        }
        let mut keys = Vec::with_capacity(n);
        patches.iter().for_each(|patch| keys.extend_from_slice(patch.keys()));
        return patch_value(context, Patch::of(kind, keys));
    }
    let mut items = Vec::new();
    for patch in patches {
        for &key in patch.keys() {
            items.push(Point { kind: patch.kind(), key }.value());
        }
    }
    context.meter().frozenset(items)
}

/// Grids one below the other, where they have one width and there is at least one.
fn stacked(context: &mut Context, grids: &[&Grid]) -> Result<Option<Grid>, Fault> {
    let n: usize = grids.iter().map(|grid| grid.cells().len()).sum();
    make(context, n as i64, 1)?;
    let mut with_rows = grids.iter().filter(|grid| grid.height() > 0);
    let Some(width) = with_rows.next().map(|grid| grid.width()) else { return Ok(None) };
    if !with_rows.all(|grid| grid.width() == width) {
        return Ok(None);
    }
    let height = grids.iter().map(|grid| grid.height()).sum();
    Ok(Some(Grid::new(height, width, grids.iter().flat_map(|grid| grid.cells()).copied().collect())))
}

fn dedupe(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (shape, items) = elements(context, &arguments[0])?;
    if shape == Shape::FrozenSet {
        return Err(Fault::type_error("a tuple is needed, and this is a set"));
    }
    let mut keyed: Vec<usize> = (0..items.len()).collect();
    sort_places(context, &items, &mut keyed)?;
    let mut is_kept = vec![true; items.len()];
    for two in keyed.windows(2) {
        // Equal elements stand side by side, the earliest first.
        is_kept[two[1]] = !context.equal(&items[two[0]], &items[two[1]])?;
    }
    let kept = items.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept).map(|(item, _)| item.clone());
    context.meter().tuple(kept.collect())
}

/// Sorts places by the structural order of the elements there, stably.
fn sort_places(context: &Context, items: &[Value], places: &mut [usize]) -> Result<(), Fault> {
    let mut fault = None;
    context.spend((places.len() as u64).saturating_mul(u64::from(places.len().max(2).ilog2())))?;
    places.sort_by(|&a, &b| {
        context.order(&items[a], &items[b]).unwrap_or_else(|failed| {
            fault.get_or_insert(failed);
            Ordering::Equal
        })
    });
    fault.map_or(Ok(()), Err)
}

fn repeat(context: &mut Context, arguments: &[Value]) -> Outcome {
    let n = int(&arguments[1])?.max(0);
    context.spend(n as u64)?;
    make(context, n, size_of::<Value>())?;
    context.meter().tuple(vec![arguments[0].clone(); n as usize])
}

fn interval(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (start, stop, step) = (int(&arguments[0])?, int(&arguments[1])?, int(&arguments[2])?);
    if step == 0 {
        return Err(Fault::value_error("the step must not be 0"));
    }
    let (distance, step_len) = (i128::from(stop) - i128::from(start), i128::from(step));
    let n = if (distance > 0) == (step > 0) { (distance.abs() + step_len.abs() - 1) / step_len.abs() } else { 0 };
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    context.spend(n as u64)?;
    make(context, n, size_of::<Value>())?;
    // The last number lies before `stop`; only the product on the way to it may leave the 64 bits.
    context.meter().tuple((0..n).map(|nth| Value::Int(start.wrapping_add(nth.wrapping_mul(step)))).collect())
}

fn totuple(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (_, items) = elements(context, &arguments[0])?;
    context.meter().tuple(items.into_owned())
}

fn product(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (shape_a, a) = elements(context, &arguments[0])?;
    let (shape_b, b) = elements(context, &arguments[1])?;
    let n = a.len().saturating_mul(b.len());
    context.spend(n as u64)?;
    context.meter().room(n.saturating_mul(size_of::<Value>()))?;
    let mut pairs = Vec::with_capacity(n);
    for x in a.iter() {
        for y in b.iter() {
            pairs.push(context.meter().pair(x.clone(), y.clone())?);
        }
    }
    // Pairs of what ascends in two sets ascend as well.
    match (shape_a, shape_b) {
        (Shape::FrozenSet, Shape::FrozenSet) => part(context, Shape::FrozenSet, pairs),
        _ => set(context, pairs),
    }
}

fn pair(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (_, a) = elements(context, &arguments[0])?;
    let (_, b) = elements(context, &arguments[1])?;
    let mut pairs = Vec::with_capacity(a.len().min(b.len()));
    for (x, y) in a.iter().zip(b.iter()) {
        pairs.push(context.meter().pair(x.clone(), y.clone())?);
    }
    context.meter().tuple(pairs)
}

fn first(context: &mut Context, arguments: &[Value]) -> Outcome {
    element(context, &arguments[0], |_| 0)
}

fn last(context: &mut Context, arguments: &[Value]) -> Outcome {
    element(context, &arguments[0], |len| len - 1)
}

/// The element at one end of a container.
pub(super) fn element(context: &mut Context, value: &Value, at: impl Fn(usize) -> usize) -> Outcome {
    let empty = || Fault::value_error("an empty container has no first or last element");
    if let Some(pair) = value.as_pair() {
        return Ok(pair.element(at(2)));
    }
    if let Some((_, items)) = value.container() {
        return if items.is_empty() { Err(empty()) } else { items.get(at(items.len()), context.meter()) };
    }
    let (_, items) = elements(context, value)?;
    if items.is_empty() { Err(empty()) } else { Ok(items[at(items.len())].clone()) }
}
