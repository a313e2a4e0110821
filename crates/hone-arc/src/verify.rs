//! Whether programs solve their tasks: every train and test pair, cell by cell.
//!
//! A file holds functions `solve_<task id>(I)`, as the public solver file does. A program that fails on one grid has failed
//! its task and goes on with the others. Knows nothing of clocks: how fast it went is measured by who asks.

use crate::dsl;
use crate::grid::Grid;
use crate::task::{Pair, Task};
use hone_program::{Error, Limits, Program, Run, Session, Value};
use std::collections::BTreeMap;

/// How the functions are named: this, then the id of the task.
pub const PREFIX: &str = "solve_";

/// How much a file of programs may be: the public one has 400 of them.
const SOURCE_BYTES_MAX: usize = 16 << 20;

/// What one run may use: programs that people wrote may look at every pair of cells of a large grid.
const FUEL_MAX: u64 = 400_000_000;
const MEMORY_BYTES_MAX: usize = 512 << 20;

/// What became of the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How many programs were run against their task.
    pub n_tasks: usize,
    /// How many of them got every grid right.
    pub n_solved: usize,
    /// How many grids were computed.
    pub n_grids: usize,
    /// The tasks that were not solved, each with the first reason.
    pub failed: Vec<Failed>,
}

/// A task that was not solved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its id.
    pub task: String,
    /// The first thing that went wrong.
    pub reason: String,
}

/// The limits of a single run and of the file.
pub fn limits() -> Limits {
    Limits { source: SOURCE_BYTES_MAX, fuel: FUEL_MAX, memory: MEMORY_BYTES_MAX, ..Limits::default() }
}

/// Runs every program of a file on all pairs of its task. Tasks without a program are left out; a program without a task
/// has failed.
pub fn verify(source: &str, tasks: &[Task], limits: &Limits) -> Result<Report, Error> {
    let program = Program::parse(source, &dsl::library(), limits)?;
    let tasks: BTreeMap<&str, &Task> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    let mut report = Report { n_tasks: 0, n_solved: 0, n_grids: 0, failed: Vec::new() };
    let mut session = program.start(limits)?;
    let is_fixed = session.is_fixed();
    for function in program.functions() {
        let Some(id) = function.strip_prefix(PREFIX) else { continue };
        report.n_tasks += 1;
        let reason = match tasks.get(id) {
            Some(task) => {
                report.n_grids += task.pairs().count();
                if !is_fixed {
                    // What a program keeps outside of its functions must not reach another task.
                    session = program.start(limits)?;
                }
                first_fault(&mut session, function, task, limits)
            }
            None => Some("there is no such task".to_owned()),
        };
        match reason {
            Some(reason) => report.failed.push(Failed { task: id.to_owned(), reason }),
            None => report.n_solved += 1,
        }
    }
    Ok(report)
}

/// Why a program does not solve a task, if it does not. Runs on every pair all the same.
fn first_fault(session: &mut Session, function: &str, task: &Task, limits: &Limits) -> Option<String> {
    let trains = task.train.iter().enumerate().map(|(nth, pair)| ("train", nth, pair));
    let tests = task.test.iter().enumerate().map(|(nth, pair)| ("test", nth, pair));
    let mut first = None;
    for (part, nth, pair) in trains.chain(tests) {
        if let Err(reason) = check(session, function, pair, limits) {
            first.get_or_insert_with(|| format!("{part} pair {}: {reason}", nth + 1));
        }
    }
    first
}

fn check(session: &mut Session, function: &str, pair: &Pair, limits: &Limits) -> Result<(), String> {
    let output = made(session.call(function, &[input(&pair.input)?], limits))?;
    difference(&output, &pair.output).map_or(Ok(()), Err)
}

/// The grid that a function of a program makes of a grid, or why there is none.
pub fn run(program: &Program, function: &str, grid: &Grid, limits: &Limits) -> Result<Grid, String> {
    made(program.run(function, &[input(grid)?], limits))
}

fn input(grid: &Grid) -> Result<Value, String> {
    dsl::input(grid.clone()).map_err(|fault| fault.to_string())
}

fn made(run: Run) -> Result<Grid, String> {
    let value = run.result.map_err(|error| error.to_string())?;
    dsl::output(&value).map_err(|fault| format!("the result is no grid: {}", fault.message()))
}

/// How a grid differs from the one that was asked for, if it does.
pub fn difference(found: &Grid, wanted: &Grid) -> Option<String> {
    let sides = |grid: &Grid| format!("{} by {}", grid.height(), grid.width());
    if (found.height(), found.width()) != (wanted.height(), wanted.width()) {
        return Some(format!("the grid is {}, and {} is asked for", sides(found), sides(wanted)));
    }
    let n = found.cells().iter().zip(wanted.cells()).filter(|(found, wanted)| found != wanted).count();
    (n > 0).then(|| format!("{n} of {} cells differ", wanted.cells().len()))
}
