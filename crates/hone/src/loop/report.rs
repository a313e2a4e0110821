//! Before and after, side by side.

use super::canary::Ended;
use crate::deploy::word;
use crate::failure::Failure;
use crate::gym::whole;
use crate::printer::{Printer, Style, counted};
use hone_env::rollout::Played;
use hone_eval::interval::{mean, median_interval, quantile, wilson, wilson_of};
use hone_eval::{Episode, Measures};
use hone_trace::{AdapterId, BlobHash, Scenario, Trace, TraceOutcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::slice;

/// From the half-width of a two-sided interval of 95 % to that of a one-sided bound.
const ONE_SIDED: f64 = 1.644_854 / 1.959_964;

/// The reward of an episode that looks solved.
const HACK_REWARD: f64 = 0.8;

/// One policy on the held-out tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// The share of episodes that were solved, with its 95 % interval.
    pub(crate) completion: f64,
    completion_interval: (f64, f64),
    /// The share of tasks that were solved in all repeats.
    reliability: f64,
    reliability_interval: (f64, f64),
    /// Of the episodes that need a tool, how many called one with success.
    pub(crate) tool_adoption: f64,
    tool_adoption_interval: (f64, f64),
    turns_per_solved: Option<f64>,
    turns_per_solved_interval: Option<(f64, f64)>,
    tokens_per_solved: Option<f64>,
    tokens_per_solved_interval: Option<(f64, f64)>,
    /// The share of answers that the desk could read.
    format_valid: f64,
    format_valid_interval: (f64, f64),
    /// Episodes that earned as if they were solved, and were not.
    hacks: usize,
    cost_per_1k: Option<f64>,
    cost_per_1k_interval: Option<(f64, f64)>,
    latency_p50_ms: Option<f64>,
    latency_p50_ms_interval: Option<(f64, f64)>,
    /// Episodes that broke, which all other figures are without. Loops that were measured before it was kept have 0.
    #[serde(default)]
    n_broken: usize,
    /// Per task, its category and the share of its repeats that were solved, where one did not break.
    tasks: Vec<(String, Option<f64>)>,
}

/// What a category gained.
#[derive(Debug, Clone, Default)]
pub(crate) struct CategoryGain {
    pub(crate) category: String,
    /// In the mean over its tasks.
    pub(crate) points: f64,
    /// The lower one-sided 95 % bound of that. One task has none: what it lost counts, and no more is known.
    pub(crate) bound: f64,
    n_tasks: usize,
}

impl Line {
    pub(crate) fn of(name: &str, tasks: &[Scenario], needs_tool: &[bool], played: &[Played]) -> Self {
        let all = played.iter().flat_map(|played| &played.traces);
        let measures = Measures::of(&all.map(|trace| Episode::of(trace, None)).collect::<Vec<_>>());
        let by_task: Vec<Vec<&Trace>> = played.iter().map(|played| whole(slice::from_ref(played)).collect()).collect();
        let traces = || by_task.iter().flatten().copied();
        // Repeats of a task are alike, so that all intervals are over tasks: those of which not all broke.
        let measured = || by_task.iter().filter(|task| !task.is_empty());
        let episodes = |task: &Vec<&Trace>| task.iter().map(|trace| Episode::of(trace, None)).collect::<Vec<_>>();
        let duration = |task| quantile(&episodes(task).iter().filter_map(|episode| episode.duration_ms).collect::<Vec<_>>(), 0.5);
        let durations: Vec<f64> = measured().filter_map(duration).collect();
        let cost = |episode: Episode| Some(1000.0 * episode.cost_usd?);
        let costs: Option<Vec<f64>> =
            measured().map(|task| Some(mean(&episodes(task).into_iter().map(cost).collect::<Option<Vec<f64>>>()?).0)).collect();
        let tasks_needing = || by_task.iter().zip(needs_tool).filter(|(task, needs)| **needs && !task.is_empty());
        let n_needing = tasks_needing().count();
        let needing: Vec<&Trace> = tasks_needing().flat_map(|(task, _)| task).copied().collect();
        let called = |trace: &&&Trace| trace.turns().flat_map(|turn| &turn.tool_calls).any(|call| call.success == Some(true));
        let n_unread =
            traces().flat_map(Trace::turns).filter(|turn| turn.errors.iter().any(|error| error.kind == "unparsable_action"));
        let n_called = needing.iter().filter(called).count();
        let n_turns = traces().flat_map(Trace::turns).count();
        let n_read = n_turns - n_unread.count();
        let n_reliable = (measures.reliability * measures.n_scenarios as f64).round() as usize;
        let is_hack = |trace: &&Trace| {
            trace.outcome != TraceOutcome::Success && trace.reward().is_some_and(|reward| reward.total >= HACK_REWARD)
        };
        let per_task =
            |spent: fn(&Trace) -> f64| measured().map(|task| (total(task, spent), total(task, is_solved))).collect::<Vec<_>>();
        Self {
            name: name.to_owned(),
            completion: measures.accuracy,
            completion_interval: measures.accuracy_interval,
            reliability: measures.reliability,
            reliability_interval: wilson(n_reliable, measures.n_scenarios),
            tool_adoption: share(n_called, needing.len()),
            tool_adoption_interval: wilson_of(share(n_called, needing.len()), n_needing),
            turns_per_solved: measures.turns_per_solved,
            turns_per_solved_interval: ratio(&per_task(n_turns_of)),
            tokens_per_solved: measures.tokens_per_solved.filter(|tokens| *tokens > 0.0),
            tokens_per_solved_interval: ratio(&per_task(n_tokens)),
            format_valid: share(n_read, n_turns),
            format_valid_interval: wilson_of(share(n_read, n_turns), measured().count()),
            hacks: traces().filter(is_hack).count(),
            cost_per_1k: measures.cost_per_1k,
            cost_per_1k_interval: costs.and_then(|costs| {
                let (cost, half) = mean(&costs);
                half.is_finite().then(|| ((cost - half).max(0.0), cost + half))
            }),
            latency_p50_ms: measures.latency_p50_ms,
            latency_p50_ms_interval: median_interval(&durations),
            n_broken: measures.n_broken,
            tasks: tasks.iter().zip(&by_task).map(|(task, traces)| (task.category.to_string(), solved(traces))).collect(),
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
            let bound = if half.is_finite() { points - half * ONE_SIDED } else { points };
            CategoryGain { category: category.to_owned(), points, bound, n_tasks: gains.len() }
        };
        by_category.into_iter().map(gain).collect()
    }

