//! Results on their way from one function to the next, and the functions that take them so.
//!
//! A patch or a grid that the next function only looks at never becomes a value: that saves its head, its count and two pieces
//! of memory. A quick form does what the function of that name does, or says `None`: then the function itself is called, which also says
//! what is wrong. So a quick form fails only where fuel or memory ends.

use super::packed::{Point, as_patch};
use super::read::{Outcome, grid_value, make, patch_value, sort, touch};
use crate::grid::Grid;
use crate::patch::{Kind, Patch, Place, colour_of};
use crate::relation;
use hone_program::{Context, Fault, Items, Pair, Value};

/// A result that the next function takes.
pub(super) enum Loose<'v> {
    /// A value that someone else holds.
    Kept(&'v Value),
    /// A value of its own.
    Made(Value),
    /// A patch that is no value yet.
    Patch(Patch),
    /// A grid that is no value yet.
    Grid(Grid),
}

impl Loose<'_> {
    fn seen(&self) -> Option<&Value> {
        match self {
            Self::Kept(value) => Some(value),
            Self::Made(value) => Some(value),
            Self::Patch(_) | Self::Grid(_) => None,
        }
    }

    /// The patch, where it is one in our representation.
    pub(super) fn patch(&self) -> Option<&Patch> {
        match self {
            Self::Patch(patch) => Some(patch),
            _ => self.seen().and_then(as_patch),
        }
    }

    fn grid(&self) -> Option<&Grid> {
        match self {
            Self::Grid(grid) => Some(grid),
            _ => self.seen().and_then(Value::packed::<Grid>),
        }
    }

    fn int(&self) -> Option<i64> {
        match self.seen()? {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    fn place(&self) -> Option<Place> {
        let value = self.seen()?;
        match value.as_pair() {
            Some(pair) => pair.numbers(),
            None => match value.as_tuple()? {
                Items::Plain([Value::Int(row), Value::Int(column)]) => Some((*row, *column)),
                _ => None,
            },
        }
    }

    /// Whether it counts as true.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Kept(value) => value.is_true(),
            Self::Made(value) => value.is_true(),
            Self::Patch(patch) => !patch.is_empty(),
            Self::Grid(grid) => grid.height() > 0,
        }
    }

    /// The value of it.
    pub(super) fn into_value(self, context: &Context) -> Outcome {
        match self {
            Self::Kept(value) => Ok(value.clone()),
            Self::Made(value) => Ok(value),
            Self::Patch(patch) => patch_value(context, patch),
            Self::Grid(grid) => grid_value(context, grid),
        }
    }

    /// A value for a function that has no quick form.
    pub(super) fn to_value(&self, context: &Context) -> Outcome {
        match self {
            Self::Kept(value) => Ok((*value).clone()),
            Self::Made(value) => Ok(value.clone()),
            Self::Patch(patch) => patch_value(context, patch.clone()),
            Self::Grid(grid) => grid_value(context, grid.clone()),
        }
    }
}

/// What a quick form gives: nothing where the function itself has to be asked.
pub(super) type Quickly = Result<Option<Loose<'static>>, Fault>;
/// The quick form of a function of one parameter.
pub(super) type QuickOne = fn(&Context, &Loose<'_>) -> Quickly;
/// The quick form of a function of two parameters.
pub(super) type QuickTwo = fn(&Context, &Loose<'_>, &Loose<'_>) -> Quickly;

fn int(number: i64) -> Loose<'static> {
    Loose::Made(Value::Int(number))
}

fn truth(truth: bool) -> Loose<'static> {
    Loose::Made(Value::Bool(truth))
}

/// Spends what making a patch of so many elements costs, and gives it.
fn made(context: &Context, patch: Patch) -> Quickly {
    context.spend(PATCH_FUEL + patch.len() as u64 / 8)?;
    Ok(Some(Loose::Patch(patch)))
}

/// Fuel for a patch that is no value: it takes one piece of memory.
const PATCH_FUEL: u64 = 5;

