//! Programs of the grid language that nobody would write: drawn at random, mutated from those that ship, and bombs written by
//! hand. None may panic, go beyond a limit, or come to something else when it is run again or beside another.

use hone_arc::{Grid, dsl, shipped};
use hone_program::{Limits, Program};
use hone_trace::Draws;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

const BOMBS: &str = include_str!("../data/hostile.txt");
const IMPORTS: &str = "from dsl import *\nfrom constants import *\n\n\n";

/// Small, so that many programs run.
const LIMITS: Limits = Limits { fuel: 40_000, memory: 2 << 20, depth: 100, output: 4096, source: 64 << 10 };

/// What may stand for a parameter of a kind, besides what the program has computed before.
fn values_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "Grid" => &["I", "canvas(THREE, (4, 5))", "()", "((), ())", "((1, 2), (3,))", "tophalf(I)"],
        "Patch" | "Object" | "Indices" => {
            &["asobject(I)", "asindices(I)", "ofcolor(I, ONE)", "frozenset()", "frozenset([(0, 0), (-3, 7)])", "((1, (2, 3)),)"]
        }
        "Objects" | "ContainerContainer" => {
            &["objects(I, T, T, F)", "partition(I)", "frontiers(I)", "(I, I)", "I", "frozenset()"]
        }
        "Element" | "Piece" => &["I", "asobject(I)", "ofcolor(I, ZERO)", "frozenset()", "()"],
        "Callable" => &[
            "identity",
            "size",
            "even",
            "rot90",
            "toindices",
            "lambda x: x",
            "lbind(add, ONE)",
            "compose(size, first)",
            "neighbors",
        ],
        "Integer" => &["ZERO", "ONE", "TWO", "NEG_ONE", "TEN", "height(I)", "2 ** 70", "-129", "10 ** 6"],
        "Boolean" => &["T", "F", "ONE", "()", "equality(I, I)"],
        "IntegerTuple" | "Numerical" => {
            &["ORIGIN", "UNITY", "shape(I)", "UP_RIGHT", "(10 ** 5, 3)", "(T, F)", "FIVE", "(1, 2, 3)"]
        }
        _ => &[
            "(1, 2, 3)",
            "frozenset([3, 1, 2])",
            "I",
            "asobject(I)",
            "(size, even)",
            "None",
            "'text'",
            "1.5",
            "palette(I)",
            "[1, [2]]",
            "range(5)",
        ],
    }
}

/// An argument: mostly of the kind that is meant, sometimes anything.
fn argument(kind: &str, n_known: usize, draws: &mut Draws) -> String {
    match draws.below(10) {
        0..4 if n_known > 0 => format!("x{}", 1 + draws.below(n_known)),
        4 => {
            let functions: Vec<&str> = dsl::functions().map(|function| function.name).collect();
            (*draws.pick(&functions)).to_owned()
        }
        5 => (*draws.pick(values_of(""))).to_owned(),
        _ => (*draws.pick(values_of(kind))).to_owned(),
    }
}

/// A call of a function that is drawn.
fn call(n_known: usize, draws: &mut Draws) -> String {
    let functions: Vec<&dsl::Function> = dsl::functions().collect();
    let function = draws.pick(&functions);
    let arguments: Vec<String> = function.kinds.iter().map(|kind| argument(kind, n_known, draws)).collect();
    format!("{}({})", function.name, arguments.join(", "))
}

fn drawn(draws: &mut Draws) -> String {
    let n_lines = 1 + draws.below(8);
    let lines: Vec<String> = (0..n_lines).map(|nth| format!("    x{} = {}\n", nth + 1, call(nth, draws))).collect();
    format!("{IMPORTS}def solve(I):\n{}    return x{n_lines}\n", lines.concat())
}

