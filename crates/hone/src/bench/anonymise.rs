//! `hone bench anonymise`: how much personal data is found, how much of what is found is personal, and how fast.

use super::figures::{Spread, rounded};
use super::on_core::OnCore;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use hone_data::anonymise::{Anonymiser, Key, Kind};
use hone_data::measure::{Labelled, Score, Scores, find, of_patterns, presidio, score};
use hone_data::sample;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measure how well and how fast personal data is found
///
/// Generated text has values of every kind planted in many forms, among numbers that are nobody's. With `--labelled FILE`, sentences
/// of Presidio's research set are read as well. Recall is the share of labelled values that are covered from end to end, precision
/// the share of found ones that overlap a label of their kind. Exit code 1 when pattern kinds (e-mail, phone, card, IBAN, IP, SSN) miss 0.99
/// recall or 0.95 precision, or when a second pass finds anything. Rates are per second that the one thread had a core, beside the rate per
/// second that passed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the generated text
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Megabytes of generated text of each sort
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    megabytes: u32,
    /// Rounds to measure the rate
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Labelled sentences, one JSON object per line
    #[arg(long, value_name = "FILE")]
    labelled: Option<PathBuf>,
}

const RECALL_MIN: f64 = 0.99;
const PRECISION_MIN: f64 = 0.95;

#[derive(Debug, Serialize)]
struct Figures {
    seed: u64,
    /// Text without personal data, per second of one core.
    mb_per_s: f64,
    mb_per_s_spread: Spread,
    /// The same per second that passed, whoever else used the core.
    mb_per_passed_s: f64,
    /// Text full of it, replaced.
    replaced_mb_per_s: f64,
    /// What was found in text that has none.
    found_in_plain: usize,
    second_pass_found: u64,
    /// Of texts that repeat the begin of something: how many times as long as prose the slowest takes, and how many times as long it takes
    /// for eight times as much.
    repeated_times: f64,
    repeated_times_of_eight: f64,
    generated: Quality,
    #[serde(skip_serializing_if = "Option::is_none")]
    labelled: Option<Quality>,
}

#[derive(Debug, Serialize)]
struct Quality {
    pattern_recall: f64,
    pattern_precision: f64,
    kinds: BTreeMap<Kind, Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    recall: f64,
    precision: f64,
    #[serde(flatten)]
    counts: Score,
}

impl Quality {
    fn of(texts: &[Labelled]) -> Self {
        let mut scores = Scores::new();
        texts.iter().for_each(|text| score(&mut scores, text));
        let patterns = of_patterns(&scores);
        let row = |score: &Score| Row { recall: rounded(score.recall()), precision: rounded(score.precision()), counts: *score };
        Self {
            pattern_recall: patterns.recall(),
            pattern_precision: patterns.precision(),
            kinds: scores.iter().map(|(kind, score)| (*kind, row(score))).collect(),
        }
    }

    fn is_good(&self) -> bool {
        self.pattern_recall >= RECALL_MIN && self.pattern_precision >= PRECISION_MIN
    }
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let labelled = args.labelled.as_deref().map(read).transpose()?;
    let n_bytes = args.megabytes as usize * 1_000_000;
    let plain = sample::plain(args.seed, n_bytes);
    let planted = sample::planted(args.seed, n_bytes);
    let mut found_in_plain = 0;
    let passed = Instant::now();
    let rates: Vec<f64> = (0..args.rounds).map(|_| rate(plain.len(), || found_in_plain = find(&plain).len())).collect();
    let mb_per_passed_s = rounded(f64::from(args.rounds) * plain.len() as f64 / 1e6 / passed.elapsed().as_secs_f64());
    let mut once = Vec::with_capacity(planted.len());
    let mut worker = anonymiser();
    let n_planted: usize = planted.iter().map(|text| text.text.len()).sum();
    let replaced_mb_per_s =
        rounded(rate(n_planted, || once.extend(planted.iter().map(|text| worker.text(&text.text).into_owned()))));
    let mut second = anonymiser();
    once.iter().for_each(|text| {
        second.text(text);
    });
    let spread = Spread::of(&rates);
    let (repeated_times, repeated_times_of_eight) = repeated(args.seed);
    let figures = Figures {
        seed: args.seed,
        mb_per_s: spread.median,
        mb_per_s_spread: spread,
        mb_per_passed_s,
        replaced_mb_per_s,
        found_in_plain,
        second_pass_found: second.report().total(),
        repeated_times,
        repeated_times_of_eight,
        generated: Quality::of(&planted),
        labelled: labelled.as_deref().map(Quality::of),
    };
    let is_good =
        figures.second_pass_found == 0 && figures.generated.is_good() && figures.labelled.as_ref().is_none_or(Quality::is_good);
    print(&figures, context)?;
    Ok(if is_good { Exit::Yes } else { Exit::No })
}

