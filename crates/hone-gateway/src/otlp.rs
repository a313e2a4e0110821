//! OpenTelemetry: `POST /v1/traces` takes spans over HTTP, in protobuf or JSON, and makes traces of what they tell of agents; `POST
//! /v1/logs` takes what was said in their calls, where an agent tells it apart.
//!
//! What a request says of agents is written to the event log as it came, without secrets, and acknowledged when that is durable. A
//! request that is sent again is known by its content. The [`weaver`] follows the log and puts the spans of a conversation together
//! when they are all there, or have stopped coming.
//!
//! Answers and errors are in the encoding of the request, as OTLP asks: 400 is not tried again, 503 is.

mod marks;
mod unpack;
mod weaver;

pub(crate) use weaver::Weaver;

use crate::access::Caller;
use crate::error::Refused;
use crate::route::admitted;
use crate::server::Gateway;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hone_trace::format::FormatError;
use hone_trace::format::otlp::live::{self, Taken};
use hone_trace::format::otlp::protobuf::Message;
use hone_trace::store::{Event, RECORD_BYTES_MAX, StoreError, Write};
use hone_trace::{EventId, Tenant, TraceId};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Notify, Semaphore};

/// Where the event log keeps spans.
const STREAM: &str = "otlp";
/// Bodies that are read at once: each may take many times its size in memory.
const N_READING_MAX: usize = 4;
/// Traces of which it is remembered that they have ended.
const N_ENDED_MAX: usize = 10_000;

/// What the handler and the weaver share.
pub(crate) struct Spans {
    /// Something was written to the log.
    grown: Notify,
    /// The log may be another one.
    is_replaced: AtomicBool,
    /// Traces that have ended with a span that is not kept.
    ended: Mutex<Vec<(Tenant, String)>>,
    reading: Semaphore,
}

impl Default for Spans {
    fn default() -> Self {
        Self {
            grown: Notify::new(),
            is_replaced: AtomicBool::new(false),
            ended: Mutex::default(),
            reading: Semaphore::new(N_READING_MAX),
        }
    }
}

impl Spans {
    /// Something was written to the log, and these traces have ended.
    fn tell(&self, tenant: &Tenant, traces: Vec<String>) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let room = N_ENDED_MAX.saturating_sub(ended.len());
        ended.extend(traces.into_iter().take(room).map(|trace| (tenant.clone(), trace)));
        drop(ended);
        self.grown.notify_one();
    }

    /// The store was put in another's place, and its log is to be read from where that one says that all is written.
    pub(crate) fn begin_anew(&self) {
        self.is_replaced.store(true, Ordering::Release);
        self.grown.notify_one();
    }

    fn take_replaced(&self) -> bool {
        self.is_replaced.swap(false, Ordering::AcqRel)
    }

    fn take_ended(&self) -> Vec<(Tenant, String)> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a request and its answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Result<Self, Refused> {
        let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/x-protobuf" | "application/protobuf" => Ok(Self::Protobuf),
            "application/json" => Ok(Self::Json),
            _ => Err(Refused::MediaType("`content-type` must be application/x-protobuf or application/json")),
        }
    }

    fn read(self, signal: Signal, bytes: &[u8]) -> Result<Value, FormatError> {
        match self {
            Self::Protobuf => signal.request().read_in_parts(bytes),
            Self::Json => live::read_json(bytes),
        }
    }

    /// Puts this message into the response.
    fn respond(self, message: Message, body: &Value, mut response: Response) -> Response {
        let (form, bytes) = match self {
            Self::Protobuf => ("application/x-protobuf", message.write(body)),
            Self::Json => ("application/json", body.to_string().into_bytes()),
        };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
        *response.body_mut() = Body::from(bytes);
        response
    }
}

/// What a request brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Spans,
    Logs,
}

impl Signal {
    fn request(self) -> Message {
        match self {
            Self::Spans => Message::Request,
            Self::Logs => Message::Logs,
        }
    }

    fn response(self) -> Message {
        match self {
            Self::Spans => Message::Response,
            Self::Logs => Message::LogsResponse,
        }
    }

    fn take(self, request: Value) -> Result<Taken, FormatError> {
        match self {
            Self::Spans => live::take(request),
            Self::Logs => live::take_logs(request),
        }
    }

    /// What an answer calls those that were not taken.
    fn rejected(self) -> &'static str {
        match self {
            Self::Spans => "rejectedSpans",
            Self::Logs => "rejectedLogRecords",
        }
    }
}

