//! The memory of a step.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::alone::Alone;
use super::far::Far;
use super::{Gives, Kind};
use crate::backend::{BurstRow, Draws};
use crate::config::ModelConfig;
use crate::cuda::Cuda;
use crate::cuda::cut::{self, Left};
use crate::cuda::device::Device;
use crate::cuda::head::{SEGMENT, logits_stride};
use crate::cuda::memory::{HostMemory, Memory};

/// Tokens of one burst.
pub(in crate::cuda) const TOKENS_MAX: usize = 16;

/// A token and the bits of its log-probability.
type Drawn = [u32; 2];

/// What a burst begins with, each a word for every row (keys have two, cuts three, pages `n_pages_max`), so many words for every row before it:
/// all of it is one piece of memory, written by one copy.
#[derive(Clone, Copy)]
pub(super) enum Start {
    Keys = 0,
    Ids = 2,
    Positions = 3,
    Drawn = 4,
    Inverses = 5,
    Greedy = 6,
    Behind = 7,
    Cuts = 8,
    Pages = 11,
}

impl Start {
    /// Words of a row before its pages.
    const N_WORDS: usize = Self::Pages as usize;
}

/// True when sequences go on from the tokens that the burst before draws, which the host does not know yet.
pub(super) fn go_on(rows: &[BurstRow<'_>]) -> bool {
    rows.iter().any(|row| row.id.is_none())
}

/// True when a sequence has several rows, one behind the other.
pub(super) fn has_several(rows: &[BurstRow<'_>]) -> bool {
    rows.iter().any(|row| row.n_behind > 0)
}

/// True when a sampler cuts what may be drawn.
pub(super) fn has_cuts(rows: &[BurstRow<'_>]) -> bool {
    rows.iter().any(|row| row.sampler.truncates())
}

/// The memory of a step of so many rows.
pub(super) struct Room {
    pub(super) n_rows: usize,
    /// Sequences may have several rows.
    pub(super) several: bool,
    pub(super) gives: Gives,
    pub(super) n_pages_max: usize,
    /// What a burst begins with, in one piece: see `Start`.
    start: Memory,
    /// The tokens drawn so far, all rows of a step after those of the one before; and where the host reads them, in turns: while it
    /// reads those of a burst, the next one may be on its way.
    pub(super) drawn: Memory,
    sent: [HostMemory; 2],
    n_bursts: AtomicUsize,
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
    /// How keys are attended to by many blocks of threads, where there may be many keys.
    pub(super) far: Option<Far>,
    /// What may be drawn, where samplers cut.
    pub(super) left: Option<Left>,
    /// All layers in one launch, for one sequence of a small model.
    pub(super) alone: Option<Alone>,
}

impl Room {
    pub(super) fn new(cuda: &Cuda, config: &ModelConfig, kind: Kind, n_pages_max: usize) -> Self {
        let Kind { n_rows, several, cuts, gives, rank, .. } = kind;
        let memory = |bytes: usize| cuda.device.memory(n_rows * bytes);
        let widest = config.dim.max(config.q_dim()).max(config.ffn_dim).next_multiple_of(8);
        let rank = rank.next_multiple_of(8);
        // Behind the last element of a row are zeros, or what is multiplied with them may be no number.
        let zeros = |bytes: usize| {
            let memory = memory(bytes);
            cuda.device.clear(memory.address(), n_rows * bytes);
            memory
        };
        // What is drawn elsewhere has its logits there.
        let drawn = |bytes: usize| memory(if gives == Gives::Tokens { bytes } else { 0 });
        Self {
            n_rows,
            several,
            gives,
            n_pages_max,
            start: memory(4 * (Start::N_WORDS + n_pages_max)),
            drawn: memory(size_of::<Drawn>() * TOKENS_MAX),
            sent: [(), ()].map(|()| cuda.device.host_memory(n_rows * size_of::<Drawn>() * TOKENS_MAX)),
            n_bursts: AtomicUsize::new(0),
            x: memory(4 * config.dim),
            act: zeros(2 * widest),
            low: memory(4 * rank),
            low_act: zeros(2 * 3 * rank),
            qkv: memory(4 * (config.q_dim() + 2 * config.kv_dim())),
            attended: zeros(2 * widest),
            gates: memory(8 * config.ffn_dim),
            hidden: zeros(2 * widest),
            logits: drawn(4 * logits_stride(config.vocab)),
            parts: drawn(8 * config.vocab.div_ceil(SEGMENT)),
            far: Far::new(&cuda.device, config, n_rows, n_pages_max),
            left: cuts.then(|| Left::new(cuda, n_rows, config.vocab)),
            alone: None,
        }
    }

    /// Where a part of what a burst begins with lies.
    pub(super) fn start(&self, of: Start) -> u64 {
        self.start.address() + (4 * of as usize * self.n_rows) as u64
    }

    /// Puts every sequence at its start, or lets it go on from where it is; rows of nobody go to the scratch page.
    pub(super) fn set(&self, cuda: &Cuda, rows: &[BurstRow<'_>], scratch: u32) {
        let Self { n_rows, n_pages_max, .. } = *self;
        let mut words = vec![0u32; n_rows * (Start::N_WORDS + n_pages_max)];
        let (of_rows, pages) = words.split_at_mut(n_rows * Start::N_WORDS);
        for i in 0..n_rows {
            let row = rows.get(i);
            let key = row.map_or(0, |row| row.stream.key());
            of_rows[2 * i..][..2].copy_from_slice(&[key as u32, (key >> 32) as u32]);
            let mut put = |of: Start, word: u32| of_rows[of as usize * n_rows + i] = word;
            put(Start::Ids, row.and_then(|row| row.id).unwrap_or(0));
            put(Start::Positions, row.map_or(0, |row| row.position as u32));
            put(Start::Inverses, row.map_or(1.0, |row| row.sampler.inv_temperature()).to_bits());
            put(Start::Greedy, row.is_none_or(|row| row.sampler.is_greedy()).into());
            put(Start::Behind, row.map_or(0, |row| row.n_behind as u32));
            let cut = row.map_or(cut::WHOLE, |row| cut::cut(&row.sampler));
            of_rows[Start::Cuts as usize * n_rows + 3 * i..][..3].copy_from_slice(&cut);
        }
        pages.fill(scratch);
        for (row, pages) in rows.iter().zip(pages.chunks_exact_mut(n_pages_max)) {
            pages[..row.pages.len()].copy_from_slice(row.pages);
        }
        // Who goes on has its token and its position already.
        let first = if go_on(rows) { Start::Drawn } else { Start::Keys };
        cuda.device.write(self.start(first), &words[first as usize * n_rows..]);
    }

    /// The turn of the next burst.
    pub(super) fn turn(&self) -> usize {
        self.n_bursts.fetch_add(1, Ordering::Relaxed) % self.sent.len()
    }

    /// Sends what these steps drew on its way to the host.
    pub(super) fn send(&self, device: &Device, turn: usize, steps: &Range<usize>) {
        let step = self.n_rows * size_of::<Drawn>();
        device.send(self.drawn.address() + (steps.start * step) as u64, &self.sent[turn], steps.start * step, steps.len() * step);
    }

    /// What was sent of these steps, for the first rows.
    pub(super) fn sent(&self, turn: usize, steps: &Range<usize>, n_sequences: usize) -> Draws {
        let all = self.sent[turn].read(steps.start * self.n_rows, steps.len() * self.n_rows);
        let token = |&[id, bits]: &Drawn| (id, f32::from_bits(bits));
        let tokens = all.chunks_exact(self.n_rows).flat_map(|rows| rows[..n_sequences].iter().map(token)).collect();
        Draws { n_sequences, tokens }
    }
}
