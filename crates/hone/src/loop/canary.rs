//! A canary of an agent: started once, looked at until it is decided, and what came of it.

use crate::clock::now;
use crate::deploy::word;
use crate::failure::Failure;
use hone_arbiter::canary::{Action, Decision, Settings, State};
use hone_arbiter::log::{Line, Start};
use hone_gateway::registry::{self, Decided};
use hone_store::Database;
use hone_trace::store::Write;
use hone_trace::{AgentName, EventId, Tenant};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

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

/// The canary of a version.
pub(super) struct Canary<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) store: &'a dyn Database,
    pub(super) agent: &'a AgentName,
    pub(super) version: &'a str,
}

impl Canary<'_> {
    /// Starts it beside the version that serves, unless it has begun.
    pub(super) fn start(&self, from: &str, settings: Settings, wait_ms: u64, tenant: &Tenant) -> Result<(), Failure> {
        let (agent, version) = (self.agent, self.version);
        let (fleet, _) = self.runtime.block_on(registry::history(self.store))?;
        match fleet.deployment(agent) {
            Some(deployment) if deployment.start.to == version => return Ok(()),
            Some(deployment) if deployment.is_running() => {
                let way_out = format!("end it with `hone deploy promote {agent}` or `hone deploy rollback {agent}`");
                return Err(Failure::user(format_args!("a canary of {agent} {} runs already", deployment.start.to))
                    .hint(format!("{way_out}, and go on with --resume")));
            }
            _ => {}
        }
        let start = Start { agent: agent.clone(), from: from.to_owned(), to: version.to_owned(), settings, wait_ms };
        let id = EventId::derived(&["start", agent.as_str(), version]);
        let event = Line::Started(Box::new(start)).event(id, now(), tenant.clone());
        self.runtime.block_on(self.store.put(vec![Write::Event(event)]))?;
        Ok(())
    }

    /// How it ended, once it has; decisions after the first `n_told` are said.
    pub(super) fn look(&self, n_told: &mut usize, mut say: impl FnMut(&str)) -> Result<Option<Handed>, Failure> {
        let (fleet, decided) = self.runtime.block_on(registry::history(self.store))?;
        let deployment = fleet.deployment(self.agent).filter(|deployment| deployment.start.to == self.version);
        let deployment = deployment.ok_or_else(|| Failure::world(anyhow::anyhow!("the canary of {} is gone", self.version)))?;
        let is_of_this = |decided: &&Decided| {
            decided.agent == *self.agent && decided.canary == deployment.id && decided.decision.action != Action::Hold
        };
        let decisions: Vec<String> = decided.iter().filter(is_of_this).map(|decided| told(&decided.decision)).collect();
        decisions.iter().skip(*n_told).for_each(|text| say(text));
        *n_told = decisions.len();
        let ended = match deployment.state() {
            State::Promoted => Ended::Promoted,
            State::RolledBack => Ended::RolledBack,
            State::Paused => Ended::Undecided,
            State::Running => return Ok(None),
        };
        let numbers = deployment.report().numbers;
        let n_episodes = usize::try_from(numbers.canary.n_matured + numbers.control.n_matured).unwrap_or(usize::MAX);
        Ok(Some(Handed { ended, n_episodes, why: decisions.last().cloned().unwrap_or_default() }))
    }
}

/// A decision on one line.
fn told(decision: &Decision) -> String {
    let Decision { action, reason, share, numbers, .. } = decision;
    let words = |text: String| text.replace('_', " ");
    let side = |side: Option<f64>| side.map_or_else(|| "?".to_owned(), |side| format!("{:+.1}", 100.0 * side));
    let quality = numbers.quality_shown();
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
