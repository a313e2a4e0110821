//! The host: stops, constraints, limits, cancelling, pinned adapters, resumed runs.

use hone_engine::backend::{Backend, Dtype, ScoredGrad};
use hone_engine::batch::{BatchLimits, Finish, Request, SubmitError};
use hone_engine::checkpoint;
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::constraint::{Constraint, Verdict};
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::layout::{Group, Packed};
use hone_engine::load::WeightSource;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::peft;
use hone_engine::random::Stream;
use hone_engine::reference::Reference;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::{Recompute, plain_targets};
use hone_engine::trainer::Trainer;

fn weights() -> RandomWeights {
    let spec: TinySpec = "d32,l2,h4,kv2,ff48,v70,ctx128".parse().expect("a good spec");
    RandomWeights { config: ModelConfig::try_from(spec).expect("good sizes"), seed: 2 }
}

fn host_of<B: Backend>(backend: B, limits: BatchLimits) -> Host<B> {
    let model = Model::load(&backend, &weights(), 128, Passes::ForwardBackward).expect("random weights");
    Host::new(backend, model, limits)
}

fn host() -> Host<Cpu> {
    host_of(Cpu::new(Dtype::F32, 2), BatchLimits::default())
}

/// An adapter that changes something, unlike a fresh one.
fn adapter(seed: u64) -> LoraWeights {
    let mut adapter = LoraWeights::fresh(&weights().config, &LoraSpec::all(4, 8.0), seed);
    for (index, values) in adapter.matrices.values_mut().enumerate() {
        let stream = Stream::new(seed, 1000 + index as u64);
        values.iter_mut().enumerate().for_each(|(i, x)| *x += 0.3 * stream.normal(i as u64));
    }
    adapter
}

#[test]
fn a_stop_id_is_the_last_token() {
    let mut host = host();
    let free = host.sample(vec![Request::new(vec![1, 2, 3], 30)]).expect("a good request").remove(0).remove(0);
    assert_eq!((free.tokens.len(), free.finish), (30, Finish::Length));
    let stop = free.tokens[11].id;
    let first = free.tokens.iter().position(|token| token.id == stop).expect("it is there");
    let request = Request { stop_ids: vec![stop], ..Request::new(vec![1, 2, 3], 30) };
    let stopped = host.sample(vec![request]).expect("a good request").remove(0).remove(0);
    assert_eq!(stopped.finish, Finish::StopId);
    assert_eq!(stopped.tokens, free.tokens[..=first]);
}

/// Allows even ids only; after the third token forces two, after the fifth stops.
struct Even {
    n: usize,
}

impl Constraint for Even {
    fn mask(&mut self, allowed: &mut [u64]) -> bool {
        allowed.iter_mut().for_each(|word| *word &= 0x5555_5555_5555_5555);
        true
    }

    fn accept(&mut self, _id: u32) -> Verdict {
        self.n += 1;
        match self.n {
            3 => Verdict::Force(vec![7, 9]),
            5 => Verdict::Stop,
            _ => Verdict::Go,
        }
    }
}

#[test]
fn constraints_mask_force_and_stop_and_can_be_trained_on() {
    let mut host = host();
    let request = Request {
        n_samples: 3,
        constraints: (0..3).map(|_| Box::new(Even { n: 0 }) as Box<dyn Constraint>).collect(),
        keep_support: true,
        ..Request::new(vec![5, 6], 20)
    };
    let samples = host.sample(vec![request]).expect("a good request").remove(0);
    for sample in &samples {
        assert_eq!(sample.finish, Finish::Constraint);
        let forced: Vec<bool> = sample.tokens.iter().map(|token| token.forced).collect();
        assert_eq!(forced, [false, false, false, true, true, false, false]);
        assert!(sample.tokens.iter().filter(|token| !token.forced).all(|token| token.id % 2 == 0));
        assert_eq!((sample.tokens[3].id, sample.tokens[4].id), (7, 9));
    }
    // The log-probs are those of the masked support, and the training path finds the same bits.
    let completions = samples.iter().map(|s| s.tokens.iter().map(|token| token.id).collect()).collect();
    let packed = Packed::new(&[Group { prompt: vec![5, 6], completions }]);
    let mut targets = plain_targets(&packed, 1.0);
    let tokens: Vec<_> = samples.iter().flat_map(|sample| &sample.tokens).collect();
    targets.iter_mut().zip(&tokens).for_each(|(target, token)| target.support = token.support.clone());
    for (scored, token) in host.score(None, &packed, &targets).iter().zip(&tokens) {
        assert!(token.forced || scored.logprob == token.logprob);
    }
}

