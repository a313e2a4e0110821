//! Counters in Prometheus' text form: requests by what became of them, tokens, dollars, and how long things took.
//!
//! Labels are names of the catalogue and words of a closed list, so that no client can make the list grow.

use crate::error::Refused;
use crate::question::Question;
use hone_policy::upstream::{Completion, Embeddings, UpstreamError};
use hone_trace::format::otlp::live::Taken;
use hone_trace::{LlmCall, Time};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper bounds of the histograms in seconds: from what hone itself takes to what a long answer takes.
const SECONDS: [f64; 20] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0,
    300.0,
];

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<(String, &'static str), u64>,
    models: BTreeMap<String, OfModel>,
    n_not_recorded: u64,
    spans: [(&'static str, u64); 3],
    n_refused: [u64; REFUSALS.len()],
}

/// Why requests are turned away before they are read.
const REFUSALS: [&str; 3] = ["key", "role", "rate_limit"];

#[derive(Debug, Default)]
struct OfModel {
    tokens_in: u64,
    tokens_cached: u64,
    tokens_out: u64,
    cost_usd: f64,
    n_attempts: u64,
    request: Histogram,
    /// How long streams took until their first piece.
    first: Histogram,
    /// What is left of a request without its attempts upstream.
    overhead: Histogram,
}

#[derive(Debug, Default)]
struct Histogram {
    counts: [u64; SECONDS.len()],
    n: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        self.n += 1;
        self.sum += seconds;
        for (count, bound) in self.counts.iter_mut().zip(SECONDS) {
            *count += u64::from(seconds <= bound);
        }
    }

    fn write(&self, text: &mut String, name: &str, model: &str) {
        for (count, bound) in self.counts.iter().zip(SECONDS) {
            line(text, &format!("{name}_bucket{{model=\"{model}\",le=\"{bound}\"}}"), count);
        }
        line(text, &format!("{name}_bucket{{model=\"{model}\",le=\"+Inf\"}}"), self.n);
        line(text, &format!("{name}_sum{{model=\"{model}\"}}"), self.sum);
        line(text, &format!("{name}_count{{model=\"{model}\"}}"), self.n);
    }
}

impl Metrics {
    /// A question was asked, and this came of it, in so long.
    pub(crate) fn asked(&self, question: &Question, asked: Result<&Completion, &UpstreamError>, latency_ms: f64) {
        self.count(question.name(), asked.map(|completion| completion.calls.as_slice()), latency_ms);
    }

    /// A stream has begun to come, after so long.
    pub(crate) fn begun(&self, question: &Question, latency_ms: f64) {
        self.counts().models.entry(question.name().to_owned()).or_default().first.add(latency_ms / 1e3);
    }

    /// Vectors were asked for, and this came of it.
    pub(crate) fn embedded(&self, model: &str, asked: Result<&Embeddings, &UpstreamError>, started: Time, ended: Time) {
        self.count(model, asked.map(|embeddings| embeddings.calls.as_slice()), ended.millis_since(started));
    }

    fn count(&self, model: &str, asked: Result<&[LlmCall], &UpstreamError>, latency_ms: f64) {
        let (word, calls): (&'static str, &[LlmCall]) = match asked {
            Ok(calls) => ("ok", calls),
            Err(error) => (error.kind.as_str(), &error.calls),
        };
        let seconds = latency_ms / 1e3;
        let upstream: f64 = calls.iter().filter_map(|call| call.duration_ms).fold(0.0, |sum, ms| sum + ms / 1e3);
        let mut counts = self.counts();
        *counts.requests.entry((model.to_owned(), word)).or_default() += 1;
        let of = counts.models.entry(model.to_owned()).or_default();
        for call in calls {
            of.n_attempts += 1;
            of.tokens_in += call.tokens_in;
            of.tokens_cached += call.tokens_cached;
            of.tokens_out += call.tokens_out;
            of.cost_usd += call.cost_usd.unwrap_or(0.0);
        }
        of.request.add(seconds);
        of.overhead.add((seconds - upstream).max(0.0));
    }

    /// A call that was answered could not be recorded.
    pub(crate) fn not_recorded(&self) {
        self.counts().n_not_recorded += 1;
    }

    /// A request with spans was read.
    pub(crate) fn spans(&self, taken: &Taken) {
        let told = [("kept", taken.n_kept), ("idle", taken.n_idle), ("refused", taken.n_refused)];
        for (count, (word, n)) in self.counts().spans.iter_mut().zip(told) {
            *count = (word, count.1 + n);
        }
    }

    /// A request was turned away before it was read.
    pub(crate) fn refused(&self, refused: &Refused) {
        let idx = match refused {
            Refused::Key => 0,
            Refused::Role => 1,
            Refused::RateLimit { .. } => 2,
            _ => return,
        };
        self.counts().n_refused[idx] += 1;
    }

    /// All of it, with how many requests are underway.
    pub(crate) fn text(&self, n_underway: usize) -> String {
        let counts = self.counts();
        let mut text = String::new();
        head(&mut text, "hone_requests_underway", "gauge", "Requests that are worked on now");
        line(&mut text, "hone_requests_underway", n_underway);
        head(
            &mut text,
            "hone_requests_total",
            "counter",
            "Questions, and requests for vectors, by model and by what became of them",
        );
        for ((model, word), n) in &counts.requests {
            line(&mut text, &format!("hone_requests_total{{model=\"{}\",status=\"{word}\"}}", escaped(model)), n);
        }
        head(&mut text, "hone_not_recorded_total", "counter", "Answers that were withheld because they could not be recorded");
        line(&mut text, "hone_not_recorded_total", counts.n_not_recorded);
        head(&mut text, "hone_spans_total", "counter", "Spans by whether they say something of an agent");
        for (word, n) in counts.spans.iter().filter(|(word, _)| !word.is_empty()) {
            line(&mut text, &format!("hone_spans_total{{status=\"{word}\"}}"), n);
        }
        head(&mut text, "hone_refused_total", "counter", "Requests that were turned away: without a key, a role or patience");
        for (reason, n) in REFUSALS.iter().zip(counts.n_refused) {
            line(&mut text, &format!("hone_refused_total{{reason=\"{reason}\"}}"), n);
        }
        type Number = fn(&OfModel) -> f64;
        let numbers: [(&str, &str, Number); 5] = [
            ("hone_input_tokens_total", "Tokens read, cached ones included", |of| of.tokens_in as f64),
            ("hone_cached_tokens_total", "Tokens read from a cache", |of| of.tokens_cached as f64),
            ("hone_output_tokens_total", "Tokens written", |of| of.tokens_out as f64),
            ("hone_cost_usd_total", "US dollars, where the price is known", |of| of.cost_usd),
            ("hone_upstream_attempts_total", "Attempts at upstreams", |of| of.n_attempts as f64),
        ];
        for (name, help, number) in numbers {
            head(&mut text, name, "counter", help);
            for (model, of) in &counts.models {
                line(&mut text, &format!("{name}{{model=\"{}\"}}", escaped(model)), number(of));
            }
        }
        type Times = fn(&OfModel) -> &Histogram;
        let times: [(&str, &str, Times); 3] = [
            ("hone_request_seconds", "How long questions took", |of| &of.request),
            ("hone_first_piece_seconds", "How long streams took until their first piece", |of| &of.first),
            ("hone_overhead_seconds", "How long questions took besides the attempts at upstreams", |of| &of.overhead),
        ];
        for (name, help, histogram) in times {
            head(&mut text, name, "histogram", help);
            for (model, of) in &counts.models {
                histogram(of).write(&mut text, name, &escaped(model));
            }
        }
        text
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name} {value}");
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::default();
        [0.00004, 0.002, 1000.0].into_iter().for_each(|seconds| histogram.add(seconds));
        let mut text = String::new();
        histogram.write(&mut text, "x", "m");
        for expected in [
            "x_bucket{model=\"m\",le=\"0.00005\"} 1",
            "le=\"0.0025\"} 2",
            "le=\"300\"} 2",
            "le=\"+Inf\"} 3",
            "x_count{model=\"m\"} 3",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn labels_cannot_break_out() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
