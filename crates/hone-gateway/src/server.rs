//! The server: connections in, each within its limits, until it is told to stop.
//!
//! A connection that sends no head in time is closed, one that stops in the middle of a body, and one whose client has read nothing for
//! as long as an answer may take; one too many waits outside. After the
//! signal to stop no connection is taken any more, and those that are open finish what they do, for as long as the limit lets them; then
//! they are cut off.

use crate::access::Access;
use crate::agents::{Adapters, Agents, Route};
use crate::ask::after_ms;
use crate::backlog::Backlog;
use crate::catalogue::{Catalogue, Model};
use crate::dashboard::{Curves, Dashboard, Sessions};
use crate::error::Refused;
use crate::follow::Follower;
use crate::lookout::Lookout;
use crate::metrics::Metrics;
use crate::otlp::{Spans, Weaver};
use crate::rate::Rates;
use crate::record::Record;
use crate::task::{TaskRule, task_of};
use crate::tls::Tls;
use crate::{keys, route};
use axum::Router;
use hone_eval::Thrift;
use hone_trace::store::Store;
use hone_trace::{Clock, Draws, Message, Time, TraceId};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, timeout_at};

/// Milliseconds in which nothing more of a body comes until it is given up, after the signal to stop: what is on its way is here by then.
const STOPPING_BODY_MS: u64 = 1_000;
/// Milliseconds that what was cut off at the end has to get onto the record.
const STOPPING_RECORD_MS: u64 = 5_000;
/// Pages at once that look at many episodes, which takes memory and time.
const N_LOOKS_MAX: usize = 4;

/// What a server can bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; further ones wait until one ends.
    pub n_connections_max: usize,
    /// Requests that are worked on at once; further ones are told to come back.
    pub n_requests_max: usize,
    /// Requests a minute of a key that has no limit of its own; without keys, of all together.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of bodies that are read at once and have no place yet, without the first of each. Who needs more than there is soon is told
    /// to come back.
    pub bodies_bytes_max: usize,
    /// Bytes of all answers that wait for clients who read slowly, without the first of each.
    pub answers_bytes_max: usize,
    /// Milliseconds of an answer, with all that is tried again.
    pub answer_ms: u64,
    /// Milliseconds until a client who waits for the first piece of a stream hears that it is waited for. What goes wrong until then has a
    /// status of its own; behind it, it is told in the stream.
    pub quiet_ms: u64,
    /// Milliseconds until one too many is told so. As many as are worked on wait for a place meanwhile; for the others it is only a
    /// delay: who is refused at once comes back at once, and refusing costs time too.
    pub refusal_ms: u64,
    /// Milliseconds that spans wait for others of their conversation, unless the last one says that it is.
    pub spans_wait_ms: u64,
    /// Milliseconds until a connection has sent the head of a request, and before that, until it has agreed on TLS.
    pub head_ms: u64,
    /// Milliseconds in which nothing more of a body comes, or hardly anything, until it is given up.
    pub body_ms: u64,
    /// Milliseconds that open requests have after the signal to stop.
    pub stop_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            n_connections_max: 8192,
            n_requests_max: 4096,
            requests_per_minute: None,
            body_bytes_max: 32 << 20,
            bodies_bytes_max: 512 << 20,
            answers_bytes_max: 256 << 20,
            answer_ms: 600_000,
            quiet_ms: 15_000,
            refusal_ms: 1_000,
            spans_wait_ms: 60_000,
            head_ms: 15_000,
            body_ms: 15_000,
            stop_ms: 60_000,
        }
    }
}

