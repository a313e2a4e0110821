//! Decoding as one graph: a whole step of many sequences, from their tokens to their next ones, recorded once and replayed.
//!
//! A step reads tokens and positions from the GPU's memory and leaves the next ones there, so steps follow each other without
//! the host. The products are those of the general pass (the three of attention's entry and the two of the gate in one
//! each, where their weights lie side by side), and so is every rounding: what is drawn here has the log-probability that
//! training finds. Sizes of batch are rounded up to a few; the rows that fill a batch write to a page of nobody.

use std::sync::PoisonError;

use super::device::{Graph, Grid, Memory, args};
use super::few::{self, Few, Stretch, Then, Tile};
use super::head::{SEGMENT, logits_stride};
use super::operations::{attention_shared, by_lanes, lanes};
use super::product::{Kind, Shape};
use super::{Buf, Cuda, Kv, Weight};
use crate::backend::{Backend, BurstRow, Heads, Put};
use crate::forward::AdapterRows;
use crate::lora::{Adapter, Pair};
use crate::model::{Block, Model};
use crate::param::Proj;

/// A backend whose values are this GPU's, behind whatever it wraps them in.
pub(crate) trait OnGpu: Backend {
    /// The weight itself.
    fn gpu_weight(weight: &Self::Weight) -> &Weight;
    /// The vector itself.
    fn gpu_buf(buf: &Self::Buf) -> &Buf;
    /// The pages themselves.
    fn gpu_kv(kv: &Self::Kv) -> &Kv;
}

impl OnGpu for Cuda {
    fn gpu_weight(weight: &Weight) -> &Weight {
        weight
    }

    fn gpu_buf(buf: &Buf) -> &Buf {
        buf
    }

    fn gpu_kv(kv: &Kv) -> &Kv {
        kv
    }
}

/// Tokens of one burst.
pub(super) const TOKENS_MAX: usize = 16;
/// Graphs that are kept.
const DECODERS_MAX: usize = 24;
/// Largest batch of one graph.
const ROWS_MAX: usize = 512;

/// The graphs that were recorded, each for one set of addresses.
#[derive(Default)]
pub(super) struct Decoders(Vec<(Vec<u64>, Decoder)>);

/// A recorded step and the memory it works in.
struct Decoder {
    graph: Graph,
    room: Room,
}

/// The memory of a step of so many rows.
struct Room {
    n_rows: usize,
    n_pages_max: usize,
    ids: Memory,
    positions: Memory,
    n_drawn: Memory,
    keys: Memory,
    inverses: Memory,
    greedy: Memory,
    pages: Memory,
    drawn_ids: Memory,
    drawn_logprobs: Memory,
    /// Residual stream.
    x: Memory,
    /// What a product reads, and the inside of an adapter in f32 and bf16.
    act: Memory,
    low: Memory,
    low_act: Memory,
    qkv: Memory,
    q: Memory,
    attended: Memory,
    gates: Memory,
    hidden: Memory,
    logits: Memory,
    parts: Memory,
}

/// What a product writes to: an address, elements from row to row, replace or add.
#[derive(Clone, Copy)]
struct To {
    address: u64,
    stride: usize,
    put: Put,
}

impl Cuda {
    /// Lets sequences draw tokens in a row; see `Backend::burst`.
    pub(crate) fn decode<B: OnGpu>(
        &self,
        model: &Model<B>,
        kvs: &[B::Kv],
        adapters: &AdapterRows<'_, B>,
        rows: &[BurstRow<'_>],
        n_tokens: usize,
    ) -> Option<Vec<Vec<(u32, f32)>>> {
        let adapter = match adapters {
            [] => None,
            [(range, adapter)] if *range == (0..rows.len()) => Some(*adapter),
            _ => return None,
        };
        let fan = model.config.n_heads / model.config.n_kv_heads;
        if rows.len() > ROWS_MAX || model.config.head_dim > 256 || fan > 16 {
            return None;
        }
        let n_rows = batch_size(rows.len());
        let n_pages_max = rows.iter().map(|row| row.pages.len()).max()?.next_power_of_two().max(16);
        let key = addresses(model, kvs, adapter, n_rows, n_pages_max);
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = B::gpu_kv(kvs.first()?).n_pages as u32;
        let at = match decoders.0.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                if decoders.0.len() >= DECODERS_MAX {
                    decoders.0.remove(0);
                }
                let room = Room::new(self, model, adapter, n_rows, n_pages_max);
                // The first step is taken openly: the products find their algorithms, which cannot be done while recording.
                room.set(self, rows, scratch);
                let step = || Step { cuda: self, model, kvs, adapter, room: &room }.run();
                step();
                let graph = self.device.record(step);
                decoders.0.push((key, Decoder { graph, room }));
                decoders.0.len() - 1
            }
        };
        let Decoder { graph, room } = &decoders.0[at].1;
        room.set(self, rows, scratch);
        (0..n_tokens).for_each(|_| graph.launch());
        Some(room.drawn(self, rows.len(), n_tokens))
    }
}

