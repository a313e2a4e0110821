//! Values as text: `str`, `repr`, `join`.

use crate::context::Context;
use crate::decimal;
use crate::fault::Fault;
use crate::kind::Type;
use crate::meter::{Charge, Meter};
use crate::order::NESTING_MAX;
use crate::packed::{Items, Shape};
use crate::value::{HEAD_BYTES, Value};

/// A text that grows, counted before it does.
#[derive(Debug)]
pub(crate) struct Writer {
    text: String,
    charge: Charge,
    room: usize,
}

impl Writer {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self { text: String::new(), charge: meter.nothing(), room: 0 }
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), Fault> {
        let len = self.text.len() + text.len();
        self.charge.meter().spend(2 + text.len() as u64 / 8)?;
        if len > self.room {
            let room = (self.room * 2).max(len).max(64);
            self.charge.resize(HEAD_BYTES + room)?;
            self.text.reserve_exact(room - self.text.len());
            self.room = room;
        }
        self.text.push_str(text);
        Ok(())
    }

    pub(crate) fn push_char(&mut self, letter: char) -> Result<(), Fault> {
        self.push(letter.encode_utf8(&mut [0; 4]))
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }

    pub(crate) fn into_value(self) -> Result<Value, Fault> {
        let Self { text, charge, .. } = self;
        let meter = charge.meter().clone();
        drop(charge);
        meter.string(text)
    }
}

impl Context {
    /// A value as `str` shows it.
    pub(crate) fn text_of(&mut self, value: &Value) -> Result<String, Fault> {
        match value {
            Value::Str(text) => {
                self.meter.spend(text.text.len() as u64 / 16)?;
                self.meter.room(text.text.len())?;
                Ok(text.text.to_string())
            }
            Value::Int(number) => {
                self.meter.spend(1)?;
                Ok(number.to_string())
            }
            Value::Exception(exception) => match exception.arguments.as_tuple() {
                Some(Items::Plain([only])) if exception.kind == Type::KeyError => self.repr(&only.clone()),
                Some(Items::Plain([only])) => self.text_of(&only.clone()),
                Some(Items::Plain([])) => Ok(String::new()),
                _ => self.repr(&exception.arguments.clone()),
            },
            other => self.repr(other),
        }
    }

    /// A value as `repr` shows it.
    pub fn repr(&self, value: &Value) -> Result<String, Fault> {
        let mut writer = Writer::new(&self.meter);
        self.write_repr(value, &mut writer, 0)?;
        Ok(writer.into_string())
    }

    fn write_repr(&self, value: &Value, writer: &mut Writer, depth: usize) -> Result<(), Fault> {
        if depth > NESTING_MAX {
            return Err(Fault::depth("values", NESTING_MAX));
        }
        match value {
            Value::Unset => writer.push("<unset>"),
            Value::None => writer.push("None"),
            Value::Bool(truth) => writer.push(if *truth { "True" } else { "False" }),
            Value::Int(number) => writer.push(&number.to_string()),
            Value::Big(big) => writer.push(&decimal::digits(&big.number, &self.meter)?),
            Value::Float(number) => writer.push(&decimal::float_text(*number)),
            Value::Str(text) => write_quoted(&text.text, writer),
            Value::List(list) => self.write_items(Items::Plain(&list.items.borrow()), ("[", "]"), writer, depth),
            Value::Set(set) if set.items.borrow().is_empty() => writer.push("set()"),
            Value::Set(set) => self.write_items(Items::Plain(&set.items.borrow()), ("{", "}"), writer, depth),
            Value::Dict(dict) => self.write_dict(dict, writer, depth),
            Value::Range(range) if range.step == 1 => writer.push(&format!("range({}, {})", range.start, range.stop)),
            Value::Range(range) => writer.push(&format!("range({}, {}, {})", range.start, range.stop, range.step)),
            Value::Type(kind) => writer.push(&format!("<class '{}'>", kind.name())),
            Value::Native(native) => writer.push(&format!("<function {}>", native.name())),
            Value::Function(_) => writer.push("<function>"),
            Value::Method(_) => writer.push("<method>"),
            Value::Module(module) => writer.push(&format!("<module '{}'>", module.name())),
            Value::Iterator(_) | Value::Cell(_) => writer.push("<iterator>"),
            Value::Exception(exception) => {
                writer.push(exception.kind.name())?;
                match exception.arguments.as_tuple() {
                    Some(Items::Plain([only])) => {
                        writer.push("(")?;
                        self.write_repr(only, writer, depth + 1)?;
                        writer.push(")")
                    }
                    _ => self.write_repr(&exception.arguments, writer, depth + 1),
                }
            }
            Value::Tuple(_) | Value::Pair(_) | Value::FrozenSet(_) | Value::Packed(_) => match value.container() {
                Some((Shape::Tuple, items)) => {
                    let end = if items.len() == 1 { ",)" } else { ")" };
                    self.write_items(items, ("(", end), writer, depth)
                }
                Some((Shape::FrozenSet, items)) if items.is_empty() => writer.push("frozenset()"),
                Some((Shape::FrozenSet, items)) => self.write_items(items, ("frozenset({", "})"), writer, depth),
                None => Ok(()),
            },
        }
    }

