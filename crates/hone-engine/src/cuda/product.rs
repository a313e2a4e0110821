//! Matrix products by cuBLASLt: bf16 in, f32 sums and results, never split along the inner dimension.
//!
//! A row of a forward product must not depend on how many rows are asked for with it, and yet one algorithm is not fast for one
//! row and for eight thousand. So for each shape of a weight all algorithms that the library offers are tried once, and
//! those that give the same bits as the first are kept; for each size of batch the fastest of them is taken. Which one that
//! is changes the time, never a bit. Backward products are chosen in the same way. Our own products of few rows are held to the same
//! bits, and are taken for decoding where they are not much slower.
#![expect(unsafe_code, reason = "functions of a foreign library")]

use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::device::{Device, Grid, Memory, args};
use super::few::{self, Few, Then, Tile};
use super::library::{Address, Handle, Lt};
use super::{CudaOptions, Unavailable};
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
const WORKSPACE: usize = 32 << 20;
/// Algorithms asked for per size of batch.
const OFFERS: usize = 16;
/// Rows with which algorithms are compared.
const COMPARED: usize = 256;
/// Sizes of batch with a choice of their own; more rows than the last take the last's.
const SIZES: [usize; 7] = [16, 64, 128, 256, 512, 2048, 8192];
/// Results that are tried with are no more than this, however wide the weight.
const TRIED_MAX: usize = 1 << 28;
/// Our own products are tried up to this many rows, and taken when this much slower at most: they start earlier and do more at once
/// than the time of one alone shows.
const FEW_ROWS_MAX: usize = 512;
const FEW_SLOWER: f32 = 1.15;
const FEW_SLOWER_MS: f32 = 0.002;
/// Runs of which the mean is taken.
const TIMED: u32 = 8;
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

/// What was found out about a weight's shape.
#[derive(Clone, Debug)]
struct Tuned {
    by_size: [Algorithm; SIZES.len()],
    /// Whether our own product of few rows is taken.
    few: [bool; SIZES.len()],
    n_agree: usize,
    n_tried: usize,
}

/// The library and what is known of its algorithms.
pub(super) struct Products {
    device: Arc<Device>,
    lt: Lt,
    handle: Handle,
    descriptions: [Handle; 3],
    preference: Handle,
    workspace: Memory,
    calls: Mutex<HashMap<Shape, Call>>,
    tuned: Mutex<HashMap<(Kind, usize, usize, usize), Tuned>>,
}

