//! Whether an edit gives away what it could not know: an output copied literally, or words about the hidden answer.
//!
//! An output is copied when all its cells are in one run of numbers that stand beside each other ([`runs`]), or every row that says something is
//! in a run of its own. A grid too small or too uniform to be recognised is not looked for.

use super::{Edit, runs};
use std::fmt;

/// What is given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// An output of the task stands in the program or in the thought.
    Copied,
    /// It speaks of the hidden answer.
    Known(&'static str),
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copied => f.write_str("an output grid is copied"),
            Self::Known(words) => write!(f, "it speaks of the hidden answer: \"{words}\""),
        }
    }
}

/// The fewest cells of a grid with several colours, and of one with a single colour, that can be recognised.
const CELLS_MIN: usize = 4;
const CELLS_MIN_UNIFORM: usize = 16;
/// The fewest cells of a row that can be recognised.
const ROW_MIN: usize = 3;

/// What only who knows the hidden answer says.
const WORDS: [&str; 12] = [
    "expected output of the test",
    "expected test output",
    "output of the test is",
    "test output is",
    "hidden output",
    "hidden answer",
    "hidden test",
    "ground truth",
    "the answer is known",
    "known answer",
    "the correct answer is given",
    "according to the solution",
];

/// What an edit gives away, if anything.
pub(super) fn find(edit: &Edit) -> Option<Leak> {
    let said = format!("{}\n{}", edit.thinking, edit.program);
    let lower = said.to_lowercase();
    if let Some(words) = WORDS.into_iter().find(|words| lower.contains(words)) {
        return Some(Leak::Known(words));
    }
    copies(&said, &edit.outputs).then_some(Leak::Copied)
}

/// Whether a text holds one of these outputs, which come as digits row by row.
pub fn copies(text: &str, outputs: &[Vec<Vec<i8>>]) -> bool {
    let runs = runs::all(text);
    outputs.iter().any(|rows| is_copied(rows, &runs))
}

fn is_copied(rows: &[Vec<i8>], runs: &[Vec<i8>]) -> bool {
    let cells: Vec<i8> = rows.concat();
    let n_min = if is_uniform(&cells) { CELLS_MIN_UNIFORM } else { CELLS_MIN };
    if cells.len() < n_min {
        return false;
    }
    if has(runs, &cells) {
        return true;
    }
    let telling: Vec<&Vec<i8>> = rows.iter().filter(|row| row.len() >= ROW_MIN && !is_uniform(row)).collect();
    telling.len() >= 2 && telling.iter().all(|row| has(runs, row))
}

fn is_uniform(cells: &[i8]) -> bool {
    cells.windows(2).all(|two| two[0] == two[1])
}

fn has(runs: &[Vec<i8>], cells: &[i8]) -> bool {
    runs.iter().any(|run| run.windows(cells.len()).any(|window| window == cells))
}
