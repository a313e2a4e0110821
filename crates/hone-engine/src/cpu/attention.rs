//! Attention over pages, forward and backward.
//!
//! A page holds, per kv head, sixteen keys as `[head_dim][16]` (lanes are keys) and sixteen values as `[16][width]` (lanes
//! are dimensions). The forward walks pages from position 0 with a running maximum `m` and lane-wise normaliser `l`:
//! `s = q·k`, `m' = max(m, s)`, `p = e^(s - m')`, `l' = l·e^(m - m') + p`, `o' = o·e^(m - m') + p·v`. A query's arithmetic is
//! the same whatever other queries share its tile, so a decoded row equals a prefilled one to the bit. Keys that a
//! query may not see have p = 0 exactly, and contents behind the last key of a page are never used.
//!
//! The backward recomputes p from the stored log-normaliser, page by page: `ds = p·(do·v - do·o)`. One thread handles
//! one (group, kv head): the runs that share keys add to them in run order.
#![expect(clippy::needless_range_loop, reason = "lanes are indexed; such a loop is one vector instruction")]
#![expect(unsafe_code, reason = "kernels are compiled per instruction level")]

use super::isa::versions_by_lane;
use super::lanes::{LANES, Lane, V, ZERO, dot, exp_like, exp1_like, max, prefetch, sum};
use crate::backend::Heads;
use crate::layout::{PAGE, Run};

const TILE_MAX: usize = 8;
/// Queries of one tile of the forward.
const FORWARD_TILE: usize = 4;
/// Independent sums of a dot product.
const CHAINS: usize = 4;
const _: () = assert!(PAGE == LANES, "a page of keys is one vector");

/// Receives (row, head, output, log-normaliser).
type PutRow<'a> = &'a mut dyn FnMut(usize, usize, &[f32], f32);
/// Receives (page, key gradients, value gradients).
type PutPage<'a> = &'a mut dyn FnMut(u32, &[f32], &[f32]);

/// Sizes of the pages of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: Heads,
    /// `head_dim` padded to whole vectors.
    pub(crate) width: usize,
}

impl Shape {
    pub(crate) fn new(heads: Heads) -> Self {
        Self { heads, width: heads.head_dim.next_multiple_of(LANES) }
    }

    /// Floats of one kv head in one page: keys, then values.
    pub(crate) fn head_len(&self) -> usize {
        PAGE * (self.heads.head_dim + self.width)
    }

    /// Floats of one page.
    pub(crate) fn page_len(&self) -> usize {
        self.heads.n_kv_heads * self.head_len()
    }

    /// Query heads per kv head.
    pub(crate) fn fan(&self) -> usize {
        self.heads.n_heads / self.heads.n_kv_heads
    }

    fn scale(&self) -> f32 {
        1.0 / (self.heads.head_dim as f32).sqrt()
    }
}

/// A stretch of rows of one run, for one kv head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) shape: Shape,
    pub(crate) kv: &'a [f32],
    pub(crate) run: &'a Run,
    pub(crate) kv_head: usize,
    /// Rows of the run, counted from its first.
    pub(crate) first: usize,
    pub(crate) n_rows: usize,
}

impl<'a> Part<'a> {
    fn page(&self, block: usize) -> (&'a [f32], &'a [f32]) {
        let at = self.run.pages[block] as usize * self.shape.page_len() + self.kv_head * self.shape.head_len();
        self.kv[at..at + self.shape.head_len()].split_at(PAGE * self.shape.heads.head_dim)
    }

    fn n_queries(&self) -> usize {
        self.n_rows * self.shape.fan()
    }

    /// Position of query `i`: queries run over rows, then over the heads of a row.
    fn pos(&self, i: usize) -> usize {
        self.run.pos0 + self.first + i / self.shape.fan()
    }

    /// (row, head) of query `i`.
    fn row_head(&self, i: usize) -> (usize, usize) {
        let fan = self.shape.fan();
        (self.run.row0 + self.first + i / fan, self.kv_head * fan + i % fan)
    }
}

/// Registers as arrays. A loop, because a closure would not be compiled for the instructions of its caller.
#[inline(always)]
fn arrays<L: Lane, const N: usize>(lanes: &[L; N]) -> [V; N] {
    let mut arrays = [ZERO; N];
    for n in 0..N {
        lanes[n].store(&mut arrays[n]);
    }
    arrays
}

