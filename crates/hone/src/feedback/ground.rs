//! The training ground: the service desk in its short dialect, the agent that works there and shuns its tools, the agent's
//! manual, and held-out tasks. All of it follows from the seed, before anything is trained.

use super::report::Line;
use crate::context::Context;
use crate::failure::Failure;
use crate::play::{TOLD_START, Weigher};
use hone_env::Player;
use hone_env::desk::{Desk, DeskOptions, Dialect};
use hone_env::rollout::{Limits, Plan, Played, Timing, rollout};
use hone_reward::Recipe;
use hone_trace::env::{Env, Split};
use hone_trace::{BlobHash, Config, Draws, Scenario, Tenant, Trace};
use std::ops::ControlFlow;

/// How often the agent takes to its tools where it needs them.
const TOOL_SHARE: f64 = 0.15;
/// Tokens of an answer: the longest right one has about twenty.
const ANSWER_TOKENS_MAX: u64 = 28;
/// How often every held-out task is played, for reliability.
const N_REPEATS: usize = 3;
/// Episodes that a model plays at once.
const N_CONCURRENT: usize = 256;
/// Parts of the training split: tasks of the agent, pages of the manual, tasks of GRPO.
const PAGES: u64 = 1 << 40;
const TRIES: u64 = 2 << 40;

/// The training ground.
pub(crate) struct Ground {
    desk: Desk,
    recipe: Recipe,
    seed: u64,
    tenant: Tenant,
    tasks: Vec<Scenario>,
}

impl Ground {
    /// The ground of a seed, with so many held-out tasks.
    pub(crate) fn new(seed: u64, n_tasks: usize, context: &Context<'_>) -> Result<Self, Failure> {
        let desk = Desk::new(DeskOptions { dialect: Dialect::Short, ..DeskOptions::default() }).map_err(Failure::bug)?;
        let recipe = context.settings.rewards.get("desk").cloned().or_else(|| Recipe::for_world("desk"));
        let recipe = recipe.ok_or_else(|| Failure::bug("the desk has a recipe"))?;
        let tasks = desk.scenarios(Split::Test, seed, n_tasks).map_err(Failure::bug)?;
        Ok(Self { desk, recipe, seed, tenant: context.settings.tenant.clone(), tasks })
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// What was there before the first step: the held-out tasks and what the agent did.
    pub(crate) fn hash(&self, demonstrations: &[Played]) -> Result<BlobHash, Failure> {
        let traces: Vec<&Trace> = demonstrations.iter().flat_map(|played| &played.traces).collect();
        Ok(BlobHash::of(&serde_json::to_vec(&(&self.tasks, traces)).map_err(Failure::bug)?))
    }

    /// Texts with every word that is spoken here.
    pub(crate) fn corpus(&self) -> Result<Vec<String>, Failure> {
        self.desk.corpus(self.seed, 500).map_err(Failure::bug)
    }

    /// What the agent did on so many tasks, and what shapes it.
    pub(crate) fn demonstrations(&self, n: usize) -> Result<(Config, Vec<Played>), Failure> {
        let scenarios = self.desk.scenarios(Split::Train, self.seed, n).map_err(Failure::bug)?;
        self.with_agent(|agent| Ok((agent.config().into_owned(), self.play("agent", agent, &scenarios, 1, 0)?)))
    }

    /// Pages of the agent's manual: half of them show how a task is done with tools, half how it is done best.
    pub(crate) fn manual(&self, n: usize) -> Result<Vec<Trace>, Failure> {
        let scenarios = self.desk.scenarios(Split::Train, self.seed ^ PAGES, n).map_err(Failure::bug)?;
        let (by_tools, best) = scenarios.split_at(n / 2);
        let page = |scenario: &Scenario, _| self.desk.manual(scenario);
        let mut pages = self.play("manual", Player::Script("manual", &page), by_tools, 1, 0)?;
        pages.extend(self.play("manual", Player::Gold, best, 1, 0)?);
        Ok(flat(pages))
    }

    /// Tasks for so many steps of GRPO.
    pub(crate) fn tries(&self, n: usize) -> Result<Vec<Scenario>, Failure> {
        self.desk.scenarios(Split::Train, self.seed ^ TRIES, n).map_err(Failure::bug)
    }

    /// Measures a policy on the held-out tasks.
    pub(crate) fn measure(&self, name: &str, player: Player<'_>) -> Result<(Line, Vec<Played>), Failure> {
        let played = self.play(name, player, &self.tasks, N_REPEATS, 0)?;
        let needs_tool: Vec<bool> =
            self.tasks.iter().map(|task| self.desk.needs_tool(task)).collect::<Result<_, _>>().map_err(Failure::bug)?;
        Ok((Line::of(name, &self.tasks, &needs_tool, &played), played))
    }

    /// Measures the agent itself.
    pub(crate) fn measure_agent(&self) -> Result<Line, Failure> {
        self.with_agent(|agent| Ok(self.measure("the agent", agent)?.0))
    }

    fn with_agent<T>(&self, work: impl FnOnce(Player<'_>) -> T) -> T {
        let shy = |scenario: &Scenario, seed| self.desk.shy(scenario, TOOL_SHARE, seed);
        work(Player::Script("shy", &shy))
    }

    /// Plays scenarios and weighs the traces. `round` is another part of the dice.
    pub(crate) fn play(
        &self,
        name: &str,
        player: Player<'_>,
        scenarios: &[Scenario],
        n_samples: usize,
        round: u64,
    ) -> Result<Vec<Played>, Failure> {
        let plan = Plan {
            tenant: self.tenant.clone(),
            n_samples,
            seed: Draws::new(self.seed, &["loop", name, &round.to_string()]).bits(),
            limits: Limits { answer_tokens_max: ANSWER_TOKENS_MAX, ..Limits::default() },
            timing: Timing::Told(TOLD_START),
            n_concurrent: if matches!(player, Player::Policy(_)) { N_CONCURRENT } else { 4 },
            ..Plan::new(&format!("loop/{name}/{round}"), scenarios, self.seed)
        };
        let weigher = Weigher::new(&self.recipe, &plan)?;
        let mut all = Vec::with_capacity(scenarios.len());
        rollout(&self.desk, player, &plan, |mut played| {
            weigher.weigh(&mut played);
            all.push(played);
            ControlFlow::Continue(())
        });
        Ok(all)
    }
}

/// The traces of groups.
pub(crate) fn flat(groups: Vec<Played>) -> Vec<Trace> {
    groups.into_iter().flat_map(|played| played.traces).collect()
}
