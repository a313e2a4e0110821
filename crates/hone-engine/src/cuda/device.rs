//! The GPU as the backend sees it: memory that is kept, kernels by name, one stream on which everything runs in order.
//!
//! Memory that is let go stays with us and is given out again: on one stream a later use cannot overtake an earlier one, and a step
//! of training asks for the same sizes as the one before it. What the GPU refuses in the middle of work is a bug or a lost
//! device, and ends the process with what it said.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::compile::{ATTENTION, Compiler, ROWS};
use super::library::{Address, Driver, EarlyStart, Handle, Launch};
use super::{CudaOptions, GpuFacts, Unavailable};

const MAJOR: c_int = 75;
const MINOR: c_int = 76;
const SHARED_MAX: c_int = 8;
const EARLY_START: c_int = 6;
/// Small pieces of memory are given out in multiples of this.
const GRAIN: usize = 512;
/// Pieces from this size on are rounded to it.
const LARGE: usize = 1 << 21;

/// One argument of a kernel: an address, a whole number or an f32, in the eight bytes the driver reads it from.
#[derive(Clone, Copy)]
pub(super) struct Arg(u64);

impl From<u64> for Arg {
    fn from(x: u64) -> Self {
        Self(x)
    }
}

impl From<usize> for Arg {
    fn from(x: usize) -> Self {
        Self(x as u64)
    }
}

impl From<f32> for Arg {
    fn from(x: f32) -> Self {
        Self(u64::from(x.to_bits()))
    }
}

/// Builds the arguments of a kernel.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { &[$($crate::cuda::device::Arg::from($arg)),*] };
}
pub(super) use args;

/// How many threads run a kernel.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: (usize, usize),
    pub(super) threads: usize,
    /// Bytes of shared memory per block beyond what the kernel declares.
    pub(super) shared: usize,
    /// It may start before the kernel in front of it is done, and waits itself before it needs that one's results.
    pub(super) early: bool,
}

impl Grid {
    /// One block per row.
    pub(super) fn rows(rows: usize, threads: usize) -> Self {
        Self { blocks: (rows, 1), threads, shared: 0, early: false }
    }

    /// One thread per element.
    pub(super) fn each(n: usize) -> Self {
        Self { blocks: (n.div_ceil(256), 1), threads: 256, shared: 0, early: false }
    }

    /// The same, allowed to start early.
    pub(super) fn early(self) -> Self {
        Self { early: true, ..self }
    }
}

/// A kernel that was looked up.
#[derive(Clone, Copy)]
pub(super) struct Kernel(Handle);

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Kernel {}

