//! `hone bench onpolicy`: what is sampled is what is trained, to the last bit, and a run is a function of its seed.

use super::resume::{self, Run};
use super::scratch;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::printer::counted;
use hone_engine::backend::{Dtype, Target};
use hone_engine::batch::{BatchLimits, Request, Token};
use hone_engine::cpu::Cpu;
use hone_engine::host::{AdapterVersion, Host};
use hone_engine::layout::{Group, Packed};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::random::Stream;
use hone_engine::sampler::SamplerOptions;
use serde::Serialize;
use std::path::PathBuf;

/// Samples of one prompt.
const N_SAMPLES: usize = 8;
/// Sequences that run at once, one after the other.
const AT_ONCE: [usize; 3] = [1, 7, 64];
const THREADS: [usize; 2] = [1, 2];
const CONTEXT: usize = 256;

/// Compare the sampler's log-probs with the trainer's, and runs with each other, to the last bit
///
/// Samples the same completions 1, 7 and 64 at a time on 1 and 2 threads, with and without an adapter and with different
/// samplers, and computes every log-prob again through the training path. Then trains an adapter on 1 thread, on 2, and in a
/// process that is killed with SIGKILL and resumed from its checkpoint. Exit code 1 when anything differs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A GGUF file or folder with weights; without one, a small model with random weights
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// How many completions to sample, in steps of 8
    #[arg(long, default_value_t = 256, value_name = "N")]
    sequences: usize,
    /// How often the run is killed
    #[arg(long, default_value_t = 3, value_name = "N")]
    kills: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Which instructions computed: the promise holds for each by itself.
    path: String,
    sequences: usize,
    tokens: usize,
    /// Between any log-prob of the sampler and the trainer's.
    max_abs_diff: f32,
    /// Ways of batching that gave other tokens or log-probs than the first.
    batchings_that_differ: usize,
    batchings: usize,
    adapter_hash_1_thread: String,
    adapter_hash_2_threads: String,
    adapter_hash_killed_and_resumed: String,
    kills: u64,
}

type Samples = Vec<Vec<Vec<Token>>>;

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let n_prompts = args.sequences / N_SAMPLES;
    if n_prompts == 0 {
        return Err(Failure::user(format_args!("--sequences needs at least {N_SAMPLES}")));
    }
    let source = source(args.model.as_deref())?;
    let mut first: Option<Samples> = None;
    let (mut max_abs_diff, mut differ, mut batchings, mut path) = (0f32, 0, 0, String::new());
    for threads in THREADS {
        for at_once in AT_ONCE {
            context.printer.say(&format!("{at_once} at a time on {}", counted(threads as u64, "thread")));
            let mut sampling = Sampling::new(&*source, threads, at_once)?;
            let samples = sampling.sample(n_prompts)?;
            max_abs_diff = max_abs_diff.max(sampling.largest_difference(&samples));
            path = hone_engine::backend::Backend::path(sampling.host.backend());
            batchings += 1;
            match &first {
                Some(first) => differ += usize::from(*first != samples),
                None => first = Some(samples),
            }
        }
    }
    let folder = scratch::folder(context)?;
    let train = |threads: usize| {
        context.printer.say(&format!("a run on {}", counted(threads as u64, "thread")));
        let run = Run { model: args.model.clone(), threads, folder: folder.path().join(threads.to_string()) };
        std::fs::create_dir_all(&run.folder).map_err(at_path(&run.folder))?;
        resume::train(&run)
    };
    let (one, two) = (train(1)?, train(2)?);
    context.printer.say("a run that is killed");
    let killed = Run { model: args.model.clone(), threads: 2, folder: folder.path().join("killed") };
    std::fs::create_dir_all(&killed.folder).map_err(at_path(&killed.folder))?;
    let (resumed, kills) = resume::kill_and_resume(&killed, args.kills)?;
    let report = Report {
        path,
        sequences: n_prompts * N_SAMPLES,
        tokens: first.iter().flatten().flatten().map(Vec::len).sum(),
        max_abs_diff,
        batchings_that_differ: differ,
        batchings,
        adapter_hash_1_thread: one,
        adapter_hash_2_threads: two,
        adapter_hash_killed_and_resumed: resumed,
        kills,
    };
    let same_runs = report.adapter_hash_1_thread == report.adapter_hash_2_threads
        && report.adapter_hash_1_thread == report.adapter_hash_killed_and_resumed;
    let holds = report.max_abs_diff == 0.0 && differ == 0 && same_runs;
    if context.printer.wants_json() {
        context.printer.json(&report)?;
    } else {
        let rows = [
            ("completions", format!("{} with {} tokens, {}", report.sequences, report.tokens, report.path)),
            ("sampler against trainer, largest difference", report.max_abs_diff.to_string()),
            ("ways of batching that differ", format!("{differ} of {batchings}")),
            ("adapter of a run on 1 thread", report.adapter_hash_1_thread.clone()),
            ("adapter of a run on 2 threads", report.adapter_hash_2_threads.clone()),
            ("adapter of a run killed and resumed", report.adapter_hash_killed_and_resumed.clone()),
        ];
        context.printer.table(&["figure", "value"], &rows.map(|(what, value)| vec![what.to_owned(), value]))?;
    }
    Ok(if holds { Exit::Yes } else { Exit::No })
}

