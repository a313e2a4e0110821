//! The GRPO-LoRA step of the benchmark: r = 16 on all linear layers, 4 prompts of 74 tokens, 8 completions of 64 tokens
//! each, the shape of SmolLM2-135M, bf16; then a from-scratch tiny model. Prints one JSON object.
//!
//!     cargo run --release --example bench_grpo -- [--model FILE.gguf] [--threads N] [--steps N] [--only tiny|grpo]
//!
//! Without a model file the weights are random in the same shape; the time does not depend on their values.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Instant;

use hone_engine::backend::{Backend, Dtype, Put, ScoredGrad, Target};
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

const N_PROMPTS: usize = 4;
const N_PROMPT_TOKENS: usize = 74;
const N_SAMPLES: usize = 8;
const N_NEW: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let n_threads: usize = option("--threads").map_or(Ok(2), |text| text.parse())?;
    let n_steps: usize = option("--steps").map_or(Ok(3), |text| text.parse())?;
    let source: Box<dyn WeightSource> = match option("--model") {
        Some(path) => Box::new(Weights::open(path.as_ref())?),
        None => Box::new(RandomWeights { config: smollm2(), seed: 1 }),
    };
    let only = option("--only").unwrap_or_default();
    let machine = machine(n_threads);
    let grpo = match &only[..] {
        "tiny" => serde_json::Value::Null,
        _ => grpo(source.as_ref(), n_threads, n_steps)?,
    };
    let tiny = match &only[..] {
        "grpo" => serde_json::Value::Null,
        _ => tiny(n_threads)?,
    };
    println!("{}", serde_json::json!({"machine": machine, "grpo": grpo, "tiny": tiny}));
    Ok(())
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

/// Products per second at many rows, and weight bytes per second at one row.
fn machine(n_threads: usize) -> serde_json::Value {
    let backend = Cpu::new(Dtype::Bf16, n_threads);
    let (rows, n) = (1024, 1536);
    let values: Vec<f32> = (0..(n * n) as u64).map(|i| Stream::new(0, 0).uniform(i) - 0.5).collect();
    let weight = backend.weight(&backend.upload(&values), n, n, false);
    let act = backend.act(&backend.upload(&values[..rows * n]), rows, n, 1.0);
    let mut out = backend.buf(rows * n);
    let flops = best_of(5, || {
        let begin = Instant::now();
        (0..8).for_each(|_| backend.linear(&act, 0..rows, &weight, Put::Set, &mut out, 0));
        8.0 * 2.0 * (rows * n * n) as f64 / begin.elapsed().as_secs_f64()
    });
    // More weights than any cache holds.
    let weights: Vec<_> = (0..128).map(|_| backend.weight(&backend.upload(&values), n, n, false)).collect();
    let bandwidth = best_of(3, || {
        let begin = Instant::now();
        weights.iter().for_each(|weight| backend.linear(&act, 0..1, weight, Put::Set, &mut out, 0));
        weights.len() as f64 * (2 * n * n) as f64 / begin.elapsed().as_secs_f64()
    });
    serde_json::json!({"path": backend.path(), "threads": n_threads, "gflops": flops / 1e9, "gb_per_s": bandwidth / 1e9})
}

fn best_of(n: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..n).map(|_| measure()).fold(0.0, f64::max)
}

fn prompts(vocab: usize) -> Vec<Vec<u32>> {
    let prompt = |i: u64| (0..N_PROMPT_TOKENS as u64).map(move |j| (Stream::new(2, i).bits(j) % vocab as u64) as u32);
    (0..N_PROMPTS as u64).map(|i| prompt(i).collect()).collect()
}

