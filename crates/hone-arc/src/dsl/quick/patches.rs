//! Quick forms of functions of patches and grids.

use super::{Quickly, int, truth};
use crate::dsl::loose::Loose;
use crate::dsl::packed::Point;
use crate::dsl::read::{area, make, sort, touch};
use crate::grid::Grid;
use crate::patch::{Extent, Kind, Patch, Place, colour_of};
use crate::relation;
use hone_program::{Context, Value};
use std::borrow::Cow;

/// Spends what making a patch of so many elements costs, and gives it.
fn made(context: &Context, patch: Patch) -> Quickly {
    context.spend(PATCH_FUEL + patch.len() as u64 / 8)?;
    Ok(Some(Loose::Patch(Cow::Owned(patch))))
}

/// Fuel for a patch that is no value: it takes one piece of memory.
const PATCH_FUEL: u64 = 5;

pub(super) fn numcolors(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(grid) = x.grid() else { return Ok(None) };
    touch(context, 2 * grid.cells().len())?;
    Ok(Some(int(grid.counts().occurring().count() as i64)))
}

/// The patch, where it has colours or is empty.
pub(super) fn object<'a>(x: &'a Loose<'_>) -> Option<&'a Patch> {
    x.patch().filter(|patch| patch.kind() == Kind::Object || patch.is_empty())
}

pub(super) fn palette(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(object) = object(x) else { return Ok(None) };
    touch(context, object.len())?;
    let colours = crate::dsl::colours::runs(object).map(|(colour, _)| Value::Int(colour)).collect();
    Ok(Some(Loose::Made(context.meter().frozenset_sorted(colours)?)))
}

/// What a function makes of height and width.
pub(super) fn sides(context: &Context, x: &Loose<'_>, of: fn(Place) -> Option<Loose<'static>>) -> Quickly {
    if let Some(grid) = x.grid() {
        return Ok(of((grid.height() as i64, grid.width() as i64)));
    }
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(of(patch.extent().map_or((0, 0), |extent| (extent.height(), extent.width()))))
}

/// What a function makes of the rectangle around a patch.
pub(super) fn extent(context: &Context, x: &Loose<'_>, of: fn(&Extent) -> Option<Loose<'static>>) -> Quickly {
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(patch.extent().as_ref().and_then(of))
}

/// What a function makes of a patch, element by element in the same order.
pub(super) fn moved(context: &Context, x: &Loose<'_>, of: impl Fn(&Patch) -> Option<Patch>) -> Quickly {
    let Some(patch) = x.patch() else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    of(patch).map_or(Ok(None), |patch| made(context, patch))
}

/// What a function makes of a patch, where the elements may get another order.
pub(super) fn sorted(context: &Context, x: &Loose<'_>, of: impl Fn(&Patch) -> Option<Patch>) -> Quickly {
    sort(context, x.patch().map_or(0, Patch::len))?;
    moved(context, x, of)
}

pub(super) fn asobject(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(grid) = x.grid() else { return Ok(None) };
    make(context, grid.cells().len() as i64, size_of::<u64>())?;
    grid.as_object().map_or(Ok(None), |object| made(context, object))
}

pub(super) fn ofcolor(context: &mut Context, grid: &Loose<'_>, colour: &Loose<'_>) -> Quickly {
    let (Some(grid), Some(colour)) = (grid.grid(), colour.int()) else { return Ok(None) };
    make(context, grid.cells().len() as i64, size_of::<u64>())?;
    grid.of_color(colour).map_or(Ok(None), |indices| made(context, indices))
}

pub(super) fn occurrences(context: &mut Context, grid: &Loose<'_>, object: &Loose<'_>) -> Quickly {
    let (Some(grid), Some(object)) = (grid.grid(), object.patch()) else { return Ok(None) };
    crate::dsl::finding::seek(context, grid, object)?;
    grid.occurrences(object).map_or(Ok(None), |places| made(context, places))
}

pub(super) fn canvas(context: &mut Context, colour: &Loose<'_>, sides: &Loose<'_>) -> Quickly {
    let (Some(Ok(colour)), Some((height, width))) = (colour.int().map(crate::paint::colour), sides.place()) else {
        return Ok(None);
    };
    make(context, area(height, width.saturating_add(1)), 1)?;
    context.spend(PATCH_FUEL)?;
    Ok(Some(Loose::Grid(Cow::Owned(Grid::canvas(colour, height.max(0) as usize, width.max(0) as usize)))))
}

