//! What stands in the place of a value: a keyed hash in a form that is nobody's.
//!
//! | kind | form | why it is free |
//! |---|---|---|
//! | e-mail | `person-abcdefghijk@mail.example` | `.example` is reserved (RFC 2606) |
//! | phone | `+999 123 456 789 012 345` | no country has the code 999 |
//! | card | 19 digits from 999, with their check digit | no issuer begins so |
//! | IBAN | `XX` and 20 digits, with their check digits | XX is no country |
//! | IP | `240.0.0.0/8`, `100::/64` | reserved (RFC 1112), discarded (RFC 6666) |
//! | SSN | `666-123-456-789-012-345` | area 666 is never given out |
//! | others | `ID-`, `secret-`, `Name-`, `Address-` and letters | read by nobody else |
//!
//! Among a million values of a kind, two have one pseudonym with a probability below one in a thousand: each form has room for 10^15 or
//! more. Only for IPv4 there is none, and whoever replaces them must draw again where one is taken: see [`nth`].
//!
//! The same value under the same key is the same pseudonym, however it is spelled: without separators, in lower case. Every word of
//! a name has a pseudonym of its own, so that a full name and its surname are still one person.

use super::Kind;
use super::bytes::{begins_with, digits_end, is_free_after, is_free_before, is_word};
use super::card::{check_digit, is_luhn};
use super::iban::check_digits;
use super::name;
use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Range;

/// What pseudonyms are made from. Whoever has it can tell whether a pseudonym stands for a value.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key of one batch, under which the same values have other pseudonyms than in the next.
    #[must_use]
    pub fn of_batch(&self, batch: &str) -> Self {
        Self(*blake3::keyed_hash(&self.0, format!("hone-data batch {batch}").as_bytes()).as_bytes())
    }

    /// A name for this id that says nothing without the key.
    pub(crate) fn hidden(&self, id: &str) -> String {
        blake3::keyed_hash(&self.0, format!("hone-data id {id}").as_bytes()).to_hex().to_string()
    }

    /// A name for this user.
    pub(crate) fn user(&self, name: &str) -> String {
        of(self, Kind::NationalId, &format!("user {name}"))
    }

    /// The key that seals what the pseudonyms stand for.
    pub fn of_map(&self) -> [u8; 32] {
        *blake3::keyed_hash(&self.0, b"hone-data map").as_bytes()
    }

    /// What tells keys apart without telling them.
    pub fn fingerprint(&self) -> String {
        blake3::keyed_hash(&self.0, b"hone-data fingerprint").to_hex()[..16].to_owned()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

/// The letters that most pseudonyms end with.
const N_LETTERS: usize = 11;

/// The same in batches of earlier versions, which are still read.
const N_LETTERS_BEFORE: usize = 10;

/// The letters of what is secret.
const N_SECRET_LETTERS: usize = 16;

/// The digits that are drawn for a number.
const N_DIGITS: usize = 15;

/// The pseudonym of this value.
pub(super) fn of(key: &Key, kind: Kind, value: &str) -> String {
    nth(key, kind, value, 0)
}

/// The pseudonym that is drawn for this value when so many others were taken. A name and its like have but one.
pub(super) fn nth(key: &Key, kind: Kind, value: &str, n_taken: u32) -> String {
    if kind == Kind::Name {
        return name::pseudonym(value, |word| format!("{NAME}{}", letters(&mut digest(key, kind, word), N_LETTERS)));
    }
    let mut normal = normal(kind, value);
    if n_taken > 0 {
        normal.push_str(&format!(" {n_taken}"));
    }
    let digest = &mut digest(key, kind, &normal);
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    match kind {
        Kind::Email => format!("{PERSON}{}{MAIL}", letters(digest, N_LETTERS)),
        Kind::Phone if is_number => format!("999{}", digits(digest, N_DIGITS)),
        Kind::Phone => format!("+999 {}", in_threes(&digits(digest, N_DIGITS), " ")),
        Kind::Card => {
            let digits = format!("999{}", digits(digest, N_DIGITS));
            format!("{digits}{}", check_digit(&digits))
        }
        Kind::Iban => {
            let account = digits(digest, 18);
            format!("XX{}{account}", check_digits("XX", &account))
        }
        Kind::Ip if value.contains(':') => {
            let groups: [u16; 4] = std::array::from_fn(|_| u16::try_from(below(digest, 0xffff)).unwrap_or(0) + 1);
            Ipv6Addr::new(0x100, 0, 0, 0, groups[0], groups[1], groups[2], groups[3]).to_string()
        }
        Kind::Ip => format!("240.{}.{}.{}", below(digest, 256), below(digest, 256), below(digest, 256)),
        Kind::Ssn | Kind::NationalId if is_number => format!("666{}", digits(digest, N_DIGITS)),
        Kind::Ssn => format!("666-{}", in_threes(&digits(digest, N_DIGITS), "-")),
        Kind::NationalId => format!("{ID}{}", letters(digest, N_LETTERS)),
        Kind::Secret => format!("{SECRET}{}", letters(digest, N_SECRET_LETTERS)),
        Kind::UrlCredentials => format!("{USER}{}:{SECRET}{}", letters(digest, N_LETTERS), letters(digest, N_SECRET_LETTERS)),
        Kind::Name => unreachable!("a name is made word by word"),
        Kind::Address => format!("{ADDRESS}{}", letters(digest, N_LETTERS)),
    }
}

const PERSON: &str = "person-";
const MAIL: &str = "@mail.example";
const USER: &str = "user-";
const SECRET: &str = "secret-";
const NAME: &str = "Name-";
const ADDRESS: &str = "Address-";
const ID: &str = "ID-";

/// Whether this text is a pseudonym from end to end.
pub(crate) fn is_whole(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty() && end_here(bytes, 0) == Some(bytes.len())
}

/// Where pseudonyms stand in a text.
pub(super) fn all(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut all, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = if is_free_before(bytes, at) { end_here(bytes, at) } else { None };
        all.extend(end.map(|end| at..end));
        at = end.unwrap_or(at + 1);
    }
    all
}