/// Scores of `N` queries against one page of keys; queries are `dim` apart in `q`.
///
/// Dimension `d` goes to chain `d % 4`, and the four chains are added as (0 + 2) + (1 + 3): a sum of one chain would wait
/// for itself. The order is the same for every `N`.
#[inline(always)]
fn scores<L: Lane, const N: usize>(q: &[f32], keys: &[f32], dim: usize) -> [V; N] {
    let mut chains = [[L::zero(); CHAINS]; N];
    let q = &q[..N * dim];
    let mut d = 0;
    let mut whole = keys[..dim * LANES].chunks_exact(CHAINS * LANES);
    for keys in &mut whole {
        for c in 0..CHAINS {
            let key = L::load(&keys[c * LANES..]);
            for n in 0..N {
                chains[n][c] = chains[n][c].fma_splat(q[n * dim + d + c], key);
            }
        }
        d += CHAINS;
    }
    for (c, key) in whole.remainder().chunks_exact(LANES).enumerate() {
        let key = L::load(key);
        for n in 0..N {
            chains[n][c] = chains[n][c].fma_splat(q[n * dim + d + c], key);
        }
    }
    let mut s = [ZERO; N];
    for n in 0..N {
        let [a, b, c, d] = chains[n];
        a.add(c).add(b.add(d)).store(&mut s[n]);
    }
    s
}

/// `acc += Σ p·v` over the first `seen` values of a page.
#[inline(always)]
fn sum_values<L: Lane, const N: usize, const W: usize>(
    acc: &mut [[L; W]; N],
    (width, d): (usize, usize),
    p: &[V; N],
    values: &[f32],
    seen: usize,
) {
    let values = &values[..PAGE * width];
    for j in 0..seen {
        for w in 0..W {
            let value = L::load(&values[j * width + d + w * LANES..]);
            for n in 0..N {
                acc[n][w] = acc[n][w].fma_splat(p[n][j], value);
            }
        }
    }
}

/// `out = out·correction + Σ p·v` for `W` vectors of each query, from dimension `d`.
#[inline(always)]
fn add_values<L: Lane, const N: usize, const W: usize>(
    out: &mut [f32],
    (width, d): (usize, usize),
    correction: &[f32; N],
    p: &[V; N],
    (values, seen): (&[f32], usize),
) {
    let mut acc = [[L::zero(); W]; N];
    for n in 0..N {
        for w in 0..W {
            acc[n][w] = L::load(&out[n * width + d + w * LANES..]).scale(correction[n]);
        }
    }
    // Two calls, because a loop of known length is compiled without its end being tested at every turn.
    if seen == PAGE {
        sum_values(&mut acc, (width, d), p, values, PAGE);
    } else {
        sum_values(&mut acc, (width, d), p, values, seen);
    }
    for n in 0..N {
        for w in 0..W {
            acc[n][w].store(&mut out[n * width + d + w * LANES..]);
        }
    }
}

versions_by_lane! {
    /// Attends with all queries of a part; `put(row, head, output, log-normaliser)` receives each result. The scratch
    /// keeps its memory between calls.
    pub(crate) fn attend = attend_any(
        part: &Part<'_>, q: &[f32], scratch: &mut Vec<f32>, put: PutRow<'_>)
}

#[inline(always)]
fn attend_any<L: Lane>(part: &Part<'_>, q: &[f32], scratch: &mut Vec<f32>, put: PutRow<'_>) {
    let (dim, width) = (part.shape.heads.head_dim, part.shape.width);
    scratch.resize(FORWARD_TILE * (dim + width), 0.0);
    let (scaled, out) = scratch.split_at_mut(FORWARD_TILE * dim);
    let n_queries = part.n_queries();
    let mut i = 0;
    while i < n_queries {
        let n = FORWARD_TILE.min(n_queries - i);
        for j in 0..n {
            let (row, head) = part.row_head(i + j);
            let at = (row * part.shape.heads.n_heads + head) * dim;
            for (to, &from) in scaled[j * dim..(j + 1) * dim].iter_mut().zip(&q[at..at + dim]) {
                *to = from * part.shape.scale();
            }
        }
        let mut norms = [0.0; TILE_MAX];
        match n {
            4 => attend_tile::<L, 4>(part, i, scaled, out, &mut norms),
            3 => attend_tile::<L, 3>(part, i, scaled, out, &mut norms),
            2 => attend_tile::<L, 2>(part, i, scaled, out, &mut norms),
            _ => attend_tile::<L, 1>(part, i, scaled, out, &mut norms),
        }
        for j in 0..n {
            let (row, head) = part.row_head(i + j);
            put(row, head, &out[j * width..j * width + dim], norms[j]);
        }
        i += n;
    }
}

