//! What the rows of a canary say so far, as running sums: nothing here grows with the rows.

use super::decision::{ArmNumbers, Bound, Numbers, Reason};
use super::outcomes::Outcomes;
use super::row::{Fact, Row};
use super::settings::{Rule, Settings};
use crate::{Alternative, Arm, Counts, Lacking, Scores, Sequence, e_value};
use serde::{Deserialize, Serialize};

/// Bounds are asymptotic: they are not read before each arm has this many values.
const N_FIRST: u64 = 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Evidence {
    quality: Scores,
    /// Under `improve`: the canary's quality less (1 + gain) times that of control.
    gain: Option<Scores>,
    outcomes: Outcomes,
    cost: Option<Scores>,
    log_latency: Option<Scores>,
    errors: Counts,
    assigned: Counts,
    answered: Counts,
}

impl Evidence {
    pub(super) fn new(settings: &Settings) -> Self {
        let gain = match settings.rule {
            Rule::Improve { gain, .. } => Some(Scores::new(1.0 + gain)),
            Rule::NonInferior { .. } => None,
        };
        Self {
            quality: Scores::new(1.0),
            gain,
            outcomes: Outcomes::default(),
            cost: settings.cost_rise_max.map(|rise| Scores::new(1.0 + rise)),
            log_latency: settings.latency_rise_max.map(|_| Scores::new(1.0)),
            errors: Counts::new(Alternative::More),
            assigned: Counts::new(Alternative::Different),
            answered: Counts::new(Alternative::Different),
        }
    }

    pub(super) fn add(&mut self, row: &Row) {
        let (arm, share) = (row.arm, row.canary_share);
        self.outcomes.add(row);
        match row.fact {
            Fact::Assigned => self.assigned.add(arm, share),
            Fact::Answered { is_error, cost_usd, latency_ms } => {
                self.answered.add(arm, share);
                if is_error {
                    self.errors.add(arm, share);
                }
                if let Some((cost, value)) = self.cost.as_mut().zip(cost_usd) {
                    cost.add(arm, share, value);
                }
                if let Some((log_latency, value)) = self.log_latency.as_mut().zip(latency_ms) {
                    log_latency.add(arm, share, value.max(LATENCY_MS_MIN).ln());
                }
            }
            Fact::Matured { quality } => {
                self.quality.add(arm, share, quality);
                if let Some(gain) = &mut self.gain {
                    gain.add(arm, share, quality);
                }
            }
            Fact::Missing => {}
        }
    }

    /// Rows that have come to their end, with an outcome or without.
    pub(super) fn n_rows(&self) -> u64 {
        self.outcomes.n_ended()
    }

    /// Outcomes of the canary.
    pub(super) fn n_canary(&self) -> u64 {
        self.quality.n_of(Arm::Canary)
    }

    /// Whether every guardrail that is on has been fed as many rows of the canary as this.
    pub(super) fn guards_have(&self, n_canary: u64) -> bool {
        let measured = self.cost.iter().chain(&self.log_latency);
        self.answered.n_of(Arm::Canary) >= n_canary && measured.into_iter().all(|scores| scores.n_of(Arm::Canary) >= n_canary)
    }

    /// What is harmful about the canary beyond doubt, if anything is. Only what this fact could have changed is looked at.
    pub(super) fn harm(&self, settings: &Settings, fact: Fact) -> Option<Reason> {
        let rises = |scores: &Option<Scores>, limit: f64| {
            scores.as_ref().and_then(|scores| bounds(scores, settings.guard_sequence())).is_some_and(|(low, _)| low > limit)
        };
        match fact {
            Fact::Missing => None,
            Fact::Assigned => (self.assigned.evidence() >= 1.0 / settings.guard_part()).then_some(Reason::SampleRatio),
            Fact::Matured { .. } => bounds(&self.quality, settings.harm_sequence())
                .is_some_and(|(_, high)| high < 0.0)
                .then_some(Reason::QualityWorse),
            Fact::Answered { is_error: true, .. } if self.errors.evidence() >= 1.0 / settings.error_part() => {
                Some(Reason::MoreErrors)
            }
            Fact::Answered { .. } if rises(&self.cost, 0.0) => Some(Reason::CostHigher),
            Fact::Answered { .. } if rises(&self.log_latency, settings.latency_rise_max.unwrap_or(0.0).ln_1p()) => {
                Some(Reason::LatencyHigher)
            }
            Fact::Answered { .. } => None,
        }
    }

