//! `external`: a world of the user's own, behind a few JSON requests over HTTP. `examples/external_env.py` is a whole one.
//!
//! | request | answer |
//! |---|---|
//! | `GET /world` | `{"name": "shop", "protocol": 1}` |
//! | `POST /scenarios {"split": "train", "seed": 1, "n": 8}` | `[{"id", "category", "input", "truth"?, "difficulty"?, "family"}]`, at most n |
//! | `POST /reset {"scenario": {…}, "seed": 7}` | `{"episode": "e1", "tools"?: [{"name", "description", "parameters"}], "messages": [{"role", "content"}], "best"?: {signal: number}}` |
//! | `POST /step {"episode": "e1", "step_idx": 0, "action": {"role": "assistant", "content"?, "tool_calls"?: [{"id", "name", "arguments"}]}}` | `{"messages": […], "tool_calls"?: [{"id", "name", "arguments", "success", "duration_ms"}], "errors"?: [{"type", "recovered", "message"}], "signals"?: {name: number}, "done": null}` |
//! | `POST /gold {"episode": "e1"}`, optional | `{"action": {…}}`, or `null` when it has nothing to say |
//!
//! `done` is `null`, `"success"`, `"failure"` or `"unknown"`. `arguments` of an action are the policy's own text, which may not be
//! JSON; a tool's result is a message `{"role": "tool", "tool_call_id", "name", "content"}`. Seeds are whole numbers below 2^64.
//!
//! A request that got no answer, or a status of 5xx or 429, is sent again. A step is known by its episode and `step_idx`: the
//! server answers a repeated one as it did before, without doing it twice. A seed and the actions fix everything, so whoever
//! asks for gold plays beside the episode in a twin of it, which begins with the same scenario and seed.
//!
//! A server that breaks breaks the episode and not the run. A step is waited for as long as a request may take, and no longer than the
//! episode has left: one that is late for that ends the episode at its limit. Nothing it sends is believed before it is checked.

mod client;
mod random;
mod wire;

use client::{Client, Failure};
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::{AnswerLimits, Answered, Conversation, PolicyError, PolicyErrorKind};
use hone_trace::{Draws, Message, Scenario, ToolSpec};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{WireGold, WireReset, WireScenario, WireStep, World};

/// The protocol that this world speaks.
const PROTOCOL: u32 = 1;
/// Scenarios of one request.
const SCENARIOS_MAX: usize = 10_000;
/// Scenarios whose best signals and tools are remembered.
const KNOWN_MAX: usize = 10_000;

/// How a server is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalOptions {
    /// How long a request may take.
    pub timeout_ms: u64,
    /// How often a request without an answer is sent again.
    pub retries: u32,
    /// The longest answer that is read.
    pub body_bytes_max: usize,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        Self { timeout_ms: 30_000, retries: 2, body_bytes_max: 4 << 20 }
    }
}

/// The world.
pub struct External {
    name: String,
    server: Arc<Client>,
    /// What a reset of each scenario told.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    tools: Arc<[ToolSpec]>,
    best: Signals,
}

impl External {
    /// Asks the server who it is. Blocks, as all of this world does: not for use inside an asynchronous task.
    pub fn connect(url: &str, options: ExternalOptions) -> Result<Self, EnvError> {
        let server = Client::new(url, options).map_err(data)?;
        let World { name, protocol } = server.get("world").map_err(data)?;
        let refused = |reason: String| EnvError::Data { place: url.into(), reason };
        if protocol != PROTOCOL {
            return Err(refused(format!("the world speaks protocol {protocol}, and only {PROTOCOL} is known here")));
        }
        if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
            return Err(refused("the name of a world has 1 to 64 printable bytes".into()));
        }
        Ok(Self { name, server: Arc::new(server), known: Mutex::new(BTreeMap::new()) })
    }

    /// Begins an episode on the server and remembers what every reset of the scenario tells.
    fn begin(&self, scenario: &Scenario, seed: u64) -> Result<(Episode, WireReset), EnvError> {
        let body = json!({ "scenario": WireScenario::from(scenario), "seed": seed });
        let reset: WireReset = self.server.post("reset", &body).map_err(broken)?;
        let best = reset.best().map_err(|reason| EnvError::Broken(format!("{}/reset: best: {reason}", self.name)))?;
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.pop_first();
        }
        known.insert(scenario.id.to_string(), Known { tools: reset.tools.clone().into(), best });
        Ok((Episode { server: Arc::clone(&self.server), id: reset.episode.clone(), step_idx: 0 }, reset))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a reset of this scenario tells.
    fn ask(&self, scenario: &Scenario, seed: u64) -> Result<Known, EnvError> {
        if let Some(known) = self.known().get(scenario.id.as_str()) {
            return Ok(known.clone());
        }
        let (_, reset) = self.begin(scenario, seed)?;
        let best = reset.best().unwrap_or_default();
        Ok(Known { tools: reset.tools.into(), best })
    }
}