/// The quick form of a function of one parameter, where it has one.
pub(super) fn quick_one(name: &str) -> Option<QuickOne> {
    Some(match name {
        "first" => |_, x| Ok(end(x, 0)),
        "last" => |_, x| Ok(end(x, 1)),
        "size" => |_, x| Ok(x.patch().map(|patch| int(patch.len() as i64))),
        "positive" => |_, x| Ok(x.int().map(|number| truth(number > 0))),
        "even" => |_, x| Ok(x.int().map(|number| truth(number & 1 == 0))),
        "increment" => |_, x| Ok(x.int().and_then(|number| number.checked_add(1)).map(int)),
        "decrement" => |_, x| Ok(x.int().and_then(|number| number.checked_sub(1)).map(int)),
        "flip" => |_, x| Ok(Some(truth(!x.is_true()))),
        "maximum" => |context, x| extreme(context, x, i64::max),
        "minimum" => |context, x| extreme(context, x, i64::min),
        "numcolors" => numcolors,
        "palette" => palette,
        "height" => |context, x| sides(context, x, |sides| int(sides.0)),
        "width" => |context, x| sides(context, x, |sides| int(sides.1)),
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
pub(super) fn quick_two(name: &str) -> Option<QuickTwo> {
    Some(match name {
        "connect" => connect,
        "shoot" => shoot,
        "shift" => shift,
        "toobject" => toobject,
        "combine" => combine,
        "intersection" => |context, a, b| both(context, a, b, Patch::intersection),
        "difference" => |context, a, b| both(context, a, b, Patch::difference),
        "multiply" => |_, a, b| Ok(numbers(a, b).and_then(|(a, b)| a.checked_mul(b)).map(int)),
        "add" => |_, a, b| Ok(numbers(a, b).and_then(|(a, b)| a.checked_add(b)).map(int)),
        "subtract" => |_, a, b| Ok(numbers(a, b).and_then(|(a, b)| a.checked_sub(b)).map(int)),
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
fn contained(context: &Context, number: &Loose<'_>, set: &Loose<'_>) -> Quickly {
    let (Some(number), Some(Items::Plain(items))) = (number.int(), set.seen().and_then(Value::as_frozenset)) else {
        return Ok(None);
    };
    context.spend(1 + items.len() as u64 / 4)?;
    let is_plain = items.iter().all(|item| matches!(item, Value::Int(_)));
    Ok(is_plain.then(|| truth(items.iter().any(|item| matches!(item, Value::Int(item) if *item == number)))))
}

/// What a function makes of height and width.
fn sides(context: &Context, x: &Loose<'_>, of: fn(Place) -> Loose<'static>) -> Quickly {
    if let Some(grid) = x.grid() {
        return Ok(Some(of((grid.height() as i64, grid.width() as i64))));
    }
    let Some(patch) = x.patch() else { return Ok(None) };
    touch(context, patch.len())?;
    Ok(Some(of(patch.extent().map_or((0, 0), |extent| (extent.height(), extent.width())))))
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

fn connect(context: &Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(a), Some(b)) = (a.place(), b.place()) else { return Ok(None) };
    make(context, super::making::steps_between(a, b), size_of::<u64>())?;
    relation::connect(a, b).map_or(Ok(None), |patch| made(context, patch))
}

fn shoot(context: &Context, start: &Loose<'_>, direction: &Loose<'_>) -> Quickly {
    let (Some(start), Some(direction)) = (start.place(), direction.place()) else { return Ok(None) };
    make(context, super::making::steps_along(direction), size_of::<u64>())?;
    relation::shoot(start, direction).map_or(Ok(None), |patch| made(context, patch))
}

fn shift(context: &Context, patch: &Loose<'_>, by: &Loose<'_>) -> Quickly {
    let (Some(patch), Some(by)) = (patch.patch(), by.place()) else { return Ok(None) };
    make(context, patch.len() as i64, size_of::<u64>())?;
    patch.shift(by).map_or(Ok(None), |patch| made(context, patch))
}

fn toobject(context: &Context, patch: &Loose<'_>, grid: &Loose<'_>) -> Quickly {
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

fn combine(context: &Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(patch_a), Some(patch_b)) = (a.patch(), b.patch()) else { return Ok(None) };
    if !patch_a.is_empty() && !patch_b.is_empty() && patch_a.kind() != patch_b.kind() {
        return Ok(None);
    }
    sort(context, patch_a.len() + patch_b.len())?;
    both(context, a, b, Patch::union)
}

fn colorcount(context: &Context, x: &Loose<'_>, colour: &Loose<'_>) -> Quickly {
    let (Some(object), Some(colour)) = (object(x), colour.int()) else { return Ok(None) };
    touch(context, object.len())?;
    Ok(Some(int(object.keys().iter().filter(|&&key| colour_of(key) == colour).count() as i64)))
}

fn adjacent(context: &Context, a: &Loose<'_>, b: &Loose<'_>) -> Quickly {
    let (Some(a), Some(b)) = (a.patch(), b.patch()) else { return Ok(None) };
    super::relations::seek(context, a, b, 1)?;
    Ok(a.is_adjacent(b).ok().map(truth))
}

fn bordering(context: &Context, patch: &Loose<'_>, grid: &Loose<'_>) -> Quickly {
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
    Ok(Some(Loose::Grid(part)))
}
