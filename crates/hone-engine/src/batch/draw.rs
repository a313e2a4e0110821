//! The draws of a step: from rows of logits to the tokens of every sequence whose input is used up.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Batcher;
use super::sequence::Sequence;
use crate::backend::{Ask, Backend, Support};
use crate::constraint::Constraint;
use crate::model::Model;
use crate::random::Stream;
use crate::sampler::{Drawn, SamplerOptions};

/// A sequence whose input is used up.
pub(super) struct Ready {
    /// Where it is among those that run.
    pub(super) index: usize,
    /// Its rows of logits: one, and one for every guessed token.
    pub(super) rows: Range<usize>,
    /// What was fed behind its last token.
    pub(super) guess: Vec<u32>,
}

/// What the rows of a sequence gave.
pub(super) enum Found {
    /// A draw of every row, or of every sample that is about to fork.
    Drawn(Vec<Option<Drawn>>),
    /// The logits of every row: its rule says what may be drawn once it has seen the token before.
    Logits(Vec<Vec<f32>>),
}

impl Found {
    /// The draw of one row, for the sequence as it is now, or the one of a sample.
    pub(super) fn draw<B: Backend>(&mut self, backend: &B, seq: &mut Sequence<B>, place: usize) -> Option<Drawn> {
        match self {
            Self::Drawn(drawn) => drawn.get_mut(place)?.take(),
            Self::Logits(rows) => seq.draw(backend, &rows[place]),
        }
    }
}

/// How the draws of a row are made.
struct HowDrawn {
    sampler: SamplerOptions,
    position: u64,
    n_likeliest: usize,
}

impl HowDrawn {
    fn draw<B: Backend>(&self, backend: &B, logits: &[f32], stream: Stream, allowed: Option<Support>) -> Option<Drawn> {
        let drawn = self.sampler.draw(backend, logits, allowed, stream.uniform(self.position))?;
        let likeliest = self.sampler.likeliest(backend, logits, &drawn.support, self.n_likeliest);
        Some(Drawn { likeliest, ..drawn })
    }
}

/// What to do with a row.
enum Row {
    Draw(HowDrawn, Vec<(Stream, Option<Support>)>),
    Keep,
}

impl<B: Backend> Sequence<B> {
    /// How the draw of its next token but so many is made.
    fn how_drawn(&self, n_ahead: usize) -> HowDrawn {
        HowDrawn { sampler: self.sampler, position: (self.ids.len() + n_ahead) as u64, n_likeliest: self.n_likeliest }
    }

    /// Draws its next token from a row of logits.
    pub(super) fn draw(&mut self, backend: &B, logits: &[f32]) -> Option<Drawn> {
        let allowed = allowed(&mut self.constraint, logits.len());
        self.how_drawn(0).draw(backend, logits, self.stream, allowed)
    }
}

/// What a rule allows next; nothing stands for all of the vocabulary.
fn allowed(constraint: &mut Option<Box<dyn Constraint>>, vocab: usize) -> Option<Support> {
    let rule = constraint.as_mut()?;
    let mut words = vec![u64::MAX; vocab.div_ceil(64)];
    rule.mask(&mut words).then(|| words.into())
}

impl<B: Backend> Batcher<B> {
    /// Draws for every ready sequence, and for all samples of one that is about to fork.
    pub(super) fn draw(&mut self, backend: &B, model: &Model<B>, head_in: &B::Act, ready: &[Ready]) -> Vec<Found> {
        if let Some(drawn) = self.draw_there(backend, model, head_in, ready) {
            return drawn;
        }
        let vocab = model.config.vocab;
        let mut rows = Vec::new();
        for Ready { index, guess, .. } in ready {
            let seq = &mut self.running[*index];
            if seq.constraint.is_some() && !guess.is_empty() {
                rows.extend((0..=guess.len()).map(|_| Row::Keep));
                continue;
            }
            let mut draws = vec![(seq.stream, allowed(&mut seq.constraint, vocab))];
            draws.extend(seq.forks.iter_mut().map(|fork| (fork.stream, allowed(&mut fork.constraint, vocab))));
            rows.push(Row::Draw(seq.how_drawn(0), draws));
            rows.extend((1..=guess.len()).map(|i| Row::Draw(seq.how_drawn(i), vec![(seq.stream, None)])));
        }
        let found: Vec<Mutex<Found>> = rows.iter().map(|_| Mutex::new(Found::Drawn(Vec::new()))).collect();
        backend.logits(head_in, model.head_weight(), &|row, logits| {
            let this = match &rows[row] {
                Row::Draw(how, draws) => {
                    let draw =
                        |(stream, allowed): &(Stream, Option<Support>)| how.draw(backend, logits, *stream, allowed.clone());
                    Found::Drawn(draws.iter().map(draw).collect())
                }
                Row::Keep => Found::Logits(vec![logits.to_vec()]),
            };
            *found[row].lock().unwrap_or_else(PoisonError::into_inner) = this;
        });
        let mut found = found.into_iter().map(|cell| cell.into_inner().unwrap_or_else(PoisonError::into_inner));
        ready.iter().map(|Ready { rows, .. }| joined(found.by_ref().take(rows.len()))).collect()
    }

    /// Draws where the logits are, when no ready sequence needs the host for it and the machine can.
    fn draw_there(&self, backend: &B, model: &Model<B>, head_in: &B::Act, ready: &[Ready]) -> Option<Vec<Found>> {
        if !ready.iter().all(|ready| self.running[ready.index].draws_plainly()) {
            return None;
        }
        let asks: Vec<Vec<Ask>> = ready.iter().map(|ready| self.running[ready.index].asks(ready.rows.clone())).collect();
        let mut drawn = backend.draw(head_in, model.head_weight(), &asks.concat())?.into_iter();
        let mut next = || drawn.next().and_then(|(id, logprob)| Drawn::plain(id, logprob));
        Some(asks.iter().map(|asks| Found::Drawn(asks.iter().map(|_| next()).collect())).collect())
    }
}

/// The rows of one sequence as one.
fn joined(rows: impl Iterator<Item = Found>) -> Found {
    let (mut drawn, mut logits) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Found::Drawn(more) => drawn.extend(more),
            Found::Logits(more) => logits.extend(more),
        }
    }
    if logits.is_empty() { Found::Drawn(drawn) } else { Found::Logits(logits) }
}