#[test]
fn requests_that_cannot_be_met_are_refused() {
    let limits = BatchLimits { n_pages: 6, n_sequences_max: 4, n_rows_max: 8, queue_len_max: 1 };
    let mut host = host_of(Cpu::new(Dtype::F32, 1), limits);
    let mut submit = |request: Request<Cpu>| host.submit(request).map(|_| ());
    assert_eq!(submit(Request::new(vec![], 4)), Err(SubmitError::EmptyPrompt));
    assert_eq!(submit(Request::new(vec![70], 4)), Err(SubmitError::UnknownToken { id: 70, vocab: 70 }));
    assert!(matches!(submit(Request::new(vec![1], 128)), Err(SubmitError::TooLong { .. })));
    assert!(matches!(submit(Request::new(vec![1; 100], 8)), Err(SubmitError::TooLong { .. })));
    let none = Request { n_samples: 0, ..Request::new(vec![1], 4) };
    assert!(matches!(submit(none), Err(SubmitError::Samples { .. })));
    let hot = SamplerOptions { temperature: -1.0, ..SamplerOptions::default() };
    assert!(matches!(submit(Request { sampler: hot, ..Request::new(vec![1], 4) }), Err(SubmitError::Sampler(_))));
    assert!(submit(Request::new(vec![1], 4)).is_ok());
    assert_eq!(submit(Request::new(vec![1], 4)), Err(SubmitError::QueueFull(1)));
}

#[test]
fn samples_for_which_there_are_too_few_pages_or_sequences_at_once_come_one_after_another() {
    // Each needs three of the seven pages, so that five samples run as two, two and one.
    let limits = BatchLimits { n_pages: 7, n_sequences_max: 8, n_rows_max: 16, queue_len_max: 100 };
    let request = |n_rules: usize| Request {
        n_samples: 5,
        seed: 3,
        sequence: 9,
        constraints: (0..n_rules).map(|idx| Box::new(Even { n: idx }) as Box<dyn Constraint>).collect(),
        ..Request::new(vec![5, 6, 7], 40)
    };
    for n_rules in [0, 5] {
        let mut short = host_of(Cpu::new(Dtype::F32, 1), limits);
        let samples = short.sample(vec![request(n_rules), request(n_rules)]).expect("good requests");
        assert_eq!(host().sample(vec![request(n_rules), request(n_rules)]).expect("good requests"), samples);
        assert!(samples[0].iter().all(|sample| sample.finish != Finish::Cancelled) && samples[0][0] != samples[0][4]);
    }
    // Or as three and two, where there are three sequences and pages enough.
    let few = BatchLimits { n_pages: 64, n_sequences_max: 3, ..limits };
    let samples = host_of(Cpu::new(Dtype::F32, 1), few).sample(vec![request(0)]).expect("a good request");
    assert_eq!(host().sample(vec![request(0)]).expect("a good request"), samples);
    // Withdrawn, all five end: those that run and those that wait.
    let mut short = host_of(Cpu::new(Dtype::F32, 1), limits);
    let id = short.submit(request(0)).expect("a good request");
    short.sample_step();
    short.cancel(id);
    let mut ended: Vec<usize> =
        short.sample_step().iter().filter(|event| event.finish.is_some()).map(|event| event.sample).collect();
    ended.sort_unstable();
    assert_eq!((ended, short.is_idle()), (vec![0, 1, 2, 3, 4], true));
}

#[test]
fn pages_run_out_and_come_back() {
    // Room for two of these at a time; thirty must all finish, also after the cache is full of old prefixes.
    let limits = BatchLimits { n_pages: 6, n_sequences_max: 4, n_rows_max: 16, queue_len_max: 100 };
    let mut host = host_of(Cpu::new(Dtype::F32, 2), limits);
    let request = |i: u32| Request { sequence: u64::from(i), ..Request::new(vec![i, i + 1, i + 2], 40) };
    let samples = host.sample((0..30).map(request).collect()).expect("good requests");
    assert!(samples.iter().all(|samples| samples[0].tokens.len() == 40));
    let mut roomy = self::host();
    assert_eq!(roomy.sample((0..30).map(request).collect()).expect("good requests"), samples);
}

