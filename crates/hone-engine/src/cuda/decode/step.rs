//! One step of decoding as launches.

use std::ops::Range;

use super::project::{Input, Out, Projection};
use super::ring::{Ring, THREADS};
use super::room::{Room, Start};
use super::search::{Logits, Plan};
use super::{Gives, OnGpu};
use crate::backend::{Heads, Put};
use crate::config::ModelConfig;
use crate::cuda::compile::Code;
use crate::cuda::device::{Grid, args};
use crate::cuda::few::Then;
use crate::cuda::head::{AskedAt, SEGMENT, logits_stride};
use crate::cuda::operations::{by_lanes, lanes};
use crate::cuda::{Cuda, Kv};
use crate::lora::Adapter;
use crate::model::{Block, Model};

/// Blocks that draw for one sequence, as in the kernel.
const DRAWERS: usize = 8;
/// Bytes of logits that stay in the cache.
const NEAR: usize = 32 << 20;

/// True for models that the kernels of a step take; the general pass takes all others.
pub(super) fn fits(config: &ModelConfig) -> bool {
    let fan = config.n_heads / config.n_kv_heads;
    config.head_dim <= 256 && fan <= 16 && (!config.qk_norm || config.head_dim.is_multiple_of(64))
}

/// What attention of one position each needs, as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy)]
struct One {
    qkv: u64,
    biases: [u64; 3],
    gains: [u64; 2],
    angles: u64,
    keys: u64,
    values: u64,
    out: u64,
    positions: u64,
    pages: u64,
    n_rows: i32,
    n_pages_max: i32,
    fan: i32,
    n_kv_heads: i32,
    head_dim: i32,
    stride: i32,
    n_pieces: i32,
    eps: f32,
    scale: f32,
    behind: u64,
    scores: u64,
    largest: u64,
    n_blocks_max: i32,
}

/// One step of all rows, as launches.
pub(super) struct Step<'a, B: OnGpu> {
    pub(super) cuda: &'a Cuda,
    pub(super) model: &'a Model<B>,
    pub(super) kvs: &'a [B::Kv],
    pub(super) adapter: Option<&'a Adapter<B>>,
    pub(super) room: &'a Room,
    pub(super) plan: Plan,
}

