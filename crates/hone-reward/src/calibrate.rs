//! Calibration: how far a judge agrees with labels, and what leads it astray.
//!
//! - **Agreement**: over all pairs of a group with different labels, the share that the judge puts in the same order; a tie
//!   of scores counts half, pairs with equal labels do not count. The interval is Wilson's. Pairs of one group share members
//!   and are not independent, so a group of n counts as at most n - 1 trials.
//! - **Position bias**: the correlation of score and place in the call, both less their mean in the call. The order is drawn
//!   at random, so any correlation is the judge's.
//! - **Length bias**: the correlation of score and shown length, both less their mean among members of a group with equal
//!   labels. Where no labels are equal, less what a straight line through the labels explains.
//!
//! Groups that the judge could not score count against it. A judge whose interval begins below the floor is refused, which its
//! [`Standing`] tells whoever asks for it next.

mod standing;
#[cfg(test)]
mod tests;

use crate::ask::Bill;
use crate::judge::{Judge, Judged};
use crate::statistics::{Agreement, Correlation, Share, mean};
use hone_trace::format::{Format, Origin, Reader};
use hone_trace::{Draws, Trace, TraceId};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use standing::{Measurement, Standing};

/// The least correlation that is called a bias.
const BIAS_MIN: f64 = 0.2;

/// Traces of one scenario, each with how good it is. Only the order of labels inside a group matters.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledGroup {
    /// The traces with their labels.
    pub members: Vec<(Trace, f64)>,
}

impl LabelledGroup {
    /// Whether two of its traces have different labels, so that a judge can agree with them or not.
    pub fn can_tell(&self) -> bool {
        self.members.iter().any(|(_, label)| *label != self.members[0].1)
    }
}

/// What is asked of a judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// The least that the lower end of the agreement's interval may be; guessing gives 0.5.
    pub agreement_min: f64,
    /// The largest share of groups that may fail.
    pub failed_max: f64,
}

impl Default for Floor {
    fn default() -> Self {
        Self { agreement_min: 0.6, failed_max: 0.2 }
    }
}

/// How far a judge can be trusted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The judge.
    pub judge: String,
    /// Groups that were shown.
    pub n_groups: usize,
    /// Groups that could not be scored.
    pub n_failed: usize,
    /// Why they could not, each reason once.
    pub failures: Vec<Unscored>,
    /// Pairs with different labels.
    pub n_pairs: usize,
    /// How many of them the judge scored the same.
    pub n_ties: usize,
    /// The share of pairs in the right order.
    pub agreement: Share,
    /// Whether what is shown earlier or later scores higher.
    pub position_bias: Correlation,
    /// Whether what is longer scores higher though it is no better.
    pub length_bias: Correlation,
    /// How far the judge agrees with itself, as the mean over groups; only with repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Agreement>,
    /// What is worth knowing besides.
    pub warnings: Vec<String>,
    /// Why the judge is refused; empty when it is not.
    pub refusals: Vec<String>,
    /// Calls of the judge.
    pub n_calls: u32,
    /// The price in US dollars.
    pub cost_usd: f64,
}

/// Groups that could not be scored for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unscored {
    /// The reason, as the first of them has it.
    pub why: String,
    /// The groups by their number, from 1.
    pub groups: Vec<usize>,
}

impl Calibration {
    /// Whether the judge may be trained with.
    pub fn is_accepted(&self) -> bool {
        self.refusals.is_empty()
    }
}

/// Measures a judge, `n_concurrent` groups at once. What is found does not depend on how many.
pub fn calibrate(judge: &dyn Judge, groups: &[LabelledGroup], floor: Floor, seed: u64, n_concurrent: usize) -> Calibration {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..n_concurrent.clamp(1, groups.len().max(1)) {
            scope.spawn(|| {
                while let Some((group_idx, group)) = nth(groups, next.fetch_add(1, Ordering::Relaxed)) {
                    let traces: Vec<&Trace> = group.members.iter().map(|(trace, _)| trace).collect();
                    let seed = Draws::new(seed, &["calibrate", &group_idx.to_string()]).bits();
                    let verdict = judge.judge(&traces, seed);
                    verdicts.lock().unwrap_or_else(PoisonError::into_inner).insert(group_idx, verdict);
                }
            });
        }
    });
    let mut evidence = Evidence::default();
    for (group_idx, verdict) in verdicts.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match verdict {
            Ok(judged) => evidence.take(&groups[group_idx], judged),
            Err(error) => {
                evidence.fail(group_idx + 1, error.to_string());
                evidence.bill.add(error.bill);
            }
        }
    }
    evidence.n_silent = groups.iter().filter(|group| !group.can_tell()).count();
    evidence.report(judge.giver().name, groups.len(), floor)
}

