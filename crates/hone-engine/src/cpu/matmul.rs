//! The product of activations and panels, on every level of instructions.
//!
//! `c[row, col] = Σ_k a[row, k]·b[k, col]`, each element summed over k in one order: bf16 by ascending pairs of k, f32 by
//! blocks of 64; from zero or from what `c` holds. Work is cut into blocks of rows and columns; a block is computed by one thread, and no element
//! depends on the block it is in. So neither the number of rows, nor a row's place, nor the threads change a bit.
#![expect(unsafe_code, reason = "threads write disjoint blocks of one matrix; vector kernels read by pointer")]

use std::ops::Range;

use super::isa::{Isa, Level, versions, versions_by_lane};
use super::lanes::{LANES, Lane, V, ZERO, fma1, from_bf16, load, store};
use super::pack::{Act, Numbers, PANEL, Panels, STEP};
use super::pool::{Pool, Shares};
use crate::backend::Put;

/// Rows and columns of one item when there are many rows: the columns' panels stay in the second cache while the rows
/// pass by.
const BLOCK_ROWS: usize = 128;
const BLOCK_COLS: usize = 256;
/// Products with at most this many multiplications stay on one thread.
const ALONE_MAX: usize = 1 << 20;
/// With at most so many rows the weights come from memory once, and an item is a few columns: at least so many weights, and so
/// many items for each thread at most. Taking an item waits for all that is on its way from memory.
const FEW_ROWS: usize = 64;
const FEW_ROWS_WEIGHTS: usize = 18_432;
const FEW_ROWS_ITEMS: usize = 16;
/// Steps of k after which the tile kernel turns to the next columns, so that its rows stay in the first cache. The sums
/// go on from memory; their order is the same.
const K_STEPS_MAX: usize = 18;

/// Which part of the operands a product takes and where its result goes.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Rows of the activations.
    pub(crate) rows: Range<usize>,
    /// Columns of the panels; starts at a multiple of 32.
    pub(crate) cols: Range<usize>,
    /// Range of the panels' k that the activations' columns stand for; starts at a multiple of 32.
    pub(crate) k0: usize,
    /// Distance of output rows.
    pub(crate) stride: usize,
    /// Where the first output element goes.
    pub(crate) at: usize,
    /// Replace or add.
    pub(crate) put: Put,
}

/// Runs a product on all threads.
pub(crate) fn product(pool: &Pool, isa: Isa, a: &Act, b: &Panels, job: &Job, out: &mut [f32]) {
    products(pool, isa, vec![(a, b, job.clone(), out)]);
}

/// Runs several products on all threads, in one round.
pub(crate) fn products(pool: &Pool, isa: Isa, products: Vec<(&Act, &Panels, Job, &mut [f32])>) {
    let cut: Vec<Cut<'_>> = products.into_iter().filter_map(|(a, b, job, out)| Cut::new(pool, a, b, job, out)).collect();
    let n_items = cut.iter().map(|cut| cut.n_items).sum();
    let n_multiplications: usize = cut.iter().map(|cut| cut.job.rows.len() * cut.job.cols.len() * cut.a.stride).sum();
    let compute = |mut item: usize| {
        for cut in &cut {
            if item < cut.n_items {
                return cut.compute(isa, item);
            }
            item -= cut.n_items;
        }
    };
    // A small product is done before another thread would have heard of it.
    if n_multiplications <= ALONE_MAX {
        (0..n_items).for_each(compute);
    } else {
        pool.run(n_items, &compute);
    }
}

/// A product cut into items.
struct Cut<'a> {
    a: &'a Act,
    b: &'a Panels,
    job: Job,
    out: Shares<f32>,
    block_cols: usize,
    col_blocks: usize,
    n_items: usize,
}

