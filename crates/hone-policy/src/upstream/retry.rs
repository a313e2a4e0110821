//! When a call is tried again: full jitter, and what the provider asks for in `Retry-After` on top.
//!
//! After n failures the wait is uniform between 0 and `base · 2^(n - 1)`, at most `cap`. The draw comes from the seed of the
//! request, sleeping from outside, so that a test neither waits nor wonders.

use hone_trace::{Draws, Time};
use reqwest::header::HeaderMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// How a failed call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The most attempts, the first included.
    pub n_attempts_max: u32,
    /// The longest wait after the first failure; it doubles with each.
    pub base_ms: u64,
    /// The longest wait of all, but for what the provider asks.
    pub cap_ms: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { n_attempts_max: 4, base_ms: 500, cap_ms: 30_000 }
    }
}

impl Retry {
    /// The wait after this many failures, 1 or more.
    pub(super) fn wait_ms(&self, n_failed: u32, seed: u64, asked_ms: Option<u64>) -> u64 {
        let doubled = self.base_ms.saturating_mul(1 << (n_failed.saturating_sub(1)).min(32));
        let jitter = Draws::new(seed, &["retry", &n_failed.to_string()]).uniform() * doubled.min(self.cap_ms) as f64;
        // Jitter on top: all who were told the same time would come back at once.
        asked_ms.unwrap_or(0).saturating_add(jitter as u64)
    }
}

/// Where waiting happens.
pub trait Sleeper: Send + Sync {
    /// Done after so many milliseconds.
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Waits in real time.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealSleeper;

impl Sleeper for RealSleeper {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// What the provider asks: milliseconds, seconds, or a date. A date is compared with the response's own, so that the two
/// clocks need not agree; `now` stands in where the response has none.
pub(super) fn asked_ms(headers: &HeaderMap, now: Option<Time>) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let millis = |seconds: f64| (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1e3).ceil() as u64);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return millis(ms / 1e3);
    }
    let asked = text("retry-after")?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return millis(seconds);
    }
    let until = unix_seconds(asked)?;
    let sent = text("date").and_then(unix_seconds).or_else(|| now.map(|now| now.unix_nanos().div_euclid(1_000_000_000)))?;
    u64::try_from(until.saturating_sub(sent).max(0)).ok()?.checked_mul(1000)
}

/// Seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn unix_seconds(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let number = |text: &str, max: i64| text.parse::<i64>().ok().filter(|n| (0..=max).contains(n));
    let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let (day, year) = (number(day, 31)?, number(year, 9999)?);
    // Years begin in March here, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some(days * 86_400 + number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    #[test]
    fn waits_grow_are_jittered_and_repeat() {
        let retry = Retry { n_attempts_max: 9, base_ms: 100, cap_ms: 1000 };
        let waits = |n_failed| (0..2000).map(move |seed| retry.wait_ms(n_failed, seed, None));
        for (n_failed, top) in [(1, 100), (2, 200), (4, 800), (5, 1000), (60, 1000)] {
            let (min, max) = (waits(n_failed).min().unwrap(), waits(n_failed).max().unwrap());
            assert!(min < top / 20 && max < top && max > top - top / 20, "{n_failed}: {min} {max}");
        }
        assert_eq!(retry.wait_ms(3, 7, None), retry.wait_ms(3, 7, None));
        assert!((2000..2100).contains(&retry.wait_ms(1, 7, Some(2000))));
    }

    /// Headers are `name: value` lines.
    fn check(headers: &str, expected: Option<u64>) {
        let pairs = headers.lines().filter_map(|line| line.split_once(": "));
        let header = |(name, value): (&str, &str)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        let now = Time::from_unix_nanos(784_111_700 * 1_000_000_000);
        assert_eq!(asked_ms(&pairs.map(header).collect(), Some(now)), expected, "{headers}");
    }

    #[test]
    fn what_the_provider_asks_is_understood() {
        check("", None);
        check("retry-after: 7", Some(7000));
        check("retry-after: 0.5", Some(500));
        check("retry-after: 7\nretry-after-ms: 120", Some(120));
        check("retry-after: Sun, 06 Nov 1994 08:49:37 GMT", Some(77_000));
        check("retry-after: Sun, 06 Nov 1994 08:49:37 GMT\ndate: Sun, 06 Nov 1994 08:49:07 GMT", Some(30_000));
        check("retry-after: Sun, 06 Nov 1994 08:49:07 GMT\ndate: Sun, 06 Nov 1994 08:49:37 GMT", Some(0));
        check("retry-after: -3", None);
        check("retry-after: soon", None);
        check("retry-after: Sun, 06 Foo 1994 08:49:37 GMT", None);
    }

    #[test]
    fn dates() {
        assert_eq!(unix_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(unix_seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(unix_seconds("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
    }
}
