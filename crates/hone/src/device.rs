//! What models of this process compute on: `--device`, the setting `model.device`.

use crate::context::Context;
use crate::doctor;
use crate::failure::Failure;
use clap::builder::RangedU64ValueParser;
use hone_engine::batch::BatchLimits;
use hone_engine::config::ModelConfig;
use hone_engine::cuda::CudaOptions;
use hone_engine::machine::Machine;
use hone_engine::memory::{MemoryPlan, Run};

/// The most threads that compute. More than any machine has cores; the system refuses to start some ten thousand, in the midst of it.
const N_THREADS_MAX: u64 = 1024;

/// Reads `--threads`.
pub(crate) fn threads<T: TryFrom<u64> + Clone + Send + Sync>() -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(1..=N_THREADS_MAX)
}

/// Opens the machine that is in effect. Without a number of threads, the CPU uses all cores.
pub(crate) fn open(n_threads: Option<usize>, context: &Context<'_>) -> Result<Machine, Failure> {
    let n_threads = n_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let options = CudaOptions {
        ordinal: 0,
        folders: doctor::cuda_folders(context.variables),
        cache: Some(context.settings.folder.join("kernels")),
        ..CudaOptions::default()
    };
    Machine::open(context.settings.device, n_threads, &options).map_err(|missing| {
        Failure::world(missing)
            .hint("`hone doctor` says what is there; `--device cpu` computes without a GPU, `auto` where there is none")
    })
}

/// What this takes of the memory there is, counted before anything is loaded: what does not fit is refused.
pub(crate) fn plan(machine: &Machine, run: Run<'_>) -> Result<MemoryPlan, Failure> {
    let (free, hint) = match machine.gpu() {
        Some(cuda) => (
            cuda.facts().memory.0,
            "shorter conversations (--context) need fewer keys and values; --device cpu needs nothing of the GPU",
        ),
        None => (
            doctor::usable_memory().map_or(usize::MAX, |free| free / 10 * 9),
            "shorter conversations (--context) need fewer keys and values",
        ),
    };
    MemoryPlan::fitting(run, free).map_err(|refused| Failure::user(refused).hint(hint))
}

/// The limits of sampling from a model, with as many pages as there is memory for.
pub(crate) fn sampling(machine: &Machine, config: &ModelConfig, limits: BatchLimits) -> Result<BatchLimits, Failure> {
    let plan = plan(machine, Run::of_sampling(machine.place(), config, &limits))?;
    Ok(BatchLimits { n_pages: plan.n_pages, ..limits })
}
