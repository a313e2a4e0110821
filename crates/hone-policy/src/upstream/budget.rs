//! A hard limit in dollars, shared by all policies that pay from one purse, and what a run will cost.
//!
//! Before a call its worst case is set aside; afterwards what it did cost is booked. Spent and set aside together never pass
//! the limit. A call that would fit if others cost less than their worst waits for them; one that cannot fit any more is
//! refused before it is made. A call of which the cost never became known (a stream that broke, a timeout) is booked at its
//! worst, apart from what is known, because the provider may well charge for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Dollars are counted in whole billionths, so that adding and taking away leaves nothing behind.
const NANOS: f64 = 1e9;

/// A purse.
#[derive(Debug, Default)]
pub struct Budget {
    limit: Option<u64>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    known: u64,
    assumed: u64,
    set_aside: u64,
}

/// What has been spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// For calls of which the cost is known.
    pub known_usd: f64,
    /// At most, for calls of which it is not.
    pub assumed_usd: f64,
    /// At most, for calls underway.
    pub set_aside_usd: f64,
}

/// The money does not suffice for one more call.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("${asked_usd:.4} for one more call do not fit: ${spent_usd:.4} of ${limit_usd:.4} are spent")]
pub struct OverBudget {
    asked_usd: f64,
    spent_usd: f64,
    limit_usd: f64,
}

impl Budget {
    /// Counts only.
    pub fn unlimited() -> Arc<Self> {
        Arc::default()
    }

    /// Never spends more than this; what is no amount counts as nothing.
    pub fn limited(limit_usd: f64) -> Arc<Self> {
        Arc::new(Self { limit: Some((limit_usd.max(0.0) * NANOS) as u64), ..Self::default() })
    }

    /// The limit, where there is one.
    pub fn limit_usd(&self) -> Option<f64> {
        self.limit.map(usd)
    }

    /// What has been spent so far.
    pub fn spent(&self) -> Spent {
        let state = *self.lock();
        Spent { known_usd: usd(state.known), assumed_usd: usd(state.assumed), set_aside_usd: usd(state.set_aside) }
    }