/// A shipped program with a few things changed.
fn mutated(draws: &mut Draws) -> String {
    let sources: Vec<&String> = shipped::programs().values().collect();
    let mut lines: Vec<String> = draws.pick(&sources).lines().map(str::to_owned).collect();
    let (first, functions) = (4, dsl::functions().map(|function| function.name).collect::<Vec<_>>());
    for _ in 0..=draws.below(3) {
        let at = first + draws.below(lines.len() - first);
        match draws.below(6) {
            0 => lines.insert(at, format!("    x{} = {}", 1 + draws.below(9), call(at - first, draws))),
            1 if lines.len() > first + 2 => drop(lines.remove(at)),
            2 => {
                let other = first + draws.below(lines.len() - first);
                lines.swap(at, other);
            }
            3 => {
                let new: &str = draws.pick::<&str>(&["O", "x1", "rot90(I)", "asobject(I)", "(I, I)"]);
                lines[at] = lines[at].replace('I', new);
            }
            4 => {
                let old = lines[at].split(['=', '(']).nth(1).unwrap_or("").trim().to_owned();
                let new: &str = draws.pick::<&str>(&functions);
                lines[at] = lines[at].replacen(&old, new, usize::from(!old.is_empty()));
            }
            _ => {
                let old = lines[at].split(['(', ',', ')']).nth(1).unwrap_or("").trim().to_owned();
                lines[at] = lines[at].replacen(&old, &argument("", 2, draws), usize::from(!old.is_empty()));
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The program of a number and a grid to run it on: the same every time, whoever runs it.
fn program(number: usize) -> (String, Grid) {
    let mut draws = Draws::new(number as u64, &["mutated", "arc"]);
    let (height, width, n_colours) = (1 + draws.below(9), 1 + draws.below(9), 1 + draws.below(5));
    let cells = (0..height * width).map(|_| draws.below(n_colours) as i8).collect();
    let source = if number.is_multiple_of(2) { drawn(&mut draws) } else { mutated(&mut draws) };
    (source, Grid::new(height, width, cells))
}

/// What a program came to: a verdict in words, fuel and memory.
type Outcome = (String, u64, usize);

fn outcome(source: &str, grid: &Grid, limits: &Limits) -> Outcome {
    let program = match Program::parse(source, &dsl::library(), limits) {
        Ok(program) => program,
        Err(error) => return (error.to_string(), 0, 0),
    };
    let run = program.run(shipped::ENTRY, &[dsl::input(grid.clone()).unwrap()], limits);
    let verdict = match run.result {
        Ok(value) => dsl::output(&value).map_or_else(|fault| fault.to_string(), |grid| format!("made {:?}", grid.cells())),
        Err(error) => error.to_string(),
    };
    (verdict, run.fuel, run.memory_peak)
}

/// How many programs made a grid or met a limit, and a digest of what became of each.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    n_made: usize,
    n_limits: usize,
    digest: u64,
}

/// Runs every `n_threads`-th program from `first` on.
fn run_share(n_programs: usize, first: usize, n_threads: usize) -> Tally {
    let mut tally = Tally::default();
    for number in (first..n_programs).step_by(n_threads) {
        let (source, grid) = program(number);
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| outcome(&source, &grid, &LIMITS))) else {
            panic!("program {number} panics on {grid:?}:\n{source}")
        };
        assert!(outcome.1 <= LIMITS.fuel && outcome.2 <= LIMITS.memory, "program {number} goes beyond a limit:\n{source}");
        tally.n_made += usize::from(outcome.0.starts_with("made"));
        tally.n_limits += usize::from(outcome.0.contains("out of") || outcome.0.contains("too deep"));
        let mut hasher = DefaultHasher::new();
        (number, outcome).hash(&mut hasher);
        tally.digest ^= hasher.finish();
    }
    tally
}

fn run_all(n_programs: usize, n_threads: usize) -> Tally {
    std::thread::scope(|scope| {
        let shares: Vec<_> = (0..n_threads).map(|first| scope.spawn(move || run_share(n_programs, first, n_threads))).collect();
        shares.into_iter().fold(Tally::default(), |all, share| {
            let share = share.join().expect("a program panicked, see above");
            Tally {
                n_made: all.n_made + share.n_made,
                n_limits: all.n_limits + share.n_limits,
                digest: all.digest ^ share.digest,
            }
        })
    })
}

/// A million on request.
#[expect(clippy::disallowed_methods, reason = "the test run says by a variable whether slow tests run")]
fn n_programs() -> usize {
    if std::env::var_os("HONE_SLOW").is_some() { 1_000_000 } else { 5_000 }
}

#[test]
fn drawn_and_mutated_programs_come_to_the_same_verdict_on_one_thread_and_on_two() {
    let n = n_programs();
    let alone = run_all(n, 1);
    assert_eq!(alone, run_all(n, 2));
    let Tally { n_made, n_limits, .. } = alone;
    println!("{n} programs of the grid language, each twice: {n_made} made a grid, {n_limits} met a limit, the rest failed");
    assert!(n_made * 20 > n, "too few programs make a grid for this to mean anything");
}

/// How long they take beside a plain loop is measured by `hone bench bombs`.
#[test]
fn bombs_are_stopped_and_alike() {
    let cells = (0..900).map(|nth| (nth * 7 % 10) as i8).collect();
    let (grid, limits) = (Grid::new(30, 30, cells), Limits::default());
    let bombs: Vec<&str> = BOMBS.split("\n---\n").collect();
    assert!(bombs.len() > 100, "only {} bombs", bombs.len());
    for bomb in bombs {
        let source = format!("{IMPORTS}def solve(I):\n    {}\n", bomb.trim_end().replace('\n', "\n    "));
        let (verdict, fuel, memory) = outcome(&source, &grid, &limits);
        assert!(fuel <= limits.fuel && memory <= limits.memory, "{bomb}: fuel {fuel}, memory {memory}");
        assert!(!verdict.contains("syntax error"), "{bomb}: {verdict}");
        assert_eq!(outcome(&source, &grid, &limits), (verdict, fuel, memory), "{bomb}");
    }
}
