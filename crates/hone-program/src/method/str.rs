//! Methods of texts.

use std::rc::Rc;

use super::{MethodName, arguments_of, letter, need_int, need_str, no_attribute};
use crate::code::Conversion;
use crate::context::{Context, check_count};
use crate::fault::Fault;
use crate::invoke::Keywords;
use crate::text::Writer;
use crate::value::{Growing, Str, Value};

impl Context {
    pub(super) fn str_method(
        &mut self,
        receiver: &Value,
        text: &Rc<Str>,
        name: MethodName,
        arguments: &[Value],
        keywords: Keywords<'_>,
    ) -> Result<Value, Fault> {
        self.meter.spend(1 + text.text.len() as u64 / 16)?;
        let is_ascii = text.n_chars == text.text.len();
        self.meter.spend(lookups(name, is_ascii) * text.n_chars as u64)?;
        match name {
            MethodName::Join => {
                check_count("join", arguments.len(), 1, 1)?;
                let parts = self.collect(&arguments[0])?;
                self.meter.spend(parts.len() as u64)?;
                self.join(&text.text, &parts)
            }
            MethodName::Split | MethodName::RSplit => {
                let [separator, n_max] = arguments_of(name.text(), arguments, keywords, ["sep", "maxsplit"], 0)?;
                self.split(&text.text, &separator, &n_max, name == MethodName::RSplit)
            }
            MethodName::SplitLines => {
                check_count("splitlines", arguments.len(), 0, 0)?;
                self.list_of_texts(text.text.lines())
            }
            MethodName::Format => self.format_template(&text.text, arguments, keywords),
            MethodName::Replace => {
                let [old, new, n_max] = arguments_of("replace", arguments, keywords, ["old", "new", "count"], 2)?;
                self.replace(&text.text, need_str(&old, "the old text")?, need_str(&new, "the new text")?, &n_max)
            }
            MethodName::Strip | MethodName::LStrip | MethodName::RStrip => {
                check_count(name.text(), arguments.len(), 0, 1)?;
                self.strip(&text.text, name, arguments.first())
            }
            MethodName::StartsWith | MethodName::EndsWith => self.starts_or_ends(text, name, arguments),
            MethodName::Find | MethodName::RFind | MethodName::Index | MethodName::RIndex | MethodName::Count => {
                self.find(text, name, arguments)
            }
            MethodName::RemovePrefix | MethodName::RemoveSuffix => {
                check_count(name.text(), arguments.len(), 1, 1)?;
                let part = need_str(&arguments[0], "the part")?;
                let rest = match name {
                    MethodName::RemovePrefix => text.text.strip_prefix(part),
                    _ => text.text.strip_suffix(part),
                };
                self.meter.str(rest.unwrap_or(&text.text))
            }
            MethodName::Partition | MethodName::RPartition => {
                check_count(name.text(), arguments.len(), 1, 1)?;
                self.partition(&text.text, need_str(&arguments[0], "the separator")?, name == MethodName::RPartition)
            }
            MethodName::Center | MethodName::LJust | MethodName::RJust | MethodName::ZFill => self.justify(text, name, arguments),
            MethodName::Upper if is_ascii => self.meter.string(text.text.to_ascii_uppercase()),
            MethodName::Lower | MethodName::CaseFold if is_ascii => self.meter.string(text.text.to_ascii_lowercase()),
            MethodName::Upper => self.meter.string(text.text.to_uppercase()),
            MethodName::Lower => self.meter.string(text.text.to_lowercase()),
            MethodName::CaseFold => self.meter.string(letter::case_fold(&text.text)),
            MethodName::SwapCase => self.meter.string(text.text.chars().flat_map(swap_case).collect()),
            MethodName::Capitalize => self.meter.string(capitalize(&text.text)),
            MethodName::Title => self.meter.string(title(&text.text)),
            _ => {
                self.meter.spend(text.n_chars as u64 / 16)?;
                match test(&text.text, name) {
                    Some(holds) => check_count(name.text(), arguments.len(), 0, 0).map(|()| Value::Bool(holds)),
                    None => Err(no_attribute(receiver, name.text())),
                }
            }
        }
    }

