//! Bursts that are begun before the ones before them are used: whoever ends, leaves or comes meanwhile, every sequence gets its own
//! tokens. The machine here computes nothing; what it draws follows from a sequence's stream and position alone, and it checks that
//! it is asked for what was promised to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hone_engine::backend::{
    AdamStep, Ask, Backend, BurstRow, Drawing, Draws, Dtype, Heads, Put, Scored, ScoredGrad, Target, Turn,
};
use hone_engine::batch::{BatchLimits, Event, Finish, Request, RequestId};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::constraint::{Constraint, Verdict};
use hone_engine::forward::AdapterRows;
use hone_engine::host::Host;
use hone_engine::layout::{Layout, PAGE};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::random::Stream;
use hone_engine::sampler::Drawn;

const VOCAB: usize = 512;
const BURST: usize = 16;
/// Tokens of a burst that come last.
const LATE: usize = 2;

fn token(stream: Stream, position: usize) -> u32 {
    (stream.uniform(position as u64) * VOCAB as f32) as u32
}

#[derive(Default)]
struct Scripted {
    /// Of the burst before: whose it was, and where each ended.
    before: Mutex<Vec<(u64, usize)>>,
    n_ahead: AtomicUsize,
}

impl Scripted {
    fn begin(&self, rows: &[BurstRow<'_>], n_tokens: usize) -> Drawing {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let starts: Vec<(u64, usize)> = rows.iter().map(|row| (row.stream.bits(0), row.position)).collect();
        let n_unknown = rows.iter().filter(|row| row.id.is_none()).count();
        if n_unknown > 0 {
            assert_eq!((n_unknown, &starts), (rows.len(), &*before), "only the same sequences go on");
            self.n_ahead.fetch_add(1, Ordering::Relaxed);
        }
        let mut written = Vec::new();
        for row in rows {
            assert!(row.id.is_none_or(|id| id == token(row.stream, row.position)), "what was drawn is fed");
            written.extend_from_slice(&row.pages[row.position / PAGE..(row.position + n_tokens).div_ceil(PAGE)]);
        }
        let n_pages = written.len();
        written.sort_unstable();
        written.dedup();
        assert_eq!(written.len(), n_pages, "no page is written by two");
        *before = starts.iter().map(|&(stream, position)| (stream, position + n_tokens)).collect();
        let streams: Vec<(Stream, usize)> = rows.iter().map(|row| (row.stream, row.position)).collect();
        let part = move |steps: Range<usize>| {
            let of_step = |step: usize| streams.iter().map(move |&(stream, position)| (token(stream, position + step + 1), -1.0));
            Draws { n_sequences: streams.len(), tokens: steps.flat_map(of_step).collect() }
        };
        let n_early = n_tokens.saturating_sub(LATE);
        Box::new([0..n_early, n_early..n_tokens].into_iter().filter(|steps| !steps.is_empty()).map(part))
    }
}

/// Nothing but what the batcher asks for has an effect.
impl Backend for Scripted {
    type Buf = ();
    type Act = ();
    type Weight = ();
    type Kv = ();
    type Plan = ();

    fn draw(&self, (): &(), (): &(), asks: &[Ask]) -> Option<Vec<Option<Drawn>>> {
        let id = |ask: &Ask| (ask.u * VOCAB as f32) as u32;
        Some(asks.iter().map(|ask| Some(Drawn { id: id(ask), logprob: -1.0, support: None, likeliest: Vec::new() })).collect())
    }

    fn burst_max(&self) -> usize {
        BURST
    }

