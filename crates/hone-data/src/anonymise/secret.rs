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
    ("xai-", 20),
    ("hvs.", 20),
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
    let is_mixed = rest.iter().any(u8::is_ascii_digit) && rest.iter().any(u8::is_ascii_alphabetic) || is_shuffled(rest);
    let fits = match *prefix {
        "AKIA" | "ASIA" => rest.len() == 16 && rest.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        "eyJ" => rest.len() >= *n_min && rest.iter().filter(|byte| **byte == b'.').count() == 2,
        _ => rest.len() >= *n_min && is_mixed && is_random(rest),
    };
    fits.then_some(end)
}

/// From here on, mere letters in one piece behind a prefix are no name of something.
const SHUFFLED_LEN_MIN: usize = 30;

/// Whether these are letters as a draw gives them and no words: some tokens happen to have no digit, and some never do. Words in one
/// piece (`parseHeaderOfRequest`) hardly have two capitals side by side.
fn is_shuffled(rest: &[u8]) -> bool {
    let is_one = rest.iter().all(u8::is_ascii_alphabetic);
    let has_both = rest.iter().any(u8::is_ascii_lowercase) && rest.iter().any(u8::is_ascii_uppercase);
    let n_pairs = rest.windows(2).filter(|pair| pair.iter().all(u8::is_ascii_uppercase)).count();
    is_one && has_both && (rest.len() >= SHUFFLED_LEN_MIN || n_pairs >= 2)
}

/// The end of the private key that begins here: `-----BEGIN … PRIVATE KEY-----`. One that was cut short ends with its last line.
pub(super) fn block_end(bytes: &[u8], at: usize) -> Option<usize> {
    let block = &bytes[at..bytes.len().min(at + BLOCK_LEN_MAX)];
    let label = BEGIN.len()..memmem::find(&block[BEGIN.len()..block.len().min(64)], DASHES)? + BEGIN.len();
    let is_private = [&b"PRIVATE KEY"[..], b"PRIVATE KEY BLOCK"].iter().any(|sign| block[label.clone()].ends_with(sign));
    let head = label.end + DASHES.len();
    if !is_private {
        return None;
    }
    let foot = memmem::find(&block[head..], END).map(|foot| head + foot);
    // A foot behind another head is not that of this key.
    let foot = foot.filter(|&foot| memmem::find(&block[head..foot], BEGIN).is_none());
    foot.and_then(|foot| foot_end(bytes, at + foot)).or_else(|| body_end(bytes, at + head))
}

const DASHES: &[u8] = b"-----";
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";

/// The end of the line `-----END … KEY-----` that begins here.
fn foot_end(bytes: &[u8], at: usize) -> Option<usize> {
    let label = bytes[at..].starts_with(END).then(|| at + END.len())?;
    let len = memmem::find(&bytes[label..bytes.len().min(label + 64)], DASHES)?;
    Some(label + len + DASHES.len())
}

/// The fewest characters of a line of a key, but for its last.
const LINE_LEN_MIN: usize = 16;

/// The most lines such as `Version: …` before a key.
const N_HEADERS_MAX: usize = 8;

/// The end of the last line of base64 that begins here, behind headers and blank lines, with the foot of a long key.
fn body_end(bytes: &[u8], from: usize) -> Option<usize> {
    let (mut at, mut end) = (skip_breaks(bytes, from), None);
    for _ in 0..N_HEADERS_MAX {
        at = header_end(bytes, at).map_or(at, |end| skip_breaks(bytes, end));
    }
    loop {
        let n = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')).count();
        // A short line may be the last of the key, or a word.
        let is_rest = end.is_some() && bytes[at..at + n].iter().any(|byte| !byte.is_ascii_alphabetic());
        if n < LINE_LEN_MIN && !is_rest {
            return end.map(|end| foot_end(bytes, at).unwrap_or(end));
        }
        end = Some(at + n);
        at = skip_breaks(bytes, at + n);
    }
}

/// The place after the blanks and line breaks that begin here, also those that are written as `\n`.
fn skip_breaks(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'\\' if is_escape_before(bytes, (at + 2).min(bytes.len())) => at += 2,
            _ => break,
        }
    }
    at
}

/// The end of the line `Proc-Type: 4,ENCRYPTED` that begins here.
fn header_end(bytes: &[u8], at: usize) -> Option<usize> {
    let n = bytes[at..].iter().take(32).take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'-').count();
    let is_header = n > 0 && bytes[at].is_ascii_uppercase() && bytes[at + n..].starts_with(b": ");
    is_header.then(|| at + bytes[at..].iter().take(200).take_while(|byte| !matches!(byte, b'\n' | b'\\')).count())
}

