//! The machine a run computes on, chosen while running: the CPU or one GPU behind the same trait.
//!
//! Every value is of the machine that made it; one of another is a bug and asserts. The choice costs a comparison per operation.
//! Knows nothing of models.

use std::ops::Range;
use std::str::FromStr;

use crate::backend::{
    AdamStep, Ask, Backend, BurstRow, Drawing, Dtype, Heads, Linear, LinearBackward, Low, Moved, Put, Scored, ScoredGrad,
    Support, Target, Turn,
};
use crate::config::ModelConfig;
use crate::cpu::Cpu;
use crate::cuda::{Cuda, CudaOptions, OnGpu, Unavailable};
use crate::forward::AdapterRows;
use crate::layout::Layout;
use crate::memory::Place;
use crate::model::Model;
use crate::param::Proj;
use crate::random::Stream;
use crate::sampler::{Drawn, SamplerOptions};

/// What a user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The CPU.
    Cpu,
    /// The GPU, or an error that says what is missing.
    Cuda,
    /// The GPU where there is one, else the CPU.
    #[default]
    Auto,
}

/// A word that names no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no machine: write cpu, cuda or auto")]
pub struct UnknownMachine(String);

impl FromStr for Choice {
    type Err = UnknownMachine;

    fn from_str(word: &str) -> Result<Self, UnknownMachine> {
        match word {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            "auto" => Ok(Self::Auto),
            other => Err(UnknownMachine(other.to_owned())),
        }
    }
}

/// The CPU or one GPU.
pub enum Machine {
    /// The CPU.
    Cpu(Box<Cpu>),
    /// One GPU.
    Cuda(Box<Cuda>),
}

/// A value of one of the two machines.
pub enum Either<C, G> {
    /// The CPU's.
    Cpu(C),
    /// The GPU's.
    Cuda(G),
}

impl Machine {
    /// Opens the machine that was asked for. Products are bf16 on both.
    pub fn open(choice: Choice, n_threads: usize, options: &CudaOptions) -> Result<Self, Unavailable> {
        let cpu = || Self::Cpu(Box::new(Cpu::new(Dtype::Bf16, n_threads)));
        match choice {
            Choice::Cpu => Ok(cpu()),
            Choice::Cuda => Cuda::open(options).map(|cuda| Self::Cuda(Box::new(cuda))),
            Choice::Auto => Ok(Cuda::open(options).map_or_else(|_| cpu(), |cuda| Self::Cuda(Box::new(cuda)))),
        }
    }

    /// What memory is counted by.
    pub fn place(&self) -> Place {
        match self {
            Self::Cpu(_) => Place::Cpu,
            Self::Cuda(_) => Place::Gpu,
        }
    }

    /// The GPU, where that is the machine.
    pub fn gpu(&self) -> Option<&Cuda> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(cuda) => Some(cuda),
        }
    }
}

type CpuBuf = <Cpu as Backend>::Buf;
type GpuBuf = <Cuda as Backend>::Buf;
type Buf = Either<CpuBuf, GpuBuf>;
type Act = Either<<Cpu as Backend>::Act, <Cuda as Backend>::Act>;
type Weight = Either<<Cpu as Backend>::Weight, <Cuda as Backend>::Weight>;
type Kv = Either<<Cpu as Backend>::Kv, <Cuda as Backend>::Kv>;
type Plan = Either<<Cpu as Backend>::Plan, <Cuda as Backend>::Plan>;

const MIXED: &str = "values of two machines in one operation";

impl<C, G> Either<C, G> {
    fn cpu(&self) -> &C {
        match self {
            Self::Cpu(value) => value,
            Self::Cuda(_) => panic!("{MIXED}"),
        }
    }

    fn cuda(&self) -> &G {
        match self {
            Self::Cuda(value) => value,
            Self::Cpu(_) => panic!("{MIXED}"),
        }
    }

    fn cpu_mut(&mut self) -> &mut C {
        match self {
            Self::Cpu(value) => value,
            Self::Cuda(_) => panic!("{MIXED}"),
        }
    }

