//! Reshaping grids.

use super::declare;
use super::extents::extent_of;
use super::read::{
    Outcome, Piece, area, colour, container, elements, grid, grid_value, int, is_tuple, make, patch, patch_value, piece, place,
    sort,
};
use crate::grid::Grid;
use crate::misuse::Misuse;
use crate::patch::Patch;
use hone_program::{Context, Fault, Shape, Value};

declare! {
    canvas(value: Integer, dimensions: IntegerTuple) -> Grid: "A grid of one colour, with this height and width.";
    crop(grid: Grid, start: IntegerTuple, dims: IntegerTuple) -> Grid:
        "The part that begins at start, with this height and width.";
    subgrid(patch: Patch, grid: Grid) -> Grid: "The part of the grid that the rectangle around the patch covers.";
    trim(grid: Grid) -> Grid: "Without the outermost ring of cells.";
    tophalf(grid: Grid) -> Grid: "The upper half.";
    bottomhalf(grid: Grid) -> Grid: "The lower half.";
    lefthalf(grid: Grid) -> Grid: "The left half.";
    righthalf(grid: Grid) -> Grid: "The right half.";
    hsplit(grid: Grid, n: Integer) -> Tuple: "n pieces side by side; separating columns are dropped.";
    vsplit(grid: Grid, n: Integer) -> Tuple: "n pieces one below the other; separating rows are dropped.";
    hconcat(a: Grid, b: Grid) -> Grid: "b to the right of a.";
    vconcat(a: Grid, b: Grid) -> Grid: "b below a.";
    rot90(grid: Grid) -> Grid: "A quarter turn clockwise.";
    rot180(grid: Grid) -> Grid: "Half a turn.";
    rot270(grid: Grid) -> Grid: "A quarter turn anticlockwise.";
    hmirror(piece: Piece) -> Piece: "Upside down.";
    vmirror(piece: Piece) -> Piece: "Left and right exchanged.";
    dmirror(piece: Piece) -> Piece: "Rows and columns exchanged.";
    cmirror(piece: Piece) -> Piece: "Mirrored in the diagonal from lower left to upper right.";
    hupscale(grid: Grid, factor: Integer) -> Grid: "Each cell factor times as wide.";
    vupscale(grid: Grid, factor: Integer) -> Grid: "Each cell factor times as high.";
    upscale(element: Element, factor: Integer) -> Element: "Each cell as a block of factor times factor.";
    downscale(grid: Grid, factor: Integer) -> Grid: "Every factor-th row and column.";
    compress(grid: Grid) -> Grid: "Without one-coloured rows and columns.";
}

fn canvas(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (height, width) = place(context, &arguments[1])?;
    let colour = colour(&arguments[0])?;
    // Rows without cells take room too.
    make(context, area(height, width.saturating_add(1)), 1)?;
    grid_value(context, Grid::canvas(colour, height.max(0) as usize, width.max(0) as usize))
}

fn crop(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    let (start, dims) = (place(context, &arguments[1])?, place(context, &arguments[2])?);
    grid_value(context, grid.crop(start, dims))
}

fn subgrid(context: &mut Context, arguments: &[Value]) -> Outcome {
    let extent = extent_of(context, &arguments[0], "rectangle")?;
    let grid = grid(context, &arguments[1])?;
    grid_value(context, grid.crop((extent.top, extent.left), (extent.height(), extent.width())))
}

/// A grid that becomes another of at most its size.
fn reshaped(context: &mut Context, arguments: &[Value], change: fn(&Grid) -> Grid) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    make(context, grid.cells().len() as i64, 1)?;
    grid_value(context, change(&grid))
}

fn trim(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::trim)
}

fn tophalf(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::top_half)
}

fn bottomhalf(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::bottom_half)
}

fn lefthalf(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::left_half)
}

fn righthalf(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::right_half)
}

/// Pieces of a grid as a tuple.
fn split(context: &mut Context, arguments: &[Value], pieces: fn(&Grid, i64) -> Result<Vec<Grid>, Misuse>) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    let n = int(&arguments[1])?;
    // Each piece takes its part of each row.
    context.spend((n.max(0) as u64).saturating_mul(1 + grid.height() as u64 / 8))?;
    make(context, n, size_of::<Grid>() + size_of::<Value>())?;
    let pieces = pieces(&grid, n)?.into_iter().map(|piece| grid_value(context, piece)).collect::<Result<_, _>>()?;
    context.meter().tuple(pieces)
}

fn hsplit(context: &mut Context, arguments: &[Value]) -> Outcome {
    split(context, arguments, Grid::hsplit)
}

fn vsplit(context: &mut Context, arguments: &[Value]) -> Outcome {
    split(context, arguments, Grid::vsplit)
}

fn hconcat(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (a, b) = (grid(context, &arguments[0])?, grid(context, &arguments[1])?);
    make(context, (a.cells().len() + b.cells().len()) as i64, 1)?;
    grid_value(context, a.hconcat(&b))
}

