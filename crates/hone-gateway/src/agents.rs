//! Agents: names that stand for the version that serves, and routes: names that stand for whichever agent does best.
//!
//! An episode keeps the version that it began with. A new one gets its side of the canary that runs, or the version that serves; where
//! several agents could answer, one is drawn by what is known of them, and how likely the draw was is written down with it. A version
//! that was taken back answers nothing any more, not even in episodes that it has begun.
//!
//! What is said here is a view of the log, made by who follows it ([`follow`](crate::follow)); knows nothing of the store.

use crate::catalogue::Model;
use crate::dashboard::Past;
use crate::error::Refused;
use crate::question::Asked;
use hone_arbiter::canary::{Decision, State};
use hone_arbiter::log::{Assigned, Chosen, Ended, InCanary};
use hone_arbiter::{ANY_TASK, Arm, Known, Linear, Situation, assign, pick};
use hone_eval::{Spent, Thrift};
use hone_policy::local::Voice;
use hone_policy::upstream::Wire;
use hone_trace::store::StoreError;
use hone_trace::{AdapterId, AgentName, Category, Config, ConfigHash, Draws, EventId, Message, Role, Tenant, Time, TraceId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Notify;

/// Who can put an adapter on a model of this process.
pub trait Adapters: Send + Sync {
    /// The model of this name with this adapter on it, or why there is none.
    fn voice<'a>(&'a self, model: &'a str, adapter: AdapterId) -> VoiceMade<'a>;
}

/// A voice, in a while.
pub type VoiceMade<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Voice>, NoVoice>> + Send + 'a>>;

/// Why there is no model with an adapter on it.
#[derive(Debug, thiserror::Error)]
pub enum NoVoice {
    /// There is none as things are, and who asks again is told the same.
    #[error("{0}")]
    Unable(String),
    /// The store did not answer, or there was no room for the adapter: it may be there the next time.
    #[error(transparent)]
    Store(StoreError),
}

impl From<String> for NoVoice {
    fn from(why: String) -> Self {
        Self::Unable(why)
    }
}

impl From<StoreError> for NoVoice {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Self::Store(error),
            error => Self::Unable(error.to_string()),
        }
    }
}

/// A name that stands for whichever of these agents does best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The name.
    pub name: String,
    /// The agents.
    pub agents: Vec<AgentName>,
    /// What decides.
    pub by: RouteBy,
}

/// What decides who does best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteBy {
    /// How each did at the type of task.
    Task,
    /// How each did in situations like this one.
    Features,
}

/// Agents as they are now, and who is to be told when the log has grown.
pub(crate) struct Agents {
    view: RwLock<Arc<View>>,
    pub(crate) grown: Notify,
    pub(crate) routes: Vec<Route>,
    /// What cost and time are worth against success.
    pub(crate) thrift: Thrift,
}

/// By the tenant whose agents they are, the route and the type of task.
pub(crate) type Shares = HashMap<(Tenant, String, Option<Category>), Vec<f64>>;

/// What is known of all agents.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) agents: BTreeMap<AgentName, Entry>,
    /// Whose the agents are whose entries are damaged.
    pub(crate) damaged: BTreeMap<AgentName, Tenant>,
    /// How likely each agent of a route is chosen, by type of task; under no type what holds for new ones.
    pub(crate) shares: Shares,
    /// What choices by features are drawn from, by whose agents they are.
    pub(crate) linear: BTreeMap<Tenant, Arc<Linear>>,
}

/// One agent.
pub(crate) struct Entry {
    pub(crate) tenant: Tenant,
    /// The version that serves.
    pub(crate) live: String,
    pub(crate) canary: Option<Canary>,
    /// Those that can answer.
    pub(crate) versions: BTreeMap<String, Arc<Version>>,
    /// All that are registered, with their shares.
    pub(crate) registered: Vec<(String, f64)>,
    pub(crate) performance: Vec<(String, BTreeMap<String, Known>)>,
    /// What its canaries went through.
    pub(crate) past: Arc<Past>,
}

/// The latest canary of an agent.
pub(crate) struct Canary {
    pub(crate) id: EventId,
    pub(crate) at: Time,
    pub(crate) state: State,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) report: Decision,
}

/// A version that can answer, or why it cannot.
pub(crate) struct Version {
    pub(crate) config: Config,
    pub(crate) config_hash: ConfigHash,
    pub(crate) model: Result<Arc<Model>, String>,
}

/// The version that an episode gets, whether or not it can answer here.
pub(crate) struct Picked {
    pub(crate) assigned: Arc<Assigned>,
    pub(crate) version: Arc<Version>,
}

