//! How right a program is: read, run on every pair, and compared cell by cell.

use crate::dsl;
use crate::grid::Grid;
use crate::shipped::ENTRY;
use crate::task::Pair;
use crate::verify::run;
use hone_program::{Limits, Program};

/// How sharply correctness falls with cells that are wrong: a grid that is half right is hardly right at all.
const SHARPNESS: i32 = 10;

/// How right a program is.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// It can be read, and defines the function that is asked for.
    pub is_valid: bool,
    /// The share of grids that have the right size.
    pub right_shape: f64,
    /// The mean share of cells that are right.
    pub right_pixels: f64,
    /// The mean of that share to the tenth power.
    pub correctness: f64,
    /// Everything is right.
    pub is_solved: bool,
}

impl Score {
    /// Everything right.
    pub const RIGHT: Self = Self { is_valid: true, right_shape: 1.0, right_pixels: 1.0, correctness: 1.0, is_solved: true };
    /// Nothing right.
    pub const WRONG: Self = Self { is_valid: false, right_shape: 0.0, right_pixels: 0.0, correctness: 0.0, is_solved: false };

    /// How right a program is on these pairs.
    pub fn of(source: &str, pairs: &[Pair]) -> Self {
        Attempt::of(source).map_or(Self::WRONG, |attempt| Self::on(&attempt, pairs).0)
    }

    /// How right a program is on these pairs, with what it made of each.
    pub fn on(attempt: &Attempt, pairs: &[Pair]) -> (Self, Vec<Result<Grid, String>>) {
        let made: Vec<Result<Grid, String>> = pairs.iter().map(|pair| attempt.run(&pair.input)).collect();
        let n = pairs.len().max(1) as f64;
        let both = || made.iter().zip(pairs);
        let shares: Vec<f64> = both().map(|(made, pair)| made.as_ref().map_or(0.0, |made| share(made, &pair.output))).collect();
        let score = Self {
            is_valid: true,
            right_shape: both().filter(|(made, pair)| made.as_ref().is_ok_and(|made| is_same_size(made, &pair.output))).count()
                as f64
                / n,
            right_pixels: shares.iter().sum::<f64>() / n,
            correctness: shares.iter().map(|share| share.powi(SHARPNESS)).sum::<f64>() / n,
            is_solved: both().all(|(made, pair)| made.as_ref() == Ok(&pair.output)),
        };
        (score, made)
    }
}

fn is_same_size(a: &Grid, b: &Grid) -> bool {
    (a.height(), a.width()) == (b.height(), b.width())
}

/// The share of cells that are right; nothing is right in a grid of another size.
fn share(made: &Grid, wanted: &Grid) -> f64 {
    if !is_same_size(made, wanted) {
        return 0.0;
    }
    let n_right = made.cells().iter().zip(wanted.cells()).filter(|(made, wanted)| made == wanted).count();
    n_right as f64 / wanted.cells().len().max(1) as f64
}

/// A program that can be run.
pub struct Attempt {
    program: Program,
    limits: Limits,
}

impl Attempt {
    /// Reads a program, or says why it is none.
    pub fn of(source: &str) -> Result<Self, String> {
        let limits = Limits::default();
        let program = Program::parse(source, &dsl::library(), &limits).map_err(|error| error.to_string())?;
        let is_there = program.functions().any(|name| name == ENTRY);
        match is_there {
            true => Ok(Self { program, limits }),
            false => Err(format!("it defines no function `{ENTRY}(I)`")),
        }
    }

    /// What it makes of a grid.
    pub fn run(&self, input: &Grid) -> Result<Grid, String> {
        run(&self.program, ENTRY, input, &self.limits)
    }
}
