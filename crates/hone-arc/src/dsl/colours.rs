//! Colours of grids and objects.

use super::containers::element;
use super::packed::as_patch;
use super::read::{Outcome, elements, is_tuple, patch, touch};
use super::{declare, select};
use crate::grid::Grid;
use crate::patch::{Kind, Patch, colour_of};
use hone_program::{Context, Fault, Value};
use std::borrow::Cow;

declare! {
    mostcolor(element: Element) -> Integer: "The colour of most cells.";
    leastcolor(element: Element) -> Integer: "The colour of fewest cells.";
    colorcount(element: Element, value: Integer) -> Integer: "The number of cells of a colour.";
    palette(element: Element) -> IntegerSet: "The colours that occur.";
    numcolors(element: Element) -> Integer: "How many colours occur.";
    color(obj: Object) -> Integer: "The colour of a one-coloured object.";
}

/// The colours of an element from the lowest, each with how often it occurs.
fn tallied(context: &mut Context, value: &Value) -> Result<Vec<(Value, usize)>, Fault> {
    if let Some(grid) = value.packed::<Grid>() {
        touch(context, 2 * grid.cells().len())?;
        let of_colour = |(colour, n): (i8, u32)| (Value::Int(i64::from(colour)), n as usize);
        return Ok(grid.counts().occurring().map(of_colour).collect());
    }
    if is_tuple(value) {
        let mut listed = Vec::new();
        for row in elements(context, value)?.1.iter() {
            listed.extend_from_slice(&elements(context, row)?.1);
        }
        return select::tally(context, &listed);
    }
    let object = coloured(context, value)?;
    Ok(runs(&object).map(|(colour, n)| (Value::Int(colour), n)).collect())
}

/// A patch that has colours, or none at all.
fn coloured<'a>(context: &mut Context, value: &'a Value) -> Result<Cow<'a, Patch>, Fault> {
    let object = patch(context, value)?;
    if object.kind() == Kind::Indices && !object.is_empty() {
        return Err(Fault::type_error("an object or a grid is needed, and these are indices without colours"));
    }
    Ok(object)
}

/// The colours of an object from the lowest, each with how often it occurs: cells ascend by colour first.
pub(super) fn runs(object: &Patch) -> impl Iterator<Item = (i64, usize)> {
    object.keys().chunk_by(|&a, &b| colour_of(a) == colour_of(b)).map(|run| (colour_of(run[0]), run.len()))
}

fn mostcolor(context: &mut Context, arguments: &[Value]) -> Outcome {
    let tally = tallied(context, &arguments[0])?;
    select::most_of(tally).ok_or_else(no_cells)
}

fn leastcolor(context: &mut Context, arguments: &[Value]) -> Outcome {
    let tally = tallied(context, &arguments[0])?;
    select::least_of(tally).ok_or_else(no_cells)
}

fn no_cells() -> Fault {
    Fault::value_error("there is no cell, and so no colour")
}

fn colorcount(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let (Some(_), Value::Int(wanted)) = (as_patch(&arguments[0]), &arguments[1]) {
        let object = coloured(context, &arguments[0])?;
        return Ok(Value::Int(runs(&object).find(|(colour, _)| colour == wanted).map_or(0, |(_, n)| n as i64)));
    }
    for (colour, n) in tallied(context, &arguments[0])? {
        if context.equal(&colour, &arguments[1])? {
            return Ok(Value::Int(n as i64));
        }
    }
    Ok(Value::Int(0))
}

fn palette(context: &mut Context, arguments: &[Value]) -> Outcome {
    let colours = tallied(context, &arguments[0])?.into_iter().map(|(colour, _)| colour);
    context.meter().frozenset_sorted(colours.collect())
}

fn numcolors(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let Some(grid) = arguments[0].packed::<Grid>() {
        touch(context, 2 * grid.cells().len())?;
        return Ok(Value::Int(grid.counts().occurring().count() as i64));
    }
    Ok(Value::Int(tallied(context, &arguments[0])?.len() as i64))
}

fn color(context: &mut Context, arguments: &[Value]) -> Outcome {
    let cell = element(context, &arguments[0], |_| 0)?;
    element(context, &cell, |_| 0)
}
