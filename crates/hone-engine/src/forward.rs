//! The forward pass, written once: sampling, scoring and training all come through here.
//!
//! Per block: `x += o(attention(rope(qk_norm(q, k, v(norm(x))))))`, then `x += down(silu(gate(n))·up(n))` with `n = norm(x)`.
//! Each projection adds its adapters' low-rank parts for the rows that belong to them. What a backward needs is
//! returned by value; a caller that does not want it drops it. Knows nothing of losses, randomness or time.

use std::ops::Range;

use crate::backend::{Backend, Linear, Low, Put, Turn, add_lows};
use crate::layout::Layout;
use crate::lora::Adapter;
use crate::model::Model;
use crate::param::Proj;

/// Rows that are computed with an adapter; ranges ascend and do not overlap.
pub type AdapterRows<'a, B> = [(Range<usize>, &'a Adapter<B>)];

/// What one block leaves behind for its backward.
pub struct BlockActs<B: Backend> {
    /// The residual stream on entry.
    pub x_in: Option<B::Buf>,
    /// Its norm.
    pub attn_in: B::Act,
    /// Queries before and after norm and rotation; the first only with QK-norm.
    pub q_raw: Option<B::Buf>,
    /// Keys before norm and rotation, only with QK-norm.
    pub k_raw: Option<B::Buf>,
    /// Rotated queries.
    pub q: B::Buf,
    /// Attention output.
    pub attn_out: B::Buf,
    /// Its log-normalisers.
    pub log_norm: B::Buf,
    /// Attention output, ready for a product.
    pub attn_act: B::Act,
    /// The residual stream after attention.
    pub x_mid: Option<B::Buf>,
    /// Its norm.
    pub mlp_in: B::Act,
    /// Gate.
    pub gate: B::Buf,
    /// Up.
    pub up: B::Buf,
    /// `silu(gate)·up`.
    pub hidden: B::Act,
    /// What adapters add begins with.
    pub narrows: Narrows<B>,
}

/// Scaled `x·aᵀ` of each projection, one per range of adapters where the projection is adapted.
pub type Narrows<B> = [Vec<Option<<B as Backend>::Act>>; 7];

/// Whether a forward keeps what a backward needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing is kept.
    Nothing,
    /// Everything.
    Acts,
}

/// A batch on its way through a model.
pub struct Pass<'a, B: Backend> {
    /// The machine.
    pub backend: &'a B,
    /// The weights.
    pub model: &'a Model<B>,
    /// Where rows stand.
    pub plan: &'a B::Plan,
    /// Number of rows.
    pub n_rows: usize,
    /// Which rows have which adapter.
    pub adapters: &'a AdapterRows<'a, B>,
}

