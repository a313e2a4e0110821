//! Continuous batching: sequences come and go, and every step feeds each of them its next tokens.
//!
//! A step gathers the rows of all sequences (a prompt is many rows, a continuing sequence one), runs the model once, and
//! draws the next token of every sequence whose input is used up. The prompt of a request with n samples is fed once;
//! then the sequence is forked: full pages are shared, the last one is copied. A request is admitted when pages for its
//! longest outcome are there, so an admitted sequence is never thrown out.
//!
//! Each sequence has its own random stream (request seed, sequence number) and draws at its position, so its tokens do
//! not depend on what else is in the batch. Its adapter version is fixed when it is submitted.
//! Knows nothing of text or time.

mod draw;
mod guess;
mod request;
mod sequence;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::backend::{Backend, Drawing};
use crate::forward::{head_input, hidden};
use crate::kv::{PageBook, Version};
use crate::layout::{Layout, PAGE};
use crate::model::Model;
use crate::random::Stream;
use crate::sampler::Drawn;
use draw::{Found, Ready};
use guess::Said;
use sequence::{Fork, Sequence, SequenceKey, adapter_rows};

pub use request::{BatchLimits, Event, Finish, Request, RequestId, SubmitError, Token};

/// Most tokens of a burst when nothing could be guessed, and something may be after it.
const BURST_MAX: usize = 2;

struct Waiting<B: Backend> {
    id: RequestId,
    request: Request<B>,
}

/// Several tokens of some sequences, on their way.
struct Burst {
    /// Whose tokens.
    of: Vec<SequenceKey>,
    n_tokens: usize,
    drawing: Drawing,
}

/// What the next burst does while this one is computed and used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Waits,
    Begins,
}

/// The batcher and its pages.
pub struct Batcher<B: Backend> {
    limits: BatchLimits,
    model_version: u64,
    book: PageBook,
    kvs: Vec<B::Kv>,
    queue: VecDeque<Waiting<B>>,
    running: Vec<Sequence<B>>,
    next_request: u64,
    early: Vec<Event>,
    /// The next burst, begun before the one before it was over.
    ahead: Option<Burst>,
    said: Said,
}

impl<B: Backend> Batcher<B> {
    /// Makes the pages.
    pub fn new(backend: &B, model: &Model<B>, limits: BatchLimits) -> Self {
        Self {
            limits,
            model_version: 0,
            book: PageBook::new(limits.n_pages),
            kvs: model.blocks.iter().map(|_| backend.kv(model.heads(), limits.n_pages)).collect(),
            queue: VecDeque::new(),
            running: Vec::new(),
            next_request: 0,
            early: Vec::new(),
            ahead: None,
            said: Said::default(),
        }
    }

    /// Tells that the model's weights changed: prefixes computed before are not shared with what comes.
    pub fn model_changed(&mut self) {
        self.model_version += 1;
    }

