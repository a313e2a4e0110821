//! Decoding as one graph: a whole step of many sequences, from their tokens to their next ones, recorded once and replayed.
//!
//! A step reads tokens and positions from the GPU's memory and leaves the next ones there, so steps follow each other without
//! the host. The products give the bits of the general pass (the three of attention's entry and the two of the gate are one
//! each, where their weights lie side by side), and so does every rounding: what is drawn here has the log-probability that
//! training finds. Sizes of batch are rounded up to a few; the rows that fill a batch write to a page of nobody.

mod alone;
mod drawing;
mod far;
mod project;
mod ring;
mod room;
mod search;
mod step;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alone::Alone;
use drawing::{Drawing, Steps};
pub(super) use project::Choices;
pub(super) use ring::ROWS_MAX as SEQUENCE_ROWS_MAX;
pub(super) use room::TOKENS_MAX;
use room::{Room, Start};
use search::{Logits, Plan};
use step::Step;

use super::device::{Grid, args, locked};
use super::graph::Graph;
use super::{Act, Buf, Cuda, Kv, Weight};
use crate::backend::{self, Backend, BurstRow};
use crate::forward::AdapterRows;
use crate::lora::{Adapter, Pair};
use crate::model::Model;
use crate::param::Proj;

/// A backend whose values are this GPU's, behind whatever it wraps them in.
pub(crate) trait OnGpu: Backend {
    /// The weight itself.
    fn gpu_weight(weight: &Self::Weight) -> &Weight;
    /// The vector itself.
    fn gpu_buf(buf: &Self::Buf) -> &Buf;
    /// The pages themselves.
    fn gpu_kv(kv: &Self::Kv) -> &Kv;
}

impl OnGpu for Cuda {
    fn gpu_weight(weight: &Weight) -> &Weight {
        weight
    }

    fn gpu_buf(buf: &Buf) -> &Buf {
        buf
    }

    fn gpu_kv(kv: &Kv) -> &Kv {
        kv
    }
}

/// What guesses add to a token that is otherwise drawn in one launch, in such tokens: a step of several rows is many launches.
pub(super) const GUESS_COST_ALONE: f32 = 1.4;

/// Bursts of a kind after which its fastest plan is searched: sizes that are only passed through do not pay for it.
const SEARCHED_AFTER: usize = 4;
/// Runs of a plan of which the fastest counts.
const RUNS: usize = 4;
/// No more plans are tried after this.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// Graphs that are kept, and rows that all of them have memory for: with those of a model of 7B they take less than a GiB.
const DECODERS_MAX: usize = 24;
const ROWS_KEPT_MAX: usize = 1024;
/// Largest batch of one graph.
const ROWS_MAX: usize = 512;

/// Plans that are remembered, and kinds of projection with what was chosen for them.
const PLANS_MAX: usize = 256;
const CHOICES_MAX: usize = 1024;

/// What a step ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    /// The next tokens, and their rows in the stream.
    Tokens,
    /// The input of the head.
    HeadInput,
}

/// What a plan is chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    /// The model, by where it lies.
    model: u64,
    n_rows: usize,
    /// Sequences may have several rows.
    several: bool,
    /// Samplers may cut what is drawn.
    cuts: bool,
    gives: Gives,
    /// Of the adapter, or 0: its rank, and how many weights it has a part for.
    rank: usize,
    n_pairs: usize,
}

/// The graphs that were recorded, and how each kind is computed.
#[derive(Default)]
pub(super) struct Decoders {
    kept: Vec<Decoder>,
    plans: HashMap<Kind, Planned>,
    /// Where the last burst was computed.
    last: Option<Arc<Room>>,
}

/// How a kind is computed.
struct Planned {
    plan: Plan,
    is_searched: bool,
    n_bursts: usize,
}

impl Planned {
    /// True when it is time to search.
    fn is_due(&self) -> bool {
        !self.is_searched && self.n_bursts >= SEARCHED_AFTER
    }
}

/// A recorded step and the memory it works in.
struct Decoder {
    kind: Kind,
    /// All that the graph holds of others: see `held`.
    key: Vec<u64>,
    steps: Steps,
    room: Arc<Room>,
}

