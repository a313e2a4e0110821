//! From edits of programs to samples that are worth imitating: those that gained something, honestly and for a reason of their
//! own.
//!
//! An edit passes one step after the other, and every step says what it dropped and why. What a person said stands above what the
//! steps found: a rejected edit never stays, an accepted one stays as long as it gained something and is not of what is held out.
//!
//! Of a task the three best stay. Where several gained about the same as the third, those come first with which the chosen ones
//! together get most examples right, and further ones stay while they add an example. All tasks of a family together have at most
//! ten.
//!
//! Knows nothing of grids but their digits, of how programs run, or of stores and files.

mod fluff;
mod leak;
mod runs;
mod top;

pub use leak::{Leak, copies};

use hone_trace::Draws;
use hone_trace::env::Split;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An edit, with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Its id.
    pub id: String,
    /// The task whose program was edited.
    pub task: String,
    /// The tasks that stay on one side of a split with it.
    pub family: String,
    /// Whether the task is held out.
    pub is_held_out: bool,
    /// What was thought.
    pub thinking: String,
    /// The program that came of it; empty where there is none.
    pub program: String,
    /// How much more correct the program is than the one before.
    pub gain: f64,
    /// Which pairs of the task it gets right.
    pub right: Vec<bool>,
    /// The outputs of the task as digits, row by row: none of them may be copied.
    pub outputs: Vec<Vec<Vec<i8>>>,
}

/// What is asked of edits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rules {
    /// How many of a task stay.
    pub top: usize,
    /// Two gains that differ by no more than this are the same.
    pub epsilon: f64,
    /// The most of a family, ties included.
    pub family_max: usize,
    /// Two thoughts that are more alike than this are one.
    pub likeness: f64,
    /// The share of families that is kept to choose by.
    pub validation: f64,
    /// Draws which families these are.
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { top: 3, epsilon: 0.01, family_max: 10, likeness: 0.9, validation: 0.1, seed: 1 }
    }
}

/// What a person said of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is good.
    Accept,
    /// It is not.
    Reject,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name.
    pub step: &'static str,
    /// What it drops.
    pub about: &'static str,
    /// How many it dropped.
    pub dropped: usize,
    /// How many are left.
    pub left: usize,
}

/// What became of edits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// Those that stay, by family, task and gain, each with its part.
    pub kept: Vec<(usize, Split)>,
    /// Those that were dropped for what they say, with why: a person may think otherwise.
    pub doubtful: Vec<(usize, String)>,
    /// The steps in their order.
    pub steps: Vec<Step>,
}

/// The steps by name, with what each drops.
const STEPS: [(&str, &str); 8] = [
    ("program", "answers without a program that can be run on an example"),
    ("gain", "edits that made the program no better (\u{394}r \u{2264} 0)"),
    ("held_out", "edits of tasks that are held out for tests"),
    ("review", "edits that a person rejected"),
    ("leaks", "edits that copy an output grid or speak of the hidden answer"),
    ("fluff", "edits without a thought, thoughts that repeat themselves, and ideas that a better edit of the task has already"),
    ("top", "edits beyond the best of their task, unless they tie with them and get another example right"),
    ("limit", "edits beyond the most of a family"),
];

/// Which edits stay. The order in which they come does not matter.
pub fn choose(edits: &[Edit], rules: &Rules, verdicts: &BTreeMap<String, Verdict>) -> Chosen {
    let verdict = |nth: usize| verdicts.get(&edits[nth].id).copied();
    let is_accepted = |nth: usize| verdict(nth) == Some(Verdict::Accept);
    let mut sieve = Sieve::new(edits);
    sieve.keep(|nth| !edits[nth].program.is_empty());
    sieve.keep(|nth| edits[nth].gain > 0.0);
    sieve.keep(|nth| !edits[nth].is_held_out);
    sieve.keep(|nth| verdict(nth) != Some(Verdict::Reject));
    sieve.doubt(|nth| leak::find(&edits[nth]).filter(|_| !is_accepted(nth)).map(|leak| leak.to_string()));
    let mut ideas = fluff::Ideas::new(rules.likeness);
    sieve.doubt(|nth| ideas.add(&edits[nth]).filter(|_| !is_accepted(nth)).map(str::to_owned));
    sieve.replace(|left| top::best(edits, left, rules, &is_accepted));
    sieve.replace(|left| top::limited(edits, left, rules.family_max, &is_accepted));
    let Sieve { left, doubtful, steps } = sieve;
    Chosen { kept: divided(edits, left, rules), doubtful, steps }
}

/// Edits on their way through the steps.
struct Sieve {
    left: Vec<usize>,
    doubtful: Vec<(usize, String)>,
    steps: Vec<Step>,
}

impl Sieve {
    fn new(edits: &[Edit]) -> Self {
        let mut left: Vec<usize> = (0..edits.len()).collect();
        left.sort_by(|&a, &b| by_worth(&edits[a], &edits[b]));
        Self { left, doubtful: Vec::new(), steps: Vec::new() }
    }

    /// The next step: those stay for which this holds.
    fn keep(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.replace(|left| left.iter().copied().filter(|&nth| is_kept(nth)).collect());
    }

    /// The next step: those stay of which there is nothing to say.
    fn doubt(&mut self, mut doubt: impl FnMut(usize) -> Option<String>) {
        let mut doubtful = Vec::new();
        self.replace(|left| {
            doubtful.extend(left.iter().filter_map(|&nth| Some((nth, doubt(nth)?))));
            let dropped: BTreeSet<usize> = doubtful.iter().map(|(nth, _)| *nth).collect();
            left.iter().copied().filter(|nth| !dropped.contains(nth)).collect()
        });
        self.doubtful.extend(doubtful);
    }

    /// The next step: these stay.
    fn replace(&mut self, step: impl FnOnce(&[usize]) -> Vec<usize>) {
        let left = step(&self.left);
        let (step, about) = STEPS[self.steps.len()];
        self.steps.push(Step { step, about, dropped: self.left.len() - left.len(), left: left.len() });
        self.left = left;
    }
}

/// Families and tasks in their order, and what gained more first.
fn by_worth(a: &Edit, b: &Edit) -> std::cmp::Ordering {
    let names = |edit: &Edit| (edit.family.clone(), edit.task.clone());
    names(a).cmp(&names(b)).then(b.gain.total_cmp(&a.gain)).then(a.id.cmp(&b.id))
}

/// Each with its part: whole families are kept to choose by.
fn divided(edits: &[Edit], left: Vec<usize>, rules: &Rules) -> Vec<(usize, Split)> {
    let families: BTreeSet<&str> = left.iter().map(|&nth| edits[nth].family.as_str()).collect();
    let mut drawn: Vec<&str> = families.into_iter().collect();
    drawn.sort_by_cached_key(|family| Draws::new(rules.seed, &["edits", "validation", family]).bits());
    let n = (rules.validation * drawn.len() as f64).floor() as usize;
    let validation: BTreeSet<&str> = drawn.into_iter().take(n).collect();
    let part = |nth: usize| if validation.contains(edits[nth].family.as_str()) { Split::Validation } else { Split::Train };
    left.into_iter().map(|nth| (nth, part(nth))).collect()
}

#[cfg(test)]
mod tests;
