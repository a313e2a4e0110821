//! One step of a run on one line, while it runs.

use super::metrics::Line;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The most characters of a line.
const LINE_LEN_MAX: usize = 150;

/// The steps by whose pace the time that is left is judged.
const PACE_STEPS: usize = 20;

/// A step on one line: what was not measured is left out, and so are the last figures of a line that would grow too long.
pub(crate) fn line(step: u64, n_steps: u64, values: &BTreeMap<String, f64>, sparkline: &str, eta: Option<Duration>) -> String {
    let value = |name: &str| values.get(name).copied();
    let some = |name: &str| value(name).filter(|value| *value > 0.0);
    let of = |name: &str, shown: fn(f64) -> String| value(name).map(shown);
    let with = |text: Option<String>, more: Option<String>| text.map(|text| text + &more.unwrap_or_default());
    let figures = [
        with(of("reward", |value| format!("reward {value:.3}")), of("reward_half_width", |half| format!(" ±{half:.3}"))),
        of("loss", |value| format!("loss {value:.3}")).filter(|_| value("reward").is_none()),
        of("kl", |value| format!("kl {value:.3}")),
        of("entropy", |value| format!("entropy {value:.2}")),
        some("mismatch_max").map(|apart| format!("sampler off {apart:.0e}")),
        some("alarms").map(|n| format!("{n:.0} alarm{}", if n == 1.0 { "" } else { "s" })),
        some("n_broken").map(|n| format!("broken {n:.0}")),
        some("n_unscored").map(|n| format!("unscored {n:.0}")),
        some("n_shortened").map(|n| format!("judged shortened {n:.0}")),
        some("n_without_signal").map(|n| format!("skipped {n:.0}")),
        some("n_untrainable").map(|n| format!("untrainable {n:.0}")),
        rates(value("sampled_tokens_per_s"), value("trained_tokens_per_s")),
        of("tokens_per_answer", |value| format!("{value:.0} tok/answer")),
        of("turns", |value| format!("{value:.1} turns")),
    ];
    let head = format!("step {step:>width$}/{n_steps}", width = n_steps.to_string().len());
    let mut tail = String::new();
    if !sparkline.is_empty() {
        let _ = write!(tail, "  {sparkline}");
    }
    if let Some(eta) = eta {
        let _ = write!(tail, "  eta {}", span(eta));
    }
    let mut line = head;
    let mut left = LINE_LEN_MAX.saturating_sub(line.chars().count() + tail.chars().count());
    for figure in figures.into_iter().flatten() {
        let len = figure.chars().count() + 2;
        if len > left {
            break;
        }
        left -= len;
        let _ = write!(line, "  {figure}");
    }
    line + &tail
}

/// The time that is left, by the pace of the last steps.
#[expect(clippy::cast_precision_loss, reason = "a number of steps")]
pub(crate) fn eta(lines: &[Line], n_steps: u64) -> Option<Duration> {
    let recent = &lines[lines.len().saturating_sub(PACE_STEPS + 1)..];
    let (first, last) = (recent.first()?, recent.last()?);
    let n_done = last.step.checked_sub(first.step).filter(|n| *n > 0)?;
    let pace = (last.at - first.at) / n_done as f64;
    Duration::try_from_secs_f64(pace * n_steps.saturating_sub(last.step) as f64).ok()
}

fn rates(sampled: Option<f64>, trained: Option<f64>) -> Option<String> {
    match (sampled.map(thousands), trained.map(thousands)) {
        (Some(sampled), Some(trained)) => Some(format!("{sampled} sampled + {trained} trained tok/s")),
        (Some(sampled), None) => Some(format!("{sampled} sampled tok/s")),
        (None, Some(trained)) => Some(format!("{trained} trained tok/s")),
        (None, None) => None,
    }
}

fn thousands(value: f64) -> String {
    if value < 999.5 { format!("{value:.0}") } else { format!("{:.1}k", value / 1e3) }
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds}s"),
        seconds if seconds < 3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Time;

    fn check(values: &[(&str, f64)], sparkline: &str, eta_s: Option<u64>, expected: &str) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let line = line(7, 60, &values, sparkline, eta_s.map(Duration::from_secs));
        assert_eq!(line, expected);
        assert!(line.chars().count() <= LINE_LEN_MAX, "{} characters", line.chars().count());
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        check(&[], "", None, "step  7/60");
        check(
            &[("loss", 1.25), ("trained_tokens_per_s", 812.4)],
            "",
            Some(59),
            "step  7/60  loss 1.250  812 trained tok/s  eta 59s",
        );
        check(&[("reward", 0.5), ("loss", 1.25)], "▁█", Some(3725), "step  7/60  reward 0.500  ▁█  eta 1h02m");
        check(&[("n_without_signal", 0.0), ("alarms", 1.0)], "", None, "step  7/60  1 alarm");
        check(&[("reward", 0.5), ("n_broken", 4.0)], "", None, "step  7/60  reward 0.500  broken 4");
        check(&[("reward", 0.5), ("n_unscored", 2.0)], "", None, "step  7/60  reward 0.500  unscored 2");
        check(&[("reward", 0.5), ("n_shortened", 3.0)], "", None, "step  7/60  reward 0.500  judged shortened 3");
        check(&[("mismatch_max", 0.0)], "", None, "step  7/60");
        check(&[("mismatch_max", 0.0021)], "", None, "step  7/60  sampler off 2e-3");
    }

    #[test]
    fn a_full_line_keeps_to_its_length() {
        let mut values = vec![
            ("reward", 0.4123),
            ("reward_half_width", 0.031),
            ("kl", 0.003),
            ("entropy", 1.214),
            ("n_without_signal", 2.0),
            ("sampled_tokens_per_s", 18_240.0),
            ("trained_tokens_per_s", 40_100.0),
        ];
        let full = "step  7/60  reward 0.412 ±0.031  kl 0.003  entropy 1.21  skipped 2  \
                    18.2k sampled + 40.1k trained tok/s  ▁▂▃▅▇█  eta 3m12s";
        check(&values, "▁▂▃▅▇█", Some(192), full);
        // No room is left for the turns beside a longer sparkline.
        values.extend([("tokens_per_answer", 38.2), ("turns", 2.1)]);
        let longer = full.replace("tok/s", "tok/s  38 tok/answer").replace("▇█", "▇█▁▂▃▅▇█");
        check(&values, "▁▂▃▅▇█▁▂▃▅▇█", Some(192), &longer);
    }

    #[test]
    fn the_time_that_is_left_follows_the_last_steps() {
        let line = |step, seconds: i64| Line::new(step, Time::from_unix_nanos(seconds * 1_000_000_000), []);
        // A slow start is forgotten.
        let lines: Vec<Line> = (0..40).map(|n| line(n, if n < 10 { 0 } else { 1000 + 2 * n as i64 })).collect();
        assert_eq!(eta(&lines, 49), Some(Duration::from_secs(20)));
        assert_eq!(eta(&lines, 10), Some(Duration::ZERO));
        assert_eq!(eta(&lines[..1], 49), None);
    }
}
