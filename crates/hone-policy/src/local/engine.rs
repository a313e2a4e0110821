//! The thread that owns the weights. Everybody else holds an [`Engine`] and asks.
//!
//! Between two steps of the model all waiting requests are admitted, so conversations that come and go are batched
//! continuously. Who only looks ([`Engine::look`]: scoring, gradients, pinning) is served between steps, too, and so is who adds
//! what nothing underway looks at ([`Engine::beside`]: an adapter of its own version). Who changes something ([`Engine::run`]: a
//! training step, sampling on its own) has the host to itself: what runs is finished first, what came later waits. So no answer is
//! ever drawn from two sets of weights.
//! Knows nothing of text.

use hone_engine::backend::Backend;
use hone_engine::batch::{Finish, Request, RequestId, SubmitError, Token};
use hone_engine::host::{Host, Sample};
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Jobs on their way to the thread; whoever sends one more waits.
const QUEUE_LEN_MAX: usize = 1024;
/// Samples that the host is given at once; it queues what it cannot run yet.
const N_UNDERWAY_MAX: usize = 4096;

/// A handle to the thread that owns the weights. It ends when the last handle is gone.
pub struct Engine<B: Backend> {
    jobs: SyncSender<Job<B>>,
    /// Why the thread is gone, once it is.
    why: Arc<OnceLock<String>>,
}

impl<B: Backend> Clone for Engine<B> {
    fn clone(&self) -> Self {
        Self { jobs: self.jobs.clone(), why: Arc::clone(&self.why) }
    }
}

/// The thread of the engine is gone: something that it was asked to run has panicked, with these words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped: {0}")]
pub struct Stopped(String);

/// Why nothing was sampled.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SampleError {
    Refused(SubmitError),
    Timeout,
    /// Who listened wants no more.
    Left,
    Stopped(Stopped),
}

enum Job<B: Backend> {
    Sample(Box<Ask<B>>),
    Look(Look<B>),
    Beside(Change<B>),
    Run(Change<B>),
}

type Look<B> = Box<dyn FnOnce(&Host<B>) + Send>;
type Change<B> = Box<dyn FnOnce(&mut Host<B>) + Send>;

struct Ask<B: Backend> {
    request: Request<B>,
    /// Its place among those that were asked for together.
    request_idx: usize,
    reply: Sender<(usize, Told)>,
    /// Whether tokens are told as they come.
    is_aloud: bool,
    is_withdrawn: Arc<AtomicBool>,
}

/// What the thread says of a request.
enum Told {
    /// More tokens of one of its samples.
    Tokens(usize, Vec<Token>),
    Ended(Result<Vec<Sample>, SubmitError>),
}

impl<B: Backend> Engine<B> {
    /// Gives the host a thread of its own.
    pub fn start(host: Host<B>) -> std::io::Result<Self> {
        Self::start_with(host, ())
    }

    /// The same, and something else lives as long as the host, such as a grant of the memory that it is in.
    pub fn start_with(host: Host<B>, held: impl Send + 'static) -> std::io::Result<Self> {
        let (jobs, received) = mpsc::sync_channel(QUEUE_LEN_MAX);
        let why = Arc::new(OnceLock::new());
        let told = Arc::clone(&why);
        let work = move || {
            // Nobody uses the host after it: what it was asked to do is lost, and all who wait are told why.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| serve(host, &received))) {
                told.get_or_init(|| words_of(&*panic));
            }
            drop(held);
        };
        std::thread::Builder::new().name("engine".into()).spawn(work)?;
        Ok(Self { jobs, why })
    }

    /// Why the thread does not answer. While there is a handle it ends by a panic alone, of which it tells when it is over.
    fn stopped(&self) -> Stopped {
        Stopped(self.why.wait().clone())
    }

    /// Looks at the host between two steps, while samples are underway.
    pub fn look<T: Send + 'static>(&self, work: impl FnOnce(&Host<B>) -> T + Send + 'static) -> Result<T, Stopped> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work = Box::new(move |host: &Host<B>| drop(reply.send(work(host))));
        self.jobs.send(Job::Look(work)).map_err(|_| self.stopped())?;
        answer.recv().map_err(|_| self.stopped())
    }

    /// Changes what nothing underway looks at, such as adding an adapter, between two steps: nobody waits for it.
    pub fn beside<T: Send + 'static>(&self, work: impl FnOnce(&mut Host<B>) -> T + Send + 'static) -> Result<T, Stopped> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work = Box::new(move |host: &mut Host<B>| drop(reply.send(work(host))));
        self.jobs.send(Job::Beside(work)).map_err(|_| self.stopped())?;
        answer.recv().map_err(|_| self.stopped())
    }

    /// Has the host to itself: samples that are underway are finished first.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce(&mut Host<B>) -> T + Send + 'static) -> Result<T, Stopped> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work = Box::new(move |host: &mut Host<B>| drop(reply.send(work(host))));
        self.jobs.send(Job::Run(work)).map_err(|_| self.stopped())?;
        answer.recv().map_err(|_| self.stopped())
    }

    /// Draws samples beside whatever else runs, those of all requests at once: they come request by request. Who listens hears their
    /// tokens as they come, each with the place of its sample, until it wants no more.
    pub(super) fn sample(
        &self,
        requests: Vec<Request<B>>,
        time_max: Option<Duration>,
        mut hear: Option<&mut Listener<'_>>,
    ) -> Result<Vec<Sample>, SampleError> {
        // At most one message a token, of which a request has a limit.
        let (reply, told) = mpsc::channel();
        let withdrawn = Withdrawn(Arc::new(AtomicBool::new(false)));
        let mut places = Vec::with_capacity(requests.len());
        let mut n_samples = 0;
        for (request_idx, request) in requests.into_iter().enumerate() {
            places.push(n_samples);
            n_samples += request.n_samples;
            let (reply, is_withdrawn) = (reply.clone(), Arc::clone(&withdrawn.0));
            let ask = Ask { request, request_idx, reply, is_aloud: hear.is_some(), is_withdrawn };
            self.jobs.send(Job::Sample(Box::new(ask))).map_err(|_| SampleError::Stopped(self.stopped()))?;
        }
        drop(reply);
        let deadline = time_max.map(|time_max| Instant::now() + time_max);
        let mut ended: Vec<Vec<Sample>> = vec![Vec::new(); places.len()];
        let mut n_left = places.len();
        while n_left > 0 {
            let (request_idx, next) = match deadline {
                None => told.recv().map_err(|_| SampleError::Stopped(self.stopped()))?,
                Some(deadline) => {
                    told.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
                        RecvTimeoutError::Timeout => SampleError::Timeout,
                        RecvTimeoutError::Disconnected => SampleError::Stopped(self.stopped()),
                    })?
                }
            };
            match next {
                Told::Ended(samples) => {
                    ended[request_idx] = samples.map_err(SampleError::Refused)?;
                    n_left -= 1;
                }
                Told::Tokens(sample_idx, tokens) => {
                    if hear.as_mut().is_some_and(|hear| hear(places[request_idx] + sample_idx, &tokens).is_break()) {
                        return Err(SampleError::Left);
                    }
                }
            }
        }
        Ok(ended.into_iter().flatten().collect())
    }
}

