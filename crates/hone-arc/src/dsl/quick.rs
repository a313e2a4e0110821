//! Quick forms of functions, which take and give results that need not be values.
//!
//! A quick form does what the function of that name does, or says `None`: then the function itself is called, which also says
//! what is wrong. So a quick form fails only where fuel or memory ends, or what it calls in turn fails.

use super::loose::Loose;
use super::packed::Point;
use super::read::{area, make, sort, touch};
use super::{MODULE, functions, library};
use crate::grid::Grid;
use crate::patch::{Extent, Kind, Patch, Place, colour_of};
use crate::relation;
use hone_program::{Context, Fault, Items, Native, Pair, Value};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

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

/// Spends what making a patch of so many elements costs, and gives it.
fn made(context: &Context, patch: Patch) -> Quickly {
    context.spend(PATCH_FUEL + patch.len() as u64 / 8)?;
    Ok(Some(Loose::Patch(Cow::Owned(patch))))
}

/// Fuel for a patch that is no value: it takes one piece of memory.
const PATCH_FUEL: u64 = 5;

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

fn numcolors(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(grid) = x.grid() else { return Ok(None) };
    touch(context, 2 * grid.cells().len())?;
    Ok(Some(int(grid.counts().occurring().count() as i64)))
}

/// The patch, where it has colours or is empty.
fn object<'a>(x: &'a Loose<'_>) -> Option<&'a Patch> {
    x.patch().filter(|patch| patch.kind() == Kind::Object || patch.is_empty())
}

fn palette(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(object) = object(x) else { return Ok(None) };
    touch(context, object.len())?;
    let colours = super::colours::runs(object).map(|(colour, _)| Value::Int(colour)).collect();
    Ok(Some(Loose::Made(context.meter().frozenset_sorted(colours)?)))
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

/// What a function makes of height and width.
fn sides(context: &Context, x: &Loose<'_>, of: fn(Place) -> Option<Loose<'static>>) -> Quickly {
    if let Some(grid) = x.grid() {
        return Ok(of((grid.height() as i64, grid.width() as i64)));
    }
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(of(patch.extent().map_or((0, 0), |extent| (extent.height(), extent.width()))))
}

/// What a function makes of the rectangle around a patch.
fn extent(context: &Context, x: &Loose<'_>, of: fn(&Extent) -> Option<Loose<'static>>) -> Quickly {
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(patch.extent().as_ref().and_then(of))
}

/// What a function makes of a patch, element by element in the same order.
fn moved(context: &Context, x: &Loose<'_>, of: impl Fn(&Patch) -> Option<Patch>) -> Quickly {
    let Some(patch) = x.patch() else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    of(patch).map_or(Ok(None), |patch| made(context, patch))
}

/// What a function makes of a patch, where the elements may get another order.
fn sorted(context: &Context, x: &Loose<'_>, of: impl Fn(&Patch) -> Option<Patch>) -> Quickly {
    sort(context, x.patch().map_or(0, Patch::len))?;
    moved(context, x, of)
}

fn asobject(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(grid) = x.grid() else { return Ok(None) };
    make(context, grid.cells().len() as i64, size_of::<u64>())?;
    grid.as_object().map_or(Ok(None), |object| made(context, object))
}

fn ofcolor(context: &mut Context, grid: &Loose<'_>, colour: &Loose<'_>) -> Quickly {
    let (Some(grid), Some(colour)) = (grid.grid(), colour.int()) else { return Ok(None) };
    make(context, grid.cells().len() as i64, size_of::<u64>())?;
    grid.of_color(colour).map_or(Ok(None), |indices| made(context, indices))
}

fn occurrences(context: &mut Context, grid: &Loose<'_>, object: &Loose<'_>) -> Quickly {
    let (Some(grid), Some(object)) = (grid.grid(), object.patch()) else { return Ok(None) };
    super::finding::seek(context, grid, object)?;
    grid.occurrences(object).map_or(Ok(None), |places| made(context, places))
}

fn canvas(context: &mut Context, colour: &Loose<'_>, sides: &Loose<'_>) -> Quickly {
    let (Some(Ok(colour)), Some((height, width))) = (colour.int().map(crate::paint::colour), sides.place()) else {
        return Ok(None);
    };
    make(context, area(height, width.saturating_add(1)), 1)?;
    context.spend(PATCH_FUEL)?;
    Ok(Some(Loose::Grid(Cow::Owned(Grid::canvas(colour, height.max(0) as usize, width.max(0) as usize)))))
}

/// Whether a patch is one wide across and as long along as it has elements.
fn line(context: &Context, x: &Loose<'_>, along_across: fn(Place) -> Place) -> Quickly {
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    let (along, across) = along_across(patch.extent().map_or((0, 0), |extent| (extent.height(), extent.width())));
    Ok(Some(truth(across == 1 && along == patch.len() as i64)))
}

fn around(context: &Context, x: &Loose<'_>, distances: &[Place]) -> Quickly {
    let Some(Ok(patch)) = x.place().map(|place| Patch::around(place, distances)) else { return Ok(None) };
    made(context, patch)
}

fn initset(context: &Context, x: &Loose<'_>) -> Quickly {
    let Some(pair) = x.seen().and_then(Value::as_pair) else { return Ok(None) };
    let point = Point::of(pair);
    made(context, Patch::sorted(point.kind, vec![point.key]))
}

fn connect(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(a), Some(b)) = (a.place(), b.place()) else { return Ok(None) };
    make(context, super::making::steps_between(a, b), size_of::<u64>())?;
    relation::connect(a, b).map_or(Ok(None), |patch| made(context, patch))
}

