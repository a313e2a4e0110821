//! Mathematics with one right answer: word problems from a file, sums, and countdown.
//!
//! An episode is one question and one answer, checked exactly. Scenarios are complete: an episode needs nothing but its
//! scenario, so problems from a file are played where the file is not. A family's hash decides its split: problems that
//! differ only in their numbers, a sum and its turned form, all targets of the same countdown numbers.
//! Knows nothing of rewards.

mod answer;
mod countdown;
mod expression;
mod jsonl;
mod number;
mod sums;

pub use countdown::CountdownOptions;
pub use jsonl::{JsonlForm, JsonlOptions};
pub use sums::SumsOptions;

use crate::player::Scripted;
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::Conversation;
use hone_trace::{Category, Draws, ErrorEvent, Family, Message, Role, Scenario, ScenarioId, TraceOutcome, V1};
use number::Number;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Where the questions come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum MathSource {
    /// Word problems from a file.
    Jsonl(JsonlOptions),
    /// Additions and subtractions.
    Sums(SumsOptions),
    /// Reach a target with some numbers.
    Countdown(CountdownOptions),
}

impl Default for MathSource {
    fn default() -> Self {
        Self::Sums(SumsOptions::default())
    }
}

/// The world of mathematics.
#[derive(Debug, Clone)]
pub struct Math {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Jsonl(jsonl::Problems),
    Sums(SumsOptions),
    Countdown(CountdownOptions),
}

impl Math {
    /// The world with questions from this source. Reads the file where there is one.
    pub fn new(source: &MathSource) -> Result<Self, EnvError> {
        let source = match source {
            MathSource::Jsonl(options) => Source::Jsonl(jsonl::Problems::read(options)?),
            MathSource::Sums(options) => Source::Sums(options.checked()?),
            MathSource::Countdown(options) => Source::Countdown(options.checked()?),
        };
        Ok(Self { source })
    }
}

