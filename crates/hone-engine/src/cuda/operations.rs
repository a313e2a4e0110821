//! The operations of the backend, each a launch or two.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::device::{Grid, args};
use super::plan::TILE;
use super::product::{Kind, Shape};
use super::{Act, Buf, Cuda, Kv, Plan, Summed, Weight, alone};
use crate::backend::{
    AdamStep, Ask, Backend, BurstRow, Drawing, Dtype, Heads, LinearBackward, Low, Moved, Put, Scored, ScoredGrad, Support,
    Target, Turn, add_lows, add_lows_backward,
};
use crate::config::ModelConfig;
use crate::forward::AdapterRows;
use crate::layout::{Layout, PAGE};
use crate::model::Model;
use crate::param::Proj;
use crate::random::Stream;
use crate::sampler::{Drawn, SamplerOptions};

/// Rows that are summed by one thread before the parts are joined.
const STRETCH: usize = 256;
/// Rows of one part of a narrow gradient.
const PART: usize = 512;
/// Elements of one sum of squares, and of weights that a block moves.
const STRETCH_MOVED: usize = 1 << 14;

/// Threads that share a row of this width; the order of a row's sum depends on this alone.
pub(super) fn lanes(cols: usize) -> usize {
    if cols <= 1024 { 32 } else { 256 }
}

/// Blocks for rows of so many lanes each.
pub(super) fn by_lanes(rows: usize, lanes: usize) -> Grid {
    let threads = lanes.max(128);
    Grid::rows(rows.div_ceil(threads / lanes), threads)
}

/// Bytes of shared memory of the forward of attention: two stages of 64 keys and 64 values.
fn attention_shared(width: usize) -> usize {
    4 * 64 * width * 2
}

/// The widest head, in sixteens, for which a block of so many bytes has room.
fn widest_head(shared_max: usize) -> usize {
    shared_max / attention_shared(1) / 16 * 16
}

fn as_add(put: Put) -> usize {
    usize::from(put == Put::Add)
}

impl Cuda {
    pub(super) fn new_buf(&self, len: usize) -> Buf {
        Buf { memory: self.device.memory(len * 4), len }
    }

    pub(super) fn new_act(&self, rows: usize, cols: usize) -> Act {
        let stride = cols.next_multiple_of(8);
        Act::alone(self.device.memory(rows * stride * 2), rows, cols, stride)
    }

    /// Queries (or gradients of outputs) as attention reads them: bf16, each head padded.
    fn padded(&self, x: &Buf, kv: &Kv) -> Act {
        let n_heads = x.len / kv.heads.head_dim;
        if kv.heads.head_dim == kv.width {
            return self.act(x, n_heads, kv.width, 1.0);
        }
        let padded = self.new_act(n_heads, kv.width);
        let values = args![x.address(), n_heads, kv.heads.head_dim, kv.width, padded.address()];
        self.device.launch("pad_heads", Grid::each(n_heads * kv.width), values);
        padded
    }

    /// Acts of these numbers of columns side by side in one allocation, where none needs padding.
    pub(super) fn new_acts(&self, rows: usize, cols: &[usize]) -> Vec<Act> {
        if cols.iter().any(|cols| !cols.is_multiple_of(8)) {
            return cols.iter().map(|&cols| self.new_act(rows, cols)).collect();
        }
        let stride = cols.iter().sum();
        let (memory, mut next) = (Arc::new(self.device.memory(rows * stride * 2)), 0);
        let each = cols.iter().map(|&cols| {
            let offset = next;
            next += cols;
            Act { memory: Arc::clone(&memory), offset, rows, cols, stride }
        });
        each.collect()
    }

    fn round(&self, x: &Buf, scale: f32, to: &Act) {
        assert_eq!(x.len, to.rows * to.cols);
        let per_row = if to.cols.is_multiple_of(8) { to.cols } else { to.stride };
        let grid = Grid::each((to.rows * per_row).div_ceil(8));
        self.device.launch("act", grid, args![x.address(), scale, to.rows, to.cols, to.address(), to.stride]);
    }