    fn write_items(&self, items: Items<'_>, (start, end): (&str, &str), writer: &mut Writer, depth: usize) -> Result<(), Fault> {
        writer.push(start)?;
        for idx in 0..items.len() {
            if idx > 0 {
                writer.push(", ")?;
            }
            match items {
                Items::Plain(items) => self.write_repr(&items[idx], writer, depth + 1)?,
                Items::Packed(packed) => self.write_repr(&packed.item(idx, &self.meter)?, writer, depth + 1)?,
            }
        }
        writer.push(end)
    }

    fn write_dict(&self, dict: &crate::dict::Dict, writer: &mut Writer, depth: usize) -> Result<(), Fault> {
        let (start, end) = match dict.kind {
            Type::Counter => ("Counter({", "})"),
            Type::DefaultDict => ("defaultdict({", "})"),
            _ => ("{", "}"),
        };
        writer.push(start)?;
        for (idx, (key, value)) in dict.entries()?.into_iter().enumerate() {
            if idx > 0 {
                writer.push(", ")?;
            }
            self.write_repr(&key, writer, depth + 1)?;
            writer.push(": ")?;
            self.write_repr(&value, writer, depth + 1)?;
        }
        writer.push(end)
    }

    /// Texts with a separator between them.
    pub(crate) fn join(&self, separator: &str, parts: &[Value]) -> Result<Value, Fault> {
        let mut writer = Writer::new(&self.meter);
        for (idx, part) in parts.iter().enumerate() {
            if idx > 0 {
                writer.push(separator)?;
            }
            match part.as_str() {
                Some(text) => writer.push(text)?,
                None => {
                    let words = format!("sequence item {idx}: expected str instance, {} found", part.type_name());
                    return Err(Fault::type_error(words));
                }
            }
        }
        writer.into_value()
    }
}

/// A text in quotes, with what cannot be seen escaped.
fn write_quoted(text: &str, writer: &mut Writer) -> Result<(), Fault> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    writer.push_char(quote)?;
    let mut start = 0;
    for (byte, letter) in text.char_indices() {
        let escaped = match letter {
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\\' => "\\\\".to_owned(),
            letter if letter == quote => format!("\\{letter}"),
            letter if (letter as u32) < 32 || letter as u32 == 127 => format!("\\x{:02x}", letter as u32),
            letter if (128..161).contains(&(letter as u32)) || letter as u32 == 173 => format!("\\x{:02x}", letter as u32),
            _ => continue,
        };
        writer.push(&text[start..byte])?;
        writer.push(&escaped)?;
        start = byte + letter.len_utf8();
    }
    writer.push(&text[start..])?;
    writer.push_char(quote)
}