impl<'a> Cut<'a> {
    /// `None` for a product without results.
    fn new(pool: &Pool, a: &'a Act, b: &'a Panels, job: Job, out: &'a mut [f32]) -> Option<Self> {
        let (n_rows, n_cols) = (job.rows.len(), job.cols.len());
        if n_rows == 0 || n_cols == 0 {
            return None;
        }
        assert!(job.rows.end <= a.rows && job.cols.end <= b.cols && job.cols.start.is_multiple_of(STEP), "inside operands");
        assert!(job.k0.is_multiple_of(STEP) && job.k0 + a.cols <= b.k_padded, "k inside the panels");
        assert!(job.at + (n_rows - 1) * job.stride + n_cols <= out.len() && n_cols <= job.stride, "output fits");
        let few = (FEW_ROWS_WEIGHTS / a.stride).max(n_cols / (FEW_ROWS_ITEMS * pool.n_threads())).max(1).next_multiple_of(STEP);
        let block_cols = if n_rows <= FEW_ROWS { few } else { BLOCK_COLS };
        let col_blocks = n_cols.div_ceil(block_cols);
        let n_items = n_rows.div_ceil(BLOCK_ROWS) * col_blocks;
        Some(Self { a, b, job, out: Shares(out.as_mut_ptr()), block_cols, col_blocks, n_items })
    }

    fn compute(&self, isa: Isa, item: usize) {
        let Job { rows, cols, k0, stride, at, put } = &self.job;
        let (row0, col0) = (item / self.col_blocks * BLOCK_ROWS, item % self.col_blocks * self.block_cols);
        let block = BlockOf {
            a: self.a,
            b: self.b,
            k0: *k0,
            row: rows.start + row0,
            n_rows: BLOCK_ROWS.min(rows.len() - row0),
            col: cols.start + col0,
            n_cols: self.block_cols.min(cols.len() - col0),
            stride: *stride,
            put: *put,
        };
        // SAFETY: the block's elements `start + i·stride + j` with `i < n_rows`, `j < n_cols` lie inside `out` (asserted
        // in `new`, which borrowed it for as long as this cut lives) and belong to this item alone; the kernels write no
        // others.
        unsafe { block.compute(isa, self.out.at(at + row0 * stride + col0)) };
    }
}

/// One block of a product.
struct BlockOf<'a> {
    a: &'a Act,
    b: &'a Panels,
    k0: usize,
    row: usize,
    n_rows: usize,
    col: usize,
    n_cols: usize,
    stride: usize,
    put: Put,
}

