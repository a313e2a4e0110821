//! Arithmetic on whole numbers of any size and on floats.
//!
//! Whole numbers are 64 bits wide and become big integers when a result does not fit: almost every number is small, and those
//! that are not must still be exact. Big results are charged before they are computed, by their size; work by the product
//! of the sizes.

use std::borrow::Cow;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};

use crate::code::BinaryOp;
use crate::fault::{ErrorKind, Fault};
use crate::meter::Meter;
use crate::value::Value;

/// Digits that a number may have in text, as written or as printed.
pub(crate) const DIGITS_MAX: usize = 4300;

/// The most bits of a whole number that a float can come near to.
const FLOAT_BITS_MAX: u64 = f64::MAX_EXP as u64;

/// Either of the two kinds of number. A big one is borrowed: copying it would be work that nobody has paid for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number<'v> {
    Int(i64),
    Big(&'v BigInt),
    Float(f64),
}

impl<'v> Number<'v> {
    /// The number that a value is, booleans as 0 and 1.
    pub(crate) fn of(value: &'v Value) -> Option<Self> {
        Some(match value {
            Value::Int(number) => Self::Int(*number),
            Value::Bool(truth) => Self::Int(i64::from(*truth)),
            Value::Float(number) => Self::Float(*number),
            Value::Big(big) => Self::Big(&big.number),
            _ => return None,
        })
    }

    /// The whole number, a float cut off.
    pub(crate) fn big(self) -> Cow<'v, BigInt> {
        match self {
            Self::Int(number) => Cow::Owned(BigInt::from(number)),
            Self::Big(number) => Cow::Borrowed(number),
            Self::Float(number) => Cow::Owned(BigInt::from_f64(number).unwrap_or_default()),
        }
    }

    /// The nearest float; whole numbers beyond its range are an overflow.
    pub(crate) fn float(self) -> Result<f64, Fault> {
        match self {
            Self::Int(number) => Ok(number as f64),
            Self::Float(number) => Ok(number),
            Self::Big(number) if number.bits() > FLOAT_BITS_MAX => Err(too_large()),
            Self::Big(number) => match number.to_f64() {
                Some(float) if float.is_finite() => Ok(float),
                _ => Err(too_large()),
            },
        }
    }
}

fn too_large() -> Fault {
    Fault::new(ErrorKind::Overflow, "int too large to convert to float")
}

/// An arithmetic operation on two numbers; `None` where one of them is none.
pub(crate) fn binary(op: BinaryOp, a: &Value, b: &Value, meter: &Meter) -> Option<Result<Value, Fault>> {
    if let (Value::Bool(a), Value::Bool(b)) = (a, b)
        && let Some(truth) = logical(op, *a, *b)
    {
        return Some(Ok(Value::Bool(truth)));
    }
    let (a, b) = (Number::of(a)?, Number::of(b)?);
    Some(match (a, b) {
        (Number::Int(a), Number::Int(b)) => match small(op, a, b) {
            Small::Done(result) => result,
            Small::TooLarge => big(op, &BigInt::from(a), &BigInt::from(b), meter),
        },
        (Number::Float(_), _) | (_, Number::Float(_)) => {
            if matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
                return None;
            }
            match (a.float(), b.float()) {
                (Ok(a), Ok(b)) => float(op, a, b),
                (Err(fault), _) | (_, Err(fault)) => Err(fault),
            }
        }
        _ => big(op, &a.big(), &b.big(), meter),
    })
}

fn logical(op: BinaryOp, a: bool, b: bool) -> Option<bool> {
    match op {
        BinaryOp::And => Some(a & b),
        BinaryOp::Or => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        _ => None,
    }
}

enum Small {
    Done(Result<Value, Fault>),
    TooLarge,
}

