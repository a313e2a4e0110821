//! Records as JSON text, a little faster than `serde_json` writes the same bytes.
//!
//! Most of a trace is text, and most text needs no escape: eight bytes are looked at in one step. Everything else is as
//! in `serde_json`, to the letter; its own code writes the floating-point numbers.
//! Knows nothing of what it writes.

use serde::ser::{self, Serialize};
use std::fmt::Display;

/// The compact JSON text of a record, as `serde_json::to_vec` gives it.
pub fn to_vec(record: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    // Room for a usual trace, so that it is not moved while it grows.
    let mut writer = Writer { out: Vec::with_capacity(8 << 10) };
    record.serialize(&mut writer)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
}

type Result<T, E = serde_json::Error> = std::result::Result<T, E>;

fn wrong(what: impl Display) -> serde_json::Error {
    ser::Error::custom(what)
}

impl Writer {
    fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        self.out.reserve(bytes.len() + 2);
        self.out.push(b'"');
        let mut from = 0;
        while let Some(n_plain) = first_special(&bytes[from..]) {
            let at = from + n_plain;
            self.out.extend_from_slice(&bytes[from..at]);
            self.escape(bytes[at]);
            from = at + 1;
        }
        self.out.extend_from_slice(&bytes[from..]);
        self.out.push(b'"');
    }

    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            control => {
                let digits = [HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]];
                self.out.extend_from_slice(b"\\u00");
                self.out.extend_from_slice(&digits);
                return;
            }
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }

    fn digits(&mut self, mut number: u64) {
        let mut buffer = [0; 20];
        let mut at = buffer.len();
        loop {
            at -= 1;
            buffer[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&buffer[at..]);
    }

    /// What `serde_json` writes for it: floating-point numbers, and whatever is rare.
    fn as_usual(&mut self, value: impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.out, &value)
    }

    fn named<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        self.out.push(b'{');
        self.text(name);
        self.out.push(b':');
        value.serialize(&mut *self)?;
        self.out.push(b'}');
        Ok(())
    }
}

/// Where the first byte is that cannot stand in a JSON text as it is: a quote, a backslash, a control character.
fn first_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (quotes, backslashes) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
        // In each byte the high bit: set where a subtraction borrows, which it does first at the first byte sought.
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (below | (quotes.wrapping_sub(ONES) & !quotes) | (backslashes.wrapping_sub(ONES) & !backslashes)) & HIGHS;
        if found != 0 {
            return Some(i * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    rest.iter().position(is_special).map(|at| words.len() * 8 + at)
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = serde_json::Error;
    type SerializeSeq = Many<'a>;
    type SerializeTuple = Many<'a>;
    type SerializeTupleStruct = Many<'a>;
    type SerializeTupleVariant = Many<'a>;
    type SerializeMap = Many<'a>;
    type SerializeStruct = Many<'a>;
    type SerializeStructVariant = Many<'a>;

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<()> {
        if value < 0 {
            self.out.push(b'-');
        }
        self.digits(value.unsigned_abs());
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<()> {
        self.as_usual(value)
    }

    fn serialize_u8(self, value: u8) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<()> {
        self.digits(value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<()> {
        self.as_usual(value)
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.as_usual(value)
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        self.as_usual(value)
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.text(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _idx: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _idx: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.named(variant, value)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Many<'a>> {
        Ok(Many::begin(self, b'[', b"]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Many<'a>> {
        Ok(Many::begin(self, b'[', b"]"))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Many<'a>> {
        Ok(Many::begin(self, b'[', b"]"))
    }

    fn serialize_tuple_variant(self, _name: &'static str, _idx: u32, variant: &'static str, _len: usize) -> Result<Many<'a>> {
        Ok(Many::begin_variant(self, variant, b'[', b"]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Many<'a>> {
        Ok(Many::begin(self, b'{', b"}"))
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Many<'a>> {
        Ok(Many::begin(self, b'{', b"}"))
    }

    fn serialize_struct_variant(self, _name: &'static str, _idx: u32, variant: &'static str, _len: usize) -> Result<Many<'a>> {
        Ok(Many::begin_variant(self, variant, b'{', b"}}"))
    }
}

/// A list or an object that is being written.
struct Many<'a> {
    writer: &'a mut Writer,
    is_empty: bool,
    end: &'static [u8],
}

impl<'a> Many<'a> {
    fn begin(writer: &'a mut Writer, start: u8, end: &'static [u8]) -> Self {
        writer.out.push(start);
        Self { writer, is_empty: true, end }
    }

    fn begin_variant(writer: &'a mut Writer, variant: &str, start: u8, end: &'static [u8]) -> Self {
        writer.out.push(b'{');
        writer.text(variant);
        writer.out.push(b':');
        Self::begin(writer, start, end)
    }

    fn comma(&mut self) {
        if !self.is_empty {
            self.writer.out.push(b',');
        }
        self.is_empty = false;
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.comma();
        value.serialize(&mut *self.writer)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        self.comma();
        self.writer.text(name);
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn finish(self) {
        self.writer.out.extend_from_slice(self.end);
    }
}

macro_rules! lists {
    ($($kind:ident $method:ident),*) => {$(
        impl ser::$kind for Many<'_> {
            type Ok = ();
            type Error = serde_json::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.item(value)
            }

            fn end(self) -> Result<()> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

lists! { SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field }

macro_rules! structs {
    ($($kind:ident),*) => {$(
        impl ser::$kind for Many<'_> {
            type Ok = ();
            type Error = serde_json::Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.field(name, value)
            }

            fn end(self) -> Result<()> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

structs! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Many<'_> {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.comma();
        let from = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        match self.writer.out.get(from) {
            Some(b'"') => Ok(()),
            _ => Err(wrong("the key of an object is not a text")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<()> {
        self.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Every {
        Unit,
        One(f64),
        Two(i64, u8),
        Fields { a: Option<char>, b: (f32, bool) },
    }

    #[derive(serde::Serialize)]
    struct Whole<'a> {
        text: &'a str,
        all: Vec<Every>,
        map: BTreeMap<String, i128>,
        none: Option<()>,
    }

    fn check(record: &impl Serialize) {
        let (ours, theirs) = (to_vec(record).unwrap(), serde_json::to_vec(record).unwrap());
        assert_eq!(String::from_utf8(ours).unwrap(), String::from_utf8(theirs).unwrap());
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_serde_json(
            text in any::<String>(),
            key in "[\\x00-\\x7f]{0,40}",
            float in any::<f64>().prop_filter("finite", |x| x.is_finite()),
            small in any::<f32>().prop_filter("finite", |x| x.is_finite()),
            int in any::<i64>(),
            wide in any::<i128>(),
            letter in any::<Option<char>>(),
        ) {
            let all = vec![Every::Unit, Every::One(float), Every::Two(int, 7), Every::Fields { a: letter, b: (small, true) }];
            check(&Whole { text: &text, all, map: [(key, wide)].into(), none: None });
        }
    }

    #[test]
    fn every_byte_is_found_at_every_place() {
        for byte in (0..0x20).chain([b'"', b'\\', b' ', b'!', b'#', b'[', b']', 0x7f]) {
            for n_before in 0..20 {
                let text = format!("{}{}é rest", "x".repeat(n_before), char::from(byte));
                check(&text);
            }
        }
        check(&Vec::<u8>::new());
        check(&[f64::MAX, -0.0, 1e16, 0.1]);
        assert!(to_vec(&BTreeMap::from([(vec![1], 2)])).is_err());
    }
}
