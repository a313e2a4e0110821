//! Civil dates: the Gregorian calendar carried on in both directions, from year 1 to 9999.
//!
//! A date is the number of days since 1970-01-01. Years are counted from March, so that the leap day is the last of its
//! year and months have a fixed rhythm (153 days in five); 400 years are 146,097 days.

use std::fmt;

/// A day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Date {
    days: i64,
}

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

impl Date {
    pub(crate) fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let date = Self { days: days(year, month, day) };
        let exists = (1..=9999).contains(&year) && (1..=12).contains(&month) && date.civil() == (year, month, day);
        exists.then_some(date)
    }

    /// Reads `2024-02-29`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let has_form = bytes.len() == 10
            && bytes
                .iter()
                .enumerate()
                .all(|(idx, byte)| if idx == 4 || idx == 7 { *byte == b'-' } else { byte.is_ascii_digit() });
        let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
        if has_form { Self::new(number(0..4)?, number(5..7)?, number(8..10)?) } else { None }
    }

    /// So many days later, or `None` outside the calendar.
    pub(crate) fn plus(self, n_days: i64) -> Option<Self> {
        let date = Self { days: self.days.checked_add(n_days)? };
        (Self { days: days(1, 1, 1) }..=Self { days: days(9999, 12, 31) }).contains(&date).then_some(date)
    }

    /// How many days from this one to the other.
    pub(crate) fn days_until(self, other: Self) -> i64 {
        other.days - self.days
    }

    pub(crate) fn weekday(self) -> &'static str {
        // 1970-01-01 was a Thursday.
        WEEKDAYS[(self.days + 3).rem_euclid(7) as usize]
    }

    pub(crate) fn weekdays() -> &'static [&'static str] {
        &WEEKDAYS
    }

    fn civil(self) -> (i64, i64, i64) {
        // Day 0 of this count is 0000-03-01.
        let days = self.days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (year_of_era + 400 * era + i64::from(month <= 2), month, day)
    }
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    146_097 * era + day_of_era - 719_468
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::read(&text).ok_or_else(|| format!("`{text}` is not a date such as 2024-02-29"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(date: &str, n_days: i64, expected: &str) {
        let date = Date::read(date).unwrap();
        let later = date.plus(n_days).unwrap();
        assert_eq!(later.to_string(), expected, "{date} + {n_days}");
        assert_eq!(date.days_until(later), n_days);
    }

    #[test]
    fn days_are_counted_over_months_and_leap_years() {
        check("2024-03-01", 45, "2024-04-15");
        check("2024-02-28", 1, "2024-02-29");
        check("2023-02-28", 1, "2023-03-01");
        check("1900-02-28", 1, "1900-03-01");
        check("2000-02-28", 1, "2000-02-29");
        check("2024-12-31", 1, "2025-01-01");
        check("2024-01-01", -1, "2023-12-31");
        check("1970-01-01", 0, "1970-01-01");
        check("0001-01-01", 3_652_058, "9999-12-31");
    }

    #[test]
    fn weekdays_are_right() {
        for (date, weekday) in [("1970-01-01", "thursday"), ("2000-01-01", "saturday"), ("2024-02-29", "thursday")] {
            assert_eq!(Date::read(date).unwrap().weekday(), weekday, "{date}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_comes_after_the_one_before() {
        let mut date = Date::read("1799-12-31").unwrap();
        for year in 1800..2200 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, n_days) in (1..).zip(lengths) {
                for day in 1..=n_days {
                    date = date.plus(1).unwrap();
                    assert_eq!(Date::new(year, month, day), Some(date));
                }
            }
        }
    }

    #[test]
    fn no_such_day() {
        for text in
            ["2023-02-29", "2024-13-01", "2024-00-10", "2024-01-32", "0000-01-01", "2024-1-1", "2024/01/01", "éé24-01-01", ""]
        {
            assert_eq!(Date::read(text), None, "{text}");
        }
        assert_eq!(Date::read("9999-12-31").unwrap().plus(1), None);
        assert_eq!(Date::read("0001-01-01").unwrap().plus(-1), None);
        assert_eq!(Date::read("2024-01-01").unwrap().plus(i64::MAX), None);
    }
}
