//! The real clock. Everything below the binary takes the time as an argument.

use hone_trace::{Clock, Time};
use std::time::{SystemTime, UNIX_EPOCH};

/// The present.
pub(crate) fn now() -> Time {
    #[expect(clippy::disallowed_methods, reason = "the binary is where the real time enters")]
    let now = SystemTime::now();
    let nanos = match now.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    Time::from_unix_nanos(nanos)
}

/// The real clock as others take it.
pub(crate) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Time {
        now()
    }
}

/// The time to the second, for people to read.
pub(crate) fn to_second(time: Time) -> Time {
    Time::from_unix_nanos(time.unix_nanos().div_euclid(1_000_000_000) * 1_000_000_000)
}
