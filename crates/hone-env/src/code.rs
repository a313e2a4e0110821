//! Programming problems: write a function, or mend one, so that its tests pass.
//!
//! Problems come from a file of MBPP or HumanEval, one JSON object a line. Programs and tests run in hone's own interpreter, so
//! only problems are played whose reference solution passes its tests there; how many these are is told. The world says what
//! became of the test that everyone may see, and of the others only how many passed.
//!
//! With `edit` a scenario starts from the reference with a slip in it, and the smaller the change that mends it the better. A
//! scenario is complete: an episode needs nothing but it. Knows nothing of rewards.

mod check;
mod problem;
mod told;

use crate::player::Scripted;
use check::{Checked, check};
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::Conversation;
use hone_trace::{Category, Draws, ErrorEvent, Family, Message, Role, Scenario, ScenarioId, TraceOutcome, V1};
use problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeOptions {
    /// A file of MBPP or HumanEval.
    pub path: PathBuf,
    /// Programs that an episode may try. Default 3.
    #[serde(default = "turns_max")]
    pub turns_max: usize,
    /// Start from a program with a slip in it. Default false.
    #[serde(default)]
    pub edit: bool,
}

impl CodeOptions {
    /// What the world is called on its traces and in recipes.
    pub fn world(&self) -> &'static str {
        if self.edit { "code-edit" } else { "code" }
    }
}

fn turns_max() -> usize {
    3
}

/// So often a program is changed in search of one that fails a test.
const SLIPS_MAX: usize = 40;

/// The world of programming problems.
#[derive(Debug, Clone)]
pub struct Code {
    options: CodeOptions,
    problems: Vec<Problem>,
    n_found: usize,
}

impl Code {
    /// The world with the problems of this file whose reference solutions pass their tests.
    pub fn new(options: CodeOptions) -> Result<Self, EnvError> {
        let wrong = |reason: String| EnvError::Data { place: options.path.display().to_string(), reason };
        if options.turns_max == 0 {
            return Err(wrong("turns_max must be at least 1".into()));
        }
        let mut problems = problem::read(&options.path)?;
        let n_found = problems.len();
        if n_found == 0 {
            return Err(wrong("there are no problems in it".into()));
        }
        problems.retain(|problem| check(&problem.reference, problem).is_solved());
        match problems.is_empty() {
            true => Err(wrong("no reference solution passes its tests in the subset of Python that is run".into())),
            false => Ok(Self { options, problems, n_found }),
        }
    }

    /// How many problems the file has, and how many of them are played.
    pub fn counts(&self) -> (usize, usize) {
        (self.n_found, self.problems.len())
    }

    fn scenario(&self, problem: &Problem, seed: u64) -> Result<Option<Scenario>, EnvError> {
        let wrong = |error: hone_trace::NameError| EnvError::Data { place: problem.id.clone(), reason: error.to_string() };
        let mut input = json!({"problem": problem, "turns_max": self.options.turns_max});
        let mut id = problem.id.clone();
        if self.options.edit {
            let Some(program) = damaged(problem, seed) else { return Ok(None) };
            id += &format!(".edit{:08x}", Draws::new(0, &["code", "program", &program]).bits() >> 32);
            input["program"] = program.into();
        }
        Ok(Some(Scenario {
            v: V1,
            id: ScenarioId::new(format!("code-{id}")).map_err(wrong)?,
            category: Category::new("code").map_err(wrong)?,
            // What is hidden is taken out of what an episode starts from and stands in the truth.
            truth: Some(json!({"reference": problem.reference, "tests": problem.tests})),
            input: {
                input["problem"]["reference"] = "".into();
                input["problem"]["tests"] = json!(problem.tests.first().map_or_else(Vec::new, |test| vec![test.clone()]));
                input
            },
            difficulty: Some(problem.difficulty()),
            family: Family::new(format!("code-{}", problem.id)).map_err(wrong)?,
        }))
    }
}

/// The reference with a slip in it, so that it fails a test; `None` where no slip does that.
fn damaged(problem: &Problem, seed: u64) -> Option<String> {
    let mut draws = Draws::new(seed, &["code", "slip", &problem.id]);
    let slips = (0..SLIPS_MAX).map(|_| told::with_a_slip(&problem.reference, &mut draws));
    slips.filter(|changed| *changed != problem.reference).find(|changed| !check(changed, problem).is_solved())
}

