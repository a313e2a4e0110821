//! How often a key may ask: a bucket that holds a minute's requests, from which each takes one, and which fills up evenly.
//!
//! Who comes after a pause may ask a minute's worth at once, and then as often as the bucket fills. Knows no clock: the time is an argument.

use crate::error::Refused;
use hone_trace::Time;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a sum of parts may be short of a whole request.
const ROUNDING: f64 = 1e-9;

/// The requests that are left to one key.
#[derive(Debug)]
struct Bucket {
    n_left: f64,
    at: Time,
}

impl Bucket {
    /// Takes a request out, or says after how many seconds there will be one.
    fn take(&mut self, per_minute: NonZeroU32, now: Time) -> Result<(), u64> {
        let per_minute = f64::from(per_minute.get());
        // A clock that was set back gives nothing and takes nothing.
        let minutes = now.millis_since(self.at).max(0.0) / 60_000.0;
        self.n_left = (self.n_left + minutes * per_minute).min(per_minute);
        self.at = now;
        if self.n_left + ROUNDING < 1.0 {
            return Err(((1.0 - ROUNDING - self.n_left) * 60.0 / per_minute).ceil() as u64);
        }
        self.n_left -= 1.0;
        Ok(())
    }
}

/// The buckets of all keys that have a limit, by the names of the keys.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl Rates {
    /// Counts a request of this key, or refuses it.
    pub(crate) fn take(&self, name: &str, per_minute: Option<NonZeroU32>, now: Time) -> Result<(), Refused> {
        let Some(per_minute) = per_minute else { return Ok(()) };
        let mut buckets = self.buckets();
        if !buckets.contains_key(name) {
            buckets.insert(name.to_owned(), Bucket { n_left: f64::from(per_minute.get()), at: now });
        }
        let taken = buckets.get_mut(name).map_or(Ok(()), |bucket| bucket.take(per_minute, now));
        taken.map_err(|retry_s| Refused::RateLimit { retry_s })
    }

    /// Forgets the keys that are no more.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.buckets().retain(|name, _| is_there(name));
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests at these milliseconds: `.` for one that is let through, a number of seconds for one that has to wait.
    fn check(per_minute: u32, at_ms: &[i64], expected: &str) {
        let rates = Rates::default();
        let told = at_ms.iter().map(|ms| {
            let now = Time::from_unix_nanos(1_800_000_000_000_000_000 + ms * 1_000_000);
            match rates.take("one", NonZeroU32::new(per_minute), now) {
                Ok(()) => ".".to_owned(),
                Err(Refused::RateLimit { retry_s }) => retry_s.to_string(),
                Err(other) => panic!("{other}"),
            }
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn a_minute_holds_so_many_and_fills_evenly() {
        check(3, &[0, 0, 0, 0, 19_000, 20_000, 20_001], ". . . 20 1 . 20");
        check(1, &[0, 1, 59_000, 60_000, 61_000], ". 60 1 . 59");
        check(60, &[0; 62], &format!("{}1 1", ". ".repeat(60)));
        check(2, &[0, 0, 600_000, 600_000, 600_000], ". . . . 30");
    }

    #[test]
    fn a_clock_that_was_set_back_gives_nothing_and_takes_nothing() {
        check(2, &[0, -3_600_000, -3_600_000, -3_570_000], ". . 30 .");
    }

    #[test]
    fn who_waits_as_long_as_was_said_is_let_through() {
        for per_minute in [1, 7, 13, 59, 61, 1000] {
            let (rates, limit) = (Rates::default(), NonZeroU32::new(per_minute));
            let mut now = Time::from_unix_nanos(1_800_000_000_123_456_789);
            for _ in 0..3 * per_minute {
                if let Err(Refused::RateLimit { retry_s }) = rates.take("one", limit, now) {
                    now = now.plus_nanos(i64::try_from(retry_s).unwrap() * 1_000_000_000);
                    assert!(rates.take("one", limit, now).is_ok(), "{per_minute} a minute, after {retry_s} s");
                }
            }
        }
    }

    #[test]
    fn keys_do_not_wait_for_each_other() {
        let (rates, once, now) = (Rates::default(), NonZeroU32::new(1), Time::from_unix_nanos(0));
        assert!(rates.take("one", once, now).is_ok() && rates.take("other", once, now).is_ok());
        assert!(rates.take("one", once, now).is_err() && rates.take("free", None, now).is_ok());
        rates.keep(|name| name == "other");
        assert_eq!(rates.buckets().keys().collect::<Vec<_>>(), ["other"]);
    }
}
