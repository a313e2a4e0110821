//! Formatting: the small language of f-strings and `format`, and the older one of `%`.

use crate::code::Conversion;
use crate::context::Context;
use crate::decimal;
use crate::fault::Fault;
use crate::number::Number;
use crate::text::Writer;
use crate::value::Value;

/// Characters that a format may pad to, or digits it may ask for.
const WIDTH_MAX: usize = 4096;

/// `[[fill]align][sign][#][0][width][,][.precision][type]`.
#[derive(Debug, Default)]
struct Specification {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    group: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

fn bad(specification: &str) -> Fault {
    Fault::value_error(format!("invalid format specifier '{specification}'"))
}

impl Specification {
    fn parse(text: &str) -> Result<Self, Fault> {
        let letters: Vec<char> = text.chars().take(64).collect();
        let mut spec = Self::default();
        let mut at = 0;
        let is_align = |letter: Option<&char>| matches!(letter, Some('<' | '>' | '^' | '='));
        if is_align(letters.get(1)) {
            spec.fill = Some(letters[0]);
            spec.align = Some(letters[1]);
            at = 2;
        } else if is_align(letters.first()) {
            spec.align = Some(letters[0]);
            at = 1;
        }
        if let Some(sign @ ('+' | '-' | ' ')) = letters.get(at) {
            spec.sign = Some(*sign);
            at += 1;
        }
        if letters.get(at) == Some(&'#') {
            spec.alternate = true;
            at += 1;
        }
        if letters.get(at) == Some(&'0') {
            spec.zero = true;
            at += 1;
        }
        spec.width = digits(&letters, &mut at, text)?.unwrap_or(0);
        if let Some(group @ (',' | '_')) = letters.get(at) {
            spec.group = Some(*group);
            at += 1;
        }
        if letters.get(at) == Some(&'.') {
            at += 1;
            spec.precision = Some(digits(&letters, &mut at, text)?.ok_or_else(|| bad(text))?);
        }
        if let Some(kind) = letters.get(at) {
            spec.kind = Some(*kind);
            at += 1;
        }
        if at < letters.len() { Err(bad(text)) } else { Ok(spec) }
    }
}

fn digits(letters: &[char], at: &mut usize, text: &str) -> Result<Option<usize>, Fault> {
    let start = *at;
    let mut number = 0_usize;
    while let Some(digit) = letters.get(*at).and_then(|letter| letter.to_digit(10)) {
        number = number.saturating_mul(10).saturating_add(digit as usize);
        *at += 1;
    }
    if number > WIDTH_MAX {
        return Err(Fault::value_error(format!("a format wider than {WIDTH_MAX}: '{text}'")));
    }
    Ok((*at > start).then_some(number))
}

impl Context {
    /// A value as an f-string shows it.
    pub(crate) fn format_value(&mut self, value: &Value, conversion: Conversion, specification: &str) -> Result<Value, Fault> {
        let text = match conversion {
            Conversion::None if specification.is_empty() => self.text_of(value)?,
            Conversion::None => self.format_text(value, specification)?,
            Conversion::Str | Conversion::Repr => {
                let text = if conversion == Conversion::Str { self.text_of(value)? } else { self.repr(value)? };
                if specification.is_empty() {
                    text
                } else {
                    let text = self.meter.string(text)?;
                    self.format_text(&text, specification)?
                }
            }
        };
        self.meter.string(text)
    }

    /// `format(value, specification)`.
    pub(crate) fn format_text(&mut self, value: &Value, specification: &str) -> Result<String, Fault> {
        if specification.is_empty() {
            return self.text_of(value);
        }
        let spec = Specification::parse(specification)?;
        self.meter.spend(1 + (spec.width + spec.precision.unwrap_or(0)) as u64 / 8)?;
        if let Value::Str(_) = value {
            if !matches!(spec.kind, None | Some('s')) {
                return Err(bad(specification));
            }
            let text = self.text_of(value)?;
            let text = match spec.precision {
                Some(precision) => text.chars().take(precision).collect(),
                None => text,
            };
            return Ok(pad(&text, &spec, '<'));
        }
        let Some(number) = Number::of(value) else {
            return Err(Fault::type_error(format!(
                "unsupported format string for '{}'; make a str of it first",
                value.type_name()
            )));
        };
        let (negative, prefix, body) = self.format_number(number, &spec, specification)?;
        Ok(pad_number(negative, &prefix, &body, &spec))
    }

