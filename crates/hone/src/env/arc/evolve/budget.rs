//! What one command may take of a search: edits that are asked for, and tokens. Dollars are watched where they are spent.

use super::Edit;
use hone_trace::Trace;
use serde::Serialize;

/// What was taken.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Spent {
    pub(super) calls: u64,
    pub(super) tokens: u64,
    pub(super) usd: f64,
}

/// What may be taken, and what was.
pub(super) struct Budget {
    calls_max: Option<u64>,
    tokens_max: Option<u64>,
    pub(super) spent: Spent,
}

impl Budget {
    pub(super) fn new(calls_max: Option<u64>, tokens_max: Option<u64>) -> Self {
        Self { calls_max, tokens_max, spent: Spent::default() }
    }

    /// How many tasks may be edited next, each so often; or the budget that is spent. Where tokens count, as few as keep all
    /// players busy, so that it is looked again soon.
    pub(super) fn n_groups(&self, n_edits: usize, n_concurrent: usize) -> Result<usize, &'static str> {
        let left = self.calls_max.map_or(u64::MAX, |max| max.saturating_sub(self.spent.calls));
        let by_calls = usize::try_from(left).unwrap_or(usize::MAX) / n_edits.max(1);
        if by_calls == 0 {
            return Err("calls");
        }
        match self.tokens_max {
            Some(max) if self.spent.tokens >= max => Err("tokens"),
            Some(_) => Ok(by_calls.min(n_concurrent.div_ceil(n_edits.max(1)))),
            None => Ok(by_calls),
        }
    }

    /// Counts what was asked for.
    pub(super) fn take(&mut self, edits: &[Edit]) {
        edits.iter().for_each(|edit| self.count(&edit.trace));
    }

    /// Counts what was asked for and not answered.
    pub(super) fn take_vain(&mut self, traces: &[Trace]) {
        traces.iter().for_each(|trace| self.count(trace));
    }

    fn count(&mut self, trace: &Trace) {
        self.spent.calls += 1;
        self.spent.tokens += trace.head().n_tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_not_spent_again() {
        let spent = Spent { calls: 17, tokens: 900, usd: 0.0 };
        let check = |calls, tokens, expected| {
            let budget = Budget { spent, ..Budget::new(calls, tokens) };
            assert_eq!(budget.n_groups(8, 16), expected, "{calls:?} {tokens:?}");
        };
        check(None, None, Ok(usize::MAX / 8));
        check(Some(40), None, Ok(2));
        check(Some(24), None, Err("calls"));
        check(Some(400), Some(1000), Ok(2));
        check(None, Some(900), Err("tokens"));
    }
}
