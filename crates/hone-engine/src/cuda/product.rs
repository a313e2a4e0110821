//! Matrix products by cuBLASLt: bf16 in, f32 sums and results, never split along the inner dimension.
//!
//! A row of a forward product must not depend on how many rows are asked for with it, and yet one algorithm is not fast for one
//! row and for eight thousand. So for each shape of a weight all algorithms that the library offers are tried once, and
//! those that give the same bits as the first are kept; for each size of batch the fastest of them is taken. Which one that
//! is changes the time, never a bit. What it offers for few rows can leave half of the GPU idle, so there the same is tried with
//! tiles that fill it. Backward products are chosen in the same way. Our own products of few rows are held to the same
//! bits, and decoding takes whichever is faster where it stands.
#![expect(unsafe_code, reason = "functions of a foreign library")]

mod parts;
mod tune;

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock};

use tune::Tuned;

use super::compile;
use super::device::{Device, Grid, args, locked};
use super::few::{self, Then};
use super::kept::Kept;
use super::library::{Address, Handle, Lt};
use super::memory::Memory;
use super::{CudaOptions, ProductsBy, Unavailable};
use crate::backend::Put;

const F32: c_int = 0;
const BF16: c_int = 14;
const COMPUTE_F32: c_int = 68;
const TURN_A: c_int = 3;
const TURN_B: c_int = 4;
const BATCH_COUNT: c_int = 5;
const BATCH_OFFSET: c_int = 6;
const WORKSPACE_MAX: c_int = 1;
const REDUCTIONS: c_int = 3;
const TILES: c_int = 6;
const TILE: c_int = 1;
const OPTION: c_int = 5;
const CLUSTER: c_int = 8;
const WORKSPACE: usize = 32 << 20;
/// Tiles of an algorithm that are read.
const TILES_MAX: usize = 1024;
/// Shapes of calls that are remembered.
const CALLS_MAX: usize = 4096;

/// What is multiplied; all matrices are row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `y[rows, n] = x[rows, k] · w[n, k]ᵀ`.
    Forward,
    /// `dx[rows, n] = dy[rows, k] · w[k, n]`.
    Backward,
    /// `dw[rows, n] = dy[k, rows]ᵀ · x[k, n]`.
    Gradient,
}

/// The sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) rows: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Elements from row to row of the left matrix, the right one and the result.
    pub(super) strides: [usize; 3],
    /// Products of the same sizes, one behind the other, and elements from one to the next of each matrix.
    pub(super) batch: usize,
    pub(super) offsets: [usize; 3],
}

