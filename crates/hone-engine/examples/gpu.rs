//! What one GPU does with a model of a named shape and random weights: tokens per second of decoding and of training a LoRA
//! adapter, the latency of one sequence, and how far the sampler's log-probabilities are from the trainer's.
//!
//! `gpu decode SHAPE BATCH…`, `gpu alone SHAPE 1` (for one answer at a time), `gpu policy SHAPE BATCH…` (with an adapter), `gpu cut SHAPE BATCH…` (with top-p), `gpu train SHAPE SEQUENCES`,
//! `gpu rates SHAPE 1`; one JSON object per line. A batch is a number of sequences, or `1x8192`: with prompts of so many tokens.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use hone_engine::backend::{Backend, Put, ScoredGrad};
use hone_engine::batch::{BatchLimits, Request};
use hone_engine::cuda::{Answers, Cuda, CudaOptions};
use hone_engine::host::Host;
use hone_engine::layout::{Group, Packed};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::memory::{MemoryPlan, Place, Run};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::random::Stream;
use hone_engine::shapes;
use hone_engine::tape::plain_targets;
use hone_engine::trainer::Trainer;

const PROMPT: usize = 128;
const NEW: usize = 128;
const SEQUENCE: usize = 256;
const TOP_P: f32 = 0.95;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, shape, sizes @ ..] = &args[..] else {
        return Err("gpu decode|alone|policy|cut|train|rates SHAPE SIZE…".into());
    };
    let config = shapes::named(shape).ok_or_else(|| format!("shape `{shape}` is none of {:?}", shapes::NAMES))?;
    let sizes = sizes.iter().map(|size| batch(size)).collect::<Result<Vec<Batch>, _>>()?;
    let answers = if what == "alone" { Answers::One } else { Answers::Many };
    let kept = CudaOptions { cache: Some(std::env::temp_dir().join("hone-kernels")), answers, ..CudaOptions::default() };
    let cuda = Cuda::open(&kept)?;
    if what == "rates" {
        return say(what, shape, 1, &rates(&cuda)).map_err(Into::into);
    }
    let start = Instant::now();
    let longest = sizes.iter().map(|size| size.prompt_len).max().unwrap_or(0).max(SEQUENCE);
    let mut model = Model::load(&cuda, &RandomWeights { config, seed: 1 }, longest + NEW, Passes::ForwardBackward)?;
    cuda.wait();
    let load_s = start.elapsed().as_secs_f64();
    for &size in &sizes {
        let facts = match &what[..] {
            "train" => train(&cuda, &mut model, size.n_sequences),
            _ => return decode(cuda, model, shape, what, &sizes),
        };
        say(what, shape, size.n_sequences, &format!("{facts},\"load_s\":{load_s:.2}"))?;
    }
    Ok(())
}

/// Bytes per second of a copy, read and written, and operations per second of a large product.
fn rates(cuda: &Cuda) -> String {
    let large = cuda.zeros(1 << 30);
    drop(cuda.copy(&large));
    let copy_ms = cuda.time_ms(|| drop(cuda.copy(&large)));
    let n = 8192;
    let noise = cuda.noise(Stream::new(1, 1), 1.0, n * n).unwrap_or_else(|| cuda.zeros(n * n));
    let (act, weight) = (cuda.act(&noise, n, n, 1.0), cuda.weight(&noise, n, n, false));
    let mut out = cuda.buf(n * n);
    let mut multiply = || cuda.linear(&act, 0..n, &weight, Put::Set, &mut out, 0);
    multiply();
    let ms = cuda.time_ms(|| (0..10).for_each(|_| multiply())) / 10.0;
    let facts = cuda.facts();
    let (bytes_s, flop_s) = (8.0 * f64::from(1 << 30) / f64::from(copy_ms) * 1e3, 2.0 * (n as f64).powi(3) / f64::from(ms) * 1e3);
    format!(
        "\"device\":\"{}\",\"bytes_s\":{bytes_s:.4e},\"flop_s\":{flop_s:.4e},\"agreement\":\"{:?}\"",
        facts.name,
        cuda.agreement()
    )
}

