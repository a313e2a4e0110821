//! Colours of grids and objects.

use super::containers::element;
use super::read::{Outcome, elements, is_tuple, patch, touch};
use super::{declare, select};
use crate::grid::Grid;
use crate::patch::Kind;
use hone_program::{Context, Fault, Value};

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
        for row in elements(context, value)?.1 {
            listed.extend(elements(context, &row)?.1);
        }
        return select::tally(context, &listed);
    }
    let object = patch(context, value)?;
    if object.kind() == Kind::Indices && !object.is_empty() {
        return Err(Fault::type_error("an object or a grid is needed, and these are indices without colours"));
    }
    // Cells ascend by colour first.
    let mut tally: Vec<(Value, usize)> = Vec::new();
    for colour in object.colours() {
        match tally.last_mut() {
            Some((last, n)) if last.as_int() == Some(colour) => *n += 1,
            _ => tally.push((Value::Int(colour), 1)),
        }
    }
    Ok(tally)
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
    Ok(Value::Int(tallied(context, &arguments[0])?.len() as i64))
}

fn color(context: &mut Context, arguments: &[Value]) -> Outcome {
    let cell = element(context, &arguments[0], |_| 0)?;
    element(context, &cell, |_| 0)
}
