//! Where policies practise: scenarios of a world are played, and what was done is weighed by a recipe.
//!
//! Everything drawn at random follows from the seed, the name of the exercise and its round. Times are told, not measured, so
//! the same policy writes the same traces.
//! Knows nothing of training, or of where traces are kept.

use crate::failure::Failure;
use crate::play::{Weigher, unanswered};
use hone_env::Player;
use hone_env::rollout::{Limits, Plan, Played, Timing, rollout};
use hone_reward::Recipe;
use hone_trace::env::{Env, Split};
use hone_trace::policy::{Policy, PolicyErrorKind};
use hone_trace::{Draws, ErrorEvent, RunId, Scenario, Tenant, Time, Trace, TraceOutcome};
use std::ops::ControlFlow;

/// Episodes that a model plays at once, and those that a script plays.
const N_CONCURRENT: usize = 256;
const N_CONCURRENT_SCRIPTS: usize = 4;

/// Where policies practise.
#[derive(Clone, Copy)]
pub(crate) struct Gym<'a> {
    pub(crate) env: &'a dyn Env,
    /// What weighs; without it nothing is.
    pub(crate) recipe: Option<&'a Recipe>,
    /// Who judges, where the recipe asks for one.
    pub(crate) judge: Option<&'a dyn Policy>,
    pub(crate) tenant: &'a Tenant,
    pub(crate) seed: u64,
    /// The split that its records say they are of.
    pub(crate) split: Option<Split>,
    pub(crate) limits: Limits,
    /// What its records are part of, besides the world.
    pub(crate) run: &'a str,
}

/// The way out where not even a question has room.
pub(crate) const NO_ROOM: &str = "a longer `context` leaves room";

/// What is played.
#[derive(Clone, Copy)]
pub(crate) struct Exercise<'a> {
    /// What its records and dice are named by.
    pub(crate) name: &'a str,
    /// Another part of the dice.
    pub(crate) round: u64,
    /// How often each scenario is played.
    pub(crate) n_samples: usize,
}

/// What was played, weighed as far as that went.
pub(crate) struct Weighed {
    pub(crate) groups: Vec<Played>,
    /// Why an episode could not be scored, of the last such one.
    pub(crate) unscored: Option<String>,
    /// Episodes that a judge saw without their middle.
    pub(crate) n_shortened: usize,
}

impl Gym<'_> {
    /// The first `n` scenarios of a split; an error where there is none.
    pub(crate) fn scenarios(&self, split: Split, n: usize) -> Result<Vec<Scenario>, Failure> {
        let name = self.env.name();
        let found = self.env.scenarios(split, self.seed, n).map_err(|error| Failure::world(error).context(name))?;
        match found.is_empty() {
            true => Err(Failure::user(format_args!("{name} has no scenarios in its {} split", split.as_str()))),
            false => Ok(found),
        }
    }

    /// Plays scenarios and weighs the traces. An error where not one answer came: it would come to nothing every time.
    pub(crate) fn play(
        &self,
        exercise: Exercise<'_>,
        player: Player<'_>,
        scenarios: &[Scenario],
    ) -> Result<Vec<Played>, Failure> {
        Ok(self.play_and_weigh(exercise, player, scenarios)?.groups)
    }

    /// The same, with the reason why what could not be scored was not.
    pub(crate) fn play_and_weigh(
        &self,
        exercise: Exercise<'_>,
        player: Player<'_>,
        scenarios: &[Scenario],
    ) -> Result<Weighed, Failure> {
        let Exercise { name, round, n_samples } = exercise;
        let (seed, round) = (self.seed.to_string(), round.to_string());
        let plan = Plan {
            run: RunId::derived(&[self.run, self.env.name(), name, &round, &seed]),
            tenant: self.tenant.clone(),
            split: self.split,
            n_samples,
            seed: Draws::new(self.seed, &["gym", name, &round]).bits(),
            limits: self.limits,
            timing: Timing::Told(Time::TOLD),
            n_concurrent: if matches!(player, Player::Policy(_)) { N_CONCURRENT } else { N_CONCURRENT_SCRIPTS },
            ..Plan::new(name, scenarios, self.seed)
        };
        let weigher = self.recipe.map(|recipe| Weigher::new(recipe, &plan, self.judge)).transpose()?;
        let mut weighed = Weighed { groups: Vec::with_capacity(scenarios.len()), unscored: None, n_shortened: 0 };
        rollout(self.env, player, &plan, |mut played| {
            let remarks = weigher.as_ref().map(|weigher| weigher.weigh(&mut played)).unwrap_or_default();
            weighed.unscored = remarks.unscored.last().map(|(_, why)| why.to_string()).or(weighed.unscored.take());
            weighed.n_shortened += remarks.n_shortened;
            weighed.groups.push(played);
            ControlFlow::Continue(())
        });
        let Some(why) = unplayable(&weighed.groups) else { return Ok(weighed) };
        let text = format!("no episode of {} could be played: {}", self.env.name(), why.message);
        Err(match why.kind == PolicyErrorKind::TooLong.as_str() {
            true => Failure::user(text).hint(NO_ROOM),
            false => Failure::world(anyhow::Error::msg(text)),
        })
    }
}

/// Why all episodes broke, or had no room for a single answer.
fn unplayable(groups: &[Played]) -> Option<&ErrorEvent> {
    let why = |trace| Trace::broken(trace).or_else(|| unanswered(trace).filter(|_| trace.turns().count() == 1));
    let mut traces = groups.iter().flat_map(|played| &played.traces);
    let first = traces.next().and_then(why)?;
    traces.all(|trace| why(trace).is_some()).then_some(first)
}

/// Whether not one group has a reward for each of its episodes that did not break: there is nothing to learn from, or to measure by.
pub(crate) fn is_unscored(groups: &[Played]) -> bool {
    let is_scored = |played: &Played| {
        let mut whole = played.traces.iter().filter(|trace| trace.broken().is_none()).peekable();
        whole.peek().is_some() && whole.all(|trace| trace.reward().is_some())
    };
    !groups.is_empty() && !groups.iter().any(is_scored)
}

/// Episodes that broke, with the first reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) n: usize,
    pub(crate) why: String,
}

impl Broken {
    /// Of these, where there are any.
    pub(crate) fn among<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> Option<Self> {
        let mut broken = traces.into_iter().filter_map(Trace::broken);
        let why = broken.next()?.message.clone();
        Some(Self { n: 1 + broken.count(), why })
    }
}

/// The episodes that did not break.
pub(crate) fn whole(groups: &[Played]) -> impl Iterator<Item = &Trace> {
    groups.iter().flat_map(|played| &played.traces).filter(|trace| trace.broken().is_none())
}

/// The traces of groups.
pub(crate) fn flat(groups: Vec<Played>) -> Vec<Trace> {
    groups.into_iter().flat_map(|played| played.traces).collect()
}

/// The share of episodes that were solved, of those that did not break.
pub(crate) fn solved(groups: &[Played]) -> f64 {
    let n_solved = whole(groups).filter(|trace| trace.outcome == TraceOutcome::Success).count();
    n_solved as f64 / whole(groups).count().max(1) as f64
}

/// What every episode earned.
pub(crate) fn earned(groups: &[Played]) -> Vec<f64> {
    groups.iter().flat_map(|played| &played.traces).filter_map(|trace| Some(trace.reward()?.total)).collect()
}
