//! The union of patches as they come, before any of them becomes a value.

use super::containers::merged;
use super::fused::{DEPTH_MAX, apply, apply_two, is_combine, nothing};
use super::loose::Loose;
use super::read::{Outcome, patch_value, sort};
use crate::near::Near;
use crate::patch::{Kind, Patch};
use hone_program::{Charge, Context, Fault, Shape, Value};

/// Elements from which on places are bits of a map, and repeated elements of objects are dropped before more come.
const LEN_MAP: usize = 1 << 8;
const LEN_TIDY: usize = 1 << 13;

/// What was gathered: elements of one kind, and whatever else came.
pub(super) struct Gathered {
    kind: Kind,
    keys: Vec<u64>,
    near: Option<Near>,
    others: Vec<Value>,
    charge: Charge,
    len_tidy: usize,
}

impl Gathered {
    /// Nothing yet.
    pub(super) fn new(context: &Context) -> Result<Self, Fault> {
        let charge = context.meter().charge(0)?;
        Ok(Self { kind: Kind::Indices, keys: Vec::new(), near: None, others: Vec::new(), charge, len_tidy: LEN_TIDY })
    }

    /// Gathers what a function gives for a value.
    pub(super) fn take(&mut self, context: &mut Context, function: &Value, x: &Value) -> Result<(), Fault> {
        match self.pour(context, function, x, DEPTH_MAX)? {
            Some(rest) => self.put(context, rest),
            None => Ok(()),
        }
    }

    /// Gathers what a function gives if that is a patch, and gives it back otherwise.
    fn pour(
        &mut self,
        context: &mut Context,
        function: &Value,
        x: &Value,
        depth: usize,
    ) -> Result<Option<Loose<'static>>, Fault> {
        if let Some(("fork", [outer, a, b])) = function.as_built()
            && let (true, Some(depth)) = (is_combine(outer), depth.checked_sub(1))
        {
            context.spend(2)?;
            if let Some(a) = self.pour(context, a, x, depth)? {
                let b = apply(context, b, Loose::Kept(x))?;
                return apply_two(context, outer, a, b).map(Some);
            }
            // The elements of the first are here already, and stand for a set that may be empty.
            return match self.pour(context, b, x, depth)? {
                Some(b) => apply_two(context, outer, nothing(), b).map(Some),
                None => Ok(None),
            };
        }
        let result = apply(context, function, Loose::Kept(x))?;
        match result.patch() {
            Some(patch) if self.fits(patch) => self.add(context, patch).map(|()| None),
            _ => Ok(Some(result)),
        }
    }

    /// Whether the elements of a patch are of the kind of those that are here.
    fn fits(&self, patch: &Patch) -> bool {
        patch.is_empty() || self.is_empty() || patch.kind() == self.kind
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.near.is_none()
    }

    fn add(&mut self, context: &Context, patch: &Patch) -> Result<(), Fault> {
        if patch.is_empty() {
            return Ok(());
        }
        self.kind = patch.kind();
        sort(context, patch.len())?;
        if self.kind == Kind::Indices && self.near.is_none() && self.keys.len() + patch.len() > LEN_MAP {
            let (mut near, gathered) = (Near::new(), std::mem::take(&mut self.keys));
            near.add(&gathered, &mut self.keys);
            self.near = Some(near);
        }
        if self.keys.len() + patch.len() > self.len_tidy {
            let tidied = Patch::of(self.kind, std::mem::take(&mut self.keys));
            self.len_tidy = LEN_TIDY.max(4 * tidied.len());
            self.keys = tidied.into_keys();
        }
        self.charge.resize(size_of::<u64>() * (self.keys.len() + patch.len()))?;
        match &mut self.near {
            Some(near) => near.add(patch.keys(), &mut self.keys),
            None => self.keys.extend_from_slice(patch.keys()),
        }
        Ok(())
    }

    /// Gathers anything.
    fn put(&mut self, context: &Context, result: Loose<'_>) -> Result<(), Fault> {
        self.others.push(result.into_value(context)?);
        Ok(())
    }

    /// The union of it all.
    pub(super) fn into_value(mut self, context: &mut Context) -> Outcome {
        if let Some(near) = &self.near {
            near.read_into(&mut self.keys);
        }
        let patch = patch_value(context, Patch::of(self.kind, self.keys))?;
        if self.others.is_empty() {
            return Ok(patch);
        }
        self.others.push(patch);
        merged(context, Shape::FrozenSet, &self.others)
    }
}