/// An open GPU.
pub(super) struct Device {
    pub(super) driver: Driver,
    context: Handle,
    pub(super) stream: Handle,
    ordinal: c_int,
    name: String,
    capability: (i32, i32),
    compiler: Compiler,
    kernels: Mutex<HashMap<(&'static str, usize), Kernel>>,
    modules: Mutex<HashMap<usize, usize>>,
    free: Mutex<BTreeMap<usize, Vec<Address>>>,
    /// Bytes taken from the driver: now, and at most.
    taken: Mutex<(usize, usize)>,
}

// SAFETY: handles of the driver may be used by any thread; what changes is behind locks.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    pub(super) fn open(options: &CudaOptions) -> Result<Self, Unavailable> {
        let driver = Driver::find()?;
        let ordinal = c_int::try_from(options.ordinal).unwrap_or(c_int::MAX);
        let mut name = [0 as std::ffi::c_char; 256];
        let (mut count, mut device, mut major, mut minor) = (0, 0, 0, 0);
        let (mut context, mut stream): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: every pointer is to a live local of the type that the driver writes.
        unsafe {
            let started = (driver.cuInit)(0);
            if started != 0 {
                return Err(Unavailable::Gpu(describe(&driver, started)));
            }
            (driver.cuDeviceGetCount)(&mut count);
            if ordinal >= count {
                return Err(Unavailable::Gpu(format!("GPU {ordinal} of {count}")));
            }
            let steps = [
                (driver.cuDeviceGet)(&mut device, ordinal),
                (driver.cuDeviceGetName)(name.as_mut_ptr(), 255, device),
                (driver.cuDeviceGetAttribute)(&mut major, MAJOR, device),
                (driver.cuDeviceGetAttribute)(&mut minor, MINOR, device),
                (driver.cuDevicePrimaryCtxRetain)(&mut context, device),
                (driver.cuCtxSetCurrent)(context),
                (driver.cuStreamCreate)(&mut stream, 1),
            ];
            if let Some(&status) = steps.iter().find(|&&status| status != 0) {
                return Err(Unavailable::Broken(describe(&driver, status)));
            }
        }
        // SAFETY: the driver ended the name with a zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        if major < 8 {
            return Err(Unavailable::TooOld { name, major, minor });
        }
        let architecture = format!("sm_{major}{minor}");
        let compiler = Compiler { folders: options.folders.clone(), cache: options.cache.clone(), architecture };
        let opened = Self {
            driver,
            context,
            stream,
            ordinal,
            name,
            capability: (major, minor),
            compiler,
            kernels: Mutex::default(),
            modules: Mutex::default(),
            free: Mutex::default(),
            taken: Mutex::default(),
        };
        opened.module(0)?;
        Ok(opened)
    }

    pub(super) fn facts(&self) -> GpuFacts {
        let (mut driver, mut free, mut all) = (0, 0, 0);
        self.enter();
        // SAFETY: every pointer is to a live local.
        unsafe {
            (self.driver.cuDriverGetVersion)(&mut driver);
            (self.driver.cuMemGetInfo)(&mut free, &mut all);
        }
        let kept: usize = locked(&self.free).iter().map(|(size, pieces)| size * pieces.len()).sum();
        let peak = locked(&self.taken).1;
        GpuFacts { name: self.name.clone(), capability: self.capability, driver, memory: (free + kept, all), peak }
    }

    pub(super) fn label(&self) -> String {
        format!("cuda{}-sm{}{}", self.ordinal, self.capability.0, self.capability.1)
    }

    /// Makes the GPU's context the calling thread's.
    pub(super) fn enter(&self) {
        // SAFETY: the context was retained when the device was opened.
        self.check("entering the context", unsafe { (self.driver.cuCtxSetCurrent)(self.context) });
    }

    /// Ends the process when the driver refused.
    pub(super) fn check(&self, what: &str, status: c_int) {
        assert!(status == 0, "CUDA refused {what}: {}", describe(&self.driver, status));
    }

    /// The code for heads of this width; 0 is the code that depends on none.
    fn module(&self, width: usize) -> Result<Handle, Unavailable> {
        let mut modules = locked(&self.modules);
        if let Some(&module) = modules.get(&width) {
            return Ok(module as Handle);
        }
        let (sources, definitions) = if width == 0 { (ROWS, vec![]) } else { (ATTENTION, vec![format!("WIDTH={width}")]) };
        let code = self.compiler.code(sources, &definitions)?;
        let mut module = ptr::null_mut();
        self.enter();
        // SAFETY: the code is whole and outlives the call.
        let status = unsafe { (self.driver.cuModuleLoadData)(&mut module, code.as_ptr().cast()) };
        if status != 0 {
            return Err(Unavailable::Broken(format!("the kernels do not load: {}", describe(&self.driver, status))));
        }
        modules.insert(width, module as usize);
        Ok(module)
    }

    fn kernel(&self, name: &'static str, width: usize) -> Kernel {
        if let Some(&kernel) = locked(&self.kernels).get(&(name, width)) {
            return kernel;
        }
        let module = self.module(width).unwrap_or_else(|error| panic!("{error}"));
        let c_name = CString::new(name).expect("no zero in a kernel's name");
        let mut function = ptr::null_mut();
        self.enter();
        // SAFETY: the module is loaded and the name a C string. The limit is that of the smallest supported GPU.
        unsafe {
            self.check(name, (self.driver.cuModuleGetFunction)(&mut function, module, c_name.as_ptr()));
            if width > 0 || name.starts_with("few_") {
                self.check(name, (self.driver.cuFuncSetAttribute)(function, SHARED_MAX, 99 << 10));
            }
        }
        locked(&self.kernels).insert((name, width), Kernel(function));
        Kernel(function)
    }

    /// Runs a kernel that depends on no width.
    pub(super) fn launch(&self, name: &'static str, grid: Grid, args: &[Arg]) {
        self.launch_for(name, 0, grid, args);
    }

    /// Runs a kernel for heads of a width.
    pub(super) fn launch_for(&self, name: &'static str, width: usize, grid: Grid, args: &[Arg]) {
        let mut values: Vec<u64> = args.iter().map(|arg| arg.0).collect();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect();
        self.start(self.kernel(name, width), name, grid, &mut pointers);
    }

    /// Runs a kernel that takes one structure.
    pub(super) fn launch_with<T>(&self, name: &'static str, grid: Grid, arg: &mut T) {
        self.start(self.kernel(name, 0), name, grid, &mut [ptr::from_mut(arg).cast()]);
    }

    fn start(&self, Kernel(function): Kernel, name: &str, grid: Grid, pointers: &mut [*mut c_void]) {
        if grid.blocks.0 == 0 || grid.blocks.1 == 0 {
            return;
        }
        let (x, y) = (grid.blocks.0 as u32, grid.blocks.1 as u32);
        let (threads, shared) = (grid.threads as u32, grid.shared as u32);
        self.enter();
        let pointers = pointers.as_mut_ptr();
        let status = if grid.early && self.capability.0 >= 9 {
            let early = EarlyStart { id: EARLY_START, padding: 0, allowed: 1, rest: [0; 15] };
            let launch = Launch {
                blocks: [x, y, 1],
                threads: [threads, 1, 1],
                shared,
                stream: self.stream,
                attributes: &early,
                n_attributes: 1,
            };
            // SAFETY: as below; the description of the launch outlives the call.
            unsafe { (self.driver.cuLaunchKernelEx)(&launch, function, pointers, ptr::null_mut()) }
        } else {
            let none = ptr::null_mut();
            // SAFETY: each argument is as large as what the kernel's source declares in its place.
            unsafe { (self.driver.cuLaunchKernel)(function, x, y, 1, threads, 1, 1, shared, self.stream, pointers, none) }
        };
        self.check(name, status);
    }

    /// Waits until everything asked for is done.
    pub(super) fn wait(&self) {
        self.enter();
        // SAFETY: the stream is ours.
        self.check("its work", unsafe { (self.driver.cuStreamSynchronize)(self.stream) });
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

    /// Milliseconds of the GPU's time between the start and the end of what `work` asks for.
    pub(super) fn time_ms(&self, work: impl FnOnce()) -> f32 {
        let (mut start, mut end): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        let mut ms = 0.0;
        self.enter();
        // SAFETY: both events are made here and used on our stream.
        unsafe {
            self.check("an event", (self.driver.cuEventCreate)(&mut start, 0));
            self.check("an event", (self.driver.cuEventCreate)(&mut end, 0));
            self.check("an event", (self.driver.cuEventRecord)(start, self.stream));
            work();
            self.check("an event", (self.driver.cuEventRecord)(end, self.stream));
            self.check("an event", (self.driver.cuEventSynchronize)(end));
            self.check("an event", (self.driver.cuEventElapsedTime)(&mut ms, start, end));
        }
        ms
    }

    /// Starts or stops a profiler that waits for it.
    pub(super) fn profile(&self, on: bool) {
        self.wait();
        // SAFETY: no arguments; without a profiler these do nothing.
        unsafe { if on { (self.driver.cuProfilerStart)() } else { (self.driver.cuProfilerStop)() } };
    }

    /// Records what `work` asks for as a graph instead of doing it.
    pub(super) fn record(self: &Arc<Self>, work: impl FnOnce()) -> Graph {
        let (mut graph, mut ready): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        self.enter();
        // SAFETY: the stream is ours, and one thread records at a time: whoever samples holds the model.
        unsafe {
            self.check("recording", (self.driver.cuStreamBeginCapture)(self.stream, 2));
            work();
            self.check("recording", (self.driver.cuStreamEndCapture)(self.stream, &mut graph));
            self.check("a graph", (self.driver.cuGraphInstantiateWithFlags)(&mut ready, graph, 0));
            self.check("a graph", (self.driver.cuGraphDestroy)(graph));
        }
        Graph { device: Arc::clone(self), ready }
    }
}

/// Work that was recorded and can be done again and again.
pub(super) struct Graph {
    device: Arc<Device>,
    ready: Handle,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    pub(super) fn launch(&self) {
        self.device.enter();
        // SAFETY: the graph is instantiated, and the memory it works on belongs to who holds it.
        self.device.check("a graph", unsafe { (self.device.driver.cuGraphLaunch)(self.ready, self.device.stream) });
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.device.wait();
        // SAFETY: nothing runs it any more.
        unsafe { (self.device.driver.cuGraphExecDestroy)(self.ready) };
    }
}

fn describe(driver: &Driver, status: c_int) -> String {
    let mut text = ptr::null();
    // SAFETY: the driver gives a constant text or nothing.
    unsafe {
        (driver.cuGetErrorString)(status, &mut text);
        if text.is_null() {
            return format!("error {status}");
        }
        format!("{} (error {status})", CStr::from_ptr(text).to_string_lossy())
    }
}
