//! When an answer is right: numbers as exact decimals, everything else letter by letter after tidying up.

use super::exact::Exact;

/// Whether this answer says the truth.
pub(crate) fn is_right(answer: &str, truth: &str) -> bool {
    let answer = answer.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '*'));
    let answer = answer.trim_end_matches('.').trim_end();
    match Exact::read(truth) {
        Some(truth) => number(answer) == Some(truth),
        None => {
            let truth = tidy(truth);
            let answer = tidy(answer);
            answer == truth || unspelled(&answer).is_some_and(|word| word == truth)
        }
    }
}

/// Reads a number that may have thousands separators, each before three digits.
fn number(text: &str) -> Option<Exact> {
    if !text.contains(',') {
        return Exact::read(text);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?.trim_start_matches('-').len();
    if !(1..=3).contains(&first) || groups.any(|group| group.len() != 3) || fraction.contains(',') {
        return None;
    }
    Exact::read(&text.replace(',', ""))
}

/// Lower case, one space between words.
fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        if !tidy.is_empty() {
            tidy.push(' ');
        }
        tidy.extend(word.chars().flat_map(char::to_lowercase));
    }
    tidy
}

/// The word that is spelled letter by letter, such as `p m a l` or `p-m-a-l`.
fn unspelled(text: &str) -> Option<String> {
    let letters = || text.split([' ', '-']);
    letters().all(|letter| letter.chars().count() == 1).then(|| letters().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(truth: &str, right: &[&str], wrong: &[&str]) {
        right.iter().for_each(|answer| assert!(is_right(answer, truth), "{answer} for {truth}"));
        wrong.iter().for_each(|answer| assert!(!is_right(answer, truth), "{answer} for {truth}"));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        check(
            "17802",
            &["17802", " 17802. ", "17,802", "17802.00", "**17802**"],
            &["17803", "1,7802", "17 802", "17.802", "", "about 17802"],
        );
        check("45.90", &["45.9", "45.90", "45.90."], &["45", "4590", "46"]);
        check("-3", &["-3", "-3.0"], &["3"]);
        check("1234567.5", &["1,234,567.5"], &["1,234567.5", "1,234,567,5"]);
    }

    #[test]
    fn words_are_compared_without_case_and_commas() {
        check("lisbon", &["Lisbon", "lisbon.", "\"Lisbon\""], &["oslo", "lisbon oslo", ""]);
        check("cat dog lamp", &["cat, dog, lamp", "Cat  dog lamp."], &["dog cat lamp", "cat dog"]);
        check("pmal", &["pmal", "p m a l", "P-M-A-L"], &["p m l a", "lamp"]);
        check("2024-04-15", &["2024-04-15", "2024-04-15."], &["2024-4-15", "15.04.2024"]);
    }
}