    fn cuda_mut(&mut self) -> &mut G {
        match self {
            Self::Cuda(value) => value,
            Self::Cpu(_) => panic!("{MIXED}"),
        }
    }
}

/// Runs an expression on the machine that is there, with the named values taken as its own.
macro_rules! on {
    ($machine:ident, [$($value:ident),*], [$($changed:ident),*], |$backend:ident| $body:expr) => {
        match $machine {
            Machine::Cpu($backend) => {
                $(let $value = $value.cpu();)*
                $(let $changed = $changed.cpu_mut();)*
                $body
            }
            Machine::Cuda($backend) => {
                $(let $value = $value.cuda();)*
                $(let $changed = $changed.cuda_mut();)*
                $body
            }
        }
    };
}

/// The same, for an expression that makes a value of the machine.
macro_rules! made_on {
    ($machine:ident, [$($value:ident),*], |$backend:ident| $body:expr) => {
        match $machine {
            Machine::Cpu($backend) => {
                $(let $value = $value.cpu();)*
                Either::Cpu($body)
            }
            Machine::Cuda($backend) => {
                $(let $value = $value.cuda();)*
                Either::Cuda($body)
            }
        }
    };
}

impl OnGpu for Machine {
    fn gpu_weight(weight: &Weight) -> &<Cuda as Backend>::Weight {
        weight.cuda()
    }

    fn gpu_buf(buf: &Buf) -> &GpuBuf {
        buf.cuda()
    }

    fn gpu_kv(kv: &Kv) -> &<Cuda as Backend>::Kv {
        kv.cuda()
    }
}

impl Low<'_, Machine> {
    fn on_cpu(&self) -> Low<'_, Cpu> {
        Low { x: self.x.cpu(), rows: self.rows.clone(), w: self.w.cpu() }
    }

    fn on_cuda(&self) -> Low<'_, Cuda> {
        Low { x: self.x.cuda(), rows: self.rows.clone(), w: self.w.cuda() }
    }
}

impl Backend for Machine {
    type Buf = Buf;
    type Act = Act;
    type Weight = Weight;
    type Kv = Kv;
    type Plan = Plan;

    fn head_dim_max(&self) -> usize {
        on!(self, [], [], |backend| backend.head_dim_max())
    }

    fn path(&self) -> String {
        on!(self, [], [], |backend| backend.path())
    }

    fn dtype(&self) -> Dtype {
        on!(self, [], [], |backend| backend.dtype())
    }

    fn buf(&self, len: usize) -> Buf {
        made_on!(self, [], |backend| backend.buf(len))
    }

    fn zeros(&self, len: usize) -> Buf {
        made_on!(self, [], |backend| backend.zeros(len))
    }

    fn upload(&self, values: &[f32]) -> Buf {
        made_on!(self, [], |backend| backend.upload(values))
    }

    fn noise(&self, stream: Stream, deviation: f32, len: usize) -> Option<Buf> {
        match self {
            Self::Cpu(cpu) => cpu.noise(stream, deviation, len).map(Either::Cpu),
            Self::Cuda(cuda) => cuda.noise(stream, deviation, len).map(Either::Cuda),
        }
    }

    fn download(&self, buf: &Buf) -> Vec<f32> {
        on!(self, [buf], [], |backend| backend.download(buf))
    }

    fn copy(&self, from: &Buf) -> Buf {
        made_on!(self, [from], |backend| backend.copy(from))
    }

    fn clear(&self, buf: &mut Buf) {
        on!(self, [], [buf], |backend| backend.clear(buf));
    }

    fn add(&self, from: &Buf, to: &mut Buf) {
        on!(self, [from], [to], |backend| backend.add(from, to));
    }

    fn weight(&self, values: &Buf, rows: usize, cols: usize, trainable: bool) -> Weight {
        made_on!(self, [values], |backend| backend.weight(values, rows, cols, trainable))
    }

