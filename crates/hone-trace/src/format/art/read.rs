//! Reading trajectories and groups.

use super::choice;
use super::{GROUP, HISTORIES, TRAJECTORY};
use crate::format::chat::tool::Tool;
use crate::format::chat::{self, Chat};
use crate::format::object::{self, List, Object, Read};
use crate::format::origin::{self, Registrar};
use crate::format::{FormatError, Imported, openai};
use crate::{Config, Message, Metric, Segment, Trace};
use serde::de::{Error, MapAccess};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Reads one line.
pub(in crate::format) fn read(line: &str, registrar: &mut Registrar) -> Result<Imported, FormatError> {
    let Read(Line { trajectory, trajectories }) = object::from_line(line)?;
    let mut imported = Imported::default();
    let Some(trajectories) = trajectories else {
        let trace = trajectory.into_trace("", registrar, &mut imported)?;
        imported.traces.push(trace);
        return Ok(imported);
    };
    let leftovers = trajectory.rest;
    if trajectories.is_empty() {
        return Err(FormatError::new("trajectories", "the group has no trajectories, so there is no trace to hold it"));
    }
    let policy = policy(&trajectories);
    for (idx, trajectory) in trajectories.into_iter().enumerate() {
        let trace = trajectory.into_trace(&format!("trajectories[{idx}]"), registrar, &mut imported)?;
        imported.traces.push(trace);
    }
    let group = registrar.group("art", policy, &leftovers, &mut imported.traces);
    if let Some(first) = imported.traces.first_mut().filter(|_| !leftovers.is_empty()) {
        first.metadata.insert(GROUP.to_owned(), Value::Object(leftovers));
    }
    imported.groups.push(group);
    Ok(imported)
}

/// The policy version that played all of them, if it was one.
fn policy(trajectories: &[Trajectory]) -> Option<String> {
    let mut versions = trajectories.iter().flat_map(|trajectory| {
        let version = |key| trajectory.rest.get(key).and_then(Value::as_i64);
        [version("initial_policy_version"), version("final_policy_version")]
    });
    let first = versions.next()??;
    versions.all(|version| version.is_none_or(|version| version == first)).then(|| first.to_string())
}

/// A line is a group if it has trajectories.
#[derive(Default)]
struct Line {
    trajectory: Trajectory,
    trajectories: Option<Vec<Trajectory>>,
}

impl Object for Line {
    const WHAT: &'static str = "a trajectory with `messages_and_choices` or a group with `trajectories`";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "trajectories" => {
                let List(trajectories) = map.next_value()?;
                self.trajectories = Some(trajectories);
                Ok(())
            }
            // Which of the two it is may not be known yet: a group keeps these as they came.
            "metrics" | "metadata" | "reward" => object::leftover(key, map, &mut self.trajectory.rest),
            _ => self.trajectory.field(key, map),
        }
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        if self.trajectories.is_none() {
            return self.trajectory.end();
        }
        let both = self.trajectory.history.items.is_some() || !self.trajectory.histories.is_empty();
        if both { Err(("", "a line is a trajectory or a group, not both".to_owned())) } else { Ok(()) }
    }
}

#[derive(Default)]
struct Trajectory {
    history: History,
    histories: Vec<History>,
    reward: Option<f64>,
    metrics: Vec<(String, Metric)>,
    metadata: Map<String, Value>,
    rest: Map<String, Value>,
}

impl Object for Trajectory {
    const WHAT: &'static str = "a trajectory with `messages_and_choices`";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "messages_and_choices" | "tools" => self.history.field(key, map),
            "additional_histories" => {
                self.histories = object::list(&key, map, &mut self.rest)?;
                Ok(())
            }
            _ => object::leftover(key, map, &mut self.rest),
        }
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        self.history.end()?;
        if let Some(total) = self.rest.get("reward").and_then(Value::as_f64) {
            self.reward = Some(origin::check_reward(total).map_err(|reason| ("reward", reason))?);
            self.rest.remove("reward");
        }
        if let Some(Value::Object(metrics)) = self.rest.get_mut("metrics") {
            let all = std::mem::take(metrics);
            let none = all.is_empty();
            for (key, value) in all {
                match value {
                    Value::Bool(flag) => self.metrics.push((key, Metric::Flag(flag))),
                    Value::Number(number) => self.metrics.push((key, Metric::Value(number))),
                    other => drop(metrics.insert(key, other)),
                }
            }
            if !none && metrics.is_empty() {
                self.rest.remove("metrics");
            }
        }
        if let Some(Value::Object(metadata)) = self.rest.get_mut("metadata").filter(|value| **value != Value::Object(Map::new()))
        {
            self.metadata = std::mem::take(metadata);
            self.metadata.retain(|key, _| !key.starts_with("hone."));
            self.rest.remove("metadata");
        }
        Ok(())
    }
}

