//! The seam to judges: a group of traces in, a score from 0 to 1 for each out.

use crate::ask::{Bill, Unheard};
use crate::statistics::Agreement;
use hone_trace::policy::PolicyErrorKind;
use hone_trace::{Giver, Trace, TraceId};
use serde_json::{Value, json};
use std::fmt;

/// The longest words on a score that a judge who keeps to schemas is let write.
pub(crate) const EXPLANATION_CHARS_MAX: usize = 160;

/// Who scores the traces of a group against each other.
pub trait Judge: Sync {
    /// Who it is, as it stands on rewards.
    fn giver(&self) -> Giver;

    /// Scores a group. The seed fixes everything drawn at random. A group that could not be judged comes back as an error:
    /// the caller keeps it, unscored.
    fn judge(&self, group: &[&Trace], seed: u64) -> Result<Judged, JudgeError>;
}

/// A judged group.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The score of each trace, in the order of the group.
    pub scores: Vec<f64>,
    /// The judge's words on each trace, in the order of the group.
    pub explanations: Vec<String>,
    /// How many of the traces were different.
    pub n_distinct: usize,
    /// How far the repeats agree; `None` when there is nothing to compare.
    pub agreement: Option<Agreement>,
    /// Every score that was given, with where its trace was shown.
    pub shown: Vec<Shown>,
    /// Positions in the group of traces that the judge saw without their middle.
    pub shortened: Vec<usize>,
    /// Into how many calls a repeat was split.
    pub n_parts: usize,
    /// Repeats that failed while others did not: the scores are the mean of the others.
    pub failed: Vec<JudgeError>,
    /// What it took.
    pub bill: Bill,
}

/// One score that was given in one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shown {
    /// Position in the group.
    pub trace_idx: usize,
    /// Which call.
    pub call_idx: usize,
    /// Where in the call: 0 is first, 1 is last.
    pub position: f64,
    /// The score as the judge gave it.
    pub score: f64,
    /// How many bytes of it the judge saw.
    pub n_bytes: usize,
}

/// Why a group was not judged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the group was not judged ({} calls): {reason}", bill.n_calls)]
pub struct JudgeError {
    /// What is wrong.
    pub reason: JudgeErrorReason,
    /// What was paid for in vain.
    pub bill: Bill,
}

impl JudgeError {
    /// Whether the judge was shown more than it can read.
    pub(crate) fn is_too_long(&self) -> bool {
        use JudgeErrorReason::Unheard as NotHeard;
        matches!(&self.reason, NotHeard(Unheard::Policy(error)) if error.kind == PolicyErrorKind::TooLong)
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JudgeErrorReason {
    /// No answer fitted, also not after the retries.
    #[error(transparent)]
    Unheard(#[from] Unheard<Box<Mismatch<TraceId>>>),
    /// The judge's context is too small for a comparison.
    #[error(
        "the judge's context is too short: of {bytes_max} bytes, instructions and task leave {bytes_left} for the trajectories; \
         ask a judge with a longer one, or raise `context_bytes_max`"
    )]
    NoRoom {
        /// The limit.
        bytes_max: usize,
        /// What is left of it.
        bytes_left: usize,
    },
}

/// How the scores of an answer do not match what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch<Id> {
    /// The answer has another form altogether.
    pub form: Option<String>,
    /// Without a score.
    pub missing: Vec<Id>,
    /// With several.
    pub repeated: Vec<Id>,
    /// Scores outside 0 to 1.
    pub out_of_range: Vec<(Id, f64)>,
    /// Ids that nobody asked for.
    pub unknown: Vec<String>,
}

impl<Id> Mismatch<Id> {
    pub(crate) fn none() -> Self {
        Self { form: None, missing: Vec::new(), repeated: Vec::new(), out_of_range: Vec::new(), unknown: Vec::new() }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.form.is_none()
            && self.missing.is_empty()
            && self.repeated.is_empty()
            && self.out_of_range.is_empty()
            && self.unknown.is_empty()
    }

