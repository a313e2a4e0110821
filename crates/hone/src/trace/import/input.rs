//! A file or stdin as it is read: its beginning, by which the format is known, and its lines, each with a bound. Where all of it is one list,
//! or objects over many lines each, its entries stand for lines.
//!
//! Knows nothing of what stands in the lines.

use super::entries::{Entries, Next, Shape};
use crate::failure::{Failure, at_path};
use hone_trace::format::Format;
use hone_trace::store::RECORD_BYTES_MAX;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a file is looked at to know its format.
const BEGINNING_BYTES: u64 = 64 << 10;

/// What some put in front of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A file or stdin.
pub(super) struct Input {
    /// As the user named it.
    pub(super) name: String,
    /// How long it is, where that is known before its end.
    pub(super) n_bytes: Option<u64>,
    beginning: Vec<u8>,
    /// Where records are no lines.
    shape: Option<Shape>,
    rest: Rest,
}

enum Rest {
    /// It can be read from the start again.
    File(File),
    /// What comes after the beginning comes once.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Opens a file, or stdin when its name is `-`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
        let (mut reader, n_bytes, is_regular): (Box<dyn Read + Send>, _, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None, false)
        } else {
            let file = File::open(path).map_err(at_path(path))?;
            let about = file.metadata().map_err(at_path(path))?;
            if about.is_dir() {
                return Err(is_folder(path));
            }
            (Box::new(file), about.is_file().then_some(about.len()), about.is_file())
        };
        let mut beginning = Vec::new();
        reader.by_ref().take(BEGINNING_BYTES).read_to_end(&mut beginning).map_err(at_path(path))?;
        let rest = if is_regular { Rest::File(File::open(path).map_err(at_path(path))?) } else { Rest::Stream(reader) };
        let shape = shape(beginning.strip_prefix(MARK).unwrap_or(&beginning));
        Ok(Self { name, n_bytes, beginning, shape, rest })
    }

    /// Says early what would fail later. A pipe is not opened for this: it opens only once.
    pub(super) fn check(path: &Path) -> Result<(), Failure> {
        if path == Path::new("-") {
            return Ok(());
        }
        let about = path.metadata().map_err(at_path(path))?;
        if about.is_dir() {
            return Err(is_folder(path));
        }
        if about.is_file() {
            File::open(path).map_err(at_path(path))?;
        }
        Ok(())
    }

    /// The format, if one of the first lines gives it away. `None` for a file with nothing in it, too.
    pub(super) fn detect(&self) -> Option<Format> {
        let text = String::from_utf8_lossy(&self.beginning);
        let text = text.trim_start_matches('\u{feff}');
        match self.shape {
            Some(Shape::List) => Format::detect(text.trim_start().strip_prefix('[')?),
            Some(Shape::Objects) => Format::detect(text),
            None => text.lines().filter(|line| !line.trim().is_empty()).find_map(Format::detect),
        }
    }

    /// What a file seems to be whose format nobody knows, and the way out.
    pub(super) fn unknown(&self) -> &'static str {
        match &*self.beginning {
            [0x1f, 0x8b, ..] => "this is compressed: `zcat FILE | hone trace import -` reads it",
            [b'P', b'A', b'R', b'1', ..] => "this is a Parquet table: write its rows as JSON lines first",
            _ => {
                "this is none of the formats hone, openai, art and otlp; name it with --format, or bring one record to a line: \
                 `jq -c '.data[]' FILE | hone trace import -` does where they stand under `data`"
            }
        }
    }

    /// True when its records are entries, and not lines.
    pub(super) fn has_entries(&self) -> bool {
        self.shape.is_some()
    }

    /// Whether there is nothing in it, or an empty list.
    pub(super) fn is_blank(&self) -> bool {
        let text = String::from_utf8_lossy(&self.beginning);
        let text: String = text.trim_start_matches('\u{feff}').split_whitespace().collect();
        (self.beginning.len() as u64) < BEGINNING_BYTES && ["", "[]"].contains(&&*text)
    }

    /// Keeps a stream in a temporary file, so that it can be read from the start again.
    pub(super) fn spool(&mut self) -> io::Result<()> {
        if let Rest::Stream(stream) = &mut self.rest {
            let mut file = tempfile::tempfile()?;
            io::copy(&mut Cursor::new(&self.beginning).chain(stream), &mut file)?;
            self.n_bytes = Some(file.stream_position()?);
            self.rest = Rest::File(file);
        }
        Ok(())
    }

    /// The lines from the start. Of a stream that was not spooled, only the first call sees them.
    pub(super) fn lines(&mut self) -> io::Result<Lines> {
        let reader: Box<dyn Read + Send> = match &mut self.rest {
            Rest::File(file) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(file.try_clone()?)
            }
            Rest::Stream(stream) => {
                let rest = std::mem::replace(stream, Box::new(io::empty()));
                Box::new(Cursor::new(std::mem::take(&mut self.beginning)).chain(rest))
            }
        };
        let entries = self.shape.map(Entries::new);
        Ok(Lines { reader: BufReader::with_capacity(256 << 10, reader), entries, number: 0, bytes_max: RECORD_BYTES_MAX })
    }
}