impl Cuda {
    /// How steps of decoding are computed, per number of rows and rank of the adapter.
    pub fn plans(&self) -> Vec<(usize, usize, String)> {
        let decoders = locked(&self.decoders);
        let mut plans: Vec<_> =
            decoders.plans.iter().map(|(kind, planned)| (kind.n_rows, kind.rank, format!("{:?}", planned.plan))).collect();
        plans.sort_unstable();
        plans
    }

    /// How many of the steps that are recorded now compute all of their layers in one launch.
    pub fn n_in_one_launch(&self) -> usize {
        locked(&self.decoders).kept.iter().filter(|decoder| decoder.room.alone.is_some()).count()
    }

    /// How projections of decoding were computed when they were first met: each kind, and the microseconds of the fastest ways.
    pub fn ways(&self) -> Vec<String> {
        let choices = locked(&self.choices);
        let mut ways: Vec<String> = choices.iter().map(|(asked, timed)| format!("{asked:?}: {timed}")).collect();
        ways.sort_unstable();
        ways
    }

    /// Lets sequences draw tokens in a row; see `Backend::burst`.
    pub(crate) fn decode<B: OnGpu>(
        &self,
        model: &Model<B>,
        kvs: &mut [B::Kv],
        adapters: &AdapterRows<'_, B>,
        rows: &[BurstRow<'_>],
        n_tokens: usize,
    ) -> Option<backend::Drawing> {
        self.with_step(model, kvs, adapters, rows, Gives::Tokens, |steps, room| {
            Box::new(Drawing::new(&self.device, steps, room, rows.len(), n_tokens)) as backend::Drawing
        })
    }

    /// One step of rows, as far as the head; see `Backend::feed`.
    pub(crate) fn feed_rows<B: OnGpu>(
        &self,
        model: &Model<B>,
        kvs: &mut [B::Kv],
        adapters: &AdapterRows<'_, B>,
        rows: &[BurstRow<'_>],
    ) -> Option<Act> {
        self.with_step(model, kvs, adapters, rows, Gives::HeadInput, |steps, room| {
            steps.one.launch();
            let (cols, n_rows) = (model.config.dim, rows.len());
            let stride = cols.next_multiple_of(8);
            let memory = self.device.memory(n_rows * stride * 2);
            self.device.copy(room.act.address(), memory.address(), n_rows * stride * 2);
            Act::alone(memory, n_rows, cols, stride)
        })
    }

    /// Puts sequences at their start and uses the step that was recorded for them, or is now.
    fn with_step<B: OnGpu, T>(
        &self,
        model: &Model<B>,
        kvs: &mut [B::Kv],
        adapters: &AdapterRows<'_, B>,
        rows: &[BurstRow<'_>],
        gives: Gives,
        use_it: impl FnOnce(&Steps, &Arc<Room>) -> T,
    ) -> Option<T> {
        let adapter = match adapters {
            [] => None,
            [(range, adapter)] if *range == (0..rows.len()) => Some(*adapter),
            _ => return None,
        };
        let (several, cuts) = (room::has_several(rows), gives == Gives::Tokens && room::has_cuts(rows));
        let n_rows_max = if several { SEQUENCE_ROWS_MAX } else { ROWS_MAX };
        if rows.len() > n_rows_max || !step::fits(&model.config) {
            return None;
        }
        // All such numbers of rows are one size: a graph costs time, and rows that are left over do not.
        let n_rows = if several { SEQUENCE_ROWS_MAX } else { batch_size(rows.len()) };
        let n_pages_max = rows.iter().map(|row| row.pages.len()).max()?.next_power_of_two().max(16);
        let key = held(model, kvs, adapter, &[n_rows, n_pages_max, several.into(), cuts.into(), gives as usize]);
        let kind = Kind {
            model: B::gpu_weight(&model.embed).address(),
            n_rows,
            several,
            cuts,
            gives,
            rank: rank(adapter),
            n_pairs: adapter.map_or(0, |adapter| pairs(model, adapter).flatten().count()),
        };
        let mut decoders = locked(&self.decoders);
        let Decoders { kept, plans, last } = &mut *decoders;
        let is_due = plans.get(&kind).is_some_and(Planned::is_due);
        // The tokens of the burst before are where that one was computed, and nothing can be recorded or timed while it is.
        let is_last =
            |decoder: &Decoder| decoder.key == key && last.as_ref().is_some_and(|room| Arc::ptr_eq(room, &decoder.room));
        if room::go_on(rows) && (is_due || !kept.iter().any(is_last)) {
            return None;
        }
        if is_due {
            kept.retain(|decoder| decoder.kind != kind);
        }
        let at = match kept.iter().position(|decoder| decoder.key == key) {
            Some(at) => at,
            None => {
                let is_full = |kept: &[Decoder]| {
                    let n_rows_kept: usize = kept.iter().map(|decoder| decoder.kind.n_rows).sum();
                    kept.len() >= DECODERS_MAX || n_rows_kept + n_rows > ROWS_KEPT_MAX
                };
                while !kept.is_empty() && is_full(kept) {
                    kept.remove(0);
                }
                if plans.len() >= PLANS_MAX {
                    plans.clear();
                }
                let first = Planned { plan: Plan::first(Logits::All), is_searched: false, n_bursts: 0 };
                let planned = plans.entry(kind).or_insert(first);
                let mut room = Room::new(self, &model.config, kind, n_pages_max);
                if n_rows == 1 && !several && adapter.is_none() {
                    room.alone = Alone::new(self, model, kvs, n_pages_max);
                }
                let room = Arc::new(room);
                let steps = self.record_step(model, kvs, adapter, &room, rows, planned)?;
                kept.push(Decoder { kind, key, steps, room });
                kept.len() - 1
            }
        };
        if let Some(planned) = plans.get_mut(&kind) {
            planned.n_bursts += 1;
        }
        let Decoder { steps, room, .. } = &kept[at];
        self.start(model, B::gpu_kv(kvs.first()?), room, rows);
        *last = Some(Arc::clone(room));
        Some(use_it(steps, room))
    }

    /// Puts every sequence at its start, with its token's row in the stream, or lets all go on from where they are.
    fn start<B: OnGpu>(&self, model: &Model<B>, kv: &Kv, room: &Room, rows: &[BurstRow<'_>]) {
        room.set(self, rows, kv.n_pages as u32);
        if !room::go_on(rows) {
            let embed = B::gpu_weight(&model.embed);
            let values = args![embed.address(), embed.stride, embed.cols, room.start(Start::Ids), room.x.address()];
            self.device.launch("embed", Grid::rows(room.n_rows, 128), values);
        }
    }

    /// Records a step as it is planned; the fastest plan is the one that was found at an earlier start, or is searched when it is time.
    fn record_step<B: OnGpu>(
        &self,
        model: &Model<B>,
        kvs: &[B::Kv],
        adapter: Option<&Adapter<B>>,
        room: &Room,
        rows: &[BurstRow<'_>],
        planned: &mut Planned,
    ) -> Option<Steps> {
        let kv = B::gpu_kv(kvs.first()?);
        let step = |plan: Plan| Step { cuda: self, model, kvs, adapter, room, plan };
        // Attention reads positions before what is in front of it is done: those of this step, and not of the one before.
        let next = |plan: Plan| {
            if room.alone.is_none() {
                self.device.let_next_wait();
            }
            step(plan).run();
        };
        let record_all = |plan: Plan, n: usize| self.device.record(|| (0..n).for_each(|_| next(plan)));
        let record = |plan: Plan| record_all(plan, 1);
        // Every run starts at the rows' own positions: behind them are pages of others.
        let start = || self.start(model, kv, room, rows);
        // Once openly: projections are timed and the library finds its algorithms, which cannot be done while recording.
        let openly = |plan: Plan| {
            start();
            step(plan).run();
        };
        // A step that is recorded finds all of its choices made, so they are forgotten between steps alone.
        let mut choices = locked(&self.choices);
        if choices.len() >= CHOICES_MAX {
            choices.clear();
        }
        drop(choices);
        openly(planned.plan);
        let question = step(planned.plan).question();
        if !planned.is_searched
            && let Some(found) = self.products.kept.get(&question).and_then(|found| Plan::read(&found))
        {
            openly(found);
            (planned.plan, planned.is_searched) = (found, true);
        }
        if planned.is_due() {
            openly(Plan::first(Logits::Near));
            // The shortest of some runs, which follow each other as steps do.
            let time = |graph: &Graph, n: usize| {
                let run = |_| {
                    start();
                    let begun = self.device.mark();
                    graph.launch();
                    (begun, self.device.mark())
                };
                let runs: Vec<_> = (0..n).map(run).collect();
                runs.iter().map(|(begun, done)| done.ms_since(begun)).fold(f32::MAX, f32::min)
            };
            let (n_ways, begun) = (step(planned.plan).n_ways(), Instant::now());
            planned.is_searched = true;
            let is_over = || begun.elapsed() > SEARCH_MAX;
            planned.plan = search::fastest(n_ways, room.n_rows, is_over, |plan, least| {
                let graph = record(plan);
                // The very first run also brings the graph to the GPU; the second tells whether it is worth more.
                let first = time(&graph, 2);
                if first < 1.05 * least { first.min(time(&graph, RUNS)) } else { first }
            });
            self.products.kept.put(&question, &planned.plan.written());
        }
        // Many launches in a row take milliseconds to record: those of sizes that are only passed through do not pay for it either.
        let are_few = room.alone.is_some();
        let pays = room.gives == Gives::Tokens && (are_few || planned.is_searched);
        Some(Steps::new(are_few, pays, |n| record_all(planned.plan, n)))
    }
}

fn rank<B: OnGpu>(adapter: Option<&Adapter<B>>) -> usize {
    adapter.map_or(0, |adapter| adapter.spec.rank)
}

/// Batches are rounded up to these: every size is a graph, and a graph costs milliseconds to record.
fn batch_size(n: usize) -> usize {
    match n {
        0..=4 => n,
        5..=8 => 8,
        9..=64 => n.next_multiple_of(16),
        _ => n.next_multiple_of(64),
    }
}

/// The parts of an adapter, layer by layer, each where it has one.
fn pairs<'a, B: OnGpu>(model: &Model<B>, adapter: &'a Adapter<B>) -> impl Iterator<Item = Option<&'a Pair<B>>> {
    (0..model.blocks.len()).flat_map(move |layer| Proj::ALL.iter().map(move |&proj| adapter.pair(layer, proj)))
}

/// Every address that a recorded step holds, its sizes and its other numbers: a graph is good while these are the same.
fn held<B: OnGpu>(model: &Model<B>, kvs: &[B::Kv], adapter: Option<&Adapter<B>>, sizes: &[usize]) -> Vec<u64> {
    let weight = |weight: &B::Weight| B::gpu_weight(weight).address();
    let buf = |buf: &B::Buf| B::gpu_buf(buf).address();
    let config = &model.config;
    let mut all = vec![u64::from(config.norm_eps.to_bits())];
    all.extend(sizes.iter().map(|&n| n as u64));
    all.extend([config.dim, config.n_heads, config.n_kv_heads, config.head_dim, config.ffn_dim, config.vocab].map(|n| n as u64));
    all.extend([weight(&model.embed), weight(model.head_weight()), buf(&model.final_norm), buf(&model.angles)]);
    for (block, kv) in model.blocks.iter().zip(kvs) {
        let kv = B::gpu_kv(kv);
        all.extend([buf(&block.attn_norm), buf(&block.mlp_norm), kv.keys.address(), kv.values.address()]);
        all.extend(block.weights.iter().map(weight));
        all.extend(block.biases.iter().flatten().chain(block.qk_norms.iter().flatten()).map(buf));
    }
    let part = |pair: Option<&Pair<B>>| pair.map_or([0, 0], |pair| [weight(&pair.a), weight(&pair.b)]);
    all.extend(adapter.into_iter().flat_map(|adapter| pairs(model, adapter)).flat_map(part));
    all.extend(adapter.map(|adapter| u64::from(adapter.spec.scale().to_bits()) << 32 | adapter.spec.rank as u64));
    all
}