fn small(op: BinaryOp, a: i64, b: i64) -> Small {
    let result = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide => return divide_small(a, b),
        BinaryOp::FloorDivide | BinaryOp::Modulo if b == 0 => return Small::Done(Err(Fault::zero_division())),
        BinaryOp::FloorDivide => (b != -1).then(|| Integer::div_floor(&a, &b)).or_else(|| a.checked_neg()),
        BinaryOp::Modulo => Some(if b == -1 { 0 } else { a.mod_floor(&b) }),
        BinaryOp::Power if b < 0 => return Small::Done(float(op, a as f64, b as f64)),
        BinaryOp::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRight if b < 0 => {
            return Small::Done(Err(Fault::value_error("negative shift count")));
        }
        BinaryOp::ShiftLeft => {
            u32::try_from(b).ok().filter(|b| *b < 63).and_then(|b| a.checked_mul(1 << b)).or((a == 0).then_some(0))
        }
        BinaryOp::ShiftRight => Some(a >> b.min(63)),
        BinaryOp::And => Some(a & b),
        BinaryOp::Or => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
    };
    match result {
        Some(number) => Small::Done(Ok(Value::Int(number))),
        None => Small::TooLarge,
    }
}

fn divide_small(a: i64, b: i64) -> Small {
    const EXACT: u64 = 1 << 53;
    if b == 0 {
        return Small::Done(Err(Fault::zero_division()));
    }
    if a.unsigned_abs() <= EXACT && b.unsigned_abs() <= EXACT {
        return Small::Done(Ok(Value::Float(a as f64 / b as f64)));
    }
    Small::TooLarge
}

fn float(op: BinaryOp, a: f64, b: f64) -> Result<Value, Fault> {
    if b == 0.0 && matches!(op, BinaryOp::Divide | BinaryOp::FloorDivide | BinaryOp::Modulo) {
        return Err(Fault::zero_division());
    }
    Ok(Value::Float(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        BinaryOp::FloorDivide => floor_divide(a, b).0,
        BinaryOp::Modulo => floor_divide(a, b).1,
        BinaryOp::Power => return float_power(a, b),
        other => return Err(Fault::type_error(format!("{} needs whole numbers", other.sign()))),
    }))
}

/// Quotient rounded down, and the rest, which has the sign of the divisor.
pub(crate) fn floor_divide(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest != 0.0 {
        if (b < 0.0) != (rest < 0.0) {
            rest += b;
            quotient -= 1.0;
        }
    } else {
        rest = 0.0_f64.copysign(b);
    }
    if quotient != 0.0 {
        let floor = quotient.floor();
        quotient = if quotient - floor > 0.5 { floor + 1.0 } else { floor };
    } else {
        quotient = 0.0_f64.copysign(a / b);
    }
    (quotient, rest)
}

fn float_power(a: f64, b: f64) -> Result<Value, Fault> {
    if a == 0.0 && b < 0.0 {
        return Err(Fault::new(ErrorKind::ZeroDivision, "0 cannot be raised to a negative power"));
    }
    if a < 0.0 && a.is_finite() && b.is_finite() && b.fract() != 0.0 {
        return Err(Fault::value_error("a negative number to a fractional power is complex, which is not part of the subset"));
    }
    let result = a.powf(b);
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(Fault::new(ErrorKind::Overflow, "the result of ** is too large for a float"));
    }
    Ok(Value::Float(result))
}

/// Words of 64 bits that a number takes.
pub(crate) fn limbs(number: &BigInt) -> u64 {
    number.bits() / 64 + 1
}

/// Fuel for a product, quotient or the like of numbers of these sizes.
pub(crate) fn spend_product(a: u64, b: u64, meter: &Meter) -> Result<(), Fault> {
    meter.spend(1 + (a + b) / 4 + a.saturating_mul(b) / 8)
}

fn room_for_bits(bits: u64, meter: &Meter) -> Result<(), Fault> {
    meter.room(usize::try_from(bits / 8).unwrap_or(usize::MAX))
}