impl<B: OnGpu> Step<'_, B> {
    /// From the tokens' rows in the stream to those of the next tokens, or to the input of the head.
    pub(super) fn run(&self) {
        let Self { model, room, .. } = *self;
        match &room.alone {
            Some(alone) => alone.run(self.cuda, model, room),
            None => self.layers(),
        }
        if room.gives != Gives::Tokens {
            return self.norm(&model.final_norm);
        }
        self.score();
        if self.draws_at_once() {
            self.draw_one();
        } else {
            self.cut();
            self.draw();
        }
    }

    fn layers(&self) {
        let Self { model, room, .. } = *self;
        let config = &model.config;
        for (layer, (block, kv)) in model.blocks.iter().zip(self.kvs).enumerate() {
            self.attention(layer, block, B::gpu_kv(kv));
            let (hidden, stride) = (room.hidden.address(), config.ffn_dim.next_multiple_of(8));
            let gated = Out { address: hidden, stride, then: Then::Gate };
            self.project(layer, Projection::GateUp, Input::Norm(&block.mlp_norm), gated);
            self.project(layer, Projection::Down, Input::Act(hidden), self.stream());
        }
    }

    /// `act = norm(x)`.
    pub(super) fn norm(&self, gain: &B::Buf) {
        let gain = B::gpu_buf(gain);
        let Self { cuda, model, room, .. } = *self;
        let (cols, eps, to, rows) = (model.config.dim, model.config.norm_eps, room.act.address(), room.n_rows);
        let (stride, lanes) = (cols.next_multiple_of(8), lanes(cols));
        let values = args![room.x.address(), gain.address(), eps, rows, cols, to, stride, lanes];
        cuda.device.launch("norm_act", by_lanes(rows, lanes).early(), values);
    }

    /// The residual stream, to be added to.
    fn stream(&self) -> Out {
        Out { address: self.room.x.address(), stride: self.model.config.dim, then: Then::Add }
    }

    fn attention(&self, layer: usize, block: &Block<B>, kv: &Kv) {
        let Self { model, room, .. } = *self;
        let config = &model.config;
        let Heads { n_heads, n_kv_heads, head_dim } = kv.heads;
        let fan = n_heads / n_kv_heads;
        let device = &self.cuda.device;
        let ring = Ring::new(
            device.n_processors,
            device.shared_max,
            kv.heads,
            kv.width,
            room.n_rows,
            self.plan.n_pieces_max,
            room.several,
        );
        let n_all = config.q_dim() + 2 * config.kv_dim();
        let to = Out { address: room.qkv.address(), stride: n_all, then: Then::Set };
        self.project(layer, Projection::Qkv, Input::Norm(&block.attn_norm), to);
        let bias = |i: usize| block.biases.as_ref().map_or(0, |biases| B::gpu_buf(&biases[i]).address());
        let gain = |i: usize| block.qk_norms.as_ref().map_or(0, |gains| B::gpu_buf(&gains[i]).address());
        let mut one = One {
            qkv: room.qkv.address(),
            biases: [0, 1, 2].map(bias),
            gains: [0, 1].map(gain),
            angles: B::gpu_buf(&model.angles).address(),
            keys: kv.keys.address(),
            values: kv.values.address(),
            out: room.attended.address(),
            positions: room.start(Start::Positions),
            pages: room.start(Start::Pages),
            n_rows: room.n_rows as i32,
            n_pages_max: room.n_pages_max as i32,
            fan: fan as i32,
            n_kv_heads: n_kv_heads as i32,
            head_dim: head_dim as i32,
            stride: config.q_dim().next_multiple_of(8) as i32,
            n_pieces: ring.n_pieces as i32,
            eps: config.norm_eps,
            scale: (1.0 / (head_dim as f64).sqrt()) as f32,
            behind: room.start(Start::Behind),
            scores: 0,
            largest: 0,
            n_blocks_max: 0,
        };
        let (code, wide) = (Code::Attention(kv.width), if fan <= 8 { "" } else { "_wide" });
        if let Some(far) = &room.far {
            (one.scores, one.largest, one.n_blocks_max) = (far.scores.address(), far.largest.address(), far.n_blocks_max as i32);
            let scores = if room.several { "attend_scores_several" } else { "attend_scores" };
            device.launch_with(code, &format!("{scores}{wide}"), far.of_scores(kv, room.n_rows), &mut one);
            device.launch_with(code, &format!("attend_values{wide}"), far.of_values(kv, room.n_rows), &mut one);
        } else {
            let attend = if room.several { "attend_several" } else { "attend_one" };
            let grid = Grid { blocks: (ring.n_rows, n_kv_heads), threads: THREADS, shared: ring.bytes, early: true };
            device.launch_with(code, &format!("{attend}{wide}"), grid, &mut one);
        }
        self.project(layer, Projection::O, Input::Act(room.attended.address()), self.stream());
    }

    /// Logits and what is known of each of their segments.
    fn score(&self) {
        let Self { cuda, model, room, .. } = *self;
        let (config, head) = (&model.config, B::gpu_weight(model.head_weight()));
        let (stride, n_parts) = (logits_stride(config.vocab), config.vocab.div_ceil(SEGMENT));
        let find_parts = |parts: Range<usize>| {
            if !self.draws_at_once() {
                let to = [room.parts.address(), 0];
                cuda.parts_into(room.logits.address(), config.vocab, room.n_rows, parts, self.whole_vocabulary(), to);
            }
        };
        if let Some(alone) = &room.alone {
            alone.run_head(cuda, model, room);
            return find_parts(0..n_parts);
        }
        self.norm(&model.final_norm);
        let n_at_once = match self.plan.logits {
            Logits::All => n_parts,
            Logits::Near => (NEAR / (room.n_rows * SEGMENT * 4)).clamp(1, n_parts),
        };
        for first_part in (0..n_parts).step_by(n_at_once) {
            let first = first_part * SEGMENT;
            let last_part = (first_part + n_at_once).min(n_parts);
            let n = (last_part * SEGMENT).min(config.vocab) - first;
            let (from, to) = (head.address() + (first * head.stride * 2) as u64, room.logits.address() + first as u64 * 4);
            cuda.products.multiply(self.shape(head, n, stride), room.act.address(), from, Put::Set, to);
            find_parts(first_part..last_part);
        }
    }

    /// What rows are asked for where nothing is cut.
    fn whole_vocabulary(&self) -> AskedAt {
        AskedAt { inverses: self.room.start(Start::Inverses), ..AskedAt::default() }
    }

    /// Finds what samplers let through, where any cuts.
    fn cut(&self) {
        let Self { cuda, room, .. } = *self;
        if let Some(left) = &room.left {
            let (parts, cuts) = ([room.parts.address(), 0], room.start(Start::Cuts));
            cuda.cut_into(room.logits.address(), self.whole_vocabulary(), cuts, parts, left);
        }
    }

    /// True where one launch goes from logits to the next token: of one sequence from all ids, by blocks that tell each other what they found.
    fn draws_at_once(&self) -> bool {
        let Self { cuda, room, .. } = *self;
        room.n_rows == 1 && room.left.is_none() && cuda.device.has_groups()
    }

    fn draw_one(&self) {
        let Self { cuda, model, room, .. } = *self;
        let vocab = model.config.vocab;
        let n_parts = vocab.div_ceil(SEGMENT);
        let (embed, x) = (B::gpu_weight(&model.embed), room.x.address());
        let values = args![
            room.logits.address(),
            logits_stride(vocab),
            vocab,
            n_parts,
            room.start(Start::Inverses),
            room.start(Start::Greedy),
            room.start(Start::Keys),
            room.start(Start::Ids),
            room.start(Start::Positions),
            room.start(Start::Drawn),
            room.drawn.address(),
            embed.address(),
            embed.stride,
            embed.cols,
            x
        ];
        let grid = Grid { blocks: (DRAWERS, 1), threads: 256, shared: n_parts * 8, early: true };
        cuda.device.launch("head_draw_one", grid, values);
    }

    fn draw(&self) {
        let Self { cuda, model, room, .. } = *self;
        let vocab = model.config.vocab;
        let (logits, stride, n_parts) = (room.logits.address(), logits_stride(vocab), vocab.div_ceil(SEGMENT));
        let (parts, n_words) = (room.parts.address(), vocab.div_ceil(64));
        let AskedAt { inverses, masks, bits, .. } =
            room.left.as_ref().map_or(self.whole_vocabulary(), |left| left.of(self.whole_vocabulary()));
        let (greedy, keys) = (room.start(Start::Greedy), room.start(Start::Keys));
        let (ids, positions, n_drawn) = (room.start(Start::Ids), room.start(Start::Positions), room.start(Start::Drawn));
        let (embed, x) = (B::gpu_weight(&model.embed), room.x.address());
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
            room.drawn.address(),
            embed.address(),
            embed.stride,
            embed.cols,
            x,
            masks,
            bits,
            n_words
        ];
        // The one that draws from all ids does not take the last three.
        let name = if room.left.is_some() { "head_draw_cut" } else { "head_draw" };
        cuda.device.launch(name, Grid::rows(room.n_rows, 256).early(), values);
    }
}
