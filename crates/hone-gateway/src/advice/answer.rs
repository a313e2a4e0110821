//! What becomes of advice: taken, or turned down.

use super::look::Serving;
use super::record::{Kept, write};
use crate::registry::{self, AddError};
use hone_advise::short;
use hone_trace::store::{Kind, Store, StoreError};
use hone_trace::{Agent, AgentName, Answer, Category, Config, ConfigHash, Outcome, Recommendation, RecommendationKind, Time};
use std::fmt;

/// Why an answer is not written down.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Somebody else kept writing.
    #[error("somebody else keeps writing to this advice")]
    Busy,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes down an answer to advice that is on the record.
pub async fn answer(store: &dyn Store, kept: Kept, answer: Answer) -> Result<Recommendation, AnswerError> {
    let Kept { recommendation, revision } = kept;
    if recommendation.answer == Some(answer) {
        return Ok(recommendation);
    }
    let state = Recommendation { answer: Some(answer), ..recommendation };
    if write(store, &state, revision + 1).await? { Ok(state) } else { Err(AnswerError::Busy) }
}

/// What is to be done with advice that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is for one type of task, which a route can send elsewhere.
    Route(Category),
    /// A canary hands the traffic of an agent over.
    Canary {
        /// The agent.
        agent: AgentName,
        /// The version that serves.
        live: String,
        /// The version that would take over.
        version: String,
        /// What the canary should ask of it, as options of `hone deploy start`.
        rule: String,
    },
    /// An agent runs on the config that is advised on, and has no version with the proposed one.
    Missing(AgentName),
    /// This version of this agent has the proposed config, and serves.
    Done(AgentName, String),
    /// No agent runs on the config that is advised on.
    ByHand(ConfigHash),
}

impl Step {
    /// The command that does it, where there is one.
    pub fn command(&self) -> Option<String> {
        match self {
            Self::Canary { agent, version, rule, .. } => Some(format!("hone deploy start {agent} {version}{rule}")),
            Self::Missing(agent) => Some(format!("hone deploy add {agent} VERSION --model NAME")),
            Self::Route(_) | Self::Done(..) | Self::ByHand(_) => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route(category) => write!(
                f,
                "it is for tasks of type {category}: make the config an agent of its own, and let `hone serve --route` send such tasks to it"
            ),
            Self::Canary { agent, live, .. } => write!(f, "{agent} {live} serves; the proposed one takes over by"),
            Self::Missing(agent) => write!(f, "{agent} has no version with this config; add it by hand with"),
            Self::Done(agent, version) => write!(f, "{agent} {version} has this config, and serves"),
            Self::ByHand(config) => {
                write!(f, "no agent runs on config {}: change it where it is set", short(&config.to_string()))
            }
        }
    }
}

/// Why advice that was taken is no version of an agent.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The proposed config is not on the record.
    #[error("config {0} is not on the record")]
    NoConfig(ConfigHash, AgentName),
    /// The version cannot be added.
    #[error("version {version} of agent `{agent}`: {error}")]
    Version {
        /// The agent.
        agent: AgentName,
        /// The version.
        version: String,
        /// Why not.
        error: AddError,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a config that was proposed and taken a version of every agent that serves with the one that was advised on, and says what is to
/// be done then. A version that has it is not made again; a new one is called so, or by the next number.
pub async fn take(
    store: &dyn Store,
    taken: &Recommendation,
    serving: &[Serving],
    version: Option<&str>,
    now: Time,
) -> Result<Vec<Step>, TakeError> {
    if taken.category.is_none() {
        for one in serving.iter().filter(|one| one.config == taken.from) {
            if let Some((entry, _)) = registry::agent(store, &one.agent).await? {
                add(store, &entry, taken, version, now).await?;
            }
        }
    }
    Ok(steps(store, taken, serving).await?)
}

/// What is to be done with advice that was taken, as the record stands.
pub async fn steps(store: &dyn Store, taken: &Recommendation, serving: &[Serving]) -> Result<Vec<Step>, StoreError> {
    if let Some(category) = &taken.category {
        return Ok(vec![Step::Route(category.clone())]);
    }
    let mut found = Vec::new();
    for one in serving.iter().filter(|one| one.config == taken.from) {
        let Some((entry, _)) = registry::agent(store, &one.agent).await? else { continue };
        let (agent, live) = (one.agent.clone(), one.version.clone());
        found.push(match with(&entry, taken.to) {
            Some(version) => Step::Canary { agent, live, version: version.to_owned(), rule: rule(store, taken).await? },
            None => Step::Missing(agent),
        });
    }
    let done = serving.iter().filter(|one| one.config == taken.to);
    found.extend(done.map(|one| Step::Done(one.agent.clone(), one.version.clone())));
    if found.is_empty() {
        found.push(Step::ByHand(taken.from));
    }
    Ok(found)
}

/// The version of an agent that has this config.
fn with(entry: &Agent, config: ConfigHash) -> Option<&str> {
    entry.versions.iter().find(|version| version.config == config).map(|version| version.version.as_str())
}

async fn add(
    store: &dyn Store,
    entry: &Agent,
    taken: &Recommendation,
    version: Option<&str>,
    now: Time,
) -> Result<(), TakeError> {
    if with(entry, taken.to).is_some() {
        return Ok(());
    }
    let document = store.document(Kind::Config, &taken.to.to_string()).await?;
    let Some(config) = document.map(|document| document.word::<Config>()).transpose()? else {
        return Err(TakeError::NoConfig(taken.to, entry.name.clone()));
    };
    let is_taken = |name: &str| entry.versions.iter().any(|version| version.version == name);
    let next = (entry.versions.len() + 1..).map(|number| format!("v{number}")).find(|name| !is_taken(name));
    let name = version.map(str::to_owned).or(next).unwrap_or_default();
    let added = registry::add(store, &entry.name, &name, &config, &taken.tenant, now).await;
    let failed = |error| TakeError::Version { agent: entry.name.clone(), version: name.clone(), error };
    added.map(drop).map_err(failed)
}

/// What a canary should ask of a config that was proposed for this: half of the gain that was seen, or no loss.
async fn rule(store: &dyn Store, taken: &Recommendation) -> Result<String, StoreError> {
    if taken.kind == RecommendationKind::Cheapest {
        return Ok(" --rule non_inferior".to_owned());
    }
    let mut reached = Vec::new();
    for id in &taken.evidence {
        let document = store.document(Kind::Outcome, &id.to_string()).await?;
        reached.extend(document.map(|document| document.word::<Outcome>()).transpose()?.map(|outcome| outcome.success));
    }
    match reached[..] {
        [from, to] if from > 0.0 && to > from => Ok(format!(" --gain {:.2}", (0.5 * (to - from) / from).clamp(0.01, 0.1))),
        _ => Ok(" --rule non_inferior".to_owned()),
    }
}
