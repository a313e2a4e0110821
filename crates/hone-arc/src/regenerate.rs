//! New inputs for a task whose rule is known as a program: what comes out is what the program says.
//!
//! A new input is an input of the task that was turned, recoloured, shifted or cut, which is not yet augmentation: the rule stays
//! as it is, and its output is computed. What is degenerate is rejected: a program that fails, an output that is too large, is
//! the input again or has one colour where the task's outputs are neither, and an input or output that is there already.

use crate::augment::Symmetry;
use crate::grid::Grid;
use crate::task::{Pair, SIDE_MAX, Task};
use crate::world::Attempt;
use hone_trace::Draws;

/// So often an input is changed in search of one that is not degenerate.
const TRIES_MAX: usize = 60;
/// The most changes of one input.
const CHANGES_MAX: usize = 3;

/// The task with other inputs, and the outputs that a program makes of them; `None` where too few came out well. It is of the
/// same family.
pub fn regenerated(task: &Task, program: &str, draws: &mut Draws) -> Option<Task> {
    let attempt = Attempt::of(program).ok()?;
    let mut pairs: Vec<Pair> = Vec::new();
    while pairs.len() < task.pairs().count() {
        let found = (0..TRIES_MAX).find_map(|_| fresh(task, &attempt, &pairs, draws))?;
        pairs.push(found);
    }
    let test = pairs.split_off(task.train.len());
    Some(Task { id: format!("{}.new{:08x}", task.id, draws.bits() >> 32), family: task.family.clone(), train: pairs, test })
}

/// A pair that is not degenerate, if this draw gives one.
fn fresh(task: &Task, attempt: &Attempt, pairs: &[Pair], draws: &mut Draws) -> Option<Pair> {
    let inputs: Vec<&Grid> = task.pairs().map(|pair| &pair.input).collect();
    let mut input = (*draws.pick(&inputs)).clone();
    for _ in 0..=draws.below(CHANGES_MAX) {
        input = changed(&input, draws);
    }
    let output = attempt.run(&input).ok()?;
    let pair = Pair { input, output };
    (is_telling(&pair, task) && is_new(&pair, task, pairs)).then_some(pair)
}

/// Whether a pair says something of the rule.
fn is_telling(pair: &Pair, task: &Task) -> bool {
    let fits = |grid: &Grid| {
        let sides = 1..=SIDE_MAX;
        sides.contains(&grid.height()) && sides.contains(&grid.width()) && grid.cells().iter().all(|cell| (0..=9).contains(cell))
    };
    let is_uniform = |grid: &Grid| grid.cells().windows(2).all(|two| two[0] == two[1]);
    let may_be_same = task.pairs().any(|pair| pair.input == pair.output);
    let may_be_uniform = task.pairs().any(|pair| is_uniform(&pair.output));
    fits(&pair.input)
        && fits(&pair.output)
        && (may_be_same || pair.input != pair.output)
        && (may_be_uniform || !is_uniform(&pair.output))
}

/// Whether neither input nor output is there already; outputs may repeat where those of the task do.
fn is_new(pair: &Pair, task: &Task, pairs: &[Pair]) -> bool {
    let outputs: Vec<&Grid> = task.pairs().map(|pair| &pair.output).collect();
    let may_repeat = outputs.iter().enumerate().any(|(nth, output)| outputs[..nth].contains(output));
    let is_other = |other: &Pair| other.input != pair.input && (may_repeat || other.output != pair.output);
    task.pairs().chain(pairs).all(is_other)
}

/// A grid with one change that most rules survive.
fn changed(grid: &Grid, draws: &mut Draws) -> Grid {
    let colours: Vec<i8> = grid.counts().occurring().map(|(colour, _)| colour).collect();
    match draws.below(5) {
        0 => draws.pick(&Symmetry::ALL[1..]).apply(grid),
        1 => {
            let (a, b) = (*draws.pick(&colours), draws.between(1, 9) as i8);
            grid.map(|cell| {
                if cell == a {
                    b
                } else if cell == b {
                    a
                } else {
                    cell
                }
            })
        }
        2 => rolled(grid, draws.below(grid.height()), draws.below(grid.width())),
        3 => {
            let place = draws.below(grid.cells().len());
            let mut cells = grid.cells().to_vec();
            cells[place] = *draws.pick(&colours);
            Grid::new(grid.height(), grid.width(), cells)
        }
        _ => cut(grid, draws),
    }
}

/// What leaves at one side comes in at the other.
fn rolled(grid: &Grid, down: usize, right: usize) -> Grid {
    let (height, width) = (grid.height(), grid.width());
    let places = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
    let cell = |(row, column): (usize, usize)| grid.row((row + down) % height)[(column + right) % width];
    Grid::new(height, width, places.map(cell).collect())
}

/// The grid without its last row or column, where it has others.
fn cut(grid: &Grid, draws: &mut Draws) -> Grid {
    let is_row = draws.chance(0.5);
    let height = grid.height() - usize::from(is_row && grid.height() > 1);
    let width = grid.width() - usize::from(!is_row && grid.width() > 1);
    Grid::new(height, width, grid.rows().take(height).flat_map(|row| row[..width].to_vec()).collect())
}