/// Whether a patch is one wide across and as long along as it has elements.
pub(super) fn line(context: &Context, x: &Loose<'_>, along_across: fn(Place) -> Place) -> Quickly {
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    let (along, across) = along_across(patch.extent().map_or((0, 0), |extent| (extent.height(), extent.width())));
    Ok(Some(truth(across == 1 && along == patch.len() as i64)))
}

pub(super) fn around(context: &Context, x: &Loose<'_>, distances: &[Place]) -> Quickly {
    let Some(Ok(patch)) = x.place().map(|place| Patch::around(place, distances)) else { return Ok(None) };
    made(context, patch)
}

pub(super) fn initset(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(pair) = x.seen().and_then(Value::as_pair) else { return Ok(None) };
    let point = Point::of(pair);
    made(context, Patch::sorted(point.kind, vec![point.key]))
}

pub(super) fn connect(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(a), Some(b)) = (a.place(), b.place()) else { return Ok(None) };
    make(context, crate::dsl::making::steps_between(a, b), size_of::<u64>())?;
    relation::connect(a, b).map_or(Ok(None), |patch| made(context, patch))
}

pub(super) fn shoot(context: &mut Context, start: &Loose<'_>, direction: &Loose<'_>) -> Quickly {
    let (Some(start), Some(direction)) = (start.place(), direction.place()) else { return Ok(None) };
    make(context, crate::dsl::making::steps_along(direction), size_of::<u64>())?;
    relation::shoot(start, direction).map_or(Ok(None), |patch| made(context, patch))
}

pub(super) fn shift(context: &mut Context, patch: &Loose<'_>, by: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(by)) = (patch.patch(), by.place()) else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    patch.shift(by).map_or(Ok(None), |patch| made(context, patch))
}

pub(super) fn toobject(context: &mut Context, patch: &Loose<'_>, grid: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(grid)) = (patch.patch(), grid.grid()) else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    sort(context, patch.len())?;
    grid.object_at(patch).map_or(Ok(None), |patch| made(context, patch))
}

/// What a function makes of two patches.
pub(super) fn both(context: &Context, a: &Loose<'_>, b: &Loose<'_>, of: fn(&Patch, &Patch) -> Patch) -> Quickly {
    let (Some(a), Some(b)) = (a.patch(), b.patch()) else { return Ok(None) };
    make(context, (a.len() + b.len()) as i64, size_of::<u64>())?;
    made(context, of(a, b))
}

pub(super) fn combine(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(patch_a), Some(patch_b)) = (a.patch(), b.patch()) else { return Ok(None) };
    if !patch_a.is_empty() && !patch_b.is_empty() && patch_a.kind() != patch_b.kind() {
        return Ok(None);
    }
    sort(context, patch_a.len() + patch_b.len())?;
    both(context, a, b, Patch::union)
}

pub(super) fn colorcount(context: &mut Context, x: &Loose<'_>, colour: &Loose<'_>) -> Quickly {
    let (Some(object), Some(colour)) = (object(x), colour.int()) else { return Ok(None) };
    touch(context, object.len())?;
    Ok(Some(int(object.keys().iter().filter(|&&key| colour_of(key) == colour).count() as i64)))
}

pub(super) fn adjacent(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(a), Some(b)) = (a.patch(), b.patch()) else { return Ok(None) };
    crate::dsl::relations::seek(context, a, b, 1)?;
    Ok(a.is_adjacent(b).ok().map(truth))
}

pub(super) fn bordering(context: &mut Context, patch: &Loose<'_>, grid: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(grid)) = (patch.patch(), grid.grid()) else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(patch.borders(grid).ok().map(truth))
}

/// The part of a grid that begins at a place, with these sides.
pub(in crate::dsl) fn crop(context: &Context, grid: &Grid, start: &Loose<'_>, sides: &Loose<'_>) -> Quickly {
    let (Some(start), Some(sides)) = (start.place(), sides.place()) else { return Ok(None) };
    let part = grid.crop(start, sides);
    touch(context, part.cells().len())?;
    context.spend(PATCH_FUEL)?;
    Ok(Some(Loose::Grid(Cow::Owned(part))))
}
