//! Continuous batching: sequences come and go, and every step feeds each of them its next tokens.
//!
//! A step gathers the rows of all sequences (a prompt is many rows, a continuing sequence one), runs the model once, and
//! draws the next token of every sequence whose input is used up. The prompt of a request with n samples is fed once;
//! then the sequence is forked: full pages are shared, the last one is copied. A request is admitted when pages for its
//! longest outcome are there, so an admitted sequence is never thrown out. One whose samples need more pages than there are
//! waits in parts, which run one after another and draw the same tokens.
//!
//! Each sequence has its own random stream (request seed, sequence number) and draws at its position, so its tokens do
//! not depend on what else is in the batch. Its adapter version is fixed when it is submitted.
//! Knows nothing of text or time.

mod burst;
mod draw;
mod guess;
mod request;
mod sequence;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::backend::Backend;
use crate::forward::{head_input, hidden};
use crate::kv::{PageBook, Root, Version};
use crate::layout::{Layout, PAGE};
use crate::model::Model;
use crate::random::Stream;
use crate::sampler::Drawn;
use burst::{Burst, Next};
use draw::{Head, Ready};
use guess::{Hope, Said, expected};
use sequence::{Fork, Sequence, adapter_rows};

pub use request::{BatchLimits, Event, Finish, Request, RequestId, SubmitError, Token};

/// A request, or a part of its samples.
struct Waiting<B: Backend> {
    id: RequestId,
    /// The place of its first sample among those of the whole request.
    sample: usize,
    request: Request<B>,
}

/// What a sequence feeds in a step: tokens that are due, and behind them what it is guessed to say.
struct Fed {
    n: usize,
    guess: Vec<u32>,
}