    fn burst(
        &self,
        _: &Model<Self>,
        _: &mut [()],
        _: &AdapterRows<'_, Self>,
        rows: &[BurstRow<'_>],
        n_tokens: usize,
    ) -> Option<Drawing> {
        Some(self.begin(rows, n_tokens))
    }

    fn path(&self) -> String {
        "scripted".into()
    }
    fn dtype(&self) -> Dtype {
        Dtype::Bf16
    }
    fn buf(&self, _: usize) {}
    fn zeros(&self, _: usize) {}
    fn upload(&self, _: &[f32]) {}
    fn download(&self, (): &()) -> Vec<f32> {
        vec![]
    }
    fn copy(&self, (): &()) {}
    fn clear(&self, (): &mut ()) {}
    fn add(&self, (): &(), (): &mut ()) {}
    fn weight(&self, (): &(), _: usize, _: usize, _: bool) {}
    fn prepare_backward(&self, (): &mut ()) {}
    fn act(&self, (): &(), _: usize, _: usize, _: f32) {}
    fn gather(&self, (): &(), _: usize, _: &[u32]) {}
    fn scatter_add(&self, (): &(), _: usize, _: &[u32], (): &mut ()) {}
    fn embed(&self, (): &(), _: &[u32]) {}
    fn embed_backward(&self, (): &(), _: usize, _: &[u32], (): &mut ()) {}
    fn rmsnorm(&self, (): &(), (): &(), _: f32, _: usize) {}
    fn rmsnorm_act(&self, (): &(), (): &(), _: f32, _: usize) {}
    fn rmsnorm_backward(&self, (): &(), (): &(), _: f32, (): &(), _: Put, (): &mut (), _: Option<&mut ()>) {}
    fn linear(&self, (): &(), _: Range<usize>, (): &(), _: Put, (): &mut (), _: usize) {}
    fn linear_backward(&self, (): &(), _: Range<usize>, (): &(), _: Put, (): &mut (), _: usize) {}
    fn weight_gradient(&self, (): &(), (): &(), (): &mut ()) {}
    fn bias(&self, (): &mut (), (): &()) {}
    fn bias_gradient(&self, (): &(), (): &mut ()) {}
    fn plan(&self, _: &Layout) {}
    fn rope(&self, (): &mut (), _: usize, (): &(), (): &(), _: Turn) {}
    fn kv(&self, _: Heads, _: usize) {}
    fn kv_write(&self, (): &mut (), (): &(), (): &(), (): &()) {}
    fn kv_copy(&self, (): &mut (), _: u32, _: u32) {}
    fn attention(&self, (): &(), (): &(), (): &()) -> ((), ()) {
        ((), ())
    }
    fn attention_backward(&self, (): &(), (): &(), (): &(), (): &(), (): &(), (): &()) -> ((), (), ()) {
        ((), (), ())
    }
    fn swiglu(&self, (): &(), (): &(), _: usize) {}
    fn swiglu_backward(&self, (): &(), (): &(), (): &(), _: usize) -> ((), ()) {
        ((), ())
    }
    fn head(&self, (): &(), (): &(), _: &[Target]) -> Vec<Scored> {
        vec![]
    }
    fn head_backward(&self, (): &(), (): &(), _: &[Target], _: &[Scored], _: &[ScoredGrad], (): &mut (), _: Option<&mut ()>) {}
    fn logits(&self, (): &(), (): &(), _: &(dyn Fn(usize, &mut [f32]) + Sync)) {}
    fn score(&self, _: &[f32], _: &Target) -> Scored {
        unreachable!("draws are made where the logits are")
    }
    fn pick(&self, _: &[f32], _: &Target, _: f32, _: f32) -> u32 {
        unreachable!("draws are made where the logits are")
    }
    fn sum_squares(&self, (): &()) -> f64 {
        0.0
    }
    fn adamw(&self, (): &mut (), (): &mut (), (): &mut (), (): &(), _: &AdamStep) {}
}

fn host(n_sequences_max: usize) -> Host<Scripted> {
    let spec: TinySpec = format!("d16,l1,h2,kv1,ff16,v{VOCAB},ctx256").parse().expect("a sound spec");
    let weights = RandomWeights { config: ModelConfig::try_from(spec).expect("sound sizes"), seed: 1 };
    let backend = Scripted::default();
    let model = Model::load(&backend, &weights, 256, Passes::Forward).expect("random weights");
    Host::new(backend, model, BatchLimits { n_pages: 300, n_sequences_max, n_rows_max: 64, queue_len_max: 64 })
}

/// Prompts of such lengths with so many samples, and the ids that end an answer.
const ASKED: [(usize, usize); 5] = [(5, 3), (16, 1), (33, 4), (70, 2), (100, 1)];
const N_STOPS: u32 = 2;
const N_NEW: usize = 75;

fn request(i: usize) -> Request<Scripted> {
    let (n_prompt, n_samples) = ASKED[i];
    let mut request = Request::new(vec![7; n_prompt], N_NEW + i);
    (request.n_samples, request.seed, request.sequence) = (n_samples, 3, 100 * i as u64);
    request.stop_ids = (0..N_STOPS).collect();
    request.sampler.temperature = 1.0;
    request
}

/// What a sample must be.
fn expected(i: usize, sample: usize) -> (Vec<u32>, Finish) {
    let (n_prompt, stream) = (ASKED[i].0, Stream::new(3, 100 * i as u64 + sample as u64));
    let mut ids = Vec::new();
    while ids.len() < N_NEW + i {
        ids.push(token(stream, n_prompt + ids.len()));
        if ids.last().is_some_and(|&id| id < N_STOPS) {
            return (ids, Finish::StopId);
        }
    }
    (ids, Finish::Length)
}

/// The tokens of samples as events tell them, each with its end.
#[derive(Default)]
struct Heard(BTreeMap<(RequestId, usize), (Vec<u32>, Option<Finish>)>);

impl Heard {
    fn hear(&mut self, events: Vec<Event>) {
        for event in events {
            let (ids, finish) = self.0.entry((event.request, event.sample)).or_default();
            assert!(finish.is_none(), "nothing comes behind the end");
            ids.extend(event.tokens.iter().map(|token| token.id));
            *finish = event.finish;
        }
    }

