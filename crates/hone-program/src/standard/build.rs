//! Types as functions: `int("3")`, `list(x)`, `ValueError("no")`.

use num_bigint::BigInt;

use crate::context::{Context, check_count};
use crate::decimal;
use crate::fault::Fault;
use crate::invoke::Keywords;
use crate::kind::Type;
use crate::method::{arguments_of, need_int, need_str};
use crate::number::{DIGITS_MAX, Number};
use crate::value::Value;

impl Context {
    /// Calls a type.
    pub(crate) fn construct(&mut self, kind: Type, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
        self.meter.spend(1)?;
        if kind.is_exception() {
            return self.meter.exception(kind, arguments.to_vec());
        }
        match kind {
            Type::Dict | Type::DefaultDict | Type::Counter => return self.construct_dict(kind, arguments, keywords),
            Type::Int => return self.construct_int(&arguments_of("int", arguments, keywords, ["x", "base"], 0)?),
            Type::List if !keywords.is_empty() => {
                let [iterable, n_max] = arguments_of("deque", arguments, keywords, ["iterable", "maxlen"], 0)?;
                if !matches!(n_max, Value::None | Value::Unset) {
                    return Err(Fault::type_error("a deque with maxlen is not part of the subset"));
                }
                return self.construct(Type::List, &[iterable], &[]);
            }
            _ => {}
        }
        if let Some((keyword, _)) = keywords.first() {
            return Err(Fault::type_error(format!("{}() has no parameter '{keyword}'", kind.name())));
        }
        if kind == Type::Range {
            return self.construct_range(arguments);
        }
        check_count(kind.name(), arguments.len(), usize::from(kind == Type::Type), 1)?;
        let argument = arguments.first();
        match kind {
            Type::Bool => Ok(Value::Bool(argument.is_some_and(|value| self.truth(value)))),
            Type::Float => self.construct_float(argument),
            Type::Str => match argument {
                Some(value @ Value::Str(_)) => Ok(value.clone()),
                Some(value) => {
                    let text = self.text_of(value)?;
                    self.meter.string(text)
                }
                None => self.meter.str(""),
            },
            Type::Tuple => match argument {
                Some(value) if value.as_tuple().is_some() => Ok(value.clone()),
                _ => {
                    let items = self.gather(argument)?;
                    self.meter.tuple(items)
                }
            },
            Type::FrozenSet => match argument {
                Some(value) if value.as_frozenset().is_some() => Ok(value.clone()),
                _ => {
                    let items = self.gather(argument)?;
                    self.meter.frozenset(items)
                }
            },
            Type::List => {
                let items = self.gather(argument)?;
                self.meter.list(items)
            }
            Type::Set => {
                let items = self.gather(argument)?;
                self.meter.set(items)
            }
            Type::Type => Ok(Value::Type(argument.map_or(Type::None, Type::of))),
            other => Err(Fault::type_error(format!("'{}' cannot be called", other.name()))),
        }
    }

    fn gather(&mut self, iterable: Option<&Value>) -> Result<Vec<Value>, Fault> {
        match iterable {
            None | Some(Value::Unset) => Ok(Vec::new()),
            Some(iterable) => self.collect(iterable),
        }
    }

    fn construct_int(&mut self, [value, base]: &[Value; 2]) -> Result<Value, Fault> {
        if let Value::Str(text) = value {
            let base = if matches!(base, Value::Unset) { 10 } else { need_int(base, "the base")? };
            return self.parse_int(&text.text, base);
        }
        if !matches!(base, Value::Unset) {
            return Err(Fault::type_error("int() can't convert non-string with explicit base"));
        }
        match Number::of(value) {
            Some(Number::Float(number)) => decimal::truncate(number, &self.meter),
            Some(Number::Int(number)) => Ok(Value::Int(number)),
            Some(Number::Big(_)) => Ok(value.clone()),
            None if matches!(value, Value::Unset) => Ok(Value::Int(0)),
            None => {
                Err(Fault::type_error(format!("int() argument must be a string or a real number, not '{}'", value.type_name())))
            }
        }
    }

