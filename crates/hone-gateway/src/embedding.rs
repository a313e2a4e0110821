//! Vectors of texts. Every request is a trace of its own: it goes on with no conversation, and a conversation that it is asked beside
//! goes on as if nothing had been asked. It tells the episode that the client names.

use crate::access::{Caller, Identity};
use crate::ask::abandoned;
use crate::catalogue::{Model, Who};
use crate::completions::{message, prompts};
use crate::error::Refused;
use crate::openai::{parsed, whole_number};
use crate::question::unsupported;
use crate::route::{admitted, name, named_episode, told};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::prelude::{BASE64_STANDARD, Engine};
use hone_policy::local::Prompt;
use hone_policy::upstream::{Embeddings, UpstreamError};
use hone_trace::{Config, Content, ErrorEvent, Message, Role, Segment, Time, Trace, TraceId, Turn};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

const DIMENSIONS: &str = "dimensions";

pub(crate) async fn give(
    State(gateway): State<Gateway>,
    Caller(caller): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let (admitted, body) = admitted(&gateway, body).await?;
    let started = gateway.now();
    let asked = Asked::read(&body)?;
    gateway.can_record().await?;
    let model = gateway.model(&asked.model).map_err(|refused| match gateway.agents().knows(&caller.tenant, &asked.model) {
        true => Refused::param("model", format!("`{}` is an agent, and agents give no vectors: ask a model", asked.model)),
        false => refused,
    })?;
    let beside = named_episode(&gateway, &caller, &headers).await?;
    let trace = gateway.new_trace();
    let (mut tell, answer) = oneshot::channel();
    tokio::spawn(async move {
        let embedded = tokio::select! {
            embedded = embed(&gateway, &model, &asked) => embedded,
            () = tell.closed() => Err(abandoned()),
        };
        gateway.metrics().embedded(model.name(), embedded.as_ref(), started, gateway.now());
        let kept = keep(&gateway, caller, trace, beside, started, &asked, &embedded).await;
        drop(admitted);
        // Who has left misses the vectors; the record has the call.
        drop(tell.send(kept.and_then(|()| Ok(asked.answer(&embedded.map_err(|error| Refused::from(&error))?)))));
    });
    Ok(match answer.await.unwrap_or(Err(Refused::Busy)) {
        Ok(vectors) => told(&vectors, trace),
        Err(refused) => {
            let mut response = refused.into_response();
            name(&mut response, trace);
            response
        }
    })
}

/// Puts a request on the record, and answers when that is durable.
async fn keep(
    gateway: &Gateway,
    caller: Identity,
    id: TraceId,
    beside: Option<TraceId>,
    started: Time,
    asked: &Asked,
    embedded: &Result<Embeddings, UpstreamError>,
) -> Result<(), Refused> {
    let texts = asked.texts.iter().map(message).collect();
    let mut turn = Turn::new(texts, Message { content: Content::None, ..Message::text(Role::Assistant, "") });
    turn.started = Some(started);
    (turn.llm_calls, turn.errors) = match embedded {
        Ok(embeddings) => (embeddings.calls.clone(), embeddings.failures.clone()),
        Err(UpstreamError { kind, message, calls, .. }) => {
            (calls.clone(), vec![ErrorEvent { kind: kind.as_str().into(), recovered: false, message: message.clone() }])
        }
    };
    let settings = asked.dimensions.iter().map(|dimensions| (DIMENSIONS.to_owned(), (*dimensions).into())).collect();
    let config = Config { model: Some(asked.model.clone()), settings, ..Config::default() };
    let mut trace = Trace::new(id, caller.tenant, started, config.hash());
    trace.ended = Some(gateway.now());
    trace.metadata.insert("api".into(), "openai.embeddings".into());
    trace.metadata.insert("asked_for".into(), asked.model.as_str().into());
    if let Some(episode) = beside {
        trace.metadata.insert("episode".into(), episode.to_string().into());
    }
    trace.segments = vec![Segment { tools: Vec::new(), turns: vec![turn], tail: Vec::new() }];
    gateway.record().keep_alone(&config, trace).await.map_err(|error| {
        gateway.metrics().not_recorded();
        gateway.log(format!("a request for vectors, {id}, could not be recorded: {error}"));
        Refused::Store
    })
}

/// A request for vectors.
struct Asked {
    model: String,
    /// As texts or as tokens, which are the provider's own.
    texts: Vec<Prompt>,
    /// How long the vectors are to be.
    dimensions: Option<u64>,
    is_base64: bool,
}

impl Asked {
    /// Reads a request for vectors.
    fn read(body: &[u8]) -> Result<Self, Refused> {
        let body: Map<String, Value> = parsed(body)?;
        let model = body.get("model").and_then(Value::as_str).ok_or_else(|| Refused::param("model", "`model` is missing"))?;
        let texts = prompts(&body, "input")?;
        let is_base64 = match body.get("encoding_format").and_then(Value::as_str) {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => return Err(Refused::param("encoding_format", "`encoding_format` must be float or base64")),
        };
        Ok(Self { model: model.to_owned(), texts, dimensions: whole_number(&body, DIMENSIONS)?, is_base64 })
    }

    /// Vectors, in the form that was asked for.
    fn answer(&self, embeddings: &Embeddings) -> Value {
        let vector = |vector: &Vec<f32>| match self.is_base64 {
            true => BASE64_STANDARD.encode(vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()).into(),
            false => json!(vector),
        };
        let rows = embeddings.vectors.iter().enumerate();
        let rows: Vec<Value> =
            rows.map(|(index, row)| json!({"object": "embedding", "index": index, "embedding": vector(row)})).collect();
        let tokens_in = embeddings.calls.last().map_or(0, |call| call.tokens_in);
        json!({"object": "list", "data": rows, "model": self.model,
            "usage": {"prompt_tokens": tokens_in, "total_tokens": tokens_in}})
    }
}

/// Vectors of texts, from the first who gives them. Also says what was asked in vain before.
async fn embed(gateway: &Gateway, model: &Model, asked: &Asked) -> Result<Embeddings, UpstreamError> {
    let mut failure = unsupported("model", "nobody answers under this name");
    let begun = Instant::now();
    for upstream in model.in_turn(gateway.now()) {
        if begun.elapsed() >= Duration::from_millis(gateway.limits().answer_ms) {
            break;
        }
        let embedded = match &upstream.who {
            Who::Provider(client) => client.embed(&asked.texts, asked.dimensions).await,
            Who::Local(_) => Err(unsupported("model", "a model of this process gives no embeddings")),
        };
        let calls = std::mem::take(&mut failure.calls);
        match embedded {
            Ok(embeddings) => {
                upstream.answered();
                return Ok(Embeddings { calls: [calls, embeddings.calls].concat(), ..embeddings });
            }
            Err(error) => {
                let may_fare_better = upstream.failed(&error, gateway.now());
                failure = UpstreamError { calls: [calls, error.calls].concat(), ..error };
                if !may_fare_better {
                    break;
                }
            }
        }
    }
    Err(failure)
}
