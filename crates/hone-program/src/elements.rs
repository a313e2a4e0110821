//! The elements of a tuple. Most tuples are pairs: those take one piece of memory, not two.

use crate::value::Value;

/// The elements of a tuple: two lie beside its head, others in a piece of memory of their own.
#[derive(Debug)]
pub(crate) enum Elements {
    Two([Value; 2]),
    Any(Vec<Value>),
}

impl Elements {
    /// Moves the elements out, for whoever drops them.
    pub(crate) fn drain_into(&mut self, waiting: &mut Vec<Value>) {
        match self {
            Self::Two(two) => waiting.extend(two.iter_mut().map(std::mem::take)),
            Self::Any(items) => waiting.append(items),
        }
    }
}

impl std::ops::Deref for Elements {
    type Target = [Value];

    #[inline]
    fn deref(&self) -> &[Value] {
        match self {
            Self::Two(two) => two,
            Self::Any(items) => items,
        }
    }
}