/// What a gateway is made of.
pub struct Setup {
    /// Who answers under which name.
    pub catalogue: Catalogue,
    /// Names that stand for whichever of some agents does best.
    pub routes: Vec<Route>,
    /// What cost and time are worth against success where a route chooses.
    pub thrift: Thrift,
    /// What tells the type of a task that its client does not name.
    pub tasks: Vec<TaskRule>,
    /// The feedback that says how well an episode went; `None` for the first of any name.
    pub outcome: Option<String>,
    /// Who puts adapters on models of this process; without, versions with an adapter cannot answer.
    pub adapters: Option<Arc<dyn Adapters>>,
    /// Where calls are recorded.
    pub store: Arc<dyn Store>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Who may do what, until keys of the store say otherwise.
    pub access: Access,
    /// What connections are encrypted with; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// What it can bear.
    pub limits: Limits,
    /// The names that this server is known by, besides those of the machine itself. A request to another is refused.
    pub hosts: Vec<String>,
    /// What ids are drawn from; another one for every start.
    pub seed: u64,
    /// What the pages for people need besides.
    pub dashboard: Dashboard,
    /// Where what a person should know is said. What does not fit is not waited for.
    pub log: mpsc::Sender<String>,
}

/// A gateway, shared by all that it works on.
#[derive(Clone)]
pub struct Gateway(Arc<Shared>);

struct Shared {
    catalogue: Catalogue,
    agents: Agents,
    tasks: Vec<TaskRule>,
    outcome: Option<String>,
    adapters: Option<Arc<dyn Adapters>>,
    record: Record,
    spans: Spans,
    clock: Arc<dyn Clock>,
    access: RwLock<Arc<Access>>,
    tls: Option<Tls>,
    rates: Rates,
    limits: Limits,
    hosts: Vec<String>,
    seed: u64,
    n_drawn: AtomicU64,
    requests: Arc<Semaphore>,
    waiting: Semaphore,
    bodies: Arc<Semaphore>,
    backlog: Backlog,
    stopping: watch::Sender<bool>,
    metrics: Metrics,
    dashboard: Dashboard,
    sessions: Sessions,
    curves: Curves,
    looks: Semaphore,
    log: mpsc::Sender<String>,
}

impl Gateway {
    /// Sets a gateway up.
    pub fn new(setup: Setup) -> Self {
        let Setup { catalogue, routes, thrift, tasks, outcome, adapters, store, clock, access, tls, limits, hosts, seed, .. } =
            setup;
        let (dashboard, log) = (setup.dashboard, setup.log);
        let n_places = limits.n_requests_max.min(Semaphore::MAX_PERMITS);
        let (requests, waiting) = (Arc::new(Semaphore::new(n_places)), Semaphore::new(n_places));
        let (agents, record, metrics) = (Agents::new(routes, thrift), Record::new(store), Metrics::default());
        let n_drawn = AtomicU64::new(0);
        Self(Arc::new(Shared {
            catalogue,
            agents,
            tasks,
            outcome,
            adapters,
            record,
            spans: Spans::default(),
            clock,
            access: RwLock::new(Arc::new(access)),
            tls,
            rates: Rates::default(),
            limits,
            hosts,
            seed,
            n_drawn,
            requests,
            waiting,
            bodies: Arc::new(Semaphore::new(limits.bodies_bytes_max.min(Semaphore::MAX_PERMITS))),
            backlog: Backlog::new(limits.answers_bytes_max),
            stopping: watch::Sender::new(false),
            metrics,
            dashboard,
            sessions: Sessions::default(),
            curves: Curves::default(),
            looks: Semaphore::new(N_LOOKS_MAX),
            log,
        }))
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.0.catalogue
    }

    pub(crate) fn model(&self, name: &str) -> Result<Arc<Model>, Refused> {
        self.0.catalogue.get(name).cloned().ok_or_else(|| Refused::NoModel(name.chars().take(256).collect()))
    }

    pub(crate) fn agents(&self) -> &Agents {
        &self.0.agents
    }

    /// The type of task of a conversation whose client names none.
    pub(crate) fn task_of(&self, messages: &[Message]) -> Option<&str> {
        task_of(&self.0.tasks, messages)
    }

    /// The feedback that says how well an episode went; `None` for the first of any name.
    pub(crate) fn outcome(&self) -> Option<&str> {
        self.0.outcome.as_deref()
    }

