//! Making and moving patches.

use super::declare;
use super::extents::{extent, extent_of};
use super::read::{Outcome, area, grid, int, len, make, patch, patch_value, place, sort};
use crate::patch::{Extent, Kind, Patch, Place};
use crate::relation;
use hone_program::{Context, Fault, Value};

declare! {
    asindices(grid: Grid) -> Indices: "Every index of the grid.";
    asobject(grid: Grid) -> Object: "Every cell of the grid.";
    ofcolor(grid: Grid, value: Integer) -> Indices: "The indices that hold a colour.";
    toindices(patch: Patch) -> Indices: "The indices without colours.";
    toobject(patch: Patch, grid: Grid) -> Object: "The cells of the grid at these indices.";
    recolor(value: Integer, patch: Patch) -> Object: "The indices as cells of one colour.";
    shift(patch: Patch, directions: IntegerTuple) -> Patch: "Moved by a vector.";
    normalize(patch: Patch) -> Patch: "Moved so that its rectangle begins at (0, 0).";
    dneighbors(loc: IntegerTuple) -> Indices: "The 4 indices beside, above and below.";
    ineighbors(loc: IntegerTuple) -> Indices: "The 4 indices at the corners.";
    neighbors(loc: IntegerTuple) -> Indices: "The 8 indices around.";
    connect(a: IntegerTuple, b: IntegerTuple) -> Indices: "The straight or diagonal line from a to b, both included.";
    shoot(start: IntegerTuple, direction: IntegerTuple) -> Indices: "The line from start in a direction, beyond any grid.";
    vfrontier(location: IntegerTuple) -> Indices: "The column through the location, rows 0 to 29.";
    hfrontier(location: IntegerTuple) -> Indices: "The row through the location, columns 0 to 29.";
    backdrop(patch: Patch) -> Indices: "Every index of the rectangle around it.";
    delta(patch: Patch) -> Indices: "The indices of the rectangle around it that are not in it.";
    r#box(patch: Patch) -> Indices: "The outline of the rectangle around it.";
    outbox(patch: Patch) -> Indices: "The outline one further out.";
    inbox(patch: Patch) -> Indices: "The outline one further in.";
}

/// How many rows or columns a frontier has: those of the largest grid.
const SIDE: i64 = 30;
const KEY_BYTES: usize = size_of::<u64>();

fn asindices(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    context.spend(grid.cells().len() as u64 / 2)?;
    make(context, grid.cells().len() as i64, KEY_BYTES)?;
    patch_value(context, grid.as_indices()?)
}

fn asobject(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    context.spend(grid.cells().len() as u64 / 2)?;
    make(context, grid.cells().len() as i64, KEY_BYTES)?;
    patch_value(context, grid.as_object()?)
}

fn ofcolor(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    make(context, grid.cells().len() as i64, KEY_BYTES)?;
    let found = arguments[1].as_int().map_or_else(|| Ok(Patch::default()), |colour| grid.of_color(colour))?;
    patch_value(context, found)
}

fn toindices(context: &mut Context, arguments: &[Value]) -> Outcome {
    let indices = patch(context, &arguments[0])?;
    match indices.kind() {
        Kind::Indices if !indices.is_empty() => Ok(arguments[0].clone()),
        _ => {
            sort(context, indices.len())?;
            patch_value(context, indices.to_indices())
        }
    }
}

fn toobject(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (patch, grid) = (patch(context, &arguments[0])?, grid(context, &arguments[1])?);
    sort(context, patch.len())?;
    patch_value(context, grid.object_at(&patch)?)
}

fn recolor(context: &mut Context, arguments: &[Value]) -> Outcome {
    let patch = patch(context, &arguments[1])?;
    sort(context, patch.len())?;
    patch_value(context, patch.recolor(int(&arguments[0])?)?)
}

fn shift(context: &mut Context, arguments: &[Value]) -> Outcome {
    let patch = patch(context, &arguments[0])?;
    if patch.is_empty() {
        return Ok(arguments[0].clone());
    }
    let by = place(context, &arguments[1])?;
    make(context, 2 * patch.len() as i64, KEY_BYTES)?;
    patch_value(context, patch.shift(by)?)
}

fn normalize(context: &mut Context, arguments: &[Value]) -> Outcome {
    let patch = patch(context, &arguments[0])?;
    if patch.is_empty() {
        return Ok(arguments[0].clone());
    }
    make(context, 2 * patch.len() as i64, KEY_BYTES)?;
    patch_value(context, patch.normalize()?)
}

