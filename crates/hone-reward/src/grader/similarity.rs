//! How alike two texts are, from 0 to 1, by measures that need no model.
//!
//! | measure | what it is here |
//! |---|---|
//! | fuzzy_match | 2 x longest common subsequence / both lengths, over characters |
//! | bleu | geometric mean of 1- to 4-gram precisions (n > 1 with one added to both counts) x brevity penalty |
//! | gleu | matching 1- to 4-grams / the larger of both counts: the smaller of precision and recall |
//! | rouge_n | F1 of n-gram overlap, words in lower case; 0 where neither text has n words, even if they are the same |
//! | rouge_l | F1 of the longest common subsequence of words, in lower case; 0 where neither text has a word |
//!
//! Words are runs of letters and digits; for BLEU and GLEU a punctuation mark is a word as well, and case counts.
//! Subsequences are sought in the first 8,192 characters or words of each text.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far subsequences are sought: the work grows with the square.
const SEQUENCE_MAX: usize = 8192;

/// A measure of likeness, under the name that graders give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the table above says what each is")]
pub enum Measure {
    FuzzyMatch,
    Bleu,
    Gleu,
    #[serde(rename = "rouge_1")]
    Rouge1,
    #[serde(rename = "rouge_2")]
    Rouge2,
    #[serde(rename = "rouge_3")]
    Rouge3,
    #[serde(rename = "rouge_4")]
    Rouge4,
    #[serde(rename = "rouge_5")]
    Rouge5,
    RougeL,
    /// Known by name, and refused: it needs an embedding model.
    Cosine,
    /// Known by name, and refused: it needs a dictionary of synonyms.
    Meteor,
}

