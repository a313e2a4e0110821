//! What opens something: API keys by their prefixes, JSON web tokens, private keys, and whatever looks random or is a password
//! after a word that says so.

use super::Kind;
use super::bytes::{begins_with, has_word, is_escape_before, skip_blanks};
use super::cue::Cue;
use super::pseudonym;
use super::scanner::Found;
use memchr::memmem;

/// Prefixes that providers give their keys, with the fewest characters that come after.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-ant-", 20),
    ("sk-proj-", 20),
    ("sk-or-", 20),
    ("sk-", 20),
    ("sk_live_", 10),
    ("sk_test_", 10),
    ("pk_live_", 10),
    ("pk_test_", 10),
    ("rk_live_", 10),
    ("rk_test_", 10),
    ("whsec_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("hf_", 20),
    ("npm_", 20),
    ("pypi-", 20),
    ("SG.", 30),
    ("dop_v1_", 20),
    ("shpat_", 16),
    ("gsk_", 20),
    ("r8_", 20),
    ("nvapi-", 20),
    ("eyJ", 30),
];

/// The longest token.
const TOKEN_LEN_MAX: usize = 16 << 10;

/// The longest password.
const PASSWORD_LEN_MAX: usize = 128;

/// The longest block of a private key.
const BLOCK_LEN_MAX: usize = 16 << 10;

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_token(byte: u8) -> bool {
    is_key(byte) || matches!(byte, b'+' | b'/' | b'~')
}

/// The end of the characters of this kind that begin here, without a full stop or dash behind them. What is looked at ends at a
/// character that no token begins after, so that no stretch of text is looked at twice.
fn run_end(bytes: &[u8], at: usize, is_part: fn(u8) -> bool) -> usize {
    let mut end = at + bytes[at..].iter().take(TOKEN_LEN_MAX).take_while(|&&byte| is_part(byte)).count();
    while end > at && matches!(bytes[end - 1], b'.' | b'-' | b'/' | b'~') {
        end -= 1;
    }
    end
}

/// The end of the key that begins here, with a word that is one of the known prefixes.
pub(super) fn prefixed_end(bytes: &[u8], at: usize, word_end: usize) -> Option<usize> {
    // Most words end here: a prefix ends with a sign, but for a few that begin a long word.
    let may_be = match bytes[at] {
        b'A' => word_end - at >= 20 || (word_end - at >= 4 && bytes[at..].starts_with(b"AIza")),
        b'e' => bytes[at..].starts_with(b"eyJ"),
        _ => matches!(bytes.get(word_end), Some(b'-' | b'_' | b'.')),
    };
    if !may_be || (at > 0 && is_key(bytes[at - 1]) && !is_escape_before(bytes, at)) {
        return None;
    }
    let (prefix, n_min) = PREFIXES.iter().find(|(prefix, _)| bytes[at..].starts_with(prefix.as_bytes()))?;
    let end = run_end(bytes, at, is_key);
    let rest = &bytes[at + prefix.len().min(end - at)..end];
    let is_mixed = rest.iter().any(u8::is_ascii_digit) && rest.iter().any(u8::is_ascii_alphabetic);
    let fits = match *prefix {
        "AKIA" | "ASIA" => rest.len() == 16 && rest.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        "eyJ" => rest.len() >= *n_min && rest.iter().filter(|byte| **byte == b'.').count() == 2,
        _ => rest.len() >= *n_min && is_mixed && is_random(rest),
    };
    fits.then_some(end)
}

/// The end of the private key that begins here: `-----BEGIN … PRIVATE KEY-----`.
pub(super) fn block_end(bytes: &[u8], at: usize) -> Option<usize> {
    let block = &bytes[at..bytes.len().min(at + BLOCK_LEN_MAX)];
    let head = memmem::find(&block[..block.len().min(64)], b"PRIVATE KEY-----")?;
    let foot = memmem::find(&block[head..], b"-----END ")? + head;
    let end = memmem::find(&block[foot..], b"KEY-----")? + foot + "KEY-----".len();
    Some(at + end)
}

