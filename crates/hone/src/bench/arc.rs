//! `hone bench arc`: programs of the grid language per second on one core, and verified grids beside CPython.
//!
//! Time is time on a core on both sides, so that other work on the machine does not count. A program that is parsed anew is
//! what a model writes; a run is one more grid for a program that is known.

use super::figures::{Spread, rounded};
use super::on_core::OnCore;
use super::scratch;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use hone_arc::task::{self, Task};
use hone_arc::verify::{limits, verify};
use hone_arc::{Grid, dsl, shipped};
use hone_program::{Limits, Program, Value};
use hone_trace::Draws;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measure programs, runs and verified grids per second, beside CPython
///
/// One thread. The program is the median by length of those that ship with hone; it is parsed and run on three grids, then run
/// alone. With --tasks all programs are verified as well, in turns with CPython on the same file: the ratio is of the two rates
/// of a round, the median over the rounds with the least and the most.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the grids, where the task of the program is not given
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Seconds of each measurement and round
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    seconds: f64,
    /// Rounds to measure
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The tasks of the programs: a folder of JSON files, or a file
    #[arg(long, value_name = "FOLDER|FILE.jsonl")]
    tasks: Option<PathBuf>,
    /// The programs to verify; those that ship with hone if it is left out
    #[arg(long, value_name = "FILE.py", requires = "tasks")]
    programs: Option<PathBuf>,
    /// A folder with the `dsl.py` and `constants.py` for CPython; ours if it is left out
    #[arg(long, value_name = "FOLDER", requires = "tasks")]
    python_dsl: Option<PathBuf>,
}

/// The language in Python, and what runs programs with it.
const PYTHON: [(&str, &str); 3] = [
    ("dsl.py", include_str!("../../../../bench/python/arc_dsl.py")),
    ("constants.py", include_str!("../../../../bench/python/arc_constants.py")),
    ("verify.py", include_str!("../../../../bench/python/arc_verify.py")),
];

/// How many grids a program is run on, and how large they are where they are drawn.
const N_GRIDS: usize = 3;
const SIDE: usize = 10;

#[derive(Debug, Serialize)]
struct Figures {
    programs_per_s: f64,
    programs_per_s_spread: Spread,
    runs_per_s: f64,
    runs_per_s_spread: Spread,
    program: &'static str,
    program_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verified>,
}

#[derive(Debug, Serialize)]
struct Verified {
    tasks: usize,
    solved: usize,
    grids: usize,
    grids_per_s: f64,
    grids_per_s_spread: Spread,
    python_solved: usize,
    python_grids_per_s: f64,
    python_grids_per_s_spread: Spread,
    ratio: f64,
    ratio_spread: Spread,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    if !(0.01..=60.0).contains(&args.seconds) {
        return Err(Failure::user(format_args!("--seconds {} is not between 0.01 and 60", args.seconds)));
    }
    let tasks = args.tasks.as_deref().map(task::read).transpose().map_err(Failure::user)?;
    let (id, source) = median_program()?;
    let grids = tasks.as_ref().and_then(|tasks| inputs_of(id, tasks)).unwrap_or_else(|| drawn(args.seed));
    let (mut programs, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        programs.push(programs_per_s(source, &grids, args.seconds)?);
        runs.push(runs_per_s(source, &grids, args.seconds)?);
    }
    let (programs, runs) = (Spread::of(&programs), Spread::of(&runs));
    let verify = match &tasks {
        Some(tasks) => Some(beside_python(args, tasks, context)?),
        None => None,
    };
    let figures = Figures {
        programs_per_s: programs.median,
        programs_per_s_spread: programs,
        runs_per_s: runs.median,
        runs_per_s_spread: runs,
        program: id,
        program_bytes: source.len(),
        verify,
    };
    print(&figures, context)?;
    Ok(Exit::Yes)
}

