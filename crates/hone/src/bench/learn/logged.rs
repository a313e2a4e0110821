//! Learning from a log alone: what the model did at the service desk was recorded once, and nothing is sampled while it learns.
//!
//! AWR and PPO see one try per task. AWR imitates an episode the more, the more it earned; PPO credits every token by a critic and
//! may not move far from who sampled it. DPO sees as many episodes as groups of tries at the same task, and prefers the best of
//! each to the worst. All three read their log a few times in small batches and begin at the same model.

use super::figure::Figure;
use super::warm::Warm;
use crate::failure::Failure;
use crate::gym::{Exercise, flat};
use crate::learner::Learner;
use crate::r#loop::Line;
use hone_engine::optim::Schedule;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_trace::{Draws, Trace};
use hone_train::advantage::{Centring, group, turn_rewards};
use hone_train::batch::{Advantage, Batch};
use hone_train::critic::{Critic, CriticOptions};
use hone_train::episode::Episode;
use hone_train::loss::{Method, PolicyLoss, PreferenceLoss, Surrogate, awr_weights};
use hone_train::step::{Objective, Reference, StepOptions};
use serde::Serialize;

/// Episodes of a log.
const N_EPISODES: usize = 8192;
/// Tries at the same task, where the log has groups.
const N_TRIES: usize = 8;
/// Rows computed at once.
const N_ROWS_MAX: usize = 8192;
/// The most tokens of an episode that are trained.
const EPISODE_TOKENS_MAX: usize = 112;

/// An episode counts `exp(advantage / temperature)` in AWR, and at most the maximum; advantages are in deviations of the log.
const AWR_TEMPERATURE: f64 = 0.5;
const AWR_WEIGHT_MAX: f64 = 20.0;
/// How far PPO may raise the probability of a token, here up to fourfold. A log is not sampled anew when the policy has moved: by
/// the usual 0.28, what was done in one of ten tries would be done in one of eight, and no more.
const PPO_CLIP_HIGH: f64 = 3.0;

const AWR: Reading = Reading { n_passes: 4, n_together: 64, lr: 1e-3 };
const PPO: Reading = Reading { n_passes: 4, n_together: 256, lr: 5e-4 };
const DPO: Reading = Reading { n_passes: 4, n_together: 32, lr: 1e-4 };

/// How a log is read.
#[derive(Clone, Copy)]
struct Reading {
    /// How often all of it is read.
    n_passes: usize,
    /// What is learned from at once: episodes, or pairs of them.
    n_together: usize,
    /// The learning rate at the start; at the end it is a fifth of it.
    lr: f32,
}

/// One seed.
pub(super) struct Run {
    sft: Line,
    ppo: Line,
    awr: Line,
    dpo: Line,
}

impl Run {
    fn gain_points(&self, line: &Line) -> f64 {
        100.0 * (line.completion - self.sft.completion)
    }

    pub(super) fn told(&self) -> String {
        let share = |line: &Line| 100.0 * line.completion;
        let [sft, ppo, awr, dpo] = [&self.sft, &self.ppo, &self.awr, &self.dpo].map(share);
        format!("imitation {sft:.1} %, PPO {ppo:.1} %, AWR {awr:.1} %, DPO {dpo:.1} %")
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// Points gained over imitation.
    ppo: Figure,
    awr: Figure,
    dpo: Figure,
    /// Held-out completion.
    sft_completion: Figure,
    ppo_completion: Figure,
    awr_completion: Figure,
    dpo_completion: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        Self {
            ppo: Figure::of(runs, |run| run.gain_points(&run.ppo)),
            awr: Figure::of(runs, |run| run.gain_points(&run.awr)),
            dpo: Figure::of(runs, |run| run.gain_points(&run.dpo)),
            sft_completion: Figure::of(runs, |run| run.sft.completion),
            ppo_completion: Figure::of(runs, |run| run.ppo.completion),
            awr_completion: Figure::of(runs, |run| run.awr.completion),
            dpo_completion: Figure::of(runs, |run| run.dpo.completion),
        }
    }

    pub(super) fn told(&self) -> String {
        let gain = |figure: &Figure| figure.told(1.0, 1);
        format!(
            "from a log alone PPO gains {} points over imitation, AWR {} and DPO {}",
            gain(&self.ppo),
            gain(&self.awr),
            gain(&self.dpo)
        )
    }
}

pub(super) fn run(warm: &mut Warm) -> Result<Run, Failure> {
    warm.rewind()?;
    let singles = flat(log(warm, 1)?);
    let groups = log(warm, N_TRIES)?;
    credit(&mut warm.learner, &singles, warm.seed)?;
    let ppo = warm.measure("ppo")?;
    warm.rewind()?;
    imitate(&mut warm.learner, &singles, warm.seed)?;
    let awr = warm.measure("awr")?;
    warm.rewind()?;
    prefer(&mut warm.learner, &groups, warm.seed)?;
    let dpo = warm.measure("dpo")?;
    Ok(Run { sft: warm.sft.clone(), ppo, awr, dpo })
}

/// What the model does before it learns, in groups of so many tries.
fn log(warm: &mut Warm, n_samples: usize) -> Result<Vec<Played>, Failure> {
    let policy = warm.learner.policy()?;
    let tasks = warm.ground.tries(N_EPISODES / n_samples)?;
    warm.ground.gym().play(Exercise { name: "log", round: n_samples as u64, n_samples }, Player::Policy(&policy), &tasks)
}

