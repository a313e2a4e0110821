//! Whole steps of GRPO on one GPU, with a model of a named shape and random weights: samples over shared prompts, rewards,
//! advantages, the loss of `hone train grpo`, one move of an adapter of rank 16.
//!
//! `gpu_grpo SHAPE PROMPTS SAMPLES PROMPT_TOKENS NEW_TOKENS STEPS`; one JSON object per step with the seconds of each phase, the
//! largest difference between sampler and trainer, and the hash of the adapter; the first step also finds its algorithms,
//! unless an earlier start has.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use hone_engine::batch::{BatchLimits, Request};
use hone_engine::config::ModelConfig;
use hone_engine::cuda::{Cuda, CudaOptions};
use hone_engine::host::Host;
use hone_engine::layout::PAGE;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::memory::{MemoryPlan, Place, Run};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::{AdamOptions, Schedule};
use hone_engine::random::Stream;
use hone_engine::trainer::Trainer;
use hone_engine::{peft, shapes};
use hone_trace::{ConfigHash, Giver, GiverKind, Message, Reward, RewardId, Role, Sampled, Segment, Tenant, Time};
use hone_trace::{Trace, TraceId, Turn};
use hone_train::advantage::Centring;
use hone_train::groups::{Credit, GroupOptions, Groups};
use hone_train::loss::Method;
use hone_train::step::{Objective, StepOptions, step};

const RANK: usize = 16;
const LR: f32 = 1e-4;
const GIB: f64 = (1u64 << 30) as f64;

/// What a step is made of.
#[derive(Clone, Copy)]
struct Sizes {
    n_prompts: usize,
    n_samples: usize,
    n_prompt_tokens: usize,
    n_new_tokens: usize,
}

impl Sizes {
    fn n_sequences(self) -> usize {
        self.n_prompts * self.n_samples
    }

    /// Every prompt once, and what follows it without its last token, which predicts nothing.
    fn n_rows(self) -> usize {
        self.n_prompts * self.n_prompt_tokens + self.n_sequences() * (self.n_new_tokens - 1)
    }

    /// Shared pages of prompts, and of every sample those of its own, of which the first may begin in the prompt's last.
    fn n_pages(self) -> usize {
        let n_own = self.n_new_tokens.div_ceil(PAGE) + 2;
        self.n_prompts * self.n_prompt_tokens.div_ceil(PAGE) + self.n_sequences() * n_own + 16
    }

