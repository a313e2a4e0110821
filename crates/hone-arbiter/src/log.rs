//! The log of agents: what happened to them, line by line, in one stream of the store's events.
//!
//! Who deploys and who serves are two processes, or many. They meet here: a line that is on the record is known to all, in one order, and
//! [`Fleet`](crate::Fleet) says what follows from it. Rows are known by what they are about, so a line that is written twice counts once.

use crate::canary::{Command, Decision, Fact, Row, Settings};
use crate::{Arm, Reached};
use hone_trace::store::Event;
use hone_trace::{AgentName, Category, EventId, Tenant, Time, TraceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The stream of the store's events that the log is.
pub const STREAM: &str = "agents";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// An entry of the registry was written.
    Registered {
        /// Which.
        agent: AgentName,
    },
    /// A canary begins.
    Started(Box<Start>),
    /// Something became known about an episode of a canary.
    Row(CanaryRow),
    /// Somebody wants something of a canary.
    Asked {
        /// The agent.
        agent: AgentName,
        /// The canary that is meant: the id of the line that began it.
        canary: EventId,
        /// What is wanted.
        command: Command,
    },
    /// What was decided: it follows from the lines before, and stands also where the rules of a later release would have decided otherwise.
    Decided {
        /// The agent.
        agent: AgentName,
        /// The canary.
        canary: EventId,
        /// The decision with its numbers.
        decision: Box<Decision>,
    },
    /// An episode of an agent came to an end.
    Ended(Box<Ended>),
}

/// How a canary begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The agent.
    pub agent: AgentName,
    /// The version that serves now.
    pub from: String,
    /// The version that would take over.
    pub to: String,
    /// What it must show.
    pub settings: Settings,
    /// How long an outcome is waited for.
    pub wait_ms: u64,
}

/// Something that became known about an episode of a canary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryRow {
    /// The agent.
    pub agent: AgentName,
    /// The canary.
    pub canary: EventId,
    /// The episode.
    pub trace: TraceId,
    /// What became known.
    pub row: Row,
}

/// What an episode of an agent came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The agent.
    pub agent: AgentName,
    /// Its version.
    pub version: String,
    /// The type of task.
    pub task: Category,
    /// The episode.
    pub trace: TraceId,
    /// What it reached.
    pub reached: Reached,
    /// Whether something failed in it.
    pub has_error: bool,
    /// How it was chosen, where there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// How an agent was chosen among several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The route that was asked for.
    pub route: String,
    /// How likely this choice was.
    pub propensity: f64,
    /// What was known about the episode when it was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<f64>,
}

/// A line that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {id} of the agents' log counts for nothing: {reason}")]
pub struct LineError {
    /// Which.
    pub id: EventId,
    /// Why.
    pub reason: String,
}

impl Line {
    /// The line as an event.
    pub fn event(&self, id: EventId, at: Time, tenant: Tenant) -> Event {
        let written = serde_json::to_value(self).expect("a line has string keys and finite numbers");
        let (kind, body) = match written {
            Value::Object(map) => map.into_iter().next().unwrap_or_default(),
            other => (String::new(), other),
        };
        Event { id, at, tenant, stream: STREAM.into(), kind, body }
    }

    /// The line of an event of [`STREAM`].
    pub fn of(event: &Event) -> Result<Self, LineError> {
        let whole = Value::Object(Map::from_iter([(event.kind.clone(), event.body.clone())]));
        serde_json::from_value(whole).map_err(|error| LineError { id: event.id, reason: error.to_string() })
    }

    /// The id of a decision, fixed by the line that caused it: whoever comes to it first writes it down.
    pub fn decision_id(cause: EventId) -> EventId {
        EventId::derived(&["decided", &cause.to_string()])
    }
}

impl CanaryRow {
    /// The id of the line, fixed by what it is about: an episode is assigned and answered once, and has one outcome or none.
    pub fn id(&self) -> EventId {
        let what = match self.row.fact {
            Fact::Assigned => "assigned",
            Fact::Answered { .. } => "answered",
            Fact::Matured { .. } | Fact::Missing => "outcome",
        };
        EventId::derived(&["canary", &self.canary.to_string(), &self.trace.to_string(), what])
    }
}

impl Ended {
    /// The id of the line: an episode ends once.
    pub fn id(&self) -> EventId {
        EventId::derived(&["ended", &self.trace.to_string()])
    }

    /// What a version is called among all versions of all agents.
    pub fn arm(agent: &AgentName, version: &str) -> String {
        format!("{agent}@{version}")
    }
}

/// Which version of an agent an episode got, and why: what its record says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assigned {
    /// The name that was asked for: the agent's, or a route's.
    pub asked_for: String,
    /// The agent.
    pub agent: AgentName,
    /// Its version.
    pub version: String,
    /// The type of task.
    pub task: Category,
    /// The canary that it belongs to, where one ran when the episode began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<InCanary>,
    /// How the agent was chosen, where there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// The place of an episode in a canary.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InCanary {
    /// The canary.
    pub id: EventId,
    /// The side.
    pub arm: Arm,
    /// The canary's share then.
    pub share: f64,
}

impl Assigned {
    /// The line of the canary's log that says this of the episode; nothing where there was no canary.
    pub fn row(&self, trace: TraceId, fact: Fact) -> Option<CanaryRow> {
        let InCanary { id, arm, share } = self.canary?;
        Some(CanaryRow { agent: self.agent.clone(), canary: id, trace, row: Row { arm, canary_share: share, fact } })
    }

    /// That the episode has ended so.
    pub fn ended(&self, trace: TraceId, reached: Reached, has_error: bool) -> Ended {
        let Self { agent, version, task, chosen, .. } = self.clone();
        Ended { agent, version, task, trace, reached, has_error, chosen }
    }
}
