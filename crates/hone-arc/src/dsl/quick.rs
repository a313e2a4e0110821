//! Quick forms of functions, which take and give results that need not be values.
//!
//! A quick form does what the function of that name does, or says `None`: then the function itself is called, which also says
//! what is wrong. So a quick form fails only where fuel or memory ends, or what it calls in turn fails.

mod patches;

use super::loose::Loose;
use super::{MODULE, functions, library};
use crate::patch::{Kind, Patch, Place, colour_of};
use hone_program::{Context, Fault, Items, Native, Pair, Value};
use patches::{
    adjacent, around, asobject, bordering, both, canvas, colorcount, combine, connect, extent, initset, line, moved, numcolors,
    occurrences, ofcolor, palette, shift, shoot, sides, sorted, toobject,
};
use std::sync::{Arc, LazyLock};

pub(super) use patches::crop;

/// The quick form of a function, by how many parameters it has.
pub(super) enum Quick {
    /// Of one.
    One(QuickOne),
    /// Of two.
    Two(QuickTwo),
    /// Of three.
    Crop,
}

/// The quick form of a function of the grid language, where it has one.
#[inline]
pub(super) fn quick_of(function: &Value) -> Option<&'static Quick> {
    /// The functions in the order of their numbers, which follow each other.
    static FORMS: LazyLock<Vec<(Arc<Native>, Option<Quick>)>> = LazyLock::new(|| {
        let native = |name: &str| library().native(MODULE, name).map(Arc::clone);
        let form = |name: &str| quick_one(name).map(Quick::One).or_else(|| quick_two(name).map(Quick::Two));
        let form = |name: &str| if name == "crop" { Some(Quick::Crop) } else { form(name) };
        let mut forms: Vec<_> = functions().filter_map(|function| Some((native(function.name)?, form(function.name)))).collect();
        forms.sort_by_key(|(native, _)| native.id());
        forms
    });
    let Value::Native(native) = function else { return None };
    let place = native.id().checked_sub(FORMS.first()?.0.id())?;
    let (ours, form) = FORMS.get(usize::try_from(place).ok()?)?;
    form.as_ref().filter(|_| Arc::ptr_eq(ours, native))
}

/// What a quick form gives: nothing where the function itself has to be asked.
pub(super) type Quickly = Result<Option<Loose<'static>>, Fault>;
/// The quick form of a function of one parameter.
pub(super) type QuickOne = fn(&Context, &Loose<'_>) -> Quickly;
/// The quick form of a function of two parameters.
pub(super) type QuickTwo = fn(&mut Context, &Loose<'_>, &Loose<'_>) -> Quickly;

fn int(number: i64) -> Loose<'static> {
    Loose::Made(Value::Int(number))
}

fn truth(truth: bool) -> Loose<'static> {
    Loose::Made(Value::Bool(truth))
}

/// A pair of numbers, where they are small enough to be held in a value.
fn pair(numbers: Place) -> Option<Loose<'static>> {
    Pair::new(numbers.0, numbers.1).map(|pair| Loose::Made(Value::Pair(pair)))
}

/// A colour of a grid, or nothing.
fn colour(colour: Option<i8>) -> Loose<'static> {
    Loose::Made(colour.map_or(Value::None, |colour| Value::Int(i64::from(colour))))
}

