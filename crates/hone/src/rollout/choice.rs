//! What a rollout plays: which scenarios, how many tokens each may take, and the seed of everything drawn.

use hone_trace::{Scenario, ScenarioId};
use std::collections::BTreeMap;

pub(super) struct Choice {
    pub(super) scenarios: Vec<Scenario>,
    /// Tokens that an episode of a scenario may write, where it has a budget of its own.
    pub(super) tokens_max: BTreeMap<ScenarioId, u64>,
    pub(super) seed: u64,
}

impl Choice {
    /// All of these, without budgets of their own.
    pub(super) fn all(scenarios: Vec<Scenario>, seed: u64) -> Self {
        Self { scenarios, tokens_max: BTreeMap::new(), seed }
    }
}
