//! What top-k, top-p and min-p leave of rows of logits, found where the logits are.

use super::Cuda;
use super::device::{Grid, args};
use super::head::{Asked, AskedAt, SEGMENT, logits_stride};
use super::memory::Memory;
use crate::backend::Support;
use crate::sampler::SamplerOptions;

/// How a row is cut, as the kernel reads it: top-k, and the bits of top-p and min-p.
pub(super) type Cut = [u32; 3];

/// The cut that leaves all.
pub(super) const WHOLE: Cut = [0, 1f32.to_bits(), 0];

/// How a sampler cuts.
pub(super) fn cut(sampler: &SamplerOptions) -> Cut {
    if !sampler.truncates() {
        return WHOLE;
    }
    [u32::try_from(sampler.top_k).unwrap_or(u32::MAX), sampler.top_p.to_bits(), sampler.min_p.to_bits()]
}

/// What may be drawn of some rows.
pub(super) struct Left {
    rows: usize,
    vocab: usize,
    masks: Memory,
    bits: Memory,
}

impl Left {
    /// Room for so many rows.
    pub(super) fn new(cuda: &Cuda, rows: usize, vocab: usize) -> Self {
        let masks = cuda.device.memory(rows * 4);
        Self { rows, vocab, masks, bits: cuda.device.memory(rows * vocab.div_ceil(64) * 8) }
    }

    /// Rows that are asked the same, and draw from what is left.
    pub(super) fn of(&self, asked: AskedAt) -> AskedAt {
        AskedAt { masks: self.masks.address(), bits: self.bits.address(), is_cut: true, ..asked }
    }

    /// What is left of every row; of one that nobody cuts, nothing is told.
    pub(super) fn supports(&self, cuda: &Cuda) -> Vec<Support> {
        let n_words = self.vocab.div_ceil(64);
        let words: Vec<u64> = cuda.device.read(self.bits.address(), self.rows * n_words);
        words.chunks_exact(n_words).map(Support::from).collect()
    }
}

impl Cuda {
    /// Cuts rows of logits whose segments are known, and learns their segments again from what is left.
    pub(super) fn cut_into(&self, logits: u64, asked: AskedAt, cuts: u64, parts: [u64; 2], left: &Left) {
        let Left { rows, vocab, .. } = *left;
        let (stride, n_parts, n_words) = (logits_stride(vocab), vocab.div_ceil(SEGMENT), vocab.div_ceil(64));
        let AskedAt { inverses, masks, bits, .. } = asked;
        let (to, to_bits) = (left.masks.address(), left.bits.address());
        let values = args![logits, stride, vocab, parts[0], n_parts, inverses, masks, bits, n_words, cuts, to, to_bits];
        self.device.launch("head_cut", Grid::rows(rows, 1024).early(), values);
        self.parts_into(logits, vocab, rows, 0..n_parts, left.of(asked), parts);
    }

    /// What the sampler leaves of a row of logits that the host has.
    pub(super) fn cut_row(&self, logits: &[f32], sampler: &SamplerOptions, allowed: &Option<Support>) -> Option<Support> {
        let (row, vocab) = (self.row(logits), logits.len());
        let asked = Asked::without_targets(self, &[sampler.inv_temperature()], &[allowed.as_ref()]);
        let parts = self.parts(row.address(), vocab, 1, asked.at());
        let (left, cuts) = (Left::new(self, 1, vocab), self.device.upload(&cut(sampler)));
        let to = [parts[0].address(), parts[1].address()];
        self.cut_into(row.address(), asked.at(), cuts.address(), to, &left);
        let support = left.supports(self).pop()?;
        support.iter().any(|&word| word != 0).then_some(support)
    }
}
