//! One task, from the first program to the last.

use super::Stage;
use super::score::{Attempt, Score};
use super::told::{self, Answer};
use hone_trace::env::{EnvError, Play, Signals, Step};
use hone_trace::{ErrorEvent, Message, Role, ToolCall, ToolRequest, TraceOutcome};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Calls of one answer that are carried out; more are refused.
const CALLS_MAX: usize = 8;
/// Answers in a row that only call tools.
const TOOL_TURNS_MAX: usize = 16;
/// What a run takes by the world's own clock.
const RUN_MS: f64 = 1.0;

/// An episode.
pub(super) struct Episode {
    stage: Stage,
    n_programs: usize,
    n_tool_turns: usize,
    is_over: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunArguments {
    program: String,
    example: usize,
}

impl Episode {
    pub(super) fn new(stage: Stage) -> Self {
        Self { stage, n_programs: 0, n_tool_turns: 0, is_over: false }
    }

    /// Runs a program on one train pair and says what came of it; a call too many, of which `idx` tells, is refused.
    fn try_out(&self, idx: usize, request: &ToolRequest, step: &mut Step) {
        let arguments: Value = serde_json::from_str(&request.arguments).unwrap_or(Value::Null);
        let told = match (request.name == told::RUN, RunArguments::deserialize(&arguments)) {
            _ if idx >= CALLS_MAX => Err(format!("at most {CALLS_MAX} calls at once")),
            (false, _) => Err(format!("there is no tool {}; there is {}", request.name, told::RUN)),
            (true, Err(error)) => Err(format!("wrong arguments of {}: {error}", told::RUN)),
            (true, Ok(asked)) => self.run_example(&asked),
        };
        let text = told.as_ref().map_or_else(|refusal| format!("error: {refusal}"), Clone::clone);
        let id = (!request.id.is_empty()).then(|| request.id.clone());
        step.messages.push(Message { tool_call_id: id, name: Some(request.name.clone()), ..Message::text(Role::Tool, text) });
        step.tool_calls.push(ToolCall {
            id: request.id.clone(),
            name: request.name.clone(),
            arguments,
            success: Some(told.is_ok()),
            duration_ms: Some(RUN_MS),
            extra: Map::new(),
        });
        if let Err(message) = told {
            step.errors.push(ErrorEvent { kind: "bad_arguments".into(), recovered: true, message });
        }
    }

    fn run_example(&self, asked: &RunArguments) -> Result<String, String> {
        let n_train = self.stage.n_train;
        let nth = asked.example.checked_sub(1).filter(|nth| *nth < n_train);
        let pair = nth.map(|nth| &self.stage.pairs[nth]).ok_or_else(|| format!("there are examples 1 to {n_train}"))?;
        let made = Attempt::of(&asked.program).and_then(|attempt| attempt.run(&pair.input));
        Ok(told::made(&made, &pair.output))
    }

    /// Runs a program on all pairs. Says what it made of the train pairs; the episode ends when these are right.
    fn judge(&mut self, program: &str, n_thoughts: usize) -> Step {
        self.n_programs += 1;
        let mut step = Step::default();
        let attempt = Attempt::of(program);
        let (score, verdict) = match &attempt {
            Ok(attempt) => {
                let (score, made) = Score::on(attempt, &self.stage.pairs);
                let n_train = self.stage.n_train;
                let is_done =
                    made.iter().zip(&self.stage.pairs).take(n_train).all(|(made, pair)| made.as_ref() == Ok(&pair.output));
                (score, if is_done { None } else { Some(told::verdict(program, &self.stage.pairs[..n_train], &made)) })
            }
            Err(reason) => {
                step.errors.push(ErrorEvent { kind: "unparsable_action".into(), recovered: true, message: reason.clone() });
                (Score::WRONG, Some(told::invalid(program, reason)))
            }
        };
        step.signals = signals(&score, self.stage.start, 0, n_thoughts);
        match verdict {
            Some(verdict) if self.n_programs < self.stage.turns_max => step.messages.push(Message::text(Role::User, verdict)),
            _ => {
                self.is_over = true;
                step.done = Some(if score.is_solved { TraceOutcome::Success } else { TraceOutcome::Failure });
            }
        }
        step
    }
}

impl Play for Episode {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if self.is_over {
            return Err(EnvError::Broken("arc: the episode has ended".into()));
        }
        let Answer { program, thoughts } = told::answer_of(&action.content.text());
        let n_thoughts = thoughts.len();
        if action.tool_calls.is_empty() {
            return Ok(self.judge(&program, n_thoughts));
        }
        let mut step = Step::default();
        let n_runs = action.tool_calls.len().min(CALLS_MAX);
        action.tool_calls.iter().enumerate().for_each(|(idx, request)| self.try_out(idx, request, &mut step));
        self.n_tool_turns += 1;
        step.signals = Signals::from([("runs", n_runs as f64), ("thoughts", n_thoughts as f64)]);
        if self.n_tool_turns >= TOOL_TURNS_MAX {
            self.is_over = true;
            let message = format!("no program in {TOOL_TURNS_MAX} answers that call tools");
            step.errors.push(ErrorEvent { kind: "turn_limit".into(), recovered: false, message });
            step.done = Some(TraceOutcome::Failure);
        }
        Ok(step)
    }
}

/// What is measured of a program, and what it took.
pub(super) fn signals(score: &Score, start: f64, n_runs: usize, n_thoughts: usize) -> Signals {
    let flag = |is_so: bool| if is_so { 1.0 } else { 0.0 };
    Signals::from([
        ("solved", flag(score.is_solved)),
        ("valid_syntax", flag(score.is_valid)),
        ("right_shape", score.right_shape),
        ("right_pixels", score.right_pixels),
        ("correctness", score.correctness),
        ("correctness_gain", score.correctness - start),
        ("runs", n_runs as f64),
        ("thoughts", n_thoughts as f64),
    ])
}
