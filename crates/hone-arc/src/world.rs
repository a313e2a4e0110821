//! The world of ARC tasks: see pairs of grids, write the program that turns one into the other.
//!
//! A scenario is a task with its train pairs and test inputs; the test outputs are hidden. An action is a program, perhaps
//! after thinking; the world runs it on the train pairs and says what it made of them, until all are right or the turns
//! are used up. A tool runs a program on one pair without using a turn's verdict, and is counted. With `edit`, a scenario
//! starts from a program that is almost right, and what counts is what an edit gains: such a world is called `arc-edit`.
//!
//! A scenario is complete: an episode needs nothing but it. Families are tasks, so that all augmentations of a task are in
//! one split. Knows nothing of rewards.

mod editor;
mod episode;
mod score;
mod told;

use crate::augment::Augmentation;
use crate::grid::Grid;
use crate::measure::difficulty;
use crate::parts;
use crate::regenerate::regenerated;
use crate::shipped;
use crate::task::{Pair, Task};
use episode::Episode;
use hone_trace::env::{Env, EnvError, Reset, Signals, Split};
use hone_trace::policy::{AnswerLimits, Answered, Conversation, PolicyError};
use hone_trace::{Category, Draws, Family, Message, Role, Scenario, ScenarioId, V1};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;

pub use editor::editor;
pub use score::{Attempt, Score};
pub use told::{Answer, answer_of};

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArcOptions {
    /// The tasks: a folder of JSON files, a JSONL file or one JSON file.
    pub path: PathBuf,
    /// Programs that an episode may try. Default 4.
    #[serde(default = "turns_max")]
    pub turns_max: usize,
    /// Scenarios that are made of each task besides itself, turned, mirrored and recoloured. Default 0.
    #[serde(default)]
    pub augmented: usize,
    /// Scenarios that are made of each task for which a program ships, with inputs of their own. Default 0.
    #[serde(default)]
    pub regenerated: usize,
    /// Start from a program that is almost right. Only tasks with a shipped program are played then. Default false.
    #[serde(default)]
    pub edit: bool,
}

impl ArcOptions {
    /// The tasks of this folder or file, everything else as it is by default.
    pub fn new(path: PathBuf) -> Self {
        Self { path, turns_max: turns_max(), augmented: 0, regenerated: 0, edit: false }
    }

    /// What the world is called on its traces and in recipes.
    pub fn world(&self) -> &'static str {
        if self.edit { EDITING } else { "arc" }
    }
}

fn turns_max() -> usize {
    4
}

/// The name of the world in which programs are edited.
const EDITING: &str = "arc-edit";
/// The most scenarios that are made of one task.
const MADE_MAX: usize = 1000;
/// How the id of a variation ends.
const VARIED: &str = ".varied";
/// So often a program is changed in search of one that is wrong.
const EDITS_MAX: usize = 50;

/// The world of ARC tasks.
#[derive(Debug, Clone)]
pub struct ArcWorld {
    name: &'static str,
    options: ArcOptions,
    tasks: Vec<Task>,
    /// The split of each of the tasks.
    splits: Vec<Split>,
}

impl ArcWorld {
    /// The world with the tasks of this folder or file.
    pub fn new(options: ArcOptions) -> Result<Self, EnvError> {
        let wrong = |reason: String| EnvError::Data { place: options.path.display().to_string(), reason };
        if options.turns_max == 0 {
            return Err(wrong("turns_max must be at least 1".into()));
        }
        let n_made = options.augmented.max(options.regenerated);
        if n_made > MADE_MAX || (options.edit && n_made > 0) {
            return Err(wrong(format!(
                "augmented and regenerated are at most {MADE_MAX}, and 0 with edit: programs are for the tasks as they are"
            )));
        }
        let mut tasks = parts::read(&options.path).map_err(|error| wrong(error.to_string()))?;
        if options.edit {
            tasks.retain(|(task, _)| shipped::programs().contains_key(task.id.as_str()));
        }
        let (tasks, splits): (Vec<Task>, Vec<Split>) = tasks.into_iter().unzip();
        match tasks.iter().find(|task| task.test.is_empty()) {
            Some(task) => Err(wrong(format!("the task `{}` has no test pair", task.id))),
            None => Ok(Self { name: options.world(), options, tasks, splits }),
        }
    }

    /// The world of editing programs of these tasks, whether a program ships for them or not: see [`Self::edit`].
    pub fn editing(options: ArcOptions) -> Result<Self, EnvError> {
        Ok(Self { name: EDITING, ..Self::new(options)? })
    }

