//! Stopping on evidence: what a run has seen so far in, a decision with its reason out.
//!
//! [`Progress`] is told every step and every evaluation, and is a part of the checkpoint: a run that was killed and resumed
//! decides as if nothing had happened. [`Progress::stop`] asks, in this order: too many steps in a row that were not finite;
//! reward hacking ([`Mode::Hybrid`]); the target; the baseline; a plateau; the limits. Which evidence there is depends on the
//! [`Mode`]: labels measure validation, a judge alone leaves only the training reward.
//!
//! The target and the baseline are compared with the lower end of Wilson's 95 % interval of the last evaluation; a score
//! between 0 and 1 never varies more than a share does, so the interval is honest for partial scores too. A plateau asks for a
//! better mean. The best of many evaluations is partly luck, so `plateau` should span several of them.
//!
//! Reward hacking is a matter of two trends over the same stretch; `hacking.rs` has the formula and how often it errs. A plateau
//! shorter than about five evaluations ends a hacked run before there is evidence enough to name it.
//!
//! Knows no clock, no files and no models; where scores and rewards come from is the caller's.

mod hacking;
mod options;
mod seen;
#[cfg(test)]
mod simulated;
mod trend;

pub use options::{Baseline, Goals, HACKING_Z, Mode, StopOptions};
pub use seen::{Best, Evaluation, Progress, Secondary, Spent, StepSeen};

use hone_eval::interval::wilson_of;
use serde::{Deserialize, Serialize};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Validation reached the target.
    Target,
    /// Validation is above the baseline by the margin.
    BeatsBaseline,
    /// Validation has not improved for long enough.
    Plateau,
    /// The training reward has stopped rising, and there is nothing else to go by.
    RewardPlateau,
    /// The training reward rises while validation falls.
    RewardHacking,
    /// All steps were taken.
    Steps,
    /// All tokens were used.
    Tokens,
    /// All dollars were spent.
    Dollars,
    /// All time was used.
    Seconds,
    /// Too many steps in a row had a loss or gradient that was not finite.
    NotFinite,
    /// Somebody asked it to stop.
    Asked,
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// A person chose what to keep.
    Preferred,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Why.
    pub reason: Reason,
    /// The same as a sentence with the figures.
    pub why: String,
    /// The last step.
    pub step: u64,
}

impl Stop {
    /// Somebody asked it to stop, which it did after this step.
    pub fn asked(step: u64) -> Self {
        Self { reason: Reason::Asked, why: format!("it was asked to stop, and did after step {step}"), step }
    }

    /// Somebody pressed Ctrl-C, and the run ended after this step.
    pub fn interrupted(step: u64) -> Self {
        Self { reason: Reason::Interrupted, why: format!("by Ctrl-C, after step {step}"), step }
    }

    /// A person looked at samples after this step and chose the weights of `chosen`.
    pub fn preferred(step: u64, chosen: u64) -> Self {
        Self { reason: Reason::Preferred, why: format!("a person preferred what step {chosen} gave"), step }
    }
}

impl Progress {
    /// Whether the run ends here.
    pub fn stop(&self, options: &StopOptions) -> Option<Stop> {
        let verdict = self
            .not_finite(options)
            .or_else(|| self.reward_hacking(options))
            .or_else(|| self.success(options).filter(|_| self.holds(&options.goals)))
            .or_else(|| self.limit(options));
        verdict.map(|(reason, why)| Stop { reason, why, step: self.step() })
    }

    fn not_finite(&self, options: &StopOptions) -> Option<Verdict> {
        let n_bad = self.n_bad();
        let why = || format!("the last {n_bad} steps had a loss or gradient that was not finite, and moved nothing");
        (n_bad >= options.n_bad_max).then(|| (Reason::NotFinite, why()))
    }

