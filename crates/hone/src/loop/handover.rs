//! Handing traffic over: a canary on live traffic, for as long as it takes to be decided.

use super::canary::{Canary, Ended, Handed};
use super::traffic::{Reporting, Ticket, Traffic};
use crate::adapters;
use crate::clock::now;
use crate::context::Context;
use crate::failure::Failure;
use crate::model::Opened;
use hone_arbiter::canary::{Settings, Stage};
use hone_gateway::registry;
use hone_store::Database;
use hone_trace::{AdapterId, AgentName, Config, EventId, Scenario};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Episodes between two looks at how a canary stands.
const N_EPISODES: usize = 100;
/// Episodes after which one that is not decided is given up.
const N_EPISODES_MAX: usize = 20_000;
/// Outcomes of the new version that each share must have at least.
const N_OUTCOMES_MIN: [u64; 2] = [50, 500];
/// Milliseconds after which an outcome that has not come counts as missing.
const WAIT_MS: u64 = 60_000;

/// Who hands over.
pub(super) struct HandOver<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) runtime: &'a Runtime,
    pub(super) store: &'a Arc<dyn Database>,
    pub(super) agent: AgentName,
    pub(super) traffic: &'a Traffic,
}

impl HandOver<'_> {
    /// Adds a version: the model, with an adapter where it has one.
    pub(super) fn add(&self, version: &str, model: &str, adapter: Option<AdapterId>) -> Result<(), Failure> {
        let config = config(model, adapter);
        let tenant = &self.context.settings.tenant;
        let added = registry::add(&**self.store, &self.agent, version, &config, tenant, now());
        self.runtime.block_on(added).map(drop).map_err(Failure::world)
    }

    /// Keeps the adapter of a folder in the store.
    pub(super) fn keep(&self, folder: &Path, base: &Opened) -> Result<AdapterId, Failure> {
        let tenant = &self.context.settings.tenant;
        self.runtime.block_on(adapters::keep(folder, base, &**self.store, tenant, now()))
    }

    /// Hands the agent over to a version while customers keep coming. `tickets` brings them, each time others.
    pub(super) fn hand_over(
        &self,
        version: &str,
        mut tickets: impl FnMut(usize, usize) -> Result<Vec<Scenario>, Failure>,
        mut say: impl FnMut(&str),
    ) -> Result<Handed, Failure> {
        let canary = Canary { runtime: self.runtime, store: &**self.store, agent: &self.agent, version };
        self.start(&canary)?;
        let (mut n_episodes, mut n_told) = (0, 0);
        // An episode of a loop that was killed here keeps its name to itself.
        let part = EventId::derived(&["part", &now().unix_nanos().to_string()]).to_string();
        loop {
            if let Some(handed) = canary.look(&mut n_told, &mut say)? {
                return Ok(Handed { n_episodes, ..handed });
            }
            if n_episodes >= N_EPISODES_MAX {
                return Ok(Handed { ended: Ended::Undecided, n_episodes, why: String::new() });
            }
            let scenarios = tickets(n_episodes, N_EPISODES)?;
            let name = |idx: usize| format!("{}-{version}-{part}-{}", self.agent, n_episodes + idx);
            let brought: Vec<Ticket> =
                scenarios.into_iter().enumerate().map(|(idx, scenario)| Ticket { episode: name(idx), scenario }).collect();
            self.runtime.block_on(self.traffic.bring(brought, Reporting::AtOnce, || {}))?;
            n_episodes += N_EPISODES;
        }
    }

    /// Starts the canary beside what serves.
    fn start(&self, canary: &Canary<'_>) -> Result<(), Failure> {
        let (fleet, _) = self.runtime.block_on(registry::history(&**self.store))?;
        let entry = self.runtime.block_on(registry::agent(&**self.store, &self.agent))?;
        let (entry, _) = entry.ok_or_else(|| Failure::bug("the agent was added"))?;
        let mut settings = Settings::default();
        let stages = settings.stages.iter().zip(N_OUTCOMES_MIN);
        settings.stages = stages.map(|(stage, n_canary_min)| Stage { n_canary_min, ..*stage }).collect();
        canary.start(registry::live(&entry, &fleet), settings, WAIT_MS, &self.context.settings.tenant)
    }
}

/// What a version is made of. It is deployed at the temperature that it was sampled at.
pub(super) fn config(model: &str, adapter: Option<AdapterId>) -> Config {
    Config { model: Some(model.to_owned()), adapter, temperature: Some(1.0), ..Config::default() }
}
