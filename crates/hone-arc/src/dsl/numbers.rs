//! Numbers, vectors and logic.

use super::declare;
use super::read::{Outcome, int, place, place_value};
use hone_program::{Context, ErrorKind, Fault, Value};

declare! {
    add(a: Numerical, b: Numerical) -> Numerical: "The sum; a number is added to both parts of a pair.";
    subtract(a: Numerical, b: Numerical) -> Numerical: "a minus b, part by part.";
    multiply(a: Numerical, b: Numerical) -> Numerical: "The product, part by part.";
    divide(a: Numerical, b: Numerical) -> Numerical: "a over b, rounded down, part by part.";
    invert(n: Numerical) -> Numerical: "The negative.";
    double(n: Numerical) -> Numerical: "Two times n.";
    halve(n: Numerical) -> Numerical: "Half of n, rounded down.";
    even(n: Integer) -> Boolean: "Whether two divides n.";
    flip(b: Boolean) -> Boolean: "The other truth value.";
    equality(a: Any, b: Any) -> Boolean: "Whether both are the same value.";
    greater(a: Integer, b: Integer) -> Boolean: "Whether a is greater than b.";
    positive(x: Integer) -> Boolean: "Whether x is greater than zero.";
    sign(x: Numerical) -> Numerical: "-1, 0 or 1, part by part.";
    increment(x: Numerical) -> Numerical: "One more.";
    decrement(x: Numerical) -> Numerical: "One less.";
    crement(x: Numerical) -> Numerical: "One step further from zero; zero stays.";
    toivec(i: Integer) -> IntegerTuple: "The vector (i, 0), i rows down.";
    tojvec(j: Integer) -> IntegerTuple: "The vector (0, j), j columns to the right.";
    both(a: Boolean, b: Boolean) -> Boolean: "Whether a and b hold.";
    either(a: Boolean, b: Boolean) -> Boolean: "Whether a or b holds.";
    branch(condition: Boolean, a: Any, b: Any) -> Any: "a if the condition holds, otherwise b.";
    astuple(a: Integer, b: Integer) -> IntegerTuple: "The pair (a, b), of any two values.";
}

/// What becomes of two numbers, or why nothing does.
type Binary = fn(i64, i64) -> Result<i64, Fault>;

fn overflow() -> Fault {
    Fault::new(ErrorKind::Overflow, "numbers of the grid language have 64 bits")
}

/// Two numbers, or part by part where at least one is a pair.
fn binary(context: &Context, arguments: &[Value], operation: Binary) -> Outcome {
    let (a, b) = (&arguments[0], &arguments[1]);
    let (down, right) = match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => return Ok(Value::Int(operation(a, b)?)),
        (Some(a), None) => {
            let b = place(context, b)?;
            ((a, b.0), (a, b.1))
        }
        (None, Some(b)) => {
            let a = place(context, a)?;
            ((a.0, b), (a.1, b))
        }
        (None, None) => {
            let (a, b) = (place(context, a)?, place(context, b)?);
            ((a.0, b.0), (a.1, b.1))
        }
    };
    place_value(context, (operation(down.0, down.1)?, operation(right.0, right.1)?))
}

/// A number, or both parts of a pair.
fn unary(context: &Context, arguments: &[Value], operation: impl Fn(i64) -> Option<i64>) -> Outcome {
    let operation = |n| operation(n).ok_or_else(overflow);
    match arguments[0].as_int() {
        Some(n) => Ok(Value::Int(operation(n)?)),
        None => {
            let (down, right) = place(context, &arguments[0])?;
            place_value(context, (operation(down)?, operation(right)?))
        }
    }
}

fn add(context: &mut Context, arguments: &[Value]) -> Outcome {
    binary(context, arguments, |a, b| a.checked_add(b).ok_or_else(overflow))
}

fn subtract(context: &mut Context, arguments: &[Value]) -> Outcome {
    binary(context, arguments, |a, b| a.checked_sub(b).ok_or_else(overflow))
}

fn multiply(context: &mut Context, arguments: &[Value]) -> Outcome {
    binary(context, arguments, |a, b| a.checked_mul(b).ok_or_else(overflow))
}

fn divide(context: &mut Context, arguments: &[Value]) -> Outcome {
    binary(context, arguments, |a, b| {
        if b == 0 {
            return Err(Fault::zero_division());
        }
        let (quotient, rest) = (a.checked_div(b).ok_or_else(overflow)?, a.wrapping_rem(b));
        Ok(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
    })
}

fn invert(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, i64::checked_neg)
}

fn double(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, |n| n.checked_mul(2))
}

fn halve(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, |n| Some(n >> 1))
}

fn even(_: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Bool(int(&arguments[0])? & 1 == 0))
}

fn flip(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Bool(!context.truth(&arguments[0])))
}

fn equality(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Bool(context.equal(&arguments[0], &arguments[1])?))
}

fn greater(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Bool(context.less(&arguments[1], &arguments[0])?))
}

fn positive(_: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Bool(int(&arguments[0])? > 0))
}

fn sign(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, |n| Some(n.signum()))
}

fn increment(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, |n| n.checked_add(1))
}

fn decrement(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, |n| n.checked_sub(1))
}

fn crement(context: &mut Context, arguments: &[Value]) -> Outcome {
    unary(context, arguments, |n| n.checked_add(n.signum()))
}

fn toivec(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.meter().pair(arguments[0].clone(), Value::Int(0))
}

fn tojvec(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.meter().pair(Value::Int(0), arguments[0].clone())
}

fn both(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(arguments[usize::from(context.truth(&arguments[0]))].clone())
}

fn either(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(arguments[usize::from(!context.truth(&arguments[0]))].clone())
}

fn branch(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(arguments[if context.truth(&arguments[0]) { 1 } else { 2 }].clone())
}

fn astuple(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.meter().pair(arguments[0].clone(), arguments[1].clone())
}