/// The secret after this word, which ends here: `api_key = "…"`, `token: …`, `Bearer …`, `password is …`.
pub(super) fn after(bytes: &[u8], word_end: usize, cue: Cue) -> Option<Found> {
    let (at, is_assigned) = value_start(bytes, word_end)?;
    let end = if cue == Cue::Password { password_end(bytes, at, is_assigned)? } else { random_end(bytes, at)? };
    Some(Found { kind: Kind::Secret, range: at..end })
}

/// Where the value begins, and whether a sign stands before it, not only blanks or a verb.
fn value_start(bytes: &[u8], word_end: usize) -> Option<(usize, bool)> {
    let skip_quotes =
        |at: usize| at + bytes[at..].iter().take(2).take_while(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\')).count();
    let mut at = skip_blanks(bytes, skip_quotes(word_end));
    let mut is_assigned = false;
    if matches!(bytes.get(at), Some(b':' | b'=')) {
        is_assigned = true;
        at += 1;
    } else if has_word(bytes, at, "is") {
        at += 2;
    } else if at == word_end {
        return None;
    }
    at = skip_quotes(skip_blanks(bytes, at));
    for scheme in ["Bearer ", "Basic "] {
        if begins_with(bytes, at, scheme) {
            at += scheme.len();
        }
    }
    (at < bytes.len()).then_some((at, is_assigned))
}

/// The end of the token here, where it looks random.
pub(super) fn random_end(bytes: &[u8], at: usize) -> Option<usize> {
    let run = run_end(bytes, at, is_token);
    let token = &bytes[at..run];
    let end = run + bytes[run..].iter().take(2).take_while(|byte| **byte == b'=').count();
    let is_path = matches!(token.first(), Some(b'/' | b'.')) || memmem::find(token, b"//").is_some();
    let has_both = token.iter().any(u8::is_ascii_digit) && token.iter().any(u8::is_ascii_alphabetic);
    (token.len() >= 16 && !is_path && has_both && is_random(token) && !is_pseudonym(bytes, at, end)).then_some(end)
}

/// The end of the password here, unless it stands for one.
pub(super) fn password_end(bytes: &[u8], at: usize, is_assigned: bool) -> Option<usize> {
    let is_part = |byte: &u8| {
        byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b',' | b';' | b'\\') || *byte >= 0x80
    };
    let mut end = at + bytes[at..].iter().take(PASSWORD_LEN_MAX + 1).take_while(|byte| is_part(byte)).count();
    if end - at > PASSWORD_LEN_MAX {
        return None;
    }
    while end > at && matches!(bytes[end - 1], b'.' | b'?' | b')' | b'}' | b']' | b'&') {
        end -= 1;
    }
    while bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    let password = &bytes[at..end];
    let has_letter = password.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80);
    let has_other =
        password.iter().any(|byte| !byte.is_ascii_alphabetic() && *byte < 0x80 && !matches!(byte, b'-' | b'_' | b'/' | b'.'));
    let is_place = matches!(password.first(), Some(b'$' | b'{' | b'*' | b'[' | b'(' | b'%'));
    let n_min = if is_assigned { 4 } else { 6 };
    (password.len() >= n_min && has_letter && has_other && !is_place && !is_pseudonym(bytes, at, end)).then_some(end)
}

fn is_pseudonym(bytes: &[u8], at: usize, end: usize) -> bool {
    pseudonym::word_end_here(bytes, at).is_some_and(|known| known >= end || !is_token(bytes[known]))
}

/// Whether the characters change their class as often as those of a random text do: words with numbers do not.
fn is_random(token: &[u8]) -> bool {
    let class = |byte: &u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    };
    let letters: Vec<u8> = token.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(class).collect();
    let n_changes = letters.windows(2).filter(|pair| pair[0] != pair[1]).count();
    letters.len() >= 8 && n_changes * 6 >= letters.len()
}
