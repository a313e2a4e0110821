//! What a rollout says at its end.

use super::course::Standing;
use crate::context::Context;
use crate::cost::Projected;
use crate::failure::{Exit, Failure};
use crate::play::{Remarks, unanswered};
use crate::printer::counted;
use hone_env::rollout::Played;
use hone_trace::env::ENV_ERROR;
use hone_trace::{RunId, Trace, TraceOutcome};
use serde::Serialize;

/// What was played.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// Nothing where nothing was left to play.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunId>,
    groups: usize,
    traces: usize,
    solved: usize,
    /// Of those that were scored; nothing where none was.
    mean_reward: Option<f64>,
    /// Groups in which all samples earned the same, from which nothing can be learned.
    groups_without_signal: usize,
    /// Episodes that ended because no answer came.
    unanswered: usize,
    /// Episodes in which the world broke.
    broken: usize,
    /// Episodes that could not be scored.
    unscored: usize,
    /// Records that were there already under the same run with other content, and stayed as they were.
    pub(super) conflicts: usize,
    /// What was projected to be spent, where the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) projection: Option<Projected>,
    pub(super) spent_usd: f64,
    /// Where the curriculum stands, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) curriculum: Option<Standing>,
    #[serde(skip)]
    rewards: Vec<f64>,
    /// What was said of the first episode without an answer.
    #[serde(skip)]
    why_unanswered: Option<String>,
    /// What was said of the first episode in which the world broke.
    #[serde(skip)]
    why_broken: Option<String>,
    /// What was said of the first episodes that could not be scored.
    #[serde(skip)]
    why_unscored: Vec<String>,
    /// Whether an episode says something of who played.
    #[serde(skip)]
    is_telling: bool,
}

/// Traces that cannot be scored are told up to this many, one by one; the rest are counted.
const N_TOLD_MAX: usize = 5;

impl Summary {
    /// Counts a group that was scored.
    pub(super) fn add(&mut self, played: &Played, remarks: &Remarks) {
        let rewards: Vec<f64> = played.traces.iter().filter_map(|trace| Some(trace.reward()?.total)).collect();
        self.groups += 1;
        self.traces += played.traces.len();
        self.solved += played.traces.iter().filter(|trace| trace.outcome == TraceOutcome::Success).count();
        self.groups_without_signal += usize::from(rewards.windows(2).all(|pair| pair[0] == pair[1]));
        self.rewards.extend(rewards);
        for error in played.traces.iter().filter_map(unanswered) {
            self.unanswered += 1;
            self.why_unanswered.get_or_insert_with(|| error.message.clone());
        }
        for error in played.traces.iter().filter_map(Trace::broken).filter(|error| error.kind == ENV_ERROR) {
            self.broken += 1;
            self.why_broken.get_or_insert_with(|| error.message.clone());
        }
        for (trace, why) in &remarks.unscored {
            self.unscored += 1;
            if self.why_unscored.len() < N_TOLD_MAX {
                self.why_unscored.push(format!("trace {trace}: {why}"));
            }
        }
        self.is_telling |= played.traces.iter().any(|trace| trace.broken().is_none());
        self.mean_reward = (!self.rewards.is_empty()).then(|| hone_eval::interval::mean(&self.rewards).0);
    }

    /// Whether nothing was counted yet.
    pub(super) fn is_empty(&self) -> bool {
        self.groups == 0
    }

    pub(super) fn print(&self, context: &Context<'_>) -> Result<(), Failure> {
        let printer = context.printer;
        if printer.wants_json() {
            return printer.json(self);
        }
        let Self { groups, traces, solved, mean_reward, groups_without_signal, spent_usd, .. } = self;
        if let Some(run) = &self.run {
            let [groups, without_signal] = [groups, groups_without_signal].map(|&n| counted(n as u64, "group"));
            let traces = counted(*traces as u64, "trace");
            let earned = mean_reward.map_or_else(|| "none scored".to_owned(), |mean| format!("mean reward {mean:.3}"));
            printer.plain(&format!("run {run}: {traces} in {groups}, {solved} solved, {earned}"))?;
            printer.say(&format!("{without_signal} without signal, ${spent_usd:.4} spent"));
        }
        match &self.curriculum {
            Some(standing) => printer.plain(&standing.to_string()),
            None => Ok(()),
        }
    }

    /// Whether all went as asked, of so many scenarios.
    pub(super) fn exit(&self, n_asked: usize, context: &Context<'_>) -> Exit {
        if let Some(why) = &self.why_unanswered {
            context.printer.complain(&format!(
                "{} ended without an answer, the first so: {why}",
                counted(self.unanswered as u64, "episode")
            ));
        }
        if let Some(why) = &self.why_broken {
            let n = counted(self.broken as u64, "episode");
            context.printer.complain(&format!("the world broke in {n}, which have no reward, the first so: {why}"));
            context.printer.say("to play them anew, give this run another name with --run");
        }
        self.tell_unscored(context);
        if self.conflicts > 0 {
            let text = format!("{} records were there already with other content, and stayed as they were", self.conflicts);
            context.printer.complain(&format!("{text}: give this run another name with --run"));
            return Exit::No;
        }
        if self.groups < n_asked {
            let text = format!("the budget is spent; {} of {n_asked} scenarios were played", self.groups);
            context.printer.complain(&text);
            return Exit::No;
        }
        let is_in_vain = !self.is_telling || self.unscored > 0 && self.rewards.is_empty();
        if is_in_vain && !self.is_empty() { Exit::No } else { Exit::Yes }
    }

    fn tell_unscored(&self, context: &Context<'_>) {
        self.why_unscored.iter().for_each(|why| context.printer.complain(why));
        if self.unscored > 0 {
            context.printer.complain(&format!("{} could not be scored", counted(self.unscored as u64, "trace")));
        }
    }
}
