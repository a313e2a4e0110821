//! Graders that ask a model: a score within a range, or one of several labels.
//!
//! The model answers in a strict form; what does not fit is sent back and asked again.

use super::template::{self, Facts};
use super::{Bench, Grade, GraderError, unit_range};
use crate::ask::{self, Patience, Question};
use crate::judge::EXPLANATION_CHARS_MAX;
use hone_trace::{Content, Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Has a model give a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreModel {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The model; the judge at hand where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model is told.
    pub input: Vec<Message>,
    /// The lowest and the highest score.
    #[serde(default = "unit_range")]
    pub range: [f64; 2],
    /// How it is sampled.
    #[serde(default)]
    pub sampling_params: Sampling,
}

/// Has a model choose a label: 1 when it is a passing one, 0 when not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelModel {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The model; the judge at hand where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model is told.
    pub input: Vec<Message>,
    /// The labels.
    pub labels: Vec<String>,
    /// Those that pass.
    pub passing_labels: Vec<String>,
    /// How it is sampled.
    #[serde(default)]
    pub sampling_params: Sampling,
}

/// What a grader may say of sampling; temperature and the like are set where the judge is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// The seed, in place of the one of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How many tokens the model writes at most.
    #[serde(default, alias = "max_completions_tokens", skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u64>,
}

impl ScoreModel {
    pub(super) fn grade(&self, facts: &Facts<'_>, bench: Bench<'_>) -> Result<Grade, GraderError> {
        let [low, high] = self.range;
        let read = |answer: &Value| match answer["result"].as_f64() {
            Some(score) if (low..=high).contains(&score) => Ok((score, words(answer))),
            Some(score) => Err(format!("`result` is {score}, which is not between {low} and {high}")),
            None => Err("it has no number `result`".to_owned()),
        };
        let form = format!("`result`: a number from {low} to {high}");
        let result = Form {
            words: &form,
            wish: json!({"type": "number"}),
            exact: json!({"type": "number", "minimum": low, "maximum": high}),
        };
        let heard = consult(self.model.as_deref(), &self.input, result, &self.sampling_params, facts, bench, read)?;
        let (score, words) = heard.value;
        Ok(Grade { score, words, bill: heard.bill, ..Grade::default() })
    }
}

impl LabelModel {
    pub(super) fn grade(&self, facts: &Facts<'_>, bench: Bench<'_>) -> Result<Grade, GraderError> {
        let read = |answer: &Value| match answer["result"].as_str() {
            Some(label) if self.labels.iter().any(|known| known == label) => Ok((label.to_owned(), words(answer))),
            Some(label) => Err(format!("`{}` is not one of the labels", label.chars().take(64).collect::<String>())),
            None => Err("it has no text `result`".to_owned()),
        };
        let form = format!("`result`: one of {}", json!(self.labels));
        let label = json!({"type": "string", "enum": self.labels});
        let result = Form { words: &form, wish: label.clone(), exact: label };
        let heard = consult(self.model.as_deref(), &self.input, result, &self.sampling_params, facts, bench, read)?;
        let (label, mut words) = heard.value;
        let score = f64::from(u8::from(self.passing_labels.contains(&label)));
        words.insert(0, format!("label {label}"));
        Ok(Grade { score, words, bill: heard.bill, ..Grade::default() })
    }
}

/// Says which of the texts for the model cannot be filled.
pub(super) fn check(input: &[Message]) -> Result<(), GraderError> {
    Ok(input.iter().try_for_each(|message| template::check(&message.content.text()))?)
}

/// The form of a `result`.
struct Form<'a> {
    /// As the judge is told it.
    words: &'a str,
    /// As a schema that any provider takes.
    wish: Value,
    /// As one that leaves nothing to get wrong but the result, for who keeps to it.
    exact: Value,
}

impl Form<'_> {
    fn schema(self, is_exact: bool) -> Value {
        let (result, explanation) = match is_exact {
            true => (self.exact, json!({"type": "string", "maxLength": EXPLANATION_CHARS_MAX})),
            false => (self.wish, json!({"type": "string"})),
        };
        json!({
            "type": "object",
            "properties": {"explanation": explanation, "result": result},
            "required": ["explanation", "result"],
            "additionalProperties": false,
        })
    }
}

/// Asks the judge the grader's own question, and for an answer in this form.
fn consult<T>(
    model: Option<&str>,
    input: &[Message],
    form: Form<'_>,
    sampling: &Sampling,
    facts: &Facts<'_>,
    bench: Bench<'_>,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<ask::Heard<T>, GraderError> {
    let judge = bench.judge.ok_or(GraderError::NoJudge)?;
    let given = judge.config().model.clone().unwrap_or_default();
    if let Some(asked) = model.filter(|asked| *asked != given) {
        return Err(GraderError::OtherModel { asked: asked.to_owned(), given });
    }
    let mut messages = Vec::new();
    for message in input {
        let content = Content::Text(template::fill(&message.content.text(), facts)?);
        messages.push(Message { content, ..message.clone() });
    }
    instruct(
        &mut messages,
        &format!("Answer with one JSON object and nothing else: `explanation`: your reasons in short; {}.", form.words),
    );
    let schema = form.schema(judge.keeps_to_schemas());
    let question = Question { messages, schema, seed: sampling.seed.unwrap_or(bench.seed) };
    let patience = Patience { n_retries: bench.n_retries, tokens_max: sampling.max_completion_tokens.unwrap_or(1024) };
    ask::ask(judge, &question, patience, read).map_err(|(reason, bill)| GraderError::Unheard { reason, bill })
}

/// Adds to the standing instructions: what the sample says may stand in any other message.
fn instruct(messages: &mut Vec<Message>, instruction: &str) {
    match messages.first_mut().filter(|first| matches!(first.role, Role::System | Role::Developer)) {
        Some(first) => first.content = Content::Text(format!("{}\n\n{instruction}", first.content.text())),
        None => messages.insert(0, Message::text(Role::System, instruction)),
    }
}

fn words(answer: &Value) -> Vec<String> {
    answer["explanation"].as_str().filter(|words| !words.is_empty()).map(str::to_owned).into_iter().collect()
}
