//! Values into grids, patches and numbers, and back.
//!
//! A value is read in whichever representation it comes. What it costs is spent before the work, and room is asked for before
//! it is taken: eight packed elements count as one step, and one that has to find its place among others counts as one.

use super::packed::{PatchSet, Point, as_patch};
use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::{Kind, Patch, Place};
use hone_program::{Context, ErrorKind, Fault, Items, Pair, Shape, Value};
use std::borrow::Cow;

/// What a native gives back.
pub(super) type Outcome = Result<Value, Fault>;

impl From<Misuse> for Fault {
    fn from(misuse: Misuse) -> Self {
        Self::value_error(misuse.to_string())
    }
}

/// Spends the fuel of touching so many packed elements.
pub(super) fn touch(context: &Context, n: usize) -> Result<(), Fault> {
    context.spend(1 + n as u64 / 8)
}

/// Spends the fuel of putting so many packed elements in order.
pub(super) fn sort(context: &Context, n: usize) -> Result<(), Fault> {
    context.spend(n as u64)
}

/// Spends the fuel of making so many packed elements and asks for their room, before they are made.
pub(super) fn make(context: &Context, n: i64, bytes_each: usize) -> Result<(), Fault> {
    let n = usize::try_from(n).unwrap_or(0);
    touch(context, n)?;
    context.meter().room(n.saturating_mul(bytes_each))
}

/// The product of two sizes; anything below zero is zero.
pub(super) fn area(height: i64, width: i64) -> i64 {
    height.max(0).saturating_mul(width.max(0))
}

fn wanted(what: &str, value: &Value) -> Fault {
    Fault::type_error(format!("{what} is needed, and this is a {}", value.type_name()))
}

/// A whole number; booleans count as 0 and 1.
pub(super) fn int(value: &Value) -> Result<i64, Fault> {
    value.as_int().ok_or_else(|| match value {
        Value::Big(_) => Fault::new(ErrorKind::Overflow, "numbers of the grid language have 64 bits"),
        other => wanted("a whole number", other),
    })
}

/// A pair of whole numbers.
pub(super) fn place(context: &Context, value: &Value) -> Result<Place, Fault> {
    if let Some(numbers) = value.as_pair().and_then(Pair::numbers) {
        return Ok(numbers);
    }
    match value.as_tuple() {
        Some(Items::Plain([row, column])) => Ok((int(row)?, int(column)?)),
        Some(items) if items.len() == 2 => Ok((int(&items.get(0, context.meter())?)?, int(&items.get(1, context.meter())?)?)),
        _ => Err(wanted("a pair of whole numbers", value)),
    }
}

/// The pair as a value.
pub(super) fn place_value(context: &Context, (row, column): Place) -> Outcome {
    match Pair::new(row, column) {
        Some(pair) => Ok(Value::Pair(pair)),
        None => context.meter().tuple(vec![Value::Int(row), Value::Int(column)]),
    }
}

/// A colour of a grid.
pub(super) fn colour(value: &Value) -> Result<i8, Fault> {
    Ok(crate::paint::colour(int(value)?)?)
}

/// Whether a value is a tuple, and so a grid where a grid or a patch is meant.
pub(super) fn is_tuple(value: &Value) -> bool {
    matches!(value.container(), Some((Shape::Tuple, _))) || matches!(value, Value::List(_))
}

/// The elements of a container with what it is; a list counts as a tuple, a mutable set as an immutable one.
pub(super) fn elements<'a>(context: &mut Context, value: &'a Value) -> Result<(Shape, Cow<'a, [Value]>), Fault> {
    let shape = match value {
        Value::List(_) | Value::Range(_) => Shape::Tuple,
        Value::Set(_) => Shape::FrozenSet,
        other if let Some(set) = other.packed::<PatchSet>() => {
            context.spend(set.values().len() as u64 + 1)?;
            return Ok((Shape::FrozenSet, Cow::Borrowed(set.values())));
        }
        other => match other.container().ok_or_else(|| wanted("a tuple or a set", other))? {
            (shape, Items::Plain(items)) => {
                context.spend(items.len() as u64 + 1)?;
                return Ok((shape, Cow::Borrowed(items)));
            }
            (shape, Items::Packed(_)) => shape,
        },
    };
    let items = context.collect(value)?;
    // Whoever asks for the elements looks at each of them.
    context.spend(items.len() as u64 / 2)?;
    Ok((shape, Cow::Owned(items)))
}

/// The number of elements of a container.
pub(super) fn len(context: &mut Context, value: &Value) -> Result<usize, Fault> {
    match value.container() {
        Some((_, items)) => Ok(items.len()),
        None => Ok(elements(context, value)?.1.len()),
    }
}

/// A container of these elements: a tuple as they come, or a set of them.
pub(super) fn container(context: &Context, shape: Shape, items: Vec<Value>) -> Outcome {
    match shape {
        Shape::Tuple => context.meter().tuple(items),
        Shape::FrozenSet => set(context, items),
    }
}