fn nth(groups: &[LabelledGroup], group_idx: usize) -> Option<(usize, &LabelledGroup)> {
    groups.get(group_idx).map(|group| (group_idx, group))
}

#[derive(Default)]
struct Evidence {
    n_failed: usize,
    failures: Vec<Unscored>,
    /// Groups in which all labels are equal.
    n_silent: usize,
    n_pairs: usize,
    n_ties: usize,
    n_right: f64,
    n_trials: usize,
    positions: Centred,
    lengths: Centred,
    /// Score, length and label, less their means in the group: for groups without equal labels.
    lines: Vec<[f64; 3]>,
    repeats: Vec<Agreement>,
    n_shortened: usize,
    bill: Bill,
}

/// A reason in its words, whichever traces it names.
fn without_ids(why: &str) -> Vec<&str> {
    let words = why.split([' ', ',', ';']).filter(|word| !word.is_empty());
    words.filter(|word| word.parse::<TraceId>().is_err()).collect()
}

impl Evidence {
    fn fail(&mut self, group: usize, why: String) {
        self.n_failed += 1;
        match self.failures.iter_mut().find(|known| without_ids(&known.why) == without_ids(&why)) {
            Some(known) => known.groups.push(group),
            None => self.failures.push(Unscored { why, groups: vec![group] }),
        }
    }

    fn take(&mut self, group: &LabelledGroup, judged: Judged) {
        let labels: Vec<f64> = group.members.iter().map(|(_, label)| *label).collect();
        let mut n_pairs = 0;
        for i in 0..labels.len() {
            for j in i + 1..labels.len() {
                if labels[i] == labels[j] {
                    continue;
                }
                n_pairs += 1;
                if judged.scores[i] == judged.scores[j] {
                    self.n_ties += 1;
                    self.n_right += 0.5;
                } else if (labels[i] > labels[j]) == (judged.scores[i] > judged.scores[j]) {
                    self.n_right += 1.0;
                }
            }
        }
        self.n_pairs += n_pairs;
        self.n_trials += n_pairs.min(labels.len().saturating_sub(1));
        let mut calls: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
        let mut lengths: BTreeMap<usize, f64> = BTreeMap::new();
        for shown in &judged.shown {
            calls.entry(shown.call_idx).or_default().push((shown.score, shown.position));
            lengths.insert(shown.trace_idx, shown.n_bytes as f64);
        }
        calls.values().for_each(|pairs| self.positions.add(pairs));
        // Equal traces are shown once, so only those that were shown count here.
        let mut by_label: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
        for (&idx, &length) in &lengths {
            by_label.entry(labels[idx].to_bits()).or_default().push((judged.scores[idx], length));
        }
        by_label.values().for_each(|pairs| self.lengths.add(pairs));
        let rows: Vec<[f64; 3]> = lengths.iter().map(|(&idx, &length)| [judged.scores[idx], length, labels[idx]]).collect();
        self.lines.extend(centred(&rows));
        self.repeats.extend(judged.agreement);
        self.n_shortened += judged.shortened.len();
        self.bill.add(judged.bill);
    }

