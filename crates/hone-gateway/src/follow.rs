//! Following the log of agents: what is written there, by this process or another, changes who answers, without a restart.
//!
//! Lines are read in their order. Before anybody is sent to a version it is made ready, its adapter loaded. Decisions that follow from the
//! log are written down, and the registry is brought to what they say; both are known by what caused them, so that it does not matter
//! how many processes do so. Outcomes that did not come in time are looked up once more, and then counted as missing.

use crate::agents::{Adapters, Canary, Entry, NoVoice, RouteBy, Shares, Version, View};
use crate::catalogue::{Model, Who};
use crate::dashboard::Past;
use crate::events::{News, Place};
use crate::feedback;
use crate::local::Local;
use crate::lookout::Grown;
use crate::registry::{self, Decided, N_LINES};
use crate::server::Gateway;
use hone_arbiter::canary::{Fact, Row};
use hone_arbiter::log::{CanaryRow, Ended, Line, STREAM};
use hone_arbiter::{Change, Deployment, Fleet, Linear};
use hone_trace::store::{Kind, Store, StoreError, Write};
use hone_trace::{Agent, AgentName, Category, Config, ConfigHash, Tenant};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So often it is looked for what is overdue.
const PAUSE: Duration = Duration::from_millis(100);
/// So many lines are read from one look at how canaries stand to the next.
const N_UNSEEN: usize = 8;
/// Overdue outcomes that are looked up at once.
const N_OVERDUE: usize = 64;
/// Whatever went wrong with the store is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// So often the store is asked for adapters that it does not give. Until then everybody is sent where the log said before; then the
/// version cannot answer, and the others wait no longer.
const N_WAITS: u32 = 20;
/// From then on it is asked again after this.
const LATER: Duration = Duration::from_secs(5);

/// Who follows the log.
pub(crate) struct Follower {
    gateway: Gateway,
    adapters: Option<Arc<dyn Adapters>>,
    fleet: Fleet,
    place: Place,
    /// Whether there may be lines that were not read.
    is_due: bool,
    /// Whether the log is read from its beginning: nobody is sent where a part of it says.
    is_behind: bool,
    agents: BTreeMap<AgentName, Registered>,
    /// Whose each agent is, as the log says.
    owners: HashMap<AgentName, Tenant>,
    /// Agents whose entries are damaged, and what was said of that.
    damaged: BTreeMap<AgentName, String>,
    shares: Shares,
    /// What canaries went through, for people to look at.
    pasts: HashMap<AgentName, Arc<Past>>,
    /// What has changed and was not acted on yet.
    changes: Changes,
    /// How often the store was asked in vain for adapters, since it gave the last.
    n_waited: u32,
    /// Agents of which the store did not give something, such as an adapter: it is asked again.
    unready: HashSet<AgentName>,
    /// When that was.
    asked: Instant,
}

/// An agent as the registry has it.
struct Registered {
    agent: Agent,
    versions: BTreeMap<String, Arc<Version>>,
}

/// What a few lines have changed.
#[derive(Default)]
struct Changes {
    is_any: bool,
    /// Agents of which something else than how well they do has changed.
    concerned: HashSet<AgentName>,
    decided: Vec<Decided>,
    learned: HashSet<(Tenant, Category)>,
}

impl Follower {
    pub(crate) fn new(gateway: Gateway, adapters: Option<Arc<dyn Adapters>>) -> Self {
        let (fleet, agents, shares) = (Fleet::default(), BTreeMap::new(), Shares::new());
        let (pasts, changes) = (HashMap::new(), Changes::default());
        let (n_waited, unready, asked) = (0, HashSet::new(), Instant::now());
        Self {
            gateway,
            adapters,
            fleet,
            place: Place::default(),
            is_due: true,
            is_behind: true,
            agents,
            owners: HashMap::new(),
            damaged: BTreeMap::new(),
            shares,
            pasts,
            changes,
            n_waited,
            unready,
            asked,
        }
    }

