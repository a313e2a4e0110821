//! Every operation of the GPU's backend against the readable one, by name, on awkward sizes. Without a GPU there is nothing to
//! compare: each test says so and passes.

#![expect(clippy::print_stderr, reason = "a test that skips says so")]

mod operations;
mod rule;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hone_engine::backend::{Backend, Dtype, Scored, ScoredGrad};
use hone_engine::batch::{BatchLimits, Request, RequestId};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::cuda::{Cuda, CudaOptions, ProductsBy};
use hone_engine::host::{AdapterVersion, Host, Sample};
use hone_engine::layout::{Group, Packed};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights, WideWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::param::Proj;
use hone_engine::peft;
use hone_engine::random::Stream;
use hone_engine::reference::Reference;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::{Recompute, plain_targets};
use hone_engine::trainer::Trainer;
use operations::{Ops, close};
use rule::Rule;

/// With `HONE_TEST_PRODUCTS=ours` nothing but our kernels runs on the GPU: a checker of races comes to no end in the library's.
#[expect(clippy::disallowed_methods, reason = "the test run says by a variable whose products are taken")]
fn products_by() -> ProductsBy {
    let ours = std::env::var_os("HONE_TEST_PRODUCTS").is_some_and(|by| by == "ours");
    if ours { ProductsBy::Ours } else { ProductsBy::Library }
}

fn options() -> CudaOptions {
    let cache = Some(std::env::temp_dir().join("hone-kernels"));
    CudaOptions { products: products_by(), cache, ..CudaOptions::default() }
}

