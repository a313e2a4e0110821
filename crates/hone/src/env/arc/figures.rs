//! Pairs of grids as pictures of a page, beside what programs make of them.

use crate::page::escaped;
use hone_arc::task::Pair;
use hone_arc::world::Attempt;
use hone_arc::{Grid, svg};

/// A pair beside what programs make of its input.
pub(crate) fn figures(pair: &Pair, programs: &[(String, Option<&Attempt>)]) -> String {
    let mut row = figure("input", &svg::grid(&pair.input, None)) + &figure("expected", &svg::grid(&pair.output, None));
    for (name, attempt) in programs {
        row += &made(name, attempt.map(|attempt| attempt.run(&pair.input)), &pair.output);
    }
    format!("<div class=\"row\">{row}</div>")
}

fn made(name: &str, made: Option<Result<Grid, String>>, wanted: &Grid) -> String {
    match made {
        None => figure(name, "<span class=\"bad\">the program cannot be read</span>"),
        Some(Err(reason)) => figure(name, &format!("<span class=\"bad\">{}</span>", escaped(&reason))),
        Some(Ok(grid)) if grid == *wanted => figure(&format!("{name}: right"), &svg::grid(&grid, None)),
        Some(Ok(grid)) => figure(&format!("{name}: wrong"), &svg::grid(&grid, Some(wanted))),
    }
}

fn figure(caption: &str, content: &str) -> String {
    format!("<figure>{content}<figcaption>{}</figcaption></figure>", escaped(caption))
}
