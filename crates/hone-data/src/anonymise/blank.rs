//! Signs that are written in another way: blanks and dashes outside of ASCII, which formatters and word processors put between words and
//! digits, and signs of which a program wrote the number (`\u0040`, `%2B`). A text that has some is read with plain ones in their place,
//! so that nothing else here needs to know them; any other is read as it is.

use memchr::{memchr_iter, memchr2_iter, memchr3_iter};
use std::borrow::Cow;
use std::ops::Range;

/// A text with plain signs.
pub(super) struct Plain {
    pub(super) text: String,
    /// Where each of them ends, and how many bytes fewer there are up to here.
    shorter: Vec<(usize, usize)>,
}

/// The text with plain signs.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    Plain::of(text).map_or(Cow::Borrowed(text), |plain| Cow::Owned(plain.text))
}

impl Plain {
    /// The text with plain ones, or nothing when there are no others in it.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_other = |at: &usize| plain_at(text, *at).is_some();
        let mut places: Vec<usize> = memchr2_iter(b'\\', b'%', bytes).filter(is_other).collect();
        let n_before = places.len();
        if !text.is_ascii() {
            // Each of them begins with one of four bytes, the last of which is rare.
            places.extend(memchr3_iter(0xc2, 0xe2, 0xe3, bytes).filter(is_other));
            places.extend(memchr_iter(0xef, bytes).filter(is_other));
        }
        if places.is_empty() {
            return None;
        }
        if places.len() > n_before {
            places.sort_unstable();
        }
        let mut plain = Self { text: String::with_capacity(text.len()), shorter: Vec::with_capacity(places.len()) };
        let (mut from, mut n_fewer) = (0, 0);
        for at in places {
            // The second half of a pair was read with the first.
            let Some((sign, len)) = plain_at(text, at).filter(|_| at >= from) else { continue };
            plain.text.push_str(&text[from..at]);
            plain.text.push(sign);
            from = at + len;
            n_fewer += len - sign.len_utf8();
            plain.shorter.push((plain.text.len(), n_fewer));
        }
        plain.text.push_str(&text[from..]);
        Some(plain)
    }

    /// Where this stands in the text as it was.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        self.original_at(range.start)..self.original_at(range.end)
    }

    fn original_at(&self, at: usize) -> usize {
        match self.shorter.partition_point(|(end, _)| *end <= at) {
            0 => at,
            n => at + self.shorter[n - 1].1,
        }
    }
}

/// The plain sign for what stands here, and the length of what stands here.
fn plain_at(text: &str, at: usize) -> Option<(char, usize)> {
    let bytes = text.as_bytes();
    let (sign, end) = match bytes[at] {
        b'\\' => escaped(text, at)?,
        // Only where a phone number follows: the plus of other texts says nothing.
        b'%' => {
            let is_plus = matches!(bytes[at + 1..], [b'2', b'B' | b'b', b'0'..=b'9', ..]);
            return is_plus.then_some(('+', 3));
        }
        _ => {
            let sign = text[at..].chars().next()?;
            (sign, at + sign.len_utf8())
        }
    };
    let mut written = [0; 4];
    let written = sign.encode_utf8(&mut written).as_bytes();
    if blank_len(written, 0) > 0 {
        return Some((' ', end - at));
    }
    if dash_len(written, 0) > 0 && (is_hyphen(written) || is_in_number(bytes, at, end)) {
        return Some(('-', end - at));
    }
    (bytes[at] == b'\\').then_some((sign, end - at))
}

/// The sign that is written as `\u0040` here, and where it ends. In JSON inside of JSON there are more backslashes, and beyond the first
/// plane of Unicode a sign is a pair of numbers.
fn escaped(text: &str, at: usize) -> Option<(char, usize)> {
    if text[..at].ends_with('\\') {
        return None;
    }
    let (first, end) = unit(text, at)?;
    let sign = char::from_u32(first).map(|sign| (sign, end));
    sign.or_else(|| {
        let (second, end) = unit(text, end)?;
        let sign = char::decode_utf16([u16::try_from(first).ok()?, u16::try_from(second).ok()?]).next()?;
        Some((sign.ok()?, end))
    })
}