/// AWR: imitates an episode the more, the more it earned beside the others of the log.
fn imitate(learner: &mut Learner, traces: &[Trace], seed: u64) -> Result<(), Failure> {
    let (episodes, traces) = trainable(traces);
    let rewards: Vec<f64> = traces.iter().map(|trace| earned(trace)).collect();
    let advantages = group(&rewards, Centring::Deviation { epsilon: 0.0 }).unwrap_or_else(|| vec![0.0; rewards.len()]);
    let weights = awr_weights(&advantages, AWR_TEMPERATURE, AWR_WEIGHT_MAX).map_err(Failure::bug)?;
    AWR.over(episodes.len(), seed, |chosen, lr| {
        let mut batch = batch_of(&episodes, chosen);
        let weights: Vec<Advantage> = chosen.iter().map(|&idx| Advantage::Episode(weights[idx])).collect();
        batch.set_advantages(&weights).map_err(Failure::bug)?;
        learner.step(batch, StepOptions::new(Objective::Imitation, Schedule::Constant { lr }))?;
        Ok(())
    })
}

/// PPO: credits every token with what a critic did not expect.
fn credit(learner: &mut Learner, traces: &[Trace], seed: u64) -> Result<(), Failure> {
    let (episodes, traces) = trainable(traces);
    let rewards_e: Vec<Vec<f64>> = traces.iter().map(|trace| turn_rewards(trace)).collect();
    let surrogate = Surrogate::Clipped { low: 0.2, high: PPO_CLIP_HIGH, ratio_max: None };
    let objective = Objective::Policy(PolicyLoss { surrogate, ..Method::Bnpo.loss(EPISODE_TOKENS_MAX) });
    let mut critic = Some(Critic::new(learner.dim()));
    PPO.over(episodes.len(), seed, |chosen, lr| {
        let mut batch = batch_of(&episodes, chosen);
        let rewards_e: Vec<Vec<f64>> = chosen.iter().map(|&idx| rewards_e[idx].clone()).collect();
        let mut judge = critic.take().ok_or_else(|| Failure::bug("the critic is lent"))?;
        let judged = learner.with_trainer(move |host, trainer| {
            judge.judge(host, trainer, &mut batch, &rewards_e, &CriticOptions::default()).map(|_| (judge, batch))
        })?;
        let (judge, batch) = judged.map_err(Failure::bug)?;
        critic = Some(judge);
        learner.step(batch, StepOptions::new(objective, Schedule::Constant { lr }))?;
        Ok(())
    })
}

/// DPO: prefers the best of a group to its worst. The reference is who sampled them: the model at the start.
fn prefer(learner: &mut Learner, groups: &[Played], seed: u64) -> Result<(), Failure> {
    let pairs: Vec<[Episode; 2]> = groups.iter().filter_map(|played| ranked(&played.traces)).collect();
    let objective = Objective::Preference(PreferenceLoss::default());
    DPO.over(pairs.len(), seed, |chosen, lr| {
        let chosen: Vec<[Episode; 2]> = chosen.iter().map(|&idx| pairs[idx].clone()).collect();
        let batch = Batch::of_pairs(&chosen, N_ROWS_MAX);
        let options = StepOptions { reference: Reference::Sampler, ..StepOptions::new(objective, Schedule::Constant { lr }) };
        learner.step(batch, options)?;
        Ok(())
    })
}

impl Reading {
    /// Reads `n` things in small parts, in an order of its own in every pass, and says at which rate to learn from each.
    fn over(self, n: usize, seed: u64, mut learn: impl FnMut(&[usize], f32) -> Result<(), Failure>) -> Result<(), Failure> {
        let n_steps = self.n_passes * n.div_ceil(self.n_together);
        let mut step_idx = 0;
        for pass_idx in 0..self.n_passes {
            let mut order: Vec<usize> = (0..n).collect();
            Draws::new(seed, &["log", &pass_idx.to_string()]).shuffle(&mut order);
            for chosen in order.chunks(self.n_together) {
                learn(chosen, self.lr * (1.0 - 0.8 * step_idx as f32 / n_steps as f32))?;
                step_idx += 1;
            }
        }
        Ok(())
    }
}

/// The episodes that can be trained, with their traces.
fn trainable(traces: &[Trace]) -> (Vec<Episode>, Vec<&Trace>) {
    traces.iter().filter_map(|trace| Some((Episode::of_trace(trace).ok()?, trace))).unzip()
}

fn batch_of(episodes: &[Episode], chosen: &[usize]) -> Batch {
    let chosen: Vec<Episode> = chosen.iter().map(|&idx| episodes[idx].clone()).collect();
    Batch::new(&chosen, N_ROWS_MAX)
}

/// The best and the worst of a group; nothing where they earned the same.
fn ranked(traces: &[Trace]) -> Option<[Episode; 2]> {
    let by_reward = |a: &&Trace, b: &&Trace| earned(a).total_cmp(&earned(b));
    let (best, worst) = (traces.iter().max_by(by_reward)?, traces.iter().min_by(by_reward)?);
    let is_better = earned(best) > earned(worst);
    is_better.then(|| Some([Episode::of_trace(best).ok()?, Episode::of_trace(worst).ok()?])).flatten()
}

fn earned(trace: &Trace) -> f64 {
    trace.reward().map_or(0.0, |reward| reward.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_once_in_every_pass_at_a_falling_rate() {
        let (mut seen, mut rates) = (Vec::new(), Vec::new());
        let read = Reading { n_passes: 2, n_together: 3, lr: 1.0 }.over(7, 1, |chosen, lr| {
            seen.extend_from_slice(chosen);
            rates.push(lr);
            Ok(())
        });
        assert!(read.is_ok());
        let (first, second) = seen.split_at(7);
        assert_ne!(first, second);
        for pass in [first, second] {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<usize>>());
        }
        assert!(rates.len() == 6 && rates[0] > 0.99 && rates[5] > 0.2 && rates.is_sorted_by(|a, b| a > b), "{rates:?}");
    }
}
