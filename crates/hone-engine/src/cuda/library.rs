//! The three libraries of NVIDIA that the CUDA backend calls, found while running: nothing of CUDA is needed to build.
//!
//! The driver comes with the GPU's driver; NVRTC (the compiler) and cuBLASLt (matrix products) come with a CUDA toolkit
//! or with the wheels of PyTorch. Each is looked for by its known names, first where the loader looks, then in given
//! folders. What is missing is told by name. Knows nothing of kernels or models.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use super::Unavailable;

/// A handle of a foreign library.
pub(super) type Handle = *mut c_void;
/// An address in the memory of the device.
pub(super) type Address = u64;

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident: ($($kind:ty),*);)* }) => {
        $(#[$doc])*
        #[expect(non_snake_case, reason = "the names of the library")]
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($kind),*) -> c_int,)* }

        impl $table {
            fn load(library: Handle) -> Result<Self, String> {
                // SAFETY: each symbol has the signature that its library's header gives it.
                Ok(Self { $($name: unsafe { std::mem::transmute::<Handle, unsafe extern "C" fn($($kind),*) -> c_int>(symbol(library, symbol_name!($name))?) },)* })
            }
        }
    };
}

/// One attribute of a launch.
#[repr(C)]
pub(super) struct Attribute {
    id: c_int,
    padding: c_int,
    values: [c_int; 16],
}

