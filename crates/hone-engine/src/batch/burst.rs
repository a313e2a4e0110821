//! Bursts: a machine's own path for plain draws, several tokens of every sequence without the host, or one and what is guessed to follow.

use super::draw::Ready;
use super::request::Event;
use super::sequence::{Sequence, SequenceKey, adapter_rows};
use super::{Batcher, Fed};
use crate::backend::{Backend, Drawing};
use crate::model::Model;
use crate::sampler::Drawn;

/// Most tokens of a burst when nothing could be guessed, and something may be after it.
const BURST_MAX: usize = 2;

/// Several tokens of some sequences, on their way.
pub(super) struct Burst {
    /// Whose tokens.
    of: Vec<SequenceKey>,
    n_tokens: usize,
    drawing: Drawing,
}

/// What the next burst does while this one is computed and used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Waits,
    Begins,
}

impl<B: Backend> Batcher<B> {
    /// What follows the next token of every sequence is guessed, and drawn with it, where the machine has a path of its own for that and
    /// anything can be guessed.
    pub(super) fn burst_guessed(&mut self, backend: &B, model: &Model<B>) -> Option<Vec<Event>> {
        let is_plain = backend.burst_max() > 0 && self.running.iter().all(Sequence::is_plain);
        if self.ahead.is_some() || !is_plain || !self.guesses(backend) {
            return None;
        }
        let fed = self.with_guesses(backend, vec![1; self.running.len()]);
        if fed.iter().all(|fed| fed.guess.is_empty()) {
            return None;
        }
        let n_rows: Vec<usize> = fed.iter().map(Fed::n_rows).collect();
        let rows: Vec<_> = self.running.iter().zip(&fed).flat_map(|(seq, fed)| seq.rows(1, &fed.guess)).collect();
        let drawing = backend.burst(model, &mut self.kvs, &adapter_rows(&self.running, &n_rows), &rows, 1)?;
        let drawn: Vec<(u32, f32)> = drawing.flat_map(|draws| draws.tokens).collect();
        let (mut ready, mut row) = (Vec::with_capacity(fed.len()), 0);
        for (index, Fed { guess, .. }) in fed.into_iter().enumerate() {
            self.running[index].n_fed += 1;
            let rows = row..row + 1 + guess.len();
            row = rows.end;
            ready.push(Ready { index, rows, guess });
        }
        let firsts: Vec<usize> = ready.iter().map(|ready| ready.rows.start).collect();
        Some(self.settle(backend, model, ready, |_, which, place| {
            let (id, logprob) = drawn[firsts[which] + place];
            Drawn::plain(id, logprob)
        }))
    }

    /// Several tokens of every sequence at once, where the machine has such a path. The next burst may begin while the last of them are
    /// computed, if it is likely to be of the same sequences: then the machine waits for nobody.
    pub(super) fn burst(&mut self, backend: &B, model: &Model<B>, next: Next) -> Option<Vec<Event>> {
        let ahead = self.ahead.take().filter(|burst| burst.of.iter().any(|key| self.place(key).is_some()));
        let Burst { of, n_tokens, drawing } = ahead.or_else(|| self.begin(backend, model, 0))?;
        // Whoever was withdrawn meanwhile has no place, and whoever came is not among them.
        let places: Vec<Option<usize>> = of.iter().map(|key| self.place(key)).collect();
        let is_of_all = places.len() == self.running.len() && places.iter().all(Option::is_some);
        let event = |&(_, request, sample): &SequenceKey| {
            let tokens = Vec::with_capacity(n_tokens);
            Event { request, sample, tokens, finish: None }
        };
        let mut events: Vec<Event> = of.iter().map(event).collect();
        let mut n_unknown = n_tokens;
        for draws in drawing {
            for (index, (&place, event)) in places.iter().zip(&mut events).enumerate() {
                if let (Some(place), None) = (place, event.finish) {
                    event.finish = self.running[place].take_all(model, draws.of(index), &mut event.tokens);
                }
            }
            n_unknown -= draws.tokens.len() / draws.n_sequences;
            let is_same =
                is_of_all && self.queue.is_empty() && !self.guesses(backend) && events.iter().all(|event| event.finish.is_none());
            if next == Next::Begins && n_unknown > 0 && is_same {
                self.ahead = self.begin(backend, model, n_unknown);
            }
        }
        // From the end, so that those before keep their places.
        for (event, place) in events.iter().zip(&places).rev() {
            if let (Some(_), &Some(place)) = (event.finish, place) {
                let seq = self.running.remove(place);
                self.release(seq);
            }
        }
        let kept = events.into_iter().zip(places).filter(|(_, place)| place.is_some());
        Some(kept.map(|(event, _)| event).collect())
    }

    /// Where a sequence is among those that run, which are sorted.
    fn place(&self, key: &SequenceKey) -> Option<usize> {
        self.running.binary_search_by_key(key, Sequence::key).ok()
    }

    /// Begins a burst of all sequences, behind so many tokens that are not known yet, if nobody must be asked in between: one token
    /// to feed each, no rules, nothing told beside the tokens. What is drawn behind a sequence's end is dropped.
    pub(super) fn begin(&mut self, backend: &B, model: &Model<B>, n_unknown: usize) -> Option<Burst> {
        let left = |seq: &Sequence<B>| seq.n_tokens_max - (seq.ids.len() - seq.n_prompt);
        // Guesses are made between bursts.
        let n_tokens_max = if self.guesses(backend) { BURST_MAX.min(backend.burst_max()) } else { backend.burst_max() };
        let n_tokens = self.running.iter().map(left).min()?.saturating_sub(n_unknown).min(n_tokens_max);
        if n_tokens == 0 || !self.running.iter().all(Sequence::is_plain) {
            return None;
        }
        for seq in &mut self.running {
            seq.take_pages(n_unknown + n_tokens);
        }
        let fed = vec![1; self.running.len()];
        let adapters = adapter_rows(&self.running, &fed);
        let rows: Vec<_> = self.running.iter().map(|seq| seq.burst_row(n_unknown, n_tokens)).collect();
        let drawing = backend.burst(model, &mut self.kvs, &adapters, &rows, n_tokens)?;
        let of = self.running.iter().map(Sequence::key).collect();
        Some(Burst { of, n_tokens, drawing })
    }
}
