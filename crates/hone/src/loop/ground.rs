//! The training ground: the service desk in its short dialect, the agent that works there and shuns its tools, the agent's
//! manual, and held-out tasks. All of it follows from the seed, before anything is trained.

use super::N_TICKETS_TURN;
use super::report::Line;
use crate::context::Context;
use crate::failure::Failure;
use crate::gym::{Exercise, Gym, flat};
use crate::learner::{Learner, LearnerOptions};
use hone_data::gate::HeldOut;
use hone_engine::config::TinySpec;
use hone_engine::optim::AdamOptions;
use hone_env::Dialect;
use hone_env::Player;
use hone_env::desk::{Desk, DeskOptions, Habits};
use hone_env::rollout::{Limits, Played};
use hone_reward::Recipe;
use hone_trace::env::{Env, Split};
use hone_trace::{BlobHash, Config, Scenario, Tenant, Trace};

/// How often the agent takes to its tools where it needs them, and how often it talks first.
const SHY: Habits = Habits { tool_share: 0.15, talk_share: 0.0 };
const SHY_AND_VERBOSE: Habits = Habits { tool_share: 0.25, talk_share: 0.85 };
/// Tokens of an answer: the longest right one has about twenty, and talk has about forty.
const ANSWER_TOKENS_MAX: u64 = 28;
const ANSWER_TOKENS_MAX_VERBOSE: u64 = 72;
/// How often every held-out task is played, for reliability.
const N_REPEATS: usize = 3;
/// Parts of the training split: tasks of the agent, pages of the manual, tasks of GRPO, tickets of customers.
const PAGES: u64 = 1 << 40;
const TRIES: u64 = 2 << 40;
const TICKETS: u64 = 3 << 40;
/// About 800,000 parameters.
const SPEC: TinySpec = TinySpec { dim: 128, n_layers: 3, n_heads: 4, n_kv_heads: 2, ffn_dim: 512, vocab: 544, context_len: 192 };
/// The same with the words of talk, and room for it.
const SPEC_VERBOSE: TinySpec = TinySpec { vocab: 608, context_len: 256, ..SPEC };
/// The second moment follows within a hundred steps: no phase of training is much longer.
pub(crate) const ADAM: AdamOptions = AdamOptions { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.0, clip: 1.0 };

/// The training ground.
pub(crate) struct Ground {
    pub(crate) desk: Desk,
    recipe: Recipe,
    seed: u64,
    habits: Habits,
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
        Ok(Self { desk, recipe, seed, habits: SHY, tenant: context.settings.tenant.clone(), tasks })
    }

    /// The same with an agent that also talks before it acts.
    pub(crate) fn verbose(self) -> Self {
        Self { habits: SHY_AND_VERBOSE, ..self }
    }

    fn is_verbose(&self) -> bool {
        self.habits.talk_share > 0.0
    }

    /// Where policies practise.
    pub(crate) fn gym(&self) -> Gym<'_> {
        let limits = Limits { answer_tokens_max: self.lengths().0, ..Limits::default() };
        Gym {
            env: &self.desk,
            recipe: Some(&self.recipe),
            judge: None,
            tenant: &self.tenant,
            seed: self.seed,
            // Its scenarios are named by their split.
            split: None,
            limits,
            run: "loop",
        }
    }

    /// A model that knows the words that are spoken here, and nothing else.
    pub(crate) fn learner(&self, n_threads: Option<usize>) -> Result<Learner, Failure> {
        let mut corpus = self.desk.corpus(self.seed, 500).map_err(Failure::bug)?;
        let spec = if self.is_verbose() { SPEC_VERBOSE } else { SPEC };
        if self.is_verbose() {
            corpus.push(format!("{0}\n{0}", Desk::TALK));
        }
        let options = LearnerOptions {
            adam: ADAM,
            seed: self.seed,
            context_len: spec.context_len,
            n_concurrent: 256,
            n_threads,
            temperature: 1.0,
            memory: None,
            now: None,
        };
        Learner::small("desk-agent", spec, &corpus, options)
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

    /// Tickets that customers bring, from this one on.
    pub(crate) fn tickets(&self, from: usize, n: usize) -> Result<Vec<Scenario>, Failure> {
        let turn = (from / N_TICKETS_TURN) as u64;
        let from = from % N_TICKETS_TURN;
        let all = self.desk.scenarios(Split::Train, self.seed ^ TICKETS ^ turn << 20, from + n).map_err(Failure::bug)?;
        Ok(all.into_iter().skip(from).collect())
    }

    /// What a trace must not be of: the held-out tasks.
    pub(crate) fn to_hold_out(&self) -> Result<HeldOut, Failure> {
        let mut held_out = HeldOut::default();
        for task in &self.tasks {
            held_out.add(task.id.as_str(), "").map_err(Failure::bug)?;
        }
        Ok(held_out)
    }

    /// The most tokens of an answer, and of a conversation.
    pub(crate) fn lengths(&self) -> (u64, usize) {
        match self.is_verbose() {
            true => (ANSWER_TOKENS_MAX_VERBOSE, SPEC_VERBOSE.context_len),
            false => (ANSWER_TOKENS_MAX, SPEC.context_len),
        }
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
        self.with_agent(|agent| Ok(self.measure("script", agent)?.0))
    }

    fn with_agent<T>(&self, work: impl FnOnce(Player<'_>) -> T) -> T {
        let shy = |scenario: &Scenario, seed| self.desk.shy(scenario, self.habits, seed);
        work(Player::Script("shy", &shy))
    }
}

fn once(name: &str) -> Exercise<'_> {
    Exercise { name, round: 0, n_samples: 1 }
}
