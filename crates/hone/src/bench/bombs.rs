//! `hone bench bombs`: how long programs that want too much hold a core, beside a loop that spends its fuel on nothing.

use super::figures::rounded;
use super::on_core::OnCore;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_arc::{Grid, dsl, shipped};
use hone_program::{Library, Limits, Program, Value};
use serde::Serialize;
use std::sync::Arc;

/// Measure how long programs that want too much hold a core
///
/// More than 200 programs of the Python subset and more than 170 of the grid language, written to take as much as they can, run at the default
/// limits. Each takes as many times as long as a loop that spends its fuel on nothing: the shortest time of the rounds, on a core. Exit
/// code 1 when one takes more than ten times as long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each runs
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// The programs, which the tests of their languages stop too.
const PLAIN: &str = "while True: pass";
const OF_SUBSET: &str = include_str!("../../../hone-program/tests/hostile/programs.txt");
const OF_GRIDS: &str = include_str!("../../../hone-arc/tests/data/hostile.txt");
const IMPORTS: &str = "from dsl import *\nfrom constants import *\n\n\n";

/// How many times as long as a plain loop one may take.
const TIMES_MAX: f64 = 10.0;
/// How many of the slowest are told.
const N_TOLD: usize = 12;

#[derive(Debug, Serialize)]
struct Figures {
    programs: usize,
    plain_ms: f64,
    times_max: f64,
    slowest: Vec<Bomb>,
}

#[derive(Debug, Serialize)]
struct Bomb {
    /// How many times as long as a plain loop.
    times: f64,
    language: &'static str,
    program: &'static str,
    verdict: String,
}

/// What runs programs of one language.
struct Language {
    name: &'static str,
    run: fn(&str, &Limits) -> Result<(), String>,
}

const LANGUAGES: [(Language, &str); 2] =
    [(Language { name: "subset", run: of_subset }, OF_SUBSET), (Language { name: "grids", run: of_grids }, OF_GRIDS)];

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let [(subset, _), _] = &LANGUAGES;
    let (plain_s, _) = shortest(subset, PLAIN, args.rounds);
    let mut all = Vec::new();
    let bar = context.printer.count_bar("programs");
    for (language, programs) in &LANGUAGES {
        for program in programs.split("\n---\n") {
            let (seconds, verdict) = shortest(language, program, args.rounds);
            all.push(Bomb { times: rounded(seconds / plain_s.max(1e-9)), language: language.name, program, verdict });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let programs = all.len();
    all.sort_by(|a, b| b.times.total_cmp(&a.times));
    all.truncate(N_TOLD);
    let figures = Figures { programs, plain_ms: rounded(plain_s * 1e3), times_max: all[0].times, slowest: all };
    print(&figures, context)?;
    Ok(if figures.times_max <= TIMES_MAX { Exit::Yes } else { Exit::No })
}

/// The shortest time on a core of so many runs, and what came of the last.
fn shortest(language: &Language, program: &str, rounds: u32) -> (f64, String) {
    let (mut least, mut verdict) = (f64::MAX, String::new());
    for _ in 0..rounds {
        let watch = OnCore::start();
        let result = (language.run)(program, &Limits::default());
        least = least.min(watch.seconds());
        verdict = result.err().unwrap_or_else(|| "ended".to_owned());
    }
    (least, verdict)
}

fn of_subset(source: &str, limits: &Limits) -> Result<(), String> {
    let program = Program::parse(source, &Arc::new(Library::new()), limits).map_err(|error| error.to_string())?;
    program.run_module(limits).result.map(drop).map_err(|error| error.to_string())
}

/// On a grid of many colours.
fn of_grids(body: &str, limits: &Limits) -> Result<(), String> {
    let source = format!("{IMPORTS}def {}(I):\n    {}\n", shipped::ENTRY, body.trim_end().replace('\n', "\n    "));
    let grid = Grid::new(30, 30, (0..900_i16).map(|nth| (nth * 7 % 10) as i8).collect());
    let program = Program::parse(&source, &dsl::library(), limits).map_err(|error| error.to_string())?;
    let input: Value = dsl::input(grid).map_err(|error| error.to_string())?;
    program.run(shipped::ENTRY, &[input], limits).result.map(drop).map_err(|error| error.to_string())
}

fn print(figures: &Figures, context: &Context<'_>) -> Result<(), Failure> {
    let printer = context.printer;
    if printer.wants_json() {
        return printer.json(figures);
    }
    let row = |bomb: &Bomb| {
        let program: String = bomb.program.replace('\n', " ; ").chars().take(70).collect();
        vec![format!("{:.1}", bomb.times), bomb.language.to_owned(), program, bomb.verdict.chars().take(50).collect()]
    };
    let rows: Vec<_> = figures.slowest.iter().map(row).collect();
    printer.table(&["times", "language", "program", "verdict"], &rows)?;
    let Figures { programs, plain_ms, times_max, .. } = figures;
    printer.plain(&format!("{programs} programs: the slowest takes {times_max:.1} times as long as a plain loop ({plain_ms} ms)"))
}
