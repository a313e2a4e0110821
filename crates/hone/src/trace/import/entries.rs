//! A file that is one list, `[{…}, {…}]`, or objects over many lines each, entry by entry: so it is read as lines are, in memory that does
//! not grow with it.
//!
//! Where a bracket or a quote is missing in an entry, the next one is found by what cannot stand there: a text has no line breaks, an
//! object has no object where a key must be, and a bracket closes what is open inside of its own. Once that is seen, a line that begins with an
//! object no further in than the entry did begins the next one. Knows nothing else of what stands in entries.

use std::io::{self, BufRead};

/// How entries stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// In brackets, with commas between them.
    List,
    /// One behind the other.
    Objects,
}

/// Where a file is read.
#[derive(Debug)]
pub(super) struct Entries {
    shape: Shape,
    place: Place,
    /// The line of the next byte, from 1, and that of the first byte of the entry.
    line: u64,
    begun: u64,
    /// How far the next byte stands in its line, and whether there are but blanks before it.
    column: u64,
    is_indent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    /// Behind the bracket or a comma.
    Between,
    /// Behind the last bracket.
    Ended,
    /// Where nothing comes any more.
    Over,
}

/// What came next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Entry,
    /// The list is over before it has ended, or goes on afterwards.
    Broken(&'static str),
    Nothing,
}

const CUT_OFF: &str = "the list ends without `]`: the file is cut off, or something is not closed in the entry before";
const GOES_ON: &str = "more follows behind the list, and is not read: take it out, or put each record on a line of its own";

/// Inside of an entry.
#[derive(Default)]
struct Inside {
    /// What is open.
    open: Vec<u8>,
    in_text: bool,
    is_escaped: bool,
    /// The last byte that is no blank.
    before: u8,
    /// How far in the entry began, and whether something cannot stand where it stands.
    column: u64,
    is_broken: bool,
}

/// Where an entry ends.
#[derive(Clone, Copy)]
enum End {
    /// In front of this byte, which is passed over.
    Here(Place),
    /// With this byte.
    With,
    /// In front of this byte, which is of the next one.
    Before,
}

impl Inside {
    /// How this byte ends the entry, if it does. Of the first in a line it is told how far in that is.
    fn ends_at(&mut self, byte: u8, first: Option<u64>, shape: Shape) -> Option<End> {
        if self.in_text && byte != b'\n' {
            (self.in_text, self.is_escaped) = (self.is_escaped || byte != b'"', !self.is_escaped && byte == b'\\');
            return None;
        }
        self.is_broken |= std::mem::take(&mut self.in_text);
        match byte {
            b'\n' if shape == Shape::Objects && self.open.is_empty() => return Some(End::Here(Place::Between)),
            _ if byte.is_ascii_whitespace() => return None,
            b'"' => (self.in_text, self.is_escaped) = (true, false),
            b'{' | b'[' => {
                let is_inside = !self.open.is_empty();
                while self.open.last() == Some(&b'{') && self.before != b':' {
                    (self.is_broken, _) = (true, self.open.pop());
                }
                let is_next = byte == b'{' && self.is_broken && first.is_some_and(|column| column <= self.column);
                if is_inside && (self.open.is_empty() || is_next) {
                    return Some(End::Before);
                }
                self.open.push(byte);
            }
            b'}' | b']' => {
                let opening = if byte == b'}' { b'{' } else { b'[' };
                match self.open.iter().rposition(|open| *open == opening) {
                    Some(at) => {
                        self.is_broken |= at + 1 < self.open.len();
                        self.open.truncate(at);
                    }
                    None if byte == b']' && shape == Shape::List => return Some(End::Here(Place::Ended)),
                    None => {}
                }
                if self.open.is_empty() && shape == Shape::Objects {
                    return Some(End::With);
                }
            }
            b',' if self.open.is_empty() => return Some(End::Here(Place::Between)),
            _ => {}
        }
        self.before = byte;
        None
    }
}

