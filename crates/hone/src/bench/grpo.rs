//! `hone bench grpo`: one GRPO-LoRA step at the size of SmolLM2-135M, and a small model from scratch, beside what this
//! machine could do at best. `bench/grpo-cpu` runs it next to TRL.

use super::figures::{Times, rounded};
use super::machine::{Machine, best_of, peak_mb};
use super::step::Step;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use hone_engine::backend::{Dtype, ScoredGrad};
use hone_engine::batch::{BatchLimits, Request};
use hone_engine::config::{Family, ModelConfig, Rope, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::layout::{Group, Packed};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::random::Stream;
use hone_engine::tape::{Recompute, plain_targets};
use hone_engine::trainer::Trainer;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

const N_PROMPTS: usize = 4;
const N_PROMPT_TOKENS: usize = 74;
const N_SAMPLES: usize = 8;
const N_NEW: usize = 64;
const TINY: &str = "d128,l4,h4,kv4,ff448,v256,ctx256";
const TINY_WIDE: &str = "d192,l2,h3,kv1,ff640,v256,ctx256";

/// Measure a GRPO step with LoRA, and a small model from scratch
///
/// Rank 16 on all linear layers, 4 prompts of 74 tokens, 8 completions of 64 tokens each, the shape of SmolLM2-135M in bf16.
/// Then a model of about a million parameters, all of them trained. `bench/grpo-cpu` runs the same step in TRL beside it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A GGUF file or folder with weights; without one they are random, which takes as long
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// How many threads compute
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = crate::device::threads::<usize>())]
    threads: usize,
    /// How many steps to take; the first warms up
    #[arg(long, default_value_t = 4, value_name = "N")]
    steps: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    load_s: f64,
    /// Of each step but the first.
    sample_s: Vec<f64>,
    train_s: Vec<f64>,
    /// What the products and the memory of this machine allow at best.
    sample_limit_s: f64,
    train_limit_s: f64,
    /// Between the sampler's log-probs and the trainer's.
    max_abs_diff: f32,
    rss_peak_mb: f64,
    /// Four layers of width 128.
    tiny: Tiny,
    /// As many parameters in two wider layers.
    tiny_wide: Tiny,
}

#[derive(Debug, Serialize)]
struct Tiny {
    spec: &'static str,
    params: usize,
    sample_tokens_per_s: f64,
    train_tokens_per_s: f64,
    first_loss: f32,
    last_loss: f32,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    if args.steps < 2 {
        return Err(Failure::user("--steps needs at least 2: the first step warms up"));
    }
    let printer = context.printer;
    printer.say("what this machine can do");
    let machine = Machine::measure(args.threads);
    let report = measure(args, machine, printer)?;
    if printer.wants_json() {
        printer.json(&report)?;
        return Ok(Exit::Yes);
    }
    let middle = |seconds: &[f64]| Times::of_seconds(seconds).percentile(0.5) / 1e3;
    let (sample_s, train_s) = (middle(&report.sample_s), middle(&report.train_s));
    let of_limit =
        |limit: f64, took: f64| format!("{} s, {} % of what is possible", rounded(took), (100.0 * limit / took).round());
    let rows = [
        ("machine", format!("{}, {} GFLOP/s, {} GB/s", report.machine.path, report.machine.gflops, report.machine.gb_per_s)),
        ("sampling 32 x 64 tokens", of_limit(report.sample_limit_s, sample_s)),
        ("training on them", of_limit(report.train_limit_s, train_s)),
        ("sampler against trainer, largest difference", report.max_abs_diff.to_string()),
        ("memory at most", format!("{} MB", report.rss_peak_mb)),
    ];
    let mut rows = rows.map(|(what, value)| vec![what.to_owned(), value]).to_vec();
    for tiny in [&report.tiny, &report.tiny_wide] {
        let rates = format!("{} tokens/s sampled, {} trained", tiny.sample_tokens_per_s, tiny.train_tokens_per_s);
        rows.push(vec![format!("tiny:{}, {} parameters", tiny.spec, tiny.params), rates]);
    }
    printer.table(&["figure", "value"], &rows)?;
    Ok(Exit::Yes)
}

fn smollm2() -> ModelConfig {
    ModelConfig {
        family: Family::Llama,
        vocab: 49_152,
        dim: 576,
        n_layers: 30,
        n_heads: 9,
        n_kv_heads: 3,
        head_dim: 64,
        ffn_dim: 1536,
        norm_eps: 1e-5,
        rope: Rope::plain(100_000.0),
        qkv_bias: false,
        qk_norm: false,
        tied_head: true,
        context_len: 2048,
    }
}

fn prompts(vocab: usize) -> Vec<Vec<u32>> {
    let prompt = |i: u64| (0..N_PROMPT_TOKENS as u64).map(move |j| (Stream::new(2, i).bits(j) % vocab as u64) as u32);
    (0..N_PROMPTS as u64).map(|i| prompt(i).collect()).collect()
}

