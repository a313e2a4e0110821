//! JSON as Python writes it: a space after commas and colons, keys in their order, exponents of two digits, nothing escaped for
//! HTML. Knows nothing of templates.

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io;

const INDENT_MAX: usize = 16;

/// Writes a value, in lines where an indent is given, and in ASCII where that is wished.
pub(crate) fn write(value: &impl Serialize, indent: Option<usize>, is_ascii: bool) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    let indent = indent.map(|width| vec![b' '; width.min(INDENT_MAX)]);
    let lines = indent.as_deref().map(PrettyFormatter::with_indent);
    value.serialize(&mut Serializer::with_formatter(&mut out, Python { lines, is_ascii }))?;
    Ok(out)
}

struct Python<'a> {
    lines: Option<PrettyFormatter<'a>>,
    is_ascii: bool,
}

impl Python<'_> {
    fn separate<W: ?Sized + io::Write>(writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

impl Formatter for Python<'_> {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.begin_array(writer),
            None => writer.write_all(b"["),
        }
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.end_array(writer),
            None => writer.write_all(b"]"),
        }
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.begin_array_value(writer, first),
            None => Self::separate(writer, first),
        }
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lines.as_mut().map_or(Ok(()), |lines| lines.end_array_value(writer))
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.begin_object(writer),
            None => writer.write_all(b"{"),
        }
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.end_object(writer),
            None => writer.write_all(b"}"),
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.begin_object_key(writer, first),
            None => Self::separate(writer, first),
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lines.as_mut().map_or(Ok(()), |lines| lines.end_object_value(writer))
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(number(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.is_ascii {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            // A mark stays one, or what it keeps apart would come together.
            if (c.is_ascii() && c != '\u{7f}') || crate::mark::may_be_mark(c) {
                write!(writer, "{c}")?;
            } else {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

/// The fewest digits that give the number back, with an exponent where Python writes one.
fn number(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => format!("{value:?}"),
        exponent => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(value: &Value, indent: Option<usize>, is_ascii: bool, expected: &str) {
        let written = write(value, indent, is_ascii).expect("plain values");
        assert_eq!(String::from_utf8(written).expect("text"), expected);
    }

    /// What `json.dumps` of CPython 3.11 prints.
    #[test]
    fn numbers_are_python_s() {
        let small = json!([0.0, -0.0, 1.0, 0.1, 0.0001, 0.00001, -1e-7, 1.5e-10, 1e-100]);
        check(&small, None, false, "[0.0, -0.0, 1.0, 0.1, 0.0001, 1e-05, -1e-07, 1.5e-10, 1e-100]");
        let large = json!([1e15, 1e16, 123456789012345680.0, -2.5e300, 18446744073709551615_u64]);
        check(&large, None, false, "[1000000000000000.0, 1e+16, 1.2345678901234568e+17, -2.5e+300, 18446744073709551615]");
    }

    #[test]
    fn lines_and_ascii_are_python_s() {
        check(&json!({"a": [1, {}], "b": []}), Some(2), false, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
        check(&json!({"ü": "a\n\u{7f}€😀"}), None, true, "{\"\\u00fc\": \"a\\n\\u007f\\u20ac\\ud83d\\ude00\"}");
        check(&json!("ü€"), None, false, "\"ü€\"");
    }
}