    fn list_of_texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Result<Value, Fault> {
        let mut parts = Growing::new(&self.meter, 0)?;
        for text in texts {
            self.meter.spend(1)?;
            parts.push(self.meter.str(text)?)?;
        }
        parts.into_list()
    }

    fn split(&mut self, text: &str, separator: &Value, n_max: &Value, from_right: bool) -> Result<Value, Fault> {
        let n_max = match n_max {
            Value::Unset => usize::MAX,
            n => usize::try_from(need_int(n, "maxsplit")?).unwrap_or(usize::MAX),
        };
        if matches!(separator, Value::Unset | Value::None) {
            return self.split_spaces(text, n_max, from_right);
        }
        let separator = need_str(separator, "the separator")?;
        if separator.is_empty() {
            return Err(Fault::value_error("empty separator"));
        }
        let n_parts = n_max.saturating_add(1);
        if from_right {
            let mut parts: Vec<&str> = text.rsplitn(n_parts, separator).collect();
            parts.reverse();
            return self.list_of_texts(parts.into_iter());
        }
        self.list_of_texts(text.splitn(n_parts, separator))
    }

    fn split_spaces(&mut self, text: &str, n_max: usize, from_right: bool) -> Result<Value, Fault> {
        self.meter.spend(text.len() as u64 / 16)?;
        if n_max == usize::MAX {
            return self.list_of_texts(text.split_whitespace());
        }
        let mut parts = Vec::new();
        let mut rest = if from_right { text.trim_end() } else { text.trim_start() };
        while parts.len() < n_max && !rest.is_empty() {
            let cut = if from_right {
                rest.rfind(char::is_whitespace).map(|at| (rest[at..].trim_start(), rest[..at].trim_end()))
            } else {
                rest.find(char::is_whitespace).map(|at| (&rest[..at], rest[at..].trim_start()))
            };
            let (part, left) = cut.unwrap_or((rest, ""));
            parts.push(part);
            rest = left;
        }
        if !rest.is_empty() {
            parts.push(rest);
        }
        if from_right {
            parts.reverse();
        }
        self.list_of_texts(parts.into_iter())
    }

    fn replace(&mut self, text: &str, old: &str, new: &str, n_max: &Value) -> Result<Value, Fault> {
        let n_max = match n_max {
            Value::Unset => usize::MAX,
            n => usize::try_from(need_int(n, "the count")?).unwrap_or(usize::MAX),
        };
        let mut writer = Writer::new(&self.meter);
        let mut rest = 0;
        for (at, _) in text.match_indices(old).take(n_max) {
            writer.push(&text[rest..at])?;
            writer.push(new)?;
            rest = at + old.len();
        }
        writer.push(&text[rest..])?;
        writer.into_value()
    }

    fn strip(&mut self, text: &str, name: MethodName, letters: Option<&Value>) -> Result<Value, Fault> {
        let letters = match letters {
            None | Some(Value::None) => None,
            Some(letters) => Some(need_str(letters, "the letters to strip")?),
        };
        self.meter.spend((text.len() as u64).saturating_mul(letters.map_or(1, str::len) as u64) / 16)?;
        let is_stripped = |letter: char| letters.map_or(letter.is_whitespace(), |letters| letters.contains(letter));
        let mut rest = text;
        if name != MethodName::RStrip {
            rest = rest.trim_start_matches(is_stripped);
        }
        if name != MethodName::LStrip {
            rest = rest.trim_end_matches(is_stripped);
        }
        self.meter.str(rest)
    }

    fn starts_or_ends(&mut self, text: &Rc<Str>, name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        check_count(name.text(), arguments.len(), 1, 3)?;
        let part = self.section(text, arguments)?;
        let section = &text.text[part];
        let holds = |part: &str| match name {
            MethodName::StartsWith => section.starts_with(part),
            _ => section.ends_with(part),
        };
        if let Some(parts) = arguments[0].as_tuple() {
            for idx in 0..parts.len() {
                self.meter.spend(1)?;
                if holds(need_str(&parts.get(idx, &self.meter)?, "each part")?) {
                    return Ok(Value::Bool(true));
                }
            }
            return Ok(Value::Bool(false));
        }
        Ok(Value::Bool(holds(need_str(&arguments[0], "the part")?)))
    }

