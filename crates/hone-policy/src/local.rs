//! The local engine as a policy: a conversation extends the tokens that it sampled, and tells all of them.
//!
//! The same seed gives the same answers whatever else runs on the engine: turn n of a conversation draws from the stream
//! (seed, n). Without a clock nothing is timed and no time limit is kept, so that a slow machine writes the same bytes.
//! Many policies may share one [`Engine`]: one per adapter version, each pinned when a conversation opens.
//! Knows nothing of worlds, files or HTTP.

mod conversation;
mod drawing;
mod engine;
mod plain;
mod telling;

pub use engine::{Engine, Stopped};

use crate::upstream::Delta;
use conversation::LocalConversation;
use hone_engine::backend::Backend;
use hone_engine::host::AdapterVersion;
use hone_engine::kv::Version;
use hone_engine::layout::PAGE;
use hone_engine::lora::{Adapter, LoraWeights};
use hone_engine::sampler::{SamplerError, SamplerOptions};
use hone_render::schema::GrammarHost;
use hone_render::stop::StopStrings;
use hone_render::think::{self, ThinkBudget, ThinkRule};
use hone_render::tools::ToolFormat;
use hone_render::{RenderError, Renderer};
use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{AdapterId, Clock, Config, Message, Time};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// How a local model is used.
#[derive(Clone)]
pub struct LocalOptions {
    /// The model's name on the record.
    pub model: String,
    /// The tokens that end an answer.
    pub stop_ids: Vec<u32>,
    /// How tokens are drawn.
    pub sampler: SamplerOptions,
    /// Texts that end an answer; they are not part of it.
    pub stops: Vec<String>,
    /// How long it thinks, where that has a limit.
    pub think: Option<ThinkBudget>,
    /// The longest conversation in tokens.
    pub context_len_max: usize,
    /// The adapter on top of the model: its version in the engine, and its id on the record.
    pub adapter: Option<(AdapterVersion, AdapterId)>,
    /// Further variables for the chat template, such as `enable_thinking`.
    pub template: Map<String, Value>,
    /// The time for templates that print one; without it they fail.
    pub now: Option<Time>,
    /// How many exchanges before the present one it remembers; without it, all.
    pub memory: Option<usize>,
    /// What measures how long an answer takes.
    pub clock: Option<Arc<dyn Clock>>,
}

impl LocalOptions {
    /// Plain sampling from a model.
    pub fn new(model: impl Into<String>, stop_ids: Vec<u32>, context_len_max: usize) -> Self {
        Self {
            model: model.into(),
            stop_ids,
            sampler: SamplerOptions::default(),
            stops: Vec::new(),
            think: None,
            context_len_max,
            adapter: None,
            template: Map::new(),
            now: None,
            memory: None,
            clock: None,
        }
    }

    fn config(&self) -> Config {
        let SamplerOptions { temperature, top_k, top_p, min_p } = self.sampler;
        // Through its shortest text, so that 0.7 does not become 0.699999988079071.
        let number = |value: f32| value.to_string().parse::<f64>().unwrap_or(f64::from(value));
        let mut settings = Map::new();
        settings.insert("context_len_max".into(), self.context_len_max.into());
        settings.insert("top_k".into(), top_k.into());
        settings.insert("top_p".into(), json!(number(top_p)));
        settings.insert("min_p".into(), json!(number(min_p)));
        settings.insert("stop".into(), json!(self.stops));
        if let Some(memory) = self.memory {
            settings.insert("memory".into(), memory.into());
        }
        if !self.template.is_empty() {
            settings.insert("template".into(), Value::Object(self.template.clone()));
        }
        if let Some(think) = &self.think {
            let rest = json!({"tokens_min": think.n_tokens_min, "waits_max": think.n_waits_max});
            settings.insert("think".into(), rest);
        }
        Config {
            model: Some(self.model.clone()),
            adapter: self.adapter.map(|(_, id)| id),
            temperature: Some(number(temperature)),
            thinking_tokens_max: self.think.as_ref().map(|think| think.n_tokens_max as u64),
            settings,
            ..Config::default()
        }
    }
}

/// How one answer is drawn, where who asks wishes it otherwise than the policy has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wishes {
    /// How adventurous.
    pub temperature: Option<f32>,
    /// Draw from the likeliest tokens that have this much probability together; 0 is the likeliest alone.
    pub top_p: Option<f32>,
    /// Further texts that end the answer.
    pub stops: Vec<String>,
    /// The seed of this answer.
    pub seed: Option<u64>,
    /// How many more answers are drawn to the same question.
    pub n_others: usize,
    /// Tell the tokens that were drawn, with so many of the likeliest in the place of each.
    pub tokens: Option<usize>,
    /// What the answer is thought to say; it comes sooner where that is right.
    pub prediction: String,
    /// Who asks: an answer comes sooner where the question or the answer is like an earlier one of the same asker.
    pub asker: u64,
}

