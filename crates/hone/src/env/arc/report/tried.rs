//! What was tried on one task: the samples of it and of its augmentations, and the steps that led to its last program.

use crate::env::arc::edits::{Edit, is_copy};
use hone_arc::Grid;
use hone_arc::augment::Augmentation;
use hone_arc::task::{Pair, Task};
use hone_arc::world::{Attempt, Score, answer_of};
use hone_trace::Trace;
use std::collections::{BTreeMap, HashMap};

/// A token has about so many bytes, where no sampler told the tokens.
const BYTES_PER_TOKEN: f64 = 4.0;

/// What was tried on one task.
pub(super) struct Tried {
    pub(super) task: Task,
    /// The task in the form in which the steps met it: it may be augmented.
    pub(super) played: Task,
    pub(super) samples: Vec<Sample>,
    /// The programs one after the other, the last of which counts.
    pub(super) steps: Vec<String>,
    /// How right the last one is on all pairs.
    pub(super) score: Score,
    /// How right it is on the pairs that were hidden.
    pub(super) hidden: Score,
    /// Whether the outputs that most samples agree on are right.
    pub(super) is_voted: bool,
}

/// One trace.
pub(super) struct Sample {
    /// What was done to the task before it was played.
    augmentation: Option<Augmentation>,
    /// The programs of its turns.
    programs: Vec<String>,
    /// Its last program computes what is asked for, and does not copy it.
    pub(super) is_solved: bool,
    /// Its last program copies an output: it has no vote.
    is_copy: bool,
    pub(super) thinking_tokens: f64,
    edit: Option<Edit>,
}

impl Tried {
    /// What these traces tried, by task. Traces of other tasks are left out.
    pub(super) fn of(traces: Vec<Trace>, tasks: &BTreeMap<&str, &Task>) -> Vec<Self> {
        let mut samples: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
        for trace in traces {
            let Some((task, augmentation)) = played(&trace, tasks) else { continue };
            samples.entry(task.id.as_str()).or_default().push(Sample::of(trace, task, augmentation));
        }
        samples.into_iter().map(|(id, samples)| Self::new(tasks[id].clone(), samples)).collect()
    }

    fn new(task: Task, samples: Vec<Sample>) -> Self {
        let (played, steps) = steps(&task, &samples);
        let last = steps.last().cloned().unwrap_or_default();
        let pairs: Vec<Pair> = played.pairs().cloned().collect();
        let (mut score, hidden) = (Score::of(&last, &pairs), Score::of(&last, &played.test));
        score.is_solved &= !is_copy(&last, &pairs);
        let is_voted = is_voted(&task, &samples);
        Self { task, played, samples, steps, score, hidden, is_voted }
    }
}

/// The task that a trace played, and what had been done to it.
fn played<'a>(trace: &Trace, tasks: &BTreeMap<&str, &'a Task>) -> Option<(&'a Task, Option<Augmentation>)> {
    let id = trace.scenario.as_ref()?.as_str().strip_prefix("arc-")?;
    let id = trace.metadata.get("task").and_then(|task| task.as_str()).unwrap_or(id);
    if let Some(task) = tasks.get(id) {
        return Some((task, None));
    }
    let (base, augmentation) = Augmentation::named(id)?;
    Some((tasks.get(base)?, Some(augmentation)))
}

impl Sample {
    fn of(trace: Trace, task: &Task, augmentation: Option<Augmentation>) -> Self {
        let answers: Vec<_> = trace.turns().map(|turn| answer_of(&turn.answer.content.text())).collect();
        let thinking_tokens = trace.turns().zip(&answers).map(|(turn, answer)| {
            let n_thought: usize = answer.thoughts.iter().map(String::len).sum();
            let n_all = turn.answer.content.text().len().max(1);
            let n_tokens: u64 = turn.llm_calls.iter().map(|call| call.tokens_out).sum();
            match n_tokens {
                0 => n_thought as f64 / BYTES_PER_TOKEN,
                n => n as f64 * (n_thought as f64 / n_all as f64).min(1.0),
            }
        });
        let thinking_tokens = thinking_tokens.sum();
        let programs: Vec<String> =
            answers.into_iter().map(|answer| answer.program).filter(|program| !program.is_empty()).collect();
        let pairs: Vec<Pair> = as_played(task, augmentation.as_ref()).pairs().cloned().collect();
        let is_copy = programs.last().is_some_and(|program| is_copy(program, &pairs));
        let is_solved = !is_copy && programs.last().is_some_and(|program| Score::of(program, &pairs).is_solved);
        Self { augmentation, programs, is_solved, is_copy, thinking_tokens, edit: Edit::of(trace) }
    }