/// Batches are rounded up to these: every size is a graph, and a graph costs milliseconds to record.
fn batch_size(n: usize) -> usize {
    match n {
        0..=4 => n,
        5..=8 => 8,
        9..=64 => n.next_multiple_of(16),
        _ => n.next_multiple_of(64),
    }
}

/// Every address that a recorded step holds, and its sizes: a graph is good while these are the same.
fn addresses<B: OnGpu>(
    model: &Model<B>,
    kvs: &[B::Kv],
    adapter: Option<&Adapter<B>>,
    n_rows: usize,
    n_pages_max: usize,
) -> Vec<u64> {
    let weight = |weight: &B::Weight| B::gpu_weight(weight).address();
    let buf = |buf: &B::Buf| B::gpu_buf(buf).address();
    let mut all = vec![n_rows as u64, n_pages_max as u64];
    all.extend([weight(&model.embed), weight(model.head_weight()), buf(&model.final_norm), buf(&model.angles)]);
    for (layer, (block, kv)) in model.blocks.iter().zip(kvs).enumerate() {
        let kv = B::gpu_kv(kv);
        all.extend([buf(&block.attn_norm), buf(&block.mlp_norm), kv.keys.address(), kv.values.address()]);
        all.extend(block.weights.iter().map(weight));
        all.extend(block.biases.iter().flatten().chain(block.qk_norms.iter().flatten()).map(buf));
        let pairs = Proj::ALL.iter().filter_map(|&proj| adapter?.pair(layer, proj));
        all.extend(pairs.flat_map(|pair| [weight(&pair.a), weight(&pair.b)]));
    }
    all.extend(adapter.map(|adapter| u64::from(adapter.spec.scale().to_bits()) << 32 | adapter.spec.rank as u64));
    all
}

impl Room {
    fn new<B: OnGpu>(cuda: &Cuda, model: &Model<B>, adapter: Option<&Adapter<B>>, n_rows: usize, n_pages_max: usize) -> Self {
        let config = &model.config;
        let memory = |bytes: usize| cuda.device.memory(n_rows * bytes);
        let widest = config.dim.max(config.q_dim()).max(config.ffn_dim).next_multiple_of(8);
        let rank = adapter.map_or(0, |adapter| adapter.spec.rank).next_multiple_of(8);
        let width = config.head_dim.next_multiple_of(16);
        Self {
            n_rows,
            n_pages_max,
            ids: memory(4),
            positions: memory(4),
            n_drawn: memory(4),
            keys: memory(8),
            inverses: memory(4),
            greedy: memory(4),
            pages: memory(4 * n_pages_max),
            drawn_ids: memory(4 * (TOKENS_MAX + 1)),
            drawn_logprobs: memory(4 * (TOKENS_MAX + 1)),
            x: memory(4 * config.dim),
            act: memory(2 * widest),
            low: memory(4 * rank),
            low_act: memory(2 * 3 * rank),
            qkv: memory(4 * (config.q_dim() + 2 * config.kv_dim())),
            q: memory(2 * config.n_heads * width),
            attended: memory(2 * widest),
            gates: memory(8 * config.ffn_dim),
            hidden: memory(2 * widest),
            logits: memory(4 * logits_stride(config.vocab)),
            parts: memory(16 * config.vocab.div_ceil(SEGMENT)),
        }
    }

