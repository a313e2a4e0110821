//! Which path is answered by whom. A request is read, admitted, asked and told, each in one line.

use crate::access::{Caller, Identity, Reporter};
use crate::ask::{self, Question};
use crate::error::Refused;
use crate::server::Gateway;
use crate::{anthropic, feedback, health, openai};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hone_policy::upstream::Wire;
use hone_trace::{Message, TraceId};
use serde_json::{Value, json};

/// The header in which a client names its episode, and is told it.
const EPISODE: HeaderName = HeaderName::from_static("x-hone-episode");
/// The longest name of an episode.
const EPISODE_LEN_MAX: usize = 256;

pub(crate) fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/messages", post(messages))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(model))
        .route("/v1/feedback", post(feedback::give))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(|| async { Refused::NoPath })
        .method_not_allowed_fallback(|| async { Refused::Method })
        .layer(middleware::from_fn_with_state(gateway.clone(), known_host))
        .with_state(gateway)
}

/// Refuses requests that were meant for another host: a page that a browser shows must not reach a server on its machine by a name
/// that points there.
async fn known_host(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_known = matches!(name, "localhost" | "127.0.0.1" | "[::1]") || gateway.hosts().iter().any(|known| known == name);
    if is_known { next.run(request).await } else { Refused::Host.into_response() }
}

async fn chat(
    State(gateway): State<Gateway>,
    Caller(caller): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let admitted = gateway.admit()?;
    let started = gateway.now();
    let asked = openai::read(&read(&gateway, body).await?)?;
    let model = gateway.model(&asked.model)?;
    let episode = episode(&gateway, &caller, &headers, &asked.conversation.messages)?;
    let id = format!("chatcmpl-{}", gateway.new_answer(episode));
    let (is_stream, speaker) =
        (asked.is_stream, openai::OpenAi::new(id.clone(), started, asked.model.clone(), asked.tells_usage));
    let openai::Asked { body, conversation, request, .. } = asked;
    let (wire, api) = (Wire::OpenAi, "openai.chat");
    let question = Question { id, caller, started, episode, model, conversation, request, body, wire, api, admitted };
    if is_stream {
        return Ok(streaming(ask::streamed(&gateway, question, Box::new(speaker)).await?, episode));
    }
    Ok(told(&speaker.whole(&ask::whole(&gateway, question).await?), episode))
}

async fn messages(State(gateway): State<Gateway>, caller: Result<Caller, Refused>, headers: HeaderMap, body: Body) -> Response {
    let answered = match caller {
        Ok(Caller(caller)) => message(&gateway, caller, &headers, body).await,
        Err(refused) => Err(refused),
    };
    answered.unwrap_or_else(|refused| refused.respond(&refused.anthropic()))
}

async fn message(gateway: &Gateway, caller: Identity, headers: &HeaderMap, body: Body) -> Result<Response, Refused> {
    let admitted = gateway.admit()?;
    let started = gateway.now();
    let asked = anthropic::read(&read(gateway, body).await?)?;
    let model = gateway.model(&asked.model)?;
    let episode = episode(gateway, &caller, headers, &asked.conversation.messages)?;
    let id = format!("msg_{}", gateway.new_answer(episode));
    let (is_stream, speaker) = (asked.is_stream, anthropic::Anthropic::new(id.clone(), asked.model.clone()));
    let anthropic::Asked { body, conversation, request, .. } = asked;
    let (wire, api) = (Wire::Anthropic, "anthropic.messages");
    let question = Question { id, caller, started, episode, model, conversation, request, body, wire, api, admitted };
    if is_stream {
        return Ok(streaming(ask::streamed(gateway, question, Box::new(speaker)).await?, episode));
    }
    Ok(told(&speaker.whole(&ask::whole(gateway, question).await?), episode))
}

async fn embeddings(State(gateway): State<Gateway>, Caller(_): Caller, body: Body) -> Result<Response, Refused> {
    let _admitted = gateway.admit()?;
    let asked = openai::read_embedding(&read(&gateway, body).await?)?;
    let model = gateway.model(&asked.model)?;
    let embeddings = ask::embed(&gateway, &model, &asked.texts).await?;
    Ok(json_response(&openai::embeddings(&asked, &embeddings)))
}

async fn models(State(gateway): State<Gateway>, Caller(_): Caller) -> Response {
    let all: Vec<Value> = gateway.catalogue().names().map(openai::model).collect();
    json_response(&json!({"object": "list", "data": all}))
}

async fn model(State(gateway): State<Gateway>, Caller(_): Caller, Path(name): Path<String>) -> Result<Response, Refused> {
    gateway.model(&name).map(|model| json_response(&openai::model(model.name())))
}

async fn metrics(State(gateway): State<Gateway>, Reporter(_): Reporter) -> Response {
    let text = gateway.metrics().text(gateway.n_underway());
    let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, form)], text).into_response()
}

/// The body, as far as it is allowed to go.
pub(crate) async fn read(gateway: &Gateway, body: Body) -> Result<Bytes, Refused> {
    let bytes_max = gateway.limits().body_bytes_max;
    to_bytes(body, bytes_max).await.map_err(|_| Refused::TooLarge(bytes_max))
}

/// The episode that the client names, that its conversation goes on with, or a new one.
fn episode(gateway: &Gateway, caller: &Identity, headers: &HeaderMap, messages: &[Message]) -> Result<TraceId, Refused> {
    let Some(named) = headers.get(EPISODE) else {
        return Ok(gateway.record().find(&caller.tenant, messages).unwrap_or_else(|| gateway.new_trace()));
    };
    let named = named.to_str().ok().filter(|name| !name.is_empty() && name.len() <= EPISODE_LEN_MAX);
    let named = named.ok_or_else(|| {
        let message = format!("`{EPISODE}` must be a name of at most {EPISODE_LEN_MAX} printable characters");
        Refused::Malformed { param: Some(EPISODE.to_string()), message }
    })?;
    Ok(feedback::episode_of(&caller.tenant, named))
}

fn told(body: &Value, episode: TraceId) -> Response {
    let mut response = json_response(body);
    name(&mut response, episode);
    response
}

fn streaming(body: Body, episode: TraceId) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    name(&mut response, episode);
    response
}

fn name(response: &mut Response, episode: TraceId) {
    if let Ok(value) = HeaderValue::try_from(episode.to_string()) {
        response.headers_mut().insert(EPISODE, value);
    }
}

pub(crate) fn json_response(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.to_string()).into_response()
}