// SAFETY: handles of the library may be used by any thread; what changes is behind locks.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        let device = Arc::clone(device);
        Ok(Self { device, lt, handle, descriptions, preference, workspace, calls: Mutex::default(), tuned: Mutex::default() })
    }

    /// Computes a product.
    pub(super) fn multiply(&self, shape: Shape, left: Address, right: Address, put: Put, out: Address) {
        if shape.rows == 0 || shape.n == 0 || shape.batch == 0 {
            return;
        }
        if !fits(&shape) {
            return self.plainly(&shape, left, right, put, out);
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
        let mut all: Vec<_> =
            locked(&self.tuned).iter().map(|(&(_, n, k, _), tuned)| ((n, k), tuned.n_agree, tuned.n_tried)).collect();
        all.sort_unstable();
        all
    }

    fn learn(&self, shape: &Shape, right: Address) -> Option<Call> {
        let algorithm = match shape.kind {
            Kind::Forward | Kind::Backward => self.tuned(shape, right)?.by_size[size_of_batch(shape.rows)],
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

    /// Whether decoding takes our own product for this weight and so many rows.
    pub(super) fn prefers_few(&self, shape: &Shape, right: Address) -> bool {
        fits(shape) && self.tuned(shape, right).is_some_and(|tuned| tuned.few[size_of_batch(shape.rows)])
    }

    /// Tries the library's algorithms on this weight, once per shape.
    fn tuned(&self, shape: &Shape, right: Address) -> Option<Tuned> {
        let key = (shape.kind, shape.n, shape.k, shape.strides[1]);
        if let Some(tuned) = locked(&self.tuned).get(&key) {
            return Some(tuned.clone());
        }
        let bounded = |rows: usize| rows.min((TRIED_MAX / shape.strides[2].max(shape.strides[0])).max(SIZES[0]));
        let of_rows = |rows: usize| Shape { rows: bounded(rows), ..*shape };
        let offers =
            SIZES.map(|rows| self.offers(&of_rows(rows), OFFERS).into_iter().map(|offer| offer.algorithm).collect::<Vec<_>>());
        let mut all: Vec<Algorithm> = Vec::new();
        for &algorithm in offers.iter().flatten() {
            if !all.contains(&algorithm) {
                all.push(algorithm);
            }
        }
        let largest = bounded(SIZES[SIZES.len() - 1]).max(bounded(COMPARED));
        let left = self.noise(largest * shape.strides[0]);
        let out = self.device.memory(largest * shape.strides[2] * 4);
        let (agreeing, few_agrees) = self.agreeing(&of_rows(COMPARED), &all, left.address(), right);
        let first = *agreeing.first()?;
        let mut few = [false; SIZES.len()];
        let mut by_size = [first; SIZES.len()];
        for (size, &rows) in SIZES.iter().enumerate() {
            let shape = of_rows(rows);
            let layouts = self.layouts(&shape).map(|layout| layout as usize);
            let addresses = [left.address(), right, out.address()];
            let mut best_ms = f32::MAX;
            for &algorithm in offers[size].iter().filter(|algorithm| agreeing.contains(algorithm)) {
                let call = Call { layouts, algorithm };
                let run = || self.try_run(&shape, &call, addresses, Put::Set);
                let timed = || {
                    run();
                };
                let ms = if run() == 0 { self.time_ms(timed) } else { f32::MAX };
                if ms < best_ms {
                    (best_ms, by_size[size]) = (ms, algorithm);
                }
            }
            self.forget(layouts);
            if few_agrees && rows <= FEW_ROWS_MAX {
                let run = || few_of(&shape, addresses).run(&self.device, Tile::fitting(shape.rows, shape.n), Then::Set);
                run();
                few[size] = self.time_ms(run) <= best_ms * FEW_SLOWER + FEW_SLOWER_MS;
            }
        }
        let tuned = Tuned { by_size, few, n_agree: agreeing.len(), n_tried: all.len() };
        locked(&self.tuned).insert(key, tuned.clone());
        Some(tuned)
    }

    /// Milliseconds of one of several runs.
    fn time_ms(&self, run: impl Fn()) -> f32 {
        self.device.time_ms(|| (0..TIMED).for_each(|_| run())) / TIMED as f32
    }

    /// The largest set of algorithms that give the same bits, of those led by one of the first offers, and whether our own products
    /// give the same.
    fn agreeing(&self, shape: &Shape, offers: &[Algorithm], left: Address, right: Address) -> (Vec<Algorithm>, bool) {
        let layouts = self.layouts(shape).map(|layout| layout as usize);
        let len = shape.rows * shape.strides[2];
        let [first, second] = [(), ()].map(|()| self.device.memory(len * 4));
        [&first, &second].iter().for_each(|memory| self.device.clear(memory.address(), len * 4));
        let differs = self.device.memory(4);
        let run = |algorithm: Algorithm, out: &Memory| {
            self.try_run(shape, &Call { layouts, algorithm }, [left, right, out.address()], Put::Set) == 0
        };
        let same = |first: &Memory, second: &Memory| {
            self.device.clear(differs.address(), 4);
            let sides = args![first.address(), second.address(), len, differs.address()];
            self.device.launch("differs", Grid::each(len), sides);
            self.device.read::<u32>(differs.address(), 1) == [0]
        };
        let mut best = Vec::new();
        for &leader in offers.iter().take(4) {
            if !run(leader, &first) {
                continue;
            }
            let agrees = |algorithm: &&Algorithm| run(**algorithm, &second) && same(&first, &second);
            let agreeing: Vec<Algorithm> = offers.iter().filter(agrees).copied().collect();
            if agreeing.len() > best.len() {
                best = agreeing;
            }
            if 2 * best.len() > offers.len() {
                break;
            }
        }
        let few_agrees = shape.kind == Kind::Forward
            && few::fits(shape.n, Then::Set)
            && best.first().is_some_and(|&leader| {
                run(leader, &first);
                [Tile::Small, Tile::Middle, Tile::Large].into_iter().all(|tile| {
                    self.device.clear(second.address(), len * 4);
                    few_of(shape, [left, right, second.address()]).run(&self.device, tile, Then::Set);
                    same(&first, &second)
                })
            });
        self.forget(layouts);
        (best, few_agrees)
    }

    /// Random numbers in bf16.
    fn noise(&self, len: usize) -> Memory {
        let memory = self.device.memory(len * 2);
        self.device.launch("noise", Grid::each(len), args![memory.address(), len]);
        memory
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

/// The place of a size of batch among [`SIZES`].
fn size_of_batch(rows: usize) -> usize {
    SIZES.iter().position(|&size| rows <= size).unwrap_or(SIZES.len() - 1)
}

/// A forward product as our own.
fn few_of(shape: &Shape, [x, w, y]: [Address; 3]) -> Few {
    let [x_stride, w_stride, y_stride] = shape.strides.map(|stride| stride as i32);
    let (rows, n, k) = (shape.rows as i32, shape.n as i32, shape.k as i32);
    Few { x, w, y, rows, n, k, x_stride, w_stride, y_stride, ..Few::default() }
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
