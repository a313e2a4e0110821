//! The curriculum: which scenarios to play next, from what was earned in them before.
//!
//! Every scenario has a running mean of its groups' rewards; one minus that is its difficulty. A scenario that is solved
//! steadily retires. One that earns nothing is played more often, mostly in variations where the world has them, and the
//! better the variations go the more often the scenario itself is tried again. Scenarios lie on levels, each with a budget of
//! tokens; the next level opens when most scenarios of the one before are solved.
//!
//! All of it is one JSON document, so that a run goes on after a restart with the same choices. Rewards are on a scale where
//! 0 is nothing and 1 the best. Knows nothing of files, worlds or what a reward is made of.

mod progress;

use hone_trace::{Draws, ScenarioId, V1};
use progress::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most scenarios of one curriculum.
pub const SCENARIOS_MAX: usize = 1_000_000;

/// When scenarios retire, are varied, and open the next level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurriculumOptions {
    /// A running mean above this counts as solved. Default 0.8.
    pub solved_mean: f64,
    /// A scenario retires only while the deviation of the rewards in its groups is at most this. Default 0.2.
    pub retire_deviation_max: f64,
    /// So many groups in a row must be solved and steady before a scenario retires. Default 8.
    pub retire_after: u32,
    /// A running mean below this counts as stuck. Default 0.05.
    pub stuck_mean: f64,
    /// So many groups are played before a scenario can count as stuck. Default 2.
    pub stuck_after: u32,
    /// How much more often a stuck scenario is chosen, where it can be varied. Default 2.
    pub stuck_weight: f64,
    /// The share of the latest group in the running mean. Default 0.3.
    pub latest_share: f64,
    /// The next level opens when this share of the highest open one is solved. Default 0.8.
    pub saturated_share: f64,
    /// The tokens that an episode may write, level by level. Default 512, 1024, 2048.
    pub token_budgets: Vec<u64>,
}

impl Default for CurriculumOptions {
    fn default() -> Self {
        Self {
            solved_mean: 0.8,
            retire_deviation_max: 0.2,
            retire_after: 8,
            stuck_mean: 0.05,
            stuck_after: 2,
            stuck_weight: 2.0,
            latest_share: 0.3,
            saturated_share: 0.8,
            token_budgets: vec![512, 1024, 2048],
        }
    }
}

impl CurriculumOptions {
    fn check(&self) -> Result<(), CurriculumError> {
        let wrong = |option, reason| Err(CurriculumError::Option { option, reason });
        let is_share = |value: f64| value > 0.0 && value <= 1.0;
        if !self.solved_mean.is_finite() {
            return wrong("solved_mean", "is not a number");
        }
        if !self.stuck_mean.is_finite() || self.stuck_mean >= self.solved_mean {
            return wrong("stuck_mean", "is not below solved_mean");
        }
        if !self.retire_deviation_max.is_finite() || self.retire_deviation_max < 0.0 {
            return wrong("retire_deviation_max", "is below 0");
        }
        if self.retire_after == 0 {
            return wrong("retire_after", "is 0: a scenario retires after one group at the earliest");
        }
        if self.stuck_after == 0 {
            return wrong("stuck_after", "is 0: a scenario is stuck after one group at the earliest");
        }
        if !self.stuck_weight.is_finite() || self.stuck_weight < 1.0 {
            return wrong("stuck_weight", "is below 1");
        }
        if !is_share(self.latest_share) {
            return wrong("latest_share", "is not above 0 and at most 1");
        }
        if !is_share(self.saturated_share) {
            return wrong("saturated_share", "is not above 0 and at most 1");
        }
        if self.token_budgets.is_empty() || self.token_budgets.contains(&0) {
            return wrong("token_budgets", "is empty or gives a level no token");
        }
        Ok(())
    }
}

/// A scenario as the curriculum sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The scenario.
    pub scenario: ScenarioId,
    /// Its level, the first being 1.
    pub level: usize,
    /// Whether its world can vary it.
    pub can_vary: bool,
}