impl Env for Math {
    fn name(&self) -> &str {
        "math"
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        match &self.source {
            Source::Jsonl(problems) => Ok(problems.scenarios(split, seed, n)),
            Source::Sums(options) => Ok(generate(split, seed, n, |draws| {
                let level = options.level(draws);
                sums::draw(draws, level)
            })),
            Source::Countdown(options) => Ok(generate(split, seed, n, |draws| {
                let level = options.level(draws);
                countdown::draw(draws, options, level)
            })),
        }
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let task = Task::of(scenario)?;
        let question = scenario.input.get("question").and_then(Value::as_str);
        let question = question.ok_or_else(|| wrong(scenario, "it has no question"))?;
        let messages = vec![Message::text(Role::System, task.instructions()), Message::text(Role::User, question)];
        Ok(Reset { episode: Box::new(Question { task, is_over: false }), tools: Arc::default(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let right = match Task::of(scenario)? {
            Task::Number(right) => right.to_string(),
            Task::Countdown { .. } => {
                let truth = scenario.truth.as_ref().and_then(|truth| truth.get("expression")?.as_str());
                truth.ok_or_else(|| wrong(scenario, "it does not say an expression that is right"))?.to_owned()
            }
        };
        Ok(Box::new(Scripted(move |_: &[Message]| crate::said(format!("#### {right}")))))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let task = Task::of(scenario)?;
        let mut draws = Draws::new(seed, &["math", "random"]);
        Ok(Box::new(Scripted(move |_: &[Message]| {
            let guess = match &task {
                Task::Number(_) => draws.below(100).to_string(),
                Task::Countdown { numbers, .. } => countdown::guess(&mut draws, numbers),
            };
            crate::said(format!("#### {guess}"))
        })))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        let right = Judged { correct: 1.0, format: 1.0, closeness: 1.0 };
        Task::of(scenario).map_or_else(|_| Signals::default(), |task| right.signals(&task))
    }

    fn vary(&self, scenario: &Scenario, seed: u64) -> Option<Scenario> {
        let level = usize::try_from(scenario.input.get("level")?.as_u64()?).ok()?;
        let split = split_of(scenario.family.as_str());
        let mut draws = Draws::new(seed, &["math", "vary", scenario.id.as_str()]);
        (0..TRIES_PER_SCENARIO).find_map(|_| {
            let varied = match &self.source {
                Source::Jsonl(_) => None,
                Source::Sums(_) => Some(sums::draw(&mut draws, level)),
                Source::Countdown(options) => {
                    let fewer = level.saturating_sub(1).max(options.n_numbers_min).min(level);
                    Some(countdown::draw(&mut draws, options, fewer))
                }
            };
            let varied = varied.filter(|varied| split_of(varied.family.as_str()) == split && varied.id != scenario.id)?;
            // The same question may be in the list as well, and is another scenario there.
            let id = ScenarioId::new(format!("{}/{}", scenario.id, varied.id)).ok()?;
            Some(Scenario { id, ..varied })
        })
    }
}

/// What a source says of one question.
struct Draft {
    id: String,
    category: &'static str,
    input: Value,
    truth: Value,
    difficulty: Option<f64>,
    family: String,
}

impl Draft {
    fn scenario(self) -> Scenario {
        Scenario {
            v: V1,
            id: ScenarioId::new(self.id).expect("sources make ids of short words and numbers"),
            category: Category::new(self.category).expect("sources name categories by a word"),
            input: self.input,
            truth: Some(self.truth),
            difficulty: self.difficulty,
            family: Family::new(self.family).expect("sources make families of short words and numbers"),
        }
    }
}

/// So many questions are drawn for each that is wanted before a split counts as exhausted.
const TRIES_PER_SCENARIO: usize = 1000;

/// The first questions of a generator that belong to a split, each once.
fn generate(split: Split, seed: u64, n: usize, mut draw: impl FnMut(&mut Draws) -> Scenario) -> Vec<Scenario> {
    let mut draws = Draws::new(seed, &["math", split.as_str()]);
    let mut seen = std::collections::BTreeSet::new();
    let mut next = || {
        let fresh = |scenario: &Scenario| split_of(scenario.family.as_str()) == split && seen.insert(scenario.id.clone());
        (0..TRIES_PER_SCENARIO).map(|_| draw(&mut draws)).find(fresh)
    };
    (0..n).map_while(|_| next()).collect()
}

/// The split that a family belongs to: one in five is held back.
fn split_of(family: &str) -> Split {
    match Draws::new(0, &["math", "split", family]).below(10) {
        0 => Split::Validation,
        1 => Split::Test,
        _ => Split::Train,
    }
}

fn wrong(scenario: &Scenario, reason: &str) -> EnvError {
    EnvError::Scenario { scenario: scenario.id.to_string(), reason: reason.into() }
}

/// What is asked for.
enum Task {
    /// This number.
    Number(Number),
    /// An expression of these numbers, each used at most once, that comes to the target.
    Countdown { numbers: Vec<i64>, target: i64 },
}

impl Task {
    fn of(scenario: &Scenario) -> Result<Self, EnvError> {
        if let Some(target) = scenario.input.get("target") {
            let numbers = scenario.input.get("numbers").and_then(Value::as_array);
            let numbers = numbers.and_then(|numbers| numbers.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>());
            return match (numbers, target.as_i64().filter(|target| *target > 0)) {
                (Some(numbers), Some(target)) => Ok(Self::Countdown { numbers, target }),
                _ => Err(wrong(scenario, "its numbers and its target are not whole numbers")),
            };
        }
        let right = scenario.truth.as_ref().and_then(|truth| Number::parse(truth.get("answer")?.as_str()?));
        right.map(Self::Number).ok_or_else(|| wrong(scenario, "its answer is not a number"))
    }

    fn instructions(&self) -> &'static str {
        match self {
            Self::Number(_) => "Solve the problem. End with #### and the answer as a number, such as: #### 42",
            Self::Countdown { .. } => {
                "Write an arithmetic expression that comes to the target. Use each number at most once, and only + - * / and \
                 parentheses. End with #### and the expression, such as: #### (7 - 3) * 5"
            }
        }
    }

    fn judge(&self, text: &str) -> Judged {
        let flag = |is_so: bool| f64::from(u8::from(is_so));
        match self {
            Self::Number(right) => {
                let found = answer::number(text);
                let correct = flag(found.is_some_and(|found| found.number == *right));
                Judged { correct, format: flag(found.is_some_and(|found| found.is_marked)), closeness: correct }
            }
            Self::Countdown { numbers, target } => {
                let last_line = || text.trim().lines().next_back().unwrap_or("");
                let expression = answer::marked(text).unwrap_or_else(last_line);
                let fair = expression::evaluate(expression).filter(|done| countdown::is_within(&done.used, numbers));
                match fair {
                    Some(done) => Judged {
                        correct: flag(done.value == Number::whole(*target)),
                        format: 1.0,
                        closeness: countdown::closeness(done.value, *target),
                    },
                    None => Judged { correct: 0.0, format: 0.0, closeness: 0.0 },
                }
            }
        }
    }
}

struct Judged {
    correct: f64,
    format: f64,
    closeness: f64,
}

impl Judged {
    fn signals(&self, task: &Task) -> Signals {
        match task {
            Task::Number(_) => Signals::from([("correct", self.correct), ("format", self.format)]),
            Task::Countdown { .. } => {
                Signals::from([("correct", self.correct), ("format", self.format), ("closeness", self.closeness)])
            }
        }
    }
}

struct Question {
    task: Task,
    is_over: bool,
}

impl Play for Question {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if self.is_over {
            return Err(EnvError::Broken("math: the question is answered".into()));
        }
        self.is_over = true;
        let judged = self.task.judge(&action.content.text());
        let outcome = if judged.correct == 1.0 { TraceOutcome::Success } else { TraceOutcome::Failure };
        let unread = ErrorEvent { recovered: false, ..crate::unparsable("the answer is not in the form that was asked for") };
        let errors = if judged.format == 0.0 && judged.correct == 0.0 { vec![unread] } else { Vec::new() };
        Ok(Step { signals: judged.signals(&self.task), errors, done: Some(outcome), ..Step::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variation_stays_in_its_split() {
        for source in [MathSource::default(), MathSource::Countdown(CountdownOptions::default())] {
            let env = Math::new(&source).unwrap();
            for split in Split::ALL {
                for scenario in env.scenarios(split, 7, 20).unwrap() {
                    for varied in (0..10).map(|seed| env.vary(&scenario, seed).unwrap()) {
                        assert_eq!(split_of(varied.family.as_str()), split, "{}", varied.id);
                        assert_ne!(varied.input, scenario.input);
                        assert!(varied.id.as_str().starts_with(&format!("{}/", scenario.id)), "an id of its own: {}", varied.id);
                    }
                }
            }
        }
    }
}