#[inline(always)]
fn attend_tile<L: Lane, const N: usize>(part: &Part<'_>, first: usize, q: &[f32], out: &mut [f32], norms: &mut [f32; TILE_MAX]) {
    let (dim, width) = (part.shape.heads.head_dim, part.shape.width);
    let n_keys: [usize; N] = std::array::from_fn(|n| part.pos(first + n) + 1);
    let (mut m, mut l) = ([f32::NEG_INFINITY; N], [ZERO; N]);
    out[..N * width].fill(0.0);
    let n_blocks = n_keys[N - 1].div_ceil(PAGE);
    for block in 0..n_blocks {
        let (keys, values) = part.page(block);
        // A decoded row reads each page once, from far away; rows of a prompt find it near.
        if part.n_rows == 1 && block + 1 < n_blocks {
            let (next_keys, next_values) = part.page(block + 1);
            prefetch(next_keys);
            prefetch(next_values);
        }
        let mut p = scores::<L, N>(q, keys, dim);
        let mut correction = [1.0; N];
        for n in 0..N {
            let seen = n_keys[n].saturating_sub(block * PAGE).min(PAGE);
            if seen == 0 {
                p[n] = ZERO;
                continue;
            }
            if seen < PAGE {
                for j in 0..LANES {
                    p[n][j] = if j < seen { p[n][j] } else { f32::NEG_INFINITY };
                }
            }
            let top = max(&p[n]);
            let top = if top > m[n] { top } else { m[n] };
            correction[n] = exp1_like::<L>(m[n] - top);
            m[n] = top;
            let mut shifted = p[n];
            for j in 0..LANES {
                shifted[j] -= top;
            }
            p[n] = exp_like::<L>(&shifted);
            if seen < PAGE {
                for j in 0..LANES {
                    p[n][j] = if j < seen { p[n][j] } else { 0.0 };
                }
            }
            l[n] = L::load(&p[n]).fma_splat(correction[n], L::load(&l[n])).array();
        }
        let seen = (n_keys[N - 1] - block * PAGE).min(PAGE);
        let mut d = 0;
        while d < width {
            let page = (values, seen);
            match (width - d) / LANES {
                4.. => add_values::<L, N, 4>(out, (width, d), &correction, &p, page),
                2.. => add_values::<L, N, 2>(out, (width, d), &correction, &p, page),
                _ => add_values::<L, N, 1>(out, (width, d), &correction, &p, page),
            }
            d += LANES
                * match (width - d) / LANES {
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
        }
    }
    for n in 0..N {
        let norm = sum(&l[n]);
        norms[n] = m[n] + norm.ln();
        let inverse = 1.0 / norm;
        out[n * width..(n + 1) * width].iter_mut().for_each(|x| *x *= inverse);
    }
}

/// What the backward of one (run, kv head) reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saved<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) out: &'a [f32],
    pub(crate) log_norm: &'a [f32],
    pub(crate) dout: &'a [f32],
}

versions_by_lane! {
    /// Backward of one whole run for one kv head. `dq` is set; the pages' gradients are added to.
    pub(crate) fn attend_backward = attend_backward_any(
        part: &Part<'_>, saved: &Saved<'_>, dq: &mut [f32], page_grad: PutPage<'_>)
}

/// Gathers the part's queries so that tiles are contiguous: `[query][width]`.
#[inline(always)]
fn gather(part: &Part<'_>, from: &[f32], scale: f32) -> Vec<f32> {
    let (dim, width) = (part.shape.heads.head_dim, part.shape.width);
    let mut out = vec![0.0; (part.n_queries() + TILE_MAX) * width];
    for i in 0..part.n_queries() {
        let (row, head) = part.row_head(i);
        let at = (row * part.shape.heads.n_heads + head) * dim;
        for (to, &x) in out[i * width..].iter_mut().zip(&from[at..at + dim]) {
            *to = x * scale;
        }
    }
    out
}

#[inline(always)]
fn attend_backward_any<L: Lane>(part: &Part<'_>, saved: &Saved<'_>, dq: &mut [f32], page_grad: PutPage<'_>) {
    let (dim, width, n_heads) = (part.shape.heads.head_dim, part.shape.width, part.shape.heads.n_heads);
    let n_queries = part.n_queries();
    let q = gather(part, saved.q, part.shape.scale());
    let dout = gather(part, saved.dout, 1.0);
    let mut stats = vec![(0.0, 0.0); n_queries];
    for (i, stats) in stats.iter_mut().enumerate() {
        let (row, head) = part.row_head(i);
        let at = (row * n_heads + head) * dim;
        let (dout, out) = (&saved.dout[at..at + dim], &saved.out[at..at + dim]);
        let shared = if L::FMA { dot::<true>(dout, out) } else { dot::<false>(dout, out) };
        *stats = (saved.log_norm[row * n_heads + head], shared);
    }
    dq[..n_queries * width].fill(0.0);
    let mut keys_by_row = vec![0.0; PAGE * width];
    let mut values_turned = vec![0.0; width * LANES];
    let (mut dk, mut dv) = (vec![0.0; PAGE * width], vec![0.0; PAGE * width]);
    let n_keys = part.run.pos0 + part.first + part.n_rows;
    for block in 0..n_keys.div_ceil(PAGE) {
        let (keys, values) = part.page(block);
        for d in 0..dim {
            for j in 0..PAGE {
                keys_by_row[j * width + d] = keys[d * LANES + j];
                values_turned[d * LANES + j] = values[j * width + d];
            }
        }
        dk.fill(0.0);
        dv.fill(0.0);
        // The first query that sees this page.
        let first_row = (block * PAGE).saturating_sub(part.run.pos0 + part.first);
        let page = Page { keys, keys_by_row: &keys_by_row, values_turned: &values_turned, block };
        let mut i = first_row * part.shape.fan();
        while i < n_queries {
            let tile = Tile { part, first: i, q: &q[i * width..], dout: &dout[i * width..], stats: &stats[i..] };
            let dq = &mut dq[i * width..];
            match n_queries - i {
                8.. => backward_tile::<L, 8>(&tile, &page, dq, &mut dk, &mut dv),
                4.. => backward_tile::<L, 4>(&tile, &page, dq, &mut dk, &mut dv),
                2.. => backward_tile::<L, 2>(&tile, &page, dq, &mut dk, &mut dv),
                _ => backward_tile::<L, 1>(&tile, &page, dq, &mut dk, &mut dv),
            }
            i += match n_queries - i {
                8.. => 8,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
        }
        page_grad(part.run.pages[block], &dk, &dv);
    }
    let scale = part.shape.scale();
    dq[..n_queries * width].iter_mut().for_each(|x| *x *= scale);
}

struct Tile<'a> {
    part: &'a Part<'a>,
    first: usize,
    q: &'a [f32],
    dout: &'a [f32],
    stats: &'a [(f32, f32)],
}

struct Page<'a> {
    keys: &'a [f32],
    keys_by_row: &'a [f32],
    values_turned: &'a [f32],
    block: usize,
}

