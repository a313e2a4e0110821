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
    /// How a canary stands now, where that is news.
    pub(crate) fn news(&self, deployment: &Deployment) -> Option<Point> {
        let numbers = deployment.report().numbers;
        let n_rows = numbers.canary.n_matured + numbers.control.n_matured;
        let n_next = match self.points.last().filter(|_| self.canary == Some(deployment.id)) {
            Some(last) => last.n_rows + self.stride,
            None => 1,
        };
        (n_rows >= n_next).then_some(Point { n_rows, quality: numbers.quality_shown(), gain: numbers.gain })
    }

    /// Keeps how this canary stands.
    pub(crate) fn keep(&mut self, canary: EventId, point: Point) {
        if self.canary != Some(canary) {
            (self.canary, self.points, self.stride) = (Some(canary), Vec::new(), 1);
        }
        self.points.push(point);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_long_a_canary_runs_its_points_are_few_and_even() {
        let (mut past, canary) = (Past::default(), EventId::derived(&["one"]));
        let bound = Bound { estimate: 0.0, low: None, high: None };
        let mut n_kept = 0;
        for n_rows in 1..=100_000 {
            if past.points.last().is_none_or(|last| n_rows >= last.n_rows + past.stride) {
                past.keep(canary, Point { n_rows, quality: bound, gain: None });
                n_kept = n_rows;
            }
        }
        assert!((N_POINTS_MAX / 2..=N_POINTS_MAX).contains(&past.points().len()) && n_kept > 99_000);
        let gaps: Vec<u64> = past.points().windows(2).map(|pair| pair[1].n_rows - pair[0].n_rows).collect();
        assert!(gaps.iter().all(|gap| *gap == past.stride), "{gaps:?}");
        past.keep(EventId::derived(&["two"]), Point { n_rows: 1, quality: bound, gain: None });
        assert_eq!((past.points().len(), past.stride), (1, 1), "another canary begins anew");
    }
}
