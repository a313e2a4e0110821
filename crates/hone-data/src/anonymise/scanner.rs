//! The one pass over a text: what may begin here, by its first byte, and what it is by a local check.

use super::blank::{Hidden, Plain};
use super::bytes::{digits_end, ends_with_word, is_escape_before, is_free_before, is_word, punctuation_len, word_end};
use super::cue::{self, Cue, Expected, REACH_LEN, REACH_LEN_OTHER};
use super::ip::{self, Read};
use super::number::Number;
use super::{Hint, Kind, Known, address, card, email, given, iban, name, national, phone, pseudonym, secret};
use std::ops::Range;

/// A piece of personal data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: Kind,
    /// Where it stands, in bytes.
    pub range: Range<usize>,
}

/// All personal data in a text, in its order and without overlaps. `hint` is what the key of a JSON value says of it.
pub fn scan(text: &str, hint: Hint, known: &Known) -> Vec<Found> {
    let Some(plain) = Plain::of(text, Hidden::Blank) else { return scan_plain(text, hint, known) };
    let read = |plain: &Plain| {
        let mut found = scan_plain(&plain.text, hint, known);
        found.iter_mut().for_each(|found| found.range = plain.original(text, &found.range));
        found
    };
    let mut found = read(&plain);
    // A pseudonym stays one, whatever nobody sees beside it.
    let replaced: Vec<_> = if plain.has_hidden { pseudonym::all(&plain.text) } else { Vec::new() };
    let replaced: Vec<_> = replaced.iter().map(|range| plain.original(text, range)).collect();
    match plain.has_hidden.then(|| Plain::of(text, Hidden::GoneBut(&replaced))).flatten() {
        Some(other) => {
            found.extend(read(&other));
            together(found)
        }
        None => found,
    }
}

/// What was found in two readings of a text. What overlaps is one value, of the kind that was longer.
fn together(mut all: Vec<Found>) -> Vec<Found> {
    all.sort_by_key(|found| (found.range.start, found.range.end));
    let mut one: Vec<Found> = Vec::with_capacity(all.len());
    for found in all {
        match one.last_mut().filter(|last| found.range.start < last.range.end) {
            Some(last) => {
                if found.range.len() > last.range.len() {
                    last.kind = found.kind;
                }
                last.range.end = last.range.end.max(found.range.end);
            }
            None => one.push(found),
        }
    }
    one
}

fn scan_plain(text: &str, hint: Hint, known: &Known) -> Vec<Found> {
    let signs = email::find(text);
    let mut scan =
        Scan { text, end: 0, hint, known, cue: hint.cue().map(|cue| (cue, 0)), found: Vec::with_capacity(signs.len()) };
    if let Some(whole) = scan.whole(&signs) {
        return vec![whole];
    }
    let mut from = 0;
    for sign in signs {
        from = scan.stretch(from, sign.range.start);
        // A secret may reach beyond a sign that is part of it.
        if from <= sign.range.start {
            from = sign.range.end;
            scan.found.push(sign);
        }
    }
    scan.stretch(from, text.len());
    scan.found
}

struct Scan<'a> {
    text: &'a str,
    /// Where the stretch ends that is looked at.
    end: usize,
    hint: Hint,
    known: &'a Known,
    /// The last word that says what comes next, and where it ended.
    cue: Option<(Cue, usize)>,
    found: Vec<Found>,
}

