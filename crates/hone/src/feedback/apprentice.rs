//! A small model that learns: made from nothing, sampled and trained in one process on the same weights.
//!
//! Knows nothing of worlds or of what is worth learning.

use crate::context::Context;
use crate::failure::Failure;
use hone_engine::backend::Dtype;
use hone_engine::batch::{BatchLimits, Token};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::error::LoadError;
use hone_engine::host::Host;
use hone_engine::load::WeightSource;
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::{AdamOptions, Schedule};
use hone_engine::param::ParamId;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::Recompute;
use hone_engine::trainer::{Trainer, TrainerState};
use hone_env::rollout::Played;
use hone_policy::local::{Engine, Local, LocalOptions};
use hone_render::{Renderer, Setting, Tokenizer, tiny};
use hone_trace::{Content, Trace};
use hone_train::advantage::Centring;
use hone_train::batch::Batch;
use hone_train::episode::Episode;
use hone_train::groups::{Credit, GroupOptions, Groups};
use hone_train::loss::Method;
use hone_train::sft;
use hone_train::step::{Objective, StepOptions, StepStats, step};
use std::sync::Arc;

/// About 800,000 parameters.
const SPEC: TinySpec = TinySpec { dim: 128, n_layers: 3, n_heads: 4, n_kv_heads: 2, ffn_dim: 512, vocab: 544, context_len: 192 };
/// Trained tokens of a step of imitation.
const N_TOKENS: usize = 256;
/// Rows computed at once.
const N_ROWS_MAX: usize = 8192;
/// The most tokens of an episode that are trained.
const EPISODE_TOKENS_MAX: usize = 112;
/// Added to the deviation of a group's rewards, so that groups that almost agree stay small.
const DEVIATION_MIN: f64 = 0.05;
/// The second moment follows within a hundred steps: no phase of training is much longer.
const ADAM: AdamOptions = AdamOptions { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.0, clip: 1.0 };

/// A small model that learns.
pub(crate) struct Apprentice {
    engine: Engine<Cpu>,
    renderer: Arc<Renderer>,
    files: tiny::TinyFiles,
    config: ModelConfig,
    /// Lent to the engine while it steps.
    trainer: Option<Trainer<Cpu>>,
    n_moves: u64,
}

/// What imitation came to.
pub(crate) struct Imitated {
    pub(crate) n_tokens: usize,
    /// Over the last twenty steps.
    pub(crate) loss: f64,
}

/// What a step of GRPO did.
#[derive(Default)]
pub(crate) struct Improved {
    pub(crate) n_without_signal: usize,
    pub(crate) n_tokens: usize,
    pub(crate) entropy: f64,
    pub(crate) mismatch_max: f64,
}