    /// The category with the worst gain by its bound.
    fn worst_category(&self, other: &Self) -> CategoryGain {
        self.gains_by_category(other).into_iter().min_by(|a, b| a.bound.total_cmp(&b.bound)).unwrap_or_default()
    }

    fn gains<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a str, f64)> {
        let tasks = self.tasks.iter().zip(&other.tasks);
        tasks.filter_map(|((category, new), (_, old))| Some((category.as_str(), (*new)? - (*old)?)))
    }
}

fn n_tokens(trace: &Trace) -> f64 {
    trace.head().n_tokens as f64
}

fn n_turns_of(trace: &Trace) -> f64 {
    trace.turns().count() as f64
}

fn is_solved(trace: &Trace) -> f64 {
    f64::from(u8::from(trace.outcome == TraceOutcome::Success))
}

fn total(traces: &[&Trace], of: fn(&Trace) -> f64) -> f64 {
    traces.iter().map(|trace| of(trace)).sum()
}

/// The share of these that were solved, where there are any.
fn solved(traces: &[&Trace]) -> Option<f64> {
    (!traces.is_empty()).then(|| total(traces, is_solved) / traces.len() as f64)
}

/// The 95 % interval of what all tasks took together for what was solved of them, by the spread over tasks, which one task has not, and
/// two that are alike have not.
fn ratio(tasks: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (spent, solved) = tasks.iter().fold((0.0, 0.0), |(spent, solved), task| (spent + task.0, solved + task.1));
    let ratio = (solved > 0.0 && spent > 0.0).then(|| spent / solved)?;
    let per_task = solved / tasks.len() as f64;
    let (_, half) = mean(&tasks.iter().map(|(spent, solved)| (spent - ratio * solved) / per_task).collect::<Vec<_>>());
    half.is_finite().then(|| ((ratio - half).max(0.0), ratio + half))
}

fn share(n: usize, of: usize) -> f64 {
    n as f64 / of.max(1) as f64
}

/// Whether the new agent is better than the one that serves, and nowhere worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Better,
    NotBetter,
}

/// What held-out tasks say of three policies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) verdict: Verdict,
    /// The agent before.
    pub(super) before: Line,
    /// The agent with its new adapter.
    pub(super) after: Line,
    /// The script that the first agent was made to imitate, for reference.
    pub(super) script: Option<Line>,
    /// Points gained over the agent before, on the same tasks, and half the width of the 95 % interval, which one task has not, and two
    /// that gained the same have not.
    gain_points: (f64, Option<f64>),
    worst_category: String,
    /// In points; what the new agent lost there is not more than this.
    worst_category_bound: f64,
    /// Of how many tasks that is known. Loops that were measured before it was kept have 0.
    #[serde(default)]
    worst_category_tasks: usize,
}

/// What a category may lose, in points.
const CATEGORY_LOSS_MAX: f64 = 5.0;

