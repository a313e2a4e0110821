//! A few threads that share one list of items.
//!
//! A call is cut into items whose results do not depend on who computes them; threads take the next item until none is
//! left. So the number of threads changes the time and never a bit. A sleeping thread is not waited for: it may join a
//! call while items are left, and only threads that joined are awaited.
//! Knows nothing of what an item is. Calls are one at a time; an item must not start a call.
#![expect(unsafe_code, reason = "borrowed work is lent to threads that outlive the borrow")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

const SPINS: usize = 3000;

/// The threads.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Counts calls; odd while a call is open to joiners.
    epoch: AtomicUsize,
    job: Mutex<Option<Job>>,
    /// Threads asleep; changed under the lock. Waking nobody would still be a system call.
    n_asleep: AtomicUsize,
    wake: Condvar,
    stop: AtomicBool,
}

#[derive(Clone, Debug)]
struct Job {
    work: Work,
    call: Arc<Call>,
}

#[derive(Debug, Default)]
struct Call {
    n_items: usize,
    next: AtomicUsize,
    joined: AtomicUsize,
    finished: AtomicUsize,
    panicked: AtomicBool,
}

/// A borrowed closure without its lifetime.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn(usize) + Sync));

// SAFETY: the closure behind the pointer is `Sync`, and `Pool::run` keeps it alive until every joined thread is done.
unsafe impl Send for Work {}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

impl Pool {
    /// A pool in which `n_threads` work, the caller among them.
    pub fn new(n_threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.serve())
        };
        let threads = (1..n_threads.max(1)).map(spawn).collect();
        Self { shared, threads, turn: Mutex::new(()) }
    }

    /// Threads that work, the caller among them.
    pub fn n_threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `work` once for each of `0..n_items`, on all threads, and returns when all are done.
    pub fn run(&self, n_items: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() || n_items < 2 {
            (0..n_items).for_each(work);
            return;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let call = Arc::new(Call { n_items, ..Call::default() });
        // SAFETY: only the lifetime is erased. Threads reach the closure through `shared.job`, which is emptied below
        // before this function returns, and those that took it are awaited.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        self.shared.post(Some(Job { work: Work(work), call: Arc::clone(&call) }));
        if self.shared.n_asleep.load(Ordering::Acquire) > 0 {
            self.shared.wake.notify_all();
        }
        call.take_items(work);
        self.shared.post(None);
        let mut spins = 0;
        while call.finished.load(Ordering::Acquire) != call.joined.load(Ordering::Acquire) {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        assert!(!call.panicked.load(Ordering::Acquire), "a worker panicked");
    }

    /// Cuts `data` into pieces of `piece` floats (the last may be shorter) and hands each to `work` with its index.
    pub fn pieces<T: Send>(&self, data: &mut [T], piece: usize, work: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let len = data.len();
        let base = Shares(data.as_mut_ptr());
        self.run(len.div_ceil(piece), &|item| {
            let start = item * piece;
            // SAFETY: items are distinct, so the ranges are disjoint; they stay inside `data`, which is borrowed
            // mutably for the whole call.
            let part = unsafe { base.part(start, piece.min(len - start)) };
            work(item, part);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        drop(self.shared.lock());
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches panics of items, so joining cannot fail in a way that matters here.
            let _ = thread.join();
        }
    }
}

impl Call {
    fn take_items(&self, work: &(dyn Fn(usize) + Sync)) {
        loop {
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= self.n_items {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| work(item))).is_err() {
                self.panicked.store(true, Ordering::Release);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Job>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens or closes a call; the epoch changes under the lock, so nobody sleeps through an opening.
    fn post(&self, job: Option<Job>) {
        let mut slot = self.lock();
        *slot = job;
        self.epoch.fetch_add(1, Ordering::Release);
    }

    fn serve(&self) {
        let mut seen = 0;
        while !self.stop.load(Ordering::Acquire) {
            if let Some((epoch, job)) = self.await_job(seen) {
                seen = epoch;
                // SAFETY: this thread joined under the lock while the job was open, so `run` waits for `finished`.
                let work = unsafe { &*job.work.0 };
                job.call.take_items(work);
                job.call.finished.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Waits, first spinning, then asleep, for an open call newer than `seen`, and joins it.
    fn await_job(&self, seen: usize) -> Option<(usize, Job)> {
        for _ in 0..SPINS {
            let epoch = self.epoch.load(Ordering::Acquire);
            if epoch != seen && epoch % 2 == 1 {
                break;
            }
            std::hint::spin_loop();
        }
        let mut job = self.lock();
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            if let Some(job) = job.as_ref().filter(|_| epoch != seen) {
                job.call.joined.fetch_add(1, Ordering::AcqRel);
                return Some((epoch, job.clone()));
            }
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            self.n_asleep.fetch_add(1, Ordering::AcqRel);
            job = self.wake.wait(job).unwrap_or_else(PoisonError::into_inner);
            self.n_asleep.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A mutable slice that several threads write in disjoint parts.
pub(crate) struct Shares<T>(pub(crate) *mut T);

// SAFETY: a `Shares` is only a pointer; whoever makes a part of it argues that parts are disjoint.
unsafe impl<T: Send> Sync for Shares<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shares<T> {}

impl<T> Shares<T> {
    /// Pointer to element `index`.
    ///
    /// # Safety
    /// The index lies inside the slice.
    pub(crate) unsafe fn at(&self, index: usize) -> *mut T {
        // SAFETY: promised by the caller.
        unsafe { self.0.add(index) }
    }

    /// The part `start..start + len`.
    ///
    /// # Safety
    /// The part lies inside the slice, the slice outlives the part, and nobody else uses an overlapping part meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the caller argues that parts are disjoint")]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once() {
        for n_threads in [1, 2, 5] {
            let pool = Pool::new(n_threads);
            for n_items in [0, 1, 2, 3, 100] {
                for _ in 0..50 {
                    let counts: Vec<AtomicUsize> = (0..n_items).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(n_items, &|item| {
                        counts[item].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn pieces_cover_the_slice() {
        let mut data = vec![0u32; 103];
        Pool::new(3).pieces(&mut data, 10, &|item, part| part.fill(item as u32 + 1));
        assert!(data.iter().enumerate().all(|(i, &x)| x as usize == i / 10 + 1));
    }

    #[test]
    fn a_panic_of_an_item_reaches_the_caller() {
        let pool = Pool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, &|item| assert_ne!(item, 5, "planted"));
        }));
        assert!(result.is_err());
        pool.run(8, &|_| {});
    }
}
