//! Extent and shape of grids and patches.

use super::containers::element;
use super::declare;
use super::read::{Outcome, is_tuple, len, patch, patch_value, place_value, points};
use crate::patch::{Extent, Patch, Place, place_of};
use hone_program::{Context, Fault, Value};

declare! {
    height(piece: Piece) -> Integer: "The number of rows.";
    width(piece: Piece) -> Integer: "The number of columns.";
    shape(piece: Piece) -> IntegerTuple: "Height and width.";
    portrait(piece: Piece) -> Boolean: "Whether it is higher than wide.";
    square(piece: Piece) -> Boolean: "Whether it is as high as wide; a patch must fill its rectangle too.";
    vline(patch: Patch) -> Boolean: "Whether it is an unbroken vertical line.";
    hline(patch: Patch) -> Boolean: "Whether it is an unbroken horizontal line.";
    uppermost(patch: Patch) -> Integer: "The first row.";
    lowermost(patch: Patch) -> Integer: "The last row.";
    leftmost(patch: Patch) -> Integer: "The first column.";
    rightmost(patch: Patch) -> Integer: "The last column.";
    ulcorner(patch: Patch) -> IntegerTuple: "The upper left corner of the rectangle around it.";
    urcorner(patch: Patch) -> IntegerTuple: "The upper right corner of the rectangle around it.";
    llcorner(patch: Patch) -> IntegerTuple: "The lower left corner of the rectangle around it.";
    lrcorner(patch: Patch) -> IntegerTuple: "The lower right corner of the rectangle around it.";
    corners(patch: Patch) -> Indices: "The corners of the rectangle around it.";
    center(patch: Patch) -> IntegerTuple: "The middle of the rectangle around it.";
    centerofmass(patch: Patch) -> IntegerTuple: "The average place, rounded down.";
    hperiod(obj: Object) -> Integer: "By how many columns it repeats.";
    vperiod(obj: Object) -> Integer: "By how many rows it repeats.";
}

/// The rectangle around a patch, a tuple of its elements included.
pub(super) fn extent(context: &mut Context, value: &Value) -> Result<Option<Extent>, Fault> {
    let (_, keys) = points(context, value)?;
    Ok(Extent::around(&keys))
}

/// The rectangle, or a fault that says what an empty patch lacks.
pub(super) fn extent_of(context: &mut Context, value: &Value, what: &str) -> Result<Extent, Fault> {
    extent(context, value)?.ok_or_else(|| Fault::value_error(format!("an empty patch has no {what}")))
}

/// Height and width of a grid, or of the rectangle around a patch.
fn sides(context: &mut Context, value: &Value) -> Result<Place, Fault> {
    if !is_tuple(value) {
        return Ok(extent(context, value)?.map_or((0, 0), |extent| (extent.height(), extent.width())));
    }
    let height = len(context, value)? as i64;
    if height == 0 {
        return Ok((0, 0));
    }
    if let Some(grid) = value.packed::<crate::grid::Grid>() {
        return Ok((height, grid.width() as i64));
    }
    let row = element(context, value, |_| 0)?;
    Ok((height, len(context, &row)? as i64))
}

fn height(context: &mut Context, arguments: &[Value]) -> Outcome {
    match is_tuple(&arguments[0]) {
        true => Ok(Value::Int(len(context, &arguments[0])? as i64)),
        false => Ok(Value::Int(sides(context, &arguments[0])?.0)),
    }
}

fn width(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(sides(context, &arguments[0])?.1))
}

fn shape(context: &mut Context, arguments: &[Value]) -> Outcome {
    let sides = sides(context, &arguments[0])?;
    place_value(context, sides)
}

fn portrait(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (height, width) = sides(context, &arguments[0])?;
    Ok(Value::Bool(height > width))
}