    /// Column sums over all rows in a fixed order, added to `to`.
    fn add_columns(&self, dy: &Buf, scaled_by: Option<(&Buf, &Buf)>, cols: usize, to: &mut Buf) {
        let rows = dy.len / cols.max(1);
        let n_parts = rows.div_ceil(STRETCH);
        let parts = self.device.memory(n_parts * cols * 4);
        let (x, inverses) = scaled_by.map_or((0, 0), |(x, inverses)| (x.address(), inverses.address()));
        let grid = Grid { blocks: (cols.div_ceil(64), n_parts), threads: 64, shared: 0, early: false };
        self.device.launch("column_sums", grid, args![dy.address(), x, inverses, rows, cols, STRETCH, parts.address()]);
        self.device.launch("sum_parts", Grid::each(cols), args![parts.address(), n_parts, cols, to.address()]);
    }

    /// Moves weights by their gradients, and clears these where that is asked for. A part is where weights, both moments and gradients begin,
    /// and how many there are.
    fn move_weights(&self, parts: &[[u64; 5]], step: &AdamStep, clear: bool) {
        let AdamStep { lr, beta1, beta2, eps, weight_decay, correction1, correction2, grad_scale } = *step;
        let (there, clear) = (self.device.upload(parts), usize::from(clear));
        let values = args![there.address(), clear, lr, beta1, beta2, eps, weight_decay, correction1, correction2, grad_scale];
        self.device.launch("adamw", Grid::rows(parts.len(), 512), values);
    }
}

impl Backend for Cuda {
    type Buf = Buf;
    type Act = Act;
    type Weight = Weight;
    type Kv = Kv;
    type Plan = Plan;

    fn head_dim_max(&self) -> usize {
        widest_head(self.device.shared_max)
    }

    fn path(&self) -> String {
        format!("{}-bf16", self.device.label())
    }

    fn dtype(&self) -> Dtype {
        Dtype::Bf16
    }

    fn buf(&self, len: usize) -> Buf {
        self.new_buf(len)
    }

    fn zeros(&self, len: usize) -> Buf {
        let mut buf = self.new_buf(len);
        self.clear(&mut buf);
        buf
    }

    fn upload(&self, values: &[f32]) -> Buf {
        Buf { memory: self.device.upload(values), len: values.len() }
    }

    fn noise(&self, stream: Stream, deviation: f32, len: usize) -> Option<Buf> {
        let buf = self.new_buf(len);
        self.device.launch("normal", Grid::each(len), args![stream.key(), deviation, len, buf.address()]);
        Some(buf)
    }

    fn download(&self, buf: &Buf) -> Vec<f32> {
        self.device.read(buf.address(), buf.len)
    }

    fn copy(&self, from: &Buf) -> Buf {
        let to = self.new_buf(from.len);
        self.device.copy(from.address(), to.address(), from.len * 4);
        to
    }

    fn clear(&self, buf: &mut Buf) {
        self.device.clear(buf.address(), buf.len * 4);
    }

    fn add(&self, from: &Buf, to: &mut Buf) {
        self.device.launch("add", Grid::each(to.len), args![from.address(), to.address(), to.len]);
    }

    fn weight(&self, values: &Buf, rows: usize, cols: usize, _trainable: bool) -> Weight {
        let Act { memory, stride, .. } = self.act(values, rows, cols, 1.0);
        Weight { memory, offset: 0, rows, cols, stride, summed: Summed::whole(cols) }
    }

    fn adjoin(&self, weights: &mut [&mut Weight]) {
        if weights.len() < 2 {
            return;
        }
        let size = |weight: &Weight| weight.rows * weight.stride * 2;
        let memory = Arc::new(self.device.memory(weights.iter().map(|weight| size(weight)).sum()));
        let mut offset = 0;
        for weight in weights {
            let size = size(weight);
            self.device.copy(weight.address(), memory.address() + offset as u64, size);
            (weight.memory, weight.offset) = (Arc::clone(&memory), offset);
            offset += size;
        }
    }

    fn settle(&self, config: &ModelConfig, proj: Proj, weight: &mut Weight) {
        if let Some(summed) = alone::parts(self, config).and_then(|parts| parts.of(proj)) {
            weight.summed = summed;
        }
    }

    /// The library reads a weight either way.
    fn prepare_backward(&self, _weight: &mut Weight) {}

    fn act(&self, x: &Buf, rows: usize, cols: usize, scale: f32) -> Act {
        let act = self.new_act(rows, cols);
        self.round(x, scale, &act);
        act
    }

