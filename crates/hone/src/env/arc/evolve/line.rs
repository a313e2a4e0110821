//! One task under search: its best program so far, and how right it is.

use super::Edit;
use crate::env::arc::edits::is_copy;
use hone_arc::task::{Pair, Task};
use hone_arc::world::Score;

/// A task with its best program.
pub(super) struct Line {
    pub(super) task: Task,
    pub(super) program: String,
    /// How right it is on the examples, which everyone may see.
    score: Score,
}

impl Line {
    pub(super) fn new(task: Task, program: String) -> Self {
        let score = Score::of(&program, &task.train);
        Self { task, program, score }
    }

    /// Whether all examples are right.
    pub(super) fn is_right(&self) -> bool {
        self.score.is_solved
    }

    /// Whether the hidden pairs are right as well.
    pub(super) fn is_solved(&self) -> bool {
        let pairs: Vec<Pair> = self.task.pairs().cloned().collect();
        Score::of(&self.program, &pairs).is_solved
    }

    /// Goes back to the program that these edits were made of, where there are any.
    pub(super) fn begin_with(&mut self, edits: &[Edit]) {
        if let Some(from) = edits.first().map(|edit| &edit.origin.from).filter(|from| **from != self.program) {
            *self = Self::new(self.task.clone(), from.clone());
        }
    }

    /// Goes on with the best of these edits, if it is better on the examples than what is there and does not just copy their
    /// outputs. What was searched before went on from the program that the edits name.
    pub(super) fn take(&mut self, edits: &[Edit]) {
        self.begin_with(edits);
        for edit in edits.iter().filter(|edit| !edit.program.is_empty() && !is_copy(&edit.program, &self.task.train)) {
            let score = Score::of(&edit.program, &self.task.train);
            if score.correctness > self.score.correctness {
                (self.program, self.score) = (edit.program.clone(), score);
            }
        }
    }
}
