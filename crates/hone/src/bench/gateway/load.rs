//! Load: requests over connections that stay open, timed from when they were due, so that a server that stalls cannot hide it.
//!
//! As much HTTP as is needed to be a light client: one request at a time on each connection, bodies by length or in chunks.

use super::super::figures::Times;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// The longest that one request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// The longest head or body that is read.
const BYTES_MAX: usize = 4 << 20;

/// What is asked, of whom.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) port: u16,
    pub(super) path: &'static str,
    pub(super) model: String,
    pub(super) is_stream: bool,
    /// A key, where the server wants one.
    pub(super) key: Option<String>,
}

impl Target {
    /// The request of this number: every one is a conversation of its own.
    fn request(&self, number: u64) -> Vec<u8> {
        let stream = if self.is_stream { r#","stream":true"# } else { "" };
        let body = format!(
            r#"{{"model":"{}","messages":[{{"role":"system","content":"You are a helpful assistant who answers in one sentence."}},{{"role":"user","content":"Question number {number}: what is the answer to life, the universe and everything?"}}]{stream}}}"#,
            self.model
        );
        let key = self.key.as_ref().map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
        let Self { port, path, .. } = self;
        let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n{key}");
        format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }
}

/// What came of a load.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Of those that were answered, from when they were due.
    pub(super) times: Times,
    pub(super) n_ok: u64,
    /// Of these, those before the load ended.
    pub(super) n_in_time: u64,
    /// Told to come back.
    pub(super) n_refused: u64,
    pub(super) n_failed: u64,
    /// Why one of them did.
    pub(super) failure: Option<String>,
    pub(super) seconds: f64,
}

impl Seen {
    pub(super) fn ok_per_second(&self) -> f64 {
        self.n_in_time as f64 / self.seconds.max(1e-9)
    }
}

/// As many requests as these connections can carry for so long, each sent when the one before is answered.
pub(super) async fn closed(target: &Target, n_connections: usize, time: Duration) -> Seen {
    load(target, n_connections, time, None).await
}

/// Requests at this rate for so long, sent when they are due, as long as one of these connections is free; the others wait and
/// their waiting counts.
pub(super) async fn open(target: &Target, n_connections: usize, per_second: f64, time: Duration) -> Seen {
    load(target, n_connections, time, Some(per_second)).await
}

async fn load(target: &Target, n_connections: usize, time: Duration, per_second: Option<f64>) -> Seen {
    let (seen, number) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicU64::new(0)));
    let connections = opened(target, n_connections).await;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let (target, seen, number) = (target.clone(), Arc::clone(&seen), Arc::clone(&number));
        tasks.spawn(async move {
            let mut own = Seen::default();
            loop {
                let n = number.fetch_add(1, Ordering::Relaxed);
                let due = match per_second {
                    Some(rate) => start + Duration::from_secs_f64(n as f64 / rate),
                    None => Instant::now(),
                };
                // What is due and could not be sent in this time is not sent at all: the load ends when it should.
                if due >= start + time || Instant::now() >= start + time {
                    break;
                }
                sleep_until(due).await;
                match timeout(REQUEST_TIME_MAX, ask(&target, n, &mut connection)).await {
                    Ok(Ok(200)) => {
                        own.n_ok += 1;
                        own.n_in_time += u64::from(Instant::now() <= start + time);
                        own.times.add(due.elapsed());
                    }
                    Ok(Ok(429 | 503)) => own.n_refused += 1,
                    other => {
                        own.n_failed += 1;
                        own.failure = Some(match other {
                            Ok(Ok(status)) => format!("status {status}"),
                            Ok(Err(error)) => error.to_string(),
                            Err(_) => format!("no answer within {} s", REQUEST_TIME_MAX.as_secs()),
                        });
                        connection = None;
                    }
                }
            }
            let mut seen = seen.lock().await;
            seen.n_ok += own.n_ok;
            seen.n_in_time += own.n_in_time;
            seen.n_refused += own.n_refused;
            seen.n_failed += own.n_failed;
            seen.failure = seen.failure.take().or(own.failure);
            seen.times.extend(own.times);
        });
    }
    while tasks.join_next().await.is_some() {}
    let mut seen = std::mem::take(&mut *seen.lock().await);
    seen.seconds = time.as_secs_f64();
    seen
}