    fn acts(&self, parts: &[(&Buf, usize)], rows: usize, scale: f32) -> Vec<Act> {
        let acts = self.new_acts(rows, &parts.iter().map(|(_, cols)| *cols).collect::<Vec<_>>());
        parts.iter().zip(&acts).for_each(|((x, _), act)| self.round(x, scale, act));
        acts
    }

    fn gather(&self, x: &Buf, cols: usize, rows: &[u32]) -> Buf {
        let out = self.new_buf(rows.len() * cols);
        let rows_there = self.device.upload(rows);
        let values = args![x.address(), cols, rows_there.address(), out.address()];
        self.device.launch("gather", Grid::rows(rows.len(), 128), values);
        out
    }

    fn scatter_add(&self, dy: &Buf, cols: usize, rows: &[u32], dx: &mut Buf) {
        let mut sources_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (source, &row) in rows.iter().enumerate() {
            sources_of.entry(row).or_default().push(source as u32);
        }
        let (mut targets, mut starts, mut sources) = (Vec::new(), vec![0u32], Vec::with_capacity(rows.len()));
        for (row, of_row) in sources_of {
            targets.push(row);
            sources.extend(of_row);
            starts.push(sources.len() as u32);
        }
        let [to, from, which] = [&targets, &starts, &sources].map(|list| self.device.upload(list));
        let values = args![dy.address(), cols, to.address(), from.address(), which.address(), dx.address()];
        self.device.launch("scatter_add", Grid::rows(targets.len(), 128), values);
    }

    fn embed(&self, table: &Weight, ids: &[u32]) -> Buf {
        let out = self.new_buf(ids.len() * table.cols);
        let ids_there = self.device.upload(ids);
        let values = args![table.address(), table.stride, table.cols, ids_there.address(), out.address()];
        self.device.launch("embed", Grid::rows(ids.len(), 128), values);
        out
    }

    fn embed_backward(&self, dy: &Buf, cols: usize, ids: &[u32], dtable: &mut Buf) {
        self.scatter_add(dy, cols, ids, dtable);
    }

    fn rmsnorm(&self, x: &Buf, gain: &Buf, eps: f32, cols: usize) -> Buf {
        let out = self.new_buf(x.len);
        let values = args![x.address(), gain.address(), eps, cols, out.address()];
        self.device.launch("norm_rows", Grid::rows(x.len / cols, if cols <= 256 { 32 } else { 256 }), values);
        out
    }

    fn rmsnorm_act(&self, x: &Buf, gain: &Buf, eps: f32, cols: usize) -> Act {
        let out = self.new_act(x.len / cols, cols);
        let (to, lanes) = (out.address(), lanes(cols));
        let values = args![x.address(), gain.address(), eps, out.rows, cols, to, out.stride, lanes];
        self.device.launch("norm_act", by_lanes(out.rows, lanes), values);
        out
    }

    fn rmsnorm_backward(&self, x: &Buf, gain: &Buf, eps: f32, dy: &Buf, put: Put, dx: &mut Buf, dgain: Option<&mut Buf>) {
        let cols = gain.len;
        let rows = x.len / cols;
        let inverses = self.new_buf(rows);
        let (add, to, lanes) = (as_add(put), dx.address(), lanes(cols));
        let values = args![x.address(), gain.address(), eps, rows, cols, dy.address(), add, to, inverses.address(), lanes];
        self.device.launch("norm_backward", by_lanes(rows, lanes), values);
        if let Some(dgain) = dgain {
            self.add_columns(dy, Some((x, &inverses)), cols, dgain);
        }
    }

    fn linear(&self, x: &Act, rows: Range<usize>, w: &Weight, put: Put, y: &mut Buf, to: usize) {
        assert_eq!(x.cols, w.cols);
        let y = y.address() + (to * w.rows * 4) as u64;
        if put == Put::Add && self.adds_narrow(x, rows.clone(), w, y) {
            return;
        }
        let strides = [x.stride, w.stride, w.rows];
        let shape = Shape { kind: Kind::Forward, rows: rows.len(), n: w.rows, k: w.cols, strides, batch: 1, offsets: [0; 3] };
        let from = x.address() + (rows.start * x.stride * 2) as u64;
        if put == Put::Set || !self.products.adds_parts(&shape, w.summed, [from, w.address(), y]) {
            self.products.multiply_parts(shape, w.summed, from, w.address(), put, y);
        }
    }

