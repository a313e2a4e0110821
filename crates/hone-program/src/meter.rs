//! What a run may use: fuel that only goes down, and memory that comes back when a value is dropped.
//!
//! Fuel counts operations and the sizes that they touch; memory counts the bytes of our own model of a value, not of the
//! allocator. Both are therefore the same in every run, on every machine and thread. Knows nothing of time.

use std::cell::Cell;
use std::rc::Rc;

use crate::fault::{ErrorKind, Fault};

/// A handle on the budget of a run; clones share it. Values are made through it, so that they are counted.
#[derive(Clone, Debug)]
pub struct Meter(Option<Rc<Budget>>);

/// Fuel for making a value, whatever its size: asking for memory and giving it back takes as long as ten steps of a loop.
const VALUE_FUEL: u64 = 10;
/// Bytes of a value that cost one unit of fuel more.
const BYTES_PER_FUEL: u64 = 64;

#[derive(Debug)]
struct Budget {
    fuel_max: u64,
    fuel_left: Cell<u64>,
    memory_max: usize,
    memory_used: Cell<usize>,
    memory_peak: Cell<usize>,
}

impl Meter {
    /// A budget of so much fuel and so many bytes.
    pub fn new(fuel: u64, memory: usize) -> Self {
        Self(Some(Rc::new(Budget {
            fuel_max: fuel,
            fuel_left: Cell::new(fuel),
            memory_max: memory,
            memory_used: Cell::new(0),
            memory_peak: Cell::new(0),
        })))
    }

    /// A meter that counts nothing: for values that are made outside of a run, its inputs say.
    pub fn free() -> Self {
        Self(None)
    }

    /// Uses fuel: one unit for each operation or element that is touched.
    #[inline]
    pub fn spend(&self, fuel: u64) -> Result<(), Fault> {
        let Some(budget) = &self.0 else { return Ok(()) };
        match budget.fuel_left.get().checked_sub(fuel) {
            Some(left) => {
                budget.fuel_left.set(left);
                Ok(())
            }
            None => {
                budget.fuel_left.set(0);
                Err(out_of_fuel(budget.fuel_max))
            }
        }
    }

    /// Takes memory, or refuses. It is given back when the charge is dropped. Making a value is work, and spends fuel by its size.
    #[inline]
    pub fn charge(&self, bytes: usize) -> Result<Charge, Fault> {
        self.spend(VALUE_FUEL + bytes as u64 / BYTES_PER_FUEL)?;
        self.take(bytes)?;
        Ok(Charge { meter: self.clone(), bytes: Cell::new(bytes) })
    }

    /// A charge of no bytes, which may grow.
    pub(crate) fn nothing(&self) -> Charge {
        Charge { meter: self.clone(), bytes: Cell::new(0) }
    }

    /// Whether so many bytes more would still fit; takes nothing. Ask before a large scratch allocation.
    pub fn room(&self, bytes: usize) -> Result<(), Fault> {
        let Some(budget) = &self.0 else { return Ok(()) };
        let fits = budget.memory_used.get().checked_add(bytes).is_some_and(|used| used <= budget.memory_max);
        if fits { Ok(()) } else { Err(out_of_memory(budget.memory_max)) }
    }

    /// The fuel that was used so far.
    pub fn fuel_used(&self) -> u64 {
        self.0.as_ref().map_or(0, |budget| budget.fuel_max - budget.fuel_left.get())
    }

    /// The bytes in use now.
    pub fn memory_used(&self) -> usize {
        self.0.as_ref().map_or(0, |budget| budget.memory_used.get())
    }

    /// The most bytes that were in use at once.
    pub fn memory_peak(&self) -> usize {
        self.0.as_ref().map_or(0, |budget| budget.memory_peak.get())
    }

    #[inline]
    fn take(&self, bytes: usize) -> Result<(), Fault> {
        let Some(budget) = &self.0 else { return Ok(()) };
        match budget.memory_used.get().checked_add(bytes) {
            Some(used) if used <= budget.memory_max => {
                budget.memory_used.set(used);
                if used > budget.memory_peak.get() {
                    budget.memory_peak.set(used);
                }
                Ok(())
            }
            _ => Err(out_of_memory(budget.memory_max)),
        }
    }
}

#[cold]
fn out_of_fuel(max: u64) -> Fault {
    Fault::new(ErrorKind::Fuel, format!("the program took more than {max} steps; do less work or end the loop"))
}

#[cold]
fn out_of_memory(max: usize) -> Fault {
    Fault::new(ErrorKind::Memory, format!("the program needs more than {max} bytes; keep fewer or smaller values"))
}

/// Memory that a value holds; dropping it gives the memory back.
#[derive(Debug)]
pub struct Charge {
    meter: Meter,
    bytes: Cell<usize>,
}

impl Charge {
    /// The meter that counts.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Changes the charge to this many bytes in all, or refuses and leaves it.
    #[inline]
    pub fn resize(&self, bytes: usize) -> Result<(), Fault> {
        let before = self.bytes.get();
        if bytes > before {
            self.meter.take(bytes - before)?;
            self.bytes.set(bytes);
            return self.meter.spend((bytes - before) as u64 / BYTES_PER_FUEL);
        } else if let Some(budget) = &self.meter.0 {
            budget.memory_used.set(budget.memory_used.get() - (before - bytes));
        }
        self.bytes.set(bytes);
        Ok(())
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        if let Some(budget) = &self.meter.0 {
            budget.memory_used.set(budget.memory_used.get() - self.bytes.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_fuel_does_not() {
        let meter = Meter::new(31, 100);
        let charge = meter.charge(60).unwrap();
        assert_eq!(meter.charge(41).unwrap_err().kind(), ErrorKind::Memory);
        charge.resize(100).unwrap();
        assert!(charge.resize(101).is_err());
        charge.resize(10).unwrap();
        assert_eq!(meter.memory_used(), 10);
        drop(charge);
        assert_eq!((meter.memory_used(), meter.memory_peak()), (0, 100));
        assert_eq!(meter.fuel_used(), 2 * VALUE_FUEL);
        meter.spend(11).unwrap();
        assert_eq!(meter.spend(1).unwrap_err().kind(), ErrorKind::Fuel);
        assert_eq!(meter.fuel_used(), 31);
    }

    #[test]
    fn a_free_meter_refuses_nothing() {
        let meter = Meter::free();
        meter.spend(u64::MAX).unwrap();
        assert!(meter.charge(usize::MAX).is_ok());
        assert_eq!(meter.fuel_used(), 0);
    }
}