impl Agents {
    pub(crate) fn new(routes: Vec<Route>, thrift: Thrift) -> Self {
        Self { view: RwLock::default(), grown: Notify::new(), routes, thrift }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn show(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    /// Whether this name stands for an agent of the tenant, or for a route to some.
    pub(crate) fn knows(&self, tenant: &Tenant, name: &str) -> bool {
        let view = self.view();
        view.of(tenant, name).is_some()
            || view.is_damaged(tenant, name)
            || self.route(&view, tenant, name).is_some_and(|(_, agents)| !agents.is_empty())
    }

    /// The names that stand for somebody of the tenant.
    pub(crate) fn names(&self, tenant: &Tenant) -> Vec<String> {
        let view = self.view();
        let agents = view.agents.iter().filter(|(_, entry)| entry.tenant == *tenant).map(|(name, _)| name.to_string());
        let routes = self.routes.iter().map(|route| route.name.clone()).filter(|name| self.knows(tenant, name));
        agents.chain(routes).collect()
    }

    /// Who answers this episode under this name; `before` is who has done so.
    pub(crate) fn pick(
        &self,
        tenant: &Tenant,
        name: &str,
        episode: TraceId,
        situation: &Situation<'_>,
        before: Option<&Arc<Assigned>>,
    ) -> Result<Picked, Refused> {
        let view = self.view();
        if let Some(before) = before.filter(|before| before.asked_for == name)
            && let Some(entry) = view.agents.get(&before.agent).filter(|entry| entry.tenant == *tenant)
        {
            let version = entry.still(&before.version);
            let assigned = match version == before.version {
                true => Arc::clone(before),
                false => Arc::new(Assigned { version: version.to_owned(), ..Assigned::clone(before) }),
            };
            return entry.picked(assigned);
        }
        let (agent, chosen) = self.agent(&view, tenant, name, episode, situation)?;
        let entry = view.agents.get(&agent).ok_or_else(|| Refused::NoModel(name.to_owned()))?;
        let (version, canary) = entry.assign(episode);
        let task = task(situation.task);
        entry.picked(Arc::new(Assigned { asked_for: name.to_owned(), agent, version, task, canary, chosen }))
    }

    /// The agent of this name, or the one that is drawn for it.
    fn agent(
        &self,
        view: &View,
        tenant: &Tenant,
        name: &str,
        episode: TraceId,
        situation: &Situation<'_>,
    ) -> Result<(AgentName, Option<Chosen>), Refused> {
        if let Some((agent, _)) = view.of(tenant, name) {
            return Ok((agent.clone(), None));
        }
        if view.is_damaged(tenant, name) {
            return Err(Refused::Unavailable(format!("agent `{name}` cannot answer: its entry in the store is damaged")));
        }
        let missing = || Refused::NoModel(name.chars().take(256).collect());
        let (route, agents) = self.route(view, tenant, name).ok_or_else(missing)?;
        let (shares, features) = view.shares_of(tenant, route, &agents, situation, &self.thrift);
        // Drawn from the episode itself, so that two calls that begin it at once agree.
        let mut draws = Draws::new(0, &["route", name, &episode.to_string()]);
        let idx = pick(&shares, &mut draws).ok_or_else(missing)?;
        let chosen = Chosen { route: name.to_owned(), propensity: shares[idx], features };
        Ok((agents[idx].clone(), Some(chosen)))
    }

    /// The route of this name, and those of its agents that there are.
    fn route<'a>(&'a self, view: &View, tenant: &Tenant, name: &str) -> Option<(&'a Route, Vec<AgentName>)> {
        let route = self.routes.iter().find(|route| route.name == name)?;
        let is_there = |agent: &&AgentName| view.agents.get(*agent).is_some_and(|entry| entry.tenant == *tenant);
        Some((route, route.agents.iter().filter(is_there).cloned().collect()))
    }
}

impl View {
    fn of(&self, tenant: &Tenant, name: &str) -> Option<(&AgentName, &Entry)> {
        self.agents.get_key_value(&AgentName::new(name).ok()?).filter(|(_, entry)| entry.tenant == *tenant)
    }

    /// Whether this is an agent of the tenant of which nothing can be read.
    fn is_damaged(&self, tenant: &Tenant, name: &str) -> bool {
        AgentName::new(name).is_ok_and(|name| self.damaged.get(&name) == Some(tenant))
    }

