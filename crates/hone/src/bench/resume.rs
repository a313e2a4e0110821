//! A short training run that keeps a checkpoint after every step, and the same run killed and taken up again.

use super::onpolicy::{prompt, source};
use super::sample::Random;
use super::step::{Step, adapter};
use crate::failure::{Exit, Failure};
use hone_engine::backend::Dtype;
use hone_engine::batch::BatchLimits;
use hone_engine::checkpoint;
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes};
use hone_engine::optim::AdamOptions;
use hone_engine::peft;
use hone_engine::tape::Recompute;
use hone_engine::trainer::Trainer;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const N_STEPS: u64 = 12;
const N_PROMPTS: usize = 4;
const N_SAMPLES: usize = 4;

/// A training run in a folder of its own.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Run {
    /// A GGUF file or folder with weights; without one, a small model with random weights
    #[arg(long, value_name = "PATH")]
    pub(super) model: Option<PathBuf>,
    /// How many threads compute
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<usize>())]
    pub(super) threads: usize,
    /// Where the checkpoint is kept
    #[arg(id = "run-folder", long = "run-folder", value_name = "DIR")]
    pub(super) folder: PathBuf,
}

impl Run {
    fn checkpoint(&self) -> PathBuf {
        self.folder.join("checkpoint.safetensors")
    }
}

/// The run to its end, from its checkpoint where there is one: the hash of its adapter.
pub(super) fn train(run: &Run) -> Result<String, Failure> {
    let source = source(run.model.as_deref())?;
    let backend = Cpu::new(Dtype::Bf16, run.threads);
    let model = Model::load(&backend, &*source, 256, Passes::ForwardBackward).map_err(Failure::world)?;
    let config = model.config.clone();
    let mut host = Host::new(backend, model, BatchLimits::default());
    let fresh = LoraWeights::fresh(&config, &LoraSpec::all(8, 16.0), 1);
    let mut trainer = Trainer::lora(host.backend(), &config, &fresh, AdamOptions::default(), Recompute::Never);
    if run.checkpoint().exists() {
        let state = checkpoint::load(&run.checkpoint()).map_err(Failure::world)?;
        host.restore(&mut trainer, &state).map_err(Failure::world)?;
    }
    // Low token ids earn something: nothing that makes sense, but something to learn.
    let n_low = config.vocab / 4;
    let step = Step {
        prompts: (1..=N_PROMPTS).map(|i| prompt(i, config.vocab)).collect(),
        n_samples: N_SAMPLES,
        n_tokens: 24,
        reward: Box::new(move |ids| ids.iter().filter(|&&id| (id as usize) < n_low).count() as f32),
        lr: 1e-3,
    };
    while trainer.n_steps() < N_STEPS {
        let samples = step.sample(&mut host, &trainer, trainer.n_steps())?;
        step.train(&mut host, &mut trainer, &samples);
        checkpoint::save(&run.checkpoint(), &trainer.state(host.backend())).map_err(Failure::world)?;
    }
    Ok(peft::hash(&config, &adapter(&host, &trainer)?))
}

/// The hidden command behind [`kill_and_resume`].
pub(super) fn run(run: &Run) -> Result<Exit, Failure> {
    train(run).map(|_| Exit::Yes)
}

/// The run in a process of its own, killed at random moments and started again: the hash of its adapter, and how often a
/// kill met a process that was at work.
pub(super) fn kill_and_resume(run: &Run, n_kills: u64) -> Result<(String, u64), Failure> {
    let exe = std::env::current_exe().map_err(Failure::world)?;
    let mut random = Random(n_kills);
    let mut n_killed = 0;
    for _ in 0..n_kills {
        let mut command = Command::new(&exe);
        command.args(["bench", "onpolicy-run", "--threads", &run.threads.to_string()]).arg("--run-folder").arg(&run.folder);
        if let Some(model) = &run.model {
            command.arg("--model").arg(model);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(Failure::world)?;
        let until = moment_of_progress(run, &mut random);
        while child.try_wait().map_err(Failure::world)?.is_none() && !until() {
            std::thread::sleep(Duration::from_micros(200));
        }
        if child.try_wait().map_err(Failure::world)?.is_none() {
            child.kill().map_err(Failure::world)?;
            n_killed += 1;
        }
        child.wait().map_err(Failure::world)?;
    }
    Ok((train(run)?, n_killed))
}

/// True a random while after the checkpoint has changed for the first time: the process is in the middle of a step.
fn moment_of_progress(run: &Run, random: &mut Random) -> impl Fn() -> bool {
    let path = run.checkpoint();
    let written = move || std::fs::metadata(&path).and_then(|about| about.modified()).ok();
    let before = written();
    let wait = Duration::from_millis(random.below(20).unsigned_abs());
    let seen = std::cell::Cell::new(None::<Instant>);
    move || {
        if seen.get().is_none() && written() != before {
            seen.set(Some(Instant::now()));
        }
        seen.get().is_some_and(|seen| seen.elapsed() >= wait)
    }
}
