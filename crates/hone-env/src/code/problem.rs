//! Programming problems from files of one JSON object a line.
//!
//! Two forms are known by their keys: MBPP (`text`, `code`, `test_list`), divided by its task ids as its authors do, and
//! HumanEval (`prompt`, `canonical_solution`, `test`, `entry_point`), which is there to report alone. A HumanEval problem has one
//! function with many checks; each of them becomes a test of its own.

use super::check::check;
use hone_trace::env::{EnvError, Split};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The largest file, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A program as long as this is as hard as any.
const LINES_HARD: f64 = 40.0;

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Problem {
    pub(super) id: String,
    #[serde(with = "words")]
    pub(super) split: Split,
    /// What is asked for.
    pub(super) question: String,
    /// What stands before every test.
    pub(super) setup: String,
    /// Each is a piece of a program that fails if it is not as it should be. The first may be seen.
    pub(super) tests: Vec<String>,
    /// A program that passes them.
    pub(super) reference: String,
}

/// Splits as their words.
mod words {
    use super::Split;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(split: &Split, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(split.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Split, D::Error> {
        Split::deserialize(from)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Mbpp {
        task_id: u32,
        text: String,
        code: String,
        test_list: Vec<String>,
        #[serde(default)]
        test_setup_code: String,
    },
    HumanEval {
        task_id: String,
        prompt: String,
        canonical_solution: String,
        test: String,
        entry_point: String,
    },
}

/// The problems of a file, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<Problem>, EnvError> {
    let wrong = |reason: String| EnvError::Data { place: path.display().to_string(), reason };
    let n_bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if n_bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("{n_bytes} bytes are more than the {FILE_BYTES_MAX} that are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut problems = Vec::new();
    for (number, line) in hone_trace::lines::of_text(&text) {
        let line: Line = serde_json::from_str(line)
            .map_err(|_| wrong(format!("line {number} is a problem neither of MBPP nor of HumanEval")))?;
        problems.push(line.problem());
    }
    Ok(problems)
}

impl Line {
    fn problem(self) -> Problem {
        match self {
            Self::Mbpp { task_id, text, code, test_list, test_setup_code } => Problem {
                id: format!("mbpp-{task_id}"),
                split: match task_id {
                    11..=510 => Split::Test,
                    511..=600 => Split::Validation,
                    _ => Split::Train,
                },
                question: text,
                setup: test_setup_code,
                tests: test_list,
                reference: code.replace("\r\n", "\n"),
            },
            Self::HumanEval { task_id, prompt, canonical_solution, test, entry_point } => {
                let question = format!("Complete this function:\n```python\n{}\n```", prompt.trim_end());
                let whole = format!("{test}\ncheck({entry_point})\n");
                let reference = prompt + &canonical_solution;
                let id = task_id.to_lowercase().replace('/', "-");
                let one = Problem { id, split: Split::Test, question, setup: String::new(), tests: vec![whole], reference };
                let many = Problem { tests: single_checks(&test, &entry_point), ..one.clone() };
                if !many.tests.is_empty() && check(&many.reference, &many).is_solved() { many } else { one }
            }
        }
    }
}

impl Problem {
    /// From 0 to 1, by how long the reference is.
    pub(super) fn difficulty(&self) -> f64 {
        let n_lines = self.reference.lines().filter(|line| !line.trim().is_empty()).count();
        (n_lines as f64 / LINES_HARD).min(1.0)
    }
}

/// The checks of a function `check(candidate)` one by one, each with all that is no check before it.
fn single_checks(test: &str, entry_point: &str) -> Vec<String> {
    let Some((before, body)) = test.split_once("def check(candidate):\n") else { return Vec::new() };
    let mut statements: Vec<String> = Vec::new();
    for line in body.lines() {
        let starts = line
            .strip_prefix("    ")
            .is_some_and(|rest| rest.starts_with(|first: char| !first.is_whitespace() && first != ')' && first != ']'));
        match statements.last_mut() {
            Some(last) if !starts => *last += &format!("\n{line}"),
            _ => statements.push(line.to_owned()),
        }
    }
    let mut prepared = String::new();
    let mut tests = Vec::new();
    for statement in statements {
        if statement.trim_start().starts_with("assert ") {
            tests.push(format!("{before}def check(candidate):\n{prepared}{statement}\n\ncheck({entry_point})\n"));
        } else if !statement.trim().is_empty() {
            prepared += &(statement + "\n");
        }
    }
    tests
}