impl BlockOf<'_> {
    /// # Safety
    /// `out` points to `n_rows` rows, `stride` apart, of `n_cols` floats that nobody else uses.
    unsafe fn compute(&self, isa: Isa, out: *mut f32) {
        match (&self.a.data, &self.b.data) {
            #[cfg(target_arch = "x86_64")]
            (Numbers::Bf16(a), Numbers::Bf16(b)) if isa.level() == Level::Amx => {
                // SAFETY: the level proves AMX; the rest is promised by the caller.
                unsafe { self.amx(a, b, out) };
            }
            (Numbers::Bf16(a), Numbers::Bf16(b)) => self.small_blocks(out, |rows, at, panel, c| {
                let a = &a[at..];
                let b = &b[panel..];
                let shape = self.shape();
                #[cfg(target_arch = "x86_64")]
                if isa.level() == Level::Avx512Bf16 {
                    // SAFETY: the level proves AVX-512 with bf16.
                    return unsafe { dot_bf16(rows, a, shape, b, c) };
                }
                rows_bf16(isa, rows, a, shape, b, c);
            }),
            (Numbers::F32(a), Numbers::F32(b)) => self.small_blocks(out, |rows, at, panel, c| {
                rows_f32(isa, rows, &a[at..], self.shape(), &b[panel..], c);
            }),
            _ => unreachable!("both operands have the backend's type"),
        }
    }

    fn shape(&self) -> Shape {
        Shape { k: self.a.cols.next_multiple_of(STEP), pitch: self.a.stride, panel: self.b.k_padded * PANEL }
    }

    /// Walks the block in tiles of up to eight rows by 32 columns, each through a small buffer.
    fn small_blocks(&self, out: *mut f32, kernel: impl Fn(usize, usize, usize, &mut [[V; 2]; 8])) {
        for col in (0..self.n_cols).step_by(STEP) {
            let width = STEP.min(self.n_cols - col);
            let panel = (self.col + col) / PANEL * PANEL * self.b.k_padded + self.k0 * PANEL;
            let mut row = 0;
            while row < self.n_rows {
                let rows = match self.n_rows - row {
                    8.. => 8,
                    4.. => 4,
                    left => left.min(2),
                };
                let mut c = [[ZERO; 2]; 8];
                // SAFETY: rows `row..row + rows` and columns `col..col + width` are inside the block that `compute` was
                // given, and this thread alone uses it.
                let line = |i: usize| unsafe { std::slice::from_raw_parts_mut(out.add((row + i) * self.stride + col), width) };
                if self.put == Put::Add {
                    for (i, c) in c[..rows].iter_mut().enumerate() {
                        c.as_flattened_mut()[..width].copy_from_slice(line(i));
                    }
                }
                kernel(rows, (self.row + row) * self.a.stride, panel, &mut c);
                for (i, c) in c[..rows].iter().enumerate() {
                    line(i).copy_from_slice(&c.as_flattened()[..width]);
                }
                row += rows;
            }
        }
    }

    /// # Safety
    /// As for [`BlockOf::compute`], on a processor with AMX.
    #[cfg(target_arch = "x86_64")]
    unsafe fn amx(&self, a: &[u16], b: &[u16], out: *mut f32) {
        use super::amx::{Block, configure, tile_16x32, tile_32x32};
        // SAFETY: the caller promises AMX.
        unsafe { configure() };
        let k_steps = self.shape().k / STEP;
        let mut spill = [[0f32; STEP]; STEP];
        for row in (0..self.n_rows).step_by(STEP) {
            let height = STEP.min(self.n_rows - row);
            let at = (self.row + row) * self.a.stride;
            assert!(at + STEP * self.a.stride <= a.len(), "spare rows");
            for step in (0..k_steps).step_by(K_STEPS_MAX) {
                let add = self.put == Put::Add || step > 0;
                for col in (0..self.n_cols).step_by(STEP) {
                    let width = STEP.min(self.n_cols - col);
                    let panel = (self.col + col) / PANEL * PANEL * self.b.k_padded + self.k0 * PANEL;
                    assert!(panel + PANEL * (self.b.k_padded + self.shape().k) <= b.len(), "two panels");
                    let direct = width == STEP && (height == STEP || height == STEP / 2);
                    // SAFETY: rows `row..row + height` and columns `col..col + width` are inside the caller's block.
                    let line =
                        |i: usize| unsafe { std::slice::from_raw_parts_mut(out.add((row + i) * self.stride + col), width) };
                    if !direct && add {
                        (0..height).for_each(|i| spill[i][..width].copy_from_slice(line(i)));
                    }
                    // SAFETY: the offsets were asserted to leave room for 32 rows of A and two panels of B, of which
                    // `step` skips the first steps of k.
                    let (a, b) = unsafe { (a.as_ptr().add(at + step * STEP), b.as_ptr().add(panel + step * STEP * PANEL)) };
                    // SAFETY: the first element of this tile, inside the caller's block.
                    let direct_c = unsafe { out.add(row * self.stride + col) };
                    let block = Block {
                        a,
                        a_stride: self.a.stride * 2,
                        b,
                        b_panel: self.b.k_padded * PANEL * 2,
                        k_steps: K_STEPS_MAX.min(k_steps - step),
                        c: if direct { direct_c } else { spill.as_mut_ptr().cast() },
                        c_stride: if direct { self.stride * 4 } else { STEP * 4 },
                        add,
                        stream: self.n_rows <= FEW_ROWS,
                    };
                    // SAFETY: A has 32 readable rows (spare rows behind the matrix), B two panels, and C is either a
                    // whole tile of the caller's block or the spill buffer.
                    unsafe {
                        if height <= STEP / 2 {
                            tile_16x32(block);
                        } else {
                            tile_32x32(block);
                        }
                    };
                    if !direct {
                        (0..height).for_each(|i| line(i).copy_from_slice(&spill[i][..width]));
                    }
                }
            }
        }
    }
}

