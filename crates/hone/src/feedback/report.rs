//! Before and after, side by side.

use crate::failure::Failure;
use crate::printer::{Printer, Style};
use hone_eval::Measures;
use hone_trace::{Trace, TraceOutcome};
use serde::Serialize;

/// One policy.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) policy: String,
    #[serde(flatten)]
    pub(super) measures: Measures,
    /// The share of episodes with a tool call that worked.
    pub(super) tool_use: f64,
    /// Which tasks were solved, in their order.
    #[serde(skip)]
    solved: Vec<bool>,
}

impl Line {
    pub(super) fn of(name: &str, measures: Measures, traces: &[Trace]) -> Self {
        let has_call = |trace: &&Trace| trace.turns().flat_map(|turn| &turn.tool_calls).any(|call| call.success == Some(true));
        let n_tool = traces.iter().filter(has_call).count();
        let solved = traces.iter().map(|trace| trace.outcome == TraceOutcome::Success).collect();
        Self { policy: name.to_owned(), measures, tool_use: n_tool as f64 / traces.len().max(1) as f64, solved }
    }
}

/// Whether the new agent is better than the one that it learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Better,
    NotBetter,
}

/// Before and after.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    lines: Vec<Line>,
    /// Points gained over the agent, on the same tasks, with a 95 % interval.
    gain_points: f64,
    gain_interval: (f64, f64),
    pub(super) verdict: Verdict,
    seconds: f64,
}

impl Report {
    /// The last line is the new agent, the second the old one.
    pub(super) fn new(lines: Vec<Line>, seconds: f64) -> Self {
        let (old, new) = (&lines[1].solved, &lines[lines.len() - 1].solved);
        let gains: Vec<f64> = old.iter().zip(new).map(|(&old, &new)| f64::from(u8::from(new)) - f64::from(u8::from(old))).collect();
        let (mean, half) = hone_eval::interval::mean(&gains);
        let verdict = if mean - half > 0.0 { Verdict::Better } else { Verdict::NotBetter };
        let gain_interval = (100.0 * (mean - half), 100.0 * (mean + half));
        Self { lines, gain_points: 100.0 * mean, gain_interval, verdict, seconds }
    }

    pub(super) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        if printer.wants_json() {
            return printer.json(self);
        }
        let row = |line: &Line| {
            let (low, high) = line.measures.accuracy_interval;
            vec![
                line.policy.clone(),
                format!("{:.1} % ({:.1}-{:.1})", 100.0 * line.measures.accuracy, 100.0 * low, 100.0 * high),
                format!("{:.0} %", 100.0 * line.tool_use),
                line.measures.turns_per_solved.map_or_else(|| "-".to_owned(), |turns| format!("{turns:.1}")),
            ]
        };
        printer.table(&["policy", "solved", "used a tool", "turns/solved"], &self.lines.iter().map(row).collect::<Vec<_>>())?;
        let (low, high) = self.gain_interval;
        let gain = format!("{:+.1} points over the agent it learned from ({low:+.1} to {high:+.1}), in {:.0} s", self.gain_points, self.seconds);
        let style = if self.verdict == Verdict::Better { Style::Good } else { Style::Bad };
        printer.line(&[(style, &gain)])?;
        match self.verdict {
            Verdict::Better => printer.say("the new agent is kept as `desk-agent`: hone chat desk-agent -m 'what 387 * 46'"),
            Verdict::NotBetter => printer.say("it is not better, and was not kept"),
        }
        Ok(())
    }
}