/// The end of the pseudonym that begins here.
fn end_here(bytes: &[u8], at: usize) -> Option<usize> {
    word_end_here(bytes, at).or_else(|| number_end_here(bytes, at))
}

/// The end of the pseudonym made of letters that begins here.
pub(super) fn word_end_here(bytes: &[u8], at: usize) -> Option<usize> {
    let (prefix, suffix) = match bytes[at] {
        b'N' => (NAME, ""),
        b'A' => (ADDRESS, ""),
        b'I' => (ID, ""),
        b's' => return form_end(bytes, at, (SECRET, N_SECRET_LETTERS, "")),
        b'p' => (PERSON, MAIL),
        b'u' => (USER, ":secret-"),
        _ => return None,
    };
    [N_LETTERS, N_LETTERS_BEFORE].into_iter().find_map(|n_letters| form_end(bytes, at, (prefix, n_letters, suffix)))
}

/// The end of a prefix, so many letters and a suffix.
fn form_end(bytes: &[u8], at: usize, (prefix, n_letters, suffix): (&str, usize, &str)) -> Option<usize> {
    let from = at + prefix.len();
    let to = from + n_letters;
    let fits = bytes.get(at..from)? == prefix.as_bytes()
        && bytes.get(from..to)?.iter().all(u8::is_ascii_lowercase)
        && begins_with(bytes, to, suffix);
    let end = to + suffix.len();
    let end = if prefix == USER { end + N_SECRET_LETTERS } else { end };
    (fits && end <= bytes.len() && bytes.get(end).is_none_or(|&next| !is_word(next))).then_some(end)
}

/// The groups of numbers, with a `#` for each digit that is drawn; the last three are those of earlier versions.
const GROUPS: [&[u8]; 5] =
    [b"+999 ### ### ### ### ###", b"666-###-###-###-###-###", b"+999 ### ### ####", b"666-##-####", b"000-##-####"];

/// The end of the pseudonym made of digits that begins here. Digits that do not belong to it may follow after a blank.
pub(super) fn number_end_here(bytes: &[u8], at: usize) -> Option<usize> {
    let end = digits_end(bytes, at);
    let digits = &bytes[at..end];
    let is_one = match digits.len() {
        19 => digits.starts_with(b"999") && is_luhn(digits),
        18 => digits.starts_with(b"999") || digits.starts_with(b"666"),
        // Of earlier versions.
        16 => digits.starts_with(b"9999") && is_luhn(digits),
        13 => digits.starts_with(b"999"),
        9 => digits.starts_with(b"666"),
        _ => false,
    };
    let is_like = |byte: u8, form: u8| if form == b'#' { byte.is_ascii_digit() } else { byte == form };
    let fits = |form: &[u8]| {
        let there = bytes.get(at..at + form.len())?;
        there.iter().zip(form).all(|(&byte, &form)| is_like(byte, form)).then_some(at + form.len())
    };
    let end = if is_one { end } else { GROUPS.into_iter().find_map(fits)? };
    is_free_after(bytes, end).then_some(end)
}

/// Without what may be spelled in another way.
fn normal(kind: Kind, value: &str) -> String {
    match kind {
        Kind::Secret | Kind::UrlCredentials => value.to_owned(),
        Kind::Email => value.replace("%40", "@").to_lowercase(),
        Kind::Ip => value.to_lowercase(),
        Kind::Address => value.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase(),
        _ => value.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect(),
    }
}

