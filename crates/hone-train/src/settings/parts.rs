//! What the settings mean to the parts of training.

use super::{Algorithm, CentringName, CorrectionName, CreditName, KlPlace, Settings};
use crate::advantage::{Centring, Overlong};
use crate::critic::CriticOptions;
use crate::groups::{Credit, GroupOptions};
use crate::loss::{Correction, Kl, Level, Method, PolicyLoss, PreferenceLoss, Remedy, Surrogate};
use crate::step::{Objective, StepOptions};
use crate::stop::{Baseline, Goals, StopOptions};
use hone_engine::lora::LoraSpec;
use hone_engine::optim::{AdamOptions, Schedule};

/// Rows of a micro-batch.
const N_ROWS_MAX: usize = 4096;

impl Settings {
    /// The shape of the adapter.
    pub fn lora(&self) -> LoraSpec {
        LoraSpec::all(usize::from(self.rank), self.alpha as f32)
    }

    /// The optimiser.
    pub fn adam(&self) -> AdamOptions {
        let (beta2, weight_decay, clip) = (self.beta2 as f32, self.weight_decay as f32, self.grad_clip as f32);
        AdamOptions { beta2, weight_decay, clip, ..AdamOptions::default() }
    }

    /// The learning rate at a move of the weights, of so many.
    pub fn lr_at(&self, step: u64, n_steps: u64) -> f32 {
        let (lr, floor, n_warmup) = (self.lr as f32, (self.lr * self.lr_floor) as f32, u64::from(self.warmup));
        Schedule::Cosine { lr, floor, n_warmup, n_steps }.lr(step)
    }

    /// The most tokens that an episode may sample.
    pub(super) fn episode_tokens(&self) -> usize {
        (self.answer_tokens as usize).saturating_mul(self.turns as usize).min(self.context as usize)
    }

    /// How groups become a batch.
    pub fn groups(&self) -> GroupOptions {
        let centring = match (self.centring, self.loss.centring()) {
            (Some(CentringName::Mean), _) => Centring::Mean,
            (Some(CentringName::LeaveOneOut), _) => Centring::LeaveOneOut,
            (Some(CentringName::Deviation), _) | (None, Centring::Deviation { .. }) => {
                Centring::Deviation { epsilon: self.deviation_min }
            }
            (None, own) => own,
        };
        let credit = match self.credit {
            CreditName::Episode => Credit::Episode(centring),
            CreditName::Turns => Credit::Turns { gamma: self.gamma, baseline: self.turn_baseline },
        };
        let n_tokens_margin = self.overlong as usize;
        let overlong = (n_tokens_margin > 0).then(|| Overlong { n_tokens_max: self.episode_tokens(), n_tokens_margin });
        GroupOptions { credit, overlong, n_rows_max: N_ROWS_MAX }
    }

    /// Rows of a micro-batch.
    pub fn n_rows_max(&self) -> usize {
        N_ROWS_MAX
    }

    /// The estimate of KL that is a part of the reward, where there is one.
    pub fn kl_in_reward(&self) -> Option<Kl> {
        let kl = Kl { estimator: self.kl_estimator, beta: self.kl };
        (self.kl > 0.0 && self.kl_in == KlPlace::Reward).then_some(kl)
    }

    pub(super) fn policy_loss(&self, is_foreign: bool) -> PolicyLoss {
        let method = if self.algorithm == Algorithm::Ppo { Method::Bnpo } else { self.loss };
        let mut loss = method.loss(self.episode_tokens());
        match &mut loss.surrogate {
            Surrogate::Clipped { low, high, .. } => {
                *low = self.clip_low.unwrap_or(*low);
                *high = self.clip_high.unwrap_or(*high);
            }
            Surrogate::Weighted { ratio_max } => *ratio_max = self.clip_high.map_or(*ratio_max, |high| 1.0 + high),
        }
        let is_stale = is_foreign || self.max_staleness > 0;
        let correction = |remedy| Some(Correction { remedy, high: self.correction_max, level: Level::Token, low: 0.0 });
        loss.correction = match self.correction {
            CorrectionName::Auto if is_stale => correction(Remedy::Truncate),
            CorrectionName::Auto | CorrectionName::None => None,
            CorrectionName::Truncate => correction(Remedy::Truncate),
            CorrectionName::Mask => correction(Remedy::Mask),
        };
        let is_in_loss = self.kl > 0.0 && self.kl_in == KlPlace::Loss;
        loss.kl = is_in_loss.then_some(Kl { estimator: self.kl_estimator, beta: self.kl });
        loss.entropy_bonus = self.entropy_bonus;
        loss
    }

    pub(super) fn preference(&self) -> PreferenceLoss {
        PreferenceLoss { beta: self.dpo_beta, label_smoothing: self.label_smoothing }
    }

    /// How a step is taken whose learning rate is told with it; `is_foreign` where another program sampled.
    pub fn step_options(&self, is_foreign: bool) -> StepOptions {
        let objective = match self.algorithm {
            Algorithm::Grpo | Algorithm::Ppo => Objective::Policy(self.policy_loss(is_foreign)),
            Algorithm::Sft | Algorithm::Awr => Objective::Imitation,
            Algorithm::Dpo => Objective::Preference(self.preference()),
        };
        let options = StepOptions::new(objective, Schedule::Constant { lr: self.lr as f32 });
        StepOptions { temperature: self.temperature as f32, ..options }
    }

    /// How PPO's critic learns.
    pub fn critic(&self) -> CriticOptions {
        CriticOptions {
            gamma: self.gamma,
            lambda: self.gae_lambda,
            clip: (self.value_clip != 0.0).then_some(self.value_clip),
            lr: self.value_lr,
            n_epochs: self.value_epochs as usize,
        }
    }

    /// When a run of so many steps ends.
    pub fn stop(&self, n_steps: u64) -> StopOptions {
        StopOptions {
            mode: self.evidence,
            n_steps_max: n_steps,
            plateau: (self.plateau > 0).then_some(u64::from(self.plateau)),
            target: self.target,
            baseline: self.baseline.map(|score| Baseline { score, margin: self.margin }),
            n_tokens_max: self.max_tokens,
            seconds_max: self.max_seconds,
            dollars_max: self.max_dollars,
            n_bad_max: u64::from(self.bad_steps),
            goals: Goals { cost_max: self.max_episode_tokens, latency_ms_max: self.max_episode_ms, turns_max: self.max_turns },
            hacking_z: self.hacking_z,
        }
    }
}
