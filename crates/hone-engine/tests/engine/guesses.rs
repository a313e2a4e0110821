//! Guesses change how soon tokens come, and nothing else: every token, log-probability and ending is the same without them.

use crate::rule::Rule;
use hone_engine::backend::{Backend, Dtype};
use hone_engine::batch::{BatchLimits, Finish, Request, SubmitError, Token};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::constraint::{Constraint, Verdict};
use hone_engine::cpu::{Cpu, Isa};
use hone_engine::host::Host;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::random::Stream;
use hone_engine::sampler::SamplerOptions;

const N_TOKENS: usize = 60;

fn weights() -> RandomWeights {
    let spec: TinySpec = "d32,l2,h4,kv2,ff48,v70,ctx256".parse().expect("a good spec");
    RandomWeights { config: ModelConfig::try_from(spec).expect("good sizes"), seed: 2 }
}

fn host(isa: Isa, dtype: Dtype) -> Host<Cpu> {
    let backend = Cpu::with_isa(dtype, 2, isa);
    let model = Model::load(&backend, &weights(), 256, Passes::Forward).expect("random weights");
    Host::new(backend, model, BatchLimits::default())
}

/// What became of each request's samples, and in how many steps.
type Told = (Vec<(Vec<Token>, Option<Finish>)>, usize);

fn sample<B: Backend>(host: &mut Host<B>, requests: Vec<Request<B>>, guesses: bool) -> Told {
    let mut told: Vec<(Vec<Token>, Option<Finish>)> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for request in requests {
        let request = Request { guesses, ..request };
        let n_samples = request.n_samples;
        places.insert(host.submit(request).expect("a sound request"), told.len());
        told.extend((0..n_samples).map(|_| (Vec::new(), None)));
    }
    let mut n_steps = 0;
    while !host.is_idle() {
        for event in host.sample_step() {
            let place = &mut told[places[&event.request] + event.sample];
            place.0.extend(event.tokens);
            place.1 = event.finish;
        }
        n_steps += 1;
    }
    (told, n_steps)
}

/// A prompt that says the same thing again and again.
fn prompt(seed: u64) -> Vec<u32> {
    let stream = Stream::new(3, seed);
    (0..40).map(|i| (stream.bits(i % 7) % 70) as u32).collect()
}

/// Draws the same with guesses and without; true when those were of use.
fn agrees(isa: Isa, dtype: Dtype, requests: &dyn Fn(&Host<Cpu>) -> Vec<Request<Cpu>>) -> bool {
    let with = |guesses: bool| {
        let mut host = host(isa, dtype);
        let asked = requests(&host);
        sample(&mut host, asked, guesses)
    };
    let ((guessed, n_with), (plain, n_without)) = (with(true), with(false));
    assert_eq!(guessed, plain, "{isa:?} {dtype:?}");
    n_with < n_without
}

fn greedy() -> SamplerOptions {
    SamplerOptions { temperature: 0.0, ..SamplerOptions::default() }
}

#[test]
fn tokens_are_the_same_and_come_sooner() {
    for isa in Isa::available() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            // Taking the likeliest token, a model that knows nothing comes back to what it said.
            let one = |_: &Host<Cpu>| vec![Request { sampler: greedy(), ..Request::new(prompt(1), N_TOKENS) }];
            assert!(agrees(isa, dtype, &one), "{isa:?} {dtype:?}: guesses were of no use");
            agrees(isa, dtype, &|_| vec![Request::new(prompt(1), N_TOKENS)]);
        }
    }
}

#[test]
fn whatever_is_asked_for() {
    let likely = SamplerOptions { temperature: 0.4, top_k: 5, top_p: 0.9, min_p: 0.01 };
    let request = |seed: u64, sampler: SamplerOptions| Request { sampler, seed, ..Request::new(prompt(seed), N_TOKENS) };
    let stops = |_: &Host<Cpu>| {
        let all = (1..5).map(|seed| Request { stop_ids: vec![3, 20, 41], ..request(seed, greedy()) });
        all.collect::<Vec<_>>()
    };
    let told = |_: &Host<Cpu>| {
        let told = Request { keep_support: true, n_likeliest: 3, ..request(1, likely) };
        vec![told, Request { n_samples: 3, ..request(2, likely) }]
    };
    for requests in [&stops as &dyn Fn(&Host<Cpu>) -> _, &told] {
        agrees(Isa::best(), Dtype::Bf16, requests);
    }
}

#[test]
fn every_length_ends_where_it_should() {
    for n_tokens in 1..20 {
        agrees(Isa::best(), Dtype::Bf16, &|_| vec![Request { sampler: greedy(), ..Request::new(prompt(1), n_tokens) }]);
    }
}