type Tile = [[V; 2]; 8];

/// How far a small kernel sums, and where the next row of A and the next panel of B begin.
#[derive(Clone, Copy)]
struct Shape {
    k: usize,
    pitch: usize,
    panel: usize,
}

versions_by_lane! {
    /// Up to eight rows times two panels in f32.
    fn rows_f32 = rows_f32_any(rows: usize, a: &[f32], shape: Shape, b: &[f32], c: &mut Tile)
}

#[inline(always)]
fn rows_f32_any<L: Lane>(rows: usize, a: &[f32], shape: Shape, b: &[f32], c: &mut Tile) {
    match rows {
        8 => rows_f32_n::<L, 8>(a, shape, b, c),
        4 => rows_f32_n::<L, 4>(a, shape, b, c),
        2 => rows_f32_n::<L, 2>(a, shape, b, c),
        _ => rows_f32_n::<L, 1>(a, shape, b, c),
    }
}

/// Sums of 64 products are made from zero and then added: the rounding error of a long sum grows with its length, and
/// two short lengths are less than one long one.
#[inline(always)]
fn rows_f32_n<L: Lane, const R: usize>(a: &[f32], Shape { k, pitch, panel }: Shape, b: &[f32], c: &mut Tile) {
    const SHORT: usize = 64;
    let (left, right) = (&b[..k * LANES], &b[panel..panel + k * LANES]);
    let mut total = [[L::zero(); 2]; R];
    for r in 0..R {
        total[r] = [L::load(&c[r][0]), L::load(&c[r][1])];
    }
    let blocks = left.chunks(SHORT * LANES).zip(right.chunks(SHORT * LANES));
    for (block, (left, right)) in blocks.enumerate() {
        let mut acc = [[L::zero(); 2]; R];
        for (i, (left, right)) in left.chunks_exact(LANES).zip(right.chunks_exact(LANES)).enumerate() {
            let (left, right) = (L::load(left), L::load(right));
            for r in 0..R {
                let a = a[r * pitch + block * SHORT + i];
                acc[r][0] = acc[r][0].fma_splat(a, left);
                acc[r][1] = acc[r][1].fma_splat(a, right);
            }
        }
        for r in 0..R {
            total[r] = [total[r][0].add(acc[r][0]), total[r][1].add(acc[r][1])];
        }
    }
    for r in 0..R {
        total[r][0].store(&mut c[r][0]);
        total[r][1].store(&mut c[r][1]);
    }
}

versions! {
    /// Up to eight rows times two panels in bf16, by widening.
    fn rows_bf16 = rows_bf16_any(rows: usize, a: &[u16], shape: Shape, b: &[u16], c: &mut Tile)
}

#[inline(always)]
fn rows_bf16_any<const FMA: bool>(rows: usize, a: &[u16], shape: Shape, b: &[u16], c: &mut Tile) {
    match rows {
        8 => rows_bf16_n::<FMA, 8>(a, shape, b, c),
        4 => rows_bf16_n::<FMA, 4>(a, shape, b, c),
        2 => rows_bf16_n::<FMA, 2>(a, shape, b, c),
        _ => rows_bf16_n::<FMA, 1>(a, shape, b, c),
    }
}

#[inline(always)]
fn rows_bf16_n<const FMA: bool, const R: usize>(a: &[u16], Shape { k, pitch, panel }: Shape, b: &[u16], c: &mut Tile) {
    let a: [&[u16]; R] = std::array::from_fn(|r| &a[r * pitch..r * pitch + k]);
    for side in 0..2 {
        let b = &b[side * panel..side * panel + k * PANEL];
        let mut acc: [V; R] = std::array::from_fn(|r| c[r][side]);
        for (pair, b) in b.chunks_exact(2 * PANEL).enumerate() {
            let (mut even, mut odd) = (ZERO, ZERO);
            for i in 0..PANEL {
                even[i] = from_bf16(b[2 * i]);
                odd[i] = from_bf16(b[2 * i + 1]);
            }
            for r in 0..R {
                let (first, second) = (from_bf16(a[r][2 * pair]), from_bf16(a[r][2 * pair + 1]));
                for i in 0..PANEL {
                    acc[r][i] = fma1::<FMA>(second, odd[i], fma1::<FMA>(first, even[i], acc[r][i]));
                }
            }
        }
        for r in 0..R {
            c[r][side] = acc[r];
        }
    }
}

