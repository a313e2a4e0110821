//! Of every group the trace that earned most and the one that earned least, as `hone train dpo` compares them.

use super::sink::Closed;
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::train::best_and_worst;
use hone_trace::Trace;
use hone_trace::format::openai;
use serde_json::json;
use std::collections::BTreeMap;

/// What was written, and of how many groups nothing was, by the reason.
#[derive(Default)]
pub(super) struct Pairs {
    n_pairs: u64,
    n_alone: u64,
    passed_by: BTreeMap<&'static str, u64>,
}

impl Pairs {
    /// The line of a group, if there is something to compare in it.
    pub(super) fn line(&mut self, members: &[Trace]) -> Option<String> {
        let earned: Vec<(f64, usize)> =
            members.iter().enumerate().filter_map(|(idx, trace)| Some((trace.reward()?.total, idx))).collect();
        let line = match best_and_worst(&earned, 0.0) {
            Some([best, worst]) => {
                openai::write_pair(&members[best], &members[worst]).ok_or("they were not asked the same, or answered the same")
            }
            None if earned.len() < 2 => Err("fewer than two have a reward"),
            None => Err("all earned the same"),
        };
        match line {
            Ok(line) => {
                self.n_pairs += 1;
                Some(line)
            }
            Err(why) => {
                *self.passed_by.entry(why).or_default() += 1;
                None
            }
        }
    }

    /// Counts a trace that is in no group.
    pub(super) fn pass_by(&mut self) {
        self.n_alone += 1;
    }

    /// Says what was done.
    pub(super) fn report(&self, closed: &Closed, printer: &Printer) -> Result<(), Failure> {
        for (why, n_groups) in &self.passed_by {
            printer.say(&format!("no pair of {}: {why}", counted(*n_groups, "group")));
        }
        if self.n_alone > 0 {
            printer.say(&format!("no pair of {} in no group", counted(self.n_alone, "trace")));
        }
        let n_pairs = counted(self.n_pairs, "pair");
        match closed {
            Closed::File(file) if printer.wants_json() => printer
                .json(&json!({ "pairs": self.n_pairs, "file": file, "passed_by": self.passed_by, "in_no_group": self.n_alone })),
            Closed::File(file) => {
                printer.say(&format!("{n_pairs} in {}", file.display()));
                Ok(())
            }
            _ => {
                printer.say(&n_pairs);
                Ok(())
            }
        }
    }
}