    fn parse_int(&mut self, text: &str, base: i64) -> Result<Value, Fault> {
        let bad = |context: &Self| {
            let literal: String = text.chars().take(60).collect();
            let literal = context.meter.string(literal).and_then(|literal| context.repr(&literal));
            literal.map_or_else(
                |fault| fault,
                |literal| Fault::value_error(format!("invalid literal for int() with base {base}: {literal}")),
            )
        };
        if base != 0 && !(2..=36).contains(&base) {
            return Err(Fault::value_error("int() base must be >= 2 and <= 36, or 0"));
        }
        self.meter.spend(text.len() as u64 / 4)?;
        let trimmed = text.trim();
        let (negative, digits) = match trimmed.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
        };
        let prefix = digits.get(..2).map(str::to_ascii_lowercase);
        let (digits, base) = match (prefix.as_deref(), base) {
            (Some("0x"), 0 | 16) => (&digits[2..], 16),
            (Some("0b"), 0 | 2) => (&digits[2..], 2),
            (Some("0o"), 0 | 8) => (&digits[2..], 8),
            (_, 0) => (digits, 10),
            (_, base) => (digits, base as u32),
        };
        let is_grouped = digits.contains('_') && !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
        let joined;
        let digits = if is_grouped {
            joined = digits.replace('_', "");
            &*joined
        } else {
            digits
        };
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
            return Err(bad(self));
        }
        if digits.len() > DIGITS_MAX {
            return Err(Fault::value_error(format!("exceeds the limit of {DIGITS_MAX} digits for a number in text")));
        }
        self.meter.spend((digits.len() as u64).pow(2) / 256)?;
        let number = BigInt::parse_bytes(digits.as_bytes(), base).ok_or_else(|| bad(self))?;
        self.meter.int(if negative { -number } else { number })
    }

    fn construct_float(&mut self, value: Option<&Value>) -> Result<Value, Fault> {
        match value {
            None => Ok(Value::Float(0.0)),
            Some(Value::Str(text)) => {
                self.meter.spend(text.text.len() as u64 / 4)?;
                let trimmed = text.text.trim();
                let lower = trimmed.to_ascii_lowercase();
                let plain = lower.trim_start_matches(['+', '-']);
                let is_number = plain.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
                let is_special = matches!(plain, "inf" | "infinity" | "nan");
                match lower.parse::<f64>() {
                    Ok(number) if is_number || is_special => Ok(Value::Float(number)),
                    _ => Err(Fault::value_error(format!(
                        "could not convert string to float: {}",
                        self.repr(&value.cloned().unwrap_or_default())?
                    ))),
                }
            }
            Some(value) => match Number::of(value) {
                Some(number) => number.float().map(Value::Float),
                None => {
                    let words = format!("float() argument must be a string or a real number, not '{}'", value.type_name());
                    Err(Fault::type_error(words))
                }
            },
        }
    }

    fn construct_range(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        check_count("range", arguments.len(), 1, 3)?;
        let bound = |value: &Value| match value {
            Value::Big(_) => Err(Fault::value_error("a range beyond 64 bits")),
            value => value
                .as_int()
                .ok_or_else(|| Fault::type_error(format!("'{}' object cannot be interpreted as an integer", value.type_name()))),
        };
        let (start, stop, step) = match arguments {
            [stop] => (0, bound(stop)?, 1),
            [start, stop] => (bound(start)?, bound(stop)?, 1),
            [start, stop, step, ..] => (bound(start)?, bound(stop)?, bound(step)?),
            [] => (0, 0, 1),
        };
        if step == 0 {
            return Err(Fault::value_error("range() arg 3 must not be zero"));
        }
        let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
        let len = if distance <= 0 { 0 } else { (distance as u128).div_ceil(u128::from(step.unsigned_abs())) };
        self.meter.range(start, stop, step, u64::try_from(len).unwrap_or(u64::MAX))
    }

    fn construct_dict(&mut self, kind: Type, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
        let (default, source) = match (kind, arguments) {
            (Type::DefaultDict, [default, rest @ ..]) => (default.clone(), rest),
            (_, rest) => (Value::None, rest),
        };
        check_count(kind.name(), source.len(), 0, 1)?;
        let dict = self.meter.dict_of(kind, default)?;
        let value = Value::Dict(std::rc::Rc::clone(&dict));
        if kind == Type::Counter {
            self.count_into(&dict, source.first(), false)?;
        } else if let Some(source) = source.first() {
            self.update_dict(&value, source)?;
        }
        for (keyword, given) in keywords {
            let key = need_str(&self.meter.str(keyword)?, "the keyword").and_then(|text| self.meter.str(text))?;
            self.store_subscript(&value, key, given.clone())?;
        }
        Ok(value)
    }
}