#[test]
fn adapters_keep_to_their_own_rows() {
    let with = |guesses: bool| {
        let mut host = host(Isa::best(), Dtype::Bf16);
        let mut adapter = LoraWeights::fresh(&weights().config, &LoraSpec::all(4, 8.0), 1);
        adapter.matrices.values_mut().flatten().enumerate().for_each(|(i, x)| *x += 0.1 * Stream::new(4, 4).normal(i as u64));
        let version = host.load(&adapter);
        let request = |seed: u64, adapter| Request { sampler: greedy(), adapter, ..Request::new(prompt(seed), N_TOKENS) };
        let requests = vec![request(1, host.pin(version)), request(2, None), request(3, host.pin(version))];
        sample(&mut host, requests, guesses).0
    };
    assert_eq!(with(true), with(false));
}

#[test]
fn rules_see_every_token_and_none_that_was_only_guessed() {
    let asked = |_: &Host<Cpu>| {
        let rule = Rule::boxed(Some(0), 9);
        vec![Request { sampler: greedy(), constraints: vec![rule], keep_support: true, ..Request::new(prompt(1), N_TOKENS) }]
    };
    assert!(agrees(Isa::best(), Dtype::Bf16, &asked), "guesses were of no use");
}

/// Ends an answer, wherever it is in a guess.
struct Ends(usize);

impl Constraint for Ends {
    fn mask(&mut self, _: &mut [u64]) -> bool {
        false
    }

    fn accept(&mut self, _: u32) -> Verdict {
        self.0 -= 1;
        if self.0 == 0 { Verdict::Stop } else { Verdict::Go }
    }

    fn only_stops(&self) -> bool {
        true
    }
}

#[test]
fn a_rule_that_only_stops_does_so_in_time() {
    for n in 1..30 {
        agrees(Isa::best(), Dtype::Bf16, &|_| {
            let rule = Box::new(Ends(n)) as Box<dyn Constraint>;
            vec![Request { sampler: greedy(), constraints: vec![rule], ..Request::new(prompt(1), N_TOKENS) }]
        });
    }
}

/// What was only guessed is not remembered as said: a next turn that begins with the answer finds the right pages.
#[test]
fn a_next_turn_finds_what_was_said() {
    let turn = |host: &mut Host<Cpu>, prompt: Vec<u32>, guesses: bool| {
        let request = Request { sampler: greedy(), ..Request::new(prompt.clone(), N_TOKENS) };
        let (told, _) = sample(host, vec![request], guesses);
        let said = told[0].0.iter().map(|token| token.id);
        (prompt.into_iter().chain(said).chain([5, 6]).collect::<Vec<u32>>(), told)
    };
    let (mut warm, mut cold) = (host(Isa::best(), Dtype::Bf16), host(Isa::best(), Dtype::Bf16));
    let (next, _) = turn(&mut warm, prompt(1), true);
    assert_eq!(turn(&mut warm, next.clone(), true), turn(&mut cold, next, false));
}

#[test]
fn what_is_expected_comes_sooner_and_changes_nothing() {
    let ask = |prediction: Vec<u32>| {
        let request = Request { prediction, seed: 5, ..Request::new((0..20).collect(), N_TOKENS) };
        sample(&mut host(Isa::best(), Dtype::Bf16), vec![request], true)
    };
    let (told, n_steps) = ask(Vec::new());
    let said: Vec<u32> = told[0].0.iter().map(|token| token.id).collect();
    let (with_said, n_steps_said) = ask(said.clone());
    assert_eq!(with_said, told);
    // One step for the prompt; then each has room for as many tokens as the processor takes at once.
    let n_at_once = Cpu::with_isa(Dtype::Bf16, 2, Isa::best()).n_rows_light();
    assert!(n_at_once > 1 && n_steps_said <= 2 + N_TOKENS.div_ceil(n_at_once), "{n_steps_said} of {n_steps} steps");
    let edited: Vec<u32> = said.iter().enumerate().map(|(i, &id)| if i % 16 == 7 { (id + 1) % 70 } else { id }).collect();
    let (with_edited, n_steps_edited) = ask(edited);
    assert_eq!(with_edited, told);
    assert!((n_steps_said..n_steps).contains(&n_steps_edited), "{n_steps_edited} of {n_steps} steps");
    let (with_another, _) = ask(said.iter().rev().copied().collect());
    assert_eq!(with_another, told);
}

#[test]
fn nothing_is_expected_that_the_model_has_no_word_for() {
    let request = Request { prediction: vec![1, 70], ..Request::new(vec![1], 4) };
    let refused = host(Isa::best(), Dtype::F32).submit(request).expect_err("70 is outside");
    assert_eq!(refused, SubmitError::UnknownToken { id: 70, vocab: 70 });
}