impl Attribute {
    /// The kernel may start before the one in front of it is done.
    pub(super) const EARLY_START: Self = Self { id: 6, padding: 0, values: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
}

/// A matrix, as the GPU's copy engine reads it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub(super) struct Map(pub(super) [u64; 16]);

/// How a kernel is launched with attributes.
#[repr(C)]
pub(super) struct Launch {
    pub(super) blocks: [c_uint; 3],
    pub(super) threads: [c_uint; 3],
    pub(super) shared: c_uint,
    pub(super) stream: Handle,
    pub(super) attributes: *const Attribute,
    pub(super) n_attributes: c_uint,
}

/// Some functions of the driver are exported under the name of their second version.
macro_rules! symbol_name {
    ($name:ident) => {
        match stringify!($name) {
            "cuMemAlloc" => "cuMemAlloc_v2",
            "cuMemFree" => "cuMemFree_v2",
            "cuEventDestroy" => "cuEventDestroy_v2",
            "cuMemGetInfo" => "cuMemGetInfo_v2",
            "cuMemcpyHtoDAsync" => "cuMemcpyHtoDAsync_v2",
            "cuMemcpyDtoHAsync" => "cuMemcpyDtoHAsync_v2",
            "cuMemcpyDtoDAsync" => "cuMemcpyDtoDAsync_v2",
            "cuStreamBeginCapture" => "cuStreamBeginCapture_v2",
            name => name,
        }
    };
}

functions! {
    /// The driver.
    Driver {
        cuInit: (c_uint);
        cuDriverGetVersion: (*mut c_int);
        cuGetErrorString: (c_int, *mut *const c_char);
        cuDeviceGetCount: (*mut c_int);
        cuDeviceGet: (*mut c_int, c_int);
        cuDeviceGetName: (*mut c_char, c_int, c_int);
        cuDeviceGetAttribute: (*mut c_int, c_int, c_int);
        cuDevicePrimaryCtxRetain: (*mut Handle, c_int);
        cuCtxSetCurrent: (Handle);
        cuMemAlloc: (*mut Address, usize);
        cuMemFree: (Address);
        cuMemGetInfo: (*mut usize, *mut usize);
        cuMemHostAlloc: (*mut *mut c_void, usize, c_uint);
        cuMemFreeHost: (*mut c_void);
        cuMemcpyHtoDAsync: (Address, *const c_void, usize, Handle);
        cuMemcpyDtoHAsync: (*mut c_void, Address, usize, Handle);
        cuMemcpyDtoDAsync: (Address, Address, usize, Handle);
        cuMemsetD8Async: (Address, u8, usize, Handle);
        cuStreamCreate: (*mut Handle, c_uint);
        cuStreamSynchronize: (Handle);
        cuStreamBeginCapture: (Handle, c_int);
        cuStreamEndCapture: (Handle, *mut Handle);
        cuGraphInstantiateWithFlags: (*mut Handle, Handle, u64);
        cuGraphLaunch: (Handle, Handle);
        cuGraphExecDestroy: (Handle);
        cuGraphDestroy: (Handle);
        cuEventCreate: (*mut Handle, c_uint);
        cuEventRecord: (Handle, Handle);
        cuEventSynchronize: (Handle);
        cuEventDestroy: (Handle);
        cuEventElapsedTime: (*mut f32, Handle, Handle);
        cuTensorMapEncodeTiled: (*mut Map, c_int, c_uint, *mut c_void, *const u64, *const u64, *const c_uint, *const c_uint, c_int, c_int, c_int, c_int);
        cuProfilerStart: ();
        cuProfilerStop: ();
        cuModuleLoadData: (*mut Handle, *const c_void);
        cuModuleGetFunction: (*mut Handle, Handle, *const c_char);
        cuFuncGetAttribute: (*mut c_int, c_int, Handle);
        cuFuncSetAttribute: (Handle, c_int, c_int);
        cuOccupancyMaxActiveClusters: (*mut c_int, Handle, *const Launch);
        cuLaunchKernelEx: (*const Launch, Handle, *mut *mut c_void, *mut *mut c_void);
    }
}

functions! {
    /// The compiler.
    Nvrtc {
        nvrtcCreateProgram: (*mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
        nvrtcCompileProgram: (Handle, c_int, *const *const c_char);
        nvrtcGetCUBINSize: (Handle, *mut usize);
        nvrtcGetCUBIN: (Handle, *mut c_char);
        nvrtcGetProgramLogSize: (Handle, *mut usize);
        nvrtcGetProgramLog: (Handle, *mut c_char);
        nvrtcDestroyProgram: (*mut Handle);
    }
}

functions! {
    /// Matrix products.
    Lt {
        cublasLtCreate: (*mut Handle);
        cublasLtGetProperty: (c_int, *mut c_int);
        cublasLtMatmulDescCreate: (*mut Handle, c_int, c_int);
        cublasLtMatmulDescSetAttribute: (Handle, c_int, *const c_void, usize);
        cublasLtMatrixLayoutCreate: (*mut Handle, c_int, u64, u64, i64);
        cublasLtMatrixLayoutSetAttribute: (Handle, c_int, *const c_void, usize);
        cublasLtMatrixLayoutDestroy: (Handle);
        cublasLtMatmulPreferenceCreate: (*mut Handle);
        cublasLtMatmulPreferenceSetAttribute: (Handle, c_int, *const c_void, usize);
        cublasLtMatmulAlgoGetHeuristic: (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut c_void, *mut c_int);
        cublasLtMatmulAlgoCapGetAttribute: (*const c_void, c_int, *mut c_void, usize, *mut usize);
        cublasLtMatmulAlgoConfigSetAttribute: (*mut c_void, c_int, *const c_void, usize);
        cublasLtMatmulAlgoCheck: (Handle, Handle, Handle, Handle, Handle, Handle, *const c_void, *mut c_void);
        cublasLtMatmul: (Handle, Handle, *const c_void, Address, Handle, Address, Handle, *const c_void, Address, Handle, Address, Handle, *const c_void, Address, usize, Handle);
    }
}

impl Driver {
    /// Finds the driver.
    pub(super) fn find() -> Result<Self, Unavailable> {
        let names = ["libcuda.so.1", "libcuda.so"];
        find(&names, &[]).and_then(Self::load).map_err(Unavailable::Driver)
    }
}

impl Nvrtc {
    /// Finds the compiler.
    pub(super) fn find(folders: &[PathBuf]) -> Result<Self, Unavailable> {
        let names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
        find(&names, folders).and_then(Self::load).map_err(Unavailable::Compiler)
    }
}

impl Lt {
    /// Finds the matrix products.
    pub(super) fn find(folders: &[PathBuf]) -> Result<Self, Unavailable> {
        let names = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
        find(&names, folders).and_then(Self::load).map_err(Unavailable::Products)
    }

    /// Major, minor and patch of its version.
    pub(super) fn version(&self) -> [c_int; 3] {
        [0, 1, 2].map(|which| {
            let mut number = 0;
            // SAFETY: the pointer is to a live local.
            unsafe { (self.cublasLtGetProperty)(which, &mut number) };
            number
        })
    }
}

/// Opens the first of the names that can be opened: by the loader, then in each folder.
fn find(names: &[&str], folders: &[PathBuf]) -> Result<Handle, String> {
    let bare = names.iter().map(PathBuf::from);
    let placed = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let mut first_reason = None;
    for path in bare.chain(placed) {
        match open(&path) {
            Ok(library) => return Ok(library),
            Err(reason) => first_reason = first_reason.or(Some(reason)),
        }
    }
    Err(first_reason.unwrap_or_default())
}

fn open(path: &Path) -> Result<Handle, String> {
    let name = CString::new(path.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is a C string; the libraries' own start-up code is all that runs.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if library.is_null() { Err(last_error()) } else { Ok(library) }
}

fn symbol(library: Handle, name: &str) -> Result<Handle, String> {
    let c_name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: the library is open and the name is a C string.
    let found = unsafe { libc::dlsym(library, c_name.as_ptr()) };
    if found.is_null() { Err(format!("it has no function `{name}`: its version is too old")) } else { Ok(found) }
}

fn last_error() -> String {
    // SAFETY: the loader gives a C string or nothing, valid until its next call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it could not be opened".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
