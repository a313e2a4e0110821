//! A run from its beginning: traces are cut into steps, and each step is watched. Knows nothing of the store.

use hone_reward::alarm::{Alarm, Monitor, StepReport, TraceReport, Trend};
use serde::Serialize;

/// A trace, without its text.
pub(super) enum Met {
    Unscored,
    WithoutScenario,
    Validation(f64),
    Report(TraceReport),
}

/// What was looked at, and what came of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) steps: u32,
    pub(super) per_step: u32,
    /// Traces in whole steps.
    pub(super) traces: usize,
    pub(super) validations: usize,
    /// The newest, which fill no step.
    pub(super) left_over: usize,
    pub(super) unscored: usize,
    pub(super) without_scenario: usize,
    pub(super) alarms: Vec<Alarm>,
    pub(super) trend: Option<Trend>,
    pub(super) action: Option<&'static str>,
}

/// Cuts what it meets into steps, and has each watched.
pub(super) struct Watch {
    monitor: Monitor,
    /// The step that fills up. A full one stays open for validation that was played after it.
    step: StepReport,
    n_validations: usize,
    validation_sum: f64,
    summary: Summary,
}

impl Watch {
    pub(super) fn new(per_step: u32) -> Self {
        let summary = Summary { per_step, ..Summary::default() };
        Self { monitor: Monitor::new(), step: StepReport::default(), n_validations: 0, validation_sum: 0.0, summary }
    }

    /// Takes in a trace, the oldest first, and returns what the step before it gives cause to.
    pub(super) fn take(&mut self, met: Met) -> Vec<Alarm> {
        match met {
            Met::Unscored => self.summary.unscored += 1,
            Met::WithoutScenario => self.summary.without_scenario += 1,
            Met::Validation(reward) => {
                self.n_validations += 1;
                self.validation_sum += reward;
            }
            Met::Report(report) => {
                let alarms = self.close_full();
                self.step.traces.push(report);
                return alarms;
            }
        }
        Vec::new()
    }

    /// What the last step gives cause to, and all that was seen.
    pub(super) fn end(mut self) -> (Vec<Alarm>, Summary) {
        let alarms = self.close_full();
        self.summary.left_over = self.step.traces.len();
        self.summary.trend = self.monitor.trend();
        self.summary.action = self.summary.trend.map(Trend::action);
        (alarms, self.summary)
    }

    /// Has the step watched, if it is full, and begins the next.
    fn close_full(&mut self) -> Vec<Alarm> {
        if self.step.traces.len() < self.summary.per_step as usize {
            return Vec::new();
        }
        self.summary.steps += 1;
        self.summary.traces += self.step.traces.len();
        self.summary.validations += self.n_validations;
        self.step.step = self.summary.steps;
        self.step.validation = (self.n_validations > 0).then(|| self.validation_sum / self.n_validations as f64);
        let alarms = self.monitor.watch(&self.step);
        self.summary.alarms.extend_from_slice(&alarms);
        self.step.traces.clear();
        (self.n_validations, self.validation_sum) = (0, 0.0);
        alarms
    }
}