/// The places at these distances from a location.
fn around(context: &mut Context, location: &Value, distances: &[Place]) -> Outcome {
    let place = place(context, location)?;
    patch_value(context, Patch::around(place, distances)?)
}

pub(super) const BESIDE: [Place; 4] = [(-1, 0), (0, -1), (0, 1), (1, 0)];
pub(super) const AT_CORNERS: [Place; 4] = [(-1, -1), (-1, 1), (1, -1), (1, 1)];
pub(super) const AROUND: [Place; 8] = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)];

fn dneighbors(context: &mut Context, arguments: &[Value]) -> Outcome {
    around(context, &arguments[0], &BESIDE)
}

fn ineighbors(context: &mut Context, arguments: &[Value]) -> Outcome {
    around(context, &arguments[0], &AT_CORNERS)
}

fn neighbors(context: &mut Context, arguments: &[Value]) -> Outcome {
    around(context, &arguments[0], &AROUND)
}

/// How many steps it takes from one place to another, as far as that matters.
pub(super) fn steps_between(a: Place, b: Place) -> i64 {
    a.0.abs_diff(b.0).max(a.1.abs_diff(b.1)).min(1 << 20) as i64
}

/// How many steps are drawn in a direction, as far as that matters.
pub(super) fn steps_along(direction: Place) -> i64 {
    let longer = direction.0.unsigned_abs().max(direction.1.unsigned_abs());
    longer.saturating_mul(relation::FAR as u64).min(1 << 20) as i64
}

fn connect(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (place(context, &arguments[0])?, place(context, &arguments[1])?);
    make(context, steps_between(a, b), KEY_BYTES)?;
    patch_value(context, relation::connect(a, b)?)
}

fn shoot(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (start, direction) = (place(context, &arguments[0])?, place(context, &arguments[1])?);
    make(context, steps_along(direction), KEY_BYTES)?;
    patch_value(context, relation::shoot(start, direction)?)
}

fn vfrontier(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (_, column) = place(context, &arguments[0])?;
    make(context, SIDE, KEY_BYTES)?;
    patch_value(context, Patch::indices((0..SIDE).map(|row| (row, column)))?)
}

fn hfrontier(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (row, _) = place(context, &arguments[0])?;
    make(context, SIDE, KEY_BYTES)?;
    patch_value(context, Patch::indices((0..SIDE).map(|column| (row, column)))?)
}

/// Every place of a rectangle, or none without one.
fn filled(context: &mut Context, extent: Option<Extent>) -> Result<Patch, Fault> {
    let Some(extent) = extent else { return Ok(Patch::default()) };
    make(context, area(extent.height(), extent.width()), KEY_BYTES)?;
    Ok(extent.filled()?)
}

fn backdrop(context: &mut Context, arguments: &[Value]) -> Outcome {
    let extent = extent(context, &arguments[0])?;
    let filled = filled(context, extent)?;
    patch_value(context, filled)
}

fn delta(context: &mut Context, arguments: &[Value]) -> Outcome {
    let patch = patch(context, &arguments[0])?;
    sort(context, patch.len())?;
    let indices = patch.to_indices();
    let filled = filled(context, indices.extent())?;
    patch_value(context, filled.difference(&indices))
}

/// The outline of a rectangle.
fn outline(context: &mut Context, extent: &Extent) -> Outcome {
    let n = extent.height().saturating_add(extent.width()).saturating_mul(2);
    context.spend(n as u64 / 2)?;
    make(context, n, KEY_BYTES)?;
    patch_value(context, extent.outline()?)
}

fn r#box(context: &mut Context, arguments: &[Value]) -> Outcome {
    if len(context, &arguments[0])? == 0 {
        return Ok(arguments[0].clone());
    }
    let extent = extent_of(context, &arguments[0], "outline")?;
    outline(context, &extent)
}

fn outbox(context: &mut Context, arguments: &[Value]) -> Outcome {
    let extent = extent_of(context, &arguments[0], "outline")?;
    outline(context, &extent.grown())
}

fn inbox(context: &mut Context, arguments: &[Value]) -> Outcome {
    let extent = extent_of(context, &arguments[0], "outline")?;
    outline(context, &extent.shrunk())
}
