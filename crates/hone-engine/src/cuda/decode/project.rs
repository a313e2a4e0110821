//! The projections of a step: several of one input side by side, with the norm before them, what the adapter adds, and what follows.
//!
//! Each can be computed by the library's products and kernels around them, or by our own in one launch. Which is faster depends on
//! the GPU and the batch, so all are timed when a kind of projection is met first; those that give other bits are left out.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::OnGpu;
use super::step::Step;
use crate::backend::Put;
use crate::cuda::device::{Device, Grid, args, locked};
use crate::cuda::few::{self, Few, Stretch, Then};
use crate::cuda::memory::Memory;
use crate::cuda::product::{Kind, Shape};
use crate::cuda::wide;
use crate::cuda::{Summed, Weight};
use crate::lora::Pair;
use crate::param::Proj;

/// Runs of which the mean is taken, each of another layer where there are as many.
const TIMED: usize = 8;

/// Ways of a kind that are kept.
const KEPT: usize = 20;

/// Projections of a layer.
pub(super) const N_PROJECTIONS: usize = 4;

/// Weights that are multiplied with one input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Projection {
    Qkv,
    O,
    GateUp,
    Down,
}

impl Projection {
    const ALL: [Self; N_PROJECTIONS] = [Self::Qkv, Self::O, Self::GateUp, Self::Down];

    fn projs(self) -> &'static [Proj] {
        match self {
            Self::Qkv => &[Proj::Q, Proj::K, Proj::V],
            Self::O => &[Proj::O],
            Self::GateUp => &[Proj::Gate, Proj::Up],
            Self::Down => &[Proj::Down],
        }
    }

    /// What becomes of its sums, and whether its input is a norm of the stream.
    fn kind(self) -> (Then, bool) {
        match self {
            Self::Qkv => (Then::Set, true),
            Self::GateUp => (Then::Gate, true),
            Self::O | Self::Down => (Then::Add, false),
        }
    }
}

/// What a projection is of: rows that are rounded already, or the norm of the stream by a gain.
pub(super) enum Input<'a, B: OnGpu> {
    Act(u64),
    Norm(&'a B::Buf),
}

impl<B: OnGpu> Clone for Input<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: OnGpu> Copy for Input<'_, B> {}

/// Where results go, elements from row to row, and how.
#[derive(Clone, Copy)]
pub(super) struct Out {
    pub(super) address: u64,
    pub(super) stride: usize,
    pub(super) then: Then,
}

/// A kind of projection, for which ways were timed: outputs, inputs, rows, what follows, whether it begins with a norm. And which of
/// its weights an adapter has a part for, with the rank of these parts: a way without the adapter's part would leave it out. And how its
/// inputs are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cuda) struct Asked {
    n: usize,
    k: usize,
    summed: Summed,
    rows: usize,
    rank: usize,
    adapted: [bool; 3],
    then: Then,
    normed: bool,
}

/// One of our ways to compute a projection.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) enum Way {
    Few(few::Way),
    Wide(wide::Way),
}

/// The ways of a kind that agree, each with its milliseconds, the fastest first; nothing stands for the library.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Timed(Vec<(f32, Option<Way>)>);

impl Timed {
    /// The fastest ones, and those that may win back what they lose alone by what runs beside them.
    fn new(mut timed: Vec<(f32, Option<Way>)>) -> Self {
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let longest_ms = timed.first().map_or(0.0, |(ms, _)| 1.25 * ms + 0.002);
        timed.retain(|(ms, _)| *ms <= longest_ms);
        timed.truncate(KEPT);
        Self(timed)
    }

    /// What was timed at an earlier start, where all of it is still among our ways and still agrees.
    fn read(text: &str, ours: &[Way], agrees: impl Fn(Way) -> bool) -> Option<Self> {
        let one = |line: &str| {
            let (ms, wanted) = line.split_once(' ')?;
            let way = ours.iter().copied().map(Some).chain([None]).find(|&way| name(way) == wanted)?;
            way.is_none_or(&agrees).then_some((ms.parse().ok()?, way))
        };
        text.lines().map(one).collect::<Option<Vec<_>>>().map(Self)
    }

    fn written(&self) -> String {
        self.0.iter().map(|&(ms, way)| format!("{ms} {}", name(way))).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Few(way) => way.fmt(f),
            Self::Wide(way) => way.fmt(f),
        }
    }
}

fn name(way: Option<Way>) -> String {
    way.map_or_else(|| "library".to_owned(), |way| way.to_string())
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&(ms, way)| write!(f, "{:.2} {}; ", ms * 1e3, name(way)))
    }
}

/// What was timed for each kind that was met.
pub(in crate::cuda) type Choices = Mutex<HashMap<Asked, Timed>>;

