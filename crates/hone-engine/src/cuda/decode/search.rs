//! Which of the ways to compute a step is the fastest, found by trying them.
//!
//! What a kernel takes alone says little of what it costs in a step: the next one starts before it is done if it leaves that one
//! room. So whole steps are timed, which differ in one thing at a time, from a few plans that differ in much.

use super::project::N_PROJECTIONS;
use super::ring::PIECES_MAX;

/// Up to so many rows, all logits stay in the cache, and attention leaves room beside it anyhow.
const FEW_ROWS: usize = 16;

/// Plans that are timed again before one is taken, and how often.
const AGAIN: usize = 6;
const AGAIN_TIMES: usize = 4;

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

    /// As it was written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let numbers = text.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<usize>>>()?;
        let [ways @ .., n_pieces_max, near]: [usize; N_PROJECTIONS + 2] = numbers.try_into().ok()?;
        let is_ours = (1..=PIECES_MAX).contains(&n_pieces_max) && near <= 1;
        is_ours.then_some(Self { ways, n_pieces_max, logits: if near == 0 { Logits::All } else { Logits::Near } })
    }

    pub(super) fn written(self) -> String {
        let numbers = self.ways.into_iter().chain([self.n_pieces_max, usize::from(self.logits == Logits::Near)]);
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// The fastest plan for so many rows, where projections have so many ways. `time` is given a plan and the least time so far, and
/// answers with the time of a step; nothing new is tried once it `is_over`.
pub(super) fn fastest(
    n_ways: [usize; N_PROJECTIONS],
    n_rows: usize,
    is_over: impl Fn() -> bool,
    time: impl FnMut(Plan, f32) -> f32,
) -> Plan {
    let mut search = Search { n_ways, n_rows, is_over, time, tried: Vec::new() };
    let pieces: &[usize] = if n_rows <= FEW_ROWS { &[PIECES_MAX] } else { &[PIECES_MAX, 3, 2] };
    let first = Plan::first(Logits::All);
    let found = pieces.iter().filter_map(|&n| search.improved(first.with(|plan| plan.n_pieces_max = n)));
    if let Some((_, best)) = found.min_by(|a, b| a.0.total_cmp(&b.0)) {
        search.improved(best);
    }
    search.fastest_again().unwrap_or(first)
}

struct Search<O, T> {
    n_ways: [usize; N_PROJECTIONS],
    n_rows: usize,
    is_over: O,
    time: T,
    tried: Vec<(Plan, f32)>,
}

impl<O: Fn() -> bool, T: FnMut(Plan, f32) -> f32> Search<O, T> {
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

    /// Of those that were fastest, the one that is fastest when all are timed a few times more: one time that was short by chance
    /// does not decide.
    fn fastest_again(&mut self) -> Option<Plan> {
        self.tried.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut again: Vec<(Plan, f32)> = self.tried.iter().take(AGAIN).map(|&(plan, _)| (plan, 0.0)).collect();
        for _ in 0..AGAIN_TIMES {
            again.iter_mut().for_each(|(plan, ms)| *ms += (self.time)(*plan, f32::MAX));
        }
        again.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(plan, _)| plan)
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
        if (self.is_over)() {
            return None;
        }
        let ms = (self.time)(plan, least);
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
        let plan = fastest(N_WAYS, 256, || false, |plan, _| cost(plan));
        assert_eq!((plan.ways, plan.n_pieces_max), ([1, 0, 0, 0], 3));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written_or_not_at_all() {
        for plan in [Plan::first(Logits::All), Plan { ways: [3, 0, 12, 1], n_pieces_max: 2, logits: Logits::Near }] {
            assert_eq!(Plan::read(&plan.written()), Some(plan));
        }
        for other in ["", "0 0 0 0 8", "0 0 0 0 8 0 0", "0 0 0 0 0 0", "0 0 0 0 99 0", "0 0 0 0 8 2", "0 0 0 x 8 0"] {
            assert_eq!(Plan::read(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_fastest_are_timed_again_and_few_rows_keep_their_pieces() {
        let mut seen: Vec<Plan> = Vec::new();
        fastest(
            N_WAYS,
            1,
            || false,
            |plan, _| {
                assert!(plan.n_pieces_max == PIECES_MAX && plan.logits == Logits::All);
                seen.push(plan);
                cost(plan)
            },
        );
        let (searched, again) = seen.split_at(seen.len() - AGAIN * AGAIN_TIMES);
        assert!(searched.iter().enumerate().all(|(i, plan)| !searched[..i].contains(plan)));
        assert!(again.iter().all(|plan| again[..AGAIN].contains(plan)));
    }

    #[test]
    fn a_time_that_was_short_by_chance_does_not_decide() {
        let mut n_timed = 0;
        let plan = fastest(
            N_WAYS,
            1,
            || false,
            |plan, _| {
                n_timed += 1;
                if n_timed == 3 { 1.0 } else { cost(plan) }
            },
        );
        assert_eq!(plan.ways, [0, 0, 0, 0]);
    }

    #[test]
    fn when_time_is_over_the_best_so_far_is_taken() {
        let n_tried = std::cell::Cell::new(0);
        let plan = fastest(
            N_WAYS,
            1,
            || n_tried.get() == 3,
            |plan, _| {
                n_tried.set(3.min(n_tried.get() + 1));
                -cost(plan)
            },
        );
        assert_eq!(plan.ways, [2, 0, 0, 0]);
        assert_eq!(fastest(N_WAYS, 1, || true, |_, _| 0.0), Plan::first(Logits::All));
    }
}
