//! The memory of a step.

use crate::backend::BurstRow;
use crate::config::ModelConfig;
use crate::cuda::Cuda;
use crate::cuda::head::{SEGMENT, logits_stride};
use crate::cuda::memory::Memory;

/// Tokens of one burst.
pub(in crate::cuda) const TOKENS_MAX: usize = 16;

/// The memory of a step of so many rows.
pub(super) struct Room {
    pub(super) n_rows: usize,
    pub(super) n_pages_max: usize,
    pub(super) ids: Memory,
    pub(super) positions: Memory,
    pub(super) n_drawn: Memory,
    pub(super) keys: Memory,
    pub(super) inverses: Memory,
    pub(super) greedy: Memory,
    pub(super) pages: Memory,
    pub(super) drawn_ids: Memory,
    pub(super) drawn_logprobs: Memory,
    /// Residual stream.
    pub(super) x: Memory,
    /// What a product reads, and the inside of an adapter in f32 and bf16.
    pub(super) act: Memory,
    pub(super) low: Memory,
    pub(super) low_act: Memory,
    pub(super) qkv: Memory,
    pub(super) attended: Memory,
    pub(super) gates: Memory,
    pub(super) hidden: Memory,
    pub(super) logits: Memory,
    pub(super) parts: Memory,
}

impl Room {
    pub(super) fn new(cuda: &Cuda, config: &ModelConfig, rank: usize, n_rows: usize, n_pages_max: usize) -> Self {
        let memory = |bytes: usize| cuda.device.memory(n_rows * bytes);
        let widest = config.dim.max(config.q_dim()).max(config.ffn_dim).next_multiple_of(8);
        let rank = rank.next_multiple_of(8);
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
            attended: memory(2 * widest),
            gates: memory(8 * config.ffn_dim),
            hidden: memory(2 * widest),
            logits: memory(4 * logits_stride(config.vocab)),
            parts: memory(16 * config.vocab.div_ceil(SEGMENT)),
        }
    }

    /// Puts every sequence at its start; rows of nobody go to the scratch page.
    pub(super) fn set(&self, cuda: &Cuda, rows: &[BurstRow<'_>], scratch: u32) {
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

    pub(super) fn drawn(&self, cuda: &Cuda, n: usize, n_tokens: usize) -> Vec<Vec<(u32, f32)>> {
        let ids: Vec<u32> = cuda.device.read(self.drawn_ids.address(), n_tokens * self.n_rows);
        let logprobs: Vec<f32> = cuda.device.read(self.drawn_logprobs.address(), n_tokens * self.n_rows);
        let token = |row: usize, step: usize| (ids[step * self.n_rows + row], logprobs[step * self.n_rows + row]);
        (0..n).map(|row| (0..n_tokens).map(|step| token(row, step)).collect()).collect()
    }
}
