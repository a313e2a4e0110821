//! The module `math`.

use std::borrow::Cow;

use num_bigint::BigInt;
use num_integer::Integer;

use crate::code::BinaryOp;
use crate::context::Context;
use crate::decimal;
use crate::fault::{ErrorKind, Fault};
use crate::library::{Constant, Module};
use crate::meter::Meter;
use crate::method::need_int;
use crate::number::Number;
use crate::value::Value;

pub(super) fn module() -> Module {
    let module = Module::new("math")
        .constant("pi", Constant::Float(std::f64::consts::PI))
        .constant("e", Constant::Float(std::f64::consts::E))
        .constant("tau", Constant::Float(std::f64::consts::TAU))
        .constant("inf", Constant::Float(f64::INFINITY))
        .constant("nan", Constant::Float(f64::NAN))
        .function("floor", &["x"], |context, arguments| whole(context, &arguments[0], f64::floor))
        .function("ceil", &["x"], |context, arguments| whole(context, &arguments[0], f64::ceil))
        .function("trunc", &["x"], |context, arguments| whole(context, &arguments[0], f64::trunc))
        .function("isqrt", &["n"], isqrt)
        .function("factorial", &["n"], factorial)
        .function("comb", &["n", "k"], |context, arguments| choose(context, arguments, true))
        .function_with_optional("perm", &["n", "k"], 1, |context, arguments| choose(context, arguments, false))
        .variadic("gcd", |context, arguments, _| fold(context, arguments, 0, |a, b| a.gcd(b)))
        .variadic("lcm", |context, arguments, _| fold(context, arguments, 1, |a, b| a.lcm(b)))
        .function_with_optional("prod", &["iterable", "start"], 1, prod)
        .function("fsum", &["iterable"], |context, arguments| {
            let items = context.collect(&arguments[0])?;
            exact_sum(items.iter().map(float), context.meter()).map(Value::Float)
        })
        .function_with_optional("log", &["x", "base"], 1, log)
        .function_with_optional("isclose", &["a", "b", "rel_tol", "abs_tol"], 2, is_close)
        .variadic("hypot", |_, arguments, _| {
            let squares = arguments.iter().map(|value| float(value).map(|x| x * x)).collect::<Result<Vec<_>, _>>()?;
            Ok(Value::Float(squares.iter().sum::<f64>().sqrt()))
        })
        .function("isnan", &["x"], |_, arguments| Ok(Value::Bool(float(&arguments[0])?.is_nan())))
        .function("isinf", &["x"], |_, arguments| Ok(Value::Bool(float(&arguments[0])?.is_infinite())))
        .function("isfinite", &["x"], |_, arguments| Ok(Value::Bool(float(&arguments[0])?.is_finite())))
        .function("pow", &["x", "y"], |context, arguments| {
            let (x, y) = (Value::Float(float(&arguments[0])?), Value::Float(float(&arguments[1])?));
            context.binary(BinaryOp::Power, &x, &y)
        })
        .function("fmod", &["x", "y"], |_, arguments| {
            let (x, y) = (float(&arguments[0])?, float(&arguments[1])?);
            if y == 0.0 { Err(domain()) } else { Ok(Value::Float(x % y)) }
        })
        .function("atan2", &["y", "x"], |_, arguments| Ok(Value::Float(float(&arguments[0])?.atan2(float(&arguments[1])?))))
        .function("copysign", &["x", "y"], |_, arguments| Ok(Value::Float(float(&arguments[0])?.copysign(float(&arguments[1])?))))
        .function("dist", &["p", "q"], dist)
        .function("modf", &["x"], |context, arguments| {
            let x = float(&arguments[0])?;
            context.meter().tuple(vec![Value::Float(x.fract()), Value::Float(x.trunc())])
        });
    with_unary(module)
}

/// The sum of all terms, rounded once: what every addition loses is kept as a term of its own, by Shewchuk's algorithm.
fn exact_sum(terms: impl Iterator<Item = Result<f64, Fault>>, meter: &Meter) -> Result<f64, Fault> {
    let (mut parts, mut unbounded, mut has_nan): (Vec<f64>, f64, bool) = (Vec::new(), 0.0, false);
    for term in terms {
        let mut sum = term?;
        if !sum.is_finite() {
            has_nan |= sum.is_nan();
            unbounded += sum;
            continue;
        }
        let mut n_kept = 0;
        meter.spend(parts.len() as u64)?;
        for idx in 0..parts.len() {
            let (whole, lost) = two_sum(sum, parts[idx]);
            if lost != 0.0 {
                parts[n_kept] = lost;
                n_kept += 1;
            }
            sum = whole;
        }
        if !sum.is_finite() {
            return Err(Fault::new(ErrorKind::Overflow, "intermediate overflow in fsum"));
        }
        parts.truncate(n_kept);
        parts.push(sum);
    }
    match unbounded {
        _ if unbounded.is_nan() && !has_nan => Err(Fault::value_error("-inf + inf in fsum")),
        _ if unbounded != 0.0 => Ok(unbounded),
        _ => Ok(rounded(&parts)),
    }
}

