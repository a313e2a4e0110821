//! Imitation: doing what was done in traces that somebody else wrote.

use super::Learner;
use crate::failure::{Failure, at_path};
use hone_engine::checkpoint;
use hone_engine::optim::Schedule;
use hone_render::{RenderError, Setting};
use hone_trace::Trace;
use hone_train::episode::Episode;
use hone_train::sft;
use hone_train::step::{Objective, StepOptions};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Trained tokens of a step, unless said otherwise.
const N_TOKENS: usize = 256;
/// Steps between two that are kept.
const KEEP_EVERY: usize = 500;
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

/// Why a trace cannot be learned from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unlearnable {
    /// Nobody told its tokens, and they may not be made.
    #[error("its tokens are not known")]
    NoTokens,
    /// A stretch of it that is trained has more tokens than the model reads.
    #[error("it is longer than the context")]
    TooLong,
    /// The chat template refuses it, or it has something that is no text.
    #[error(transparent)]
    Unrendered(#[from] RenderError),
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

    /// The same once through, kept below `folder` now and then: who was killed goes on there, to the same bits.
    pub(crate) fn imitate_durably(
        &mut self,
        traces: &[Trace],
        lr: f32,
        folder: &Path,
        tick: impl Fn(usize, usize),
    ) -> Result<Imitated, Failure> {
        fs::create_dir_all(folder).map_err(at_path(folder))?;
        let path = |step: usize| folder.join(format!("{step}.safetensors"));
        let steps = fs::read_dir(folder).map_err(at_path(folder))?.flatten();
        let kept = steps.filter_map(|file| file.path().file_stem()?.to_str()?.parse::<usize>().ok()).max();
        if let Some(step) = kept {
            let state = checkpoint::load(&path(step)).map_err(Failure::world)?;
            self.restore(state).map_err(|failure| failure.context(path(step).display()))?;
        }
        let mut last = kept;
        self.imitate_from(traces, N_TOKENS, lr, usize::MAX, kept.unwrap_or(0), |learner, step, n_steps| {
            tick(step, n_steps);
            if step.is_multiple_of(KEEP_EVERY) || step == n_steps {
                checkpoint::save(&path(step), &learner.state()?).map_err(Failure::world)?;
                // What cannot be removed only takes room.
                let _ = last.replace(step).map(|before| fs::remove_file(path(before)));
            }
            Ok(())
        })
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
        self.imitate_from(traces, n_tokens_step, lr, n_tokens_max, 0, |_, step, n_steps| {
            tick(step, n_steps);
            Ok(())
        })
    }

    /// From the step on that follows this many; `seen` is called after every one.
    fn imitate_from(
        &mut self,
        traces: &[Trace],
        n_tokens_step: usize,
        lr: f32,
        n_tokens_max: usize,
        n_done: usize,
        mut seen: impl FnMut(&mut Self, usize, usize) -> Result<(), Failure>,
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
            if i < n_done {
                continue;
            }
            let now = Schedule::Constant { lr: schedule.lr(i as u64) };
            losses.push(self.step(batch, StepOptions::new(Objective::Imitation, now))?.loss);
            seen(self, i + 1, n_steps)?;
        }
        let last = &losses[losses.len().saturating_sub(20)..];
        Ok(Imitated { n_tokens, loss: hone_eval::interval::mean(last).0 })
    }

    /// The trained tokens of a trace, those of `wanted` turns: as the sampler told them where it was a model of this language, or else
    /// rendered, where that is allowed. They fit the context.
    pub(crate) fn episode(&self, trace: &Trace, wanted: &[bool], may_render: bool) -> Result<Episode, Unlearnable> {
        let own = self.is_own(trace).then(|| Episode::of_turns(trace, |turn_idx| wanted[turn_idx]).ok()).flatten();
        let episode = match own {
            None if may_render => Episode::joined(self.render(trace, wanted, self.context_len())?),
            own => own,
        };
        let episode = episode.ok_or(Unlearnable::NoTokens)?;
        if episode.n_longest() > self.context_len() { Err(Unlearnable::TooLong) } else { Ok(episode) }
    }

    /// The tokens of a trace that no model sampled, with the answers as what is trained: one episode, or one per turn where the
    /// model does not remember the turns before.
    fn rendered(&self, trace: &Trace) -> Result<Vec<Episode>, Failure> {
        self.render(trace, &vec![true; trace.turns().count()], usize::MAX).map_err(Failure::bug)
    }

    /// Every turn renders the conversation so far, as only the template knows what it makes of it. So one that is longer than `n_ids_max`
    /// is given up where it becomes so.
    fn render(&self, trace: &Trace, wanted: &[bool], n_ids_max: usize) -> Result<Vec<Episode>, Unlearnable> {
        let (mut episodes, mut wanted) = (Vec::new(), wanted.iter());
        for segment in &trace.segments {
            let setting =
                Setting { tools: segment.tools.clone(), memory: self.local.memory, now: self.local.now, ..Setting::default() };
            let mut episode: Option<hone_render::Episode> = None;
            for turn in &segment.turns {
                let mut open = match episode.take() {
                    None => hone_render::Episode::open(Arc::clone(&self.renderer), turn.input.clone(), setting.clone())?,
                    Some(mut open) => open.extend(turn.input.clone()).map(|_| open)?,
                };
                let is_wanted = wanted.next().copied().unwrap_or(false);
                open.imitate(turn.answer.clone(), &self.local.stop_ids, is_wanted)?;
                if open.segments().last().is_some_and(|told| told.ids.len() > n_ids_max && told.drawn.contains(&true)) {
                    return Err(Unlearnable::TooLong);
                }
                episode = Some(open);
            }
            let told = episode.as_ref().map_or(&[][..], hone_render::Episode::segments);
            episodes.extend(told.iter().filter_map(|told| Episode::rendered(told.ids.clone(), &told.drawn).ok()));
        }
        Ok(episodes)
    }

    /// Whether the tokens of a trace are of this model's tokenizer: they say what the answers say.
    fn is_own(&self, trace: &Trace) -> bool {
        let tokenizer = self.renderer.tokenizer();
        let vocab = self.config.vocab;
        trace.turns().filter_map(|turn| Some((turn.sampled.as_ref()?, &turn.answer))).all(|(sampled, answer)| {
            let is_known = sampled.ids.iter().chain(&sampled.input_ids).all(|&id| (id as usize) < vocab);
            is_known && tokenizer.decode(&sampled.ids).contains(answer.content.text().trim())
        })
    }
}
