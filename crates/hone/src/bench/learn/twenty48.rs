//! 2048: how high the tiles are that GRPO reaches from imitated random play.
//!
//! A game has hundreds of moves and the world's recipe weighs its end alone, so here every move is credited on its own: with the
//! tiles that it merges and, less and less, with what the moves after it merge. The move that ends the game costs as much as four
//! merges earn.

use super::figure::Figure;
use super::player::{ANSWER_TOKENS_MAX, TRIES, beginner, once};
use crate::context::Context;
use crate::failure::Failure;
use crate::gym::{Gym, flat};
use crate::r#loop::Lesson;
use hone_engine::trainer::TrainerState;
use hone_env::rollout::{Limits, Played};
use hone_env::twenty48::{Twenty48, Twenty48Options};
use hone_env::{Dialect, Player};
use hone_eval::interval::mean;
use hone_reward::Recipe;
use hone_trace::env::Split;
use hone_trace::{Reward, Scenario, Trace};
use hone_train::advantage::TurnBaseline;
use hone_train::groups::Credit;
use serde::Serialize;
use std::ops::ControlFlow;
use std::time::Instant;

/// Higher than any game here comes.
const WINNING_TILE: u32 = 2048;
/// Games that are imitated, steps of GRPO, held-out games.
const N_TRACES: usize = 1000;
const N_STEPS: usize = 36;
/// Steps whose games tell how well the model plays: the best that was seen is kept.
const N_RECENT: usize = 3;
const N_HELD_OUT: usize = 256;
/// How much what the next move earns counts. Some moves on, games have nothing in common that they could be compared by.
const GAMMA: f64 = 0.9;
/// Cells of a board, and tiles of a start.
const N_CELLS: f64 = 16.0;
const N_TILES_START: f64 = 2.0;
/// What a tile that is merged away earns, and what the end costs.
const MERGED: f64 = 0.25;
const END: f64 = 1.0;

/// One seed.
pub(super) struct Run {
    start: Measured,
    end: Measured,
    seconds: f64,
}

/// How well held-out games were played.
struct Measured {
    /// The share of moves that changed the board.
    legal: f64,
    /// The mean highest tile.
    tile: f64,
}

impl Run {
    pub(super) fn told(&self) -> String {
        let legal = |measured: &Measured| 100.0 * measured.legal;
        format!(
            "legal {:.2} % → {:.2} %, highest tile {:.0} → {:.0}; {:.0} s",
            legal(&self.start),
            legal(&self.end),
            self.start.tile,
            self.end.tile,
            self.seconds
        )
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    seeds: usize,
    /// After imitation.
    start_legal: Figure,
    start_tile: Figure,
    /// After GRPO.
    mean_tile: Figure,
    seconds: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        Self {
            seeds: runs.len(),
            start_legal: Figure::of(runs, |run| run.start.legal),
            start_tile: Figure::of(runs, |run| run.start.tile),
            mean_tile: Figure::of(runs, |run| run.end.tile),
            seconds: Figure::of(runs, |run| run.seconds),
        }
    }

    pub(super) fn told(&self) -> String {
        let (tile, legal) = (self.start_tile.mean, 100.0 * self.start_legal.mean);
        let highest = self.mean_tile.told(1.0, 0);
        format!("2048: highest tile {highest}, from {tile:.0} with {legal:.2} % of moves legal")
    }
}

pub(super) fn run(seed: u64, context: &Context<'_>) -> Result<Run, Failure> {
    let began = Instant::now();
    let env = Twenty48::new(Twenty48Options { winning_tile: WINNING_TILE, dialect: Dialect::Short }).map_err(Failure::bug)?;
    let recipe = Recipe::for_world("2048").ok_or_else(|| Failure::bug("2048 has a recipe"))?;
    let limits = Limits { answer_tokens_max: ANSWER_TOKENS_MAX, ..Limits::default() };
    let tenant = &context.settings.tenant;
    let gym = Gym { env: &env, recipe: Some(&recipe), judge: None, tenant, seed, split: None, limits, run: "2048" };
    // One game each, so every game has dice of its own.
    let held_out = gym.scenarios(Split::Test, N_HELD_OUT)?;
    let measure = |name: &str, player: Player<'_>| {
        Ok::<Measured, Failure>(Measured::of(&env, &flat(gym.play(once(name), player, &held_out)?)))
    };

    let legal = |scenario: &Scenario, seed| env.legal(scenario, seed);
    let games = gym.play(once("legal"), Player::Script("legal", &legal), &gym.scenarios(Split::Train, N_TRACES)?)?;
    let mut learner = beginner(&flat(games), Twenty48::words(), seed)?;
    let start = measure("start", Player::Policy(&learner.policy()?))?;

    // Moves are compared with all moves of the same start: those of the same number are too few, and of boards as different.
    let credit = Credit::Turns { gamma: GAMMA, baseline: TurnBaseline::Trajectory };
    let lesson = Lesson { n_scenarios: 8, n_samples: 8, n_moves: 8, lr: 1e-3, n_warm: 16, credit, ..Lesson::new("grpo") };
    let tries = Gym { seed: seed ^ TRIES, ..gym }.scenarios(Split::Train, N_STEPS * lesson.n_scenarios)?;
    let weigh = |groups: &mut [Played], _| groups.iter_mut().flat_map(|played| &mut played.traces).for_each(by_merges);
    let mut tiles = Vec::new();
    let mut best: Option<(f64, TrainerState)> = None;
    lesson.teach(&mut learner, &gym, &tries, weigh, |learner, step| {
        tiles.push(mean_tile(&env, step.groups.iter().flat_map(|played| &played.traces)));
        let recent = mean(&tiles[tiles.len().saturating_sub(N_RECENT)..]).0;
        if tiles.len() >= N_RECENT && best.as_ref().is_none_or(|(highest, _)| recent > *highest) {
            best = Some((recent, learner.state()?));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some((_, state)) = best {
        learner.restore(state)?;
    }
    let end = measure("end", Player::Policy(&learner.policy()?))?;
    Ok(Run { start, end, seconds: began.elapsed().as_secs_f64() })
}

impl Measured {
    fn of(env: &Twenty48, games: &[Trace]) -> Self {
        let moves = || games.iter().flat_map(Trace::turns);
        let n_legal = moves().filter(|turn| turn.signals.get("valid") == Some(&1.0)).count();
        Self { legal: n_legal as f64 / moves().count().max(1) as f64, tile: mean_tile(env, games) }
    }
}

/// The mean highest tile of games.
fn mean_tile<'a>(env: &Twenty48, games: impl IntoIterator<Item = &'a Trace>) -> f64 {
    mean(&games.into_iter().map(|game| f64::from(env.highest_tile(game))).collect::<Vec<_>>()).0
}

/// Rewards every move by the tiles that it merged, and lets the last pay for the end.
fn by_merges(game: &mut Trace) {
    let Some(whole) = game.rewards.pop() else { return };
    let n_tiles = game.turns().map(|turn| N_CELLS * (1.0 - turn.signals.get("room").copied().unwrap_or(0.0)));
    // Of the tiles that were there and the one that came, those are gone that were merged.
    let merged = n_tiles.scan(N_TILES_START, |before, now| Some(MERGED * (std::mem::replace(before, now) + 1.0 - now)));
    let reward = |(turn_idx, total)| Reward { turn_idx: Some(turn_idx), components: Vec::new(), total, ..whole.clone() };
    game.rewards = (0..).zip(merged).map(reward).collect();
    if let Some(last) = game.rewards.last_mut() {
        last.total -= END;
    }
}