/// How a file that begins so is cut into records, where these are no lines.
fn shape(beginning: &[u8]) -> Option<Shape> {
    let beginning = beginning.trim_ascii_start();
    let first = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    match beginning {
        [b'[', entries @ ..] => matches!(entries.trim_ascii_start().first(), None | Some(b'{')).then_some(Shape::List),
        // A line that ends so is not all of an object.
        [b'{', ..] => matches!(first.last(), Some(b'{' | b'[' | b',' | b':')).then_some(Shape::Objects),
        _ => None,
    }
}

fn is_folder(path: &Path) -> Failure {
    Failure::user(format_args!("{} is a folder", path.display())).hint("name the files in it: `hone trace import DIR/*.jsonl`")
}

/// One line that is not blank, or an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// From 1, of lines or of entries.
    pub(super) number: u64,
    /// How many bytes of the file lie behind it, blank lines before it included.
    pub(super) n_bytes: u64,
    /// The line in which an entry begins, where it is not the first.
    pub(super) begun: Option<u64>,
    /// Its text, or why there is none.
    pub(super) text: Result<String, String>,
}

/// The lines of an input, none of them longer than a record may be.
pub(super) struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    /// Where its records are no lines.
    entries: Option<Entries>,
    number: u64,
    bytes_max: usize,
}

impl Lines {
    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        if let Some(entries) = &mut self.entries {
            let mut bytes = Vec::new();
            let (n_bytes, next) = entries.read(&mut self.reader, self.bytes_max + 3, &mut bytes)?;
            self.number += 1;
            let text = match next {
                Next::Entry => self.text(bytes, n_bytes),
                Next::Broken(reason) => Err(reason.to_owned()),
                Next::Nothing => return Ok(None),
            };
            let begun = self.entries.as_ref().map(Entries::begun).filter(|line| *line > 1 && next == Next::Entry);
            return Ok(Some(Line { number: self.number, n_bytes, begun, text }));
        }
        let mut n_bytes = 0;
        loop {
            let mut bytes = Vec::new();
            let n_read = self.read_line(&mut bytes)?;
            if n_read == 0 {
                return Ok(None);
            }
            self.number += 1;
            n_bytes += n_read;
            let text = self.text(bytes, n_read);
            if text.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                continue;
            }
            return Ok(Some(Line { number: self.number, n_bytes, begun: None, text }));
        }
    }

    fn text(&self, mut bytes: Vec<u8>, n_read: u64) -> Result<String, String> {
        bytes.pop_if(|last| *last == b'\n');
        bytes.pop_if(|last| *last == b'\r');
        if bytes.len() > self.bytes_max {
            let what = if self.entries.is_some() { "entry" } else { "line" };
            return Err(format!("the {what} has {n_read} bytes; a record has at most {}", self.bytes_max));
        }
        if self.number == 1 && bytes.starts_with(MARK) {
            bytes.drain(..3);
        }
        String::from_utf8(bytes).map_err(|error| format!("this is not UTF-8 (column {})", error.utf8_error().valid_up_to() + 1))
    }

    /// Reads up to the line break and says how far that was. Of an overlong line only the beginning is kept.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<u64> {
        let mut n_read = 0;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok([]) => return Ok(n_read),
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', buffer);
            let n_taken = end.map_or(buffer.len(), |end| end + 1);
            let room = (self.bytes_max + 3).saturating_sub(line.len());
            line.extend_from_slice(&buffer[..n_taken.min(room)]);
            self.reader.consume(n_taken);
            n_read += n_taken as u64;
            if end.is_some() {
                return Ok(n_read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &[(u64, Result<&str, &str>)]) {
        let reader: Box<dyn Read + Send> = Box::new(Cursor::new(bytes.to_vec()));
        let mut lines = Lines { reader: BufReader::with_capacity(3, reader), entries: None, number: 0, bytes_max: 8 };
        let mut found = Vec::new();
        let mut n_bytes = 0;
        while let Some(line) = lines.next().unwrap() {
            n_bytes += line.n_bytes;
            found.push((line.number, line.text));
        }
        assert!(n_bytes <= bytes.len() as u64);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((number, text), (expected_number, expected_text)) in found.iter().zip(expected) {
            assert_eq!(number, expected_number);
            match (text, expected_text) {
                (Ok(text), Ok(expected)) => assert_eq!(text, expected),
                (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
                _ => panic!("{text:?} is not {expected_text:?}"),
            }
        }
    }

    #[test]
    fn lines_are_cut_bounded_and_counted() {
        check(b"", &[]);
        check(b"a\nb", &[(1, Ok("a")), (2, Ok("b"))]);
        check(b"a\r\n\r\n  \nb\n", &[(1, Ok("a")), (4, Ok("b"))]);
        check(b"\xef\xbb\xbfa\n", &[(1, Ok("a"))]);
        check(b"12345678\n123456789\nx", &[(1, Ok("12345678")), (2, Err("the line has 10 bytes")), (3, Ok("x"))]);
        check(b"12345678\r\r\r\r\rx\n", &[(1, Err("the line has 15 bytes"))]);
        check(b"12345678901234567890\nx\n", &[(1, Err("the line has 21 bytes")), (2, Ok("x"))]);
        check(b"ab\xff\nx\n", &[(1, Err("not UTF-8 (column 3)")), (2, Ok("x"))]);
    }
}