impl<B: Backend> Pass<'_, B> {
    /// One block, in place; keys and values go to the block's pages.
    pub fn block(&self, layer: usize, x: &mut B::Buf, kv: &mut B::Kv, keep: Keep) -> BlockActs<B> {
        let Self { backend, model, plan, .. } = *self;
        let config = &model.config;
        let block = &model.blocks[layer];
        let kept = |x: &B::Buf| (keep == Keep::Acts).then(|| backend.copy(x));
        let mut narrows: Narrows<B> = Default::default();

        let x_in = kept(x);
        let attn_in = backend.rmsnorm_act(x, &block.attn_norm, config.norm_eps, config.dim);
        let [mut q, mut k, mut v] = self.project(layer, [Proj::Q, Proj::K, Proj::V], &attn_in, &mut narrows);
        if let Some([q_bias, k_bias, v_bias]) = &block.biases {
            backend.bias(&mut q, q_bias);
            backend.bias(&mut k, k_bias);
            backend.bias(&mut v, v_bias);
        }
        let (mut q_raw, mut k_raw) = (None, None);
        if let Some([q_gain, k_gain]) = &block.qk_norms {
            q_raw = Some(std::mem::replace(&mut q, backend.buf(0)));
            k_raw = Some(std::mem::replace(&mut k, backend.buf(0)));
            let norm = |x: &Option<B::Buf>, gain: &B::Buf| {
                x.as_ref().map(|x| backend.rmsnorm(x, gain, config.norm_eps, config.head_dim))
            };
            q = norm(&q_raw, q_gain).unwrap_or(q);
            k = norm(&k_raw, k_gain).unwrap_or(k);
        }
        backend.rope(&mut q, config.head_dim, &model.angles, plan, Turn::Forward);
        backend.rope(&mut k, config.head_dim, &model.angles, plan, Turn::Forward);
        backend.kv_write(kv, &k, &v, plan);
        let (attn_out, log_norm) = backend.attention(&q, kv, plan);
        let attn_act = backend.act(&attn_out, self.n_rows, config.q_dim(), 1.0);
        self.project_into(layer, [(Proj::O, x)], &attn_act, Put::Add, &mut narrows);

        let x_mid = kept(x);
        let mlp_in = backend.rmsnorm_act(x, &block.mlp_norm, config.norm_eps, config.dim);
        let [mut gate, mut up] = [(), ()].map(|()| backend.buf(self.n_rows * config.ffn_dim));
        self.project_base(layer, [(Proj::Gate, &mut gate), (Proj::Up, &mut up)], &mlp_in, Put::Set, &mut narrows);
        let low = self.lows(layer, [Proj::Gate, Proj::Up], &narrows);
        let hidden = backend.swiglu_low(&mut gate, &mut up, config.ffn_dim, &low);
        self.project_into(layer, [(Proj::Down, x)], &hidden, Put::Add, &mut narrows);
        BlockActs { x_in, attn_in, q_raw, k_raw, q, attn_out, log_norm, attn_act, x_mid, mlp_in, gate, up, hidden, narrows }
    }

    /// Projections of the same input.
    fn project<const N: usize>(&self, layer: usize, projs: [Proj; N], x: &B::Act, narrows: &mut Narrows<B>) -> [B::Buf; N] {
        let mut outputs = projs.map(|proj| self.backend.buf(self.n_rows * proj.shape(&self.model.config).0));
        let mut each = outputs.iter_mut();
        let into = projs.map(|proj| (proj, each.next().expect("one output per projection")));
        self.project_into(layer, into, x, Put::Set, narrows);
        outputs
    }

    /// `y = x·wᵀ` (or `+=`) for each projection, then the low-rank part of each adapter's rows is added.
    fn project_into<const N: usize>(
        &self,
        layer: usize,
        mut into: [(Proj, &mut B::Buf); N],
        x: &B::Act,
        put: Put,
        narrows: &mut Narrows<B>,
    ) {
        let projs = into.each_ref().map(|(proj, _)| *proj);
        self.project_base(layer, into.each_mut().map(|(proj, y)| (*proj, &mut **y)), x, put, narrows);
        add_lows(self.backend, into.map(|(_, y)| y), &self.lows(layer, projs, narrows));
    }

    /// `y = x·wᵀ` (or `+=`) for each projection, and what its adapters add begins with. What has the same input is one round of the threads.
    fn project_base<const N: usize>(
        &self,
        layer: usize,
        mut into: [(Proj, &mut B::Buf); N],
        x: &B::Act,
        put: Put,
        narrows: &mut Narrows<B>,
    ) {
        let Self { backend, model, n_rows, adapters, .. } = *self;
        let projs = into.each_ref().map(|(proj, _)| *proj);
        let pairs: Vec<_> = adapters.iter().map(|(_, adapter)| projs.map(|proj| adapter.pair(layer, proj))).collect();
        let narrow = |(rows, adapter): &(Range<usize>, &Adapter<B>)| backend.buf(rows.len() * adapter.spec.rank);
        let mut inner: Vec<_> =
            adapters.iter().zip(&pairs).map(|(part, pairs)| pairs.map(|pair| pair.map(|_| narrow(part)))).collect();
        let whole = into.iter_mut().map(|(proj, y)| {
            let w = model.weight(layer, *proj);
            Linear { x, rows: 0..n_rows, w, put, y: &mut **y, to: 0 }
        });
        let begun = adapters.iter().zip(&pairs).zip(&mut inner).flat_map(|(((rows, _), pairs), inner)| {
            pairs.iter().zip(inner).filter_map(|(pair, narrow)| {
                let (w, y) = (&(*pair)?.a, narrow.as_mut()?);
                Some(Linear { x, rows: rows.clone(), w, put: Put::Set, y, to: 0 })
            })
        });
        backend.linears(whole.chain(begun).collect());
        for ((rows, adapter), inner) in adapters.iter().zip(inner) {
            let (rank, scale) = (adapter.spec.rank, adapter.spec.scale());
            for (proj, narrow) in projs.into_iter().zip(inner) {
                narrows[proj as usize].push(narrow.map(|x| backend.act(&x, rows.len(), rank, scale)));
            }
        }
    }

    /// What adapters add to projections, adapter by adapter.
    pub(crate) fn lows<'l, const N: usize>(
        &self,
        layer: usize,
        projs: [Proj; N],
        narrows: &'l Narrows<B>,
    ) -> Vec<[Option<Low<'l, B>>; N]>
    where
        Self: 'l,
    {
        let of_adapter = |(i, (rows, adapter)): (usize, &'l (Range<usize>, &'l Adapter<B>))| {
            projs.map(|proj| {
                let (x, pair) = (narrows[proj as usize].get(i)?.as_ref()?, adapter.pair(layer, proj)?);
                Some(Low { x, rows: rows.clone(), w: &pair.b })
            })
        };
        self.adapters.iter().enumerate().map(of_adapter).collect()
    }
}

/// Runs a batch through all blocks, nothing kept: the residual stream before the last norm.
pub fn hidden<B: Backend>(
    backend: &B,
    model: &Model<B>,
    layout: &Layout,
    kvs: &mut [B::Kv],
    adapters: &AdapterRows<'_, B>,
) -> B::Buf {
    let plan = backend.plan(layout);
    let pass = Pass { backend, model, plan: &plan, n_rows: layout.n_rows(), adapters };
    let mut x = backend.embed(&model.embed, &layout.ids);
    for (layer, kv) in kvs.iter_mut().enumerate() {
        pass.block(layer, &mut x, kv, Keep::Nothing);
    }
    x
}

/// The hidden states of chosen rows after the last norm, ready for the head.
pub fn head_input<B: Backend>(backend: &B, model: &Model<B>, x: &B::Buf, rows: &[u32]) -> B::Act {
    let chosen = backend.gather(x, model.config.dim, rows);
    backend.rmsnorm_act(&chosen, &model.final_norm, model.config.norm_eps, model.config.dim)
}
