//! Where somebody lives: a number and a street, a box, a flat, and the town behind it. Found by the forms of some countries, and by
//! `address:` before them.

use super::bytes::{begins_with, digits_end, has_word, is_word, skip_blanks, word_end};
use super::cue::{self, Cue};
use super::pseudonym;
use std::ops::Range;

/// The most words between the number of a house and the word for a street.
const N_WORDS_MAX: usize = 4;
/// The longest address.
const LEN_MAX: usize = 160;

/// The address that begins with the number of a house: `2450 Crown St`, `14 Rue de la Paix`.
pub(super) fn after_number(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let digits = digits_end(bytes, at);
    if digits - at > 6 {
        return None;
    }
    let mut end = word_end(bytes, digits).min(digits + 1);
    let (mut n_words, mut n_named) = (0, 0);
    loop {
        let from = skip_blanks(bytes, end);
        if from == end || from > end + 1 || n_words > N_WORDS_MAX || !bytes.get(from).is_some_and(|&byte| is_word(byte)) {
            return None;
        }
        if pseudonym::word_end_here(bytes, from).is_some() {
            return None;
        }
        let stop = word_end(bytes, from);
        let word = &text[from..stop];
        let cue = cue::of_word(word.as_bytes());
        if cue == Some(Cue::Street) && n_named > 0 {
            return Some(at..with_town(text, at, stop));
        }
        if cue == Some(Cue::StreetBefore) && n_words == 0 && starts_upper(word) {
            let name_end = capital_words_end(text, stop)?;
            return Some(at..with_town(text, at, name_end));
        }
        if is_compound(word) && starts_upper(word) {
            return Some(at..with_town(text, at, stop));
        }
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit()) && n_words == 0 && word.len() <= 6;
        let is_ordinal = word.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) && word.len() <= 5;
        let is_particle = matches!(word, "de" | "la" | "du" | "des" | "of" | "the" | "van" | "der");
        if !starts_upper(word) && !is_number && !is_ordinal && !is_particle {
            return None;
        }
        n_words += 1;
        n_named += usize::from(starts_upper(word) || (is_ordinal && !is_number));
        // An abbreviation such as `N.`; any other full stop ends a sentence.
        end = stop + usize::from(bytes.get(stop) == Some(&b'.') && word.len() <= 3 && starts_upper(word));
    }
}

/// The address that begins with this word: `Rua do Arenque 1634`, `Hauptstraße 5`, `P.O. Box 104`, `Apt. 595`.
pub(super) fn after_word(text: &str, word: &Range<usize>, cue: Option<Cue>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    match cue {
        Some(Cue::StreetBefore) if starts_upper(&text[word.clone()]) => {
            let name_end = capital_words_end(text, word.end)?;
            let (from, to) = house_number(bytes, name_end)?;
            (from > name_end).then(|| word.start..with_town(text, word.start, to))
        }
        Some(Cue::PostBox) => {
            let (_, to) = house_number(bytes, word.end)?;
            let before = bytes[..word.start].trim_ascii_end();
            let office = ["P.O.", "PO", "P.O", "p.o.", "po"].iter().find(|office| before.ends_with(office.as_bytes()));
            let is_lone = !has_word(bytes, word.start, "box");
            let start = office.map_or(word.start, |office| before.len() - office.len());
            (office.is_some() || is_lone).then(|| start..with_town(text, start, to))
        }
        Some(Cue::Unit) if starts_upper(&text[word.clone()]) || bytes.get(word.end) == Some(&b'.') => {
            let (_, to) = house_number(bytes, word.end)?;
            Some(word.start..with_town(text, word.start, to))
        }
        None if word.len() >= COMPOUND_LEN_MIN => {
            let (_, to) = house_number(bytes, word.end)?;
            is_compound(&text[word.clone()]).then(|| word.start..with_town(text, word.start, to))
        }
        _ => None,
    }
}

/// The address after `address is`, `address:` or `live at`: from a number or a capital to the end of the line or sentence.
pub(super) fn said(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = skip_blanks(bytes, word.end);
    at = match bytes.get(at) {
        Some(b':') => at + 1,
        _ if has_word(bytes, at, "is") || has_word(bytes, at, "at") || has_word(bytes, at, "in") => at + 2,
        _ => return None,
    };
    at += bytes[at..].iter().take(12).take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'"')).count();
    let range = whole(text, at)?;
    Some(range)
}

/// The address that begins here, where it is known that one does: up to two lines with a number in them.
pub(super) fn whole(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !bytes.get(at).is_some_and(|&byte| is_word(byte))
        || pseudonym::word_end_here(bytes, at).is_some()
        || !(starts_upper(&text[at..]) || bytes[at].is_ascii_digit())
    {
        return None;
    }
    let most = floor_char(text, bytes.len().min(at + LEN_MAX));
    let line = bytes[at..most]
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'"' | b'?' | b'!' | b';' | b'<' | b'@'))
        .map_or(most, |n| at + n);
    let mut end = sentence_end(text, at, line);
    let has_number = bytes[at..end].iter().any(u8::is_ascii_digit);
    let n_words = text[at..end].split_whitespace().count();
    if !has_number || n_words < 2 || text[at..end].contains("://") {
        return None;
    }
    while end > at && matches!(bytes[end - 1], b' ' | b'.' | b',' | b'\r') {
        end -= 1;
    }
    Some(at..with_town(text, at, end))
}