    /// Sign, prefix and digits of a number.
    fn format_number(&self, number: Number<'_>, spec: &Specification, text: &str) -> Result<(bool, String, String), Fault> {
        let kind = spec.kind;
        if let (Number::Int(_) | Number::Big(_), None | Some('d' | 'b' | 'o' | 'x' | 'X' | 'c' | 'n')) = (number, kind) {
            return self.format_int(number, spec, text);
        }
        let float = number.float()?;
        let precision = spec.precision.unwrap_or(6);
        let magnitude = float.abs();
        let negative = float.is_sign_negative() && !float.is_nan();
        if !float.is_finite() {
            return Ok((negative, String::new(), if float.is_nan() { "nan".into() } else { "inf".into() }));
        }
        decimal::spend_digits(float, precision as u64 / 4, &self.meter)?;
        let body = match kind {
            Some('f' | 'F') => format!("{magnitude:.precision$}"),
            Some('%') => format!("{:.precision$}%", magnitude * 100.0),
            Some('e' | 'E') => exponent_text(magnitude, precision),
            Some('g' | 'G') => general_text(magnitude, precision, spec.alternate),
            None if spec.precision.is_some() => {
                let general = general_text(magnitude, precision, false);
                if general.contains(['.', 'e']) { general } else { general + ".0" }
            }
            None => decimal::float_text(magnitude),
            _ => return Err(bad(text)),
        };
        let body = if matches!(kind, Some('E' | 'G')) { body.to_uppercase() } else { body };
        Ok((negative, String::new(), grouped(&body, spec.group)))
    }

    fn format_int(&self, number: Number<'_>, spec: &Specification, text: &str) -> Result<(bool, String, String), Fault> {
        if spec.precision.is_some() {
            return Err(Fault::value_error("precision not allowed in integer format specifier"));
        }
        let big = match number {
            Number::Int(_) | Number::Big(_) => number.big(),
            Number::Float(_) => return Err(bad(text)),
        };
        let negative = big.sign() == num_bigint::Sign::Minus;
        let magnitude = big.magnitude();
        self.meter.spend(1 + magnitude.bits() / 8)?;
        self.meter.room(magnitude.bits() as usize)?;
        let (prefix, body) = match spec.kind {
            Some('b') => ("0b", magnitude.to_str_radix(2)),
            Some('o') => ("0o", magnitude.to_str_radix(8)),
            Some('x') => ("0x", magnitude.to_str_radix(16)),
            Some('X') => ("0X", magnitude.to_str_radix(16).to_uppercase()),
            Some('c') => ("", u32::try_from(magnitude).ok().and_then(char::from_u32).map_or(String::new(), String::from)),
            _ => ("", decimal::digits(&big, &self.meter)?.trim_start_matches('-').to_owned()),
        };
        Ok((negative, if spec.alternate { prefix.into() } else { String::new() }, grouped(&body, spec.group)))
    }