    fn adjoin(&self, weights: &mut [&mut Weight]) {
        match self {
            Self::Cpu(cpu) => cpu.adjoin(&mut weights.iter_mut().map(|weight| weight.cpu_mut()).collect::<Vec<_>>()),
            Self::Cuda(cuda) => cuda.adjoin(&mut weights.iter_mut().map(|weight| weight.cuda_mut()).collect::<Vec<_>>()),
        }
    }

    fn settle(&self, config: &ModelConfig, proj: Proj, weight: &mut Weight) {
        on!(self, [], [weight], |backend| backend.settle(config, proj, weight));
    }

    fn prepare_backward(&self, weight: &mut Weight) {
        on!(self, [], [weight], |backend| backend.prepare_backward(weight));
    }

    fn act(&self, x: &Buf, rows: usize, cols: usize, scale: f32) -> Act {
        made_on!(self, [x], |backend| backend.act(x, rows, cols, scale))
    }

    fn acts(&self, parts: &[(&Buf, usize)], rows: usize, scale: f32) -> Vec<Act> {
        match self {
            Self::Cpu(cpu) => {
                let parts: Vec<_> = parts.iter().map(|(x, cols)| (x.cpu(), *cols)).collect();
                cpu.acts(&parts, rows, scale).into_iter().map(Either::Cpu).collect()
            }
            Self::Cuda(cuda) => {
                let parts: Vec<_> = parts.iter().map(|(x, cols)| (x.cuda(), *cols)).collect();
                cuda.acts(&parts, rows, scale).into_iter().map(Either::Cuda).collect()
            }
        }
    }

    fn gather(&self, x: &Buf, cols: usize, rows: &[u32]) -> Buf {
        made_on!(self, [x], |backend| backend.gather(x, cols, rows))
    }

    fn scatter_add(&self, dy: &Buf, cols: usize, rows: &[u32], dx: &mut Buf) {
        on!(self, [dy], [dx], |backend| backend.scatter_add(dy, cols, rows, dx));
    }

    fn embed(&self, table: &Weight, ids: &[u32]) -> Buf {
        made_on!(self, [table], |backend| backend.embed(table, ids))
    }

    fn embed_backward(&self, dy: &Buf, cols: usize, ids: &[u32], dtable: &mut Buf) {
        on!(self, [dy], [dtable], |backend| backend.embed_backward(dy, cols, ids, dtable));
    }

    fn rmsnorm(&self, x: &Buf, gain: &Buf, eps: f32, cols: usize) -> Buf {
        made_on!(self, [x, gain], |backend| backend.rmsnorm(x, gain, eps, cols))
    }

    fn rmsnorm_act(&self, x: &Buf, gain: &Buf, eps: f32, cols: usize) -> Act {
        made_on!(self, [x, gain], |backend| backend.rmsnorm_act(x, gain, eps, cols))
    }

    fn rmsnorm_backward(&self, x: &Buf, gain: &Buf, eps: f32, dy: &Buf, put: Put, dx: &mut Buf, dgain: Option<&mut Buf>) {
        match self {
            Self::Cpu(cpu) => {
                let dgain = dgain.map(Either::cpu_mut);
                cpu.rmsnorm_backward(x.cpu(), gain.cpu(), eps, dy.cpu(), put, dx.cpu_mut(), dgain);
            }
            Self::Cuda(cuda) => {
                let dgain = dgain.map(Either::cuda_mut);
                cuda.rmsnorm_backward(x.cuda(), gain.cuda(), eps, dy.cuda(), put, dx.cuda_mut(), dgain);
            }
        }
    }

    fn linear(&self, x: &Act, rows: Range<usize>, w: &Weight, put: Put, y: &mut Buf, to: usize) {
        on!(self, [x, w], [y], |backend| backend.linear(x, rows, w, put, y, to));
    }

    fn linears(&self, products: Vec<Linear<'_, Self>>) {
        match self {
            Self::Cpu(cpu) => {
                let own = |Linear { x, rows, w, put, y, to }| Linear {
                    x: Act::cpu(x),
                    rows,
                    w: Weight::cpu(w),
                    put,
                    y: Buf::cpu_mut(y),
                    to,
                };
                cpu.linears(products.into_iter().map(own).collect());
            }
            Self::Cuda(cuda) => {
                let own = |Linear { x, rows, w, put, y, to }| Linear {
                    x: Act::cuda(x),
                    rows,
                    w: Weight::cuda(w),
                    put,
                    y: Buf::cuda_mut(y),
                    to,
                };
                cuda.linears(products.into_iter().map(own).collect());
            }
        }
    }

