//! A scripted editor: changes the program of a scenario as a model would, well and badly.
//!
//! It knows the programs that ship with hone, and mends a line of the present one or all of them; it also exchanges words at
//! random, takes the program of another task, rambles, writes what cannot be read, and copies outputs that it should
//! compute. So what searches and filters edits can be tried without a model. The same seed gives the same edit.

use super::{Scripted, Stage, told};
use crate::dsl;
use crate::shipped;
use hone_trace::env::EnvError;
use hone_trace::policy::Conversation;
use hone_trace::{Draws, Message, Scenario};

/// What the editor does.
#[derive(Clone, Copy)]
enum Move {
    /// Mends one line.
    Mend,
    /// Mends all lines.
    MendAll,
    /// Mends one line, and says the same thing again and again.
    Ramble,
    /// Exchanges a word for one like it.
    Slip,
    /// Takes the program of another task.
    Borrow,
    /// Copies the outputs.
    Copy,
    /// Writes half a program.
    Break,
}

/// How likely the moves are, in hundredths.
const MOVES: [(Move, usize); 7] = [
    (Move::Mend, 40),
    (Move::MendAll, 3),
    (Move::Ramble, 8),
    (Move::Slip, 32),
    (Move::Borrow, 6),
    (Move::Copy, 5),
    (Move::Break, 6),
];

/// Who edits the program of this scenario; an empty one where there is none.
pub fn editor(scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
    let stage = Stage::of(scenario)?;
    let mut draws = Draws::new(seed, &["arc", "editor"]);
    Ok(Box::new(Scripted(move || edit(&stage, &mut draws))))
}

fn edit(stage: &Stage, draws: &mut Draws) -> Message {
    let now = stage.program.clone().unwrap_or_else(|| shipped::EMPTY.to_owned());
    let right = shipped::solution(&stage.id);
    match (drawn(draws), right.as_deref()) {
        (Move::Mend, Some(right)) => mended(&now, right, draws, 1),
        (Move::Ramble, Some(right)) => mended(&now, right, draws, 12),
        (Move::MendAll, Some(right)) => {
            told::thought("Several steps are wrong, so I write the rule down anew and look at each step.", right)
        }
        (Move::Copy, _) => told::thought(
            "The expected output of the test is known, so the program can just return it for this input.",
            &told::lookup(&stage.pairs),
        ),
        (Move::Borrow, _) => {
            let others: Vec<&str> = shipped::programs().values().map(String::as_str).collect();
            let other: &str = draws.pick::<&str>(&others);
            told::thought("This looks like a rule that I have seen before.", other)
        }
        (Move::Break, _) => told::thought("I close the last call later.", now.rfind('(').map_or("", |at| &now[..=at])),
        _ => slipped(&now, draws),
    }
}

fn drawn(draws: &mut Draws) -> Move {
    let mut left = draws.below(MOVES.iter().map(|(_, weight)| weight).sum());
    for (choice, weight) in MOVES {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return choice,
        }
    }
    Move::Slip
}

/// One line becomes as it should be; where the lines do not match, all of them do.
fn mended(now: &str, right: &str, draws: &mut Draws, n_said: usize) -> Message {
    let (lines, wanted): (Vec<&str>, Vec<&str>) = (now.lines().collect(), right.lines().collect());
    let wrong: Vec<usize> = (0..lines.len().min(wanted.len())).filter(|&nth| lines[nth] != wanted[nth]).collect();
    if lines.len() != wanted.len() || wrong.is_empty() {
        return told::thought("The steps do not fit the examples, so I write them again from the first one.", right);
    }
    let nth = *draws.pick(&wrong);
    let mut program = lines.clone();
    program[nth] = wanted[nth];
    let said = reason(lines[nth].trim(), wanted[nth].trim());
    told::thought(&[said.as_str()].repeat(n_said).join(" "), &(program.join("\n") + "\n"))
}

/// Why a line is changed, in the words of the language.
fn reason(old: &str, new: &str) -> String {
    let about = dsl::functions().filter(|function| named(new).any(|word| word == function.name));
    let about: Vec<String> =
        about.map(|function| format!("`{}`: {}", function.name, function.about.trim_end_matches('.'))).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join("; ")) };
    format!("The examples do not fit `{old}`. They fit `{new}`{about}, so this step changes and the others stay.")
}

fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

fn slipped(now: &str, draws: &mut Draws) -> Message {
    let changed = told::with_a_slip(now, draws);
    let line = changed.lines().zip(now.lines()).find(|(new, old)| new != old);
    let said = line.map_or_else(
        || "Perhaps the grid is returned as it came.".to_owned(),
        |(new, old)| format!("Perhaps `{}` instead of `{}`.", new.trim(), old.trim()),
    );
    told::thought(&said, &changed)
}
