//! The backward pass, written once: the forward's steps in reverse, each by its operation's gradient.
//!
//! The gradient of the residual stream flows through in place; gradients of what is trained are added to a [`Grads`].
//! With LoRA the base weights get no gradient, only the stream does: `du = scale·dy·b`, `db += dyᵀ·u`, `da += duᵀ·x`,
//! `dx += du·a`. Knows nothing of losses or optimisers.

use std::collections::BTreeMap;

use crate::backend::{Backend, Put, Turn};
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
        self.project_backward(layer, Proj::Down, acts, &dy, Put::Set, &mut dhidden, grads);
        let (dgate, dup) = backend.swiglu_backward(&acts.gate, &acts.up, &dhidden, config.ffn_dim);
        drop(dhidden);
        let mut dnorm = backend.buf(n_rows * config.dim);
        self.project_backward(layer, Proj::Gate, acts, &dgate, Put::Set, &mut dnorm, grads);
        self.project_backward(layer, Proj::Up, acts, &dup, Put::Add, &mut dnorm, grads);
        let dgain = grads.params.get_mut(&ParamId::MlpNorm(layer));
        backend.rmsnorm_backward(x_mid, &block.mlp_norm, config.norm_eps, &dnorm, Put::Add, dx, dgain);

        let dy = backend.act(dx, n_rows, config.dim, 1.0);
        let mut dattn = backend.buf(n_rows * config.q_dim());
        self.project_backward(layer, Proj::O, acts, &dy, Put::Set, &mut dattn, grads);
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
        let mut put = Put::Set;
        for (proj, d) in [(Proj::Q, &dq), (Proj::K, &dk), (Proj::V, &dv)] {
            if let Some(dbias) = grads.params.get_mut(&ParamId::Bias(layer, proj)) {
                backend.bias_gradient(d, dbias);
            }
            let (n_out, _) = proj.shape(config);
            let dy = backend.act(d, n_rows, n_out, 1.0);
            self.project_backward(layer, proj, acts, &dy, put, &mut dnorm, grads);
            put = Put::Add;
        }
        let dgain = grads.params.get_mut(&ParamId::AttnNorm(layer));
        backend.rmsnorm_backward(x_in, &block.attn_norm, config.norm_eps, &dnorm, Put::Add, dx, dgain);
    }

    #[expect(clippy::too_many_arguments, reason = "the backward of a projection needs all of its forward")]
    fn project_backward(
        &self,
        layer: usize,
        proj: Proj,
        acts: &BlockActs<B>,
        dy: &B::Act,
        put: Put,
        dx: &mut B::Buf,
        grads: &mut Grads<B>,
    ) {
        let Self { backend, model, n_rows, .. } = *self;
        let x = match proj {
            Proj::Q | Proj::K | Proj::V => &acts.attn_in,
            Proj::O => &acts.attn_act,
            Proj::Gate | Proj::Up => &acts.mlp_in,
            Proj::Down => &acts.hidden,
        };
        backend.linear_backward(dy, 0..n_rows, model.weight(layer, proj), put, dx, 0);
        if let Some(dw) = grads.params.get_mut(&ParamId::Weight(layer, proj)) {
            backend.weight_gradient(dy, x, dw);
        }
        let with_pair =
            self.adapters.iter().filter_map(|(rows, adapter)| adapter.pair(layer, proj).map(|pair| (rows, adapter, pair)));
        for ((rows, adapter, pair), low) in with_pair.zip(&acts.low[proj as usize]) {
            let rank = adapter.spec.rank;
            let mut dlow = backend.buf(rows.len() * rank);
            backend.linear_backward(dy, rows.clone(), &pair.b, Put::Set, &mut dlow, 0);
            let dlow = backend.act(&dlow, rows.len(), rank, adapter.spec.scale());
            backend.linear_backward(&dlow, 0..rows.len(), &pair.a, Put::Add, dx, rows.start);
            if let Some(db) = grads.lora.get_mut(&(layer, proj, Side::B)) {
                assert_eq!(*rows, 0..n_rows, "the adapter in training has all rows");
                backend.weight_gradient(dy, low, db);
            }
            if let Some(da) = grads.lora.get_mut(&(layer, proj, Side::A)) {
                backend.weight_gradient(&dlow, x, da);
            }
        }
    }
}
