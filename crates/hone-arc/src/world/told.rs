//! What is said in the world of ARC tasks, and how an answer is read.

use super::Stage;
use super::score::{Attempt, Score};
use crate::dsl;
use crate::grid::Grid;
use crate::task::Pair;
use crate::verify::difference;
use hone_trace::{Draws, Message, Role, ToolSpec};
use serde_json::{Map, json};
use std::sync::{Arc, LazyLock};

/// The tool that runs a program on an example.
pub(super) const RUN: &str = "run_on_example";

/// The most characters of a program that are shown to a model.
const PROGRAM_CHARS_MAX: usize = 4000;

pub(super) fn instructions(turns_max: usize) -> String {
    let turns = match turns_max {
        1 => "You have one program.".to_owned(),
        n => format!("You have {n} programs: after each you see what it made of the examples."),
    };
    format!(
        "Each example shows a grid and what becomes of it. Find the rule and write it as a Python function `solve(I)` that \
         returns the output grid for an input grid I. A grid is a tuple of rows, each a tuple of colours 0 to 9. Begin with \
         `from arc_dsl import *`. You may think first inside <think></think>; then give the whole program, alone or in a ```python block. \
         {turns}\n\n{}",
        dsl::prompt()
    )
}

pub(super) fn tools() -> Arc<[ToolSpec]> {
    static TOOLS: LazyLock<Arc<[ToolSpec]>> = LazyLock::new(|| {
        let parameters = json!({
            "type": "object",
            "properties": {
                "program": {"type": "string", "description": "The whole program"},
                "example": {"type": "integer", "minimum": 1, "description": "The number of the example"},
            },
            "required": ["program", "example"],
            "additionalProperties": false,
        });
        let about = "Runs a program on an example and shows what it makes of it";
        Arc::new([ToolSpec { name: RUN.into(), description: Some(about.into()), parameters, extra: Map::new() }])
    });
    Arc::clone(&TOOLS)
}

/// The examples, the inputs that are to be solved, and the program that is there.
pub(super) fn task(stage: &Stage) -> String {
    let mut text = String::new();
    for (nth, pair) in stage.pairs[..stage.n_train].iter().enumerate() {
        text += &format!("Example {}\ninput:\n{}output:\n{}\n", nth + 1, rows(&pair.input), rows(&pair.output));
    }
    for pair in &stage.pairs[stage.n_train..] {
        text += &format!("To be solved\ninput:\n{}\n", rows(&pair.input));
    }
    if let Some(program) = &stage.program {
        text += &standing(program, &stage.pairs[..stage.n_train]);
    }
    text
}

/// The program that is there at the start, and what it makes of the examples.
fn standing(program: &str, train: &[Pair]) -> String {
    let made = match Attempt::of(program) {
        Ok(attempt) => told_pairs(train, &Score::on(&attempt, train).1),
        Err(reason) => format!("It cannot be run: {reason}"),
    };
    format!("This program is there already:\n{}\n{made}\nChange it so that all examples are right.\n", shown(program))
}

fn rows(grid: &Grid) -> String {
    let digits = |row: &[i8]| row.iter().map(|colour| colour.to_string()).collect::<Vec<_>>().join(" ");
    grid.rows().map(|row| digits(row) + "\n").collect()
}

/// A whole program, as an answer gives it.
fn block(program: &str) -> String {
    format!("```python\n{}\n```", program.trim())
}

/// A program as a model is shown it: a long one is cut, and says so.
fn shown(program: &str) -> String {
    let program = program.trim();
    match program.char_indices().nth(PROGRAM_CHARS_MAX) {
        None => block(program),
        Some((end, _)) => {
            let n_left_out = program[end..].chars().count();
            format!("{}\n… ({n_left_out} characters left out)", block(&program[..end]))
        }
    }
}

/// An answer with this program, for scripts.
pub(super) fn answer(program: &str) -> Message {
    Message::text(Role::Assistant, block(program))
}

/// An answer that thinks before it gives its program, for scripts.
pub(super) fn thought(thinking: &str, program: &str) -> Message {
    Message::text(Role::Assistant, format!("<think>{thinking}</think>\n{}", block(program)))
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The last fenced block, or everything that is not thinking.
    pub program: String,
    /// What stands inside each `<think>…</think>`.
    pub thoughts: Vec<String>,
}

/// Reads an answer.
pub fn answer_of(text: &str) -> Answer {
    let (rest, thoughts) = without_thinking(text);
    let fenced = rest.rsplit_once("```").and_then(|(before, _)| before.rsplit_once("```")).map(|(_, inside)| inside);
    let program = match fenced {
        Some(inside) => inside.strip_prefix("python").or_else(|| inside.strip_prefix("py")).unwrap_or(inside).to_owned(),
        None => rest,
    };
    Answer { program: program.trim().to_owned(), thoughts }
}

/// The text outside of `<think>…</think>`, and what is inside. Thinking that never ends hides the rest.
fn without_thinking(text: &str) -> (String, Vec<String>) {
    let (mut rest, mut kept, mut thoughts) = (text, String::new(), Vec::new());
    while let Some((before, after)) = rest.split_once("<think>") {
        kept += before;
        let (thought, after) = after.split_once("</think>").unwrap_or((after, ""));
        thoughts.push(thought.trim().to_owned());
        rest = after;
    }
    (kept + rest, thoughts)
}