    /// The tasks that it plays, ordered by id.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task of this id: one of the file, or one that was augmented from it.
    pub fn task(&self, id: &str) -> Option<Task> {
        let own = |id: &str| self.tasks.iter().find(|task| task.id == id);
        own(id).cloned().or_else(|| {
            let (base, augmentation) = Augmentation::named(id)?;
            own(base).map(|task| augmentation.apply(task))
        })
    }

    /// The split that a task belongs to, with all that is made of it.
    pub fn split(&self, task: &Task) -> Split {
        self.tasks.iter().position(|own| own.id == task.family).map_or(Split::Test, |nth| self.splits[nth])
    }

    /// The scenario of changing this program until it solves the task.
    pub fn edit(&self, task: &Task, program: &str) -> Result<Scenario, EnvError> {
        self.scenario(task, Some(program.to_owned()))
    }

    /// The scenario of a task, starting from a program where there is one.
    fn scenario(&self, task: &Task, program: Option<String>) -> Result<Scenario, EnvError> {
        let wrong = |reason: String| EnvError::Data { place: self.options.path.display().to_string(), reason };
        let train: Vec<Value> =
            task.train.iter().map(|pair| json!({"input": rows(&pair.input), "output": rows(&pair.output)})).collect();
        let inputs: Vec<Value> = task.test.iter().map(|pair| rows(&pair.input)).collect();
        let outputs: Vec<Value> = task.test.iter().map(|pair| rows(&pair.output)).collect();
        let mut input = json!({"task": task.id, "train": train, "test": inputs, "turns_max": self.options.turns_max});
        let id = match program {
            Some(program) => {
                let id = format!("{}.edit{:08x}", task.id, Draws::new(0, &["arc", "program", &program]).bits() >> 32);
                input["program"] = program.into();
                id
            }
            None => task.id.clone(),
        };
        Ok(Scenario {
            v: V1,
            id: ScenarioId::new(format!("arc-{id}")).map_err(|error| wrong(error.to_string()))?,
            category: Category::new("arc").map_err(|error| wrong(error.to_string()))?,
            input,
            truth: Some(json!({"test": outputs})),
            difficulty: Some(difficulty(task)),
            family: Family::new(format!("arc-{}", task.family)).map_err(|error| wrong(error.to_string()))?,
        })
    }

    /// All scenarios of a task: itself and its augmentations, or with an almost right program.
    fn scenarios_of(&self, task: &Task, seed: u64) -> Result<Vec<Scenario>, EnvError> {
        let mut draws = Draws::new(seed, &["arc", &task.id]);
        if self.options.edit {
            return Ok(almost_right(task, &mut draws)
                .map(|program| self.scenario(task, Some(program)))
                .transpose()?
                .into_iter()
                .collect());
        }
        let augmented = (0..self.options.augmented).map(|_| Augmentation::draw(&mut draws, task.train.len()).apply(task));
        let mut all: Vec<Task> = std::iter::once(task.clone()).chain(augmented).collect();
        if let Some(program) = shipped::programs().get(task.id.as_str()) {
            let mut draws = Draws::new(seed, &["arc", "regenerated", &task.id]);
            all.extend((0..self.options.regenerated).filter_map(|_| regenerated(task, program, &mut draws)));
        }
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|a, b| a.id == b.id);
        all.iter().map(|task| self.scenario(task, None)).collect()
    }
}

