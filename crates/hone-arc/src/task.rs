//! Tasks: pairs of grids to learn from and pairs to be tested on, read from JSON.
//!
//! Three forms: a file with one task a line (`{"id", "train", "test"}`), a file with one task, whose name is the task's id
//! unless it says one, and a folder of such files. Errors name the file and, where there are lines, the line.

use crate::grid::Grid;
use hone_trace::lines;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How large a grid of a task may be on either side.
pub const SIDE_MAX: usize = 30;
/// How large a file of tasks may be.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A grid and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// What is given.
    pub input: Grid,
    /// What is asked for.
    pub output: Grid,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name, such as `67a3c6ac`.
    pub id: String,
    /// The task that it comes from: itself, unless it was augmented.
    pub family: String,
    /// The pairs to learn from.
    pub train: Vec<Pair>,
    /// The pairs to be tested on.
    pub test: Vec<Pair>,
}

impl Task {
    /// The task as a file holds it; outputs of test pairs on request.
    pub fn to_json(&self, with_test_outputs: bool) -> Value {
        let rows = |grid: &Grid| -> Value { grid.rows().map(<[i8]>::to_vec).collect::<Vec<_>>().into() };
        let whole = |pair: &Pair| json!({"input": rows(&pair.input), "output": rows(&pair.output)});
        let test = |pair: &Pair| if with_test_outputs { whole(pair) } else { json!({"input": rows(&pair.input)}) };
        let (train, test): (Vec<Value>, Vec<Value>) =
            (self.train.iter().map(whole).collect(), self.test.iter().map(test).collect());
        json!({"id": self.id, "train": train, "test": test})
    }

    /// All pairs: those to learn from, then those to be tested on.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.train.iter().chain(&self.test)
    }
}

/// Why tasks cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Something in the file is no task.
    #[error("{place}: {reason}")]
    Malformed {
        /// The file, with the line if there is one.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to read.
    #[error("{0} has no tasks: a folder needs files *.json or *.jsonl, a .jsonl file one task a line")]
    None(PathBuf),
}

/// Reads all tasks of a folder of JSON files, of a JSONL file or of one JSON file, ordered by id.
pub fn read(path: &Path) -> Result<Vec<Task>, TaskError> {
    let mut tasks = if path.is_dir() { read_folder(path)? } else { read_file(path)? };
    if tasks.is_empty() {
        return Err(TaskError::None(path.to_owned()));
    }
    tasks.sort_by(|a, b| a.id.cmp(&b.id));
    match tasks.windows(2).find(|two| two[0].id == two[1].id) {
        Some(two) => Err(malformed(path.display().to_string(), format!("the task `{}` is there twice", two[0].id))),
        None => Ok(tasks),
    }
}

/// The tasks of a folder: a file each, or, where there is none, those of its files of lines.
fn read_folder(folder: &Path) -> Result<Vec<Task>, TaskError> {
    let unreadable = |source| TaskError::Unreadable { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    let ending = |ending: &str| -> Vec<&PathBuf> {
        paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == ending)).collect()
    };
    let single = ending("json");
    let files = if single.is_empty() { ending("jsonl") } else { single };
    files.into_iter().map(|path| read_file(path)).collect::<Result<Vec<_>, _>>().map(|files| files.concat())
}

