//! Tic-tac-toe against an opponent of a stated skill.
//!
//! A scenario is an opening and an opponent. The opponent's every choice follows from its name and the position, so the best
//! result that a scenario allows is known by search, gold reaches exactly that, and nothing hangs on the episode's seed.
//! An episode succeeds when it reaches that best result: against a perfect opponent a draw. Openings that turn or mirror into
//! each other are one family, and a family's hash decides its split, so held-out games begin where no training game did.
//! Knows nothing of rewards.

mod opponent;
mod position;

use crate::player::Scripted;
use crate::word::last_move;
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::Conversation;
use hone_trace::{Category, Draws, ErrorEvent, Family, Message, Role, Scenario, ScenarioId, TraceOutcome, V1};
use opponent::{Opponent, Reply};
use position::Position;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Who the agent may meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TicTacToeOptions {
    /// The skills of the opponents, met equally often. Default: all three.
    pub opponents: Vec<Skill>,
    /// How many marks an opening has at most, from 0 to 4. Default 4.
    pub opening_marks_max: usize,
}

impl Default for TicTacToeOptions {
    fn default() -> Self {
        Self { opponents: Skill::ALL.to_vec(), opening_marks_max: OPENING_MARKS_MAX }
    }
}

const OPENING_MARKS_MAX: usize = 4;

/// How well an opponent plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skill {
    /// Any empty cell.
    Random,
    /// Wins where it can, else blocks where it must, else any empty cell.
    Blocks,
    /// Never makes a mistake.
    Perfect,
}

impl Skill {
    const ALL: [Self; 3] = [Self::Random, Self::Blocks, Self::Perfect];

    fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Blocks => "blocks",
            Self::Perfect => "perfect",
        }
    }
}

/// The world of tic-tac-toe.
#[derive(Debug, Clone)]
pub struct TicTacToe {
    options: TicTacToeOptions,
}

impl TicTacToe {
    /// The world with these options.
    pub fn new(options: TicTacToeOptions) -> Result<Self, EnvError> {
        let wrong = |place: &str, reason: &str| EnvError::Data { place: format!("tictactoe: {place}"), reason: reason.into() };
        if options.opponents.is_empty() {
            return Err(wrong("opponents", "names nobody to play against"));
        }
        if options.opening_marks_max > OPENING_MARKS_MAX {
            return Err(wrong("opening_marks_max", "is more than 4, which leaves hardly a game"));
        }
        Ok(Self { options })
    }
}

