//! What stands in the place of a value: a keyed hash in a form that is nobody's.
//!
//! | kind | form | why it is free |
//! |---|---|---|
//! | e-mail | `person-abcdefghij@mail.example` | `.example` is reserved (RFC 2606) |
//! | phone | `+999 123 456 7890` | no country has the code 999 |
//! | card | 16 digits from 9999, with their check digit | no issuer begins so |
//! | IBAN | `XX` and 20 digits, with their check digits | XX is no country |
//! | IP | `240.0.0.0/8`, `100::/64` | reserved (RFC 1112), discarded (RFC 6666) |
//! | SSN | area 000 or 666 | never given out |
//! | others | `ID-`, `secret-`, `Name-`, `Address-` and letters | read by nobody else |
//!
//! The same value under the same key is the same pseudonym, however it is spelled: without separators, in lower case. Every word of
//! a name has a pseudonym of its own, so that a full name and its surname are still one person.

use super::Kind;
use super::bytes::{begins_with, digits_end, is_free_after, is_word};
use super::card::{check_digit, is_luhn};
use super::iban::check_digits;
use super::name;
use std::fmt;
use std::net::Ipv6Addr;

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
const N_LETTERS: usize = 10;

/// The letters of what is secret.
const N_SECRET_LETTERS: usize = 16;

/// The pseudonym of this value.
pub(super) fn of(key: &Key, kind: Kind, value: &str) -> String {
    if kind == Kind::Name {
        return name::pseudonym(value, |word| format!("{NAME}{}", letters(&mut digest(key, kind, word), N_LETTERS)));
    }
    let digest = &mut digest(key, kind, &normal(kind, value));
    match kind {
        Kind::Email => format!("{PERSON}{}{MAIL}", letters(digest, N_LETTERS)),
        Kind::Phone if value.bytes().all(|byte| byte.is_ascii_digit()) => format!("999{}", phone_digits(digest)),
        Kind::Phone => {
            let digits = phone_digits(digest);
            format!("+999 {} {} {}", &digits[..3], &digits[3..6], &digits[6..])
        }
        Kind::Card => {
            let digits = format!("9999{}", digits(digest, 11));
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
        Kind::Ssn => {
            let area = ["000", "666"][usize::try_from(below(digest, 2)).unwrap_or(0)];
            match value.bytes().all(|byte| byte.is_ascii_digit()) {
                // A number cannot begin with a zero.
                true => format!("666{}", digits(digest, 6)),
                false => format!("{area}-{}-{}", digits(digest, 2), digits(digest, 4)),
            }
        }
        Kind::NationalId if value.bytes().all(|byte| byte.is_ascii_digit()) => format!("666{}", digits(digest, 6)),
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
    !bytes.is_empty() && word_end_here(bytes, 0).or_else(|| number_end_here(bytes, 0)) == Some(bytes.len())
}

/// The end of the pseudonym made of letters that begins here.
pub(super) fn word_end_here(bytes: &[u8], at: usize) -> Option<usize> {
    let forms = match bytes[at] {
        b'N' => (NAME, N_LETTERS, ""),
        b'A' => (ADDRESS, N_LETTERS, ""),
        b'I' => (ID, N_LETTERS, ""),
        b's' => (SECRET, N_SECRET_LETTERS, ""),
        b'p' => (PERSON, N_LETTERS, MAIL),
        b'u' => (USER, N_LETTERS, ":secret-"),
        _ => return None,
    };
    let (prefix, n_letters, suffix) = forms;
    let from = at + prefix.len();
    let to = from + n_letters;
    let fits = bytes.get(at..from)? == prefix.as_bytes()
        && bytes.get(from..to)?.iter().all(u8::is_ascii_lowercase)
        && begins_with(bytes, to, suffix);
    let end = to + suffix.len();
    let end = if prefix == USER { end + N_SECRET_LETTERS } else { end };
    (fits && end <= bytes.len() && bytes.get(end).is_none_or(|&next| !is_word(next))).then_some(end)
}

/// The end of the pseudonym made of digits that begins here. Digits that do not belong to it may follow after a blank.
pub(super) fn number_end_here(bytes: &[u8], at: usize) -> Option<usize> {
    let end = if bytes[at..].starts_with(b"+999 ") {
        let form = bytes.get(at + 5..at + 17)?;
        let fits =
            form.iter().enumerate().all(|(idx, byte)| if idx == 3 || idx == 7 { *byte == b' ' } else { byte.is_ascii_digit() });
        fits.then_some(at + 17)?
    } else {
        let end = digits_end(bytes, at);
        let digits = &bytes[at..end];
        match digits.len() {
            16 if digits.starts_with(b"9999") && is_luhn(digits) => end,
            13 if digits.starts_with(b"999") => end,
            9 if digits.starts_with(b"666") => end,
            3 if digits == b"000" || digits == b"666" => {
                let rest = bytes.get(end..end + 8)?;
                let fits = rest[0] == b'-' && rest[3] == b'-' && digits_end(rest, 1) == 3 && digits_end(rest, 4) == 8;
                fits.then_some(end + 8)?
            }
            _ => return None,
        }
    };
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

/// Ten digits, with which 999 is not the number of a card.
fn phone_digits(digest: &mut u128) -> String {
    let mut drawn = digits(digest, 9);
    let check = check_digit(&format!("999{drawn}"));
    drawn.push(char::from(b'0' + (check + 1 + u8::try_from(below(digest, 9)).unwrap_or(0)) % 10));
    drawn
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
                let end = word_end_here(bytes, 0).or_else(|| number_end_here(bytes, 0));
                assert_eq!(end, Some(pseudonym.len()), "{kind} {pseudonym}");
                assert_eq!(pseudonym, of(&key, kind, &value));
                assert_ne!(pseudonym, of(&other, kind, &value));
            }
        }
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
