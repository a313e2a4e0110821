//! Word problems from files of one JSON object a line.
//!
//! Two forms are known: `gsm8k` (`question` and `answer`, of whose text the number behind `####` counts) and `svamp` (`Body`,
//! `Question`, `Answer`). A file may come with a test file of its own; then the test split is that file, and a problem whose
//! family is in it is left out of the others.

use super::{Draft, Number, answer, split_of};
use hone_trace::env::{EnvError, Split};
use hone_trace::{Draws, Scenario, lines};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The largest file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Which file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonlOptions {
    /// The file.
    pub path: PathBuf,
    /// The file of the test split, where there is one. Default: the test split is taken out of `path`.
    #[serde(default)]
    pub test_path: Option<PathBuf>,
    /// What its lines look like. Default: as the keys of the first line say.
    #[serde(default)]
    pub form: Option<JsonlForm>,
}

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonlForm {
    /// `question` and `answer`; the answer is a number, or a text whose last `####` or last number says it.
    Gsm8k,
    /// `Body`, `Question` and `Answer`.
    Svamp,
}

impl JsonlForm {
    /// The form of a line, if its keys give it away.
    fn of(line: &str) -> Option<Self> {
        let row: Value = serde_json::from_str(line).ok()?;
        let has = |key: &str| row.get(key).is_some();
        match (has("question") && has("answer"), has("Body") && has("Question")) {
            (true, _) => Some(Self::Gsm8k),
            (_, true) => Some(Self::Svamp),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Gsm8k => "gsm8k",
            Self::Svamp => "svamp",
        }
    }
}

/// The problems of all splits, in the order of their files.
#[derive(Debug, Clone)]
pub(super) struct Problems(Vec<(Split, Scenario)>);

impl Problems {
    pub(super) fn read(options: &JsonlOptions) -> Result<Self, EnvError> {
        let mut problems = Vec::new();
        let mut held_out = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for scenario in options.test_path.iter().map(|path| read(path, options.form)).collect::<Result<Vec<_>, _>>()?.concat() {
            held_out.insert(scenario.family.clone());
            if seen.insert(scenario.id.clone()) {
                problems.push((Split::Test, scenario));
            }
        }
        for scenario in read(&options.path, options.form)? {
            let split = match split_of(scenario.family.as_str()) {
                // The file beside it is the test split: this tenth is to learn from.
                Split::Test if options.test_path.is_some() => Split::Train,
                split => split,
            };
            if !held_out.contains(&scenario.family) && seen.insert(scenario.id.clone()) {
                problems.push((split, scenario));
            }
        }
        Ok(Self(problems))
    }

    pub(super) fn scenarios(&self, split: Split, seed: u64, n: usize) -> Vec<Scenario> {
        let mut scenarios: Vec<&Scenario> = self.0.iter().filter(|(of, _)| *of == split).map(|(_, scenario)| scenario).collect();
        Draws::new(seed, &["math", "jsonl", split.as_str()]).shuffle(&mut scenarios);
        scenarios.into_iter().take(n).cloned().collect()
    }
}

