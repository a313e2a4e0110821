//! A burst on its way: the host uses what was drawn while the rest of it is computed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::room::Room;
use crate::backend::Draws;
use crate::cuda::device::Device;
use crate::cuda::graph::{Graph, Mark};

/// Steps at the end of a burst, for whose tokens the GPU waits.
const LATE: usize = 2;

/// Tokens that are being drawn, in parts.
pub(super) struct Drawing {
    room: Arc<Room>,
    turn: usize,
    n_sequences: usize,
    /// Steps that were not used yet, each with a mark behind the last of them.
    parts: VecDeque<(Range<usize>, Mark)>,
}

impl Drawing {
    /// Asks for so many tokens of every sequence, each a run of the graph.
    pub(super) fn new(device: &Arc<Device>, step: &Graph, room: &Arc<Room>, n_sequences: usize, n_tokens: usize) -> Self {
        let turn = room.turn();
        let n_early = n_tokens.saturating_sub(LATE);
        let steps = [0..n_early, n_early..n_tokens].into_iter().filter(|steps| !steps.is_empty());
        let part = |steps: Range<usize>| {
            steps.clone().for_each(|_| step.launch());
            room.send(device, turn, &steps);
            (steps, device.mark())
        };
        Self { room: Arc::clone(room), turn, n_sequences, parts: steps.map(part).collect() }
    }
}

impl Iterator for Drawing {
    type Item = Draws;

    fn next(&mut self) -> Option<Draws> {
        let (steps, mark) = self.parts.pop_front()?;
        mark.wait();
        Some(self.room.sent(self.turn, &steps, self.n_sequences))
    }
}
