//! Other tasks from a task: turned or mirrored, recoloured, with its examples in another order.
//!
//! What is done to a task can be undone, so that a program or an answer for the one serves the other. All of them are
//! one family with the task they come from, and a family is never divided between splits.

use crate::grid::Grid;
use crate::shipped::ENTRY;
use crate::task::{Pair, Task};
use hone_trace::Draws;

/// A way to lay a square upon itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symmetry {
    /// As it is.
    Same,
    /// A quarter turn clockwise.
    Rot90,
    /// Half a turn.
    Rot180,
    /// A quarter turn anticlockwise.
    Rot270,
    /// Upside down.
    Hmirror,
    /// Left and right exchanged.
    Vmirror,
    /// Rows and columns exchanged.
    Dmirror,
    /// Mirrored in the other diagonal.
    Cmirror,
}

impl Symmetry {
    /// All eight.
    pub const ALL: [Self; 8] =
        [Self::Same, Self::Rot90, Self::Rot180, Self::Rot270, Self::Hmirror, Self::Vmirror, Self::Dmirror, Self::Cmirror];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Rot90 => "rot90",
            Self::Rot180 => "rot180",
            Self::Rot270 => "rot270",
            Self::Hmirror => "hmirror",
            Self::Vmirror => "vmirror",
            Self::Dmirror => "dmirror",
            Self::Cmirror => "cmirror",
        }
    }

    /// A grid laid so.
    pub fn apply(self, grid: &Grid) -> Grid {
        match self {
            Self::Same => grid.clone(),
            Self::Rot90 => grid.rot90(),
            Self::Rot180 => grid.rot180(),
            Self::Rot270 => grid.rot270(),
            Self::Hmirror => grid.hmirror(),
            Self::Vmirror => grid.vmirror(),
            Self::Dmirror => grid.dmirror(),
            Self::Cmirror => grid.cmirror(),
        }
    }

    /// What undoes it.
    pub fn inverse(self) -> Self {
        match self {
            Self::Rot90 => Self::Rot270,
            Self::Rot270 => Self::Rot90,
            own_inverse => own_inverse,
        }
    }
}

/// A colour for each of the ten, every one once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recolouring([u8; 10]);

impl Recolouring {
    /// Every colour stays.
    pub const SAME: Self = Self([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);

    /// The colours that 0 to 9 become, or `None` where one is missing.
    pub fn new(becomes: [u8; 10]) -> Option<Self> {
        let mut sorted = becomes;
        sorted.sort_unstable();
        (sorted == Self::SAME.0).then_some(Self(becomes))
    }

    /// A grid recoloured; marks that are no colour of a task stay.
    pub fn apply(&self, grid: &Grid) -> Grid {
        grid.map(|colour| usize::try_from(colour).ok().and_then(|at| self.0.get(at)).map_or(colour, |&new| new as i8))
    }

    /// What undoes it.
    pub fn inverse(&self) -> Self {
        let mut back = [0; 10];
        for (old, &new) in (0..).zip(&self.0) {
            back[usize::from(new)] = old;
        }
        Self(back)
    }
}

/// What makes another task of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Augmentation {
    /// How grids are laid.
    pub symmetry: Symmetry,
    /// What becomes of colours.
    pub recolouring: Recolouring,
    /// Which train pair comes first, second and so on.
    train_order: Vec<usize>,
}

impl Augmentation {
    /// The task and the augmentation that the id of an augmented task names.
    pub fn named(id: &str) -> Option<(&str, Self)> {
        let id = id.strip_suffix(".varied").unwrap_or(id);
        let mut parts = id.rsplitn(4, '.');
        let (order, colours, symmetry, task) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let digits = |text: &str| text.chars().map(|digit| digit.to_digit(10)).collect::<Option<Vec<u32>>>();
        let colours: Vec<u8> = digits(colours)?.into_iter().map(|colour| colour as u8).collect();
        let train_order: Vec<usize> = digits(order)?.into_iter().map(|nth| nth as usize).collect();
        Some((
            task,
            Self {
                symmetry: Symmetry::ALL.into_iter().find(|one| one.as_str() == symmetry)?,
                recolouring: Recolouring::new(colours.try_into().ok()?)?,
                train_order,
            },
        ))
    }

