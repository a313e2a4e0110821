//! Imitation: doing what was done in traces that somebody else wrote.

use super::Learner;
use crate::failure::Failure;
use hone_engine::batch::Token;
use hone_engine::optim::Schedule;
use hone_render::Setting;
use hone_trace::{Content, Trace};
use hone_train::episode::Episode;
use hone_train::sft;
use hone_train::step::{Objective, StepOptions};
use std::sync::Arc;

/// Trained tokens of a step, unless said otherwise.
const N_TOKENS: usize = 256;
/// Rows computed at once.
const N_ROWS_MAX: usize = 8192;
/// Steps that the rate rises over, at most.
const N_WARMUP_MAX: u64 = 100;

/// What imitation came to.
pub(crate) struct Imitated {
    pub(crate) n_tokens: usize,
    /// Over the last twenty steps.
    pub(crate) loss: f64,
}

impl Learner {
    /// Learns to do what was done in these traces, once through; `tick` is called at every step with how many there are.
    /// Stops early when `n_tokens_max` are trained.
    pub(crate) fn imitate(
        &mut self,
        traces: &[Trace],
        lr: f32,
        n_tokens_max: usize,
        tick: impl Fn(usize, usize),
    ) -> Result<Imitated, Failure> {
        self.imitate_in_steps(traces, N_TOKENS, lr, n_tokens_max, tick)
    }

    /// The same by steps of another size: small ones learn more from few traces.
    pub(crate) fn imitate_in_steps(
        &mut self,
        traces: &[Trace],
        n_tokens_step: usize,
        lr: f32,
        n_tokens_max: usize,
        tick: impl Fn(usize, usize),
    ) -> Result<Imitated, Failure> {
        let mut episodes: Vec<Episode> = Vec::with_capacity(traces.len());
        for trace in traces {
            episodes.extend(self.rendered(trace)?);
        }
        let batches = sft::batches(&episodes, n_tokens_step, N_ROWS_MAX, 0, 0);
        let n_steps = batches.len();
        let n_warmup = N_WARMUP_MAX.min(n_steps as u64 / 10);
        let schedule = Schedule::Cosine { lr, floor: lr / 20.0, n_warmup, n_steps: n_steps as u64 };
        let (mut losses, mut n_tokens) = (Vec::new(), 0);
        for (i, batch) in batches.into_iter().enumerate() {
            if n_tokens >= n_tokens_max {
                break;
            }
            n_tokens += batch.n_tokens();
            let now = Schedule::Constant { lr: schedule.lr(i as u64) };
            losses.push(self.step(batch, StepOptions::new(Objective::Imitation, now))?.loss);
            tick(i + 1, n_steps);
        }
        let last = &losses[losses.len().saturating_sub(20)..];
        Ok(Imitated { n_tokens, loss: hone_eval::interval::mean(last).0 })
    }

    /// The tokens of a trace that no model sampled, with the answers as what is trained: one episode, or one per turn where the
    /// model does not remember the turns before.
    pub(crate) fn rendered(&self, trace: &Trace) -> Result<Vec<Episode>, Failure> {
        let tokenizer = self.renderer.tokenizer();
        let end = tokenizer.eos_ids().first().copied();
        let setting = Setting { memory: self.local.memory, ..Setting::default() };
        let mut episode: Option<hone_render::Episode> = None;
        for turn in trace.turns() {
            let mut open = match episode.take() {
                None => hone_render::Episode::open(Arc::clone(&self.renderer), turn.input.clone(), setting.clone()),
                Some(mut open) => open.extend(turn.input.clone()).map(|_| open),
            }
            .map_err(Failure::bug)?;
            let Content::Text(text) = &turn.answer.content else { return Err(Failure::bug("an answer in words")) };
            let ids = tokenizer.encode(text).map_err(Failure::bug)?;
            let token = |id| Token { id, logprob: 0.0, forced: false, support: None };
            let tokens: Vec<Token> = ids.into_iter().chain(end).map(token).collect();
            open.answer(&tokens).map_err(Failure::bug)?;
            episode = Some(open);
        }
        let segments = episode.as_ref().map_or(&[][..], hone_render::Episode::segments);
        let told = |why| Failure::bug(format!("{why:?}"));
        segments.iter().map(|segment| Episode::rendered(segment.ids.clone(), &segment.drawn).map_err(told)).collect()
    }
}
