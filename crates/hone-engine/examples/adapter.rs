//! Trains a LoRA adapter for a few steps and saves it as a PEFT folder, for comparison with other implementations.
//!
//!     adapter MODEL FOLDER [--steps N] [--threads N] < sequences.json
//!
//! Input is a JSON list of lists of token ids; every step raises their likelihood, in f32. Prints the mean loss of each step.
#![expect(clippy::print_stdout, reason = "a command prints its result")]

use std::path::PathBuf;

use hone_engine::backend::{Dtype, ScoredGrad};
use hone_engine::batch::BatchLimits;
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::layout::{Group, Packed};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes};
use hone_engine::optim::AdamOptions;
use hone_engine::peft;
use hone_engine::tape::{Recompute, plain_targets};
use hone_engine::trainer::Trainer;

const LR: f32 = 2e-3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let path: PathBuf = args.get(1).ok_or("which model?")?.into();
    let folder: PathBuf = args.get(2).ok_or("which folder?")?.into();
    let n_steps: usize = option("--steps").map_or(Ok(4), |text| text.parse())?;
    let n_threads = option("--threads").map_or(Ok(2), |text| text.parse())?;
    let sequences: Vec<Vec<u32>> = serde_json::from_reader(std::io::stdin())?;

    let weights = Weights::open(&path)?;
    let config = weights.config();
    let backend = Cpu::new(Dtype::F32, n_threads);
    let model = Model::load(&backend, &weights, 1024, Passes::ForwardBackward)?;
    let mut host = Host::new(backend, model, BatchLimits::default());
    let fresh = LoraWeights::fresh(config, &LoraSpec::all(8, 16.0), 1);
    let mut trainer = Trainer::lora(host.backend(), config, &fresh, AdamOptions::default(), Recompute::Never);
    let groups: Vec<Group> =
        sequences.into_iter().map(|sequence| Group { prompt: vec![], completions: vec![sequence] }).collect();
    let packed = Packed::new(&groups);
    let mut losses = Vec::new();
    for _ in 0..n_steps {
        let targets = plain_targets(&packed, 1.0);
        let n = targets.len() as f32;
        let scored = host.accumulate(&mut trainer, &packed, targets, |scored| {
            vec![ScoredGrad { logprob: -1.0 / n, entropy: 0.0 }; scored.len()]
        });
        host.step(&mut trainer, LR);
        losses.push(-scored.iter().map(|scored| scored.logprob).sum::<f32>() / n);
    }
    let trained = trainer.lora_weights(host.backend()).ok_or("a LoRA run")?;
    peft::save(&folder, config, &trained, &path.display().to_string())?;
    println!("{}", serde_json::json!({"losses": losses}));
    Ok(())
}
