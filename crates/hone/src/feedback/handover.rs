//! Handing traffic over: a canary on live traffic, for as long as it takes to be decided, and what came of it.

use super::traffic::{Reporting, Ticket, Traffic};
use crate::adapters;
use crate::clock::now;
use crate::context::Context;
use crate::deploy::word;
use crate::failure::Failure;
use crate::model::Opened;
use hone_arbiter::canary::{Action, Decision, Settings, Stage, State};
use hone_arbiter::log::{Line, Start};
use hone_gateway::registry::{self, Decided};
use hone_store::Database;
use hone_trace::store::Write;
use hone_trace::{AdapterId, AgentName, Config, EventId, Scenario};
use serde::{Deserialize, Serialize};
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

/// How a canary ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Promoted,
    RolledBack,
    Undecided,
    NotStarted,
}

/// What came of a canary.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Handed {
    pub(super) ended: Ended,
    /// Episodes that it took.
    pub(super) n_episodes: usize,
    pub(super) why: String,
}

impl Handed {
    pub(super) fn not_started() -> Self {
        Self { ended: Ended::NotStarted, n_episodes: 0, why: String::new() }
    }
}

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
        self.start(version)?;
        let mut n_episodes = 0;
        let mut n_told = 0;
        // An episode of a loop that was killed here keeps its name to itself.
        let part = EventId::derived(&["part", &now().unix_nanos().to_string()]).to_string();
        loop {
            let (fleet, decided) = self.runtime.block_on(registry::history(&**self.store))?;
            let of_this = |decided: &&Decided| decided.agent == self.agent && decided.decision.action != Action::Hold;
            for decided in decided.iter().filter(of_this).skip(n_told).filter(|_| n_episodes > 0) {
                say(&told(&decided.decision));
            }
            n_told = decided.iter().filter(of_this).count();
            let deployment = fleet.deployment(&self.agent).filter(|deployment| deployment.start.to == version);
            let deployment = deployment.ok_or_else(|| Failure::world(anyhow::anyhow!("the canary of {version} is gone")))?;
            let ended = match deployment.state() {
                State::Promoted => Some(Ended::Promoted),
                State::RolledBack => Some(Ended::RolledBack),
                State::Paused => Some(Ended::Undecided),
                State::Running if n_episodes >= N_EPISODES_MAX => Some(Ended::Undecided),
                State::Running => None,
            };
            if let Some(ended) = ended {
                let why = decided.iter().rfind(of_this).map(|decided| told(&decided.decision)).unwrap_or_default();
                return Ok(Handed { ended, n_episodes, why });
            }
            let scenarios = tickets(n_episodes, N_EPISODES)?;
            let name = |idx: usize| format!("{}-{version}-{part}-{}", self.agent, n_episodes + idx);
            let brought: Vec<Ticket> =
                scenarios.into_iter().enumerate().map(|(idx, scenario)| Ticket { episode: name(idx), scenario }).collect();
            self.runtime.block_on(self.traffic.bring(brought, Reporting::AtOnce, || {}))?;
            n_episodes += N_EPISODES;
        }
    }

    /// Starts a canary, unless it has begun.
    fn start(&self, version: &str) -> Result<(), Failure> {
        let (fleet, _) = self.runtime.block_on(registry::history(&**self.store))?;
        if fleet.deployment(&self.agent).is_some_and(|deployment| deployment.start.to == version) {
            return Ok(());
        }
        let entry = self.runtime.block_on(registry::agent(&**self.store, &self.agent))?;
        let (entry, _) = entry.ok_or_else(|| Failure::bug("the agent was added"))?;
        let from = crate::deploy::live(&entry, &fleet).to_owned();
        let mut settings = Settings::default();
        let stages = settings.stages.iter().zip(N_OUTCOMES_MIN);
        settings.stages = stages.map(|(stage, n_canary_min)| Stage { n_canary_min, ..*stage }).collect();
        let start = Start { agent: self.agent.clone(), from, to: version.to_owned(), settings, wait_ms: WAIT_MS };
        let at = now();
        let id = EventId::derived(&["start", self.agent.as_str(), version]);
        let event = Line::Started(Box::new(start)).event(id, at, self.context.settings.tenant.clone());
        self.runtime.block_on(self.store.put(vec![Write::Event(event)]))?;
        Ok(())
    }
}

/// A decision on one line.
pub(super) fn told(decision: &Decision) -> String {
    let Decision { action, reason, share, numbers, .. } = decision;
    let words = |text: String| text.replace('_', " ");
    let side = |side: Option<f64>| side.map_or_else(|| "?".to_owned(), |side| format!("{:+.1}", 100.0 * side));
    let quality = &numbers.quality;
    format!(
        "{}, {:.0} % from now on: {}; {:+.1} points ({} to {}) after {} outcomes of the new version and {} of the old one",
        words(word(action)),
        100.0 * share,
        words(word(reason)),
        100.0 * quality.estimate,
        side(quality.low),
        side(quality.high),
        numbers.canary.n_matured,
        numbers.control.n_matured,
    )
}

/// What a version is made of. It is deployed at the temperature that it was sampled at.
pub(super) fn config(model: &str, adapter: Option<AdapterId>) -> Config {
    Config { model: Some(model.to_owned()), adapter, temperature: Some(1.0), ..Config::default() }
}
