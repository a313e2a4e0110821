//! What the server sends, before it is believed.

use hone_trace::env::{Signals, Step};
use hone_trace::{Category, ErrorEvent, Family, Message, Scenario, ScenarioId, ToolCall, ToolSpec, TraceOutcome, V1};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Signals of one step.
const SIGNALS_MAX: usize = 64;
/// Bytes of a signal's name.
const NAME_BYTES_MAX: usize = 64;

/// `GET /world`.
#[derive(Deserialize)]
pub(super) struct World {
    pub(super) name: String,
    pub(super) protocol: u32,
}

/// One of `POST /scenarios`, and what `POST /reset` begins.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireScenario {
    id: ScenarioId,
    category: Category,
    input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    truth: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    difficulty: Option<f64>,
    family: Family,
}

impl From<WireScenario> for Scenario {
    fn from(wire: WireScenario) -> Self {
        let WireScenario { id, category, input, truth, difficulty, family } = wire;
        Self { v: V1, id, category, input, truth, difficulty, family }
    }
}

impl From<&Scenario> for WireScenario {
    fn from(scenario: &Scenario) -> Self {
        let Scenario { id, category, input, truth, difficulty, family, .. } = scenario.clone();
        Self { id, category, input, truth, difficulty, family }
    }
}

/// `POST /reset`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireReset {
    pub(super) episode: String,
    #[serde(default)]
    pub(super) tools: Vec<ToolSpec>,
    pub(super) messages: Vec<Message>,
    #[serde(default)]
    best: Map<String, Value>,
}

impl WireReset {
    pub(super) fn best(&self) -> Result<Signals, String> {
        signals(&self.best)
    }
}

/// `POST /step`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireStep {
    messages: Vec<Message>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    errors: Vec<ErrorEvent>,
    #[serde(default)]
    signals: Map<String, Value>,
    done: Option<TraceOutcome>,
}

impl WireStep {
    /// The step, or what of it cannot be true.
    pub(super) fn step(self) -> Result<Step, String> {
        if let Some(call) = self.tool_calls.iter().find(|call| call.duration_ms.is_some_and(|ms| !ms.is_finite() || ms < 0.0)) {
            return Err(format!("tool call {}: duration_ms is negative", call.name));
        }
        let signals = signals(&self.signals)?;
        let Self { messages, tool_calls, errors, done, .. } = self;
        Ok(Step { messages, tool_calls, errors, signals, done })
    }
}

/// `POST /gold`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireGold {
    pub(super) action: Message,
}

/// In the order of their names, so that the order of a server's keys does not matter.
fn signals(wire: &Map<String, Value>) -> Result<Signals, String> {
    if wire.len() > SIGNALS_MAX {
        return Err(format!("{} signals, at most {SIGNALS_MAX} are taken", wire.len()));
    }
    let mut signals: Vec<(Cow<'static, str>, f64)> = Vec::with_capacity(wire.len());
    for (name, value) in wire {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(format!("signal {name:?}: a name has 1 to {NAME_BYTES_MAX} printable bytes"));
        }
        match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => signals.push((Cow::Owned(name.clone()), number)),
            None => return Err(format!("signal {name:?} is not a finite number")),
        }
    }
    signals.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Signals(signals))
}