/// The weights of the benchmark: a file's, or random ones of odd sizes.
pub(super) fn source(model: Option<&std::path::Path>) -> Result<Box<dyn WeightSource>, Failure> {
    Ok(match model {
        Some(path) => Box::new(Weights::open(path).map_err(Failure::world)?),
        None => {
            let spec = "d96,l4,h6,kv2,ff208,v509,ctx256".parse::<hone_engine::config::TinySpec>().map_err(Failure::world)?;
            Box::new(RandomWeights { config: spec.try_into().map_err(Failure::world)?, seed: 5 })
        }
    })
}

/// A prompt of some length.
pub(super) fn prompt(i: usize, vocab: usize) -> Vec<u32> {
    let stream = Stream::new(9, i as u64);
    (0..1 + i as u64 * 13 % 70).map(|j| (stream.bits(j) % vocab as u64) as u32).collect()
}

struct Sampling {
    host: Host<Cpu>,
    adapter: AdapterVersion,
    n_sequences_max: usize,
}

impl Sampling {
    fn new(source: &dyn WeightSource, n_threads: usize, n_sequences_max: usize) -> Result<Self, Failure> {
        let backend = Cpu::new(Dtype::Bf16, n_threads);
        let model = Model::load(&backend, source, CONTEXT, Passes::Forward).map_err(Failure::world)?;
        let mut weights = LoraWeights::fresh(&model.config, &LoraSpec::all(8, 16.0), 3);
        // A fresh adapter changes nothing; this one does.
        for (index, values) in weights.matrices.values_mut().enumerate() {
            let stream = Stream::new(4, index as u64);
            values.iter_mut().enumerate().for_each(|(i, x)| *x += 0.02 * stream.normal(i as u64));
        }
        // Few rows a step where few sequences run, so that prompts are cut in different places.
        let limits = BatchLimits { n_sequences_max, n_rows_max: 16 * n_sequences_max, ..BatchLimits::default() };
        let mut host = Host::new(backend, model, limits);
        let adapter = host.load(&weights);
        Ok(Self { host, adapter, n_sequences_max })
    }

    fn sampler(prompt: usize) -> SamplerOptions {
        let temperature = 0.7 + 0.1 * (prompt % 4) as f32;
        let (top_k, top_p) = (if prompt % 5 == 4 { 20 } else { 0 }, if prompt % 7 == 3 { 0.9 } else { 1.0 });
        SamplerOptions { temperature, top_k, top_p, ..SamplerOptions::default() }
    }

    fn uses_adapter(prompt: usize) -> bool {
        !prompt.is_multiple_of(3)
    }

    /// Where there is room for a whole group it is one request, whose prompt is computed once; else every sample is its own.
    fn sample(&mut self, n_prompts: usize) -> Result<Samples, Failure> {
        let vocab = self.host.model().config.vocab;
        let n_together = if self.n_sequences_max < N_SAMPLES { 1 } else { N_SAMPLES };
        let request = |first: usize| {
            let i = first / N_SAMPLES;
            Request {
                n_samples: n_together,
                sampler: Self::sampler(i),
                seed: 77,
                sequence: first as u64,
                adapter: if Self::uses_adapter(i) { self.host.pin(self.adapter) } else { None },
                keep_support: true,
                ..Request::new(prompt(i, vocab), 8 + i * 7 % 25)
            }
        };
        let requests = (0..n_prompts * N_SAMPLES).step_by(n_together).map(request).collect();
        let samples = self.host.sample(requests).map_err(Failure::world)?;
        let tokens: Vec<Vec<Token>> = samples.into_iter().flatten().map(|sample| sample.tokens).collect();
        Ok(tokens.chunks(N_SAMPLES).map(<[_]>::to_vec).collect())
    }

    fn largest_difference(&self, samples: &Samples) -> f32 {
        let vocab = self.host.model().config.vocab;
        let mut worst = 0f32;
        for (i, samples) in samples.iter().enumerate() {
            let completions = samples.iter().map(|tokens| tokens.iter().map(|token| token.id).collect()).collect();
            let packed = Packed::new(&[Group { prompt: prompt(i, vocab), completions }]);
            let inv_temperature = Self::sampler(i).inv_temperature();
            let target = |token: &Token| Target { id: token.id, inv_temperature, support: token.support.clone() };
            let targets: Vec<Target> = samples.iter().flatten().map(target).collect();
            let adapter = Self::uses_adapter(i).then_some(self.adapter);
            let scored = self.host.score(adapter, &packed, &targets);
            for (scored, token) in scored.iter().zip(samples.iter().flatten()) {
                worst = worst.max((scored.logprob - token.logprob).abs());
            }
        }
        worst
    }
}