fn read(path: &Path, form: Option<JsonlForm>) -> Result<Vec<Scenario>, EnvError> {
    let place = path.display().to_string();
    let wrong = |place: String, reason: String| EnvError::Data { place, reason };
    let size = std::fs::metadata(path).map_err(|error| wrong(place.clone(), error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(wrong(place, format!("{size} bytes are more than the {FILE_BYTES_MAX} that are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(place.clone(), error.to_string()))?;
    let Some((_, first)) = lines::of_text(&text).next() else {
        return Err(wrong(place, "it holds no problem".into()));
    };
    let unknown =
        || wrong(place.clone(), "it looks like neither gsm8k (question, answer) nor svamp (Body, Question, Answer)".into());
    let form = form.or_else(|| JsonlForm::of(first)).ok_or_else(unknown)?;
    let read = |(number, line)| problem(line, form).map_err(|reason| wrong(format!("{place}:{number}"), reason));
    lines::of_text(&text).map(read).collect()
}

fn problem(line: &str, form: JsonlForm) -> Result<Scenario, String> {
    let row: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = |key: &str| row.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is missing or no text"));
    let (question, story, answer_key) = match form {
        JsonlForm::Gsm8k => (text("question")?.to_owned(), text("question")?, "answer"),
        JsonlForm::Svamp => {
            let body = text("Body")?.trim();
            // Some bodies go on in the question: "If Dan had 4", "how much did he spend?"
            let mark = if body.ends_with(['.', '?', '!', ',']) { "" } else { "," };
            (format!("{body}{mark} {}", text("Question")?.trim()), body, "Answer")
        }
    };
    let answer = match row.get(answer_key) {
        Some(Value::String(text)) => answer::number(text).map(|found| found.number),
        Some(Value::Number(number)) => Number::parse(&number.to_string()),
        _ => return Err(format!("`{answer_key}` is missing, or neither a number nor a text")),
    };
    let answer = answer.ok_or_else(|| format!("`{answer_key}` has no number that can be read exactly"))?;
    let short = |what: &str, text: &str| Draws::new(0, &["math", what, text]).bits();
    Ok(Draft {
        id: format!("math/{}/{:016x}", form.as_str(), short("question", &question)),
        category: "word-problem",
        input: json!({"question": question}),
        truth: json!({"answer": answer.to_string()}),
        difficulty: None,
        // Questions about one story go together, whatever the numbers in it.
        family: format!("{}/{:016x}", form.as_str(), short("family", &masked(story))),
    }
    .scenario())
}

/// A story without its numbers and its spelling.
fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        match word.bytes().all(|byte| byte.is_ascii_digit()) {
            // `1,000` and `2.50` are one number each.
            true if masked.ends_with("# ") => {}
            true => masked.push_str("# "),
            false => masked.extend(word.chars().flat_map(char::to_lowercase).chain([' '])),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let check = |line: &str, form, question: &str, answer: &str| {
            let scenario = problem(line, form).unwrap();
            assert_eq!((&scenario.input["question"], &scenario.truth.unwrap()["answer"]), (&json!(question), &json!(answer)));
        };
        check(r#"{"question":"How many?","answer":"2+2=<<2+2=4>>4\n#### 1,004"}"#, JsonlForm::Gsm8k, "How many?", "1004");
        check(r#"{"question":"How many?","answer":"so many\n#### 1e5"}"#, JsonlForm::Gsm8k, "How many?", "100000");
        check(r#"{"question":"How many?","answer":0.5}"#, JsonlForm::Gsm8k, "How many?", "1/2");
        check(
            r#"{"ID":"a","Body":"If he had $ 4","Question":"What is left?","Answer":1.0}"#,
            JsonlForm::Svamp,
            "If he had $ 4, What is left?",
            "1",
        );
    }

    #[test]
    fn a_damaged_line_says_what_is_wrong() {
        let check = |line: &str, reason: &str| {
            let error = problem(line, JsonlForm::Gsm8k).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        };
        check("{", "EOF");
        check(r#"{"answer":"4"}"#, "`question` is missing");
        check(r#"{"question":"a","answer":[]}"#, "neither a number nor a text");
        check(r#"{"question":"a","answer":"none"}"#, "no number");
        check(r#"{"question":"a","answer":1e30}"#, "no number");
        check(r#"{"question":"a","answer":"so\n#### 1e30"}"#, "no number");
    }

    #[test]
    fn numbers_do_not_make_a_family() {
        assert_eq!(masked("Dan had $1,000.50 and 3 cats."), masked("Dan had $ 7 and 12 cats!"));
        assert_ne!(masked("Dan had 3 cats."), masked("Dan had 3 dogs."));
    }
}
