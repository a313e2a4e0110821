//! A recipe: what a trace is weighed by, as the `[reward]` table of `hone.toml`.
//!
//! Every component has a name, a weight and a role, and a kind that says what is measured. A total is the sum of value x
//! weight; nothing is weighed in secret. A component with a `range` is kept inside it, so what it can do at most is known
//! before anything is scored: see [`lint`](mod@crate::lint).
//!
//! | kind | value |
//! |---|---|
//! | `signal` | what the world measured, combined over the turns |
//! | `outcome` | 1 when the trace ended in success, else 0 |
//! | `process` | bonuses and costs of single turns, capped by the primary: see [`Process`] |
//! | `length`, `steps` | minus the cost of tokens or turns beyond a free allowance |
//! | `format` | the share of turns whose answer could be read |
//! | `grader` | what an OpenAI-style grader gives |
//! | `rubric` | weighted criteria by a judge |
//! | `ruler` | the rank in its group by a judge |

use crate::grader::{Bench, Grade, Grader, GraderError};
use crate::process::Process;
use crate::rubric::Rubric;
use crate::ruler::RulerOptions;
use crate::score::Attempt;
use hone_trace::env::Signals;
use hone_trace::policy::Policy;
use hone_trace::{ConfigHash, Trace, TraceOutcome};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most components of one recipe.
const COMPONENTS_MAX: usize = 32;

/// What a trace is weighed by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name, which stands on the rewards.
    #[serde(default = "reward")]
    pub name: String,
    /// The components.
    pub components: Vec<Part>,
}

/// One component of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Part {
    /// Its name.
    pub name: String,
    /// How much it counts.
    pub weight: f64,
    /// What it is for.
    pub role: Role,
    /// What is measured.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What a component is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What is wanted.
    Primary,
    /// What helps on the way.
    Secondary,
    /// What is not wanted: it only ever takes away.
    Penalty,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// What the world measured.
    Signal(Signal),
    /// Whether the trace ended in success.
    Outcome(Empty),
    /// Bonuses and costs of single turns.
    Process(Process),
    /// Tokens written beyond an allowance.
    Length(Length),
    /// Turns beyond an allowance.
    Steps(Steps),
    /// The share of turns whose answer could be read.
    Format(Empty),
    /// An OpenAI-style grader.
    Grader(Graded),
    /// Weighted criteria by a judge.
    Rubric(Rubric),
    /// The rank in the group by a judge.
    Ruler(RulerOptions),
}

/// A kind without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// What the world measured, turn by turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Its name.
    pub signal: String,
    /// How the turns that have it are combined.
    #[serde(default)]
    pub combine: Combine,
    /// The value of a trace in which no turn has it.
    #[serde(default)]
    pub missing: f64,
    /// What the value is kept between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// How values of several turns become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// The last one counts.
    #[default]
    Last,
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// Their mean.
    Mean,
}

/// Tokens written beyond an allowance cost, up to a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// Tokens that cost nothing.
    pub free_tokens: u64,
    /// What each further token costs.
    pub per_token: f64,
    /// What all of them cost at most.
    pub cost_max: f64,
}

/// Turns beyond an allowance cost, up to a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// Turns that cost nothing.
    pub free_turns: u64,
    /// What each further turn costs.
    pub per_turn: f64,
    /// What all of them cost at most.
    pub cost_max: f64,
}

/// An OpenAI-style grader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graded {
    /// The grader, in the form in which OpenAI writes it.
    pub grader: Grader,
    /// How often its judge is asked again when an answer does not fit.
    #[serde(default = "two")]
    pub n_retries: u32,
    /// What the score is kept between; a multi grader has no range of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// What is wrong with a recipe, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct RecipeError {
    /// Where.
    pub place: String,
    /// What.
    pub what: String,
}

impl Recipe {
    /// Reads the inside of a `[reward]` table.
    pub fn parse(toml: &str) -> Result<Self, RecipeError> {
        let whole = |what: String| RecipeError { place: "reward".into(), what };
        let recipe: Self = toml::from_str(toml).map_err(|error| whole(error.to_string().trim_end().to_owned()))?;
        match recipe.components.len() {
            1..=COMPONENTS_MAX => Ok(recipe),
            n => Err(whole(format!("a recipe has 1 to {COMPONENTS_MAX} components, this one has {n}"))),
        }
    }