impl Measure {
    /// What it needs that is not here.
    pub(super) fn needs(self) -> Option<&'static str> {
        match self {
            Self::Cosine => Some("`cosine` needs an embedding model, which hone does not have: use fuzzy_match or rouge_l"),
            Self::Meteor => Some("`meteor` needs a dictionary of synonyms, which hone does not have: use gleu or rouge_l"),
            _ => None,
        }
    }

    /// How alike the texts are. An empty one and another are not alike at all; two empty ones are the same, except to the
    /// measures of ROUGE, which want shared words.
    pub(super) fn of(self, input: &str, reference: &str) -> f64 {
        match self {
            Self::FuzzyMatch if input == reference => 1.0,
            Self::FuzzyMatch => {
                let (one, other): (Vec<char>, Vec<char>) =
                    (input.chars().take(SEQUENCE_MAX).collect(), reference.chars().take(SEQUENCE_MAX).collect());
                f1(subsequence(&one, &other), one.len(), other.len())
            }
            Self::Bleu => bleu(&marks(input), &marks(reference)),
            Self::Gleu => gleu(&marks(input), &marks(reference)),
            Self::Rouge1 => rouge(input, reference, 1),
            Self::Rouge2 => rouge(input, reference, 2),
            Self::Rouge3 => rouge(input, reference, 3),
            Self::Rouge4 => rouge(input, reference, 4),
            Self::Rouge5 => rouge(input, reference, 5),
            Self::RougeL => {
                let (mut one, mut other) = (words(input), words(reference));
                one.truncate(SEQUENCE_MAX);
                other.truncate(SEQUENCE_MAX);
                f1(subsequence(&one, &other), one.len(), other.len())
            }
            Self::Cosine | Self::Meteor => 0.0,
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn marks(text: &str) -> Vec<String> {
    let mut marks: Vec<String> = Vec::new();
    let mut is_in_word = false;
    for c in text.chars() {
        match marks.last_mut() {
            Some(word) if c.is_alphanumeric() && is_in_word => word.push(c),
            _ if c.is_whitespace() => {}
            _ => marks.push(c.to_string()),
        }
        is_in_word = c.is_alphanumeric();
    }
    marks
}

/// How often each run of n words occurs.
fn grams(words: &[String], n: usize) -> BTreeMap<&[String], usize> {
    let mut counts = BTreeMap::new();
    words.windows(n).for_each(|gram| *counts.entry(gram).or_insert(0) += 1);
    counts
}

/// How many n-grams both have.
fn shared(one: &[String], other: &[String], n: usize) -> usize {
    let others = grams(other, n);
    grams(one, n).iter().map(|(gram, count)| count.min(others.get(gram).unwrap_or(&0))).sum()
}

fn n_grams(words: &[String], n: usize) -> usize {
    (words.len() + 1).saturating_sub(n)
}

fn rouge(input: &str, reference: &str, n: usize) -> f64 {
    let (one, other) = (words(input), words(reference));
    f1(shared(&one, &other, n), n_grams(&one, n), n_grams(&other, n))
}

/// Zero where neither has anything to share, as in the usual ROUGE packages: else nothing at all would earn full reward.
fn f1(n_shared: usize, n_one: usize, n_other: usize) -> f64 {
    if n_one + n_other == 0 { 0.0 } else { 2.0 * n_shared as f64 / (n_one + n_other) as f64 }
}

fn bleu(input: &[String], reference: &[String]) -> f64 {
    if input.is_empty() || reference.is_empty() {
        return f64::from(u8::from(input.is_empty() && reference.is_empty()));
    }
    let precision = |n: usize| {
        let added = f64::from(u8::from(n > 1));
        (shared(input, reference, n) as f64 + added) / (n_grams(input, n) as f64 + added)
    };
    let mean_log = (1..=4).map(|n| precision(n).ln()).sum::<f64>() / 4.0;
    let brevity = (1.0 - reference.len() as f64 / input.len() as f64).min(0.0);
    (mean_log + brevity).exp()
}

fn gleu(input: &[String], reference: &[String]) -> f64 {
    let sum = |count: &dyn Fn(usize) -> usize| (1..=4).map(count).sum::<usize>();
    let n_larger = sum(&|n| n_grams(input, n)).max(sum(&|n| n_grams(reference, n)));
    if n_larger == 0 { 1.0 } else { sum(&|n| shared(input, reference, n)) as f64 / n_larger as f64 }
}

/// The length of the longest common subsequence, in one row.
fn subsequence<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for item in one {
        let mut corner = 0;
        for (idx, candidate) in other.iter().enumerate() {
            let above = row[idx + 1];
            row[idx + 1] = if item == candidate { corner + 1 } else { above.max(row[idx]) };
            corner = above;
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(measure: Measure, input: &str, reference: &str, value: f64) {
        let got = measure.of(input, reference);
        assert!((got - value).abs() < 1e-4, "{measure:?} of {input:?} and {reference:?} is {got}");
    }

    #[test]
    fn measures_have_their_values_by_hand() {
        check(Measure::FuzzyMatch, "this is a test", "this is a test!", 28.0 / 29.0);
        check(Measure::FuzzyMatch, "abc", "xyz", 0.0);
        check(Measure::Rouge1, "The cat sat", "the cat ran away", 4.0 / 7.0);
        check(Measure::Rouge2, "the cat sat", "the cat ran away", 2.0 / 5.0);
        check(Measure::Rouge5, "the cat sat", "the cat ran away", 0.0);
        check(Measure::Rouge2, "", "Paris", 0.0);
        check(Measure::Rouge2, "London", "Paris", 0.0);
        check(Measure::Rouge2, "Paris", "Paris", 0.0);
        check(Measure::Rouge1, "Paris", "Paris", 1.0);
        check(Measure::Rouge1, "?", "!", 0.0);
        check(Measure::RougeL, "?", "!", 0.0);
        check(Measure::FuzzyMatch, "", "", 1.0);
        check(Measure::RougeL, "the big cat sat", "the cat sat down", 6.0 / 8.0);
        // 1-grams 3, 2-grams 1, of 4 + 3 + 2 + 1 on each side.
        check(Measure::Gleu, "the cat sat down", "the cat ran down", 4.0 / 10.0);
        // Precisions 3/4, 2/4, 1/3, 1/2 after adding; no brevity penalty.
        check(Measure::Bleu, "the cat sat down", "the cat ran down", (0.75f64 * 0.5 / 3.0 * 0.5).powf(0.25));
        check(Measure::Bleu, "a b c d", "a b c d e f g h", (-1f64).exp());
        check(Measure::Bleu, "", "a", 0.0);
    }

    proptest! {
        #[test]
        fn every_measure_is_a_share_and_finds_a_text_like_itself(one in ".{0,60}", other in ".{0,60}") {
            use Measure::*;
            for measure in [FuzzyMatch, Bleu, Gleu, Rouge1, Rouge2, RougeL] {
                let value = measure.of(&one, &other);
                prop_assert!((0.0..=1.0 + 1e-12).contains(&value), "{:?} {}", measure, value);
                let n_words = words(&one).len();
                let is_too_short = matches!(measure, Rouge1 | RougeL) && n_words < 1 || measure == Rouge2 && n_words < 2;
                let itself = if is_too_short { 0.0 } else { 1.0 };
                prop_assert!((measure.of(&one, &one) - itself).abs() < 1e-9, "{:?}", measure);
            }
        }
    }
}
