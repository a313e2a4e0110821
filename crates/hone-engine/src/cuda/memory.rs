//! The GPU's memory: pieces that are kept when they are let go of, and copies to, from and between them.
//!
//! Memory that is let go stays with us and is given out again: on one stream a later use cannot overtake an earlier one, and a step
//! of training asks for the same sizes as the one before it.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use super::device::{Device, locked};
use super::library::Address;

/// Small pieces of memory are given out in multiples of this.
const GRAIN: usize = 512;
/// Pieces from this size on are rounded to it.
const LARGE: usize = 1 << 21;

/// A piece of the GPU's memory, given back when dropped.
pub(super) struct Memory {
    device: Arc<Device>,
    address: Address,
    size: usize,
}

impl Memory {
    pub(super) fn address(&self) -> Address {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.size > 0 {
            locked(&self.device.free).entry(self.size).or_default().push(self.address);
        }
    }
}

/// Memory of the host that the GPU copies to while the host does something else.
pub(super) struct HostMemory {
    device: Arc<Device>,
    at: *mut c_void,
    size: usize,
}

// SAFETY: memory of the process, which any thread may use.
unsafe impl Send for HostMemory {}
// SAFETY: as above; it is only read here.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// So many pairs of words from the n-th on, which were sent, and waited for.
    pub(super) fn read(&self, first: usize, len: usize) -> Vec<[u32; 2]> {
        assert!((first + len) * size_of::<[u32; 2]>() <= self.size, "host memory is read within its bounds");
        let at = self.at.cast::<[u32; 2]>();
        // SAFETY: the pairs lie inside of it, which begins at a page; they were waited for.
        (first..first + len).map(|i| unsafe { at.add(i).read_volatile() }).collect()
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        self.device.settle();
        // SAFETY: nothing is running that writes to it.
        unsafe { (self.device.driver.cuMemFreeHost)(self.at) };
    }
}

impl Device {
    /// Memory of the host with zeros in it.
    pub(super) fn host_memory(self: &Arc<Self>, bytes: usize) -> HostMemory {
        let (size, mut at) = (bytes.next_multiple_of(GRAIN), ptr::null_mut());
        self.enter();
        // SAFETY: the pointer is to a live local, and what it is set to has this size.
        unsafe {
            self.check("memory of the host", (self.driver.cuMemHostAlloc)(&mut at, size, 0));
            ptr::write_bytes(at.cast::<u8>(), 0, size);
        }
        HostMemory { device: Arc::clone(self), at, size }
    }

    /// Copies to memory of the host, from so many bytes on, without waiting.
    pub(super) fn send(&self, from: Address, to: &HostMemory, offset: usize, bytes: usize) {
        assert!(offset + bytes <= to.size, "host memory is written within its bounds");
        self.enter();
        // SAFETY: the target has room for it, and waits for us before it is freed.
        let status = unsafe { (self.driver.cuMemcpyDtoHAsync)(to.at.byte_add(offset), from, bytes, self.stream) };
        self.check("a copy from it", status);
    }

    /// Memory with unspecified contents.
    pub(super) fn memory(self: &Arc<Self>, bytes: usize) -> Memory {
        let device = Arc::clone(self);
        if bytes == 0 {
            return Memory { device, address: 0, size: 0 };
        }
        let size = if bytes >= LARGE { bytes.next_multiple_of(LARGE) } else { bytes.next_multiple_of(GRAIN) };
        let kept = {
            let mut free = locked(&self.free);
            // A little too large is taken as well; much too large would be missed by who needs it.
            let fitting = free.range(size..=size + size / 8).find(|(_, pieces)| !pieces.is_empty()).map(|(&size, _)| size);
            fitting.and_then(|size| free.get_mut(&size)?.pop().map(|address| (address, size)))
        };
        if let Some((address, size)) = kept {
            return Memory { device, address, size };
        }
        let address = self.allocate(size).or_else(|| {
            self.release();
            self.allocate(size)
        });
        let address = address.unwrap_or_else(|| {
            let (free, all) = self.facts().memory;
            panic!("the GPU has {free} of {all} bytes free, and {size} more are needed: use a smaller batch or model")
        });
        Memory { device, address, size }
    }

    fn allocate(&self, size: usize) -> Option<Address> {
        let mut address = 0;
        self.enter();
        // SAFETY: the pointer is to a live local.
        let status = unsafe { (self.driver.cuMemAlloc)(&mut address, size) };
        if status != 0 {
            return None;
        }
        let mut taken = locked(&self.taken);
        taken.0 += size;
        taken.1 = taken.1.max(taken.0);
        Some(address)
    }

    /// Gives all kept memory back to the driver.
    fn release(&self) {
        self.wait();
        for (size, pieces) in std::mem::take(&mut *locked(&self.free)) {
            locked(&self.taken).0 -= size * pieces.len();
            for address in pieces {
                // SAFETY: nobody holds these pieces, and nothing is running.
                self.check("memory back", unsafe { (self.driver.cuMemFree)(address) });
            }
        }
    }

    /// Memory holding a copy of these values.
    pub(super) fn upload<T: Copy>(self: &Arc<Self>, values: &[T]) -> Memory {
        let memory = self.memory(size_of_val(values));
        self.write(memory.address, values);
        memory
    }

    pub(super) fn write<T: Copy>(&self, to: Address, values: &[T]) {
        if values.is_empty() {
            return;
        }
        self.enter();
        // SAFETY: pageable memory is staged before the call returns, and the target has room for it.
        let status = unsafe { (self.driver.cuMemcpyHtoDAsync)(to, values.as_ptr().cast(), size_of_val(values), self.stream) };
        self.check("a copy to it", status);
    }

    /// Values on the host, after everything before has been done.
    pub(super) fn read<T: Copy + Default>(&self, from: Address, len: usize) -> Vec<T> {
        let mut values = vec![T::default(); len];
        if len > 0 {
            self.enter();
            let size = size_of_val(&values[..]);
            // SAFETY: the vector has this many bytes, and is not touched before the wait is over.
            let status = unsafe { (self.driver.cuMemcpyDtoHAsync)(values.as_mut_ptr().cast(), from, size, self.stream) };
            self.check("a copy from it", status);
            self.wait();
        }
        values
    }

    pub(super) fn copy(&self, from: Address, to: Address, bytes: usize) {
        if bytes > 0 {
            self.enter();
            // SAFETY: the callers give pieces of at least this size.
            self.check("a copy", unsafe { (self.driver.cuMemcpyDtoDAsync)(to, from, bytes, self.stream) });
        }
    }

    pub(super) fn clear(&self, at: Address, bytes: usize) {
        if bytes > 0 {
            self.enter();
            // SAFETY: the callers give pieces of at least this size.
            self.check("clearing memory", unsafe { (self.driver.cuMemsetD8Async)(at, 0, bytes, self.stream) });
        }
    }
}