fn shoot(context: &mut Context, start: &Loose<'_>, direction: &Loose<'_>) -> Quickly {
    let (Some(start), Some(direction)) = (start.place(), direction.place()) else { return Ok(None) };
    make(context, super::making::steps_along(direction), size_of::<u64>())?;
    relation::shoot(start, direction).map_or(Ok(None), |patch| made(context, patch))
}

fn shift(context: &mut Context, patch: &Loose<'_>, by: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(by)) = (patch.patch(), by.place()) else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    patch.shift(by).map_or(Ok(None), |patch| made(context, patch))
}

fn toobject(context: &mut Context, patch: &Loose<'_>, grid: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(grid)) = (patch.patch(), grid.grid()) else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    sort(context, patch.len())?;
    grid.object_at(patch).map_or(Ok(None), |patch| made(context, patch))
}

/// What a function makes of two patches.
fn both(context: &Context, a: &Loose<'_>, b: &Loose<'_>, of: fn(&Patch, &Patch) -> Patch) -> Quickly {
    let (Some(a), Some(b)) = (a.patch(), b.patch()) else { return Ok(None) };
    make(context, (a.len() + b.len()) as i64, size_of::<u64>())?;
    made(context, of(a, b))
}

fn combine(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(patch_a), Some(patch_b)) = (a.patch(), b.patch()) else { return Ok(None) };
    if !patch_a.is_empty() && !patch_b.is_empty() && patch_a.kind() != patch_b.kind() {
        return Ok(None);
    }
    sort(context, patch_a.len() + patch_b.len())?;
    both(context, a, b, Patch::union)
}

fn colorcount(context: &mut Context, x: &Loose<'_>, colour: &Loose<'_>) -> Quickly {
    let (Some(object), Some(colour)) = (object(x), colour.int()) else { return Ok(None) };
    touch(context, object.len())?;
    Ok(Some(int(object.keys().iter().filter(|&&key| colour_of(key) == colour).count() as i64)))
}

fn adjacent(context: &mut Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(a), Some(b)) = (a.patch(), b.patch()) else { return Ok(None) };
    super::relations::seek(context, a, b, 1)?;
    Ok(a.is_adjacent(b).ok().map(truth))
}

fn bordering(context: &mut Context, patch: &Loose<'_>, grid: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(grid)) = (patch.patch(), grid.grid()) else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(patch.borders(grid).ok().map(truth))
}

/// The part of a grid that begins at a place, with these sides.
pub(super) fn crop(context: &Context, grid: &Grid, start: &Loose<'_>, sides: &Loose<'_>) -> Quickly {
    let (Some(start), Some(sides)) = (start.place(), sides.place()) else { return Ok(None) };
    let part = grid.crop(start, sides);
    touch(context, part.cells().len())?;
    context.spend(PATCH_FUEL)?;
    Ok(Some(Loose::Grid(Cow::Owned(part))))
}
