//! One forward and backward over a packed batch: scores out, gradients in, gradients of the parameters out.
//!
//! `Tape::record` computes log-probabilities and entropies of every target and keeps what the backward needs;
//! `Tape::backward` takes the loss's gradient with respect to them. The loss itself is the caller's.
//! Between the two, a [`Recompute::Blocks`] tape holds one residual stream per block and computes the rest again: about a
//! third more work for about a tenth of the memory. Knows nothing of optimisers.

use crate::backend::{Backend, Put, Scored, ScoredGrad, Target};
use crate::backward::Grads;
use crate::forward::{AdapterRows, BlockActs, Keep, Pass, head_input, hidden};
use crate::layout::Packed;
use crate::lora::Adapter;
use crate::model::Model;
use crate::param::ParamId;

/// What a tape computes twice instead of keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    Never,
    /// The inside of every block.
    Blocks,
}

/// A recorded forward.
pub struct Tape<B: Backend> {
    plan: B::Plan,
    kvs: Vec<B::Kv>,
    blocks: Vec<Kept<B>>,
    rows: Vec<u32>,
    /// Residual stream after the last block.
    x: B::Buf,
    /// Chosen rows of it after the last norm.
    head_in: B::Act,
    targets: Vec<Target>,
    scored: Vec<Scored>,
}

enum Kept<B: Backend> {
    Acts(Box<BlockActs<B>>),
    Entry(B::Buf),
}

/// Targets at one temperature over the whole vocabulary.
pub fn plain_targets(packed: &Packed, inv_temperature: f32) -> Vec<Target> {
    let target = |&(_, id): &(u32, u32)| Target { id, inv_temperature, support: None };
    packed.targets.iter().map(target).collect()
}

/// Scores every target without keeping anything.
pub fn score<B: Backend>(
    backend: &B,
    model: &Model<B>,
    adapter: Option<&Adapter<B>>,
    packed: &Packed,
    targets: &[Target],
) -> Vec<Scored> {
    let mut kvs: Vec<_> = model.blocks.iter().map(|_| backend.kv(model.heads(), packed.n_pages)).collect();
    let adapters = all_rows(adapter, packed);
    let x = hidden(backend, model, &packed.layout, &mut kvs, &adapters);
    let rows: Vec<u32> = packed.targets.iter().map(|&(row, _)| row).collect();
    let head_in = head_input(backend, model, &x, &rows);
    backend.head(&head_in, model.head_weight(), targets)
}

fn all_rows<'a, B: Backend>(adapter: Option<&'a Adapter<B>>, packed: &Packed) -> Vec<(std::ops::Range<usize>, &'a Adapter<B>)> {
    adapter.map(|adapter| (0..packed.layout.n_rows(), adapter)).into_iter().collect()
}

impl<B: Backend> Tape<B> {
    /// Forward over the batch; `targets[i]` belongs to `packed.targets[i]`.
    pub fn record(
        backend: &B,
        model: &Model<B>,
        adapter: Option<&Adapter<B>>,
        packed: &Packed,
        targets: Vec<Target>,
        recompute: Recompute,
    ) -> Self {
        assert_eq!(targets.len(), packed.targets.len());
        let plan = backend.plan(&packed.layout);
        let adapters = all_rows(adapter, packed);
        let pass = pass(backend, model, &plan, packed, &adapters);
        let mut x = backend.embed(&model.embed, &packed.layout.ids);
        let mut kvs: Vec<_> = model.blocks.iter().map(|_| backend.kv(model.heads(), packed.n_pages)).collect();
        let mut blocks = Vec::with_capacity(kvs.len());
        for (layer, kv) in kvs.iter_mut().enumerate() {
            blocks.push(match recompute {
                Recompute::Never => Kept::Acts(Box::new(pass.block(layer, &mut x, kv, Keep::Acts))),
                Recompute::Blocks => {
                    let entry = backend.copy(&x);
                    pass.block(layer, &mut x, kv, Keep::Nothing);
                    Kept::Entry(entry)
                }
            });
        }
        let rows: Vec<u32> = packed.targets.iter().map(|&(row, _)| row).collect();
        let head_in = head_input(backend, model, &x, &rows);
        let scored = backend.head(&head_in, model.head_weight(), &targets);
        Self { plan, kvs, blocks, rows, x, head_in, targets, scored }
    }

    /// The score of every target.
    pub fn scored(&self) -> &[Scored] {
        &self.scored
    }

    /// Adds the gradients of `Σ grads·scored` to `grads`. Needs the model and adapter that the tape was recorded with.
    pub fn backward(
        mut self,
        backend: &B,
        model: &Model<B>,
        adapter: Option<&Adapter<B>>,
        packed: &Packed,
        score_grads: &[ScoredGrad],
        grads: &mut Grads<B>,
    ) {
        let dim = model.config.dim;
        let head_id = if model.config.tied_head { ParamId::Embed } else { ParamId::Head };
        let mut dnormed = backend.buf(self.rows.len() * dim);
        let (head_in, head) = (&self.head_in, model.head_weight());
        let dw = grads.params.get_mut(&head_id);
        backend.head_backward(head_in, head, &self.targets, &self.scored, score_grads, &mut dnormed, dw);
        let chosen = backend.gather(&self.x, dim, &self.rows);
        let mut dchosen = backend.buf(self.rows.len() * dim);
        let dgain = grads.params.get_mut(&ParamId::FinalNorm);
        let eps = model.config.norm_eps;
        backend.rmsnorm_backward(&chosen, &model.final_norm, eps, &dnormed, Put::Set, &mut dchosen, dgain);
        let mut dx = backend.zeros(packed.layout.n_rows() * dim);
        backend.scatter_add(&dchosen, dim, &self.rows, &mut dx);

        let adapters = all_rows(adapter, packed);
        let pass = pass(backend, model, &self.plan, packed, &adapters);
        while let Some(kept) = self.blocks.pop() {
            let layer = self.blocks.len();
            let acts = match kept {
                Kept::Acts(acts) => acts,
                Kept::Entry(mut x) => Box::new(pass.block(layer, &mut x, &mut self.kvs[layer], Keep::Acts)),
            };
            pass.block_backward(layer, &acts, &self.kvs[layer], &mut dx, grads);
        }
        if let Some(dtable) = grads.params.get_mut(&ParamId::Embed) {
            backend.embed_backward(&dx, dim, &packed.layout.ids, dtable);
        }
    }
}

fn pass<'a, B: Backend>(
    backend: &'a B,
    model: &'a Model<B>,
    plan: &'a B::Plan,
    packed: &Packed,
    adapters: &'a AdapterRows<'a, B>,
) -> Pass<'a, B> {
    Pass { backend, model, plan, n_rows: packed.layout.n_rows(), adapters }
}