impl Env for ArcWorld {
    fn name(&self) -> &str {
        self.name
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let mut scenarios = Vec::new();
        for (task, _) in self.tasks.iter().zip(&self.splits).filter(|(_, of)| **of == split) {
            scenarios.extend(self.scenarios_of(task, seed)?);
        }
        Draws::new(seed, &["arc", split.as_str()]).shuffle(&mut scenarios);
        scenarios.truncate(n);
        Ok(scenarios)
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let stage = Stage::of(scenario)?;
        let messages =
            vec![Message::text(Role::System, told::instructions(stage.turns_max)), Message::text(Role::User, told::task(&stage))];
        Ok(Reset { episode: Box::new(Episode::new(stage)), tools: told::tools(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let stage = Stage::of(scenario)?;
        let program = shipped::solution(&stage.id).unwrap_or_else(|| told::lookup(&stage.pairs));
        Ok(Box::new(Scripted(move || told::answer(&program))))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        Stage::of(scenario)?;
        let mut draws = Draws::new(seed, &["arc", "random"]);
        Ok(Box::new(Scripted(move || told::answer(&told::guess(&mut draws)))))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        Stage::of(scenario).map_or_else(|_| Signals::default(), |stage| episode::signals(&Score::RIGHT, stage.start, 0, 0))
    }

    /// The task turned, mirrored and recoloured. A program that is there is for the task as it is.
    fn vary(&self, scenario: &Scenario, seed: u64) -> Option<Scenario> {
        let stage = Stage::of(scenario).ok().filter(|stage| stage.program.is_none())?;
        let family = scenario.family.as_str().strip_prefix("arc-")?.to_owned();
        let (train, test) = stage.pairs.split_at(stage.n_train);
        let task = Task { id: stage.id.clone(), family, train: train.to_vec(), test: test.to_vec() };
        let mut other = Augmentation::draw(&mut Draws::new(seed, &["arc", "vary", &task.id]), train.len()).apply(&task);
        other.id += VARIED;
        self.scenario(&other, None).ok()
    }
}

/// A conversation that says what a function gives.
struct Scripted<F>(F);

impl<F: FnMut() -> Message + Send> Conversation for Scripted<F> {
    fn answer(&mut self, _input: &[Message], _limits: AnswerLimits) -> Result<Answered, PolicyError> {
        Ok(Answered::of((self.0)()))
    }
}

/// A shipped program with one word changed so that it no longer solves its task.
fn almost_right(task: &Task, draws: &mut Draws) -> Option<String> {
    damaged(task, 1, draws)
}

/// The shipped program of a task with this many words changed, so that it no longer solves it. `None` where no program ships, or
/// no such change makes it wrong.
pub fn damaged(task: &Task, n_slips: usize, draws: &mut Draws) -> Option<String> {
    let program = shipped::solution(&task.id)?;
    let pairs: Vec<Pair> = task.pairs().cloned().collect();
    let mut changed = || (0..n_slips.max(1)).fold(program.clone(), |program, _| told::with_a_slip(&program, draws));
    (0..EDITS_MAX).map(|_| changed()).find(|changed| !Score::of(changed, &pairs).is_solved)
}

/// A grid as JSON.
fn rows(grid: &Grid) -> Value {
    grid.rows().map(|row| row.to_vec()).collect::<Vec<_>>().into()
}

/// What an episode is played on, read from its scenario.
struct Stage {
    id: String,
    n_train: usize,
    /// The train pairs, then the test pairs.
    pairs: Vec<Pair>,
    program: Option<String>,
    /// The correctness of the program that is there at the start.
    start: f64,
    turns_max: usize,
}

#[derive(Deserialize)]
struct Given {
    task: String,
    train: Vec<GivenPair>,
    test: Vec<Vec<Vec<i8>>>,
    turns_max: usize,
    program: Option<String>,
}

#[derive(Deserialize)]
struct GivenPair {
    input: Vec<Vec<i8>>,
    output: Vec<Vec<i8>>,
}

#[derive(Deserialize)]
struct Hidden {
    test: Vec<Vec<Vec<i8>>>,
}

impl Stage {
    fn of(scenario: &Scenario) -> Result<Self, EnvError> {
        let wrong = |reason: String| EnvError::Scenario { scenario: scenario.id.to_string(), reason };
        let given = Given::deserialize(&scenario.input).map_err(|error| wrong(error.to_string()))?;
        let truth = scenario.truth.as_ref().ok_or_else(|| wrong("its test outputs are missing".into()))?;
        let hidden = Hidden::deserialize(truth).map_err(|error| wrong(error.to_string()))?;
        if given.train.is_empty() || given.test.is_empty() || given.test.len() != hidden.test.len() {
            return Err(wrong("it needs train pairs, and as many test outputs as inputs".into()));
        }
        let n_train = given.train.len();
        let train = given.train.into_iter().map(|pair| (pair.input, pair.output));
        let pairs = train.chain(given.test.into_iter().zip(hidden.test)).map(|(input, output)| {
            let grid = |rows: Vec<Vec<i8>>| Grid::from_rows(&rows).map_err(|misuse| wrong(misuse.to_string()));
            Ok(Pair { input: grid(input)?, output: grid(output)? })
        });
        let pairs = pairs.collect::<Result<Vec<_>, EnvError>>()?;
        let start = given.program.as_ref().map_or(0.0, |program| Score::of(program, &pairs).correctness);
        Ok(Self { id: given.task, n_train, pairs, program: given.program, start, turns_max: given.turns_max })
    }
}
