//! How many outcomes each arm has of those that it should have, and what each lacks of them beyond the other.
//!
//! An episode that was answered lacks its outcome until it comes, whether somebody still waits for it or has given up: who keeps silent
//! about failures would otherwise seem to have none until the wait is over. What both lack alike says nothing against the canary.
//!
//! Every episode weighs 1 / w, w being the share of its arm when it was assigned, so that each arm stands for all episodes of all
//! times alike. By mere numbers the canary's would be younger than control's after every step, and lack more outcomes only for that.

use super::row::{Fact, Row};
use crate::{Arm, Lack, Lacking};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcomes {
    canary: Came,
    control: Came,
    /// The lowest quality that came, or 0, which is a failure, where none was below.
    low: f64,
    /// The highest, or 1, which is a success, where none was above.
    high: f64,
    /// Whether every quality that came was a failure or a success. What was kept before this was asked does not say.
    #[serde(default)]
    is_rate: bool,
}

impl Default for Outcomes {
    fn default() -> Self {
        Self { canary: Came::default(), control: Came::default(), low: 0.0, high: 1.0, is_rate: true }
    }
}

/// The episodes of one arm, weighed but for their number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Came {
    answered: f64,
    /// Those that nobody waits for any more: their outcome came, or was given up.
    ended: f64,
    matured: f64,
    n_ended: u64,
}

impl Came {
    /// Two ways to say how much has come. The second does not see who is still waited for, and so is not misled by an arm that is slow.
    fn shares(&self) -> [f64; 2] {
        [self.matured / self.answered.max(self.ended), self.matured / self.ended]
    }

    /// The part of its outcomes that it lacks, had it as many as the other: below 1 once it has one.
    fn lacks(&self, other: &Self) -> f64 {
        // While an arm has no episodes its share is no number, which `max` passes over.
        self.shares().into_iter().zip(other.shares()).map(|(own, other)| 1.0 - own / other).fold(0.0, f64::max)
    }
}

impl Outcomes {
    pub(super) fn add(&mut self, row: &Row) {
        let (came, share) = match row.arm {
            Arm::Canary => (&mut self.canary, row.canary_share),
            Arm::Control => (&mut self.control, 1.0 - row.canary_share),
        };
        match row.fact {
            Fact::Assigned => {}
            Fact::Answered { .. } => came.answered += 1.0 / share,
            Fact::Matured { .. } | Fact::Missing => {
                came.ended += 1.0 / share;
                came.n_ended += 1;
            }
        }
        if let Fact::Matured { quality } = row.fact {
            came.matured += 1.0 / share;
            (self.low, self.high) = (self.low.min(quality), self.high.max(quality));
            self.is_rate &= [0.0, 1.0].contains(&quality);
        }
    }

    /// Whether qualities are failures and successes, so that their means are rates.
    pub(super) fn is_rate(&self) -> bool {
        self.is_rate
    }

    /// Episodes that nobody waits for any more.
    pub(super) fn n_ended(&self) -> u64 {
        self.canary.n_ended + self.control.n_ended
    }

    /// Those of one arm.
    pub(super) fn n_ended_of(&self, arm: Arm) -> u64 {
        match arm {
            Arm::Canary => self.canary.n_ended,
            Arm::Control => self.control.n_ended,
        }
    }

    /// What each arm lacks beyond the other, at its worst for the canary: of its own the lowest quality, of control's the highest.
    pub(super) fn lacking(&self) -> Lacking {
        Lacking {
            canary: Lack { share: self.canary.lacks(&self.control), value: self.low },
            control: Lack { share: self.control.lacks(&self.canary), value: self.high },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERED: Fact = Fact::Answered { is_error: false, cost_usd: None, latency_ms: None };
    const MATURED: Fact = Fact::Matured { quality: 1.0 };

    fn add(outcomes: &mut Outcomes, arm: Arm, canary_share: f64, n: usize, fact: Fact) {
        (0..n).for_each(|_| outcomes.add(&Row { arm, canary_share, fact }));
    }

    /// What canary and control lack at a share of a half, when each has so many answers, outcomes, and outcomes that were given up.
    #[track_caller]
    fn check(canary: [usize; 3], control: [usize; 3], expected: [f64; 2]) {
        let mut outcomes = Outcomes::default();
        for (arm, [n_answered, n_matured, n_missing]) in [(Arm::Canary, canary), (Arm::Control, control)] {
            add(&mut outcomes, arm, 0.5, n_answered, ANSWERED);
            add(&mut outcomes, arm, 0.5, n_matured, MATURED);
            add(&mut outcomes, arm, 0.5, n_missing, Fact::Missing);
        }
        let Lacking { canary, control } = outcomes.lacking();
        let is_close = (canary.share - expected[0]).abs().max((control.share - expected[1]).abs()) < 1e-12;
        assert!(is_close, "{canary:?} {control:?}");
    }

    #[test]
    fn what_is_awaited_is_lacking_as_what_was_given_up_is() {
        check([100, 60, 0], [100, 100, 0], [0.4, 0.0]);
        check([100, 60, 40], [100, 100, 0], [0.4, 0.0]);
        check([100, 60, 20], [100, 100, 0], [0.4, 0.0]);
        check([100, 100, 0], [100, 60, 0], [0.0, 0.4]);
    }

    #[test]
    fn what_both_lack_does_not_count() {
        check([100, 50, 0], [200, 100, 100], [0.0, 0.5]);
        check([100, 50, 0], [200, 100, 0], [0.0, 0.0]);
        check([100, 30, 0], [200, 120, 0], [0.5, 0.0]);
    }

    #[test]
    fn a_slow_arm_hides_nothing_that_the_other_has_given_up() {
        check([100, 70, 30], [100, 50, 0], [0.3, 2.0 / 7.0]);
    }

    #[test]
    fn nothing_is_lacking_before_anything_is_known() {
        check([0, 0, 0], [0, 0, 0], [0.0, 0.0]);
        check([0, 0, 0], [10, 10, 0], [0.0, 0.0]);
        check([10, 10, 0], [0, 0, 0], [0.0, 0.0]);
    }

    #[test]
    fn episodes_of_a_larger_share_are_no_younger_than_others() {
        let mut outcomes = Outcomes::default();
        // All of the first stage have their outcomes, and none of the second.
        for (arm, n_before) in [(Arm::Canary, 100), (Arm::Control, 900)] {
            add(&mut outcomes, arm, 0.1, n_before, ANSWERED);
            add(&mut outcomes, arm, 0.1, n_before, MATURED);
            add(&mut outcomes, arm, 0.5, 100, ANSWERED);
        }
        let lacking = outcomes.lacking();
        assert!(lacking.canary.share.max(lacking.control.share) < 1e-12, "{lacking:?}");
    }
}
