//! A call: attempts until one gives an answer, each on the record, paid for and within the time.

use super::budget::Reservation;
use super::client::Client;
use super::embedding::{self, Embeddings};
use super::exchange::{Deadlines, Exchange, Failure, Outgoing};
use super::reply::{Delta, Reply, Usage, Words};
use super::request::{ChatRequest, RequestError, Transfer};
use super::wire;
use hone_trace::policy::{PolicyError, PolicyErrorKind};
use hone_trace::{ErrorEvent, LlmCall, Time};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// An answer, with what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The answer.
    pub reply: Reply,
    /// Every attempt, the last one being that which gave the answer.
    pub calls: Vec<LlmCall>,
    /// Why the others gave none.
    pub failures: Vec<ErrorEvent>,
}

/// No answer, with what it took.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct UpstreamError {
    /// What kind of failure: that of the last attempt.
    pub kind: PolicyErrorKind,
    /// In the provider's words where there are any, without the key.
    pub message: String,
    /// Every attempt.
    pub calls: Vec<LlmCall>,
    /// How the provider said no to the last attempt, where it did.
    pub told: Option<Box<Told>>,
}

/// A no of a provider, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The HTTP status.
    pub status: u16,
    /// What it says to people, and nothing besides; empty where it says nothing.
    pub message: String,
    /// Its own words for programs.
    pub words: Words,
    /// How long it asks to wait.
    pub retry_ms: Option<u64>,
}

impl UpstreamError {
    /// No answer, and nobody was asked.
    pub fn new(kind: PolicyErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), calls: Vec::new(), told: None }
    }
}

impl From<UpstreamError> for PolicyError {
    fn from(error: UpstreamError) -> Self {
        Self { kind: error.kind, message: error.message, llm_calls: error.calls }
    }
}

pub(super) struct Call {
    client: Arc<Client>,
    /// Empty where no conversation is asked about.
    request: ChatRequest,
    outgoing: Outgoing,
    deadline: Instant,
    /// Milliseconds of the call, where its request allows fewer than the client.
    left_ms: Option<u64>,
    calls: Vec<LlmCall>,
    failures: Vec<ErrorEvent>,
}

/// One attempt. While it lives it holds its place and its money.
struct Attempt {
    _place: OwnedSemaphorePermit,
    reservation: Option<Reservation>,
    started: Option<Time>,
}

impl Call {
    pub(super) fn new(client: Arc<Client>, request: &ChatRequest, transfer: Transfer) -> Result<Self, UpstreamError> {
        let mut request = request.clone();
        if client.pays_by_length() {
            request.limit_tokens(client.spec.provider.tokens_key);
        }
        let outgoing = wire::body(&client.spec, &request, transfer).and_then(|body| {
            let (url, headers) = (wire::url(&client.spec, request.endpoint, transfer)?, request.headers.clone());
            Ok(Outgoing { url, body: body.to_string().into_bytes(), transfer, headers })
        });
        let mut call = Self::asking(client, outgoing)?;
        if let Some(time_max_ms) = request.time_max_ms.filter(|time_max_ms| *time_max_ms < call.client.options.total_ms) {
            call.deadline = Instant::now() + Duration::from_millis(time_max_ms);
            call.left_ms = Some(time_max_ms);
        }
        call.request = request;
        Ok(call)
    }

    /// Asks this, within the client's limits. What cannot be put into words is never sent.
    pub(super) fn asking(client: Arc<Client>, outgoing: Result<Outgoing, RequestError>) -> Result<Self, UpstreamError> {
        let refused = |error: RequestError| UpstreamError::new(PolicyErrorKind::Refused, error.to_string());
        let outgoing = outgoing.map_err(refused)?;
        let deadline = Instant::now() + Duration::from_millis(client.options.total_ms);
        let (calls, failures) = (Vec::new(), Vec::new());
        Ok(Self { client, request: ChatRequest::default(), outgoing, deadline, left_ms: None, calls, failures })
    }

    pub(super) async fn complete(mut self) -> Result<Completion, UpstreamError> {
        loop {
            let attempt = self.begin().await?;
            let result = match self.open().await {
                Ok(exchange) => exchange.reply(&self.request).await,
                Err(failure) => Err(failure),
            };
            match result {
                Ok(reply) => return Ok(self.succeed(attempt, reply)),
                Err(failure) => self.fail(attempt, failure).await?,
            }
        }
    }