    /// Whether a harm of more than this is excluded, also if each arm had what it lacks.
    pub(super) fn excludes_harm_of(&self, margin: f64, lacking: Lacking, sequence: Sequence) -> bool {
        low(&self.quality, lacking, sequence).is_some_and(|low| low > -margin)
    }

    /// Whether the gain that the rule asks for is shown, likewise; a rule that asks for none is content. Where qualities are below
    /// 0, so is a part of them: then only a canary that is better than control has gained.
    pub(super) fn shows_gain(&self, lacking: Lacking, sequence: Sequence) -> bool {
        let is_shown = |scores: &Scores| low(scores, lacking, sequence).is_some_and(|low| low > 0.0);
        self.gain.as_ref().is_none_or(|gain| is_shown(gain) && is_shown(&self.quality))
    }

    /// Outcomes that each arm lacks beyond the other, missing or still awaited.
    pub(super) fn lacking(&self) -> Lacking {
        self.outcomes.lacking()
    }

    pub(super) fn numbers(&self, settings: &Settings, stage_idx: usize) -> Numbers {
        let width = |scores: &Scores, sequence: Sequence| Some(sequence.half_width(scores)).filter(|width| width.is_finite());
        let bound = |scores: &Scores, above: Sequence, below: Sequence| Bound {
            estimate: scores.mean(),
            low: width(scores, below).map(|width| scores.mean() - width),
            high: width(scores, above).map(|width| scores.mean() + width),
        };
        let quality = |scores: &Scores| bound(scores, settings.harm_sequence(), settings.step_sequence(stage_idx));
        let guard = |scores: &Scores| bound(scores, settings.guard_sequence(), settings.guard_sequence());
        let arm = |arm: Arm| ArmNumbers {
            n_answered: self.answered.n_of(arm),
            n_errors: self.errors.n_of(arm),
            n_matured: self.quality.n_of(arm),
            n_missing: self.outcomes.n_ended_of(arm).saturating_sub(self.quality.n_of(arm)),
        };
        Numbers {
            stage_idx,
            canary: arm(Arm::Canary),
            control: arm(Arm::Control),
            quality: quality(&self.quality),
            is_rate: self.outcomes.is_rate(),
            quality_evidence: e_value(&self.quality, settings.n_rows_to_harm),
            gain: self.gain.as_ref().map(quality),
            excess_missing: self.lacking().canary.share,
            cost: self.cost.as_ref().map(guard),
            log_latency: self.log_latency.as_ref().map(guard),
            error_evidence: self.errors.evidence(),
            error_evidence_max: 1.0 / settings.error_part(),
            sample_ratio_evidence: self.assigned.evidence(),
            sample_ratio_evidence_max: 1.0 / settings.guard_part(),
        }
    }
}

/// A clock cannot tell less apart, and the logarithm of 0 says nothing.
const LATENCY_MS_MIN: f64 = 1e-3;

/// The lower and the upper bound, once there are enough rows to trust them.
fn bounds(scores: &Scores, sequence: Sequence) -> Option<(f64, f64)> {
    let half_width = sequence.half_width(scores);
    has_enough(scores).then(|| (scores.mean() - half_width, scores.mean() + half_width))
}

/// The lower bound with what each arm lacks, once there are enough rows to trust it.
fn low(scores: &Scores, lacking: Lacking, sequence: Sequence) -> Option<f64> {
    has_enough(scores).then(|| {
        let (mean, variance) = scores.with(lacking);
        mean - sequence.half_width_of(scores.n(), variance)
    })
}

fn has_enough(scores: &Scores) -> bool {
    scores.n_of(Arm::Canary).min(scores.n_of(Arm::Control)) >= N_FIRST
}
