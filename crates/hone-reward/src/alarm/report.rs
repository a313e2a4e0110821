//! What a run tells of one training step.

use super::{Fingerprint, n_forged};
use hone_trace::{Role, ScenarioId, Trace, TraceId};

/// One training step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepReport {
    /// Its number. Steps come in order; one that is not later than the last is ignored.
    pub step: u32,
    /// The score on validation scenarios, at steps where it was measured, in the same units as the reward.
    pub validation: Option<f64>,
    /// The level of the curriculum. When it changes, rewards are expected to jump.
    pub level: u32,
    /// The traces that were scored.
    pub traces: Vec<TraceReport>,
}

/// One scored trace, without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceReport {
    /// Its id.
    pub id: TraceId,
    /// What it was asked.
    pub scenario: ScenarioId,
    /// What it earned.
    pub reward: f64,
    /// What each component added to that: value times weight.
    pub components: Vec<(String, f64)>,
    /// What the policy wrote.
    pub output: Fingerprint,
    /// Places where the policy spoke for a tool: see [`n_forged`].
    pub n_forged: usize,
    /// Findings in the code it changed: see [`crate::diff::Diff::findings`].
    pub n_findings: usize,
}

impl TraceReport {
    /// The report of a recorded trace with its last reward, or `None` where it has no scenario or no reward.
    pub fn of(trace: &Trace, n_findings: usize) -> Option<Self> {
        let reward = trace.rewards.iter().rev().find(|reward| reward.turn_idx.is_none())?;
        let turns = || trace.segments.iter().flat_map(|segment| &segment.turns);
        let answers: Vec<String> = turns().map(|turn| turn.answer.content.text()).collect();
        let heard = turns().flat_map(|turn| &turn.input).chain(trace.segments.iter().flat_map(|segment| &segment.tail));
        let results: Vec<String> =
            heard.filter(|message| message.role == Role::Tool).map(|message| message.content.text()).collect();
        let output = answers.join("\n");
        Some(Self {
            id: trace.id,
            scenario: trace.scenario.clone()?,
            reward: reward.total,
            components: reward.components.iter().map(|part| (part.name.clone(), part.value * part.weight)).collect(),
            n_forged: n_forged(&output, &results),
            output: Fingerprint::of(&output),
            n_findings,
        })
    }
}
