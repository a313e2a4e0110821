//! Days and minutes of the year that the mailbox covers, as mails write them and as questions ask for them.

use std::fmt;

/// Days from 1970-01-01 to the first day of the mailbox, 2025-01-01, a Wednesday.
const FIRST_DAY: i64 = 20_089;
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const WEEKDAYS: [&str; 7] = ["Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday"];

/// A day, counted from 2025-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(pub(super) i64);

/// A minute, counted from the first of 2025-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) i64);

impl Day {
    /// Written as mails do: `Wednesday 12 March 2025`.
    pub(super) fn long(self) -> String {
        format!("{} {} {}", WEEKDAYS[self.0.rem_euclid(7) as usize], self.short(), self.year())
    }

    /// Without weekday and year: `12 March`.
    pub(super) fn short(self) -> String {
        let (_, month, day) = self.civil();
        format!("{day} {}", MONTHS[month - 1])
    }

    /// `2025-03-12`.
    pub(super) fn iso(self) -> String {
        let (year, month, day) = self.civil();
        format!("{year:04}-{month:02}-{day:02}")
    }

    pub(super) fn year(self) -> i64 {
        self.civil().0
    }

    /// This day, or the Monday after it when it is on a weekend.
    pub(super) fn workday(self) -> Self {
        match WEEKDAYS[self.0.rem_euclid(7) as usize] {
            "Saturday" => Self(self.0 + 2),
            "Sunday" => Self(self.0 + 1),
            _ => self,
        }
    }

    pub(super) fn at(self, minute: i64) -> Moment {
        Moment(self.0 * 1440 + minute)
    }

    /// Year, month and day.
    pub(super) fn civil(self) -> (i64, usize, i64) {
        // Counted in eras of 400 years that begin on the first of March, so that the leap day comes last.
        let days = self.0 + FIRST_DAY + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month as usize, day)
    }
}

impl Moment {
    pub(super) fn day(self) -> Day {
        Day(self.0.div_euclid(1440))
    }
}

/// `2025-03-12 14:05`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minute = self.0.rem_euclid(1440);
        write!(f, "{} {:02}:{:02}", self.day().iso(), minute / 60, minute % 60)
    }
}

/// The month of this name or of its first three letters, from 1.
pub(super) fn month(word: &str) -> Option<u32> {
    let word = word.to_lowercase();
    let is_it = |name: &str| {
        let name = name.to_lowercase();
        word == name || (word.len() == 3 && name.starts_with(&word)) || word == "sept" && name == "september"
    };
    MONTHS.iter().position(|name| is_it(name)).map(|idx| idx as u32 + 1)
}

/// Whether this is the name of a weekday, or its first three letters.
pub(super) fn is_weekday(word: &str) -> bool {
    let word = word.to_lowercase();
    WEEKDAYS.iter().any(|name| word == name.to_lowercase() || word.len() == 3 && name.to_lowercase().starts_with(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_the_calendar_says() {
        let check = |day: i64, iso: &str, long: &str| assert_eq!((Day(day).iso(), Day(day).long()), (iso.into(), long.into()));
        check(0, "2025-01-01", "Wednesday 1 January 2025");
        check(58, "2025-02-28", "Friday 28 February 2025");
        check(59, "2025-03-01", "Saturday 1 March 2025");
        check(365, "2026-01-01", "Thursday 1 January 2026");
        check(1154, "2028-02-29", "Tuesday 29 February 2028");
        assert_eq!(Day(70).at(845).to_string(), "2025-03-12 14:05");
        assert_eq!(Day(59).workday().iso(), "2025-03-03");
    }
}
