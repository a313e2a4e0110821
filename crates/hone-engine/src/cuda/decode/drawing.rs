//! A burst on its way: the host uses what was drawn while the rest of it is computed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::room::Room;
use crate::backend::Draws;
use crate::cuda::device::Device;
use crate::cuda::graph::{Graph, Mark};

/// How many steps are recorded in a row, and how many are the last part of a burst: the GPU is busy with these while the host uses the
/// others. A burst of sixteen is two rows of many launches each and two steps more, or two rows of few launches.
const OF_MANY: (usize, usize) = (7, 2);
const OF_FEW: (usize, usize) = (8, 8);

/// A recorded step, and some of them in a row: between two graphs the GPU waits for a few microseconds.
pub(super) struct Steps {
    pub(super) one: Graph,
    in_a_row: Option<(usize, Graph)>,
    n_late: usize,
}

impl Steps {
    /// Steps of few launches or of many, some of them in a row where that `pays`; `record` is told how many.
    pub(super) fn new(are_few: bool, pays: bool, record: impl Fn(usize) -> Graph) -> Self {
        let (n_in_a_row, n_late) = if are_few { OF_FEW } else { OF_MANY };
        let in_a_row = pays.then(|| (n_in_a_row, record(n_in_a_row)));
        Self { one: record(1), in_a_row, n_late }
    }

    fn launch(&self, n: usize) {
        let mut n_left = n;
        if let Some((n_each, graph)) = &self.in_a_row {
            (0..n / n_each).for_each(|_| graph.launch());
            n_left = n % n_each;
        }
        (0..n_left).for_each(|_| self.one.launch());
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
        let n_early = n_tokens.saturating_sub(recorded.n_late);
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
