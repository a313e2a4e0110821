//! The head: logits of a bounded number of rows at a time, and what is read off them.

use std::ops::Range;

use super::cut::{self, Left};
use super::device::{Grid, args};
use super::memory::Memory;
use super::product::{Kind, Shape};
use super::{Act, Buf, Cuda, Weight};
use crate::backend::{Ask, Put, Scored, ScoredGrad, Support, Target};
use crate::sampler::Drawn;

/// Bytes of logits that exist at once.
const LOGITS_MAX: usize = 1 << 31;
/// Rows of a chunk; a grid's second axis ends at 65,535.
const ROWS_MAX: usize = 1 << 14;
/// Ids of one segment, as in the kernels.
pub(super) const SEGMENT: usize = 256;
/// Segments that one block of `head_parts` has.
const SEGMENTS_AT_ONCE: usize = 32;

/// Targets on the GPU.
pub(super) struct Asked {
    ids: Memory,
    inverses: Memory,
    /// Index of each row's mask or -1; address 0 where no row has one.
    masks: Option<Memory>,
    bits: Option<Memory>,
}

impl Asked {
    fn new(cuda: &Cuda, targets: &[Target]) -> Self {
        let ids: Vec<u32> = targets.iter().map(|target| target.id).collect();
        let inverses: Vec<f32> = targets.iter().map(|target| target.inv_temperature).collect();
        let supports: Vec<Option<&Support>> = targets.iter().map(|target| target.support.as_ref()).collect();
        Self { ids: cuda.device.upload(&ids), ..Self::without_targets(cuda, &inverses, &supports) }
    }

    pub(super) fn without_targets(cuda: &Cuda, inverses: &[f32], supports: &[Option<&Support>]) -> Self {
        let mut next = 0..;
        let masks: Vec<i32> = supports.iter().map(|support| support.and_then(|_| next.next()).unwrap_or(-1)).collect();
        let bits: Vec<u64> = supports.iter().flatten().flat_map(|support| support.iter().copied()).collect();
        let some = !bits.is_empty();
        Self {
            ids: cuda.device.memory(0),
            inverses: cuda.device.upload(inverses),
            masks: some.then(|| cuda.device.upload(&masks)),
            bits: some.then(|| cuda.device.upload(&bits)),
        }
    }

    pub(super) fn at(&self) -> AskedAt {
        let (masks, bits) = (address(self.masks.as_ref()), address(self.bits.as_ref()));
        AskedAt { inverses: self.inverses.address(), masks, bits, is_cut: false }
    }
}

/// Where what rows are asked for lies; 0 for no masks.
#[derive(Clone, Copy, Default)]
pub(super) struct AskedAt {
    pub(super) inverses: u64,
    pub(super) masks: u64,
    pub(super) bits: u64,
    /// The masks are what a cut left, and segments are known as they were before it.
    pub(super) is_cut: bool,
}

fn address(memory: Option<&Memory>) -> u64 {
    memory.map_or(0, Memory::address)
}

/// Elements from row to row of logits.
pub(super) fn logits_stride(vocab: usize) -> usize {
    vocab.next_multiple_of(8)
}

impl Cuda {
    /// Rows whose logits exist at once.
    fn chunk_rows(vocab: usize) -> usize {
        (LOGITS_MAX / (4 * logits_stride(vocab))).clamp(1, ROWS_MAX)
    }

    pub(super) fn logits_into(&self, x: u64, x_stride: usize, rows: usize, w: &Weight, logits: u64) {
        let strides = [x_stride, w.stride, logits_stride(w.rows)];
        let shape = Shape { kind: Kind::Forward, rows, n: w.rows, k: w.cols, strides, batch: 1, offsets: [0; 3] };
        self.products.multiply(shape, x, w.address(), Put::Set, logits);
    }

