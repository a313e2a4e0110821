//! Numbers that a state gives to people: US social security numbers by their shape, those of some other countries by their check
//! digits, and any after a word such as `passport`.

use super::bytes::{goes_on, is_free_after, skip_blanks};
use super::cue::Cue;
use super::number::Number;

/// The end of the social security number that this number begins with.
pub(super) fn ssn_end(number: &Number<'_>, cue: Option<Cue>) -> Option<usize> {
    if number.has_plus || number.bytes[number.start] == b'(' {
        return None;
    }
    let is_area = |group: &[u8]| !matches!(&group[..3], b"000" | b"666");
    let is_three = number.has_lens(&[3, 2, 4])
        && number.between(0) == number.between(1)
        && (matches!(number.between(0), b"-" | b" ") || cue == Some(Cue::Ssn));
    let end = if is_three {
        number.end(2)
    } else if cue == Some(Cue::Ssn) && number.len(0) == 9 {
        number.end(0)
    } else {
        return None;
    };
    (is_area(number.group(0)) && is_free_after(number.bytes, end) && !goes_on(number.bytes, end)).then_some(end)
}

/// The end of the number of another state that begins here with a digit.
pub(super) fn digits_end(number: &Number<'_>) -> Option<usize> {
    if number.has_plus || number.bytes[number.start] == b'(' {
        return None;
    }
    cpf_end(number).or_else(|| nir_end(number)).or_else(|| dni_end(number))
}

/// Brazil: `123.456.789-09`, with two check digits.
fn cpf_end(number: &Number<'_>) -> Option<usize> {
    if !number.has_lens(&[3, 3, 3, 2]) || number.between(0) != b"." || number.between(1) != b"." || number.between(2) != b"-" {
        return None;
    }
    let digits: Vec<u32> = number.digits(4).map(|byte| u32::from(byte - b'0')).collect();
    let check = |n: usize| {
        let sum: u32 = digits[..n].iter().enumerate().map(|(idx, digit)| digit * (n + 1 - idx) as u32).sum();
        sum * 10 % 11 % 10
    };
    (check(9) == digits[9] && check(10) == digits[10]).then(|| number.end(3))
}

/// France: thirteen digits and 97 minus their remainder.
fn nir_end(number: &Number<'_>) -> Option<usize> {
    let n = (1..=number.n_groups()).find(|&n| number.n_digits(n) == 15)?;
    let is_grouped = n == 1 || number.has_lens(&[1, 2, 2, 2, 3, 3, 2]) || (n == 2 && number.has_lens(&[13, 2]));
    if !is_grouped || !matches!(number.group(0)[0], b'1' | b'2') || !is_free_after(number.bytes, number.end(n - 1)) {
        return None;
    }
    let value = number.digits(n).fold(0u64, |sum, byte| sum * 10 + u64::from(byte - b'0'));
    let month = value / 10_000_000_000 % 100;
    (97 - value / 100 % 97 == value % 100 && (1..=12).contains(&month)).then(|| number.end(n - 1))
}

/// Spain: eight digits and a letter.
fn dni_end(number: &Number<'_>) -> Option<usize> {
    let end = number.end(0);
    let &letter = number.bytes.get(end)?;
    let value = number.group(0).iter().take(9).fold(0usize, |sum, byte| sum * 10 + usize::from(byte - b'0'));
    (number.len(0) == 8 && SPANISH[value % 23] == letter && is_free_after(number.bytes, end + 1)).then_some(end + 1)
}

const SPANISH: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";

/// The end of the number of a state that begins here with a letter.
pub(super) fn word_end(bytes: &[u8], at: usize) -> Option<usize> {
    nie_end(bytes, at).or_else(|| nino_end(bytes, at)).or_else(|| codice_end(bytes, at))
}

/// Spain, for foreigners: X, Y or Z, seven digits and a letter.
fn nie_end(bytes: &[u8], at: usize) -> Option<usize> {
    let text = bytes.get(at..at + 9)?;
    let lead = usize::from(text[0].checked_sub(b'X').filter(|lead| *lead < 3)?);
    if !text[1..8].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text[1..8].iter().fold(lead, |sum, byte| sum * 10 + usize::from(byte - b'0'));
    (SPANISH[value % 23] == text[8] && is_free_after(bytes, at + 9)).then_some(at + 9)
}

/// The United Kingdom: two letters, six digits, A to D.
fn nino_end(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..at + 2)?;
    let is_letter = |byte: u8| byte.is_ascii_uppercase() && !b"DFIQUV".contains(&byte);
    if !is_letter(head[0])
        || !is_letter(head[1])
        || head[1] == b'O'
        || matches!(head, b"BG" | b"GB" | b"NK" | b"KN" | b"TN" | b"NT" | b"ZZ")
    {
        return None;
    }
    let mut end = at + 2;
    for _ in 0..3 {
        end = skip_one(bytes, end);
        if !bytes.get(end..end + 2)?.iter().all(u8::is_ascii_digit) {
            return None;
        }
        end += 2;
    }
    end = skip_one(bytes, end);
    (matches!(bytes.get(end)?, b'A'..=b'D') && is_free_after(bytes, end + 1)).then_some(end + 1)
}

fn skip_one(bytes: &[u8], at: usize) -> usize {
    at + usize::from(bytes.get(at) == Some(&b' '))
}

/// Italy: sixteen letters and digits, the last a check letter.
fn codice_end(bytes: &[u8], at: usize) -> Option<usize> {
    const FORM: &[u8; 16] = b"AAAAAA00A00A000A";
    const ODD: [u32; 26] = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let text = bytes.get(at..at + 16)?;
    let fits = |(byte, form): (&u8, &u8)| if *form == b'A' { byte.is_ascii_uppercase() } else { byte.is_ascii_digit() };
    if !text.iter().zip(FORM).all(fits) {
        return None;
    }
    let value = |byte: u8| u32::from(if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' });
    let worth = |(idx, &byte): (usize, &u8)| if idx % 2 == 0 { ODD[value(byte) as usize] } else { value(byte) };
    let sum: u32 = text[..15].iter().enumerate().map(worth).sum();
    (sum % 26 == value(text[15]) && is_free_after(bytes, at + 16)).then_some(at + 16)
}

/// The end of the letters and digits that begin here, where a word before them says that they are the number of a document.
pub(super) fn said_end(bytes: &[u8], at: usize) -> Option<usize> {
    let n =
        bytes[at..].iter().take(24).take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/')).count();
    let mut end = at + n;
    while end > at && !bytes[end - 1].is_ascii_alphanumeric() {
        end -= 1;
    }
    // Blocks of digits, as in 2345 6789 0123.
    while bytes[at..end].iter().all(u8::is_ascii_digit) || bytes[end.saturating_sub(3)..end].iter().all(u8::is_ascii_digit) {
        let next = skip_blanks(bytes, end);
        let more = super::bytes::digits_end(bytes, next.min(bytes.len()));
        if next != end + 1 || !(2..=6).contains(&(more - next)) || more - at > 24 || !is_free_after(bytes, more) {
            break;
        }
        end = more;
    }
    let n_digits = bytes[at..end].iter().filter(|byte| byte.is_ascii_digit()).count();
    ((5..=24).contains(&(end - at)) && n_digits >= 4 && is_free_after(bytes, end)).then_some(end)
}
