//! The words of hone as types: what an agent did, what it earned, and what shaped it.
//!
//! Every record that leaves the process has a versioned JSON form (`"v": 1`); a record from a newer
//! hone is refused by name instead of being half understood. Clocks and randomness arrive as arguments,
//! so a seeded stage writes the same bytes every time.
//!
//! Knows nothing of files, sockets, SQL, tensors or the command line.

mod agent;
mod config;
mod demonstration;
pub mod env;
pub mod format;
mod group;
mod hash;
mod id;
pub mod json;
pub mod lines;
mod message;
mod name;
mod next_turn;
mod outcome;
pub mod policy;
mod random;
mod recommendation;
mod reward;
mod run;
mod scenario;
mod sorted;
pub mod store;
mod time;
mod trace;
mod turn;
mod version;

pub use agent::{Adapter, Agent, AgentState, AgentVersion};
pub use config::Config;
pub use demonstration::{Corrected, DEMONSTRATION, Demonstration};
pub use group::Group;
pub use hash::{AdapterId, BlobHash, ConfigHash, DataHash};
pub use id::{EventId, GroupId, OutcomeId, RecommendationId, RewardId, RunId, TraceId};
pub use message::{Content, Message, Role, ToolRequest, ToolSpec};
pub use name::{AgentName, Category, Family, KeyName, NameError, ScenarioId, Tenant};
pub use next_turn::{NextTurn, TURNS_MAX};
pub use outcome::Outcome;
pub use random::Draws;
pub use recommendation::{Answer, Recommendation, RecommendationKind};
pub use reward::{Component, Giver, GiverKind, REWARD_MAX, Reward};
pub use run::{Run, RunState};
pub use scenario::Scenario;
pub use sorted::Sorted;
pub use time::{Clock, SteppedClock, Time, TimeError};
pub use trace::{EPISODE_NAME, Metric, Segment, Trace, TraceError, TraceHead, TraceOutcome};
pub use turn::{Decision, ErrorEvent, LlmCall, Sampled, ToolCall, Turn};
pub use version::V1;
