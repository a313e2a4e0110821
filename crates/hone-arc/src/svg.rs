//! Grids as pictures for pages: SVG that needs nothing beside it.
//!
//! Cells of one colour in a row are one rectangle, so that a page with hundreds of grids stays small. Knows nothing of pages.

use crate::grid::Grid;
use std::fmt::Write;

/// What 0 to 9 look like.
const COLOURS: [&str; 10] =
    ["#111111", "#1e78d2", "#e0362c", "#2fb344", "#f5c518", "#9a9a9a", "#d129a5", "#f28021", "#6fc5ea", "#7d1128"];
/// What a mark looks like that is no colour of a task.
const OTHER: &str = "#ffffff";
/// The width that a picture aims at, and the sides of a cell that are still readable.
const WIDTH: usize = 132;
const SIDE_MIN: usize = 4;
const SIDE_MAX: usize = 18;

/// The colour of a cell.
pub fn colour(cell: i8) -> &'static str {
    usize::try_from(cell).ok().and_then(|cell| COLOURS.get(cell)).copied().unwrap_or(OTHER)
}

/// A grid. Cells that differ from another grid of the same size are crossed out.
pub fn grid(grid: &Grid, wanted: Option<&Grid>) -> String {
    let (height, width) = (grid.height(), grid.width());
    let side = (WIDTH / height.max(width).max(1)).clamp(SIDE_MIN, SIDE_MAX);
    let (right, bottom) = (width * side, height * side);
    let mut svg = format!(
        r#"<svg class="grid" role="img" aria-label="grid of {height} by {width}" width="{}" height="{}" viewBox="0 0 {} {}">"#,
        right + 1,
        bottom + 1,
        right + 1,
        bottom + 1
    );
    for (row, cells) in grid.rows().enumerate() {
        let mut from = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            let (x, y, w) = (from * side, row * side, run.len() * side);
            put(&mut svg, format_args!(r#"<rect x="{x}" y="{y}" width="{w}" height="{side}" fill="{}"/>"#, colour(run[0])));
            from += run.len();
        }
    }
    put(
        &mut svg,
        format_args!(r##"<path d="{}" stroke="#666666" stroke-width="0.5" fill="none"/>"##, lines(height, width, side)),
    );
    if let Some(wanted) = wanted.filter(|wanted| (wanted.height(), wanted.width()) == (height, width)) {
        put(
            &mut svg,
            format_args!(
                r##"<path class="wrong" d="{}" stroke="#ffffff" stroke-width="1.5" fill="none"/>"##,
                crosses(grid, wanted, side)
            ),
        );
    }
    svg + "</svg>"
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = svg.write_fmt(text);
}

/// The lines between cells.
fn lines(height: usize, width: usize, side: usize) -> String {
    let (right, bottom) = (width * side, height * side);
    let rows = (0..=height).map(|row| format!("M0 {}H{right}", row * side));
    let columns = (0..=width).map(|column| format!("M{} 0V{bottom}", column * side));
    rows.chain(columns).collect()
}

/// A cross over every cell that differs.
fn crosses(grid: &Grid, wanted: &Grid, side: usize) -> String {
    let differing = grid.cells().iter().zip(wanted.cells()).enumerate().filter(|(_, (made, wanted))| made != wanted);
    let cross = |(place, _): (usize, _)| {
        let (x, y) = (place % grid.width() * side, place / grid.width() * side);
        format!("M{x} {y}l{side} {side}m-{side} 0l{side} -{side}")
    };
    differing.map(cross).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_one_colour_is_one_rectangle_and_differences_are_crossed_out() {
        let made = Grid::from_rows(&[[1, 1, 1], [0, 2, 2]]).unwrap();
        let wanted = Grid::from_rows(&[[1, 1, 1], [0, 2, 3]]).unwrap();
        let plain = grid(&made, None);
        assert_eq!(plain.matches("<rect").count(), 3);
        assert!(plain.contains(COLOURS[2]) && !plain.contains("wrong"));
        let compared = grid(&made, Some(&wanted));
        assert_eq!(compared.matches("m-").count(), 1, "one cross");
        assert!(!grid(&made, Some(&Grid::canvas(0, 1, 1))).contains("wrong"), "grids of other sizes are not compared");
        assert_eq!(colour(-1), OTHER);
    }
}
