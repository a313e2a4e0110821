//! A model that learns: sampled and trained in one process on the same weights.
//!
//! A small one, made from nothing, trains all of its weights. Any other trains an adapter beside them; every adapter that is
//! sampled from is a version of its own, loaded for its rollouts and dropped after them.
//! Knows nothing of worlds, rewards or when to stop.

mod imitation;

pub(crate) use imitation::Unlearnable;

use crate::context::Context;
use crate::device::Grant;
use crate::failure::Failure;
use crate::model::Opened;
use hone_engine::backend::Dtype;
use hone_engine::batch::BatchLimits;
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::error::LoadError;
use hone_engine::host::{AdapterVersion, Host, Tried};
use hone_engine::layout::PAGE;
use hone_engine::load::WeightSource;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::machine::Machine;
use hone_engine::memory::{self, MemoryPlan, Place};
use hone_engine::model::{Model, Passes, RandomWeights, WideWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::param::ParamId;
use hone_engine::peft;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::Recompute;
use hone_engine::trainer::{Trainer, TrainerState};
use hone_policy::local::{Engine, Local, LocalOptions};
use hone_render::{Renderer, Tokenizer, tiny};
use hone_trace::{AdapterId, Time};
use hone_train::batch::Batch;
use hone_train::step::{StepOptions, StepStats, step};
use std::path::Path;
use std::sync::Arc;

/// The most conversations that are sampled at once.
const N_CONCURRENT_MAX: usize = 256;

/// A model that learns.
pub(crate) struct Learner {
    engine: Engine<Machine>,
    renderer: Arc<Renderer>,
    config: ModelConfig,
    local: LocalOptions,
    options: LearnerOptions,
    /// The tokenizer of a model that was made from nothing.
    files: Option<tiny::TinyFiles>,
    /// Lent to the engine while it works.
    trainer: Option<Trainer<Machine>>,
    /// What training computes twice to need less memory.
    recompute: Recompute,
    /// The adapter that rollouts use, where one is trained.
    version: Option<AdapterVersion>,
    n_moves: u64,
}

/// How a model learns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LearnerOptions {
    pub(crate) adam: AdamOptions,
    pub(crate) seed: u64,
    /// The longest conversation in tokens.
    pub(crate) context_len: usize,
    /// Conversations that are sampled at once.
    pub(crate) n_concurrent: usize,
    /// Without it, all cores.
    pub(crate) n_threads: Option<usize>,
    pub(crate) temperature: f32,
    /// How many exchanges of a conversation it remembers; without it, all.
    pub(crate) memory: Option<usize>,
    /// The time for templates that print one.
    pub(crate) now: Option<Time>,
}

impl LearnerOptions {
    /// Models made from nothing are too small for a GPU to be faster.
    fn cpu(&self) -> Machine {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        Machine::Cpu(Box::new(Cpu::new(Dtype::Bf16, self.n_threads.unwrap_or_else(all))))
    }

    /// What sampling from a model and training an adapter beside it needs, in micro-batches of so many rows. A longer conversation
    /// is a micro-batch of its own.
    pub(crate) fn needs<'c>(&self, place: Place, config: &'c ModelConfig, n_rows: usize, lora: &LoraSpec) -> memory::Run<'c> {
        let n_positions = self.context_len.min(config.context_len);
        let sampling = memory::Run::of_sampling(place, config, &self.limits(n_positions));
        memory::Run { n_rows: n_rows.max(n_positions), rank: lora.rank, ..sampling }
    }

    fn limits(&self, n_positions: usize) -> BatchLimits {
        let n_sequences_max = self.n_concurrent.clamp(1, N_CONCURRENT_MAX);
        let n_pages = n_sequences_max * (n_positions / PAGE + 2) + 64;
        BatchLimits { n_pages, n_sequences_max, ..BatchLimits::default() }
    }
}

