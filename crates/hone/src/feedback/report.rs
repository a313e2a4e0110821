//! Before and after, side by side.

use crate::failure::Failure;
use crate::gym::solved;
use crate::printer::{Printer, Style};
use hone_env::rollout::Played;
use hone_eval::interval::mean;
use hone_eval::{Episode, Measures};
use hone_trace::{BlobHash, Scenario, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::slice;

/// From the half-width of a two-sided interval of 95 % to that of a one-sided bound.
const ONE_SIDED: f64 = 1.644_854 / 1.959_964;

/// One policy on the held-out tasks.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    #[serde(skip)]
    pub(crate) name: String,
    /// The share of episodes that were solved, with its 95 % interval.
    pub(crate) completion: f64,
    completion_interval: (f64, f64),
    /// The share of tasks that were solved in all repeats.
    reliability: f64,
    /// Of the episodes that need a tool, how many called one with success.
    pub(crate) tool_adoption: f64,
    turns_per_solved: Option<f64>,
    tokens_per_solved: Option<f64>,
    /// The share of answers that the desk could read.
    format_valid: f64,
    /// Per task, its category and the share of its repeats that were solved.
    #[serde(skip)]
    tasks: Vec<(String, f64)>,
}

/// What a category gained.
#[derive(Debug, Clone, Default)]
pub(crate) struct CategoryGain {
    pub(crate) category: String,
    /// In the mean over its tasks.
    pub(crate) points: f64,
    /// The lower one-sided 95 % bound of that.
    pub(crate) bound: f64,
}

impl Line {
    pub(crate) fn of(name: &str, tasks: &[Scenario], needs_tool: &[bool], played: &[Played]) -> Self {
        let traces = || played.iter().flat_map(|played| &played.traces);
        let measures = Measures::of(&traces().map(|trace| Episode::of(trace, None)).collect::<Vec<_>>());
        let needing: Vec<&Trace> =
            played.iter().zip(needs_tool).filter(|(_, needs)| **needs).flat_map(|(played, _)| &played.traces).collect();
        let called = |trace: &&&Trace| trace.turns().flat_map(|turn| &turn.tool_calls).any(|call| call.success == Some(true));
        let n_unread =
            traces().flat_map(Trace::turns).filter(|turn| turn.errors.iter().any(|error| error.kind == "unparsable_action"));
        Self {
            name: name.to_owned(),
            completion: measures.accuracy,
            completion_interval: measures.accuracy_interval,
            reliability: measures.reliability,
            tool_adoption: share(needing.iter().filter(called).count(), needing.len()),
            turns_per_solved: measures.turns_per_solved,
            tokens_per_solved: measures.tokens_per_solved.filter(|tokens| *tokens > 0.0),
            format_valid: 1.0 - share(n_unread.count(), traces().flat_map(Trace::turns).count()),
            tasks: tasks
                .iter()
                .zip(played)
                .map(|(task, played)| (task.category.as_str().to_owned(), solved(slice::from_ref(played))))
                .collect(),
        }
    }

    /// Points gained over another policy on the same tasks, with half the width of the 95 % interval.
    fn gain_over(&self, other: &Self) -> (f64, f64) {
        mean(&self.gains(other).map(|(_, gain)| 100.0 * gain).collect::<Vec<_>>())
    }

    /// What every category gained over another policy on the same tasks.
    pub(crate) fn gains_by_category(&self, other: &Self) -> Vec<CategoryGain> {
        let mut by_category: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        self.gains(other).for_each(|(category, gain)| by_category.entry(category).or_default().push(100.0 * gain));
        let gain = |(category, gains): (&str, Vec<f64>)| {
            let (points, half) = mean(&gains);
            CategoryGain { category: category.to_owned(), points, bound: points - half * ONE_SIDED }
        };
        by_category.into_iter().map(gain).collect()
    }

    /// The category with the worst gain by its bound.
    fn worst_category(&self, other: &Self) -> CategoryGain {
        self.gains_by_category(other).into_iter().min_by(|a, b| a.bound.total_cmp(&b.bound)).unwrap_or_default()
    }

    fn gains<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a str, f64)> {
        self.tasks.iter().zip(&other.tasks).map(|((category, new), (_, old))| (category.as_str(), new - old))
    }

    fn row(&self) -> Vec<String> {
        let (low, high) = self.completion_interval;
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        vec![
            self.name.clone(),
            format!("{:.1} % ({:.1}-{:.1})", 100.0 * self.completion, 100.0 * low, 100.0 * high),
            format!("{:.1} %", 100.0 * self.reliability),
            format!("{:.1} %", 100.0 * self.tool_adoption),
            format!("{:.1} %", 100.0 * self.format_valid),
            number(self.turns_per_solved),
            number(self.tokens_per_solved),
        ]
    }
}

fn share(n: usize, of: usize) -> f64 {
    n as f64 / of.max(1) as f64
}

/// Whether the new agent is better than both that came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Better,
    NotBetter,
}

/// Before and after.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) verdict: Verdict,
    seconds: f64,
    world_hash: BlobHash,
    /// The model that imitates the agent.
    before: Line,
    /// The same after GRPO.
    after: Line,
    /// The agent that was imitated.
    script: Line,
    /// Points gained over the model before, on the same tasks, and half the width of the 95 % interval.
    gain_points: (f64, f64),
    worst_category: String,
    /// In points; what the new model lost there is not more than this.
    worst_category_bound: f64,
    control: bool,
}

impl Report {
    pub(super) fn new(script: Line, before: Line, after: Line, world_hash: BlobHash, control: bool, seconds: f64) -> Self {
        let is_above = |(gain, half): (f64, f64)| gain - half > 0.0;
        let is_better = is_above(after.gain_over(&before)) && is_above(after.gain_over(&script));
        let verdict = if is_better { Verdict::Better } else { Verdict::NotBetter };
        let CategoryGain { category: worst_category, bound: worst_category_bound, .. } = after.worst_category(&before);
        let gain_points = after.gain_over(&before);
        Self { verdict, seconds, world_hash, before, after, script, gain_points, worst_category, worst_category_bound, control }
    }

    pub(super) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        if printer.wants_json() {
            return printer.json(self);
        }
        let heads = ["policy", "solved", "all of 3", "tool where needed", "readable", "turns/solved", "tokens/solved"];
        printer.table(&heads, &[self.script.row(), self.before.row(), self.after.row()])?;
        let (gain, half) = self.gain_points;
        let gained = format!("{gain:+.1} ± {half:.1} points over the model before GRPO, in {:.0} s", self.seconds);
        printer.line(&[(if self.verdict == Verdict::Better { Style::Good } else { Style::Bad }, &gained)])?;
        printer.say(&format!("worst category: {}, at least {:+.1} points", self.worst_category, self.worst_category_bound));
        printer.say(&format!("tasks and demonstrations, fixed before the first step: {}", self.world_hash));
        printer.say(match (self.verdict, self.control) {
            (Verdict::Better, true) => "permuted rewards taught something: that must not be",
            (Verdict::NotBetter, true) => "permuted rewards taught nothing, as it should be",
            (Verdict::Better, false) => "the new agent is kept as `desk-agent`: hone chat desk-agent -m 'what 387 * 46'",
            (Verdict::NotBetter, false) => "it is not better, and was not kept",
        });
        Ok(())
    }
}
