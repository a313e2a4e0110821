//! Scores token sequences from the command line, for comparison with other implementations.
//!
//!     score MODEL [--dtype f32|bf16] [--threads N] [--adapter DIR] [--export DIR] [--logits FILE] < sequences.json
//!
//! Input is a JSON list of lists of token ids. Output is, per sequence, the log-probability of each token after the first
//! and the ids of a greedy continuation of 16 tokens. `--export` writes the model (with the adapter merged in) as a Hugging Face
//! folder in f32. `--logits` writes the logits over the whole vocabulary at every position, sequence by sequence, as f32.
#![expect(clippy::print_stdout, reason = "a command prints its result")]

use std::path::PathBuf;
use std::sync::Mutex;

use hone_engine::backend::{Backend, Dtype};
use hone_engine::batch::{BatchLimits, Request};
use hone_engine::cpu::Cpu;
use hone_engine::forward::{head_input, hidden};
use hone_engine::host::{AdapterVersion, Host};
use hone_engine::layout::{Group, Packed};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::model::{Model, Passes};
use hone_engine::peft;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::plain_targets;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let path: PathBuf = args.get(1).ok_or("which model?")?.into();
    let dtype = if option("--dtype").is_some_and(|dtype| dtype == "bf16") { Dtype::Bf16 } else { Dtype::F32 };
    let n_threads = option("--threads").map_or(Ok(2), |text| text.parse())?;
    let weights = Weights::open(&path)?;
    let adapter = option("--adapter").map(|dir| peft::load(dir.as_ref(), weights.config())).transpose()?;
    if let Some(folder) = option("--export") {
        peft::merge(folder.as_ref(), &weights, adapter.as_ref())?;
    }
    let sequences: Vec<Vec<u32>> = serde_json::from_reader(std::io::stdin())?;
    let backend = Cpu::new(dtype, n_threads);
    let model = Model::load(&backend, &weights, 1024, Passes::Forward)?;
    let mut host = Host::new(backend, model, BatchLimits::default());
    let version = adapter.map(|adapter| host.load(&adapter));
    let mut logprobs = Vec::new();
    for sequence in &sequences {
        let packed = Packed::new(&[Group { prompt: vec![], completions: vec![sequence.clone()] }]);
        let scored = host.score(version, &packed, &plain_targets(&packed, 1.0));
        logprobs.push(scored.iter().map(|scored| scored.logprob).collect::<Vec<f32>>());
    }
    if let Some(file) = option("--logits") {
        let rows = sequences.iter().flat_map(|sequence| logits(&host, version, sequence));
        std::fs::write(file, rows.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())?;
    }
    let greedy = SamplerOptions { temperature: 0.0, ..SamplerOptions::default() };
    let requests = sequences.iter().map(|sequence| Request {
        sampler: greedy,
        adapter: version.and_then(|version| host.pin(version)),
        ..Request::new(sequence.clone(), 16)
    });
    let requests = requests.collect();
    let samples = host.sample(requests)?;
    let continued: Vec<Vec<u32>> =
        samples.iter().map(|samples| samples[0].tokens.iter().map(|token| token.id).collect()).collect();
    println!("{}", serde_json::json!({"logprobs": logprobs, "greedy": continued}));
    Ok(())
}

/// Logits over the whole vocabulary at every position of a sequence.
fn logits(host: &Host<Cpu>, version: Option<AdapterVersion>, sequence: &[u32]) -> Vec<f32> {
    let (backend, model) = (host.backend(), host.model());
    let packed = Packed::new(&[Group { prompt: sequence.to_vec(), completions: vec![] }]);
    let mut kvs: Vec<_> = (0..model.config.n_layers).map(|_| backend.kv(model.heads(), packed.n_pages)).collect();
    let pinned = version.and_then(|version| host.pin(version));
    let adapters: Vec<_> = pinned.iter().map(|(_, adapter)| (0..sequence.len(), adapter.as_ref())).collect();
    let x = hidden(backend, model, &packed.layout, &mut kvs, &adapters);
    let rows: Vec<u32> = (0..sequence.len() as u32).collect();
    let vocab = model.config.vocab;
    let all = Mutex::new(vec![0.0; rows.len() * vocab]);
    backend.logits(&head_input(backend, model, &x, &rows), model.head_weight(), &|row, logits| {
        all.lock().expect("no panic")[row * vocab..][..vocab].copy_from_slice(logits);
    });
    all.into_inner().expect("no panic")
}