/// The quick form of a function of one parameter, where it has one.
fn quick_one(name: &str) -> Option<QuickOne> {
    Some(match name {
        "first" => |_, x| Ok(end(x, 0)),
        "last" => |_, x| Ok(end(x, 1)),
        "size" => |_, x| Ok(size(x).map(|size| int(size as i64))),
        "positive" => |_, x| Ok(x.int().map(|number| truth(number > 0))),
        "even" => |_, x| Ok(x.int().map(|number| truth(number & 1 == 0))),
        "increment" => |_, x| Ok(unary(x, |number| number.checked_add(1))),
        "decrement" => |_, x| Ok(unary(x, |number| number.checked_sub(1))),
        "crement" => |_, x| Ok(unary(x, |number| number.checked_add(number.signum()))),
        "invert" => |_, x| Ok(unary(x, i64::checked_neg)),
        "double" => |_, x| Ok(unary(x, |number| number.checked_mul(2))),
        "halve" => |_, x| Ok(unary(x, |number| Some(number >> 1))),
        "sign" => |_, x| Ok(unary(x, |number| Some(number.signum()))),
        "toivec" => |_, x| Ok(x.int().and_then(|number| pair((number, 0)))),
        "tojvec" => |_, x| Ok(x.int().and_then(|number| pair((0, number)))),
        "identity" => |_, x| Ok(x.seen().cloned().map(Loose::Made)),
        "flip" => |_, x| Ok(Some(truth(!x.is_true()))),
        "maximum" => |context, x| extreme(context, x, i64::max),
        "minimum" => |context, x| extreme(context, x, i64::min),
        "numcolors" => numcolors,
        "palette" => palette,
        "height" => |context, x| sides(context, x, |sides| Some(int(sides.0))),
        "width" => |context, x| sides(context, x, |sides| Some(int(sides.1))),
        "shape" => |context, x| sides(context, x, pair),
        "portrait" => |context, x| sides(context, x, |sides| Some(truth(sides.0 > sides.1))),
        "uppermost" => |context, x| extent(context, x, |extent| Some(int(extent.top))),
        "lowermost" => |context, x| extent(context, x, |extent| Some(int(extent.bottom))),
        "leftmost" => |context, x| extent(context, x, |extent| Some(int(extent.left))),
        "rightmost" => |context, x| extent(context, x, |extent| Some(int(extent.right))),
        "ulcorner" => |context, x| extent(context, x, |extent| pair(extent.corners()[0])),
        "urcorner" => |context, x| extent(context, x, |extent| pair(extent.corners()[1])),
        "llcorner" => |context, x| extent(context, x, |extent| pair(extent.corners()[2])),
        "lrcorner" => |context, x| extent(context, x, |extent| pair(extent.corners()[3])),
        "center" => |context, x| extent(context, x, |extent| pair(extent.center())),
        "color" => |_, x| Ok(x.patch().filter(|patch| patch.kind() == Kind::Object).map(|patch| int(colour_of(patch.keys()[0])))),
        "normalize" => |context, x| moved(context, x, |patch| patch.normalize().ok()),
        "toindices" => |context, x| sorted(context, x, |patch| Some(patch.to_indices())),
        "asobject" => asobject,
        "vline" => |context, x| line(context, x, |(height, width)| (height, width)),
        "hline" => |context, x| line(context, x, |(height, width)| (width, height)),
        "neighbors" => |context, x| around(context, x, &super::making::AROUND),
        "dneighbors" => |context, x| around(context, x, &super::making::BESIDE),
        "ineighbors" => |context, x| around(context, x, &super::making::AT_CORNERS),
        "initset" => initset,
        _ => return None,
    })
}

/// The quick form of a function of two parameters, where it has one.
fn quick_two(name: &str) -> Option<QuickTwo> {
    Some(match name {
        "connect" => connect,
        "shoot" => shoot,
        "shift" => shift,
        "toobject" => toobject,
        "combine" => combine,
        "intersection" => |context, a, b| both(context, a, b, Patch::intersection),
        "difference" => |context, a, b| both(context, a, b, Patch::difference),
        "multiply" => |_, a, b| Ok(binary(a, b, i64::checked_mul)),
        "add" => |_, a, b| Ok(binary(a, b, i64::checked_add)),
        "subtract" => |_, a, b| Ok(binary(a, b, i64::checked_sub)),
        "apply" => apply,
        "astuple" => astuple,
        "recolor" => |context, colour, x| match colour.int() {
            Some(colour) => sorted(context, x, |patch| patch.recolor(colour).ok()),
            None => Ok(None),
        },
        "ofcolor" => ofcolor,
        "occurrences" => occurrences,
        "canvas" => canvas,
        "index" => |_, grid, at| Ok(grid.grid().zip(at.place()).map(|(grid, at)| colour(grid.at(at.0, at.1)))),
        "greater" => |_, a, b| Ok(numbers(a, b).map(|(a, b)| truth(a > b))),
        "equality" => |_, a, b| Ok(numbers(a, b).map(|(a, b)| truth(a == b))),
        "either" => |_, a, b| Ok(truths(a, b).map(|(a, b)| truth(a || b))),
        "both" => |_, a, b| Ok(truths(a, b).map(|(a, b)| truth(a && b))),
        "colorcount" => colorcount,
        "contained" => contained,
        "adjacent" => adjacent,
        "bordering" => bordering,
        _ => return None,
    })
}

