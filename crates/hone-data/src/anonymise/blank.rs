//! Signs that are written in another way: blanks and dashes outside of ASCII, which formatters and word processors put between words and
//! digits, letters and digits of other widths and scripts (`４１５`, `𝟒𝟏𝟓`, `٤١٥`), signs that nobody sees, and signs of which a program
//! wrote the number (`\u0040`, `%2B`). A text that has some is read with plain ones in their place, so that nothing else here needs to know
//! them; any other is read as it is.

use memchr::memchr2_iter;
use std::borrow::Cow;
use std::ops::Range;

/// How signs that nobody sees are read. Between two letters they are never read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden<'a> {
    /// As blanks: they part what stands around them.
    Blank,
    /// Not at all: they were put into a number or an address.
    Gone,
    /// The same, but beside these values, which they do not change.
    GoneBut(&'a [Range<usize>]),
}

impl Hidden<'_> {
    /// Whether one that stands here parts what is around it.
    fn parts(self, sign: &Range<usize>) -> bool {
        match self {
            Self::Blank => true,
            Self::Gone => false,
            Self::GoneBut(values) => {
                let next = values.partition_point(|value| value.end < sign.start);
                values[next..].iter().take(2).any(|value| value.end == sign.start || value.start == sign.end)
            }
        }
    }
}

/// A text with plain signs.
pub(super) struct Plain {
    pub(super) text: String,
    /// Whether it can be read in two ways, for the signs in it that nobody sees.
    pub(super) has_hidden: bool,
    /// Where each of them ends, and how many bytes fewer there are up to here.
    shorter: Vec<(usize, usize)>,
}

/// The text with plain signs.
pub(super) fn plain<'a>(text: &'a str, hidden: Hidden<'_>) -> Cow<'a, str> {
    Plain::of(text, hidden).map_or(Cow::Borrowed(text), |plain| Cow::Owned(plain.text))
}

/// The first bytes of all that is not plain.
const FIRST: [bool; 256] = {
    let mut all = [false; 256];
    let bytes = b"\\%\xc2\xcd\xd8\xd9\xdb\xdf\xe0\xe1\xe2\xe3\xea\xef\xf0\xf3";
    let mut idx = 0;
    while idx < bytes.len() {
        all[bytes[idx] as usize] = true;
        idx += 1;
    }
    all
};

impl Plain {
    /// The text with plain ones, or nothing when there are no others in it.
    pub(super) fn of(text: &str, hidden: Hidden<'_>) -> Option<Self> {
        let bytes = text.as_bytes();
        if text.is_ascii() {
            return Self::read(text, memchr2_iter(b'\\', b'%', bytes), hidden);
        }
        Self::read(text, (0..bytes.len()).filter(|&at| FIRST[usize::from(bytes[at])]), hidden)
    }

    fn read(text: &str, places: impl Iterator<Item = usize>, hidden: Hidden<'_>) -> Option<Self> {
        let mut plain = Self { text: String::new(), has_hidden: false, shorter: Vec::new() };
        let (mut from, mut n_fewer) = (0, 0);
        for at in places {
            // The second half of a pair was read with the first.
            if at < from {
                continue;
            }
            let before = if at == from { plain.text.bytes().last() } else { Some(text.as_bytes()[at - 1]) };
            let Some((sign, end)) = plain_at(text, at, before) else { continue };
            if plain.shorter.is_empty() {
                plain.text.reserve(text.len());
            }
            plain.text.push_str(&text[from..at]);
            let n_before = plain.text.len();
            plain.has_hidden |= sign == Sign::Hidden;
            match sign {
                Sign::Plain(sign) => plain.text.push(sign),
                Sign::Hidden if hidden.parts(&(at..end)) => plain.text.push(' '),
                Sign::Hidden | Sign::InWord => {}
            }
            from = end;
            n_fewer += end - at - (plain.text.len() - n_before);
            plain.shorter.push((plain.text.len(), n_fewer));
        }
        plain.text.push_str(&text[from..]);
        (!plain.shorter.is_empty()).then_some(plain)
    }

    /// Where this stands in the text as it was.
    pub(super) fn original(&self, text: &str, range: &Range<usize>) -> Range<usize> {
        let (start, end) = (self.original_at(range.start), self.original_at(range.end));
        // What is not seen behind it is not part of it.
        start..start + text[start..end].trim_end_matches(is_hidden).len()
    }

    fn original_at(&self, at: usize) -> usize {
        match self.shorter.partition_point(|(end, _)| *end <= at) {
            0 => at,
            n => at + self.shorter[n - 1].1,
        }
    }
}

/// What stands in the place of a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plain(char),
    /// Nobody sees it.
    Hidden,
    /// The same between two letters.
    InWord,
}

