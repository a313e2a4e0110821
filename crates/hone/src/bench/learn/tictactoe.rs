//! Tic-tac-toe: how few games are lost against a random opponent after GRPO, which begins at an imitated amateur.
//!
//! It learns against opponents that also punish mistakes: one that plays at random hardly ever does. A game is lost
//! when the opponent has three in a line, and also by an answer that names no empty cell. It is measured on openings that no
//! training game began with.

use super::figure::Figure;
use super::player::{ANSWER_TOKENS_MAX, TRIES, beginner, once};
use crate::context::Context;
use crate::failure::Failure;
use crate::gym::{Gym, earned, flat};
use crate::r#loop::Lesson;
use hone_env::rollout::Limits;
use hone_env::tictactoe::{Skill, TicTacToe, TicTacToeOptions};
use hone_env::{Dialect, Player};
use hone_reward::Recipe;
use hone_trace::Scenario;
use hone_trace::env::Split;
use serde::Serialize;
use std::ops::ControlFlow;
use std::time::Instant;

/// Games that are imitated, steps of GRPO, held-out games.
const N_TRACES: usize = 12_000;
const N_STEPS: usize = 150;
const N_HELD_OUT: usize = 1000;
/// The share of its moves that the amateur thinks about.
const CARE: f64 = 0.5;

/// One seed.
pub(super) struct Run {
    start: f64,
    not_lost: f64,
    seconds: f64,
}

impl Run {
    pub(super) fn told(&self) -> String {
        format!("not lost {:.1} % → {:.1} %; {:.0} s", 100.0 * self.start, 100.0 * self.not_lost, self.seconds)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    seeds: usize,
    /// After imitation.
    start: Figure,
    /// After GRPO.
    not_lost: Figure,
    seconds: Figure,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        Self {
            seeds: runs.len(),
            start: Figure::of(runs, |run| run.start),
            not_lost: Figure::of(runs, |run| run.not_lost),
            seconds: Figure::of(runs, |run| run.seconds),
        }
    }

    pub(super) fn told(&self) -> String {
        let start = 100.0 * self.start.mean;
        format!("tictactoe: {} % of games not lost, from {start:.1} %", self.not_lost.told(0.01, 1))
    }
}

pub(super) fn run(seed: u64, context: &Context<'_>) -> Result<Run, Failure> {
    let began = Instant::now();
    let against = |opponents: &[Skill]| {
        let options = TicTacToeOptions { opponents: opponents.to_vec(), dialect: Dialect::Short, ..TicTacToeOptions::default() };
        TicTacToe::new(options).map_err(Failure::bug)
    };
    let (easy, hard) = (against(&[Skill::Random])?, against(&[Skill::Random, Skill::Blocks, Skill::Perfect])?);
    let recipe = Recipe::for_world("tictactoe").ok_or_else(|| Failure::bug("tic-tac-toe has a recipe"))?;
    let limits = Limits { answer_tokens_max: ANSWER_TOKENS_MAX, ..Limits::default() };
    let tenant = &context.settings.tenant;
    let gym = Gym { env: &easy, recipe: Some(&recipe), judge: None, tenant, seed, split: None, limits, run: "tictactoe" };
    let held_out = gym.scenarios(Split::Test, N_HELD_OUT)?;
    let not_lost = |name: &str, player: Player<'_>| {
        let results = earned(&gym.play(once(name), player, &held_out)?);
        Ok::<f64, Failure>(results.iter().filter(|result| **result > 0.0).count() as f64 / results.len() as f64)
    };

    let amateur = |scenario: &Scenario, seed| easy.amateur(scenario, CARE, seed);
    let games = gym.play(once("amateur"), Player::Script("amateur", &amateur), &gym.scenarios(Split::Train, N_TRACES)?)?;
    let mut learner = beginner(&flat(games), String::new(), seed)?;
    let start = not_lost("start", Player::Policy(&learner.policy()?))?;

    // Many openings and opponents: most of them are soon won in every try, or lost in every one, and teach nothing.
    let lesson = Lesson { n_scenarios: 256, n_samples: 8, n_moves: 2, n_warm: 10, ..Lesson::new("grpo") };
    let gym = Gym { env: &hard, ..gym };
    let tries = Gym { seed: seed ^ TRIES, ..gym }.scenarios(Split::Train, N_STEPS * lesson.n_scenarios)?;
    lesson.teach(&mut learner, &gym, &tries, |_, _| {}, |_, _| Ok(ControlFlow::Continue(())))?;
    let not_lost = not_lost("end", Player::Policy(&learner.policy()?))?;
    Ok(Run { start, not_lost, seconds: began.elapsed().as_secs_f64() })
}
