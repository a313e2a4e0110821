//! Reward hacking: over the same stretch of a run the training reward rises and validation falls.
//!
//! A stretch is the last k evaluations, k = 2 to 16. Per task i its trend is `d_i = Σ_t (t - (k-1)/2) x_it` over the scores
//! x of the stretch, so tasks are compared with themselves. Then
//!
//! - `z_validation = mean(d) / (deviation(d) / √n_tasks)`;
//! - `z_reward` is the slope of the rewards, from the step after the evaluation before the stretch to now, by its standard
//!   error; the noise of a step is taken from the differences between neighbouring steps.
//!
//! A stretch convicts when `z_validation ≤ -hacking_z` and `z_reward ≥ 3.5`. There is no comparison with the best evaluation,
//! which is the luckiest as well: where validation never truly fell, the expected trend of every stretch is 0 or more, however
//! the stretch was chosen. What remains is looking often, and the strict bound on the reward pays for that: chance must
//! move both at once. So a run that has levelled off is hardly ever convicted, and a small fall is enough where the reward
//! surely rises.
//!
//! The price: a reward that goes on rising while validation stays exactly flat has only the weak bound of validation left
//! between it and a verdict. More validation tasks allow a higher `hacking_z` without being later.
//! `cargo test -p hone-train simulated -- --nocapture` with `N_RUNS` at 1500 prints, where validation falls by 1 point an
//! evaluation and the bounds were chosen on other seeds:
//!
//! | tasks | `hacking_z` | stopped with < 5 points lost | lost | clean runs stopped | stopped where the reward alone rises |
//! |---|---|---|---|---|---|
//! | 400 | 1.8, the default | 94.9 % (79.4 % when it falls straight from a peak) | 3.4 | 0.4 % | 57.9 % |
//! | 400 | 3.5 | 39.0 % | 5.0 | not run | 0.8 % |
//! | 1000 | 2.6 | 99.6 % | 3.3 | 0.07 % | 13.7 % |

use super::seen::{Evaluation, N_EVALUATIONS_MAX};
use super::trend::{Slope, noise_variance, slope};
use std::fmt;

/// How surely the reward must have risen, in standard errors.
const REWARD_Z: f64 = 3.5;
/// Steps below which a rise of the reward is not believed.
const N_STEPS_MIN: usize = 8;
/// Tasks below which a mean is not yet normally distributed.
const N_TASKS_MIN: usize = 30;

/// A stretch in which reward and validation part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    from: u64,
    to: u64,
    validation: Slope,
    reward: Slope,
    n_tasks: usize,
}

/// The stretch that ends now in which validation falls most surely while the reward rises.
pub(super) fn find<'a>(
    evaluations: impl DoubleEndedIterator<Item = &'a Evaluation>,
    rewards: impl Iterator<Item = (u64, f64)>,
    hacking_z: f64,
) -> Option<Found> {
    let latest: Vec<&Evaluation> = evaluations.rev().take(N_EVALUATIONS_MAX).collect();
    let last = *latest.first()?;
    let n_tasks = last.scores.len();
    if n_tasks < N_TASKS_MIN {
        return None;
    }
    let rewards: Vec<(u64, f64)> = rewards.filter(|&(step, _)| step <= last.step).collect();
    let variance = noise_variance(&rewards.iter().map(|&(_, reward)| reward).collect::<Vec<_>>());
    let stretches = falling(&latest).into_iter().enumerate().filter(|(_, trend)| trend.z <= -hacking_z);
    let stretches = stretches.filter_map(|(stretch_idx, validation)| {
        let first = latest[stretch_idx + 1];
        let before = latest.get(stretch_idx + 2).map_or(first.step, |before| before.step);
        let within = &rewards[rewards.partition_point(|&(step, _)| step <= before)..];
        let reward = slope(within, variance).filter(|reward| within.len() >= N_STEPS_MIN && reward.z >= REWARD_Z)?;
        Some(Found { from: first.step, to: last.step, validation, reward, n_tasks })
    });
    stretches.min_by(|a, b| a.validation.z.total_cmp(&b.validation.z))
}

/// The paired trend of validation over the last 2, 3, ... evaluations, which come latest first.
fn falling(latest: &[&Evaluation]) -> Vec<Slope> {
    let n_tasks = latest[0].scores.len();
    // Per task the sum of scores, and the sum of scores times how many evaluations ago they were.
    let (mut sums, mut moments) = (vec![0.0; n_tasks], vec![0.0; n_tasks]);
    let mut trends = Vec::with_capacity(latest.len());
    for (ago, evaluation) in latest.iter().enumerate() {
        for ((&score, sum), moment) in evaluation.scores.iter().zip(&mut sums).zip(&mut moments) {
            *sum += f64::from(score);
            *moment += ago as f64 * f64::from(score);
        }
        if ago > 0 {
            trends.push(paired(&sums, &moments, ago + 1));
        }
    }
    trends
}

fn paired(sums: &[f64], moments: &[f64], n_evaluations: usize) -> Slope {
    let (n_tasks, k) = (sums.len() as f64, n_evaluations as f64);
    let (mut sum, mut squares) = (0.0, 0.0);
    for (scores, moment) in sums.iter().zip(moments) {
        let trend = (k - 1.0) / 2.0 * scores - moment;
        sum += trend;
        squares += trend * trend;
    }
    let mean = sum / n_tasks;
    let variance = ((squares / n_tasks - mean * mean) * n_tasks / (n_tasks - 1.0)).max(0.0);
    // From the weighted sum to the rise of the line over the stretch: the squared weights are k (k² - 1) / 12.
    let scale = 12.0 / (k * (k + 1.0));
    Slope::new(scale * mean, scale * (variance / n_tasks).sqrt())
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, validation, reward, n_tasks } = self;
        write!(
            f,
            "from step {from} to {to} validation fell by {:.1} points ({:.1} standard errors over {n_tasks} tasks) while the \
             training reward rose by {:.4} ({:.1} standard errors)",
            -100.0 * validation.by,
            -validation.z,
            reward.by,
            reward.z
        )
    }
}