impl Wishes {
    fn n_choices(&self) -> usize {
        self.n_others + 1
    }

    fn sampler(&self, own: SamplerOptions) -> SamplerOptions {
        let (temperature, top_p) = (self.temperature.unwrap_or(own.temperature), self.top_p.unwrap_or(own.top_p));
        match self.top_p {
            Some(0.0) => SamplerOptions { temperature, top_k: 1, ..own },
            _ => SamplerOptions { temperature, top_p, ..own },
        }
    }
}

/// A piece of an answer that is being drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Which of the answers, where several are drawn.
    pub choice_idx: usize,
    /// What is new; an empty text where nothing can be told yet.
    pub delta: Delta,
    /// The tokens that were drawn since the last piece, where they are to be told.
    pub tokens: Vec<ToldToken>,
}

/// A token as it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldToken {
    /// What it says.
    pub bytes: Vec<u8>,
    /// Its log-probability within the support it was drawn from; 0 for tokens that were forced.
    pub logprob: f32,
    /// The likeliest tokens in its place, with theirs.
    pub likeliest: Vec<(Vec<u8>, f32)>,
}

/// An answer that was given aloud.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    /// The answer.
    pub answered: Answered,
    /// Its tokens, where they are to be told: all but the one that ended it.
    pub tokens: Vec<ToldToken>,
}

/// A text that goes on as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// As text, in which no token is special.
    Text(String),
    /// As tokens.
    Ids(Vec<u32>),
}

/// Who hears an answer while it is drawn; who breaks off ends it.
pub type Hear<'a> = dyn FnMut(Piece) -> ControlFlow<()> + 'a;

/// A conversation whose answers can be heard as they are drawn.
pub trait Aloud: Conversation {
    /// Like [`Conversation::answer`], with wishes, and told piece by piece. The conversation goes on with the first of the answers,
    /// which also says what all of them took.
    fn answer_aloud(
        &mut self,
        input: &[Message],
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: &mut Hear<'_>,
    ) -> Result<Vec<Spoken>, PolicyError>;
}

/// A policy whose conversations can be heard.
pub trait Voice: Policy {
    /// Begins a conversation.
    fn open_aloud(&self, opening: &Opening) -> Result<Box<dyn Aloud>, PolicyError>;

    /// How many tokens are read before an answer: those of the whole conversation, as the template writes it.
    fn count(&self, opening: &Opening, messages: &[Message]) -> Result<usize, PolicyError>;

    /// Goes on with plain texts, without a template. The first answer says what all of them took.
    fn continue_aloud(
        &self,
        prompts: &[Prompt],
        seed: u64,
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: &mut Hear<'_>,
    ) -> Result<Vec<Spoken>, PolicyError>;
}

/// Why a local model cannot be used like this.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LocalError {
    /// A sampler option is out of range.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// A stop string or a thinking budget that this model cannot follow.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The model was not loaded for conversations of this length.
    #[error("a conversation of {asked} tokens does not fit: the model was loaded for 2 to {n_positions}")]
    Context {
        /// What was asked.
        asked: usize,
        /// What there is.
        n_positions: usize,
    },
    /// The engine is gone.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// A local model as a policy.
pub struct Local<B: Backend> {
    shared: Arc<Shared<B>>,
    config: Config,
}

/// What the policy and its conversations have in common.
struct Shared<B: Backend> {
    engine: Engine<B>,
    renderer: Arc<Renderer>,
    options: LocalOptions,
    /// The vocabulary for grammars, made when the first schema comes.
    grammars: OnceLock<Result<GrammarHost, RenderError>>,
    /// An adapter that was loaded for this policy alone.
    _loaded: Option<Loaded<B>>,
}

/// An adapter that leaves the engine when the last conversation with it has ended.
struct Loaded<B: Backend> {
    engine: Engine<B>,
    version: AdapterVersion,
}

impl<B: Backend> Drop for Loaded<B> {
    fn drop(&mut self) {
        let version = self.version;
        // An engine that has stopped has no adapters any more.
        self.engine.beside(move |host| host.drop_adapter(version)).ok();
    }
}

impl<B: Backend> Local<B> {
    /// Checks the options against the model.
    pub fn new(engine: Engine<B>, renderer: Arc<Renderer>, options: LocalOptions) -> Result<Self, LocalError> {
        options.sampler.validated()?;
        if !options.stops.is_empty() {
            StopStrings::new(Arc::clone(renderer.tokenizer()), &options.stops)?;
        }
        if let Some(budget) = &options.think {
            ThinkRule::new(Arc::clone(renderer.tokenizer()), budget.clone(), think::Opening::Model)?;
        }
        let n_positions = engine.look(|host| host.model().n_positions)?;
        if !(2..=n_positions).contains(&options.context_len_max) {
            return Err(LocalError::Context { asked: options.context_len_max, n_positions });
        }
        Ok(Self::of(engine, renderer, options, None))
    }