/// Takes spans.
pub(crate) async fn traces(
    State(gateway): State<Gateway>,
    caller: Result<Caller, Refused>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    take(Signal::Spans, &gateway, caller, &headers, body).await
}

/// Takes log records.
pub(crate) async fn logs(
    State(gateway): State<Gateway>,
    caller: Result<Caller, Refused>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    take(Signal::Logs, &gateway, caller, &headers, body).await
}

async fn take(signal: Signal, gateway: &Gateway, caller: Result<Caller, Refused>, headers: &HeaderMap, body: Body) -> Response {
    let encoding = Encoding::of(headers);
    let taken = async { keep(signal, gateway, caller?, encoding.clone()?, headers, body).await };
    let answer = taken.await;
    let encoding = encoding.unwrap_or(Encoding::Json);
    match answer {
        Ok(partial) => encoding.respond(signal.response(), &partial, StatusCode::OK.into_response()),
        Err(refused) => {
            let status = json!({"message": refused.to_string()});
            let response = refused.clone().into_response();
            encoding.respond(Message::Status, &status, response)
        }
    }
}

/// Makes durable what a request says of agents, and answers with what was not taken.
async fn keep(
    signal: Signal,
    gateway: &Gateway,
    Caller(caller): Caller,
    encoding: Encoding,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Refused> {
    let packing = unpack::Packing::of(headers)?;
    let (_admitted, body) = admitted(gateway, body).await?;
    let reading = gateway.spans().reading.acquire().await.map_err(|_| Refused::Busy)?;
    let bytes_max = gateway.limits().body_bytes_max;
    let mut taken = tokio::task::spawn_blocking(move || taken(signal, encoding, packing, &body, bytes_max))
        .await
        .map_err(|_| Refused::Busy)??;
    if signal == Signal::Spans {
        gateway.metrics().spans(&taken);
    }
    let ended = std::mem::take(&mut taken.ended);
    if let Some(kept) = taken.kept.take() {
        write(gateway, &caller.tenant, kept).await?;
    }
    drop(reading);
    gateway.spans().tell(&caller.tenant, ended);
    Ok(partial(signal, &taken))
}

fn taken(signal: Signal, encoding: Encoding, packing: unpack::Packing, body: &Bytes, bytes_max: usize) -> Result<Taken, Refused> {
    let body = packing.unpack(body, bytes_max)?;
    Ok(signal.take(encoding.read(signal, &body)?)?)
}

async fn write(gateway: &Gateway, tenant: &Tenant, request: Value) -> Result<(), Refused> {
    let digest = blake3::hash(request.to_string().as_bytes()).to_hex();
    let event = Event {
        id: EventId::derived(&[STREAM, tenant.as_str(), &digest]),
        at: gateway.now(),
        tenant: tenant.clone(),
        stream: STREAM.to_owned(),
        kind: "spans".to_owned(),
        body: request,
    };
    // The id says what is written: who finds it there finds the same spans, at another time.
    match gateway.record().store().put(vec![Write::Event(event)]).await {
        Ok(_) => Ok(()),
        Err(StoreError::TooLarge { .. }) => Err(Refused::TooLarge(RECORD_BYTES_MAX)),
        Err(error) => {
            gateway.log(format!("spans could not be recorded: {error}"));
            Err(Refused::Store)
        }
    }
}

/// What is said of those that were not taken; nothing when all were.
fn partial(signal: Signal, taken: &Taken) -> Value {
    if taken.n_refused == 0 {
        return json!({});
    }
    let reasons: Vec<String> = taken.reasons.iter().map(ToString::to_string).collect();
    let more = match taken.n_untold {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let message = format!("{}{more}", reasons.join("; "));
    json!({"partialSuccess": {signal.rejected(): taken.n_refused.to_string(), "errorMessage": message}})
}

/// What a conversation is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Named {
    /// By what its spans call it.
    Conversation(String),
    /// By their OpenTelemetry trace.
    Trace(String),
}

impl Named {
    /// The trace that it becomes; when that is full, the next part of it.
    fn id(&self, tenant: &Tenant, part: u32) -> TraceId {
        let (kind, name) = match self {
            Self::Conversation(name) => ("conversation", name),
            Self::Trace(name) => ("trace", name),
        };
        TraceId::derived(&[STREAM, tenant.as_str(), kind, name, &part.to_string()])
    }
}

/// The traces that somebody may mean who names a conversation or an OpenTelemetry trace.
pub(crate) fn ids(tenant: &Tenant, name: &str) -> [TraceId; 2] {
    [Named::Conversation(name.to_owned()).id(tenant, 0), Named::Trace(name.to_ascii_lowercase()).id(tenant, 0)]
}
