//! A training run's state: master weights, moments, step count; and the two calls that move it.
//!
//! `accumulate` adds the gradients of one packed batch under a caller's loss; `step` applies them. What is trained is
//! either one LoRA adapter over a fixed model, or every parameter of the model. The state leaves and enters as plain
//! vectors (`state`, `restore`), so a run resumed from a checkpoint ends in the same bits.
//! Knows nothing of rewards, data or files.

use std::collections::BTreeMap;

use crate::backend::{Backend, Scored, ScoredGrad, Target};
use crate::backward::Grads;
use crate::config::ModelConfig;
use crate::error::LoadError;
use crate::layout::Packed;
use crate::load::WeightSource;
use crate::lora::{Adapter, LoraId, LoraSpec, LoraWeights, Side, ids};
use crate::model::Model;
use crate::optim::{AdamOptions, Slot, Update, update};
use crate::param::ParamId;
use crate::tape::{Recompute, Tape};

/// What is trained.
enum Trained<B: Backend> {
    Lora { spec: LoraSpec, slots: BTreeMap<LoraId, Slot<B>>, adapter: Box<Adapter<B>> },
    Full { slots: BTreeMap<ParamId, Slot<B>> },
}

/// A training run's state.
pub struct Trainer<B: Backend> {
    config: ModelConfig,
    options: AdamOptions,
    recompute: Recompute,
    trained: Trained<B>,
    step: u64,
    n_accumulated: u32,
}

/// The state of a run as plain data: masters and moments in canonical order.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainerState {
    /// Steps done.
    pub step: u64,
    /// Per tensor: its name, master, first and second moment.
    pub tensors: Vec<(String, [Vec<f32>; 3])>,
}

impl<B: Backend> Trainer<B> {
    /// Trains an adapter.
    pub fn lora(backend: &B, config: &ModelConfig, weights: &LoraWeights, options: AdamOptions, recompute: Recompute) -> Self {
        let slots = weights.matrices.iter().map(|(&id, values)| (id, Slot::new(backend, values, true))).collect();
        let adapter = Box::new(Adapter::new(backend, config, weights, true));
        let trained = Trained::Lora { spec: weights.spec.clone(), slots, adapter };
        Self { config: config.clone(), options, recompute, trained, step: 0, n_accumulated: 0 }
    }

    /// Trains every parameter, starting from the f32 weights of the source that the model was loaded from.
    pub fn full(backend: &B, source: &dyn WeightSource, options: AdamOptions, recompute: Recompute) -> Result<Self, LoadError> {
        let config = source.config().clone();
        let mut slots = BTreeMap::new();
        for id in ParamId::all(&config) {
            slots.insert(id, Slot::new(backend, &source.read(id)?, id.is_matrix()));
        }
        Ok(Self { config, options, recompute, trained: Trained::Full { slots }, step: 0, n_accumulated: 0 })
    }

    /// Steps done.
    pub fn n_steps(&self) -> u64 {
        self.step
    }

    /// The adapter in training, to sample with; `None` when the model itself is trained.
    pub fn adapter(&self) -> Option<&Adapter<B>> {
        match &self.trained {
            Trained::Lora { adapter, .. } => Some(adapter),
            Trained::Full { .. } => None,
        }
    }

    /// Forward, the caller's loss, backward. The loss sees every target's score and returns its gradients; they are
    /// summed with those of earlier calls until the next step.
    pub fn accumulate(
        &mut self,
        backend: &B,
        model: &Model<B>,
        packed: &Packed,
        targets: Vec<Target>,
        loss: impl FnOnce(&[Scored]) -> Vec<ScoredGrad>,
    ) -> Vec<Scored> {
        let tape = Tape::record(backend, model, self.adapter(), packed, targets, self.recompute);
        let scored = tape.scored().to_vec();
        let score_grads = loss(&scored);
        assert_eq!(score_grads.len(), scored.len(), "one gradient per target");
        let mut grads = self.take_grads(backend);
        tape.backward(backend, model, self.adapter(), packed, &score_grads, &mut grads);
        self.return_grads(grads);
        self.n_accumulated += 1;
        scored
    }

    /// Applies the summed gradients (their mean over the accumulated batches) at this learning rate. Full training
    /// writes the new weights into the model.
    pub fn step(&mut self, backend: &B, model: &mut Model<B>, lr: f32) -> Update {
        let n = self.n_accumulated.max(1) as f32;
        self.n_accumulated = 0;
        let done = match &mut self.trained {
            Trained::Lora { slots, .. } => update(backend, &self.options, self.step, lr, n, slots.values_mut()),
            Trained::Full { slots } => update(backend, &self.options, self.step, lr, n, slots.values_mut()),
        };
        if done.applied {
            self.step += 1;
            self.publish(backend, model);
        }
        done
    }

    /// The adapter's f32 weights on the host.
    pub fn lora_weights(&self, backend: &B) -> Option<LoraWeights> {
        match &self.trained {
            Trained::Full { .. } => None,
            Trained::Lora { spec, slots, .. } => {
                let matrices = slots.iter().map(|(&id, slot)| (id, backend.download(&slot.master))).collect();
                Some(LoraWeights { spec: spec.clone(), matrices })
            }
        }
    }