fn big(op: BinaryOp, a: &BigInt, b: &BigInt, meter: &Meter) -> Result<Value, Fault> {
    let is_division = matches!(op, BinaryOp::Divide | BinaryOp::FloorDivide | BinaryOp::Modulo);
    if is_division && b.is_zero() {
        return Err(Fault::zero_division());
    }
    match op {
        BinaryOp::Power => return power(a, b, meter),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRight => return shift(op, a, b, meter),
        BinaryOp::Multiply | BinaryOp::FloorDivide | BinaryOp::Modulo | BinaryOp::Divide => {
            spend_product(limbs(a), limbs(b), meter)?;
            room_for_bits(a.bits() + b.bits(), meter)?;
        }
        _ => {
            meter.spend(1 + (limbs(a) + limbs(b)) / 4)?;
            room_for_bits(a.bits().max(b.bits()) + 1, meter)?;
        }
    }
    meter.int(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::FloorDivide => a.div_floor(b),
        BinaryOp::Modulo => a.mod_floor(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Divide => return divide_big(a, b).map(Value::Float),
        BinaryOp::Power | BinaryOp::ShiftLeft | BinaryOp::ShiftRight => return Ok(Value::None),
    })
}

fn power(a: &BigInt, b: &BigInt, meter: &Meter) -> Result<Value, Fault> {
    if b.is_negative() {
        return float(BinaryOp::Power, Number::Big(a).float()?, Number::Big(b).float()?);
    }
    if a.bits() <= 1 {
        let is_odd = b.is_odd();
        return Ok(match a.sign() {
            Sign::Minus if is_odd => Value::Int(-1),
            Sign::NoSign => Value::Int(i64::from(b.is_zero())),
            _ => Value::Int(1),
        });
    }
    let bits = b.to_u64().and_then(|b| a.bits().checked_mul(b)).unwrap_or(u64::MAX);
    room_for_bits(bits, meter)?;
    let size = bits / 64 + 1;
    spend_product(size, size, meter)?;
    meter.int(a.pow(b.to_u32().unwrap_or(u32::MAX)))
}

fn shift(op: BinaryOp, a: &BigInt, b: &BigInt, meter: &Meter) -> Result<Value, Fault> {
    if b.is_negative() {
        return Err(Fault::value_error("negative shift count"));
    }
    let n_bits = b.to_u64().unwrap_or(u64::MAX);
    if op == BinaryOp::ShiftRight {
        meter.spend(1 + limbs(a) / 8)?;
        return if n_bits >= a.bits() { Ok(Value::Int(if a.is_negative() { -1 } else { 0 })) } else { meter.int(a >> n_bits) };
    }
    if a.is_zero() {
        return Ok(Value::Int(0));
    }
    let bits = a.bits().saturating_add(n_bits);
    room_for_bits(bits, meter)?;
    meter.spend(1 + bits / 512)?;
    meter.int(a << n_bits)
}

/// The quotient, rounded once.
fn divide_big(a: &BigInt, b: &BigInt) -> Result<f64, Fault> {
    let negative = a.is_negative() != b.is_negative();
    let (a, b) = (a.abs(), b.abs());
    if a.is_zero() {
        return Ok(if negative { -0.0 } else { 0.0 });
    }
    // The quotient is scaled to 66 bits or so; the last bit keeps whether anything was left over.
    let shift = b.bits() as i64 - a.bits() as i64 + 66;
    let (scaled, divisor) = if shift >= 0 { (a << shift, b) } else { (a, b << -shift) };
    let (quotient, rest) = scaled.div_rem(&divisor);
    let sticky: BigInt = if rest.is_zero() { quotient << 1 } else { (quotient << 1) + 1 };
    let value = sticky.to_f64().unwrap_or(f64::INFINITY);
    let exponent = -(shift + 1);
    let half = exponent / 2;
    let scaled = value * 2.0_f64.powi(half as i32) * 2.0_f64.powi((exponent - half) as i32);
    if scaled.is_infinite() {
        return Err(Fault::new(ErrorKind::Overflow, "integer division result too large for a float"));
    }
    Ok(if negative { -scaled } else { scaled })
}

