//! All layers of one sequence in one launch: see `kernels/alone.cu` and `alone_head.cu`, whose sizes these are.
//!
//! With one row, a step of a small model waits for its launches: a hundred and fifty, each for the one before. Here blocks of threads stay for all
//! layers, and those of the head begin beside them. The bits are those of the other kernels, which sum O and down in the same parts
//! (`cuda/alone.rs`).

use super::room::{Room, Start};
use super::{Gives, OnGpu};
use crate::cuda::alone::{self, BLOCKS, HEAD, STRETCH};
use crate::cuda::compile::Code;
use crate::cuda::device::Grid;
use crate::cuda::library::Map;
use crate::cuda::memory::Memory;
use crate::cuda::product::{Kind, Shape};
use crate::cuda::{Cuda, Weight};
use crate::layout::PAGE;
use crate::model::Model;
use crate::param::Proj;

const THREADS: usize = 384;
const HEAD_THREADS: usize = 512;
/// Rows and columns that the copy engine brings at once, of eights of rows and of 128 bytes.
const EIGHT: usize = 8;
const CHUNK: usize = 64;
/// Words that a block hands over, in whole lines of memory, and a word that is not there yet.
const LINE: usize = 32;
const NOTHING: u32 = 0x7fff_dead;
/// Layers that hand over by turns, as in the kernels.
const SLOTS: usize = 8;
/// The last layer says that the next step may count from it, and by the third one every warp knows where this step does.
const LAYERS_MIN: usize = 3;
/// More keys than this are for many blocks of threads (`far.rs`).
const KEYS_MAX: usize = 1024;

/// A layer, as the kernel reads it.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Layer {
    qkv: Map,
    o: Map,
    gate_up: Map,
    down: Map,
    gains: [u64; 2],
    keys: u64,
    values: u64,
}

/// A launch of the layers, as the kernels read it.
#[repr(C)]
struct Launch {
    layers: u64,
    stream: u64,
    angles: u64,
    positions: u64,
    pages: u64,
    o_sums: u64,
    down_sums: u64,
    progress: u64,
    n_layers: i32,
    n_pages_max: i32,
    gives_stream: i32,
    eps: f32,
    scale: f32,
}

/// A launch of the head behind them, as the kernel reads it.
#[repr(C, align(64))]
struct Head {
    weights: Map,
    layers: Launch,
    gain: u64,
    logits: u64,
    vocab: i32,
}

/// The layers of a model and its head, and what blocks hand over.
pub(super) struct Alone {
    layers: Memory,
    head: Map,
    o_sums: Memory,
    down_sums: Memory,
    progress: Memory,
    code: Code,
    grid: Grid,
    head_grid: Grid,
}

