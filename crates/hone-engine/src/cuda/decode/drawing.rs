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

/// Steps that are recorded in a row.
pub(super) const IN_A_ROW: usize = 8;

/// A recorded step, and some of them in a row where what lies between two launches counts.
pub(super) struct Steps {
    pub(super) one: Graph,
    pub(super) in_a_row: Option<Graph>,
}

impl Steps {
    /// Steps that are the last part of a burst: the GPU is busy with them while the host uses the others.
    fn n_late(&self) -> usize {
        if self.in_a_row.is_some() { IN_A_ROW } else { LATE }
    }

    fn launch(&self, n: usize) {
        let n_rows = if self.in_a_row.is_some() { n / IN_A_ROW } else { 0 };
        self.in_a_row.iter().for_each(|graph| (0..n_rows).for_each(|_| graph.launch()));
        (n_rows * IN_A_ROW..n).for_each(|_| self.one.launch());
    }
}

/// Tokens that are being drawn, in parts.
pub(super) struct Drawing {
    room: Arc<Room>,
    turn: usize,
    n_sequences: usize,
    /// Steps that were not used yet, each with a mark behind the last of them.
    parts: VecDeque<(Range<usize>, Mark)>,
}

impl Drawing {
    /// Asks for so many tokens of every sequence, each a recorded step.
    pub(super) fn new(device: &Arc<Device>, recorded: &Steps, room: &Arc<Room>, n_sequences: usize, n_tokens: usize) -> Self {
        let turn = room.turn();
        let n_early = n_tokens.saturating_sub(recorded.n_late());
        let steps = [0..n_early, n_early..n_tokens].into_iter().filter(|steps| !steps.is_empty());
        let part = |steps: Range<usize>| {
            recorded.launch(steps.len());
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
