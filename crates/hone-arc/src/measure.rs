//! How hard a task looks before anyone tried it.

use crate::task::{Pair, Task};

/// The cells of the largest grid.
const CELLS_MAX: f64 = 900.0;
const COLOURS_MAX: f64 = 10.0;

/// From 0 (easy) to 1 (hard): how large the grids are, how many colours they have, and how much of them changes, in equal parts.
/// A grid that changes its size changes altogether.
pub fn difficulty(task: &Task) -> f64 {
    let n = task.pairs().count().max(1) as f64;
    let of_pair = |pair: &Pair| (size(pair) + colours(pair) + change(pair)) / 3.0;
    task.pairs().map(of_pair).sum::<f64>() / n
}

fn size(pair: &Pair) -> f64 {
    let n_cells = pair.input.cells().len().max(pair.output.cells().len());
    (n_cells as f64 / CELLS_MAX).sqrt().min(1.0)
}

fn colours(pair: &Pair) -> f64 {
    let n = (0..10).filter(|&colour| pair.input.counts().get(colour) + pair.output.counts().get(colour) > 0).count();
    n as f64 / COLOURS_MAX
}

fn change(pair: &Pair) -> f64 {
    let (from, to) = (&pair.input, &pair.output);
    if (from.height(), from.width()) != (to.height(), to.width()) {
        return 1.0;
    }
    let n_changed = from.cells().iter().zip(to.cells()).filter(|(from, to)| from != to).count();
    n_changed as f64 / to.cells().len().max(1) as f64
}