    /// What identifies it: the hash of its JSON form.
    pub fn hash(&self) -> ConfigHash {
        ConfigHash::of(&serde_json::to_vec(self).expect("a recipe has string keys"))
    }

    /// Whether a model takes part in it.
    pub fn needs_judge(&self) -> bool {
        self.components.iter().any(|part| part.kind.needs_judge())
    }

    /// The component that ranks the group, where there is one.
    pub fn ruler(&self) -> Option<(&Part, &RulerOptions)> {
        self.components.iter().find_map(|part| if let Kind::Ruler(options) = &part.kind { Some((part, options)) } else { None })
    }

    /// Whether something that is wanted is measured without a judge, so that [`Recipe::measured`] says how good a trace is.
    pub fn measures(&self) -> bool {
        self.components.iter().any(|part| part.role == Role::Primary && part.kind.is_measured())
    }

    /// What is known of a trace without a judge: the weighted sum of the components that the world tells (`signal` and `outcome`)
    /// and of the graders that need no judge and have bounds. This is the scale on which the best of a world is told.
    pub fn measured(&self, attempt: Attempt<'_>) -> Result<f64, GraderError> {
        let Attempt { trace, item } = attempt;
        let mut total = 0.0;
        for part in self.components.iter().filter(|part| part.kind.is_measured()) {
            total += part.weight
                * match &part.kind {
                    Kind::Signal(signal) => signal.of_trace(trace),
                    Kind::Grader(graded) => graded.grade(trace, item, None, 0)?.score,
                    _ => f64::from(trace.outcome == TraceOutcome::Success),
                };
        }
        Ok(total)
    }

    /// The same of a world's best episode, which is a success, ends with these signals and is all that a grader can ask for.
    pub fn measured_at_best(&self, signals: &Signals) -> f64 {
        let worth = |part: &Part| match &part.kind {
            Kind::Signal(signal) => part.weight * signal.of_value(signals.get(&signal.signal)),
            Kind::Outcome(_) => part.weight,
            kind => kind.range(0.0).map_or(0.0, |[low, high]| (part.weight * low).max(part.weight * high)),
        };
        // Not `sum`, whose zero is negative.
        self.components.iter().filter(|part| part.kind.is_measured()).map(worth).fold(0.0, |sum, worth| sum + worth)
    }

    /// A score on the scale from doing nothing (0) to the best possible (1). Where nothing is already the best, 1 when it
    /// is reached.
    pub fn normalised(score: f64, nothing: f64, best: f64) -> f64 {
        let span = best - nothing;
        if span.abs() < 1e-12 { f64::from(u8::from(score >= best)) } else { (score - nothing) / span }
    }

    /// The least and the most that the primary components can give together, where that is known.
    pub fn primary_range(&self) -> Option<[f64; 2]> {
        let ends = |part: &Part| Some(part.kind.range(0.0)?.map(|end| part.weight * end));
        let mut primary = self.components.iter().filter(|part| part.role == Role::Primary).map(ends);
        primary.try_fold([0.0, 0.0], |[low, high], ends| ends.map(|[one, other]| [low + one.min(other), high + one.max(other)]))
    }

    /// The most that the primary components can give or take together, where that is known.
    pub(crate) fn primary_scale(&self) -> Option<f64> {
        let size = |part: &Part| Some(part.kind.range(0.0)?.map(|end| (part.weight * end).abs()).into_iter().fold(0.0, f64::max));
        self.components.iter().filter(|part| part.role == Role::Primary).map(size).sum()
    }
}

impl Kind {
    /// Whether a model takes part in it.
    pub fn needs_judge(&self) -> bool {
        match self {
            Self::Rubric(_) | Self::Ruler(_) => true,
            Self::Grader(graded) => graded.grader.needs_judge(),
            _ => false,
        }
    }

    /// Whether its value is known without a judge, and says how good a trace is rather than how it came about. A grader counts only
    /// where it has bounds: what the best would earn is not known of another.
    fn is_measured(&self) -> bool {
        match self {
            Self::Signal(_) | Self::Outcome(_) => true,
            Self::Grader(graded) => !graded.grader.needs_judge() && self.range(0.0).is_some(),
            _ => false,
        }
    }