    /// `template % values`.
    pub(crate) fn format_percent(&mut self, template: &Value, values: &Value) -> Result<Value, Fault> {
        let text = self.text_of(template)?;
        let arguments = if values.as_tuple().is_some() { self.collect(values)? } else { vec![values.clone()] };
        let mut arguments = arguments.into_iter();
        let mut writer = Writer::new(&self.meter);
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                writer.push_char(letter)?;
                continue;
            }
            let mut spec = String::new();
            let kind = loop {
                match letters.next() {
                    Some(letter @ ('0'..='9' | '.' | '-' | '+' | ' ' | '#')) if spec.len() < 32 => spec.push(letter),
                    Some(letter) => break letter,
                    None => return Err(Fault::value_error("incomplete format")),
                }
            };
            if kind == '%' {
                writer.push("%")?;
                continue;
            }
            let Some(value) = arguments.next() else {
                return Err(Fault::type_error("not enough arguments for format string"));
            };
            writer.push(&self.percent_part(&value, &spec, kind)?)?;
        }
        if arguments.next().is_some() {
            return Err(Fault::type_error("not all arguments converted during string formatting"));
        }
        writer.into_value()
    }

    fn percent_part(&mut self, value: &Value, spec: &str, kind: char) -> Result<String, Fault> {
        let (align, spec) = match spec.strip_prefix('-') {
            Some(rest) => ("<", rest),
            None => (">", spec),
        };
        match kind {
            's' | 'r' => {
                let text = if kind == 's' { self.text_of(value)? } else { self.repr(value)? };
                let text = self.meter.string(text)?;
                self.format_text(&text, &format!("{align}{spec}"))
            }
            'd' | 'i' | 'u' => {
                let number = match Number::of(value) {
                    Some(Number::Float(float)) => decimal::truncate(float, &self.meter)?,
                    Some(_) => value.clone(),
                    None => {
                        return Err(Fault::type_error(format!(
                            "%d format: a real number is required, not {}",
                            value.type_name()
                        )));
                    }
                };
                let align = if spec.starts_with('0') { "" } else { align };
                self.format_text(&number, &format!("{align}{spec}d"))
            }
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'x' | 'X' | 'o' | 'c' => {
                if let (Value::Str(_), 'c') = (value, kind) {
                    return self.text_of(value);
                }
                if Number::of(value).is_none() {
                    return Err(Fault::type_error(format!("must be real number, not {}", value.type_name())));
                }
                let align = if spec.starts_with('0') { "" } else { align };
                self.format_text(value, &format!("{align}{spec}{kind}"))
            }
            other => Err(Fault::value_error(format!("unsupported format character '{other}'"))),
        }
    }
}

fn exponent_text(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn general_text(magnitude: f64, precision: usize, keep_zeros: bool) -> String {
    let precision = precision.max(1);
    let scientific = exponent_text(magnitude, precision - 1);
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let strip = |text: &str| {
        if keep_zeros || !text.contains('.') {
            return text.to_owned();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if magnitude != 0.0 && (exponent < -4 || exponent >= precision as i32) {
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
        return format!("{}e{exponent}", strip(mantissa));
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    strip(&format!("{magnitude:.decimals$}"))
}

/// Digits before the point in groups of three.
fn grouped(body: &str, separator: Option<char>) -> String {
    let Some(separator) = separator else { return body.to_owned() };
    let end = body.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(body.len());
    let (whole, rest) = body.split_at(end);
    let mut text = String::new();
    for (idx, letter) in whole.chars().enumerate() {
        if idx > 0 && (whole.len() - idx).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(letter);
    }
    text + rest
}

fn pad(text: &str, spec: &Specification, default: char) -> String {
    let missing = spec.width.saturating_sub(text.chars().count());
    let fill = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
    let (before, after) = match spec.align.unwrap_or(default) {
        '<' => (0, missing),
        '^' => (missing / 2, missing - missing / 2),
        _ => (missing, 0),
    };
    let fill = |n: usize| std::iter::repeat_n(fill, n).collect::<String>();
    format!("{}{text}{}", fill(before), fill(after))
}

fn pad_number(negative: bool, prefix: &str, body: &str, spec: &Specification) -> String {
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    if spec.align == Some('=') || spec.align.is_none() && spec.zero {
        let missing = spec.width.saturating_sub(sign.len() + prefix.len() + body.chars().count());
        let fill = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
        let fill: String = std::iter::repeat_n(fill, missing).collect();
        return format!("{sign}{prefix}{fill}{body}");
    }
    pad(&format!("{sign}{prefix}{body}"), spec, '>')
}