/// An algorithm, in the library's own words.
type Algorithm = [u64; 8];

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offer {
    algorithm: Algorithm,
    workspace: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// A product that was asked for before: layouts of the three matrices and the algorithm.
#[derive(Clone, Copy)]
struct Call {
    layouts: [usize; 3],
    algorithm: Algorithm,
}

/// What algorithms are chosen for: see `Products::tuned`.
type Weighing = (Kind, usize, usize, usize);

/// The library and what is known of its algorithms.
pub(super) struct Products {
    device: Arc<Device>,
    by: ProductsBy,
    lt: Lt,
    handle: Handle,
    descriptions: [Handle; 3],
    preference: Handle,
    workspace: Memory,
    /// Where the sums of a part are until it is whole: see `parts`.
    sums: OnceLock<Memory>,
    calls: Mutex<HashMap<Shape, Call>>,
    /// By kind, outputs, inputs and elements from row to row; nothing where no algorithm fits, which is not looked for again.
    tuned: Mutex<HashMap<Weighing, Option<Tuned>>>,
    /// What was found before with this library on this GPU.
    pub(super) kept: Kept,
}

// SAFETY: handles of the library may be used by any thread; what changes is behind locks.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    pub(super) fn open(device: &Arc<Device>, options: &CudaOptions) -> Result<Self, Unavailable> {
        let lt = Lt::find(&options.folders)?;
        device.enter();
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to a live local.
        let status = unsafe { (lt.cublasLtCreate)(&mut handle) };
        if status != 0 {
            return Err(Unavailable::Broken(format!("cuBLASLt does not start (error {status})")));
        }
        let descriptions = [Kind::Forward, Kind::Backward, Kind::Gradient].map(|kind| describe(&lt, kind));
        let preference = prefer(&lt);
        let workspace = device.memory(WORKSPACE);
        let facts = device.facts();
        let versions = format!("{:?} {} {:?} {}", facts.capability, facts.driver, lt.version(), env!("CARGO_PKG_VERSION"));
        let kept = Kept::new(Arc::clone(device.cache()), &[facts.name, versions, compile::sources()]);
        let (device, by) = (Arc::clone(device), options.products);
        let (sums, calls, tuned) = Default::default();
        Ok(Self { device, by, lt, handle, descriptions, preference, workspace, sums, calls, tuned, kept })
    }

    /// Computes a product.
    pub(super) fn multiply(&self, shape: Shape, left: Address, right: Address, put: Put, out: Address) {
        if shape.rows == 0 || shape.n == 0 || shape.batch == 0 {
            return;
        }
        if !fits(&shape) {
            return self.plainly(&shape, left, right, put, out);
        }
        if self.by == ProductsBy::Ours {
            return self.by_ours(&shape, left, right, put, out);
        }
        let known = locked(&self.calls).get(&shape).copied();
        let call = match known {
            Some(call) => Some(call),
            None => self.learn(&shape, right),
        };
        match call {
            Some(call) => self.run(&shape, &call, [left, right, out], put),
            None => self.plainly(&shape, left, right, put, out),
        }
    }

    /// How many of the algorithms that were tried for a weight's shape agree to the bit: (shape, agreeing, tried).
    pub(super) fn agreement(&self) -> Vec<((usize, usize), usize, usize)> {
        let tuned = locked(&self.tuned);
        let agreement = |(&(_, n, k, _), tuned): (_, &Option<Tuned>)| tuned.as_ref().map(|t| ((n, k), t.n_agree, t.n_tried));
        let mut all: Vec<_> = tuned.iter().filter_map(agreement).collect();
        all.sort_unstable();
        all
    }

    fn learn(&self, shape: &Shape, right: Address) -> Option<Call> {
        let algorithm = match shape.kind {
            Kind::Forward | Kind::Backward => self.tuned(shape, right)?.fastest(shape.rows),
            Kind::Gradient => self.offers(shape, 1).first()?.algorithm,
        };
        let call = Call { layouts: self.layouts(shape).map(|layout| layout as usize), algorithm };
        let mut calls = locked(&self.calls);
        if calls.len() >= CALLS_MAX {
            for call in std::mem::take(&mut *calls).into_values() {
                self.forget(call.layouts);
            }
        }
        calls.insert(*shape, call);
        Some(call)
    }

    fn offers(&self, shape: &Shape, n_max: usize) -> Vec<Offer> {
        let mut offers = vec![Offer::default(); n_max];
        let mut n = 0;
        let layouts = self.layouts(shape);
        // SAFETY: the vector has room for as many offers as are asked for.
        let status = unsafe {
            (self.lt.cublasLtMatmulAlgoGetHeuristic)(
                self.handle,
                self.descriptions[shape.kind as usize],
                layouts[0],
                layouts[1],
                layouts[2],
                layouts[2],
                self.preference,
                n_max as c_int,
                offers.as_mut_ptr().cast(),
                &mut n,
            )
        };
        self.forget(layouts.map(|layout| layout as usize));
        offers.truncate(if status == 0 { n.max(0) as usize } else { 0 });
        offers.retain(|offer| offer.status == 0 && offer.workspace <= WORKSPACE);
        offers
    }

    /// The library's numbers for the tiles that an algorithm has.
    fn tiles(&self, algorithm: &Algorithm) -> Vec<u32> {
        let (mut tiles, mut written) = (vec![0u32; TILES_MAX], 0);
        let room = tiles.len() * 4;
        // SAFETY: the vector has the room that is told.
        let status = unsafe {
            (self.lt.cublasLtMatmulAlgoCapGetAttribute)(
                algorithm.as_ptr().cast(),
                TILES,
                tiles.as_mut_ptr().cast(),
                room,
                &mut written,
            )
        };
        tiles.truncate(if status == 0 { written / 4 } else { 0 });
        tiles
    }

    /// An algorithm like this one with another tile and another cluster of blocks, where the library has it.
    fn like(&self, shape: &Shape, algorithm: Algorithm, tile: u32, cluster: u16) -> Option<Algorithm> {
        let (mut like, option) = (algorithm, 0u32);
        let attributes: [(c_int, *const c_void, usize); 3] = [
            (TILE, ptr::from_ref(&tile).cast(), 4),
            (OPTION, ptr::from_ref(&option).cast(), 4),
            (CLUSTER, ptr::from_ref(&cluster).cast(), 2),
        ];
        for (attribute, value, size) in attributes {
            // SAFETY: the value is a live local of the size that the library documents.
            let set = unsafe { (self.lt.cublasLtMatmulAlgoConfigSetAttribute)(like.as_mut_ptr().cast(), attribute, value, size) };
            if set != 0 {
                return None;
            }
        }
        self.takes(shape, &like).then_some(like)
    }

    /// Whether the library computes a product by this algorithm.
    fn takes(&self, shape: &Shape, algorithm: &Algorithm) -> bool {
        let (mut offer, layouts) = (Offer::default(), self.layouts(shape));
        // SAFETY: handles are the library's own, and the offer is laid out as it documents.
        let status = unsafe {
            (self.lt.cublasLtMatmulAlgoCheck)(
                self.handle,
                self.descriptions[shape.kind as usize],
                layouts[0],
                layouts[1],
                layouts[2],
                layouts[2],
                algorithm.as_ptr().cast(),
                ptr::from_mut(&mut offer).cast(),
            )
        };
        self.forget(layouts.map(|layout| layout as usize));
        status == 0 && offer.workspace <= WORKSPACE
    }

    /// Layouts in the library's column-major view, in which our matrices stand turned: what is right here is its first.
    fn layouts(&self, shape: &Shape) -> [Handle; 3] {
        let Shape { kind, rows, n, k, strides, .. } = *shape;
        let first = match kind {
            Kind::Forward => (k, n),
            Kind::Backward | Kind::Gradient => (n, k),
        };
        let second = match kind {
            Kind::Forward | Kind::Backward => (k, rows),
            Kind::Gradient => (rows, k),
        };
        let layout = |dtype: c_int, (rows, cols): (usize, usize), stride: usize, offset: usize| {
            let mut layout = ptr::null_mut();
            // SAFETY: the pointer is to a live local; attributes are of the sizes that the library documents.
            unsafe {
                (self.lt.cublasLtMatrixLayoutCreate)(&mut layout, dtype, rows as u64, cols as u64, stride as i64);
                if shape.batch > 1 {
                    let (count, offset) = (shape.batch as i32, offset as i64);
                    (self.lt.cublasLtMatrixLayoutSetAttribute)(layout, BATCH_COUNT, ptr::from_ref(&count).cast(), 4);
                    (self.lt.cublasLtMatrixLayoutSetAttribute)(layout, BATCH_OFFSET, ptr::from_ref(&offset).cast(), 8);
                }
            }
            layout
        };
        [
            layout(BF16, first, strides[1], shape.offsets[1]),
            layout(BF16, second, strides[0], shape.offsets[0]),
            layout(F32, (n, rows), strides[2], shape.offsets[2]),
        ]
    }

    fn forget(&self, layouts: [usize; 3]) {
        for layout in layouts {
            // SAFETY: the layout was made by `layouts` and is not used again.
            unsafe { (self.lt.cublasLtMatrixLayoutDestroy)(layout as Handle) };
        }
    }

    fn run(&self, shape: &Shape, call: &Call, addresses: [Address; 3], put: Put) {
        let status = self.try_run(shape, call, addresses, put);
        assert!(status == 0, "cuBLASLt refused {shape:?} (error {status})");
    }

    fn try_run(&self, shape: &Shape, call: &Call, [left, right, out]: [Address; 3], put: Put) -> c_int {
        let (alpha, beta) = (1f32, if put == Put::Add { 1f32 } else { 0f32 });
        let [first, second, result] = call.layouts.map(|layout| layout as Handle);
        self.device.enter();
        // SAFETY: the layouts describe memory that the callers own; the workspace is used by one stream alone.
        unsafe {
            (self.lt.cublasLtMatmul)(
                self.handle,
                self.descriptions[shape.kind as usize],
                ptr::from_ref(&alpha).cast(),
                right,
                first,
                left,
                second,
                ptr::from_ref(&beta).cast(),
                out,
                result,
                out,
                result,
                call.algorithm.as_ptr().cast(),
                self.workspace.address(),
                WORKSPACE,
                self.device.stream,
            )
        }
    }

    /// Our own kernels, the faster one where it takes the shape.
    fn by_ours(&self, shape: &Shape, left: Address, right: Address, put: Put, out: Address) {
        let then = if put == Put::Add { Then::Add } else { Then::Set };
        let few = tune::few_of(shape, [left, right, out]);
        let takes = shape.kind == Kind::Forward && shape.batch == 1 && few::fits(shape.n, then);
        match few.ways(&self.device).first() {
            Some(&way) if takes => few.run(&self.device, way, then),
            _ => self.plainly(shape, left, right, put, out),
        }
    }

    /// Our own kernel, for shapes that the library does not take.
    fn plainly(&self, shape: &Shape, left: Address, right: Address, put: Put, out: Address) {
        let Shape { kind, rows, n, k, strides: [a, b, c], .. } = *shape;
        let ((a_row, a_step), (b_row, b_step)) = match kind {
            Kind::Forward => ((a, 1), (b, 1)),
            Kind::Backward => ((a, 1), (1, b)),
            Kind::Gradient => ((1, a), (1, b)),
        };
        for i in 0..shape.batch {
            let at = |address: Address, which: usize, width: usize| address + (i * shape.offsets[which] * width) as u64;
            // The second axis of a grid is bounded.
            for row0 in (0..rows).step_by(1 << 15) {
                let some = (rows - row0).min(1 << 15);
                let x = at(left, 0, 2) + (row0 * a_row * 2) as u64;
                let y = at(out, 2, 4) + (row0 * c * 4) as u64;
                let grid = Grid { blocks: (n.div_ceil(128), some), threads: 128, shared: 0, early: false };
                let add = usize::from(put == Put::Add);
                self.device.launch(
                    "product",
                    grid,
                    args![x, a_row, a_step, at(right, 1, 2), b_row, b_step, n, k, add, y, c, some],
                );
            }
        }
    }
}