fn grpo(source: &dyn WeightSource, n_threads: usize, n_steps: usize) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let backend = Cpu::new(Dtype::Bf16, n_threads);
    let model = Model::load(&backend, source, 512, Passes::ForwardBackward)?;
    let load_s = begin.elapsed().as_secs_f64();
    let config = model.config.clone();
    let limits = BatchLimits { n_pages: 512, ..BatchLimits::default() };
    let mut host = Host::new(backend, model, limits);
    let fresh = LoraWeights::fresh(&config, &LoraSpec::all(16, 32.0), 1);
    let mut trainer = Trainer::lora(host.backend(), &config, &fresh, AdamOptions::default(), Recompute::Never);
    let (mut sample_s, mut train_s, mut worst) = (Vec::new(), Vec::new(), 0f32);
    let (mut sample_cpu_s, mut train_cpu_s) = (Vec::new(), Vec::new());
    for step in 0..n_steps {
        let (begin, cpu) = (Instant::now(), cpu_seconds());
        let weights = trainer.lora_weights(host.backend()).ok_or("a LoRA run")?;
        let version = host.load(&weights);
        let requests = prompts(config.vocab)
            .into_iter()
            .enumerate()
            .map(|(i, prompt)| Request {
                n_samples: N_SAMPLES,
                seed: step as u64,
                sequence: (i * N_SAMPLES) as u64,
                adapter: host.pin(version),
                ..Request::new(prompt, N_NEW)
            })
            .collect();
        let samples = host.sample(requests)?;
        sample_s.push(begin.elapsed().as_secs_f64());
        sample_cpu_s.push(cpu_seconds() - cpu);
        host.drop_adapter(version);

        let (begin, cpu) = (Instant::now(), cpu_seconds());
        let mut groups = Vec::new();
        let (mut advantages, mut sampled) = (Vec::new(), Vec::new());
        for (prompt, samples) in prompts(config.vocab).into_iter().zip(&samples) {
            let ids = |sample: &hone_engine::host::Sample| sample.tokens.iter().map(|t| t.id).collect::<Vec<u32>>();
            // A made-up reward; GRPO centres it within the group.
            let rewards: Vec<f32> = samples.iter().map(|s| (ids(s).iter().sum::<u32>() % 7) as f32).collect();
            let mean = rewards.iter().sum::<f32>() / rewards.len() as f32;
            for (sample, reward) in samples.iter().zip(&rewards) {
                advantages.extend(std::iter::repeat_n(reward - mean, sample.tokens.len()));
                sampled.extend(sample.tokens.iter().map(|token| token.logprob));
            }
            groups.push(Group { prompt, completions: samples.iter().map(ids).collect() });
        }
        let packed = Packed::new(&groups);
        let targets: Vec<Target> = plain_targets(&packed, 1.0);
        let n = targets.len() as f32;
        let scored = host.accumulate(&mut trainer, &packed, targets, |_| {
            advantages.iter().map(|&a| ScoredGrad { logprob: -a / n, entropy: 0.0 }).collect()
        });
        host.step(&mut trainer, 1e-5);
        train_s.push(begin.elapsed().as_secs_f64());
        train_cpu_s.push(cpu_seconds() - cpu);
        worst = scored.iter().zip(&sampled).fold(worst, |worst, (s, l)| worst.max((s.logprob - l).abs()));
    }
    let best = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(serde_json::json!({
        "load_s": load_s, "sample_s": sample_s, "train_s": train_s, "sample_cpu_s": sample_cpu_s, "train_cpu_s": train_cpu_s, "best_step_s": best(&sample_s) + best(&train_s),
        "max_abs_diff": worst, "rss_peak_mb": rss_peak_mb()}))
}

fn tiny(n_threads: usize) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let config = ModelConfig::try_from("d128,l4,h4,kv4,ff448,v256,ctx256".parse::<TinySpec>()?)?;
    let source = RandomWeights { config: config.clone(), seed: 3 };
    let backend = Cpu::new(Dtype::Bf16, n_threads);
    let model = Model::load(&backend, &source, 256, Passes::ForwardBackward)?;
    let limits = BatchLimits { n_pages: 256 * 10, ..BatchLimits::default() };
    let mut host = Host::new(backend, model, limits);
    let rate = best_of(3, || {
        let requests = (0..256).map(|i| Request { sequence: i, ..Request::new(vec![1, 2, 3, 4], 96) }).collect();
        let begin = Instant::now();
        let n: usize = host.sample(requests).map_or(0, |all| all.iter().flatten().map(|s| s.tokens.len()).sum());
        n as f64 / begin.elapsed().as_secs_f64()
    });
    let mut trainer = Trainer::full(host.backend(), &source, AdamOptions::default(), Recompute::Never)?;
    let groups: Vec<Group> = (0..32)
        .map(|i| {
            let stream = Stream::new(4, i);
            let ids = (0..129).map(|j| (stream.bits(j) % 16 + j % 3) as u32).collect();
            Group { prompt: vec![], completions: vec![ids] }
        })
        .collect();
    let packed = Packed::new(&groups);
    let mut losses = Vec::new();
    let mut train = 0f64;
    for _ in 0..40 {
        let begin = Instant::now();
        let targets = plain_targets(&packed, 1.0);
        let n = targets.len() as f32;
        let scored = host.accumulate(&mut trainer, &packed, targets, |scored| {
            vec![ScoredGrad { logprob: -1.0 / n, entropy: 0.0 }; scored.len()]
        });
        host.step(&mut trainer, 1e-3);
        train = train.max(packed.layout.n_rows() as f64 / begin.elapsed().as_secs_f64());
        losses.push(-scored.iter().map(|s| s.logprob).sum::<f32>() / n);
    }
    Ok(serde_json::json!({
        "params": config.n_params(), "sample_tokens_per_s": rate, "train_tokens_per_s": train,
        "first_loss": losses.first(), "last_loss": losses.last()}))
}

/// Processor seconds that this process has used, all threads: what a step costs when neighbours share the cores.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |field: usize| after_name.split_whitespace().nth(field).and_then(|text| text.parse::<f64>().ok());
    // Fields 14 and 15 of the whole line; Linux counts them in hundredths.
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// Peak resident memory of this process, from Linux.
fn rss_peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1024.0)
}
