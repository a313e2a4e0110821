//! Results on their way from one function to the next.
//!
//! A patch or a grid that the next function only looks at never becomes a value: that saves its head, its count and two pieces
//! of memory.

use super::packed::as_patch;
use super::read::{Outcome, grid_value, patch_value};
use crate::grid::Grid;
use crate::patch::{Patch, Place};
use hone_program::{Context, Items, Value};
use std::borrow::Cow;

/// A result that the next function takes.
pub(super) enum Loose<'v> {
    /// A value that someone else holds.
    Kept(&'v Value),
    /// A value of its own.
    Made(Value),
    /// A patch that is no value yet.
    Patch(Cow<'v, Patch>),
    /// A grid that is no value yet.
    Grid(Cow<'v, Grid>),
}

impl Loose<'_> {
    /// The same result once more, for as long as this one lasts.
    pub(super) fn lent(&self) -> Loose<'_> {
        match self {
            Self::Kept(value) => Loose::Kept(value),
            Self::Made(value) => Loose::Kept(value),
            Self::Patch(patch) => Loose::Patch(Cow::Borrowed(patch)),
            Self::Grid(grid) => Loose::Grid(Cow::Borrowed(grid)),
        }
    }

    /// The result itself; nothing is left in its place.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Made(Value::None))
    }

    /// The value, where it is one already.
    #[inline]
    pub(super) fn seen(&self) -> Option<&Value> {
        match self {
            Self::Kept(value) => Some(value),
            Self::Made(value) => Some(value),
            Self::Patch(_) | Self::Grid(_) => None,
        }
    }

    /// The patch, where it is one in our representation.
    #[inline]
    pub(super) fn patch(&self) -> Option<&Patch> {
        match self {
            Self::Patch(patch) => Some(patch),
            _ => self.seen().and_then(as_patch),
        }
    }

    /// The grid, where it is one in our representation.
    #[inline]
    pub(super) fn grid(&self) -> Option<&Grid> {
        match self {
            Self::Grid(grid) => Some(grid),
            _ => self.seen().and_then(Value::packed::<Grid>),
        }
    }

    /// The number, where it is one; booleans are none.
    #[inline]
    pub(super) fn int(&self) -> Option<i64> {
        match self.seen()? {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The pair of numbers, where it is one.
    #[inline]
    pub(super) fn place(&self) -> Option<Place> {
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
            Self::Patch(patch) => patch_value(context, patch.into_owned()),
            Self::Grid(grid) => grid_value(context, grid.into_owned()),
        }
    }
}
