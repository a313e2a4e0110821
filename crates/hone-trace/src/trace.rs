//! A trace: one episode, from its first message to what it earned.

use crate::env::ENV_ERROR;
use crate::policy::PolicyErrorKind::TooLong;
use crate::{
    Category, ConfigHash, ErrorEvent, GroupId, Message, Reward, RunId, Sampled, ScenarioId, TURNS_MAX, Tenant, Time, ToolSpec,
    TraceId, Turn, V1, sorted,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// Where the metadata of a trace say what its client calls it.
pub const EPISODE_NAME: &str = "episode_name";

/// One episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Version of this record.
    pub v: V1,
    /// Its id.
    pub id: TraceId,
    /// Whose data it is.
    pub tenant: Tenant,
    /// When it began.
    pub started: Time,
    /// When it ended, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The type of task, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// The scenario, where the world was ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<ScenarioId>,
    /// The group it was sampled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// The run that played it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The config that produced it.
    pub config: ConfigHash,
    /// How it ended.
    #[serde(default)]
    pub outcome: TraceOutcome,
    /// What was said and done. When a template rewrites history, a new segment with its own prompt begins.
    pub segments: Vec<Segment>,
    /// What it earned, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewards: Vec<Reward>,
    /// Free measurements.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metric>,
    /// Free facts.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub metadata: Map<String, Value>,
}

/// A stretch of an episode in which every turn extends the tokens of the one before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// What was said after the last answer, such as the results of its tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<Message>,
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// It did what was asked.
    Success,
    /// It did not.
    Failure,
    /// Nobody said.
    #[default]
    Unknown,
}

/// A free measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Metric {
    /// Yes or no.
    Flag(bool),
    /// A number, in the form in which it was given.
    Value(Number),
}

/// What a list shows of a trace, and what it can be found by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceHead {
    /// Its id.
    pub id: TraceId,
    /// Whose data it is.
    pub tenant: Tenant,
    /// When it began.
    pub started: Time,
    /// The type of task.
    pub category: Option<Category>,
    /// The config that produced it.
    pub config: ConfigHash,
    /// How it ended.
    pub outcome: TraceOutcome,
    /// What it earned.
    pub reward: Option<f64>,
    /// How many turns it took.
    pub n_turns: u32,
    /// Tokens read and written.
    pub n_tokens: u64,
    /// The price in US dollars.
    pub cost_usd: f64,
}

/// What makes a trace inconsistent. Turns are told as people count them, from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// It has no turn and no message.
    #[error("the trace is empty: it has no turn and no message")]
    Empty,
    /// Token ids and log-probs of a turn do not match.
    #[error("turn {number} has {n_ids} sampled tokens but {n_logprobs} log-probs", number = .turn_idx + 1)]
    Logprobs {
        /// The turn, counted over all segments.
        turn_idx: usize,
        /// How many tokens.
        n_ids: usize,
        /// How many log-probs.
        n_logprobs: usize,
    },
    /// A forced position lies outside the sampled tokens, or the list is not increasing.
    #[error("the forced positions of turn {number} are not increasing positions of its sampled tokens", number = .0 + 1)]
    Forced(usize),
    /// A number is infinite or not a number, which JSON cannot hold.
    #[error("{0} is not a finite number")]
    NotFinite(String),
    /// A reward speaks of a turn that is not there.
    #[error("a reward is for turn {number}, but the trace has {n_turns} turns", number = u64::from(*.0) + 1, n_turns = .1)]
    NoTurn(u32, usize),
    /// An episode goes on for too long.
    #[error("turn {number} is too many: a trace grows to at most {TURNS_MAX} turns; go on in a new trace", number = u64::from(*.0) + 1)]
    TooLong(u32),
}

impl Trace {
    /// A trace in which nothing has happened yet.
    pub fn new(id: TraceId, tenant: Tenant, started: Time, config: ConfigHash) -> Self {
        Self {
            v: V1,
            id,
            tenant,
            started,
            ended: None,
            category: None,
            scenario: None,
            group: None,
            run: None,
            config,
            outcome: TraceOutcome::Unknown,
            segments: Vec::new(),
            rewards: Vec::new(),
            metrics: BTreeMap::new(),
            metadata: Map::new(),
        }
    }