    pub(super) async fn embed(mut self, n_texts: usize) -> Result<Embeddings, UpstreamError> {
        loop {
            let attempt = self.begin().await?;
            let result = match self.open().await {
                Ok(exchange) => exchange.json().await.and_then(|json| embedding::read(&json, n_texts).map_err(Failure::wire)),
                Err(failure) => Err(failure),
            };
            match result {
                Ok(read) => {
                    self.settle(attempt, read.usage, read.model.as_deref());
                    return Ok(Embeddings { vectors: read.vectors, calls: self.calls, failures: self.failures });
                }
                Err(failure) => self.fail(attempt, failure).await?,
            }
        }
    }

    /// What the provider tells of a body that nobody answers, and for which it charges nothing.
    pub(super) async fn count(mut self) -> Result<Value, UpstreamError> {
        loop {
            let mut attempt = self.begin().await?;
            if let Some(reservation) = attempt.reservation.take() {
                reservation.settle(0.0);
            }
            let result = match self.open().await {
                Ok(exchange) => exchange.json().await,
                Err(failure) => Err(failure),
            };
            match result {
                Ok(told) => return Ok(told),
                Err(failure) => self.fail(attempt, failure).await?,
            }
        }
    }

    pub(super) async fn stream(mut self) -> Result<Streaming, UpstreamError> {
        loop {
            let attempt = self.begin().await?;
            let result = match self.open().await {
                Ok(mut exchange) => exchange.next().await.map(|first| (exchange, first)),
                Err(failure) => Err(failure),
            };
            match result {
                Ok((exchange, first)) => return Ok(Streaming { call: self, underway: Some((attempt, exchange)), first }),
                Err(failure) => self.fail(attempt, failure).await?,
            }
        }
    }

    /// Waits for a place and sets the money aside. What fails here was never sent.
    async fn begin(&mut self) -> Result<Attempt, UpstreamError> {
        let in_time = timeout_at(self.deadline, async {
            let place = Arc::clone(&self.client.gate).acquire_owned().await;
            let place = place.map_err(|_| Failure::new(PolicyErrorKind::Provider, "the client was closed"))?;
            let reservation = match (&self.client.options.budget, self.client.price) {
                (Some(budget), Some(price)) => {
                    let tokens_max = self.request.tokens_max.saturating_mul(self.request.n_answers());
                    let worst_usd = price.worst_usd(self.outgoing.body.len(), tokens_max);
                    let reserved = budget.reserve(worst_usd).await;
                    Some(reserved.map_err(|error| Failure::new(PolicyErrorKind::Budget, error.to_string()))?)
                }
                _ => None,
            };
            Ok((place, reservation))
        });
        let begun = in_time
            .await
            .unwrap_or_else(|_| Err(Failure::new(PolicyErrorKind::Timeout, "the time was over before the call could begin")));
        match begun {
            Ok((place, reservation)) => Ok(Attempt { _place: place, reservation, started: self.client.now() }),
            Err(failure) => Err(self.error(&failure)),
        }
    }

    async fn open(&self) -> Result<Exchange, Failure> {
        let options = &self.client.options;
        let deadlines = Deadlines {
            call: self.deadline,
            attempt: Instant::now() + Duration::from_millis(options.attempt_ms),
            total_ms: options.total_ms,
            total_set_by: options.total_set_by,
            left_ms: self.left_ms,
            attempt_ms: options.attempt_ms,
        };
        let assembler = wire::assembler(self.client.spec.provider.wire, &self.request);
        Exchange::open(&self.client, &self.outgoing, assembler, deadlines).await
    }

    fn succeed(mut self, attempt: Attempt, reply: Reply) -> Completion {
        self.settle(attempt, reply.usage, reply.model.as_deref());
        Completion { reply, calls: self.calls, failures: self.failures }
    }

    /// Puts the attempt that gave an answer on the record, and pays for it.
    fn settle(&mut self, attempt: Attempt, usage: Option<Usage>, model: Option<&str>) {
        let mut call = self.record(&attempt, usage);
        if usage.is_none() {
            call.extra.insert("usage".into(), "not told".into());
        }
        if let Some(model) = model {
            model.clone_into(&mut call.model);
        }
        if let (Some(reservation), Some(cost_usd)) = (attempt.reservation, call.cost_usd) {
            reservation.settle(cost_usd);
        }
        self.calls.push(call);
    }