impl Env for External {
    fn name(&self) -> &str {
        &self.name
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let n = n.min(SCENARIOS_MAX);
        let body = json!({ "split": split, "seed": seed, "n": n });
        let scenarios: Vec<WireScenario> = self.server.post("scenarios", &body).map_err(data)?;
        let scenarios: Vec<Scenario> = scenarios.into_iter().map(Scenario::from).collect();
        let refused = |reason: String| EnvError::Data { place: format!("{}/scenarios", self.name), reason };
        if scenarios.len() > n {
            return Err(refused(format!("{} scenarios came, {n} were asked for", scenarios.len())));
        }
        let mut ids = BTreeSet::new();
        match scenarios.iter().find(|scenario| !ids.insert(&scenario.id)) {
            Some(twice) => Err(refused(format!("scenario {} came twice", twice.id))),
            None => Ok(scenarios),
        }
    }

    fn reset(&self, scenario: &Scenario, seed: u64) -> Result<Reset, EnvError> {
        let (episode, reset) = self.begin(scenario, seed)?;
        Ok(Reset { episode: Box::new(episode), tools: reset.tools.into(), messages: reset.messages })
    }

    fn gold(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        Ok(Box::new(Gold { twin: self.begin(scenario, seed)?.0 }))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let tools = self.ask(scenario, seed)?.tools;
        Ok(random::random(tools, Draws::new(seed, &["external", "random", scenario.id.as_str()])))
    }

    /// What the server's last reset of this scenario told; nothing where it tells nothing.
    fn best(&self, scenario: &Scenario) -> Signals {
        self.ask(scenario, 0).map(|known| known.best).unwrap_or_default()
    }
}

struct Episode {
    server: Arc<Client>,
    id: String,
    step_idx: usize,
}

impl Play for Episode {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.step_within(action, None)
    }

    fn step_within(&mut self, action: &Message, time_max_ms: Option<u64>) -> Result<Step, EnvError> {
        let body = json!({ "episode": self.id, "step_idx": self.step_idx, "action": action });
        let step: WireStep = self.server.post_within("step", &body, time_max_ms).map_err(broken)?;
        self.step_idx += 1;
        step.step().map_err(|reason| EnvError::Broken(format!("step {} of episode {}: {reason}", self.step_idx - 1, self.id)))
    }
}

/// Plays what the server calls the best action, in an episode of its own.
struct Gold {
    twin: Episode,
}

impl Conversation for Gold {
    fn answer(&mut self, _input: &[Message], limits: AnswerLimits) -> Result<Answered, PolicyError> {
        let refused = |kind, message| PolicyError { kind, message, llm_calls: Vec::new() };
        let body = json!({ "episode": self.twin.id });
        let gold: Result<Option<WireGold>, Failure> = self.twin.server.post_within("gold", &body, limits.time_max_ms);
        let action = match gold {
            Ok(gold) => gold.map_or_else(|| crate::said(""), |gold| gold.action),
            Err(failure) if failure.is_missing => {
                return Err(refused(PolicyErrorKind::Refused, format!("{}: this world has no gold", failure.url)));
            }
            Err(failure) if failure.is_late => return Err(refused(PolicyErrorKind::Timeout, failure.text())),
            Err(failure) => return Err(refused(PolicyErrorKind::Provider, failure.text())),
        };
        self.twin.step_within(&action, limits.time_max_ms).map_err(|error| match error {
            EnvError::Late(reason) => refused(PolicyErrorKind::Timeout, reason),
            error => refused(PolicyErrorKind::Provider, error.to_string()),
        })?;
        Ok(Answered::of(action))
    }
}

fn data(failure: Failure) -> EnvError {
    EnvError::Data { place: failure.url, reason: failure.reason }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn broken(failure: Failure) -> EnvError {
    if failure.is_late { EnvError::Late(failure.text()) } else { EnvError::Broken(failure.text()) }
}
