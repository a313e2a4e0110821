//! A new version of an agent whose traffic is real: it is added, gets a canary, and is watched until `hone serve` has decided.

use super::{Deployed, Standing, Team};
use crate::adapters;
use crate::clock::now;
use crate::failure::Failure;
use crate::r#loop::canary::Canary;
use crate::r#loop::school::Trained;
use crate::model::Opened;
use hone_arbiter::canary::Settings;
use hone_gateway::registry;
use hone_trace::Config;
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
        let canary = Canary { runtime: self.runtime, store: &*self.store, agent: self.agent, version: &version };
        canary.start(from, Settings::default(), WAIT_MS, tenant)?;
        let where_to = format!("has a share of {}'s traffic wherever hone serve runs", self.agent);
        self.say("deploy", &format!("{version} {where_to}; it is watched until it is decided"));
        let mut n_told = 0;
        let handed = loop {
            if let Some(handed) = canary.look(&mut n_told, |text| self.say("canary", text))? {
                break handed;
            }
            thread::sleep(LOOK);
        };
        self.say("deploy", &format!("{version}: {}", handed.why));
        Ok(Deployed { version, adapter: Some(id), run, canary: handed })
    }
}
