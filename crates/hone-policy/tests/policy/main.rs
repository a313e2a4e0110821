//! Providers, their words, their faults and their prices, from a server of ours on this machine; and the local engine as a policy.
//! No test needs the network.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod embeddings;
mod faults;
mod local;
mod money;
mod server;
mod streams;
mod table;
mod versions;
mod wire;
mod world;

use hone_policy::upstream::{Client, ClientOptions, Key, Retry, Sampling, Sleeper, Upstream};
use hone_trace::{SteppedClock, Time};
use server::Server;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use tokio::runtime::Runtime;

/// What must never be seen outside a header.
const SECRET: &str = "sk-canary-4711";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| hone_policy::upstream::runtime().unwrap());

/// Does not sleep, and remembers how long it should have.
#[derive(Default)]
struct Awake(Mutex<Vec<u64>>);

impl Sleeper for Awake {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.lock().unwrap().push(ms);
        Box::pin(std::future::ready(()))
    }
}

/// Small limits, three attempts, a clock of its own.
fn options() -> ClientOptions {
    ClientOptions {
        retry: Retry { n_attempts_max: 3, base_ms: 100, cap_ms: 1000 },
        total_ms: 20_000,
        attempt_ms: 10_000,
        idle_ms: 5_000,
        body_bytes_max: 64 << 10,
        event_bytes_max: 16 << 10,
        clock: Some(Arc::new(SteppedClock::new(Time::from_unix_nanos(0), 1_000_000))),
        sleeper: Arc::new(Awake::default()),
        ..ClientOptions::default()
    }
}

fn client(server: &Server, format: &str, options: ClientOptions) -> Arc<Client> {
    let spec = format!("{format}+http://{}/v1#test-model", server.address).parse().unwrap();
    Arc::new(Client::new(spec, Some(Key::new(SECRET).unwrap()), options).unwrap())
}

fn policy(server: &Server, options: ClientOptions) -> Upstream {
    Upstream::new(client(server, "openai", options), Sampling::default(), RUNTIME.handle().clone()).unwrap()
}
