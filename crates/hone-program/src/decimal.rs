//! Numbers and their digits: as text, cut off and rounded.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{FromPrimitive, Pow};

use crate::fault::{ErrorKind, Fault};
use crate::meter::Meter;
use crate::number::{DIGITS_MAX, Number, limbs, spend_product};
use crate::value::Value;

/// A float cut off towards zero as a whole number.
pub(crate) fn truncate(number: f64, meter: &Meter) -> Result<Value, Fault> {
    if number.is_nan() {
        return Err(Fault::value_error("cannot convert float NaN to integer"));
    }
    match BigInt::from_f64(number.trunc()) {
        Some(whole) => meter.int(whole),
        None => Err(Fault::new(ErrorKind::Overflow, "cannot convert float infinity to integer")),
    }
}

/// Digits of a whole number, where there are not too many.
pub(crate) fn digits(number: &BigInt, meter: &Meter) -> Result<String, Fault> {
    if number.bits() > DIGITS_MAX as u64 * 10 / 3 {
        return Err(Fault::value_error(format!("exceeds the limit of {DIGITS_MAX} digits for a number in text")));
    }
    meter.spend(limbs(number) * limbs(number))?;
    Ok(number.to_string())
}

/// A float as the language prints it: the shortest digits that give it back.
pub(crate) fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Rounds half to even: to so many digits after the point, which may be negative.
pub(crate) fn round(value: &Value, n_digits: Option<i64>, meter: &Meter) -> Result<Value, Fault> {
    let number =
        Number::of(value).ok_or_else(|| Fault::type_error(format!("round() needs a number, not '{}'", value.type_name())))?;
    match (number, n_digits) {
        (Number::Float(number), None) => truncate(number.round_ties_even(), meter),
        (Number::Float(number), Some(n_digits)) => {
            spend_digits(number, n_digits.clamp(0, 340).unsigned_abs(), meter)?;
            Ok(Value::Float(round_float(number, n_digits)))
        }
        (number, Some(n_digits)) if n_digits < 0 => {
            let unit = u32::try_from(-n_digits).ok().filter(|n| *n <= DIGITS_MAX as u32);
            let Some(unit) = unit else { return Ok(Value::Int(0)) };
            meter.spend(u64::from(unit) / 16)?;
            let (number, unit) = (number.big(), BigInt::from(10).pow(unit));
            spend_product(limbs(&number), limbs(&unit), meter)?;
            let (mut quotient, rest) = number.div_mod_floor(&unit);
            let twice: BigInt = rest * 2;
            if twice > unit || twice == unit && quotient.is_odd() {
                quotient += 1;
            }
            meter.int(quotient * unit)
        }
        _ => Ok(if let Value::Bool(truth) = value { Value::Int(i64::from(*truth)) } else { value.clone() }),
    }
}

/// Fuel for the exact digits of a float, so many after the point: what is far from one has many more in between.
pub(crate) fn spend_digits(number: f64, n_digits: u64, meter: &Meter) -> Result<(), Fault> {
    let exponent = if number == 0.0 { 0 } else { number.abs().log2().abs() as u64 };
    meter.spend(n_digits + exponent.min(1100))
}

fn round_float(number: f64, n_digits: i64) -> f64 {
    if !number.is_finite() || n_digits > 340 {
        return number;
    }
    if n_digits < -310 {
        return 0.0_f64.copysign(number);
    }
    if n_digits >= 0 {
        // The decimal expansion of a float is exact here, so half is half.
        return format!("{number:.*}", n_digits as usize).parse().unwrap_or(number);
    }
    let unit = 10.0_f64.powi(-n_digits as i32);
    (number / unit).round_ties_even() * unit
}