/// The number behind these backslashes, and where it ends.
fn unit(text: &str, at: usize) -> Option<(u32, usize)> {
    let bytes = text.as_bytes();
    let digits = at + bytes[at..].iter().take_while(|byte| **byte == b'\\').count() + 1;
    let is_unit = digits > at + 1 && bytes[digits - 1..].starts_with(b"u");
    let number = is_unit.then(|| bytes.get(digits..digits + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)))??;
    let number = number.iter().filter_map(|digit| char::from(*digit).to_digit(16)).fold(0, |sum, digit| sum * 16 + digit);
    Some((number, digits + 4))
}

/// The length of the blank that stands here, seen or not; 0 when there is none.
fn blank_len(bytes: &[u8], at: usize) -> usize {
    match &bytes[at..bytes.len().min(at + 3)] {
        // No-break space.
        [0xc2, 0xa0, ..] => 2,
        // En quad to zero-width space, narrow no-break space, mathematical space, word joiner, ideographic space, zero-width
        // no-break space.
        [0xe2, 0x80, 0x80..=0x8b | 0xaf] | [0xe2, 0x81, 0x9f | 0xa0] | [0xe3, 0x80, 0x80] | [0xef, 0xbb, 0xbf] => 3,
        _ => 0,
    }
}

/// The length of the dash outside of ASCII that stands here; 0 when there is none.
pub(super) fn dash_len(bytes: &[u8], at: usize) -> usize {
    match &bytes[at..bytes.len().min(at + 3)] {
        // Soft hyphen.
        [0xc2, 0xad, ..] => 2,
        // Hyphens and dashes up to the bar, minus, small and full-width hyphen.
        [0xe2, 0x80, 0x90..=0x95] | [0xe2, 0x88, 0x92] | [0xef, 0xb9, 0xa3] | [0xef, 0xbc, 0x8d] => 3,
        _ => 0,
    }
}

/// Whether this dash is a hyphen, which is one everywhere. Longer ones are signs of their own between words.
fn is_hyphen(dash: &[u8]) -> bool {
    matches!(dash, [0xe2, 0x80, 0x90 | 0x91])
}

fn is_in_number(bytes: &[u8], at: usize, end: usize) -> bool {
    let is_before = at > 0 && (bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b')');
    is_before && bytes.get(end).is_some_and(|&next| next.is_ascii_digit() || next == b'(')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(Plain::of(text).map(|plain| plain.text).as_deref(), expected, "{text}");
    }

    #[test]
    fn only_what_is_a_blank_or_a_dash_becomes_plain() {
        check("4111 1111-2222", None);
        check("Jürgen “said” 你好、…", None);
        check("a\u{a0}b\u{202f}c\u{2009}d\u{3000}e\u{feff}f\u{200b}g\u{2060}", Some("a b c d e f g "));
        check("1\u{2011}2\u{2013}3\u{2212}4\u{ff0d}5\u{ad}6\u{2014}(7)\u{2012}8", Some("1-2-3-4-5-6-(7)-8"));
        check("me\u{2014}415 and\u{2013}then\u{2011}so", Some("me\u{2014}415 and\u{2013}then-so"));
    }

    #[test]
    fn signs_that_are_written_as_numbers_become_plain() {
        check(r"a\u0040b.c", Some("a@b.c"));
        check(r"J\u00f6rg M\u00FCller", Some("Jörg Müller"));
        check(r#"{\"a\": \"x\\u0040y\", \\\u0041"#, Some(r#"{\"a\": \"x@y\", A"#));
        check(r"1\u00a02\u20133 \ud83d\ude00", Some("1 2-3 😀"));
        check("a=%2B14&b=%2bx&c=%40", Some("a=+14&b=%2bx&c=%40"));
        check(r"\u12 \ud83d \ude00 \n \\n C:\users \uu0040 100%", None);
    }

    #[test]
    fn places_are_those_of_the_text_as_it_was() {
        let text = "ü\u{a0}12\u{feff}3\u{2011}4\u{202f}";
        let plain = Plain::of(text).unwrap();
        assert_eq!(plain.text, "ü 12 3-4 ");
        assert_eq!(&text[plain.original(&(3..9))], "12\u{feff}3\u{2011}4");
        assert_eq!(plain.original(&(0..plain.text.len())), 0..text.len());
        assert_eq!(&text[plain.original(&(0..2))], "ü");
        let text = r"to \u00fcb\u0040c.de!";
        let plain = Plain::of(text).unwrap();
        assert_eq!((plain.text.as_str(), &text[plain.original(&(3..10))]), ("to üb@c.de!", r"\u00fcb\u0040c.d"));
    }
}
