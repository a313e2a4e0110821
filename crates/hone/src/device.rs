//! What models of this process compute on: `--device`, the setting `model.device`.

mod grant;

pub(crate) use grant::Grant;

use crate::context::Context;
use crate::doctor;
use crate::failure::Failure;
use crate::printer::Printer;
use clap::builder::RangedU64ValueParser;
use grant::Ledger;
use hone_engine::batch::BatchLimits;
use hone_engine::config::ModelConfig;
use hone_engine::cuda::{Answers, CudaOptions};
use hone_engine::machine::Machine;
use hone_engine::memory::{MemoryPlan, Run, TooLarge};
use hone_engine::tape::Recompute;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most threads that compute. More than any machine has cores; the system refuses to start some ten thousand, in the midst of it.
const N_THREADS_MAX: u64 = 1024;

/// What was granted of either memory.
static ON_CPU: Ledger = Ledger::new();
static ON_GPU: Ledger = Ledger::new();

/// That nothing can be kept is said once.
static UNKEPT: Once = Once::new();

/// Reads `--threads`.
pub(crate) fn threads<T: TryFrom<u64> + Clone + Send + Sync>() -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(1..=N_THREADS_MAX)
}

/// Whether a model of this process answers one at a time on a GPU. Launches of two such models would wait for each other's room.
static IS_FOR_ONE: AtomicBool = AtomicBool::new(false);

/// Opens the machine that is in effect, for so many answers at a time. Without a number of threads, the CPU uses all cores.
pub(crate) fn open(n_threads: Option<usize>, answers: Answers, context: &Context<'_>) -> Result<Machine, Failure> {
    let n_threads = n_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let options = CudaOptions {
        ordinal: 0,
        folders: doctor::cuda_folders(context.variables),
        cache: Some(context.settings.folder.join("kernels")),
        answers: if answers == Answers::One && !IS_FOR_ONE.swap(true, Ordering::Relaxed) { Answers::One } else { Answers::Many },
        ..CudaOptions::default()
    };
    let machine = Machine::open(context.settings.device, n_threads, &options).map_err(|missing| {
        Failure::world(missing)
            .hint("`hone doctor` says what is there; `--device cpu` computes without a GPU, `auto` where there is none")
    })?;
    if let Some(why) = machine.gpu().and_then(|cuda| cuda.unkept()) {
        UNKEPT.call_once(|| {
            let text = "what was compiled for the GPU cannot be kept, and is compiled again at every start";
            context.printer.complain(&format!("{text}: {why}"));
        });
    }
    Ok(machine)
}

/// What this takes of the memory there is, counted before anything is loaded: what does not fit is refused. The grant is to live as long
/// as what was planned. Where further models are to be opened, of which with this one there are `n_models`, each has its share of the
/// pages.
pub(crate) fn plan(machine: &Machine, run: Run<'_>, n_models: usize) -> Result<(MemoryPlan, Grant), Failure> {
    let (ledger, free, used, hint) = match machine.gpu() {
        Some(cuda) => {
            let (free, all) = cuda.facts().memory;
            let hint = "shorter conversations (--context) need fewer keys and values; --device cpu needs nothing of the GPU";
            (&ON_GPU, free, all.saturating_sub(free), hint)
        }
        None => {
            let free = doctor::usable_memory().map_or(usize::MAX, |free| free / 10 * 9);
            (&ON_CPU, free, doctor::taken_memory(), "shorter conversations (--context) need fewer keys and values")
        }
    };
    ledger.grant(free, used, |free, outstanding| {
        let plan = shared(run, free, n_models).map_err(|refused| {
            let of_others = match outstanding {
                0 => String::new(),
                _ => format!("; {:.1} GiB more are kept for models that this process opened before", gib(outstanding)),
            };
            Failure::user(refused).hint(format!("{hint}{of_others}"))
        })?;
        Ok((plan, plan.total()))
    })
}

/// The plan of the first of so many models: its share is what it may take, unless it needs more with as few pages as may be.
fn shared(run: Run<'_>, free: usize, n_models: usize) -> Result<MemoryPlan, TooLarge> {
    let least = Run { n_pages: run.n_pages_min, ..run };
    let is_short = run.n_pages_min < run.n_pages;
    MemoryPlan::fitting(run, free / n_models.max(1))
        .or_else(|_| MemoryPlan::fitting(least, free).map(|plan| MemoryPlan { is_short, ..plan }))
}

fn gib(bytes: usize) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

/// The limits of sampling from the first of so many models, with as many pages as there is memory for. That there are fewer than were
/// asked for is said.
pub(crate) fn sampling(
    machine: &Machine,
    config: &ModelConfig,
    limits: BatchLimits,
    n_models: usize,
    printer: &Printer,
) -> Result<(BatchLimits, Grant), Failure> {
    let (plan, grant) = plan(machine, Run::of_sampling(machine.place(), config, &limits), n_models)?;
    if plan.is_short {
        // Where nothing is trained, nothing is computed twice either.
        printer.say(&MemoryPlan { recompute: Recompute::Never, ..plan }.to_string());
    }
    Ok((BatchLimits { n_pages: plan.n_pages, ..limits }, grant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_engine::memory::Place;
    use hone_engine::shapes;

    #[test]
    fn models_that_are_opened_together_share_the_pages() {
        let config = shapes::named("smollm2-135m").expect("known");
        let limits = BatchLimits { n_pages: 32 * 257 + 16, n_sequences_max: 32, ..BatchLimits::default() };
        let run = Run::of_sampling(Place::Cpu, &config, &limits);
        let shared = |free_mib: usize, n_models| shared(run, free_mib << 20, n_models);
        let alone = shared(8 << 10, 1).expect("it fits");
        assert!(!alone.is_short);
        let first = shared(8 << 10, 2).expect("it fits");
        assert!(first.is_short && first.total() <= 4 << 30 && first.total() > 3 << 30, "{first:?}");
        let least = shared(1100, 2).expect("it fits alone");
        assert!(least.is_short && least.n_pages == run.n_pages_min, "{least:?}");
        assert!(least.to_string().contains("may wait for one another"), "{least}");
        assert!(shared(900, 1).is_err());
    }
}
