//! Relations between patches.

use super::declare;
use super::read::{Outcome, grid, patch, place_value, sort};
use crate::patch::Patch;
use crate::relation::FAR;
use hone_program::{Context, Fault, Value};

declare! {
    hmatching(a: Patch, b: Patch) -> Boolean: "Whether they share a row.";
    vmatching(a: Patch, b: Patch) -> Boolean: "Whether they share a column.";
    manhattan(a: Patch, b: Patch) -> Integer: "The least number of steps along rows and columns between them.";
    adjacent(a: Patch, b: Patch) -> Boolean: "Whether they touch at an edge.";
    bordering(patch: Patch, grid: Grid) -> Boolean: "Whether it touches the edge of the grid.";
    position(a: Patch, b: Patch) -> IntegerTuple: "The direction from a to b.";
    gravitate(source: Patch, destination: Patch) -> IntegerTuple: "The vector that moves source until it touches destination.";
}

/// Spends the fuel of comparing every cell of one with every cell of the other.
fn compare(context: &Context, a: &Patch, b: &Patch) -> Result<(), Fault> {
    context.spend(1 + a.len() as u64 * b.len() as u64 / 8)
}

/// Spends the fuel of looking for the neighbours of every cell of one among the cells of the other, so many times.
pub(super) fn seek(context: &Context, a: &Patch, b: &Patch, times: u64) -> Result<(), Fault> {
    sort(context, a.len() + b.len())?;
    let look_up = u64::from(b.len().max(1).ilog2()) + 1;
    context.spend(times.saturating_mul(1 + a.len() as u64 * look_up / 2))
}

fn hmatching(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (patch(context, &arguments[0])?, patch(context, &arguments[1])?);
    sort(context, a.len() + b.len())?;
    Ok(Value::Bool(a.shares_row(&b)))
}

fn vmatching(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (patch(context, &arguments[0])?, patch(context, &arguments[1])?);
    sort(context, a.len() + b.len())?;
    Ok(Value::Bool(a.shares_column(&b)))
}

fn manhattan(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (patch(context, &arguments[0])?, patch(context, &arguments[1])?);
    compare(context, &a, &b)?;
    Ok(Value::Int(a.manhattan(&b)?))
}

fn adjacent(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (patch(context, &arguments[0])?, patch(context, &arguments[1])?);
    seek(context, &a, &b, 1)?;
    Ok(Value::Bool(a.is_adjacent(&b)?))
}

fn bordering(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (patch, grid) = (patch(context, &arguments[0])?, grid(context, &arguments[1])?);
    Ok(Value::Bool(patch.borders(&grid)?))
}

fn position(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (patch(context, &arguments[0])?, patch(context, &arguments[1])?);
    let direction = a.position(&b)?;
    place_value(context, direction)
}

fn gravitate(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (source, destination) = (patch(context, &arguments[0])?, patch(context, &arguments[1])?);
    sort(context, source.len() + destination.len())?;
    seek(context, &source, &destination, FAR as u64)?;
    let vector = source.gravitate(&destination)?;
    place_value(context, vector)
}