impl Entries {
    pub(super) fn new(shape: Shape) -> Self {
        let place = if shape == Shape::List { Place::Start } else { Place::Between };
        Self { shape, place, line: 1, begun: 1, column: 0, is_indent: true }
    }

    /// The line in which the last entry began.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Reads the next entry, or as much of it as there is room for, and says how many bytes of the file that were.
    pub(super) fn read(&mut self, reader: &mut impl BufRead, room: usize, entry: &mut Vec<u8>) -> io::Result<(u64, Next)> {
        let (mut inside, mut n_read) = (None::<Inside>, 0);
        loop {
            let buffer = match reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                // What is left of an entry comes first.
                if inside.is_some() {
                    return Ok((n_read, Next::Entry));
                }
                let next = match std::mem::replace(&mut self.place, Place::Over) {
                    Place::Start | Place::Between if self.shape == Shape::List => Next::Broken(CUT_OFF),
                    _ => Next::Nothing,
                };
                return Ok((n_read, next));
            }
            let (mut n_taken, mut next) = (0, None);
            for &byte in buffer {
                let first = (self.is_indent && !byte.is_ascii_whitespace()).then_some(self.column);
                let end = match &mut inside {
                    Some(inside) => inside.ends_at(byte, first, self.shape),
                    None => {
                        next = self.between(byte, &mut inside);
                        None
                    }
                };
                if matches!(end, Some(End::Before)) {
                    (self.place, next) = (Place::Between, Some(Next::Entry));
                    break;
                }
                n_taken += 1;
                self.count(byte);
                if let Some(End::Here(place)) = end {
                    (self.place, next) = (place, Some(Next::Entry));
                    break;
                }
                if inside.is_some() && entry.len() < room {
                    entry.push(byte);
                }
                if end.is_some() {
                    next = Some(Next::Entry);
                }
                if next.is_some() {
                    break;
                }
            }
            reader.consume(n_taken);
            n_read += n_taken as u64;
            if let Some(next) = next {
                return Ok((n_read, next));
            }
        }
    }

    /// Goes on behind this byte.
    fn count(&mut self, byte: u8) {
        if byte == b'\n' {
            (self.line, self.column, self.is_indent) = (self.line + 1, 0, true);
        } else {
            (self.column, self.is_indent) = (self.column + 1, self.is_indent && byte.is_ascii_whitespace());
        }
    }

    /// Takes a byte between entries, which may begin one.
    fn between(&mut self, byte: u8, inside: &mut Option<Inside>) -> Option<Next> {
        match (self.place, byte) {
            (Place::Over, _) => {}
            _ if byte.is_ascii_whitespace() => {}
            // A list may follow behind a list. A mark in front of the first byte of a file says how it is encoded.
            (Place::Start | Place::Ended, b'[') => self.place = Place::Between,
            (Place::Start, _) | (Place::Between, b',' | 0xef | 0xbb | 0xbf) => {}
            (Place::Between, b']') if self.shape == Shape::List => self.place = Place::Ended,
            (Place::Between, _) => {
                self.begun = self.line;
                let mut begun = Inside { column: self.column, ..Inside::default() };
                begun.ends_at(byte, None, self.shape);
                *inside = Some(begun);
            }
            (Place::Ended, _) => {
                self.place = Place::Over;
                return Some(Next::Broken(GOES_ON));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn check_shape(shape: Shape, text: &str, expected: &[&str], end: Next) {
        for capacity in [1, 3, 100] {
            let mut reader = BufReader::with_capacity(capacity, text.as_bytes());
            let (mut entries, mut found, mut n_all) = (Entries::new(shape), Vec::new(), 0);
            let next = loop {
                let mut entry = Vec::new();
                let (n_read, next) = entries.read(&mut reader, 30, &mut entry).unwrap();
                n_all += n_read;
                if next != Next::Entry {
                    break next;
                }
                found.push(String::from_utf8(entry).unwrap().trim().to_owned());
            };
            assert_eq!((found.iter().map(String::as_str).collect::<Vec<_>>(), next), (expected.to_vec(), end), "{text}");
            assert!(n_all <= text.len() as u64);
            assert_eq!(entries.read(&mut reader, 30, &mut Vec::new()).unwrap().1, Next::Nothing, "{text}");
        }
    }

    fn check(text: &str, expected: &[&str], end: Next) {
        check_shape(Shape::List, text, expected, end);
    }

    #[test]
    fn entries_are_cut_where_they_end() {
        check("[]", &[], Next::Nothing);
        check(" [ 1 , [2,\n3] ]\n", &["1", "[2,\n3]"], Next::Nothing);
        check(r#"[{"a": "],}"}, {"b": "\"],\\"},]"#, &[r#"{"a": "],}"}"#, r#"{"b": "\"],\\"}"#], Next::Nothing);
        check("\u{feff}[1]", &["1"], Next::Nothing);
        check(r#"["1234567890123456789012345678901234567890",2]"#, &[r#""12345678901234567890123456789"#, "2"], Next::Nothing);
        check(r#"[{"a":[{"b":{}},{"c":[]}]},2]"#, &[r#"{"a":[{"b":{}},{"c":[]}]}"#, "2"], Next::Nothing);
        check("[1]\n[2]", &["1", "2"], Next::Nothing);
    }

    #[test]
    fn objects_are_cut_where_they_end() {
        let check = |text: &str, expected: &[&str]| check_shape(Shape::Objects, text, expected, Next::Nothing);
        check("{\n \"a\": 1\n}\n{\n \"b\": [\n]\n}\n", &["{\n \"a\": 1\n}", "{\n \"b\": [\n]\n}"]);
        check("{}{\"a\":\"}\"} , {}", &["{}", "{\"a\":\"}\"}", "{}"]);
        check("no\n{\"a\":\n1}\n]\n", &["no", "{\"a\":\n1}", "]"]);
        check("{\n\"a\": 1\n{\n\"b\": 2\n}", &["{\n\"a\": 1", "{\n\"b\": 2\n}"]);
        check("\u{feff}{\n}", &["{\n}"]);
    }

    #[test]
    fn what_is_not_closed_costs_one_entry() {
        let good = r#"{"a":[{"b":1}]}"#;
        for bad in [r#"{"a":[{"b":1}}"#, r#"{"a":[{"b":1]}"#, r#"{"a":[{"b":1}]"#, r#"{"a":[{"b":1}]}}"#, r#"{"a":[{"b":"1}]}"#] {
            for blank in ["", "  "] {
                let text = format!("[\n{blank}{good},\n{blank}{bad},\n{blank}{good},\n{blank}{good}\n]");
                let mut reader = BufReader::new(text.as_bytes());
                let (mut entries, mut found) = (Entries::new(Shape::List), Vec::new());
                let end = loop {
                    let mut entry = Vec::new();
                    match entries.read(&mut reader, 100, &mut entry).unwrap().1 {
                        Next::Entry => found.push(String::from_utf8(entry).unwrap().trim().to_owned()),
                        end => break end,
                    }
                };
                assert_eq!((found.len(), end), (4, Next::Nothing), "{text} {found:?}");
                assert!(found[0] == good && found[1].starts_with(bad) && found[2..] == [good, good], "{text} {found:?}");
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_told() {
        check("[1, 2,", &["1", "2"], Next::Broken(CUT_OFF));
        check("[1, 2", &["1", "2"], Next::Broken(CUT_OFF));
        check(r#"[{"a": 1"#, &[r#"{"a": 1"#], Next::Broken(CUT_OFF));
        check("[1] 2", &["1"], Next::Broken(GOES_ON));
    }

    #[test]
    fn an_entry_knows_the_line_in_which_it_begins() {
        let mut reader = BufReader::new(&b"[\n1,\n\n {\n},2]"[..]);
        let (mut entries, mut begun) = (Entries::new(Shape::List), Vec::new());
        while entries.read(&mut reader, 30, &mut Vec::new()).unwrap().1 == Next::Entry {
            begun.push(entries.begun());
        }
        assert_eq!(begun, [2, 4, 5]);
    }
}