/// A set of these elements; points of one kind are packed, and so are patches of one kind.
pub(super) fn set(context: &Context, items: Vec<Value>) -> Outcome {
    if let Some((kind, keys)) = Point::all(&items) {
        context.spend(keys.len() as u64)?;
        return patch_value(context, Patch::of(kind, keys));
    }
    if items.is_empty() || !items.iter().all(|item| as_patch(item).is_some()) {
        return context.meter().frozenset(items);
    }
    context.spend(items.iter().filter_map(as_patch).map(|patch| 1 + patch.len() as u64 / 16).sum())?;
    patch_set(context, items)
}

/// A set of patches; those of one kind stay packed.
fn patch_set(context: &Context, patches: Vec<Value>) -> Outcome {
    match PatchSet::of(patches) {
        Ok(set) => context.meter().pack(set),
        Err(patches) => context.meter().frozenset(patches),
    }
}

/// A part of a container in the order in which it came: of a set, elements that ascend and are distinct.
pub(super) fn part(context: &Context, shape: Shape, items: Vec<Value>) -> Outcome {
    match shape {
        Shape::FrozenSet if Point::read_first(&items).is_none() && items.first().and_then(as_patch).is_none() => {
            context.meter().frozenset_sorted(items)
        }
        shape => container(context, shape, items),
    }
}

/// A tuple of rows as a grid.
pub(super) fn grid<'a>(context: &mut Context, value: &'a Value) -> Result<Cow<'a, Grid>, Fault> {
    if let Some(grid) = value.packed::<Grid>() {
        touch(context, grid.cells().len())?;
        return Ok(Cow::Borrowed(grid));
    }
    if !is_tuple(value) {
        return Err(wanted("a grid", value));
    }
    let (_, rows) = elements(context, value)?;
    let rows = rows.iter().map(|row| colours(context, row)).collect::<Result<Vec<_>, _>>()?;
    Ok(Cow::Owned(Grid::from_rows(&rows)?))
}

/// A row of a grid.
fn colours(context: &mut Context, row: &Value) -> Result<Vec<i8>, Fault> {
    if !is_tuple(row) {
        return Err(wanted("a row of a grid", row));
    }
    elements(context, row)?.1.iter().map(colour).collect()
}

/// A grid as a value.
pub(super) fn grid_value(context: &Context, grid: Grid) -> Outcome {
    context.meter().pack(grid)
}

/// The elements of a patch in the order in which they come, repeated ones of a tuple included.
pub(super) fn points<'a>(context: &mut Context, value: &'a Value) -> Result<(Kind, Cow<'a, [u64]>), Fault> {
    if let Some(patch) = as_patch(value) {
        touch(context, patch.len())?;
        return Ok((patch.kind(), Cow::Borrowed(patch.keys())));
    }
    let (_, items) = elements(context, value)?;
    if items.is_empty() {
        return Ok((Kind::Indices, Cow::Borrowed(&[])));
    }
    // Each is read out of pairs of its own.
    sort(context, items.len())?;
    match Point::all(&items) {
        Some((kind, keys)) => Ok((kind, Cow::Owned(keys))),
        None => Err(Fault::type_error(
            "a patch is needed: indices such as (row, column), or cells such as (colour, (row, column)), of numbers up to 524287",
        )),
    }
}

/// A set or tuple of cells or places as a patch.
pub(super) fn patch<'a>(context: &mut Context, value: &'a Value) -> Result<Cow<'a, Patch>, Fault> {
    if let Some(patch) = as_patch(value) {
        touch(context, patch.len())?;
        return Ok(Cow::Borrowed(patch));
    }
    let (kind, keys) = points(context, value)?;
    Ok(Cow::Owned(Patch::of(kind, keys.into_owned())))
}

/// Fuel for making a patch beside that for the value: it takes a piece of memory of its own.
const PATCH_FUEL: u64 = 5;

/// A patch as a value.
pub(super) fn patch_value(context: &Context, patch: Patch) -> Outcome {
    context.spend(PATCH_FUEL)?;
    context.meter().pack(patch)
}

/// Objects as the value of a set.
pub(super) fn object_set(context: &Context, objects: Vec<Patch>) -> Outcome {
    patch_set(context, objects.into_iter().map(|object| context.meter().pack(object)).collect::<Result<_, _>>()?)
}

/// A grid or a patch, as "is it a tuple?" decides.
pub(super) enum Piece<'a> {
    /// A tuple of rows.
    Grid(Cow<'a, Grid>),
    /// A set of cells or places.
    Patch(Cow<'a, Patch>),
}

/// A grid or a patch.
pub(super) fn piece<'a>(context: &mut Context, value: &'a Value) -> Result<Piece<'a>, Fault> {
    match is_tuple(value) {
        true => grid(context, value).map(Piece::Grid),
        false => patch(context, value).map(Piece::Patch),
    }
}