/// What to play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// The scenario.
    pub scenario: ScenarioId,
    /// The tokens that an episode may write.
    pub token_budget: u64,
    /// Where given, play the variation of this seed instead of the scenario itself.
    pub vary_seed: Option<u64>,
}

/// Where a curriculum stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curriculum {
    v: V1,
    /// Where the scenarios come from, in the words of the caller.
    pool: String,
    options: CurriculumOptions,
    /// Levels up to this one are open.
    open_level: usize,
    scenarios: BTreeMap<ScenarioId, Progress>,
}

/// How many scenarios are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The highest open level.
    pub open_level: usize,
    /// Scenarios on open levels that are still played.
    pub n_active: usize,
    /// Those of them that earn nothing.
    pub n_stuck: usize,
    /// Scenarios that are learned.
    pub n_retired: usize,
    /// Scenarios on levels that are not open.
    pub n_waiting: usize,
}

/// Why a curriculum cannot be made, read or told something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CurriculumError {
    /// An option makes no sense.
    #[error("curriculum option {option} {reason}")]
    Option {
        /// Which.
        option: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A scenario is on a level without a token budget.
    #[error("scenario {scenario} is on level {level}, and there are token budgets for levels 1 to {levels_max}")]
    NoBudget {
        /// Which.
        scenario: ScenarioId,
        /// Its level.
        level: usize,
        /// The highest level with a budget.
        levels_max: usize,
    },
    /// There are none, or too many.
    #[error("a curriculum has 1 to {SCENARIOS_MAX} scenarios, this one has {0}")]
    Size(usize),
    /// The same scenario twice.
    #[error("scenario {0} is there twice")]
    Twice(ScenarioId),
    /// Rewards for a scenario that is not in the curriculum.
    #[error("no scenario {0} in the curriculum")]
    Unknown(ScenarioId),
    /// A group without rewards, or with one that is not a number.
    #[error("the rewards of scenario {0} are none, or not all finite")]
    Rewards(ScenarioId),
    /// The document is not a curriculum.
    #[error("damaged curriculum: {0}")]
    Damaged(String),
}

impl Curriculum {
    /// A curriculum of these scenarios in which nothing was played yet. `pool` says where they come from.
    pub fn new(
        pool: impl Into<String>,
        options: CurriculumOptions,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, CurriculumError> {
        let mut scenarios = BTreeMap::new();
        for Entry { scenario, level, can_vary } in entries {
            if scenarios.insert(scenario.clone(), Progress::new(level, can_vary)).is_some() {
                return Err(CurriculumError::Twice(scenario));
            }
        }
        let mut curriculum = Self { v: V1, pool: pool.into(), options, open_level: 1, scenarios };
        curriculum.check()?;
        curriculum.open_levels();
        Ok(curriculum)
    }

    /// The curriculum that a document holds.
    pub fn parse(text: &str) -> Result<Self, CurriculumError> {
        let curriculum: Self = serde_json::from_str(text).map_err(|error| CurriculumError::Damaged(error.to_string()))?;
        curriculum.check()?;
        let is_level = (1..=curriculum.options.token_budgets.len()).contains(&curriculum.open_level);
        match curriculum.scenarios.iter().find(|(_, progress)| !progress.is_sound()) {
            Some((id, _)) => Err(CurriculumError::Damaged(format!("the progress of scenario {id} is not possible"))),
            None if !is_level => {
                Err(CurriculumError::Damaged(format!("level {} is open and does not exist", curriculum.open_level)))
            }
            None => Ok(curriculum),
        }
    }

    /// The document: the same state gives the same bytes.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a curriculum has only text keys and finite numbers")
    }

    /// Where its scenarios come from: a caller that has others sees it here.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// All of its scenarios.
    pub fn scenarios(&self) -> impl Iterator<Item = &ScenarioId> {
        self.scenarios.keys()
    }

    /// The options that it was made with: a caller whose settings have changed sees it here.
    pub fn options(&self) -> &CurriculumOptions {
        &self.options
    }

