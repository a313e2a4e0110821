//! How well personal data is found, by kind: the share of labelled values that are covered from end to end (recall), and the share of
//! what was found that overlaps a label of its kind (precision).

pub mod presidio;

use crate::anonymise::{Found, Hint, Kind, Known, scan};
use serde::Serialize;
use std::collections::BTreeMap;

/// A text with what is personal in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    /// The text.
    pub text: String,
    /// What stands in it, in bytes.
    pub labels: Vec<Found>,
}

/// How well one kind is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Values that are labelled.
    pub n_labels: u64,
    /// Those of them that were found from end to end, as their own kind.
    pub n_recalled: u64,
    /// Those of them that were covered from end to end by anything.
    pub n_covered: u64,
    /// Values that were found.
    pub n_found: u64,
    /// Those of them that overlap a label of their kind.
    pub n_right: u64,
}

impl Score {
    /// The share of labelled values that were found; 1 when there are none.
    pub fn recall(&self) -> f64 {
        share(self.n_recalled, self.n_labels)
    }

    /// The share of found values that are labelled; 1 when there are none.
    pub fn precision(&self) -> f64 {
        share(self.n_right, self.n_found)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            n_labels: self.n_labels + other.n_labels,
            n_recalled: self.n_recalled + other.n_recalled,
            n_covered: self.n_covered + other.n_covered,
            n_found: self.n_found + other.n_found,
            n_right: self.n_right + other.n_right,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// Scores by kind.
pub type Scores = BTreeMap<Kind, Score>;

/// What is found in a text, a name that is introduced in it wherever it stands.
pub fn find(text: &str) -> Vec<Found> {
    let mut known = Known::default();
    let first = scan(text, Hint::NONE, &known);
    if !first.iter().any(|found| found.kind == Kind::Name) {
        return first;
    }
    known.learn(text, &first);
    scan(text, Hint::NONE, &known)
}

/// Adds how well this text was read.
pub fn score(scores: &mut Scores, labelled: &Labelled) {
    let found = find(&labelled.text);
    for label in &labelled.labels {
        let score = scores.entry(label.kind).or_default();
        score.n_labels += 1;
        score.n_recalled += u64::from(is_covered(label, found.iter().filter(|found| found.kind == label.kind)));
        score.n_covered += u64::from(is_covered(label, found.iter()));
    }
    for found in &found {
        let overlaps = |label: &Found| label.range.start < found.range.end && found.range.start < label.range.end;
        let score = scores.entry(found.kind).or_default();
        score.n_found += 1;
        score.n_right += u64::from(labelled.labels.iter().any(|label| label.kind == found.kind && overlaps(label)));
    }
}

/// Whether findings in order cover a label. Blanks and signs between two of them do not count.
fn is_covered<'a>(label: &Found, found: impl Iterator<Item = &'a Found>) -> bool {
    let mut at = label.range.start;
    for found in found {
        if found.range.start <= at && found.range.end > at {
            at = found.range.end;
        }
    }
    at >= label.range.end
}

/// The kinds whose bars are published together.
pub const PATTERNS: [Kind; 6] = [Kind::Email, Kind::Phone, Kind::Card, Kind::Iban, Kind::Ip, Kind::Ssn];

/// The score of all of them.
pub fn of_patterns(scores: &Scores) -> Score {
    PATTERNS.iter().filter_map(|kind| scores.get(kind)).fold(Score::default(), |sum, score| sum.plus(*score))
}