fn print(figures: &Figures, context: &Context<'_>) -> Result<(), Failure> {
    if context.printer.wants_json() {
        return context.printer.json(figures);
    }
    let mut rows = vec![
        vec!["programs/s, parsed and run on three grids".to_owned(), figures.programs_per_s_spread.to_string()],
        vec!["runs/s, parsed once".to_owned(), figures.runs_per_s_spread.to_string()],
    ];
    if let Some(verified) = &figures.verify {
        rows.push(vec!["verified grids/s".to_owned(), verified.grids_per_s_spread.to_string()]);
        rows.push(vec!["CPython grids/s".to_owned(), verified.python_grids_per_s_spread.to_string()]);
        rows.push(vec!["ratio".to_owned(), verified.ratio_spread.to_string()]);
    }
    context.printer.table(&["figure", "median (least to most)"], &rows)
}

/// The shipped program of median length, with the id of its task.
fn median_program() -> Result<(&'static str, &'static str), Failure> {
    let mut programs: Vec<(&str, &str)> = shipped::programs().iter().map(|(id, source)| (*id, source.as_str())).collect();
    programs.sort_by_key(|(id, source)| (source.len(), *id));
    programs.get(programs.len() / 2).copied().ok_or_else(|| Failure::bug("no program ships with hone"))
}

/// The first inputs of the task with this id, if it is among these.
fn inputs_of(id: &str, tasks: &[Task]) -> Option<Vec<Grid>> {
    let task = tasks.iter().find(|task| task.id == id)?;
    let inputs: Vec<Grid> = task.pairs().map(|pair| pair.input.clone()).collect();
    (!inputs.is_empty()).then(|| inputs.into_iter().cycle().take(N_GRIDS).collect())
}

/// Square grids with a few coloured rectangles on a background.
fn drawn(seed: u64) -> Vec<Grid> {
    let mut draws = Draws::new(seed, &["bench", "arc"]);
    let mut grid = || {
        let mut cells = vec![0; SIDE * SIDE];
        for colour in 1..5 {
            let (top, left) = (draws.below(SIDE - 2), draws.below(SIDE - 2));
            for row in top..(top + 1 + draws.below(4)).min(SIDE) {
                cells[row * SIDE + left..row * SIDE + left + 2].fill(colour);
            }
        }
        Grid::new(SIDE, SIDE, cells)
    };
    (0..N_GRIDS).map(|_| grid()).collect()
}

fn values(grids: &[Grid]) -> Result<Vec<Value>, Failure> {
    grids.iter().map(|grid| dsl::input(grid.clone()).map_err(Failure::bug)).collect()
}

fn run_on(program: &Program, input: &Value, limits: &Limits) -> Result<(), Failure> {
    let run = program.run(shipped::ENTRY, std::slice::from_ref(input), limits);
    std::hint::black_box(run.result.map_err(Failure::bug)?);
    Ok(())
}

/// Programs that are parsed and run on all grids, a second.
fn programs_per_s(source: &str, grids: &[Grid], seconds: f64) -> Result<f64, Failure> {
    let (library, limits, inputs) = (dsl::library(), Limits::default(), values(grids)?);
    per_second(seconds, || {
        let program = Program::parse(source, &library, &limits).map_err(Failure::bug)?;
        inputs.iter().try_for_each(|input| run_on(&program, input, &limits)).map(|()| 1)
    })
}

/// Runs of one parsed program, a second.
fn runs_per_s(source: &str, grids: &[Grid], seconds: f64) -> Result<f64, Failure> {
    let (limits, inputs) = (Limits::default(), values(grids)?);
    let program = Program::parse(source, &dsl::library(), &limits).map_err(Failure::bug)?;
    per_second(seconds, || inputs.iter().try_for_each(|input| run_on(&program, input, &limits)).map(|()| inputs.len()))
}

/// How many things are done in a second on a core. The clock is read after every hundred turns.
fn per_second(seconds: f64, mut turn: impl FnMut() -> Result<usize, Failure>) -> Result<f64, Failure> {
    let (watch, mut n) = (OnCore::start(), 0);
    loop {
        for _ in 0..100 {
            n += turn()?;
        }
        let passed = watch.seconds();
        if passed >= seconds {
            return Ok(n as f64 / passed);
        }
    }
}

