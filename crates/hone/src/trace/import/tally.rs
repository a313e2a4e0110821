//! What became of the lines of each file, and the first of the bad ones in words.

use crate::failure::{Exit, Failure};
use crate::printer::{Printer, counted};
use serde::Serialize;
use serde_json::json;

/// How many bad lines are told on stderr.
const TOLD_MAX: u64 = 20;
/// How many bad lines stand in the JSON summary.
const LISTED_MAX: usize = 1000;

/// What became of some lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Counts {
    /// Traces that are new.
    pub(super) new: u64,
    /// Traces that were there already.
    pub(super) same: u64,
    /// Traces and groups under whose id something else is there.
    pub(super) conflict: u64,
    /// Lines that could not be read.
    pub(super) bad: u64,
    /// Spans of conversations without a model or a tool, which are not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) spans_skipped: u64,
    /// Log records of calls whose spans are not in the file, which are not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) records_skipped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[derive(Debug, Serialize)]
struct Bad {
    file: String,
    line: u64,
    reason: String,
}

/// What became of all lines.
pub(super) struct Tally<'a> {
    printer: &'a Printer,
    files: Vec<(String, &'static str, Counts)>,
    /// The records of the present file are no lines.
    has_entries: bool,
    bad: Vec<Bad>,
    n_told: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(printer: &'a Printer) -> Self {
        Self { printer, files: Vec::new(), has_entries: false, bad: Vec::new(), n_told: 0 }
    }

    /// Begins a file; what comes now is counted for it.
    pub(super) fn file(&mut self, name: &str, format: &'static str, has_entries: bool) {
        self.has_entries = has_entries;
        self.files.push((name.to_owned(), format, Counts::default()));
    }

    /// The counts of the present file.
    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.files.last_mut().expect("a file was begun").2
    }

    /// A line that could not be read.
    pub(super) fn bad(&mut self, line: u64, reason: &str) {
        self.counts().bad += 1;
        self.tell(line, reason);
    }

    /// A record under whose id something else is there.
    pub(super) fn conflict(&mut self, line: u64, what: &str) {
        self.counts().conflict += 1;
        self.tell(line, &format!("{what} is already there with other content"));
    }

    pub(super) fn total(&self) -> Counts {
        self.files.iter().fold(Counts::default(), |sum, (_, _, counts)| Counts {
            new: sum.new + counts.new,
            same: sum.same + counts.same,
            conflict: sum.conflict + counts.conflict,
            bad: sum.bad + counts.bad,
            spans_skipped: sum.spans_skipped + counts.spans_skipped,
            records_skipped: sum.records_skipped + counts.records_skipped,
        })
    }

    /// Says how it went: yes, unless a line was bad.
    pub(super) fn report(&self, was_refused: bool) -> Result<Exit, Failure> {
        let total = self.total();
        let n_untold = (total.bad + total.conflict).saturating_sub(TOLD_MAX);
        if n_untold > 0 {
            self.printer.complain(&format!("… and {}", counted(n_untold, "more bad line")));
        }
        if self.printer.wants_json() {
            let files = self.files.iter().map(|(name, format, counts)| {
                let mut file = json!({ "file": name, "format": format });
                if let (Some(file), Ok(serde_json::Value::Object(counts))) = (file.as_object_mut(), serde_json::to_value(counts))
                {
                    file.extend(counts);
                }
                file
            });
            let mut summary = json!({
                "new": total.new, "same": total.same, "conflict": total.conflict, "bad": total.bad,
                "files": files.collect::<Vec<_>>(),
            });
            if !self.bad.is_empty() {
                summary["bad_lines"] = serde_json::to_value(&self.bad).map_err(Failure::bug)?;
            }
            self.printer.json(&summary)?;
        } else {
            self.printer.say(&sentence(total, was_refused));
        }
        Ok(if total.bad + total.conflict > 0 { Exit::No } else { Exit::Yes })
    }

    fn tell(&mut self, line: u64, reason: &str) {
        let file = self.files.last().map(|(name, _, _)| name.clone()).unwrap_or_default();
        if self.n_told < TOLD_MAX {
            self.n_told += 1;
            let separator = if self.has_entries { ", entry " } else { ":" };
            self.printer.complain(&format!("{file}{separator}{line}: {reason}"));
        }
        if self.bad.len() < LISTED_MAX {
            self.bad.push(Bad { file, line, reason: reason.to_owned() });
        }
    }
}

fn sentence(total: Counts, was_refused: bool) -> String {
    if was_refused {
        return format!("{}: nothing was written", counted(total.bad, "bad line"));
    }
    let mut text = format!("{} new, {} already there, {} conflicting, {} bad", total.new, total.same, total.conflict, total.bad);
    if total.spans_skipped > 0 {
        text += &format!("; {} of conversations without a model or a tool not kept", counted(total.spans_skipped, "span"));
    }
    if total.records_skipped > 0 {
        let records = counted(total.records_skipped, "log record");
        text += &format!("; {records} not kept, as the spans they tell of are not in the same file");
    }
    text
}
