//! What must not be learned from: scenarios of a test or validation split, and whatever a list names.

use crate::facts::Facts;
use hone_trace::Trace;
use hone_trace::env::Split;
use serde_json::Value;
use std::collections::HashSet;

/// What is held out for tests.
#[derive(Debug, Clone, Default)]
pub struct HeldOut {
    names: HashSet<String>,
}

/// The most names of a list.
const N_NAMES_MAX: usize = 10_000_000;

impl HeldOut {
    /// Adds what a line of a list names: a scenario, a family or a trace by its id, as text or as JSON, or a whole trace.
    pub fn add(&mut self, line: &str, user_field: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if self.names.len() >= N_NAMES_MAX {
            return Err(format!("a list names at most {N_NAMES_MAX}"));
        }
        if !line.starts_with(['{', '"']) {
            self.names.insert(line.to_owned());
            return Ok(());
        }
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if value.get("segments").is_some() {
            let trace: Trace = serde_json::from_value(value).map_err(|error| error.to_string())?;
            let facts = Facts::of(&trace, user_field);
            self.names.extend([Some(facts.id.to_string()), facts.scenario, facts.family].into_iter().flatten());
            return Ok(());
        }
        let named: Vec<&str> = match &value {
            Value::String(name) => vec![name],
            other => ["id", "scenario", "family"].iter().filter_map(|key| other.get(key)?.as_str()).collect(),
        };
        if named.is_empty() {
            return Err("there is no `id`, `scenario` or `family` in it".into());
        }
        self.names.extend(named.into_iter().map(ToOwned::to_owned));
        Ok(())
    }

    /// Why a trace is held out, if it is.
    pub fn has(&self, trace: &Trace, facts: &Facts) -> Option<String> {
        let held = |split: &str| [Split::Test, Split::Validation].into_iter().find(|held| held.as_str() == split);
        if let Some(scenario) = &trace.scenario
            && let Some(split) = scenario.as_str().split('/').nth(1).and_then(held)
        {
            return Some(format!("scenario {scenario} is of the {} split", split.as_str()));
        }
        if let Some(split) = trace.metadata.get("split").and_then(Value::as_str).and_then(held) {
            return Some(format!("it says that it is of the {} split", split.as_str()));
        }
        let id = Some(facts.id.to_string());
        let named = [("trace", &id), ("scenario", &facts.scenario), ("family", &facts.family)];
        let mut named = named.into_iter().filter_map(|(what, name)| Some((what, name.as_ref()?)));
        let (what, name) = named.find(|(_, name)| self.names.contains(*name))?;
        Some(format!("{what} {name} is held out"))
    }
}
