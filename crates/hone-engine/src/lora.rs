//! Low-rank adapters: `y = x·wᵀ + (scale · x·aᵀ)·bᵀ` on any of a block's seven projections.
//!
//! `a` is `[r, in]`, `b` is `[out, r]`, `scale = alpha / r`, as in PEFT. `b` starts at zero, so a fresh adapter changes
//! nothing. The base weight is never merged while sampling or training: both go through the same two products.
//! Master weights are f32; the packed forms follow them after every step. Knows nothing of files or optimisers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::config::ModelConfig;
use crate::param::Proj;
use crate::random::Stream;

/// What an adapter adapts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoraSpec {
    /// Rank.
    pub rank: usize,
    /// `scale = alpha / rank`.
    pub alpha: f32,
    /// Adapted projections, in every block.
    pub targets: Vec<Proj>,
}

impl LoraSpec {
    /// All seven projections.
    pub fn all(rank: usize, alpha: f32) -> Self {
        Self { rank, alpha, targets: Proj::ALL.to_vec() }
    }

    /// Factor of the low-rank product.
    pub fn scale(&self) -> f32 {
        self.alpha / self.rank as f32
    }
}

/// Which half of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// `[rank, in]`.
    A,
    /// `[out, rank]`.
    B,
}

/// One matrix of an adapter.
pub type LoraId = (usize, Proj, Side);

/// Adapter weights on the host, by place: what files hold.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraWeights {
    /// Shape of the adapter.
    pub spec: LoraSpec,
    /// Row-major matrices in the canonical order (layer, projection, side).
    pub matrices: BTreeMap<LoraId, Vec<f32>>,
}

impl LoraWeights {
    /// A fresh adapter: `a` uniform in ±1/√in (the start PEFT uses), `b` zero. A function of the seed alone.
    pub fn fresh(config: &ModelConfig, spec: &LoraSpec, seed: u64) -> Self {
        let mut matrices = BTreeMap::new();
        for id @ (layer, proj, side) in ids(config, spec) {
            let (rows, cols) = shape(config, spec, id);
            let values = match side {
                Side::B => vec![0.0; rows * cols],
                Side::A => {
                    let stream = Stream::new(seed, (layer * Proj::ALL.len() + proj as usize) as u64);
                    let bound = 1.0 / (cols as f32).sqrt();
                    (0..rows * cols).map(|i| (2.0 * stream.uniform(i as u64) - 1.0) * bound).collect()
                }
            };
            matrices.insert(id, values);
        }
        Self { spec: spec.clone(), matrices }
    }
}

/// The matrices of an adapter in canonical order.
pub fn ids(config: &ModelConfig, spec: &LoraSpec) -> Vec<LoraId> {
    let mut targets = spec.targets.clone();
    targets.sort_unstable();
    targets.dedup();
    let sides = |(layer, proj)| [(layer, proj, Side::A), (layer, proj, Side::B)];
    (0..config.n_layers).flat_map(|layer| targets.iter().map(move |&proj| (layer, proj))).flat_map(sides).collect()
}

/// Rows and columns of one matrix of an adapter.
pub fn shape(config: &ModelConfig, spec: &LoraSpec, (_, proj, side): LoraId) -> (usize, usize) {
    let (n_out, n_in) = proj.shape(config);
    match side {
        Side::A => (spec.rank, n_in),
        Side::B => (n_out, spec.rank),
    }
}

/// One pair on the device.
pub struct Pair<B: Backend> {
    /// `[rank, in]`.
    pub a: B::Weight,
    /// `[out, rank]`.
    pub b: B::Weight,
}

/// An adapter on the device, ready for products.
pub struct Adapter<B: Backend> {
    /// Shape of the adapter.
    pub spec: LoraSpec,
    pairs: BTreeMap<(usize, Proj), Pair<B>>,
}

impl<B: Backend> Adapter<B> {
    /// Packs an adapter; `trainable` ones can be used in a backward.
    pub fn new(backend: &B, config: &ModelConfig, weights: &LoraWeights, trainable: bool) -> Self {
        let masters = weights.matrices.iter().map(|(&id, values)| (id, backend.upload(values))).collect();
        Self::of_masters(backend, config, &weights.spec, &masters, trainable)
    }

    /// Packs an adapter whose f32 weights are on the device already.
    pub fn of_masters(
        backend: &B,
        config: &ModelConfig,
        spec: &LoraSpec,
        masters: &BTreeMap<LoraId, B::Buf>,
        trainable: bool,
    ) -> Self {
        let pack = |id: LoraId| {
            let (rows, cols) = shape(config, spec, id);
            backend.weight(&masters[&id], rows, cols, trainable)
        };
        let mut pairs: BTreeMap<(usize, Proj), Pair<B>> = BTreeMap::new();
        for (layer, proj, side) in ids(config, spec) {
            if side == Side::A {
                let pair = Pair { a: pack((layer, proj, Side::A)), b: pack((layer, proj, Side::B)) };
                pairs.insert((layer, proj), pair);
            }
        }
        for layer in 0..config.n_layers {
            for same_input in [&[Proj::Q, Proj::K, Proj::V][..], &[Proj::Gate, Proj::Up]] {
                let of_layer = pairs.range_mut((layer, Proj::Q)..=(layer, Proj::Down));
                let of_input = of_layer.filter(|((_, proj), _)| same_input.contains(proj));
                backend.adjoin(&mut of_input.map(|(_, pair)| &mut pair.a).collect::<Vec<_>>());
            }
        }
        Self { spec: spec.clone(), pairs }
    }

    /// The pair at a place, if that place is adapted.
    pub fn pair(&self, layer: usize, proj: Proj) -> Option<&Pair<B>> {
        self.pairs.get(&(layer, proj))
    }
}
