//! A model of this machine, small enough to be made anew: its answers are nonsense, and its tokens are real.

use hone_engine::backend::Dtype;
use hone_engine::batch::BatchLimits;
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_policy::local::{Aloud, Engine, Hear, Local, LocalOptions, Prompt, Spoken, Voice, Wishes};
use hone_render::{RenderError, Renderer, Tokenizer, tiny};
use hone_trace::policy::{AnswerLimits, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{Config, Message};
use std::sync::{Arc, LazyLock};

const VOCAB: usize = 320;
const CONTEXT: usize = 512;
const CORPUS: &str = "the cat sat on the mat; 12 times 7 is what? so it is sunny\n";

/// A chat template like SmolLM2's, which has no place for tools.
const PLAIN: &str = "{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}";

static TINY: LazyLock<Arc<dyn Voice>> = LazyLock::new(|| made(Renderer::new));
static TOOLLESS: LazyLock<Arc<dyn Voice>> = LazyLock::new(|| made(|tokenizer| Renderer::with_template(tokenizer, PLAIN)));

fn made(renderer: impl FnOnce(Tokenizer) -> Result<Renderer, RenderError>) -> Arc<dyn Voice> {
    let files = tiny::build([CORPUS], VOCAB).unwrap();
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).unwrap();
    let renderer = Arc::new(renderer(tokenizer).unwrap());
    let spec: TinySpec = format!("d32,l2,h4,kv2,ff48,v{VOCAB},ctx{CONTEXT}").parse().unwrap();
    let weights = RandomWeights { config: ModelConfig::try_from(spec).unwrap(), seed: 11 };
    let backend = Cpu::new(Dtype::F32, 1);
    let model = Model::load(&backend, &weights, CONTEXT, Passes::Forward).unwrap();
    let limits = BatchLimits { n_pages: 1024, n_sequences_max: 16, ..BatchLimits::default() };
    let engine = Engine::start(Host::new(backend, model, limits)).unwrap();
    let options = LocalOptions::new("tiny", renderer.tokenizer().eos_ids().to_vec(), CONTEXT);
    Arc::new(Local::new(engine, renderer, options).unwrap())
}

/// The only one of this process that can call tools.
pub(crate) fn voice() -> Arc<dyn Voice> {
    Arc::clone(&TINY)
}

/// The only one that cannot.
pub(crate) fn toolless() -> Arc<dyn Voice> {
    Arc::clone(&TOOLLESS)
}

/// One that fails whatever it is asked.
struct Mute(Config);

/// A model of this process whose engine has stopped.
pub(crate) fn mute() -> Arc<dyn Voice> {
    Arc::new(Mute(Config::default()))
}

fn stopped() -> PolicyError {
    PolicyError { kind: PolicyErrorKind::Provider, message: "the engine has stopped".into(), llm_calls: Vec::new() }
}

impl Policy for Mute {
    fn config(&self) -> &Config {
        &self.0
    }

    fn open(&self, _: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        Err(stopped())
    }
}

impl Voice for Mute {
    fn open_aloud(&self, _: &Opening) -> Result<Box<dyn Aloud>, PolicyError> {
        Err(stopped())
    }

    fn count(&self, _: &Opening, _: &[Message]) -> Result<usize, PolicyError> {
        Err(stopped())
    }

    fn continue_aloud(
        &self,
        _: &[Prompt],
        _: u64,
        _: AnswerLimits,
        _: &Wishes,
        _: &mut Hear<'_>,
    ) -> Result<Vec<Spoken>, PolicyError> {
        Err(stopped())
    }
}
