//! One request and its answer over HTTP, read within limits of size and time. What is not a whole answer is a failure.

use super::client::Client;
use super::key::KeyError;
use super::reply::{Delta, Refusal, Reply, Usage, WireError, shortened};
use super::request::{ChatRequest, Transfer};
use super::retry::asked_ms;
use super::wire::{self, Assembler, Cutter, Wire};
use hone_trace::policy::PolicyErrorKind;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Response, Url};
use serde_json::Value;
use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What is read of an answer that says no.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Why an attempt gave no answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) kind: PolicyErrorKind,
    pub(super) message: String,
    /// Whether another attempt may fare better.
    pub(super) is_retryable: bool,
    /// How long the provider asks to wait.
    pub(super) asked_ms: Option<u64>,
    /// Whether the provider may have begun to answer, and charge for it.
    pub(super) is_charged: bool,
    /// What it told of the usage before it failed.
    pub(super) usage: Option<Usage>,
    /// The provider's no, where it said one.
    pub(super) refusal: Option<Box<Refusal>>,
}

impl Failure {
    pub(super) fn new(kind: PolicyErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, is_retryable: false, asked_ms: None, is_charged: false, usage: None, refusal: None }
    }

    fn retryable(self) -> Self {
        Self { is_retryable: true, ..self }
    }

    fn charged(self) -> Self {
        Self { is_charged: true, ..self }
    }

    /// That nobody waits for the rest.
    pub(super) fn left(message: &str, usage: Option<Usage>) -> Self {
        Self { usage, ..Self::new(PolicyErrorKind::Abandoned, message).charged() }
    }

    /// A no in the provider's words.
    fn refused(refusal: &Refusal) -> Self {
        use PolicyErrorKind::{Account, Provider, RateLimit, Refused, Timeout, TooLong};
        let (kind, is_retryable) = match refusal.status {
            _ if refusal.is_too_long() => (TooLong, false),
            _ if refusal.is_about_account() => (Account, false),
            // Whoever answers there, it is not this provider: it is no fault of the request.
            300..400 => (Provider, false),
            429 => (RateLimit, true),
            408 => (Timeout, true),
            409 | 425 | 500.. => (Provider, true),
            _ => (Refused, false),
        };
        let code = if refusal.code.is_empty() { String::new() } else { format!(" {}", refusal.code) };
        let message = format!("{}{code}: {}", refusal.status, refusal.message);
        Self { is_retryable, refusal: Some(Box::new(refusal.clone())), ..Self::new(kind, message.trim_end_matches([':', ' '])) }
    }

    pub(super) fn wire(error: WireError) -> Self {
        match error {
            WireError::Broken(what) => Self::new(PolicyErrorKind::Protocol, what).retryable().charged(),
            WireError::Failed(refusal) => Self::refused(&refusal).charged(),
        }
    }
}

/// What is sent.
pub(super) struct Outgoing {
    pub(super) url: Url,
    pub(super) body: Vec<u8>,
    pub(super) transfer: Transfer,
    /// Further headers, which come before our own.
    pub(super) headers: HeaderMap,
}

/// Until when an answer is waited for, and what says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    pub(super) call: Instant,
    pub(super) attempt: Instant,
    pub(super) total_ms: u64,
    pub(super) total_set_by: &'static str,
    pub(super) left_ms: Option<u64>,
    pub(super) attempt_ms: u64,
}

impl Deadlines {
    /// When waiting ends, where something must come in so many milliseconds.
    fn first(&self, idle_ms: u64) -> Instant {
        self.call.min(self.attempt).min(Instant::now() + Duration::from_millis(idle_ms))
    }

