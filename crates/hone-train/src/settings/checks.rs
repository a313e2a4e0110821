//! What is refused: a setting outside its range, and one that has no effect beside the others.
//!
//! Everything is called by the name that the user gave it.

use super::{Algorithm, CorrectionName, CreditName, Given, KlPlace, Settings};
use crate::TrainError;
use crate::advantage::{Centring, TurnBaseline};
use crate::error::within;
use crate::groups::Credit;
use crate::loss::{KlEstimator, Method};
use crate::stop::Mode;

/// What only says how validation is done, or what it decides.
const OF_VALIDATION: [&str; 15] = [
    "answer_tokens",
    "turns",
    "validate_every",
    "validation",
    "checkpoints",
    "measure",
    "evidence",
    "hacking_z",
    "plateau",
    "target",
    "baseline",
    "margin",
    "max_turns",
    "max_episode_tokens",
    "max_episode_ms",
];

impl Given {
    /// Refuses what has no effect on a run that learns from traces and is measured nowhere.
    pub fn check_unmeasured(&self) -> Result<(), TrainError> {
        // A judge's plateau is one of the reward, and needs no validation.
        let by_judge = self.evidence == Some(Mode::Judge);
        let is_refused = |name: &&str| self.has(name) && !(by_judge && matches!(*name, "evidence" | "plateau"));
        match OF_VALIDATION.into_iter().find(is_refused) {
            Some(name) => Err(TrainError::Unmeasured { name }),
            None => Ok(()),
        }
    }
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), TrainError> {
        self.check_counts()?;
        self.check_measures()?;
        self.check_limits()?;
        self.check_effects()?;
        // What is left is where the parts know better.
        self.stop(1).check()?;
        self.critic().check()?;
        self.preference().check()?;
        self.step_options(false).check()
    }

    fn check_counts(&self) -> Result<(), TrainError> {
        let count =
            |name, n: u32, least: u32, most: u32, says| within(name, f64::from(n), f64::from(least)..=f64::from(most), says);
        count("steps", self.steps, 1, 1_000_000, "1 to 1000000")?;
        count("passes", self.passes, 1, 1000, "1 to 1000")?;
        count("rank", self.rank.into(), 1, 512, "1 to 512")?;
        count("scenarios", self.scenarios, 1, 4096, "1 to 4096")?;
        count("samples", self.samples.into(), 2, 1024, "2 to 1024")?;
        count("answer_tokens", self.answer_tokens, 1, 1_000_000, "1 to 1000000")?;
        count("turns", self.turns, 1, 100_000, "1 to 100000")?;
        count("context", self.context, 16, 1_000_000, "16 to 1000000")?;
        count("resamples", self.resamples, 0, 100, "0 to 100")?;
        count("max_staleness", self.max_staleness, 0, 1, "0 to 1")?;
        count("epochs", self.epochs, 1, 64, "1 to 64")?;
        count("minibatches", self.minibatches, 1, self.scenarios.min(64), "1 to 64, and to the scenarios of a step")?;
        if self.algorithm == Algorithm::Grpo {
            count("warmup", self.warmup, 0, self.steps, "0 to the steps of the run")?;
        }
        count("traces", self.traces, 1, 1_000_000, "1 to 1000000")?;
        count("batch_tokens", self.batch_tokens, 1, 10_000_000, "1 to 10000000")?;
        count("batch_pairs", self.batch_pairs, 1, 100_000, "1 to 100000")?;
        count("value_epochs", self.value_epochs, 0, 1000, "0 to 1000")?;
        count("validate_every", self.validate_every, 1, 1_000_000, "1 to 1000000")?;
        count("validation", self.validation, 1, 65_536, "1 to 65536")?;
        count("checkpoints", self.checkpoints, 0, 1000, "0 to 1000")?;
        count("bad_steps", self.bad_steps, 1, 1000, "1 to 1000")?;
        let most = u32::try_from(self.episode_tokens()).unwrap_or(u32::MAX);
        count("overlong", self.overlong, 0, most, "0 to the tokens of the longest episode")
    }

    fn check_measures(&self) -> Result<(), TrainError> {
        let above_zero = || f64::MIN_POSITIVE..f64::INFINITY;
        within("lr", self.lr, 0.0..=1.0, "0 to 1")?;
        within("lr_floor", self.lr_floor, 0.0..=1.0, "0 to 1")?;
        within("alpha", self.alpha, above_zero(), "above 0")?;
        within("beta2", self.beta2, 0.0..1.0, "0 to below 1")?;
        within("weight_decay", self.weight_decay, 0.0..=1.0, "0 to 1")?;
        within("grad_clip", self.grad_clip, 0.0..f64::INFINITY, "0 and above")?;
        within("temperature", self.temperature, 0.01..=100.0, "0.01 to 100")?;
        within("clip_low", self.clip_low.unwrap_or(0.0), 0.0..=1.0, "0 to 1")?;
        within("clip_high", self.clip_high.unwrap_or(0.0), 0.0..f64::INFINITY, "0 and above")?;
        within("kl", self.kl, 0.0..f64::INFINITY, "0 and above")?;
        within("entropy_bonus", self.entropy_bonus, 0.0..f64::INFINITY, "0 and above")?;
        within("deviation_min", self.deviation_min, above_zero(), "above 0")?;
        within("gamma", self.gamma, 0.0..=1.0, "0 to 1")?;
        within("correction_max", self.correction_max, 1.0..f64::INFINITY, "1 and above")?;
        within("quality_min", self.quality_min, f64::MIN..f64::INFINITY, "all finite numbers")?;
        within("awr_temperature", self.awr_temperature, above_zero(), "above 0")?;
        within("awr_weight_max", self.awr_weight_max, above_zero(), "above 0")?;
        within("pair_margin", self.pair_margin, 0.0..f64::INFINITY, "0 and above")?;
        within("dpo_beta", self.dpo_beta, above_zero(), "above 0")?;
        within("label_smoothing", self.label_smoothing, 0.0..0.5, "0 to below 0.5")?;
        within("gae_lambda", self.gae_lambda, 0.0..=1.0, "0 to 1")?;
        within("value_clip", self.value_clip, 0.0..f64::INFINITY, "0 and above")?;
        within("value_lr", self.value_lr, 0.0..f64::INFINITY, "0 and above")
    }

    fn check_limits(&self) -> Result<(), TrainError> {
        let baseline = self.baseline.unwrap_or(0.0);
        within("baseline", baseline, 0.0..1.0, "0 to below 1")?;
        within("margin", self.margin, 0.0..1.0, "0 to below 1")?;
        within("baseline + margin", baseline + self.margin, 0.0..1.0, "0 to below 1")?;
        let limits = [
            ("max_tokens", self.max_tokens.map(|n| n as f64)),
            ("max_seconds", self.max_seconds),
            ("max_dollars", self.max_dollars),
            ("max_turns", self.max_turns),
            ("max_episode_tokens", self.max_episode_tokens),
            ("max_episode_ms", self.max_episode_ms),
            ("hacking_z", self.hacking_z),
        ];
        for (name, limit) in limits {
            within(name, limit.unwrap_or(1.0), f64::MIN_POSITIVE..f64::INFINITY, "above 0")?;
        }
        Ok(())
    }

    /// Refuses what has no effect beside the other settings.
    fn check_effects(&self) -> Result<(), TrainError> {
        let is_grpo = self.algorithm == Algorithm::Grpo;
        let (by_turns, is_clipped) = (self.credit == CreditName::Turns, self.clip_low.is_some() || self.clip_high.is_some());
        let by_deviation = matches!(self.groups().credit, Credit::Episode(Centring::Deviation { .. }));
        // The first move of a step is by the policy that sampled: every ratio is 1.
        let is_foreign = !is_grpo || self.max_staleness > 0 || self.epochs > 1 || self.minibatches > 1;
        let is_corrected = self.policy_loss(false).correction.is_some();
        let has_goals = self.max_turns.or(self.max_episode_tokens).or(self.max_episode_ms).is_some();
        let has_end = self.target.is_some() || self.baseline.is_some() || self.plateau > 0;
        let refused = [
            (
                self.evidence == Mode::Judge && self.plateau == 0,
                "evidence = \"judge\" has no effect without a plateau: a judge's reward only says when it stops rising",
            ),
            (self.hacking_z.is_some() && self.evidence != Mode::Hybrid, "hacking_z has no effect without evidence = \"hybrid\""),
            (self.margin != 0.0 && self.baseline.is_none(), "margin has no effect without a baseline"),
            (self.kl == 0.0 && self.kl_in != KlPlace::Loss, "kl_in has no effect while kl is 0"),
            (self.kl == 0.0 && self.kl_estimator != KlEstimator::K3, "kl_estimator has no effect while kl is 0"),
            (
                is_grpo && self.loss == Method::Cispo && self.clip_low.is_some(),
                "clip_low has no effect on cispo, which only bounds ratios from above",
            ),
            (
                has_goals && !has_end,
                "max_turns, max_episode_tokens and max_episode_ms hold back a target, a baseline or a plateau, and none is set",
            ),
            (
                is_clipped && !is_foreign,
                "clip_low and clip_high have no effect on one move of the weights per step: raise epochs or minibatches",
            ),
            (
                is_clipped && is_corrected,
                "clip_low and clip_high have no effect on samples that are corrected: the ratio is to the weights before each move",
            ),
            (
                self.correction != CorrectionName::Auto && !is_foreign,
                "correction has no effect on one move of the weights per step: the samples are the policy's own",
            ),
            (self.correction_max != 2.0 && !is_corrected, "correction_max has no effect without a correction"),
            (by_turns && self.centring.is_some(), "centring has no effect on credit = \"turns\", which has turn_baseline"),
            (
                self.deviation_min != 1e-4 && !by_deviation,
                "deviation_min has no effect where rewards are not divided by their deviation: set centring = \"deviation\"",
            ),
            (
                !by_turns && self.turn_baseline != TurnBaseline::Trajectory,
                "turn_baseline has no effect on credit = \"episode\": set credit = \"turns\"",
            ),
            (is_grpo && !by_turns && self.gamma != 1.0, "gamma has no effect on credit = \"episode\": set credit = \"turns\""),
        ];
        match refused.into_iter().find(|(is_refused, _)| *is_refused) {
            Some((_, says)) => Err(TrainError::Conflict(says)),
            None => Ok(()),
        }
    }
}