impl Alone {
    /// Nothing where the model has no such launch, where its layers are too few or its keys too many for it, where the kernel does not compile or has no room, or
    /// where the library gives other bits.
    pub(super) fn new<B: OnGpu>(cuda: &Cuda, model: &Model<B>, kvs: &[B::Kv], n_pages_max: usize) -> Option<Self> {
        let (config, device) = (&model.config, &cuda.device);
        alone::parts(cuda, config)?;
        let (dim, ffn, n_heads, n_kv_heads) = (config.dim, config.ffn_dim, config.n_heads, config.n_kv_heads);
        let code = Code::Alone { dim, n_heads, n_kv_heads, ffn };
        let n_layers = model.blocks.len();
        if n_pages_max * PAGE > KEYS_MAX || kvs.len() != n_layers || n_layers < LAYERS_MIN || !device.has(code) {
            return None;
        }
        // All of them wait for each other, so all must be there.
        let (n_stretches, n_clusters) = (ffn / STRETCH, n_kv_heads + ffn / STRETCH);
        let grid = Grid { blocks: (BLOCKS * n_clusters, 1), threads: THREADS, shared: device.shared_max, early: true };
        if !device.has_room(code, "alone_step", grid, n_clusters) {
            return None;
        }
        // Its products are those of our other kernels.
        let agrees = |&proj: &Proj| {
            let weight = B::gpu_weight(model.weight(0, proj));
            let strides = [weight.stride, weight.stride, weight.rows];
            let shape =
                Shape { kind: Kind::Forward, rows: 1, n: weight.rows, k: weight.summed.run, strides, batch: 1, offsets: [0; 3] };
            cuda.products.few_agree(&shape, weight.address())
        };
        if !Proj::ALL.iter().all(agrees) {
            return None;
        }
        let buf = |buf: &B::Buf| B::gpu_buf(buf).address();
        let layer = |(layer, kv): (usize, &B::Kv)| {
            let (block, kv) = (&model.blocks[layer], B::gpu_kv(kv));
            let weight = |proj: Proj| B::gpu_weight(model.weight(layer, proj));
            let [q, k, v, o, gate, up, down] = Proj::ALL.map(weight);
            let are_beside = q.is_before(k) && k.is_before(v) && gate.is_before(up);
            let part = |weight: &Weight, n: usize| map(cuda, weight, weight.rows, 1, n);
            are_beside.then(|| Layer {
                qkv: map(cuda, q, q.rows + k.rows + v.rows, 1, dim),
                o: part(o, config.q_dim() / n_kv_heads),
                gate_up: map(cuda, gate, ffn, 2, dim),
                down: part(down, STRETCH),
                gains: [buf(&block.attn_norm), buf(&block.mlp_norm)],
                keys: kv.keys.address(),
                values: kv.values.address(),
            })
        };
        let layers = kvs.iter().enumerate().map(layer).collect::<Option<Vec<_>>>()?;
        let head = B::gpu_weight(model.head_weight());
        let words = |n_clusters: usize| {
            let n = SLOTS * n_clusters * BLOCKS * (dim / BLOCKS).next_multiple_of(LINE);
            device.upload(&vec![NOTHING; n])
        };
        Some(Self {
            o_sums: words(n_kv_heads),
            down_sums: words(n_stretches),
            progress: device.upload(&[0u32; 3]),
            layers: device.upload(&layers),
            head: map(cuda, head, head.rows, 1, dim),
            code,
            grid,
            head_grid: Grid { blocks: (device.n_processors, 1), threads: HEAD_THREADS, ..grid },
        })
    }

    /// From the token's row in the stream to its row behind all layers.
    pub(super) fn run<B: OnGpu>(&self, cuda: &Cuda, model: &Model<B>, room: &Room) {
        let launch = &mut self.launch(model, room);
        cuda.device.launch_with(self.code, "alone_step", self.grid, launch);
    }

    /// From there to the logits, beside the last of the layers.
    pub(super) fn run_head<B: OnGpu>(&self, cuda: &Cuda, model: &Model<B>, room: &Room) {
        let mut head = Head {
            weights: self.head,
            layers: self.launch(model, room),
            gain: B::gpu_buf(&model.final_norm).address(),
            logits: room.logits.address(),
            vocab: model.config.vocab as i32,
        };
        cuda.device.launch_with(self.code, "alone_head", self.head_grid, &mut head);
    }

    fn launch<B: OnGpu>(&self, model: &Model<B>, room: &Room) -> Launch {
        Launch {
            layers: self.layers.address(),
            stream: room.x.address(),
            angles: B::gpu_buf(&model.angles).address(),
            positions: room.start(Start::Positions),
            pages: room.start(Start::Pages),
            o_sums: self.o_sums.address(),
            down_sums: self.down_sums.address(),
            progress: self.progress.address(),
            n_layers: model.blocks.len() as i32,
            n_pages_max: room.n_pages_max as i32,
            gives_stream: i32::from(room.gives != Gives::Tokens),
            eps: model.config.norm_eps,
            scale: (1.0 / (HEAD as f64).sqrt()) as f32,
        }
    }
}

/// Matrices of so many rows one behind the other, from this weight on, of which eight rows and so many columns come at once.
fn map(cuda: &Cuda, weight: &Weight, rows: usize, n_matrices: usize, columns: usize) -> Map {
    let row = weight.stride * 2;
    let chunks = (weight.cols / CHUNK, CHUNK * 2, columns / CHUNK);
    cuda.device.map(weight.address(), [(rows, row, EIGHT), (n_matrices, rows * row, 1), (1, row, 1), chunks])
}
