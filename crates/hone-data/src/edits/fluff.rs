//! Ideas that say nothing new: no thought at all, a thought that repeats itself, or one that a better edit of the same task had
//! already.

use super::Edit;
use std::collections::{BTreeMap, BTreeSet};

/// A thought of at least so many sentences may be found to repeat itself.
const SENTENCES_MIN: usize = 3;
/// Words that are compared together.
const WORDS_TOGETHER: usize = 3;

/// The ideas of each task so far, of better edits first.
pub(super) struct Ideas {
    likeness: f64,
    of_task: BTreeMap<String, Vec<Idea>>,
}

struct Idea {
    program: String,
    phrases: BTreeSet<String>,
}

impl Ideas {
    pub(super) fn new(likeness: f64) -> Self {
        Self { likeness, of_task: BTreeMap::new() }
    }

    /// Takes in an edit, or says why it brings nothing.
    pub(super) fn add(&mut self, edit: &Edit) -> Option<&'static str> {
        if edit.thinking.trim().is_empty() {
            return Some("there is no thought");
        }
        if is_repetitive(&edit.thinking) {
            return Some("the thought repeats itself");
        }
        let idea = Idea { program: plain(&edit.program), phrases: phrases(&edit.thinking) };
        let known = self.of_task.entry(edit.task.clone()).or_default();
        if known.iter().any(|other| other.program == idea.program) {
            return Some("a better or equal edit has the same program");
        }
        if known.iter().any(|other| likeness(&other.phrases, &idea.phrases) > self.likeness) {
            return Some("a better or equal edit has the same thought");
        }
        known.push(idea);
        None
    }
}

/// The program without comments, empty lines and spaces at the ends of lines.
fn plain(program: &str) -> String {
    let lines = program.lines().map(|line| line.split('#').next().unwrap_or("").trim_end()).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether half of the sentences or more were said before.
fn is_repetitive(text: &str) -> bool {
    let sentences: Vec<&str> =
        text.split(['.', '!', '?', '\n']).map(str::trim).filter(|sentence| sentence.chars().count() > 3).collect();
    let different: BTreeSet<&str> = sentences.iter().copied().collect();
    sentences.len() >= SENTENCES_MIN && 2 * different.len() <= sentences.len()
}

fn phrases(text: &str) -> BTreeSet<String> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let n = WORDS_TOGETHER.min(words.len().max(1));
    words.windows(n).map(|together| together.join(" ")).collect()
}

/// The share of phrases that two thoughts have in common.
fn likeness(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let n_common = a.intersection(b).count();
    let n_all = a.len() + b.len() - n_common;
    if n_all == 0 { 1.0 } else { n_common as f64 / n_all as f64 }
}