impl Env for Code {
    fn name(&self) -> &str {
        self.options.world()
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let mut problems: Vec<&Problem> = self.problems.iter().filter(|problem| problem.split == split).collect();
        Draws::new(seed, &["code", split.as_str()]).shuffle(&mut problems);
        let mut scenarios = Vec::new();
        for problem in problems {
            if scenarios.len() == n {
                break;
            }
            scenarios.extend(self.scenario(problem, seed)?);
        }
        Ok(scenarios)
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let stage = Stage::of(scenario)?;
        let messages = vec![Message::text(Role::System, told::INSTRUCTIONS), Message::text(Role::User, told::problem(&stage))];
        Ok(Reset { episode: Box::new(Episode { stage, n_programs: 0, is_over: false }), tools: Arc::default(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let answer = told::block(&Stage::of(scenario)?.problem.reference);
        Ok(Box::new(Scripted(move |_: &[Message]| crate::said(answer.clone()))))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let stage = Stage::of(scenario)?;
        let mut draws = Draws::new(seed, &["code", "random"]);
        Ok(Box::new(Scripted(move |_: &[Message]| crate::said(told::block(&told::guess(&stage, &mut draws))))))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        Stage::of(scenario).map_or_else(
            |_| Signals::default(),
            |stage| stage.signals(&stage.problem.reference, &stage.checked(&stage.problem.reference)),
        )
    }
}

/// What an episode is played on, read from its scenario.
struct Stage {
    problem: Problem,
    program: Option<String>,
    /// The share of tests that the program at the start passes.
    start: f64,
    turns_max: usize,
}

#[derive(Deserialize)]
struct Given {
    problem: Problem,
    turns_max: usize,
    program: Option<String>,
}

#[derive(Deserialize)]
struct Hidden {
    reference: String,
    tests: Vec<String>,
}

impl Stage {
    fn of(scenario: &Scenario) -> Result<Self, EnvError> {
        let wrong = |reason: String| EnvError::Scenario { scenario: scenario.id.to_string(), reason };
        let Given { problem, turns_max, program } =
            Given::deserialize(&scenario.input).map_err(|error| wrong(error.to_string()))?;
        let truth = scenario.truth.as_ref().ok_or_else(|| wrong("its tests are missing".into()))?;
        let Hidden { reference, tests } = Hidden::deserialize(truth).map_err(|error| wrong(error.to_string()))?;
        let problem = Problem { reference, tests, ..problem };
        let start = program.as_ref().map_or(0.0, |program| check(program, &problem).passed());
        Ok(Self { problem, program, start, turns_max })
    }

    fn checked(&self, program: &str) -> Checked {
        check(program, &self.problem)
    }

    /// What is measured of a program. A change is small only where it gained something.
    fn signals(&self, program: &str, checked: &Checked) -> Signals {
        let flag = |is_so: bool| if is_so { 1.0 } else { 0.0 };
        let passed = checked.passed();
        let mut signals = Signals::from([
            ("solved", flag(checked.is_solved())),
            ("valid_syntax", flag(checked.is_valid())),
            ("tests_passed", passed),
            ("tests_gained", passed - self.start),
        ]);
        if let Some(before) = &self.program {
            let small = if passed > self.start { told::minimality(before, program, &self.problem.reference) } else { 0.0 };
            signals.0.push(("small_change".into(), small));
        }
        signals
    }
}

/// One problem, from the first program to the last.
struct Episode {
    stage: Stage,
    n_programs: usize,
    is_over: bool,
}

impl Play for Episode {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if self.is_over {
            return Err(EnvError::Broken("code: the episode has ended".into()));
        }
        self.n_programs += 1;
        let program = told::program(&action.content.text());
        let checked = self.stage.checked(&program);
        let mut step = Step { signals: self.stage.signals(&program, &checked), ..Step::default() };
        if let Some(reason) = checked.invalid() {
            step.errors.push(ErrorEvent { kind: "unparsable_action".into(), recovered: true, message: reason.to_owned() });
        }
        if checked.is_solved() || self.n_programs >= self.stage.turns_max {
            self.is_over = true;
            step.done = Some(if checked.is_solved() { TraceOutcome::Success } else { TraceOutcome::Failure });
        } else {
            step.messages.push(Message::text(Role::User, told::verdict(&checked, &self.stage.problem)));
        }
        Ok(step)
    }
}
