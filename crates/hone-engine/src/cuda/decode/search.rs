//! Which of the ways to compute a step is the fastest, found by trying them.
//!
//! What a kernel takes alone says little of what it costs in a step: the next one starts before it is done if it leaves that one
//! room. So whole steps are timed, which differ in one thing at a time, from a few plans that differ in much.

use super::project::N_PROJECTIONS;
use super::ring::PIECES_MAX;

/// Up to so many rows, all logits stay in the cache, and attention leaves room beside it anyhow.
const FEW_ROWS: usize = 16;

/// What is chosen for a whole step; none of it changes a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Which way each projection takes of those that were timed alone, the fastest of which is the first.
    pub(super) ways: [usize; N_PROJECTIONS],
    /// Pieces of keys and values that attention keeps on their way at most: with fewer, more of its neighbours fit beside it.
    pub(super) n_pieces_max: usize,
    pub(super) logits: Logits,
}

/// How many logits are computed before they are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logits {
    All,
    /// As many as stay in the cache that all multiprocessors share.
    Near,
}

impl Plan {
    /// Every projection by what is fastest alone.
    pub(super) fn first(logits: Logits) -> Self {
        Self { ways: [0; N_PROJECTIONS], n_pieces_max: PIECES_MAX, logits }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// The fastest plan for so many rows, where projections have so many ways. `time` is given a plan and the least time so far, and
/// answers with the time of a step, or with nothing once enough was tried.
pub(super) fn fastest(n_ways: [usize; N_PROJECTIONS], n_rows: usize, time: impl FnMut(Plan, f32) -> Option<f32>) -> Plan {
    let mut search = Search { n_ways, n_rows, time, tried: Vec::new() };
    let pieces: &[usize] = if n_rows <= FEW_ROWS { &[PIECES_MAX] } else { &[PIECES_MAX, 3, 2] };
    let first = Plan::first(Logits::All);
    let found = pieces.iter().filter_map(|&n| search.improved(first.with(|plan| plan.n_pieces_max = n)));
    let (_, best) = found.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, first));
    search.improved(best).map_or(best, |(_, plan)| plan)
}

struct Search<T> {
    n_ways: [usize; N_PROJECTIONS],
    n_rows: usize,
    time: T,
    tried: Vec<(Plan, f32)>,
}

impl<T: FnMut(Plan, f32) -> Option<f32>> Search<T> {
    /// The best of what one change after the other leads to, with its time.
    fn improved(&mut self, mut plan: Plan) -> Option<(f32, Plan)> {
        let mut ms = self.time(plan, f32::MAX)?;
        for axis in 0..N_PROJECTIONS + 2 {
            for other in self.along(plan, axis) {
                if let Some(other_ms) = self.time(other, ms)
                    && other_ms < ms
                {
                    (ms, plan) = (other_ms, other);
                }
            }
        }
        Some((ms, plan))
    }

    /// The plans that differ from this one in one thing.
    fn along(&self, plan: Plan, axis: usize) -> Vec<Plan> {
        let mut others: Vec<Plan> = match axis.checked_sub(N_PROJECTIONS) {
            None => (0..self.n_ways[axis]).map(|way| plan.with(|plan| plan.ways[axis] = way)).collect(),
            _ if self.n_rows <= FEW_ROWS => vec![],
            Some(0) => [PIECES_MAX, 4, 3, 2].iter().map(|&n| plan.with(|plan| plan.n_pieces_max = n)).collect(),
            Some(_) => [Logits::All, Logits::Near].iter().map(|&logits| plan.with(|plan| plan.logits = logits)).collect(),
        };
        others.retain(|other| *other != plan);
        others
    }

    fn time(&mut self, plan: Plan, least: f32) -> Option<f32> {
        if let Some(&(_, ms)) = self.tried.iter().find(|(tried, _)| *tried == plan) {
            return Some(ms);
        }
        let ms = (self.time)(plan, least)?;
        self.tried.push((plan, ms));
        Some(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N_WAYS: [usize; N_PROJECTIONS] = [3, 3, 3, 3];

    /// The second way of the first projection is slower alone, and faster beside an attention of few pieces.
    fn cost(plan: Plan) -> f32 {
        let beside = plan.ways[0] == 1 && plan.n_pieces_max == 3;
        let alone: usize = plan.ways.iter().sum();
        100.0 + alone as f32 + if plan.n_pieces_max < PIECES_MAX { 2.0 } else { 0.0 } - if beside { 20.0 } else { 0.0 }
    }

    #[test]
    fn two_things_that_pay_together_alone_are_found() {
        let plan = fastest(N_WAYS, 256, |plan, _| Some(cost(plan)));
        assert_eq!((plan.ways, plan.n_pieces_max), ([1, 0, 0, 0], 3));
    }

    #[test]
    fn no_plan_is_timed_twice_and_few_rows_keep_their_pieces() {
        let mut seen: Vec<Plan> = Vec::new();
        fastest(N_WAYS, 1, |plan, _| {
            assert!(!seen.contains(&plan) && plan.n_pieces_max == PIECES_MAX && plan.logits == Logits::All);
            seen.push(plan);
            Some(cost(plan))
        });
        assert!(seen.len() > 1);
    }

    #[test]
    fn when_time_is_over_the_best_so_far_is_taken() {
        let mut n_left = 3;
        let plan = fastest(N_WAYS, 1, |plan, _| {
            n_left -= 1;
            (n_left >= 0).then(|| -cost(plan))
        });
        assert_eq!(plan.ways, [2, 0, 0, 0]);
        assert_eq!(fastest(N_WAYS, 1, |_, _| None), Plan::first(Logits::All));
    }
}
