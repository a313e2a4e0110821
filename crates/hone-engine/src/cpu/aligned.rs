//! Vectors that begin on a cache line, and the store of freed ones that the next step takes them from.
//!
//! A training step asks for the same few hundred sizes again and again; giving memory back to the system in between
//! would cost more in page faults than the arithmetic on it. The store keeps at most [`KEEP_BYTES_MAX`]. Weights are read from one
//! end to the other for every token: they lie side by side in pages of 2 MiB where the system has such, because prefetching
//! stops at the end of a page.
#![expect(unsafe_code, reason = "a stretch of memory is viewed as a slice of numbers")]

use memmap2::{Advice, MmapMut};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

const KEEP_BYTES_MAX: usize = 8 << 30;
/// Memory of at least this size comes from the system in large pages.
const LARGE_BYTES: usize = 4 << 20;
/// Weights share stretches of this size.
const STRETCH_BYTES: usize = 64 << 20;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Numbers that may be viewed in a line: any bit pattern is a value.
pub trait Plain: Copy + Send + Sync + 'static {}
impl Plain for f32 {}
impl Plain for u16 {}

/// Where lines are. All of them are initialised.
#[derive(Debug)]
enum Lines {
    Heap(Vec<Line>),
    Large(MmapMut),
    Part(Part),
}

impl Lines {
    fn zeros(n_lines: usize) -> Self {
        match (n_lines * 64 >= LARGE_BYTES).then(|| large(n_lines * 64)).flatten() {
            Some(map) => Self::Large(map),
            None => Self::Heap(vec![Line([0; 64]); n_lines]),
        }
    }

    fn n_bytes(&self) -> usize {
        match self {
            Self::Heap(lines) => lines.len() * 64,
            Self::Large(map) => map.len(),
            Self::Part(part) => part.n_bytes,
        }
    }

    fn pointer(&self) -> *const u8 {
        match self {
            Self::Heap(lines) => lines.as_ptr().cast(),
            Self::Large(map) => map.as_ptr(),
            Self::Part(part) => part.pointer(),
        }
    }

    fn pointer_mut(&mut self) -> *mut u8 {
        match self {
            Self::Heap(lines) => lines.as_mut_ptr().cast(),
            Self::Large(map) => map.as_mut_ptr(),
            Self::Part(part) => part.pointer(),
        }
    }
}

/// Zeros from the system, in large pages where it has such. `None` when it has no memory: the heap then says so.
fn large(n_bytes: usize) -> Option<MmapMut> {
    let map = MmapMut::map_anon(n_bytes).ok()?;
    // A wish: without it the pages are small, and everything else is the same.
    let _ = map.advise(Advice::HugePage);
    Some(map)
}

/// Memory that is handed out piece by piece and goes back as a whole, when the last piece is gone.
#[derive(Debug)]
struct Stretch {
    map: MmapMut,
    start: usize,
}

/// A piece of a stretch that nobody else has.
#[derive(Debug)]
struct Part {
    stretch: Arc<Stretch>,
    at: usize,
    n_bytes: usize,
}

impl Part {
    fn take(n_bytes: usize) -> Option<Self> {
        static OPEN: Mutex<Option<(Arc<Stretch>, usize)>> = Mutex::new(None);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_none_or(|(stretch, used)| used + n_bytes > stretch.map.len()) {
            let mut map = large(n_bytes.max(STRETCH_BYTES))?;
            let start = map.as_mut_ptr() as usize;
            *open = Some((Arc::new(Stretch { map, start }), 0));
        }
        let (stretch, used) = open.as_mut()?;
        let part = Self { stretch: Arc::clone(stretch), at: *used, n_bytes };
        *used += n_bytes;
        Some(part)
    }

    fn pointer(&self) -> *mut u8 {
        (self.stretch.start + self.at) as *mut u8
    }
}

/// Freed memory by size.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    freed: Mutex<Freed>,
}

/// Bytes kept, and the memory by its size.
type Freed = (usize, HashMap<usize, Vec<Lines>>);

impl Arena {
    /// A vector of unspecified (but initialised) contents.
    pub(crate) fn take<T: Plain>(self: &Arc<Self>, len: usize) -> Aligned<T> {
        let n_lines = class((len * size_of::<T>()).div_ceil(64));
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = freed.1.get_mut(&(n_lines * 64)).and_then(Vec::pop);
        if lines.is_some() {
            freed.0 -= n_lines * 64;
        }
        drop(freed);
        let lines = lines.unwrap_or_else(|| Lines::zeros(n_lines));
        Aligned { lines, len, arena: Some(Arc::clone(self)), number: PhantomData }
    }

    /// A vector of zeros.
    pub(crate) fn zeros<T: Plain>(self: &Arc<Self>, len: usize) -> Aligned<T> {
        let mut taken = self.take::<T>(len);
        // SAFETY: `pointer_mut` is valid for `n_bytes`, all zeros are a value of every `Plain` type, and the vector is ours.
        unsafe { taken.lines.pointer_mut().write_bytes(0, taken.lines.n_bytes()) };
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
    lines: Lines,
    len: usize,
    arena: Option<Arc<Arena>>,
    number: PhantomData<T>,
}

impl<T: Plain> Aligned<T> {
    /// Zeros that never go to a store: for weights, which live long.
    pub fn lasting(len: usize) -> Self {
        let n_lines = (len * size_of::<T>()).div_ceil(64);
        let lines = Part::take(n_lines * 64).map_or_else(|| Lines::zeros(n_lines), Lines::Part);
        Self { lines, len, arena: None, number: PhantomData }
    }
}

impl<T> Drop for Aligned<T> {
    fn drop(&mut self) {
        let Some(arena) = self.arena.take() else {
            return;
        };
        let lines = std::mem::replace(&mut self.lines, Lines::Heap(Vec::new()));
        let mut freed = arena.freed.lock().unwrap_or_else(PoisonError::into_inner);
        if freed.0 + lines.n_bytes() <= KEEP_BYTES_MAX {
            freed.0 += lines.n_bytes();
            freed.1.entry(lines.n_bytes()).or_default().push(lines);
        }
    }
}

impl<T: Plain> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` numbers, begin on a cache line or a page, are initialised, and `Plain` types
        // accept any bits. A part of a stretch overlaps no other part and keeps the stretch alive.
        unsafe { std::slice::from_raw_parts(self.lines.pointer().cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` makes the view unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.pointer_mut().cast(), self.len) }
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

    #[test]
    fn weights_lie_side_by_side_and_do_not_overlap() {
        let mut all: Vec<Aligned<f32>> = [1000, 33, STRETCH_BYTES, 5].map(Aligned::lasting).into();
        for (i, weights) in all.iter_mut().enumerate() {
            assert!((weights.as_ptr() as usize).is_multiple_of(64));
            assert!(weights.iter().all(|&x| x == 0.0));
            weights.fill(i as f32 + 1.0);
        }
        drop(all.remove(0));
        assert!(all.iter().zip([2.0, 3.0, 4.0]).all(|(weights, x)| weights.iter().all(|&y| y == x)));
    }

    #[test]
    fn large_memory_is_taken_again_too() {
        let arena = Arc::new(Arena::default());
        let first = arena.take::<f32>(LARGE_BYTES);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(arena.zeros::<f32>(LARGE_BYTES).as_ptr(), address);
    }
}