    /// True when nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty() && self.early.is_empty()
    }

    /// Takes a request into the queue.
    pub fn submit(&mut self, model: &Model<B>, request: Request<B>) -> Result<RequestId, SubmitError> {
        self.check(model, &request)?;
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.queue.push_back(Waiting { id, request });
        Ok(id)
    }

    /// Withdraws a request; its unfinished samples end as cancelled in the next step's events.
    pub fn cancel(&mut self, id: RequestId) {
        let cancelled = |sample| Event { request: id, sample, tokens: vec![], finish: Some(Finish::Cancelled) };
        for waiting in self.queue.iter().filter(|waiting| waiting.id == id) {
            self.early.extend((0..waiting.request.n_samples).map(cancelled));
        }
        self.queue.retain(|waiting| waiting.id != id);
        let (gone, kept) = std::mem::take(&mut self.running).into_iter().partition(|seq| seq.request == id);
        self.running = kept;
        for sequence in gone {
            let sequence: Sequence<B> = sequence;
            self.early.extend((sequence.sample..=sequence.sample + sequence.forks.len()).map(cancelled));
            self.release(sequence);
        }
    }

    fn check(&self, model: &Model<B>, request: &Request<B>) -> Result<(), SubmitError> {
        request.sampler.validated()?;
        if request.prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        let vocab = model.config.vocab;
        let unknown = request.prompt.iter().find(|&&id| id as usize >= vocab);
        if let Some(&id) = unknown {
            return Err(SubmitError::UnknownToken { id, vocab });
        }
        if self.queue.len() >= self.limits.queue_len_max {
            return Err(SubmitError::QueueFull(self.queue.len()));
        }
        let n_constraints = request.constraints.len();
        let constraints_fit = n_constraints == 0 || n_constraints == request.n_samples;
        if !(1..=self.limits.n_sequences_max).contains(&request.n_samples) || !constraints_fit {
            return Err(SubmitError::Samples { n_samples: request.n_samples, n_constraints });
        }
        let n_tokens = request.prompt.len().saturating_add(request.n_tokens_max);
        if request.prompt.len() > model.n_positions || n_tokens > model.n_positions {
            return Err(SubmitError::TooLong { n_tokens, n_tokens_max: model.n_positions });
        }
        let (first, further) = pages_needed(request);
        if first + further * (request.n_samples - 1) > self.limits.n_pages {
            return Err(SubmitError::TooLong { n_tokens, n_tokens_max: self.limits.n_pages * PAGE });
        }
        Ok(())
    }

    /// Admits what fits, feeds every sequence, draws tokens. One run of the model, or a burst of them.
    pub fn step(&mut self, backend: &B, model: &Model<B>) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.early);
        events.extend(self.advance(backend, model, Next::Waits));
        events
    }

    /// The same, and the next burst is on its way while the caller uses what was drawn. Whoever comes meanwhile waits for it to end, so
    /// this is for callers that have asked for everything.
    pub fn step_ahead(&mut self, backend: &B, model: &Model<B>) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.early);
        events.extend(self.advance(backend, model, Next::Begins));
        if self.ahead.is_none() && self.queue.is_empty() && !self.guesses(backend) {
            self.running.sort_by_key(Sequence::key);
            self.ahead = self.begin(backend, model, 0);
        }
        events
    }

    fn advance(&mut self, backend: &B, model: &Model<B>, next: Next) -> Vec<Event> {
        self.admit();
        if self.running.is_empty() {
            self.ahead = None;
            return vec![];
        }
        // Adapters in runs of rows; the order of sequences changes no bit of any of them.
        self.running.sort_by_key(Sequence::key);
        if let Some(drawn) = self.burst_guessed(backend, model).or_else(|| self.burst(backend, model, next)) {
            return drawn;
        }
        let fed = self.feed();
        let guesses = self.guess(backend, &fed);
        let n_rows: Vec<usize> = fed.iter().zip(&guesses).map(|(fed, guess)| fed + guess.len()).collect();
        let mut layout = Layout::default();
        for (index, seq) in self.running.iter().enumerate().filter(|&(index, _)| n_rows[index] > 0) {
            let n_pages = (seq.n_fed + n_rows[index]).div_ceil(PAGE);
            let ids = [&seq.ids[seq.n_fed..seq.n_fed + fed[index]], &guesses[index]].concat();
            layout.push_run(&ids, seq.n_fed, seq.pages[..n_pages].to_vec(), index);
        }
        layout.finish();
        let adapters = adapter_rows(&self.running, &n_rows);
        let x = hidden(backend, model, &layout, &mut self.kvs, &adapters);
        drop(adapters);

        // From the last row of a sequence's input on, rows give tokens.
        let (mut last_rows, mut ready, mut row) = (Vec::new(), Vec::new(), 0);
        for (index, (seq, guess)) in self.running.iter_mut().zip(guesses).enumerate() {
            seq.n_fed += fed[index];
            row += n_rows[index];
            if n_rows[index] > 0 && seq.n_fed == seq.ids.len() {
                let first = last_rows.len();
                last_rows.extend((row - 1 - guess.len()..row).map(|row| row as u32));
                ready.push(Ready { index, rows: first..last_rows.len(), guess });
            }
        }
        self.remember_prompts();
        if ready.is_empty() {
            return vec![];
        }
        let head_in = head_input(backend, model, &x, &last_rows);
        let found = self.draw(backend, model, &head_in, &ready);
        self.settle(backend, model, ready, found)
    }

    /// True where a step has room for guesses.
    fn guesses(&self, backend: &B) -> bool {
        backend.n_rows_light() >= 2 * self.running.len() && self.running.iter().any(|seq| seq.guesses)
    }

    /// What each sequence may say behind what it feeds: as much as fits into a step that takes no longer for it.
    fn guess(&mut self, backend: &B, fed: &[usize]) -> Vec<Vec<u32>> {
        let room = backend.n_rows_light().min(self.limits.n_rows_max).saturating_sub(fed.iter().sum());
        let n_each = room / self.running.len();
        let guess = |(seq, &n_fed): (&mut Sequence<B>, &usize)| {
            let guess = self.said.guess(seq.asker, &seq.ids, seq.n_guessable(n_fed).min(n_each));
            seq.take_pages(n_fed + guess.len());
            guess
        };
        self.running.iter_mut().zip(fed).map(guess).collect()
    }

    /// What follows the next token of every sequence is guessed, and drawn with it, where the machine has a path of its own for that and
    /// anything can be guessed.
    fn burst_guessed(&mut self, backend: &B, model: &Model<B>) -> Option<Vec<Event>> {
        let is_plain = backend.burst_max() > 0 && self.running.iter().all(Sequence::is_plain);
        if self.ahead.is_some() || !is_plain || !self.guesses(backend) {
            return None;
        }
        let guesses = self.guess(backend, &vec![1; self.running.len()]);
        if guesses.iter().all(Vec::is_empty) {
            return None;
        }
        let n_rows: Vec<usize> = guesses.iter().map(|guess| 1 + guess.len()).collect();
        let adapters = adapter_rows(&self.running, &n_rows);
        let rows: Vec<_> = self.running.iter().zip(&guesses).flat_map(|(seq, guess)| seq.guessed_rows(guess)).collect();
        let drawing = backend.burst(model, &mut self.kvs, &adapters, &rows, 1)?;
        let mut drawn = drawing.flat_map(|draws| draws.tokens).map(|(id, logprob)| Drawn::plain(id, logprob));
        let mut ready = Vec::with_capacity(guesses.len());
        let mut found = Vec::with_capacity(guesses.len());
        for (index, guess) in guesses.into_iter().enumerate() {
            self.running[index].n_fed += 1;
            found.push(Found::Drawn(drawn.by_ref().take(1 + guess.len()).collect()));
            ready.push(Ready { index, rows: 0..0, guess });
        }
        Some(self.settle(backend, model, ready, found))
    }

    /// Several tokens of every sequence at once, where the machine has such a path. The next burst may begin while the last of them are
    /// computed, if it is likely to be of the same sequences: then the machine waits for nobody.
    fn burst(&mut self, backend: &B, model: &Model<B>, next: Next) -> Option<Vec<Event>> {
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
    /// to feed each, drawn from the whole vocabulary, no rules. What is drawn behind a sequence's end is dropped.
    fn begin(&mut self, backend: &B, model: &Model<B>, n_unknown: usize) -> Option<Burst> {
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

    /// Moves requests from the queue while sequences and pages are left.
    fn admit(&mut self) {
        while let Some(waiting) = self.queue.front() {
            let n_running: usize = self.running.iter().map(|seq| 1 + seq.forks.len()).sum();
            let (first, further) = pages_needed(&waiting.request);
            let n_samples = waiting.request.n_samples;
            if n_running + n_samples > self.limits.n_sequences_max || first + further * (n_samples - 1) > self.book.n_available()
            {
                return;
            }
            let Some(waiting) = self.queue.pop_front() else {
                return;
            };
            let sequence = self.start(waiting, (first, further));
            self.running.push(sequence);
        }
    }

    fn start(&mut self, waiting: Waiting<B>, (n_first, n_further): (usize, usize)) -> Sequence<B> {
        let Waiting { id, request } = waiting;
        let adapter_version = request.adapter.as_ref().map_or(0, |(version, _)| version.0 + 1);
        let version = Version(self.model_version << 40 | adapter_version);
        let n_prompt = request.prompt.len();
        // The last prompt token is always fed: its row predicts the first token.
        let mut pages = self.book.take_known(version, &request.prompt[..n_prompt - 1]);
        let n_fed = pages.len() * PAGE;
        let mut take = |n: usize| -> Vec<u32> {
            (0..n).map(|_| self.book.take_empty().expect("pages were counted before admission")).collect()
        };
        pages.extend(take(n_prompt.div_ceil(PAGE) - pages.len()));
        let mut constraints = request.constraints.into_iter();
        let mut forks: Vec<Fork> = (0..request.n_samples as u64)
            .map(|i| Fork {
                stream: Stream::new(request.seed, request.sequence.wrapping_add(i)),
                constraint: constraints.next(),
                reserve: take(if i == 0 { n_first - n_prompt.div_ceil(PAGE) } else { n_further }),
            })
            .collect();
        let first = forks.remove(0);
        Sequence {
            request: id,
            sample: 0,
            version,
            adapter: request.adapter.map(|(_, adapter)| adapter),
            ids: request.prompt,
            n_fed,
            n_prompt,
            n_tokens_max: request.n_tokens_max,
            pages,
            reserve: first.reserve,
            sampler: request.sampler,
            stop_ids: request.stop_ids.into(),
            stream: first.stream,
            constraint: first.constraint,
            keep_support: request.keep_support,
            n_likeliest: request.n_likeliest,
            guesses: request.guesses,
            asker: request.asker,
            forks,
        }
    }

    /// How many tokens each sequence feeds: continuing ones first, then prompts as far as the step has room.
    fn feed(&mut self) -> Vec<usize> {
        let pending: Vec<usize> = self.running.iter().map(|seq| seq.ids.len() - seq.n_fed).collect();
        let mut fed: Vec<usize> = pending.iter().map(|&n| n.min(1)).collect();
        let mut room = self.limits.n_rows_max.saturating_sub(fed.iter().sum());
        for (fed, &pending) in fed.iter_mut().zip(&pending) {
            let more = (pending - *fed).min(room);
            *fed += more;
            room -= more;
        }
        for (seq, &n) in self.running.iter_mut().zip(&fed) {
            seq.take_pages(n);
        }
        fed
    }

    fn remember_prompts(&mut self) {
        for seq in &self.running {
            if seq.n_fed >= seq.n_prompt && seq.ids.len() == seq.n_prompt {
                self.book.remember(seq.version, &seq.ids, &seq.pages);
            }
        }
    }

    /// Forks, appends the drawn tokens, and ends what has ended.
    fn settle(&mut self, backend: &B, model: &Model<B>, ready: Vec<Ready>, found: Vec<Found>) -> Vec<Event> {
        let mut events = Vec::new();
        let mut by_index: BTreeMap<usize, (Vec<u32>, Found)> =
            ready.into_iter().zip(found).map(|(ready, found)| (ready.index, (ready.guess, found))).collect();
        for (index, mut seq) in std::mem::take(&mut self.running).into_iter().enumerate() {
            let Some((guess, mut found)) = by_index.remove(&index) else {
                self.running.push(seq);
                continue;
            };
            let forks = self.fork(backend, &mut seq);
            for (sample, mut seq) in std::iter::once(seq).chain(forks).enumerate() {
                let mut tokens = Vec::new();
                // Who forks has guessed nothing, so every sample has one draw.
                let finish = seq.take_rows(model, &guess, |seq, row| found.draw(backend, seq, sample + row), &mut tokens);
                events.push(Event { request: seq.request, sample: seq.sample, tokens, finish });
                match finish {
                    None => self.running.push(seq),
                    Some(_) => self.release(seq),
                }
            }
        }
        events
    }

    /// The other samples of a sequence whose prompt has been fed.
    fn fork(&mut self, backend: &B, seq: &mut Sequence<B>) -> Vec<Sequence<B>> {
        let n_full = seq.n_fed / PAGE;
        let mut forked = Vec::with_capacity(seq.forks.len());
        for (i, mut fork) in std::mem::take(&mut seq.forks).into_iter().enumerate() {
            let mut pages = seq.pages[..n_full].to_vec();
            pages.iter().for_each(|&page| self.book.add_user(page));
            if let Some(&tail) = seq.pages.get(n_full) {
                let own = fork.reserve.pop().expect("pages were set aside at admission");
                self.kvs.iter_mut().for_each(|kv| backend.kv_copy(kv, tail, own));
                pages.push(own);
            }
            forked.push(Sequence {
                request: seq.request,
                sample: i + 1,
                version: seq.version,
                adapter: seq.adapter.clone(),
                ids: seq.ids.clone(),
                n_fed: seq.n_fed,
                n_prompt: seq.n_prompt,
                n_tokens_max: seq.n_tokens_max,
                pages,
                reserve: fork.reserve,
                sampler: seq.sampler,
                stop_ids: Arc::clone(&seq.stop_ids),
                stream: fork.stream,
                constraint: fork.constraint,
                keep_support: seq.keep_support,
                n_likeliest: seq.n_likeliest,
                guesses: seq.guesses,
                asker: seq.asker,
                forks: Vec::new(),
            });
        }
        forked
    }

    /// Gives pages back; the filled ones stay known, so that a next turn finds them.
    fn release(&mut self, seq: Sequence<B>) {
        let n_filled = seq.n_fed.min(seq.ids.len());
        self.said.keep(seq.asker, &seq.ids, seq.n_prompt);
        if seq.forks.is_empty() {
            self.book.remember(seq.version, &seq.ids[..n_filled], &seq.pages);
        }
        self.book.leave(&seq.pages);
        self.book.leave(&seq.reserve);
        for fork in seq.forks {
            self.book.leave(&fork.reserve);
        }
    }
}

/// Pages the first sample needs in all, prompt included, and pages each further one needs beyond the prompt's full ones.
fn pages_needed<B: Backend>(request: &Request<B>) -> (usize, usize) {
    let n_prompt = request.prompt.len();
    let all = (n_prompt + request.n_tokens_max).div_ceil(PAGE);
    (all, all - n_prompt / PAGE)
}
