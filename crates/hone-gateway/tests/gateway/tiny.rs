//! A model of this machine, small enough to be made anew: its answers are nonsense, and its tokens are real.

use hone_engine::backend::Dtype;
use hone_engine::batch::BatchLimits;
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_policy::local::{Engine, Local, LocalOptions, Voice};
use hone_render::{Renderer, Tokenizer, tiny};
use std::sync::{Arc, LazyLock};

const VOCAB: usize = 320;
const CONTEXT: usize = 512;
const CORPUS: &str = "the cat sat on the mat; 12 times 7 is what? so it is sunny\n";

static TINY: LazyLock<Arc<dyn Voice>> = LazyLock::new(|| {
    let files = tiny::build([CORPUS], VOCAB).unwrap();
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).unwrap();
    let renderer = Arc::new(Renderer::new(tokenizer).unwrap());
    let spec: TinySpec = format!("d32,l2,h4,kv2,ff48,v{VOCAB},ctx{CONTEXT}").parse().unwrap();
    let weights = RandomWeights { config: ModelConfig::try_from(spec).unwrap(), seed: 11 };
    let backend = Cpu::new(Dtype::F32, 1);
    let model = Model::load(&backend, &weights, CONTEXT, Passes::Forward).unwrap();
    let limits = BatchLimits { n_pages: 1024, n_sequences_max: 16, ..BatchLimits::default() };
    let engine = Engine::start(Host::new(backend, model, limits)).unwrap();
    let options = LocalOptions::new("tiny", renderer.tokenizer().eos_ids().to_vec(), CONTEXT);
    Arc::new(Local::new(engine, renderer, options).unwrap())
});

/// The only one of this process.
pub(crate) fn voice() -> Arc<dyn Voice> {
    Arc::clone(&TINY)
}
