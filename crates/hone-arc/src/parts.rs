//! Which tasks are to learn from, and which are held out.
//!
//! The default division is that of a folder with a training and an evaluation set, as ARC-AGI publishes them: the training set
//! and a hundred of the evaluation set are to learn from, its other three hundred are held out. Those are known by id: they are
//! held out in whatever file they turn up, because later sets train on earlier evaluations. Of what is held out, one in five is
//! to choose by and the rest to report. A single file is divided by family, one in five held back.

use crate::task::{self, Task, TaskError};
use hone_trace::Draws;
use hone_trace::env::Split;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The ids of the evaluation set of ARC-AGI-1: `learn` and `hold`, in the order of ids every fourth to learn from.
const EVALUATION: &str = include_str!("../programs/evaluation.txt");

/// The tasks of a file or folder, each with its part, ordered by id.
pub fn read(path: &Path) -> Result<Vec<(Task, Split)>, TaskError> {
    let Some((training, evaluation)) = both_sets(path) else {
        let tasks = task::read(path)?;
        return Ok(tasks.into_iter().map(|task| (of_file(&task.family), task)).map(|(split, task)| (task, split)).collect());
    };
    let training = task::read(&training)?.into_iter().map(|task| (of_training(&task.family), task));
    let evaluation = task::read(&evaluation)?.into_iter().map(|task| (of_evaluation(&task.family), task));
    let mut tasks: Vec<(Task, Split)> = training.chain(evaluation).map(|(split, task)| (task, split)).collect();
    tasks.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    match tasks.windows(2).find(|two| two[0].0.id == two[1].0.id) {
        Some(two) => Err(TaskError::Malformed {
            place: path.display().to_string(),
            reason: format!("the task `{}` is in the training set and in the evaluation set", two[0].0.id),
        }),
        None => Ok(tasks),
    }
}

/// The two sets of a folder: files of lines, or folders of files.
fn both_sets(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let set = |name: &str| {
        let file = path.join(format!("{name}.jsonl"));
        if file.is_file() { Some(file) } else { Some(path.join(name)).filter(|folder| folder.is_dir()) }
    };
    Some((set("training")?, set("evaluation")?))
}

fn of_training(family: &str) -> Split {
    if ids("hold").contains(family) { held_out(family) } else { Split::Train }
}

fn of_evaluation(family: &str) -> Split {
    if ids("learn").contains(family) { Split::Train } else { held_out(family) }
}

fn of_file(family: &str) -> Split {
    if ids("hold").contains(family) {
        return held_out(family);
    }
    match Draws::new(0, &["arc", "split", family]).below(10) {
        0 => Split::Validation,
        1 => Split::Test,
        _ => Split::Train,
    }
}

fn held_out(family: &str) -> Split {
    match Draws::new(0, &["arc", "held out", family]).below(5) {
        0 => Split::Validation,
        _ => Split::Test,
    }
}

/// The ids under this word.
fn ids(word: &str) -> &'static BTreeSet<&'static str> {
    static IDS: LazyLock<[BTreeSet<&str>; 2]> = LazyLock::new(|| {
        ["learn", "hold"].map(|word| EVALUATION.lines().filter_map(|line| line.strip_prefix(word)).map(str::trim).collect())
    });
    if word == "learn" { &IDS[0] } else { &IDS[1] }
}