impl Env for TicTacToe {
    fn name(&self) -> &str {
        "tictactoe"
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        // With few marks a split may have no opening at all: then fewer scenarios come back.
        Ok((0..n).map_while(|idx| self.scenario(split, seed, idx)).collect())
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let game = Game::start(scenario)?;
        let rules = format!(
            "You play tic-tac-toe as {}. Empty cells are shown by their numbers. Answer with the number of the cell you take. \
             A cell that is not empty loses the game.",
            game.agent()
        );
        let messages = vec![Message::text(Role::System, rules), Message::text(Role::User, game.position.text())];
        Ok(Reset { episode: Box::new(game), tools: Arc::default(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let opponent = Game::start(scenario)?.opponent;
        Ok(Box::new(Scripted(move |input: &[Message]| {
            let position = input.last().and_then(|message| Position::parse(&message.content.text()));
            let cell = position.and_then(|position| opponent.best_answer(position).1);
            crate::said(cell.map_or(String::new(), |cell| (cell + 1).to_string()))
        })))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        Game::start(scenario)?;
        let mut draws = Draws::new(seed, &["tictactoe", "random"]);
        Ok(Box::new(Scripted(move |input: &[Message]| {
            let position = input.last().and_then(|message| Position::parse(&message.content.text()));
            let cells: Vec<usize> = position.iter().flat_map(|position| position.empty()).collect();
            crate::said(if cells.is_empty() { String::new() } else { (draws.pick(&cells) + 1).to_string() })
        })))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        Game::start(scenario).map_or_else(|_| Signals::default(), |game| signals(game.best, Answer::Valid))
    }
}

/// So many openings are looked at before a split counts as empty.
const TRIES_MAX: usize = 2000;

impl TicTacToe {
    fn scenario(&self, split: Split, seed: u64, idx: usize) -> Option<Scenario> {
        let name = format!("{}/{seed}/{idx}", split.as_str());
        let mut draws = Draws::new(seed, &["tictactoe", "opening", &name]);
        let skill = *draws.pick(&self.options.opponents);
        let opponent = Opponent { skill, name };
        for _ in 0..TRIES_MAX {
            let mut opening = Position::default();
            for _ in 0..draws.below(self.options.opening_marks_max + 1) {
                let cells: Vec<usize> = opening.empty().collect();
                opening = opening.take(*draws.pick(&cells));
            }
            // Four marks cannot end a game, but they can lose it: such an opening teaches nothing.
            let best = if split_of(opening) == split { opponent.best_answer(opening).0 } else { 0.0 };
            if best <= 0.0 {
                continue;
            }
            let skill = opponent.skill.as_str();
            return Some(Scenario {
                v: V1,
                id: ScenarioId::new(format!("tictactoe/{}/{skill}/{}", opening.line(), opponent.name)).ok()?,
                category: Category::new(format!("tictactoe-{skill}")).ok()?,
                input: json!({"board": opening.text(), "opponent": skill, "opponent_name": opponent.name}),
                truth: Some(json!({"best": best})),
                difficulty: Some(match opponent.skill {
                    Skill::Random => 0.0,
                    Skill::Blocks => 0.5,
                    Skill::Perfect => 1.0,
                }),
                family: Family::new(format!("tictactoe/{}", opening.canonical().line())).ok()?,
            });
        }
        None
    }
}

/// The split that this opening and its mirror images belong to: three in ten are held back, for there are few.
fn split_of(opening: Position) -> Split {
    match Draws::new(0, &["tictactoe", "split", &opening.canonical().line()]).below(20) {
        0..3 => Split::Validation,
        3..6 => Split::Test,
        _ => Split::Train,
    }
}

/// How an answer could be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Unreadable,
    Taken,
    Valid,
}

fn signals(result: f64, answer: Answer) -> Signals {
    let flag = |is_so: bool| f64::from(u8::from(is_so));
    Signals::from([("result", result), ("format", flag(answer != Answer::Unreadable)), ("valid", flag(answer == Answer::Valid))])
}

struct Game {
    position: Position,
    opponent: Opponent,
    best: f64,
    is_over: bool,
}

impl Game {
    fn start(scenario: &Scenario) -> Result<Self, EnvError> {
        let wrong = |reason: &str| EnvError::Scenario { scenario: scenario.id.to_string(), reason: reason.into() };
        let text = |key: &str| scenario.input.get(key).and_then(|value| value.as_str());
        let position = text("board").and_then(Position::parse).filter(|position| position.end().is_none());
        let skill = text("opponent").and_then(|word| Skill::ALL.into_iter().find(|skill| skill.as_str() == word));
        let best = scenario.truth.as_ref().and_then(|truth| truth.get("best")?.as_f64());
        Ok(Self {
            position: position.ok_or_else(|| wrong("its board is not a game of tic-tac-toe that goes on"))?,
            opponent: Opponent {
                skill: skill.ok_or_else(|| wrong("its opponent is none of random, blocks and perfect"))?,
                name: text("opponent_name").ok_or_else(|| wrong("its opponent has no name"))?.to_owned(),
            },
            best: best.ok_or_else(|| wrong("it does not say the best result"))?,
            is_over: false,
        })
    }

    fn agent(&self) -> char {
        self.position.to_move()
    }

    fn end(&mut self, result: f64, answer: Answer, errors: Vec<ErrorEvent>) -> Step {
        self.is_over = true;
        let is_best = answer == Answer::Valid && result >= self.best;
        let done = Some(if is_best { TraceOutcome::Success } else { TraceOutcome::Failure });
        Step { signals: signals(result, answer), errors, done, ..Step::default() }
    }
}

impl Play for Game {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if self.is_over {
            return Err(EnvError::Broken("tictactoe: the game is over".into()));
        }
        let error = |kind: &str, message: &str| vec![ErrorEvent { kind: kind.into(), recovered: false, message: message.into() }];
        let Some(cell) = last_move(action, read_cell) else {
            return Ok(self.end(0.0, Answer::Unreadable, error("unparsable_action", "the answer names no cell")));
        };
        if !self.position.empty().any(|empty| empty == cell) {
            return Ok(self.end(0.0, Answer::Taken, error("invalid_move", "that cell is taken")));
        }
        Ok(match self.opponent.answer(self.position.take(cell)) {
            Reply::Over(result) => self.end(result, Answer::Valid, Vec::new()),
            Reply::Next(next) => {
                self.position = next;
                let messages = vec![Message::text(Role::User, next.text())];
                Step { messages, signals: signals(0.0, Answer::Valid), ..Step::default() }
            }
        })
    }
}

/// A cell from its number, `1` to `9`, or its column and row, `a1` (first) to `c3` (last).
fn read_cell(word: &str) -> Option<usize> {
    match *word.as_bytes() {
        [digit @ b'1'..=b'9'] => Some(usize::from(digit - b'1')),
        [column, row @ b'1'..=b'3'] => match column.to_ascii_lowercase() {
            column @ b'a'..=b'c' => Some(3 * usize::from(row - b'1') + usize::from(column - b'a')),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_a_number_and_a_place() {
        let check = |word: &str, cell: Option<usize>| assert_eq!(read_cell(word), cell, "{word}");
        check("1", Some(0));
        check("9", Some(8));
        check("b2", Some(4));
        check("C1", Some(2));
        check("a3", Some(6));
        ["0", "10", "d1", "a4", "", "b", "2b"].into_iter().for_each(|word| check(word, None));
    }
}
