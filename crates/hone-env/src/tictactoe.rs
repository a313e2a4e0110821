//! Tic-tac-toe against an opponent of a stated skill.
//!
//! A scenario is an opening and an opponent. The opponent's every choice follows from its name and the position, so the best
//! result that a scenario allows is known by search, gold reaches exactly that, and nothing hangs on the episode's seed.
//! An episode succeeds when it reaches that best result: against a perfect opponent a draw. Openings that turn or mirror into
//! each other are one family, and a family's hash decides its split, so held-out games begin where no training game did.
//! Knows nothing of rewards.

mod dialect;
mod opponent;
mod position;

use crate::Dialect;
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
    /// How the game is told.
    pub dialect: Dialect,
}

impl Default for TicTacToeOptions {
    fn default() -> Self {
        Self { opponents: Skill::ALL.to_vec(), opening_marks_max: OPENING_MARKS_MAX, dialect: Dialect::default() }
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
        let game = self.game(scenario)?;
        let rules = dialect::rules(game.dialect, game.position.to_move());
        let messages = vec![Message::text(Role::System, rules), Message::text(Role::User, game.told())];
        Ok(Reset { episode: Box::new(game), tools: Arc::default(), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let opponent = self.game(scenario)?.opponent;
        Ok(self.scripted(move |position| opponent.best_answer(position).1))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        self.game(scenario)?;
        let mut draws = Draws::new(seed, &["tictactoe", "random"]);
        Ok(self.scripted(move |position| {
            let cells: Vec<usize> = position.empty().collect();
            (!cells.is_empty()).then(|| *draws.pick(&cells))
        }))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        self.game(scenario).map_or_else(|_| Signals::default(), |game| signals(game.best, Answer::Valid))
    }
}

/// So many openings are looked at before a split counts as empty.
const TRIES_MAX: usize = 2000;

impl TicTacToe {
    /// Who plays like an amateur: in this share of its moves as if the opponent never made a mistake, otherwise on any empty cell.
    pub fn amateur(&self, scenario: &Scenario, care: f64, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        self.game(scenario)?;
        let perfect = Opponent { skill: Skill::Perfect, name: seed.to_string() };
        let mut draws = Draws::new(seed, &["tictactoe", "amateur", scenario.id.as_str()]);
        Ok(self.scripted(move |position| {
            let cells: Vec<usize> = position.empty().collect();
            let is_careful = draws.chance(care);
            match cells.is_empty() {
                true => None,
                false if is_careful => Some(perfect.choose(position)),
                false => Some(*draws.pick(&cells)),
            }
        }))
    }

    /// Who takes the cell that is chosen for the position it sees.
    fn scripted(&self, mut choose: impl FnMut(Position) -> Option<usize> + Send + 'static) -> Box<dyn Conversation> {
        let dialect = self.options.dialect;
        Box::new(Scripted(move |input: &[Message]| {
            let position = input.last().and_then(|message| dialect::read(dialect, &message.content.text()));
            crate::said(position.and_then(&mut choose).map_or_else(String::new, |cell| dialect::name(dialect, cell)))
        }))
    }

    /// The game that a scenario begins.
    fn game(&self, scenario: &Scenario) -> Result<Game, EnvError> {
        let wrong = |reason: &str| EnvError::Scenario { scenario: scenario.id.to_string(), reason: reason.into() };
        let text = |key: &str| scenario.input.get(key).and_then(|value| value.as_str());
        let position = text("board").and_then(Position::parse).filter(|position| position.end().is_none());
        let skill = text("opponent").and_then(|word| Skill::ALL.into_iter().find(|skill| skill.as_str() == word));
        let best = scenario.truth.as_ref().and_then(|truth| truth.get("best")?.as_f64());
        Ok(Game {
            position: position.ok_or_else(|| wrong("its board is not a game of tic-tac-toe that goes on"))?,
            opponent: Opponent {
                skill: skill.ok_or_else(|| wrong("its opponent is none of random, blocks and perfect"))?,
                name: text("opponent_name").ok_or_else(|| wrong("its opponent has no name"))?.to_owned(),
            },
            best: best.ok_or_else(|| wrong("it does not say the best result"))?,
            dialect: self.options.dialect,
            is_over: false,
        })
    }

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
    dialect: Dialect,
    is_over: bool,
}

impl Game {
    /// What the agent sees.
    fn told(&self) -> String {
        dialect::told(self.dialect, self.position)
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
        let Some(cell) = last_move(action, |word| dialect::cell(self.dialect, word)) else {
            return Ok(self.end(0.0, Answer::Unreadable, error("unparsable_action", "the answer names no cell")));
        };
        if !self.position.empty().any(|empty| empty == cell) {
            return Ok(self.end(0.0, Answer::Taken, error("invalid_move", "that cell is taken")));
        }
        Ok(match self.opponent.answer(self.position.take(cell)) {
            Reply::Over(result) => self.end(result, Answer::Valid, Vec::new()),
            Reply::Next(next) => {
                self.position = next;
                let messages = vec![Message::text(Role::User, self.told())];
                Step { messages, signals: signals(0.0, Answer::Valid), ..Step::default() }
            }
        })
    }
}