    /// The same, with each id replaced by the ids that it stands for.
    pub(crate) fn map<Other>(self, ids: impl Fn(&Id) -> Vec<Other>) -> Box<Mismatch<Other>> {
        Box::new(Mismatch {
            form: self.form,
            missing: self.missing.iter().flat_map(&ids).collect(),
            repeated: self.repeated.iter().flat_map(&ids).collect(),
            out_of_range: self.out_of_range.iter().flat_map(|(id, score)| ids(id).into_iter().map(|id| (id, *score))).collect(),
            unknown: self.unknown,
        })
    }
}

impl Mismatch<String> {
    /// Reads `{"scores": [{KEY: id, "explanation": words, "score": from 0 to 1}]}`: score and words for each of these ids, in
    /// their order, wherever they stand in the answer.
    pub(crate) fn read(answer: &Value, key: &str, ids: &[String]) -> Result<Vec<(f64, String)>, Box<Self>> {
        let form = |what: String| Box::new(Self { form: Some(what), ..Self::none() });
        let Some(entries) = answer.get("scores").and_then(Value::as_array) else {
            return Err(form("it has no list `scores`".into()));
        };
        let mut verdicts: Vec<Option<(f64, String)>> = vec![None; ids.len()];
        let mut mismatch = Self::none();
        for (entry_idx, entry) in entries.iter().enumerate() {
            let (Some(id), Some(score)) = (entry[key].as_str(), entry["score"].as_f64()) else {
                return Err(form(format!("entry {entry_idx} of `scores` needs a text `{key}` and a number `score`")));
            };
            let Some(idx) = ids.iter().position(|known| known == id) else {
                mismatch.unknown.push(id.chars().take(64).collect());
                continue;
            };
            if verdicts[idx].is_some() {
                mismatch.repeated.push(id.to_owned());
            }
            if !(0.0..=1.0).contains(&score) {
                mismatch.out_of_range.push((id.to_owned(), score));
            }
            verdicts[idx] = Some((score, entry["explanation"].as_str().unwrap_or_default().to_owned()));
        }
        mismatch.missing = ids.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_none()).map(|(id, _)| id.clone()).collect();
        if mismatch.is_none() { Ok(verdicts.into_iter().flatten().collect()) } else { Err(Box::new(mismatch)) }
    }
}

/// The form of what [`Mismatch::read`] reads, with nothing left to get wrong but the scores: every id once, in this order, a short
/// explanation, a score in steps of 0.05.
pub(crate) fn exact_schema(key: &str, ids: &[String]) -> Value {
    let steps: Vec<f64> = (0..=20).map(|step| f64::from(step) / 20.0).collect();
    let entry = |id: &String| {
        json!({
            "type": "object",
            "properties": {
                key: {"const": id},
                "explanation": {"type": "string", "maxLength": EXPLANATION_CHARS_MAX},
                "score": {"enum": steps},
            },
            "required": [key, "explanation", "score"],
            "additionalProperties": false,
        })
    };
    let entries: Vec<Value> = ids.iter().map(entry).collect();
    scores_schema(&json!({"type": "array", "prefixItems": entries, "items": false, "minItems": ids.len(), "maxItems": ids.len()}))
}

/// The form of an answer with such a list of scores.
pub(crate) fn scores_schema(list: &Value) -> Value {
    json!({"type": "object", "properties": {"scores": list}, "required": ["scores"], "additionalProperties": false})
}

impl<Id: fmt::Display> fmt::Display for Mismatch<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ids: &[Id]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut complaints: Vec<String> = self.form.iter().cloned().collect();
        if !self.missing.is_empty() {
            complaints.push(format!("no score for {}", list(&self.missing)));
        }
        if !self.repeated.is_empty() {
            complaints.push(format!("several scores for {}", list(&self.repeated)));
        }
        for (id, score) in &self.out_of_range {
            complaints.push(format!("the score {score} of {id} is not between 0 and 1"));
        }
        if !self.unknown.is_empty() {
            complaints.push(format!("nobody asked for {}", self.unknown.join(", ")));
        }
        f.write_str(&complaints.join("; "))
    }
}
