//! A file that is one list, `[{…}, {…}]`, entry by entry: so it is read as lines are, in memory that does not grow with it.
//!
//! Knows nothing of what stands in the entries, but where they end.

use std::io::{self, BufRead};

/// Where a list is read.
#[derive(Debug, Default)]
pub(super) struct Entries {
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
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

const CUT_OFF: &str = "the list ends without `]`: the file is cut off";

/// Inside of an entry.
#[derive(Default)]
struct Inside {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Inside {
    /// What ends the entry in front of this byte, if it does.
    fn ends_at(&mut self, byte: u8) -> Option<Place> {
        if self.in_text {
            (self.in_text, self.is_escaped) = (self.is_escaped || byte != b'"', !self.is_escaped && byte == b'\\');
            return None;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b',' if self.depth == 0 => return Some(Place::Between),
            b']' if self.depth == 0 => return Some(Place::Ended),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        None
    }
}

impl Entries {
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
                    Place::Start | Place::Between => Next::Broken(CUT_OFF),
                    Place::Ended | Place::Over => Next::Nothing,
                };
                return Ok((n_read, next));
            }
            let mut n_taken = 0;
            let mut next = None;
            for &byte in buffer {
                n_taken += 1;
                if let Some(inside) = &mut inside {
                    if let Some(place) = inside.ends_at(byte) {
                        (self.place, next) = (place, Some(Next::Entry));
                        break;
                    }
                } else if byte.is_ascii_whitespace() || self.place == Place::Over {
                    continue;
                } else if self.place == Place::Ended {
                    (self.place, next) = (Place::Over, Some(Next::Broken("more follows behind the list")));
                    break;
                } else {
                    match byte {
                        b'[' if self.place == Place::Start => {
                            self.place = Place::Between;
                            continue;
                        }
                        // A mark in front of the first byte of a file says how it is encoded.
                        _ if self.place == Place::Start => continue,
                        b',' => continue,
                        b']' => {
                            self.place = Place::Ended;
                            continue;
                        }
                        _ => drop(inside.insert(Inside::default()).ends_at(byte)),
                    }
                }
                if entry.len() < room {
                    entry.push(byte);
                }
            }
            reader.consume(n_taken);
            n_read += n_taken as u64;
            if let Some(next) = next {
                return Ok((n_read, next));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn check(text: &str, expected: &[&str], end: Next) {
        for capacity in [1, 3, 100] {
            let mut reader = BufReader::with_capacity(capacity, text.as_bytes());
            let (mut entries, mut found, mut n_all) = (Entries::default(), Vec::new(), 0);
            let next = loop {
                let mut entry = Vec::new();
                let (n_read, next) = entries.read(&mut reader, 20, &mut entry).unwrap();
                n_all += n_read;
                if next != Next::Entry {
                    break next;
                }
                found.push(String::from_utf8(entry).unwrap().trim().to_owned());
            };
            assert_eq!((found.iter().map(String::as_str).collect::<Vec<_>>(), next), (expected.to_vec(), end), "{text}");
            assert!(n_all <= text.len() as u64);
            assert_eq!(entries.read(&mut reader, 20, &mut Vec::new()).unwrap().1, Next::Nothing, "{text}");
        }
    }

    #[test]
    fn entries_are_cut_where_they_end() {
        check("[]", &[], Next::Nothing);
        check(" [ 1 , [2,\n3] ]\n", &["1", "[2,\n3]"], Next::Nothing);
        check(r#"[{"a": "],}"}, {"b": "\"],\\"},]"#, &[r#"{"a": "],}"}"#, r#"{"b": "\"],\\"}"#], Next::Nothing);
        check("\u{feff}[1]", &["1"], Next::Nothing);
        check(r#"["123456789012345678901234567890",2]"#, &[r#""1234567890123456789"#, "2"], Next::Nothing);
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_told() {
        check("[1, 2,", &["1", "2"], Next::Broken(CUT_OFF));
        check("[1, 2", &["1", "2"], Next::Broken(CUT_OFF));
        check(r#"[{"a": 1"#, &[r#"{"a": 1"#], Next::Broken(CUT_OFF));
        check("[1] [2]", &["1"], Next::Broken("more follows behind the list"));
    }
}