#[test]
fn a_cancelled_request_ends_and_frees_its_pages() {
    let limits = BatchLimits { n_pages: 8, n_sequences_max: 4, n_rows_max: 64, queue_len_max: 10 };
    let mut host = host_of(Cpu::new(Dtype::F32, 1), limits);
    let running = host.submit(Request { n_samples: 2, ..Request::new(vec![1; 20], 30) }).expect("fits");
    let waiting = host.submit(Request::new(vec![2; 20], 60)).expect("fits");
    host.sample_step();
    host.cancel(running);
    let events = host.sample_step();
    let cancelled = events.iter().filter(|event| event.finish == Some(Finish::Cancelled)).count();
    assert_eq!(cancelled, 2);
    host.cancel(waiting);
    host.sample_step();
    assert!(host.is_idle());
    assert_eq!(host.sample(vec![Request::new(vec![3; 60], 60)]).expect("all pages are free")[0][0].tokens.len(), 60);
}

#[test]
fn a_sequence_keeps_the_version_it_was_pinned_to() {
    let mut host = host();
    let (one, two) = (host.load(&adapter(1)), host.load(&adapter(2)));
    let request = |host: &Host<Cpu>, version| Request { adapter: host.pin(version), ..Request::new(vec![1, 2, 3], 25) };
    let alone = host.sample(vec![request(&host, one)]).expect("a good request");
    let both = [request(&host, one), request(&host, two), Request::new(vec![1, 2, 3], 25)];
    assert!(host.drop_adapter(one));
    assert!(host.pin(one).is_none());
    let mixed = host.sample(both.into()).expect("good requests");
    assert_eq!(mixed[0], alone[0]);
    assert_ne!(mixed[1], mixed[0]);
    assert_ne!(mixed[2], mixed[0]);
}

fn toy_step(host: &mut Host<Cpu>, trainer: &mut Trainer<Cpu>, step: u64) {
    let stream = Stream::new(8, step);
    let ids = |from: u64, n: u64| (from..from + n).map(|i| (stream.bits(i) % 70) as u32).collect::<Vec<_>>();
    let groups = [Group { prompt: ids(0, 10), completions: vec![ids(10, 6), ids(20, 9)] }];
    for groups in [&groups[..], &groups[..]] {
        let packed = Packed::new(groups);
        let targets = plain_targets(&packed, 1.0);
        host.accumulate(trainer, &packed, targets, |scored| vec![ScoredGrad { logprob: -0.1, entropy: 0.0 }; scored.len()]);
    }
    assert!(host.step(trainer, 1e-2).applied);
}

