//! Points in time with nanoseconds, written as RFC 3339 in UTC: `2026-03-14T15:09:26.535897932Z`.
//!
//! Reading the clock is the caller's business: this module only counts.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::atomic::{AtomicI64, Ordering};
use std::{fmt, str::FromStr};

const SECOND: i64 = 1_000_000_000;
const HOUR_SECONDS: i64 = 3_600;
const DAY_SECONDS: i64 = 86_400;

/// Nanoseconds since 1970 in UTC, from the year 1678 to 2262.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// Where the present comes from.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Time;
}

/// A clock for seeded stages: every look at it is one step later, so that results repeat.
#[derive(Debug)]
pub struct SteppedClock {
    next: AtomicI64,
    step_nanos: i64,
}

impl SteppedClock {
    /// A clock that starts at `start` and moves by `step_nanos` at every look.
    pub fn new(start: Time, step_nanos: i64) -> Self {
        Self { next: AtomicI64::new(start.0), step_nanos }
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Time {
        Time(self.next.fetch_add(self.step_nanos, Ordering::Relaxed))
    }
}

/// Why a text is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time such as 2026-03-14T15:09:26.535897932Z")]
pub struct TimeError(String);

impl Time {
    /// When episodes begin whose times are told, not measured: the same work gives the same bytes.
    pub const TOLD: Self = Self(1_750_000_000 * SECOND);

    /// Whether this is such a time, which says nothing of when something happened.
    pub fn is_told(self) -> bool {
        (0..HOUR_SECONDS * SECOND).contains(&self.0.saturating_sub(Self::TOLD.0))
    }

    /// The time this many nanoseconds after 1970.
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    pub fn unix_nanos(self) -> i64 {
        self.0
    }

    /// This time moved by so many nanoseconds; stops at the ends of the range.
    pub fn plus_nanos(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Milliseconds from `earlier` to this.
    pub fn millis_since(self, earlier: Self) -> f64 {
        (self.0.saturating_sub(earlier.0)) as f64 / 1e6
    }
}

/// Room for the longest text of a time.
const TEXT_LEN_MAX: usize = "2026-03-14T15:09:26.535897932Z".len();

impl Time {
    /// Its text, in a buffer of the caller: every record has several times, and they are written often.
    fn text(self, buffer: &mut [u8; TEXT_LEN_MAX]) -> &str {
        let seconds = self.0.div_euclid(SECOND);
        let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
        let of_day = seconds.rem_euclid(DAY_SECONDS);
        let (fraction, n_digits) = match self.0.rem_euclid(SECOND) {
            0 => (0, 0),
            nanos if nanos % 1_000_000 == 0 => (nanos / 1_000_000, 3),
            nanos if nanos % 1_000 == 0 => (nanos / 1_000, 6),
            nanos => (nanos, 9),
        };
        let mut len = 0;
        let mut put = |number: i64, n_digits: usize, then: u8| {
            let mut left = number;
            for place in buffer[len..len + n_digits].iter_mut().rev() {
                *place = b'0' + (left % 10) as u8;
                left /= 10;
            }
            buffer[len + n_digits] = then;
            len += n_digits + 1;
        };
        put(year, 4, b'-');
        put(month, 2, b'-');
        put(day, 2, b'T');
        put(of_day / 3600, 2, b':');
        put(of_day / 60 % 60, 2, b':');
        put(of_day % 60, 2, if n_digits == 0 { b'Z' } else { b'.' });
        if n_digits > 0 {
            put(fraction, n_digits, b'Z');
        }
        std::str::from_utf8(&buffer[..len]).expect("digits and signs are ASCII")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; TEXT_LEN_MAX]))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

impl FromStr for Time {
    type Err = TimeError;

    /// Reads RFC 3339 with any offset, or a bare date, which means its first moment.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        parse(text).ok_or_else(|| TimeError(text.chars().take(64).collect()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; TEXT_LEN_MAX]))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn parse(text: &str) -> Option<Time> {
    let bytes = text.as_bytes();
    let number = |from: usize, len: usize| -> Option<i64> {
        let digits = text.get(from..from + len)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    if bytes[4] != b'-' || bytes[7] != b'-' || !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    let midnight = days(year, month, day) * DAY_SECONDS;
    if bytes.len() == 10 {
        return midnight.checked_mul(SECOND).map(Time);
    }
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let separators = matches!(bytes[10], b'T' | b't' | b' ') && bytes[13] == b':' && bytes[16] == b':';
    if !separators || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let n_digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=9).contains(&n_digits) {
            return None;
        }
        nanos = fraction[..n_digits].parse::<i64>().ok()? * 10_i64.pow(9 - u32::try_from(n_digits).ok()?);
        rest = &fraction[n_digits..];
    }
    let offset = match rest.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let (hours, minutes) = (number(at, 2)?, number(at + 3, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    let seconds = midnight + hour * 3600 + minute * 60 + second - offset;
    // Summed wide: close to the ends of the range the seconds alone do not fit, with the fraction they do.
    i64::try_from(i128::from(seconds) * i128::from(SECOND) + i128::from(nanos)).ok().map(Time)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years are counted from March so that the leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, nanos: i64) {
        assert_eq!(text.parse::<Time>().unwrap().unix_nanos(), nanos, "{text}");
    }

    #[test]
    fn known_times() {
        check("1970-01-01T00:00:00Z", 0);
        check("2000-02-29T12:00:00Z", 951_825_600 * SECOND);
        check("2026-03-14T15:09:26.535897932Z", 1_773_500_966_535_897_932);
        check("2026-03-14T17:09:26.5+02:00", 1_773_500_966_500_000_000);
        check("1969-12-31T23:59:59.999999999Z", -1);
        check("2026-03-14", 1_773_446_400 * SECOND);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "now", "2026-02-30T00:00:00Z", "2026-13-01", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00", "9999-01-01"]
        {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_reads_back(nanos: i64) {
            let time = Time::from_unix_nanos(nanos);
            prop_assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Time>();
        }
    }
}