    fn limits(self) -> BatchLimits {
        let n_rows_max = 32_768;
        BatchLimits { n_pages: self.n_pages(), n_sequences_max: self.n_sequences(), n_rows_max, queue_len_max: self.n_prompts }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [shape, sizes @ ..] = &args[..] else { return Err(USAGE.into()) };
    let config = shapes::named(shape).ok_or_else(|| format!("shape `{shape}` is none of {:?}", shapes::NAMES))?;
    let sizes = sizes.iter().map(|size| size.parse()).collect::<Result<Vec<usize>, _>>()?;
    let [n_prompts, n_samples, n_prompt_tokens, n_new_tokens, n_steps] = sizes[..] else { return Err(USAGE.into()) };
    run(shape, &config, Sizes { n_prompts, n_samples, n_prompt_tokens, n_new_tokens }, n_steps)
}

const USAGE: &str = "gpu_grpo SHAPE PROMPTS SAMPLES PROMPT_TOKENS NEW_TOKENS STEPS";

fn run(shape: &str, config: &ModelConfig, sizes: Sizes, n_steps: usize) -> Result<(), Box<dyn Error>> {
    let kept = CudaOptions { cache: Some(std::env::temp_dir().join("hone-kernels")), ..CudaOptions::default() };
    let cuda = Cuda::open(&kept)?;
    let (n_rows, n_pages) = (sizes.n_rows(), sizes.n_pages());
    let needs = Run { place: Place::Gpu, config, n_rows, rank: RANK, n_pages, n_pages_min: n_pages };
    let (n_rows_max, plan) = MemoryPlan::largest(needs, cuda.facts().memory.0)?;
    writeln!(std::io::stderr(), "{plan}; micro-batches of {n_rows_max} rows")?;
    let n_positions = sizes.n_prompt_tokens + sizes.n_new_tokens;
    let model = Model::load(&cuda, &RandomWeights { config: config.clone(), seed: 1 }, n_positions, Passes::ForwardBackward)?;
    let lora = LoraWeights::fresh(config, &LoraSpec::all(RANK, 2.0 * RANK as f32), 3);
    let mut trainer = Trainer::lora(&cuda, config, &lora, AdamOptions::default(), plan.recompute);
    let mut host = Host::new(cuda, model, sizes.limits());
    let loss = Method::DrGrpo.loss(sizes.n_new_tokens);
    let options = StepOptions::new(Objective::Policy(loss), Schedule::Constant { lr: LR });
    let group_options = GroupOptions { credit: Credit::Episode(Centring::Mean), overlong: None, n_rows_max };
    for round in 0..n_steps as u64 {
        let start = Instant::now();
        let Drawn { groups, prefill_s } = sample(&mut host, &trainer, sizes, round)?;
        let sample_s = start.elapsed().as_secs_f64();
        let groups: Vec<&[Trace]> = groups.iter().map(Vec::as_slice).collect();
        let mut batch = Groups::new(&groups, &group_options)?.batch;
        let score_s = start.elapsed().as_secs_f64() - sample_s;
        let stats = step(&mut host, &mut trainer, &mut batch, &options)?;
        host.backend().wait();
        let step_s = start.elapsed().as_secs_f64();
        let seconds = Seconds { step_s, sample_s, prefill_s, score_s, train_s: step_s - sample_s - score_s };
        let n_sampled = sizes.n_sequences() * sizes.n_new_tokens;
        let hash = trainer.lora_weights(host.backend()).map(|weights| peft::hash(config, &weights)).unwrap_or_default();
        let peak = host.backend().facts().peak as f64 / GIB;
        let facts = [
            format!("\"what\":\"grpo\",\"shape\":\"{shape}\",\"step\":{round},{}", seconds.told(n_sampled, batch.n_rows())),
            format!("\"n_rows\":{},\"n_tokens\":{}", batch.n_rows(), batch.n_tokens()),
            format!("\"n_micro_batches\":{},\"peak_gib\":{peak:.2},\"plan\":\"{plan}\"", batch.n_micro_batches()),
            format!("\"max_diff\":{:e},\"loss\":{:e}", stats.mismatch_max.unwrap_or(f64::NAN), stats.loss),
            format!("\"grad_norm\":{:e},\"hash\":\"{hash}\"", stats.grad_norm),
        ];
        writeln!(std::io::stdout(), "{{{}}}", facts.join(","))?;
    }
    Ok(())
}

/// How long the phases of a step took.
struct Seconds {
    step_s: f64,
    sample_s: f64,
    /// Until every sample had its first token.
    prefill_s: f64,
    /// Rewards and advantages.
    score_s: f64,
    train_s: f64,
}

impl Seconds {
    fn told(&self, n_sampled: usize, n_trained: usize) -> String {
        let Self { step_s, sample_s, prefill_s, score_s, train_s } = self;
        let (sampled, trained) = (n_sampled as f64 / sample_s, n_trained as f64 / train_s);
        let phases = format!("\"prefill_s\":{prefill_s:.4},\"score_s\":{score_s:.4},\"train_s\":{train_s:.4}");
        let rates = format!("\"sampled_tok_s\":{sampled:.0},\"trained_tok_s\":{trained:.0}");
        format!("\"step_s\":{step_s:.4},\"sample_s\":{sample_s:.4},{phases},{rates}")
    }
}

/// What was sampled in a step.
struct Drawn {
    groups: Vec<Vec<Trace>>,
    prefill_s: f64,
}

/// Samples of every prompt by the adapter as it is, each with a reward.
fn sample(host: &mut Host<Cuda>, trainer: &Trainer<Cuda>, sizes: Sizes, round: u64) -> Result<Drawn, Box<dyn Error>> {
    let start = Instant::now();
    let weights = trainer.lora_weights(host.backend()).ok_or("an adapter is trained")?;
    let version = host.load(&weights);
    let prompts: Vec<Vec<u32>> = (0..sizes.n_prompts as u64).map(|i| prompt(round << 32 | i, sizes, host)).collect();
    let mut ids = Vec::new();
    for (i, prompt) in prompts.iter().enumerate() {
        let mut request = Request::new(prompt.clone(), sizes.n_new_tokens);
        (request.n_samples, request.seed, request.sequence) = (sizes.n_samples, round, (i * sizes.n_samples) as u64);
        request.adapter = host.pin(version);
        ids.push(host.submit(request)?);
    }
    let mut sampled = vec![vec![Sampled::default(); sizes.n_samples]; sizes.n_prompts];
    let mut prefill_s = 0.0;
    while !host.is_idle() {
        for event in host.sample_ahead() {
            let place = ids.iter().position(|&id| id == event.request).ok_or("a request of ours")?;
            let sample = &mut sampled[place][event.sample];
            sample.ids.extend(event.tokens.iter().map(|token| token.id));
            sample.logprobs.extend(event.tokens.iter().map(|token| token.logprob));
        }
        if sampled.iter().flatten().any(|sample| sample.ids.len() <= 1) {
            prefill_s = start.elapsed().as_secs_f64();
        }
    }
    host.drop_adapter(version);
    let traces = |(samples, prompt): (Vec<Sampled>, &Vec<u32>)| {
        samples.into_iter().map(|sampled| rewarded(Sampled { input_ids: prompt.clone(), ..sampled })).collect()
    };
    Ok(Drawn { groups: sampled.into_iter().zip(&prompts).map(traces).collect(), prefill_s })
}

/// Tokens that follow from a seed.
fn prompt(seed: u64, sizes: Sizes, host: &Host<Cuda>) -> Vec<u32> {
    let (stream, vocab) = (Stream::new(7, seed), host.model().config.vocab as u64);
    (0..sizes.n_prompt_tokens as u64).map(|i| (stream.bits(i) % vocab) as u32).collect()
}

/// A trace of one turn. What it earns is a function of its tokens that has nothing to do with sense, as the weights have none.
fn rewarded(sampled: Sampled) -> Trace {
    let total = f64::from(sampled.ids.iter().fold(0, |sum: u32, id| sum.wrapping_add(*id)) % 7) / 6.0;
    let by = Giver { kind: GiverKind::Check, name: "remainder".into(), config: None };
    let epoch = Time::from_unix_nanos(0);
    let reward = Reward { total, ..Reward::sum(RewardId::derived(&["remainder"]), epoch, by, Vec::new()) };
    let turn =
        Turn { sampled: Some(sampled), ..Turn::new(vec![Message::text(Role::User, "")], Message::text(Role::Assistant, "")) };
    let tenant = Tenant::new("bench").expect("a good name");
    let bare = Trace::new(TraceId::derived(&["bench"]), tenant, epoch, ConfigHash::of(b"bench"));
    Trace { segments: vec![Segment { turns: vec![turn], ..Segment::default() }], rewards: vec![reward], ..bare }
}