fn print(figures: &Figures, context: &Context<'_>) -> Result<(), Failure> {
    let printer = context.printer;
    if printer.wants_json() {
        return printer.json(figures);
    }
    let row = |text: &str, kind: &str, recall: f64, precision: f64, n: u64| {
        vec![text.to_owned(), kind.to_owned(), format!("{recall:.3}"), format!("{precision:.3}"), n.to_string()]
    };
    let mut rows = Vec::new();
    for (text, quality) in [("generated", Some(&figures.generated)), ("labelled", figures.labelled.as_ref())] {
        let Some(quality) = quality else { continue };
        for (kind, score) in &quality.kinds {
            rows.push(row(text, kind.as_str(), score.recall, score.precision, score.counts.n_labels));
        }
        rows.push(row(text, "patterns", quality.pattern_recall, quality.pattern_precision, 0));
    }
    printer.table(&["text", "kind", "recall", "precision", "labels"], &rows)?;
    let Figures { mb_per_s_spread, mb_per_passed_s, replaced_mb_per_s, found_in_plain, second_pass_found, .. } = figures;
    let Figures { repeated_times, repeated_times_of_eight, .. } = figures;
    printer.plain(&format!("{mb_per_s_spread} MB per second of one core ({mb_per_passed_s} per second that passed), {replaced_mb_per_s} where much is replaced"))?;
    printer.plain(&format!("{found_in_plain} found in text without personal data, {second_pass_found} in a second pass"))?;
    printer.plain(&format!(
        "what only begins, again and again, takes {repeated_times} times as long as prose at most, and eight times as much of it {repeated_times_of_eight} times"
    ))
}

/// What the slowest of them takes beside prose, and the largest part that is not in proportion to the text.
fn repeated(seed: u64) -> (f64, f64) {
    const N_BYTES: usize = 1 << 17;
    // The shorter of two times: what else the machine does can only add to it.
    let seconds = |text: &str| {
        let timed = || {
            let watch = OnCore::start();
            find(text);
            watch.seconds()
        };
        timed().min(timed()).max(1e-9)
    };
    let of_unit = |unit: &&str, n_bytes: usize| seconds(&unit.repeat(n_bytes / unit.len()));
    let prose = seconds(&sample::plain(seed, N_BYTES));
    let largest = |of: &dyn Fn(&&str) -> f64| rounded(sample::REPEATED.iter().map(of).fold(0.0, f64::max));
    (largest(&|unit| of_unit(unit, N_BYTES) / prose), largest(&|unit| of_unit(unit, N_BYTES) / of_unit(unit, N_BYTES / 8)))
}

fn anonymiser() -> Anonymiser {
    Anonymiser::new(Key::new([0; 32]))
}

/// Megabytes per second that this thread had a core.
fn rate(n_bytes: usize, work: impl FnOnce()) -> f64 {
    let watch = OnCore::start();
    work();
    n_bytes as f64 / 1e6 / watch.seconds().max(1e-9)
}

fn read(path: &Path) -> Result<Vec<Labelled>, Failure> {
    let text = std::fs::read_to_string(path).map_err(at_path(path))?;
    let sentence = |(idx, line): (usize, &str)| {
        presidio::read(line).map_err(|error| Failure::user(format_args!("{}, line {}: {error}", path.display(), idx + 1)))
    };
    text.lines().enumerate().map(sentence).collect()
}
