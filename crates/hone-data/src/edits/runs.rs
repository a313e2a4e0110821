//! Numbers that stand beside each other in a text, however they are written.
//!
//! A text is read twice. As words, nothing but punctuation stands between the numbers of a run, and digits without a gap are several
//! numbers. As a program, what stands between commas, brackets and blanks is worth what it computes: `0x3`, `10-7`, `T`, the constants of the
//! language of grids, also those that are pairs, and names that a line gave such a value. A name of which nothing is known adds nothing to a
//! sum: `3+z`. Digits of a name such as `x1` are no number in either.

use std::collections::HashMap;

/// A digit in words, in any case: the language of the programs has these names too.
const DIGITS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

/// Constants of the language, as they are written there.
const CONSTANTS: [(&str, &[i8]); 12] = [
    ("T", &[1]),
    ("F", &[0]),
    ("True", &[1]),
    ("False", &[0]),
    ("DOWN", &[1, 0]),
    ("RIGHT", &[0, 1]),
    ("ORIGIN", &[0, 0]),
    ("UNITY", &[1, 1]),
    ("ZERO_BY_TWO", &[0, 2]),
    ("TWO_BY_ZERO", &[2, 0]),
    ("TWO_BY_TWO", &[2, 2]),
    ("THREE_BY_THREE", &[3, 3]),
];

/// All runs of a text, in both readings.
pub(super) fn all(text: &str) -> Vec<Vec<i8>> {
    let mut runs = of_words(text);
    runs.extend(of_program(text));
    runs
}

/// The numbers of a text that stand beside each other; where they are written without a gap, their digits.
fn of_words(text: &str) -> Vec<Vec<i8>> {
    let mut runs = Vec::new();
    let mut run = Vec::new();
    for word in text.split(|letter: char| !is_of_word(letter)) {
        let name = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
        run.extend(digits(&word[..word.len() - name.len()]));
        match digit(name) {
            Some(digit) => run.push(digit),
            None if name.is_empty() => {}
            None => runs.push(std::mem::take(&mut run)),
        }
    }
    runs.push(run);
    runs
}

/// The values of a program that stand beside each other.
fn of_program(text: &str) -> Vec<Vec<i8>> {
    let names = names(text);
    let mut runs = Vec::new();
    let mut run = Vec::new();
    for term in terms(text) {
        match cells(term, &names) {
            Some(cells) => run.extend(cells),
            None => runs.push(std::mem::take(&mut run)),
        }
    }
    runs.push(run);
    runs
}

/// The names that lines such as `z = 0` or `a, b = 1, 2` give values, the last of each.
fn names(text: &str) -> HashMap<&str, Vec<i8>> {
    let mut names = HashMap::new();
    for line in text.split(['\n', ';']) {
        let Some((left, right)) = line.split_once('=').filter(|(_, right)| !right.starts_with('=')) else { continue };
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(',').map(str::trim).collect(), right.split(',').collect());
        let is_name =
            |name: &&str| !name.is_empty() && name.chars().all(is_of_word) && !name.starts_with(|c: char| c.is_ascii_digit());
        if left.len() != right.len() || !left.iter().all(is_name) {
            continue;
        }
        for (name, right) in left.into_iter().zip(right) {
            let values: Vec<Option<Vec<i8>>> = terms(right).map(|term| cells(term, &names)).collect();
            if let [Some(cells)] = &values[..] {
                names.insert(name, cells.clone());
            }
        }
    }
    names
}

/// What stands between commas, brackets and blanks. A sign of a sum belongs to what stands around it, with or without blanks.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|sign: char| !is_of_word(sign) && !is_operator(sign));
        if rest.is_empty() {
            return None;
        }
        let (mut end, mut wants_more) = (0, true);
        loop {
            let behind = rest[end..].trim_start_matches(' ');
            let Some(next) = behind.chars().next() else { break };
            let begin = rest.len() - behind.len();
            if is_operator(next) {
                (end, wants_more) = (begin + next.len_utf8(), true);
            } else if is_of_word(next) && wants_more {
                (end, wants_more) = (begin + behind.find(|sign: char| !is_of_word(sign)).unwrap_or(behind.len()), false);
            } else {
                break;
            }
        }
        let (term, behind) = rest.split_at(end);
        rest = behind;
        Some(term)
    })
}

/// The cells that a term stands for; nothing where it is something else.
fn cells(term: &str, names: &HashMap<&str, Vec<i8>>) -> Option<Vec<i8>> {
    if term.chars().all(|sign| sign.is_ascii_digit()) {
        return Some(digits(term).collect());
    }
    let constant = |name: &str| {
        let known = CONSTANTS.iter().find(|(known, _)| *known == name).map(|(_, cells)| cells.to_vec());
        known.or_else(|| digit(name).map(|digit| vec![digit])).or_else(|| names.get(name).cloned())
    };
    if term.chars().all(is_of_word) && !term.starts_with(|sign: char| sign.is_ascii_digit()) {
        return constant(term);
    }
    let value = Sum::of(term, |name| constant(name).filter(|cells| cells.len() == 1).map(|cells| i64::from(cells[0])))?;
    match i8::try_from(value) {
        Ok(value @ 0..=9) => Some(vec![value]),
        // The digits of a long number in another base are as good as a grid.
        _ => {
            let is_based = ["0x", "0X", "0o", "0O", "0b", "0B"].iter().any(|base| term.starts_with(base));
            let rest = term.get(2..).filter(|rest| is_based && rest.bytes().all(|digit| digit.is_ascii_digit()));
            rest.map(|rest| digits(rest).collect())
        }
    }
}