#[test]
fn a_resumed_run_ends_in_the_same_bits() {
    for full in [false, true] {
        let start = || {
            let host = host();
            let (options, config) = (AdamOptions { weight_decay: 0.1, ..AdamOptions::default() }, weights().config);
            let trainer = if full {
                Trainer::full(host.backend(), &weights(), options, Recompute::Never).expect("random weights")
            } else {
                Trainer::lora(host.backend(), &config, &adapter(1), options, Recompute::Blocks)
            };
            (host, trainer)
        };
        let (mut host, mut trainer) = start();
        (0..6).for_each(|step| toy_step(&mut host, &mut trainer, step));
        let whole = trainer.state(host.backend());

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.safetensors");
        let (mut host, mut trainer) = start();
        (0..3).for_each(|step| toy_step(&mut host, &mut trainer, step));
        checkpoint::save(&path, &trainer.state(host.backend())).expect("a writable folder");
        let (mut host, mut trainer) = start();
        host.restore(&mut trainer, &checkpoint::load(&path).expect("our own file")).expect("it fits");
        assert_eq!(trainer.n_steps(), 3);
        (3..6).for_each(|step| toy_step(&mut host, &mut trainer, step));
        let resumed = trainer.state(host.backend());
        assert_eq!(resumed.step, whole.step);
        assert!(resumed == whole, "full = {full}");
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let mut host = host();
    let config = weights().config;
    let lora = |rank| {
        let fresh = LoraWeights::fresh(&config, &LoraSpec::all(rank, 8.0), 1);
        Trainer::lora(host.backend(), &config, &fresh, AdamOptions::default(), Recompute::Never)
    };
    let (small, mut large) = (lora(2), lora(4));
    let state = small.state(host.backend());
    let error = host.restore(&mut large, &state).expect_err("refused").to_string();
    assert!(error.contains("does not fit"), "{error}");
}

#[test]
fn full_training_learns_and_leaves_no_stale_prefix() {
    let mut host = host();
    let mut trainer = Trainer::full(host.backend(), &weights(), AdamOptions::default(), Recompute::Never).expect("weights");
    let text: Vec<u32> = (0..60).map(|i| [3, 1, 4, 1, 5, 9, 2, 6][i % 8]).collect();
    let packed = Packed::new(&[Group { prompt: vec![], completions: vec![text.clone()] }]);
    let request = || Request {
        sampler: SamplerOptions { temperature: 0.0, ..SamplerOptions::default() },
        ..Request::new(text[..40].to_vec(), 16)
    };
    let before = host.sample(vec![request()]).expect("a good request");
    for _ in 0..60 {
        let targets = plain_targets(&packed, 1.0);
        let n = targets.len() as f32;
        host.accumulate(&mut trainer, &packed, targets, |scored| {
            vec![ScoredGrad { logprob: -1.0 / n, entropy: 0.0 }; scored.len()]
        });
        host.step(&mut trainer, 1e-2);
    }
    let after = host.sample(vec![request()]).expect("a good request");
    assert_ne!(before, after);
    let learned: Vec<u32> = after[0][0].tokens.iter().map(|token| token.id).collect();
    assert_eq!(learned, text[40..56]);
}

#[test]
fn a_gradient_that_is_not_finite_changes_nothing() {
    let mut host = host();
    let config = weights().config;
    let mut trainer = Trainer::lora(host.backend(), &config, &adapter(1), AdamOptions::default(), Recompute::Never);
    let before = trainer.state(host.backend());
    let packed = Packed::new(&[Group { prompt: vec![1, 2], completions: vec![vec![3, 4]] }]);
    host.accumulate(&mut trainer, &packed, plain_targets(&packed, 1.0), |scored| {
        vec![ScoredGrad { logprob: f32::NAN, entropy: 0.0 }; scored.len()]
    });
    assert!(!host.step(&mut trainer, 1e-2).applied);
    assert!(trainer.state(host.backend()) == before);
}

#[test]
fn the_reference_backend_runs_the_same_host() {
    let request = || vec![Request::new(vec![1, 2, 3], 12)];
    let mut fast = host();
    let mut plain = host_of(Reference::<f32>::new(Dtype::F32), BatchLimits { n_pages: 32, ..BatchLimits::default() });
    let (a, b) = (fast.sample(request()).expect("good"), plain.sample(vec![Request::new(vec![1, 2, 3], 12)]).expect("good"));
    for (a, b) in a[0][0].tokens.iter().zip(&b[0][0].tokens) {
        assert_eq!(a.id, b.id);
        assert!((a.logprob - b.logprob).abs() < 1e-5);
    }
}

#[test]
fn an_adapter_that_has_become_no_number_is_refused_by_name() {
    let (folder, config) = (tempfile::tempdir().expect("a folder"), weights().config().clone());
    let mut damaged = adapter(1);
    damaged.matrices.values_mut().next().expect("a matrix")[5] = f32::NAN;
    peft::save(folder.path(), &config, &damaged, "a model").expect("room");
    let error = peft::load(folder.path(), &config).expect_err("it is damaged").to_string();
    assert!(error.contains(".lora_A.weight` has NaN at place 5"), "{error}");
    peft::save(folder.path(), &config, &adapter(1), "a model").expect("room");
    assert!(peft::load(folder.path(), &config).is_ok());
}

#[test]
fn an_adapter_hash_is_a_content_address() {
    let config = weights().config().clone();
    let (a, b) = (adapter(1), adapter(1));
    assert_eq!(peft::hash(&config, &a), peft::hash(&config, &b));
    let mut c = adapter(1);
    c.matrices.values_mut().next().expect("a matrix")[0] += 1e-6;
    assert_ne!(peft::hash(&config, &a), peft::hash(&config, &c));
    assert_ne!(peft::hash(&config, &a), peft::hash(&config, &adapter(2)));
}