fn square(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (height, width) = sides(context, &arguments[0])?;
    let n = len(context, &arguments[0])? as i64;
    match is_tuple(&arguments[0]) {
        true if n == 0 => Err(Fault::value_error("a grid without rows has no width")),
        true => Ok(Value::Bool(height == width)),
        false => Ok(Value::Bool(height == width && height.saturating_mul(width) == n)),
    }
}

/// Whether one side is one and the other as long as there are elements.
fn line(context: &mut Context, value: &Value, along_across: impl Fn(Place) -> Place) -> Outcome {
    let sides = sides(context, value)?;
    let (along, across) = along_across(sides);
    Ok(Value::Bool(across == 1 && along == len(context, value)? as i64))
}

fn vline(context: &mut Context, arguments: &[Value]) -> Outcome {
    line(context, &arguments[0], |(height, width)| (height, width))
}

fn hline(context: &mut Context, arguments: &[Value]) -> Outcome {
    line(context, &arguments[0], |(height, width)| (width, height))
}

fn uppermost(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(extent_of(context, &arguments[0], "first row")?.top))
}

fn lowermost(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(extent_of(context, &arguments[0], "last row")?.bottom))
}

fn leftmost(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(extent_of(context, &arguments[0], "first column")?.left))
}

fn rightmost(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(extent_of(context, &arguments[0], "last column")?.right))
}

/// A corner of the rectangle; the empty patch has the empty tuple for one, which equals no index.
fn corner(context: &mut Context, value: &Value, nth: usize) -> Outcome {
    match extent(context, value)? {
        Some(extent) => place_value(context, extent.corners()[nth]),
        None => context.meter().tuple(Vec::new()),
    }
}

fn ulcorner(context: &mut Context, arguments: &[Value]) -> Outcome {
    corner(context, &arguments[0], 0)
}

fn urcorner(context: &mut Context, arguments: &[Value]) -> Outcome {
    corner(context, &arguments[0], 1)
}

fn llcorner(context: &mut Context, arguments: &[Value]) -> Outcome {
    corner(context, &arguments[0], 2)
}

fn lrcorner(context: &mut Context, arguments: &[Value]) -> Outcome {
    corner(context, &arguments[0], 3)
}

fn corners(context: &mut Context, arguments: &[Value]) -> Outcome {
    match extent(context, &arguments[0])? {
        Some(extent) => patch_value(context, Patch::indices(extent.corners())?),
        None => {
            let corner = context.meter().tuple(Vec::new())?;
            context.meter().frozenset(vec![corner])
        }
    }
}

fn center(context: &mut Context, arguments: &[Value]) -> Outcome {
    let center = extent_of(context, &arguments[0], "centre")?.center();
    place_value(context, center)
}

fn centerofmass(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (_, keys) = points(context, &arguments[0])?;
    if keys.is_empty() {
        return context.meter().tuple(Vec::new());
    }
    let places = keys.iter().map(|&key| place_of(key));
    let (rows, columns) = places.fold((0, 0), |(rows, columns), (row, column)| (rows + row, columns + column));
    let n = keys.len() as i64;
    place_value(context, (rows.div_euclid(n), columns.div_euclid(n)))
}

/// Comparing an object with itself at every distance takes as many steps as it has cells for each.
fn period(context: &mut Context, value: &Value, side: impl Fn(&Extent) -> i64, of: fn(&Patch) -> PeriodResult) -> Outcome {
    let object = patch(context, value)?;
    let n = object.extent().map_or(0, |extent| side(&extent));
    context.spend((n as u64).saturating_mul(object.len() as u64))?;
    Ok(Value::Int(of(&object)?))
}

type PeriodResult = Result<i64, crate::misuse::Misuse>;

fn hperiod(context: &mut Context, arguments: &[Value]) -> Outcome {
    period(context, &arguments[0], Extent::width, Patch::hperiod)
}

fn vperiod(context: &mut Context, arguments: &[Value]) -> Outcome {
    period(context, &arguments[0], Extent::height, Patch::vperiod)
}
