//! The first two promises: what is sampled is what is trained, to the bit; the same seed gives the same bits.

use hone_engine::backend::{Backend, Dtype, ScoredGrad, Target};
use hone_engine::batch::{BatchLimits, Request, Token};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::{Cpu, Isa};
use hone_engine::host::Host;
use hone_engine::layout::{Group, Packed};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::peft;
use hone_engine::random::Stream;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::Recompute;
use hone_engine::trainer::Trainer;

fn weights() -> RandomWeights {
    let spec: TinySpec = "d48,l3,h6,kv2,ff80,v203,ctx256".parse().expect("a good spec");
    RandomWeights { config: ModelConfig::try_from(spec).expect("good sizes"), seed: 5 }
}

/// An adapter that changes something, unlike a fresh one.
fn adapter(seed: u64) -> LoraWeights {
    let mut adapter = LoraWeights::fresh(&weights().config, &LoraSpec::all(4, 8.0), seed);
    for (index, values) in adapter.matrices.values_mut().enumerate() {
        let stream = Stream::new(seed, 1000 + index as u64);
        values.iter_mut().enumerate().for_each(|(i, x)| *x += 0.2 * stream.normal(i as u64));
    }
    adapter
}

fn host(isa: Isa, dtype: Dtype, n_threads: usize, limits: BatchLimits) -> Host<Cpu> {
    let backend = Cpu::with_isa(dtype, n_threads, isa);
    let model = Model::load(&backend, &weights(), 256, Passes::ForwardBackward).expect("random weights");
    Host::new(backend, model, limits)
}

fn prompt(i: u64) -> Vec<u32> {
    let stream = Stream::new(9, i);
    let n = 1 + (i * 13 % 50);
    (0..n).map(|j| (stream.bits(j) % 203) as u32).collect()
}

const N_REQUESTS: u64 = 12;

/// Samples the same requests with `at_once` sequences running: (prompt, adapter or none, samples) per request.
fn sample(host: &mut Host<Cpu>, n_samples: usize) -> Vec<Vec<Vec<Token>>> {
    let versions = [host.load(&adapter(1)), host.load(&adapter(2))];
    let requests = (0..N_REQUESTS)
        .map(|i| Request {
            n_samples,
            sampler: SamplerOptions {
                temperature: 0.7 + 0.1 * (i % 4) as f32,
                top_k: if i % 5 == 4 { 20 } else { 0 },
                ..SamplerOptions::default()
            },
            seed: 77,
            sequence: i * 100,
            adapter: if i % 3 == 0 { None } else { host.pin(versions[(i % 3) as usize - 1]) },
            keep_support: true,
            ..Request::new(prompt(i), 20 + (i as usize * 7) % 25)
        })
        .collect();
    let samples = host.sample(requests).expect("good requests");
    samples.into_iter().map(|samples| samples.into_iter().map(|sample| sample.tokens).collect()).collect()
}

/// Largest difference between sampled log-probs and those of the training path.
fn recompute(host: &mut Host<Cpu>, samples: &[Vec<Vec<Token>>]) -> f32 {
    let versions = [host.load(&adapter(1)), host.load(&adapter(2))];
    let mut worst = 0f32;
    for (i, samples) in samples.iter().enumerate() {
        let completions = samples.iter().map(|tokens| tokens.iter().map(|token| token.id).collect()).collect();
        let packed = Packed::new(&[Group { prompt: prompt(i as u64), completions }]);
        let temperature = 0.7 + 0.1 * (i % 4) as f32;
        let tokens: Vec<&Token> = samples.iter().flatten().collect();
        let targets: Vec<Target> = tokens
            .iter()
            .map(|token| Target { id: token.id, inv_temperature: 1.0 / temperature, support: token.support.clone() })
            .collect();
        let version = if i % 3 == 0 { None } else { Some(versions[i % 3 - 1]) };
        let scored = host.score(version, &packed, &targets);
        assert_eq!(scored.len(), tokens.len());
        for (scored, token) in scored.iter().zip(tokens) {
            worst = worst.max((scored.logprob - token.logprob).abs());
        }
    }
    worst
}

#[test]
fn sampled_logprobs_are_trained_logprobs_to_the_bit() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        for isa in Isa::available() {
            let mut first: Option<Vec<Vec<Vec<Token>>>> = None;
            for (n_sequences_max, n_rows_max, n_threads) in [(4, 5, 1), (7, 64, 2), (64, 2048, 2), (64, 33, 3)] {
                let limits = BatchLimits { n_pages: 400, n_sequences_max, n_rows_max, ..BatchLimits::default() };
                let mut host = host(isa, dtype, n_threads, limits);
                let samples = sample(&mut host, 4);
                let worst = recompute(&mut host, &samples);
                assert_eq!(worst, 0.0, "{dtype:?} {isa:?} {limits:?}");
                match &first {
                    None => first = Some(samples),
                    Some(first) => assert!(*first == samples, "{dtype:?} {isa:?}: the batch changed the samples"),
                }
            }
        }
    }
}