    pub(crate) fn record(&self) -> &Record {
        &self.0.record
    }

    pub(crate) fn spans(&self) -> &Spans {
        &self.0.spans
    }

    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.0.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on these have access, and nobody else.
    pub(crate) fn let_in(&self, access: Access) {
        *self.0.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn dashboard(&self) -> &Dashboard {
        &self.0.dashboard
    }

    /// Who has signed in at the dashboard.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// What runs have measured, as far as somebody looked.
    pub(crate) fn curves(&self) -> &Curves {
        &self.0.curves
    }

    /// Places for those who look at many episodes at once.
    pub(crate) fn looks(&self) -> &Semaphore {
        &self.0.looks
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn hosts(&self) -> &[String] {
        &self.0.hosts
    }

    pub(crate) fn now(&self) -> Time {
        self.0.clock.now()
    }

    pub(crate) fn log(&self, text: String) {
        drop(self.0.log.try_send(text));
    }

    /// A place among the requests that are worked on, if there is one soon.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, Refused> {
        if let Ok(place) = Arc::clone(&self.0.requests).try_acquire_owned() {
            return Ok(place);
        }
        let waits = Duration::from_millis(self.0.limits.refusal_ms);
        let Ok(_waiting) = self.0.waiting.try_acquire() else {
            tokio::time::sleep(waits).await;
            return Err(Refused::Busy);
        };
        let place = tokio::time::timeout(waits, Arc::clone(&self.0.requests).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(Refused::Busy)
    }

    /// Room for so many bytes of a body that has no place yet, if there is some soon.
    pub(crate) async fn hold(&self, n_bytes: usize) -> Result<OwnedSemaphorePermit, Refused> {
        let waits = Duration::from_millis(self.0.limits.refusal_ms);
        let n_bytes = u32::try_from(n_bytes).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(waits, Arc::clone(&self.0.bodies).acquire_many_owned(n_bytes)).await;
        room.ok().and_then(Result::ok).ok_or(Refused::Busy)
    }

    /// Refuses what could not be recorded, before anybody is asked.
    pub(crate) async fn can_record(&self) -> Result<(), Refused> {
        self.record().can_keep().await.map_err(|error| {
            self.log(format!("nothing is asked, since no answer could be recorded: {error}"));
            Refused::Store
        })
    }

    /// Where answers wait for clients who read slowly.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.0.backlog
    }

    /// Done when a body has kept its reader waiting for too long.
    pub(crate) async fn body_is_late(&self) {
        let Limits { body_ms, .. } = self.0.limits;
        let mut stopping = self.0.stopping.subscribe();
        let stopped = async {
            drop(stopping.wait_for(|is_stopping| *is_stopping).await);
            tokio::time::sleep(Duration::from_millis(STOPPING_BODY_MS)).await;
        };
        drop(tokio::time::timeout(Duration::from_millis(body_ms), stopped).await);
    }

    /// How many requests are worked on.
    pub(crate) fn n_underway(&self) -> usize {
        self.0.limits.n_requests_max.saturating_sub(self.0.requests.available_permits())
    }

    /// An id that was never given before.
    pub(crate) fn new_trace(&self) -> TraceId {
        TraceId::live(self.now(), u128::from(self.draw()) | u128::from(self.draw()) << 64)
    }

    /// The id of a new answer: it names the episode, so that feedback finds it.
    pub(crate) fn new_answer(&self, episode: TraceId) -> String {
        let episode: String = episode.to_string().chars().filter(|sign| *sign != '-').collect();
        format!("{episode}-{:016x}", self.draw())
    }

    /// Random bits.
    pub(crate) fn draw(&self) -> u64 {
        let n = self.0.n_drawn.fetch_add(1, Ordering::Relaxed);
        Draws::new(self.0.seed, &["gateway", &n.to_string()]).bits()
    }
}

/// Serves until `stop` is done, and then until what is underway has ended, for as long as the limit lets it.
pub async fn serve(gateway: Gateway, listener: TcpListener, stop: impl Future<Output = ()>) {
    let limits = *gateway.limits();
    let places = Arc::new(Semaphore::new(limits.n_connections_max.min(Semaphore::MAX_PERMITS)));
    let router = route::router(gateway.clone());
    let mut follower = Follower::new(gateway.clone(), gateway.0.adapters.clone());
    let mut key_follower = keys::Follower::new(gateway.clone());
    tokio::pin!(stop);
    tokio::select! {
        () = async { key_follower.catch_up().await; follower.catch_up().await } => {}
        () = &mut stop => return,
    }
    let (lookout, grown) = Lookout::new(gateway.clone());
    let following =
        [tokio::spawn(key_follower.run(grown.clone())), tokio::spawn(follower.run(grown)), tokio::spawn(lookout.run())];
    let (finish, finished) = oneshot::channel();
    let weaving = tokio::spawn(Weaver::new(gateway.clone()).run(finished));
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(Duration::from_millis(limits.head_ms)).max_headers(128);
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, most likely: those that are open must end first.
                gateway.log(format!("a connection could not be accepted: {error}"));
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        drop(stream.set_nodelay(true));
        let stream = Outgoing { stream, write_ms: limits.answer_ms, stalled: None };
        let speaking = Speaking { http: http.clone(), router: router.clone(), watcher: graceful.watcher() };
        let (tls, is_stopping) = (gateway.0.tls.clone(), gateway.0.stopping.subscribe());
        connections.spawn(async move {
            match tls {
                Some(tls) => speaking.encrypted(&tls, stream, limits.head_ms, is_stopping).await,
                None => speaking.plain(stream).await,
            }
            drop(place);
        });
        // Those that have ended are forgotten, or they would pile up.
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    gateway.0.stopping.send_replace(true);
    let ends = after_ms(Instant::now(), limits.stop_ms);
    if timeout_at(ends, graceful.shutdown()).await.is_err() {
        gateway.log(format!("{} requests were cut off at the end", gateway.n_underway()));
    }
    // A client that reads nothing would hold its connection for ever. What was asked for those that are cut off ends with them.
    connections.abort_all();
    // Calls whose clients have left are still being recorded.
    let recorded = || ends.max(Instant::now() + Duration::from_millis(STOPPING_RECORD_MS));
    let all = u32::try_from(limits.n_requests_max).unwrap_or(u32::MAX);
    drop(timeout_at(recorded(), gateway.0.requests.acquire_many(all)).await);
    following.iter().for_each(tokio::task::JoinHandle::abort);
    drop(finish);
    drop(timeout_at(recorded(), weaving).await);
}

/// A connection that speaks HTTP. One that breaks is the client's affair.
struct Speaking {
    http: http1::Builder,
    router: Router,
    watcher: Watcher,
}

impl Speaking {
    async fn plain(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let connection = self.http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router));
        drop(self.watcher.watch(connection).await);
    }

    /// Agrees on TLS first, in as long as a head may take, and not after the signal to stop.
    async fn encrypted(self, tls: &Tls, stream: Outgoing, time_ms: u64, mut is_stopping: watch::Receiver<bool>) {
        let agreed = tokio::select! {
            agreed = tokio::time::timeout(Duration::from_millis(time_ms), tls.0.accept(stream)) => agreed,
            _ = is_stopping.changed() => return,
        };
        if let Ok(Ok(stream)) = agreed {
            self.plain(stream).await;
        }
    }
}

/// A connection that breaks when nothing more can be written for too long. HTTP alone would wait for ever.
struct Outgoing {
    stream: TcpStream,
    write_ms: u64,
    /// When it breaks, where something waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Outgoing {
    /// Passes on what came of writing, unless that has waited for too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let write = Duration::from_millis(self.write_ms);
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(write)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Outgoing {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // What TCP has taken is on its way: neither of these waits.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