    /// What is known of segments of rows of logits, and where it goes: what joining them needs; and what entropies need, or 0 for nobody.
    pub(super) fn parts_into(
        &self,
        logits: u64,
        vocab: usize,
        rows: usize,
        segments: Range<usize>,
        asked: AskedAt,
        to: [u64; 2],
    ) {
        let (n_parts, blocks) = (vocab.div_ceil(SEGMENT), (segments.len().div_ceil(SEGMENTS_AT_ONCE), rows));
        let AskedAt { inverses, masks, bits, is_cut } = asked;
        let values = args![
            logits,
            logits_stride(vocab),
            vocab,
            inverses,
            masks,
            bits,
            vocab.div_ceil(64),
            segments.start,
            segments.end,
            n_parts,
            to[0],
            to[1]
        ];
        let name = if is_cut { "head_parts_cut" } else { "head_parts" };
        self.device.launch(name, Grid { blocks, threads: 256, shared: 0, early: true }, values);
    }

    pub(super) fn parts(&self, logits: u64, vocab: usize, rows: usize, asked: AskedAt) -> [Memory; 2] {
        let n_parts = vocab.div_ceil(SEGMENT);
        let parts = [8, 4].map(|bytes| self.device.memory(rows * n_parts * bytes));
        let to = [parts[0].address(), parts[1].address()];
        self.parts_into(logits, vocab, rows, 0..n_parts, asked, to);
        parts
    }

    fn scores(&self, logits: u64, vocab: usize, rows: usize, asked: &Asked) -> Vec<f32> {
        let [parts, weighted] = self.parts(logits, vocab, rows, asked.at());
        let scores = self.device.memory(rows * 12);
        let n_parts = vocab.div_ceil(SEGMENT);
        let (ids, inverses) = (asked.ids.address(), asked.inverses.address());
        let (stride, to) = (logits_stride(vocab), scores.address());
        let values = args![logits, stride, parts.address(), weighted.address(), n_parts, ids, inverses, to];
        self.device.launch("head_scores", Grid::rows(rows, 256), values);
        self.device.read(scores.address(), rows * 3)
    }

    pub(super) fn score_head(&self, x: &Act, w: &Weight, targets: &[Target]) -> Vec<Scored> {
        let mut scored = Vec::with_capacity(targets.len());
        let chunk = Self::chunk_rows(w.rows);
        let logits = self.device.memory(chunk.min(targets.len()) * logits_stride(w.rows) * 4);
        for (i, targets) in targets.chunks(chunk).enumerate() {
            let asked = Asked::new(self, targets);
            let from = x.address() + (i * chunk * x.stride * 2) as u64;
            self.logits_into(from, x.stride, targets.len(), w, logits.address());
            let scores = self.scores(logits.address(), w.rows, targets.len(), &asked);
            scored.extend(scores.chunks_exact(3).map(|s| Scored { logprob: s[0], entropy: s[1], log_norm: s[2] }));
        }
        scored
    }

    #[expect(clippy::too_many_arguments, reason = "the backward of the head needs all of its forward")]
    pub(super) fn score_head_backward(
        &self,
        x: &Act,
        w: &Weight,
        targets: &[Target],
        scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Buf,
        dw: Option<&Buf>,
    ) {
        let chunk = Self::chunk_rows(w.rows);
        let (stride, n_words) = (logits_stride(w.rows), w.rows.div_ceil(64));
        let most = chunk.min(targets.len());
        let (logits, dlogits) = (self.device.memory(most * stride * 4), self.device.memory(most * stride * 2));
        for (i, targets) in targets.chunks(chunk).enumerate() {
            let (first, rows) = (i * chunk, targets.len());
            let asked = Asked::new(self, targets);
            let scores: Vec<f32> = scored[first..][..rows].iter().flat_map(|s| [s.logprob, s.entropy, s.log_norm]).collect();
            let by: Vec<f32> = grads[first..][..rows].iter().flat_map(|grad| [grad.logprob, grad.entropy]).collect();
            let (scores, by) = (self.device.upload(&scores), self.device.upload(&by));
            let from = x.address() + (first * x.stride * 2) as u64;
            self.logits_into(from, x.stride, rows, w, logits.address());
            let grid = Grid { blocks: (stride.div_ceil(1024), rows), threads: 256, shared: 0, early: false };
            let (masks, bits) = (address(asked.masks.as_ref()), address(asked.bits.as_ref()));
            let (ids, inverses) = (asked.ids.address(), asked.inverses.address());
            let (scores, by) = (scores.address(), by.address());
            let values = args![
                logits.address(),
                stride,
                w.rows,
                ids,
                inverses,
                masks,
                bits,
                n_words,
                scores,
                by,
                dlogits.address(),
                stride
            ];
            self.device.launch("head_gradient", grid, values);
            let to = dx.address() + (first * w.cols * 4) as u64;
            let strides = [stride, w.stride, w.cols];
            let shape = Shape { kind: Kind::Backward, rows, n: w.cols, k: w.rows, strides, batch: 1, offsets: [0; 3] };
            self.products.multiply(shape, dlogits.address(), w.address(), Put::Set, to);
            if let Some(dw) = dw {
                let strides = [stride, x.stride, w.cols];
                let shape = Shape { kind: Kind::Gradient, rows: w.rows, n: w.cols, k: rows, strides, batch: 1, offsets: [0; 3] };
                self.products.multiply(shape, dlogits.address(), from, Put::Add, dw.address());
            }
        }
    }