/// The library wants rows of results at multiples of sixteen bytes.
fn fits(shape: &Shape) -> bool {
    shape.k > 0 && shape.strides[2].is_multiple_of(4) && shape.strides[0].is_multiple_of(8) && shape.strides[1].is_multiple_of(8)
}

fn describe(lt: &Lt, kind: Kind) -> Handle {
    let mut description = ptr::null_mut();
    let (turn_first, turn_second) = match kind {
        Kind::Forward => (1i32, 0i32),
        Kind::Backward => (0, 0),
        Kind::Gradient => (0, 1),
    };
    // SAFETY: the pointers are to live locals of the sizes that the library documents.
    unsafe {
        (lt.cublasLtMatmulDescCreate)(&mut description, COMPUTE_F32, F32);
        (lt.cublasLtMatmulDescSetAttribute)(description, TURN_A, ptr::from_ref(&turn_first).cast(), 4);
        (lt.cublasLtMatmulDescSetAttribute)(description, TURN_B, ptr::from_ref(&turn_second).cast(), 4);
    }
    description
}

fn prefer(lt: &Lt) -> Handle {
    let mut preference = ptr::null_mut();
    let (workspace, reductions) = (WORKSPACE, 0u32);
    // SAFETY: as above.
    unsafe {
        (lt.cublasLtMatmulPreferenceCreate)(&mut preference);
        (lt.cublasLtMatmulPreferenceSetAttribute)(preference, WORKSPACE_MAX, ptr::from_ref(&workspace).cast(), 8);
        (lt.cublasLtMatmulPreferenceSetAttribute)(preference, REDUCTIONS, ptr::from_ref(&reductions).cast(), 4);
    }
    preference
}
