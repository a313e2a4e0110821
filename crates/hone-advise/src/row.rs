//! What is kept of an episode to compare configs by.

use hone_eval::Episode;
use hone_trace::{Category, ConfigHash, Time, Trace, TraceOutcome};
use serde_json::Value;

/// An episode that is solved at least so well counts as solved.
const SOLVED: f64 = 0.5;

/// What is kept of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The config that answered.
    pub config: ConfigHash,
    /// The type of task, where known.
    pub category: Option<Category>,
    /// The world that it was played in; live traffic has none. What two worlds call by one name is not the same.
    pub world: Option<String>,
    /// When it began.
    pub at: Time,
    /// How well it went, from 0 to 1, where anybody said.
    pub quality: Option<f64>,
    /// What it took.
    pub episode: Episode,
}

impl Row {
    /// What is kept of this trace, where this metric says how well it went.
    pub fn of(trace: &Trace, metric: Option<&str>) -> Self {
        let quality = quality(trace, metric);
        let is_solved = quality.is_some_and(|quality| quality >= SOLVED);
        Self {
            config: trace.config,
            category: trace.category.clone(),
            world: trace.metadata.get("env").and_then(Value::as_str).map(str::to_owned),
            at: trace.started,
            quality,
            episode: Episode { is_solved, is_broken: trace.broken().is_some(), ..Episode::of(trace, None) },
        }
    }

    /// How well it went, if it says anything of its config.
    pub(crate) fn told(&self) -> Option<f64> {
        self.quality.filter(|_| !self.episode.is_broken)
    }
}

/// How well an episode went, from 0 to 1: by the last reward of this name, if one is asked for; otherwise by how it ended; and where
/// nobody said that, by its last reward.
pub fn quality(trace: &Trace, metric: Option<&str>) -> Option<f64> {
    let clamped = |total: f64| total.clamp(0.0, 1.0);
    if let Some(metric) = metric {
        let named = trace.rewards.iter().rev().find(|reward| reward.turn_idx.is_none() && reward.by.name == metric);
        return named.map(|reward| clamped(reward.total));
    }
    match trace.outcome {
        TraceOutcome::Success => Some(1.0),
        TraceOutcome::Failure => Some(0.0),
        TraceOutcome::Unknown => trace.reward().map(|reward| clamped(reward.total)),
    }
}

/// Whether so well is a failure.
pub(crate) fn is_failure(quality: f64) -> bool {
    quality < SOLVED
}