fn measure(args: &Args, machine: Machine, printer: &Printer) -> Result<Report, Failure> {
    let source: Box<dyn WeightSource> = match &args.model {
        Some(path) => Box::new(Weights::open(path).map_err(Failure::world)?),
        None => Box::new(RandomWeights { config: smollm2(), seed: 1 }),
    };
    let begin = Instant::now();
    let backend = Cpu::new(Dtype::Bf16, args.threads);
    let model = Model::load(&backend, source.as_ref(), 512, Passes::ForwardBackward).map_err(Failure::world)?;
    let load_s = rounded(begin.elapsed().as_secs_f64());
    let config = model.config.clone();
    let mut host = Host::new(backend, model, BatchLimits { n_pages: 512, ..BatchLimits::default() });
    let fresh = LoraWeights::fresh(&config, &LoraSpec::all(16, 32.0), 1);
    let mut trainer = Trainer::lora(host.backend(), &config, &fresh, AdamOptions::default(), Recompute::Never);
    let (mut sample_s, mut train_s, mut max_abs_diff) = (Vec::new(), Vec::new(), 0f32);
    let step = Step {
        prompts: prompts(config.vocab),
        n_samples: N_SAMPLES,
        n_tokens: N_NEW,
        reward: Box::new(|ids| (ids.iter().sum::<u32>() % 7) as f32),
        lr: 1e-5,
    };
    for n in 0..args.steps {
        printer.say(&format!("step {} of {}", n + 1, args.steps));
        let begin = Instant::now();
        let samples = step.sample(&mut host, &trainer, n as u64)?;
        let sampled_s = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        max_abs_diff = max_abs_diff.max(step.train(&mut host, &mut trainer, &samples));
        if n > 0 {
            sample_s.push(rounded(sampled_s));
            train_s.push(rounded(begin.elapsed().as_secs_f64()));
        }
    }
    drop((host, trainer));
    let rss_peak_mb = peak_mb();
    let (sample_limit_s, train_limit_s) = limits(&config, &machine);
    printer.say("small models");
    let (tiny, tiny_wide) = (tiny(TINY, args.threads)?, tiny(TINY_WIDE, args.threads)?);
    Ok(Report { machine, load_s, sample_s, train_s, sample_limit_s, train_limit_s, max_abs_diff, rss_peak_mb, tiny, tiny_wide })
}

/// The least time for sampling and for training. A product of a weight with a row is two operations per parameter; the
/// backward of a frozen weight is one more product. A step of decoding also reads every weight once.
fn limits(config: &ModelConfig, machine: &Machine) -> (f64, f64) {
    let per_row = 2.0 * config.n_params() as f64 / (machine.gflops * 1e9);
    let read = 2.0 * config.n_params() as f64 / (machine.gb_per_s * 1e9);
    let (n_prompt, n_sequences) = ((N_PROMPTS * N_PROMPT_TOKENS) as f64, (N_PROMPTS * N_SAMPLES) as f64);
    let decode = N_NEW as f64 * (n_sequences * per_row).max(read);
    let train = 2.0 * per_row * (n_prompt + n_sequences * N_NEW as f64);
    (rounded(n_prompt * per_row + decode), rounded(train))
}

/// A model from scratch: how fast 256 sequences are sampled at once, and how fast all its parameters are trained.
fn tiny(spec: &'static str, n_threads: usize) -> Result<Tiny, Failure> {
    let sizes: TinySpec = spec.parse().map_err(Failure::world)?;
    let config = ModelConfig::try_from(sizes).map_err(Failure::world)?;
    let source = RandomWeights { config: config.clone(), seed: 3 };
    let backend = Cpu::new(Dtype::Bf16, n_threads);
    let model = Model::load(&backend, &source, 256, Passes::ForwardBackward).map_err(Failure::world)?;
    let mut host = Host::new(backend, model, BatchLimits { n_pages: 256 * 10, ..BatchLimits::default() });
    let sample_tokens_per_s = best_of(3, || {
        let requests = (0..256).map(|i| Request { sequence: i, ..Request::new(vec![1, 2, 3, 4], 96) }).collect();
        let begin = Instant::now();
        let n: usize = host.sample(requests).map_or(0, |all| all.iter().flatten().map(|sample| sample.tokens.len()).sum());
        n as f64 / begin.elapsed().as_secs_f64()
    });
    let mut trainer = Trainer::full(host.backend(), &source, AdamOptions::default(), Recompute::Never).map_err(Failure::world)?;
    let sequence = |i: u64| {
        let stream = Stream::new(4, i);
        let ids = (0..129).map(|j| (stream.bits(j) % 16 + j % 3) as u32).collect();
        Group { prompt: vec![], completions: vec![ids] }
    };
    let packed = Packed::new(&(0..32).map(sequence).collect::<Vec<_>>());
    let mut losses = Vec::new();
    let train_tokens_per_s = best_of(40, || {
        let begin = Instant::now();
        let targets = plain_targets(&packed, 1.0);
        let n = targets.len() as f32;
        let scored = host.accumulate(&mut trainer, &packed, targets, |scored| {
            vec![ScoredGrad { logprob: -1.0 / n, entropy: 0.0 }; scored.len()]
        });
        host.step(&mut trainer, 1e-3);
        losses.push(-scored.iter().map(|scored| scored.logprob).sum::<f32>() / n);
        packed.layout.n_rows() as f64 / begin.elapsed().as_secs_f64()
    });
    Ok(Tiny {
        spec,
        params: config.n_params(),
        sample_tokens_per_s: sample_tokens_per_s.round(),
        train_tokens_per_s: train_tokens_per_s.round(),
        first_loss: losses.first().copied().unwrap_or_default(),
        last_loss: losses.last().copied().unwrap_or_default(),
    })
}