    pub(super) fn visit_logits(&self, x: &Act, w: &Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let chunk = Self::chunk_rows(w.rows).min(64);
        let stride = logits_stride(w.rows);
        let logits = self.device.memory(chunk.min(x.rows) * stride * 4);
        for first in (0..x.rows).step_by(chunk) {
            let rows = chunk.min(x.rows - first);
            self.logits_into(x.address() + (first * x.stride * 2) as u64, x.stride, rows, w, logits.address());
            let mut values: Vec<f32> = self.device.read(logits.address(), rows * stride);
            for (i, row) in values.chunks_exact_mut(stride).enumerate() {
                visit(first + i, &mut row[..w.rows]);
            }
        }
    }

    /// Draws where the logits are; see `Backend::draw`.
    pub(super) fn draw_rows(&self, x: &Act, w: &Weight, asks: &[Ask]) -> Vec<Option<Drawn>> {
        let (chunk, stride) = (Self::chunk_rows(w.rows), logits_stride(w.rows));
        let logits = self.device.memory(if asks.is_empty() { 0 } else { chunk.min(x.rows) * stride * 4 });
        let mut drawn = Vec::with_capacity(asks.len());
        for asks in asks.chunk_by(|a, b| a.row / chunk == b.row / chunk) {
            let first = asks[0].row / chunk * chunk;
            let rows = chunk.min(x.rows - first);
            self.logits_into(x.address() + (first * x.stride * 2) as u64, x.stride, rows, w, logits.address());
            // A row is cut to one support at a time; samples that are about to fork may have others.
            for asks in asks.chunk_by(|a, b| a.row != b.row || a.allowed == b.allowed) {
                drawn.extend(self.choose(logits.address(), w.rows, first..first + rows, asks));
            }
        }
        drawn
    }

    /// Draws from these rows of logits, each cut to one support.
    fn choose(&self, logits: u64, vocab: usize, rows: Range<usize>, asks: &[Ask]) -> Vec<Option<Drawn>> {
        let (mut inverses, mut supports) = (vec![1f32; rows.len()], vec![None; rows.len()]);
        let mut cuts = vec![cut::WHOLE; rows.len()];
        for ask in asks {
            let row = ask.row - rows.start;
            inverses[row] = ask.sampler.inv_temperature();
            supports[row] = ask.allowed.as_ref();
            cuts[row] = cut::cut(&ask.sampler);
        }
        let asked = Asked::without_targets(self, &inverses, &supports);
        let parts = self.parts(logits, vocab, rows.len(), asked.at());
        let parts = [parts[0].address(), parts[1].address()];
        let left = cuts.iter().any(|&cut| cut != cut::WHOLE).then(|| {
            let (left, cuts) = (Left::new(self, rows.len(), vocab), self.device.upload(&cuts));
            self.cut_into(logits, asked.at(), cuts.address(), parts, &left);
            left
        });
        let asked_at = left.as_ref().map_or(asked.at(), |left| left.of(asked.at()));
        let AskedAt { inverses, masks, bits, .. } = asked_at;
        let of_ask = |ask: &Ask| [(ask.row - rows.start) as u32, u32::from(ask.sampler.is_greedy()), ask.u.to_bits()];
        let wanted = self.device.upload(&asks.iter().map(of_ask).collect::<Vec<_>>());
        let out = self.device.memory(asks.len() * 8);
        let (stride, n_parts, n_words) = (logits_stride(vocab), vocab.div_ceil(SEGMENT), vocab.div_ceil(64));
        let (wanted, to) = (wanted.address(), out.address());
        let values = args![logits, stride, vocab, parts[0], n_parts, inverses, masks, bits, n_words, wanted, to];
        self.device.launch("head_choose", Grid::rows(asks.len(), 256), values);
        let found: Vec<[u32; 2]> = self.device.read(to, asks.len());
        let mut likeliest = self.likeliest(logits, vocab, parts[0], asked_at, rows.start, asks).into_iter();
        let tells_cut = |ask: &Ask| ask.keep_support && ask.sampler.truncates();
        let supports = left.filter(|_| asks.iter().any(tells_cut)).map(|left| left.supports(self));
        let told = |(ask, [id, logprob]): (&Ask, [u32; 2])| {
            let cut = supports.as_ref().filter(|_| tells_cut(ask)).map(|supports| supports[ask.row - rows.start].clone());
            let support = cut.or_else(|| ask.allowed.clone());
            let likeliest = likeliest.next().unwrap_or_default();
            Drawn::plain(id, f32::from_bits(logprob)).map(|drawn| Drawn { support, likeliest, ..drawn })
        };
        asks.iter().zip(found).map(told).collect()
    }