impl Apprentice {
    /// A model that knows the words of these texts, and nothing else.
    pub(crate) fn new(corpus: &[String], seed: u64, n_threads: Option<usize>) -> Result<Self, Failure> {
        let files = tiny::build(corpus.iter().map(String::as_str), SPEC.vocab).map_err(Failure::bug)?;
        let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).map_err(Failure::bug)?;
        let renderer = Arc::new(Renderer::new(tokenizer).map_err(Failure::bug)?);
        let config = ModelConfig::try_from(SPEC).map_err(Failure::bug)?;
        let n_threads = n_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let backend = Cpu::new(Dtype::Bf16, n_threads);
        let weights = RandomWeights { config: config.clone(), seed };
        let model = Model::load(&backend, &weights, SPEC.context_len, Passes::ForwardBackward).map_err(Failure::bug)?;
        let trainer = Trainer::full(&backend, &weights, ADAM, Recompute::Never).map_err(Failure::bug)?;
        let limits = BatchLimits { n_pages: 8192, ..BatchLimits::default() };
        let engine = Engine::start(Host::new(backend, model, limits)).map_err(Failure::world)?;
        Ok(Self { engine, renderer, files, config, trainer: Some(trainer), n_moves: 0 })
    }

    /// The model as it is now, as a policy.
    pub(crate) fn policy(&self) -> Result<Local<Cpu>, Failure> {
        let stop_ids = self.renderer.tokenizer().eos_ids().to_vec();
        let mut options = LocalOptions::new(format!("desk-agent@{}", self.n_moves), stop_ids, SPEC.context_len);
        options.sampler = SamplerOptions { temperature: 1.0, ..SamplerOptions::default() };
        Local::new(self.engine.clone(), Arc::clone(&self.renderer), options).map_err(Failure::bug)
    }

    /// Learns to do what was done in these traces, once through; `tick` is called at every step with how many there are.
    /// Stops early when `n_tokens_max` are trained.
    pub(crate) fn imitate(
        &mut self,
        traces: &[Trace],
        lr: f32,
        n_tokens_max: usize,
        tick: impl Fn(usize, usize),
    ) -> Result<Imitated, Failure> {
        let episodes: Vec<Episode> = traces.iter().map(|trace| self.rendered(trace)).collect::<Result<_, _>>()?;
        let batches = sft::batches(&episodes, N_TOKENS, N_ROWS_MAX, 0, 0);
        let n_steps = batches.len();
        let schedule = Schedule::Cosine { lr, floor: lr / 20.0, n_warmup: 100.min(n_steps as u64 / 10), n_steps: n_steps as u64 };
        let (mut losses, mut n_tokens) = (Vec::new(), 0);
        for (i, batch) in batches.into_iter().enumerate() {
            if n_tokens >= n_tokens_max {
                break;
            }
            n_tokens += batch.n_tokens();
            let now = Schedule::Constant { lr: schedule.lr(i as u64) };
            losses.push(self.step(batch, StepOptions::new(Objective::Imitation, now))?.loss);
            tick(i + 1, n_steps);
        }
        let last = &losses[losses.len().saturating_sub(20)..];
        Ok(Imitated { n_tokens, loss: hone_eval::interval::mean(last).0 })
    }

    /// Forgets the moments of the optimiser: gradients of another objective have another size.
    pub(crate) fn begin_anew(&mut self) -> Result<(), Failure> {
        let config = self.config.clone();
        let begun = self.with_trainer(move |host, trainer| {
            let masters = Masters { config, trainer, backend: host.backend() };
            let fresh = Trainer::full(host.backend(), &masters, ADAM, Recompute::Never)?;
            *trainer = fresh;
            Ok::<(), LoadError>(())
        });
        begun?.map_err(Failure::bug)
    }

    /// Does more of what earned more than its siblings.
    pub(crate) fn improve(&mut self, groups: &[Played], lr: f32) -> Result<Improved, Failure> {
        let traces: Vec<&[Trace]> = groups.iter().map(|played| played.traces.as_slice()).collect();
        let credit = Credit::Episode(Centring::Deviation { epsilon: DEVIATION_MIN });
        let groups =
            Groups::new(&traces, &GroupOptions { credit, overlong: None, n_rows_max: N_ROWS_MAX }).map_err(Failure::bug)?;
        let n_without_signal = groups.counts.n_without_signal;
        if groups.batch.is_empty() {
            return Ok(Improved { n_without_signal, ..Improved::default() });
        }
        let n_tokens = groups.batch.n_tokens();
        let objective = Objective::Policy(Method::Dapo.loss(EPISODE_TOKENS_MAX));
        let told = self.step(groups.batch, StepOptions::new(objective, Schedule::Constant { lr }))?;
        let mismatch_max = told.mismatch_max.unwrap_or(0.0);
        Ok(Improved { n_without_signal, n_tokens, entropy: told.entropy, mismatch_max })
    }

    fn step(&mut self, mut batch: Batch, options: StepOptions) -> Result<StepStats, Failure> {
        self.n_moves += 1;
        self.with_trainer(move |host, trainer| step(host, trainer, &mut batch, &options))?.map_err(Failure::bug)
    }

    /// All that it has learned.
    pub(crate) fn state(&mut self) -> Result<TrainerState, Failure> {
        self.with_trainer(|host, trainer| trainer.state(host.backend()))
    }

    /// Goes back to what it had learned.
    pub(crate) fn restore(&mut self, state: TrainerState) -> Result<(), Failure> {
        self.with_trainer(move |host, trainer| host.restore(trainer, &state))?.map_err(Failure::bug)
    }

    /// Lends the trainer to the engine's thread.
    fn with_trainer<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Host<Cpu>, &mut Trainer<Cpu>) -> T + Send + 'static,
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

    /// The tokens of a trace that no model sampled, with the answers as what is trained.
    fn rendered(&self, trace: &Trace) -> Result<Episode, Failure> {
        let tokenizer = self.renderer.tokenizer();
        let end = tokenizer.eos_ids().first().copied();
        let mut episode: Option<hone_render::Episode> = None;
        for turn in trace.turns() {
            let mut open = match episode.take() {
                None => hone_render::Episode::open(Arc::clone(&self.renderer), turn.input.clone(), Setting::default()),
                Some(mut open) => open.extend(turn.input.clone()).map(|_| open),
            }
            .map_err(Failure::bug)?;
            let Content::Text(text) = &turn.answer.content else { return Err(Failure::bug("an answer in words")) };
            let ids = tokenizer.encode(text).map_err(Failure::bug)?;
            let token = |id| Token { id, logprob: 0.0, forced: false, support: None };
            let tokens: Vec<Token> = ids.into_iter().chain(end).map(token).collect();
            open.answer(&tokens).map_err(Failure::bug)?;
            episode = Some(open);
        }
        let episode = episode.ok_or_else(|| Failure::bug("a trace with a turn"))?;
        let segment = episode.segments().last().ok_or_else(|| Failure::bug("an episode has a segment"))?;
        Episode::rendered(segment.ids.clone(), &segment.drawn).map_err(|why| Failure::bug(format!("{why:?}")))
    }

    /// Adds the model under this name.
    pub(crate) fn keep(&self, name: &str, context: &Context<'_>) -> Result<(), Failure> {
        let trainer = self.trainer.as_ref().ok_or_else(|| Failure::bug("the trainer is lent"))?;
        let backend = Cpu::new(Dtype::Bf16, 1);
        let masters = Masters { config: self.config.clone(), trainer, backend: &backend };
        crate::model::keep_tiny(name, &masters, &self.files, context)
    }
}

/// The weights in training, to be read like a file.
struct Masters<'a> {
    config: ModelConfig,
    trainer: &'a Trainer<Cpu>,
    backend: &'a Cpu,
}

impl WeightSource for Masters<'_> {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError> {
        Ok(self.trainer.master(self.backend, id).expect("every parameter is trained"))
    }
}
