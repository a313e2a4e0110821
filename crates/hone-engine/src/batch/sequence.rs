//! One sequence of a batch: its tokens, its pages, and how it takes what was drawn for it.

use std::ops::Range;
use std::sync::Arc;

use super::guess::Hope;
use super::request::{Finish, RequestId, Token};
use crate::backend::{Ask, Backend, BurstRow, Support};
use crate::constraint::{Constraint, Verdict};
use crate::kv::{Root, Version};
use crate::layout::PAGE;
use crate::lora::Adapter;
use crate::model::Model;
use crate::random::Stream;
use crate::sampler::{Drawn, SamplerOptions};

/// One running sequence; before its fork it stands for all samples of its request.
pub(super) struct Sequence<B: Backend> {
    pub(super) request: RequestId,
    pub(super) sample: usize,
    pub(super) version: Version,
    pub(super) adapter: Option<Arc<Adapter<B>>>,
    /// All tokens, prompt included.
    pub(super) ids: Vec<u32>,
    /// Tokens whose keys are in the pages.
    pub(super) n_fed: usize,
    pub(super) n_prompt: usize,
    pub(super) n_tokens_max: usize,
    pub(super) pages: Vec<u32>,
    /// Pages set aside for the tokens to come.
    pub(super) reserve: Vec<u32>,
    pub(super) sampler: SamplerOptions,
    pub(super) stop_ids: Arc<[u32]>,
    pub(super) stream: Stream,
    pub(super) constraint: Option<Box<dyn Constraint>>,
    pub(super) keep_support: bool,
    pub(super) n_likeliest: usize,
    pub(super) hope: Hope,
    /// What it is expected to say, behind the end of its prompt.
    pub(super) expected: Arc<[u32]>,
    pub(super) asker: u64,
    /// Samples still to be forked off, with their streams, constraints and reserves.
    pub(super) forks: Vec<Fork>,
}

/// The version of its weights, its request, its sample.
pub(super) type SequenceKey = (Version, RequestId, usize);

pub(super) struct Fork {
    pub(super) stream: Stream,
    pub(super) constraint: Option<Box<dyn Constraint>>,
    pub(super) reserve: Vec<u32>,
}

impl<B: Backend> Sequence<B> {
    /// Which of all that run it is; they run in this order.
    pub(super) fn key(&self) -> SequenceKey {
        (self.version, self.request, self.sample)
    }

    /// Where the chain of its pages begins.
    pub(super) fn root(&self) -> Root {
        Root { asker: self.asker, version: self.version }
    }

    /// Pages for so many more tokens, from those set aside.
    pub(super) fn take_pages(&mut self, n_tokens: usize) {
        let n_pages = (self.n_fed + n_tokens).div_ceil(PAGE);
        while self.pages.len() < n_pages {
            self.pages.push(self.reserve.pop().expect("pages were set aside at admission"));
        }
    }

    /// How many tokens may be guessed behind so many that it feeds now: none while it has more to feed, or others to fork.
    pub(super) fn n_guessable(&self, n_fed: usize, guess_cost: f32) -> usize {
        let n_left = self.n_tokens_max - (self.ids.len() - self.n_prompt);
        let is_last = self.n_fed + n_fed == self.ids.len() && self.forks.is_empty();
        // The row behind the last guess draws too.
        if self.hopes(guess_cost) && is_last { n_left.saturating_sub(1) } else { 0 }
    }

    /// True when something may be guessed. Where a guess takes the time of so many tokens, only what who asks expects is likely enough.
    pub(super) fn hopes(&self, guess_cost: f32) -> bool {
        self.hope.is_there(self.ids.len()) && (guess_cost == 0.0 || !self.expected.is_empty())
    }

    /// True when its next tokens need nothing but the model: one token to feed, no fork, no rule, nothing told beside the tokens.
    pub(super) fn is_plain(&self) -> bool {
        let tells_more = self.n_likeliest > 0 || (self.keep_support && self.sampler.truncates());
        self.ids.len() == self.n_fed + 1 && self.forks.is_empty() && self.is_free() && !tells_more
    }

    /// True when no rule has a say in what is drawn.
    pub(super) fn is_free(&self) -> bool {
        let is_free = |rule: &Option<Box<dyn Constraint>>| rule.as_ref().is_none_or(|rule| rule.only_stops());
        is_free(&self.constraint) && self.forks.iter().all(|fork| is_free(&fork.constraint))
    }

    /// Its draws from these rows of logits, or from the only one those of all samples that are about to fork.
    pub(super) fn asks(&mut self, rows: Range<usize>, vocab: usize) -> Vec<Ask> {
        let (sampler, n_ids) = (self.sampler, self.ids.len());
        let (keep_support, n_likeliest) = (self.keep_support, self.n_likeliest);
        let ask = |row: usize, stream: Stream, rule: &mut Option<Box<dyn Constraint>>| {
            let position = n_ids + row - rows.start;
            let (u, allowed) = (stream.uniform(position as u64), allowed(rule, vocab));
            Ask { row, sampler, u, allowed, keep_support, n_likeliest }
        };
        let own = rows.clone().map(|row| ask(row, self.stream, &mut self.constraint));
        own.chain(self.forks.iter_mut().map(|fork| ask(rows.start, fork.stream, &mut fork.constraint))).collect()
    }