/// Verifies all programs here and in CPython, in turns.
fn beside_python(args: &Args, tasks: &[Task], context: &Context<'_>) -> Result<Verified, Failure> {
    let source = match &args.programs {
        Some(path) => std::fs::read_to_string(path).map_err(at_path(path))?,
        None => shipped::PROGRAMS.to_owned(),
    };
    let folder = scratch::folder(context)?;
    let there = Python::new(folder.path(), args, &source, tasks)?;
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut report, mut python_solved) = (None, 0);
    for round in 1..=args.rounds {
        context.printer.say(&format!("verifying, round {round} of {}", args.rounds));
        let (here, of_round) = grids_per_s(&source, tasks, args.seconds)?;
        let printed = there.run()?;
        report = Some(of_round);
        python_solved = printed.solved;
        ours.push(here);
        theirs.push(printed.grids_per_s);
        ratios.push(here / printed.grids_per_s);
    }
    let report = report.ok_or_else(|| Failure::bug("no round was measured"))?;
    let (ours, theirs, ratios) = (Spread::of(&ours), Spread::of(&theirs), Spread::of(&ratios));
    Ok(Verified {
        tasks: report.n_tasks,
        solved: report.n_solved,
        grids: report.n_grids,
        grids_per_s: ours.median,
        grids_per_s_spread: ours,
        python_solved,
        python_grids_per_s: theirs.median,
        python_grids_per_s_spread: theirs,
        ratio: ratios.median,
        ratio_spread: ratios,
    })
}

/// Grids that are verified in a second on a core, and what became of them.
fn grids_per_s(source: &str, tasks: &[Task], seconds: f64) -> Result<(f64, hone_arc::verify::Report), Failure> {
    let (watch, mut n_grids) = (OnCore::start(), 0);
    loop {
        let report = verify(source, tasks, &limits()).map_err(Failure::user)?;
        if report.n_grids == 0 {
            return Err(Failure::user("none of the programs has a task among these"));
        }
        n_grids += report.n_grids;
        let passed = watch.seconds();
        if passed >= seconds {
            return Ok((rounded(n_grids as f64 / passed), report));
        }
    }
}

/// CPython with the language, the programs and the tasks in a folder.
struct Python<'a> {
    folder: &'a Path,
    language: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Printed {
    grids_per_s: f64,
    solved: usize,
}

impl<'a> Python<'a> {
    fn new(folder: &'a Path, args: &Args, source: &str, tasks: &[Task]) -> Result<Self, Failure> {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).map_err(at_path(&folder.join(name)));
        PYTHON.iter().try_for_each(|(name, text)| write(name, text))?;
        let lines: Vec<String> = tasks.iter().map(|task| task.to_json(true).to_string()).collect();
        write("programs.py", source)?;
        write("tasks.jsonl", &lines.join("\n"))?;
        let language = args.python_dsl.clone().unwrap_or_else(|| folder.to_owned());
        Ok(Self { folder, language: std::path::absolute(&language).map_err(at_path(&language))? })
    }

    /// All programs on all pairs of their tasks, once.
    fn run(&self) -> Result<Printed, Failure> {
        let mut python = Command::new("python3");
        python.current_dir(self.folder).args(["verify.py", "programs.py", "tasks.jsonl"]).arg(&self.language);
        let output = python.output().map_err(|error| Failure::world(error).context("python3").hint("install Python 3"))?;
        if !output.status.success() {
            return Err(Failure::user(format_args!("CPython failed: {}", String::from_utf8_lossy(&output.stderr))));
        }
        serde_json::from_slice(&output.stdout).map_err(Failure::world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_program_runs_on_drawn_grids() {
        let (_, source) = median_program().unwrap();
        let n_shorter = shipped::programs().values().filter(|other| other.len() < source.len()).count();
        let n_longer = shipped::programs().values().filter(|other| other.len() > source.len()).count();
        assert!(n_shorter <= shipped::programs().len() / 2 && n_longer <= shipped::programs().len() / 2);
        assert!(programs_per_s(source, &drawn(1), 0.01).unwrap() > 0.0);
        assert!(runs_per_s(source, &drawn(2), 0.01).unwrap() > 0.0);
        assert_eq!(drawn(3), drawn(3));
    }
}
