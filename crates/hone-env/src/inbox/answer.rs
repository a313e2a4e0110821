//! Right answers, and whether an answer in other words is the same one.
//!
//! A given answer is read as what was asked for: a number without its currency, a date in any usual order, a name in any
//! order of its words. What cannot be read so is wrong. Nothing is judged by similarity.

use super::calendar::{is_weekday, month};
use serde::{Deserialize, Serialize};

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    pub(super) kind: Kind,
    /// In the words of the mails.
    pub(super) text: String,
}

/// What an answer is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// An amount or a count.
    Number,
    Date,
    /// A time of the day.
    Clock,
    /// A person.
    Name,
    /// A room, a flight, a file.
    Text,
    /// No mail says it.
    Unknown,
}

/// What a given answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Correct,
    /// Whoever answered did not know, though a mail says it.
    Unknown,
    Wrong,
}

/// How one says that one does not know.
pub(super) const UNKNOWN: &str = "I don't know";

impl Answer {
    pub(super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(super) fn unknown() -> Self {
        Self::new(Kind::Unknown, UNKNOWN)
    }

    pub(super) fn verdict(&self, given: &str) -> Verdict {
        match (is_unknown(given), self.kind == Kind::Unknown) {
            (true, true) => Verdict::Correct,
            (true, false) => Verdict::Unknown,
            (false, true) => Verdict::Wrong,
            (false, false) => {
                if self.is(given) {
                    Verdict::Correct
                } else {
                    Verdict::Wrong
                }
            }
        }
    }

    fn is(&self, given: &str) -> bool {
        fn same<T: PartialEq>(read: impl Fn(&str) -> Option<T>, truth: &str, given: &str) -> bool {
            read(given).is_some_and(|given| Some(given) == read(truth))
        }
        match self.kind {
            Kind::Number => same(hundredths, &self.text, given),
            Kind::Date => is_same_date(&self.text, given),
            Kind::Clock => same(minutes, &self.text, given),
            Kind::Name => same(name, &self.text, given),
            Kind::Text => same(plain, &self.text, given),
            Kind::Unknown => false,
        }
    }
}

fn is_unknown(given: &str) -> bool {
    let letters: String = given.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let begins = ["idontknow", "idonotknow"].iter().any(|begin| letters.starts_with(begin));
    begins || ["unknown", "dontknow", "notknown", "notfound", "noanswer"].contains(&letters.as_str())
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Whether a text denies the numbers that it names, in the clause they stand in: `not EUR 12`, `14:30 isn't it`. What is said beside them
/// denies nothing: `EUR 12, not yet paid`.
fn is_denied(text: &str) -> bool {
    let (Some(first), Some(last)) = (text.find(|c: char| c.is_ascii_digit()), text.rfind(|c: char| c.is_ascii_digit())) else {
        return false;
    };
    let ends = |c: char| ",;:.!?()\n".contains(c);
    let before = text[..first].rsplit(ends).next().unwrap_or_default();
    let behind = text[last + 1..].split(ends).next().unwrap_or_default();
    let denies = |part: &str| {
        let has_short = ["n't", "n\u{2019}t"].iter().any(|short| part.to_lowercase().contains(short));
        let words: Vec<String> = words(part).collect();
        let is_denial = |(i, word): (usize, &String)| match word.as_str() {
            "not" => words.get(i + 1).is_none_or(|next| next != "yet"),
            word => ["never", "neither", "nor"].contains(&word),
        };
        has_short || words.iter().enumerate().any(is_denial)
    };
    denies(before) || denies(behind)
}

/// The one number of a text, in hundredths: `EUR 1,234.50` and `1234.5 €` are the same, `-1234.50` is not.
fn hundredths(text: &str) -> Option<i64> {
    if is_denied(text) {
        return None;
    }
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .map(|part| part.trim_matches(['.', ',']))
        .filter(|part| !part.is_empty());
    let (number, None) = (numbers.next()?, numbers.next()) else { return None };
    // A separator before the last one or two digits begins the decimals, whichever sign it is.
    let decimals_at = number.rfind(['.', ',']).filter(|at| number.len() - at - 1 <= 2);
    let (whole, decimals) = decimals_at.map_or((number, ""), |at| (&number[..at], &number[at + 1..]));
    let mut groups = whole.split(['.', ',']);
    let first = groups.next()?;
    if groups.any(|group| group.len() != 3) || whole.len() > 15 {
        return None;
    }
    let digits: String = whole.chars().filter(char::is_ascii_digit).collect();
    let whole: i64 = if first.is_empty() { return None } else { digits.parse().ok()? };
    let decimals: i64 = format!("{decimals:0<2}").parse().ok()?;
    let sign = if is_negative(text) { -1 } else { 1 };
    Some(sign * (whole * 100 + decimals))
}

/// Whether the number of a text stands below zero: in words, or by a sign right before it or before its currency.
fn is_negative(text: &str) -> bool {
    let is_sign = |c: char| c == '-' || c == '\u{2212}';
    let before = text.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default();
    let (rest, last) = before.rsplit_once(char::is_whitespace).unwrap_or(("", before));
    let previous = rest.split_whitespace().next_back().unwrap_or_default();
    let begins = |word: &str| word.trim_start_matches('(').starts_with(is_sign) && word.chars().count() > 1;
    let is_signed = last.ends_with(is_sign) || begins(last) || last.is_empty() && begins(previous);
    is_signed || words(before).any(|word| ["minus", "negative"].contains(&word.as_str()))
}

fn is_same_date(truth: &str, given: &str) -> bool {
    let (Some(truth), Some(given)) = (date(truth), date(given)) else { return false };
    truth.1 == given.1 && truth.2 == given.2 && (given.0.is_none() || given.0 == truth.0)
}

/// Year where told, month and day: `2025-03-12`, `12.03.2025`, `March 12th, 2025`, `Wednesday 12 March`.
fn date(text: &str) -> Option<(Option<u32>, u32, u32)> {
    let (mut named, mut numbers) = (None, Vec::new());
    for word in words(text) {
        let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(&word);
        if let Ok(number) = digits.parse::<u32>() {
            numbers.push(number);
        } else if let (Some(month), None) = (month(&word), named) {
            named = Some(month);
        } else if !is_weekday(&word) && !["the", "of", "on"].contains(&word.as_str()) {
            return None;
        }
    }
    let (year, month, day) = match (named, &numbers[..]) {
        (Some(month), &[day]) => (None, month, day),
        (Some(month), &[year, day] | &[day, year]) if year > 31 && day <= 31 => (Some(year), month, day),
        (None, &[year, month, day] | &[day, month, year]) if year > 31 => (Some(year), month, day),
        _ => return None,
    };
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some((year, month, day))
}

/// Minutes since midnight: `14:30`, `2:30 pm`, `2 pm`.
fn minutes(text: &str) -> Option<u32> {
    if is_denied(text) {
        return None;
    }
    let lower = text.to_lowercase();
    let half = half(&lower);
    let numbers: Option<Vec<u32>> =
        lower.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect();
    let (hour, minute) = match (&numbers?[..], half) {
        (&[hour, minute], _) => (hour, minute),
        (&[hour], Some(_)) => (hour, 0),
        _ => return None,
    };
    let hour = match half {
        Some(add) if (1..=12).contains(&hour) => hour % 12 + add,
        Some(_) => return None,
        None => hour,
    };
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

/// The hours that `am` or `pm` behind the last number add; neither of them is a part of a word such as `team`.
fn half(lower: &str) -> Option<u32> {
    let behind = lower.rsplit(|c: char| c.is_ascii_digit()).next()?.trim_start();
    let halves = [("am", 0), ("a.m", 0), ("pm", 12), ("p.m", 12)];
    let ends = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    halves.into_iter().find(|(word, _)| behind.strip_prefix(word).is_some_and(ends)).map(|(_, add)| add)
}

/// The words of a name, in order of the alphabet.
fn name(text: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = words(text).filter(|word| !["mr", "ms", "mrs", "dr"].contains(&word.as_str())).collect();
    words.sort();
    (!words.is_empty()).then_some(words)
}

/// Letters and digits alone, without the word that says what it is.
fn plain(text: &str) -> Option<String> {
    let word: String =
        words(text).skip_while(|word| ["the", "room", "flight", "hotel", "file"].contains(&word.as_str())).collect();
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, truth: &str, right: &[&str], wrong: &[&str]) {
        let answer = Answer::new(kind, truth);
        for given in right {
            assert_eq!(answer.verdict(given), Verdict::Correct, "{given}");
        }
        for given in wrong {
            assert_eq!(answer.verdict(given), Verdict::Wrong, "{given}");
        }
        assert_eq!(answer.verdict("I don\u{2019}t know."), Verdict::Unknown);
    }

    #[test]
    fn the_same_answer_may_be_spelt_in_many_ways() {
        let amounts = ["1234.50", "1,234.5", "€1.234,50", "The total is EUR 1,234.50."];
        check(Kind::Number, "EUR 1,234.50", &amounts, &["1234", "1234.51", "12,34.50", "4711: 1234.50", "", "many"]);
        let denied = ["-1,234.50", "EUR -1234.50", "-EUR 1,234.50", "\u{2212}€1234.5", "minus 1234.50", "not EUR 1,234.50"];
        check(Kind::Number, "EUR 1,234.50", &["The total - EUR 1,234.50", "Total: - 1234.50 EUR"], &denied);
        check(Kind::Number, "EUR 1,234.50", &["all-in 1234.50"], &["It isn't 1234.50", "It isn\u{2019}t 1234.50"]);
        let beside = [
            "EUR 1,234.50, not yet paid",
            "1234.50 (VAT not included)",
            "I can't see why, but 1234.50",
            "1234.50 is not yet paid",
        ];
        check(Kind::Number, "EUR 1,234.50", &beside, &["1234.50 is not the total", "1,234.50 isn't it", "neither 1234.50"]);
        check(Kind::Number, "12 laptops", &["12", "12.00"], &["1.2", "120", "99999999999999999999999"]);
        let dates = ["2025-03-12", "12 March", "March 12th, 2025", "on Wed, 12 Mar 2025", "12.03.2025"];
        check(
            Kind::Date,
            "Wednesday 12 March 2025",
            &dates,
            &["2024-03-12", "13 March", "March", "12", "12 or 13 March", "99/99/2025"],
        );
        check(Kind::Clock, "14:30", &["2:30 pm", "14.30", "at 14:30"], &["2:30", "14", "25:30", "14:30:10"]);
        check(Kind::Clock, "09:00", &["9 am", "9:00", "09:00 a.m."], &["9 pm", "9"]);
        let around = ["The team meets at 13:00", "Pamela said 1:00 pm", "13:00 Amsterdam time", "1 P.M."];
        check(Kind::Clock, "13:00", &around, &["1:00 am", "not at 13:00", "1 team"]);
        check(Kind::Clock, "13:00", &["13:00, I can't find a room"], &["it isn't at 1 pm"]);
        check(Kind::Name, "Nadia Beck", &["nadia beck", "Beck, Nadia", "Ms Nadia Beck"], &["Nadia", "Nadia Beck and Omar Falk"]);
        check(Kind::Text, "Aurora 2.14", &["room Aurora 2.14", "aurora 2.14"], &["Aurora", "Aurora 2.15", "room"]);
        check(Kind::Text, "atlas-plan_v2.xlsx", &["`atlas-plan_v2.xlsx`"], &["atlas-plan_v3.xlsx", "atlas-plan"]);
    }

    #[test]
    fn what_no_mail_says_is_rightly_unknown() {
        assert_eq!(Answer::unknown().verdict("I do not know"), Verdict::Correct);
        assert_eq!(Answer::unknown().verdict("Unknown"), Verdict::Correct);
        assert_eq!(Answer::unknown().verdict("EUR 12.00"), Verdict::Wrong);
        assert_eq!(Answer::unknown().verdict(""), Verdict::Wrong);
    }
}
