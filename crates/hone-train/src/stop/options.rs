//! What ends a run. Every option has an effect in its mode, or is refused there.

use crate::TrainError;
use crate::error::within;
use serde::{Deserialize, Serialize};

/// How far validation must fall before it counts, in standard errors; `hacking.rs` says what that means for a run.
pub const HACKING_Z: f64 = 1.8;

const N_STEPS_MAX: u64 = 1_000_000;
/// The narrowest window whose mean reward is worth comparing.
const REWARD_WINDOW_MIN: u64 = 5;

/// What a run can be judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The reward is checked, and so is validation.
    #[default]
    Verifiable,
    /// The reward comes from a judge, and nothing is labelled.
    Judge,
    /// The reward comes from a judge, validation from labels.
    Hybrid,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StopOptions {
    /// What the run can be judged by.
    pub mode: Mode,
    /// The last step.
    pub n_steps_max: u64,
    /// Steps without a better evaluation; with a judge alone, steps in each of the two windows whose rewards are compared.
    /// `None` never stops for a plateau.
    pub plateau: Option<u64>,
    /// The share that validation must surely reach.
    pub target: Option<f64>,
    /// What validation must surely beat.
    pub baseline: Option<Baseline>,
    /// Tokens, those of all steps together.
    pub n_tokens_max: Option<u64>,
    /// US dollars.
    pub dollars_max: Option<f64>,
    /// Seconds.
    pub seconds_max: Option<f64>,
    /// Steps in a row that were not finite.
    pub n_bad_max: u64,
    /// What must hold besides before a target, a baseline or a plateau ends the run.
    pub goals: Goals,
    /// How far validation must fall to be called reward hacking, in standard errors; [`HACKING_Z`] where it is not said.
    pub hacking_z: Option<f64>,
}

/// A score to beat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The share that it reaches.
    pub score: f64,
    /// By how much.
    #[serde(default)]
    pub margin: f64,
}

/// Upper limits on means per validation task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Goals {
    /// US dollars.
    pub cost_max: Option<f64>,
    /// Milliseconds.
    pub latency_ms_max: Option<f64>,
    /// Answers.
    pub turns_max: Option<f64>,
}

impl Default for StopOptions {
    /// Verified rewards, a plateau of ten steps, and 1,000 steps at most.
    fn default() -> Self {
        Self {
            mode: Mode::Verifiable,
            n_steps_max: 1000,
            plateau: Some(10),
            target: None,
            baseline: None,
            n_tokens_max: None,
            dollars_max: None,
            seconds_max: None,
            n_bad_max: 3,
            goals: Goals::default(),
            hacking_z: None,
        }
    }
}

