//! The training ground: the service desk in its short dialect, the agent that works there and shuns its tools, the agent's
//! manual, and held-out tasks. All of it follows from the seed, before anything is trained.

use super::report::Line;
use crate::context::Context;
use crate::failure::Failure;
use crate::gym::{Exercise, Gym, flat};
use crate::learner::{Learner, LearnerOptions};
use hone_engine::config::TinySpec;
use hone_engine::optim::AdamOptions;
use hone_env::Dialect;
use hone_env::Player;
use hone_env::desk::{Desk, DeskOptions};
use hone_env::rollout::{Limits, Played};
use hone_reward::Recipe;
use hone_trace::env::{Env, Split};
use hone_trace::{BlobHash, Config, Scenario, Tenant, Trace};

/// How often the agent takes to its tools where it needs them.
const TOOL_SHARE: f64 = 0.15;
/// Tokens of an answer: the longest right one has about twenty.
const ANSWER_TOKENS_MAX: u64 = 28;
/// How often every held-out task is played, for reliability.
const N_REPEATS: usize = 3;
/// Parts of the training split: tasks of the agent, pages of the manual, tasks of GRPO.
const PAGES: u64 = 1 << 40;
const TRIES: u64 = 2 << 40;
/// About 800,000 parameters.
const SPEC: TinySpec = TinySpec { dim: 128, n_layers: 3, n_heads: 4, n_kv_heads: 2, ffn_dim: 512, vocab: 544, context_len: 192 };
/// The second moment follows within a hundred steps: no phase of training is much longer.
pub(crate) const ADAM: AdamOptions = AdamOptions { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.0, clip: 1.0 };

/// The training ground.
pub(crate) struct Ground {
    pub(crate) desk: Desk,
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

    /// Where policies practise.
    pub(crate) fn gym(&self) -> Gym<'_> {
        let limits = Limits { answer_tokens_max: ANSWER_TOKENS_MAX, ..Limits::default() };
        Gym {
            env: &self.desk,
            recipe: Some(&self.recipe),
            judge: None,
            tenant: &self.tenant,
            seed: self.seed,
            limits,
            run: "loop",
        }
    }

    /// A model that knows the words that are spoken here, and nothing else.
    pub(crate) fn learner(&self, n_threads: Option<usize>) -> Result<Learner, Failure> {
        let corpus = self.desk.corpus(self.seed, 500).map_err(Failure::bug)?;
        let options = LearnerOptions {
            adam: ADAM,
            seed: self.seed,
            context_len: SPEC.context_len,
            n_concurrent: 256,
            n_threads,
            temperature: 1.0,
            memory: None,
            now: None,
        };
        Learner::small("desk-agent", SPEC, &corpus, options)
    }

    /// What was there before the first step: the held-out tasks and what the agent did.
    pub(crate) fn hash(&self, demonstrations: &[Played]) -> Result<BlobHash, Failure> {
        let traces: Vec<&Trace> = demonstrations.iter().flat_map(|played| &played.traces).collect();
        Ok(BlobHash::of(&serde_json::to_vec(&(&self.tasks, traces)).map_err(Failure::bug)?))
    }

    /// What the agent did on so many tasks, and what shapes it.
    pub(crate) fn demonstrations(&self, n: usize) -> Result<(Config, Vec<Played>), Failure> {
        let scenarios = self.desk.scenarios(Split::Train, self.seed, n).map_err(Failure::bug)?;
        self.with_agent(|agent| Ok((agent.config().into_owned(), self.gym().play(once("agent"), agent, &scenarios)?)))
    }

    /// Pages of the agent's manual: half of them show how a task is done with tools, half how it is done best.
    pub(crate) fn manual(&self, n: usize) -> Result<Vec<Trace>, Failure> {
        let scenarios = self.desk.scenarios(Split::Train, self.seed ^ PAGES, n).map_err(Failure::bug)?;
        let (by_tools, best) = scenarios.split_at(n / 2);
        let page = |scenario: &Scenario, _| self.desk.manual(scenario);
        let mut pages = self.gym().play(once("manual"), Player::Script("manual", &page), by_tools)?;
        pages.extend(self.gym().play(once("manual"), Player::Gold, best)?);
        Ok(flat(pages))
    }

    /// Tasks for so many steps of GRPO.
    pub(crate) fn tries(&self, n: usize) -> Result<Vec<Scenario>, Failure> {
        self.desk.scenarios(Split::Train, self.seed ^ TRIES, n).map_err(Failure::bug)
    }

    /// As many tasks for another run of GRPO: no two runs share one.
    pub(crate) fn tries_of_run(&self, run_idx: usize, n: usize) -> Result<Vec<Scenario>, Failure> {
        Ok(self.tries(n * (run_idx + 1))?.split_off(n * run_idx))
    }

    /// Tasks that nobody trains on.
    pub(crate) fn held_out(&self, n: usize) -> Result<Vec<Scenario>, Failure> {
        self.desk.scenarios(Split::Test, self.seed, n).map_err(Failure::bug)
    }

    /// Measures a policy on the held-out tasks.
    pub(crate) fn measure(&self, name: &str, player: Player<'_>) -> Result<(Line, Vec<Played>), Failure> {
        self.measure_on(name, player, &self.tasks)
    }

    /// Measures a policy on these tasks.
    pub(crate) fn measure_on(&self, name: &str, player: Player<'_>, tasks: &[Scenario]) -> Result<(Line, Vec<Played>), Failure> {
        let played = self.gym().play(Exercise { name, round: 0, n_samples: N_REPEATS }, player, tasks)?;
        let needs_tool: Vec<bool> =
            tasks.iter().map(|task| self.desk.needs_tool(task)).collect::<Result<_, _>>().map_err(Failure::bug)?;
        Ok((Line::of(name, tasks, &needs_tool, &played), played))
    }

    /// Measures the agent itself.
    pub(crate) fn measure_agent(&self) -> Result<Line, Failure> {
        self.with_agent(|agent| Ok(self.measure("the agent", agent)?.0))
    }

    fn with_agent<T>(&self, work: impl FnOnce(Player<'_>) -> T) -> T {
        let shy = |scenario: &Scenario, seed| self.desk.shy(scenario, TOOL_SHARE, seed);
        work(Player::Script("shy", &shy))
    }
}

fn once(name: &str) -> Exercise<'_> {
    Exercise { name, round: 0, n_samples: 1 }
}