/// The sum of parts that do not overlap, the largest last, to the nearest float and of two as near to the even one.
fn rounded(parts: &[f64]) -> f64 {
    let Some((&last, mut rest)) = parts.split_last() else { return 0.0 };
    let (mut sum, mut lost) = (last, 0.0);
    while let Some((&part, smaller)) = rest.split_last() {
        (sum, lost) = two_sum(sum, part);
        rest = smaller;
        if lost != 0.0 {
            break;
        }
    }
    // What is half a unit away is decided by what is smaller still.
    let is_beyond = lost != 0.0 && rest.last().is_some_and(|below| (lost < 0.0) == (*below < 0.0));
    let next = sum + lost * 2.0;
    if is_beyond && next - sum == lost * 2.0 { next } else { sum }
}

/// A sum and what it loses by rounding.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let (large, small) = if a.abs() < b.abs() { (b, a) } else { (a, b) };
    let sum = large + small;
    (sum, small - (sum - large))
}

/// The functions of one float.
fn with_unary(module: Module) -> Module {
    module
        .function("sqrt", &["x"], |_, arguments| real(&arguments[0], f64::sqrt))
        .function("cbrt", &["x"], |_, arguments| real(&arguments[0], f64::cbrt))
        .function("exp", &["x"], |_, arguments| real(&arguments[0], f64::exp))
        .function("log2", &["x"], |_, arguments| logarithm(&arguments[0], f64::log2))
        .function("log10", &["x"], |_, arguments| logarithm(&arguments[0], f64::log10))
        .function("log1p", &["x"], |_, arguments| real(&arguments[0], f64::ln_1p))
        .function("sin", &["x"], |_, arguments| real(&arguments[0], f64::sin))
        .function("cos", &["x"], |_, arguments| real(&arguments[0], f64::cos))
        .function("tan", &["x"], |_, arguments| real(&arguments[0], f64::tan))
        .function("asin", &["x"], |_, arguments| real(&arguments[0], f64::asin))
        .function("acos", &["x"], |_, arguments| real(&arguments[0], f64::acos))
        .function("atan", &["x"], |_, arguments| real(&arguments[0], f64::atan))
        .function("sinh", &["x"], |_, arguments| real(&arguments[0], f64::sinh))
        .function("cosh", &["x"], |_, arguments| real(&arguments[0], f64::cosh))
        .function("tanh", &["x"], |_, arguments| real(&arguments[0], f64::tanh))
        .function("fabs", &["x"], |_, arguments| real(&arguments[0], f64::abs))
        .function("radians", &["x"], |_, arguments| real(&arguments[0], |x| x * (std::f64::consts::PI / 180.0)))
        .function("degrees", &["x"], |_, arguments| real(&arguments[0], |x| x * (180.0 / std::f64::consts::PI)))
}

fn domain() -> Fault {
    Fault::value_error("math domain error: the function has no value there")
}

fn float(value: &Value) -> Result<f64, Fault> {
    match Number::of(value) {
        Some(number) => number.float(),
        None => Err(Fault::type_error(format!("must be real number, not {}", value.type_name()))),
    }
}

fn real(value: &Value, function: fn(f64) -> f64) -> Result<Value, Fault> {
    let x = float(value)?;
    let y = function(x);
    if y.is_nan() && !x.is_nan() {
        return Err(domain());
    }
    if y.is_infinite() && x.is_finite() {
        return Err(Fault::new(ErrorKind::Overflow, "math range error: the result is too large"));
    }
    Ok(Value::Float(y))
}

fn logarithm(value: &Value, function: fn(f64) -> f64) -> Result<Value, Fault> {
    let x = float(value)?;
    if x <= 0.0 { Err(domain()) } else { Ok(Value::Float(function(x))) }
}

fn log(_: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let natural = |value: &Value| match Number::of(value) {
        Some(Number::Big(number)) if number.sign() == num_bigint::Sign::Plus => {
            let shift = number.bits().saturating_sub(60);
            let top = Number::Big(&(number >> shift)).float()?;
            Ok(top.ln() + shift as f64 * std::f64::consts::LN_2)
        }
        _ => match float(value)? {
            x if x <= 0.0 => Err(domain()),
            x => Ok(x.ln()),
        },
    };
    let x = natural(&arguments[0])?;
    match arguments.get(1) {
        None => Ok(Value::Float(x)),
        Some(base) => match natural(base)? {
            0.0 => Err(Fault::zero_division()),
            base => Ok(Value::Float(x / base)),
        },
    }
}