/// Our own launches of a projection: a low-rank part where it does not fit into the other, then the whole.
struct Ours {
    low: Option<Few>,
    whole: Few,
}

impl<B: OnGpu> Step<'_, B> {
    /// Computes projections of one input.
    pub(super) fn project(&self, layer: usize, of: Projection, input: Input<'_, B>, out: Out) {
        let projs = of.projs();
        match self.way(layer, of, input, out) {
            Some(way) => self.by_ours(layer, projs, input, out, way),
            None => self.by_library(layer, projs, input, out),
        }
    }

    /// How many ways each projection of the first layer has, once all were met.
    pub(super) fn n_ways(&self) -> [usize; N_PROJECTIONS] {
        let choices = locked(&self.cuda.choices);
        Projection::ALL.map(|of| choices.get(&self.asked(0, of)).map_or(0, |timed| timed.0.len()))
    }

    /// What a plan of this step decides on, once all were met: a step of the same words at another start is the same.
    pub(super) fn question(&self) -> String {
        let (config, room, choices) = (&self.model.config, self.room, locked(&self.cuda.choices));
        let names = |timed: &Timed| timed.0.iter().map(|&(_, way)| name(way)).collect::<Vec<_>>();
        let ways = Projection::ALL.map(|of| self.asked(0, of)).map(|asked| (asked, choices.get(&asked).map(names)));
        let ([layers, heads, kv_heads], [width, vocab]) =
            ([config.n_layers, config.n_heads, config.n_kv_heads], [config.head_dim, config.vocab]);
        let (several, gives, cuts) = (room.several, room.gives, room.left.is_some());
        format!("step {layers} {heads} {kv_heads} {width} {vocab} {} {several} {cuts} {gives:?} {ways:?}", room.n_rows)
    }

    fn asked(&self, layer: usize, of: Projection) -> Asked {
        let projs = of.projs();
        let weights = self.weights(layer, projs);
        let (n, k, summed) = (weights.iter().map(|weight| weight.rows).sum(), weights[0].cols, weights[0].summed);
        let adapted = self.covered(layer, projs);
        let rank = self.adapter.filter(|_| adapted.contains(&true)).map_or(0, |adapter| adapter.spec.rank);
        let (then, normed) = of.kind();
        Asked { n, k, summed, rows: self.room.n_rows, rank, adapted, then, normed }
    }

    /// Which of these weights the adapter has a part for.
    fn covered(&self, layer: usize, projs: &[Proj]) -> [bool; 3] {
        [0, 1, 2]
            .map(|i| projs.get(i).is_some_and(|&proj| self.adapter.is_some_and(|adapter| adapter.pair(layer, proj).is_some())))
    }

    /// The way that is planned, or nothing where that is the library's.
    fn way(&self, layer: usize, of: Projection, input: Input<'_, B>, out: Out) -> Option<Way> {
        let (asked, planned) = (self.asked(layer, of), self.plan.ways[of as usize]);
        let at = |timed: &Timed| timed.0.get(planned).and_then(|&(_, way)| way);
        let known = locked(&self.cuda.choices).get(&asked).map(at);
        known.unwrap_or_else(|| {
            let timed = self.timed(layer, asked, of.projs(), input, out);
            let way = at(&timed);
            locked(&self.cuda.choices).insert(asked, timed);
            way
        })
    }

    /// Times all of it, with the weights of one layer after the other that are of its kind, or finds it as it was timed before.
    fn timed(&self, layer: usize, asked: Asked, projs: &[Proj], input: Input<'_, B>, out: Out) -> Timed {
        let (device, kept, question) = (&self.cuda.device, &self.cuda.products.kept, format!("projection {asked:?}"));
        let Some(Ours { whole, .. }) = self.ours(layer, projs, input, out) else {
            return Timed::new(vec![]);
        };
        // The library also finds its algorithms now, which cannot be done while recording.
        let agreed = Agreed::new(device, out, self.room.n_rows, || self.by_library(layer, projs, input, out));
        let agrees = |way: Way| agreed.with(device, || self.by_ours(layer, projs, input, out, way));
        let few = whole.ways(device).into_iter().map(Way::Few);
        let ours: Vec<Way> = few.chain(wide::ways(&whole, device, out.then).into_iter().map(Way::Wide)).collect();
        let before = kept.get(&question).and_then(|found| Timed::read(&found, &ours, agrees));
        let timed = before.unwrap_or_else(|| {
            let is_alike = |other: &usize| self.covered(*other, projs) == asked.adapted;
            let alike: Vec<usize> = (0..self.model.blocks.len()).filter(is_alike).collect();
            let nth = |i: usize| alike[i % alike.len()];
            let mut timed = vec![(device.mean_ms(TIMED, |i| self.by_library(nth(i), projs, input, out)), None)];
            for way in ours.into_iter().filter(|&way| agrees(way)) {
                timed.push((device.mean_ms(TIMED, |i| self.by_ours(nth(i), projs, input, out, way)), Some(way)));
            }
            let timed = Timed::new(timed);
            kept.put(&question, &timed.written());
            timed
        });
        agreed.put_back(device);
        timed
    }

    fn by_ours(&self, layer: usize, projs: &[Proj], input: Input<'_, B>, out: Out, way: Way) {
        let device = &self.cuda.device;
        let Some(Ours { low, whole }) = self.ours(layer, projs, input, out) else {
            return self.by_library(layer, projs, input, out);
        };
        let normed = whole.stream != 0 && !matches!(way, Way::Wide(way) if !way.normed);
        if !normed {
            self.rounded(input);
        }
        if let Some((low, way)) = low.and_then(|low| Some((low, *low.ways(device).first()?))) {
            low.run(device, way, Then::Round);
        }
        match way {
            Way::Few(way) => whole.run(device, way, out.then),
            Way::Wide(way) => way.run(&whole, device, out.then),
        }
    }

    /// Our launches, or nothing when they do not take this: weights that lie apart or have no whole eights of outputs, parts that are
    /// not added, a rank that is no multiple of sixteen, an adapter of some of the projections.
    fn ours(&self, layer: usize, projs: &[Proj], input: Input<'_, B>, out: Out) -> Option<Ours> {
        let Self { cuda, room, .. } = *self;
        let weights = self.weights(layer, projs);
        let (first, n) = (weights[0], weights.iter().map(|weight| weight.rows).sum::<usize>());
        let [part, run] = few::stages_of(first.summed, first.cols, out.then)?;
        let of_run = Shape { k: first.summed.run, ..self.shape(first, n, n) };
        let even = weights.iter().all(|weight| weight.rows.is_multiple_of(8)) && few::fits(n, out.then);
        if !are_adjoined(&weights) || !even || !cuda.products.few_agree(&of_run, first.address()) {
            return None;
        }
        let few = Few { w: first.address(), rows: room.n_rows as i32, n: n as i32, k: first.cols as i32, ..Few::default() };
        let few =
            Few { x_stride: first.stride as i32, w_stride: first.stride as i32, y_stride: out.stride as i32, part, run, ..few };
        let few = match input {
            Input::Norm(gain) => {
                let stream = if few::norms(first.cols) { room.x.address() } else { 0 };
                let (gain, eps) = (B::gpu_buf(gain).address(), self.model.config.norm_eps);
                Few { x: room.act.address(), stream, gain, eps, ..few }
            }
            Input::Act(x) => Few { x, ..few },
        };
        let to = if out.then == Then::Gate { Few { act: out.address, ..few } } else { Few { y: out.address, ..few } };
        self.adapted(layer, projs, &weights, few, to, out.then)
    }

    /// The same with what the adapter adds.
    fn adapted(&self, layer: usize, projs: &[Proj], weights: &[&Weight], few: Few, to: Few, then: Then) -> Option<Ours> {
        let pairs: Vec<Option<&Pair<B>>> = projs.iter().map(|&proj| self.adapter?.pair(layer, proj)).collect();
        let Some(adapter) = self.adapter.filter(|_| pairs.iter().any(Option::is_some)) else {
            return Some(Ours { low: None, whole: to });
        };
        let pairs = pairs.into_iter().collect::<Option<Vec<_>>>()?;
        let lows: Vec<&Weight> = pairs.iter().map(|pair| B::gpu_weight(&pair.a)).collect();
        let (rank, scale) = (adapter.spec.rank, adapter.spec.scale());
        if !rank.is_multiple_of(16) || !are_adjoined(&lows) {
            return None;
        }
        let (mut end, mut stretches) = (0, [Stretch::default(); 3]);
        for (i, (pair, weight)) in pairs.iter().zip(weights).enumerate() {
            end += weight.rows as i32;
            stretches[i] = Stretch { b: B::gpu_weight(&pair.b).address(), end, from: (i * rank) as i32 };
        }
        let whole = Few { rank: rank as i32, stretches, scale, ..to };
        if whole.takes_low(rank, then) {
            return Some(Ours { low: None, whole: Few { a: lows[0].address(), ..whole } });
        }
        let (n_low, low_act) = ((rank * lows.len()) as i32, self.room.low_act.address());
        let low = Few { w: lows[0].address(), act: low_act, y_stride: n_low, n: n_low, scale, part: 0, run: 0, ..few };
        Some(Ours { low: Some(low), whole: Few { low: low_act, low_stride: n_low, ..whole } })
    }

    /// Where an input is, rounded: a norm is computed first.
    fn rounded(&self, input: Input<'_, B>) -> u64 {
        match input {
            Input::Act(act) => act,
            Input::Norm(gain) => {
                self.norm(gain);
                self.room.act.address()
            }
        }
    }

    /// Projections by the library's products, and what is around them by kernels of their own.
    fn by_library(&self, layer: usize, projs: &[Proj], input: Input<'_, B>, out: Out) {
        let Self { cuda, room, .. } = *self;
        let from = self.rounded(input);
        let weights = self.weights(layer, projs);
        let n: usize = weights.iter().map(|weight| weight.rows).sum();
        let (to, stride, put) = match out.then {
            Then::Gate => (room.gates.address(), n, Put::Set),
            Then::Add => (out.address, out.stride, Put::Add),
            Then::Set | Then::Round => (out.address, out.stride, Put::Set),
        };
        let together = are_adjoined(&weights);
        if together {
            let first = weights[0];
            cuda.products.multiply_parts(self.shape(first, n, stride), first.summed, from, first.address(), put, to);
        }
        let mut at = to;
        for (&proj, weight) in projs.iter().zip(&weights) {
            if !together {
                let shape = self.shape(weight, weight.rows, stride);
                cuda.products.multiply_parts(shape, weight.summed, from, weight.address(), put, at);
            }
            if let Some(pair) = self.adapter.and_then(|adapter| adapter.pair(layer, proj)) {
                self.add_pair(from, pair, at, stride);
            }
            at += weight.rows as u64 * 4;
        }
        if out.then == Then::Gate {
            let (cols, up) = (n / 2, to + n as u64 * 2);
            let values = args![to, up, room.n_rows, cols, n, out.address, out.stride];
            cuda.device.launch("swiglu", Grid::each(room.n_rows * out.stride / 4).early(), values);
        }
    }

    /// Adds a pair's part to results.
    fn add_pair(&self, from: u64, pair: &Pair<B>, to: u64, to_stride: usize) {
        let Self { cuda, room, .. } = *self;
        let (a, b) = (B::gpu_weight(&pair.a), B::gpu_weight(&pair.b));
        let (rank, stride) = (a.rows, a.rows.next_multiple_of(8));
        let (low, low_act) = (room.low.address(), room.low_act.address());
        cuda.products.multiply(self.shape(a, rank, rank), from, a.address(), Put::Set, low);
        let scale = self.adapter.map_or(1.0, |adapter| adapter.spec.scale());
        let values = args![low, scale, room.n_rows, rank, low_act, stride];
        cuda.device.launch("act", Grid::each((room.n_rows * stride).div_ceil(8)), values);
        cuda.products.multiply(self.shape(b, b.rows, to_stride), low_act, b.address(), Put::Add, to);
    }

    fn weights(&self, layer: usize, projs: &[Proj]) -> Vec<&Weight> {
        projs.iter().map(|&proj| B::gpu_weight(self.model.weight(layer, proj))).collect()
    }

    /// The product of all rows with `n` outputs from this weight on.
    pub(super) fn shape(&self, weight: &Weight, n: usize, stride: usize) -> Shape {
        let strides = [weight.stride, weight.stride, stride];
        Shape { kind: Kind::Forward, rows: self.room.n_rows, n, k: weight.cols, strides, batch: 1, offsets: [0; 3] }
    }
}

