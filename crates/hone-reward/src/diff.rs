//! How much a change of code changes, and whether it cheats.
//!
//! [`diff`] compares two versions of a file as syntax trees (Python, JavaScript, TypeScript, Rust, Go) and counts what was added,
//! deleted, moved, renamed and updated. Formatting and comments count for nothing; Python docstrings are content. With cost c,
//! the cost m of a known minimal fix (0 when none is known) and a tolerance t = 24 nodes,
//!
//! > minimality = (m + t) / (max(c, m) + t)
//!
//! so the smallest known change earns 1 and a needless rewrite of t nodes beyond it earns a half or less, whatever the size of
//! the file. A change that is smaller than the reference is not better: whether it works is for other checks to say.
//!
//! [`Finding`]s name scaffolding that the change brought in: tests edited, checks deleted, values hard-coded to test inputs,
//! errors swallowed, dead code. What was there before is not held against it. A change with any of them scores 0.
//!
//! Knows one file at a time: a function that only another file uses looks unused here, so only private ones are called dead.
//! It runs nothing and proves nothing; it sees syntax.

mod counts;
mod language;
mod matching;
pub mod sample;
mod scaffold;
mod source;
mod tree;

pub use counts::DiffCounts;
pub use language::Language;
pub use scaffold::{Finding, FindingKind, Side};
pub use source::Source;

use matching::Matching;
use serde::{Deserialize, Serialize};

/// Bytes of one file.
pub const TEXT_LEN_MAX: usize = 1 << 20;

/// Nodes of one file.
pub const NODES_MAX: usize = 1 << 20;

/// Hundreds of parser operations for one file.
pub const STEPS_MAX: usize = 200_000;

/// Nodes of change that cost half of the score.
const TOLERANCE: f64 = 24.0;

/// Why two files could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// The text is longer than the limit.
    #[error("{n_bytes} bytes of code; at most {TEXT_LEN_MAX} are compared")]
    TooLong {
        /// Its length.
        n_bytes: usize,
    },
    /// The tree is larger than the limit.
    #[error("more than {NODES_MAX} nodes in one file")]
    TooManyNodes,
    /// The parser was stopped.
    #[error("the parser did not finish within {STEPS_MAX} steps")]
    TooManySteps,
    /// The two sides are not in the same language.
    #[error("code before is {before}, code after is {after}")]
    Languages {
        /// Language of the code before.
        before: &'static str,
        /// Language of the code after.
        after: &'static str,
    },
    /// The grammar does not fit the parser.
    #[error("the grammar of {0} cannot be loaded")]
    Grammar(&'static str),
}

/// What the change was for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// The cost of a known good fix: see [`DiffCounts::cost`].
    pub minimal_cost: Option<f64>,
    /// Whether tests were part of the task.
    pub tests: Tests,
    /// The path of the file, by which test files are known.
    pub path: Option<String>,
    /// Inputs of the hidden tests, as literals of the language. Where any are given, only they count as hard-coded.
    pub inputs: Vec<String>,
    /// Outputs of the hidden tests, as literals of the language.
    pub outputs: Vec<String>,
}

/// Whether tests may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tests {
    /// They say what right is: changing one is a finding. New tests are welcome.
    #[default]
    Fixed,
    /// Changing them is part of the task.
    Open,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// What changed.
    pub counts: DiffCounts,
    /// The size of the change.
    pub cost: f64,
    /// How close the change is to the smallest one, in (0, 1].
    pub minimality: f64,
    /// What the change is worth: its minimality, or 0 with any finding.
    pub score: f64,
    /// Scaffolding that the change brought in, in the order of the file.
    pub findings: Vec<Finding>,
    /// Places before that the parser did not understand.
    pub n_syntax_errors_before: usize,
    /// Places after that the parser did not understand.
    pub n_syntax_errors_after: usize,
}

/// Compares two versions of a file.
pub fn diff(before: &Source, after: &Source, asked: &Asked) -> Result<Diff, DiffError> {
    if before.language() != after.language() {
        return Err(DiffError::Languages { before: before.language().name(), after: after.language().name() });
    }
    let matching = Matching::new(&before.tree, &after.tree);
    let counts = DiffCounts::new(&before.tree, &after.tree, &matching);
    let cost = counts.cost();
    let findings = if cost == 0.0 { Vec::new() } else { scaffold::findings(before, after, &matching, asked) };
    let minimality = minimality(cost, asked.minimal_cost);
    Ok(Diff {
        counts,
        cost,
        minimality,
        score: if findings.is_empty() { minimality } else { 0.0 },
        findings,
        n_syntax_errors_before: before.n_syntax_errors(),
        n_syntax_errors_after: after.n_syntax_errors(),
    })
}

/// How close a change of this cost is to a change of the minimal cost. A reference that is no cost counts as none.
pub fn minimality(cost: f64, minimal_cost: Option<f64>) -> f64 {
    let minimal = minimal_cost.filter(|cost| cost.is_finite() && *cost > 0.0).unwrap_or(0.0);
    (minimal + TOLERANCE) / (cost.max(minimal) + TOLERANCE)
}
