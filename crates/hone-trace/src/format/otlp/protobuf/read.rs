//! Reading protobuf by the table.

use super::shape::{Kind, Shape};
use crate::format::{FormatError, LIST_LEN_MAX};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Map, Value};

/// How deep messages may nest: in JSON that is at most twice as deep, and must be readable there.
const DEPTH_MAX: usize = 28;
/// How many messages one document may hold. Each costs some hundred bytes of memory, and may be only two bytes long.
const N_MESSAGES_MAX: usize = 1 << 20;

/// A field as it stands on the wire.
enum Raw<'a> {
    Varint(u64),
    Eight([u8; 8]),
    Bytes(&'a [u8]),
    Four([u8; 4]),
}

/// Reads one document.
#[derive(Default)]
pub(super) struct Reader {
    n_messages: usize,
    /// Whether messages that nest too deep are left empty, and not refused.
    is_in_parts: bool,
}

impl Reader {
    pub(super) fn in_parts() -> Self {
        Self { n_messages: 0, is_in_parts: true }
    }

    /// Reads a message into its fields. Fields that come twice follow protobuf: lists and messages grow, others are replaced.
    pub(super) fn message(
        &mut self,
        shape: &Shape,
        mut bytes: &[u8],
        depth: usize,
        into: &mut Map<String, Value>,
    ) -> Result<(), FormatError> {
        self.n_messages += 1;
        // A message is at least one level of JSON, so that what is left empty here is too deep there as well.
        if self.is_in_parts && depth > crate::format::DEPTH_MAX {
            return Ok(());
        }
        if !self.is_in_parts && depth > DEPTH_MAX {
            return Err(wrong(format!("messages are nested deeper than {DEPTH_MAX} levels")));
        }
        if self.n_messages > N_MESSAGES_MAX {
            return Err(wrong(format!("there are more than {N_MESSAGES_MAX} messages in one request: send it in parts")));
        }
        while !bytes.is_empty() {
            let (number, raw) = field(&mut bytes)?;
            let Some(field) = shape.fields.iter().find(|field| field.number == number) else { continue };
            if shape.is_one_of {
                into.retain(|name, _| name == field.name);
            }
            match (&field.kind, raw) {
                (Kind::One(inner), Raw::Bytes(bytes)) => {
                    let Some(fields) = into.entry(field.name).or_insert_with(|| Map::new().into()).as_object_mut() else {
                        continue;
                    };
                    self.message(inner, bytes, depth + 1, fields).map_err(|error| inside(field.name, error))?;
                }
                (Kind::Many(inner), Raw::Bytes(bytes)) => {
                    let Some(list) = into.entry(field.name).or_insert_with(|| Vec::<Value>::new().into()).as_array_mut() else {
                        continue;
                    };
                    let place = || format!("{}[{}]", field.name, list.len());
                    if list.len() == LIST_LEN_MAX {
                        return Err(FormatError::new(place(), format!("the list has more than {LIST_LEN_MAX} entries")));
                    }
                    let mut fields = Map::new();
                    self.message(inner, bytes, depth + 1, &mut fields).map_err(|error| inside(&place(), error))?;
                    list.push(Value::Object(fields));
                }
                (kind, raw) => {
                    let value = scalar(kind, &raw).map_err(|reason| FormatError::new(field.name, reason))?;
                    into.insert(field.name.to_owned(), value);
                }
            }
        }
        Ok(())
    }
}

fn scalar(kind: &Kind, raw: &Raw<'_>) -> Result<Value, &'static str> {
    Ok(match (kind, raw) {
        (Kind::Text, Raw::Bytes(bytes)) => std::str::from_utf8(bytes).map_err(|_| "the text is not UTF-8")?.into(),
        (Kind::Hex, Raw::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        (Kind::Bytes, Raw::Bytes(bytes)) => BASE64_STANDARD.encode(bytes).into(),
        (Kind::Bool, Raw::Varint(n)) => (*n != 0).into(),
        (Kind::Double, Raw::Eight(bytes)) => double(f64::from_le_bytes(*bytes)),
        (Kind::Fixed64, Raw::Eight(bytes)) => u64::from_le_bytes(*bytes).to_string().into(),
        (Kind::Int64, Raw::Varint(n)) => n.cast_signed().to_string().into(),
        (Kind::Fixed32, Raw::Four(bytes)) => u32::from_le_bytes(*bytes).into(),
        // Protobuf cuts a number that is too long for its field.
        (Kind::Int32, Raw::Varint(n)) => (*n as u32).into(),
        _ => return Err("the field is not of the type that OTLP gives it"),
    })
}

/// A number, or the word that JSON has for one that it cannot hold.
fn double(number: f64) -> Value {
    let word = if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    if number.is_finite() { number.into() } else { word.into() }
}

/// Takes the next field off the bytes.
fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Raw<'a>), FormatError> {
    let tag = varint(bytes)?;
    let raw = match tag & 7 {
        0 => Raw::Varint(varint(bytes)?),
        1 => Raw::Eight(array(bytes)?),
        2 => {
            let len = usize::try_from(varint(bytes)?).map_err(|_| cut())?;
            Raw::Bytes(take(bytes, len)?)
        }
        5 => Raw::Four(array(bytes)?),
        wire => return Err(wrong(format!("wire type {wire} is not known: this is no OTLP in protobuf"))),
    };
    match tag >> 3 {
        0 => Err(wrong("there is no field 0: this is no OTLP in protobuf")),
        number => Ok((number, raw)),
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, FormatError> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let [byte] = array(bytes)?;
        // The tenth byte has one bit left that counts; what goes over is cut, as protobuf does.
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(wrong("a number has more than ten bytes: this is no OTLP in protobuf"))
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FormatError> {
    take(bytes, N)?.try_into().map_err(|_| cut())
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], FormatError> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(cut)?;
    *bytes = rest;
    Ok(taken)
}

fn cut() -> FormatError {
    wrong("the message ends in the middle of a field")
}

fn wrong(reason: impl Into<String>) -> FormatError {
    FormatError::new("", reason)
}

/// Puts a step of the path before what was said further in.
fn inside(step: &str, mut error: FormatError) -> FormatError {
    error.path = if error.path.is_empty() { step.to_owned() } else { format!("{step}.{}", error.path) };
    error
}
