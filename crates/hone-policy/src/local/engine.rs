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
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// Jobs on their way to the thread; whoever sends one more waits.
const QUEUE_LEN_MAX: usize = 1024;
/// Samples that the host is given at once; it queues what it cannot run yet.
const N_UNDERWAY_MAX: usize = 4096;

/// A handle to the thread that owns the weights. It ends when the last handle is gone.
pub struct Engine<B: Backend> {
    jobs: SyncSender<Job<B>>,
}

impl<B: Backend> Clone for Engine<B> {
    fn clone(&self) -> Self {
        Self { jobs: self.jobs.clone() }
    }
}

/// The thread of the engine is gone: something that it was asked to run has panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

/// Why nothing was sampled.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SampleError {
    Refused(SubmitError),
    Timeout,
    /// Who listened wants no more.
    Left,
    Stopped,
}

enum Job<B: Backend> {
    Sample(Ask<B>),
    Look(Look<B>),
    Beside(Change<B>),
    Run(Change<B>),
}

type Look<B> = Box<dyn FnOnce(&Host<B>) + Send>;
type Change<B> = Box<dyn FnOnce(&mut Host<B>) + Send>;

struct Ask<B: Backend> {
    request: Request<B>,
    reply: Sender<Told>,
    /// Whether tokens are told as they come.
    is_aloud: bool,
    is_withdrawn: Arc<AtomicBool>,
}

/// What the thread says of a sample.
enum Told {
    Tokens(Vec<Token>),
    Ended(Result<Sample, SubmitError>),
}

impl<B: Backend> Engine<B> {
    /// Gives the host a thread of its own.
    pub fn start(host: Host<B>) -> std::io::Result<Self> {
        let (jobs, received) = mpsc::sync_channel(QUEUE_LEN_MAX);
        std::thread::Builder::new().name("engine".into()).spawn(move || serve(host, &received))?;
        Ok(Self { jobs })
    }

    /// Looks at the host between two steps, while samples are underway.
    pub fn look<T: Send + 'static>(&self, work: impl FnOnce(&Host<B>) -> T + Send + 'static) -> Result<T, Stopped> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work = Box::new(move |host: &Host<B>| drop(reply.send(work(host))));
        self.jobs.send(Job::Look(work)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Changes what nothing underway looks at, such as adding an adapter, between two steps: nobody waits for it.
    pub fn beside<T: Send + 'static>(&self, work: impl FnOnce(&mut Host<B>) -> T + Send + 'static) -> Result<T, Stopped> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work = Box::new(move |host: &mut Host<B>| drop(reply.send(work(host))));
        self.jobs.send(Job::Beside(work)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Has the host to itself: samples that are underway are finished first.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce(&mut Host<B>) -> T + Send + 'static) -> Result<T, Stopped> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work = Box::new(move |host: &mut Host<B>| drop(reply.send(work(host))));
        self.jobs.send(Job::Run(work)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Draws one sample beside whatever else runs. Who listens hears its tokens as they come, until it wants no more.
    pub(super) fn sample(
        &self,
        request: Request<B>,
        time_max: Option<Duration>,
        mut hear: Option<&mut Listener<'_>>,
    ) -> Result<Sample, SampleError> {
        debug_assert_eq!(request.n_samples, 1);
        // At most one message a token, of which a request has a limit.
        let (reply, told) = mpsc::channel();
        let withdrawn = Withdrawn(Arc::new(AtomicBool::new(false)));
        let ask = Ask { request, reply, is_aloud: hear.is_some(), is_withdrawn: Arc::clone(&withdrawn.0) };
        self.jobs.send(Job::Sample(ask)).map_err(|_| SampleError::Stopped)?;
        let deadline = time_max.map(|time_max| Instant::now() + time_max);
        loop {
            let next = match deadline {
                None => told.recv().map_err(|_| SampleError::Stopped)?,
                Some(deadline) => {
                    told.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
                        RecvTimeoutError::Timeout => SampleError::Timeout,
                        RecvTimeoutError::Disconnected => SampleError::Stopped,
                    })?
                }
            };
            let tokens = match next {
                Told::Ended(sampled) => return sampled.map_err(SampleError::Refused),
                Told::Tokens(tokens) => tokens,
            };
            if hear.as_mut().is_some_and(|hear| hear(&tokens).is_break()) {
                return Err(SampleError::Left);
            }
        }
    }
}

/// Who hears tokens as they come.
pub(super) type Listener<'a> = dyn FnMut(&[Token]) -> ControlFlow<()> + 'a;

/// Whoever stops waiting withdraws what it asked for; what has ended is not harmed by it.
struct Withdrawn(Arc<AtomicBool>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A sample that is being drawn.
struct Underway {
    tokens: Vec<Token>,
    reply: Sender<Told>,
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
                Ok(Job::Sample(ask)) => admit(&mut host, &mut underway, ask),
                Ok(Job::Look(work)) => work(&host),
                Ok(Job::Beside(work)) => work(&mut host),
                Ok(Job::Run(work)) if underway.is_empty() => work(&mut host),
                Ok(Job::Run(work)) => waiting = Some(work),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        for (&request, _) in underway.iter().filter(|(_, sample)| sample.is_withdrawn.load(Ordering::Relaxed)) {
            host.cancel(request);
        }
        for event in host.sample_step() {
            let Some(sample) = underway.get_mut(&event.request) else { continue };
            if sample.is_aloud && !event.tokens.is_empty() {
                // Who has left is noticed by what it has withdrawn.
                drop(sample.reply.send(Told::Tokens(event.tokens.clone())));
            }
            sample.tokens.extend(event.tokens);
            if let Some(finish) = event.finish {
                end(&mut underway, event.request, finish);
            }
        }
    }
}

fn admit<B: Backend>(host: &mut Host<B>, underway: &mut BTreeMap<RequestId, Underway>, ask: Ask<B>) {
    let Ask { request, reply, is_aloud, is_withdrawn } = ask;
    match host.submit(request) {
        Ok(id) => drop(underway.insert(id, Underway { tokens: Vec::new(), reply, is_aloud, is_withdrawn })),
        // Who asked may have left; then nobody wants to know.
        Err(error) => drop(reply.send(Told::Ended(Err(error)))),
    }
}

fn end(underway: &mut BTreeMap<RequestId, Underway>, request: RequestId, finish: Finish) {
    if let Some(Underway { tokens, reply, .. }) = underway.remove(&request) {
        drop(reply.send(Told::Ended(Ok(Sample { tokens, finish }))));
    }
}