    /// Puts every sequence at its start; rows of nobody go to the scratch page.
    fn set(&self, cuda: &Cuda, rows: &[BurstRow<'_>], scratch: u32) {
        let n_spare = self.n_rows - rows.len();
        fn filled<T: Copy>(values: impl Iterator<Item = T>, n_spare: usize, spare: T) -> Vec<T> {
            values.chain(std::iter::repeat_n(spare, n_spare)).collect()
        }
        let device = &cuda.device;
        device.write(self.ids.address(), &filled(rows.iter().map(|row| row.id), n_spare, 0));
        device.write(self.positions.address(), &filled(rows.iter().map(|row| row.position as u32), n_spare, 0));
        device.write(self.keys.address(), &filled(rows.iter().map(|row| row.stream.key()), n_spare, 0));
        device.write(self.inverses.address(), &filled(rows.iter().map(|row| row.inv_temperature), n_spare, 1.0));
        device.write(self.greedy.address(), &filled(rows.iter().map(|row| u32::from(row.greedy)), n_spare, 1));
        device.clear(self.n_drawn.address(), self.n_rows * 4);
        let mut pages = vec![scratch; self.n_rows * self.n_pages_max];
        for (row, pages) in rows.iter().zip(pages.chunks_exact_mut(self.n_pages_max)) {
            pages[..row.pages.len()].copy_from_slice(row.pages);
        }
        device.write(self.pages.address(), &pages);
    }

    fn drawn(&self, cuda: &Cuda, n: usize, n_tokens: usize) -> Vec<Vec<(u32, f32)>> {
        let ids: Vec<u32> = cuda.device.read(self.drawn_ids.address(), n_tokens * self.n_rows);
        let logprobs: Vec<f32> = cuda.device.read(self.drawn_logprobs.address(), n_tokens * self.n_rows);
        let token = |row: usize, step: usize| (ids[step * self.n_rows + row], logprobs[step * self.n_rows + row]);
        (0..n).map(|row| (0..n_tokens).map(|step| token(row, step)).collect()).collect()
    }
}

/// One step of all rows, as launches.
struct Step<'a, B: OnGpu> {
    cuda: &'a Cuda,
    model: &'a Model<B>,
    kvs: &'a [B::Kv],
    adapter: Option<&'a Adapter<B>>,
    room: &'a Room,
}

