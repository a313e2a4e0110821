//! Graders in the form that OpenAI gave them: `string_check`, `text_similarity`, `score_model`, `label_model`, `python` and
//! `multi`.
//!
//! A grader is data. Its texts have places that are filled from the item (the task) and the sample (the last answer), its
//! formula is arithmetic, and a `python` grader runs in hone's own interpreter alone. An answer that lacks what a grader asks for
//! scores as low as the grader goes, and one for which a program or a formula gives no number scores 0; a grader that cannot work is an
//! error, and as far as possible before anything is graded.
//!
//! `like` and `ilike` ask whether the input contains the reference, the second in any case. The model of `score_model` and
//! `label_model` is the judge that the caller hands in: a grader that names another model is refused.

mod formula;
mod model;
mod python;
mod similarity;
mod template;
#[cfg(test)]
mod tests;

use crate::ask::{Bill, Unheard};
use hone_trace::Trace;
use hone_trace::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use template::Facts;

pub use formula::{Formula, FormulaError};
pub use model::{LabelModel, Sampling, ScoreModel};
pub use python::Python;
pub use similarity::Measure;
pub use template::TemplateError;

/// The most graders in one.
const GRADERS_MAX: usize = 32;
/// How deep multi graders may nest.
const DEPTH_MAX: usize = 4;

/// A grader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Grader {
    /// Compares two texts.
    StringCheck(StringCheck),
    /// Measures how alike two texts are.
    TextSimilarity(TextSimilarity),
    /// Has a model give a score.
    ScoreModel(ScoreModel),
    /// Has a model choose a label.
    LabelModel(LabelModel),
    /// Has a program give a score.
    Python(Python),
    /// Combines others by a formula.
    Multi(Multi),
}

/// Compares two texts: 1 when it holds, 0 when not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StringCheck {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The text that is checked.
    pub input: String,
    /// What it is compared with.
    pub reference: String,
    /// How.
    pub operation: Operation,
}

/// How two texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// They are the same.
    Eq,
    /// They are not.
    #[serde(alias = "neq")]
    Ne,
    /// The input contains the reference.
    Like,
    /// The same, in any case.
    Ilike,
}

/// Measures how alike two texts are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSimilarity {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The text that is measured.
    pub input: String,
    /// What it is compared with.
    pub reference: String,
    /// By which measure.
    pub evaluation_metric: Measure,
}

/// Combines others by a formula over their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multi {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The others by name.
    pub graders: BTreeMap<String, Grader>,
    /// The formula.
    pub calculate_output: String,
}

/// What a grader gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grade {
    /// The score.
    pub score: f64,
    /// The scores of the graders inside, by name.
    pub sub_scores: BTreeMap<String, f64>,
    /// What there is to say about it.
    pub words: Vec<String>,
    /// What the judge took.
    pub bill: Bill,
}

/// Why a grader cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GraderError {
    /// It is not well formed.
    #[error("{0}")]
    Invalid(String),
    /// A text cannot be filled.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// It needs a judge, and there is none.
    #[error("a model grader needs a judge, and none was given")]
    NoJudge,
    /// It asks for another model than the judge at hand.
    #[error("the grader asks for the model `{asked}`, and the judge is `{given}`: name that one, or leave `model` out")]
    OtherModel {
        /// The one in the grader.
        asked: String,
        /// The judge's.
        given: String,
    },
    /// The judge gave nothing that fits.
    #[error("after {} calls: {reason}", bill.n_calls)]
    Unheard {
        /// What it gave.
        reason: Unheard<String>,
        /// What was paid for in vain.
        bill: Bill,
    },
}

/// What graders work with.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// The model that judges, where there is one.
    pub judge: Option<&'a dyn Policy>,
    /// The seed of what it draws.
    pub seed: u64,
    /// How often it is asked again when its answer does not fit.
    pub n_retries: u32,
}

impl Grader {
    /// Reads the JSON form.
    pub fn parse(json: &str) -> Result<Self, GraderError> {
        let value: Value = serde_json::from_str(json).map_err(|error| GraderError::Invalid(error.to_string()))?;
        let grader: Self = serde_json::from_value(value).map_err(|error| GraderError::Invalid(error.to_string()))?;
        grader.check()?;
        Ok(grader)
    }

    /// Says what cannot work before anything is graded.
    pub fn check(&self) -> Result<(), GraderError> {
        let mut n_graders = 0;
        self.check_inside(0, &mut n_graders)
    }