    /// A parameter's f32 master, when the model itself is trained.
    pub fn master(&self, backend: &B, id: ParamId) -> Option<Vec<f32>> {
        match &self.trained {
            Trained::Lora { .. } => None,
            Trained::Full { slots } => slots.get(&id).map(|slot| backend.download(&slot.master)),
        }
    }

    /// Everything a resumed run needs. Call between steps: gradients being summed are not part of it.
    pub fn state(&self, backend: &B) -> TrainerState {
        let pack = |name: String, slot: &Slot<B>| (name, [&slot.master, &slot.m, &slot.v].map(|buf| backend.download(buf)));
        let tensors = match &self.trained {
            Trained::Lora { slots, .. } => slots.iter().map(|(id, slot)| pack(lora_name(*id), slot)).collect(),
            Trained::Full { slots } => slots.iter().map(|(id, slot)| pack(id.hf_name(), slot)).collect(),
        };
        TrainerState { step: self.step, tensors }
    }

    /// Takes up a saved state of a run over the same parameters.
    pub fn restore(&mut self, backend: &B, model: &mut Model<B>, state: &TrainerState) -> Result<(), LoadError> {
        let mut by_name: BTreeMap<&str, &[Vec<f32>; 3]> =
            state.tensors.iter().map(|(name, tensors)| (&name[..], tensors)).collect();
        let mut put = |name: String, slot: &mut Slot<B>| {
            let len = backend.download(&slot.master).len();
            let saved = by_name.remove(&name[..]).filter(|saved| saved.iter().all(|x| x.len() == len));
            let Some([master, m, v]) = saved else {
                return Err(LoadError::Misfit(format!("tensor `{name}` is missing, or has another size")));
            };
            (slot.master, slot.m, slot.v) = (backend.upload(master), backend.upload(m), backend.upload(v));
            backend.clear(&mut slot.grad);
            Ok(())
        };
        match &mut self.trained {
            Trained::Lora { slots, .. } => slots.iter_mut().try_for_each(|(id, slot)| put(lora_name(*id), slot))?,
            Trained::Full { slots } => slots.iter_mut().try_for_each(|(id, slot)| put(id.hf_name(), slot))?,
        }
        if let Some(name) = by_name.keys().next() {
            return Err(LoadError::Misfit(format!("tensor `{name}` is none of this run's")));
        }
        self.step = state.step;
        self.n_accumulated = 0;
        self.publish(backend, model);
        Ok(())
    }

    /// Makes the packed weights follow the masters.
    fn publish(&mut self, backend: &B, model: &mut Model<B>) {
        match &mut self.trained {
            Trained::Full { slots } => slots.iter().for_each(|(&id, slot)| model.set(backend, id, &slot.master)),
            Trained::Lora { spec, slots, adapter } => {
                // The masters are lent to the packer for the moment of packing.
                let mut masters = BTreeMap::new();
                for (&id, slot) in slots.iter_mut() {
                    masters.insert(id, std::mem::replace(&mut slot.master, backend.buf(0)));
                }
                **adapter = Adapter::of_masters(backend, &self.config, spec, &masters, true);
                for (id, master) in masters {
                    if let Some(slot) = slots.get_mut(&id) {
                        slot.master = master;
                    }
                }
            }
        }
    }

    fn take_grads(&mut self, backend: &B) -> Grads<B> {
        let take = |slot: &mut Slot<B>| std::mem::replace(&mut slot.grad, backend.buf(0));
        let mut grads = Grads::none();
        match &mut self.trained {
            Trained::Lora { slots, .. } => {
                grads.lora = slots.iter_mut().map(|(&id, s)| (id, take(s))).collect();
            }
            Trained::Full { slots } => {
                grads.params = slots.iter_mut().map(|(&id, s)| (id, take(s))).collect();
            }
        }
        grads
    }

    fn return_grads(&mut self, grads: Grads<B>) {
        match &mut self.trained {
            Trained::Lora { slots, .. } => {
                slots.values_mut().zip(grads.lora.into_values()).for_each(|(slot, grad)| slot.grad = grad);
            }
            Trained::Full { slots } => {
                slots.values_mut().zip(grads.params.into_values()).for_each(|(slot, grad)| slot.grad = grad);
            }
        }
    }

    /// Gradients being summed, on the host, in canonical order; for tests and diagnostics.
    pub fn gradients(&self, backend: &B) -> Vec<(String, Vec<f32>)> {
        match &self.trained {
            Trained::Lora { slots, .. } => {
                slots.iter().map(|(&id, slot)| (lora_name(id), backend.download(&slot.grad))).collect()
            }
            Trained::Full { slots } => slots.iter().map(|(id, slot)| (id.hf_name(), backend.download(&slot.grad))).collect(),
        }
    }
}

/// Name of one matrix of an adapter, without PEFT's outer prefix.
pub fn lora_name((layer, proj, side): LoraId) -> String {
    let side = if side == Side::A { "lora_A" } else { "lora_B" };
    format!("model.layers.{layer}.{}.{side}.weight", proj.path())
}

/// Names of an adapter's matrices in canonical order.
pub fn lora_names(config: &ModelConfig, spec: &LoraSpec) -> Vec<String> {
    ids(config, spec).into_iter().map(lora_name).collect()
}
