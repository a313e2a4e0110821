//! Grids as text: a line of coloured parts for each row, input and output side by side.
//!
//! A cell is its digit and a space, so that a picture reads the same without colour. Knows nothing of terminals.

use crate::grid::Grid;
use crate::task::{Pair, Task};

/// A piece of a line: a cell of this colour, or text around the cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it reads.
    pub text: String,
    /// The colour of the cell.
    pub colour: Option<i8>,
}

impl Part {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), colour: None }
    }

    fn cell(colour: i8) -> Self {
        Self { text: format!("{colour} "), colour: Some(colour) }
    }
}

/// The lines of a task: every pair under a heading. Outputs of test pairs are shown on request.
pub fn task(task: &Task, with_test_outputs: bool) -> Vec<Vec<Part>> {
    let trains = task.train.iter().enumerate().map(|(nth, pair)| ("train", nth, pair, true));
    let tests = task.test.iter().enumerate().map(|(nth, pair)| ("test", nth, pair, with_test_outputs));
    let mut lines = Vec::new();
    for (part, nth, of, with_output) in trains.chain(tests) {
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines.push(vec![Part::text(format!("{part} {}", nth + 1))]);
        lines.extend(if with_output { pair(of) } else { grid(&of.input) });
    }
    lines
}

/// The lines of a grid.
pub fn grid(grid: &Grid) -> Vec<Vec<Part>> {
    grid.rows().map(cells).collect()
}

fn cells(row: &[i8]) -> Vec<Part> {
    row.iter().copied().map(Part::cell).collect()
}

/// The lines of a pair: the input, an arrow, the output.
pub fn pair(pair: &Pair) -> Vec<Vec<Part>> {
    let (input, output) = (&pair.input, &pair.output);
    let row_of = |grid: &Grid, row: usize| if row < grid.height() { cells(grid.row(row)) } else { Vec::new() };
    let line = |row: usize| {
        let mut parts = row_of(input, row);
        if parts.is_empty() {
            parts.push(Part::text(" ".repeat(2 * input.width())));
        }
        parts.push(Part::text(if row == 0 { " -> " } else { "    " }));
        parts.extend(row_of(output, row));
        parts
    };
    (0..input.height().max(output.height())).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[Vec<Part>]) -> String {
        let line = |parts: &Vec<Part>| parts.iter().map(|part| part.text.as_str()).collect::<String>().trim_end().to_owned();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn input_and_output_stand_side_by_side_and_hidden_outputs_are_left_out() {
        let pair = |input: &[&[i8]], output: &[&[i8]]| Pair {
            input: Grid::from_rows(input).unwrap(),
            output: Grid::from_rows(output).unwrap(),
        };
        let small = Task {
            id: "a".into(),
            family: "a".into(),
            train: vec![pair(&[&[1, 2]], &[&[3], &[4]])],
            test: vec![pair(&[&[5]], &[&[6]])],
        };
        assert_eq!(read(&task(&small, false)), "train 1\n1 2  -> 3\n        4\n\ntest 1\n5");
        assert!(read(&task(&small, true)).ends_with("test 1\n5  -> 6"));
    }
}
