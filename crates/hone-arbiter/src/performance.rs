//! How well versions do at every type of task: what choices among agents are drawn from, and what people read of it.
//!
//! It learns from episodes that ended. Versions that nobody is sent to any more leave what is drawn from, and stay known.

use crate::log::Ended;
use crate::{Linear, LinearSettings, N_FEATURES, Thompson, ThompsonSettings};
use hone_trace::{AgentName, Category};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The type of task of an episode of which none is known.
pub const ANY_TASK: &str = "any";

/// How well versions do: success, cost and latency by type of task, and how often something fails.
#[derive(Debug, Clone)]
pub struct Performance {
    thompson: Thompson,
    linear: Linear,
    errors: HashMap<(String, String), Errors>,
    /// What was known of versions that nobody is sent to any more, by version and type of task: for people to read.
    gone: HashMap<String, BTreeMap<String, Known>>,
    n_rows: u64,
}

/// Episodes and those in which something failed; old ones fade.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    n: f64,
    n_failed: f64,
}

impl Default for Performance {
    fn default() -> Self {
        let thompson = Thompson::new(ThompsonSettings::default()).expect("the defaults are sound");
        let linear = Linear::new(LinearSettings::default(), N_FEATURES).expect("the defaults are sound");
        Self { thompson, linear, errors: HashMap::new(), gone: HashMap::new(), n_rows: 0 }
    }
}

/// What is known about one version at one type of task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Known {
    /// Episodes that ended, none of them forgotten.
    pub n_episodes: u64,
    /// The share of success, with the prior and without what is forgotten.
    pub success: f64,
    /// The share of episodes in which nothing failed.
    pub reliability: f64,
    /// The mean cost, where one is known.
    pub cost_usd: Option<f64>,
    /// The typical latency, where one is known.
    pub latency_ms: Option<f64>,
}

impl Known {
    /// Both together, each by its episodes.
    fn and(&self, later: &Self) -> Self {
        let (n, n_later) = (self.n_episodes as f64, later.n_episodes as f64);
        let mean = |before: f64, after: f64| (n * before + n_later * after) / (n + n_later).max(1.0);
        let known = |before: Option<f64>, after: Option<f64>| before.zip(after).map(|(x, y)| mean(x, y)).or(before).or(after);
        Self {
            n_episodes: self.n_episodes + later.n_episodes,
            success: mean(self.success, later.success),
            reliability: mean(self.reliability, later.reliability),
            cost_usd: known(self.cost_usd, later.cost_usd),
            latency_ms: known(self.latency_ms, later.latency_ms),
        }
    }
}

impl Performance {
    /// The distributions that choices by type of task are drawn from.
    pub fn thompson(&self) -> &Thompson {
        &self.thompson
    }

    /// The models of success that choices by features are drawn from.
    pub fn linear(&self) -> &Linear {
        &self.linear
    }

    /// How many episodes have taught it.
    pub fn n_rows(&self) -> u64 {
        self.n_rows
    }

    /// What is known about this version, by type of task.
    pub fn of(&self, agent: &AgentName, version: &str) -> BTreeMap<String, Known> {
        let arm = Ended::arm(agent, version);
        let mut known = self.gone.get(&arm).cloned().unwrap_or_default();
        for (task, later) in self.learned(&arm) {
            known.entry(task).and_modify(|known| *known = known.and(&later)).or_insert(later);
        }
        known
    }

    /// What choices are drawn from about this version, by type of task.
    fn learned(&self, arm: &str) -> BTreeMap<String, Known> {
        let settings = self.thompson.settings();
        let known = |task: &str| {
            let cell = self.thompson.cells(task).find(|(name, _)| *name == arm)?.1;
            let errors = self.errors.get(&(task.to_owned(), arm.to_owned())).copied().unwrap_or_default();
            let known = Known {
                n_episodes: cell.n_rows,
                success: cell.success(settings),
                reliability: 1.0 - errors.n_failed / errors.n.max(1.0),
                cost_usd: cell.cost_usd(),
                latency_ms: cell.latency_ms(),
            };
            Some((task.to_owned(), known))
        };
        self.thompson.tasks().filter_map(known).collect()
    }

    /// Takes the versions of an agent that nobody is sent to any more out of what choices are drawn from. What was known of them stays.
    pub(crate) fn keep_only(&mut self, agent: &AgentName, versions: [&String; 2]) {
        let kept = versions.map(|version| Ended::arm(agent, version));
        let of_agent = Ended::arm(agent, "");
        let is_gone = |arm: &String| arm.starts_with(&of_agent) && !kept.contains(arm);
        let gone: BTreeSet<String> = self.errors.keys().map(|(_, arm)| arm).filter(|arm| is_gone(arm)).cloned().collect();
        for arm in gone {
            let version = &arm[of_agent.len()..];
            self.gone.insert(arm.clone(), self.of(agent, version));
            self.thompson.retire(&arm);
            self.linear.retire(&arm);
        }
        self.errors.retain(|(_, arm), _| !is_gone(arm));
    }

    /// Learns from an episode, at its type of task or, where no more of them are kept apart, at any.
    pub(crate) fn add(&mut self, ended: &Ended) -> Result<Category, String> {
        let arm = Ended::arm(&ended.agent, &ended.version);
        let any = || Category::new(ANY_TASK).expect("a plain word is a name");
        let task = if self.thompson.has_room_for(ended.task.as_str()) { ended.task.clone() } else { any() };
        self.thompson.add(task.as_str(), &arm, &ended.reached).map_err(|error| error.to_string())?;
        if let Some(chosen) = ended.chosen.as_ref().filter(|chosen| chosen.features.len() == N_FEATURES) {
            self.linear.add(&arm, &chosen.features, ended.reached.success).map_err(|error| error.to_string())?;
        }
        let discount = self.thompson.settings().discount;
        let errors = self.errors.entry((task.to_string(), arm)).or_default();
        errors.n = discount * errors.n + 1.0;
        errors.n_failed = discount * errors.n_failed + f64::from(u8::from(ended.has_error));
        self.n_rows += 1;
        Ok(task)
    }
}