    /// Reads all that was written so far.
    pub(crate) async fn catch_up(&mut self) {
        while let Err(error) = self.read().await {
            self.gateway.log(format!("the log of agents cannot be read: {error}"));
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Follows the log for ever.
    pub(crate) async fn run(mut self, mut grown: Grown) {
        loop {
            let gateway = self.gateway.clone();
            self.is_due |= tokio::select! {
                () = gateway.agents().grown.notified() => true,
                () = grown.wait() => true,
                () = tokio::time::sleep(PAUSE) => false,
            };
            let followed = async {
                self.ask_again();
                if self.is_due || self.changes.is_any {
                    self.read().await?;
                    self.is_due = false;
                }
                self.look_up_overdue().await
            };
            if let Err(error) = followed.await {
                gateway.log(format!("the log of agents cannot be followed: {error}"));
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.gateway.record().shared_store()
    }

    /// Reads the lines that are new, and acts on them.
    async fn read(&mut self) -> Result<(), StoreError> {
        let (store, gateway) = (self.store(), self.gateway.clone());
        loop {
            let lines = match self.place.news(&*store, STREAM, N_LINES, |text| gateway.log(text)).await? {
                News::Events(lines) => lines,
                News::Replaced => {
                    gateway.log("the store was replaced: its log of agents is read anew".into());
                    self.forget();
                    continue;
                }
            };
            let n_lines = lines.len();
            self.changes.is_any |= n_lines > 0;
            for (idx, (_, event)) in lines.into_iter().enumerate() {
                if idx % N_UNSEEN == 0 {
                    self.remember();
                }
                match self.fleet.read(&event) {
                    Ok(Change::Nothing) => {}
                    Ok(Change::Registered(agent)) => {
                        self.owners.entry(agent.clone()).or_insert(event.tenant);
                        self.changes.concerned.insert(agent);
                    }
                    Ok(Change::Learned(tenant, task)) => drop(self.changes.learned.insert((tenant, task))),
                    Ok(Change::Decided { agent, canary, decision }) => {
                        self.changes.concerned.insert(agent.clone());
                        let decided = Decided { cause: event.id, at: event.at, agent, canary, decision };
                        self.past(&decided.agent).decide(decided.clone());
                        self.changes.decided.push(decided);
                    }
                    Err(error) => self.gateway.log(error.to_string()),
                }
            }
            if n_lines > 0 {
                self.remember();
            }
            self.is_behind &= n_lines > 0;
            if !self.is_behind {
                self.act().await?;
            }
            if n_lines == 0 {
                return Ok(());
            }
        }
    }

    /// Forgets what another store said. Until this one is read, everybody is sent where that one said.
    fn forget(&mut self) {
        let (gateway, adapters) = (self.gateway.clone(), self.adapters.clone());
        gateway.record().forget();
        *self = Self::new(gateway, adapters);
        self.changes.is_any = true;
    }

    /// Looks again at agents of which the store did not give something.
    fn ask_again(&mut self) {
        if !self.unready.is_empty() && self.asked.elapsed() >= LATER {
            self.changes.is_any = true;
            self.changes.concerned.extend(self.unready.drain());
        }
    }

    /// Keeps how canaries stand, for people to look at.
    fn remember(&mut self) {
        for deployment in self.fleet.deployments().filter(|deployment| deployment.is_running()) {
            let past = self.pasts.entry(deployment.start.agent.clone()).or_default();
            if let Some(point) = past.news(deployment) {
                Arc::make_mut(past).keep(deployment.id, point);
            }
        }
    }

    fn past(&mut self, agent: &AgentName) -> &mut Past {
        Arc::make_mut(self.pasts.entry(agent.clone()).or_default())
    }

    /// Acts on what has changed. What fails is tried again with what changes next.
    async fn act(&mut self) -> Result<(), StoreError> {
        if !self.changes.is_any {
            return Ok(());
        }
        for agent in self.changes.concerned.clone() {
            self.prepare(&agent).await?;
        }
        self.draw_shares();
        self.gateway.agents().show(self.view());
        // From here on everybody is sent where the log says; the rest is for people to read.
        let (store, now) = (self.store(), self.gateway.now());
        for decided in self.changes.decided.clone() {
            if let Some(tenant) = self.agents.get(&decided.agent).map(|registered| registered.agent.tenant.clone()) {
                registry::write_down(&*store, decided, tenant, now).await?;
            }
        }
        for agent in self.changes.concerned.clone() {
            let Some(deployment) = self.fleet.deployment(&agent).filter(|_| !self.damaged.contains_key(&agent)) else { continue };
            if registry::settle(&*store, &agent, deployment, now).await? {
                self.prepare(&agent).await?;
            }
        }
        self.changes = Changes::default();
        Ok(())
    }

    /// Reads an agent's entry of the registry, and makes the versions ready that may be asked.
    async fn prepare(&mut self, name: &AgentName) -> Result<(), StoreError> {
        let agent = match registry::agent(&*self.store(), name).await {
            Ok(Some((agent, _))) => agent,
            Ok(None) => return Ok(()),
            Err(error @ StoreError::Damaged { .. }) => {
                self.pass_by(name, &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.damaged.remove(name);
        if !self.agents.contains_key(name) && self.gateway.catalogue().get(name.as_str()).is_some() {
            self.gateway.log(format!(
                "who asks for {name} gets the model of this name, and never the agent: give one of the two another name"
            ));
        }
        let known = self.agents.get(name).map(|registered| registered.versions.clone()).unwrap_or_default();
        let deployment = self.fleet.deployment(name);
        let is_wanted =
            |version: &str, share: f64| share > 0.0 || deployment.is_some_and(|deployment| deployment.goes_on(version));
        let wanted: Vec<(String, ConfigHash)> = agent
            .versions
            .iter()
            .filter(|version| is_wanted(&version.version, version.share))
            .map(|version| (version.version.clone(), version.config))
            .collect();
        let mut versions = BTreeMap::new();
        for (version, config_hash) in wanted {
            let ready = match known.get(&version).filter(|known| known.config_hash == config_hash && known.model.is_ok()) {
                Some(ready) => Arc::clone(ready),
                None => Arc::new(self.ready(name, config_hash).await?),
            };
            // Who looked before and found the same has said so.
            let is_said = known.get(&version).is_some_and(|known| known.model.as_ref().err() == ready.model.as_ref().err());
            if let Err(why) = &ready.model
                && !is_said
            {
                self.gateway.log(format!("version {version} of agent {name} cannot answer here: {why}"));
            }
            versions.insert(version, ready);
        }
        self.agents.insert(name.clone(), Registered { agent, versions });
        Ok(())
    }

    /// An agent whose entry is damaged holds up no other. It goes on as it was read before, or cannot answer, until the entry is put back.
    fn pass_by(&mut self, name: &AgentName, error: &StoreError) {
        let why = error.to_string();
        if self.damaged.get(name) != Some(&why) {
            let known = if self.agents.contains_key(name) { "goes on as it was" } else { "cannot answer" };
            self.gateway.log(format!("agent {name} {known}, `hone store verify` names all that is damaged: {why}"));
            self.damaged.insert(name.clone(), why);
        }
        self.look_later(name);
    }

    fn look_later(&mut self, name: &AgentName) {
        self.asked = Instant::now();
        self.unready.insert(name.clone());
    }

    /// A version that can answer, or why it cannot.
    async fn ready(&mut self, agent: &AgentName, config_hash: ConfigHash) -> Result<Version, StoreError> {
        let document = self.store().document(Kind::Config, &config_hash.to_string()).await;
        let found = document.and_then(|document| document.map(|document| document.word::<Config>()).transpose());
        let unable = |why: String| Ok(Version { config: Config::default(), config_hash, model: Err(why) });
        let config = match found {
            Ok(Some(config)) => config,
            Ok(None) => return unable("its config is not on the record".to_owned()),
            Err(error @ StoreError::Damaged { .. }) => {
                self.look_later(agent);
                return unable(error.to_string());
            }
            Err(error) => return Err(error),
        };
        let model = match self.model(&config).await {
            Ok(model) => Ok(model),
            Err(NoVoice::Unable(why)) => Err(why),
            Err(NoVoice::Store(error)) if self.n_waited < N_WAITS => {
                self.n_waited += 1;
                return Err(error);
            }
            Err(NoVoice::Store(error)) => {
                self.look_later(agent);
                Err(error.to_string())
            }
        };
        if model.is_ok() && config.adapter.is_some() {
            self.n_waited = 0;
        }
        Ok(Version { config, config_hash, model })
    }

    async fn model(&self, config: &Config) -> Result<Arc<Model>, NoVoice> {
        let name = config.model.as_deref().ok_or_else(|| "its config names no model".to_owned())?;
        let model = self.gateway.catalogue().get(name).ok_or_else(|| format!("the server has no model `{name}`"))?;
        let Some(adapter) = config.adapter else { return Ok(Arc::clone(model)) };
        let adapters = self.adapters.as_ref().ok_or_else(|| "the server loads no adapters".to_owned())?;
        let voice = adapters.voice(name, adapter).await?;
        Ok(Arc::new(Model::new(name, [Who::Local(Arc::new(Local::new(voice)))])))
    }

    /// How likely agents are chosen where what is known has changed.
    fn draw_shares(&mut self) {
        let Changes { concerned, learned, .. } = &self.changes;
        for route in self.gateway.agents().routes.iter().filter(|route| route.by == RouteBy::Task) {
            let mut arms: BTreeMap<&Tenant, Vec<String>> = BTreeMap::new();
            for (agent, registered) in route.agents.iter().filter_map(|agent| Some((agent, self.agents.get(agent)?))) {
                arms.entry(&registered.agent.tenant).or_default().push(Ended::arm(agent, self.live(agent)));
            }
            for (tenant, arms) in arms {
                let arms: Vec<&str> = arms.iter().map(String::as_str).collect();
                let thompson = self.fleet.performance(tenant).thompson();
                let known = thompson.tasks().filter_map(|task| Category::new(task).ok());
                for task in known.map(Some).chain([None]) {
                    let is_learned = |task: &Category| learned.contains(&(tenant.clone(), task.clone()));
                    let is_news = task.as_ref().is_none_or(is_learned) || !concerned.is_empty();
                    let key = (tenant.clone(), route.name.clone(), task);
                    if is_news || !self.shares.contains_key(&key) {
                        let shares = thompson.propensities(
                            key.2.as_ref().map_or("", Category::as_str),
                            &arms,
                            &self.gateway.agents().thrift,
                        );
                        self.shares.insert(key, shares);
                    }
                }
            }
        }
    }

    /// What choices by features are drawn from, where any are.
    fn linear(&self) -> BTreeMap<Tenant, Arc<Linear>> {
        let is_asked = self.gateway.agents().routes.iter().any(|route| route.by == RouteBy::Features);
        let of_tenants = self.fleet.performances().filter(|_| is_asked);
        of_tenants.map(|(tenant, known)| (tenant.clone(), Arc::new(known.linear().clone()))).collect()
    }

    /// The version of an agent that serves.
    fn live(&self, agent: &AgentName) -> &str {
        if let Some(deployment) = self.fleet.deployment(agent) {
            return deployment.live();
        }
        let versions = self.agents.get(agent).map(|registered| &registered.agent.versions[..]).unwrap_or_default();
        versions.iter().max_by(|a, b| a.share.total_cmp(&b.share)).map_or("", |version| &version.version)
    }

    fn view(&self) -> View {
        let entry = |(name, registered): (&AgentName, &Registered)| {
            let deployment = self.fleet.deployment(name);
            let share = |version: &str, own: f64| deployment.map_or(own, |deployment| deployment.share(version));
            let versions = &registered.agent.versions;
            let known = |version: &str| self.fleet.performance(&registered.agent.tenant).of(name, version);
            let entry = Entry {
                tenant: registered.agent.tenant.clone(),
                live: self.live(name).to_owned(),
                canary: deployment.map(Canary::of),
                versions: registered.versions.clone(),
                registered: versions.iter().map(|one| (one.version.clone(), share(&one.version, one.share))).collect(),
                past: self.pasts.get(name).cloned().unwrap_or_default(),
                performance: versions.iter().map(|one| (one.version.clone(), known(&one.version))).collect(),
            };
            (name.clone(), entry)
        };
        let unread = self.damaged.keys().filter(|name| !self.agents.contains_key(*name));
        View {
            agents: self.agents.iter().map(entry).collect(),
            damaged: unread.filter_map(|name| Some((name.clone(), self.owners.get(name)?.clone()))).collect(),
            shares: self.shares.clone(),
            linear: self.linear(),
        }
    }

    /// Counts outcomes that did not come in time, unless they are on the record after all.
    async fn look_up_overdue(&mut self) -> Result<(), StoreError> {
        let now = self.gateway.now();
        let overdue: Vec<CanaryRow> = self
            .fleet
            .deployments()
            .filter(|deployment| deployment.is_running())
            .flat_map(|deployment| deployment.overdue(now, N_OVERDUE))
            .cloned()
            .collect();
        let store = self.store();
        for row in overdue {
            let (outcome, tenant) = match store.trace(row.trace).await {
                Ok(Some(trace)) => (feedback::outcome(&self.gateway, &trace), trace.tenant),
                Ok(None) => continue,
                Err(error @ StoreError::Damaged { .. }) => {
                    // Nobody can tell how it went, and the others wait.
                    self.gateway.log(format!("the outcome of an episode of {} counts as missing: {error}", row.agent));
                    let registered = self.agents.get(&row.agent);
                    (None, registered.map_or_else(Tenant::default, |registered| registered.agent.tenant.clone()))
                }
                Err(error) => return Err(error),
            };
            let fact = outcome.map_or(Fact::Missing, |quality| Fact::Matured { quality });
            let line = CanaryRow { row: Row { fact, ..row.row }, ..row };
            store.put(vec![Write::Event(Line::Row(line.clone()).event(line.id(), now, tenant))]).await?;
        }
        Ok(())
    }
}

impl Canary {
    fn of(deployment: &Deployment) -> Self {
        let start = &deployment.start;
        Self {
            id: deployment.id,
            at: deployment.at,
            state: deployment.state(),
            from: start.from.clone(),
            to: start.to.clone(),
            report: deployment.report(),
        }
    }
}