#[inline(always)]
fn backward_tile<L: Lane, const N: usize>(tile: &Tile<'_>, page: &Page<'_>, dq: &mut [f32], dk: &mut [f32], dv: &mut [f32]) {
    let (dim, width) = (tile.part.shape.heads.head_dim, tile.part.shape.width);
    let q: [&[f32]; N] = std::array::from_fn(|n| &tile.q[n * width..(n + 1) * width]);
    let dout: [&[f32]; N] = std::array::from_fn(|n| &tile.dout[n * width..(n + 1) * width]);
    let (mut scores, mut dscores) = ([L::zero(); N], [L::zero(); N]);
    for d in 0..dim {
        let (key, value) = (L::load(&page.keys[d * LANES..]), L::load(&page.values_turned[d * LANES..]));
        for n in 0..N {
            scores[n] = scores[n].fma_splat(q[n][d], key);
            dscores[n] = dscores[n].fma_splat(dout[n][d], value);
        }
    }
    let (mut p, dp, mut ds) = (arrays(&scores), arrays(&dscores), [ZERO; N]);
    for n in 0..N {
        let (log_norm, shared) = tile.stats[n];
        let seen = (tile.part.pos(tile.first + n) + 1).saturating_sub(page.block * PAGE).min(PAGE);
        let mut shifted = p[n];
        for j in 0..LANES {
            shifted[j] -= log_norm;
        }
        let e = exp_like::<L>(&shifted);
        for j in 0..LANES {
            p[n][j] = if j < seen { e[j] } else { 0.0 };
            ds[n][j] = if j < seen { e[j] * (dp[n][j] - shared) } else { 0.0 };
        }
    }
    for d in (0..width).step_by(LANES) {
        let mut acc = [L::zero(); N];
        for n in 0..N {
            acc[n] = L::load(&dq[n * width + d..]);
        }
        for j in 0..PAGE {
            let key = L::load(&page.keys_by_row[j * width + d..]);
            for n in 0..N {
                acc[n] = acc[n].fma_splat(ds[n][j], key);
            }
        }
        for n in 0..N {
            acc[n].store(&mut dq[n * width + d..]);
        }
        let (mut q_now, mut dout_now) = ([L::zero(); N], [L::zero(); N]);
        for n in 0..N {
            q_now[n] = L::load(&q[n][d..]);
            dout_now[n] = L::load(&dout[n][d..]);
        }
        for j in 0..PAGE {
            let mut key = L::load(&dk[j * width + d..]);
            let mut value = L::load(&dv[j * width + d..]);
            for n in 0..N {
                key = key.fma_splat(ds[n][j], q_now[n]);
                value = value.fma_splat(p[n][j], dout_now[n]);
            }
            key.store(&mut dk[j * width + d..]);
            value.store(&mut dv[j * width + d..]);
        }
    }
}