impl Scan<'_> {
    fn bytes(&self) -> &[u8] {
        &self.text.as_bytes()[..self.end]
    }

    /// The whole text, where its key says that it is a name, an address or a secret, and it looks like one.
    fn whole(&mut self, signs: &[Found]) -> Option<Found> {
        let (text, bytes) = (self.text, self.text.as_bytes());
        if self.hint.0 == Some(Expected::Password) && secret::is_password(bytes) {
            return Some(Found { kind: Kind::Secret, range: 0..text.len() });
        }
        if !signs.is_empty() || bytes.is_empty() {
            return None;
        }
        let all = |kind, range: Range<usize>| (range == (0..text.len())).then_some(Found { kind, range });
        let look = name::Look { n_words_min: 1, may_be_small: false, is_line: false };
        match self.hint.0? {
            Expected::Name => all(Kind::Name, name::at(text, 0, look)?),
            Expected::AnyName if name::is_thing(text) => None,
            Expected::AnyName => all(Kind::Name, name::at(text, 0, name::Look { n_words_min: 2, ..look })?),
            Expected::Address => Some(Found { kind: Kind::Address, range: address::whole(text, 0)? })
                .filter(|found| found.range.end + 2 >= text.len()),
            Expected::After(Cue::Secret) => all(Kind::Secret, 0..secret::random_end(bytes, 0)?),
            Expected::After(Cue::Password) => all(Kind::Secret, 0..secret::password_end(bytes, 0, true)?),
            _ => None,
        }
    }

    /// Looks at this part of the text, and says where it got to.
    fn stretch(&mut self, from: usize, to: usize) -> usize {
        self.end = to;
        let mut at = from;
        while at < to {
            at = match self.text.as_bytes()[at] {
                b'0'..=b'9' | b'+' | b'(' => self.number(at),
                b':' => self.colon(at),
                b'-' if self.bytes()[at..].starts_with(b"-----BEGIN ") => match secret::block_end(self.text.as_bytes(), at) {
                    Some(end) => self.push(Kind::Secret, at..end),
                    None => at + 5,
                },
                b'\\' if is_escape_before(self.bytes(), (at + 2).min(to)) => at + 2,
                byte if is_word(byte) => match punctuation_len(self.bytes(), at) {
                    0 => self.word(at),
                    len => at + len,
                },
                byte => {
                    if matches!(byte, b';' | b'?' | b'!' | b'\n') || byte == b'.' && self.is_full_stop(at) {
                        self.end_sentence(at);
                    }
                    at + 1
                }
            };
        }
        at
    }

    /// Whether the dot here ends a sentence, and not a word that was cut short: `Phone no. 9876543210`.
    fn is_full_stop(&self, at: usize) -> bool {
        let bytes = self.bytes();
        let ends_word = bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace);
        ends_word && !["no", "nos", "nr", "num", "tel", "ext"].iter().any(|word| ends_with_word(&bytes[..at], word))
    }

    /// A word says nothing of the next sentence, but `Phone:` may end a line.
    fn end_sentence(&mut self, at: usize) {
        self.cue = self.cue.filter(|(_, end)| at - end <= 2);
    }

    fn push(&mut self, kind: Kind, range: Range<usize>) -> usize {
        let end = range.end;
        self.found.push(Found { kind, range });
        self.use_up();
        end
    }

    /// Most words speak of one value; only of phones and cards there may be a list.
    fn use_up(&mut self) {
        self.cue = self.cue.filter(|(cue, _)| matches!(cue, Cue::Phone | Cue::Reach | Cue::Card));
    }

    /// The last word that says what stands here.
    fn cue_at(&self, at: usize) -> Option<Cue> {
        let reach = |cue| if matches!(cue, Cue::Other | Cue::Version) { REACH_LEN_OTHER } else { REACH_LEN };
        self.cue.filter(|&(cue, end)| at - end <= reach(cue)).map(|(cue, _)| cue)
    }

    /// Whether a word right before says that a version stands here: `version 1.2.3.4`, not `build agent 1.2.3.4`.
    fn is_version(&self, at: usize) -> bool {
        let Some((Cue::Version, end)) = self.cue.filter(|&(_, end)| at - end <= REACH_LEN_OTHER) else { return false };
        let is_joint = |word: &[u8]| {
            [&b""[..], b"is", b"number", b"and", b"or"].contains(&word)
                || word.iter().filter(|byte| **byte == b'.').count() == 3
                    && word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        };
        let is_sign = |byte: &u8| {
            matches!(byte, b' ' | b'\t' | b':' | b'=' | b'"' | b'\'' | b'`' | b',' | b'(' | b'#' | b'-' | b'_' | b'*')
        };
        self.hint.cue() == Some(Cue::Version) || self.bytes()[end..at].split(is_sign).all(is_joint)
    }

    /// What begins here with a digit, a plus or a bracket. Returns where to go on.
    fn number(&mut self, at: usize) -> usize {
        let bytes = self.bytes();
        let is_digit = bytes[at].is_ascii_digit();
        let skip = if is_digit { word_end(bytes, at).max(at + 1) } else { at + 1 };
        if let Some(end) = pseudonym::number_end_here(bytes, at) {
            return end;
        }
        let in_word = at > 0 && matches!(bytes[at - 1], b'.' | b'-') && at > 1 && bytes[at - 2].is_ascii_alphanumeric();
        let cue = self.cue_at(at);
        if is_digit
            && let Some(read) = ip::v6(bytes, at).or_else(|| if in_word { None } else { ip::v4(bytes, at, self.is_version(at)) })
        {
            return match read {
                Read::Address(end) => self.push(Kind::Ip, at..end),
                Read::Harmless(end) => end,
            };
        }
        if !is_free_before(bytes, at) {
            return skip;
        }
        let Some(number) = Number::read(bytes, at) else { return skip };
        let found = card::end(&number, cue).or_else(|| card::end(&Number::read_wide(bytes, at)?, cue));
        let found = found.map(|end| (Kind::Card, end));
        let found = found.or_else(|| if in_word { None } else { Self::numbered(&number, cue) });
        if let Some((kind, end)) = found {
            return self.push(kind, at..end);
        }
        if is_digit
            && self.hint != Hint::KEY
            && !in_word
            && let Some(range) = address::after_number(&self.text[..self.end], at)
        {
            return self.push(Kind::Address, range);
        }
        if is_digit {
            self.use_up();
        }
        // A group that begins nothing may be followed by one that does.
        if is_digit { skip.max(digits_end(self.bytes(), at)) } else { skip }
    }

    fn numbered(number: &Number<'_>, cue: Option<Cue>) -> Option<(Kind, usize)> {
        if let Some(end) = national::ssn_end(number, cue) {
            return Some((Kind::Ssn, end));
        }
        if let Some(end) = national::digits_end(number) {
            return Some((Kind::NationalId, end));
        }
        if cue == Some(Cue::NationalId) && !number.is_date() && number.bytes[number.start].is_ascii_digit() {
            return national::said_end(number.bytes, number.start).map(|end| (Kind::NationalId, end));
        }
        phone::end(number, cue).map(|end| (Kind::Phone, end))
    }

    /// An IPv6 address may begin with two colons.
    fn colon(&mut self, at: usize) -> usize {
        let bytes = self.bytes();
        let begins = bytes.get(at + 1) == Some(&b':') && (at == 0 || !is_word(bytes[at - 1]) && bytes[at - 1] != b':');
        match begins.then(|| ip::v6(bytes, at)).flatten() {
            Some(Read::Address(end)) => self.push(Kind::Ip, at..end),
            Some(Read::Harmless(end)) => end,
            None => at + 1,
        }
    }

    /// What begins here with a letter. Returns where to go on.
    fn word(&mut self, at: usize) -> usize {
        let bytes = self.bytes();
        if let Some(end) = pseudonym::word_end_here(bytes, at) {
            return end;
        }
        let end = word_end(bytes, at);
        if let Some((kind, range)) = self.formed(at, end) {
            return self.push(kind, range);
        }
        let bytes = self.bytes();
        let cue = cue::of_word(&bytes[at..end]).or_else(|| cue::of_camel(&bytes[at..end]));
        let cue = cue.filter(|&cue| cue != Cue::Ssn || is_social(bytes, at, end));
        let cue = cue.or_else(|| given::is_given(&bytes[at..end]).then_some(Cue::Given));
        if let Some(found) = self.introduced(at..end, cue) {
            // Whose value it is says nothing of what it is: `order of Ann Miller 4155550132`.
            let before = self.cue.filter(|_| cue == Some(Cue::Given));
            let end = self.push(found.kind, found.range);
            self.cue = before.or(self.cue);
            return end;
        }
        match cue {
            Some(
                Cue::Title
                | Cue::Greeting
                | Cue::Closing
                | Cue::Being
                | Cue::Street
                | Cue::StreetBefore
                | Cue::Unit
                | Cue::PostBox
                | Cue::Given,
            )
            | None => {}
            Some(Cue::NameWord | Cue::AddressWord) => self.cue = None,
            Some(cue) => self.cue = Some((cue, end)),
        }
        if self.is_own_number(at, end) {
            self.cue = Some((Cue::Phone, end));
        }
        end
    }

    /// `my number`, which is that of a phone where nothing else was spoken of.
    fn is_own_number(&self, at: usize, end: usize) -> bool {
        let bytes = self.bytes();
        let is_number = end - at == 6
            && bytes[at..end].eq_ignore_ascii_case(b"number")
            && self.cue_at(at).is_none_or(|cue| cue == Cue::Reach);
        is_number && ["my", "your", "his", "her", "our", "their", "contact"].iter().any(|word| ends_with_word(&bytes[..at], word))
    }

    /// What is known by its own form.
    fn formed(&self, at: usize, end: usize) -> Option<(Kind, Range<usize>)> {
        let bytes = self.bytes();
        if bytes[at].is_ascii_hexdigit()
            && end - at <= 4
            && bytes.get(end) == Some(&b':')
            && let Some(Read::Address(end)) = ip::v6(bytes, at)
        {
            return Some((Kind::Ip, at..end));
        }
        if let Some(end) = secret::prefixed_end(bytes, at, end) {
            return Some((Kind::Secret, at..end));
        }
        let has_digit = bytes[at..end].iter().any(u8::is_ascii_digit);
        if has_digit && let Some(end) = iban::end(bytes, at) {
            return Some((Kind::Iban, at..end));
        }
        let is_upper = bytes[at].is_ascii_uppercase() && (has_digit || end - at == 2);
        if is_upper && let Some(end) = national::word_end(bytes, at) {
            return Some((Kind::NationalId, at..end));
        }
        if has_digit
            && self.cue_at(at) == Some(Cue::NationalId)
            && let Some(end) = national::said_end(bytes, at)
        {
            return Some((Kind::NationalId, at..end));
        }
        None
    }

    /// What this word, or a word like it elsewhere, introduces.
    fn introduced(&self, word: Range<usize>, cue: Option<Cue>) -> Option<Found> {
        let text = &self.text[..self.end];
        if let Some(cue @ (Cue::Secret | Cue::Password)) = cue {
            return secret::after(self.text.as_bytes(), word.end, cue);
        }
        if self.hint == Hint::KEY {
            return None;
        }
        if cue == Some(Cue::AddressWord)
            && let Some(range) = address::said(text, &word)
        {
            return Some(Found { kind: Kind::Address, range });
        }
        if let Some(range) = cue.and_then(|cue| name::after(text, &word, cue)) {
            return Some(Found { kind: Kind::Name, range });
        }
        if let Some(range) = name::with_initial(text, &word) {
            return Some(Found { kind: Kind::Name, range });
        }
        if self.known.has(text, &word) {
            return Some(Found { kind: Kind::Name, range: word });
        }
        let range = address::after_word(text, &word, cue)?;
        let from = self.found.last().map_or(0, |last| last.range.end);
        (range.start >= from).then_some(Found { kind: Kind::Address, range })
    }
}

/// Whether this word is about social security, not about any.
fn is_social(bytes: &[u8], at: usize, end: usize) -> bool {
    !bytes[at..end].eq_ignore_ascii_case(b"security") || ends_with_word(&bytes[..at], "social")
}