/// The GPU, opened once for all tests and lent to one at a time: while one records a graph, what another asks for would go into it.
fn gpu() -> Option<MutexGuard<'static, Cuda>> {
    static GPU: OnceLock<Option<Mutex<Cuda>>> = OnceLock::new();
    let open = || Cuda::open(&options()).map(Mutex::new).map_err(|reason| eprintln!("skipped: {reason}")).ok();
    GPU.get_or_init(open).as_ref().map(|gpu| gpu.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs `body` on the reference, rounding as the GPU does, and on the GPU.
fn check(name: &str, tolerance: f32, body: &dyn Fn(&dyn Ops) -> Vec<f32>) {
    let Some(cuda) = gpu() else { return };
    let expected = body(&Reference::<f32>::new(Dtype::Bf16));
    // Where bf16 rounds a value that the two sides computed a last bit apart, one rounding step is allowed.
    close(&format!("{name} {}", cuda.path()), &body(&*cuda), &expected, tolerance.max(2e-5) * 400.0);
}

operations::operation_tests! { check }

const TINY: &str = "d128,l3,h4,kv2,ff256,v512,ctx256";
/// Heads so wide that few fit onto the GPU at once.
const WIDE: &str = "d2048,l1,h8,kv8,ff64,v512,ctx256";
/// Ten heads ask the same keys.
const SHARED: &str = "d160,l1,h10,kv1,ff64,v512,ctx256";

fn weights(spec: &str) -> WideWeights {
    let spec: TinySpec = spec.parse().expect("a sound spec");
    WideWeights(RandomWeights { config: ModelConfig::try_from(spec).expect("sound sizes"), seed: 3 })
}

/// An adapter of all projections that has learned something.
fn learned(config: &ModelConfig) -> LoraWeights {
    learned_by(config, &LoraSpec::all(16, 32.0))
}

fn learned_by(config: &ModelConfig, spec: &LoraSpec) -> LoraWeights {
    let mut weights = LoraWeights::fresh(config, spec, 4);
    let stream = Stream::new(5, 5);
    weights.matrices.values_mut().flatten().enumerate().for_each(|(i, x)| *x += 0.02 * stream.normal(i as u64));
    weights
}

fn ids(seed: u64, len: usize) -> Vec<u32> {
    let stream = Stream::new(6, seed);
    (0..len as u64).map(|i| (stream.bits(i) % 512) as u32).collect()
}

fn batch() -> Packed {
    let group = |seed: u64, prompt: usize, lens: &[usize]| Group {
        prompt: ids(seed, prompt),
        completions: lens.iter().enumerate().map(|(i, &len)| ids(seed * 10 + i as u64, len)).collect(),
    };
    Packed::new(&[group(1, 37, &[20, 41, 3]), group(2, 64, &[30, 17]), group(3, 0, &[90])])
}

struct Trained {
    losses: Vec<f32>,
    gradients: Vec<(String, Vec<f32>)>,
    /// Of the adapter after the last step.
    hash: String,
}

/// Ten steps towards the batch, and the gradients of the first.
fn train<B: Backend>(backend: &B, recompute: Recompute) -> Trained {
    let source = weights(TINY);
    let mut model = Model::load(backend, &source, 256, Passes::ForwardBackward).expect("random weights");
    let config = model.config.clone();
    let mut trainer = Trainer::lora(backend, &config, &learned(&config), AdamOptions::default(), recompute);
    let (packed, mut losses, mut gradients) = (batch(), Vec::new(), Vec::new());
    for step in 0..10 {
        let n = packed.targets.len() as f32;
        let loss = |scored: &[Scored]| {
            losses.push(-scored.iter().map(|s| s.logprob).sum::<f32>() / n);
            vec![ScoredGrad { logprob: -1.0 / n, entropy: 0.001 / n }; scored.len()]
        };
        trainer.accumulate(backend, &model, &packed, plain_targets(&packed, 1.0), loss);
        if step == 0 {
            gradients = trainer.gradients(backend);
        }
        trainer.step(backend, &mut model, 1e-3);
    }
    let hash = trainer.lora_weights(backend).map(|weights| peft::hash(&config, &weights)).unwrap_or_default();
    Trained { losses, gradients, hash }
}

#[test]
fn a_step_of_training_is_the_cpus() {
    let Some(cuda) = gpu() else { return };
    let found = train(&*cuda, Recompute::Never);
    let expected = train(&Cpu::new(Dtype::Bf16, 2), Recompute::Never);
    let square = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let (mut apart_all, mut expected_all) = (0.0, 0.0);
    for ((name, found), (_, expected)) in found.gradients.iter().zip(&expected.gradients) {
        let apart: Vec<f32> = found.iter().zip(expected).map(|(f, e)| f - e).collect();
        let error = (square(&apart) / square(expected)).sqrt();
        // Of a single tensor, bf16 on the CPU is up to 0.02 from f32.
        assert!(error <= 5e-2, "{name}: the gradient is {error:.4} off");
        apart_all += square(&apart);
        expected_all += square(expected);
    }
    let error = (apart_all / expected_all).sqrt();
    eprintln!("the whole gradient is {error:.4} off; losses {:?}, on the CPU {:?}", found.losses, expected.losses);
    assert!(error <= 2e-2, "the whole gradient is {error:.4} off");
    for (step, (f, e)) in found.losses.iter().zip(&expected.losses).enumerate() {
        assert!((f / e - 1.0).abs() < 0.01, "step {step}: loss {f} instead of {e}");
    }
    assert!(found.losses[9] < 0.8 * found.losses[0], "nothing was learned: {:?}", found.losses);
}

#[test]
fn the_same_seed_gives_the_same_adapter() {
    let Some(cuda) = gpu() else { return };
    let found = train(&*cuda, Recompute::Never);
    for recompute in [Recompute::Never, Recompute::Blocks] {
        let again = train(&*cuda, recompute);
        assert_eq!((again.losses, again.hash), (found.losses.clone(), found.hash.clone()), "{recompute:?}");
    }
}

/// A host of its own, as a host takes its backend with it.
fn host(spec: &str) -> Option<Host<Cuda>> {
    drop(gpu()?);
    let cuda = Cuda::open(&options()).ok()?;
    let model = Model::load(&cuda, &weights(spec), 256, Passes::Forward).expect("random weights");
    Some(Host::new(cuda, model, BatchLimits { n_pages: 512, n_sequences_max: 64, n_rows_max: 256, queue_len_max: 64 }))
}

/// Tokens of an answer; a checker takes a thousand times as long.
fn n_new() -> usize {
    if products_by() == ProductsBy::Ours { 4 } else { 40 }
}

fn requests(sampler: SamplerOptions, only: Option<usize>) -> Vec<Request<Cuda>> {
    let request = |(i, &(prompt, n_samples)): (usize, &(usize, usize))| {
        let mut request = Request::new(ids(20 + i as u64, prompt), n_new());
        (request.n_samples, request.seed, request.sequence) = (n_samples, 8, 100 * i as u64);
        request.sampler = sampler;
        request
    };
    // More than sixteen sequences, which take other kernels, and fewer at the end of some.
    let all = [(5, 3), (16, 1), (33, 14), (70, 2), (100, 1)];
    all.iter().enumerate().filter(|(i, _)| only.is_none_or(|only| only == *i)).map(request).collect()
}

fn tokens(samples: &[Vec<Sample>]) -> Vec<(u32, u32)> {
    samples.iter().flatten().flat_map(|sample| &sample.tokens).map(|token| (token.id, token.logprob.to_bits())).collect()
}

#[test]
fn what_is_sampled_is_what_is_trained() {
    sampled_is_trained(TINY);
}

#[test]
fn what_is_sampled_by_many_heads_of_one_key_is_what_is_trained() {
    sampled_is_trained(SHARED);
}

/// Two adapters of one rank, of all projections and of two of them, take different kernels for the same sizes, whichever comes first.
#[test]
fn what_is_sampled_with_adapters_of_one_rank_is_what_is_trained() {
    let few = LoraSpec { targets: vec![Proj::Q, Proj::V], ..LoraSpec::all(16, 32.0) };
    let (all, config) = (LoraSpec::all(16, 32.0), weights(TINY).0.config);
    for specs in [[&few, &all], [&all, &few]] {
        let Some(mut host) = host(TINY) else { return };
        for spec in specs {
            let version = host.load(&learned_by(&config, spec));
            assert_sampled_is_trained(&mut host, TINY, 1.0, Some(version));
        }
    }
}

fn sampled_is_trained(spec: &str) {
    let Some(mut host) = host(spec) else { return };
    let version = host.load(&learned(&weights(spec).0.config));
    for (temperature, adapter) in [(0.7, Some(version)), (1.0, Some(version)), (1.0, None)] {
        assert_sampled_is_trained(&mut host, spec, temperature, adapter);
    }
}

fn assert_sampled_is_trained(host: &mut Host<Cuda>, spec: &str, temperature: f32, adapter: Option<AdapterVersion>) {
    let mut asked = requests(SamplerOptions { temperature, ..SamplerOptions::default() }, None);
    asked.iter_mut().for_each(|request| request.adapter = adapter.and_then(|version| host.pin(version)));
    let prompts: Vec<Vec<u32>> = asked.iter().map(|request| request.prompt.clone()).collect();
    let samples = host.sample(asked).expect("sound requests");
    assert!(samples.iter().flatten().all(|sample| sample.tokens.len() == n_new()), "an answer ended early");
    assert!(!host.backend().plans().is_empty(), "no step was recorded");
    let group = |(prompt, samples): (&Vec<u32>, &Vec<Sample>)| Group {
        prompt: prompt.clone(),
        completions: samples.iter().map(|sample| sample.tokens.iter().map(|token| token.id).collect()).collect(),
    };
    let packed = Packed::new(&prompts.iter().zip(&samples).map(group).collect::<Vec<_>>());
    let scored = host.score(adapter, &packed, &plain_targets(&packed, 1.0 / temperature));
    let drawn: Vec<u32> = tokens(&samples).iter().map(|&(_, logprob)| logprob).collect();
    let trained: Vec<u32> = scored.iter().map(|scored| scored.logprob.to_bits()).collect();
    assert_eq!(drawn, trained, "{spec}: temperature {temperature}, adapter {adapter:?}");
}

/// A block of threads attends to one row after the other where there are more rows than blocks fit.
#[test]
fn what_is_sampled_by_many_rows_of_wide_heads_is_what_is_trained() {
    let Some(mut host) = host(WIDE) else { return };
    let mut request = Request::new(ids(31, 70), n_new());
    (request.n_samples, request.seed) = (48, 8);
    let prompt = request.prompt.clone();
    let samples = host.sample(vec![request]).expect("a sound request").remove(0);
    let completions = samples.iter().map(|sample| sample.tokens.iter().map(|token| token.id).collect()).collect();
    let packed = Packed::new(&[Group { prompt, completions }]);
    let trained: Vec<u32> =
        host.score(None, &packed, &plain_targets(&packed, 1.0)).iter().map(|scored| scored.logprob.to_bits()).collect();
    let drawn: Vec<u32> = tokens(&[samples]).iter().map(|&(_, logprob)| logprob).collect();
    assert_eq!(drawn, trained);
}

/// What a sequence may say next is fed with what is due, in rows of its own, and changes no bit.
#[test]
fn what_is_drawn_with_guesses_is_what_is_drawn_without() {
    for spec in [TINY, SHARED] {
        let Some(mut host) = host(spec) else { return };
        let version = host.load(&learned(&weights(spec).0.config));
        let mut most = 0;
        for (temperature, adapter) in [(0.0, None), (0.0, Some(version)), (1.0, Some(version))] {
            for (i, (n_prompt, n_samples)) in [(5, 1), (16, 3), (58, 1), (70, 2), (121, 4)].into_iter().enumerate() {
                let mut drawn = |guesses: bool| {
                    // What was said before is said again, or may be.
                    let prompt = ids(40 + i as u64, 5).into_iter().cycle().take(n_prompt).collect();
                    let mut request = Request::new(prompt, n_new());
                    (request.n_samples, request.seed, request.guesses) = (n_samples, 8, guesses);
                    request.sampler.temperature = temperature;
                    request.adapter = adapter.and_then(|version| host.pin(version));
                    host.submit(request).expect("a sound request");
                    let mut drawn = vec![Vec::new(); n_samples];
                    while !host.is_idle() {
                        for event in host.sample_ahead() {
                            most = most.max(if guesses { event.tokens.len() } else { 0 });
                            let of_event = event.tokens.iter().map(|token| (token.id, token.logprob.to_bits()));
                            drawn[event.sample].extend(of_event);
                        }
                    }
                    drawn
                };
                let (with, without) = (drawn(true), drawn(false));
                assert_eq!(with, without, "{spec}: {n_prompt} tokens, temperature {temperature}, adapter {adapter:?}");
            }
        }
        // A burst has two tokens where something may be guessed.
        assert!(most > 2 || products_by() == ProductsBy::Ours, "nothing was guessed");
    }
}

/// What the host draws, or a rule cuts, comes from the same rows as what is drawn without the host.
#[test]
fn what_is_drawn_from_a_part_of_the_vocabulary_is_what_is_trained() {
    let Some(mut host) = host(TINY) else { return };
    let all = SamplerOptions::default();
    let cut = SamplerOptions { top_p: 0.9, top_k: 50, ..all };
    for (sampler, has_rule) in [(all, true), (SamplerOptions { temperature: 0.0, ..all }, true), (cut, false), (cut, true)] {
        let mut drawn = |guesses: bool| {
            let prompt: Vec<u32> = ids(50, 5).into_iter().cycle().take(58).collect();
            let mut request = Request::new(prompt, n_new());
            (request.n_samples, request.seed, request.guesses, request.sampler) = (3, 8, guesses, sampler);
            (request.keep_support, request.n_likeliest) = (true, usize::from(!has_rule));
            // Samples that fork from one row are cut differently.
            let rules = [None, Some(1), Some(2)].map(|last| Rule::boxed(last, 5));
            request.constraints = if has_rule { rules.into() } else { Vec::new() };
            (request.prompt.clone(), host.sample(vec![request]).expect("a sound request").remove(0))
        };
        let ((prompt, samples), (_, without)) = (drawn(true), drawn(false));
        assert_eq!(samples, without, "{sampler:?}, a rule: {has_rule}");
        let completions = samples.iter().map(|sample| sample.tokens.iter().map(|token| token.id).collect()).collect();
        let packed = Packed::new(&[Group { prompt, completions }]);
        let mut targets = plain_targets(&packed, 1.0);
        let tokens: Vec<_> = samples.iter().flat_map(|sample| &sample.tokens).collect();
        targets.iter_mut().zip(&tokens).for_each(|(target, token)| target.support = token.support.clone());
        for (scored, token) in host.score(None, &packed, &targets).iter().zip(tokens) {
            assert!(token.forced || scored.logprob.to_bits() == token.logprob.to_bits(), "{sampler:?}, a rule: {has_rule}");
        }
    }
}

/// The next tokens are begun before the last ones are known, whoever ends with these or is withdrawn meanwhile.
#[test]
fn what_is_drawn_ahead_is_what_is_drawn_alone() {
    let Some(mut host) = host(TINY) else { return };
    let asked = |only: Option<usize>| {
        let mut asked = requests(SamplerOptions { temperature: 1.0, ..SamplerOptions::default() }, only);
        asked.iter_mut().for_each(|request| request.stop_ids = (0..16).collect());
        asked
    };
    let together = host.sample(asked(None)).expect("sound requests");
    for (i, samples) in together.iter().enumerate() {
        let alone = host.sample(asked(Some(i))).expect("sound requests");
        assert_eq!(tokens(&alone), tokens(std::slice::from_ref(samples)), "request {i}");
    }
    for n_steps in 1..4 {
        let ids: Vec<RequestId> = asked(None).into_iter().map(|request| host.submit(request).expect("a sound request")).collect();
        let mut drawn = std::collections::BTreeMap::<(RequestId, usize), Vec<(u32, u32)>>::new();
        let mut step = 0;
        while !host.is_idle() {
            if step == n_steps {
                host.cancel(ids[2]);
            }
            for event in host.sample_ahead() {
                let of_event = event.tokens.iter().map(|token| (token.id, token.logprob.to_bits()));
                drawn.entry((event.request, event.sample)).or_default().extend(of_event);
            }
            step += 1;
        }
        for (i, samples) in together.iter().enumerate().filter(|&(i, _)| i != 2) {
            let found: Vec<_> = (0..samples.len()).flat_map(|sample| drawn[&(ids[i], sample)].clone()).collect();
            assert_eq!(found, tokens(std::slice::from_ref(samples)), "request {i}, another withdrawn after {n_steps} steps");
        }
    }
}

#[test]
fn a_sequence_does_not_feel_its_neighbours() {
    let Some(mut host) = host(TINY) else { return };
    for (temperature, top_p) in [(1.0, 0.9), (1.0, 1.0), (0.0, 1.0)] {
        let sampler = SamplerOptions { temperature, top_p, ..SamplerOptions::default() };
        let together = host.sample(requests(sampler, None)).expect("sound requests");
        for (i, samples) in together.iter().enumerate() {
            let alone = host.sample(requests(sampler, Some(i))).expect("sound requests");
            assert_eq!(tokens(&alone), tokens(std::slice::from_ref(samples)), "request {i}, {sampler:?}");
        }
    }
}
