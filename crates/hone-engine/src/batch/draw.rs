//! The draws of a step: from the head's input to the tokens of every sequence whose input is used up.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Batcher;
use super::sequence::{Sequence, allowed};
use crate::backend::{Ask, Backend, Support};
use crate::model::Model;
use crate::random::Stream;
use crate::sampler::{Drawn, SamplerOptions};

/// A sequence whose input is used up.
pub(super) struct Ready {
    /// Where it is among those that run.
    pub(super) index: usize,
    /// Its rows of the head's input: one, and one for every guessed token.
    pub(super) rows: Range<usize>,
    /// What was fed behind its last token.
    pub(super) guess: Vec<u32>,
}

/// What the rows of a sequence give.
pub(super) enum Found {
    /// A draw of every row, or of every sample that is about to fork.
    Drawn(Vec<Option<Drawn>>),
    /// The logits of every row: a draw takes the host time, which guesses that are wrong are not worth.
    Logits(Vec<Vec<f32>>),
    /// The draw of the first row, and the rows of the head's input, where the machine draws from them: a rule says what may be drawn from
    /// the next row when it has seen the token before.
    There(Option<Drawn>, Range<usize>),
}

/// The head's input, and what draws from it.
pub(super) struct Head<'a, B: Backend> {
    pub(super) backend: &'a B,
    pub(super) model: &'a Model<B>,
    pub(super) input: B::Act,
}

impl<B: Backend> Head<'_, B> {
    /// Draws where the logits are; `None` where the machine cannot.
    fn draw(&self, asks: &[Ask]) -> Option<Vec<Option<Drawn>>> {
        self.backend.draw(&self.input, self.model.head_weight(), asks)
    }
}

impl Found {
    /// The draw of one row, for the sequence as it is now, or the one of a sample.
    pub(super) fn draw<B: Backend>(&mut self, head: &Head<'_, B>, seq: &mut Sequence<B>, place: usize) -> Option<Drawn> {
        let vocab = head.model.config.vocab;
        match self {
            Self::Drawn(drawn) => drawn.get_mut(place)?.take(),
            Self::Logits(rows) => {
                let allowed = allowed(&mut seq.constraint, vocab);
                seq.how_drawn().draw(head.backend, &rows[place], seq.stream, allowed)
            }
            Self::There(first, _) if place == 0 => first.take(),
            Self::There(_, rows) => {
                let row = rows.start + place;
                head.draw(&seq.asks(row..row + 1, vocab))?.pop()?
            }
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
    /// For the sequence, or for every sample of it.
    Draw(HowDrawn, Vec<(Stream, Option<Support>)>),
    Keep,
    /// It is not the last one of its sequence's input.
    Skip,
}

impl<B: Backend> Sequence<B> {
    /// How its next token is drawn.
    fn how_drawn(&self) -> HowDrawn {
        HowDrawn { sampler: self.sampler, position: self.ids.len() as u64, n_likeliest: self.n_likeliest }
    }
}

impl<B: Backend> Batcher<B> {
    /// Draws for every ready sequence, and for all samples of one that is about to fork.
    pub(super) fn draw(&mut self, head: &Head<'_, B>, ready: &[Ready]) -> Vec<Found> {
        if let Some(drawn) = self.draw_there(head, ready) {
            return drawn;
        }
        let vocab = head.model.config.vocab;
        let n_rows = ready.iter().map(|ready| ready.rows.end).max().unwrap_or(0);
        let mut rows: Vec<Row> = (0..n_rows).map(|_| Row::Skip).collect();
        for Ready { index, rows: of_head, guess } in ready {
            let seq = &mut self.running[*index];
            if !guess.is_empty() {
                of_head.clone().for_each(|row| rows[row] = Row::Keep);
                continue;
            }
            let mut draws = vec![(seq.stream, allowed(&mut seq.constraint, vocab))];
            draws.extend(seq.forks.iter_mut().map(|fork| (fork.stream, allowed(&mut fork.constraint, vocab))));
            rows[of_head.start] = Row::Draw(seq.how_drawn(), draws);
        }
        let found: Vec<Mutex<Found>> = rows.iter().map(|_| Mutex::new(Found::Drawn(Vec::new()))).collect();
        head.backend.logits(&head.input, head.model.head_weight(), &|row, logits| {
            let this = match rows.get(row).unwrap_or(&Row::Skip) {
                Row::Draw(how, draws) => {
                    let draw =
                        |(stream, allowed): &(Stream, Option<Support>)| how.draw(head.backend, logits, *stream, allowed.clone());
                    Found::Drawn(draws.iter().map(draw).collect())
                }
                Row::Keep => Found::Logits(vec![logits.to_vec()]),
                Row::Skip => return,
            };
            *found[row].lock().unwrap_or_else(PoisonError::into_inner) = this;
        });
        let mut found: Vec<Option<Found>> =
            found.into_iter().map(|cell| Some(cell.into_inner().unwrap_or_else(PoisonError::into_inner))).collect();
        ready.iter().map(|ready| joined(found[ready.rows.clone()].iter_mut().filter_map(Option::take))).collect()
    }

    /// Draws where the logits are, when the machine can.
    fn draw_there(&mut self, head: &Head<'_, B>, ready: &[Ready]) -> Option<Vec<Found>> {
        // Who cannot draw from nothing cannot draw there at all.
        head.draw(&[])?;
        let (mut asks, mut counts) = (Vec::new(), Vec::with_capacity(ready.len()));
        for Ready { index, rows, .. } in ready {
            let seq = &mut self.running[*index];
            let n_now = if seq.is_free() { rows.len() } else { 1 };
            let asked = seq.asks(rows.start..rows.start + n_now, head.model.config.vocab);
            counts.push((asked.len(), n_now == rows.len()));
            asks.extend(asked);
        }
        let mut drawn = head.draw(&asks)?.into_iter();
        let found = |((n, is_all), ready): ((usize, bool), &Ready)| {
            let mut now = drawn.by_ref().take(n);
            if is_all { Found::Drawn(now.collect()) } else { Found::There(now.next().flatten(), ready.rows.clone()) }
        };
        Some(counts.into_iter().zip(ready).map(found).collect())
    }
}

/// The rows of one sequence as one.
fn joined(rows: impl Iterator<Item = Found>) -> Found {
    let (mut drawn, mut logits) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Found::Drawn(more) => drawn.extend(more),
            Found::Logits(more) => logits.extend(more),
            Found::There(..) => {}
        }
    }
    if logits.is_empty() { Found::Drawn(drawn) } else { Found::Logits(logits) }
}
