//! What the store's tests share: sample records, and a fresh store of each kind.

use hone_store::{Options, Place};
use hone_trace::store::{Event, Store, Write};
use hone_trace::{
    Category, Component, Config, EventId, Giver, GiverKind, LlmCall, Message, NextTurn, Reward, RewardId, Role, Segment, Tenant,
    Time, ToolCall, Trace, TraceId, TraceOutcome, Turn, V1,
};
use serde_json::json;
use std::path::PathBuf;

/// A point in time that all samples count from.
pub(crate) fn time(seconds: i64) -> Time {
    Time::from_unix_nanos(1_790_000_000_000_000_000 + seconds * 1_000_000_000)
}

/// A small but complete trace; `n` makes it one of its own and gives its time.
pub(crate) fn trace(n: u32) -> Trace {
    let mut question =
        Turn::new(vec![Message::text(Role::User, format!("What is {n} + {n}?"))], Message::text(Role::Assistant, "…"));
    question.tool_calls.push(ToolCall {
        id: "call_0".to_owned(),
        name: "calculator".to_owned(),
        arguments: json!({"expression": format!("{n}+{n}")}),
        success: Some(true),
        duration_ms: Some(1.5),
        extra: serde_json::Map::new(),
    });
    question.llm_calls.push(LlmCall { model: "tiny".to_owned(), tokens_in: 20, tokens_out: 5, ..LlmCall::default() });
    let id = TraceId::derived(&["sample", &n.to_string()]);
    Trace {
        category: Some(Category::new(if n.is_multiple_of(2) { "even" } else { "odd" }).expect("a good name")),
        outcome: if n.is_multiple_of(3) { TraceOutcome::Failure } else { TraceOutcome::Success },
        segments: vec![Segment { tools: Vec::new(), turns: vec![question], tail: Vec::new() }],
        metadata: json!({"customer": format!("c{}", n % 5), "n": n}).as_object().cloned().unwrap_or_default(),
        ..Trace::new(id, Tenant::default(), time(i64::from(n)), Config::default().hash())
    }
}

pub(crate) fn write(n: u32) -> Write {
    Write::Trace(Box::new(trace(n)))
}

/// The turn that the sample goes on with under this number; its own turn has number 0.
pub(crate) fn next(n: u32, turn_idx: u32) -> NextTurn {
    let question = Message::text(Role::User, format!("And {turn_idx} more?"));
    let mut turn = Turn::new(vec![question], Message::text(Role::Assistant, (2 * n + turn_idx).to_string()));
    let (tokens_in, tokens_out, cost_usd) = (30, 7, Some(0.1));
    turn.llm_calls.push(LlmCall { model: "tiny".to_owned(), tokens_in, tokens_out, cost_usd, ..LlmCall::default() });
    NextTurn { v: V1, turn_idx, segment: None, turn, ended: time(i64::from(n + turn_idx)) }
}

pub(crate) fn turn(n: u32, turn_idx: u32) -> Write {
    Write::Turn(trace(n).id, Box::new(next(n, turn_idx)))
}

/// The sample with so many turns in all.
pub(crate) fn grown(n: u32, n_turns: u32) -> Trace {
    let mut trace = trace(n);
    (1..n_turns).for_each(|turn_idx| trace.go_on(next(n, turn_idx)));
    trace
}

/// The trace with a reward in its own body.
pub(crate) fn rewarded(n: u32, total: f64) -> Write {
    let mut trace = trace(n);
    trace.rewards.push(reward(&format!("own {n}"), total));
    Write::Trace(Box::new(trace))
}

pub(crate) fn reward(fact: &str, total: f64) -> Reward {
    let by = Giver { kind: GiverKind::Check, name: "exact".to_owned(), config: None };
    let parts = vec![Component { name: "right".to_owned(), value: total, weight: 1.0 }];
    Reward::sum(RewardId::derived(&[fact]), time(0), by, parts)
}

pub(crate) fn event(n: u32, stream: &str) -> Event {
    Event {
        id: EventId::derived(&[stream, &n.to_string()]),
        at: time(i64::from(n)),
        tenant: Tenant::default(),
        stream: stream.to_owned(),
        kind: "counted".to_owned(),
        body: json!({"n": n}),
    }
}

/// A fresh place for a store; the folder goes when this is dropped.
pub(crate) struct Fresh {
    pub(crate) place: Place,
    pub(crate) name: &'static str,
    _folder: Option<tempfile::TempDir>,
}

impl Fresh {
    pub(crate) async fn open(&self) -> std::sync::Arc<dyn hone_store::Database> {
        self.open_with(&[]).await
    }

    pub(crate) async fn open_with(&self, indexed: &[&str]) -> std::sync::Arc<dyn hone_store::Database> {
        let indexed_fields = indexed.iter().map(|path| (*path).to_owned()).collect();
        let options = Options { indexed_fields, ..Options::default() };
        hone_store::open(&self.place, &options).await.expect("the store opens")
    }
}

pub(crate) fn sqlite() -> Fresh {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Fresh { place: Place::Folder(folder.path().join(".hone")), name: "sqlite", _folder: Some(folder) }
}

/// A database of its own on the test server, or `None` where there is no server.
pub(crate) async fn postgres() -> Option<Fresh> {
    let url = server()?;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the test server answers");
    let waiting = tokio::spawn(connection);
    let unique =
        TraceId::live(time(0), u128::from(std::process::id()) << 32 | u128::from(counted())).to_string().replace('-', "");
    client.batch_execute(&format!("CREATE DATABASE hone_{unique}")).await.expect("a database of our own");
    drop(client);
    let _ = waiting.await;
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    Some(Fresh { place: Place::Postgres(format!("{server}/hone_{unique}")), name: "postgres", _folder: None })
}

#[expect(clippy::disallowed_methods, reason = "the test run says by a variable where its server is")]
pub(crate) fn server() -> Option<String> {
    std::env::var("HONE_TEST_POSTGRES").ok()
}

#[expect(clippy::disallowed_methods, reason = "the test run says by a variable whether slow tests run")]
pub(crate) fn slow() -> bool {
    std::env::var_os("HONE_SLOW").is_some()
}

fn counted() -> u32 {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Runs a case against a fresh store of each kind.
pub(crate) fn on_each(case: impl AsyncFn(Fresh)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        case(sqlite()).await;
        match postgres().await {
            Some(fresh) => case(fresh).await,
            #[expect(clippy::print_stderr, reason = "a test that skips a part says so")]
            None => eprintln!("skipped on PostgreSQL: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)"),
        }
    });
}

pub(crate) fn folder_of(place: &Place) -> PathBuf {
    match place {
        Place::Folder(folder) => folder.clone(),
        Place::Postgres(_) => panic!("a PostgreSQL store has no folder"),
    }
}

pub(crate) async fn count(store: &dyn Store) -> usize {
    store.heads(&Default::default(), None, 1_000_000).await.expect("a list").items.len()
}