    fn check_inside(&self, depth: usize, n_graders: &mut usize) -> Result<(), GraderError> {
        let invalid = |what: String| Err(GraderError::Invalid(what));
        *n_graders += 1;
        if depth > DEPTH_MAX || *n_graders > GRADERS_MAX {
            return invalid(format!("a grader nests at most {DEPTH_MAX} deep and holds at most {GRADERS_MAX}"));
        }
        match self {
            Self::StringCheck(check) => {
                Ok([&check.input, &check.reference].into_iter().try_for_each(|text| template::check(text))?)
            }
            Self::TextSimilarity(similarity) => match similarity.evaluation_metric.needs() {
                Some(needs) => invalid(needs.into()),
                None => Ok([&similarity.input, &similarity.reference].into_iter().try_for_each(|text| template::check(text))?),
            },
            Self::ScoreModel(ScoreModel { range: [low, high], .. }) if !(low.is_finite() && high.is_finite() && low < high) => {
                invalid(format!("the range [{low}, {high}] is empty"))
            }
            Self::ScoreModel(model) => model::check(&model.input),
            Self::LabelModel(label) if label.labels.is_empty() => invalid("there are no labels".into()),
            Self::LabelModel(label) => match label.passing_labels.iter().find(|passing| !label.labels.contains(passing)) {
                Some(stray) => invalid(format!("the passing label `{stray}` is not one of the labels")),
                None => model::check(&label.input),
            },
            Self::Python(python) => python.check(),
            Self::Multi(multi) => {
                let formula = multi.formula()?;
                if let Some(stray) = formula.names().into_iter().find(|name| !multi.graders.contains_key(*name)) {
                    return invalid(format!("`calculate_output` names `{stray}`, which is not one of the graders"));
                }
                if let Some(unused) = multi.graders.keys().find(|name| !formula.names().contains(&name.as_str())) {
                    return invalid(format!("the grader `{unused}` is not used by `calculate_output`"));
                }
                multi.graders.values().try_for_each(|grader| grader.check_inside(depth + 1, n_graders))
            }
        }
    }

    /// Whether a model takes part.
    pub fn needs_judge(&self) -> bool {
        match self {
            Self::StringCheck(_) | Self::TextSimilarity(_) | Self::Python(_) => false,
            Self::ScoreModel(_) | Self::LabelModel(_) => true,
            Self::Multi(multi) => multi.graders.values().any(Self::needs_judge),
        }
    }

    /// The lowest and highest score, where they are known.
    pub fn range(&self) -> Option<[f64; 2]> {
        match self {
            Self::StringCheck(_) | Self::TextSimilarity(_) | Self::LabelModel(_) => Some(unit_range()),
            Self::ScoreModel(model) => Some(model.range),
            Self::Python(_) | Self::Multi(_) => None,
        }
    }

    /// Grades the last answer of a trace. The item is the task, with what is known to be right about it.
    pub fn grade(&self, trace: &Trace, item: &Value, bench: Bench<'_>) -> Result<Grade, GraderError> {
        self.grade_with(&Facts::new(trace, item), bench)
    }

    fn grade_with(&self, facts: &Facts<'_>, bench: Bench<'_>) -> Result<Grade, GraderError> {
        let graded = match self {
            Self::StringCheck(check) => check.grade(facts),
            Self::TextSimilarity(similarity) => similarity.grade(facts),
            Self::ScoreModel(model) => model.grade(facts, bench),
            Self::LabelModel(model) => model.grade(facts, bench),
            Self::Python(python) => python.grade(facts),
            Self::Multi(multi) => multi.grade(facts, bench),
        };
        match graded {
            Err(GraderError::Template(TemplateError::Sample(path))) => {
                let score = self.range().map_or(0.0, |[low, _]| low);
                Ok(Grade { score, words: vec![format!("the answer has no {path}")], ..Grade::default() })
            }
            graded => graded,
        }
    }
}

impl StringCheck {
    fn grade(&self, facts: &Facts<'_>) -> Result<Grade, GraderError> {
        let (input, reference) = (template::fill(&self.input, facts)?, template::fill(&self.reference, facts)?);
        let holds = match self.operation {
            Operation::Eq => input == reference,
            Operation::Ne => input != reference,
            Operation::Like => input.contains(&reference),
            Operation::Ilike => input.to_lowercase().contains(&reference.to_lowercase()),
        };
        Ok(Grade { score: f64::from(u8::from(holds)), ..Grade::default() })
    }
}

impl TextSimilarity {
    fn grade(&self, facts: &Facts<'_>) -> Result<Grade, GraderError> {
        let (input, reference) = (template::fill(&self.input, facts)?, template::fill(&self.reference, facts)?);
        Ok(Grade { score: self.evaluation_metric.of(&input, &reference), ..Grade::default() })
    }
}

impl Multi {
    fn formula(&self) -> Result<Formula, GraderError> {
        Formula::parse(&self.calculate_output).map_err(|error| GraderError::Invalid(error.to_string()))
    }

    fn grade(&self, facts: &Facts<'_>, bench: Bench<'_>) -> Result<Grade, GraderError> {
        let mut sum = Grade::default();
        for (name, grader) in &self.graders {
            let grade = grader.grade_with(facts, bench)?;
            sum.sub_scores.insert(name.clone(), grade.score);
            sum.words.extend(grade.words.into_iter().map(|words| format!("{name}: {words}")));
            sum.bill.add(grade.bill);
        }
        match self.formula()?.eval(&sum.sub_scores) {
            Some(score) => sum.score = score,
            None => sum.words.push(format!("the formula `{}` has no finite value here", self.calculate_output)),
        }
        Ok(sum)
    }
}

fn unit_range() -> [f64; 2] {
    [0.0, 1.0]
}
