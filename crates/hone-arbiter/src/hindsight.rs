//! What a route would have earned, had it always chosen one of its agents: its own episodes, seen in hindsight.
//!
//! The model of rewards that [`off_policy`] wants is the mean success by agent and type of task. Every row is judged by a model of the
//! other half of the rows, so that none is judged by itself.

use crate::log::Ended;
use crate::{Logged, OffPolicy, OffPolicyError, off_policy};
use hone_trace::{AgentName, Draws, TraceId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rows that stand for what is known of an agent at any task, where a task has few of its own.
const PRIOR_ROWS: f64 = 5.0;
/// What is expected of an agent that nothing is known of.
const UNKNOWN: f64 = 0.5;

/// What always choosing an agent would have earned, for every agent of these episodes; all of them must be of one route.
pub fn hindsight(ended: &[Ended], n_effective_min: f64) -> BTreeMap<AgentName, Result<OffPolicy, OffPolicyError>> {
    let models =
        [Model::of(ended.iter().filter(|row| half(row.trace) == 1)), Model::of(ended.iter().filter(|row| half(row.trace) == 0))];
    let agents: BTreeSet<&AgentName> = ended.iter().map(|row| &row.agent).collect();
    let estimate = |agent: &AgentName| {
        let logged = |row: &Ended| {
            let model = &models[half(row.trace)];
            Some(Logged {
                reward: row.reached.success,
                propensity: row.chosen.as_ref()?.propensity,
                target: f64::from(u8::from(row.agent == *agent)),
                expected_chosen: model.expected(&row.agent, row.task.as_str()),
                expected_target: model.expected(agent, row.task.as_str()),
            })
        };
        off_policy(&ended.iter().filter_map(logged).collect::<Vec<_>>(), n_effective_min)
    };
    agents.into_iter().map(|agent| (agent.clone(), estimate(agent))).collect()
}

/// The half that an episode belongs to: by its id, so that it is the same whatever else is in the log.
fn half(trace: TraceId) -> usize {
    usize::from(Draws::new(0, &["half", &trace.to_string()]).chance(0.5))
}

/// Mean success by agent, and by agent and type of task.
#[derive(Default)]
struct Model<'a> {
    by_agent: HashMap<&'a AgentName, Mean>,
    by_task: HashMap<(&'a AgentName, &'a str), Mean>,
}

#[derive(Default)]
struct Mean {
    sum: f64,
    n: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.n += 1.0;
    }

    /// The mean, with rows of this value added to it.
    fn towards(&self, value: f64) -> f64 {
        (self.sum + PRIOR_ROWS * value) / (self.n + PRIOR_ROWS)
    }
}

impl<'a> Model<'a> {
    fn of(rows: impl Iterator<Item = &'a Ended>) -> Self {
        let mut model = Self::default();
        for row in rows {
            model.by_agent.entry(&row.agent).or_default().add(row.reached.success);
            model.by_task.entry((&row.agent, row.task.as_str())).or_default().add(row.reached.success);
        }
        model
    }

    fn expected(&self, agent: &AgentName, task: &str) -> f64 {
        let of_agent = self.by_agent.get(agent).map_or(UNKNOWN, |mean| mean.towards(UNKNOWN));
        self.by_task.get(&(agent, task)).map_or(of_agent, |mean| mean.towards(of_agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reached;
    use crate::log::Chosen;
    use hone_trace::Category;

    /// Success of two agents at two types of task.
    const RATES: [[f64; 2]; 2] = [[0.9, 0.3], [0.5, 0.6]];

    /// Episodes of a route that prefers the first agent.
    fn log(n: usize, seed: u64) -> Vec<Ended> {
        let mut draws = Draws::new(seed, &["route"]);
        let row = |n: usize| {
            let (task, agent) = (usize::from(draws.chance(0.5)), usize::from(draws.chance(0.2)));
            let success = f64::from(u8::from(draws.chance(RATES[agent][task])));
            Ended {
                agent: AgentName::new(["clerk", "desk"][agent]).unwrap(),
                version: "v1".into(),
                task: Category::new(["refund", "other"][task]).unwrap(),
                trace: TraceId::derived(&[&seed.to_string(), &n.to_string()]),
                reached: Reached { success, cost_usd: None, latency_ms: None },
                has_error: false,
                chosen: Some(Chosen { route: "best".into(), propensity: [0.8, 0.2][agent], features: Vec::new() }),
            }
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn each_agent_is_told_as_it_is() {
        let n_held = (0..200)
            .filter(|seed| {
                let found = hindsight(&log(800, *seed), 50.0);
                let value = |agent: &str| found[&AgentName::new(agent).unwrap()].unwrap().dr;
                value("clerk").contains(0.6) && value("desk").contains(0.55)
            })
            .count();
        // Two intervals of 95 % each.
        assert!((170..=197).contains(&n_held), "{n_held} of 200");
    }

    #[test]
    fn few_rows_are_refused_and_rows_without_a_choice_do_not_count() {
        let mut few = log(60, 1);
        let found = hindsight(&few, 50.0);
        assert!(matches!(found[&AgentName::new("desk").unwrap()], Err(OffPolicyError::TooFew { .. })), "{found:?}");
        few.iter_mut().for_each(|row| row.chosen = None);
        assert!(hindsight(&few, 50.0).values().all(Result::is_err));
        assert!(hindsight(&[], 50.0).is_empty());
    }
}
