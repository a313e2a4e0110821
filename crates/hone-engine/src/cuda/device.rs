//! The GPU as the backend sees it: kernels by name, one stream on which everything runs in order.
//!
//! What the GPU refuses in the middle of work is a bug or a lost device, and ends the work with what it said. Its memory is in
//! `memory.rs`, recorded work in `graph.rs`.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::Cache;
use super::compile::{Code, Compiler};
use super::library::{Address, Attribute, Driver, Handle, Launch, Map};
use super::wide::Family;
use super::{CudaOptions, GpuFacts, ProductsBy, Unavailable};

const MAJOR: c_int = 75;
const MINOR: c_int = 76;
const PROCESSORS: c_int = 16;
const SHARED_MAX: c_int = 97;
const DECLARED: c_int = 1;
const SHARED: c_int = 8;
/// Of the copy engine's maps: bf16, swapped within 128 bytes, 256 bytes at a time from memory.
const MAP_BF16: c_int = 9;
const MAP_SWAPPED: c_int = 3;
const MAP_AT_ONCE: c_int = 3;

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
    /// The next kernel does not start early.
    next_waits: AtomicBool,
    kernels: Mutex<HashMap<Code, HashMap<String, Kernel>>>,
    modules: Mutex<HashMap<Code, Result<usize, Unavailable>>>,
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
        let checked = options.products == ProductsBy::Ours;
        let cache = Arc::new(Cache::new(options.cache.as_deref()));
        let compiler = Compiler { folders: options.folders.clone(), cache, architecture, checked };
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
            next_waits: AtomicBool::new(false),
            kernels: Mutex::default(),
            modules: Mutex::default(),
            free: Mutex::default(),
            taken: Mutex::default(),
        };
        let first = [Code::Rows, Code::Wide(Family::Many), Code::Wide(Family::Few)];
        opened.compiler.prepare(if opened.has_groups() { &first } else { &first[..1] });
        opened.module(Code::Rows)?;
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

    /// What is kept for the next start.
    pub(super) fn cache(&self) -> &Arc<Cache> {
        &self.compiler.cache
    }

    pub(super) fn label(&self) -> String {
        format!("cuda{}-sm{}{}", self.ordinal, self.capability.0, self.capability.1)
    }

    /// Makes the GPU's context the calling thread's.
    pub(super) fn enter(&self) {
        // SAFETY: the context was retained when the device was opened.
        self.check("entering the context", unsafe { (self.driver.cuCtxSetCurrent)(self.context) });
    }

    /// Panics with what the driver said when it refused.
    pub(super) fn check(&self, what: &str, status: c_int) {
        assert!(status == 0, "CUDA refused {what}: {}", describe(&self.driver, status));
    }

    /// True when groups of warps can multiply (`kernels/wide.cu`).
    pub(super) fn has_groups(&self) -> bool {
        self.capability == (9, 0)
    }

    /// Whether there is this code on this GPU; it is compiled now if it never was.
    pub(super) fn has(&self, code: Code) -> bool {
        self.module(code).is_ok()
    }

    fn module(&self, code: Code) -> Result<Handle, Unavailable> {
        let mut modules = locked(&self.modules);
        let module = modules.entry(code).or_insert_with(|| self.load(code));
        module.clone().map(|module| module as Handle)
    }

    fn load(&self, code: Code) -> Result<usize, Unavailable> {
        let compiled = self.compiler.code(code)?;
        let mut module = ptr::null_mut();
        self.enter();
        // SAFETY: the code is whole and outlives the call.
        let status = unsafe { (self.driver.cuModuleLoadData)(&mut module, compiled.as_ptr().cast()) };
        if status != 0 {
            return Err(Unavailable::Broken(format!("the kernels do not load: {}", describe(&self.driver, status))));
        }
        Ok(module as usize)
    }

    fn kernel(&self, name: &str, code: Code) -> Kernel {
        if let Some(&kernel) = locked(&self.kernels).get(&code).and_then(|kernels| kernels.get(name)) {
            return kernel;
        }
        let module = self.module(code).unwrap_or_else(|error| panic!("{error}"));
        let c_name = CString::new(name).expect("no zero in a kernel's name");
        let mut function = ptr::null_mut();
        self.enter();
        // SAFETY: the module is loaded and the name a C string.
        unsafe {
            self.check(name, (self.driver.cuModuleGetFunction)(&mut function, module, c_name.as_ptr()));
            if code != Code::Rows || name.starts_with("few_") {
                let mut declared = 0;
                self.check(name, (self.driver.cuFuncGetAttribute)(&mut declared, DECLARED, function));
                self.check(name, (self.driver.cuFuncSetAttribute)(function, SHARED, self.shared_max as c_int - declared));
            }
        }
        locked(&self.kernels).entry(code).or_default().insert(name.to_owned(), Kernel(function));
        Kernel(function)
    }

    /// Runs a kernel that depends on no width.
    pub(super) fn launch(&self, name: &str, grid: Grid, args: &[Arg]) {
        self.launch_in(Code::Rows, name, grid, args);
    }

    /// Runs a kernel for heads of a width.
    pub(super) fn launch_for(&self, name: &str, width: usize, grid: Grid, args: &[Arg]) {
        self.launch_in(Code::Attention(width), name, grid, args);
    }

    fn launch_in(&self, code: Code, name: &str, grid: Grid, args: &[Arg]) {
        let mut values: Vec<u64> = args.iter().map(|arg| arg.0).collect();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect();
        self.start(self.kernel(name, code), name, grid, &mut pointers);
    }

    /// Runs a kernel that takes one structure.
    pub(super) fn launch_with<T>(&self, code: Code, name: &str, grid: Grid, arg: &mut T) {
        self.start(self.kernel(name, code), name, grid, &mut [ptr::from_mut(arg).cast()]);
    }

    /// Lets the next kernel start when all before it is done, whatever its grid allows. A kernel that starts early waits for the one in front of
    /// it, but what it reads before that may come from any that is not done yet.
    pub(super) fn let_next_wait(&self) {
        self.next_waits.store(true, Ordering::Relaxed);
    }

    fn start(&self, Kernel(function): Kernel, name: &str, grid: Grid, pointers: &mut [*mut c_void]) {
        if grid.blocks.0 == 0 || grid.blocks.1 == 0 {
            return;
        }
        let early = !self.next_waits.swap(false, Ordering::Relaxed) && grid.early;
        let launch = self.launch_of(Grid { early, ..grid });
        self.enter();
        // SAFETY: each argument is as large as what the kernel's source declares in its place; all outlive the call.
        let status = unsafe { (self.driver.cuLaunchKernelEx)(&launch, function, pointers.as_mut_ptr(), ptr::null_mut()) };
        self.check(name, status);
    }

    fn launch_of(&self, grid: Grid) -> Launch {
        Launch {
            blocks: [grid.blocks.0 as u32, grid.blocks.1 as u32, 1],
            threads: [grid.threads as u32, 1, 1],
            shared: grid.shared as u32,
            stream: self.stream,
            attributes: &Attribute::EARLY_START,
            n_attributes: u32::from(grid.early && self.capability.0 >= 9),
        }
    }

    /// Whether so many clusters of a kernel's blocks of threads have room on this GPU at once: multiprocessors beside each other are not
    /// always as many as a cluster needs. A driver that does not say is taken at its number of multiprocessors.
    pub(super) fn has_room(&self, code: Code, name: &str, grid: Grid, n_clusters: usize) -> bool {
        let (Kernel(function), launch) = (self.kernel(name, code), self.launch_of(Grid { early: false, ..grid }));
        let mut n_at_once = 0;
        self.enter();
        // SAFETY: the pointers are to live locals.
        let status = unsafe { (self.driver.cuOccupancyMaxActiveClusters)(&mut n_at_once, function, &launch) };
        status != 0 || n_at_once as usize >= n_clusters
    }

    /// Whether so many words of four bytes are the same, bit by bit.
    pub(super) fn is_same(self: &Arc<Self>, a: Address, b: Address, len: usize) -> bool {
        let differs = self.upload(&[0u32]);
        self.launch("differs", Grid::each(len), args![a, b, len, differs.address()]);
        self.read::<u32>(differs.address(), 1) == [0]
    }

    /// A matrix of bf16 for the copy engine, which brings 64 columns of it at a time: of each further axis, how long it is, the bytes from
    /// one to the next, and how many are brought at once. Beyond the ends are zeros.
    pub(super) fn map(&self, address: Address, axes: [(usize, usize, usize); 4]) -> Map {
        let mut map = Map::default();
        let mut sizes = [64u64; 5];
        let mut piece = [64u32; 5];
        for (i, &(size, _, at_once)) in axes.iter().enumerate() {
            (sizes[i + 1], piece[i + 1]) = (size as u64, at_once as u32);
        }
        let strides = axes.map(|(_, stride, _)| stride as u64);
        self.enter();
        // SAFETY: all arrays have as many entries as the driver asks for, and outlive the call.
        let status = unsafe {
            (self.driver.cuTensorMapEncodeTiled)(
                &mut map,
                MAP_BF16,
                5,
                address as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                piece.as_ptr(),
                [1u32; 5].as_ptr(),
                0,
                MAP_SWAPPED,
                MAP_AT_ONCE,
                0,
            )
        };
        self.check("a map of a matrix", status);
        map
    }

    /// Waits until everything asked for is done.
    pub(super) fn wait(&self) {
        self.check("its work", self.settle());
    }

    /// The same, with the driver's answer: who is dropped because of an error must not fail by it again.
    pub(super) fn settle(&self) -> c_int {
        // SAFETY: the context was retained when the device was opened, and the stream is ours.
        unsafe {
            (self.driver.cuCtxSetCurrent)(self.context);
            (self.driver.cuStreamSynchronize)(self.stream)
        }
    }
}

impl Drop for Device {
    /// Gives its memory back, all of which was let go of by now; the rest of it is little, and the driver's.
    fn drop(&mut self) {
        self.settle();
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        for address in std::mem::take(free).into_values().flatten() {
            // SAFETY: nobody holds these pieces, and nothing is running.
            unsafe { (self.driver.cuMemFree)(address) };
        }
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