    /// What else could have been drawn, for each ask as much as it asks for, from rows of logits whose segments are known.
    fn likeliest(
        &self,
        logits: u64,
        vocab: usize,
        parts: u64,
        asked: AskedAt,
        first_row: usize,
        asks: &[Ask],
    ) -> Vec<Vec<(u32, f32)>> {
        let n_max = asks.iter().map(|ask| ask.n_likeliest).max().unwrap_or(0).min(vocab);
        if n_max == 0 {
            return Vec::new();
        }
        let of_ask = |ask: &Ask| [(ask.row - first_row) as u32, ask.n_likeliest as u32];
        let wanted = self.device.upload(&asks.iter().map(of_ask).collect::<Vec<_>>());
        let out = self.device.memory(asks.len() * n_max * 8);
        let AskedAt { inverses, masks, bits, .. } = asked;
        let (stride, n_parts, n_words) = (logits_stride(vocab), vocab.div_ceil(SEGMENT), vocab.div_ceil(64));
        let (wanted, to) = (wanted.address(), out.address());
        let values = args![logits, stride, vocab, parts, n_parts, inverses, masks, bits, n_words, wanted, n_max, to];
        let grid = Grid { shared: n_parts * 4, ..Grid::rows(asks.len(), 256) };
        self.device.launch("head_likeliest", grid, values);
        let found: Vec<[u32; 2]> = self.device.read(to, asks.len() * n_max);
        let ids = |of_ask: &[[u32; 2]]| {
            let some = of_ask.iter().filter(|[id, _]| (*id as usize) < vocab);
            some.map(|&[id, logprob]| (id, f32::from_bits(logprob))).collect()
        };
        found.chunks_exact(n_max).map(ids).collect()
    }

    pub(super) fn row(&self, logits: &[f32]) -> Memory {
        let mut padded = logits.to_vec();
        padded.resize(logits_stride(logits.len()), 0.0);
        self.device.upload(&padded)
    }

    pub(super) fn score_row(&self, logits: &[f32], target: &Target) -> Scored {
        let asked = Asked::new(self, std::slice::from_ref(target));
        let row = self.row(logits);
        let scores = self.scores(row.address(), logits.len(), 1, &asked);
        Scored { logprob: scores[0], entropy: scores[1], log_norm: scores[2] }
    }

    pub(super) fn pick_id(&self, logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32 {
        let asked = Asked::new(self, std::slice::from_ref(target));
        let row = self.row(logits);
        let [parts, _] = self.parts(row.address(), logits.len(), 1, asked.at());
        let chosen = self.device.memory(4);
        let (n_parts, bits) = (logits.len().div_ceil(SEGMENT), address(asked.bits.as_ref()));
        let inverse = target.inv_temperature;
        let values = args![row.address(), logits.len(), parts.address(), n_parts, inverse, bits, log_norm, u, chosen.address()];
        self.device.launch("head_pick", Grid::rows(1, 256), values);
        self.device.read::<u32>(chosen.address(), 1)[0]
    }
}