    /// How likely each of these is chosen, and the features that it was chosen by.
    fn shares_of(
        &self,
        tenant: &Tenant,
        route: &Route,
        agents: &[AgentName],
        situation: &Situation<'_>,
        thrift: &Thrift,
    ) -> (Vec<f64>, Vec<f64>) {
        let features = Situation { usd_per_success: self.usd_per_success(agents, situation.task), ..*situation }.features();
        let even = || vec![1.0 / agents.len().max(1) as f64; agents.len()];
        if route.by == RouteBy::Features {
            let arms: Vec<String> = agents.iter().map(|agent| self.arm(agent)).collect();
            let arms: Vec<&str> = arms.iter().map(String::as_str).collect();
            let spent: Vec<Spent> = agents.iter().map(|agent| self.spent(agent, situation.task)).collect();
            let shares = self.linear.get(tenant).and_then(|linear| {
                let beliefs = linear.beliefs(&arms, &features).ok()?.into_iter().zip(thrift.prices(&spent));
                Some(linear.propensities(&beliefs.map(|(belief, price)| belief.less(price)).collect::<Vec<_>>()))
            });
            return (shares.unwrap_or_else(even), features);
        }
        let by_task = |task: Option<Category>| self.shares.get(&(tenant.clone(), route.name.clone(), task));
        let known = by_task(Some(task(situation.task))).or_else(|| by_task(None));
        // A route whose agents are not all there is chosen from evenly, until the next view has its shares.
        (known.filter(|shares| shares.len() == agents.len()).cloned().unwrap_or_else(even), features)
    }

    /// What an episode of this type of task takes with the version of an agent that serves.
    fn spent(&self, agent: &AgentName, task: &str) -> Spent {
        let known = self.agents.get(agent).and_then(|entry| {
            let (_, tasks) = entry.performance.iter().find(|(version, _)| *version == entry.live)?;
            tasks.get(task)
        });
        known.map_or(Spent::default(), |known| Spent { cost_usd: known.cost_usd, latency_ms: known.latency_ms })
    }

    /// What a success at this type of task has cost with these agents.
    fn usd_per_success(&self, agents: &[AgentName], task: &str) -> Option<f64> {
        let entries = agents.iter().filter_map(|agent| self.agents.get(agent));
        // Of versions that cannot be asked any more it does not matter.
        let known = entries
            .flat_map(|entry| entry.performance.iter().filter(|(version, _)| entry.versions.contains_key(version)))
            .filter_map(|(_, tasks)| tasks.get(task));
        let (mut usd, mut n_solved) = (0.0, 0.0);
        for (known, cost) in known.filter_map(|known| Some((known, known.cost_usd?))) {
            usd += known.n_episodes as f64 * cost;
            n_solved += known.n_episodes as f64 * known.success;
        }
        (n_solved > 0.0).then(|| usd / n_solved)
    }

    /// What the version that serves is called among all versions.
    pub(crate) fn arm(&self, agent: &AgentName) -> String {
        Ended::arm(agent, self.agents.get(agent).map_or("", |entry| &entry.live))
    }
}

impl Entry {
    /// The version of a new episode, and its place in the canary that runs.
    fn assign(&self, episode: TraceId) -> (String, Option<InCanary>) {
        let running = self.canary.as_ref().filter(|canary| matches!(canary.state, State::Running | State::Paused));
        let Some(canary) = running else { return (self.live.clone(), None) };
        let share = canary.report.share;
        let assignment = assign(&canary.id.to_string(), &episode.to_string(), share);
        let version = if assignment.arm == Arm::Canary { &canary.to } else { &canary.from };
        (version.clone(), Some(InCanary { id: canary.id, arm: assignment.arm, share }))
    }

    /// The version that goes on with an episode of this one.
    fn still<'a>(&'a self, version: &'a str) -> &'a str {
        let is_taken_back = self.canary.as_ref().is_some_and(|canary| canary.state == State::RolledBack && canary.to == version);
        if is_taken_back || !self.versions.contains_key(version) { &self.live } else { version }
    }

    fn picked(&self, assigned: Arc<Assigned>) -> Result<Picked, Refused> {
        let found = self.versions.get(&assigned.version);
        let version = found.ok_or_else(|| Refused::Unavailable(unable(&assigned, "it is not registered")))?;
        Ok(Picked { version: Arc::clone(version), assigned })
    }
}

/// That a version cannot answer, and why.
fn unable(assigned: &Assigned, why: &str) -> String {
    let Assigned { agent, version, .. } = assigned;
    format!("version {version} of agent `{agent}` cannot answer here: {why}")
}

impl Version {
    /// Who answers for it: nobody, where it cannot.
    pub(crate) fn answering(&self) -> Arc<Model> {
        let nobody = || Arc::new(Model::nobody(self.config.model.as_deref().unwrap_or_default()));
        self.model.as_ref().map_or_else(|_| nobody(), Arc::clone)
    }

