//! A gateway with a store of its own, and a client that talks to it.

use crate::tiny;
use crate::upstream::{self, Heard};
use hone_eval::Thrift;
use hone_gateway::{
    Access, Adapters, Catalogue, Dashboard, Gateway, Limits, Local, Model, Route, RouteBy, Setting, Setup, TaskRule, Tls,
    VoiceMade, Who, serve,
};
use hone_policy::upstream::{Client, ClientOptions, Key, Retry, Transfer};
use hone_store::{Database, Options, Place};
use hone_trace::store::{Event, StoreError, TraceQuery, Write};
use hone_trace::{AdapterId, AgentName, Category, Clock, EventId, Tenant, Time, Trace};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// A clock that begins somewhere and goes on like any other.
struct Going(Instant);

impl Clock for Going {
    fn now(&self) -> Time {
        Time::from_unix_nanos(1_800_000_000_000_000_000 + i64::try_from(self.0.elapsed().as_nanos()).unwrap())
    }
}

/// A provider's key that must never be seen.
pub(crate) const CANARY: &str = "sk-canary-0123456789";

/// A gateway that runs.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) heard: Heard,
    pub(crate) store: Arc<dyn Database>,
    pub(crate) http: reqwest::Client,
    /// What it has told the person who runs it.
    pub(crate) said: Arc<Mutex<Vec<String>>>,
    pub(crate) wardrobe: Arc<Wardrobe>,
    stop: Option<oneshot::Sender<()>>,
    server: Option<tokio::task::JoinHandle<()>>,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

/// Puts any adapter on any model, which then speaks like the small one, when the store has failed so often.
#[derive(Default)]
pub(crate) struct Wardrobe {
    pub(crate) n_failing: AtomicU64,
}

impl Adapters for Wardrobe {
    fn voice<'a>(&'a self, _: &'a str, _: AdapterId) -> VoiceMade<'a> {
        let fails = self.n_failing.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok();
        let failure = || StoreError::Unavailable { place: "the store".into(), reason: "it does not answer".into() };
        Box::pin(async move { if fails { Err(failure().into()) } else { Ok(tiny::voice()) } })
    }
}

/// An answer to a request.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) episode: Option<String>,
    /// The agent that answered, and its version.
    pub(crate) by: Option<(String, String)>,
    /// What the request is called, in the header of OpenAI's clients or in that of Anthropic's.
    pub(crate) request: Option<String>,
    /// Seconds to wait, where the server says so.
    pub(crate) retry_s: Option<u64>,
    pub(crate) body: String,
}

impl Told {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The data of a stream's events.
    pub(crate) fn events(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }
}

pub(crate) fn tenant() -> Tenant {
    Tenant::new("default").unwrap()
}

impl World {
    pub(crate) async fn open() -> Self {
        Self::with(Access::open(tenant()), Limits { stop_ms: 5_000, ..Limits::default() }).await
    }

    pub(crate) async fn with(access: Access, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = hone_store::open(&Place::Folder(folder.path().join(".hone")), &Options::default()).await.unwrap();
        Self::on(Arc::new(folder), store, access, limits, None).await
    }

    /// One that speaks TLS, with a client that trusts this certificate.
    pub(crate) async fn encrypted(tls: Tls, certificate: &[u8], limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = hone_store::open(&Place::Folder(folder.path().join(".hone")), &Options::default()).await.unwrap();
        let mut world = Self::on(Arc::new(folder), store, Access::open(tenant()), limits, Some(tls)).await;
        let certificate = reqwest::Certificate::from_pem(certificate).unwrap();
        world.http = reqwest::Client::builder().no_proxy().https_only(true).add_root_certificate(certificate).build().unwrap();
        world
    }

    /// Another gateway on the same store.
    pub(crate) async fn again(&self) -> Self {
        let limits = Limits { stop_ms: 5_000, ..Limits::default() };
        Self::on(Arc::clone(&self.folder), Arc::clone(&self.store), Access::open(tenant()), limits, None).await
    }

