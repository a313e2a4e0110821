//! Rewards: how a trace is weighed.
//!
//! A [`Recipe`] says by what; a [`Scorer`] turns traces into rewards with named components; [`lint()`] says what is unwise
//! about a recipe before anything is trained on it. Where nothing can be checked, a model judges: a [`Rubric`] one trace by
//! criteria, a [`Ruler`] a whole group against each other; [`calibrate()`] says how far such a judge can be trusted.
//!
//! Judges are policies that the caller hands in. Knows nothing of training, worlds or the store.

pub mod alarm;
mod ask;
mod calibrate;
pub mod diff;
mod found;
pub mod grader;
mod judge;
pub mod lint;
mod process;
pub mod recipe;
mod rubric;
mod ruler;
mod score;
mod statistics;
#[cfg(test)]
mod testing;
mod transcript;
mod worlds;

pub use ask::{Bill, Unheard};
pub use calibrate::{Calibration, Floor, LabelledGroup, Measurement, Standing, Unscored, calibrate, read_group};
pub use grader::Grader;
pub use judge::{Judge, JudgeError, JudgeErrorReason, Judged, Mismatch, Shown};
pub use lint::{Finding, Severity, lint};
pub use process::Process;
pub use recipe::{Recipe, RecipeError};
pub use rubric::{Criterion, Graded, Rubric, RubricError};
pub use ruler::{DEFAULT_RUBRIC, Ruler, RulerOptionError, RulerOptions};
pub use score::{Attempt, ScoreError, ScoreErrorReason, Scored, ScoredGroup, Scorer};
pub use statistics::{Agreement, Correlation, Share};
