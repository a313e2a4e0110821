//! An opponent at tic-tac-toe, and the best that can be had against it.
//!
//! Its choice in a position is drawn from its name and the position alone, so a game against it is a puzzle for one.

use super::Skill;
use super::position::{End, Position};
use hone_trace::Draws;

/// An opponent.
#[derive(Debug, Clone)]
pub(super) struct Opponent {
    pub(super) skill: Skill,
    pub(super) name: String,
}

impl Opponent {
    /// The cell it takes. There must be an empty one.
    pub(super) fn choose(&self, position: Position) -> usize {
        let cells: Vec<usize> = position.empty().collect();
        let finishing = |position: Position| cells.iter().copied().find(|&cell| position.take(cell).end() == Some(End::Line));
        let any = |cells: &[usize]| *Draws::new(0, &["tictactoe", &self.name, &position.line()]).pick(cells);
        match self.skill {
            Skill::Random => any(&cells),
            Skill::Blocks => finishing(position).or_else(|| finishing(position.passed())).unwrap_or_else(|| any(&cells)),
            Skill::Perfect => {
                let value = |&cell: &usize| -position.take(cell).value();
                let top = cells.iter().map(value).max().unwrap_or(0);
                let best: Vec<usize> = cells.iter().copied().filter(|cell| value(cell) == top).collect();
                any(&best)
            }
        }
    }

    /// The best result against this opponent for the one whose move it is, and the cell that leads there.
    pub(super) fn best_answer(&self, position: Position) -> (f64, Option<usize>) {
        let mut best = (-1.0, None);
        for cell in position.empty() {
            let result = match self.answer(position.take(cell)) {
                Reply::Over(result) => result,
                Reply::Next(next) => self.best_answer(next).0,
            };
            if result > best.0 {
                best = (result, Some(cell));
            }
        }
        best
    }

    /// What becomes of a position that the agent has moved in.
    pub(super) fn answer(&self, position: Position) -> Reply {
        match position.end() {
            Some(End::Line) => return Reply::Over(1.0),
            Some(End::Full) => return Reply::Over(0.5),
            None => {}
        }
        let next = position.take(self.choose(position));
        match next.end() {
            Some(End::Line) => Reply::Over(0.0),
            Some(End::Full) => Reply::Over(0.5),
            None => Reply::Next(next),
        }
    }
}

/// What becomes of a move.
pub(super) enum Reply {
    /// The game is over, with this result for the agent.
    Over(f64),
    /// The agent's move again.
    Next(Position),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opponents_play_as_well_as_they_are_said_to() {
        let play = |skill, line: &str| {
            let opponent = Opponent { skill, name: "test".into() };
            opponent.choose(Position::parse(line).unwrap())
        };
        // O to move: it can win at 6, and must otherwise block at 3.
        assert_eq!(play(Skill::Blocks, "X X 3 O O 6 7 X 9"), 5);
        assert_eq!(play(Skill::Blocks, "X X 3 O 5 6 7 8 9"), 2);
        // The one answer to a corner is the middle.
        assert_eq!(play(Skill::Perfect, "X 2 3 4 5 6 7 8 9"), 4);
    }

    #[test]
    fn the_best_against_a_perfect_opponent_is_a_draw() {
        let best = |skill| Opponent { skill, name: "test".into() }.best_answer(Position::default()).0;
        assert_eq!(best(Skill::Perfect), 0.5);
        assert_eq!(best(Skill::Random), 1.0);
    }
}
