//! `replay`: recorded traces become scenarios, so that a team can train on what its own agents met.
//!
//! An episode begins as the record did. A tool call is answered with what the same call gave then (same tool, same arguments
//! whatever their spelling), with the recorded latency and errors; several results of one call come in recorded order, and the
//! last one repeats. Words are answered with what was said to these words, or else with what the user said next. What was never
//! recorded is answered by a declared [`Fallback`] and flagged. The episode ends with a final answer: the record's own, words
//! that nobody replied to, or a call of the tool that ended the record.
//!
//! The recorded final answer has the recorded outcome. Any other is of unknown outcome: a judge decides.
//!
//! Signals: `from_record`, the share of this step's questions that the record answered; `drift`, how far the actions so far are
//! from the recorded ones; `same_answer`, whether the episode ended with the recorded answer;
//! `solved`, whether that answer was a success.
//!
//! Knows nothing of the world that the record came from: a tool with a memory answers as it did then. Records of tasks that were held out
//! there are held out here.

mod canonical;
mod episode;
mod record;
mod report;

use crate::{Scripted, call, said};
use episode::Episode;
use hone_trace::env::{Env, EnvError, Reset, Signals, Split};
use hone_trace::policy::Conversation;
use hone_trace::{Category, Draws, Family, Message, Role, Scenario, ScenarioId, Trace, TraceId, TraceOutcome, V1};
use record::Record;
pub use report::{Report, drift};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a tool says that has nothing recorded at all.
const UNAVAILABLE: &str = "this tool is not available in the replay";
/// Characters of the task that a scenario shows.
const TASK_CHARS_MAX: usize = 200;

/// What answers a call that was never recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing: the episode ends, its outcome unknown.
    End,
    /// This text.
    Say(String),
    /// The recorded call of the same tool whose arguments are nearest; a fixed text where the tool was never called.
    Nearest,
}

/// How records are played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOptions {
    /// What answers a call that was never recorded.
    pub fallback: Fallback,
    /// Shares of train, validation and test, by family.
    pub shares: [u32; 3],
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { fallback: Fallback::Say(UNAVAILABLE.into()), shares: [80, 10, 10] }
    }
}

/// A trace that cannot be played again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which one.
    pub trace: TraceId,
    /// Why.
    pub reason: String,
}

/// The world.
pub struct Replay {
    records: BTreeMap<TraceId, (Split, Arc<Record>)>,
    refused: Vec<Refused>,
    fallback: Arc<Fallback>,
}

impl Replay {
    /// Takes the traces apart. Those that cannot be played are refused one by one, see [`Replay::refused`].
    pub fn new(traces: &[Trace], options: ReplayOptions) -> Result<Self, EnvError> {
        if !options.shares.iter().any(|&share| share > 0) {
            return Err(EnvError::Data { place: "replay".into(), reason: "all shares of the split are 0".into() });
        }
        let mut world = Self::without_records(options.fallback);
        traces.iter().for_each(|trace| {
            world.add(trace, |record| held_out(trace).unwrap_or_else(|| split(options.shares, &record.family)));
        });
        Ok(world)
    }

    /// The same of traces that were divided before, such as those of a batch.
    pub fn divided(parts: &[(Split, Vec<Trace>)], fallback: Fallback) -> Self {
        let mut world = Self::without_records(fallback);
        for (split, traces) in parts {
            traces.iter().for_each(|trace| world.add(trace, |_| *split));
        }
        world
    }

    fn without_records(fallback: Fallback) -> Self {
        Self { records: BTreeMap::new(), refused: Vec::new(), fallback: Arc::new(fallback) }
    }

    fn add(&mut self, trace: &Trace, split: impl FnOnce(&Record) -> Split) {
        let reason = match Record::of(trace) {
            Ok(_) if self.records.contains_key(&trace.id) => "a trace of this id is already there".into(),
            Ok(record) => {
                self.records.insert(trace.id, (split(&record), Arc::new(record)));
                return;
            }
            Err(reason) => reason,
        };
        self.refused.push(Refused { trace: trace.id, reason });
    }

    /// Whether the record of a scenario called tools, and so a good answer to it may need one.
    pub fn called_tools(&self, scenario: &Scenario) -> bool {
        self.record(&scenario.id).is_some_and(|record| record.answers.iter().any(|answer| !answer.tool_calls.is_empty()))
    }

    /// The traces that cannot be played again.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// How many can.
    pub fn n_records(&self) -> usize {
        self.records.len()
    }

