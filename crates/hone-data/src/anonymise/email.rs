//! What stands around an at sign: e-mail addresses, and users with passwords inside of URLs.

use super::bytes::{is_escape_before, is_word};
use super::scanner::Found;
use super::{Kind, name, pseudonym};
use memchr::memchr2_iter;

/// The longest part before the at sign.
const LOCAL_LEN_MAX: usize = 64;
/// The longest domain.
const DOMAIN_LEN_MAX: usize = 253;
/// The longest user and password in a URL.
const CREDENTIALS_LEN_MAX: usize = 300;

/// What ends like a domain but is the name of a picture for a fine screen: `logo@2x.png`.
const PICTURES: &[&str] = &["png", "jpg", "jpeg", "gif", "svg", "webp"];

/// All of them, in the order of the text.
pub(super) fn find(text: &str) -> Vec<Found> {
    let bytes = text.as_bytes();
    let mut found: Vec<Found> = Vec::new();
    for at in memchr2_iter(b'@', b'%', bytes) {
        let sign_len = match bytes[at] {
            b'@' => 1,
            _ if bytes[at..].starts_with(b"%40") => 3,
            _ => continue,
        };
        let from = found.last().map_or(0, |last| last.range.end);
        if at < from {
            continue;
        }
        if let Some(start) = credentials_start(bytes, from, at) {
            if !is_pseudonym(bytes, start, at) {
                found.push(Found { kind: Kind::UrlCredentials, range: start..at });
            }
        } else if let Some((start, end)) = address(bytes, from, at, at + sign_len)
            && pseudonym::word_end_here(bytes, start) != Some(end)
        {
            found.extend(name::before_address(text, from, start));
            found.push(Found { kind: Kind::Email, range: start..end });
        }
    }
    found
}

/// Where the user and password begin that end at this sign: `https://user:password@host`.
fn credentials_start(bytes: &[u8], from: usize, at: usize) -> Option<usize> {
    let least = from.max(at.saturating_sub(CREDENTIALS_LEN_MAX));
    let n = bytes[least..at]
        .iter()
        .rev()
        .take_while(|byte| !matches!(byte, b'/' | b' ' | b'\n' | b'\t' | b'"' | b'<' | b'>'))
        .count();
    let start = at - n;
    let is_url = start >= 3 && &bytes[start - 3..start] == b"://";
    let credentials = &bytes[start..at];
    let is_secret = credentials.contains(&b':') || credentials.len() >= 20;
    (is_url && is_secret && bytes.get(at + 1).is_some_and(|&next| is_word(next) || next == b'[')).then_some(start)
}

fn is_pseudonym(bytes: &[u8], start: usize, at: usize) -> bool {
    // The form ends where the sign begins.
    pseudonym::word_end_here(&bytes[..at], start) == Some(at)
}

/// The address around this sign.
fn address(bytes: &[u8], from: usize, at: usize, after: usize) -> Option<(usize, usize)> {
    let least = from.max(at.saturating_sub(LOCAL_LEN_MAX));
    let is_local = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-' | b'\'');
    let mut start = at - bytes[least..at].iter().rev().take_while(|&&byte| is_local(byte)).count();
    if start > 0 && bytes[start - 1] == b'\\' && is_escape_before(bytes, start + 1) {
        start += 1;
    }
    while start < at && (!is_word(bytes[start]) && bytes[start] != b'_' || bytes[start] & 0xc0 == 0x80) {
        start += 1;
    }
    let end = domain_end(bytes, after)?;
    let is_repository = &bytes[start..at] == b"git" && bytes.get(end) == Some(&b':');
    (start < at && !is_repository).then_some((start, end))
}

/// The end of the domain that begins here: labels of letters, digits and dashes, the last of letters.
fn domain_end(bytes: &[u8], from: usize) -> Option<usize> {
    let most = bytes.len().min(from + DOMAIN_LEN_MAX);
    let n = bytes[from..most].iter().take_while(|&&byte| is_word(byte) || matches!(byte, b'.' | b'-')).count();
    let mut end = from + n;
    // A full stop after the address belongs to the sentence, and so does a word that follows a half-finished domain.
    while end > from && matches!(bytes[end - 1], b'.' | b'-') {
        end -= 1;
    }
    let domain = &bytes[from..end];
    let dot = domain.iter().rposition(|&byte| byte == b'.')?;
    let last = &domain[dot + 1..];
    let is_top =
        last.len() >= 2 && (last.iter().all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80) || last.starts_with(b"xn--"));
    let is_address = std::str::from_utf8(domain).is_ok_and(|domain| domain.parse::<std::net::Ipv4Addr>().is_ok());
    let has_empty_label = dot == 0 || domain.windows(2).any(|pair| pair == b"..");
    let is_picture = PICTURES.iter().any(|picture| last.eq_ignore_ascii_case(picture.as_bytes()));
    ((is_top || is_address) && !has_empty_label && !is_picture).then_some(end)
}
