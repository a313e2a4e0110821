//! A provider that does what a test tells it, byte by byte.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the provider does with a request.
#[derive(Clone)]
pub(crate) enum Play {
    /// Sends these bytes and closes the connection.
    Say(Vec<u8>),
    /// Sends these bytes and then nothing, until the other side gives up.
    Hang(Vec<u8>),
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
    /// The body, byte by byte.
    pub(crate) raw: Vec<u8>,
}

impl Seen {
    /// The path with its query.
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        pairs.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    n_at_once_max: Arc<AtomicUsize>,
}

impl Server {
    /// Listens until the process ends.
    pub(crate) fn start(play: impl Fn(&Seen) -> Play + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (play, seen) = (Arc::new(play), Arc::new(Mutex::new(Vec::new())));
        let (n_at_once, n_at_once_max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = Self { address, seen: Arc::clone(&seen), n_at_once_max: Arc::clone(&n_at_once_max) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (play, seen) = (Arc::clone(&play), Arc::clone(&seen));
                let (n_at_once, n_at_once_max) = (Arc::clone(&n_at_once), Arc::clone(&n_at_once_max));
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    n_at_once_max.fetch_max(n_at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    seen.lock().unwrap().push(request.clone());
                    let play = play(&request);
                    n_at_once.fetch_sub(1, Ordering::SeqCst);
                    act(&stream, &play);
                });
            }
        });
        server
    }

    /// Plays these in turn; the last again and again.
    pub(crate) fn playing(plays: Vec<Play>) -> Self {
        let n_asked = AtomicUsize::new(0);
        Self::start(move |_| plays[n_asked.fetch_add(1, Ordering::SeqCst).min(plays.len() - 1)].clone())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn n_at_once_max(&self) -> usize {
        self.n_at_once_max.load(Ordering::SeqCst)
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { head, body: serde_json::from_slice(&body).unwrap_or_default(), raw: body })
}

fn act(mut stream: &TcpStream, play: &Play) {
    let (Play::Say(bytes) | Play::Hang(bytes)) = play;
    // Who is hung up on in the middle need not hear the rest.
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
    if let Play::Hang(_) = play {
        let _ = stream.read(&mut [0; 1]);
    }
}

/// An answer with this status line, these headers (each ended by a line break) and this body.
pub(crate) fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{}\r\n{body}", headers.replace('\n', "\r\n")).into_bytes()
}

/// An answer of this type, byte by byte.
pub(crate) fn bytes(content_type: &str, body: &[u8]) -> Play {
    Play::Say([http("200 OK", &format!("content-type: {content_type}\n"), "").as_slice(), body].concat())
}

pub(crate) fn json(body: &Value) -> Play {
    Play::Say(http("200 OK", "content-type: application/json\n", &body.to_string()))
}

pub(crate) fn refusal(status: &str, headers: &str, code: &str, message: &str) -> Play {
    let body = serde_json::json!({"error": {"message": message, "type": code, "param": null, "code": null}});
    Play::Say(http(status, &format!("content-type: application/json\n{headers}"), &body.to_string()))
}

/// A stream of events.
pub(crate) fn sse(events: &[&str]) -> Vec<u8> {
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    http("200 OK", "content-type: text/event-stream; charset=utf-8\n", &events)
}