    fn record(&self, id: &ScenarioId) -> Option<&Arc<Record>> {
        self.records.get(&id.as_str().strip_prefix("replay/")?.parse().ok()?).map(|(_, record)| record)
    }

    fn found(&self, scenario: &Scenario) -> Result<&Arc<Record>, EnvError> {
        let missing = || EnvError::Scenario { scenario: scenario.id.to_string(), reason: "there is no such record here".into() };
        self.record(&scenario.id).ok_or_else(missing)
    }

    fn scenario(record: &Record) -> Result<Scenario, EnvError> {
        let broken = |error: hone_trace::NameError| EnvError::Broken(format!("trace {}: {error}", record.trace));
        let id = format!("replay/{}", record.trace);
        let task = record.opening.iter().rfind(|message| message.role == Role::User);
        let task: String = task.map(|message| message.content.text()).unwrap_or_default().chars().take(TASK_CHARS_MAX).collect();
        let last = record.answers.last();
        Ok(Scenario {
            v: V1,
            id: ScenarioId::new(id).map_err(broken)?,
            category: record.category.clone().map_or_else(|| Category::new("replay").map_err(broken), Ok)?,
            input: json!({ "trace": record.trace, "task": task }),
            truth: Some(json!({ "answer": last.map(answer_text), "outcome": record.outcome })),
            difficulty: None,
            family: Family::new(&record.family).map_err(broken)?,
        })
    }
}

/// Where the records of a family belong.
/// The split that a record comes from, where nobody may learn from it: played again, it stays there.
fn held_out(trace: &Trace) -> Option<Split> {
    let from = trace.metadata.get("split")?.as_str()?;
    [Split::Validation, Split::Test].into_iter().find(|split| split.as_str() == from)
}

fn split(shares: [u32; 3], family: &str) -> Split {
    let total: u64 = shares.iter().map(|&share| u64::from(share)).sum();
    let mut place = (Draws::new(0, &["replay", "split", family]).uniform() * total as f64) as u64;
    for (split, &share) in Split::ALL.into_iter().zip(&shares) {
        if place < u64::from(share) {
            return split;
        }
        place -= u64::from(share);
    }
    Split::Test
}

/// The words of an answer, or the call that stands for them.
fn answer_text(answer: &Message) -> String {
    let calls = answer.tool_calls.iter().map(|request| format!("{}({})", request.name, request.arguments));
    if answer.tool_calls.is_empty() { answer.content.text() } else { calls.collect::<Vec<_>>().join("\n") }
}

impl Env for Replay {
    fn name(&self) -> &str {
        "replay"
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let of_split = self.records.values().filter(|(there, _)| *there == split);
        let mut records: Vec<&Arc<Record>> = of_split.map(|(_, record)| record).collect();
        Draws::new(seed, &["replay", "order", split.as_str()]).shuffle(&mut records);
        records.into_iter().take(n).map(|record| Self::scenario(record)).collect()
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let record = self.found(scenario)?;
        Ok(Reset {
            episode: Box::new(Episode::new(Arc::clone(record), Arc::clone(&self.fallback))),
            tools: Arc::clone(&record.tools),
            messages: record.opening.clone(),
        })
    }

    /// Plays the recorded answers.
    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let (record, mut n_answers) = (Arc::clone(self.found(scenario)?), 0);
        Ok(Box::new(Scripted(move |_: &[Message]| {
            n_answers += 1;
            record.answers.get(n_answers - 1).cloned().unwrap_or_else(|| said(""))
        })))
    }

    /// Does what was done on the way to the recorded answer, in any order, calls tools without arguments, and says things.
    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let record = Arc::clone(self.found(scenario)?);
        let mut draws = Draws::new(seed, &["replay", "random", scenario.id.as_str()]);
        Ok(Box::new(Scripted(move |_: &[Message]| {
            let on_the_way = &record.answers[..record.answers.len() - 1];
            match draws.below(4) {
                0 | 1 if !on_the_way.is_empty() => draws.pick(on_the_way).clone(),
                2 if !record.tools.is_empty() => call(&draws.pick(&record.tools).name, &Value::Object(serde_json::Map::new())),
                _ => said(draws.between(0, 99).to_string()),
            }
        })))
    }

    /// What is known to be possible: a record that failed shows no way to succeed.
    fn best(&self, scenario: &Scenario) -> Signals {
        let is_solved = self.record(&scenario.id).is_some_and(|record| record.outcome == TraceOutcome::Success);
        let solved = if is_solved { 1.0 } else { 0.0 };
        Signals::from([("from_record", 1.0), ("drift", 0.0), ("same_answer", 1.0), ("solved", solved)])
    }
}
