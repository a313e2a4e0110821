//! The backend of one NVIDIA GPU: bf16 weights and activations, f32 sums.
//!
//! Nothing of CUDA is needed to build hone. The driver, the compiler and the matrix products are found while running
//! ([`library`]); our kernels are compiled for the GPU that is there and kept on disk ([`compile`], [`cache`]), as is which way to compute was the fastest ([`kept`]); matrix products are
//! cuBLASLt's, by algorithms that were seen to agree to the bit ([`product`]), or in decoding our own where they are faster and give the
//! same ([`few`], [`wide`]); where answers are to come one at a time, the products of some small models are summed in parts, whoever computes them ([`alone`]); everything else is a kernel of our own in `kernels/`. One stream, one allocator that keeps what it was given ([`device`]).
//!
//! Every operation is compared with the readable backend by `tests/engine/cuda.rs`. Knows nothing of layers but where decoding is
//! one graph ([`decode`]).

mod alone;
mod cache;
mod compile;
mod cut;
mod decode;
mod device;
mod few;
mod graph;
mod head;
mod kept;
mod library;
mod low;
mod memory;
mod operations;
mod plan;
mod product;
mod wide;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

pub(crate) use decode::OnGpu;
use device::Device;
use memory::Memory;
pub use plan::Plan;

/// Why there is no CUDA backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The driver's library is missing.
    #[error("the NVIDIA driver (libcuda.so.1) cannot be loaded: {0}")]
    Driver(String),
    /// The driver is there and sees no GPU, or not the one that was asked for.
    #[error("the NVIDIA driver sees no such GPU: {0}")]
    Gpu(String),
    /// The GPU is older than bf16 tensor cores.
    #[error("{name} has compute capability {major}.{minor}; hone needs 8.0 or newer")]
    TooOld {
        /// The GPU.
        name: String,
        /// Of its compute capability.
        major: i32,
        /// Of its compute capability.
        minor: i32,
    },
    /// The compiler is missing.
    #[error("the CUDA compiler library (libnvrtc.so.13 or .12, of a CUDA toolkit) cannot be loaded: {0}")]
    Compiler(String),
    /// The matrix products are missing.
    #[error("the CUDA matrix library (libcublasLt.so.13 or .12, of a CUDA toolkit) cannot be loaded: {0}")]
    Products(String),
    /// The kernels do not compile, or the libraries refuse to start.
    #[error("the GPU cannot be used: {0}")]
    Broken(String),
}

/// How the GPU is opened.
#[derive(Clone, Debug, Default)]
pub struct CudaOptions {
    /// Which GPU, counted from 0.
    pub ordinal: usize,
    /// Folders to look into for the libraries of CUDA, after the loader's own.
    pub folders: Vec<PathBuf>,
    /// Where compiled kernels are kept, and which ways were the fastest; without it both are found at every start.
    pub cache: Option<PathBuf>,
    /// Whose matrix products are taken.
    pub products: ProductsBy,
    /// How many answers there are at a time.
    pub answers: Answers,
}

/// How many answers there are at a time, as a rule: what a GPU is to be quick at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// Many, and training.
    #[default]
    Many,
    /// One. Where the GPU and the model are such that all layers of a token can be one launch, their products are summed for that,
    /// by whatever computes them: an answer alone is sooner there, all else takes longer. To one backend of a GPU at a time: such a launch
    /// waits for room that another one may hold.
    One,
}

/// A word that is no number of answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no number of answers: write many or one")]
pub struct UnknownAnswers(String);

impl FromStr for Answers {
    type Err = UnknownAnswers;

    fn from_str(word: &str) -> Result<Self, UnknownAnswers> {
        match word {
            "many" => Ok(Self::Many),
            "one" => Ok(Self::One),
            other => Err(UnknownAnswers(other.to_owned())),
        }
    }
}

/// Who computes matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProductsBy {
    /// The library, and ours where they are faster.
    #[default]
    Library,
    /// Our kernels alone: slow, and for tools that stumble over the library's.
    Ours,
}

/// What is known of an open GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuFacts {
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Version of the driver's CUDA.
    pub driver: i32,
    /// Bytes of memory that are free, and all of them.
    pub memory: (usize, usize),
    /// Most bytes that this process held at once.
    pub peak: usize,
}