/// Up to eight rows times two panels with bf16 dot products.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn dot_bf16(rows: usize, a: &[u16], shape: Shape, b: &[u16], c: &mut Tile) {
    match rows {
        8 => dot_bf16_n::<8>(a, shape, b, c),
        4 => dot_bf16_n::<4>(a, shape, b, c),
        2 => dot_bf16_n::<2>(a, shape, b, c),
        _ => dot_bf16_n::<1>(a, shape, b, c),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn dot_bf16_n<const R: usize>(a: &[u16], Shape { k, pitch, panel }: Shape, b: &[u16], c: &mut Tile) {
    use std::arch::x86_64::{__m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_set1_epi32, _mm512_storeu_ps};
    let (left, right) = (&b[..k * PANEL], &b[panel..panel + k * PANEL]);
    let a: [&[u16]; R] = std::array::from_fn(|r| &a[r * pitch..r * pitch + k]);
    // SAFETY: a `V` is sixteen readable f32.
    let mut acc: [_; R] =
        std::array::from_fn(|r| unsafe { (_mm512_loadu_ps(c[r][0].as_ptr()), _mm512_loadu_ps(c[r][1].as_ptr())) });
    for (pair, (left, right)) in left.chunks_exact(32).zip(right.chunks_exact(32)).enumerate() {
        // SAFETY: both chunks are 32 readable u16, and every bit pattern is a vector.
        let (left, right) = unsafe {
            let read = |from: &[u16]| from.as_ptr().cast::<__m512bh>().read_unaligned();
            (read(left), read(right))
        };
        for r in 0..R {
            let two = i32::from(a[r][2 * pair] as i16) & 0xffff | i32::from(a[r][2 * pair + 1] as i16) << 16;
            // SAFETY: both are 512-bit vectors of plain bits.
            let two = unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(two)) };
            acc[r].0 = _mm512_dpbf16_ps(acc[r].0, two, left);
            acc[r].1 = _mm512_dpbf16_ps(acc[r].1, two, right);
        }
    }
    for r in 0..R {
        // SAFETY: a `V` is sixteen writable f32.
        unsafe {
            _mm512_storeu_ps(c[r][0].as_mut_ptr(), acc[r].0);
            _mm512_storeu_ps(c[r][1].as_mut_ptr(), acc[r].1);
        }
    }
}

versions! {
    /// Rounds one row (times a scale) to bf16; `to` is padded with zeros.
    pub(crate) fn round_row = round_row_any(from: &[f32], scale: f32, to: &mut [u16])
}

#[inline(always)]
fn round_row_any<const FMA: bool>(from: &[f32], scale: f32, to: &mut [u16]) {
    let (full, rest) = to.split_at_mut(from.len());
    for (to, &x) in full.iter_mut().zip(from) {
        *to = super::lanes::to_bf16(x * scale);
    }
    rest.fill(0);
}

versions! {
    /// Copies one row times a scale; `to` is padded with zeros.
    pub(crate) fn scale_row = scale_row_any(from: &[f32], scale: f32, to: &mut [f32])
}

#[inline(always)]
fn scale_row_any<const FMA: bool>(from: &[f32], scale: f32, to: &mut [f32]) {
    let n = from.len() / LANES * LANES;
    for (to, from) in to[..n].chunks_exact_mut(LANES).zip(from[..n].chunks_exact(LANES)) {
        let mut v = load(from);
        v.iter_mut().for_each(|x| *x *= scale);
        store(&v, to);
    }
    for (to, &from) in to[n..].iter_mut().zip(&from[n..]) {
        *to = from * scale;
    }
    to[from.len()..].fill(0.0);
}