/// A sum under way: products are added when the next sign of a sum comes.
struct Sum {
    total: i64,
    product: i64,
    /// Whether a name of which nothing is known is in the product, and whether anything that is known is in the sum.
    is_unknown: bool,
    has_number: bool,
}

impl Sum {
    /// What a term comes to, with what names are worth. Nothing where nothing of it is known, or something unknown is not only added.
    fn of(term: &str, worth: impl Fn(&str) -> Option<i64>) -> Option<i64> {
        let mut sum = Self { total: 0, product: 0, is_unknown: false, has_number: false };
        let (mut rest, mut is_first) = (term, true);
        while !rest.is_empty() {
            rest = rest.trim_start_matches(' ');
            let n_signs = rest.find(|sign: char| !is_operator(sign)).unwrap_or(rest.len());
            let signs = rest[..n_signs].trim();
            let operator = match (signs, is_first) {
                ("", true) | ("+", _) => '+',
                ("-", _) => '-',
                ("*", false) => '*',
                ("//" | "/", false) => '/',
                ("%", false) => '%',
                _ => return None,
            };
            rest = rest[n_signs..].trim_start_matches(' ');
            let n_word = rest.find(|sign: char| !is_of_word(sign)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(n_word);
            let value = number(word).or_else(|| worth(word));
            sum.has_number |= value.is_some();
            sum.apply(operator, value, word)?;
            (rest, is_first) = (behind, false);
        }
        sum.has_number.then(|| sum.total.checked_add(sum.product))?
    }

    /// Adds or multiplies by a value, or by what nobody knows.
    fn apply(&mut self, operator: char, value: Option<i64>, word: &str) -> Option<()> {
        if word.is_empty() {
            return None;
        }
        if matches!(operator, '+' | '-') {
            self.total = self.total.checked_add(self.product)?;
            let value_or_nothing = value.unwrap_or(0);
            self.product = if operator == '+' { value_or_nothing } else { value_or_nothing.checked_neg()? };
            self.is_unknown = value.is_none();
            return Some(());
        }
        let value = value.filter(|_| !self.is_unknown)?;
        self.product = match operator {
            '*' => self.product.checked_mul(value)?,
            '/' => self.product.checked_div_euclid(value)?,
            _ => self.product.checked_rem_euclid(value)?,
        };
        Some(())
    }
}

/// The number that a word is, in any base.
fn number(word: &str) -> Option<i64> {
    let based = [("0x", 16), ("0o", 8), ("0b", 2)];
    let lower = word.to_ascii_lowercase();
    match based.into_iter().find_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, base))) {
        Some((digits, base)) => i64::from_str_radix(digits, base).ok(),
        None => word.parse().ok(),
    }
}

/// The digit that a word names.
fn digit(name: &str) -> Option<i8> {
    DIGITS.iter().position(|digit| digit.eq_ignore_ascii_case(name)).and_then(|digit| i8::try_from(digit).ok())
}

fn digits(text: &str) -> impl Iterator<Item = i8> + '_ {
    text.bytes().map(|digit| (digit - b'0') as i8)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_operator(sign: char) -> bool {
    matches!(sign, '+' | '-' | '*' | '/' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&[i8]]) {
        let runs: Vec<Vec<i8>> = of_program(text).into_iter().filter(|run| !run.is_empty()).collect();
        assert_eq!(runs, expected, "{text}");
    }

    #[test]
    fn values_are_read_however_they_are_written() {
        check("((1, 2), (3, 0))", &[&[1, 2, 3, 0]]);
        check("O = ((0x1, 0X2), (0b11, 0o4))", &[&[1, 2, 3, 4]]);
        check("0x102030", &[&[1, 0, 2, 0, 3, 0]]);
        check("(1+z, 2 + z, z+3, z)", &[&[1, 2, 3]]);
        check("(10-7, 2*3, 9//2, 7%4, 1+2*3)", &[&[3, 6, 4, 3, 7]]);
        check("(T, F, True, ONE, nine)", &[&[1, 0, 1, 1, 9]]);
        check("(UNITY, DOWN, RIGHT, ORIGIN, TWO_BY_TWO)", &[&[1, 1, 1, 0, 0, 1, 0, 0, 2, 2]]);
        check("z = 3\na, b = 1, T\n(a, b, z, z+1)", &[&[3, 3, 1, 1, 1, 1, 1, 1, 3, 4]]);
    }

    #[test]
    fn what_is_no_value_ends_a_run() {
        check("(1, x1, 2)", &[&[1], &[2]]);
        check("turn right, then down, t and f", &[]);
        check("(1, 5+6, 2, 3*x, 4, -1, 5)", &[&[1], &[2], &[4], &[5]]);
        check("1 // 0, 2", &[&[2]]);
        check("x == 1", &[&[1]]);
    }
}