fn read_file(path: &Path) -> Result<Vec<Task>, TaskError> {
    let unreadable = |source| TaskError::Unreadable { path: path.to_owned(), source };
    let n_bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if n_bytes > FILE_BYTES_MAX {
        return Err(malformed(path.display().to_string(), format!("{n_bytes} bytes are more than the {FILE_BYTES_MAX} allowed")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let place = path.display().to_string();
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        return parse_lines(&text, &place);
    }
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(vec![parse(&text, name.as_deref()).map_err(|reason| malformed(place, reason))?])
}

/// Reads one task a line; empty lines are skipped.
pub fn parse_lines(text: &str, place: &str) -> Result<Vec<Task>, TaskError> {
    let read = |(number, line)| parse(line, None).map_err(|reason| malformed(format!("{place}, line {number}"), reason));
    lines::of_text(text).map(read).collect()
}

/// Reads one task. `name` is its id if it does not say one itself.
pub fn parse(text: &str, name: Option<&str>) -> Result<Task, String> {
    let raw: RawTask = serde_json::from_str(lines::unmarked(text)).map_err(|error| error.to_string())?;
    let id = raw.id.or_else(|| name.map(str::to_owned)).ok_or("the task has no `id`")?;
    let pairs = |part: &str, pairs: Vec<RawPair>| -> Result<Vec<Pair>, String> {
        let numbered = pairs.into_iter().enumerate();
        numbered.map(|(nth, pair)| pair.read().map_err(|reason| format!("{part} pair {}: {reason}", nth + 1))).collect()
    };
    let (train, test) = (pairs("train", raw.train)?, pairs("test", raw.test)?);
    if train.is_empty() {
        return Err("the task has no train pairs".into());
    }
    Ok(Task { family: id.clone(), id, train, test })
}

fn malformed(place: String, reason: String) -> TaskError {
    TaskError::Malformed { place, reason }
}

#[derive(Deserialize)]
struct RawTask {
    id: Option<String>,
    train: Vec<RawPair>,
    test: Vec<RawPair>,
}

#[derive(Deserialize)]
struct RawPair {
    input: Vec<Vec<i64>>,
    output: Vec<Vec<i64>>,
}

impl RawPair {
    fn read(&self) -> Result<Pair, String> {
        let side = |name: &str, rows: &[Vec<i64>]| grid(rows).map_err(|reason| format!("{name}: {reason}"));
        Ok(Pair { input: side("input", &self.input)?, output: side("output", &self.output)? })
    }
}

/// A grid of a task: not empty, rectangular, of colours 0 to 9 and at most [`SIDE_MAX`] on either side.
fn grid(rows: &[Vec<i64>]) -> Result<Grid, String> {
    let width = rows.first().map_or(0, Vec::len);
    if width == 0 {
        return Err("the grid is empty".into());
    }
    if rows.len() > SIDE_MAX || width > SIDE_MAX {
        return Err(format!("{} by {width} is larger than {SIDE_MAX} by {SIDE_MAX}", rows.len()));
    }
    let colour = |&value: &i64| i8::try_from(value).ok().filter(|colour| (0..=9).contains(colour));
    let colours = |row: &Vec<i64>| row.iter().map(colour).collect::<Option<Vec<i8>>>();
    let rows: Option<Vec<Vec<i8>>> = rows.iter().map(colours).collect();
    Grid::from_rows(&rows.ok_or("a colour is not one of 0 to 9")?).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = r#"{"id": "a", "train": [{"input": [[1, 2]], "output": [[2, 1]]}], "test": []}"#;

    #[test]
    fn a_task_is_read_from_a_line() {
        let tasks = parse_lines(&format!("{TASK}\n\n"), "tasks.jsonl").unwrap();
        assert_eq!(tasks[0].id, "a");
        assert_eq!(tasks[0].train[0].output.cells(), [2, 1]);
    }

    fn refused(line: &str) -> String {
        parse_lines(&format!("{TASK}\n{line}\n"), "tasks.jsonl").unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_the_line_and_the_pair() {
        assert!(refused("{").starts_with("tasks.jsonl, line 2: EOF"));
        let with = |grid: &str| format!(r#"{{"id": "b", "train": [{{"input": {grid}, "output": [[1]]}}], "test": []}}"#);
        assert_eq!(
            refused(&with("[[1], [1, 2]]")),
            "tasks.jsonl, line 2: train pair 1: input: the rows have different lengths: 1 and 2"
        );
        assert_eq!(refused(&with("[[10]]")), "tasks.jsonl, line 2: train pair 1: input: a colour is not one of 0 to 9");
        assert_eq!(refused(&with("[[]]")), "tasks.jsonl, line 2: train pair 1: input: the grid is empty");
        let wide = format!("[[{}1]]", "1, ".repeat(30));
        assert_eq!(refused(&with(&wide)), "tasks.jsonl, line 2: train pair 1: input: 1 by 31 is larger than 30 by 30");
        assert_eq!(refused(r#"{"train": [], "test": []}"#), "tasks.jsonl, line 2: the task has no `id`");
    }

    #[test]
    fn folders_files_and_lines_hold_the_same_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let unnamed = TASK.replace(r#""id": "a", "#, "");
        std::fs::write(folder.path().join("a.json"), unnamed).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "no task").unwrap();
        let lines = folder.path().join("all.jsonl");
        std::fs::write(&lines, TASK).unwrap();
        let from_folder = read(folder.path()).unwrap();
        assert_eq!(from_folder, read(&lines).unwrap());
        assert_eq!(from_folder, read(&folder.path().join("a.json")).unwrap());
        std::fs::write(&lines, format!("{TASK}\n{TASK}")).unwrap();
        assert!(read(&lines).unwrap_err().to_string().ends_with("the task `a` is there twice"));
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().starts_with("cannot read"));
    }
}