    fn linear_backward(&self, dy: &Act, rows: Range<usize>, w: &Weight, put: Put, dx: &mut Buf, to: usize) {
        on!(self, [dy, w], [dx], |backend| backend.linear_backward(dy, rows, w, put, dx, to));
    }

    fn linears_backward(&self, parts: Vec<LinearBackward<'_, Self>>, put: Put, dx: &mut Buf) {
        match self {
            Self::Cpu(cpu) => {
                let own = |LinearBackward { dy, rows, w, to }| LinearBackward { dy: Act::cpu(dy), rows, w: Weight::cpu(w), to };
                cpu.linears_backward(parts.into_iter().map(own).collect(), put, dx.cpu_mut());
            }
            Self::Cuda(cuda) => {
                let own = |LinearBackward { dy, rows, w, to }| LinearBackward { dy: Act::cuda(dy), rows, w: Weight::cuda(w), to };
                cuda.linears_backward(parts.into_iter().map(own).collect(), put, dx.cuda_mut());
            }
        }
    }

    fn weight_gradient(&self, dy: &Act, x: &Act, dw: &mut Buf) {
        on!(self, [dy, x], [dw], |backend| backend.weight_gradient(dy, x, dw));
    }

    fn bias(&self, y: &mut Buf, bias: &Buf) {
        on!(self, [bias], [y], |backend| backend.bias(y, bias));
    }

    fn bias_gradient(&self, dy: &Buf, dbias: &mut Buf) {
        on!(self, [dy], [dbias], |backend| backend.bias_gradient(dy, dbias));
    }

    fn plan(&self, layout: &Layout) -> Plan {
        made_on!(self, [], |backend| backend.plan(layout))
    }

    fn rope(&self, x: &mut Buf, head_dim: usize, angles: &Buf, plan: &Plan, turn: Turn) {
        on!(self, [angles, plan], [x], |backend| backend.rope(x, head_dim, angles, plan, turn));
    }

    fn kv(&self, heads: Heads, n_pages: usize) -> Kv {
        made_on!(self, [], |backend| backend.kv(heads, n_pages))
    }

    fn kv_write(&self, kv: &mut Kv, k: &Buf, v: &Buf, plan: &Plan) {
        on!(self, [k, v, plan], [kv], |backend| backend.kv_write(kv, k, v, plan));
    }

    fn kv_copy(&self, kv: &mut Kv, from: u32, to: u32) {
        on!(self, [], [kv], |backend| backend.kv_copy(kv, from, to));
    }

    fn attention(&self, q: &Buf, kv: &Kv, plan: &Plan) -> (Buf, Buf) {
        match self {
            Self::Cpu(cpu) => {
                let (out, norms) = cpu.attention(q.cpu(), kv.cpu(), plan.cpu());
                (Either::Cpu(out), Either::Cpu(norms))
            }
            Self::Cuda(cuda) => {
                let (out, norms) = cuda.attention(q.cuda(), kv.cuda(), plan.cuda());
                (Either::Cuda(out), Either::Cuda(norms))
            }
        }
    }

    fn attention_backward(&self, q: &Buf, kv: &Kv, plan: &Plan, out: &Buf, log_norm: &Buf, dout: &Buf) -> (Buf, Buf, Buf) {
        match self {
            Self::Cpu(cpu) => {
                let saved = (out.cpu(), log_norm.cpu(), dout.cpu());
                let (dq, dk, dv) = cpu.attention_backward(q.cpu(), kv.cpu(), plan.cpu(), saved.0, saved.1, saved.2);
                (Either::Cpu(dq), Either::Cpu(dk), Either::Cpu(dv))
            }
            Self::Cuda(cuda) => {
                let saved = (out.cuda(), log_norm.cuda(), dout.cuda());
                let (dq, dk, dv) = cuda.attention_backward(q.cuda(), kv.cuda(), plan.cuda(), saved.0, saved.1, saved.2);
                (Either::Cuda(dq), Either::Cuda(dk), Either::Cuda(dv))
            }
        }
    }