    /// Stops the server, and starts another one on the same store.
    pub(crate) async fn restarted(&mut self, limits: Limits) -> Self {
        self.stop_and_wait().await;
        Self::on(Arc::clone(&self.folder), Arc::clone(&self.store), Access::open(tenant()), limits, None).await
    }

    /// Changes what the database holds behind the store's back.
    pub(crate) fn change(&self, sql: &str) {
        rusqlite::Connection::open(self.folder.path().join(".hone/hone.db")).unwrap().execute_batch(sql).unwrap();
    }

    /// Puts what a back-up has in the place of all that there is, while the server runs.
    pub(crate) async fn restore(&self, backup: &std::path::Path) {
        let tables = ["turns", "rewards", "trace_fields", "bodies", "traces", "links", "documents", "events"];
        // A database that is made anew numbers its lines from the first on.
        let sql = tables.map(|table| format!("DELETE FROM {table};")).concat() + "DELETE FROM sqlite_sequence;";
        self.change(&sql);
        hone_store::restore(&*self.store, backup, |_| ()).await.unwrap();
    }

    /// Says on the record that a server has started, as `hone serve` does, and lets this one read it.
    pub(crate) async fn say_started(&self) {
        let id = EventId::derived(&["started", &self.url]);
        let (at, stream, kind) = (Time::from_unix_nanos(1), hone_gateway::STREAM.to_owned(), "started".to_owned());
        let event = Event { id, at, tenant: tenant(), stream, kind, body: json!({}) };
        self.store.put(vec![Write::Event(event)]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    /// Writes a back-up of the store.
    pub(crate) async fn back_up(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        hone_store::backup(&*self.store, folder.path(), |_| ()).await.unwrap();
        folder
    }

    async fn on(
        folder: Arc<tempfile::TempDir>,
        store: Arc<dyn Database>,
        access: Access,
        limits: Limits,
        tls: Option<Tls>,
    ) -> Self {
        let (address, heard) = upstream::start().await;
        let clock: Arc<dyn Clock> = Arc::new(Going(Instant::now()));
        let client = |spec: String| {
            let key = spec.ends_with("#leaky").then(|| Key::new(CANARY).unwrap());
            let retry = Retry { n_attempts_max: 1, base_ms: 1, cap_ms: 1 };
            let clock = Some(Arc::clone(&clock));
            let options = ClientOptions { transfer: Transfer::Plain, retry, clock, total_ms: 10_000, ..ClientOptions::default() };
            Arc::new(Client::new(spec.parse().unwrap(), key, options).unwrap())
        };
        let one = |name: &str| Model::new(name, [client(format!("{address}#{name}"))]);
        let both = Model::new("both", [client(format!("{address}#broken")), client(format!("{address}#well"))]);
        let slow_first = Model::new("slow-first", [client(format!("{address}#slow")), client(format!("{address}#well"))]);
        let several = |name: &str, all: &[&str]| Model::new(name, all.iter().map(|one| client(format!("{address}#{one}"))));
        let mute = Who::Local(Arc::new(Local::new(tiny::mute())));
        let mixed = [
            several("cut-first", &["cut", "well"]),
            several("poor", &["locked", "unpaid"]),
            several("poor-first", &["locked", "unpaid", "well"]),
            Model::new("claude-first", [client(format!("anthropic+{address}#claude")), client(format!("{address}#well"))]),
            Model::new("mute-first", [mute, client(format!("{address}#well")).into()]),
        ];
        let claude = Model::new("claude", [client(format!("anthropic+{address}#claude"))]);
        let own = Model::new("own/tiny", [Who::Local(Arc::new(Local::new(tiny::voice())))]);
        let toolless = Model::new("own/toolless", [Who::Local(Arc::new(Local::new(tiny::toolless())))]);
        let names = [
            "well",
            "fine",
            "broken",
            "picky",
            "slow",
            "cut",
            "embed",
            "leaky",
            "calls",
            "busy",
            "gone",
            "endless",
            "flood",
            "pondering",
            "broken-late",
            "long",
        ];
        let catalogue =
            Catalogue::new(names.map(one).into_iter().chain([both, slow_first, claude, own, toolless]).chain(mixed)).unwrap();
        let (log, mut told) = mpsc::channel(100);
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard_by = Arc::clone(&said);
        tokio::spawn(async move {
            while let Some(text) = told.recv().await {
                heard_by.lock().unwrap().push(text);
            }
        });
        let wardrobe = Arc::new(Wardrobe::default());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let setup = Setup {
            catalogue,
            routes: vec![best_of(RouteBy::Task), best_of(RouteBy::Features)],
            tasks: vec![TaskRule { task: Category::new("refund").unwrap(), words: vec!["money back".into()] }],
            thrift: Thrift::default(),
            outcome: None,
            adapters: Some(Arc::clone(&wardrobe) as Arc<dyn Adapters>),
            store: Arc::clone(&store) as Arc<dyn hone_trace::store::Store>,
            clock,
            access,
            tls,
            limits,
            hosts: vec!["hone.test".into()],
            seed: 7,
            dashboard: dashboard(),
            log,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(serve(Gateway::new(setup), listener, async { drop(stopped.await) }));
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { url, heard, store, http, said, wardrobe, stop: Some(stop), server: Some(server), folder }
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) async fn stop_and_wait(&mut self) {
        self.stop();
        if let Some(server) = self.server.take() {
            server.await.unwrap();
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Told {
        let mut request = self.http.post(format!("{}{path}", self.url)).body(body.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        told(request).await
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Told {
        let mut request = self.http.get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        told(request).await
    }

    /// Asks this model what was said so far.
    pub(crate) async fn chat(&self, model: &str, said: &[(&str, &str)], headers: &[(&str, &str)]) -> Told {
        self.post("/v1/chat/completions", &json!({"model": model, "messages": messages(said)}), headers).await
    }

    /// All traces, newest first.
    pub(crate) async fn traces(&self) -> Vec<Trace> {
        self.store.traces(&TraceQuery::default(), None, 100).await.unwrap().items
    }

    /// The only trace, when it has this many turns.
    pub(crate) async fn trace_of(&self, n_turns: usize) -> Trace {
        for _ in 0..200 {
            let mut traces = self.traces().await;
            if traces.len() == 1 && traces[0].turns().count() == n_turns {
                return traces.remove(0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("there is no single trace of {n_turns} turns: {:?}", self.traces().await);
    }
}

async fn told(request: reqwest::RequestBuilder) -> Told {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (episode, retry_s) = (header("x-hone-episode"), header("retry-after").map(|text| text.parse().unwrap()));
    let ids = [header("x-request-id"), header("request-id")];
    assert!(ids.iter().flatten().count() < 2, "a request has one name: {ids:?}");
    let by = header("x-hone-agent").zip(header("x-hone-version"));
    Told { status, episode, by, request: ids.into_iter().flatten().next(), retry_s, body: response.text().await.unwrap() }
}

/// What the pages need, with a password that must never be seen.
fn dashboard() -> Dashboard {
    let setting = |name: &str, value: &str| Setting { name: name.into(), value: value.into(), from: "default".into() };
    let settings = vec![setting("store.folder", "\".hone\""), setting("serve.models", "[\"<b>bold</b>\"]")];
    Dashboard { tenant: tenant(), settings, draw, is_encrypted: false }
}

/// Another one every time, as far as tests need it.
fn draw() -> Option<[u8; 32]> {
    static N_DRAWN: AtomicU64 = AtomicU64::new(0);
    let n = N_DRAWN.fetch_add(1, Ordering::Relaxed);
    Some(std::array::from_fn(|idx| n.to_le_bytes()[idx % 8]))
}

/// A route to whichever of two agents does best.
fn best_of(by: RouteBy) -> Route {
    let name = if by == RouteBy::Task { "best" } else { "fit" };
    Route { name: name.into(), agents: ["desk", "clerk"].map(|agent| AgentName::new(agent).unwrap()).to_vec(), by }
}

pub(crate) fn messages(said: &[(&str, &str)]) -> Value {
    said.iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
}
