//! Vectors that begin on a cache line, and the store of freed ones that the next step takes them from.
//!
//! A training step asks for the same few hundred sizes again and again; giving memory back to the system in between
//! would cost more in page faults than the arithmetic on it. What is kept and what is in use are together little more than what was
//! ever in use at once: where a new size would exceed that, the sizes go that were asked for longest ago.
//! Memory that is new is zero and not yet there: the system gives each page when something is first written to it.
#![expect(unsafe_code, reason = "a slice of lines is viewed as a slice of numbers")]

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So much is kept in any case.
const KEEP_BYTES_MIN: usize = 256 << 20;
/// Beyond the most that was in use at once, this part of it.
const KEEP_PART: usize = 4;

const LINE_BYTES: usize = 64;
/// What lines are made of. Allocators give zeros without writing them only where no more than this alignment is asked for.
type Quarter = u128;
const N_QUARTERS: usize = LINE_BYTES / size_of::<Quarter>();

/// Cache lines, all zero when they are made.
#[derive(Debug, Default)]
struct Lines {
    quarters: Vec<Quarter>,
    /// Where the first line begins.
    first: usize,
    n_lines: usize,
}

impl Lines {
    fn new(n_lines: usize) -> Self {
        let quarters = vec![0; (n_lines + 1) * N_QUARTERS - 1];
        let first = quarters.as_ptr().align_offset(LINE_BYTES);
        assert!(first < N_QUARTERS, "a line begins in the first four quarters");
        Self { quarters, first, n_lines }
    }

    fn clear(&mut self) {
        self.quarters.fill(0);
    }

    fn as_ptr(&self) -> *const Quarter {
        self.quarters[self.first..].as_ptr()
    }

    fn as_mut_ptr(&mut self) -> *mut Quarter {
        self.quarters[self.first..].as_mut_ptr()
    }
}

/// Numbers that may be viewed in a line: any bit pattern is a value.
pub trait Plain: Copy + Send + Sync + 'static {}
impl Plain for f32 {}
impl Plain for u16 {}

/// The store of freed memory.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    store: Mutex<Store>,
}

/// Freed memory by its number of lines, and the bytes that are kept, in use, and were ever in use at once.
#[derive(Debug, Default)]
struct Store {
    shelves: HashMap<usize, Shelf>,
    n_kept: usize,
    n_used: usize,
    n_used_max: usize,
    clock: u64,
}

/// Freed memory of one size, and when it was asked for last.
#[derive(Debug, Default)]
struct Shelf {
    freed: Vec<Lines>,
    asked: u64,
}

impl Store {
    /// Memory of a size, where some is kept.
    fn take(&mut self, n_lines: usize) -> Option<Lines> {
        self.clock += 1;
        self.n_used += n_lines * LINE_BYTES;
        self.n_used_max = self.n_used_max.max(self.n_used);
        let shelf = self.shelves.entry(n_lines).or_default();
        shelf.asked = self.clock;
        let lines = shelf.freed.pop()?;
        self.n_kept -= n_lines * LINE_BYTES;
        Some(lines)
    }

    fn put(&mut self, lines: Lines) {
        let n_bytes = lines.n_lines * LINE_BYTES;
        self.n_used -= n_bytes;
        self.n_kept += n_bytes;
        self.shelves.entry(lines.n_lines).or_default().freed.push(lines);
    }

    /// What is kept beyond the limit, of the sizes that were asked for longest ago.
    fn excess(&mut self) -> Vec<Lines> {
        let n_bytes_max = self.n_used_max + (self.n_used_max / KEEP_PART).max(KEEP_BYTES_MIN);
        let mut excess = Vec::new();
        while self.n_used + self.n_kept > n_bytes_max {
            let oldest = self.shelves.values_mut().filter(|shelf| !shelf.freed.is_empty()).min_by_key(|shelf| shelf.asked);
            let Some(lines) = oldest.and_then(|shelf| shelf.freed.pop()) else { break };
            self.n_kept -= lines.n_lines * LINE_BYTES;
            excess.push(lines);
        }
        excess
    }
}

impl Arena {
    /// A vector of unspecified (but initialised) contents.
    pub(crate) fn take<T: Plain>(self: &Arc<Self>, len: usize) -> Aligned<T> {
        let n_lines = n_lines::<T>(len);
        self.aligned(self.freed(n_lines).unwrap_or_else(|| Lines::new(n_lines)), len)
    }

    /// A vector of zeros.
    pub(crate) fn zeros<T: Plain>(self: &Arc<Self>, len: usize) -> Aligned<T> {
        let n_lines = n_lines::<T>(len);
        let freed = self.freed(n_lines).map(|mut lines| {
            lines.clear();
            lines
        });
        self.aligned(freed.unwrap_or_else(|| Lines::new(n_lines)), len)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that was freed. Where there is none of this size, others make room for what is made anew.
    fn freed(&self, n_lines: usize) -> Option<Lines> {
        let mut store = self.store();
        let lines = store.take(n_lines);
        let excess = if lines.is_none() { store.excess() } else { Vec::new() };
        drop(store);
        drop(excess);
        lines
    }

    fn aligned<T>(self: &Arc<Self>, lines: Lines, len: usize) -> Aligned<T> {
        Aligned { lines, len, arena: Some(Arc::clone(self)), number: PhantomData }
    }
}

/// The lines that so many numbers are kept in.
fn n_lines<T>(len: usize) -> usize {
    class((len * size_of::<T>()).div_ceil(LINE_BYTES))
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
        let lines = Lines::new((len * size_of::<T>()).div_ceil(LINE_BYTES));
        Self { lines, len, arena: None, number: PhantomData }
    }
}

impl<T> Drop for Aligned<T> {
    fn drop(&mut self) {
        let Some(arena) = self.arena.take() else {
            return;
        };
        arena.store().put(std::mem::take(&mut self.lines));
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

    #[test]
    fn what_is_kept_is_little_more_than_was_ever_in_use() {
        let arena = Arc::new(Arena::default());
        let n_bytes = |arena: &Arena| {
            let store = arena.store();
            store.n_used + store.n_kept
        };
        // Sizes that come once: the older ones make room.
        for n_mib in 64..128 {
            drop(arena.take::<f32>(n_mib << 18));
            assert!(n_bytes(&arena) <= (n_mib << 20) + KEEP_BYTES_MIN + (64 << 20), "{n_mib}");
        }
        // Sizes that come again and again stay.
        let address = |n_mib: usize| arena.take::<f32>(n_mib << 18).as_ptr();
        let before = [100, 112, 120].map(address);
        assert_eq!([100, 112, 120].map(address), before);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn zeros_take_no_memory_until_something_is_written() {
        let resident_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux says");
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a figure");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        let before_kib = resident_kib();
        let mut zeros = Arc::new(Arena::default()).zeros::<f32>(1 << 28);
        zeros[1 << 27] = 1.0;
        assert_eq!(zeros[(1 << 27) - 1..(1 << 27) + 2], [0.0, 1.0, 0.0]);
        // A gibibyte. Other tests run beside this one, and take a little.
        let taken_kib = resident_kib().saturating_sub(before_kib);
        assert!(taken_kib < 512 << 10, "{taken_kib} KiB");
    }
}