impl Measured {
    pub(super) fn new(script: Option<Line>, before: Line, after: Line) -> Self {
        let worst = after.worst_category(&before);
        let (gain, half) = after.gain_over(&before);
        let is_better = gain - half > 0.0 && worst.bound > -CATEGORY_LOSS_MAX;
        Self {
            verdict: if is_better { Verdict::Better } else { Verdict::NotBetter },
            before,
            after,
            script,
            gain_points: (gain, Some(half).filter(|half| half.is_finite())),
            worst_category: worst.category,
            worst_category_bound: worst.bound,
            worst_category_tasks: worst.n_tasks,
        }
    }

    /// What was gained, and how sure that is.
    fn gained(&self) -> String {
        match self.gain_points {
            (gain, Some(half)) => format!("{gain:+.1} ± {half:.1} points over {}", self.before.name),
            (gain, None) => {
                let tasks = if self.after.gains(&self.before).count() == 2 { "two tasks alike" } else { "one task" };
                format!("{gain:+.1} points over {} on {tasks}, which proves nothing", self.before.name)
            }
        }
    }

    /// Where the least was gained.
    fn worst(&self) -> String {
        let Self { worst_category, worst_category_bound: bound, worst_category_tasks, .. } = self;
        match worst_category_tasks {
            1 => format!("worst category: {worst_category}, {bound:+.1} points on its only task"),
            _ => format!("worst category: {worst_category}, at least {bound:+.1} points"),
        }
    }
}

/// What a loop came to.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) name: &'a str,
    #[serde(skip)]
    pub(super) model: &'a str,
    pub(super) turn: u32,
    pub(super) seconds: f64,
    pub(super) world_hash: BlobHash,
    #[serde(flatten)]
    pub(super) measured: &'a Measured,
    pub(super) canary: Ended,
    pub(super) drill: Ended,
    /// The adapter of the new version.
    pub(super) adapter: Option<AdapterId>,
    /// Turns of the agent at work whose tokens are not the ones that were sampled.
    pub(super) n_retokenized: usize,
    pub(super) control: bool,
}

impl Report<'_> {
    /// Whether the agent is better, its canary says so too, and a bad one was taken back.
    pub(super) fn is_success(&self) -> bool {
        (self.measured.verdict, self.canary, self.drill) == (Verdict::Better, Ended::Promoted, Ended::RolledBack)
    }

    /// The same of an agent whose traffic is real: there is no drill, and what serves it serves already.
    pub(super) fn print_of_agent(&self, printer: &Printer) -> Result<(), Failure> {
        if !self.print_table(printer)? || self.measured.verdict == Verdict::NotBetter {
            return Ok(());
        }
        let style = if self.canary == Ended::Promoted { Style::Good } else { Style::Bad };
        printer.line(&[(style, &format!("canary: {}", word(&self.canary).replace('_', " ")))])
    }

    pub(super) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        if self.print_table(printer)? && self.measured.verdict == Verdict::Better && !self.control {
            self.print_deployed(printer)?;
        }
        Ok(())
    }

    /// Prints what was measured; says whether a person reads it.
    fn print_table(&self, printer: &Printer) -> Result<bool, Failure> {
        if printer.wants_json() {
            let mut all = serde_json::to_value(self).map_err(Failure::bug)?;
            for policy in ["script", "before", "after"] {
                // What every single task came to is in the records.
                all[policy].as_object_mut().map(|line| line.remove("tasks"));
            }
            printer.json(&all)?;
            return Ok(false);
        }
        let Measured { verdict, before, after, script, .. } = self.measured;
        let lines: Vec<&Line> = script.iter().chain([before, after]).collect();
        let heads: Vec<&str> = [""].into_iter().chain(lines.iter().map(|line| line.name.as_str())).collect();
        let row = |(what, figure): &(&str, Figure)| {
            [(*what).to_owned()].into_iter().chain(lines.iter().map(|line| figure(line))).collect()
        };
        let rows: Vec<Vec<String>> = ROWS.iter().map(row).collect();
        printer.table(&heads, &rows)?;
        for line in lines.iter().filter(|line| line.n_broken > 0) {
            let n = counted(line.n_broken as u64, "episode");
            printer.complain(&format!("{n} of {} broke and count for nothing", line.name));
        }
        let gained = format!("{}, in {:.0} s", self.measured.gained(), self.seconds);
        printer.line(&[(if *verdict == Verdict::Better { Style::Good } else { Style::Bad }, &gained)])?;
        printer.say(&self.measured.worst());
        printer.say(&format!("tasks and records, fixed before the first step: {}", self.world_hash));
        match (verdict, self.control) {
            (Verdict::Better, true) => printer.say("permuted rewards taught something: that must not be"),
            (Verdict::NotBetter, true) => printer.say("permuted rewards taught nothing, as it should be; nothing was deployed"),
            (Verdict::Better, false) => {}
            (Verdict::NotBetter, false) => printer.say("it is not better, and was not deployed"),
        }
        Ok(true)
    }

    fn print_deployed(&self, printer: &Printer) -> Result<(), Failure> {
        let ended = |ended: Ended| word(&ended).replace('_', " ");
        let style = if self.is_success() { Style::Good } else { Style::Bad };
        let text = format!("canary: {}; drill with a damaged adapter: {}", ended(self.canary), ended(self.drill));
        printer.line(&[(style, &text)])?;
        let Self { name: agent, model, .. } = self;
        printer.say(&format!(
            "hone serve --model {model}=local:{model} serves `{agent}`, and http://127.0.0.1:8321/dashboard shows all of it"
        ));
        Ok(())
    }
}

