//! How numbers and texts compare, exactly: a whole number and a float are not rounded to meet.

use std::cmp::Ordering;

use num_bigint::BigInt;

use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::Value;

/// The order of two numbers, two texts or two absent values; the inner `None` where a number is none.
#[inline]
pub(crate) fn compare_scalars(a: &Value, b: &Value, meter: &Meter) -> Result<Option<Option<Ordering>>, Fault> {
    let (a, b) = (number(a), number(b));
    Ok(Some(match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(&b)),
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        (Scalar::Int(a), Scalar::Float(b)) => compare_int_float(a, b),
        (Scalar::Float(a), Scalar::Int(b)) => compare_int_float(b, a).map(Ordering::reverse),
        (Scalar::Big(a), Scalar::Big(b)) => {
            meter.spend(a.bits().min(b.bits()) / 512)?;
            Some(a.cmp(b))
        }
        (Scalar::Big(a), Scalar::Int(_)) => Some(sign_order(a)),
        (Scalar::Int(_), Scalar::Big(b)) => Some(sign_order(b).reverse()),
        (Scalar::Big(a), Scalar::Float(b)) => compare_big_float(a, b),
        (Scalar::Float(a), Scalar::Big(b)) => compare_big_float(b, a).map(Ordering::reverse),
        (Scalar::Str(a), Scalar::Str(b)) => {
            meter.spend(a.len().min(b.len()) as u64 / 16)?;
            Some(a.cmp(b))
        }
        (Scalar::None, Scalar::None) => Some(Ordering::Equal),
        _ => return Ok(None),
    }))
}

enum Scalar<'a> {
    None,
    Int(i64),
    Float(f64),
    Big(&'a BigInt),
    Str(&'a str),
    Other,
}

#[inline]
fn number(value: &Value) -> Scalar<'_> {
    match value {
        Value::None => Scalar::None,
        Value::Bool(truth) => Scalar::Int(i64::from(*truth)),
        Value::Int(number) => Scalar::Int(*number),
        Value::Float(number) => Scalar::Float(*number),
        Value::Big(big) => Scalar::Big(&big.number),
        Value::Str(text) => Scalar::Str(&text.text),
        _ => Scalar::Other,
    }
}

fn sign_order(big: &BigInt) -> Ordering {
    if big.sign() == num_bigint::Sign::Minus { Ordering::Less } else { Ordering::Greater }
}

/// The exact order of a whole number and a float.
fn compare_int_float(int: i64, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if float < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let floor = float.floor();
    let whole = int.cmp(&(floor as i64));
    Some(if whole.is_eq() && floor < float { Ordering::Less } else { whole })
}

fn compare_big_float(big: &BigInt, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.is_infinite() {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = <BigInt as num_traits::FromPrimitive>::from_f64(float.floor())?;
    let whole = big.cmp(&floor);
    Some(if whole.is_eq() && float.floor() < float { Ordering::Less } else { whole })
}