/// A connection with what was read of it and not used yet.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10) })
    }
}

/// Connections that are open before the clock starts; one that cannot be opened is opened when it is needed.
async fn opened(target: &Target, n: usize) -> Vec<Option<Connection>> {
    let port = target.port;
    let mut opening = JoinSet::new();
    for _ in 0..n {
        opening.spawn(async move { timeout(REQUEST_TIME_MAX, Connection::open(port)).await.ok().and_then(Result::ok) });
    }
    opening.join_all().await
}

/// Sends a request, reads the whole answer, and says its status.
async fn ask(target: &Target, number: u64, connection: &mut Option<Connection>) -> std::io::Result<u16> {
    if connection.is_none() {
        *connection = Some(Connection::open(target.port).await?);
    }
    let Some(open) = connection else { return Err(broken()) };
    open.stream.write_all(&target.request(number)).await?;
    let Connection { stream, buffer } = open;
    let Some(head_len) = head(stream, buffer).await? else { return Err(broken()) };
    let text = String::from_utf8_lossy(&buffer[..head_len]).to_ascii_lowercase();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    buffer.drain(..head_len);
    match length(&text) {
        Some(body_len) => body(stream, buffer, body_len).await?,
        None if text.contains("transfer-encoding: chunked") => chunks(stream, buffer).await?,
        None => return Err(broken()),
    }
    if text.contains("connection: close") {
        *connection = None;
    }
    Ok(status)
}

/// A request, as far as a provider looks at it.
pub(super) struct Incoming {
    pub(super) is_stream: bool,
}

/// Reads a request; `None` when the client has closed the connection.
pub(super) async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Incoming>> {
    let Some(head_len) = head(stream, buffer).await? else { return Ok(None) };
    let text = String::from_utf8_lossy(&buffer[..head_len]).to_ascii_lowercase();
    buffer.drain(..head_len);
    let is_stream = match length(&text) {
        Some(body_len) => {
            fill(stream, buffer, body_len).await?;
            let body: Vec<u8> = buffer.drain(..body_len).collect();
            asks_for_stream(&body)
        }
        None if text.contains("transfer-encoding: chunked") => {
            chunks(stream, buffer).await?;
            false
        }
        None => false,
    };
    Ok(Some(Incoming { is_stream }))
}

fn asks_for_stream(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains(r#""stream":true"#) || text.contains(r#""stream": true"#)
}

/// Reads until the head is there, and says how long it is.
async fn head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(Some(end + 4));
        }
        if buffer.len() > BYTES_MAX {
            return Err(broken());
        }
        if stream.read_buf(buffer).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(broken()) };
        }
    }
}

fn length(head: &str) -> Option<usize> {
    let line = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    line.trim().parse().ok().filter(|length| *length <= BYTES_MAX)
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>, len: usize) -> std::io::Result<()> {
    while buffer.len() < len {
        if stream.read_buf(buffer).await? == 0 {
            return Err(broken());
        }
    }
    Ok(())
}

async fn body(stream: &mut TcpStream, buffer: &mut Vec<u8>, len: usize) -> std::io::Result<()> {
    fill(stream, buffer, len).await?;
    buffer.drain(..len);
    Ok(())
}

async fn chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(2).position(|window| window == b"\r\n") {
                break end;
            }
            if stream.read_buf(buffer).await? == 0 {
                return Err(broken());
            }
        };
        let text = String::from_utf8_lossy(&buffer[..end]).trim().to_owned();
        let len = usize::from_str_radix(&text, 16).ok().filter(|len| *len <= BYTES_MAX).ok_or_else(broken)?;
        body(stream, buffer, end + 2 + len + 2).await?;
        if len == 0 {
            return Ok(());
        }
    }
}

fn broken() -> std::io::Error {
    std::io::Error::other("the other side broke off or does not speak HTTP")
}