    /// The bytes between the second and third argument, which count characters.
    fn section(&self, text: &Str, arguments: &[Value]) -> Result<std::ops::Range<usize>, Fault> {
        let byte_at = |place: usize| {
            if text.n_chars == text.text.len() {
                return place;
            }
            text.text.char_indices().nth(place).map_or(text.text.len(), |(byte, _)| byte)
        };
        let bound = |idx: usize, default: usize| match arguments.get(idx) {
            None | Some(Value::None) => Ok(default),
            Some(value) => {
                let place = need_int(value, "the bound")?;
                let place = if place < 0 { place.saturating_add(text.n_chars as i64) } else { place };
                Ok(usize::try_from(place).unwrap_or(0).min(text.n_chars))
            }
        };
        let (start, stop) = (bound(1, 0)?, bound(2, text.n_chars)?);
        if text.n_chars < text.text.len() {
            self.meter.spend((start + stop) as u64 / 16)?;
        }
        Ok(byte_at(start.min(stop))..byte_at(stop))
    }

    fn find(&mut self, text: &Rc<Str>, name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        check_count(name.text(), arguments.len(), 1, 3)?;
        let part = need_str(&arguments[0], "the part")?;
        let section = self.section(text, arguments)?;
        let start = section.start;
        let within = &text.text[section];
        self.meter.spend(within.len() as u64 / 8)?;
        if name == MethodName::Count {
            let n_found = if part.is_empty() { within.chars().count() + 1 } else { within.matches(part).count() };
            return Ok(Value::Int(n_found as i64));
        }
        let found = match name {
            MethodName::Find | MethodName::Index => within.find(part),
            _ => within.rfind(part),
        };
        match found {
            Some(byte) => Ok(Value::Int(text.text[..start + byte].chars().count() as i64)),
            None if matches!(name, MethodName::Find | MethodName::RFind) => Ok(Value::Int(-1)),
            None => Err(Fault::value_error("substring not found")),
        }
    }

    fn partition(&mut self, text: &str, separator: &str, from_right: bool) -> Result<Value, Fault> {
        if separator.is_empty() {
            return Err(Fault::value_error("empty separator"));
        }
        let cut = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
        let parts = match cut {
            Some((before, after)) => [before, separator, after],
            None if from_right => ["", "", text],
            None => [text, "", ""],
        };
        let parts = parts.into_iter().map(|part| self.meter.str(part)).collect::<Result<_, _>>()?;
        self.meter.tuple(parts)
    }

    fn justify(&mut self, text: &Rc<Str>, name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        check_count(name.text(), arguments.len(), 1, 2)?;
        let width = usize::try_from(need_int(&arguments[0], "the width")?).unwrap_or(0);
        let fill = match arguments.get(1) {
            Some(fill) => need_str(fill, "the fill character")?,
            None if name == MethodName::ZFill => "0",
            None => " ",
        };
        if fill.chars().count() != 1 {
            return Err(Fault::type_error("the fill character must be exactly one character long"));
        }
        let missing = width.saturating_sub(text.n_chars);
        self.meter.spend(missing as u64 / 4)?;
        self.meter.room(missing.saturating_mul(4) + text.text.len())?;
        let (sign, body) = match name {
            MethodName::ZFill if text.text.starts_with(['+', '-']) => text.text.split_at(1),
            _ => ("", &*text.text),
        };
        let before = match name {
            MethodName::LJust => 0,
            MethodName::Center => missing / 2 + (missing & width & 1),
            _ => missing,
        };
        let padded = [sign, &fill.repeat(before), body, &fill.repeat(missing - before)].concat();
        self.meter.string(padded)
    }