impl Trajectory {
    fn into_trace(self, path: &str, registrar: &mut Registrar, imported: &mut Imported) -> Result<Trace, FormatError> {
        let Self { history, histories, reward, metrics, metadata, rest } = self;
        let request = metadata.clone();
        let (first, leftovers) = history.into_segment();
        let mut rest = rest;
        rest.extend(leftovers);
        let (segments, notes): (Vec<Segment>, Vec<Map<String, Value>>) = histories.into_iter().map(History::into_segment).unzip();
        let config = Config {
            model: model(&metadata),
            ..openai::config(&Map::new(), origin::prompt(origin::messages(&first)), &first.tools)
        };

        let mut facts = metadata;
        if !rest.is_empty() {
            facts.insert(TRAJECTORY.to_owned(), Value::Object(rest));
        }
        if notes.iter().any(|note| !note.is_empty()) {
            facts.insert(HISTORIES.to_owned(), notes.into_iter().map(Value::Object).collect());
        }
        let segments = std::iter::once(first).chain(segments).collect();
        let mut trace = registrar.trace("art", segments, facts, &reward);
        trace.metrics = metrics.into_iter().collect();
        trace.category = origin::category(&request);
        trace.rewards = reward.map(|total| origin::given(&trace, "art", total)).into_iter().collect();
        trace.check().map_err(|error| FormatError::new(path, error.to_string()))?;
        let (hash, config) = registrar.config(config);
        trace.config = hash;
        imported.configs.extend(config);
        Ok(trace)
    }
}

fn model(metadata: &Map<String, Value>) -> Option<String> {
    metadata.get("model").and_then(Value::as_str).map(str::to_owned)
}

#[derive(Default)]
struct History {
    items: Option<Vec<Item>>,
    tools: Vec<Tool>,
    rest: Map<String, Value>,
}

impl Object for History {
    const WHAT: &'static str = "a history with `messages_and_choices`";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "messages_and_choices" => {
                let List(items) = map.next_value()?;
                self.items = Some(items);
            }
            "tools" => self.tools = object::list(&key, map, &mut self.rest)?,
            _ => object::leftover(key, map, &mut self.rest)?,
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        match self.items {
            Some(_) => Ok(()),
            None => Err(("", "`messages_and_choices` is missing".to_owned())),
        }
    }
}

impl History {
    fn into_segment(self) -> (Segment, Map<String, Value>) {
        let mut segment = chat::segment(self.items.unwrap_or_default(), |item, said| match item.choice {
            Some(message) => Some(choice::turn(std::mem::take(said), *message, item.chat.into_leftovers())),
            None => chat::take(item.chat.into_message(), said),
        });
        segment.tools = self.tools.into_iter().map(Tool::into_spec).collect();
        (segment, self.rest)
    }
}

/// A message, or a choice if it has `message`.
#[derive(Default)]
struct Item {
    choice: Option<Box<Message>>,
    chat: Chat,
}

impl Object for Item {
    const WHAT: &'static str = "a message or a choice";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        if key != "message" {
            return self.chat.field(key, map);
        }
        let Read(message) = map.next_value::<Read<Chat>>()?;
        if !message.is_answer() {
            let reason = "a choice is an answer: its role must be `assistant`";
            return Err(crate::format::error::inside(format_args!(".role"), &A::Error::custom(reason)));
        }
        self.choice = Some(Box::new(message.into_message()));
        Ok(())
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        match self.choice {
            None => self.chat.end(),
            Some(_) if self.chat.is_bare() => Ok(()),
            Some(_) => Err(("", "it has `message` as a choice has, and also the keys of a message".to_owned())),
        }
    }
}