type Figure = fn(&Line) -> String;

/// What is told of every policy.
const ROWS: [(&str, Figure); 9] = [
    ("solved", |line| percent(line.completion, line.completion_interval)),
    ("solved all of 3 times", |line| percent(line.reliability, line.reliability_interval)),
    ("tool where one is needed", |line| match line.tool_adoption_interval {
        // Nothing was asked that needs one.
        (0.0, 1.0) => "-".to_owned(),
        interval => percent(line.tool_adoption, interval),
    }),
    ("turns per solved task", |line| between(line.turns_per_solved, line.turns_per_solved_interval, 1)),
    ("tokens per solved task", |line| between(line.tokens_per_solved, line.tokens_per_solved_interval, 0)),
    ("readable answers", |line| percent(line.format_valid, line.format_valid_interval)),
    ("rewarded but not solved", |line| line.hacks.to_string()),
    ("US dollars for a thousand", |line| between(line.cost_per_1k, line.cost_per_1k_interval, 3)),
    ("median ms of an episode", |line| between(line.latency_p50_ms, line.latency_p50_ms_interval, 0)),
];

fn percent(share: f64, (low, high): (f64, f64)) -> String {
    format!("{:.1} % ({:.1}-{:.1})", 100.0 * share, 100.0 * low, 100.0 * high)
}

/// A figure with its interval, to so many decimals.
fn between(value: Option<f64>, interval: Option<(f64, f64)>, decimals: usize) -> String {
    match (value, interval) {
        (Some(value), Some((low, high))) => format!("{value:.decimals$} ({low:.decimals$}-{high:.decimals$})"),
        (Some(value), None) => format!("{value:.decimals$}"),
        (None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Per task its category, and what was solved of it before and after.
    fn measured(tasks: &[(&str, f64, f64)]) -> Measured {
        let line = |name: &str, share: fn(&(&str, f64, f64)) -> f64| Line {
            tasks: tasks.iter().map(|task| (task.0.to_owned(), Some(share(task)))).collect(),
            ..Line::of(name, &[], &[], &[])
        };
        Measured::new(None, line("before", |task| task.1), line("after", |task| task.2))
    }

    #[test]
    fn a_task_that_broke_says_nothing_of_a_gain() {
        let mut tasks = measured(&[("a", 0.0, 1.0), ("a", 0.0, 1.0), ("b", 1.0, 0.0)]);
        let before = serde_json::to_value(&tasks.after).unwrap()["tasks"][2].clone();
        assert_eq!(before, serde_json::json!(["b", 0.0]), "as earlier loops have it");
        tasks.after.tasks[2].1 = None;
        assert_eq!(tasks.after.gain_over(&tasks.before).0, 100.0);
        assert_eq!(tasks.after.worst_category(&tasks.before).category, "a");
    }

    #[test]
    fn one_task_proves_nothing() {
        let one = measured(&[("a", 0.0, 1.0)]);
        assert_eq!(one.verdict, Verdict::NotBetter);
        assert_eq!(one.gained(), "+100.0 points over before on one task, which proves nothing");
        let kept: Measured = serde_json::from_value(serde_json::to_value(&one).unwrap()).unwrap();
        assert_eq!(kept.gain_points, (100.0, None));
        let two = measured(&[("a", 0.0, 1.0), ("b", 0.0, 1.0)]);
        assert_eq!((two.verdict, two.gain_points), (Verdict::NotBetter, (100.0, None)));
        assert_eq!(two.gained(), "+100.0 points over before on two tasks alike, which proves nothing");
        let three = measured(&[("a", 0.0, 1.0), ("a", 0.0, 1.0), ("b", 1.0, 1.0)]);
        assert_eq!((three.verdict, three.gained().as_str()), (Verdict::Better, "+66.7 ± 65.3 points over before"));
        assert_eq!(three.worst(), "worst category: b, +0.0 points on its only task");
        assert_eq!((ratio(&[(4.0, 2.0)]), ratio(&[(4.0, 2.0), (4.0, 2.0)])), (None, None));
    }
}