impl Fed {
    fn n_rows(&self) -> usize {
        self.n + self.guess.len()
    }
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
        self.book.forget_versions(|_| true);
    }

    /// An adapter is no more, and no prefix of it comes again.
    pub fn adapter_dropped(&mut self, version: Version) {
        let gone = self.version(Some(version));
        self.book.forget_versions(|version| version == gone);
    }

    /// What keys are computed with, of a model that may have changed.
    fn version(&self, adapter: Option<Version>) -> Version {
        Version(self.model_version << 40 | adapter.map_or(0, |version| version.0 + 1))
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
        let (mut sample, n_samples_max) = (0, n_samples_max(&request, &self.limits));
        for request in request.in_parts(n_samples_max) {
            let n_samples = request.n_samples;
            self.queue.push_back(Waiting { id, sample, request });
            sample += n_samples;
        }
        Ok(id)
    }

    /// Withdraws a request; its unfinished samples end as cancelled in the next step's events.
    pub fn cancel(&mut self, id: RequestId) {
        let cancelled = |sample| Event { request: id, sample, tokens: vec![], finish: Some(Finish::Cancelled) };
        for waiting in self.queue.iter().filter(|waiting| waiting.id == id) {
            self.early.extend((waiting.sample..waiting.sample + waiting.request.n_samples).map(cancelled));
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
        let unknown = request.prompt.iter().chain(&request.prediction).find(|&&id| id as usize >= vocab);
        if let Some(&id) = unknown {
            return Err(SubmitError::UnknownToken { id, vocab });
        }
        if self.queue.len() >= self.limits.queue_len_max {
            return Err(SubmitError::QueueFull(self.queue.len()));
        }
        let n_constraints = request.constraints.len();
        let constraints_fit = n_constraints == 0 || n_constraints == request.n_samples;
        if request.n_samples == 0 || !constraints_fit {
            return Err(SubmitError::Samples { n_samples: request.n_samples, n_constraints });
        }
        let n_tokens = request.prompt.len().saturating_add(request.n_tokens_max);
        if request.prompt.len() > model.n_positions || n_tokens > model.n_positions {
            return Err(SubmitError::TooLong { n_tokens, n_tokens_max: model.n_positions });
        }
        // Several samples need not run at once.
        if pages_needed(request).0 > self.limits.n_pages {
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
        let fed = self.feed(backend);
        // From the last row of a sequence's input on, rows give tokens.
        let (mut ready, mut row) = (Vec::new(), 0);
        for (index, (seq, fed)) in self.running.iter().zip(&fed).enumerate() {
            row += fed.n_rows();
            let Fed { n, ref guess } = *fed;
            if seq.n_fed + n == seq.ids.len() {
                ready.push(Ready { index, rows: row - 1 - guess.len()..row, guess: guess.clone() });
            }
        }
        let input = self.feed_few(backend, model, &fed);
        let input = input.unwrap_or_else(|| self.feed_all(backend, model, &fed, &mut ready));
        for (seq, fed) in self.running.iter_mut().zip(fed) {
            seq.n_fed += fed.n;
        }
        self.remember_prompts();
        if ready.is_empty() {
            return vec![];
        }
        let head = Head { backend, model, input };
        let mut found = self.draw(&head, &ready);
        self.settle(backend, model, ready, |seq, which, place| found[which].draw(&head, seq, place))
    }

    /// The head's input of all rows, where the machine has a path of its own for few of them.
    fn feed_few(&mut self, backend: &B, model: &Model<B>, fed: &[Fed]) -> Option<B::Act> {
        let n_rows: Vec<usize> = fed.iter().map(Fed::n_rows).collect();
        let are_few = n_rows.iter().sum::<usize>() <= backend.n_rows_light() || n_rows.iter().all(|&n| n == 1);
        if backend.burst_max() == 0 || !are_few {
            return None;
        }
        let rows: Vec<_> = self.running.iter().zip(fed).flat_map(|(seq, fed)| seq.rows(fed.n, &fed.guess)).collect();
        backend.feed(model, &mut self.kvs, &adapter_rows(&self.running, &n_rows), &rows)
    }

    /// The head's input of the rows that give tokens, which are its only ones then, by the general pass.
    fn feed_all(&mut self, backend: &B, model: &Model<B>, fed: &[Fed], ready: &mut [Ready]) -> B::Act {
        let mut layout = Layout::default();
        for (index, (seq, fed)) in self.running.iter().zip(fed).enumerate() {
            let ids = [&seq.ids[seq.n_fed..seq.n_fed + fed.n], &fed.guess].concat();
            let n_pages = (seq.n_fed + ids.len()).div_ceil(PAGE);
            layout.push_run(&ids, seq.n_fed, seq.pages[..n_pages].to_vec(), index);
        }
        layout.finish();
        let n_rows: Vec<usize> = fed.iter().map(Fed::n_rows).collect();
        let x = hidden(backend, model, &layout, &mut self.kvs, &adapter_rows(&self.running, &n_rows));
        let mut chosen = Vec::new();
        for ready in ready {
            let first = chosen.len();
            chosen.extend(ready.rows.clone().map(|row| row as u32));
            ready.rows = first..chosen.len();
        }
        head_input(backend, model, &x, &chosen)
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
        let Waiting { id, sample, request } = waiting;
        let version = self.version(request.adapter.as_ref().map(|(version, _)| *version));
        let n_prompt = request.prompt.len();
        // The last prompt token is always fed: its row predicts the first token.
        let root = Root { asker: request.asker, version };
        let mut pages = self.book.take_known(root, &request.prompt[..n_prompt - 1]);
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
        let expected = expected(&request.prompt, &request.prediction).into();
        Sequence {
            request: id,
            sample,
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
            hope: Hope::new(request.guesses),
            expected,
            asker: request.asker,
            forks,
        }
    }

    /// What each sequence feeds: continuing ones first, then prompts as far as the step has room; and behind that what it may say next.
    fn feed(&mut self, backend: &B) -> Vec<Fed> {
        let pending: Vec<usize> = self.running.iter().map(|seq| seq.ids.len() - seq.n_fed).collect();
        let mut fed: Vec<usize> = pending.iter().map(|&n| n.min(1)).collect();
        let mut room = self.limits.n_rows_max.saturating_sub(fed.iter().sum());
        for (fed, &pending) in fed.iter_mut().zip(&pending) {
            let more = (pending - *fed).min(room);
            *fed += more;
            room -= more;
        }
        self.with_guesses(backend, fed)
    }

    /// True where a step has room for guesses, and there is hope in some.
    fn guesses(&self, backend: &B) -> bool {
        let (n_running, cost) = (self.running.len(), backend.guess_cost(self.running.len()));
        self.n_rows_light(backend) >= 2 * n_running && self.running.iter().any(|seq| seq.hopes(cost))
    }

    fn n_rows_light(&self, backend: &B) -> usize {
        backend.n_rows_light().min(self.limits.n_rows_max)
    }

    /// What each sequence may say behind what it feeds: as much as fits into a step that takes no longer for it.
    fn with_guesses(&mut self, backend: &B, fed: Vec<usize>) -> Vec<Fed> {
        let room = self.n_rows_light(backend).saturating_sub(fed.iter().sum());
        let (n_each, cost) = (room / self.running.len(), backend.guess_cost(self.running.len()));
        let with_guess = |(seq, n): (&mut Sequence<B>, usize)| {
            let n_guessed = seq.n_guessable(n, cost).min(n_each);
            let fed = Fed { n, guess: self.said.guess(seq.asker, &seq.expected, &seq.ids, n_guessed) };
            seq.take_pages(fed.n_rows());
            fed
        };
        self.running.iter_mut().zip(fed).map(with_guess).collect()
    }

    fn remember_prompts(&mut self) {
        for seq in &self.running {
            if seq.n_fed >= seq.n_prompt && seq.ids.len() == seq.n_prompt {
                self.book.remember(seq.root(), &seq.ids, &seq.pages);
            }
        }
    }

    /// Forks, appends what is drawn, and ends what has ended. `draw` is asked for the draw of a row of a ready sequence, as that one is
    /// then, or for that of one of its samples.
    fn settle(
        &mut self,
        backend: &B,
        model: &Model<B>,
        ready: Vec<Ready>,
        mut draw: impl FnMut(&mut Sequence<B>, usize, usize) -> Option<Drawn>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let guess_cost = backend.guess_cost(self.running.len());
        let mut ready = ready.into_iter().enumerate().peekable();
        for (index, mut seq) in std::mem::take(&mut self.running).into_iter().enumerate() {
            let Some((which, Ready { guess, .. })) = ready.next_if(|(_, ready)| ready.index == index) else {
                self.running.push(seq);
                continue;
            };
            let forks = self.fork(backend, &mut seq);
            for (sample, mut seq) in std::iter::once(seq).chain(forks).enumerate() {
                let mut tokens = Vec::new();
                // Who forks has guessed nothing, so every sample has one draw.
                let finish = seq.take_rows(model, (&guess, guess_cost), |seq, row| draw(seq, which, sample + row), &mut tokens);
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
                sample: seq.sample + i + 1,
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
                hope: seq.hope,
                expected: Arc::clone(&seq.expected),
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
            self.book.remember(seq.root(), &seq.ids[..n_filled], &seq.pages);
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

/// How many samples of a request there are sequences and pages for at once; at least one.
fn n_samples_max<B: Backend>(request: &Request<B>, limits: &BatchLimits) -> usize {
    let (first, further) = pages_needed(request);
    (1 + limits.n_pages.saturating_sub(first) / further.max(1)).min(limits.n_sequences_max.max(1))
}
