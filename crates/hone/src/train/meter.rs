//! What a run spends, counted without gaps: every count begins where the one before ended.
//!
//! So validation, watched worlds and checkpoints count like steps. Knows no clock and no bank: both are told.

use hone_train::stop::Spent;
use std::time::Instant;

/// Up to where time and money have been counted.
pub(super) struct Meter {
    counted: Instant,
    counted_dollars: f64,
}

impl Meter {
    /// Counts from here; nothing has been spent yet.
    pub(super) fn start(now: Instant) -> Self {
        Self { counted: now, counted_dollars: 0.0 }
    }

    /// What was spent since the last count, of which `dollars` is the sum since the start.
    pub(super) fn lap(&mut self, now: Instant, dollars: f64) -> Spent {
        let seconds = now.saturating_duration_since(self.counted).as_secs_f64();
        let spent = Spent { n_tokens: 0, seconds, dollars: self.uncounted(dollars) };
        *self = Self { counted: now, counted_dollars: dollars };
        spent
    }

    /// Dollars since the last count.
    pub(super) fn uncounted(&self, dollars: f64) -> f64 {
        (dollars - self.counted_dollars).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn nothing_between_two_counts_is_lost() {
        let start = Instant::now();
        let mut meter = Meter::start(start);
        let mut check = |second: u64, dollars: f64, expected: (f64, f64)| {
            let spent = meter.lap(start + Duration::from_secs(second), dollars);
            assert_eq!((spent.seconds, spent.dollars), expected);
        };
        // A step, a validation that asks a judge, a step whose judge was free.
        check(2, 0.5, (2.0, 0.5));
        check(5, 2.5, (3.0, 2.0));
        check(6, 2.5, (1.0, 0.0));
    }
}
