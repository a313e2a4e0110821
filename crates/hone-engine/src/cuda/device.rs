//! The GPU as the backend sees it: kernels by name, one stream on which everything runs in order.
//!
//! What the GPU refuses in the middle of work is a bug or a lost device, and ends the process with what it said. Its memory is in
//! `memory.rs`, recorded work in `graph.rs`.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::compile::{ATTENTION, Compiler, ROWS};
use super::library::{Address, Driver, EarlyStart, Handle, Launch};
use super::{CudaOptions, GpuFacts, Unavailable};

const MAJOR: c_int = 75;
const MINOR: c_int = 76;
const PROCESSORS: c_int = 16;
const SHARED_MAX: c_int = 97;
const DECLARED: c_int = 1;
const SHARED: c_int = 8;
const EARLY_START: c_int = 6;

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
    /// Multiprocessors.
    pub(super) n_processors: usize,
    /// Most bytes of shared memory that a block may have.
    pub(super) shared_max: usize,
    compiler: Compiler,
    kernels: Mutex<HashMap<(&'static str, usize), Kernel>>,
    modules: Mutex<HashMap<usize, usize>>,
    /// Pieces of memory that are kept, by size.
    pub(super) free: Mutex<BTreeMap<usize, Vec<Address>>>,
    /// Bytes taken from the driver: now, and at most.
    pub(super) taken: Mutex<(usize, usize)>,
}

// SAFETY: handles of the driver may be used by any thread; what changes is behind locks.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What a lock guards, whatever became of who held it.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    pub(super) fn open(options: &CudaOptions) -> Result<Self, Unavailable> {
        let driver = Driver::find()?;
        let ordinal = c_int::try_from(options.ordinal).unwrap_or(c_int::MAX);
        let mut name = [0 as std::ffi::c_char; 256];
        let (mut count, mut device, mut major, mut minor) = (0, 0, 0, 0);
        let (mut n_processors, mut shared_max) = (0, 0);
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
                (driver.cuDeviceGetAttribute)(&mut n_processors, PROCESSORS, device),
                (driver.cuDeviceGetAttribute)(&mut shared_max, SHARED_MAX, device),
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
            n_processors: n_processors.max(1) as usize,
            shared_max: shared_max.max(0) as usize,
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
        // SAFETY: the module is loaded and the name a C string.
        unsafe {
            self.check(name, (self.driver.cuModuleGetFunction)(&mut function, module, c_name.as_ptr()));
            if width > 0 || name.starts_with("few_") {
                let mut declared = 0;
                self.check(name, (self.driver.cuFuncGetAttribute)(&mut declared, DECLARED, function));
                self.check(name, (self.driver.cuFuncSetAttribute)(function, SHARED, self.shared_max as c_int - declared));
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

    /// Runs a kernel that takes one structure, for heads of a width or none.
    pub(super) fn launch_with<T>(&self, name: &'static str, width: usize, grid: Grid, arg: &mut T) {
        self.start(self.kernel(name, width), name, grid, &mut [ptr::from_mut(arg).cast()]);
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