/// The secret after this word, which ends here: `api_key = "…"`, `token: …`, `Bearer …`, `password is …`.
pub(super) fn after(bytes: &[u8], word_end: usize, cue: Cue) -> Option<Found> {
    let (at, is_assigned) = value_start(bytes, word_end)?;
    let end = match cue {
        Cue::Password => {
            let quoted = if is_assigned { quoted_end(bytes, at) } else { None };
            quoted
                .or_else(|| password_end(bytes, at, is_assigned))
                .or_else(|| if is_assigned { letters_end(bytes, at) } else { None })?
        }
        _ => random_end(bytes, at).or_else(|| if is_assigned { said_secret_end(bytes, word_end, at) } else { None })?,
    };
    Some(Found { kind: Kind::Secret, range: at..end })
}

/// Where the value begins, and whether a sign stands before it, not only blanks or a verb.
fn value_start(bytes: &[u8], word_end: usize) -> Option<(usize, bool)> {
    let skip_quotes =
        |at: usize| at + bytes[at..].iter().take(2).take_while(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\')).count();
    let closed = skip_quotes(word_end);
    let mut at = skip_blanks(bytes, closed);
    let mut is_assigned = false;
    if matches!(bytes.get(at), Some(b':' | b'=')) {
        is_assigned = true;
        at += 1;
    } else if has_word(bytes, at, "is") {
        at += 2;
    } else if at == word_end || closed > word_end {
        // What follows on a word in quotes is not its value: `type="password" name="pw1"`.
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

/// Whether this text, of which a key or quotes say that it is a password, is one: blanks, commas and mere letters may be in it.
pub(super) fn is_password(text: &[u8]) -> bool {
    let is_sign = |byte: &u8| !byte.is_ascii_alphabetic() && *byte < 0x80;
    let n_min = if text.iter().any(is_sign) { 4 } else { 6 };
    (n_min..=PASSWORD_LEN_MAX).contains(&text.len())
        && text.iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
        && !text.iter().any(u8::is_ascii_control)
        && !is_place(text)
        && !is_prose(text)
        && !is_pseudonym(text, 0, text.len())
}

/// The end of the password in quotes that begins behind one. A quote may also end a text: `input("Password: ")`.
fn quoted_end(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = *bytes[..at].last().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let is_escaped = bytes[..at - 1].ends_with(b"\\");
    let mut end = at;
    while *bytes.get(end)? != quote {
        if end - at > PASSWORD_LEN_MAX || bytes[end] == b'\n' {
            return None;
        }
        let is_escape = bytes[end] == b'\\' && !is_escaped;
        end += if is_escape { 2 } else { 1 };
    }
    let is_closed = bytes.get(end + 1).is_none_or(|next| !next.is_ascii_alphanumeric() && *next != quote);
    let end = if is_escaped && bytes[..end].ends_with(b"\\") { end - 1 } else { end };
    let text = bytes.get(at..end)?;
    let is_between = matches!(text.first()?, b' ' | b',' | b';' | b')' | b']' | b'}') || matches!(text, [b'+', .., b'+']);
    (is_closed && !is_between && is_password(text)).then_some(end)
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
    let n_min = if is_assigned { 4 } else { 6 };
    (password.len() >= n_min
        && has_letter
        && has_other(password)
        && !is_place(password)
        && !is_code(bytes, at, end)
        && !is_pseudonym(bytes, at, end))
    .then_some(end)
}

/// Whether there is more than letters, and what joins words.
fn has_other(password: &[u8]) -> bool {
    password.iter().any(|byte| !byte.is_ascii_alphabetic() && *byte < 0x80 && !matches!(byte, b'-' | b'_' | b'/' | b'.'))
}

/// The end of what stands in quotes after `secret`, which need not look random, but must not be words: those are the name of one.
fn said_secret_end(bytes: &[u8], word_end: usize, at: usize) -> Option<usize> {
    let is_secret = bytes[..word_end].len() >= 6 && begins_with(bytes, word_end - 6, "secret");
    let end = if is_secret { quoted_end(bytes, at)? } else { return None };
    let secret = &bytes[at..end];
    (has_other(secret) && !secret.contains(&b' ')).then_some(end)
}

/// The fewest letters of a password that is nothing but letters and stands in no quotes.
const LETTERS_LEN_MIN: usize = 8;

/// The end of the password of mere letters that ends its line or its clause, and is no word that is said of passwords.
fn letters_end(bytes: &[u8], at: usize) -> Option<usize> {
    let n = bytes[at..].iter().take(PASSWORD_LEN_MAX).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (word, end) = (&bytes[at..at + n], at + n);
    let next = skip_blanks(bytes, end);
    let ends_line = matches!(bytes.get(next), None | Some(b'\n' | b'\r')) || is_escape_before(bytes, (next + 2).min(bytes.len()));
    let ends_clause =
        bytes.get(end) == Some(&b',') || bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_none_or(u8::is_ascii_whitespace);
    // Behind `=` with blanks or a comma a name of a variable is more likely.
    let is_tight = bytes[..at].ends_with(b"=");
    let is_said = !bytes[..at].trim_ascii_end().ends_with(b"=");
    let is_name = word.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        || ["pass", "pwd", "secret"].iter().any(|part| has_part(word, part));
    let ends = ends_line && (is_tight || is_said) || ends_clause && is_said;
    // `Password: Instructions` is a title.
    let is_title = n <= 12 && ["ing", "ed", "ion", "ions", "ment"].iter().any(|tail| word.ends_with(tail.as_bytes()));
    (n >= LETTERS_LEN_MIN && ends && !is_name && !is_title && !is_prose(word) && !is_pseudonym(bytes, at, end)).then_some(end)
}

fn has_part(word: &[u8], part: &str) -> bool {
    word.windows(part.len()).any(|there| there.eq_ignore_ascii_case(part.as_bytes()))
}

/// Whether something stands here that will be a password: `$PASSWORD`, `{password}`, `<your password>`.
fn is_place(password: &[u8]) -> bool {
    matches!(password.first(), Some(b'$' | b'{' | b'*' | b'[' | b'(' | b'%' | b'<'))
}

/// What is said of passwords, in forms and errors and prose.
const PROSE: &str = "\
    a accepted already an and any anything are as at available bcrypt be been being blank boolean bytes can cannot change \
    changed characters choose chose chosen confidential configured contain contains correct default did different disabled \
    do does doesn't don't empty enabled encrypted enter entered everything exceed expired false field for forbidden forgot \
    forgotten from generated has hashed have hidden if in included incorrect instructions integer invalid is it least \
    leave length letter letters long lower lowercase manager mandatory masked match matches maximum minimum mismatch \
    missing must need needed needs new no none not null number object of ok old omitted on one only optional or our \
    password passwords placeholder plaintext please policy protected provided rather recommended recovery redacted \
    rejected removed required requirements requires reset same secret see sensitive set settings short should someone \
    something special stored string strong supplied temporary text than that the their this to too true type typed \
    unavailable unchanged undefined unknown unset unspecified updated upper uppercase use used user username valid value \
    verified was weak were whatever when which will with wrong you your";

/// Whether at least half of the words are such words.
fn is_prose(text: &[u8]) -> bool {
    let words = text.split(|byte| matches!(byte, b' ' | b',' | b'.' | b'!' | b'?' | b':' | b';' | b'(' | b')'));
    let (mut n_words, mut n_prose) = (0, 0);
    for word in words.filter(|word| !word.is_empty()) {
        n_words += 1;
        n_prose += usize::from(PROSE.split_ascii_whitespace().any(|known| word.eq_ignore_ascii_case(known.as_bytes())));
    }
    n_prose * 2 >= n_words
}

/// What programs call where they keep a password.
const KEPT: &str =
    "self this config cfg conf settings env process args options opts params props request req data form user ctx credentials";

/// Whether an expression stands here, not a value: `getpass()`, `os.environ["PW1"]`, `config.db2.password`, `&str`.
fn is_code(bytes: &[u8], at: usize, end: usize) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':');
    let path_end = at + bytes[at..].iter().take(PASSWORD_LEN_MAX).take_while(|byte| is_name(byte)).count();
    let path = &bytes[at..path_end];
    let is_closed =
        |sign: u8| bytes[path_end..].iter().take(PASSWORD_LEN_MAX).take_while(|byte| **byte != b'\n').any(|byte| *byte == sign);
    match bytes.get(path_end) {
        Some(b'(') if !path.is_empty() && !path[0].is_ascii_digit() => return is_closed(b')'),
        Some(b'[') if !path.is_empty() && !path[0].is_ascii_digit() => return is_closed(b']'),
        // A type with a default.
        Some(b'=') => return [&b"str"[..], b"int", b"bytes", b"string"].contains(&path),
        _ => {}
    }
    let is_reference = bytes[at] == b'&' && bytes[at + 1..end].iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let mut parts = bytes[at..end].split(|byte| *byte == b'.');
    let first = parts.next().unwrap_or_default();
    let is_kept = KEPT.split_ascii_whitespace().any(|known| first.eq_ignore_ascii_case(known.as_bytes()));
    let is_path = path_end >= end
        && parts.clone().count() > 0
        && (is_kept || parts.any(|part| has_part(part, "pass") || has_part(part, "pwd")));
    is_reference || is_path
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