    fn report(self, judge: String, n_groups: usize, floor: Floor) -> Calibration {
        let agreement =
            Share::wilson(if self.n_pairs == 0 { 0.5 } else { self.n_right / self.n_pairs as f64 }, self.n_trials as f64);
        let position_bias = self.positions.correlation();
        let length_bias = if self.lengths.pairs.is_empty() { beside_labels(&self.lines) } else { self.lengths.correlation() };
        let of_repeats = |part: fn(&Agreement) -> f64| mean(&self.repeats.iter().map(part).collect::<Vec<_>>());
        let repeats = (!self.repeats.is_empty()).then(|| Agreement {
            tau: of_repeats(|agreement| agreement.tau),
            pairs: of_repeats(|agreement| agreement.pairs),
            spread: of_repeats(|agreement| agreement.spread),
        });
        let mut refusals = Vec::new();
        let first = self.failures.first().map(|first| format!(", the first so: {}", first.why)).unwrap_or_default();
        if self.n_pairs == 0 {
            refusals.push("it scored no two traces with different labels".to_owned());
        } else if agreement.low < floor.agreement_min {
            refusals.push(format!(
                "it agrees with the labels in {:.1} % of the pairs, and the interval from {:.1} % begins below the floor of {:.1} %",
                100.0 * agreement.value,
                100.0 * agreement.low,
                100.0 * floor.agreement_min
            ));
        }
        if self.n_failed as f64 > floor.failed_max * n_groups as f64 {
            refusals.push(format!(
                "it failed on {} of {n_groups} groups, more than {:.0} %{first}",
                self.n_failed,
                100.0 * floor.failed_max
            ));
        }
        let biases = [
            (position_bias, "what is shown later", "what is shown earlier", "judge with `repeats`"),
            (length_bias, "what is longer", "what is shorter", "say in the rubric that length does not count"),
        ];
        let bias = |(bias, more, less, way_out): (Correlation, &str, &str, &str)| {
            let favoured = if bias.value > 0.0 { more } else { less };
            bias.is_at_least(BIAS_MIN).then(|| format!("{favoured} scores higher (correlation {:.2}): {way_out}", bias.value))
        };
        let shortened = (self.n_shortened > 0)
            .then(|| format!("it saw {} traces without their middle: its context is too short for them", self.n_shortened));
        let silent = (self.n_silent > 0)
            .then(|| format!("{} of {n_groups} groups give no pair to compare: all labels in them are equal", self.n_silent));
        Calibration {
            judge,
            n_groups,
            n_failed: self.n_failed,
            failures: self.failures,
            n_pairs: self.n_pairs,
            n_ties: self.n_ties,
            agreement,
            position_bias,
            length_bias,
            repeats,
            warnings: biases.into_iter().filter_map(bias).chain(shortened).chain(silent).collect(),
            refusals,
            n_calls: self.bill.n_calls,
            cost_usd: self.bill.llm_calls.iter().filter_map(|call| call.cost_usd).fold(0.0, |sum, cost| sum + cost),
        }
    }
}

/// Pairs of numbers, each less the mean of its set.
#[derive(Default)]
struct Centred {
    pairs: Vec<(f64, f64)>,
    n_sets: usize,
}

impl Centred {
    fn add(&mut self, set: &[(f64, f64)]) {
        if set.len() < 2 {
            return;
        }
        let n = set.len() as f64;
        let (x, y) = (set.iter().map(|pair| pair.0).sum::<f64>() / n, set.iter().map(|pair| pair.1).sum::<f64>() / n);
        self.pairs.extend(set.iter().map(|pair| (pair.0 - x, pair.1 - y)));
        self.n_sets += 1;
    }

    /// Each set loses one member to its mean, and one is left for the correlation itself.
    fn correlation(&self) -> Correlation {
        Correlation::of(&self.pairs, (self.pairs.len() + 1).saturating_sub(self.n_sets))
    }
}

fn centred(rows: &[[f64; 3]]) -> Vec<[f64; 3]> {
    let column_mean = |column: usize| mean(&rows.iter().map(|row| row[column]).collect::<Vec<_>>());
    let means = [column_mean(0), column_mean(1), column_mean(2)];
    rows.iter().map(|row| [row[0] - means[0], row[1] - means[1], row[2] - means[2]]).collect()
}

/// The correlation of score and length after the labels have explained what they can.
fn beside_labels(rows: &[[f64; 3]]) -> Correlation {
    let sum = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let slope = |column: usize| if sum(2, 2) > 1e-12 { sum(column, 2) / sum(2, 2) } else { 0.0 };
    let (of_score, of_length) = (slope(0), slope(1));
    let rests: Vec<(f64, f64)> = rows.iter().map(|row| (row[0] - of_score * row[2], row[1] - of_length * row[2])).collect();
    Correlation::of(&rests, rests.len().saturating_sub(1))
}

/// Reads one line of labelled groups: `{"group": [{"trace": {…}, "label": 1}, {"messages": […], "label": 0}]}`, where a
/// trace is in hone's own form and messages in OpenAI's.
pub fn read_group(line: &str) -> Result<LabelledGroup, String> {
    let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let members = line.get("group").and_then(Value::as_array).ok_or("the line has no list `group`")?;
    let mut group = LabelledGroup { members: Vec::new() };
    let mut readers = [Format::Hone, Format::Openai].map(|format| Reader::new(format, Origin::default()));
    for (idx, member) in members.iter().enumerate() {
        let place = |what: String| format!("group[{idx}]: {what}");
        let label = member.get("label").and_then(Value::as_f64).ok_or_else(|| place("there is no number `label`".into()))?;
        let imported = match member.get("trace") {
            Some(trace) => readers[0].line(&trace.to_string()),
            None => {
                let mut fields = member.as_object().cloned().unwrap_or_default();
                fields.remove("label");
                readers[1].line(&Value::Object(fields).to_string())
            }
        };
        let trace = imported.map_err(|error| place(error.to_string()))?.traces.into_iter().next();
        group.members.push((trace.ok_or_else(|| place("there is no trace in it".into()))?, label));
    }
    Ok(group)
}