fn vconcat(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let (Some(a), Some(b)) = (arguments[0].packed::<Grid>(), arguments[1].packed::<Grid>()) {
        make(context, (a.cells().len() + b.cells().len()) as i64, 1)?;
        if let Ok(joined) = a.vconcat(b) {
            return grid_value(context, joined);
        }
    }
    // Rows of any lengths follow each other: a tuple that is a grid only if they fit.
    let (_, above) = elements(context, &arguments[0])?;
    let (_, below) = elements(context, &arguments[1])?;
    context.meter().room((above.len() + below.len()) * size_of::<Value>())?;
    container(context, Shape::Tuple, [&above[..], &below[..]].concat())
}

fn rot90(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::rot90)
}

fn rot180(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::rot180)
}

fn rot270(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::rot270)
}

/// A grid or a patch in a mirror.
fn mirrored(
    context: &mut Context,
    arguments: &[Value],
    of_grid: fn(&Grid) -> Grid,
    of_rows: fn(&[Vec<Value>]) -> Rows,
    of_patch: fn(&Patch) -> Result<Patch, Misuse>,
) -> Outcome {
    let value = &arguments[0];
    if let Some(grid) = value.packed::<Grid>() {
        make(context, grid.cells().len() as i64, 1)?;
        return grid_value(context, of_grid(grid));
    }
    if is_tuple(value) {
        return mirrored_rows(context, value, of_rows);
    }
    let patch = patch(context, value)?;
    make(context, patch.len() as i64, size_of::<u64>())?;
    // One of the mirrors is made of three others.
    sort(context, 2 * patch.len())?;
    patch_value(context, of_patch(&patch)?)
}

/// Rows of any values, from the top down.
type Rows = Vec<Vec<Value>>;

/// Any tuple of tuples in a mirror: what the rows hold does not matter.
fn mirrored_rows(context: &mut Context, value: &Value, mirror: fn(&[Vec<Value>]) -> Rows) -> Outcome {
    let (_, rows) = elements(context, value)?;
    let rows = rows.iter().map(|row| Ok(elements(context, row)?.1.into_owned())).collect::<Result<Rows, Fault>>()?;
    let mirrored = mirror(&rows).into_iter().map(|row| context.meter().tuple(row)).collect::<Result<_, _>>()?;
    context.meter().tuple(mirrored)
}

fn reversed(rows: &[Vec<Value>]) -> Rows {
    rows.iter().rev().cloned().collect()
}

fn each_reversed(rows: &[Vec<Value>]) -> Rows {
    rows.iter().map(|row| row.iter().rev().cloned().collect()).collect()
}

/// Columns as rows, as many as the shortest row has.
fn transposed(rows: &[Vec<Value>]) -> Rows {
    let width = rows.iter().map(Vec::len).min().unwrap_or(0);
    (0..width).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect()
}

fn hmirror(context: &mut Context, arguments: &[Value]) -> Outcome {
    mirrored(context, arguments, Grid::hmirror, reversed, Patch::hmirror)
}

fn vmirror(context: &mut Context, arguments: &[Value]) -> Outcome {
    mirrored(context, arguments, Grid::vmirror, each_reversed, Patch::vmirror)
}

fn dmirror(context: &mut Context, arguments: &[Value]) -> Outcome {
    mirrored(context, arguments, Grid::dmirror, transposed, Patch::dmirror)
}

fn cmirror(context: &mut Context, arguments: &[Value]) -> Outcome {
    mirrored(context, arguments, Grid::cmirror, |rows| transposed(&reversed(&each_reversed(rows))), Patch::cmirror)
}

/// The factor as a size; below zero there is nothing.
fn factor(value: &Value) -> Result<i64, Fault> {
    Ok(int(value)?.max(0))
}

fn hupscale(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (grid, factor) = (grid(context, &arguments[0])?, factor(&arguments[1])?);
    make(context, area(grid.cells().len() as i64, factor), 1)?;
    grid_value(context, grid.hupscale(factor as usize))
}

fn vupscale(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (grid, factor) = (grid(context, &arguments[0])?, factor(&arguments[1])?);
    make(context, area((grid.cells().len() + grid.height()) as i64, factor), 1)?;
    grid_value(context, grid.vupscale(factor as usize))
}

fn upscale(context: &mut Context, arguments: &[Value]) -> Outcome {
    let factor = factor(&arguments[1])?;
    match piece(context, &arguments[0])? {
        Piece::Grid(grid) => {
            make(context, area((grid.cells().len() + grid.height()) as i64, area(factor, factor)), 1)?;
            grid_value(context, grid.hupscale(factor as usize).vupscale(factor as usize))
        }
        Piece::Patch(patch) => {
            let n = area(patch.len() as i64, area(factor, factor));
            make(context, n, size_of::<u64>())?;
            sort(context, usize::try_from(n).unwrap_or(usize::MAX))?;
            patch_value(context, patch.upscale(factor)?)
        }
    }
}

fn downscale(context: &mut Context, arguments: &[Value]) -> Outcome {
    let grid = grid(context, &arguments[0])?;
    grid_value(context, grid.downscale(int(&arguments[1])?)?)
}

fn compress(context: &mut Context, arguments: &[Value]) -> Outcome {
    reshaped(context, arguments, Grid::compress)
}