/// What the library makes of a projection: a way that makes anything else of it is not taken.
struct Agreed {
    address: u64,
    len: usize,
    before: Memory,
    expected: Memory,
    differs: Memory,
}

impl Agreed {
    fn new(device: &Arc<Device>, out: Out, n_rows: usize, by_library: impl Fn()) -> Self {
        let len = n_rows * out.stride * if matches!(out.then, Then::Gate | Then::Round) { 2 } else { 4 };
        let [before, expected] = [(), ()].map(|()| device.memory(len));
        device.copy(out.address, before.address(), len);
        by_library();
        device.copy(out.address, expected.address(), len);
        Self { address: out.address, len, before, expected, differs: device.memory(4) }
    }

    /// True when this leaves the same bits.
    fn with(&self, device: &Device, run: impl Fn()) -> bool {
        self.put_back(device);
        run();
        device.clear(self.differs.address(), 4);
        let sides = args![self.address, self.expected.address(), self.len / 4, self.differs.address()];
        device.launch("differs", Grid::each(self.len / 4), sides);
        device.read::<u32>(self.differs.address(), 1) == [0]
    }

    fn put_back(&self, device: &Device) {
        device.copy(self.before.address(), self.address, self.len);
    }
}

/// True when weights of one input lie one behind the other.
fn are_adjoined(weights: &[&Weight]) -> bool {
    weights.windows(2).all(|pair| {
        let [first, second] = pair else { return false };
        Arc::ptr_eq(&first.memory, &second.memory)
            && first.stride == second.stride
            && first.offset + first.rows * first.stride * 2 == second.offset
    })
}