fn whole(context: &mut Context, value: &Value, function: fn(f64) -> f64) -> Result<Value, Fault> {
    match Number::of(value) {
        Some(Number::Float(x)) => decimal::truncate(function(x), context.meter()),
        Some(Number::Int(number)) => Ok(Value::Int(number)),
        Some(Number::Big(_)) => Ok(value.clone()),
        None => Err(Fault::type_error(format!("must be real number, not {}", value.type_name()))),
    }
}

fn big(value: &Value) -> Result<Cow<'_, BigInt>, Fault> {
    match value {
        Value::Big(big) => Ok(Cow::Borrowed(&big.number)),
        other => need_int(other, "the number").map(|number| Cow::Owned(BigInt::from(number))),
    }
}

fn isqrt(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let number = big(&arguments[0])?;
    if number.sign() == num_bigint::Sign::Minus {
        return Err(Fault::value_error("isqrt() argument must be nonnegative"));
    }
    let limbs = number.bits() / 64 + 1;
    context.spend(limbs * limbs)?;
    context.meter().int(number.sqrt())
}

fn factorial(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    if matches!(arguments[0], Value::Float(_)) {
        return Err(Fault::type_error("'float' object cannot be interpreted as an integer"));
    }
    let n = need_int(&arguments[0], "n")?;
    if n < 0 {
        return Err(Fault::value_error("factorial() not defined for negative values"));
    }
    let mut product = Value::Int(1);
    for factor in 2..=n {
        context.spend(1)?;
        product = context.binary(BinaryOp::Multiply, &product, &Value::Int(factor))?;
    }
    Ok(product)
}

/// Ways to choose `k` of `n`, with or without regard to order.
fn choose(context: &mut Context, arguments: &[Value], unordered: bool) -> Result<Value, Fault> {
    let n = need_int(&arguments[0], "n")?;
    let k = arguments.get(1).map_or(Ok(n), |k| need_int(k, "k"))?;
    if n < 0 || k < 0 {
        return Err(Fault::value_error("n and k must be non-negative integers"));
    }
    if k > n {
        return Ok(Value::Int(0));
    }
    let k = if unordered { k.min(n - k) } else { k };
    let mut product = Value::Int(1);
    for idx in 0..k {
        context.spend(1)?;
        product = context.binary(BinaryOp::Multiply, &product, &Value::Int(n - idx))?;
        if unordered {
            product = context.binary(BinaryOp::FloorDivide, &product, &Value::Int(idx + 1))?;
        }
    }
    Ok(product)
}

fn fold(
    context: &mut Context,
    arguments: &[Value],
    start: i64,
    function: fn(&BigInt, &BigInt) -> BigInt,
) -> Result<Value, Fault> {
    let mut total = BigInt::from(start);
    for argument in arguments {
        let number = big(argument)?;
        let n_bits = number.bits() + total.bits();
        let limbs = n_bits / 64 + 1;
        context.spend(1 + n_bits / 4 + limbs * limbs)?;
        context.meter().room((limbs * 8) as usize)?;
        total = function(&total, &number);
    }
    context.meter().int(if total.sign() == num_bigint::Sign::Minus { -total } else { total })
}

fn prod(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let mut product = arguments.get(1).cloned().unwrap_or(Value::Int(1));
    let iterator = context.iterate(&arguments[0])?;
    while let Some(item) = context.next(&iterator)? {
        product = context.binary(BinaryOp::Multiply, &product, &item)?;
    }
    Ok(product)
}

fn is_close(_: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let option = |place: usize, default: f64| match arguments.get(place) {
        None | Some(Value::Unset) => Ok(default),
        Some(value) => float(value),
    };
    let (a, b) = (float(&arguments[0])?, float(&arguments[1])?);
    let (relative, absolute) = (option(2, 1e-9)?, option(3, 0.0)?);
    let is_close = a == b || (a - b).abs() <= (relative * a.abs().max(b.abs())).max(absolute) && a.is_finite() && b.is_finite();
    Ok(Value::Bool(is_close))
}

fn dist(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let (p, q) = (context.collect(&arguments[0])?, context.collect(&arguments[1])?);
    if p.len() != q.len() {
        return Err(Fault::value_error("both points must have the same number of dimensions"));
    }
    let mut total = 0.0;
    for (a, b) in p.iter().zip(&q) {
        total += (float(a)? - float(b)?).powi(2);
    }
    Ok(Value::Float(total.sqrt()))
}