fn say(what: &str, shape: &str, size: usize, facts: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{{\"what\":\"{what}\",\"shape\":\"{shape}\",\"size\":{size},{facts}}}")
}

fn prompt(seed: u64, len: usize, vocab: usize) -> Vec<u32> {
    let stream = Stream::new(7, seed);
    (0..len as u64).map(|i| (stream.bits(i) % vocab as u64) as u32).collect()
}

/// So many sequences behind so many tokens each.
#[derive(Clone, Copy)]
struct Batch {
    n_sequences: usize,
    prompt_len: usize,
}

fn batch(text: &str) -> Result<Batch, std::num::ParseIntError> {
    let (n_sequences, prompt_len) = text.split_once('x').map_or((text, None), |(n, len)| (n, Some(len)));
    Ok(Batch { n_sequences: n_sequences.parse()?, prompt_len: prompt_len.map_or(Ok(PROMPT), str::parse)? })
}

fn decode(cuda: Cuda, model: Model<Cuda>, shape: &str, what: &str, sizes: &[Batch]) -> Result<(), Box<dyn Error>> {
    let config = model.config.clone();
    let largest = sizes.iter().map(|size| size.n_sequences).max().unwrap_or(1);
    let n_pages_of = |size: &Batch| size.n_sequences * (size.prompt_len + NEW).div_ceil(16);
    let n_pages = sizes.iter().map(n_pages_of).max().unwrap_or(0) + 16;
    let limits = BatchLimits { n_pages, n_sequences_max: largest, n_rows_max: 32_768, queue_len_max: 65_536 };
    let mut host = Host::new(cuda, model, limits);
    let adapter = (what == "policy").then(|| {
        let spec = LoraSpec::all(16, 32.0);
        let mut weights = LoraWeights::fresh(&config, &spec, 3);
        // A fresh adapter adds nothing; one that has learned does.
        let stream = Stream::new(5, 5);
        for (i, x) in weights.matrices.values_mut().flatten().enumerate() {
            *x += stream.normal(i as u64) * 0.01;
        }
        host.load(&weights)
    });
    for &Batch { n_sequences: size, prompt_len } in sizes {
        for round in 0..3 {
            let mut requests = Vec::new();
            for i in 0..size as u64 {
                let mut request = Request::new(prompt(i + 1000 * round, prompt_len, config.vocab), NEW);
                // What knows nothing repeats nothing.
                (request.seed, request.sequence, request.guesses) = (9, i, false);
                request.adapter = adapter.and_then(|version| host.pin(version));
                request.sampler.top_p = if what == "cut" { TOP_P } else { 1.0 };
                requests.push(request);
            }
            let prompts: Vec<Vec<u32>> = requests.iter().map(|request| request.prompt.clone()).collect();
            let start = Instant::now();
            let mut ids = Vec::new();
            for request in requests {
                ids.push(host.submit(request)?);
            }
            let mut samples: Vec<Vec<(u32, f32)>> = vec![Vec::new(); size];
            let (mut prefill_s, mut n_steps) = (0.0, 0);
            while !host.is_idle() {
                let profiled = what == "profile" && round == 1 && n_steps == 7;
                let events = if profiled { profiled_step(&mut host) } else { host.sample_ahead() };
                for event in events {
                    let place = ids.binary_search(&event.request).unwrap_or(0);
                    samples[place].extend(event.tokens.iter().map(|token| (token.id, token.logprob)));
                }
                n_steps += 1;
                if n_steps == 1 || samples.iter().all(|tokens| tokens.len() <= 1) {
                    prefill_s = start.elapsed().as_secs_f64();
                }
            }
            let all_s = start.elapsed().as_secs_f64();
            let decode_s = all_s - prefill_s;
            let n: usize = samples.iter().map(|tokens| tokens.len().saturating_sub(1)).sum();
            let tok_s = n as f64 / decode_s;
            let per_token_us = decode_s / (NEW - 1) as f64 * 1e6;
            let whole = (n + size) as f64 / all_s;
            let facts = format!(
                "\"prompt\":{prompt_len},\"round\":{round},\"tok_s\":{tok_s:.0},\"with_prompt_tok_s\":{whole:.0},\"step_us\":{per_token_us:.1},\"prefill_s\":{prefill_s:.4},\"steps\":{n_steps}"
            );
            say(what, shape, size, &facts)?;
            // Without what was left of the vocabulary, training would find another log-probability.
            if round == 2 && what != "cut" {
                let diff = difference(&host, adapter, &prompts, &samples);
                let (agreement, plans) = (host.backend().agreement(), host.backend().plans());
                let plans = format!("{plans:?}").replace('"', "'");
                let ways = format!("{:?}", host.backend().ways());
                say(
                    "onpolicy",
                    shape,
                    size,
                    &format!("\"max_diff\":{diff:e},\"plans\":\"{plans}\",\"ways\":{ways},\"agreement\":\"{agreement:?}\""),
                )?;
            }
        }
    }
    Ok(())
}

/// One step of sampling under the eyes of a profiler.
fn profiled_step(host: &mut Host<Cuda>) -> Vec<hone_engine::batch::Event> {
    host.backend().profile(true);
    let events = host.sample_step();
    host.backend().profile(false);
    events
}

/// The largest difference between the log-probability a token was drawn with and the one training finds.
fn difference(
    host: &Host<Cuda>,
    adapter: Option<hone_engine::host::AdapterVersion>,
    prompts: &[Vec<u32>],
    samples: &[Vec<(u32, f32)>],
) -> f32 {
    let group = |(prompt, sample): (&Vec<u32>, &Vec<(u32, f32)>)| Group {
        prompt: prompt.clone(),
        completions: vec![sample.iter().map(|&(id, _)| id).collect()],
    };
    let packed = Packed::new(&prompts.iter().zip(samples).map(group).collect::<Vec<_>>());
    let scored = host.score(adapter, &packed, &plain_targets(&packed, 1.0));
    let drawn: Vec<f32> = samples.iter().flatten().map(|&(_, logprob)| logprob).collect();
    assert_eq!(drawn.len(), prompts.len() * NEW, "an answer ended early");
    // What is no number is the largest of all.
    let differences = scored.iter().zip(drawn).map(|(scored, drawn)| (scored.logprob - drawn).abs());
    differences.max_by(f32::total_cmp).unwrap_or(f32::NAN)
}

fn train(cuda: &Cuda, model: &mut Model<Cuda>, n_sequences: usize) -> String {
    let config = &model.config.clone();
    let group = |i: usize| Group { prompt: vec![], completions: vec![prompt(i as u64, SEQUENCE + 1, config.vocab)] };
    let packed = Packed::new(&(0..n_sequences).map(group).collect::<Vec<_>>());
    let weights = LoraWeights::fresh(config, &LoraSpec::all(16, 32.0), 3);
    let n_rows = packed.layout.n_rows();
    // The weights are there already.
    let free = cuda.facts().memory.0 + 2 * config.n_params();
    let run = Run { place: Place::Gpu, config, n_rows, rank: 16, n_pages: 0, n_pages_min: 0 };
    let plan = match MemoryPlan::fitting(run, free) {
        Ok(plan) => plan,
        Err(refused) => return format!("\"refused\":\"{refused}\""),
    };
    let mut trainer = Trainer::lora(cuda, config, &weights, AdamOptions::default(), plan.recompute);
    let (mut seconds, mut losses) = (Vec::new(), Vec::new());
    for turn in 0..6 {
        let start = Instant::now();
        let n = packed.targets.len() as f32;
        let loss = |scored: &[hone_engine::backend::Scored]| {
            losses.push(-scored.iter().map(|s| s.logprob).sum::<f32>() / n);
            vec![ScoredGrad { logprob: -1.0 / n, entropy: 0.0 }; scored.len()]
        };
        cuda.profile(turn == 3);
        trainer.accumulate(cuda, model, &packed, plain_targets(&packed, 1.0), loss);
        trainer.step(cuda, model, 1e-3);
        cuda.profile(false);
        cuda.wait();
        seconds.push(start.elapsed().as_secs_f64());
    }
    let best = seconds.iter().copied().fold(f64::MAX, f64::min);
    let hash = hash(cuda, &trainer);
    let peak = cuda.facts().peak as f64 / (1u64 << 30) as f64;
    format!(
        "\"tok_s\":{:.0},\"step_s\":{best:.4},\"seconds\":{seconds:.4?},\"rows\":{n_rows},\"peak_gib\":{peak:.2},\"losses\":{losses:?},\"hash\":\"{hash}\",\"plan\":\"{plan}\"",
        n_rows as f64 / best
    )
}

fn hash(cuda: &Cuda, trainer: &Trainer<Cuda>) -> String {
    let weights = trainer.lora_weights(cuda).map(|weights| weights.matrices).unwrap_or_default();
    let bits = weights
        .values()
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, x| (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3));
    format!("{bits:016x} {}", cuda.path())
}