fn digest(key: &Key, kind: Kind, normal: &str) -> u128 {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(kind.as_str().as_bytes()).update(&[0]).update(normal.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

/// A number below `n`, taken out of the digest.
fn below(digest: &mut u128, n: u128) -> u64 {
    let rest = *digest % n;
    *digest /= n;
    u64::try_from(rest).unwrap_or(0)
}

fn letters(digest: &mut u128, n: usize) -> String {
    (0..n).map(|_| char::from(b'a' + u8::try_from(below(digest, 26)).unwrap_or(0))).collect()
}

fn digits(digest: &mut u128, n: usize) -> String {
    (0..n).map(|_| char::from(b'0' + u8::try_from(below(digest, 10)).unwrap_or(0))).collect()
}

/// Digits in groups of three, with this sign between them.
fn in_threes(digits: &str, sign: &str) -> String {
    digits.as_bytes().chunks(3).map(String::from_utf8_lossy).collect::<Vec<_>>().join(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_recognised_and_depends_on_the_key() {
        let (key, other) = (Key::new([7; 32]), Key::new([8; 32]));
        for idx in 0..2000 {
            for (kind, value) in [
                (Kind::Email, format!("a{idx}@b.com")),
                (Kind::Phone, format!("+1 {idx}")),
                (Kind::Phone, format!("{idx}")),
                (Kind::Card, format!("4{idx}")),
                (Kind::Ssn, format!("{idx}-1")),
                (Kind::Ssn, format!("{idx}")),
                (Kind::NationalId, format!("X{idx}")),
                (Kind::Secret, format!("s{idx}")),
                (Kind::UrlCredentials, format!("u:{idx}")),
                (Kind::Name, format!("Bob{}", letters(&mut (idx as u128 * 977), 5))),
                (Kind::Address, format!("{idx} High Street")),
            ] {
                let pseudonym = of(&key, kind, &value);
                let bytes = pseudonym.as_bytes();
                let end = end_here(bytes, 0);
                assert_eq!(end, Some(pseudonym.len()), "{kind} {pseudonym}");
                assert_eq!(pseudonym, of(&key, kind, &value));
                assert_ne!(pseudonym, of(&other, kind, &value));
            }
        }
    }

    #[test]
    fn a_million_values_have_a_million_pseudonyms() {
        let key = Key::new([5; 32]);
        let n_of = |kind, value: fn(u32) -> String| {
            let values = (0..1_000_000).map(value);
            values.map(|value| blake3::hash(of(&key, kind, &value).as_bytes())).collect::<std::collections::HashSet<_>>().len()
        };
        assert_eq!(n_of(Kind::Ssn, |n| format!("{n:09}")), 1_000_000);
        assert_eq!(n_of(Kind::Ssn, |n| format!("{:03}-12-{:04}", n / 10_000, n % 10_000)), 1_000_000);
        assert_eq!(n_of(Kind::NationalId, |n| format!("{n:08}")), 1_000_000);
        assert_eq!(n_of(Kind::Phone, |n| format!("+1 415 {n:07}")), 1_000_000);
        assert_eq!(n_of(Kind::Card, |n| format!("4{n:015}")), 1_000_000);
        assert_eq!(n_of(Kind::Email, |n| format!("a{n}@b.com")), 1_000_000);
    }

    #[test]
    fn the_forms_of_earlier_batches_are_still_read() {
        for pseudonym in [
            "person-abcdefghij@mail.example",
            "Name-abcdefghij",
            "user-abcdefghij:secret-abcdefghijklmnop",
            "+999 123 456 7890",
            "9991234567890",
            "9999000000000004",
            "000-12-3456",
            "666-12-3456",
            "666123456",
        ] {
            assert!(is_whole(pseudonym), "{pseudonym}");
        }
        assert!(!is_whole("Name-abcdefghi") && !is_whole("Name-abcdefghijkl") && !is_whole("+999 123 456 78901"));
    }

    #[test]
    fn one_value_in_two_spellings_has_one_pseudonym() {
        let key = Key::new([1; 32]);
        let same = |kind, one: &str, other: &str| assert_eq!(of(&key, kind, one), of(&key, kind, other));
        same(Kind::Email, "Ann@B.com", "ann@b.COM");
        same(Kind::Card, "4111 1111 1111 1111", "4111-1111-1111-1111");
        same(Kind::Iban, "GB82 WEST 1234 5698 7654 32", "gb82west12345698765432");
        let full = of(&key, Kind::Name, "Ann Miller");
        assert!(full.ends_with(&of(&key, Kind::Name, "MILLER")), "{full}");
    }
}