    /// Its part in a burst of so many tokens, behind so many that are not known yet.
    pub(super) fn burst_row(&self, n_unknown: usize, n_tokens: usize) -> BurstRow<'_> {
        let position = self.n_fed + n_unknown;
        BurstRow {
            id: (n_unknown == 0).then(|| self.ids[position]),
            position,
            n_behind: 0,
            pages: &self.pages[..(position + n_tokens).div_ceil(PAGE)],
            sampler: self.sampler,
            stream: self.stream,
        }
    }

    /// A row for each of so many tokens that it feeds, and for what it is guessed to say behind them.
    pub(super) fn rows<'a>(&'a self, n_fed: usize, guess: &'a [u32]) -> impl Iterator<Item = BurstRow<'a>> {
        let fed = self.ids[self.n_fed..self.n_fed + n_fed].iter().chain(guess);
        fed.enumerate().map(|(i, &id)| BurstRow {
            id: Some(id),
            position: self.n_fed + i,
            n_behind: i,
            pages: &self.pages[..(self.n_fed + i + 1).div_ceil(PAGE)],
            ..self.burst_row(0, 1)
        })
    }

    /// Appends tokens drawn in a row, here and to `tokens`, up to the one that ends the sequence.
    pub(super) fn take_all(
        &mut self,
        model: &Model<B>,
        drawn: impl Iterator<Item = (u32, f32)>,
        tokens: &mut Vec<Token>,
    ) -> Option<Finish> {
        for (id, logprob) in drawn {
            self.n_fed += 1;
            let finish = self.take(model, Drawn::plain(id, logprob), tokens);
            if finish.is_some() {
                return finish;
            }
        }
        None
    }

    /// Appends what the rows behind its last token draw: row i counts where the i tokens before it are those that were guessed.
    pub(super) fn take_rows(
        &mut self,
        model: &Model<B>,
        (guess, guess_cost): (&[u32], f32),
        mut draw: impl FnMut(&mut Self, usize) -> Option<Drawn>,
        tokens: &mut Vec<Token>,
    ) -> Option<Finish> {
        let n_before = self.ids.len();
        let n_right = |ids: &[u32]| ids[n_before..].iter().zip(guess).take_while(|(id, guessed)| id == guessed).count();
        let mut finish = None;
        while finish.is_none() && n_right(&self.ids) == self.ids.len() - n_before {
            let drawn = draw(self, self.ids.len() - n_before);
            finish = self.take(model, drawn, tokens);
        }
        let n_right = n_right(&self.ids);
        self.n_fed = n_before + n_right;
        if !guess.is_empty() {
            self.hope.learn(n_right, guess_cost, self.ids.len());
        }
        finish
    }

    /// Appends a drawn token and what its constraint forces after it, here and to `tokens`.
    pub(super) fn take(&mut self, model: &Model<B>, drawn: Option<Drawn>, tokens: &mut Vec<Token>) -> Option<Finish> {
        let Some(Drawn { id, logprob, support, likeliest }) = drawn else {
            return Some(self.undrawn(model.config.vocab));
        };
        let support = support.filter(|_| self.keep_support);
        tokens.push(Token { id, logprob, forced: false, support, likeliest });
        self.ids.push(id);
        let mut finish = None;
        match self.constraint.as_mut().map_or(Verdict::Go, |rule| rule.accept(id)) {
            _ if self.stop_ids.contains(&id) => finish = Some(Finish::StopId),
            Verdict::Go => {}
            Verdict::Stop => finish = Some(Finish::Constraint),
            Verdict::Force(ids) => {
                let room = self.n_tokens_max.saturating_sub(self.ids.len() - self.n_prompt);
                for id in ids.into_iter().take(room) {
                    assert!((id as usize) < model.config.vocab, "a constraint forced an unknown token");
                    self.ids.push(id);
                    tokens.push(Token::new(id, 0.0, true));
                }
            }
        }
        if finish.is_none() && self.ids.len() - self.n_prompt >= self.n_tokens_max {
            finish = Some(Finish::Length);
        }
        finish
    }

    /// Why no token could be drawn. Where some were allowed, it is not for the constraint.
    fn undrawn(&mut self, vocab: usize) -> Finish {
        let is_allowed = |words: Support| (0..vocab).any(|id| words[id / 64] >> (id % 64) & 1 == 1);
        if allowed(&mut self.constraint, vocab).is_none_or(is_allowed) { Finish::NotFinite } else { Finish::NoToken }
    }
}

/// What a rule allows next; nothing stands for all of the vocabulary.
pub(super) fn allowed(rule: &mut Option<Box<dyn Constraint>>, vocab: usize) -> Option<Support> {
    let rule = rule.as_mut()?;
    let mut words = vec![u64::MAX; vocab.div_ceil(64)];
    rule.mask(&mut words).then(|| words.into())
}

/// Row ranges of each adapter; sequences are sorted by version.
pub(super) fn adapter_rows<'a, B: Backend>(running: &'a [Sequence<B>], fed: &[usize]) -> Vec<(Range<usize>, &'a Adapter<B>)> {
    let mut ranges: Vec<(Range<usize>, &Adapter<B>, Version)> = Vec::new();
    let mut row = 0;
    for (seq, &n_rows) in running.iter().zip(fed) {
        let rows = row..row + n_rows;
        row = rows.end;
        let Some(adapter) = &seq.adapter else {
            continue;
        };
        match ranges.last_mut() {
            Some((range, _, version)) if *version == seq.version && range.end == rows.start => {
                range.end = rows.end;
            }
            _ if rows.is_empty() => {}
            _ => ranges.push((rows, adapter, seq.version)),
        }
    }
    ranges.into_iter().map(|(rows, adapter, _)| (rows, adapter)).collect()
}
