//! ART trajectories (openpipe-art 0.5): one `Trajectory` or one `TrajectoryGroup` per line.
//!
//! | wire | word |
//! |---|---|
//! | `messages_and_choices`, `tools` | the first segment; an answer, plain or as a choice, ends a turn |
//! | a choice, which marks a trainable turn | the turn, see [`choice`] |
//! | `additional_histories` | the further segments |
//! | `reward` | a reward given by `art` ([`GiverKind::Import`]) |
//! | `metrics` | `metrics`; what is neither number nor boolean is a leftover |
//! | `metadata` | `metadata`, and the category from `category` or `task_type` |
//! | versions, `logs`, any other key, a known key that is null or empty | `metadata["hone.trajectory"]` |
//! | the same of the n-th history | `metadata["hone.histories"][n]` |
//! | the same of a group (`exceptions`, `metadata`, `metrics`, `logs`) | `metadata["hone.group"]` of its first trace |
//!
//! Refused: a trajectory in which nothing is said, and a group without trajectories, for there is no trace to
//! hold it. Written without `reward` when nobody gave one, although ART wants the key: no reward is not 0.
//! Not kept on import: the order of keys, and foreign keys that begin with `hone.`.

mod choice;
mod read;

pub(super) use read::read;

use super::chat::tool;
use super::chat::{self, Out};
use super::origin;
use crate::{Group, Segment, Trace, Turn};
use serde::ser::{Serialize, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};

const TRAJECTORY: &str = "hone.trajectory";
const HISTORIES: &str = "hone.histories";
const GROUP: &str = "hone.group";

/// Writes one trace as a trajectory.
pub(super) fn write(trace: &Trace) -> String {
    serde_json::to_string(&Trajectory(trace)).expect("all keys are texts")
}

/// Writes a group as one line: those of the traces that belong to it, in its order.
pub fn write_group(group: &Group, traces: &[Trace]) -> String {
    serde_json::to_string(&Trajectories(group, traces)).expect("all keys are texts")
}

/// The leftovers under one of our notes.
fn noted<'a>(trace: Option<&'a Trace>, key: &str, none: &'a Map<String, Value>) -> &'a Map<String, Value> {
    trace.and_then(|trace| trace.metadata.get(key)?.as_object()).unwrap_or(none)
}

struct Trajectories<'a>(&'a Group, &'a [Trace]);

impl Serialize for Trajectories<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(group, traces) = self;
        let by_id: std::collections::HashMap<_, _> = traces.iter().map(|trace| (trace.id, trace)).collect();
        let members: Vec<Trajectory<'_>> = group.traces.iter().filter_map(|id| Some(Trajectory(by_id.get(id)?))).collect();
        let none = Map::new();
        let first = members.first().map(|member| member.0);
        let mut out = Out::new(serializer.serialize_map(None)?, noted(first, GROUP, &none));
        out.put("trajectories", &members)?;
        out.end(&["trajectories"])
    }
}

struct Trajectory<'a>(&'a Trace);

impl Serialize for Trajectory<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = self.0;
        let none = Map::new();
        let mut out = Out::new(serializer.serialize_map(None)?, noted(Some(trace), TRAJECTORY, &none));
        match trace.segments.split_first() {
            Some((first, rest)) => {
                out.put("messages_and_choices", &History(first))?;
                tool::write_modern(&first.tools, &mut out)?;
                let empty = Vec::new();
                let notes = trace.metadata.get(HISTORIES).and_then(Value::as_array).unwrap_or(&empty);
                let notes = notes.iter().map(|note| note.as_object().unwrap_or(&none)).chain(std::iter::repeat(&none));
                out.list("additional_histories", rest.iter().zip(notes).map(Additional))?;
            }
            None => out.put("messages_and_choices", &Value::Array(Vec::new()))?,
        }
        match trace.reward() {
            Some(reward) => out.put("reward", &reward.total)?,
            None => out.nothing("reward", |_| true)?,
        }
        let metrics = trace.metrics.iter().map(|(key, metric)| (key.clone(), serde_json::to_value(metric).unwrap_or_default()));
        let mut metrics = metrics.collect();
        out.merge("metrics", &mut metrics)?;
        let metadata = trace.metadata.iter().filter(|(key, _)| !key.starts_with("hone."));
        let mut metadata: Map<String, Value> = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        if let Some(category) = origin::untold_category(trace) {
            metadata.insert("category".to_owned(), category.as_str().into());
        }
        out.merge("metadata", &mut metadata)?;
        out.end(&["messages_and_choices", "tools", "additional_histories", "reward", "metrics", "metadata"])
    }
}

struct Additional<'a>((&'a Segment, &'a Map<String, Value>));

impl Serialize for Additional<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (segment, leftovers) = self.0;
        let mut out = Out::new(serializer.serialize_map(None)?, leftovers);
        out.put("messages_and_choices", &History(segment))?;
        tool::write_modern(&segment.tools, &mut out)?;
        out.end(&["messages_and_choices", "tools"])
    }
}

/// What is said in a segment: choices where they came as such or where the sampled tokens are known.
struct History<'a>(&'a Segment);

impl Serialize for History<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(None)?;
        for turn in &self.0.turns {
            for message in &turn.input {
                out.serialize_element(&chat::Written::BesideChoices(message))?;
            }
            if is_choice(turn) {
                out.serialize_element(&choice::Written(turn))?;
            } else {
                out.serialize_element(&chat::Written::BesideChoices(&turn.answer))?;
            }
        }
        for message in &self.0.tail {
            out.serialize_element(&chat::Written::BesideChoices(message))?;
        }
        out.end()
    }
}

fn is_choice(turn: &Turn) -> bool {
    turn.answer.role == crate::Role::Assistant && (turn.sampled.is_some() || turn.extra.contains_key(choice::NOTE))
}
