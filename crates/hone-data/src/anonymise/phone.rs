//! Phone numbers: international ones by their plus, common national ones by their shape, all others by the words around them.

use super::bytes::{begins_with, digits_end, goes_on, has_word, is_free_after, skip_blanks};
use super::cue::Cue;
use super::number::Number;

/// Digits of a number that can be dialled.
const N_DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// The end of the phone number that this number is, given the last word before it that says what it is.
pub(super) fn end(number: &Number<'_>, cue: Option<Cue>) -> Option<usize> {
    if number.is_date() {
        return None;
    }
    let n_groups = (1..=number.n_groups()).rev().find(|&n| is_phone(number, n, cue))?;
    Some(with_extension(number.bytes, number.end(n_groups - 1)))
}

fn is_phone(number: &Number<'_>, n: usize, cue: Option<Cue>) -> bool {
    let (n_digits, end) = (number.n_digits(n), number.end(n - 1));
    let bytes = number.bytes;
    if !is_free_after(bytes, end) && extension_end(bytes, end).is_none() {
        return false;
    }
    // The begin of a longer number, such as a UUID.
    if goes_on(bytes, end) && !is_said_after(bytes, end) {
        return false;
    }
    // An amount, a share, a time.
    if matches!(bytes.get(end), Some(b'%' | b':')) || is_decimal(bytes, end) {
        return false;
    }
    let first = number.group(0);
    let is_said = matches!(cue, Some(Cue::Phone | Cue::Reach)) || is_said_after(bytes, end);
    if number.has_plus {
        return (8..=15).contains(&n_digits) && first[0] != b'0' && (n > 1 || is_said || !is_term(first));
    }
    let is_fraction = n == 2 && number.between(0) == b"." && (number.len(0) < 3 || number.len(1) > 4);
    if !N_DIGITS.contains(&n_digits) || is_fraction {
        return false;
    }
    // A count or a time may stand there as well.
    let is_likely = n > 1 || (n_digits >= 9 && first[0] != b'1');
    if cue == Some(Cue::Phone) || (cue == Some(Cue::Reach) && is_likely) || is_said_after(bytes, end) {
        return true;
    }
    let in_brackets = bytes[number.start] == b'(';
    let is_other = matches!(cue, Some(Cue::Other | Cue::Card | Cue::Version));
    // Pairs with dots and British mobiles are hardly anything else.
    let is_clear = n > 1 && (number.between(0) == b"." || (n_digits == 11 && first.starts_with(b"07")));
    let is_plain = is_trunk(number, n, n_digits) && (!is_other || is_clear);
    is_american(number, n) || (in_brackets && is_local(number, n)) || is_plain
}

/// Whether digits behind a plus may be added to something, as in `x = +12345678` or `+1500000000`: too few for a country and a number,
/// or round.
fn is_term(digits: &[u8]) -> bool {
    digits.len() < 10 || digits.ends_with(b"00000")
}

/// `905-674-3793`, `(905) 674-3793`, `1 905 674 3793`.
fn is_american(number: &Number<'_>, n: usize) -> bool {
    let lens: Vec<usize> = (0..n).map(|idx| number.len(idx)).collect();
    let dots_agree = |from: usize| {
        number.between(from) == number.between(from + 1) || number.between(from).len() > 1 || number.bytes[number.start] == b'('
    };
    match lens[..] {
        [3, 3, 4] => dots_agree(0),
        [1, 3, 3, 4] => number.group(0) == b"1" && (dots_agree(1) || number.between(0).len() > 1),
        [3, 7] => number.bytes[number.start] == b'(',
        _ => false,
    }
}

/// `(37) 788-063`, but not `(1999) 12-345678`.
fn is_local(number: &Number<'_>, n: usize) -> bool {
    let is_year = number.len(0) == 4 && (number.group(0).starts_with(b"19") || number.group(0).starts_with(b"20"));
    n >= 2 && (2..=5).contains(&number.len(0)) && !is_year && number.n_digits(n) >= 8 && number.between(0).starts_with(b")")
}

/// `0490 75 40 81`, `03.93.92.16.85`, `020 7946 0958`, `0044 20 7946 0958`: a zero is dialled first inside of a country, two of them
/// out of it.
fn is_trunk(number: &Number<'_>, n: usize, n_digits: usize) -> bool {
    let first = number.group(0);
    if first[0] != b'0' || (0..n).any(|idx| number.len(idx) < 2) || is_bits(number, n) || is_counted(number, n) {
        return false;
    }
    let is_mobile = n == 1 && n_digits == 11 && first.starts_with(b"07");
    let has_dots = n > 1 && number.between(0) == b".";
    let n_digits_max = if first.starts_with(b"00") { 15 } else { 11 };
    let is_even = (0..n - 1).all(|idx| number.between(idx) == number.between(0)) || first.len() <= 5;
    is_mobile || (n >= if has_dots { 4 } else { 2 } && is_even && (9..=n_digits_max).contains(&n_digits))
}

/// `0010 1101 0111`
fn is_bits(number: &Number<'_>, n: usize) -> bool {
    number.digits(n).all(|digit| matches!(digit, b'0' | b'1'))
}

/// `01 02 03 04 05`, each as much more than the one before.
fn is_counted(number: &Number<'_>, n: usize) -> bool {
    let value = |idx: usize| number.group(idx).iter().fold(0i64, |sum, digit| sum.saturating_mul(10) + i64::from(digit - b'0'));
    n >= 4 && (2..n).all(|idx| value(idx) - value(idx - 1) == value(1) - value(0))
}

/// Whether a word after the number says that it is one: `416 60 039 office`, `788-063-Fax`.
fn is_said_after(bytes: &[u8], end: usize) -> bool {
    let at = match bytes.get(end) {
        Some(b'-' | b'/') => end + 1,
        _ => skip_blanks(bytes, end),
    };
    let at = if bytes.get(at) == Some(&b'(') { at + 1 } else { at };
    ["office", "fax", "mobile", "home", "work", "cell", "phone"].iter().any(|word| has_word(bytes, at, word))
}

/// `12,50` or `1,000`, whose digits go on behind a sign. More of them are the next number of a list.
fn is_decimal(bytes: &[u8], end: usize) -> bool {
    bytes.get(end) == Some(&b',') && (1..*N_DIGITS.start()).contains(&(digits_end(bytes, end + 1) - (end + 1)))
}

fn with_extension(bytes: &[u8], end: usize) -> usize {
    extension_end(bytes, end).unwrap_or(end)
}

/// `x4587`, ` ext. 12`.
fn extension_end(bytes: &[u8], end: usize) -> Option<usize> {
    let at = skip_blanks(bytes, end);
    let word = ["extension", "ext.", "ext", "x"].into_iter().find(|word| begins_with(bytes, at, word))?;
    let from = skip_blanks(bytes, at + word.len());
    let to = digits_end(bytes, from);
    ((1..=6).contains(&(to - from)) && is_free_after(bytes, to)).then_some(to)
}