    fn linear_backward(&self, dy: &Act, rows: Range<usize>, w: &Weight, put: Put, dx: &mut Buf, to: usize) {
        self.linears_backward(vec![LinearBackward { dy, rows, w, to }], put, dx);
    }

    /// Parts whose gradients and weights lie side by side are one product over all of their columns.
    fn linears_backward(&self, parts: Vec<LinearBackward<'_, Self>>, put: Put, dx: &mut Buf) {
        let (mut parts, mut put) = (std::collections::VecDeque::from(parts), put);
        while let Some(first) = parts.pop_front() {
            let (mut last_dy, mut last_w, mut k) = (first.dy, first.w, first.w.rows);
            let is_next = |part: &LinearBackward<'_, Self>, dy: &Act, w: &Weight| {
                (&part.rows, part.to) == (&first.rows, first.to) && dy.is_before(part.dy) && w.is_before(part.w)
            };
            while let Some(i) = parts.iter().position(|part| is_next(part, last_dy, last_w)) {
                let Some(next) = parts.remove(i) else { break };
                (last_dy, last_w, k) = (next.dy, next.w, k + next.w.rows);
            }
            let LinearBackward { dy, rows, w, to } = first;
            assert_eq!(dy.cols, w.rows);
            let strides = [dy.stride, w.stride, w.cols];
            let shape = Shape { kind: Kind::Backward, rows: rows.len(), n: w.cols, k, strides, batch: 1, offsets: [0; 3] };
            let from = dy.address() + (rows.start * dy.stride * 2) as u64;
            let sums = dx.address() + (to * w.cols * 4) as u64;
            if put == Put::Set || !self.adds_narrow_backward((from, dy.stride), w, k, sums, rows.len()) {
                self.products.multiply(shape, from, w.address(), put, sums);
            }
            put = Put::Add;
        }
    }

    /// A small result of many rows (the gradient of an adapter) would keep few multiprocessors busy: its rows are cut into parts
    /// of a fixed length, and the parts are summed in order.
    fn weight_gradient(&self, dy: &Act, x: &Act, dw: &mut Buf) {
        assert_eq!(dy.rows, x.rows);
        let (rows, n, k) = (dy.cols, x.cols, x.rows);
        let tiles = rows.div_ceil(128) * n.div_ceil(128);
        let strides = [dy.stride, x.stride, n];
        let (from, to) = (dy.address(), x.address());
        if tiles >= 64 || k < 2 * PART {
            let shape = Shape { kind: Kind::Gradient, rows, n, k, strides, batch: 1, offsets: [0; 3] };
            return self.products.multiply(shape, from, to, Put::Add, dw.address());
        }
        let (whole, rest, len) = (k / PART, k % PART, rows * n);
        let n_parts = whole + usize::from(rest > 0);
        let parts = self.device.memory(n_parts * len * 4);
        let offsets = [PART * dy.stride, PART * x.stride, len];
        let shape = Shape { kind: Kind::Gradient, rows, n, k: PART, strides, batch: whole, offsets };
        self.products.multiply(shape, from, to, Put::Set, parts.address());
        if rest > 0 {
            let shape = Shape { k: rest, batch: 1, offsets: [0; 3], ..shape };
            let behind = |address: u64, stride: usize| address + (whole * PART * stride * 2) as u64;
            let last = parts.address() + (whole * len * 4) as u64;
            self.products.multiply(shape, behind(from, dy.stride), behind(to, x.stride), Put::Set, last);
        }
        self.device.launch("sum_parts", Grid::each(len), args![parts.address(), n_parts, len, dw.address()]);
    }

    fn bias(&self, y: &mut Buf, bias: &Buf) {
        let per_thread = if bias.len.is_multiple_of(4) { 4 } else { 1 };
        self.device.launch("bias", Grid::each(y.len.div_ceil(per_thread)), args![y.address(), bias.address(), bias.len, y.len]);
    }

    fn bias_gradient(&self, dy: &Buf, dbias: &mut Buf) {
        self.add_columns(dy, None, dbias.len, dbias);
    }

    fn plan(&self, layout: &Layout) -> Plan {
        Plan::new(&self.device, layout)
    }

    fn rope(&self, x: &mut Buf, head_dim: usize, angles: &Buf, plan: &Plan, turn: Turn) {
        let n_heads = x.len / head_dim / plan.layout.n_rows().max(1);
        let sign = if turn == Turn::Forward { 1f32 } else { -1f32 };
        let n_pairs = x.len / 2;
        let values = args![x.address(), n_heads, head_dim, angles.address(), plan.positions.address(), sign, n_pairs];
        let per_thread = if head_dim.is_multiple_of(8) { 4 } else { 1 };
        self.device.launch("rope", Grid::each(n_pairs.div_ceil(per_thread)), values);
    }

    fn kv(&self, heads: Heads, n_pages: usize) -> Kv {
        let width = heads.head_dim.next_multiple_of(16);
        let size = (n_pages + 1) * PAGE * heads.n_kv_heads * width * 2;
        let [keys, values] = [(), ()].map(|()| self.device.memory(size));
        self.device.clear(keys.address(), size);
        self.device.clear(values.address(), size);
        Kv { keys, values, heads, width, n_pages }
    }

    fn kv_write(&self, kv: &mut Kv, k: &Buf, v: &Buf, plan: &Plan) {
        let Heads { n_kv_heads, head_dim, .. } = kv.heads;
        let (places, keys, values) = (plan.places.address(), kv.keys.address(), kv.values.address());
        let values = args![k.address(), v.address(), places, n_kv_heads, head_dim, kv.width, keys, values];
        self.device.launch("kv_write", Grid::rows(plan.layout.places.len(), 128), values);
    }

    fn kv_copy(&self, kv: &mut Kv, from: u32, to: u32) {
        let size = PAGE * kv.heads.n_kv_heads * kv.width * 2;
        let at = |page: u32| (page as usize * size) as u64;
        for pages in [kv.keys.address(), kv.values.address()] {
            self.device.copy(pages + at(from), pages + at(to), size);
        }
    }

    fn attention(&self, q: &Buf, kv: &Kv, plan: &Plan) -> (Buf, Buf) {
        let Heads { n_heads, n_kv_heads, head_dim } = kv.heads;
        let (out, log_norms) = (self.new_buf(q.len), self.new_buf(q.len / head_dim));
        let queries = self.padded(q, kv);
        let (tiles, n_tiles) = plan.tiles(&self.device, n_heads / n_kv_heads);
        let grid = Grid { blocks: (n_tiles, n_kv_heads), threads: TILE * 2, shared: attention_shared(kv.width), early: false };
        let scale = (1.0 / (head_dim as f64).sqrt()) as f32;
        let (keys, values) = (kv.keys.address(), kv.values.address());
        let (runs, pages, tiles) = (plan.runs.address(), plan.pages.address(), tiles.address());
        let (to, norms) = (out.address(), log_norms.address());
        let values = args![queries.address(), keys, values, runs, tiles, pages, n_heads, n_kv_heads, head_dim, scale, to, norms];
        self.device.launch_for("attend", kv.width, grid, values);
        (out, log_norms)
    }

    fn attention_backward(&self, q: &Buf, kv: &Kv, plan: &Plan, out: &Buf, log_norm: &Buf, dout: &Buf) -> (Buf, Buf, Buf) {
        let Heads { n_heads, n_kv_heads, head_dim } = kv.heads;
        let scale = (1.0 / (head_dim as f64).sqrt()) as f32;
        let n_all = q.len / head_dim;
        let (dots, dq) = (self.new_buf(n_all), self.new_buf(q.len));
        let values = args![dout.address(), out.address(), n_all, head_dim, dots.address()];
        self.device.launch_for("attend_dots", kv.width, Grid::rows(n_all.div_ceil(4), 128), values);

        let (queries, douts) = (self.padded(q, kv), self.padded(dout, kv));
        let (queries, douts, keys, values) = (queries.address(), douts.address(), kv.keys.address(), kv.values.address());
        let (runs, pages) = (plan.runs.address(), plan.pages.address());
        let (norms, dots) = (log_norm.address(), dots.address());
        let (tiles, n_tiles) = plan.tiles(&self.device, n_heads / n_kv_heads);
        let grid = Grid { blocks: (n_tiles, n_kv_heads), threads: TILE * 2, shared: attention_shared(kv.width), early: false };
        let (tiles, to) = (tiles.address(), dq.address());
        let by_query =
            args![queries, douts, keys, values, runs, tiles, pages, n_heads, n_kv_heads, head_dim, scale, norms, dots, to];
        self.device.launch_for("attend_queries_backward", kv.width, grid, by_query);

        let back = plan.backward(&self.device);
        let page_len = n_kv_heads * PAGE * head_dim;
        let [page_dk, page_dv] = [(), ()].map(|()| self.new_buf(back.n_pages * page_len));
        let shared = 2 * (64 + 32) * kv.width * 2;
        let grid = Grid { blocks: (back.n_blocks, n_kv_heads), threads: 128, shared, early: false };
        let (blocks, block_pages, users) = (back.blocks.address(), back.block_pages.address(), back.users.address());
        let (to_k, to_v) = (page_dk.address(), page_dv.address());
        let by_key = args![
            queries,
            douts,
            keys,
            values,
            runs,
            blocks,
            block_pages,
            users,
            n_heads,
            n_kv_heads,
            head_dim,
            scale,
            norms,
            dots,
            to_k,
            to_v
        ];
        self.device.launch_for("attend_keys_backward", kv.width, grid, by_key);
        let n_rows = plan.layout.n_rows();
        let per_row = n_kv_heads * head_dim;
        let [dk, dv] = [(), ()].map(|()| self.new_buf(n_rows * per_row));
        let per_thread = if head_dim.is_multiple_of(4) { 4 } else { 1 };
        let blocks = (n_rows * per_row / per_thread).div_ceil(256);
        let grid = Grid { blocks: (blocks, 2), threads: 256, shared: 0, early: false };
        let (starts, slots) = (back.starts.address(), back.slots.address());
        let values = args![to_k, to_v, starts, slots, n_rows, n_kv_heads, head_dim, dk.address(), dv.address()];
        self.device.launch("kv_gradient", grid, values);
        (dq, dk, dv)
    }

    fn swiglu(&self, gate: &Buf, up: &Buf, cols: usize) -> Act {
        let out = self.new_act(gate.len / cols, cols);
        let (to, stride) = (out.address(), out.stride);
        let values = args![gate.address(), up.address(), out.rows, cols, cols, to, stride];
        self.device.launch("swiglu", Grid::each(out.rows * out.stride / 4), values);
        out
    }

    fn swiglu_backward(&self, gate: &Buf, up: &Buf, dh: &Buf, cols: usize) -> (Act, Act) {
        let rows = dh.len / cols;
        let (dgate, dup) = self.two_acts(rows, cols);
        let (width, stride) = (cols.next_multiple_of(8), dgate.stride);
        let (to_gate, to_up) = (dgate.address(), dup.address());
        let values = args![gate.address(), up.address(), dh.address(), rows, cols, width, to_gate, to_up, stride];
        self.device.launch("swiglu_backward", Grid::each(rows * width / 4), values);
        (dgate, dup)
    }

    fn swiglu_low(&self, gate: &mut Buf, up: &mut Buf, cols: usize, low: &[[Option<Low<'_, Self>>; 2]]) -> Act {
        self.gates(gate, up, cols, low).unwrap_or_else(|| {
            add_lows(self, [&mut *gate, &mut *up], low);
            self.swiglu(gate, up, cols)
        })
    }

    fn swiglu_low_backward(
        &self,
        gate: &Buf,
        up: &Buf,
        dh: &mut Buf,
        cols: usize,
        low: &[[Option<Low<'_, Self>>; 2]],
        dlow: &[Low<'_, Self>],
    ) -> (Act, Act) {
        self.gates_backward(gate, up, dh, cols, low, dlow).unwrap_or_else(|| {
            add_lows_backward(self, dh, dlow);
            self.swiglu_backward(gate, up, dh, cols)
        })
    }

    fn head(&self, x: &Act, w: &Weight, targets: &[Target]) -> Vec<Scored> {
        self.score_head(x, w, targets)
    }

    fn head_backward(
        &self,
        x: &Act,
        w: &Weight,
        targets: &[Target],
        scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Buf,
        dw: Option<&mut Buf>,
    ) {
        self.score_head_backward(x, w, targets, scored, grads, dx, dw.as_deref());
    }

    fn logits(&self, x: &Act, w: &Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        self.visit_logits(x, w, visit);
    }

    fn score(&self, logits: &[f32], target: &Target) -> Scored {
        self.score_row(logits, target)
    }

    fn pick(&self, logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32 {
        self.pick_id(logits, target, log_norm, u)
    }

    fn cut(&self, logits: &[f32], sampler: &SamplerOptions, allowed: &Option<Support>) -> Option<Support> {
        self.cut_row(logits, sampler, allowed)
    }

    fn draw(&self, x: &Act, w: &Weight, asks: &[Ask]) -> Option<Vec<Option<Drawn>>> {
        Some(self.draw_rows(x, w, asks))
    }

    fn n_rows_light(&self) -> usize {
        super::decode::SEQUENCE_ROWS_MAX
    }

    fn guess_cost(&self, n_sequences: usize) -> f32 {
        if n_sequences == 1 && self.n_in_one_launch() > 0 { super::decode::GUESS_COST_ALONE } else { 0.0 }
    }

    fn burst_max(&self) -> usize {
        super::decode::TOKENS_MAX
    }

    fn burst(
        &self,
        model: &Model<Self>,
        kvs: &mut [Kv],
        adapters: &AdapterRows<'_, Self>,
        rows: &[BurstRow<'_>],
        n_tokens: usize,
    ) -> Option<Drawing> {
        self.decode(model, kvs, adapters, rows, n_tokens)
    }

    fn feed(&self, model: &Model<Self>, kvs: &mut [Kv], adapters: &AdapterRows<'_, Self>, rows: &[BurstRow<'_>]) -> Option<Act> {
        self.feed_rows(model, kvs, adapters, rows)
    }

    fn sum_squares(&self, buf: &Buf) -> f64 {
        self.sums_squares(&[buf]).iter().sum()
    }

    fn sums_squares(&self, bufs: &[&Buf]) -> Vec<f64> {
        let parts: Vec<[u64; 2]> = bufs.iter().flat_map(|buf| stretches([buf.address()], buf.len)).collect();
        let sums = self.device.memory(parts.len() * 8);
        let there = self.device.upload(&parts);
        self.device.launch("sum_squares", Grid::rows(parts.len(), 256), args![there.address(), sums.address()]);
        let all: Vec<f64> = self.device.read(sums.address(), parts.len());
        let mut rest = &all[..];
        let mut totals = Vec::with_capacity(bufs.len());
        for buf in bufs {
            let (own, behind) = rest.split_at(buf.len.div_ceil(STRETCH_MOVED));
            totals.push(own.iter().sum());
            rest = behind;
        }
        totals
    }

    fn adamw(&self, w: &mut Buf, m: &mut Buf, v: &mut Buf, grad: &Buf, step: &AdamStep) {
        let parts = stretches([w, m, v, grad].map(|buf| buf.address()), w.len).collect::<Vec<[u64; 5]>>();
        self.move_weights(&parts, step, false);
    }

    /// Those that are moved alike are moved at once.
    fn adamw_all(&self, all: Vec<Moved<'_, Self>>) {
        for alike in all.chunk_by(|a, b| a.step == b.step) {
            let parts = alike.iter().flat_map(|Moved { w, m, v, grad, .. }| {
                stretches([w.address(), m.address(), v.address(), grad.address()], w.len)
            });
            self.move_weights(&parts.collect::<Vec<[u64; 5]>>(), &alike[0].step, true);
        }
    }
}

/// The stretches of vectors of one length: where each begins in every vector, and how long it is.
fn stretches<const N: usize, const M: usize>(starts: [u64; N], len: usize) -> impl Iterator<Item = [u64; M]> {
    (0..len).step_by(STRETCH_MOVED).map(move |first| {
        let n = (len - first).min(STRETCH_MOVED) as u64;
        std::array::from_fn(|i| starts.get(i).map_or(n, |start| start + 4 * first as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::widest_head;

    #[test]
    fn heads_are_as_wide_as_a_block_has_room() {
        let kib = |n: usize| n << 10;
        assert_eq!([99, 163, 227].map(|n| widest_head(kib(n))), [192, 320, 448]);
    }
}
