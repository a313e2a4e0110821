//! 2048: slide and merge tiles on a board of four by four until one reaches the winning tile.
//!
//! A scenario is a start of two tiles; the tiles that appear later are drawn from the episode's seed. The policy sees the
//! board as text, in one of two dialects ([`Dialect::Natural`] for large models, [`Dialect::Short`] for small ones), and answers
//! with a direction. An answer without one, or one by which nothing moves, ends the game. Starts that turn or mirror into each
//! other are one family, and a family's hash decides its split.
//! Knows nothing of rewards: how much the highest tile counts against the board's value is weighed elsewhere.

mod board;
mod dialect;
mod expectimax;

use crate::Dialect;
use crate::player::Scripted;
use crate::word::last_move;
use board::{Board, Move, Tiles};
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::Conversation;
use hone_trace::{Category, Draws, ErrorEvent, Family, Message, Role, Scenario, ScenarioId, Trace, TraceOutcome, V1};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// How the game is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Twenty48Options {
    /// The tile that wins: a power of two from 8 to 32768. Default 128.
    pub winning_tile: u32,
    /// How the game is told.
    pub dialect: Dialect,
}

impl Default for Twenty48Options {
    fn default() -> Self {
        Self { winning_tile: 128, dialect: Dialect::default() }
    }
}

/// The world of 2048.
#[derive(Debug, Clone, Copy)]
pub struct Twenty48 {
    options: Twenty48Options,
}

impl Twenty48 {
    /// The world with these options.
    pub fn new(options: Twenty48Options) -> Result<Self, EnvError> {
        match winning_exponent(u64::from(options.winning_tile)) {
            Some(_) => Ok(Self { options }),
            None => Err(EnvError::Data {
                place: "2048: winning_tile".into(),
                reason: format!("{} is not a power of two from 8 to 32768", options.winning_tile),
            }),
        }
    }
}

impl Env for Twenty48 {
    fn name(&self) -> &str {
        "2048"
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        Ok((0..n).map(|idx| self.scenario(split, seed, idx)).collect())
    }