impl StopOptions {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        within("n_steps_max", self.n_steps_max as f64, 1.0..=N_STEPS_MAX as f64, "1 to 1000000")?;
        within("n_bad_max", self.n_bad_max as f64, 1.0..=1000.0, "1 to 1000")?;
        self.check_plateau()?;
        if let Some(target) = self.target {
            within("target", target, (f64::MIN_POSITIVE)..1.0, "above 0 and below 1")?;
        }
        if let Some(Baseline { score, margin }) = self.baseline {
            within("baseline.score", score, 0.0..1.0, "0 to below 1")?;
            within("baseline.margin", margin, 0.0..1.0, "0 to below 1")?;
            within("baseline.score + baseline.margin", score + margin, 0.0..1.0, "0 to below 1")?;
        }
        let limits = [
            ("n_tokens_max", self.n_tokens_max.map(|n| n as f64)),
            ("dollars_max", self.dollars_max),
            ("seconds_max", self.seconds_max),
            ("goals.cost_max", self.goals.cost_max),
            ("goals.latency_ms_max", self.goals.latency_ms_max),
            ("goals.turns_max", self.goals.turns_max),
            ("hacking_z", self.hacking_z),
        ];
        for (name, limit) in limits {
            within(name, limit.unwrap_or(1.0), f64::MIN_POSITIVE..f64::INFINITY, "above 0")?;
        }
        self.check_mode()
    }

    fn check_plateau(&self) -> Result<(), TrainError> {
        let Some(plateau) = self.plateau.map(|plateau| plateau as f64) else { return Ok(()) };
        match self.mode {
            Mode::Judge => {
                let most = super::seen::N_REWARDS_MAX as f64 / 2.0;
                within("plateau", plateau, REWARD_WINDOW_MIN as f64..=most, "5 to 2048 in judge mode")
            }
            _ => within("plateau", plateau, 1.0..=N_STEPS_MAX as f64, "1 to 1000000"),
        }
    }

    /// Refuses what the mode would ignore.
    fn check_mode(&self) -> Result<(), TrainError> {
        let conflict = |says| Err(TrainError::Conflict(says));
        let wants_end = self.target.is_some() || self.baseline.is_some() || self.plateau.is_some();
        if self.mode == Mode::Judge && (self.target.is_some() || self.baseline.is_some()) {
            return conflict("judge mode has no labels to hold against a target or a baseline: use hybrid or verifiable mode");
        }
        if self.mode != Mode::Hybrid && self.hacking_z.is_some() {
            return conflict("hacking_z needs hybrid mode: only there a judge's reward meets labels");
        }
        if self.goals != Goals::default() && !wants_end {
            return conflict("goals hold back a target, a baseline or a plateau, and none is set");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: StopOptions, expected: Result<(), &str>) {
        assert_eq!(options.check().map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let plain = StopOptions::default();
        let judge = StopOptions { mode: Mode::Judge, ..plain };
        let goals = Goals { turns_max: Some(4.0), ..Goals::default() };
        check(plain, Ok(()));
        check(judge, Ok(()));
        check(StopOptions { n_steps_max: 0, ..plain }, Err("n_steps_max = 0 is outside 1 to 1000000"));
        check(StopOptions { n_bad_max: 0, ..plain }, Err("n_bad_max = 0 is outside 1 to 1000"));
        check(StopOptions { plateau: Some(0), ..plain }, Err("plateau = 0 is outside 1 to 1000000"));
        check(StopOptions { plateau: Some(4), ..judge }, Err("plateau = 4 is outside 5 to 2048 in judge mode"));
        check(StopOptions { plateau: None, ..plain }, Ok(()));
        check(StopOptions { target: Some(1.0), ..plain }, Err("target = 1 is outside above 0 and below 1"));
        check(StopOptions { target: Some(f64::NAN), ..plain }, Err("target = NaN is outside above 0 and below 1"));
        let baseline = |score, margin| StopOptions { baseline: Some(Baseline { score, margin }), ..plain };
        check(baseline(0.5, 0.1), Ok(()));
        check(baseline(0.5, -0.1), Err("baseline.margin = -0.1 is outside 0 to below 1"));
        check(baseline(0.5, 0.5), Err("baseline.score + baseline.margin = 1 is outside 0 to below 1"));
        check(StopOptions { n_tokens_max: Some(0), ..plain }, Err("n_tokens_max = 0 is outside above 0"));
        check(StopOptions { dollars_max: Some(-1.0), ..plain }, Err("dollars_max = -1 is outside above 0"));
        check(StopOptions { seconds_max: Some(f64::INFINITY), ..plain }, Err("seconds_max = inf is outside above 0"));
        check(StopOptions { goals, ..plain }, Ok(()));
        check(
            StopOptions { goals, plateau: None, ..plain },
            Err("goals hold back a target, a baseline or a plateau, and none is set"),
        );
        check(
            StopOptions { target: Some(0.9), ..judge },
            Err("judge mode has no labels to hold against a target or a baseline: use hybrid or verifiable mode"),
        );
        check(
            StopOptions { hacking_z: Some(3.0), ..plain },
            Err("hacking_z needs hybrid mode: only there a judge's reward meets labels"),
        );
        check(StopOptions { hacking_z: Some(3.0), mode: Mode::Hybrid, ..plain }, Ok(()));
    }

    #[test]
    fn options_are_read_with_their_defaults_and_unknown_ones_refused() {
        let read = |text: &str| serde_json::from_str::<StopOptions>(text);
        let expected = StopOptions { mode: Mode::Hybrid, plateau: None, ..StopOptions::default() };
        assert_eq!(read(r#"{"mode":"hybrid","plateau":null}"#).expect("known keys"), expected);
        assert!(read(r#"{"patience":3}"#).is_err());
    }
}