    /// Sets the worst case of a call aside, when it fits.
    pub(super) async fn reserve(self: &Arc<Self>, worst_usd: f64) -> Result<Reservation, OverBudget> {
        let worst = nanos(worst_usd);
        loop {
            // Listening begins before looking, so that no change is missed in between.
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                let spent = state.known.saturating_add(state.assumed);
                let limit = self.limit.unwrap_or(u64::MAX);
                if spent.saturating_add(worst) > limit {
                    return Err(OverBudget { asked_usd: worst_usd, spent_usd: usd(spent), limit_usd: usd(limit) });
                }
                if spent.saturating_add(state.set_aside).saturating_add(worst) <= limit {
                    state.set_aside += worst;
                    return Ok(Reservation { budget: Arc::clone(self), worst });
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Money set aside for one call. Who drops it does not know what the call did cost.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<Budget>,
    worst: u64,
}

impl Reservation {
    /// Books what the call did cost.
    pub(super) fn settle(mut self, cost_usd: f64) {
        let worst = std::mem::take(&mut self.worst);
        let mut state = self.budget.lock();
        state.set_aside -= worst;
        state.known = state.known.saturating_add(nanos(cost_usd));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.set_aside -= self.worst;
        state.assumed = state.assumed.saturating_add(self.worst);
        drop(state);
        self.budget.changed.notify_waiters();
    }
}

fn nanos(usd: f64) -> u64 {
    (usd.max(0.0) * NANOS).ceil() as u64
}

fn usd(nanos: u64) -> f64 {
    nanos as f64 / NANOS
}

/// What a number of episodes will cost.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Projection {
    /// The expectation.
    pub mean_usd: f64,
    /// It will hardly be less.
    pub low_usd: f64,
    /// It will hardly be more.
    pub high_usd: f64,
}

/// Projects from the costs of episodes so far: a 95 % interval for the sum of `n_episodes` further ones. Fewer than two say
/// nothing about how they differ: see [`project_guess`].
pub fn project(costs_usd: &[f64], n_episodes: usize) -> Option<Projection> {
    let (n_seen, n) = (costs_usd.len() as f64, n_episodes as f64);
    if n_seen < 2.0 {
        return None;
    }
    let mean = costs_usd.iter().sum::<f64>() / n_seen;
    let variance = costs_usd.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / (n_seen - 1.0);
    // The sum of n differs from n times a mean over k both by its own chance and by that of the mean.
    let half = t_quantile(n_seen - 1.0) * (variance * (n + n * n / n_seen)).sqrt();
    Some(Projection { mean_usd: n * mean, low_usd: (n * mean - half).max(0.0), high_usd: n * mean + half })
}

/// Projects from a guess at the cost of one episode, which may be wrong by a factor of two either way.
pub fn project_guess(episode_usd: f64, n_episodes: usize) -> Projection {
    let mean_usd = episode_usd.max(0.0) * n_episodes as f64;
    Projection { mean_usd, low_usd: mean_usd / 2.0, high_usd: mean_usd * 2.0 }
}

/// The 97.5 % quantile of Student's t: exact for one and two degrees of freedom, then by Cornish and Fisher.
fn t_quantile(degrees: f64) -> f64 {
    if degrees < 1.5 {
        return 12.706;
    }
    if degrees < 2.5 {
        return 4.303;
    }
    let z = 1.959_964_f64;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;
    use std::time::Duration;

    #[tokio::test]
    async fn what_is_set_aside_counts_until_it_is_settled() {
        let budget = Budget::limited(1.0);
        let first = budget.reserve(0.6).await.unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(20), budget.reserve(0.6)).await;
        assert!(waits.is_err(), "it may fit yet, and waits");
        first.settle(0.1);
        let second = budget.reserve(0.6).await.unwrap();
        second.settle(0.5);
        let error = budget.reserve(0.6).await.unwrap_err();
        assert_eq!(error.to_string(), "$0.6000 for one more call do not fit: $0.6000 of $1.0000 are spent");
        assert_eq!(budget.spent(), Spent { known_usd: 0.6, assumed_usd: 0.0, set_aside_usd: 0.0 });
        drop(budget.reserve(0.4).await.unwrap());
        assert_eq!(budget.spent(), Spent { known_usd: 0.6, assumed_usd: 0.4, set_aside_usd: 0.0 });
    }

    #[tokio::test]
    async fn who_waits_goes_on_when_another_settles() {
        let budget = Budget::limited(1.0);
        let first = budget.reserve(0.9).await.unwrap();
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.reserve(0.9).await.map(|reservation| reservation.settle(0.05)) }
        });
        tokio::task::yield_now().await;
        first.settle(0.05);
        waiting.await.unwrap().unwrap();
        assert_eq!(budget.spent().known_usd, 0.1);
        assert!(Budget::unlimited().reserve(1e6).await.is_ok());
        assert!(Budget::limited(f64::NAN).reserve(0.01).await.is_err());
    }

    #[test]
    fn intervals_cover_what_they_promise() {
        let n_hits = (0..400).filter(|&seed| {
            let mut draws = Draws::new(seed, &["cost"]);
            let mut costs = |n| (0..n).map(|_| 0.01 + 0.02 * draws.uniform()).collect::<Vec<f64>>();
            let projection = project(&costs(8), 40).unwrap();
            let sum = costs(40).iter().sum::<f64>();
            (projection.low_usd..=projection.high_usd).contains(&sum)
        });
        let n_hits = n_hits.count();
        assert!((368..=392).contains(&n_hits), "{n_hits} of 400");
        assert_eq!(project(&[1.0], 10), None);
        assert_eq!(project_guess(0.5, 10), Projection { mean_usd: 5.0, low_usd: 2.5, high_usd: 10.0 });
        assert!((t_quantile(5.0) - 2.571).abs() < 0.01 && (t_quantile(3.0) - 3.182).abs() < 0.05);
    }
}
