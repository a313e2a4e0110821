//! Finding things in a grid.

use super::declare;
use super::read::{Outcome, grid, make, object_set, patch, patch_value, place};
use crate::find::Grouping;
use crate::grid::Grid;
use crate::patch::Patch;
use hone_program::{Context, Fault, Value};

declare! {
    objects(grid: Grid, univalued: Boolean, diagonal: Boolean, without_bg: Boolean) -> Objects:
        "The connected parts: one-coloured if univalued, over corners if diagonal, not of the most common colour if without_bg.";
    partition(grid: Grid) -> Objects: "One object for each colour.";
    fgpartition(grid: Grid) -> Objects: "One object for each colour but the most common.";
    occurrences(grid: Grid, obj: Object) -> Indices:
        "Where the upper left corner of the object can be put so that its cells match.";
    frontiers(grid: Grid) -> Objects: "Every one-coloured row and column.";
    index(grid: Grid, loc: IntegerTuple) -> Integer: "The colour at a place; None outside.";
}

const KEY_BYTES: usize = size_of::<u64>();

fn objects(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    // Every neighbour of every cell is looked at, each cell may be an object of its own, and all of them may wait for their neighbours.
    context.spend(3 * grid.cells().len() as u64)?;
    make(context, grid.cells().len() as i64, 4 * KEY_BYTES)?;
    let grouping = Grouping {
        is_univalued: context.truth(&arguments[1]),
        is_diagonal: context.truth(&arguments[2]),
        is_without_background: context.truth(&arguments[3]),
    };
    object_set(context, grid.objects(grouping)?)
}

fn partition(context: &mut Context, arguments: &[Value]) -> Outcome {
    parts(context, &arguments[0], false)
}

fn fgpartition(context: &mut Context, arguments: &[Value]) -> Outcome {
    parts(context, &arguments[0], true)
}

fn parts(context: &mut Context, value: &Value, is_without_background: bool) -> Outcome {
    let grid = grid(context, value)?;
    context.spend(grid.cells().len() as u64 / 4)?;
    make(context, grid.cells().len() as i64, KEY_BYTES)?;
    object_set(context, grid.partition(is_without_background)?)
}

/// Spends the fuel of looking for an object at every place of a grid, and asks for the room of what may be found.
pub(super) fn seek(context: &Context, grid: &Grid, object: &Patch) -> Result<(), Fault> {
    let n_places = (grid.height() as u64 + 1).saturating_mul(grid.width() as u64 + 1);
    make(context, n_places as i64, KEY_BYTES)?;
    context.spend(n_places.saturating_mul(object.len() as u64) / 16)
}

fn occurrences(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (grid, object) = (grid(context, &arguments[0])?, patch(context, &arguments[1])?);
    seek(context, &grid, &object)?;
    patch_value(context, grid.occurrences(&object)?)
}

fn frontiers(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    context.spend(grid.cells().len() as u64 / 2)?;
    make(context, 2 * grid.cells().len() as i64, KEY_BYTES)?;
    object_set(context, grid.frontiers()?)
}

fn index(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (row, column) = place(context, &arguments[1])?;
    let found = match arguments[0].packed::<Grid>() {
        Some(grid) => grid.at(row, column),
        None => grid(context, &arguments[0])?.at(row, column),
    };
    Ok(found.map_or(Value::None, |colour| Value::Int(i64::from(colour))))
}