/// The two numbers that results are.
fn numbers(a: &Loose<'_>, b: &Loose<'_>) -> Option<(i64, i64)> {
    Some((a.int()?, b.int()?))
}

/// What becomes of a number, or of both parts of a pair.
fn unary(x: &Loose<'_>, of: impl Fn(i64) -> Option<i64>) -> Option<Loose<'static>> {
    if let Some(number) = x.int() {
        return of(number).map(int);
    }
    let (down, right) = x.place()?;
    pair((of(down)?, of(right)?))
}

/// What becomes of two numbers, or part by part where at least one is a pair.
fn binary(a: &Loose<'_>, b: &Loose<'_>, of: fn(i64, i64) -> Option<i64>) -> Option<Loose<'static>> {
    match (a.int(), b.int()) {
        (Some(a), Some(b)) => of(a, b).map(int),
        (a_int, b_int) => {
            let a = a_int.map(|number| (number, number)).or_else(|| a.place())?;
            let b = b_int.map(|number| (number, number)).or_else(|| b.place())?;
            pair((of(a.0, b.0)?, of(a.1, b.1)?))
        }
    }
}

/// Of the container only a pair.
fn apply(context: &mut Context, function: &Loose<'_>, container: &Loose<'_>) -> Quickly {
    match (function.seen(), container.seen().and_then(Value::as_pair)) {
        (Some(function), Some(pair)) => {
            let applied = context.nested(|context| super::apply::to_pair(context, function, pair));
            Ok(Some(Loose::Made(applied.map_err(|fault| fault.within("apply"))?)))
        }
        _ => Ok(None),
    }
}

fn astuple(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    match (a.seen(), b.seen()) {
        (Some(a), Some(b)) => context.meter().pair(a.clone(), b.clone()).map(Loose::Made).map(Some),
        _ => Ok(None),
    }
}

/// The number of elements, where the result is a container.
fn size(x: &Loose<'_>) -> Option<usize> {
    match x {
        Loose::Patch(patch) => Some(patch.len()),
        Loose::Grid(grid) => Some(grid.height()),
        Loose::Kept(value) => value.container().map(|(_, items)| items.len()),
        Loose::Made(value) => value.container().map(|(_, items)| items.len()),
    }
}

/// The two booleans that results are.
fn truths(a: &Loose<'_>, b: &Loose<'_>) -> Option<(bool, bool)> {
    match (a.seen()?, b.seen()?) {
        (Value::Bool(a), Value::Bool(b)) => Some((*a, *b)),
        _ => None,
    }
}

/// The first or second element of a pair.
fn end(x: &Loose<'_>, idx: usize) -> Option<Loose<'static>> {
    let value = x.seen()?;
    match value.as_pair() {
        Some(pair) => Some(Loose::Made(pair.element(idx))),
        None => match value.as_tuple()? {
            Items::Plain([first, last]) => Some(Loose::Made(if idx == 0 { first } else { last }.clone())),
            _ => None,
        },
    }
}

/// The greatest or the least of plain numbers.
fn extreme(context: &Context, x: &Loose<'_>, of: fn(i64, i64) -> i64) -> Quickly {
    let Some(value) = x.seen() else { return Ok(None) };
    if let Some((first, second)) = value.as_pair().and_then(Pair::numbers) {
        return Ok(Some(int(of(first, second))));
    }
    let Some((_, Items::Plain([Value::Int(first), rest @ ..]))) = value.container() else { return Ok(None) };
    context.spend(rest.len() as u64 / 4)?;
    let better = |best: i64, item: &Value| if let Value::Int(number) = item { Some(of(best, *number)) } else { None };
    Ok(rest.iter().try_fold(*first, better).map(int))
}

/// Whether a number is in a plain set of numbers.
fn contained(context: &mut Context, number: &Loose<'_>, set: &Loose<'_>) -> Quickly {
    let (Some(number), Some(Items::Plain(items))) = (number.int(), set.seen().and_then(Value::as_frozenset)) else {
        return Ok(None);
    };
    context.spend(1 + items.len() as u64 / 4)?;
    let is_plain = items.iter().all(|item| matches!(item, Value::Int(_)));
    Ok(is_plain.then(|| truth(items.iter().any(|item| matches!(item, Value::Int(item) if *item == number)))))
}