    /// Puts a failed attempt on the record and waits for the next one, if there is to be one.
    async fn fail(&mut self, attempt: Attempt, failure: Failure) -> Result<(), UpstreamError> {
        let wait_ms = self.close(attempt, &failure);
        let options = &self.client.options;
        let asks_too_much = failure.asked_ms.is_some_and(|asked_ms| asked_ms > options.asked_ms_max);
        if !failure.is_retryable || asks_too_much || self.calls.len() >= options.retry.n_attempts_max as usize {
            return Err(self.error(&failure));
        }
        if Instant::now() + Duration::from_millis(wait_ms) >= self.deadline {
            let message = format!("{}; no time is left to wait {wait_ms} ms and try again", failure.message);
            return Err(self.error(&Failure { message, ..failure }));
        }
        let message = self.client.redact(&failure.message);
        self.failures.push(ErrorEvent { kind: failure.kind.as_str().into(), recovered: true, message });
        self.client.options.sleeper.sleep(wait_ms).await;
        Ok(())
    }

    /// Puts a failed attempt on the record; returns how long to wait before another.
    fn close(&mut self, attempt: Attempt, failure: &Failure) -> u64 {
        let mut call = self.record(&attempt, failure.usage);
        let text = format!("{}: {}", failure.kind, self.client.redact(&failure.message));
        call.extra.insert("error".into(), text.into());
        // What was told before the failure is no bound of what is charged: else the reservation is dropped, and booked whole.
        if let Some(reservation) = attempt.reservation.filter(|_| !failure.is_charged) {
            reservation.settle(0.0);
        }
        self.calls.push(call);
        let n_failed = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.client.options.retry.wait_ms(n_failed, self.request.seed, failure.asked_ms)
    }

    fn record(&self, attempt: &Attempt, usage: Option<Usage>) -> LlmCall {
        let told = usage.unwrap_or_default();
        LlmCall {
            model: self.client.spec.model.clone(),
            tokens_in: told.tokens_in,
            tokens_out: told.tokens_out,
            tokens_cached: told.tokens_cached,
            cost_usd: usage.zip(self.client.price).map(|(usage, price)| price.cost_usd(&usage)),
            duration_ms: self.client.now().zip(attempt.started).map(|(now, started)| now.millis_since(started)),
            extra: Map::new(),
        }
    }

    fn error(&mut self, failure: &Failure) -> UpstreamError {
        let calls = std::mem::take(&mut self.calls);
        let n_attempts = calls.len();
        let message = self.client.redact(&failure.message);
        let message = if n_attempts > 1 { format!("{message} (after {n_attempts} attempts)") } else { message };
        let redacted = |text: &Option<String>| text.as_deref().map(|text| self.client.redact(text));
        let told = failure.refusal.as_ref().map(|refusal| {
            let Words { kind, code, param } = &*refusal.words;
            let words = Words { kind: redacted(kind), code: redacted(code), param: redacted(param) };
            let message = self.client.redact(&refusal.message);
            Box::new(Told { status: refusal.status, message, words, retry_ms: failure.asked_ms })
        });
        UpstreamError { kind: failure.kind, message, calls, told }
    }
}

/// An answer that is coming. Who drops it before its end has it booked at its worst price.
pub struct Streaming {
    call: Call,
    /// Nothing after a failure.
    underway: Option<(Attempt, Exchange)>,
    first: Option<Delta>,
}

impl Streaming {
    /// The next piece; `None` when all have come. Only [`Streaming::finish`] says whether the answer is whole.
    pub async fn next(&mut self) -> Result<Option<Delta>, UpstreamError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some((_, exchange)) = &mut self.underway else { return Err(self.call.error(&failed_before())) };
        match exchange.next().await {
            Ok(piece) => Ok(piece),
            Err(failure) => Err(self.fail(&failure)),
        }
    }

    /// The whole answer, or why it is not whole.
    pub async fn finish(mut self) -> Result<Completion, UpstreamError> {
        let Some((attempt, exchange)) = self.underway.take() else { return Err(self.call.error(&failed_before())) };
        match exchange.reply(&self.call.request).await {
            Ok(reply) => Ok(self.call.succeed(attempt, reply)),
            Err(failure) => {
                self.call.close(attempt, &failure);
                Err(self.call.error(&failure))
            }
        }
    }

    /// Ends it because nobody waits for it any more: every attempt, the last with what was told of its usage.
    pub fn leave(mut self, why: &str) -> Vec<LlmCall> {
        let usage = self.underway.as_ref().and_then(|(_, exchange)| exchange.usage());
        self.fail(&Failure::left(why, usage)).calls
    }

    fn fail(&mut self, failure: &Failure) -> UpstreamError {
        if let Some((attempt, _)) = self.underway.take() {
            self.call.close(attempt, failure);
        }
        self.call.error(failure)
    }
}

fn failed_before() -> Failure {
    Failure::new(PolicyErrorKind::Protocol, "the stream has failed before")
}
