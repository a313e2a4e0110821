//! The backward pass, written once: the forward's steps in reverse, each by its operation's gradient.
//!
//! The gradient of the residual stream flows through in place; gradients of what is trained are added to a [`Grads`].
//! With LoRA the base weights get no gradient, only the stream does: `du = scale·dy·b`, `db += dyᵀ·u`, `da += duᵀ·x`,
//! `dx += du·a`. Knows nothing of losses or optimisers.

use std::collections::BTreeMap;

use crate::backend::{Backend, LinearBackward, Low, Put, Turn};
use crate::forward::{BlockActs, Pass};
use crate::lora::{LoraId, Side};
use crate::param::{ParamId, Proj};

/// Gradients being summed. What is absent is not trained.
pub struct Grads<B: Backend> {
    /// Of the model's own parameters.
    pub params: BTreeMap<ParamId, B::Buf>,
    /// Of the adapter.
    pub lora: BTreeMap<LoraId, B::Buf>,
}

impl<B: Backend> Grads<B> {
    /// Nothing is trained.
    pub fn none() -> Self {
        Self { params: BTreeMap::new(), lora: BTreeMap::new() }
    }
}

impl<B: Backend> Pass<'_, B> {
    /// Backward of one block: `dx` is the gradient after the block on entry, before it on return.
    ///
    /// At most one adapter may be in training; its rows must be all rows.
    pub fn block_backward(&self, layer: usize, acts: &BlockActs<B>, kv: &B::Kv, dx: &mut B::Buf, grads: &mut Grads<B>) {
        let Self { backend, model, plan, n_rows, .. } = *self;
        let config = &model.config;
        let block = &model.blocks[layer];
        let (x_in, x_mid) = (acts.x_in.as_ref().expect("kept"), acts.x_mid.as_ref().expect("kept"));

        let dy = backend.act(dx, n_rows, config.dim, 1.0);
        let mut dhidden = backend.buf(n_rows * config.ffn_dim);
        let dnarrows = self.narrows_backward(layer, [(Proj::Down, &dy)], acts, grads);
        backend.linear_backward(&dy, 0..n_rows, model.weight(layer, Proj::Down), Put::Set, &mut dhidden, 0);
        let low = self.lows(layer, [Proj::Gate, Proj::Up], &acts.narrows);
        let dlow: Vec<Low<'_, B>> = self.lows_backward(layer, [Proj::Down], &dnarrows).into_iter().flatten().flatten().collect();
        let (dgate, dup) = backend.swiglu_low_backward(&acts.gate, &acts.up, &mut dhidden, config.ffn_dim, &low, &dlow);
        drop(dhidden);
        let mut dnorm = backend.buf(n_rows * config.dim);
        self.project_backward(layer, [(Proj::Gate, &dgate), (Proj::Up, &dup)], acts, &mut dnorm, grads);
        let dgain = grads.params.get_mut(&ParamId::MlpNorm(layer));
        backend.rmsnorm_backward(x_mid, &block.mlp_norm, config.norm_eps, &dnorm, Put::Add, dx, dgain);

        let dy = backend.act(dx, n_rows, config.dim, 1.0);
        let mut dattn = backend.buf(n_rows * config.q_dim());
        self.project_backward(layer, [(Proj::O, &dy)], acts, &mut dattn, grads);
        let (mut dq, mut dk, dv) = backend.attention_backward(&acts.q, kv, plan, &acts.attn_out, &acts.log_norm, &dattn);
        backend.rope(&mut dq, config.head_dim, &model.angles, plan, Turn::Backward);
        backend.rope(&mut dk, config.head_dim, &model.angles, plan, Turn::Backward);
        if let Some([q_gain, k_gain]) = &block.qk_norms {
            for (raw, gain, id, d) in
                [(&acts.q_raw, q_gain, ParamId::QNorm(layer), &mut dq), (&acts.k_raw, k_gain, ParamId::KNorm(layer), &mut dk)]
            {
                let raw = raw.as_ref().expect("kept with QK-norm");
                let dnormed = std::mem::replace(d, backend.buf(0));
                let mut draw = backend.copy(&dnormed);
                let dgain = grads.params.get_mut(&id);
                backend.rmsnorm_backward(raw, gain, config.norm_eps, &dnormed, Put::Set, &mut draw, dgain);
                *d = draw;
            }
        }
        let projs = [Proj::Q, Proj::K, Proj::V];
        let parts = [&dq, &dk, &dv];
        for (proj, d) in projs.into_iter().zip(parts) {
            if let Some(dbias) = grads.params.get_mut(&ParamId::Bias(layer, proj)) {
                backend.bias_gradient(d, dbias);
            }
        }
        let sized = projs.iter().zip(parts).map(|(proj, d)| (d, proj.shape(config).0)).collect::<Vec<_>>();
        let dys = backend.acts(&sized, n_rows, 1.0);
        self.project_backward(layer, [(Proj::Q, &dys[0]), (Proj::K, &dys[1]), (Proj::V, &dys[2])], acts, &mut dnorm, grads);
        let dgain = grads.params.get_mut(&ParamId::AttnNorm(layer));
        backend.rmsnorm_backward(x_in, &block.attn_norm, config.norm_eps, &dnorm, Put::Add, dx, dgain);
    }

    /// The gradient of what projections have for input, and of their weights.
    fn project_backward<const N: usize>(
        &self,
        layer: usize,
        dys: [(Proj, &B::Act); N],
        acts: &BlockActs<B>,
        dx: &mut B::Buf,
        grads: &mut Grads<B>,
    ) {
        let Self { backend, model, n_rows, .. } = *self;
        let dnarrows = self.narrows_backward(layer, dys, acts, grads);
        let mut dlow = self.lows_backward(layer, dys.map(|(proj, _)| proj), &dnarrows);
        let mut parts = Vec::new();
        for (i, (proj, dy)) in dys.into_iter().enumerate() {
            parts.push(LinearBackward { dy, rows: 0..n_rows, w: model.weight(layer, proj), to: 0 });
            let of_adapters = dlow.iter_mut().filter_map(|of_adapter| of_adapter[i].take());
            parts.extend(of_adapters.map(|Low { x, rows, w }| LinearBackward { dy: x, rows: 0..rows.len(), w, to: rows.start }));
        }
        backend.linears_backward(parts, Put::Set, dx);
    }

    /// The gradients of the weights of projections, and those of `scale·x·aᵀ`, adapter by adapter.
    fn narrows_backward<const N: usize>(
        &self,
        layer: usize,
        dys: [(Proj, &B::Act); N],
        acts: &BlockActs<B>,
        grads: &mut Grads<B>,
    ) -> Vec<[Option<B::Act>; N]> {
        let Self { backend, n_rows, .. } = *self;
        for (proj, dy) in dys {
            if let Some(dw) = grads.params.get_mut(&ParamId::Weight(layer, proj)) {
                backend.weight_gradient(dy, acts.input(proj), dw);
            }
        }
        let mut all = Vec::new();
        for (i, (rows, adapter)) in self.adapters.iter().enumerate() {
            let rank = adapter.spec.rank;
            let dlow = dys.map(|(proj, dy)| {
                let pair = adapter.pair(layer, proj)?;
                let mut dlow = backend.buf(rows.len() * rank);
                backend.linear_backward(dy, rows.clone(), &pair.b, Put::Set, &mut dlow, 0);
                Some(dlow)
            });
            let sized: Vec<_> = dlow.iter().flatten().map(|dlow| (dlow, rank)).collect();
            let mut rounded = backend.acts(&sized, rows.len(), adapter.spec.scale()).into_iter();
            let dlow = dlow.each_ref().map(|dlow| dlow.as_ref().and_then(|_| rounded.next()));
            for ((proj, dy), dlow) in dys.into_iter().zip(&dlow) {
                let narrow = acts.narrows[proj as usize].get(i).and_then(Option::as_ref);
                if let (Some(db), Some(narrow)) = (grads.lora.get_mut(&(layer, proj, Side::B)), narrow) {
                    assert_eq!(*rows, 0..n_rows, "the adapter in training has all rows");
                    backend.weight_gradient(dy, narrow, db);
                }
                if let (Some(da), Some(dlow)) = (grads.lora.get_mut(&(layer, proj, Side::A)), dlow) {
                    backend.weight_gradient(dlow, acts.input(proj), da);
                }
            }
            all.push(dlow);
        }
        all
    }

    /// What adapters add to the gradient of projections' input, adapter by adapter.
    fn lows_backward<'l, const N: usize>(
        &self,
        layer: usize,
        projs: [Proj; N],
        dnarrows: &'l [[Option<B::Act>; N]],
    ) -> Vec<[Option<Low<'l, B>>; N]>
    where
        Self: 'l,
    {
        let of_adapters = self.adapters.iter().zip(dnarrows).map(|((rows, adapter), dnarrows)| {
            std::array::from_fn(|i| {
                let (x, pair) = (dnarrows[i].as_ref()?, adapter.pair(layer, projs[i])?);
                Some(Low { x, rows: rows.clone(), w: &pair.a })
            })
        });
        of_adapters.collect()
    }
}

impl<B: Backend> BlockActs<B> {
    /// What a projection had for input.
    fn input(&self, proj: Proj) -> &B::Act {
        match proj {
            Proj::Q | Proj::K | Proj::V => &self.attn_in,
            Proj::O => &self.attn_act,
            Proj::Gate | Proj::Up => &self.mlp_in,
            Proj::Down => &self.hidden,
        }
    }
}
