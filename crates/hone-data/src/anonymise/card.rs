//! Payment cards: the prefixes and lengths of issuers, with the check digit of Luhn.

use super::cue::Cue;
use super::number::Number;

/// The lengths of a card number.
const LENS: std::ops::RangeInclusive<usize> = 12..=19;

/// The end of the card number that this number begins with.
pub(super) fn end(number: &Number<'_>, cue: Option<Cue>) -> Option<usize> {
    if number.has_plus {
        return None;
    }
    let n_groups = (1..=number.n_groups().min(5)).rev().find(|&n| is_card(number, n, cue))?;
    Some(number.end(n_groups - 1))
}

fn is_card(number: &Number<'_>, n: usize, cue: Option<Cue>) -> bool {
    let n_digits = number.n_digits(n);
    if !LENS.contains(&n_digits) || !is_grouped(number, n) || !super::bytes::is_free_after(number.bytes, number.end(n - 1)) {
        return false;
    }
    let mut digits = [0; 19];
    for (to, digit) in digits.iter_mut().zip(number.digits(n)) {
        *to = digit;
    }
    let digits = &digits[..n_digits];
    is_luhn(digits) && (is_issued(digits, cue) || (cue == Some(Cue::Card) && !digits.starts_with(b"999")))
}

/// Whether the groups are those of a card: one, fours, or 4-6-5 and 4-6-4.
fn is_grouped(number: &Number<'_>, n: usize) -> bool {
    let sign = |idx: usize| if number.between(idx) == b"  " { b" " } else { number.between(idx) };
    let is_sign = |idx: usize| matches!(sign(idx), b" " | b"-" | b".") && sign(idx) == sign(0);
    if n > 1 && !(0..n - 1).all(is_sign) {
        return false;
    }
    match n {
        1 => true,
        3 => {
            number.has_lens(&[4, 6, 5])
                || number.has_lens(&[4, 6, 4])
                || number.has_lens(&[4, 4, 4])
                || number.has_lens(&[4, 4, 5])
        }
        4 | 5 => number.has_lens(&[4, 4, 4]) && (1..=4).contains(&number.len(n - 1)) && (n == 4 || number.len(3) == 4),
        _ => false,
    }
}

/// Whether an issuer gives out numbers that begin so and are so long. Short ones are too common without a word before them.
fn is_issued(digits: &[u8], cue: Option<Cue>) -> bool {
    let head = |n: usize| digits[..n].iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    let (two, three, four) = (head(2), head(3), head(4));
    match digits.len() {
        13 => digits[0] == b'4' && cue != Some(Cue::Other),
        14 => (300..=305).contains(&three) || matches!(two, 36 | 38 | 39),
        15 => matches!(two, 34 | 37) || matches!(four, 1800 | 2131),
        16 => {
            digits[0] == b'4'
                || (51..=55).contains(&two)
                || (2221..=2720).contains(&four)
                || matches!(two, 35 | 36 | 38 | 50 | 56..=69)
        }
        17..=19 => digits[0] == b'4' && digits.len() == 19 || matches!(two, 35 | 50 | 56..=69),
        _ => false,
    }
}

/// Whether the last digit is the check digit of those before it.
pub(super) fn is_luhn(digits: &[u8]) -> bool {
    sum(digits.iter().rev().copied(), 0) % 10 == 0 && digits.iter().any(|&digit| digit != b'0')
}

/// The check digit to write after these.
pub(super) fn check_digit(digits: &str) -> u8 {
    u8::try_from((10 - sum(digits.bytes().rev(), 1) % 10) % 10).unwrap_or(0)
}

/// The digits from the last to the first, every second one doubled.
fn sum(backwards: impl Iterator<Item = u8>, first_doubled: usize) -> u32 {
    let value = |(idx, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0');
        let doubled = digit * (1 + u32::from((idx + first_doubled) % 2 == 1));
        if doubled > 9 { doubled - 9 } else { doubled }
    };
    backwards.enumerate().map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_digit_is_luhns() {
        assert!(is_luhn(b"4111111111111111") && !is_luhn(b"4111111111111112") && !is_luhn(b"0000000000000000"));
        assert_eq!(check_digit("411111111111111"), 1);
        assert_eq!(check_digit("7992739871"), 3);
    }
}