    /// The next scenarios to play, each at most once: fewer than `n` when fewer are left, none when all are learned. The same
    /// state and seed give the same choice; pass a seed of its own for every step.
    pub fn choose(&self, step_seed: u64, n: usize) -> Vec<Pick> {
        let mut drawn: Vec<(f64, Pick)> = Vec::new();
        for (id, progress) in self.scenarios.iter().filter(|(_, progress)| self.is_active(progress)) {
            let mut draws = Draws::new(step_seed, &["curriculum", id.as_str()]);
            let is_varied = progress.can_vary && progress.is_stuck(&self.options);
            let weight = if is_varied { self.options.stuck_weight } else { 1.0 };
            // The smallest of exponential waiting times make a weighted choice without repeats (Efraimidis and Spirakis).
            let wait = -(1.0 - draws.uniform()).ln() / weight;
            let vary_seed = (is_varied && !draws.chance(progress.share_of_own())).then(|| draws.bits());
            let token_budget = self.options.token_budgets[progress.level - 1];
            drawn.push((wait, Pick { scenario: id.clone(), token_budget, vary_seed }));
        }
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
        drawn.into_iter().take(n).map(|(_, pick)| pick).collect()
    }

    /// Takes in what the group of a pick earned, and opens the next level when this one is saturated.
    pub fn record(&mut self, pick: &Pick, rewards: &[f64]) -> Result<(), CurriculumError> {
        if rewards.is_empty() || !rewards.iter().all(|reward| reward.is_finite()) {
            return Err(CurriculumError::Rewards(pick.scenario.clone()));
        }
        let progress = self.scenarios.get_mut(&pick.scenario);
        let progress = progress.ok_or_else(|| CurriculumError::Unknown(pick.scenario.clone()))?;
        match pick.vary_seed {
            Some(_) => progress.record_varied(rewards, &self.options),
            None => progress.record(rewards, &self.options),
        }
        self.open_levels();
        Ok(())
    }

    /// How hard a scenario has been lately: one minus its running mean reward. `None` before its first group.
    pub fn difficulty(&self, scenario: &ScenarioId) -> Option<f64> {
        self.scenarios.get(scenario)?.mean().map(|mean| 1.0 - mean)
    }

    /// Whether a scenario is learned.
    pub fn is_retired(&self, scenario: &ScenarioId) -> bool {
        self.scenarios.get(scenario).is_some_and(|progress| progress.is_retired)
    }

    /// How many scenarios are where.
    pub fn standing(&self) -> Standing {
        let count = |is_so: &dyn Fn(&Progress) -> bool| self.scenarios.values().filter(|progress| is_so(progress)).count();
        Standing {
            open_level: self.open_level,
            n_active: count(&|progress| self.is_active(progress)),
            n_stuck: count(&|progress| self.is_active(progress) && progress.is_stuck(&self.options)),
            n_retired: count(&|progress| progress.is_retired),
            n_waiting: count(&|progress| progress.level > self.open_level),
        }
    }

    fn is_active(&self, progress: &Progress) -> bool {
        progress.level <= self.open_level && !progress.is_retired
    }

    /// Opens levels as long as the highest open one is saturated. A level without scenarios is.
    fn open_levels(&mut self) {
        let highest = self.scenarios.values().map(|progress| progress.level).max().unwrap_or(1);
        while self.open_level < highest {
            let level = || self.scenarios.values().filter(|progress| progress.level == self.open_level);
            let n_solved = level().filter(|progress| progress.is_solved(&self.options)).count();
            if (n_solved as f64) < self.options.saturated_share * level().count() as f64 {
                break;
            }
            self.open_level += 1;
        }
    }

    fn check(&self) -> Result<(), CurriculumError> {
        self.options.check()?;
        if !(1..=SCENARIOS_MAX).contains(&self.scenarios.len()) {
            return Err(CurriculumError::Size(self.scenarios.len()));
        }
        let levels_max = self.options.token_budgets.len();
        match self.scenarios.iter().find(|(_, progress)| !(1..=levels_max).contains(&progress.level)) {
            Some((id, progress)) => Err(CurriculumError::NoBudget { scenario: id.clone(), level: progress.level, levels_max }),
            None => Ok(()),
        }
    }
}
