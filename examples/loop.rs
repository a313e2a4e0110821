//! The whole loop in one file, from an agent's traces to a better agent. `cargo run --release -p hone --example loop`
//!
//! An agent at a service desk shuns its tools. A model made from nothing reads the agent's manual, imitates the agent, and then
//! outgrows it by GRPO: many tries at the same ticket, and more of what earned more. `hone loop` does the same with records in a
//! store, intervals and controls.
#![expect(clippy::print_stdout, reason = "an example talks to who runs it")]

use hone_engine::backend::Dtype;
use hone_engine::batch::{BatchLimits, Token};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::{AdamOptions, Schedule};
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::Recompute;
use hone_engine::trainer::Trainer;
use hone_env::desk::{Desk, DeskOptions, Habits};
use hone_env::rollout::{Limits, Plan, traces};
use hone_env::{Dialect, Player};
use hone_policy::local::{Engine, Local, LocalOptions};
use hone_render::{Renderer, Setting, Tokenizer, tiny};
use hone_reward::{Attempt, Recipe, Scorer};
use hone_trace::env::{Env, Split};
use hone_trace::{Scenario, Time, Trace, TraceOutcome};
use hone_train::advantage::Centring;
use hone_train::batch::Batch;
use hone_train::episode::Episode;
use hone_train::groups::{Credit, GroupOptions, Groups};
use hone_train::loss::Method;
use hone_train::sft;
use hone_train::step::{Objective, StepOptions, step};
use std::error::Error;
use std::sync::Arc;

const SEED: u64 = 1;
const N_STEPS: usize = 100;
const N_SCENARIOS: usize = 16;
const N_SAMPLES: usize = 16;
/// Rows of a micro-batch.
const N_ROWS_MAX: usize = 8192;

fn main() -> Result<(), Box<dyn Error>> {
    let desk = Desk::new(DeskOptions { dialect: Dialect::Short, ..DeskOptions::default() })?;
    let held_out = desk.scenarios(Split::Test, SEED, 400)?;

    // Trace: what the agent did, and its manual.
    let agent = |scenario: &Scenario, seed| desk.shy(scenario, Habits { tool_share: 0.15, talk_share: 0.0 }, seed);
    let manual = |scenario: &Scenario, _| desk.manual(scenario);
    let pages = play(&desk, Player::Script("manual", &manual), &desk.scenarios(Split::Train, 2, 60_000)?, 1);
    let done = play(&desk, Player::Script("agent", &agent), &desk.scenarios(Split::Train, 3, 8000)?, 1);
    let of_agent = solved(&play(&desk, Player::Script("agent", &agent), &held_out, 1));
    println!("the agent solves {:.1} % of the held-out tickets", 100.0 * of_agent);

    // Data and train: a model that does what the agent does.
    let mut model = Learner::new(&desk)?;
    model.imitate(&pages, 3e-3)?;
    model.imitate(&done, 1e-3)?;
    let before = solved(&play(&desk, Player::Policy(&model.policy()?), &held_out, 1));
    println!("a model that imitates it solves {:.1} %", 100.0 * before);

    // Train: more of what earned more than its siblings.
    let recipe = Recipe::for_world("desk").ok_or("the desk has a recipe")?;
    let scorer = Scorer::new(&recipe, None)?;
    for (i, scenarios) in desk.scenarios(Split::Train, 4, N_STEPS * N_SCENARIOS)?.chunks(N_SCENARIOS).enumerate() {
        let mut tries = play(&desk, Player::Policy(&model.policy()?), scenarios, N_SAMPLES);
        for group in tries.chunks_mut(N_SAMPLES) {
            let attempts: Vec<Attempt<'_>> =
                group.iter().map(|trace| Attempt { trace, item: &serde_json::Value::Null }).collect();
            let scored = scorer.score_group(&attempts, SEED, Time::from_unix_nanos(0)).traces;
            for (trace, scored) in group.iter_mut().zip(scored) {
                trace.rewards.push(scored?.reward);
            }
        }
        model.improve(&tries, 5e-4 * (1.0 - 0.8 * i as f32 / N_STEPS as f32))?;
        if (i + 1) % 10 == 0 {
            println!("step {:>3}: {:.1} % of the tries solved", i + 1, 100.0 * solved(&tries));
        }
    }

    // Eval: on tickets that nobody has seen.
    let after = solved(&play(&desk, Player::Policy(&model.policy()?), &held_out, 1));
    println!("after GRPO it solves {:.1} %", 100.0 * after);
    Ok(())
}

fn play(desk: &Desk, player: Player<'_>, scenarios: &[Scenario], n_samples: usize) -> Vec<Trace> {
    let limits = Limits { answer_tokens_max: 28, ..Limits::default() };
    let n_concurrent = if matches!(player, Player::Policy(_)) { 256 } else { 2 };
    traces(desk, player, &Plan { n_samples, limits, n_concurrent, ..Plan::new("example", scenarios, SEED) })
}

