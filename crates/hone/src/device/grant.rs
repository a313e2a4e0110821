//! Memory that was granted to the models of this process and that they have not taken yet.
//!
//! Much of what a model needs is taken when it is first used: on a CPU the pages for keys and values, everywhere what a pass holds. Until
//! then the system takes it for free and would grant it again. What this process has taken since its first grant is counted towards all
//! of its grants, so that nothing is counted twice. Knows nothing of where a memory is, nor of what is asked of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The grants of one memory.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<Sum>);

#[derive(Debug, Clone, Copy)]
struct Sum {
    granted: usize,
    /// What this process had taken before the first grant.
    before: usize,
}

/// What a model may take of a memory, until this is dropped with it.
#[derive(Debug)]
pub(crate) struct Grant {
    ledger: &'static Ledger,
    bytes: usize,
}

impl Ledger {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Sum { granted: 0, before: 0 }))
    }

    /// Grants what `decide` takes of the bytes that are free and not granted, of which it is told how many were granted to others. This
    /// process has taken `used` of the memory.
    pub(super) fn grant<T, E>(
        &'static self,
        free: usize,
        used: usize,
        decide: impl FnOnce(usize, usize) -> Result<(T, usize), E>,
    ) -> Result<(T, Grant), E> {
        let mut sum = self.sum();
        if sum.granted == 0 {
            sum.before = used;
        }
        let outstanding = (sum.before + sum.granted).saturating_sub(used);
        let (decided, bytes) = decide(free.saturating_sub(outstanding), outstanding)?;
        sum.granted += bytes;
        Ok((decided, Grant { ledger: self, bytes }))
    }

    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.ledger.sum().granted -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for so much, and says what was free for it where that is less.
    fn ask(ledger: &'static Ledger, free: usize, used: usize, wanted: usize) -> Result<Grant, usize> {
        ledger.grant(free, used, |free, _| if wanted <= free { Ok(((), wanted)) } else { Err(free) }).map(|((), grant)| grant)
    }

    #[test]
    fn what_was_granted_is_not_granted_again_before_it_is_taken() {
        static LEDGER: Ledger = Ledger::new();
        let first = ask(&LEDGER, 100, 7, 60).expect("it fits");
        assert_eq!(ask(&LEDGER, 100, 7, 50).err(), Some(40), "nothing of it was taken yet");
        assert_eq!(ask(&LEDGER, 75, 32, 50).err(), Some(40), "what was taken is no longer free, and is not counted twice");
        assert_eq!(ask(&LEDGER, 30, 77, 50).err(), Some(30), "more was taken than was granted");
        let second = ask(&LEDGER, 75, 32, 40).expect("it fits");
        assert_eq!(ask(&LEDGER, 75, 32, 1).err(), Some(0));
        drop(first);
        assert_eq!(ask(&LEDGER, 100, 7, 90).err(), Some(60), "what is closed gives back what it was granted");
        drop(second);
        assert!(ask(&LEDGER, 100, 50, 100).is_ok(), "what was taken before the first grant is part of none");
    }
}
