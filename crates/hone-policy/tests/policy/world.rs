//! A small world: add two numbers by a tool, then say the sum.

use hone_env::rollout::{Limits, Plan, rollout};
use hone_env::{Player, Scripted, call, calls, said, tool_result};
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::{Conversation, Policy};
use hone_trace::{
    Category, ErrorEvent, Family, Message, Role, Scenario, ScenarioId, ToolCall, ToolSpec, Trace, TraceOutcome, V1,
};
use serde_json::{Map, json};
use std::ops::ControlFlow;

pub(crate) struct Sums;

struct Sum(u64);

impl Env for Sums {
    fn name(&self) -> &str {
        "sums"
    }

    fn scenarios(&self, _split: Split, _seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let scenario = |i: usize| Scenario {
            v: V1,
            id: ScenarioId::new(format!("sums/{i}")).unwrap(),
            category: Category::new("sums").unwrap(),
            input: json!(i),
            truth: None,
            difficulty: None,
            family: Family::new(format!("sums/{i}")).unwrap(),
        };
        Ok((0..n).map(scenario).collect())
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let n = scenario.input.as_u64().unwrap();
        let tool = ToolSpec { name: "add".into(), description: None, parameters: json!({"type": "object"}), extra: Map::new() };
        let messages = vec![
            Message::text(Role::System, "Use the tool, then say the sum."),
            Message::text(Role::User, format!("case {n}: what is {n} and 1000?")),
        ];
        Ok(Reset { episode: Box::new(Sum(n)), tools: [tool].into(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let answer = scenario.input.as_u64().unwrap() + 1000;
        Ok(Box::new(Scripted(move |_: &[Message]| said(answer.to_string()))))
    }

    fn random(&self, _scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        Ok(Box::new(Scripted(|_: &[Message]| call("add", &json!({})))))
    }

    fn best(&self, _scenario: &Scenario) -> Signals {
        Signals::from([("right", 1.0)])
    }
}

impl Play for Sum {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let mut step = Step::default();
        for call in calls(action) {
            match call {
                Ok(call) => {
                    step.messages.push(tool_result(&call.id, &call.name, (self.0 + 1000).to_string()));
                    let (id, name, success) = (call.id, call.name, Some(true));
                    let duration_ms = Some(1.0);
                    step.tool_calls.push(ToolCall { id, name, arguments: json!({}), success, duration_ms, extra: Map::new() });
                }
                Err(error) => step.errors.push(error),
            }
        }
        if step.messages.is_empty() && step.errors.is_empty() {
            let is_right = action.content.text() == (self.0 + 1000).to_string();
            step.signals = Signals::from([("right", f64::from(u8::from(is_right)))]);
            step.done = Some(if is_right { TraceOutcome::Success } else { TraceOutcome::Failure });
        }
        Ok(step)
    }
}

/// Plays `n` scenarios once each.
pub(crate) fn play(policy: &dyn Policy, n: usize, n_concurrent: usize) -> Vec<Trace> {
    let scenarios = Sums.scenarios(Split::Test, 1, n).unwrap();
    let limits = Limits { turns_max: 4, answer_tokens_max: 100, ..Limits::default() };
    let plan = Plan { limits, n_concurrent, ..Plan::new("upstream", &scenarios, 1) };
    let mut traces = Vec::new();
    rollout(&Sums, Player::Policy(policy), &plan, |played| {
        traces.extend(played.traces);
        ControlFlow::Continue(())
    });
    traces.iter().for_each(|trace| trace.check().unwrap());
    traces
}

/// What went wrong on a trace, turn by turn: `kind` recovered, `kind!` not.
pub(crate) fn errors(trace: &Trace) -> Vec<String> {
    let word = |event: &ErrorEvent| format!("{}{}", event.kind, if event.recovered { "" } else { "!" });
    trace.turns().flat_map(|turn| &turn.errors).map(word).collect()
}
