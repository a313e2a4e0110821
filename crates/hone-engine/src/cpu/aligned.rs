//! Vectors that begin on a cache line, and the store of freed ones that the next step takes them from.
//!
//! A training step asks for the same few hundred sizes again and again; giving memory back to the system in between
//! would cost more in page faults than the arithmetic on it. The store keeps at most [`KEEP_BYTES_MAX`].
#![expect(unsafe_code, reason = "a slice of lines is viewed as a slice of numbers")]

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

const KEEP_BYTES_MAX: usize = 8 << 30;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Numbers that may be viewed in a line: any bit pattern is a value.
pub trait Plain: Copy + Send + Sync + 'static {}
impl Plain for f32 {}
impl Plain for u16 {}

/// Freed memory by size.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    freed: Mutex<Freed>,
}

/// Bytes kept, and the memory by its number of lines.
type Freed = (usize, HashMap<usize, Vec<Vec<Line>>>);

impl Arena {
    /// A vector of unspecified (but initialised) contents.
    pub(crate) fn take<T: Plain>(self: &Arc<Self>, len: usize) -> Aligned<T> {
        let n_lines = class((len * size_of::<T>()).div_ceil(64));
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = freed.1.get_mut(&n_lines).and_then(Vec::pop);
        if lines.is_some() {
            freed.0 -= n_lines * 64;
        }
        drop(freed);
        let lines = lines.unwrap_or_else(|| vec![Line([0; 64]); n_lines]);
        Aligned { lines, len, arena: Some(Arc::clone(self)), number: PhantomData }
    }

    /// A vector of zeros.
    pub(crate) fn zeros<T: Plain>(self: &Arc<Self>, len: usize) -> Aligned<T> {
        let mut taken = self.take(len);
        taken.lines.fill(Line([0; 64]));
        taken
    }
}

/// Rounds up to one of eight steps per power of two, so that sizes that differ a little share memory.
fn class(n_lines: usize) -> usize {
    let step = (n_lines.next_power_of_two() / 16).max(1);
    n_lines.next_multiple_of(step)
}

/// A vector that begins on a cache line.
#[derive(Debug)]
pub struct Aligned<T> {
    lines: Vec<Line>,
    len: usize,
    arena: Option<Arc<Arena>>,
    number: PhantomData<T>,
}

impl<T: Plain> Aligned<T> {
    /// Zeros that never go to a store: for weights, which live long.
    pub fn lasting(len: usize) -> Self {
        let lines = vec![Line([0; 64]); (len * size_of::<T>()).div_ceil(64)];
        Self { lines, len, arena: None, number: PhantomData }
    }
}

impl<T> Drop for Aligned<T> {
    fn drop(&mut self) {
        let Some(arena) = self.arena.take() else {
            return;
        };
        let lines = std::mem::take(&mut self.lines);
        let mut freed = arena.freed.lock().unwrap_or_else(PoisonError::into_inner);
        if freed.0 + lines.len() * 64 <= KEEP_BYTES_MAX {
            freed.0 += lines.len() * 64;
            freed.1.entry(lines.len()).or_default().push(lines);
        }
    }
}

impl<T: Plain> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` numbers, are aligned for any of them, are initialised, and `Plain`
        // types accept any bits.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` makes the view unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_taken_again() {
        let arena = Arc::new(Arena::default());
        let first = arena.take::<f32>(1000);
        let address = first.as_ptr();
        assert!((address as usize).is_multiple_of(64));
        drop(first);
        let second = arena.zeros::<f32>(990);
        assert_eq!(second.as_ptr(), address);
        assert!(second.iter().all(|&x| x == 0.0));
    }
}