    fn reset(&self, scenario: &Scenario, seed: u64) -> Result<Reset, EnvError> {
        let (board, winning) = start(scenario)?;
        let draws = Draws::new(seed, &["2048", scenario.id.as_str()]);
        let dialect = self.options.dialect;
        let messages = vec![
            Message::text(Role::System, dialect::rules(dialect, winning)),
            Message::text(Role::User, dialect::told(dialect, board)),
        ];
        Ok(Reset { episode: Box::new(Game { board, winning, draws, dialect, is_over: false }), tools: Arc::default(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        start(scenario)?;
        let dialect = self.options.dialect;
        Ok(Box::new(Scripted(move |input: &[Message]| {
            crate::said(seen(dialect, input).and_then(expectimax::best_move).map_or("", Move::as_str))
        })))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        start(scenario)?;
        let mut draws = Draws::new(seed, &["2048", "random"]);
        Ok(Box::new(Scripted(move |_: &[Message]| crate::said(draws.pick(&Move::ALL).as_str()))))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        // The least board that wins is the winning tile alone; room is a means, and none of it is needed.
        let least = |winning: u32| Tiles { highest: winning, sum: 1 << winning, n_empty: 0 };
        start(scenario).map_or_else(|_| Signals::default(), |(_, winning)| signals(least(winning), winning, Answer::Valid))
    }
}

impl Twenty48 {
    /// Every word of the short dialect, to build a small vocabulary from.
    pub fn words() -> String {
        dialect::words()
    }

    /// Who takes any move that changes the board: random play that knows the rules.
    pub fn legal(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        start(scenario)?;
        let dialect = self.options.dialect;
        let mut draws = Draws::new(seed, &["2048", "legal"]);
        Ok(Box::new(Scripted(move |input: &[Message]| {
            let moves: Vec<Move> = seen(dialect, input).iter().flat_map(|board| board.moves()).collect();
            crate::said(if moves.is_empty() { "" } else { draws.pick(&moves).as_str() })
        })))
    }

    /// The highest tile that a trace ends with, from its signals.
    pub fn highest_tile(&self, trace: &Trace) -> u32 {
        let share = trace.turns().last().and_then(|turn| turn.signals.get("highest_tile")).copied().unwrap_or(0.0);
        let winning = f64::from(self.options.winning_tile.trailing_zeros());
        1 << (1.0 + share * (winning - 1.0)).round() as u32
    }

    fn scenario(&self, split: Split, seed: u64, idx: usize) -> Scenario {
        let id = format!("2048/{}/{}/{seed}/{idx}", self.options.winning_tile, split.as_str());
        let mut draws = Draws::new(seed, &["2048", "start", &id]);
        // Every split holds a good part of the 480 starts, so that this ends soon.
        let start = loop {
            let board = Board(0).spawn(&mut draws).spawn(&mut draws);
            if split_of(board) == split {
                break board;
            }
        };
        Scenario {
            v: V1,
            id: ScenarioId::new(id).expect("an id of digits and words is a name"),
            category: Category::new("2048").expect("2048 is a name"),
            input: json!({"board": start.text(), "winning_tile": self.options.winning_tile}),
            truth: None,
            difficulty: None,
            family: Family::new(format!("2048/{:016x}", start.canonical().0)).expect("a hexadecimal number is a name"),
        }
    }
}

/// The split that this start and its mirror images belong to: one in five is held back.
fn split_of(start: Board) -> Split {
    match Draws::new(0, &["2048", "split", &start.canonical().0.to_string()]).below(10) {
        0 => Split::Validation,
        1 => Split::Test,
        _ => Split::Train,
    }
}

/// The board that a scenario starts from, and the exponent of the tile that wins.
fn start(scenario: &Scenario) -> Result<(Board, u32), EnvError> {
    let wrong = |reason: &str| EnvError::Scenario { scenario: scenario.id.to_string(), reason: reason.into() };
    let board = scenario.input.get("board").and_then(|board| Board::parse(board.as_str()?));
    let winning = scenario.input.get("winning_tile").and_then(|tile| winning_exponent(tile.as_u64()?));
    let winning = winning.ok_or_else(|| wrong("winning_tile is not a power of two from 8 to 32768"))?;
    match board {
        None => Err(wrong("its board is not sixteen tiles of 2048")),
        Some(board) if !board.can_move() || board.tiles().highest >= winning => Err(wrong("the game is over before it begins")),
        Some(board) => Ok((board, winning)),
    }
}

fn winning_exponent(tile: u64) -> Option<u32> {
    ((8..=32768).contains(&tile) && tile.is_power_of_two()).then(|| tile.trailing_zeros())
}

/// The board that was told last.
fn seen(dialect: Dialect, input: &[Message]) -> Option<Board> {
    input.last().and_then(|message| dialect::read(dialect, &message.content.text()))
}

/// How an answer could be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Unreadable,
    Stuck,
    Valid,
}

/// What is measured of a board, on scales from 0 to 1 that double tiles climb evenly.
fn signals(tiles: Tiles, winning: u32, answer: Answer) -> Signals {
    let (highest, top) = (f64::from(tiles.highest), f64::from(winning));
    let value = f64::from(tiles.sum.max(2)).log2();
    let flag = |is_so: bool| f64::from(u8::from(is_so));
    Signals::from([
        ("highest_tile", ((highest - 1.0) / (top - 1.0)).clamp(0.0, 1.0)),
        ("board_value", ((value - 1.0) / (top + 3.0)).clamp(0.0, 1.0)),
        ("room", tiles.n_empty as f64 / 16.0),
        ("won", flag(tiles.highest >= winning)),
        ("format", flag(answer != Answer::Unreadable)),
        ("valid", flag(answer == Answer::Valid)),
    ])
}

struct Game {
    board: Board,
    winning: u32,
    draws: Draws,
    dialect: Dialect,
    is_over: bool,
}

impl Play for Game {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if self.is_over {
            return Err(EnvError::Broken("2048: the game is over".into()));
        }
        let Some(dir) = last_move(action, Move::read) else {
            return Ok(self.end(Answer::Unreadable, "the answer names none of left, right, up and down"));
        };
        let slid = self.board.slide(dir);
        if slid == self.board {
            return Ok(self.end(Answer::Stuck, "nothing moves that way"));
        }
        self.board = slid.spawn(&mut self.draws);
        let tiles = self.board.tiles();
        let done = if tiles.highest >= self.winning {
            Some(TraceOutcome::Success)
        } else if !self.board.can_move() {
            Some(TraceOutcome::Failure)
        } else {
            None
        };
        self.is_over = done.is_some();
        Ok(Step {
            messages: vec![Message::text(Role::User, dialect::told(self.dialect, self.board))],
            signals: signals(tiles, self.winning, Answer::Valid),
            done,
            ..Step::default()
        })
    }
}

impl Game {
    fn end(&mut self, answer: Answer, message: &str) -> Step {
        self.is_over = true;
        let kind = if answer == Answer::Stuck { "invalid_move" } else { "unparsable_action" };
        Step {
            errors: vec![ErrorEvent { kind: kind.into(), recovered: false, message: message.into() }],
            signals: signals(self.board.tiles(), self.winning, answer),
            done: Some(TraceOutcome::Failure),
            ..Step::default()
        }
    }
}