    /// The same model with this adapter on it, on the same engine. What is underway goes on.
    pub fn with_adapter(&self, weights: LoraWeights, id: AdapterId) -> Result<Self, Stopped> {
        let Shared { engine, renderer, options, .. } = &*self.shared;
        let version = engine.beside(move |host| host.load(&weights))?;
        let loaded = Loaded { engine: engine.clone(), version };
        let options = LocalOptions { adapter: Some((version, id)), ..options.clone() };
        Ok(Self::of(engine.clone(), Arc::clone(renderer), options, Some(loaded)))
    }

    fn of(engine: Engine<B>, renderer: Arc<Renderer>, options: LocalOptions, loaded: Option<Loaded<B>>) -> Self {
        let config = options.config();
        let shared = Shared { engine, renderer, options, grammars: OnceLock::new(), _loaded: loaded };
        Self { shared: Arc::new(shared), config }
    }
}

impl<B: Backend> Policy for Local<B> {
    fn config(&self) -> &Config {
        &self.config
    }

    fn keeps_to_schemas(&self) -> bool {
        true
    }

    fn calls_tools(&self) -> bool {
        self.shared.renderer.tool_format() != ToolFormat::None
    }

    fn context_tokens(&self) -> Option<usize> {
        Some(self.shared.options.context_len_max)
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        Ok(Box::new(self.begin(opening)?))
    }
}

impl<B: Backend> Voice for Local<B> {
    fn open_aloud(&self, opening: &Opening) -> Result<Box<dyn Aloud>, PolicyError> {
        Ok(Box::new(self.begin(opening)?))
    }

    fn count(&self, opening: &Opening, messages: &[Message]) -> Result<usize, PolicyError> {
        self.begin(opening)?.count(messages)
    }

    fn continue_aloud(
        &self,
        prompts: &[Prompt],
        seed: u64,
        limits: AnswerLimits,
        wishes: &Wishes,
        hear: &mut Hear<'_>,
    ) -> Result<Vec<Spoken>, PolicyError> {
        self.continued(prompts, seed, limits, wishes, hear)
    }
}

/// An adapter that stays loaded for as long as somebody speaks with it.
type Pinned<B> = (Version, Arc<Adapter<B>>);

impl<B: Backend> Local<B> {
    fn begin(&self, opening: &Opening) -> Result<LocalConversation<B>, PolicyError> {
        let shared = &self.shared;
        let grammar = opening.schema.as_ref().map(|schema| shared.grammar(schema)).transpose()?;
        Ok(LocalConversation::new(Arc::clone(shared), opening, grammar, self.adapter()?))
    }

    /// The adapter, pinned for what begins now.
    fn adapter(&self) -> Result<Option<Pinned<B>>, PolicyError> {
        let Some((version, id)) = self.shared.options.adapter else { return Ok(None) };
        let pinned = self.shared.engine.look(move |host| host.pin(version)).map_err(|error| stopped(&error))?;
        let gone = || failed(PolicyErrorKind::Refused, format!("adapter {id} is no longer loaded"));
        pinned.ok_or_else(gone).map(Some)
    }
}

impl<B: Backend> Shared<B> {
    /// Whether answers can be drawn as is wished.
    fn check(&self, wishes: &Wishes) -> Result<(), PolicyError> {
        let checked = wishes.sampler(self.options.sampler).validated();
        checked.map(drop).map_err(|error| failed(PolicyErrorKind::Refused, error.to_string()))
    }

    /// The tokens of what an answer is thought to say. What has none, or more than there is room for, will not be said either.
    fn predicted(&self, prediction: &str) -> Vec<u32> {
        let tokenizer = self.renderer.tokenizer();
        let checked = tokenizer.check_len(prediction, self.options.context_len_max);
        checked.and_then(|()| tokenizer.encode(prediction)).unwrap_or_default()
    }

    fn grammar(&self, schema: &Value) -> Result<hone_render::schema::Grammar, PolicyError> {
        let host = self.grammars.get_or_init(|| GrammarHost::new(self.renderer.tokenizer()));
        let host = host.as_ref().map_err(unrendered)?;
        host.schema(schema).map_err(|error| unrendered(&error))
    }
}

/// How many tokens of a segment are in the engine's cache after this many were computed: whole pages.
fn n_cached(n_computed: usize) -> usize {
    n_computed / PAGE * PAGE
}

fn failed(kind: PolicyErrorKind, message: impl Into<String>) -> PolicyError {
    PolicyError { kind, message: message.into(), llm_calls: Vec::new() }
}

fn unrendered(error: &RenderError) -> PolicyError {
    let kind = if matches!(error, RenderError::TooLong { .. }) { PolicyErrorKind::TooLong } else { PolicyErrorKind::Refused };
    failed(kind, error.to_string())
}

fn stopped(error: &Stopped) -> PolicyError {
    failed(PolicyErrorKind::Provider, error.to_string())
}