/// What to read in the place of what stands here behind the byte `before`, and where it ends.
fn plain_at(text: &str, at: usize, before: Option<u8>) -> Option<(Sign, usize)> {
    let bytes = text.as_bytes();
    let (sign, end) = match bytes[at] {
        b'\\' => escaped(text, at)?,
        // Only where a phone number follows: the plus of other texts says nothing.
        b'%' => {
            let is_plus = matches!(bytes[at + 1..], [b'2', b'B' | b'b', b'0'..=b'9', ..]);
            return is_plus.then_some((Sign::Plain('+'), at + 3));
        }
        _ => {
            let sign = text[at..].chars().next()?;
            (sign, at + sign.len_utf8())
        }
    };
    let mut written = [0; 4];
    let written = sign.encode_utf8(&mut written).as_bytes();
    let after = || text[end..].chars().next().map(|next| of_other_script(next).unwrap_or(next));
    let is_in_word = || {
        before.is_some_and(|before| before.is_ascii_alphabetic() || before >= 0x80) && after().is_some_and(char::is_alphabetic)
    };
    let is_in_number = || {
        before.is_some_and(|before| before.is_ascii_digit() || before == b')')
            && after().is_some_and(|after| after.is_ascii_digit() || after == '(')
    };
    let plain = if let Some(plain) = of_other_script(sign) {
        Sign::Plain(plain)
    } else if dash_len(written, 0) > 0 && !is_hidden(sign) && (is_hyphen(written) || is_in_number()) {
        Sign::Plain('-')
    } else if is_hidden(sign) {
        if is_in_word() { Sign::InWord } else { Sign::Hidden }
    } else if is_blank(sign) {
        Sign::Plain(' ')
    } else if bytes[at] == b'\\' {
        Sign::Plain(sign)
    } else {
        return None;
    };
    Some((plain, end))
}

/// The ASCII sign that this one is in another width, style or script, where it is a letter, a digit, or a full-width sign.
fn of_other_script(sign: char) -> Option<char> {
    let code = u32::from(sign);
    let letter = |idx: u32| b'A' + (idx % 26) as u8 + if idx % 52 >= 26 { b'a' - b'A' } else { 0 };
    let plain = match code {
        0xff01..=0xff5e => u8::try_from(code - 0xff00 + 0x20).ok()?,
        // The alphabets of mathematics, each in capitals and small letters.
        0x1d400..=0x1d6a3 => letter(code - 0x1d400),
        0x1d7ce..=0x1d7ff => b'0' + ((code - 0x1d7ce) % 10) as u8,
        _ => b'0' + ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|digit| *digit < 10))? as u8,
    };
    Some(char::from(plain))
}

/// The zeros of scripts that have digits of their own: each is followed by the other nine.
const ZEROS: [u32; 36] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040,
    0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0,
    0xa9f0, 0xaa50, 0xabf0, 0x104a0,
];

/// Whether nothing is seen of this sign, or nothing but a frame around the one before it: what Unicode says to ignore, and keycaps.
fn is_hidden(sign: char) -> bool {
    matches!(
        u32::from(sign),
        0xad | 0x34f
            | 0x61c
            | 0x115f..=0x1160
            | 0x17b4..=0x17b5
            | 0x180b..=0x180f
            | 0x200b..=0x200f
            | 0x202a..=0x202e
            | 0x2060..=0x206f
            | 0x20e3
            | 0x3164
            | 0xfe00..=0xfe0f
            | 0xfeff
            | 0xffa0
            | 0xfff9..=0xfffb
            | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff
    )
}

/// Whether this is a blank outside of ASCII: no-break space, en quad to hair space, narrow no-break, mathematical and ideographic space.
fn is_blank(sign: char) -> bool {
    matches!(sign, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(Plain::of(text, Hidden::Blank).map(|plain| plain.text).as_deref(), expected, "{text}");
    }

    #[test]
    fn other_widths_and_scripts_become_plain() {
        check("ａｎｎ＠ｓｈｏｐ．ｃｏｍ，４１５－５５５", Some("ann@shop.com,415-555"));
        check("𝐀𝐳 𝒃𝘊 𝟒𝟙𝟝 ٤١٥ ۴۱۵ ४१५ 4\u{fe0f}\u{20e3}1", Some("Az bC 415 415 415 415 4  1"));
        check("４\u{2013}５", Some("4-5"));
        check("x² ½ № ⅳ 你好。", None);
        assert_eq!(plain("4\u{fe0f}\u{20e3}1\u{200b}1-\u{200d}a\u{ad}@", Hidden::Gone), "411-a@");
    }

    #[test]
    fn only_what_is_a_blank_or_a_dash_becomes_plain() {
        check("4111 1111-2222", None);
        check("Jürgen “said” 你好、…", None);
        check("a\u{a0}b\u{202f}c\u{2009}d\u{3000}e\u{feff}f\u{200b}7\u{2060}", Some("a b c d ef 7 "));
        check("1\u{2011}2\u{2013}3\u{2212}4\u{ff0d}5\u{ad}6\u{2014}(7)\u{2012}8", Some("1-2-3-4-5 6-(7)-8"));
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
        let plain = Plain::of(text, Hidden::Blank).unwrap();
        assert_eq!(plain.text, "ü 12 3-4 ");
        assert_eq!(&text[plain.original(text, &(3..9))], "12\u{feff}3\u{2011}4");
        assert_eq!(plain.original(text, &(0..plain.text.len())), 0..text.len());
        assert_eq!(&text[plain.original(text, &(0..2))], "ü");
        let gone = Plain::of("1\u{200b}２\u{200b}, 3", Hidden::Gone).unwrap();
        assert_eq!((gone.text.as_str(), gone.original("1\u{200b}２\u{200b}, 3", &(0..2))), ("12, 3", 0..7));
        let text = r"to \u00fcb\u0040c.de!";
        let plain = Plain::of(text, Hidden::Blank).unwrap();
        assert_eq!((plain.text.as_str(), &text[plain.original(text, &(3..10))]), ("to üb@c.de!", r"\u00fcb\u0040c.d"));
    }
}