    fn swiglu(&self, gate: &Buf, up: &Buf, cols: usize) -> Act {
        made_on!(self, [gate, up], |backend| backend.swiglu(gate, up, cols))
    }

    fn swiglu_backward(&self, gate: &Buf, up: &Buf, dh: &Buf, cols: usize) -> (Act, Act) {
        match self {
            Self::Cpu(cpu) => {
                let (dgate, dup) = cpu.swiglu_backward(gate.cpu(), up.cpu(), dh.cpu(), cols);
                (Either::Cpu(dgate), Either::Cpu(dup))
            }
            Self::Cuda(cuda) => {
                let (dgate, dup) = cuda.swiglu_backward(gate.cuda(), up.cuda(), dh.cuda(), cols);
                (Either::Cuda(dgate), Either::Cuda(dup))
            }
        }
    }

    fn swiglu_low(&self, gate: &mut Buf, up: &mut Buf, cols: usize, low: &[[Option<Low<'_, Self>>; 2]]) -> Act {
        match self {
            Self::Cpu(cpu) => {
                let low: Vec<_> = low.iter().map(|two| two.each_ref().map(|low| low.as_ref().map(Low::on_cpu))).collect();
                Either::Cpu(cpu.swiglu_low(gate.cpu_mut(), up.cpu_mut(), cols, &low))
            }
            Self::Cuda(cuda) => {
                let low: Vec<_> = low.iter().map(|two| two.each_ref().map(|low| low.as_ref().map(Low::on_cuda))).collect();
                Either::Cuda(cuda.swiglu_low(gate.cuda_mut(), up.cuda_mut(), cols, &low))
            }
        }
    }

    fn swiglu_low_backward(
        &self,
        gate: &Buf,
        up: &Buf,
        dh: &mut Buf,
        cols: usize,
        low: &[[Option<Low<'_, Self>>; 2]],
        dlow: &[Low<'_, Self>],
    ) -> (Act, Act) {
        match self {
            Self::Cpu(cpu) => {
                let low: Vec<_> = low.iter().map(|two| two.each_ref().map(|low| low.as_ref().map(Low::on_cpu))).collect();
                let dlow: Vec<_> = dlow.iter().map(Low::on_cpu).collect();
                let (dgate, dup) = cpu.swiglu_low_backward(gate.cpu(), up.cpu(), dh.cpu_mut(), cols, &low, &dlow);
                (Either::Cpu(dgate), Either::Cpu(dup))
            }
            Self::Cuda(cuda) => {
                let low: Vec<_> = low.iter().map(|two| two.each_ref().map(|low| low.as_ref().map(Low::on_cuda))).collect();
                let dlow: Vec<_> = dlow.iter().map(Low::on_cuda).collect();
                let (dgate, dup) = cuda.swiglu_low_backward(gate.cuda(), up.cuda(), dh.cuda_mut(), cols, &low, &dlow);
                (Either::Cuda(dgate), Either::Cuda(dup))
            }
        }
    }

    fn head(&self, x: &Act, w: &Weight, targets: &[Target]) -> Vec<Scored> {
        on!(self, [x, w], [], |backend| backend.head(x, w, targets))
    }

    fn head_backward(
        &self,
        x: &Act,
        w: &Weight,
        targets: &[Target],
        scored: &[Scored],
        grads: &[ScoredGrad],
        dx: &mut Buf,
        dw: Option<&mut Buf>,
    ) {
        match self {
            Self::Cpu(cpu) => {
                let dw = dw.map(Either::cpu_mut);
                cpu.head_backward(x.cpu(), w.cpu(), targets, scored, grads, dx.cpu_mut(), dw);
            }
            Self::Cuda(cuda) => {
                let dw = dw.map(Either::cuda_mut);
                cuda.head_backward(x.cuda(), w.cuda(), targets, scored, grads, dx.cuda_mut(), dw);
            }
        }
    }

    fn logits(&self, x: &Act, w: &Weight, visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        on!(self, [x, w], [], |backend| backend.logits(x, w, visit));
    }

    fn score(&self, logits: &[f32], target: &Target) -> Scored {
        on!(self, [], [], |backend| backend.score(logits, target))
    }

    fn pick(&self, logits: &[f32], target: &Target, log_norm: f32, u: f32) -> u32 {
        on!(self, [], [], |backend| backend.pick(logits, target, log_norm, u))
    }

    fn cut(&self, logits: &[f32], sampler: &SamplerOptions, allowed: &Option<Support>) -> Option<Support> {
        on!(self, [], [], |backend| backend.cut(logits, sampler, allowed))
    }

    fn draw(&self, x: &Act, w: &Weight, asks: &[Ask]) -> Option<Vec<Option<Drawn>>> {
        on!(self, [x, w], [], |backend| backend.draw(x, w, asks))
    }

    fn n_rows_light(&self) -> usize {
        on!(self, [], [], |backend| backend.n_rows_light())
    }

    fn guess_cost(&self, n_sequences: usize) -> f32 {
        on!(self, [], [], |backend| backend.guess_cost(n_sequences))
    }

    fn burst_max(&self) -> usize {
        on!(self, [], [], |backend| backend.burst_max())
    }

    fn burst(
        &self,
        model: &Model<Self>,
        kvs: &mut [Kv],
        adapters: &AdapterRows<'_, Self>,
        rows: &[BurstRow<'_>],
        n_tokens: usize,
    ) -> Option<Drawing> {
        self.gpu()?.decode(model, kvs, adapters, rows, n_tokens)
    }

    fn feed(&self, model: &Model<Self>, kvs: &mut [Kv], adapters: &AdapterRows<'_, Self>, rows: &[BurstRow<'_>]) -> Option<Act> {
        self.gpu()?.feed_rows(model, kvs, adapters, rows).map(Either::Cuda)
    }

    fn sum_squares(&self, buf: &Buf) -> f64 {
        on!(self, [buf], [], |backend| backend.sum_squares(buf))
    }

    fn sums_squares(&self, bufs: &[&Buf]) -> Vec<f64> {
        match self {
            Self::Cpu(cpu) => cpu.sums_squares(&bufs.iter().map(|buf| buf.cpu()).collect::<Vec<_>>()),
            Self::Cuda(cuda) => cuda.sums_squares(&bufs.iter().map(|buf| buf.cuda()).collect::<Vec<_>>()),
        }
    }

    fn adamw(&self, w: &mut Buf, m: &mut Buf, v: &mut Buf, grad: &Buf, step: &AdamStep) {
        on!(self, [grad], [w, m, v], |backend| backend.adamw(w, m, v, grad, step));
    }

    fn adamw_all(&self, all: Vec<Moved<'_, Self>>) {
        match self {
            Self::Cpu(cpu) => {
                let own = |Moved { w, m, v, grad, step }| {
                    let [w, m, v, grad] = [w, m, v, grad].map(Buf::cpu_mut);
                    Moved { w, m, v, grad, step }
                };
                cpu.adamw_all(all.into_iter().map(own).collect());
            }
            Self::Cuda(cuda) => {
                let own = |Moved { w, m, v, grad, step }| {
                    let [w, m, v, grad] = [w, m, v, grad].map(Buf::cuda_mut);
                    Moved { w, m, v, grad, step }
                };
                cuda.adamw_all(all.into_iter().map(own).collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_chosen_by_name() {
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("tpu".parse::<Choice>().expect_err("unknown").to_string(), "`tpu` is no machine: write cpu, cuda or auto");
        let cpu = Machine::open(Choice::Cpu, 1, &CudaOptions::default()).expect("the CPU is always there");
        assert!(cpu.gpu().is_none() && cpu.path().starts_with("cpu"));
    }
}