/// What a program made of a grid, beside what was wanted.
pub(super) fn made(made: &Result<Grid, String>, wanted: &Grid) -> String {
    match made {
        Err(reason) => format!("error: {reason}"),
        Ok(grid) => match difference(grid, wanted) {
            None => "right".to_owned(),
            Some(difference) => format!("wrong: {difference}; it made:\n{}", rows(grid)),
        },
    }
}

pub(super) fn verdict(program: &str, train: &[Pair], results: &[Result<Grid, String>]) -> String {
    format!("Your program:\n{}\n{}\nChange it so that all examples are right.", shown(program), told_pairs(train, results))
}

/// A line for each pair: what was made of it.
fn told_pairs(train: &[Pair], results: &[Result<Grid, String>]) -> String {
    let lines = train.iter().zip(results).enumerate();
    let lines: Vec<String> =
        lines.map(|(nth, (pair, result))| format!("Example {}: {}", nth + 1, made(result, &pair.output))).collect();
    lines.join("\n")
}

pub(super) fn invalid(program: &str, reason: &str) -> String {
    format!("Your program:\n{}\nIt cannot be run: {reason}\nWrite it again.", shown(program))
}

/// A program that knows the answers of these pairs and nothing else.
pub(super) fn lookup(pairs: &[Pair]) -> String {
    let tuple = |grid: &Grid| {
        let row = |row: &[i8]| format!("({},)", row.iter().map(|colour| colour.to_string()).collect::<Vec<_>>().join(","));
        format!("({},)", grid.rows().map(row).collect::<Vec<_>>().join(","))
    };
    let cases = pairs.iter().map(|pair| format!("    if I == {}:\n        return {}\n", tuple(&pair.input), tuple(&pair.output)));
    format!("def solve(I):\n{}    return I\n", cases.collect::<String>())
}

/// A program of two random calls.
pub(super) fn guess(draws: &mut Draws) -> String {
    let names =
        ["vmirror", "hmirror", "dmirror", "rot90", "rot180", "rot270", "tophalf", "lefthalf", "trim", "compress", "identity"];
    let (first, second) = (draws.pick(&names), draws.pick(&names));
    format!("from arc_dsl import *\n\n\ndef solve(I):\n    x1 = {first}(I)\n    O = {second}(x1)\n    return O\n")
}

/// Words of which one may stand for another: what a slip of the pen exchanges.
const ALIKE: [&[&str]; 7] = [
    &["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"],
    &["vmirror", "hmirror", "dmirror", "cmirror", "rot90", "rot180", "rot270"],
    &["T", "F"],
    &["UP", "DOWN", "LEFT", "RIGHT", "UNITY", "UP_RIGHT", "DOWN_LEFT"],
    &["argmax", "argmin"],
    &["tophalf", "bottomhalf", "lefthalf", "righthalf"],
    &["dneighbors", "ineighbors", "neighbors", "outbox", "box", "inbox", "backdrop", "delta"],
];

/// The program with one word exchanged for one like it.
pub(super) fn with_a_slip(program: &str, draws: &mut Draws) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut places = Vec::new();
    for (at, word) in words(program, is_word) {
        places.extend(ALIKE.iter().filter(|alike| alike.contains(&word)).map(|alike| (at, word, *alike)));
    }
    if places.is_empty() {
        return program.replace("return O", "return I");
    }
    let (at, word, alike) = *draws.pick(&places);
    let others: Vec<&str> = alike.iter().copied().filter(|other| *other != word).collect();
    format!("{}{}{}", &program[..at], draws.pick(&others), &program[at + word.len()..])
}

/// The words of a text with where each begins.
fn words(text: &str, is_word: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        match (is_word(letter), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push((from, &text[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_after_thinking_from_the_last_block() {
        let check = |text: &str, program: &str, thoughts: &[&str]| {
            let thoughts = thoughts.iter().map(|thought| (*thought).to_owned()).collect();
            assert_eq!(answer_of(text), Answer { program: program.to_owned(), thoughts }, "{text}");
        };
        check("<think>a</think>x<think>b</think> = 1", "x = 1", &["a", "b"]);
        check("First\n```python\na\n```\nthen\n```\nb\n```\n", "b", &[]);
        check("<think>never ends ```python\na\n```", "", &["never ends ```python\na\n```"]);
    }

    #[test]
    fn a_long_program_is_answered_whole_and_shown_cut() {
        let check = |n_chars: usize, end: &str| {
            let program = "ä".repeat(n_chars);
            assert_eq!(answer_of(&answer(&program).content.text()).program, program);
            assert_eq!(answer_of(&thought("long", &program).content.text()).program, program);
            for told in [verdict(&program, &[], &[]), invalid(&program, "no")] {
                assert!(told.contains(&format!("{}\n```\n{end}", "ä".repeat(n_chars.min(PROGRAM_CHARS_MAX)))), "{told}");
                assert_eq!(told.contains("left out"), !end.is_empty(), "{told}");
            }
        };
        check(PROGRAM_CHARS_MAX, "");
        check(PROGRAM_CHARS_MAX + 25, "… (25 characters left out)\n");
    }

    #[test]
    fn a_slip_changes_one_word_only() {
        let source = "x1 = argmax(I, size)\n";
        assert_eq!(with_a_slip(source, &mut Draws::new(1, &[])), "x1 = argmin(I, size)\n");
        assert_eq!(with_a_slip("return O", &mut Draws::new(1, &[])), "return I");
    }
}
