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

    /// Goes back to the program that these edits were made of, where there are any. A better one stays: it came of an earlier edit that
    /// was asked for again after these.
    pub(super) fn begin_with(&mut self, edits: &[Edit]) {
        if let Some(from) = edits.first().map(|edit| &edit.origin.from).filter(|from| **from != self.program) {
            let before = Self::new(self.task.clone(), from.clone());
            if self.score.correctness <= before.score.correctness {
                *self = before;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::arc::edits::Origin;
    use hone_trace::{Config, Tenant, Time, Trace, TraceId};

    fn program(body: &str) -> String {
        format!("from arc_dsl import *\n\n\ndef solve(I):\n    O = {body}\n    return O\n")
    }

    fn edit(round: u64, from: &str, program: String) -> Edit {
        let origin = Origin {
            search: "s".into(),
            round,
            task: "t".into(),
            family: "t".into(),
            from: from.into(),
            setup: None,
            pairs: None,
        };
        let trace = Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
        Edit { origin, program, thoughts: Vec::new(), gain: None, trace }
    }

    #[test]
    fn what_was_asked_again_in_an_earlier_round_is_gone_on_with() {
        let line = r#"{"id": "t", "train": [{"input": [[1, 2], [3, 4]], "output": [[2, 1], [4, 3]]},
            {"input": [[5, 0], [0, 0]], "output": [[0, 5], [0, 0]]}], "test": [{"input": [[1, 2]], "output": [[2, 1]]}]}"#;
        let task = hone_arc::task::parse(line, None).unwrap();
        let start = program("I");
        let (some, all) = (program("rot90(I)"), program("vmirror(I)"));
        let mut line = Line::new(task, start.clone());
        line.take(&[edit(1, &start, some.clone())]);
        assert_eq!(line.program, some, "it is better than what was there");
        let mut again = Line::new(line.task.clone(), start.clone());
        again.take(&[edit(1, &start, some.clone()), edit(1, &start, all.clone())]);
        again.take(&[edit(2, &some, program("I"))]);
        assert!(again.program == all && again.is_right());
        line.take(&[edit(2, &all, program("I"))]);
        assert_eq!(line.program, all, "what they were made of is better");
    }
}
