//! Whether a program passes tests: each runs after the program, in a run of its own.
//!
//! A program that gives names of the language another meaning could make any test pass, so one that redefines a builtin that the
//! tests use is not run.

use super::problem::Problem;
use hone_program::{Library, Limits, Program};
use std::sync::{Arc, LazyLock};

/// What one test may use.
const LIMITS: Limits = Limits { fuel: 50_000_000, memory: 256 << 20, depth: 1000, output: 4 << 10, source: 256 << 10 };

/// Names of the language that tests build on.
const BUILTINS: [&str; 26] = [
    "abs",
    "all",
    "any",
    "bool",
    "dict",
    "enumerate",
    "float",
    "frozenset",
    "int",
    "isinstance",
    "len",
    "list",
    "map",
    "max",
    "min",
    "range",
    "reversed",
    "round",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "type",
    "zip",
    "filter",
];

/// What became of the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checked {
    /// The program cannot be run.
    Invalid(String),
    /// Each test passed, or failed with these words.
    Ran(Vec<Result<(), String>>),
}

impl Checked {
    pub(super) fn is_valid(&self) -> bool {
        matches!(self, Self::Ran(_))
    }

    /// Why the program cannot be run, where it cannot.
    pub(super) fn invalid(&self) -> Option<&str> {
        match self {
            Self::Invalid(reason) => Some(reason),
            Self::Ran(_) => None,
        }
    }

    /// The share of tests that passed.
    pub(super) fn passed(&self) -> f64 {
        match self {
            Self::Invalid(_) => 0.0,
            Self::Ran(tests) => tests.iter().filter(|test| test.is_ok()).count() as f64 / tests.len().max(1) as f64,
        }
    }

    pub(super) fn is_solved(&self) -> bool {
        matches!(self, Self::Ran(tests) if !tests.is_empty() && tests.iter().all(Result::is_ok))
    }
}

/// Runs the tests of a problem against a program.
pub(super) fn check(program: &str, problem: &Problem) -> Checked {
    if program.trim().is_empty() {
        return Checked::Invalid("there is no program".into());
    }
    let parsed = match Program::parse(program, &library(), &LIMITS) {
        Ok(parsed) => parsed,
        Err(error) => return Checked::Invalid(error.to_string()),
    };
    if let Some(name) = redefined(&parsed, problem) {
        return Checked::Invalid(format!("it gives `{name}` another meaning, which the tests use"));
    }
    let run = |test: &String| {
        let source = format!("{program}\n{}\n{test}\n", problem.setup);
        let ran = Program::parse(&source, &library(), &LIMITS).and_then(|program| program.run_module(&LIMITS).result);
        ran.map(drop).map_err(|error| error.to_string())
    };
    Checked::Ran(problem.tests.iter().map(run).collect())
}

fn library() -> Arc<Library> {
    static LIBRARY: LazyLock<Arc<Library>> = LazyLock::new(|| Arc::new(Library::new()));
    Arc::clone(&LIBRARY)
}

/// A name of the language that the tests use and the program takes for itself. What the reference takes as well is what the problem
/// asks for.
fn redefined(program: &Program, problem: &Problem) -> Option<&'static str> {
    let tests = problem.tests.join("\n");
    let reference = Program::parse(&problem.reference, &library(), &LIMITS).ok();
    let is_asked_for = |name: &str| reference.as_ref().is_some_and(|reference| reference.binds(name));
    BUILTINS.into_iter().find(|name| has_word(&tests, name) && program.binds(name) && !is_asked_for(name))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|found| found == word)
}