/// The backend of one GPU.
pub struct Cuda {
    device: Arc<Device>,
    answers: Answers,
    products: product::Products,
    decoders: std::sync::Mutex<decode::Decoders>,
    choices: decode::Choices,
    agreed: low::Agreed,
}

impl Cuda {
    /// Opens a GPU, or says what is missing.
    pub fn open(options: &CudaOptions) -> Result<Self, Unavailable> {
        let device = Arc::new(Device::open(options)?);
        let products = product::Products::open(&device, options)?;
        let (decoders, choices, agreed) = Default::default();
        Ok(Self { device, answers: options.answers, products, decoders, choices, agreed })
    }

    /// What is known of the GPU.
    pub fn facts(&self) -> GpuFacts {
        self.device.facts()
    }

    /// Why something that was made for this GPU could not be kept for the next start, if that happened: a full disk, say.
    pub fn unkept(&self) -> Option<String> {
        self.device.cache().complaint().map(str::to_owned)
    }

    /// How far the matrix products keep their promise: per shape of a weight (outputs, inputs), how many of the library's algorithms
    /// give the same bits, and how many were tried. A row's result is the same whichever of the agreeing ones computes it.
    pub fn agreement(&self) -> Vec<((usize, usize), usize, usize)> {
        self.products.agreement()
    }

    /// Waits until the GPU has done everything it was asked.
    pub fn wait(&self) {
        self.device.wait();
    }

    /// Tells a profiler that was told to wait (`ncu --profile-from-start off`, say) from when until when to look.
    pub fn profile(&self, on: bool) {
        self.device.profile(on);
    }

    /// Milliseconds of GPU time that `work` takes, by the GPU's own clock.
    pub fn time_ms(&self, work: impl FnOnce()) -> f32 {
        self.device.time_ms(work)
    }
}

/// A vector of f32 on the GPU.
pub struct Buf {
    memory: Memory,
    len: usize,
}

impl Buf {
    fn address(&self) -> u64 {
        self.memory.address()
    }
}

/// Rows of bf16 on the GPU, each padded with zeros to a multiple of eight, possibly beside others in one allocation.
pub struct Act {
    memory: Arc<Memory>,
    /// Elements from the start of a row of the allocation.
    offset: usize,
    rows: usize,
    cols: usize,
    stride: usize,
}

impl Act {
    fn alone(memory: Memory, rows: usize, cols: usize, stride: usize) -> Self {
        Self { memory: Arc::new(memory), offset: 0, rows, cols, stride }
    }

    fn address(&self) -> u64 {
        self.memory.address() + (self.offset * 2) as u64
    }

    /// Whether the other one's columns begin where these end.
    fn is_before(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory) && self.stride == other.stride && self.offset + self.cols == other.offset
    }
}

/// A matrix of bf16 on the GPU, possibly beside others in one allocation.
pub struct Weight {
    memory: Arc<Memory>,
    /// Bytes from the start of the allocation.
    offset: usize,
    rows: usize,
    cols: usize,
    stride: usize,
    summed: Summed,
}

/// How a weight's inputs are summed: those of a run by one chain of sums that begins with zero, the runs of a part one after the other, and
/// the parts one after the other to what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Summed {
    /// Inputs of a part.
    part: usize,
    /// Inputs of a run.
    run: usize,
}

impl Summed {
    /// All inputs by one chain.
    fn whole(cols: usize) -> Self {
        Self { part: cols, run: cols }
    }
}

impl Weight {
    fn address(&self) -> u64 {
        self.memory.address() + self.offset as u64
    }

    /// Whether the other one's rows begin where these end.
    fn is_before(&self, other: &Self) -> bool {
        let is_like = (self.cols, self.stride) == (other.cols, other.stride);
        Arc::ptr_eq(&self.memory, &other.memory) && is_like && self.offset + self.rows * self.stride * 2 == other.offset
    }
}

/// Pages of keys and values of one layer, `[page][kv head][offset][width]` in bf16.
pub struct Kv {
    keys: Memory,
    values: Memory,
    heads: crate::backend::Heads,
    /// Width of a head, padded to sixteen.
    width: usize,
    /// One more page stands behind these, for rows that are computed and not wanted.
    n_pages: usize,
}