    /// Why it cannot answer those who are assigned to it, where it cannot. They are told so, and counted: the record of a canary that
    /// left them out would lack one side.
    pub(crate) fn problem(&self, assigned: &Assigned) -> Option<String> {
        self.model.as_ref().err().map(|why| unable(assigned, why))
    }

    /// Puts what the version brings along into a request: its standing instructions first, its temperature where the client has none.
    pub(crate) fn shape(&self, wire: Option<Wire>, asked: &mut Asked) -> Result<(), Refused> {
        if let Some(prompt) = &self.config.prompt {
            if !asked.prompts.is_empty() {
                let message = "this agent has standing instructions, for which a plain text has no place: ask it in a chat";
                return Err(Refused::param("model", message));
            }
            asked.request.messages.insert(0, Message::text(Role::System, prompt));
            instruct(wire, &mut asked.body, prompt);
        }
        if let Some(temperature) = self.config.temperature
            && asked.request.sampling.temperature.is_none()
        {
            asked.request.sampling.temperature = Some(temperature);
            asked.body.insert("temperature".into(), temperature.into());
        }
        Ok(())
    }
}

/// Says this first in a body of this format.
fn instruct(wire: Option<Wire>, body: &mut Map<String, Value>, prompt: &str) {
    if wire == Some(Wire::Anthropic) {
        let first = json!({"type": "text", "text": prompt});
        let system = match body.remove("system") {
            Some(Value::String(own)) => vec![first, json!({"type": "text", "text": own})],
            Some(Value::Array(own)) => std::iter::once(first).chain(own).collect(),
            _ => vec![first],
        };
        body.insert("system".into(), system.into());
    } else if let Some(Value::Array(messages)) = body.get_mut("messages") {
        messages.insert(0, json!({"role": "system", "content": prompt}));
    }
}

/// A type of task by its name.
fn task(name: &str) -> Category {
    Category::new(name).unwrap_or_else(|_| Category::new(ANY_TASK).expect("a plain word is a name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_arbiter::{LinearSettings, N_FEATURES};

    #[test]
    fn who_is_chosen_by_features_pays_for_cost_and_time() {
        let names = ["plain", "dear"].map(|name| AgentName::new(name).unwrap());
        let entry = |cost_usd: f64, latency_ms: f64| Entry {
            tenant: Tenant::default(),
            live: "v1".into(),
            canary: None,
            versions: BTreeMap::new(),
            registered: Vec::new(),
            performance: vec![("v1".into(), {
                let (cost_usd, latency_ms) = (Some(cost_usd), Some(latency_ms));
                BTreeMap::from([("refund".into(), Known { n_episodes: 9, success: 0.8, reliability: 1.0, cost_usd, latency_ms })])
            })],
            past: Arc::default(),
        };
        // Both were right four times of five, in the same situations.
        let route = Route { name: "fit".into(), agents: names.to_vec(), by: RouteBy::Features };
        let mut view = View::default();
        view.agents.extend(names.iter().cloned().zip([entry(0.1, 1_000.0), entry(0.4, 1_000.0)]));
        let situation = Situation { task: "refund", ..Situation::default() };
        let features = view.shares_of(&Tenant::default(), &route, &names, &situation, &Thrift::default()).1;
        let mut linear = Linear::new(LinearSettings::default(), N_FEATURES).unwrap();
        let arms: Vec<String> = names.iter().map(|agent| view.arm(agent)).collect();
        for row in 0..100 {
            arms.iter().for_each(|arm| linear.add(arm, &features, f64::from(u8::from(row % 5 != 0))).unwrap());
        }
        view.linear.insert(Tenant::default(), Arc::new(linear));
        let shares = |task: &str, thrift: &Thrift| {
            let situation = Situation { task, ..Situation::default() };
            view.shares_of(&Tenant::default(), &route, &names, &situation, thrift).0
        };
        assert!(shares("refund", &Thrift::default())[0] > 0.9);
        assert!((shares("refund", &Thrift { cost: 0.0, time: 1.0 })[0] - 0.5).abs() < 0.1, "they take the same time");
        assert!((shares("other", &Thrift::default())[0] - 0.5).abs() < 0.1, "nothing is known of their costs");
    }
}
