//! A new version of an agent whose traffic is real: it is added, gets a canary, and is watched until `hone serve` has decided.

use super::{Deployed, Standing, Team};
use crate::adapters;
use crate::clock::now;
use crate::failure::Failure;
use crate::feedback::handover::{Ended, Handed, told};
use crate::feedback::school::Trained;
use crate::model::Opened;
use hone_arbiter::canary::{Action, Settings, State};
use hone_arbiter::log::{Line, Start};
use hone_gateway::registry::{self, Decided};
use hone_trace::store::Write;
use hone_trace::{Config, EventId};
use std::thread;
use std::time::Duration;

/// Between two looks at a canary.
const LOOK: Duration = Duration::from_secs(1);
/// Milliseconds after which an outcome that has not come counts as missing.
const WAIT_MS: u64 = 3_600_000;

impl Team<'_> {
    /// Adds the version and starts its canary; then waits for what `hone serve` finds.
    pub(super) fn deploy(&self, standing: &Standing, trained: &Trained) -> Result<Deployed, Failure> {
        let run = self.school().run("grpo");
        let Some(from) = &standing.version else {
            let text =
                format!("its traffic does not pass here, so nothing is deployed: the adapter is {}", trained.folder.display());
            self.say("deploy", &text);
            return Ok(Deployed { run, ..Deployed::default() });
        };
        let tenant = &self.context.settings.tenant;
        let base = Opened::named(&standing.model, self.context)?;
        let id = self.runtime.block_on(adapters::keep(&trained.folder, &base, &*self.store, tenant, now()))?;
        let version = format!("{}-{}", self.name, self.number);
        let served = if standing.is_own { standing.config.model.clone() } else { Some(standing.model.clone()) };
        let config = Config { model: served, adapter: Some(id), temperature: Some(1.0), ..standing.config.clone() };
        let added = registry::add(&*self.store, self.agent, &version, &config, tenant, now());
        self.runtime.block_on(added).map_err(Failure::world)?;
        self.start(from, &version)?;
        self.say(
            "deploy",
            &format!(
                "{version} has a share of {}'s traffic wherever hone serve runs; it is watched until it is decided",
                self.agent
            ),
        );
        let canary = self.wait_for(&version)?;
        self.say("deploy", &format!("{version}: {}", canary.why));
        Ok(Deployed { version, adapter: Some(id), run, canary })
    }

    /// Starts a canary, unless it has begun.
    fn start(&self, from: &str, version: &str) -> Result<(), Failure> {
        let (fleet, _) = self.runtime.block_on(registry::history(&*self.store))?;
        match fleet.deployment(self.agent) {
            Some(deployment) if deployment.start.to == version => return Ok(()),
            Some(deployment) if deployment.is_running() => {
                return Err(Failure::user(format_args!("a canary of {} {} runs already", self.agent, deployment.start.to)).hint(
                    format!(
                        "end it with `hone deploy promote {0}` or `hone deploy rollback {0}`, and go on with --resume",
                        self.agent
                    ),
                ));
            }
            _ => {}
        }
        let (agent, from, to) = (self.agent.clone(), from.to_owned(), version.to_owned());
        let start = Start { agent, from, to, settings: Settings::default(), wait_ms: WAIT_MS };
        let id = EventId::derived(&["start", self.agent.as_str(), version]);
        let event = Line::Started(Box::new(start)).event(id, now(), self.context.settings.tenant.clone());
        self.runtime.block_on(self.store.put(vec![Write::Event(event)]))?;
        Ok(())
    }

    /// Looks on until a canary is decided.
    fn wait_for(&self, version: &str) -> Result<Handed, Failure> {
        let mut n_told = 0;
        loop {
            let (fleet, decided) = self.runtime.block_on(registry::history(&*self.store))?;
            let of_this = |decided: &&Decided| decided.agent == *self.agent && decided.decision.action != Action::Hold;
            let deployment = fleet.deployment(self.agent).filter(|deployment| deployment.start.to == version);
            let deployment = deployment.ok_or_else(|| Failure::world(anyhow::anyhow!("the canary of {version} is gone")))?;
            let mine: Vec<&Decided> = decided.iter().filter(of_this).filter(|decided| decided.canary == deployment.id).collect();
            mine.iter().skip(n_told).for_each(|decided| self.say("canary", &told(&decided.decision)));
            n_told = mine.len();
            let ended = match deployment.state() {
                State::Promoted => Ended::Promoted,
                State::RolledBack => Ended::RolledBack,
                State::Paused => Ended::Undecided,
                State::Running => {
                    thread::sleep(LOOK);
                    continue;
                }
            };
            let numbers = deployment.report().numbers;
            let n_episodes = usize::try_from(numbers.canary.n_matured + numbers.control.n_matured).unwrap_or(usize::MAX);
            let why = mine.last().map(|decided| told(&decided.decision)).unwrap_or_default();
            return Ok(Handed { ended, n_episodes, why });
        }
    }
}