    /// An augmentation of a task with this many train pairs, drawn at random. Black, the usual background, stays black.
    pub fn draw(draws: &mut Draws, n_train: usize) -> Self {
        let mut colours = Recolouring::SAME.0;
        draws.shuffle(&mut colours[1..]);
        let mut train_order: Vec<usize> = (0..n_train).collect();
        draws.shuffle(&mut train_order);
        Self { symmetry: *draws.pick(&Symmetry::ALL), recolouring: Recolouring(colours), train_order }
    }

    /// The other task. Its id names what was done; its family is that of the task.
    pub fn apply(&self, task: &Task) -> Task {
        let pair = |pair: &Pair| Pair { input: self.grid(&pair.input), output: self.grid(&pair.output) };
        let digits =
            |numbers: &mut dyn Iterator<Item = usize>| numbers.map(|number| number.to_string()).collect::<Vec<_>>().join("");
        let colours = digits(&mut self.recolouring.0.iter().map(|&colour| usize::from(colour)));
        let order = digits(&mut self.train_order.iter().copied());
        Task {
            id: format!("{}.{}.{colours}.{order}", task.id, self.symmetry.as_str()),
            family: task.family.clone(),
            train: self.train_order.iter().filter_map(|&nth| task.train.get(nth)).map(pair).collect(),
            test: task.test.iter().map(pair).collect(),
        }
    }

    /// A program for the other task, from one for the task: it lays the grid back, runs that, and lays what comes of it.
    pub fn program(&self, program: &str) -> String {
        let recoloured = |recolouring: &Recolouring| {
            let colours: Vec<String> = recolouring.0.iter().map(u8::to_string).collect();
            format!("tuple(tuple(({})[cell] for cell in row) for row in x)", colours.join(", "))
        };
        let laid = |symmetry: Symmetry| if symmetry == Symmetry::Same { "identity" } else { symmetry.as_str() };
        format!(
            "{}\n\ndef {ENTRY}(I):\n    x = I\n    x = {}\n    x = {}(x)\n    x = rule(x)\n    x = {}(x)\n    O = {}\n    return O\n",
            program.replace(&format!("def {ENTRY}("), "def rule("),
            recoloured(&self.recolouring.inverse()),
            laid(self.symmetry.inverse()),
            laid(self.symmetry),
            recoloured(&self.recolouring),
        )
    }

    /// A grid of the other task.
    pub fn grid(&self, grid: &Grid) -> Grid {
        self.recolouring.apply(&self.symmetry.apply(grid))
    }

    /// The grid of the task that a grid of the other task comes from.
    pub fn undo(&self, grid: &Grid) -> Grid {
        self.symmetry.inverse().apply(&self.recolouring.inverse().apply(grid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::from_rows(&[&[0, 1, 2][..], &[3, 4, 9][..]]).unwrap()
    }

    #[test]
    fn every_symmetry_is_undone_by_its_inverse_and_no_two_are_alike() {
        let laid: Vec<Grid> = Symmetry::ALL.iter().map(|symmetry| symmetry.apply(&grid())).collect();
        for (nth, symmetry) in Symmetry::ALL.iter().enumerate() {
            assert_eq!(symmetry.inverse().apply(&laid[nth]), grid(), "{}", symmetry.as_str());
            assert!(!laid[..nth].contains(&laid[nth]), "{}", symmetry.as_str());
        }
    }

    #[test]
    fn a_drawn_augmentation_keeps_black_and_the_family_and_can_be_undone() {
        let pair = || Pair { input: grid(), output: grid().rot90() };
        let task = Task { id: "a".into(), family: "a".into(), train: vec![pair(), pair(), pair()], test: vec![pair()] };
        for seed in 0..200 {
            let augmentation = Augmentation::draw(&mut Draws::new(seed, &["augment"]), task.train.len());
            let other = augmentation.apply(&task);
            assert_eq!((other.family.as_str(), other.train.len(), other.test.len()), ("a", 3, 1));
            assert_eq!(augmentation.undo(&other.test[0].input), task.test[0].input);
            assert_eq!(augmentation.undo(&other.train[2].output), task.train[0].output);
            assert_eq!(other.test[0].input.counts().get(0), 1);
            assert_eq!(Augmentation::named(&other.id), Some(("a", augmentation)));
        }
    }

    #[test]
    fn a_recolouring_has_every_colour_once() {
        assert_eq!(Recolouring::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 8]), None);
        assert!(Recolouring::new([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]).is_some());
    }
}