    /// All turns of all segments, in order.
    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.segments.iter().flat_map(|segment| &segment.turns)
    }

    /// The reward of the whole trace: the last one given.
    pub fn reward(&self) -> Option<&Reward> {
        self.rewards.iter().rev().find(|reward| reward.turn_idx.is_none())
    }

    /// Why the episode says nothing of who played it: it ended because the world broke, no provider answered, or the money was spent.
    /// That the conversation grew too long is the doing of who played, and one that was asked again and went on did not break.
    pub fn broken(&self) -> Option<&ErrorEvent> {
        let is_foreign = |kind: &str| kind == ENV_ERROR || (kind.starts_with("policy_") && kind != TooLong.as_str());
        self.turns().last()?.errors.iter().find(|error| !error.recovered && is_foreign(&error.kind))
    }

    /// What a list shows of it.
    pub fn head(&self) -> TraceHead {
        TraceHead {
            id: self.id,
            tenant: self.tenant.clone(),
            started: self.started,
            category: self.category.clone(),
            config: self.config,
            outcome: self.outcome,
            reward: self.reward().map(|reward| reward.total),
            n_turns: u32::try_from(self.turns().count()).unwrap_or(u32::MAX),
            n_tokens: self.turns().fold(0, |sum, turn| sum.saturating_add(turn.n_tokens())),
            // Not `sum`, whose zero is negative.
            cost_usd: self.turns().fold(0.0, |sum, turn| sum + turn.cost_usd()),
        }
    }

    /// Checks what the types cannot say: every record that enters the store has passed this.
    pub fn check(&self) -> Result<(), TraceError> {
        if self.segments.iter().all(|segment| segment.turns.is_empty() && segment.tail.is_empty()) {
            return Err(TraceError::Empty);
        }
        for (turn_idx, turn) in self.turns().enumerate() {
            check_turn(turn_idx, turn)?;
        }
        let n_turns = self.turns().count();
        for reward in &self.rewards {
            if let Some(turn_idx) = reward.turn_idx.filter(|&idx| idx as usize >= n_turns) {
                return Err(TraceError::NoTurn(turn_idx, n_turns));
            }
            let parts = reward.components.iter().flat_map(|part| [part.value, part.weight]);
            for number in parts.chain([reward.total]) {
                finite(Some(number), || format!("a reward by {}", reward.by.name))?;
            }
        }
        Ok(())
    }
}

/// Checks a turn by itself; `turn_idx` is counted over all segments.
pub(crate) fn check_turn(turn_idx: usize, turn: &Turn) -> Result<(), TraceError> {
    let number = turn_idx + 1;
    if let Some(sampled) = &turn.sampled {
        check_sampled(turn_idx, sampled)?;
    }
    for call in &turn.llm_calls {
        finite(call.cost_usd, || format!("the cost of a model call in turn {number}"))?;
        finite(call.duration_ms, || format!("the duration of a model call in turn {number}"))?;
    }
    for (name, &value) in &turn.signals {
        finite(Some(value), || format!("signal {name} of turn {number}"))?;
    }
    for call in &turn.tool_calls {
        finite(call.duration_ms, || format!("the duration of a tool call in turn {number}"))?;
    }
    Ok(())
}

fn check_sampled(turn_idx: usize, sampled: &Sampled) -> Result<(), TraceError> {
    let (n_ids, n_logprobs) = (sampled.ids.len(), sampled.logprobs.len());
    if n_logprobs != 0 && n_logprobs != n_ids {
        return Err(TraceError::Logprobs { turn_idx, n_ids, n_logprobs });
    }
    let increasing = sampled.forced.windows(2).all(|pair| pair[0] < pair[1]);
    if !increasing || sampled.forced.last().is_some_and(|&last| last as usize >= n_ids) {
        return Err(TraceError::Forced(turn_idx));
    }
    for &logprob in &sampled.logprobs {
        finite(Some(f64::from(logprob)), || format!("a log-prob of turn {}", turn_idx + 1))?;
    }
    Ok(())
}

fn finite(number: Option<f64>, what: impl FnOnce() -> String) -> Result<(), TraceError> {
    if number.is_none_or(f64::is_finite) { Ok(()) } else { Err(TraceError::NotFinite(what())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Role};

    /// A letter is a turn: one that went well, one whose error was recovered from, and those that ended for a reason.
    #[track_caller]
    fn check(turns: &str, is_broken: bool) {
        let turn = |letter: char| {
            let error = |kind: &str, recovered| vec![ErrorEvent { kind: kind.into(), recovered, message: String::new() }];
            let errors = match letter {
                'r' => error("policy_provider", true),
                'w' => error(ENV_ERROR, false),
                'p' => error("policy_provider", false),
                'l' => error(TooLong.as_str(), false),
                't' => error("turn_limit", false),
                _ => Vec::new(),
            };
            Turn { errors, ..Turn::new(Vec::new(), Message::text(Role::Assistant, "")) }
        };
        let segments = vec![Segment { turns: turns.chars().map(turn).collect(), ..Segment::default() }];
        let trace = Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
        assert_eq!(Trace { segments, ..trace }.broken().is_some(), is_broken, "{turns}");
    }

    #[test]
    fn an_episode_broke_where_it_ended_with_the_world_or_without_an_answer() {
        check("..w", true);
        check("p", true);
        check("..l", false);
        check("..t", false);
        check("r", false);
        check("p.", false);
        check("", false);
    }
}
