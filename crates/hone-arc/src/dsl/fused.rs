//! Functions that builders put together, followed part by part: what the parts give to each other need not become values.
//!
//! `compose`, `chain`, `fork`, `matcher`, `power`, `lbind` and `rbind` are known here, and so are the functions that have quick forms. It gives what
//! calling the function would give, and fails as it would. Whatever is not known here is called as ever.

use super::loose::Loose;
use super::quick::{Quick, crop, quick_of};
use super::read::Outcome;
use crate::grid::Grid;
use crate::patch::Patch;
use hone_program::{Context, Fault, Value};
use std::borrow::Cow;

/// How deep a function is followed: what lies deeper is called, and calls count how deep they are.
pub(super) const DEPTH_MAX: usize = 12;

/// Applies a function of one parameter.
pub(super) fn apply(context: &mut Context, function: &Value, mut x: Loose<'_>) -> Result<Loose<'static>, Fault> {
    follow(context, function, &mut x, DEPTH_MAX)
}

/// Applies a function of one parameter to a value and gives the value of the result.
pub(super) fn value(context: &mut Context, function: &Value, x: &Value) -> Outcome {
    apply(context, function, Loose::Kept(x))?.into_value(context)
}

/// Applies a function to a result that nobody needs afterwards. It is not moved on the way: most functions only look at it.
fn follow(context: &mut Context, function: &Value, x: &mut Loose<'_>, depth: usize) -> Result<Loose<'static>, Fault> {
    let Some(depth) = depth.checked_sub(1) else { return called(context, function, x) };
    let Some((name, parts)) = function.as_built() else { return quickly(context, function, x) };
    context.spend(1)?;
    match (name, parts) {
        ("compose", [outer, inner]) => {
            let mut inner = follow(context, inner, x, depth)?;
            follow(context, outer, &mut inner, depth)
        }
        ("chain", [h, g, f]) => {
            let mut inner = follow(context, f, x, depth)?;
            let mut middle = follow(context, g, &mut inner, depth)?;
            follow(context, h, &mut middle, depth)
        }
        ("fork", [outer, a, b]) => {
            let mut a = follow(context, a, &mut x.lent(), depth)?;
            let mut b = follow(context, b, x, depth)?;
            join(context, outer, &mut a, &mut b)
        }
        ("matcher", [inner, target]) => {
            let result = follow(context, inner, x, depth)?.into_value(context)?;
            Ok(Loose::Made(Value::Bool(context.equal(&result, target)?)))
        }
        ("power", [inner, Value::Int(n)]) => {
            let mut result = follow(context, inner, x, depth)?;
            for _ in 1..*n {
                result = follow(context, inner, &mut result, depth)?;
            }
            Ok(result)
        }
        ("lbind", [inner, fixed]) if context.n_params(function) == Some(1) => join(context, inner, &mut Loose::Kept(fixed), x),
        ("rbind", [inner, fixed]) if context.n_params(function) == Some(1) => join(context, inner, x, &mut Loose::Kept(fixed)),
        _ => called(context, function, x),
    }
}

/// Applies a function that nobody built.
fn quickly(context: &mut Context, function: &Value, x: &mut Loose<'_>) -> Result<Loose<'static>, Fault> {
    if let Some(Quick::One(quick)) = quick_of(function) {
        context.spend(2)?;
        if let Some(result) = quick(context, x)? {
            return Ok(result);
        }
    }
    called(context, function, x)
}

/// Applies a function of two parameters.
pub(super) fn apply_two(
    context: &mut Context,
    function: &Value,
    mut a: Loose<'_>,
    mut b: Loose<'_>,
) -> Result<Loose<'static>, Fault> {
    join(context, function, &mut a, &mut b)
}

/// Applies a function of two parameters to results that nobody needs afterwards.
fn join(context: &mut Context, function: &Value, a: &mut Loose<'_>, b: &mut Loose<'_>) -> Result<Loose<'static>, Fault> {
    context.spend(2)?;
    let result = match quick_of(function) {
        Some(Quick::Two(quick)) => quick(context, a, b)?,
        Some(_) => None,
        None => match cropped(function) {
            Some(grid) => crop(context, grid, a, b)?,
            None => None,
        },
    };
    match result {
        Some(result) => Ok(result),
        None => {
            let arguments = [a.take().into_value(context)?, b.take().into_value(context)?];
            context.call(function, &arguments).map(Loose::Made)
        }
    }
}

/// The grid, where the function is `crop` of it.
fn cropped(function: &Value) -> Option<&Grid> {
    match function.as_built() {
        Some(("lbind", [inner, fixed])) if matches!(quick_of(inner), Some(Quick::Crop)) => fixed.packed::<Grid>(),
        _ => None,
    }
}

/// Whether a function is `combine`, which whoever collects patches may leave out.
pub(super) fn is_combine(function: &Value) -> bool {
    matches!(function, Value::Native(native) if native.name() == "combine") && quick_of(function).is_some()
}

/// Calls a function that is not known here.
fn called(context: &mut Context, function: &Value, x: &mut Loose<'_>) -> Result<Loose<'static>, Fault> {
    let x = match x {
        Loose::Kept(value) => return context.call(function, std::slice::from_ref(*value)).map(Loose::Made),
        x => x.take().into_value(context)?,
    };
    context.call(function, &[x]).map(Loose::Made)
}

/// A patch without elements.
pub(super) fn nothing() -> Loose<'static> {
    Loose::Patch(Cow::Owned(Patch::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::{MODULE, functions, library, patch};
    use hone_program::{Limits, Meter};
    use std::sync::Arc;

    /// Values of all kinds that functions meet, those included which they refuse.
    fn samples() -> Vec<Value> {
        let meter = Meter::free();
        let int = Value::Int;
        let grid = Grid::from_rows(&[&[0_i8, 3, 3][..], &[1, 0, 3]]).unwrap();
        let object = Patch::object([(3, (0, 1)), (3, (0, 2)), (1, (1, 0))]).unwrap();
        let far = Patch::indices([(0, 0), (524_287, 524_287)]).unwrap();
        let mut values = vec![int(0), int(1), int(-7), int(i64::MAX), Value::Bool(true), Value::Bool(false), Value::None];
        values.extend([meter.pack(grid).unwrap(), meter.pack(Grid::default()).unwrap()]);
        let line = Patch::indices((0..4).map(|column| (1, column))).unwrap();
        values.extend([line, Patch::default(), object, far].map(|sample| patch(sample).unwrap()));
        let pairs = [(0, 0), (1, 2), (-3, 4), (524_287, 5)].map(|(a, b)| meter.pair(int(a), int(b)).unwrap());
        values.push(meter.pair(pairs[1].clone(), pairs[2].clone()).unwrap());
        values.push(meter.pair(int(i64::MAX), int(2)).unwrap());
        values.push(meter.tuple(vec![int(4), int(0)]).unwrap());
        values.push(meter.tuple(vec![int(4), Value::Bool(true), int(9)]).unwrap());
        values.push(meter.frozenset(vec![int(3), int(1), int(0)]).unwrap());
        values.push(meter.frozenset(vec![int(3), Value::Float(1.0)]).unwrap());
        values.push(meter.frozenset(pairs[..2].to_vec()).unwrap());
        values.extend(pairs);
        values
    }

    /// A result or failure as a program would see it.
    fn told(outcome: Outcome) -> String {
        match outcome {
            Ok(value) => format!("{} {}", value.type_name(), plain(&value)),
            Err(fault) => fault.to_string(),
        }
    }

    fn plain(value: &Value) -> String {
        if let Some(large) = value.packed::<Grid>().filter(|grid| grid.height() > 1000) {
            return format!("{} rows, {:?}", large.height(), large.counts());
        }
        match value.container() {
            Some((shape, items)) => {
                let items = items.to_vec(&Meter::free()).unwrap();
                format!("{shape:?}({})", items.iter().map(plain).collect::<Vec<_>>().join(" "))
            }
            None => format!("{value:?}"),
        }
    }

    #[test]
    fn every_quick_form_gives_what_its_function_gives() {
        let (samples, mut n_quick) = (samples(), 0);
        let mut context = Context::new(&Limits { fuel: u64::MAX, ..Limits::default() });
        for function in functions() {
            let native = Value::Native(Arc::clone(library().native(MODULE, function.name).unwrap()));
            let Some(quick @ (Quick::One(_) | Quick::Two(_))) = quick_of(&native) else { continue };
            n_quick += 1;
            for (a, b) in samples.iter().flat_map(|a| samples.iter().map(move |b| (a, b))) {
                let (quickly, arguments) = match quick {
                    Quick::One(_) => (apply(&mut context, &native, Loose::Kept(a)), vec![a.clone()]),
                    Quick::Two(_) | Quick::Crop => {
                        (apply_two(&mut context, &native, Loose::Kept(a), Loose::Kept(b)), vec![a.clone(), b.clone()])
                    }
                };
                let quickly = told(quickly.and_then(|result| result.into_value(&context)));
                assert_eq!(quickly, told(context.call(&native, &arguments)), "{} of {arguments:?}", function.name);
            }
        }
        assert_eq!(n_quick, 68);
    }

    #[test]
    fn what_is_built_without_end_is_refused_as_too_deep() {
        let mut context = Context::new(&Limits { memory: 1 << 30, fuel: u64::MAX, ..Limits::default() });
        let native = |name: &str| Value::Native(Arc::clone(library().native(MODULE, name).unwrap()));
        let (increment, identity) = (native("increment"), native("identity"));
        let twice = context.call(&native("fork"), &[native("astuple"), identity.clone(), identity]).unwrap();
        let (mut chain, mut pairs) = (increment.clone(), increment.clone());
        for _ in 0..20_000 {
            chain = context.call(&native("compose"), &[increment.clone(), chain]).unwrap();
            let of_both = context.call(&native("lbind"), &[native("apply"), pairs]).unwrap();
            pairs = context.call(&native("compose"), &[of_both, twice.clone()]).unwrap();
        }
        for tower in [chain, pairs] {
            let fault = apply(&mut context, &tower, Loose::Made(Value::Int(0))).err().unwrap();
            assert_eq!(fault.kind(), hone_program::ErrorKind::Depth);
        }
    }
}
