//! Writing protobuf by the table.

use super::super::wire;
use super::shape::{Kind, Shape};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;

/// Appends the fields of this message.
pub(super) fn message(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    for field in shape.fields {
        let Some(value) = value.get(field.name) else { continue };
        match &field.kind {
            Kind::One(inner) if value.is_object() => nested(field.number, inner, value, out),
            Kind::Many(inner) => {
                for entry in value.as_array().into_iter().flatten().filter(|entry| entry.is_object()) {
                    nested(field.number, inner, entry, out);
                }
            }
            kind => drop(scalar(field.number, kind, value, out)),
        }
    }
}

fn nested(number: u64, shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    message(shape, value, &mut inner);
    bytes(number, &inner, out);
}

/// Appends a field, unless the value is not of its kind.
fn scalar(number: u64, kind: &Kind, value: &Value, out: &mut Vec<u8>) -> Option<()> {
    match kind {
        Kind::Text => bytes(number, value.as_str()?.as_bytes(), out),
        Kind::Hex => bytes(number, &unhex(value.as_str()?)?, out),
        Kind::Bytes => bytes(number, &BASE64_STANDARD.decode(value.as_str()?).ok()?, out),
        Kind::Bool => fixed(number, 0, &[u8::from(value.as_bool()?)], out),
        Kind::Double => fixed(number, 1, &double(value)?.to_le_bytes(), out),
        Kind::Fixed64 => fixed(number, 1, &wire::integer(value)?.to_le_bytes(), out),
        Kind::Fixed32 => fixed(number, 5, &u32::try_from(value.as_u64()?).ok()?.to_le_bytes(), out),
        Kind::Int64 => varints(number, signed(value)?.cast_unsigned(), out),
        Kind::Int32 => varints(number, value.as_u64()?, out),
        Kind::One(_) | Kind::Many(_) => {}
    }
    Some(())
}

fn signed(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn double(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?).ok();
    text.as_bytes().chunks(2).map(byte).collect()
}

fn bytes(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn fixed(number: u64, wire: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | wire, out);
    out.extend_from_slice(bytes);
}

fn varints(number: u64, value: u64, out: &mut Vec<u8>) {
    varint(number << 3, out);
    varint(value, out);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
