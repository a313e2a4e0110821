//! Colours of grids and objects.

use super::containers::element;
use super::read::{Outcome, elements, is_tuple, patch, touch};
use super::{declare, select};
use crate::grid::{Counts, Grid};
use hone_program::{Context, Fault, Value};

declare! {
    mostcolor(element: Element) -> Integer: "The colour of most cells.";
    leastcolor(element: Element) -> Integer: "The colour of fewest cells.";
    colorcount(element: Element, value: Integer) -> Integer: "The number of cells of a colour.";
    palette(element: Element) -> IntegerSet: "The colours that occur.";
    numcolors(element: Element) -> Integer: "How many colours occur.";
    color(obj: Object) -> Integer: "The colour of a one-coloured object.";
}

/// The colours of an element: counted where it is a packed grid, one by one otherwise.
enum Colours {
    Counted(Box<Counts>),
    Listed(Vec<Value>),
}

fn colours(context: &mut Context, value: &Value) -> Result<Colours, Fault> {
    if let Some(grid) = value.packed::<Grid>() {
        touch(context, grid.cells().len())?;
        return Ok(Colours::Counted(Box::new(grid.counts())));
    }
    if is_tuple(value) {
        let mut listed = Vec::new();
        for row in elements(context, value)?.1 {
            listed.extend(elements(context, &row)?.1);
        }
        return Ok(Colours::Listed(listed));
    }
    let object = patch(context, value)?;
    if object.colours().count() < object.len() {
        return Err(Fault::type_error("an object or a grid is needed, and these are indices without colours"));
    }
    context.spend(object.len() as u64)?;
    Ok(Colours::Listed(object.colours().map(Value::Int).collect()))
}

fn no_cells() -> Fault {
    Fault::value_error("there is no cell, and so no colour")
}

fn mostcolor(context: &mut Context, arguments: &[Value]) -> Outcome {
    match colours(context, &arguments[0])? {
        Colours::Counted(counts) => counts.most().map(|colour| Value::Int(i64::from(colour))).ok_or_else(no_cells),
        Colours::Listed(listed) => select::most(context, &listed),
    }
}

fn leastcolor(context: &mut Context, arguments: &[Value]) -> Outcome {
    match colours(context, &arguments[0])? {
        Colours::Counted(counts) => counts.least().map(|colour| Value::Int(i64::from(colour))).ok_or_else(no_cells),
        Colours::Listed(listed) => select::least(context, &listed),
    }
}

fn colorcount(context: &mut Context, arguments: &[Value]) -> Outcome {
    let n = match colours(context, &arguments[0])? {
        Colours::Counted(counts) => {
            let colour = arguments[1].as_int().and_then(|value| i8::try_from(value).ok());
            colour.map_or(0, |colour| i64::from(counts.get(colour)))
        }
        Colours::Listed(listed) => {
            let mut n = 0;
            for colour in &listed {
                n += i64::from(context.equal(colour, &arguments[1])?);
            }
            n
        }
    };
    Ok(Value::Int(n))
}

/// The distinct colours from the lowest.
fn distinct(context: &mut Context, value: &Value) -> Result<Vec<Value>, Fault> {
    match colours(context, value)? {
        Colours::Counted(counts) => Ok(counts.occurring().map(|(colour, _)| Value::Int(i64::from(colour))).collect()),
        Colours::Listed(listed) => Ok(select::tally(context, &listed)?.into_iter().map(|(colour, _)| colour).collect()),
    }
}

fn palette(context: &mut Context, arguments: &[Value]) -> Outcome {
    let colours = distinct(context, &arguments[0])?;
    context.meter().frozenset(colours)
}

fn numcolors(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(distinct(context, &arguments[0])?.len() as i64))
}

fn color(context: &mut Context, arguments: &[Value]) -> Outcome {
    let cell = element(context, &arguments[0], |_| 0)?;
    element(context, &cell, |_| 0)
}
