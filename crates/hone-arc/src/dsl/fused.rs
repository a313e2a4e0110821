//! Functions that builders put together, taken apart again: what they give to each other need not become values.
//!
//! `compose`, `chain`, `fork`, `matcher`, `lbind` and `rbind` become a tree that is applied to one element after the other by those
//! functions that go over containers. It gives what calling the function would give, and fails as it would. Whatever is not known here
//! is called as ever.

use super::loose::{Loose, QuickOne, QuickTwo, crop, quick_one, quick_two};
use super::read::Outcome;
use super::{MODULE, library};
use crate::grid::Grid;
use hone_program::{Context, Fault, Value};
use std::sync::Arc;

/// How deep a function is taken apart, and into how many parts: what lies beyond is called.
const DEPTH_MAX: usize = 12;
const PARTS_MAX: usize = 48;
/// How often a function must be applied for taking it apart to pay.
const TIMES_MIN: usize = 4;

/// A function of one parameter.
pub(super) enum Fused<'v> {
    /// A function with a quick form.
    One(&'v Value, QuickOne),
    /// Functions one after the other, the innermost first.
    Chain(Vec<Fused<'v>>),
    /// A function of two results.
    Fork(Box<(Joint<'v>, Fused<'v>, Fused<'v>)>),
    /// Whether a result equals a value.
    Match(Box<Fused<'v>>, &'v Value),
    /// A function of two parameters, the first of them fixed.
    Left(Joint<'v>, &'v Value),
    /// A function of two parameters, the last of them fixed.
    Right(Joint<'v>, &'v Value),
    /// Anything else.
    Called(&'v Value),
}

/// A function of two parameters.
pub(super) enum Joint<'v> {
    /// A function with a quick form.
    Two(&'v Value, QuickTwo),
    /// `combine`, which whoever collects patches may leave out.
    Combine(&'v Value, QuickTwo),
    /// `crop` of a grid.
    Crop(&'v Value, &'v Grid),
    /// Anything else.
    Called(&'v Value),
}

/// The name of a function of the grid language.
fn name_of(function: &Value) -> Option<&'static str> {
    let Value::Native(native) = function else { return None };
    let is_ours = library().native(MODULE, native.name()).is_some_and(|ours| Arc::ptr_eq(ours, native));
    is_ours.then(|| native.name())
}

impl<'v> Fused<'v> {
    /// Takes a function apart that is applied so many times; for a few it does not pay.
    pub(super) fn new(function: &'v Value, n_times: usize) -> Self {
        let mut parts_left = PARTS_MAX;
        match n_times < TIMES_MIN {
            true => Self::Called(function),
            false => Self::part(function, DEPTH_MAX, &mut parts_left),
        }
    }

    fn part(function: &'v Value, depth: usize, parts_left: &mut usize) -> Self {
        let Some(left) = parts_left.checked_sub(1).filter(|_| depth > 0) else { return Self::Called(function) };
        *parts_left = left;
        if let Some(quick) = name_of(function).and_then(quick_one) {
            return Self::One(function, quick);
        }
        let mut part = |inner: &'v Value| Self::part(inner, depth - 1, parts_left);
        match function.as_built() {
            Some(("compose", [outer, inner])) => Self::Chain(vec![part(inner), part(outer)]),
            Some(("chain", [h, g, f])) => Self::Chain(vec![part(f), part(g), part(h)]),
            Some(("matcher", [inner, target])) => Self::Match(Box::new(part(inner)), target),
            Some(("fork", [outer, a, b])) => Self::Fork(Box::new((Joint::new(outer), part(a), part(b)))),
            Some(("lbind", [inner, fixed])) => Joint::known(inner).map_or(Self::Called(function), |j| Self::Left(j, fixed)),
            Some(("rbind", [inner, fixed])) => Joint::known(inner).map_or(Self::Called(function), |j| Self::Right(j, fixed)),
            _ => Self::Called(function),
        }
    }

    /// Applies the function.
    pub(super) fn apply(&self, context: &mut Context, x: &Loose<'v>) -> Result<Loose<'v>, Fault> {
        match self {
            Self::One(function, quick) => {
                context.spend(1)?;
                match quick(context, x)? {
                    Some(result) => Ok(result),
                    None => called(context, function, &[x]),
                }
            }
            Self::Chain(parts) => {
                context.spend(1)?;
                let mut result = None;
                for part in parts {
                    result = Some(part.apply(context, result.as_ref().unwrap_or(x))?);
                }
                Ok(result.unwrap_or(Loose::Made(Value::None)))
            }
            Self::Fork(parts) => {
                context.spend(1)?;
                let (joint, a, b) = &**parts;
                let (a, b) = (a.apply(context, x)?, b.apply(context, x)?);
                joint.apply(context, &a, &b)
            }
            Self::Match(part, target) => {
                context.spend(1)?;
                let result = part.apply(context, x)?.into_value(context)?;
                Ok(Loose::Made(Value::Bool(context.equal(&result, target)?)))
            }
            Self::Left(joint, fixed) => {
                context.spend(1)?;
                joint.apply(context, &Loose::Kept(fixed), x)
            }
            Self::Right(joint, fixed) => {
                context.spend(1)?;
                joint.apply(context, x, &Loose::Kept(fixed))
            }
            Self::Called(function) => called(context, function, &[x]),
        }
    }

    /// Applies the function to a value and gives the value of the result.
    pub(super) fn value(&self, context: &mut Context, x: &'v Value) -> Outcome {
        self.apply(context, &Loose::Kept(x))?.into_value(context)
    }
}

impl<'v> Joint<'v> {
    /// Takes a function of two parameters apart.
    pub(super) fn new(function: &'v Value) -> Self {
        Self::known(function).unwrap_or(Self::Called(function))
    }

    /// The function, where it is known to have two parameters.
    fn known(function: &'v Value) -> Option<Self> {
        if let Some(("lbind", [inner, fixed])) = function.as_built() {
            let grid = fixed.packed::<Grid>()?;
            return (name_of(inner)? == "crop").then_some(Self::Crop(function, grid));
        }
        let name = name_of(function)?;
        let quick = quick_two(name)?;
        Some(if name == "combine" { Self::Combine(function, quick) } else { Self::Two(function, quick) })
    }

    /// Applies the function.
    pub(super) fn apply(&self, context: &mut Context, a: &Loose<'v>, b: &Loose<'v>) -> Result<Loose<'v>, Fault> {
        context.spend(1)?;
        let (function, result) = match self {
            Self::Two(function, quick) | Self::Combine(function, quick) => (function, quick(context, a, b)?),
            Self::Crop(function, grid) => (function, crop(context, grid, a, b)?),
            Self::Called(function) => (function, None),
        };
        result.map_or_else(|| called(context, function, &[a, b]), Ok)
    }
}

/// Calls a function that is not known here.
fn called<'v>(context: &mut Context, function: &Value, arguments: &[&Loose<'v>]) -> Result<Loose<'v>, Fault> {
    match arguments {
        [x] => {
            let x = x.to_value(context)?;
            context.call(function, &[x]).map(Loose::Made)
        }
        _ => {
            let arguments = arguments.iter().map(|x| x.to_value(context)).collect::<Result<Vec<_>, _>>()?;
            context.call(function, &arguments).map(Loose::Made)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::{functions, patch};
    use crate::patch::Patch;
    use hone_program::{Limits, Meter};

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
            if let Fused::One(..) = Fused::new(&native, TIMES_MIN) {
                n_quick += 1;
                for x in &samples {
                    let quickly = told(Fused::new(&native, TIMES_MIN).value(&mut context, x));
                    let called = told(context.call(&native, std::slice::from_ref(x)));
                    assert_eq!(quickly, called, "{} of {x:?}", function.name);
                }
            }
            let Some(joint) = Joint::known(&native) else { continue };
            n_quick += 1;
            for (a, b) in samples.iter().flat_map(|a| samples.iter().map(move |b| (a, b))) {
                let quickly = joint.apply(&mut context, &Loose::Kept(a), &Loose::Kept(b));
                let quickly = told(quickly.and_then(|result| result.into_value(&context)));
                let called = told(context.call(&native, &[a.clone(), b.clone()]));
                assert_eq!(quickly, called, "{} of {a:?} and {b:?}", function.name);
            }
        }
        assert_eq!(n_quick, 38);
    }

    #[test]
    fn what_is_built_without_end_is_taken_apart_to_an_end() {
        let mut context = Context::new(&Limits { memory: 1 << 30, fuel: u64::MAX, ..Limits::default() });
        let native = |name: &str| Value::Native(Arc::clone(library().native(MODULE, name).unwrap()));
        let mut tower = native("increment");
        for _ in 0..400 {
            tower = context.call(&native("fork"), &[native("greater"), tower.clone(), tower]).unwrap();
        }
        let mut parts_left = PARTS_MAX;
        Fused::part(&tower, DEPTH_MAX, &mut parts_left);
        assert_eq!(parts_left, 0);
    }
}