    /// Why waiting ended there. When the time of the call is over, nothing is tried again.
    fn missed(&self, ended: Instant, idle_ms: u64) -> Failure {
        let timeout = |text: String| Failure::new(PolicyErrorKind::Timeout, text).charged();
        match self.left_ms {
            _ if ended < self.call && ended < self.attempt => timeout(format!("nothing came for {idle_ms} ms")).retryable(),
            _ if ended < self.call => timeout(format!("the answer was not complete within {} ms", self.attempt_ms)).retryable(),
            Some(left_ms) => {
                let left_s = left_ms as f64 / 1e3;
                timeout(format!("the answer was not complete within the {left_s} s that were left{}", self.set_by()))
            }
            None => {
                let total_s = self.total_ms as f64 / 1e3;
                timeout(format!("the answer was not complete within {total_s} s, the time allowed{}", self.set_by()))
            }
        }
    }

    fn set_by(&self) -> String {
        if self.total_set_by.is_empty() { String::new() } else { format!(" ({})", self.total_set_by) }
    }
}

/// An answer that is coming in.
pub(super) struct Exchange {
    response: Response,
    wire: Wire,
    transfer: Transfer,
    deadlines: Deadlines,
    idle_ms: u64,
    n_bytes: usize,
    bytes_max: usize,
    cutter: Cutter,
    assembler: Box<dyn Assembler>,
    pieces: VecDeque<Delta>,
    has_ended: bool,
}

