//! Every operation of the GPU's backend against the readable one, by name, on awkward sizes. Without a GPU there is nothing to
//! compare: each test says so and passes.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::operations::{self, Ops, close};
use crate::rule::Rule;
use hone_engine::backend::{Ask, Backend, Dtype, Put, Scored, ScoredGrad};
use hone_engine::batch::{BatchLimits, Request, RequestId};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::cuda::{Answers, Cuda, CudaOptions, ProductsBy};
use hone_engine::host::{AdapterVersion, Host, Sample};
use hone_engine::layout::{Group, Packed};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights, WideWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::param::Proj;
use hone_engine::peft;
use hone_engine::random::Stream;
use hone_engine::reference::Reference;
use hone_engine::sampler::{Drawn, SamplerOptions};
use hone_engine::tape::{Recompute, plain_targets};
use hone_engine::trainer::Trainer;

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
/// Sums O in two parts and down in three, where groups of warps multiply.
const IN_PARTS: &str = "d384,l3,h6,kv2,ff768,v512,ctx256";
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

/// For one answer at a time, and the right to it: two backends for one would wait for each other's room.
fn for_one() -> (CudaOptions, MutexGuard<'static, ()>) {
    static FOR_ONE: Mutex<()> = Mutex::new(());
    (CudaOptions { answers: Answers::One, ..options() }, FOR_ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A host of its own, as a host takes its backend with it.
fn host(spec: &str) -> Option<Host<Cuda>> {
    host_by(spec, &options())
}

fn host_by(spec: &str, options: &CudaOptions) -> Option<Host<Cuda>> {
    drop(gpu()?);
    let cuda = Cuda::open(options).ok()?;
    let source = weights(spec);
    let model = Model::load(&cuda, &source, source.0.config.context_len, Passes::Forward).expect("random weights");
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
    sampled_is_trained(TINY, &options());
}

#[test]
fn what_is_sampled_by_many_heads_of_one_key_is_what_is_trained() {
    sampled_is_trained(SHARED, &options());
}

/// In parts, the library takes a product for each run, and our kernels take one for all.
#[test]
fn what_is_sampled_in_parts_is_what_is_trained() {
    let (options, _guard) = for_one();
    sampled_is_trained(IN_PARTS, &options);
    let Some(mut host) = host_by(IN_PARTS, &options) else { return };
    host.sample(requests(SamplerOptions::default(), None)).expect("sound requests");
    let gpu = host.backend();
    let (has_groups, ways) = (gpu.facts().capability == (9, 0), gpu.ways());
    assert_eq!(ways.iter().any(|way| way.contains("_parts")), has_groups, "{ways:#?}");
}

/// All layers of one sequence in one launch, where three query heads ask a key head.
#[test]
fn what_is_drawn_in_one_launch_is_what_is_trained() {
    const SPEC: &str = "d192,l3,h3,kv1,ff512,v512,ctx640";
    drawn_in_one_launch_is_trained(SPEC);
    // Nobody asked for that here.
    let Some(mut host) = host(SPEC) else { return };
    host.sample(requests(SamplerOptions::default(), Some(1))).expect("a sound request");
    let gpu = host.backend();
    assert!(gpu.n_in_one_launch() == 0 && !gpu.ways().iter().any(|way| way.contains("_parts")), "{:#?}", gpu.ways());
}

#[test]
fn what_is_drawn_in_one_launch_with_a_single_head_is_what_is_trained() {
    drawn_in_one_launch_is_trained("d64,l3,h1,kv1,ff256,v512,ctx640");
}

/// The sizes that it was made for.
#[test]
fn what_is_drawn_in_one_launch_of_many_clusters_is_what_is_trained() {
    drawn_in_one_launch_is_trained("d576,l4,h9,kv3,ff1536,v512,ctx640");
}

/// Prompts end before, at and behind the ends of pages and of the blocks of keys that are looked at together.
fn drawn_in_one_launch_is_trained(spec: &str) {
    let (options, _guard) = for_one();
    let Some(mut host) = host_by(spec, &options) else { return };
    let lens: &[usize] =
        if products_by() == ProductsBy::Ours { &[63, 300] } else { &[1, 16, 47, 63, 64, 130, 240, 255, 300, 513] };
    for (i, &len) in lens.iter().enumerate() {
        let mut request = Request::new(ids(40 + i as u64, len), n_new());
        (request.seed, request.sequence) = (8, i as u64);
        drawn_is_trained(&mut host, request, &format!("{spec}, {len} tokens"));
    }
    let gpu = host.backend();
    assert_eq!(gpu.n_in_one_launch() > 0, gpu.facts().capability == (9, 0), "{spec}");
}

/// What one request draws has the log-probabilities that training finds, to the bit.
fn drawn_is_trained(host: &mut Host<Cuda>, request: Request<Cuda>, what: &str) {
    let prompt = request.prompt.clone();
    let samples = host.sample(vec![request]).expect("a sound request").remove(0);
    let completions = samples.iter().map(|sample| sample.tokens.iter().map(|token| token.id).collect()).collect();
    let packed = Packed::new(&[Group { prompt, completions }]);
    let scored = host.score(None, &packed, &plain_targets(&packed, 1.0));
    let trained: Vec<u32> = scored.iter().map(|scored| scored.logprob.to_bits()).collect();
    let drawn: Vec<u32> = tokens(&[samples]).iter().map(|&(_, logprob)| logprob).collect();
    assert_eq!(drawn, trained, "{what}");
}

/// Each run of the inputs is a product of its own. The runs of a part are added to its first in order, and so are parts to what is there.
#[test]
fn parts_are_added_one_after_the_other() {
    let (options, _guard) = for_one();
    let Some(host) = host_by(IN_PARTS, &options) else { return };
    let gpu = host.backend();
    let (config, has_groups) = (weights(IN_PARTS).0.config, gpu.facts().capability == (9, 0));
    let n = config.dim;
    let drawn = |i: u64, len: usize| (0..len as u64).map(|at| Stream::new(9, i).normal(at)).collect::<Vec<f32>>();
    let multiply = |[x, w]: [&[f32]; 2], cols: usize, proj: Proj, put: Put, y: &mut <Cuda as Backend>::Buf| {
        let rows = x.len() / cols;
        let (mut w, x) = (gpu.weight(&gpu.upload(w), n, cols, false), gpu.act(&gpu.upload(x), rows, cols, 1.0));
        gpu.settle(&config, proj, &mut w);
        Backend::linear(gpu, &x, 0..rows, &w, put, y, 0);
    };
    for (proj, cols, part, run) in [(Proj::O, 384, 192, 64), (Proj::Down, 768, 256, 128), (Proj::Q, 384, 384, 384)] {
        let (part, run) = if has_groups { (part, run) } else { (cols, cols) };
        for rows in [1, 9, 31, 80, 257] {
            let (x, w, y) = (drawn(1, rows * cols), drawn(2, n * cols), drawn(3, rows * n));
            // Queries are summed whole.
            let multiply_run = |from: usize, put: Put, y: &mut <Cuda as Backend>::Buf| {
                let [x, w] = [&x, &w].map(|matrix| matrix.chunks(cols).flat_map(|row| &row[from..from + run]).copied().collect());
                let [x, w]: [Vec<f32>; 2] = [x, w];
                multiply([&x, &w], run, Proj::Q, put, y);
            };
            for put in [Put::Set, Put::Add] {
                let [mut at_once, mut in_turn] = [(), ()].map(|()| gpu.upload(&y));
                multiply([&x, &w], cols, proj, put, &mut at_once);
                for start in (0..cols).step_by(part) {
                    let mut sums = gpu.zeros(rows * n);
                    for from in (start..start + part).step_by(run) {
                        multiply_run(from, if from == start { Put::Set } else { Put::Add }, &mut sums);
                    }
                    if start == 0 && put == Put::Set {
                        in_turn = sums;
                    } else {
                        gpu.add(&sums, &mut in_turn);
                    }
                }
                let bits = |y| gpu.download(y).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(bits(&at_once) == bits(&in_turn), "{proj:?} {put:?}, {rows} rows");
            }
        }
    }
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

fn sampled_is_trained(spec: &str, options: &CudaOptions) {
    let Some(mut host) = host_by(spec, options) else { return };
    let version = host.load(&learned(&weights(spec).0.config));
    for (temperature, adapter) in [(0.7, Some(version)), (1.0, Some(version)), (1.0, None)] {
        assert_sampled_is_trained(&mut host, spec, temperature, adapter);
        assert_eq!(host.try_promise(adapter).expect("room").mismatch, 0.0, "{spec}: adapter {adapter:?}");
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

/// Attention over many keys takes two launches of many blocks of threads: heads of several widths, one of them padded, and few and many that
/// share a key. Answers begin before, at and behind the ends of pages, of blocks of keys, and of those that are looked at together.
#[test]
fn what_is_drawn_behind_many_tokens_is_what_is_trained() {
    const FAR: [&str; 4] = [
        "d128,l2,h4,kv2,ff256,v512,ctx2304",
        "d160,l1,h10,kv1,ff256,v512,ctx2304",
        "d144,l1,h6,kv2,ff256,v512,ctx2304",
        "d384,l1,h6,kv2,ff256,v512,ctx2304",
    ];
    for spec in FAR {
        let Some(mut host) = host(spec) else { return };
        for (i, (n_prompt, n_samples)) in [(500, 1), (600, 3), (1023, 1), (1020, 2), (2200, 1)].into_iter().enumerate() {
            let mut request = Request::new(ids(70 + i as u64, n_prompt), n_new());
            (request.n_samples, request.seed, request.guesses) = (n_samples, 8, false);
            drawn_is_trained(&mut host, request, &format!("{spec}: {n_prompt} tokens, {n_samples} samples"));
        }
        drawn_with_guesses_is_drawn_without(&mut host, spec, &[(0.0, None)], &[(510, 1), (700, 2), (1017, 1), (2200, 1)]);
    }
}

/// What a sequence may say next is fed with what is due, in rows of its own, and changes no bit.
#[test]
fn what_is_drawn_with_guesses_is_what_is_drawn_without() {
    for spec in [TINY, SHARED] {
        let Some(mut host) = host(spec) else { return };
        let version = host.load(&learned(&weights(spec).0.config));
        let policies = [(0.0, None), (0.0, Some(version)), (1.0, Some(version))];
        let prompts = [(5, 1), (16, 3), (58, 1), (70, 2), (121, 4)];
        let most = drawn_with_guesses_is_drawn_without(&mut host, spec, &policies, &prompts);
        // A burst has two tokens where something may be guessed.
        assert!(most > 2 || products_by() == ProductsBy::Ours, "nothing was guessed");
    }
}

/// Compares both, and tells how many tokens came at once at most.
fn drawn_with_guesses_is_drawn_without(
    host: &mut Host<Cuda>,
    spec: &str,
    policies: &[(f32, Option<AdapterVersion>)],
    prompts: &[(usize, usize)],
) -> usize {
    let mut most = 0;
    for &(temperature, adapter) in policies {
        for (i, &(n_prompt, n_samples)) in prompts.iter().enumerate() {
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
    most
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

/// What is cut on the GPU is what the host would cut, but for ids that are as likely as the last one kept up to rounding.
#[test]
fn what_a_sampler_leaves_is_what_the_host_would_leave() {
    let Some(cuda) = gpu() else { return };
    let host = Cpu::new(Dtype::F32, 1);
    let all = SamplerOptions::default();
    let cuts = [
        SamplerOptions { top_p: 0.9, ..all },
        SamplerOptions { top_p: 0.999, temperature: 0.7, ..all },
        SamplerOptions { top_p: 1e-6, ..all },
        SamplerOptions { top_k: 1, ..all },
        SamplerOptions { top_k: 50, temperature: 1.3, ..all },
        SamplerOptions { top_k: 1 << 40, ..all },
        SamplerOptions { min_p: 0.05, ..all },
        SamplerOptions { min_p: 1.0, temperature: 0.7, ..all },
        SamplerOptions { min_p: 1.0, top_k: 1, temperature: 1.3, ..all },
        SamplerOptions { top_k: 40, top_p: 0.95, min_p: 0.02, temperature: 0.8 },
        SamplerOptions { top_k: 3000, top_p: 0.5, ..all },
        SamplerOptions { top_k: 100, top_p: 0.97, min_p: 0.2, ..all },
        SamplerOptions { top_k: 150, top_p: 0.999, temperature: 3.0, ..all },
    ];
    let stream = Stream::new(7, 7);
    // How far apart logits are, how far one of them is rounded, and what some of them are instead.
    let kinds: [(f32, f32, Option<f32>); 7] = [
        (3.0, 0.0, None),
        (0.01, 0.0, None),
        (0.0, 0.0, None),
        (3.0, 0.5, None),
        (40.0, 0.0, None),
        (3.0, 0.0, Some(f32::NEG_INFINITY)),
        (3.0, 0.0, Some(f32::NAN)),
    ];
    for vocab in [1, 5, 64, 65, 1000, 49_152, 151_936] {
        for (spread, step, odd) in kinds {
            let logit = |id: u64| match (stream.normal(id) * spread, odd) {
                (_, Some(odd)) if id % 7 == 3 => odd,
                (z, _) if step > 0.0 => (z / step).round() * step + 20.0,
                (z, _) => z + 20.0,
            };
            let logits: Vec<f32> = (0..vocab).map(logit).collect();
            for every in [None, Some(3)] {
                let allowed = every.map(|every| {
                    let bit = |id: u64| u64::from(id < vocab && (id % every != 1)) << (id % 64);
                    (0..vocab.div_ceil(64)).map(|word| (0..64).map(|i| bit(64 * word + i)).sum()).collect()
                });
                for sampler in cuts {
                    let what = format!("{vocab} ids, {spread} {step} {odd:?}, {every:?}, {sampler:?}");
                    let (expected, found) = (host.cut(&logits, &sampler, &allowed), cuda.cut(&logits, &sampler, &allowed));
                    assert_eq!(found.is_some(), expected.is_some(), "{what}");
                    let (Some(expected), Some(found)) = (expected, found) else { continue };
                    let is_in = |words: &[u64], id: u64| words[id as usize / 64] >> (id % 64) & 1 == 1;
                    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let below = |id: u64| (largest - logits[id as usize]) * sampler.inv_temperature();
                    let weight = |ids: &dyn Fn(&u64) -> bool| -> f64 {
                        (0..vocab).filter(ids).map(|id| f64::from(-below(id)).exp()).filter(|weight| weight.is_finite()).sum()
                    };
                    let last = (0..vocab).filter(|&id| is_in(&expected, id)).map(below).fold(0.0, f32::max);
                    let differs = |&id: &u64| is_in(&expected, id) != is_in(&found, id);
                    // Sums are rounded, and logits that are this near are one.
                    let is_light = sampler.top_p < 1.0 && weight(&differs) < 5e-6 * weight(&|_| true);
                    let are_near = (0..vocab).filter(differs).all(|id| (below(id) - last).abs() < 1e-5 * (1.0 + last));
                    let n_differ = (0..vocab).filter(differs).count();
                    let are_equals = step > 0.0 || spread == 0.0;
                    assert!(
                        n_differ == 0 || is_light || (are_near && !are_equals),
                        "{what}: {n_differ} ids, the last is {last} below"
                    );
                    assert_eq!(found.len(), expected.len(), "{what}");
                }
            }
        }
    }
}

/// Where the logits are, tokens are drawn and told of as they would be from logits that were brought to the host.
#[test]
fn what_is_drawn_where_the_logits_are_is_what_the_host_would_draw() {
    let Some(cuda) = gpu() else { return };
    let (stream, n_rows, cols, all) = (Stream::new(8, 8), 4, 8, SamplerOptions::default());
    let samplers = [
        all,
        SamplerOptions { temperature: 0.0, ..all },
        SamplerOptions { top_p: 0.9, temperature: 0.6, ..all },
        SamplerOptions { top_k: 7, min_p: 0.1, ..all },
    ];
    for vocab in [3, 300, 49_152] {
        let noise = |len: usize, from: u64| -> Vec<f32> { (0..len as u64).map(|i| stream.normal(from + i)).collect() };
        let x = cuda.act(&cuda.upload(&noise(n_rows * cols, 0)), n_rows, cols, 1.0);
        let w = cuda.weight(&cuda.upload(&noise(vocab * cols, 100)), vocab, cols, false);
        // All but the first id.
        let allowed = Some((0..vocab.div_ceil(64)).map(|word| u64::MAX << u64::from(word == 0)).collect());
        let rules = [None, allowed];
        let ask = |(row, sampler): (usize, SamplerOptions)| {
            let (u, n_likeliest, keep_support) = (stream.uniform(row as u64), [0, 1, 5, 400][row], row != 2);
            Ask { row, sampler, u, allowed: rules[row % 2].clone(), keep_support, n_likeliest }
        };
        for turn in 0..samplers.len() {
            let asks: Vec<Ask> = (0..n_rows).map(|row| (row, samplers[(row + turn) % samplers.len()])).map(ask).collect();
            let found = cuda.draw(&x, &w, &asks).expect("it can");
            let expected = Mutex::new(vec![None; n_rows]);
            cuda.logits(&x, &w, &|row, logits| {
                let Ask { sampler, u, ref allowed, keep_support, n_likeliest, .. } = asks[row];
                let drawn = sampler.draw(&*cuda, logits, allowed.clone(), u).expect("a token");
                let likeliest = sampler.likeliest(&*cuda, logits, &drawn.support, n_likeliest);
                let support = if keep_support { drawn.support } else { allowed.clone() };
                expected.lock().expect("a lock")[row] = Some(Drawn { likeliest, support, ..drawn });
            });
            assert_eq!(found, expected.into_inner().expect("a lock"), "{vocab} ids, {asks:?}");
        }
    }
}

/// In a burst, or in a step that tells what could have been drawn: a token is the same.
#[test]
fn what_is_cut_is_drawn_the_same_wherever_it_is_drawn() {
    let Some(mut host) = host(TINY) else { return };
    let all = SamplerOptions::default();
    let cuts = [SamplerOptions { top_p: 0.7, ..all }, SamplerOptions { top_k: 9, min_p: 0.05, temperature: 0.8, ..all }];
    for sampler in cuts {
        let mut drawn = |keep_support: bool, n_likeliest: usize, guesses: bool| {
            let asked = [(58, 3), (5, 1), (70, 4)].map(|(n_prompt, n_samples)| {
                let mut request = Request::new(ids(50, 5).into_iter().cycle().take(n_prompt).collect(), n_new());
                (request.n_samples, request.seed, request.guesses) = (n_samples, 8, guesses);
                (request.keep_support, request.n_likeliest) = (keep_support, n_likeliest);
                request.sampler = if n_samples == 1 { all } else { sampler };
                request
            });
            let samples = host.sample(asked.into()).expect("sound requests");
            let untold = samples.iter().flatten().flat_map(|sample| &sample.tokens).filter(|token| token.support.is_none());
            assert!(!keep_support || untold.count() == n_new(), "what was cut is told");
            tokens(&samples)
        };
        let expected = drawn(true, 2, false);
        for (keep_support, n_likeliest, guesses) in [(false, 0, false), (false, 0, true), (true, 0, false), (true, 0, true)] {
            let found = drawn(keep_support, n_likeliest, guesses);
            assert_eq!(found, expected, "{sampler:?}, support {keep_support}, guesses {guesses}");
        }
    }
}

/// Which ways were the fastest is kept, with the times that were measured; where it is damaged it is found anew. No bit depends on it.
#[test]
fn what_was_found_at_one_start_is_taken_at_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = CudaOptions { cache: Some(folder.path().to_owned()), ..options() };
    let start = || {
        let mut host = host_by(TINY, &options)?;
        let sampler = SamplerOptions { temperature: 1.0, ..SamplerOptions::default() };
        let drawn = tokens(&host.sample(requests(sampler, None)).expect("sound requests"));
        let gpu = host.backend();
        Some((drawn, gpu.agreement(), gpu.ways(), gpu.plans()))
    };
    let Some((drawn, agreement, ways, _)) = start() else { return };
    let (again, same_agreement, same_ways, plans) = start().expect("the same GPU");
    assert_eq!((again, same_agreement, same_ways), (drawn.clone(), agreement.clone(), ways.clone()));
    assert_eq!(start().expect("the same GPU").3, plans);
    let files = std::fs::read_dir(folder.path()).expect("the folder").map(|file| file.expect("a file").path());
    let found: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "found")).collect();
    assert!(!found.is_empty(), "nothing was kept");
    found.iter().for_each(|path| std::fs::write(path, "nothing of use\n").expect("the file"));
    let (anew, agreement_anew, ways_anew, _) = start().expect("the same GPU");
    assert_eq!((anew, agreement_anew), (drawn, agreement));
    assert_ne!(ways_anew, ways, "times are not measured twice to the last digit");
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
    for (temperature, top_p) in [(1.0, 0.9), (1.0, 1.0), (0.0, 1.0), (0.0, 0.5)] {
        let sampler = SamplerOptions { temperature, top_p, ..SamplerOptions::default() };
        let together = host.sample(requests(sampler, None)).expect("sound requests");
        for (i, samples) in together.iter().enumerate() {
            let alone = host.sample(requests(sampler, Some(i))).expect("sound requests");
            assert_eq!(tokens(&alone), tokens(std::slice::from_ref(samples)), "request {i}, {sampler:?}");
        }
    }
}
