//! The settings of training: one table with every key, what it means, whom it is for, and what it is when nobody says.
//!
//! A key that has no effect on an algorithm is refused there, so a setting that is accepted does something.
//! Knows nothing of files, flags or models.

mod checks;
mod choices;
mod parts;

pub use choices::{Algorithm, CentringName, CorrectionName, CreditName, KlPlace, Measure};

use crate::TrainError;
use crate::advantage::TurnBaseline;
use crate::loss::{KlEstimator, Method};
use crate::stop::Mode;
use Algorithm::{Awr, Dpo, Grpo, Ppo, Sft};
use serde::{Deserialize, Serialize};

/// A key of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Whom it is for.
    pub algorithms: &'static [Algorithm],
}

const ALL: &[Algorithm] = &Algorithm::ALL;
const ONLINE: &[Algorithm] = &[Grpo];
const LOGGED: &[Algorithm] = &[Sft, Awr, Dpo, Ppo];
const BY_TOKENS: &[Algorithm] = &[Sft, Awr, Ppo];
const BY_ADVANTAGE: &[Algorithm] = &[Grpo, Ppo];

macro_rules! settings {
    ($( #[doc = $about:literal] $key:ident: $type:ty = $default:expr, for $algorithms:expr; )*) => {
        /// What somebody asked for; the rest is left to the defaults.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Given {
            $( #[doc = $about] #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type>, )*
        }

        /// Every setting of a run.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Settings {
            /// What learns from what.
            pub algorithm: Algorithm,
            $( #[doc = $about] pub $key: $type, )*
        }

        /// The table.
        pub const KEYS: &[Key] =
            &[$( Key { name: stringify!($key), about: $about.trim_ascii(), algorithms: $algorithms }, )*];

        impl Given {
            /// The settings of a run by this algorithm. Refuses what has no effect on it, and what makes no sense.
            pub fn resolve(&self, algorithm: Algorithm) -> Result<Settings, TrainError> {
                $( let $key = match &self.$key {
                    Some(_) if !$algorithms.contains(&algorithm) => {
                        return Err(TrainError::NoEffect { name: stringify!($key), algorithm });
                    }
                    Some(value) => value.clone(),
                    None => {
                        let default: fn(Algorithm) -> $type = $default;
                        default(algorithm)
                    }
                }; )*
                let settings = Settings { algorithm, $( $key, )* };
                settings.check()?;
                Ok(settings)
            }

            /// Whether the key of this name is asked for.
            pub fn has(&self, name: &str) -> bool {
                match name {
                    $( stringify!($key) => self.$key.is_some(), )*
                    _ => false,
                }
            }

            /// What is asked for here, and what is asked for there where nothing is asked for here.
            pub fn or(self, other: Self) -> Self {
                Self { $( $key: self.$key.or(other.$key), )* }
            }
        }
    };
}

settings! {
    /// The seed of everything
    seed: u64 = |_| 1, for ALL;
    /// Steps
    steps: u32 = |_| 60, for ONLINE;
    /// Passes over the traces
    passes: u32 = |algorithm| if algorithm == Ppo { 4 } else { 1 }, for LOGGED;
    /// The learning rate at its peak
    lr: f64 = |algorithm| match algorithm { Dpo => 5e-5, Awr | Ppo => 1e-4, Grpo | Sft => 2e-4 }, for ALL;
    /// The last learning rate, as a share of the peak
    lr_floor: f64 = |_| 0.1, for ALL;
    /// Steps over which the learning rate rises
    warmup: u32 = |_| 0, for ALL;
    /// The rank of the adapter
    rank: u16 = |_| 16, for ALL;
    /// The scale of the adapter times its rank, as in PEFT
    alpha: f64 = |_| 32.0, for ALL;
    /// How fast the optimiser's second moment forgets
    beta2: f64 = |_| 0.99, for ALL;
    /// Decay of the weights
    weight_decay: f64 = |_| 0.0, for ALL;
    /// The largest gradient norm; 0 for no limit
    grad_clip: f64 = |_| 1.0, for ALL;

    /// Scenarios of a step
    scenarios: u32 = |_| 8, for ONLINE;
    /// Samples of each scenario: 4 to 64 make a good group
    samples: u16 = |_| 8, for ONLINE;
    /// How adventurous samples are
    temperature: f64 = |_| 1.0, for BY_ADVANTAGE;
    /// The most tokens of an answer
    answer_tokens: u32 = |_| 64, for ALL;
    /// The most answers of an episode
    turns: u32 = |_| 32, for ALL;
    /// The longest conversation in tokens
    context: u32 = |_| 1024, for ALL;
    /// Exchanges of a conversation that the model remembers; all where not said
    memory: Option<usize> = |_| None, for ALL;
    /// Rounds in which groups without signal are replaced by others
    resamples: u32 = |_| 0, for ONLINE;
    /// How many steps the samples may be older than the weights
    max_staleness: u32 = |_| 0, for ONLINE;

    /// Which loss of the family: dr_grpo, grpo, dapo, gspo, cispo or bnpo
    loss: Method = |_| Method::DrGrpo, for ONLINE;
    /// How far a ratio may fall before it teaches nothing; the loss's own where not said
    clip_low: Option<f64> = |_| None, for BY_ADVANTAGE;
    /// How far a ratio may rise before it teaches nothing; the loss's own where not said, and far for a log, which is not sampled anew
    clip_high: Option<f64> = |algorithm| (algorithm == Ppo).then_some(3.0), for BY_ADVANTAGE;
    /// How much divergence from the model without adapter costs
    kl: f64 = |_| 0.0, for BY_ADVANTAGE;
    /// How divergence is estimated: k1 (in the reward only), k2 or k3
    kl_estimator: KlEstimator = |_| KlEstimator::K3, for BY_ADVANTAGE;
    /// Of what divergence is a part: loss or reward
    kl_in: KlPlace = |_| KlPlace::Loss, for ONLINE;
    /// How much entropy is rewarded
    entropy_bonus: f64 = |_| 0.0, for BY_ADVANTAGE;
    /// Passes over the samples of a step
    epochs: u32 = |_| 1, for ONLINE;
    /// Moves of the weights per pass
    minibatches: u32 = |_| 1, for ONLINE;
    /// To what a reward is credited: the whole episode, or turns
    credit: CreditName = |_| CreditName::Episode, for ONLINE;
    /// What rewards of a group are compared with: mean, deviation or leave_one_out; the loss's own where not said
    centring: Option<CentringName> = |_| None, for ONLINE;
    /// Added to a group's deviation before it divides
    deviation_min: f64 = |_| 1e-4, for ONLINE;
    /// What the return of a turn is compared with: trajectory or per_turn
    turn_baseline: TurnBaseline = |_| TurnBaseline::Trajectory, for ONLINE;
    /// How much the next turn's return counts, and for PPO the next token's
    gamma: f64 = |_| 1.0, for BY_ADVANTAGE;
    /// Tokens before the limit of an episode from which length is punished; 0 for no punishment
    overlong: u32 = |_| 0, for ONLINE;
    /// What becomes of tokens whose sampler was another policy: auto, none, truncate or mask
    correction: CorrectionName = |_| CorrectionName::Auto, for ONLINE;
    /// The most that such a token counts
    correction_max: f64 = |_| 2.0, for ONLINE;

    /// The reward from which a trace is imitated
    quality_min: f64 = |_| 0.8, for &[Sft];
    /// The most traces of the store that are learned from, newest first
    traces: u32 = |_| 10_000, for LOGGED;
    /// Trained tokens of a step
    batch_tokens: u32 = |_| 2048, for BY_TOKENS;
    /// How much better a trace must be to count more
    awr_temperature: f64 = |_| 0.3, for &[Awr];
    /// The most that a trace counts
    awr_weight_max: f64 = |_| 10.0, for &[Awr];
    /// Pairs of a step
    batch_pairs: u32 = |_| 16, for &[Dpo];
    /// How much more the better of a pair must have earned
    pair_margin: f64 = |_| 0.1, for &[Dpo];
    /// How strongly the model without adapter holds
    dpo_beta: f64 = |_| 0.1, for &[Dpo];
    /// The share of pairs believed to be the wrong way round
    label_smoothing: f64 = |_| 0.0, for &[Dpo];
    /// From one-step estimates, 0, to whole returns, 1
    gae_lambda: f64 = |_| 0.95, for &[Ppo];
    /// How far an estimate of the value may move in one step; 0 for no bound
    value_clip: f64 = |_| 0.2, for &[Ppo];
    /// The learning rate of the value estimate
    value_lr: f64 = |_| 0.01, for &[Ppo];
    /// Passes of the value estimate over a step
    value_epochs: u32 = |_| 16, for &[Ppo];

    /// Measure every so many steps
    validate_every: u32 = |_| 5, for ALL;
    /// Validation tasks
    validation: u32 = |_| 64, for ALL;
    /// States that are kept to fork from, besides the last and the best
    checkpoints: u32 = |_| 3, for ALL;
    /// What validation counts: solved tasks, those with answers that could be read, format, or those that earned at least a half, rewarded
    measure: Measure = |_| Measure::Solved, for ALL;
    /// What counts as evidence: labels (verifiable), a judge, or a judge checked by labels (hybrid)
    evidence: Mode = |_| Mode::Verifiable, for ALL;
    /// How far validation must fall to be called reward hacking, in standard errors
    hacking_z: Option<f64> = |_| None, for ALL;
    /// Stop when validation has not become better for so many steps; 0 for never
    plateau: u32 = |_| 0, for ALL;
    /// Stop when the lower end of validation's interval reaches this share
    target: Option<f64> = |_| None, for ALL;
    /// Stop when validation beats this share by the margin
    baseline: Option<f64> = |_| None, for ALL;
    /// By how much the baseline must be beaten
    margin: f64 = |_| 0.0, for ALL;
    /// Stop after so many sampled and trained tokens
    max_tokens: Option<u64> = |_| None, for ALL;
    /// Stop after so many seconds
    max_seconds: Option<f64> = |_| None, for ALL;
    /// Stop after the step in which the judge has cost so many dollars
    max_dollars: Option<f64> = |_| None, for ALL;
    /// Turns per episode that validation may take at most for target, baseline and plateau to count
    max_turns: Option<f64> = |_| None, for ALL;
    /// Tokens per episode that validation may take at most for target, baseline and plateau to count
    max_episode_tokens: Option<f64> = |_| None, for ALL;
    /// Milliseconds per episode that validation may take at most for target, baseline and plateau to count
    max_episode_ms: Option<f64> = |_| None, for ALL;
    /// Steps in a row whose loss or gradient is not finite before the run gives up
    bad_steps: u32 = |_| 3, for ALL;
}

#[cfg(test)]
mod tests;