impl Exchange {
    /// Sends the request and reads the head of the answer.
    pub(super) async fn open(
        client: &Client,
        outgoing: &Outgoing,
        assembler: Box<dyn Assembler>,
        deadlines: Deadlines,
    ) -> Result<Self, Failure> {
        let (options, wire) = (&client.options, client.spec.provider.wire);
        let refused = |error: KeyError| Failure::new(PolicyErrorKind::Refused, error.to_string());
        let mut headers = client.headers(&outgoing.url, &outgoing.body).map_err(refused)?;
        headers.extend(outgoing.headers.clone());
        let (accept, head_ms) = match outgoing.transfer {
            Transfer::Stream => (wire::stream_type(wire), options.idle_ms),
            Transfer::Plain => ("application/json", options.attempt_ms),
        };
        let sent = client
            .http
            .post(outgoing.url.clone())
            .headers(headers)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept)
            .body(outgoing.body.clone())
            .send();
        let ends = deadlines.first(head_ms);
        let response = match timeout_at(ends, sent).await {
            Err(_) => return Err(deadlines.missed(ends, head_ms)),
            Ok(Err(error)) => return Err(unsent(&error)),
            Ok(Ok(response)) => response,
        };
        let mut exchange = Self {
            response,
            wire,
            transfer: outgoing.transfer,
            deadlines,
            idle_ms: options.idle_ms,
            n_bytes: 0,
            bytes_max: options.body_bytes_max,
            cutter: Cutter::new(wire, options.event_bytes_max),
            assembler,
            pieces: VecDeque::new(),
            has_ended: false,
        };
        if !exchange.response.status().is_success() {
            return Err(exchange.refusal(client).await);
        }
        exchange.check_type()?;
        Ok(exchange)
    }

    /// What was told of the usage so far.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.assembler.usage()
    }

    /// The next piece of a stream; `None` at its end, or when the answer comes in one piece.
    pub(super) async fn next(&mut self) -> Result<Option<Delta>, Failure> {
        while self.transfer == Transfer::Stream && self.pieces.is_empty() && !self.has_ended {
            let Some(bytes) = self.chunk().await? else {
                self.has_ended = true;
                break;
            };
            let told = |error: WireError, assembler: &dyn Assembler| Failure { usage: assembler.usage(), ..Failure::wire(error) };
            let events = self.cutter.push(&bytes).map_err(|error| told(error, &*self.assembler))?;
            for event in events {
                match self.assembler.push(&event) {
                    Ok(pieces) => self.pieces.extend(pieces),
                    Err(error) => return Err(told(error, &*self.assembler)),
                }
            }
            self.has_ended = self.assembler.is_done();
        }
        Ok(self.pieces.pop_front())
    }

    /// The whole answer.
    pub(super) async fn reply(mut self, request: &ChatRequest) -> Result<Reply, Failure> {
        if self.transfer == Transfer::Stream {
            while self.next().await?.is_some() {}
            let usage = self.assembler.usage();
            return self.assembler.finish().map_err(|error| Failure { usage, ..Failure::wire(error) });
        }
        let wire = self.wire;
        wire::reply(wire, &self.json().await?, request).map_err(Failure::wire)
    }

    /// An answer in one piece.
    pub(super) async fn json(mut self) -> Result<Value, Failure> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            body.extend_from_slice(&bytes);
        }
        serde_json::from_slice(&body).map_err(|_| Failure::wire(WireError::Broken("the answer is not JSON".into())))
    }

    async fn chunk(&mut self) -> Result<Option<impl Deref<Target = [u8]> + use<>>, Failure> {
        let ends = self.deadlines.first(self.idle_ms);
        let failed = |failure: Failure, usage| Failure { usage, ..failure.charged() };
        let usage = self.assembler.usage();
        let bytes = match timeout_at(ends, self.response.chunk()).await {
            Err(_) => return Err(failed(self.deadlines.missed(ends, self.idle_ms), usage)),
            Ok(Err(error)) => {
                let text = format!("the connection broke in the middle of the answer: {}", cause(&error));
                return Err(failed(Failure::new(PolicyErrorKind::Protocol, text).retryable(), usage));
            }
            Ok(Ok(bytes)) => bytes,
        };
        self.n_bytes += bytes.as_ref().map_or(0, |bytes| bytes.len());
        if self.n_bytes > self.bytes_max {
            let text = format!("the answer is longer than {} bytes", self.bytes_max);
            return Err(failed(Failure::new(PolicyErrorKind::Protocol, text), usage));
        }
        Ok(bytes)
    }

    fn check_type(&self) -> Result<(), Failure> {
        let found = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let plain = found.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let asked = match self.transfer {
            Transfer::Stream => wire::stream_type(self.wire),
            Transfer::Plain => "application/json",
        };
        let is_right = plain == asked || self.transfer == Transfer::Plain && plain.ends_with("+json");
        let what = || format!("the answer is of type `{}`, where `{asked}` was asked for", shortened(found));
        if is_right { Ok(()) } else { Err(Failure::wire(WireError::Broken(what()))) }
    }

    /// An answer that says no.
    async fn refusal(&mut self, client: &Client) -> Failure {
        let status = self.response.status().as_u16();
        let asked_ms = asked_ms(self.response.headers(), client.now());
        let mut body = Vec::new();
        self.bytes_max = REFUSAL_BYTES_MAX;
        // What it says is a courtesy; the status alone says no.
        while let Ok(Some(bytes)) = self.chunk().await {
            body.extend_from_slice(&bytes);
        }
        let told = serde_json::from_slice(&body).ok().and_then(|json| Refusal::read(&json, Some(status)));
        // AWS says in a header what kind of no it is.
        let kind = self.response.headers().get("x-amzn-errortype").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(':').next().unwrap_or_default();
        let told = told.map(|told| Refusal { code: if told.code.is_empty() { kind.into() } else { told.code }, ..told });
        let text = String::from_utf8_lossy(&body);
        let is_page = text.trim_start().starts_with('<');
        let message = || if is_page { String::new() } else { shortened(&text) };
        let plain = || Refusal { status, code: String::new(), message: message(), words: Box::default() };
        let mut failure = Failure::refused(&told.unwrap_or_else(plain));
        if (300..400).contains(&status) {
            failure.message = format!("{status}: the address redirects, which is not followed");
        }
        Failure { asked_ms, ..failure }
    }
}

fn unsent(error: &reqwest::Error) -> Failure {
    let failure = |kind, what: &str| Failure::new(kind, format!("{what}: {}", cause(error))).retryable();
    match () {
        () if error.is_connect() && error.is_timeout() => failure(PolicyErrorKind::Timeout, "no connection in time"),
        () if error.is_connect() => failure(PolicyErrorKind::Provider, "no connection"),
        () => failure(PolicyErrorKind::Provider, "the connection broke before the answer").charged(),
    }
}

/// The innermost reason, which is the telling one.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    shortened(&inner.to_string())
}
