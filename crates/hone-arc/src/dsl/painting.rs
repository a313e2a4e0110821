//! Recolouring and painting.

use super::declare;
use super::read::{Outcome, colour, grid, grid_value, make, patch, place, points};
use crate::patch::Kind;
use hone_program::{Context, Fault, Value};

declare! {
    fill(grid: Grid, value: Integer, patch: Patch) -> Grid: "The colour at every index of the patch.";
    paint(grid: Grid, obj: Object) -> Grid: "The cells of the object in their own colours.";
    underfill(grid: Grid, value: Integer, patch: Patch) -> Grid: "fill, but only over the most common colour.";
    underpaint(grid: Grid, obj: Object) -> Grid: "paint, but only over the most common colour.";
    cover(grid: Grid, patch: Patch) -> Grid: "The most common colour at every index of the patch.";
    r#move(grid: Grid, obj: Object, offset: IntegerTuple) -> Grid:
        "The object covered, and painted again where the vector takes it.";
    replace(grid: Grid, replacee: Integer, replacer: Integer) -> Grid: "One colour by another everywhere.";
    switch(grid: Grid, a: Integer, b: Integer) -> Grid: "Two colours exchanged.";
    cellwise(a: Grid, b: Grid, fallback: Integer) -> Grid: "The colour where both grids agree, the fallback elsewhere.";
}

/// Over what is painted.
enum Over {
    Everything,
    Background,
}

fn filled(context: &mut Context, arguments: &[Value], over: &Over) -> Outcome {
    let (grid, colour) = (grid(context, &arguments[0])?, colour(&arguments[1])?);
    let (_, keys) = points(context, &arguments[2])?;
    context.spend(keys.len() as u64)?;
    make(context, grid.cells().len() as i64, 1)?;
    let background = match over {
        Over::Everything => None,
        Over::Background => Some(grid.most_common()?),
    };
    grid_value(context, grid.fill(colour, &keys, background)?)
}

fn fill(context: &mut Context, arguments: &[Value]) -> Outcome {
    filled(context, arguments, &Over::Everything)
}

fn underfill(context: &mut Context, arguments: &[Value]) -> Outcome {
    filled(context, arguments, &Over::Background)
}

fn painted(context: &mut Context, arguments: &[Value], over: &Over) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    let (kind, keys) = points(context, &arguments[1])?;
    check_object(kind, keys.len())?;
    context.spend(keys.len() as u64)?;
    make(context, grid.cells().len() as i64, 1)?;
    let background = match over {
        Over::Everything => None,
        Over::Background => Some(grid.most_common()?),
    };
    grid_value(context, grid.paint(&keys, background)?)
}

/// Indices have no colours to paint with.
fn check_object(kind: Kind, len: usize) -> Result<(), Fault> {
    match kind {
        Kind::Indices if len > 0 => {
            Err(Fault::type_error("an object is needed, and these are indices without colours; use recolor or fill"))
        }
        _ => Ok(()),
    }
}

fn paint(context: &mut Context, arguments: &[Value]) -> Outcome {
    painted(context, arguments, &Over::Everything)
}

fn underpaint(context: &mut Context, arguments: &[Value]) -> Outcome {
    painted(context, arguments, &Over::Background)
}

fn cover(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    let (_, keys) = points(context, &arguments[1])?;
    context.spend(keys.len() as u64)?;
    make(context, grid.cells().len() as i64, 1)?;
    grid_value(context, grid.fill(grid.most_common()?, &keys, None)?)
}

fn r#move(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (grid, object) = (grid(context, &arguments[0])?, patch(context, &arguments[1])?);
    let offset = place(context, &arguments[2])?;
    check_object(object.kind(), object.len())?;
    make(context, grid.cells().len() as i64, 2)?;
    let covered = grid.fill(grid.most_common()?, object.keys(), None)?;
    grid_value(context, covered.paint(object.shift(offset)?.keys(), None)?)
}

fn replace(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (grid, new) = (grid(context, &arguments[0])?, colour(&arguments[2])?);
    make(context, grid.cells().len() as i64, 1)?;
    let replaced = match arguments[1].as_int() {
        Some(old) => grid.replace(old, new),
        None => grid.into_owned(),
    };
    grid_value(context, replaced)
}

fn switch(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (grid, a, b) = (grid(context, &arguments[0])?, colour(&arguments[1])?, colour(&arguments[2])?);
    make(context, grid.cells().len() as i64, 1)?;
    grid_value(context, grid.switch(a, b))
}

fn cellwise(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (grid(context, &arguments[0])?, grid(context, &arguments[1])?);
    make(context, a.cells().len() as i64, 1)?;
    grid_value(context, a.cellwise(&b, colour(&arguments[2])?)?)
}
