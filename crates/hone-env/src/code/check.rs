//! Whether a program passes tests: each runs after the program, in a run of its own.
//!
//! A program that gives names of the language another meaning could make any test pass, so one that redefines a builtin that the
//! tests use is not run.

use super::problem::Problem;
use hone_program::{Library, Limits, Program};
use std::sync::{Arc, LazyLock};

/// What one test may use.
const LIMITS: Limits = Limits { fuel: 50_000_000, memory: 256 << 20, depth: 1000, output: 4 << 10, source: 256 << 10 };

/// What all tests of one answer may use together, in steps: as much as twenty of them alone. Nothing else bounds the time of a step of
/// this world, as problems have any number of tests.
const FUEL_OF_ALL: u64 = 20 * LIMITS.fuel;

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
    check_within(program, problem, FUEL_OF_ALL)
}

/// Runs tests until they have used so many steps together; those that are left then have failed.
fn check_within(program: &str, problem: &Problem, fuel_of_all: u64) -> Checked {
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
    let mut fuel_left = fuel_of_all;
    let run = |test: &String| {
        if fuel_left == 0 {
            return Err(format!("not run: the tests before it used all {fuel_of_all} steps that the tests have together"));
        }
        let limits = Limits { fuel: LIMITS.fuel.min(fuel_left), ..LIMITS };
        let source = format!("{program}\n{}\n{test}\n", problem.setup);
        let ran = Program::parse(&source, &library(), &LIMITS).map(|program| program.run_module(&limits));
        fuel_left = fuel_left.saturating_sub(ran.as_ref().map_or(0, |ran| ran.fuel));
        ran.and_then(|ran| ran.result).map(drop).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::env::Split;

    #[test]
    fn the_tests_of_an_answer_have_a_bound_together() {
        let program = "def f(n):\n    for i in range(n):\n        pass\n    return n\n";
        let tests = ["assert f(1) == 1", "assert f(1000000) == 0", "assert f(2) == 2", "assert f(3) == 3"];
        let problem = Problem {
            id: "count".into(),
            split: Split::Test,
            question: String::new(),
            setup: String::new(),
            tests: tests.map(str::to_owned).to_vec(),
            reference: String::new(),
        };
        let outcome = |fuel_of_all| match check_within(program, &problem, fuel_of_all) {
            Checked::Ran(tests) => tests.into_iter().map(|test| test.err().unwrap_or_default()).collect::<Vec<String>>(),
            Checked::Invalid(why) => panic!("{why}"),
        };
        let enough = outcome(u64::MAX);
        assert!([0, 2, 3].iter().all(|&idx| enough[idx].is_empty()) && !enough[1].is_empty(), "{enough:?}");
        let bounded = outcome(10_000);
        assert!(bounded[0].is_empty() && bounded[1].contains("out of fuel"), "{bounded:?}");
        assert!(bounded[2..].iter().all(|why| why.contains("used all 10000 steps")), "{bounded:?}");
    }
}