impl<B: OnGpu> Step<'_, B> {
    fn run(&self) {
        let Self { cuda, model, room, .. } = *self;
        let (config, embed) = (&model.config, B::gpu_weight(&model.embed));
        let values = args![embed.address(), embed.stride, embed.cols, room.ids.address(), room.x.address()];
        cuda.device.launch("embed", Grid::rows(room.n_rows, 128).early(), values);
        for (layer, (block, kv)) in model.blocks.iter().zip(self.kvs).enumerate() {
            self.attention(layer, block, B::gpu_kv(kv));
            self.gate(layer, block);
        }
        self.norm(&model.final_norm);
        let (stride, head) = (config.dim.next_multiple_of(8), B::gpu_weight(model.head_weight()));
        cuda.logits_into(room.act.address(), stride, room.n_rows, head, room.logits.address());
        self.draw();
    }

    /// `act = norm(x)`.
    fn norm(&self, gain: &B::Buf) {
        let gain = B::gpu_buf(gain);
        let Self { cuda, model, room, .. } = *self;
        let (cols, eps, to, rows) = (model.config.dim, model.config.norm_eps, room.act.address(), room.n_rows);
        let (stride, lanes) = (cols.next_multiple_of(8), lanes(cols));
        let values = args![room.x.address(), gain.address(), eps, rows, cols, to, stride, lanes];
        cuda.device.launch("norm_act", by_lanes(rows, lanes).early(), values);
    }

    fn attention(&self, layer: usize, block: &Block<B>, kv: &Kv) {
        let Self { cuda, model, room, .. } = *self;
        let config = &model.config;
        let Heads { n_heads, n_kv_heads, head_dim } = kv.heads;
        let n_all = config.q_dim() + 2 * config.kv_dim();
        self.norm(&block.attn_norm);
        let to = To { address: room.qkv.address(), stride: n_all, put: Put::Set };
        self.project(layer, &[Proj::Q, Proj::K, Proj::V], &room.act, to);
        let bias = |i: usize| block.biases.as_ref().map_or(0, |biases| B::gpu_buf(&biases[i]).address());
        let gain = |i: usize| block.qk_norms.as_ref().map_or(0, |gains| B::gpu_buf(&gains[i]).address());
        let (positions, pages) = (room.positions.address(), room.pages.address());
        let (keys, values) = (kv.keys.address(), kv.values.address());
        let entered = args![
            room.qkv.address(),
            bias(0),
            bias(1),
            bias(2),
            gain(0),
            gain(1),
            config.norm_eps,
            B::gpu_buf(&model.angles).address(),
            positions,
            pages,
            room.n_pages_max,
            n_heads,
            n_kv_heads,
            head_dim,
            kv.width,
            room.q.address(),
            keys,
            values
        ];
        let grid = Grid { blocks: (room.n_rows, (n_heads + 2 * n_kv_heads).div_ceil(4)), threads: 128, shared: 0, early: true };
        cuda.device.launch("enter", grid, entered);
        let (shared, scale) = (attention_shared(kv.width), (1.0 / (head_dim as f64).sqrt()) as f32);
        let grid = Grid { blocks: (room.n_rows, n_kv_heads), threads: 128, shared, early: true };
        let (q, to, stride) = (room.q.address(), room.attended.address(), config.q_dim().next_multiple_of(8));
        let attended =
            args![q, keys, values, positions, pages, room.n_pages_max, n_heads, n_kv_heads, head_dim, scale, to, stride];
        cuda.device.launch_for("attend_one", kv.width, grid, attended);
        self.project(layer, &[Proj::O], &room.attended, self.stream());
    }

    /// The residual stream, to be added to.
    fn stream(&self) -> To {
        To { address: self.room.x.address(), stride: self.model.config.dim, put: Put::Add }
    }

    fn gate(&self, layer: usize, block: &Block<B>) {
        let Self { cuda, model, room, .. } = *self;
        let (cols, stride) = (model.config.ffn_dim, model.config.ffn_dim.next_multiple_of(8));
        self.norm(&block.mlp_norm);
        let (projs, hidden) = ([Proj::Gate, Proj::Up], room.hidden.address());
        let few = Few { act: hidden, y_stride: stride as i32, ..Few::default() };
        if !self.at_once(layer, &projs, &room.act, few, Then::Gate) {
            let to = To { address: room.gates.address(), stride: 2 * cols, put: Put::Set };
            self.project(layer, &projs, &room.act, to);
            let (gate, up) = (room.gates.address(), room.gates.address() + cols as u64 * 4);
            let values = args![gate, up, room.n_rows, cols, 2 * cols, hidden, stride];
            cuda.device.launch("swiglu", Grid::each(room.n_rows * stride / 4).early(), values);
        }
        self.project(layer, &[Proj::Down], &room.hidden, self.stream());
    }

    /// Projections of one input, side by side; then what the adapter adds to each.
    fn project(&self, layer: usize, projs: &[Proj], from: &Memory, to: To) {
        let few = Few { y: to.address, y_stride: to.stride as i32, ..Few::default() };
        let then = if to.put == Put::Add { Then::Add } else { Then::Set };
        if self.at_once(layer, projs, from, few, then) {
            return;
        }
        let weights = self.weights(layer, projs);
        let together = are_adjoined(&weights);
        if together {
            self.product(from.address(), weights[0], weights.iter().map(|weight| weight.rows).sum(), to);
        }
        let mut address = to.address;
        for (&proj, weight) in projs.iter().zip(weights) {
            let to = To { address, ..to };
            if !together {
                self.product(from.address(), weight, weight.rows, to);
            }
            if let Some((adapter, pair)) = self.adapter.and_then(|adapter| Some((adapter, adapter.pair(layer, proj)?))) {
                self.add_pair(from, pair, adapter, To { put: Put::Add, ..to });
            }
            address += weight.rows as u64 * 4;
        }
    }

    fn weights(&self, layer: usize, projs: &[Proj]) -> Vec<&Weight> {
        projs.iter().map(|&proj| B::gpu_weight(self.model.weight(layer, proj))).collect()
    }

    /// Projections and their adapters' parts by our own products, in one launch or two. False when they do not take this: weights that
    /// lie apart, a rank that is no multiple of sixteen, or a shape for which the library is faster.
    fn at_once(&self, layer: usize, projs: &[Proj], from: &Memory, few: Few, then: Then) -> bool {
        let Self { cuda, room, .. } = *self;
        let weights = self.weights(layer, projs);
        let (first, n) = (weights[0], weights.iter().map(|weight| weight.rows).sum::<usize>());
        let strides = [first.stride, first.stride, n];
        let shape = Shape { kind: Kind::Forward, rows: room.n_rows, n, k: first.cols, strides, batch: 1, offsets: [0; 3] };
        let even = weights.iter().all(|weight| weight.rows.is_multiple_of(8));
        if !are_adjoined(&weights) || !even || !few::fits(n, then) || !cuda.products.prefers_few(&shape, first.address()) {
            return false;
        }
        let few = Few {
            x: from.address(),
            w: first.address(),
            rows: room.n_rows as i32,
            n: n as i32,
            k: first.cols as i32,
            x_stride: first.stride as i32,
            w_stride: first.stride as i32,
            ..few
        };
        let pairs: Vec<Option<&Pair<B>>> = projs.iter().map(|&proj| self.adapter?.pair(layer, proj)).collect();
        if pairs.iter().all(Option::is_none) {
            few.run(&cuda.device, Tile::fitting(room.n_rows, n), then);
            return true;
        }
        let (Some(pairs), Some(adapter)) = (pairs.into_iter().collect::<Option<Vec<_>>>(), self.adapter) else {
            return false;
        };
        let lows: Vec<&Weight> = pairs.iter().map(|pair| B::gpu_weight(&pair.a)).collect();
        let rank = adapter.spec.rank;
        if !rank.is_multiple_of(16) || !are_adjoined(&lows) {
            return false;
        }
        let n_low = rank * lows.len();
        let low = Few { w: lows[0].address(), act: room.low_act.address(), y_stride: n_low as i32, n: n_low as i32, ..few };
        let low = Few { scale: adapter.spec.scale(), ..low };
        low.run(&cuda.device, Tile::fitting(room.n_rows, n_low), Then::Round);
        let (mut end, mut stretches) = (0, [Stretch::default(); 3]);
        for (i, (pair, weight)) in pairs.iter().zip(&weights).enumerate() {
            end += weight.rows as i32;
            stretches[i] = Stretch { b: B::gpu_weight(&pair.b).address(), end, from: (i * rank) as i32 };
        }
        let few = Few { low: room.low_act.address(), low_stride: n_low as i32, rank: rank as i32, stretches, ..few };
        few.run(&cuda.device, Tile::fitting(room.n_rows, n), then);
        true
    }

    fn add_pair(&self, from: &Memory, pair: &Pair<B>, adapter: &Adapter<B>, to: To) {
        let Self { cuda, room, .. } = *self;
        let (a, b) = (B::gpu_weight(&pair.a), B::gpu_weight(&pair.b));
        let (rank, stride) = (a.rows, a.rows.next_multiple_of(8));
        self.product(from.address(), a, rank, To { address: room.low.address(), stride: rank, put: Put::Set });
        let scale = adapter.spec.scale();
        let values = args![room.low.address(), scale, room.n_rows, rank, room.low_act.address(), stride];
        cuda.device.launch("act", Grid::each((room.n_rows * stride).div_ceil(8)), values);
        self.product(room.low_act.address(), b, b.rows, to);
    }

    fn product(&self, from: u64, weight: &Weight, n: usize, to: To) {
        let strides = [weight.stride, weight.stride, to.stride];
        let (rows, k) = (self.room.n_rows, weight.cols);
        let shape = Shape { kind: Kind::Forward, rows, n, k, strides, batch: 1, offsets: [0; 3] };
        self.cuda.products.multiply(shape, from, weight.address(), to.put, to.address);
    }

    fn draw(&self) {
        let Self { cuda, model, room, .. } = *self;
        let vocab = model.config.vocab;
        let (logits, stride, n_parts) = (room.logits.address(), logits_stride(vocab), vocab.div_ceil(SEGMENT));
        let (inverses, parts) = (room.inverses.address(), room.parts.address());
        let grid = Grid { blocks: (n_parts, room.n_rows), threads: 256, shared: 0, early: true };
        cuda.device.launch("head_parts", grid, args![logits, stride, vocab, inverses, 0u64, 0u64, vocab.div_ceil(64), parts]);
        let (greedy, keys) = (room.greedy.address(), room.keys.address());
        let (ids, positions, n_drawn) = (room.ids.address(), room.positions.address(), room.n_drawn.address());
        let (drawn_ids, drawn_logprobs) = (room.drawn_ids.address(), room.drawn_logprobs.address());
        let values = args![
            logits,
            stride,
            vocab,
            parts,
            n_parts,
            inverses,
            greedy,
            keys,
            ids,
            positions,
            n_drawn,
            room.n_rows,
            drawn_ids,
            drawn_logprobs
        ];
        cuda.device.launch("head_draw", Grid::rows(room.n_rows, 256).early(), values);
    }
}

/// True when weights of one input lie one behind the other.
fn are_adjoined(weights: &[&Weight]) -> bool {
    weights.windows(2).all(|pair| {
        let [first, second] = pair else { return false };
        std::sync::Arc::ptr_eq(&first.memory, &second.memory)
            && first.stride == second.stride
            && first.offset + first.rows * first.stride * 2 == second.offset
    })
}
