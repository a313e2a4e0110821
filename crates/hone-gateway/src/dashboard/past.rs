//! What a canary went through, in few enough points to draw: its bounds row by row, and what was decided.

use crate::registry::Decided;
use hone_arbiter::Deployment;
use hone_arbiter::canary::Bound;
use hone_trace::{EventId, Time};
use std::collections::VecDeque;

/// Points that are kept; when there are more, every second one goes, and from then on only half as many come.
const N_POINTS_MAX: usize = 256;
/// Decisions that are kept, the newest.
const N_DECISIONS_MAX: usize = 100;

/// What an agent's canaries went through.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// The canary that the points are of.
    canary: Option<EventId>,
    points: Vec<Point>,
    /// Outcomes from one point to the next.
    stride: u64,
    decisions: VecDeque<Decided>,
}

/// How the canary stood after so many outcomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) n_rows: u64,
    pub(crate) quality: Bound,
    pub(crate) gain: Option<Bound>,
}

impl Past {
    /// Takes in how a canary stands now, where that is news.
    pub(crate) fn see(&mut self, deployment: &Deployment) {
        if self.canary != Some(deployment.id) {
            (self.canary, self.points, self.stride) = (Some(deployment.id), Vec::new(), 1);
        }
        let n_last = self.points.last().map_or(0, |point| point.n_rows);
        let numbers = deployment.report().numbers;
        let n_rows = numbers.canary.n_matured + numbers.control.n_matured;
        if n_rows < n_last + self.stride {
            return;
        }
        self.points.push(Point { n_rows, quality: numbers.quality, gain: numbers.gain });
        if self.points.len() > N_POINTS_MAX {
            let mut idx = 0;
            self.points.retain(|_| {
                idx += 1;
                idx % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub(crate) fn decide(&mut self, decided: Decided) {
        self.decisions.push_back(decided);
        if self.decisions.len() > N_DECISIONS_MAX {
            self.decisions.pop_front();
        }
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// The newest first.
    pub(crate) fn decisions(&self) -> impl DoubleEndedIterator<Item = &Decided> {
        self.decisions.iter().rev()
    }

    /// The share of a canary whenever it changed.
    pub(crate) fn shares(&self, canary: EventId) -> Vec<(Time, f64)> {
        self.decisions.iter().filter(|one| one.canary == canary).map(|one| (one.at, one.decision.share)).collect()
    }
}