/// A run tries it when it begins; what it samples afterwards is what it would have sampled without.
#[test]
fn the_promise_is_tried_and_nothing_is_left_of_it() {
    let limits = BatchLimits { n_pages: 40, ..BatchLimits::default() };
    let mut fresh = host(Isa::best(), Dtype::Bf16, 2, limits);
    let mut tried = host(Isa::best(), Dtype::Bf16, 2, limits);
    let version = tried.load(&adapter(1));
    for adapter in [None, Some(version)] {
        let found = tried.try_promise(adapter).expect("room");
        assert_eq!((found.n_tokens, found.mismatch), (128, 0.0));
    }
    assert!(tried.drop_adapter(version) && tried.is_idle());
    assert_eq!(sample(&mut tried, 2), sample(&mut fresh, 2));
}

#[test]
fn a_sample_is_the_same_alone_and_in_a_group() {
    let limits = BatchLimits::default();
    let mut grouped = host(Isa::best(), Dtype::Bf16, 2, limits);
    let together = grouped.sample(vec![Request { n_samples: 5, seed: 3, ..Request::new(prompt(4), 30) }]);
    let together = together.expect("a good request");
    for i in 0..5 {
        let mut lone = host(Isa::best(), Dtype::Bf16, 1, limits);
        let alone = lone.sample(vec![Request { seed: 3, sequence: i, ..Request::new(prompt(4), 30) }]);
        assert_eq!(alone.expect("a good request")[0][0], together[0][i as usize]);
    }
}

#[test]
fn a_second_turn_continues_known_pages_with_the_same_bits() {
    let mut host = host(Isa::best(), Dtype::Bf16, 2, BatchLimits::default());
    let first = host.sample(vec![Request::new(prompt(7), 40)]).expect("a good request").remove(0).remove(0);
    let mut ids = prompt(7);
    ids.extend(first.tokens.iter().map(|token| token.id));
    ids.extend(prompt(8));
    let request = |ids: &[u32]| Request { seed: 4, ..Request::new(ids.to_vec(), 20) };
    let warm = host.sample(vec![request(&ids)]).expect("a good request");
    let mut cold = self::host(Isa::best(), Dtype::Bf16, 1, BatchLimits::default());
    assert_eq!(cold.sample(vec![request(&ids)]).expect("a good request"), warm);
}

fn train(n_threads: usize, recompute: Recompute, dtype: Dtype) -> (String, Vec<f64>) {
    let mut host = host(Isa::best(), dtype, n_threads, BatchLimits::default());
    let config = weights().config;
    let fresh = LoraWeights::fresh(&config, &LoraSpec::all(4, 8.0), 1);
    let mut trainer = Trainer::lora(host.backend(), &config, &fresh, AdamOptions::default(), recompute);
    let mut norms = Vec::new();
    for step in 0..3 {
        let requests = (0..3).map(|i| Request { n_samples: 3, seed: step, sequence: i * 10, ..Request::new(prompt(i), 15) });
        let samples = host.sample(requests.collect()).expect("good requests");
        let groups: Vec<Group> = samples
            .iter()
            .enumerate()
            .map(|(i, samples)| Group {
                prompt: prompt(i as u64),
                completions: samples.iter().map(|s| s.tokens.iter().map(|t| t.id).collect()).collect(),
            })
            .collect();
        let packed = Packed::new(&groups);
        let targets = hone_engine::tape::plain_targets(&packed, 1.0);
        host.accumulate(&mut trainer, &packed, targets, |scored| {
            let sign = |i: usize| if i.is_multiple_of(2) { 0.01 } else { -0.02 };
            (0..scored.len()).map(|i| ScoredGrad { logprob: sign(i), entropy: -0.001 }).collect()
        });
        norms.push(host.step(&mut trainer, 1e-2).grad_norm);
    }
    let weights = trainer.lora_weights(host.backend()).expect("a LoRA run");
    (peft::hash(&config, &weights), norms)
}

#[test]
fn the_adapter_hash_does_not_depend_on_threads_or_recomputation() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let one = train(1, Recompute::Never, dtype);
        assert!(one.1.iter().all(|norm| *norm > 0.0));
        assert_eq!(one, train(2, Recompute::Never, dtype));
        assert_eq!(one, train(3, Recompute::Blocks, dtype));
    }
}

#[test]
fn paths_are_named_for_the_record() {
    let path = Cpu::new(Dtype::Bf16, 1).path();
    assert!(path.starts_with("cpu-") && path.ends_with("-bf16"), "{path}");
}
