//! What is said about programming problems, how an answer is read, and how much of a program changed.

use super::Stage;
use super::check::Checked;
use super::problem::Problem;
use hone_trace::Draws;

pub(super) const INSTRUCTIONS: &str = "Write a Python function that does what is asked. Classes, files, the network and modules \
     beyond math, itertools, functools, collections, operator, heapq, bisect, copy and string are not there. You may think first inside \
     <think></think>; then give the whole program in a ```python block.";

/// Lines of change that cost half of what a small one is worth.
const TOLERANCE: f64 = 4.0;

/// The question, the test that may be seen, and the program that is there.
pub(super) fn problem(stage: &Stage) -> String {
    let mut text =
        format!("{}\n\nIt has to pass this test, and others like it:\n{}\n", stage.problem.question, shown(&stage.problem));
    if let Some(program) = &stage.program {
        text += &format!(
            "\nThis program is there already, and is not right. Change as little of it as possible:\n{}\n",
            block(program)
        );
    }
    text
}

/// The test that may be seen.
fn shown(problem: &Problem) -> String {
    problem.tests.first().map_or_else(String::new, |test| block(test))
}

pub(super) fn block(program: &str) -> String {
    format!("```python\n{}\n```", program.trim_end())
}

/// What became of a program: everything about the test that may be seen, of the others how many passed.
pub(super) fn verdict(checked: &Checked, problem: &Problem) -> String {
    let Checked::Ran(tests) = checked else {
        return format!("It cannot be run: {}\nWrite it again.", checked.invalid().unwrap_or_default());
    };
    let n_passed = tests.iter().filter(|test| test.is_ok()).count();
    let first = match tests.first() {
        Some(Err(reason)) => format!("The test that you see fails: {reason}"),
        _ => "The test that you see passes.".to_owned(),
    };
    format!("{first}\n{n_passed} of {} tests pass. Change the program.", problem.tests.len())
}

/// The program of an answer: the last fenced block, or everything that is not thinking.
pub(super) fn program(text: &str) -> String {
    let mut rest = text;
    let mut said = String::new();
    while let Some((before, after)) = rest.split_once("<think>") {
        said += before;
        rest = after.split_once("</think>").map_or("", |(_, after)| after);
    }
    said += rest;
    let fenced = said.rsplit_once("```").and_then(|(before, _)| before.rsplit_once("```")).map(|(_, inside)| inside);
    let program = fenced
        .map_or(said.as_str(), |inside| inside.strip_prefix("python").or_else(|| inside.strip_prefix("py")).unwrap_or(inside));
    program.trim_matches('\n').trim_end().to_owned()
}

/// A program that gives something at random.
pub(super) fn guess(stage: &Stage, draws: &mut Draws) -> String {
    let head = stage.problem.reference.lines().rev().find(|line| line.starts_with("def ")).unwrap_or("def solution(*values):");
    let answers = ["0", "1", "True", "False", "[]", "''", "None"];
    format!("{}\n    return {}\n", head.trim_end(), draws.pick(&answers))
}

/// Pieces of a program of which one may stand for another: what a slip of the pen exchanges.
const ALIKE: [(&str, &str); 16] = [
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" and ", " or "),
    (" or ", " and "),
    ("min(", "max("),
    ("max(", "min("),
    ("True", "False"),
    ("False", "True"),
    ("[0]", "[1]"),
    ("1)", "2)"),
];

/// The program with one piece exchanged for one like it.
pub(super) fn with_a_slip(program: &str, draws: &mut Draws) -> String {
    let places: Vec<(usize, &str, &str)> =
        ALIKE.iter().flat_map(|(old, new)| program.match_indices(old).map(move |(at, _)| (at, *old, *new))).collect();
    if places.is_empty() {
        return program.replacen("return ", "return not ", 1);
    }
    let (at, old, new) = *draws.pick(&places);
    format!("{}{new}{}", &program[..at], &program[at + old.len()..])
}

/// How close a change is to the smallest one that is known: (m + t) / (max(c, m) + t) with c lines changed, m lines changed by
/// the reference and a tolerance t.
pub(super) fn minimality(before: &str, after: &str, reference: &str) -> f64 {
    let (cost, least) = (n_changed(before, after) as f64, n_changed(before, reference) as f64);
    (least + TOLERANCE) / (cost.max(least) + TOLERANCE)
}

/// Lines that are in one program and not in the other, in order; comments and empty lines count for nothing.
fn n_changed(before: &str, after: &str) -> usize {
    fn lines(text: &str) -> Vec<&str> {
        text.lines().map(|line| line.split('#').next().unwrap_or("").trim_end()).filter(|line| !line.is_empty()).collect()
    }
    let (before, after) = (lines(before), lines(after));
    // The longest common subsequence, one row at a time.
    let mut row = vec![0_usize; after.len() + 1];
    for old in &before {
        let mut diagonal = 0;
        for (nth, new) in after.iter().enumerate() {
            let up = row[nth + 1];
            row[nth + 1] = if old == new { diagonal + 1 } else { up.max(row[nth]) };
            diagonal = up;
        }
    }
    before.len() + after.len() - 2 * row[after.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_change_that_is_known_is_worth_most() {
        let (before, right) = ("def f(a):\n    return a - 1\n", "def f(a):\n    return a + 1\n");
        assert_eq!(n_changed(before, right), 2);
        assert_eq!(minimality(before, right, right), 1.0);
        assert_eq!(minimality(before, &format!("# why\n{right}\n\n"), right), 1.0);
        let rewritten = "def g(b):\n    c = b\n    c += 1\n    return c\nf = g\n";
        assert!(minimality(before, rewritten, right) < 0.6, "{}", minimality(before, rewritten, right));
    }

    #[test]
    fn a_program_is_read_after_thinking_with_its_indentation() {
        assert_eq!(program("<think>x</think>\n```python\ndef f():\n    return 1\n```\n"), "def f():\n    return 1");
        assert_eq!(program("def f():\n    return 1\n"), "def f():\n    return 1");
    }
}