    /// The least and the most that its value can be, where that is known, for a primary of this scale.
    pub(crate) fn range(&self, primary_scale: f64) -> Option<[f64; 2]> {
        match self {
            Self::Signal(signal) => signal.range,
            Self::Outcome(_) | Self::Format(_) | Self::Rubric(_) | Self::Ruler(_) => Some([0.0, 1.0]),
            Self::Process(process) => Some([-process.share_max * primary_scale, process.share_max * primary_scale]),
            Self::Length(length) => Some([-length.cost_max, 0.0]),
            Self::Steps(steps) => Some([-steps.cost_max, 0.0]),
            Self::Grader(graded) => graded.range.or_else(|| graded.grader.range()),
        }
    }

    /// Says which option cannot work.
    pub(crate) fn check(&self) -> Result<(), String> {
        let costs = |per: f64, max: f64| match per.is_finite() && per > 0.0 && max.is_finite() && max > 0.0 {
            true => Ok(()),
            false => Err("the cost of one and `cost_max` must be above 0".to_owned()),
        };
        match self {
            Self::Signal(signal) => ordered(signal.range),
            Self::Outcome(_) | Self::Format(_) => Ok(()),
            Self::Process(process) => process.check(),
            Self::Length(length) => costs(length.per_token, length.cost_max),
            Self::Steps(steps) => costs(steps.per_turn, steps.cost_max),
            Self::Grader(graded) => {
                ordered(graded.range)?;
                if graded.n_retries > 16 {
                    return Err("`n_retries` is at most 16".into());
                }
                graded.grader.check().map_err(|error| error.to_string())
            }
            Self::Rubric(rubric) => rubric.check(),
            Self::Ruler(options) => options.check().map_err(|error| error.to_string()),
        }
    }
}

impl Graded {
    /// Grades the last answer of a trace, within the range.
    pub(crate) fn grade(&self, trace: &Trace, item: &Value, judge: Option<&dyn Policy>, seed: u64) -> Result<Grade, GraderError> {
        let grade = self.grader.grade(trace, item, Bench { judge, seed, n_retries: self.n_retries })?;
        let score = self.range.map_or(grade.score, |[low, high]| grade.score.clamp(low, high));
        Ok(Grade { score, ..grade })
    }
}

impl Signal {
    /// Whether a turn of the trace has it.
    pub(crate) fn is_in(&self, trace: &Trace) -> bool {
        trace.turns().any(|turn| turn.signals.contains_key(&self.signal))
    }

    pub(crate) fn of_trace(&self, trace: &Trace) -> f64 {
        let values: Vec<f64> = trace.turns().filter_map(|turn| turn.signals.get(&self.signal).copied()).collect();
        let combined = match self.combine {
            Combine::Last => values.last().copied(),
            Combine::Sum => values.iter().copied().reduce(|one, other| one + other),
            Combine::Max => values.iter().copied().reduce(f64::max),
            Combine::Mean => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
        };
        self.of_value(combined)
    }

    fn of_value(&self, value: Option<f64>) -> f64 {
        let value = value.unwrap_or(self.missing);
        self.range.map_or(value, |[low, high]| value.clamp(low, high))
    }
}

/// Written by hand because a list of common fields beside the options of a kind could not refuse unknown keys otherwise.
impl TryFrom<Map<String, Value>> for Part {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Common {
            weight: f64,
            role: Role,
        }
        let name = match fields.remove("name") {
            Some(Value::String(name)) if !name.is_empty() => name,
            _ => return Err("a component needs a `name`".into()),
        };
        let place = |what: String| format!("component `{name}`: {what}");
        let mut common = Map::new();
        for key in ["weight", "role"] {
            common.extend(fields.remove_entry(key));
        }
        let Common { weight, role } = serde_json::from_value(common.into()).map_err(|error| place(error.to_string()))?;
        let kind: Kind = serde_json::from_value(fields.into()).map_err(|error| place(error.to_string()))?;
        kind.check().map_err(place)?;
        Ok(Self { name, weight, role, kind })
    }
}

fn ordered(range: Option<[f64; 2]>) -> Result<(), String> {
    match range {
        Some([low, high]) if !(low.is_finite() && high.is_finite() && low < high) => {
            Err(format!("the range [{low}, {high}] is not from low to high"))
        }
        _ => Ok(()),
    }
}

fn reward() -> String {
    "reward".into()
}

fn two() -> u32 {
    2
}
