//! How far played episodes are from the records that they were played on.

use super::Replay;
use hone_trace::Trace;
use serde::Serialize;

/// How far played episodes are from their records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Report {
    /// Episodes of this replay.
    pub n_episodes: usize,
    /// Their steps.
    pub n_steps: usize,
    /// The share of what was asked in a step that the record answered, on average.
    pub share_from_record: f64,
    /// Edits between the played and the recorded actions, as a share, on average: 0 is the same, 1 has nothing in common.
    pub mean_drift: f64,
    /// The share of episodes with the recorded final answer.
    pub share_same_answer: f64,
    /// The share of episodes with the recorded outcome.
    pub share_same_outcome: f64,
    /// Traces that were played on something else.
    pub n_foreign: usize,
}

/// Compares played episodes with their records.
pub fn drift(played: &[Trace], world: &Replay) -> Report {
    let mut report = Report {
        n_episodes: 0,
        n_steps: 0,
        share_from_record: 0.0,
        mean_drift: 0.0,
        share_same_answer: 0.0,
        share_same_outcome: 0.0,
        n_foreign: 0,
    };
    for trace in played {
        let Some(record) = trace.scenario.as_ref().and_then(|id| world.record(id)) else {
            report.n_foreign += 1;
            continue;
        };
        let signal = |name: &str| trace.turns().filter_map(|turn| turn.signals.get(name).copied()).collect::<Vec<f64>>();
        report.n_episodes += 1;
        let from_record = signal("from_record");
        report.n_steps += from_record.len();
        report.share_from_record += from_record.iter().sum::<f64>();
        report.mean_drift += signal("drift").last().copied().unwrap_or(1.0);
        report.share_same_answer += signal("same_answer").last().copied().unwrap_or(0.0);
        report.share_same_outcome += if trace.outcome == record.outcome { 1.0 } else { 0.0 };
    }
    report.share_from_record /= report.n_steps.max(1) as f64;
    for mean in [&mut report.mean_drift, &mut report.share_same_answer, &mut report.share_same_outcome] {
        *mean /= report.n_episodes.max(1) as f64;
    }
    report
}