    fn reward_hacking(&self, options: &StopOptions) -> Option<Verdict> {
        if options.mode != Mode::Hybrid {
            return None;
        }
        let found = hacking::find(self.evaluations(), self.rewards(), options.hacking_z.unwrap_or(HACKING_Z))?;
        let best =
            self.best().map_or(String::new(), |best| format!("; the best was {} at step {}", percent(best.score), best.step));
        Some((Reason::RewardHacking, format!("{found}{best}")))
    }

    /// The ends that a run is for.
    fn success(&self, options: &StopOptions) -> Option<Verdict> {
        if options.mode == Mode::Judge {
            return self.reward_plateau(options.plateau?);
        }
        let last = self.evaluations().last()?;
        let (score, (low, _)) = (last.mean(), wilson_of(last.mean(), last.n_measured()));
        let measured = format!("validation is {} (at least {} with 95 % confidence)", percent(score), percent(low));
        if let Some(target) = options.target.filter(|&target| low >= target) {
            return Some((Reason::Target, format!("{measured}: the target of {} is reached", percent(target))));
        }
        if let Some(Baseline { score, margin }) = options.baseline.filter(|baseline| low >= baseline.score + baseline.margin) {
            let why = format!("{measured}: {} points or more above the baseline of {}", points(margin), percent(score));
            return Some((Reason::BeatsBaseline, why));
        }
        let best = self.best()?;
        let why = || {
            format!("validation was best at step {} ({}), and no better up to step {}", best.step, percent(best.score), last.step)
        };
        (last.step.saturating_sub(best.step) >= options.plateau?).then(|| (Reason::Plateau, why()))
    }

    /// Compares the last `window` steps with as many before; looks once every `window` steps, so that a slow rise is not
    /// asked again and again until noise says no.
    fn reward_plateau(&self, window: u64) -> Option<Verdict> {
        if !self.n_rewards().is_multiple_of(window) {
            return None;
        }
        let window = usize::try_from(window).ok()?;
        let rise = trend::rise(self.rewards(), window)?;
        let why = || {
            format!(
                "the mean reward of the last {window} steps is {:.4}, {:+.4} ±{:.4} against the {window} before: it has stopped \
                 rising; there are no labels, so a person should look at samples",
                rise.mean, rise.by, rise.error
            )
        };
        (rise.by <= rise.error).then(|| (Reason::RewardPlateau, why()))
    }

    fn limit(&self, options: &StopOptions) -> Option<Verdict> {
        let spent = self.spent();
        if self.step() >= options.n_steps_max {
            let why = match options.n_steps_max {
                1 => "its one step is done".to_owned(),
                n_steps => format!("all {n_steps} steps are done"),
            };
            return Some((Reason::Steps, why));
        }
        if let Some(limit) = options.n_tokens_max.filter(|&limit| spent.n_tokens >= limit) {
            return Some((Reason::Tokens, format!("{} tokens were used, the limit is {limit}", spent.n_tokens)));
        }
        if let Some(limit) = options.dollars_max.filter(|&limit| spent.dollars >= limit) {
            return Some((Reason::Dollars, format!("{:.2} dollars were spent, the limit is {limit:.2}", spent.dollars)));
        }
        let limit = options.seconds_max.filter(|&limit| spent.seconds >= limit)?;
        Some((Reason::Seconds, format!("{:.0} seconds were used, the limit is {limit:.0}", spent.seconds)))
    }

    /// Whether the last evaluation keeps within all goals. A figure that it did not tell keeps within none.
    fn holds(&self, goals: &Goals) -> bool {
        let seen = self.evaluations().last().map(|last| last.secondary).unwrap_or_default();
        let within = |limit: Option<f64>, value: Option<f64>| limit.is_none_or(|limit| value.is_some_and(|value| value <= limit));
        within(goals.cost_max, seen.cost) && within(goals.latency_ms_max, seen.latency_ms) && within(goals.turns_max, seen.turns)
    }
}

type Verdict = (Reason, String);

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn points(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

#[cfg(test)]
mod tests;