impl Learner {
    /// A model made from nothing, which knows the words of these texts and nothing else.
    pub(crate) fn small(name: &str, spec: TinySpec, corpus: &[String], options: LearnerOptions) -> Result<Self, Failure> {
        let files = tiny::build(corpus.iter().map(String::as_str), spec.vocab).map_err(Failure::bug)?;
        let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).map_err(Failure::bug)?;
        let stop_ids = tokenizer.eos_ids().to_vec();
        let renderer = Arc::new(Renderer::new(tokenizer).map_err(Failure::bug)?);
        let config = ModelConfig::try_from(spec).map_err(Failure::bug)?;
        let weights = WideWeights(RandomWeights { config: config.clone(), seed: options.seed });
        let backend = options.cpu();
        let trainer = Trainer::full(&backend, &weights, options.adam, Recompute::Never).map_err(Failure::bug)?;
        let local = LocalOptions::new(name, stop_ids, spec.context_len);
        let limits = options.limits(spec.context_len);
        let learner = Self::start(backend, &weights, renderer, local, trainer, (limits, None), options)?;
        Ok(Self { files: Some(files), ..learner })
    }

    /// A model with a fresh adapter, which changes nothing yet, within what was planned of the memory.
    pub(crate) fn adapted(
        opened: Opened,
        lora: &LoraSpec,
        backend: Machine,
        (plan, grant): (MemoryPlan, Grant),
        options: LearnerOptions,
    ) -> Result<Self, Failure> {
        if !opened.has_template {
            let text = format!("{} has no chat template: it was not made for conversations", opened.name);
            return Err(Failure::user(text).hint("take the model's instruct version"));
        }
        let weights = LoraWeights::fresh(opened.weights.config(), lora, options.seed);
        let trainer = Trainer::lora(&backend, opened.weights.config(), &weights, options.adam, plan.recompute);
        let n_positions = options.context_len.min(opened.weights.config().context_len);
        let mut local = LocalOptions::new(opened.name, opened.stop_ids, n_positions);
        local.now = options.now;
        let limits = BatchLimits { n_pages: plan.n_pages, ..options.limits(n_positions) };
        let (weights, renderer) = (&opened.weights, Arc::new(opened.renderer));
        let learner = Self::start(backend, weights, renderer, local, trainer, (limits, Some(grant)), options)?;
        Ok(Self { recompute: plan.recompute, ..learner })
    }

    fn start(
        backend: Machine,
        weights: &dyn WeightSource,
        renderer: Arc<Renderer>,
        local: LocalOptions,
        trainer: Trainer<Machine>,
        (limits, grant): (BatchLimits, Option<Grant>),
        options: LearnerOptions,
    ) -> Result<Self, Failure> {
        let model = Model::load(&backend, weights, local.context_len_max, Passes::ForwardBackward).map_err(Failure::world)?;
        let engine = Engine::start_with(Host::new(backend, model, limits), grant).map_err(Failure::world)?;
        let sampler = SamplerOptions { temperature: options.temperature, ..SamplerOptions::default() };
        let local = LocalOptions { sampler, memory: options.memory, ..local };
        let config = weights.config().clone();
        let (trainer, recompute) = (Some(trainer), Recompute::Never);
        Ok(Self { engine, renderer, config, local, options, files: None, trainer, recompute, version: None, n_moves: 0 })
    }

    /// The width of the model's hidden states.
    pub(crate) fn dim(&self) -> usize {
        self.config.dim
    }

    /// Tokens of the longest conversation that the model was made for.
    pub(crate) fn model_context_len(&self) -> usize {
        self.config.context_len
    }

    /// Tokens of the longest conversation that it can have.
    pub(crate) fn context_len(&self) -> usize {
        self.local.context_len_max
    }

    /// The model as it is now, as a policy. One that was lent before can no longer open conversations with its adapter.
    pub(crate) fn policy(&mut self) -> Result<Local<Machine>, Failure> {
        let mut options = self.local.clone();
        match self.adapter()? {
            None => options.model = format!("{}@{}", options.model, self.n_moves),
            Some(weights) => {
                let id = AdapterId::of(peft::hash(&self.config, &weights).as_bytes());
                let before = self.version.take();
                let loaded = self.engine.run(move |host| {
                    before.map(|version| host.drop_adapter(version));
                    host.load(&weights)
                });
                let version = loaded.map_err(Failure::bug)?;
                self.version = Some(version);
                options.adapter = Some((version, id));
            }
        }
        Local::new(self.engine.clone(), Arc::clone(&self.renderer), options).map_err(Failure::bug)
    }

    /// Moves the weights by one batch.
    pub(crate) fn step(&mut self, mut batch: Batch, options: StepOptions) -> Result<StepStats, Failure> {
        self.n_moves += 1;
        self.with_trainer(move |host, trainer| step(host, trainer, &mut batch, &options))?.map_err(Failure::user)
    }

    /// Forgets the moments of the optimiser: gradients of another objective have another size.
    pub(crate) fn begin_anew(&mut self) -> Result<(), Failure> {
        let (config, adam, recompute) = (self.config.clone(), self.options.adam, self.recompute);
        let begun = self.with_trainer(move |host, trainer| {
            let backend = host.backend();
            *trainer = match trainer.lora_weights(backend) {
                Some(weights) => Trainer::lora(backend, &config, &weights, adam, recompute),
                None => Trainer::full(backend, &Masters { config, trainer, backend }, adam, recompute)?,
            };
            Ok::<(), LoadError>(())
        });
        begun?.map_err(Failure::bug)
    }

    /// All that it has learned.
    pub(crate) fn state(&mut self) -> Result<TrainerState, Failure> {
        self.with_trainer(|host, trainer| trainer.state(host.backend()))
    }

    /// Goes back, or on, to what it had learned.
    pub(crate) fn restore(&mut self, state: TrainerState) -> Result<(), Failure> {
        self.with_trainer(move |host, trainer| host.restore(trainer, &state))?.map_err(Failure::world)
    }

    /// Lends the trainer to the engine's thread.
    pub(crate) fn with_trainer<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Host<Machine>, &mut Trainer<Machine>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let mut trainer = self.trainer.take().ok_or_else(|| Failure::bug("the trainer is lent"))?;
        let lent = self.engine.run(move |host| {
            let done = work(host, &mut trainer);
            (trainer, done)
        });
        let (trainer, done) = lent.map_err(Failure::bug)?;
        self.trainer = Some(trainer);
        Ok(done)
    }

    /// The adapter as it is now, where one is trained.
    fn adapter(&mut self) -> Result<Option<LoraWeights>, Failure> {
        self.with_trainer(|host, trainer| trainer.lora_weights(host.backend()))
    }

    /// Tries whether what is sampled is what is trained, on this machine; nothing where there is no room for it.
    pub(crate) fn try_promise(&mut self) -> Result<Option<Tried>, Failure> {
        let weights = self.adapter()?;
        let tried = self.engine.run(move |host| {
            let version = weights.map(|weights| host.load(&weights));
            let tried = host.try_promise(version);
            version.map(|version| host.drop_adapter(version));
            tried.ok()
        });
        tried.map_err(Failure::bug)
    }

    /// Writes the adapter as a PEFT folder, and says its hash.
    pub(crate) fn save_adapter(&mut self, folder: &Path) -> Result<String, Failure> {
        let weights = self.adapter()?.ok_or_else(|| Failure::bug("an adapter is trained"))?;
        peft::save(folder, &self.config, &weights, &self.local.model).map_err(Failure::world)?;
        Ok(peft::hash(&self.config, &weights))
    }

    /// Adds a model that was made from nothing under this name.
    pub(crate) fn keep(&self, name: &str, context: &Context<'_>) -> Result<(), Failure> {
        let trainer = self.trainer.as_ref().ok_or_else(|| Failure::bug("the trainer is lent"))?;
        let files = self.files.as_ref().ok_or_else(|| Failure::bug("only what was made here can be kept"))?;
        let backend = self.options.cpu();
        let masters = Masters { config: self.config.clone(), trainer, backend: &backend };
        crate::model::keep_tiny(name, &masters, files, context)
    }
}

/// The weights in training, to be read like a file.
struct Masters<'a> {
    config: ModelConfig,
    trainer: &'a Trainer<Machine>,
    backend: &'a Machine,
}

impl WeightSource for Masters<'_> {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError> {
        Ok(self.trainer.master(self.backend, id).expect("every parameter is trained"))
    }
}
