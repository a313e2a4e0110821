//! A small model that learns: made from nothing, sampled and trained in one process on the same weights.

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
use hone_engine::trainer::Trainer;
use hone_env::rollout::Played;
use hone_policy::local::{Engine, Local, LocalOptions};
use hone_render::{Renderer, Setting, Tokenizer, tiny};
use hone_trace::{Content, Trace};
use hone_train::batch::Batch;
use hone_train::episode::Episode;
use hone_train::groups::{Credit, GroupOptions, Groups};
use hone_train::loss::Method;
use hone_train::sft;
use hone_train::step::{Objective, StepOptions, StepStats, step};
use std::sync::Arc;

/// About a million parameters.
const SPEC: TinySpec =
    TinySpec { dim: 128, n_layers: 4, n_heads: 4, n_kv_heads: 4, ffn_dim: 448, vocab: 512, context_len: 192 };
/// How often the traces of the agent are gone through.
const N_EPOCHS: u64 = 4;
/// Trained tokens of a step of imitation.
const N_TOKENS: usize = 256;
/// Rows computed at once.
const N_ROWS_MAX: usize = 8192;
const IMITATION_LR: f32 = 1.5e-3;
const GRPO_LR: f32 = 5e-4;
/// The most tokens of an episode that are trained.
const EPISODE_TOKENS_MAX: usize = 112;

/// A small model that learns.
pub(super) struct Apprentice {
    engine: Engine<Cpu>,
    renderer: Arc<Renderer>,
    files: tiny::TinyFiles,
    config: ModelConfig,
    trainer: Option<Trainer<Cpu>>,
    n_updates: u64,
}

/// What imitation reached.
pub(super) struct Imitated {
    pub(super) n_episodes: usize,
    pub(super) n_tokens: usize,
    pub(super) first_loss: f64,
    pub(super) last_loss: f64,
}

/// What a step of GRPO did.
pub(super) struct Improved {
    pub(super) n_without_signal: usize,
    pub(super) entropy: f64,
    pub(super) mismatch_max: f64,
}

impl Apprentice {
    pub(super) fn new(corpus: &[String], seed: u64, n_threads: Option<usize>) -> Result<Self, Failure> {
        let files = tiny::build(corpus.iter().map(String::as_str), SPEC.vocab).map_err(Failure::bug)?;
        let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).map_err(Failure::bug)?;
        let renderer = Arc::new(Renderer::new(tokenizer).map_err(Failure::bug)?);
        let config = ModelConfig::try_from(SPEC).map_err(Failure::bug)?;
        let n_threads = n_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let backend = Cpu::new(Dtype::Bf16, n_threads);
        let weights = RandomWeights { config: config.clone(), seed };
        let model = Model::load(&backend, &weights, SPEC.context_len, Passes::ForwardBackward).map_err(Failure::bug)?;
        let trainer = Trainer::full(&backend, &weights, AdamOptions::default(), Recompute::Never).map_err(Failure::bug)?;
        let limits = BatchLimits { n_pages: 8192, ..BatchLimits::default() };
        let engine = Engine::start(Host::new(backend, model, limits)).map_err(Failure::world)?;
        Ok(Self { engine, renderer, files, config, trainer: Some(trainer), n_updates: 0 })
    }

    /// The model as it is now, as a policy.
    pub(super) fn policy(&self) -> Result<Local<Cpu>, Failure> {
        let stop_ids = self.renderer.tokenizer().eos_ids().to_vec();
        let name = format!("desk-agent@{}", self.n_updates);
        let mut options = LocalOptions::new(name, stop_ids, SPEC.context_len);
        options.sampler = SamplerOptions { temperature: 1.0, ..SamplerOptions::default() };
        Local::new(self.engine.clone(), Arc::clone(&self.renderer), options).map_err(Failure::bug)
    }

    /// Learns to do what was done in these traces.
    pub(super) fn imitate(&mut self, traces: &[Trace]) -> Result<Imitated, Failure> {
        let episodes: Vec<Episode> = traces.iter().map(|trace| self.rendered(trace)).collect::<Result<_, _>>()?;
        let n_steps = sft::batches(&episodes, N_TOKENS, N_ROWS_MAX, 0, 0).len() as u64 * N_EPOCHS;
        let schedule = Schedule::Cosine { lr: IMITATION_LR, floor: IMITATION_LR / 20.0, n_warmup: n_steps / 20, n_steps };
        let options = StepOptions::new(Objective::Imitation, schedule);
        let mut losses = Vec::new();
        let mut n_tokens = 0;
        for epoch in 0..N_EPOCHS {
            for batch in sft::batches(&episodes, N_TOKENS, N_ROWS_MAX, 0, epoch) {
                n_tokens += batch.n_tokens();
                losses.push(self.step(batch, options)?.loss);
            }
        }
        let last = &losses[losses.len().saturating_sub(20)..];
        let last_loss = last.iter().sum::<f64>() / last.len().max(1) as f64;
        Ok(Imitated { n_episodes: episodes.len(), n_tokens, first_loss: losses.first().copied().unwrap_or(0.0), last_loss })
    }

    /// Does more of what earned more than its siblings.
    pub(super) fn improve(&mut self, groups: &[Played], step_idx: usize, n_steps: usize) -> Result<Improved, Failure> {
        let method = Method::DrGrpo;
        let traces: Vec<&[Trace]> = groups.iter().map(|played| played.traces.as_slice()).collect();
        let options = GroupOptions { credit: Credit::Episode(method.centring()), overlong: None, n_rows_max: N_ROWS_MAX };
        let groups = Groups::new(&traces, &options).map_err(Failure::bug)?;
        let n_without_signal = groups.counts.n_without_signal;
        if groups.batch.n_micro_batches() == 0 {
            return Ok(Improved { n_without_signal, entropy: 0.0, mismatch_max: 0.0 });
        }
        let lr = GRPO_LR * (1.0 - 0.8 * step_idx as f32 / n_steps as f32);
        let objective = Objective::Policy(method.loss(EPISODE_TOKENS_MAX));
        let told = self.step(groups.batch, StepOptions::new(objective, Schedule::Constant { lr }))?;
        Ok(Improved { n_without_signal, entropy: told.entropy, mismatch_max: told.mismatch_max.unwrap_or(0.0) })
    }

    fn step(&mut self, mut batch: Batch, options: StepOptions) -> Result<StepStats, Failure> {
        let mut trainer = self.trainer.take().ok_or_else(|| Failure::bug("the trainer is lent"))?;
        let (trainer, told) = self
            .engine
            .run(move |host| {
                let told = step(host, &mut trainer, &mut batch, &options);
                (trainer, told)
            })
            .map_err(Failure::bug)?;
        self.trainer = Some(trainer);
        self.n_updates += 1;
        told.map_err(Failure::bug)
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
    pub(super) fn keep(&self, name: &str, context: &Context<'_>) -> Result<(), Failure> {
        let trainer = self.trainer.as_ref().ok_or_else(|| Failure::bug("the trainer is lent"))?;
        let backend = Cpu::new(Dtype::Bf16, 1);
        let masters = Masters { config: self.config.clone(), trainer, backend: &backend };
        crate::model::keep_tiny(name, &masters, &self.files, context)
    }
}

/// The weights in training, to be written.
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