/// Who hears tokens as they come, each with the place of its sample.
pub(super) type Listener<'a> = dyn FnMut(usize, &[Token]) -> ControlFlow<()> + 'a;

/// Whoever stops waiting withdraws what it asked for; what has ended is not harmed by it.
struct Withdrawn(Arc<AtomicBool>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a panic says.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it says no more").to_owned()
}

/// A request of which samples are being drawn.
struct Underway {
    samples: Vec<Sample>,
    n_left: usize,
    request_idx: usize,
    reply: Sender<(usize, Told)>,
    is_aloud: bool,
    is_withdrawn: Arc<AtomicBool>,
}

fn serve<B: Backend>(mut host: Host<B>, jobs: &Receiver<Job<B>>) {
    let mut underway: BTreeMap<RequestId, Underway> = BTreeMap::new();
    let mut waiting: Option<Change<B>> = None;
    loop {
        if underway.is_empty()
            && let Some(work) = waiting.take()
        {
            work(&mut host);
        }
        while waiting.is_none() && underway.len() < N_UNDERWAY_MAX {
            // Only an engine with nothing to do waits for a job.
            let job = match underway.is_empty() {
                true => jobs.recv().map_err(|_| TryRecvError::Disconnected),
                false => jobs.try_recv(),
            };
            match job {
                Ok(Job::Sample(ask)) => admit(&mut host, &mut underway, *ask),
                Ok(Job::Look(work)) => work(&host),
                Ok(Job::Beside(work)) => work(&mut host),
                Ok(Job::Run(work)) if underway.is_empty() => work(&mut host),
                Ok(Job::Run(work)) => waiting = Some(work),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        for (&request, _) in underway.iter().filter(|(_, asked)| asked.is_withdrawn.load(Ordering::Relaxed)) {
            host.cancel(request);
        }
        for event in host.sample_step() {
            let Some(request) = underway.get_mut(&event.request) else { continue };
            if request.is_aloud && !event.tokens.is_empty() {
                // Who has left is noticed by what it has withdrawn.
                drop(request.reply.send((request.request_idx, Told::Tokens(event.sample, event.tokens.clone()))));
            }
            let sample = &mut request.samples[event.sample];
            sample.tokens.extend(event.tokens);
            if let Some(finish) = event.finish {
                sample.finish = finish;
                request.n_left -= 1;
                if request.n_left == 0 {
                    end(&mut underway, event.request);
                }
            }
        }
    }
}

fn admit<B: Backend>(host: &mut Host<B>, underway: &mut BTreeMap<RequestId, Underway>, ask: Ask<B>) {
    let Ask { request, request_idx, reply, is_aloud, is_withdrawn } = ask;
    let n_left = request.n_samples;
    let samples = vec![Sample { tokens: Vec::new(), finish: Finish::Cancelled }; n_left];
    match host.submit(request) {
        Ok(id) => drop(underway.insert(id, Underway { samples, n_left, request_idx, reply, is_aloud, is_withdrawn })),
        // Who asked may have left; then nobody wants to know.
        Err(error) => drop(reply.send((request_idx, Told::Ended(Err(error))))),
    }
}

fn end(underway: &mut BTreeMap<RequestId, Underway>, request: RequestId) {
    if let Some(Underway { samples, request_idx, reply, .. }) = underway.remove(&request) {
        drop(reply.send((request_idx, Told::Ended(Ok(samples)))));
    }
}