/// `-a`, `+a` or `~a`; `None` where the value is no such number.
pub(crate) fn negate(value: &Value, meter: &Meter) -> Option<Result<Value, Fault>> {
    Some(match Number::of(value)? {
        Number::Int(number) => match number.checked_neg() {
            Some(number) => Ok(Value::Int(number)),
            None => meter.int(-BigInt::from(number)),
        },
        Number::Big(number) => room_for_bits(number.bits(), meter).and_then(|()| meter.int(-number)),
        Number::Float(number) => Ok(Value::Float(-number)),
    })
}

/// `~a`.
pub(crate) fn invert(value: &Value, meter: &Meter) -> Option<Result<Value, Fault>> {
    Some(match Number::of(value)? {
        Number::Int(number) => Ok(Value::Int(!number)),
        Number::Big(number) => room_for_bits(number.bits() + 1, meter).and_then(|()| meter.int(!number)),
        Number::Float(_) => return None,
    })
}

/// The absolute value.
pub(crate) fn absolute(value: &Value, meter: &Meter) -> Option<Result<Value, Fault>> {
    match Number::of(value)? {
        Number::Int(number) if number >= 0 => Some(Ok(Value::Int(number))),
        Number::Float(number) => Some(Ok(Value::Float(number.abs()))),
        Number::Big(number) if number.is_positive() => Some(Ok(value.clone())),
        _ => negate(value, meter),
    }
}

/// A power by a modulus where all are small: an exponent from 0 on and a modulus from 1 on.
fn small_power_modulo(base: i64, mut exponent: i64, modulus: i64) -> i64 {
    let modulus = modulus as u128;
    let mut factor = i128::from(base).rem_euclid(modulus as i128) as u128;
    let mut power = 1 % modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * factor % modulus;
        }
        factor = factor * factor % modulus;
        exponent >>= 1;
    }
    power as i64
}

/// Fuel for an inverse: Euclid's steps grow with the bits of the modulus, and each divides and multiplies such numbers.
fn spend_inverse(modulus: &BigInt, meter: &Meter) -> Result<(), Fault> {
    meter.spend(128 + modulus.bits().saturating_mul(2 + limbs(modulus) / 8))
}

fn whole(value: &Value) -> Result<Cow<'_, BigInt>, Fault> {
    match Number::of(value) {
        Some(Number::Float(_)) | None => Err(Fault::type_error("pow() with three arguments needs whole numbers")),
        Some(number) => Ok(number.big()),
    }
}

/// `pow(base, exponent, modulus)`.
pub(crate) fn power_modulo(base: &Value, exponent: &Value, modulus: &Value, meter: &Meter) -> Result<Value, Fault> {
    if let (Value::Int(base), Value::Int(exponent @ 0..), Value::Int(modulus @ 1..)) = (base, exponent, modulus) {
        meter.spend(2 + u64::from(64 - exponent.leading_zeros()))?;
        return Ok(Value::Int(small_power_modulo(*base, *exponent, *modulus)));
    }
    let (base, exponent, modulus) = (whole(base)?, whole(exponent)?, whole(modulus)?);
    if modulus.is_zero() {
        return Err(Fault::value_error("pow() 3rd argument cannot be 0"));
    }
    let size = limbs(&modulus);
    meter.spend(exponent.bits().saturating_mul(1 + size.saturating_mul(size) / 4))?;
    spend_product(limbs(&base), size, meter)?;
    if exponent.is_negative() {
        spend_inverse(&modulus, meter)?;
        let Some(inverse) = base.modinv(&modulus) else {
            return Err(Fault::value_error("base is not invertible for the given modulus"));
        };
        return meter.int(inverse.modpow(&-&*exponent, &modulus));
    }
    meter.int(base.modpow(&exponent, &modulus))
}