/// The end of the sentence: a full stop after which a capital begins another, but not one of `St.` or `Apt.`.
fn sentence_end(text: &str, at: usize, line: usize) -> usize {
    let bytes = text.as_bytes();
    let mut from = at;
    while let Some(n) = memchr::memchr(b'.', &bytes[from..line]) {
        let dot = from + n;
        let word_start = bytes[at..dot].iter().rposition(|&byte| !is_word(byte)).map_or(at, |idx| at + idx + 1);
        let is_short = dot - word_start <= 4 && !bytes[word_start..dot].iter().all(u8::is_ascii_digit);
        let follows = text[(dot + 1).min(line)..line].trim_start();
        if !is_short && bytes.get(dot + 1).is_none_or(u8::is_ascii_whitespace) && (follows.is_empty() || starts_upper(follows)) {
            return dot;
        }
        from = dot + 1;
    }
    line
}

/// With the flat, the town and the code behind the street.
fn with_town(text: &str, start: usize, street_end: usize) -> usize {
    let bytes = text.as_bytes();
    let most = floor_char(text, bytes.len().min(start + LEN_MAX));
    let mut end = street_end;
    for _ in 0..6 {
        let mut at = end + usize::from(bytes.get(end) == Some(&b'.'));
        at += bytes[at..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b',' | b'\n')).count();
        if at == end || at >= most || !is_word(bytes[at]) || pseudonym::word_end_here(bytes, at).is_some() {
            break;
        }
        let stop = word_end(bytes, at);
        let word = &text[at..stop.min(most)];
        let has_comma = bytes[end..at].iter().any(|byte| matches!(byte, b',' | b'\n'));
        let is_code =
            word.bytes().all(|byte| byte.is_ascii_digit()) && (4..=6).contains(&word.len()) && !is_phone_like(bytes, stop);
        let is_town = has_comma && starts_upper(word) && is_followed_by_code(text, stop, most);
        let next = if cue::of_word(word.as_bytes()) == Some(Cue::Unit) || word.eq_ignore_ascii_case("box") {
            house_number(bytes, stop).map(|(_, to)| to)
        } else if is_code || is_town {
            Some(stop)
        } else if word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()) {
            code_after(bytes, stop)
        } else {
            None
        };
        match next {
            Some(next) if next <= most => end = next,
            _ => break,
        }
    }
    end
}

/// Whether digits go on behind a code, which then is none.
fn is_phone_like(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at), Some(b'-' | b' ' | b'.')) && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
}

/// Whether a code follows within a few words: a town is between street and code.
fn is_followed_by_code(text: &str, from: usize, most: usize) -> bool {
    let rest = &text[from.min(most)..most];
    let mut words =
        rest.split(|character: char| character.is_whitespace() || character == ',').filter(|word| !word.is_empty()).take(4);
    words.any(|word| {
        let digits = word.trim_end_matches(|last: char| last.is_ascii_punctuation());
        (4..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn code_after(bytes: &[u8], at: usize) -> Option<usize> {
    let from = skip_blanks(bytes, at);
    let to = digits_end(bytes, from);
    (to - from == 5).then_some(to)
}

/// The number behind a street, with a letter: ` 12a`.
fn house_number(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let at = at + usize::from(bytes.get(at) == Some(&b'.'));
    let from = skip_blanks(bytes, at);
    let from = from + usize::from(bytes.get(from) == Some(&b'#'));
    let digits = digits_end(bytes, from);
    let to = word_end(bytes, digits);
    ((1..=5).contains(&(digits - from)) && to - digits <= 1 && from <= at + 2).then_some((from, to))
}

/// The end of up to four words with capitals, particles between them.
fn capital_words_end(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut end) = (from, None);
    for _ in 0..N_WORDS_MAX {
        at += usize::from(bytes.get(at) == Some(&b'.'));
        let start = skip_blanks(bytes, at);
        if start == at || !bytes.get(start).is_some_and(|&byte| is_word(byte)) || pseudonym::word_end_here(bytes, start).is_some()
        {
            break;
        }
        let stop = word_end(bytes, start);
        let word = &text[start..stop];
        if starts_upper(word) {
            end = Some(stop);
        } else if !matches!(
            word,
            "de" | "do" | "da" | "dos" | "das" | "del" | "della" | "la" | "le" | "les" | "du" | "des" | "di" | "el"
        ) {
            break;
        }
        at = stop;
    }
    end
}

fn starts_upper(word: &str) -> bool {
    word.chars().next().is_some_and(char::is_uppercase)
}

/// Shorter words do not end in a word for a street.
const COMPOUND_LEN_MIN: usize = 7;

/// A word that ends in a word for a street: Hauptstraße, Storgatan, Kerkstraat.
fn is_compound(word: &str) -> bool {
    const ENDS: &[&str] = &[
        "straße", "strasse", "gasse", "weg", "allee", "platz", "gatan", "vägen", "vej", "veien", "gata", "gade", "straat",
        "laan", "katu", "kuja", "tie", "str",
    ];
    word.len() >= COMPOUND_LEN_MIN
        && ENDS.iter().any(|end| {
            word.len() > end.len() + 2
                && word.is_char_boundary(word.len() - end.len())
                && begins_with(word.as_bytes(), word.len() - end.len(), end)
        })
}

fn floor_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