    /// The outputs that its last program predicts for the task as it is; a copy predicts nothing.
    fn predicted(&self, task: &Task) -> Vec<Option<Grid>> {
        let attempt = self.programs.last().filter(|_| !self.is_copy).and_then(|program| Attempt::of(program).ok());
        let predict = |pair: &Pair| {
            let attempt = attempt.as_ref()?;
            match &self.augmentation {
                Some(augmentation) => attempt.run(&augmentation.grid(&pair.input)).ok().map(|grid| augmentation.undo(&grid)),
                None => attempt.run(&pair.input).ok(),
            }
        };
        task.test.iter().map(predict).collect()
    }
}

/// Whether for every hidden pair most samples predict the right output; a sample that predicts nothing has no vote.
fn is_voted(task: &Task, samples: &[Sample]) -> bool {
    let predictions: Vec<Vec<Option<Grid>>> = samples.iter().map(|sample| sample.predicted(task)).collect();
    !task.test.is_empty()
        && task.test.iter().enumerate().all(|(nth, pair)| {
            let mut votes: HashMap<&Grid, usize> = HashMap::new();
            predictions.iter().filter_map(|grids| grids[nth].as_ref()).for_each(|grid| *votes.entry(grid).or_default() += 1);
            let right = votes.get(&pair.output).copied().unwrap_or(0);
            right > 0 && votes.iter().all(|(grid, n)| **grid == pair.output || *n < right)
        })
}

/// The task with what had been done to it.
fn as_played(task: &Task, augmentation: Option<&Augmentation>) -> Task {
    augmentation.map_or_else(|| task.clone(), |augmentation| augmentation.apply(task))
}

/// The programs that led to the last one, and the form of the task that they are for: of a search those that were edited, of a
/// rollout those of its best episode.
fn steps(task: &Task, samples: &[Sample]) -> (Task, Vec<String>) {
    let own = samples.iter().filter(|sample| sample.augmentation.is_none());
    let edits: Vec<&Edit> = own.clone().filter_map(|sample| sample.edit.as_ref()).collect();
    if !edits.is_empty() {
        return (task.clone(), edited(task, edits));
    }
    // Of equally good ones that of the task as it is counts.
    let augmented = samples.iter().filter(|sample| sample.augmentation.is_some());
    let shown = |sample: &Sample| {
        let (played, last) = (as_played(task, sample.augmentation.as_ref()), sample.programs.last()?);
        // One that copies the examples comes after all that do not.
        let shown = if is_copy(last, &played.train) { -1.0 } else { Score::of(last, &played.train).correctness };
        Some((shown, played, sample.programs.clone()))
    };
    let best = own.chain(augmented).filter_map(shown).reduce(|best, other| if other.0 > best.0 { other } else { best });
    best.map_or_else(|| (task.clone(), Vec::new()), |(_, played, programs)| (played, programs))
}

/// The programs of a search, one round after the other.
fn edited(task: &Task, mut edits: Vec<&Edit>) -> Vec<String> {
    let shown = |program: &str| Score::of(program, &task.train).correctness;
    edits.sort_by_key(|edit| (edit.origin.round, edit.trace.id));
    let mut steps: Vec<String> = edits.iter().map(|edit| edit.origin.from.clone()).collect();
    steps.dedup();
    let last_round = edits.last().map_or(0, |edit| edit.origin.round);
    let before = steps.last().map_or(0.0, |program| shown(program));
    let last = edits.iter().filter(|edit| edit.origin.round == last_round && !is_copy(&edit.program, &task.train));
    let last = last.map(|edit| (shown(&edit.program), &edit.program));
    let best = last.reduce(|best, other| if other.0 > best.0 { other } else { best });
    steps.extend(best.filter(|(score, _)| *score > before).map(|(_, program)| program.clone()));
    steps
}