    fn check(&self, i: usize, id: RequestId) {
        for sample in 0..ASKED[i].1 {
            let (ids, finish) = &self.0[&(id, sample)];
            let (expected_ids, expected_finish) = expected(i, sample);
            assert_eq!((ids, *finish), (&expected_ids, Some(expected_finish)), "request {i}, sample {sample}");
        }
    }
}

fn n_ahead(host: &Host<Scripted>) -> usize {
    host.backend().n_ahead.load(Ordering::Relaxed)
}

#[test]
fn all_that_was_asked_for_is_drawn_ahead() {
    // All at once, and a few at a time.
    for n_sequences_max in [64, 4] {
        let mut host = host(n_sequences_max);
        let samples = host.sample((0..ASKED.len()).map(request).collect()).expect("sound requests");
        for (i, samples) in samples.iter().enumerate() {
            for (sample, found) in samples.iter().enumerate() {
                let ids: Vec<u32> = found.tokens.iter().map(|token| token.id).collect();
                assert_eq!((ids, found.finish), expected(i, sample), "request {i}, sample {sample}");
            }
        }
        assert!(n_ahead(&host) > 0, "nothing was drawn ahead of {n_sequences_max} sequences");
    }
}

/// Ends an answer as its stop ids would.
struct Ends;

impl Constraint for Ends {
    fn mask(&mut self, _: &mut [u64]) -> bool {
        false
    }

    fn accept(&mut self, id: u32) -> Verdict {
        if id < N_STOPS { Verdict::Stop } else { Verdict::Go }
    }

    fn only_stops(&self) -> bool {
        true
    }
}

#[test]
fn a_rule_that_only_stops_hears_of_tokens_after_they_are_drawn() {
    let mut host = host(64);
    let with_rule = |i: usize| {
        let constraints = (0..ASKED[i].1).map(|_| Box::new(Ends) as Box<dyn Constraint>).collect();
        Request { stop_ids: vec![], constraints, ..request(i) }
    };
    let samples = host.sample((0..ASKED.len()).map(with_rule).collect()).expect("sound requests");
    for (i, samples) in samples.iter().enumerate() {
        for (sample, found) in samples.iter().enumerate() {
            let (ids, finish) = expected(i, sample);
            let finish = if finish == Finish::StopId { Finish::Constraint } else { finish };
            let drawn: Vec<u32> = found.tokens.iter().map(|token| token.id).collect();
            assert_eq!((drawn, found.finish), (ids, finish), "request {i}, sample {sample}");
        }
    }
    assert!(n_ahead(&host) > 0, "nothing was drawn ahead");
}

/// Draws all, with one that leaves and one that comes after so many steps, where they do.
fn drawn_while(leaves: bool, comes: bool, n_steps: usize) {
    let mut host = host(64);
    let mut heard = Heard::default();
    let mut ids: Vec<RequestId> = (0..4).map(|i| host.submit(request(i)).expect("a sound request")).collect();
    let mut step = 0;
    while !host.is_idle() {
        if step == n_steps && leaves {
            host.cancel(ids[2]);
        }
        if step == n_steps && comes {
            ids.push(host.submit(request(4)).expect("a sound request"));
        }
        heard.hear(host.sample_ahead());
        step += 1;
    }
    for (i, &id) in ids.iter().enumerate().filter(|&(i, _)| i != 2 || !leaves) {
        heard.check(i, id);
    }
    assert!(n_ahead(&host) > 0, "nothing was drawn ahead");
}

#[test]
fn whoever_leaves_or_comes_harms_nobody() {
    for n_steps in 0..12 {
        drawn_while(true, false, n_steps);
        drawn_while(false, true, n_steps);
        drawn_while(true, true, n_steps);
    }
}

#[test]
fn all_who_leave_take_what_was_begun_with_them() {
    let mut host = host(64);
    let gone = host.submit(request(0)).expect("a sound request");
    for _ in 0..3 {
        host.sample_ahead();
    }
    host.cancel(gone);
    let (mut heard, id) = (Heard::default(), host.submit(request(1)).expect("a sound request"));
    while !host.is_idle() {
        heard.hear(host.sample_ahead().into_iter().filter(|event| event.request == id).collect());
    }
    heard.check(1, id);
}

#[test]
fn where_others_may_come_nothing_is_begun_ahead() {
    let mut host = host(64);
    let (mut heard, ids) = (Heard::default(), [0, 3].map(|i| host.submit(request(i)).expect("a sound request")));
    while !host.is_idle() {
        heard.hear(host.sample_step());
    }
    heard.check(0, ids[0]);
    heard.check(3, ids[1]);
    assert_eq!(n_ahead(&host), 0);
}