fn solved(traces: &[Trace]) -> f64 {
    traces.iter().filter(|trace| trace.outcome == TraceOutcome::Success).count() as f64 / traces.len() as f64
}

/// A small model, sampled and trained on the same weights.
struct Learner {
    engine: Engine<Cpu>,
    renderer: Arc<Renderer>,
    trainer: Option<Trainer<Cpu>>,
}

impl Learner {
    const SPEC: TinySpec =
        TinySpec { dim: 128, n_layers: 3, n_heads: 4, n_kv_heads: 2, ffn_dim: 512, vocab: 544, context_len: 192 };

    fn new(desk: &Desk) -> Result<Self, Box<dyn Error>> {
        let files = tiny::build(desk.corpus(SEED, 500)?.iter().map(String::as_str), Self::SPEC.vocab)?;
        let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes()))?;
        let weights = RandomWeights { config: ModelConfig::try_from(Self::SPEC)?, seed: SEED };
        let backend = Cpu::new(Dtype::Bf16, std::thread::available_parallelism().map_or(1, usize::from));
        let model = Model::load(&backend, &weights, Self::SPEC.context_len, Passes::ForwardBackward)?;
        let adam = AdamOptions { beta2: 0.99, ..AdamOptions::default() };
        let trainer = Trainer::full(&backend, &weights, adam, Recompute::Never)?;
        let engine = Engine::start(Host::new(backend, model, BatchLimits { n_pages: 8192, ..BatchLimits::default() }))?;
        Ok(Self { engine, renderer: Arc::new(Renderer::new(tokenizer)?), trainer: Some(trainer) })
    }

    fn policy(&self) -> Result<Local<Cpu>, Box<dyn Error>> {
        let mut options = LocalOptions::new("learner", self.renderer.tokenizer().eos_ids().to_vec(), Self::SPEC.context_len);
        options.sampler = SamplerOptions { temperature: 1.0, ..SamplerOptions::default() };
        Ok(Local::new(self.engine.clone(), Arc::clone(&self.renderer), options)?)
    }

    /// Imitation: the loss is on what was answered.
    fn imitate(&mut self, traces: &[Trace], lr: f32) -> Result<(), Box<dyn Error>> {
        let episodes = traces.iter().map(|trace| self.tokens(trace)).collect::<Result<Vec<_>, _>>()?;
        let batches = sft::batches(&episodes, 256, N_ROWS_MAX, SEED, 0);
        let schedule = Schedule::Cosine { lr, floor: lr / 20.0, n_warmup: 20, n_steps: batches.len() as u64 };
        for (i, batch) in batches.into_iter().enumerate() {
            let lr = schedule.lr(i as u64);
            self.step(batch, StepOptions::new(Objective::Imitation, Schedule::Constant { lr }))?;
        }
        Ok(())
    }

    /// GRPO: rewards are compared within each group.
    fn improve(&mut self, tries: &[Trace], lr: f32) -> Result<(), Box<dyn Error>> {
        let groups: Vec<&[Trace]> = tries.chunks(N_SAMPLES).collect();
        let credit = Credit::Episode(Centring::Deviation { epsilon: 0.05 });
        let groups = Groups::new(&groups, &GroupOptions { credit, overlong: None, n_rows_max: N_ROWS_MAX })?;
        if groups.batch.is_empty() {
            return Ok(()); // All tries of every ticket earned the same: nothing to learn.
        }
        self.step(groups.batch, StepOptions::new(Objective::Policy(Method::Dapo.loss(112)), Schedule::Constant { lr }))
    }

    fn step(&mut self, mut batch: Batch, options: StepOptions) -> Result<(), Box<dyn Error>> {
        let mut trainer = self.trainer.take().ok_or("the trainer is lent")?;
        let (trainer, told) = self.engine.run(move |host| {
            let told = step(host, &mut trainer, &mut batch, &options);
            (trainer, told)
        })?;
        self.trainer = Some(trainer);
        Ok(told.map(|_| ())?)
    }

    /// The tokens of a trace that no model sampled.
    fn tokens(&self, trace: &Trace) -> Result<Episode, Box<dyn Error>> {
        let tokenizer = self.renderer.tokenizer();
        let turns: Vec<_> = trace.turns().collect();
        let first = turns.first().ok_or("a trace has a turn")?;
        let mut open = hone_render::Episode::open(Arc::clone(&self.renderer), first.input.clone(), Setting::default())?;
        for (i, turn) in turns.iter().enumerate() {
            if i > 0 {
                open.extend(turn.input.clone())?;
            }
            let ids = tokenizer.encode(&turn.answer.content.text())?.into_iter().chain(tokenizer.eos_ids().first().copied());
            let tokens: Vec<Token> = ids.map(|id| Token::new(id, 0.0, false)).collect();
            open.answer(&tokens)?;
        }
        let segment = open.segments().last().ok_or("an episode has a segment")?;
        Episode::rendered(segment.ids.clone(), &segment.drawn).map_err(|why| format!("{why:?}").into())
    }
}