    /// `"{} {name}".format(...)`.
    fn format_template(&mut self, template: &str, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
        let mut writer = Writer::new(&self.meter);
        let mut rest = template;
        let mut next = 0;
        while let Some(at) = rest.find(['{', '}']) {
            writer.push(&rest[..at])?;
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                writer.push(brace)?;
                rest = after;
                continue;
            }
            let Some(end) = rest.find('}').filter(|_| brace == "{") else {
                return Err(Fault::value_error("single brace in the format string; write it twice"));
            };
            let field = &rest[..end];
            rest = &rest[end + 1..];
            let (field, specification) = field.split_once(':').unwrap_or((field, ""));
            let (field, conversion) = match field.split_once('!') {
                Some((field, "r")) => (field, Conversion::Repr),
                Some((field, _)) => (field, Conversion::Str),
                None => (field, Conversion::None),
            };
            let value = template_value(field, &mut next, arguments, keywords)?;
            let text = self.format_value(&value, conversion, specification)?;
            writer.push(text.as_str().unwrap_or(""))?;
        }
        writer.push(rest)?;
        writer.into_value()
    }
}

fn template_value(field: &str, next: &mut usize, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
    let place = if field.is_empty() {
        *next += 1;
        Some(*next - 1)
    } else {
        field.parse().ok()
    };
    if let Some(place) = place {
        let found = arguments.get(place);
        return found.cloned().ok_or_else(|| Fault::index_error("not enough arguments for the format string"));
    }
    match keywords.iter().find(|(keyword, _)| *keyword == field) {
        Some((_, value)) => Ok(value.clone()),
        None => Err(Fault::value_error(format!("the format string needs a value for '{field}'"))),
    }
}

/// How often a method looks every letter up in a table, which takes as long as a step of a loop; others go through bytes.
fn lookups(name: MethodName, is_ascii: bool) -> u64 {
    match name {
        MethodName::SwapCase | MethodName::Capitalize | MethodName::Title | MethodName::IsTitle => 1,
        // The small form of a sigma depends on its neighbours.
        MethodName::Lower if !is_ascii => 2,
        MethodName::Upper
        | MethodName::CaseFold
        | MethodName::IsDecimal
        | MethodName::IsDigit
        | MethodName::IsNumeric
        | MethodName::IsAlpha
        | MethodName::IsAlnum
        | MethodName::IsSpace
        | MethodName::IsUpper
        | MethodName::IsLower
        | MethodName::IsIdentifier => u64::from(!is_ascii),
        _ => 0,
    }
}

fn swap_case(letter: char) -> Vec<char> {
    if letter.is_uppercase() { letter.to_lowercase().collect() } else { letter.to_uppercase().collect() }
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters.flat_map(char::to_lowercase)).collect(),
        None => String::new(),
    }
}

fn title(text: &str) -> String {
    let mut after_letter = false;
    let mut titled = String::with_capacity(text.len());
    for letter in text.chars() {
        if after_letter {
            titled.extend(letter.to_lowercase());
        } else {
            titled.extend(letter.to_uppercase());
        }
        after_letter = letter.is_alphabetic();
    }
    titled
}

/// The tests of a text that take no argument; `None` for another method.
fn test(text: &str, name: MethodName) -> Option<bool> {
    let all = |holds: fn(char) -> bool| !text.is_empty() && text.chars().all(holds);
    Some(match name {
        MethodName::IsDecimal => all(letter::is_decimal),
        MethodName::IsDigit => all(letter::is_digit),
        MethodName::IsNumeric => all(letter::is_numeric),
        MethodName::IsAlpha => all(char::is_alphabetic),
        MethodName::IsAlnum => all(char::is_alphanumeric),
        MethodName::IsSpace => all(char::is_whitespace),
        MethodName::IsAscii => text.is_ascii(),
        MethodName::IsUpper => text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
        MethodName::IsLower => text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        MethodName::IsTitle => text.chars().any(char::is_alphabetic) && title(text) == text,
        MethodName::IsIdentifier => {
            let mut letters = text.chars();
            let starts = letters.next().is_some_and(|letter| letter.is_alphabetic() || letter == '_');
            starts && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
        }
        _ => return None,
    })
}
