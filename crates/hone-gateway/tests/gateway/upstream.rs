//! Upstreams: servers in OpenAI's and Anthropic's words whose model name says how they behave.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// What an upstream was asked, and how often it was left.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    bodies: Arc<Mutex<Vec<Value>>>,
    headers: Arc<Mutex<Vec<String>>>,
    n_left: Arc<Mutex<u32>>,
}

impl Heard {
    pub(crate) fn last(&self) -> Value {
        self.bodies.lock().unwrap().last().cloned().unwrap_or_default()
    }

    /// The version and the betas of the last request to Anthropic.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.headers.lock().unwrap().clone()
    }

    pub(crate) fn n(&self) -> usize {
        self.bodies.lock().unwrap().len()
    }

    pub(crate) fn n_left(&self) -> u32 {
        *self.n_left.lock().unwrap()
    }
}

/// Notices when what it was made for is dropped before it ended.
struct Left(Heard, bool);

impl Drop for Left {
    fn drop(&mut self) {
        if !self.1 {
            *self.0.n_left.lock().unwrap() += 1;
        }
    }
}

/// A stream of one piece that never ends.
struct Endless(Option<String>, #[expect(dead_code, reason = "its drop is what counts")] Left);

impl futures_core::Stream for Endless {
    type Item = Result<String, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(piece))))
    }
}

/// A stream of pieces that never ends, each of 16 KiB.
struct Flood;

impl futures_core::Stream for Flood {
    type Item = Result<String, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(16 << 10)}}]});
        Poll::Ready(Some(Ok(format!("data: {chunk}\n\n"))))
    }
}

/// Starts one, and says where it is.
pub(crate) async fn start() -> (String, Heard) {
    let heard = Heard::default();
    let router = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count))
        .route("/v1/embeddings", post(embeddings))
        .with_state(heard.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, heard)
}

async fn chat(State(heard): State<Heard>, headers: HeaderMap, body: Bytes) -> Response {
    assert!(headers.get("x-hone-episode").is_none(), "what is ours stays here");
    let body: Value = serde_json::from_slice(&body).unwrap();
    heard.bodies.lock().unwrap().push(body.clone());
    match body["model"].as_str().unwrap() {
        "broken" => return (StatusCode::INTERNAL_SERVER_ERROR, "oh").into_response(),
        "picky" => {
            let error = json!({"error": {"message": "top_k is not known", "type": "invalid_request_error", "code": null}});
            return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
        "busy" => {
            let error = json!({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}});
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")], error.to_string()).into_response();
        }
        "gone" => {
            let error = json!({"error": {"message": "no such model", "type": "invalid_request_error", "param": "model",
                "code": "model_not_found"}});
            return (StatusCode::NOT_FOUND, error.to_string()).into_response();
        }
        "leaky" => {
            let key = headers.get("authorization").unwrap().to_str().unwrap();
            let error = json!({"error": {"message": format!("wrong key: {key}"), "type": "invalid_request_error"}});
            return (StatusCode::FORBIDDEN, error.to_string()).into_response();
        }
        "locked" => {
            let error = json!({"error": {"message": "Incorrect API key provided: sk-pr****6789", "type": "invalid_request_error",
                "code": "invalid_api_key"}});
            return (StatusCode::UNAUTHORIZED, error.to_string()).into_response();
        }
        "unpaid" => {
            let error =
                json!({"error": {"message": "check your plan", "type": "insufficient_quota", "code": "insufficient_quota"}});
            return (StatusCode::TOO_MANY_REQUESTS, error.to_string()).into_response();
        }
        "flood" => return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(Flood)).into_response(),
        "long" => {
            let usage = json!({"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11});
            return streamed(&format!("{} ", "x".repeat(300)).repeat(6_000), &usage, false);
        }
        "endless" => {
            let usage = json!({"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11});
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": "well"}}], "usage": usage});
            let body = Body::from_stream(Endless(Some(format!("data: {chunk}\n\n")), Left(heard, false)));
            return ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response();
        }
        "pondering" => tokio::time::sleep(Duration::from_millis(400)).await,
        "broken-late" => {
            tokio::time::sleep(Duration::from_millis(400)).await;
            return (StatusCode::INTERNAL_SERVER_ERROR, "oh").into_response();
        }
        "slow" => {
            let mut left = Left(heard, false);
            tokio::time::sleep(Duration::from_secs(20)).await;
            left.1 = true;
        }
        _ => {}
    }
    let n_said = body["messages"].as_array().unwrap().len();
    let usage = json!({"prompt_tokens": 10 * n_said, "completion_tokens": 5, "total_tokens": 10 * n_said + 5,
        "prompt_tokens_details": {"cached_tokens": 4}});
    if body["model"] == "calls" {
        return calling(&usage);
    }
    if body["tools"].is_array() && body["messages"].as_array().unwrap().last().unwrap()["role"] == "user" {
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        return whole(&message, "tool_calls", &usage);
    }
    let text = format!("answer {n_said}");
    if body["n"] == 2 {
        return twice(&text, &usage, &body);
    }
    if body["stream"] == true {
        return streamed(&text, &usage, body["model"] == "cut");
    }
    whole(&json!({"role": "assistant", "content": text, "refusal": null}), "stop", &usage)
}

/// Lists in lists.
pub(crate) fn nested(n_levels: usize) -> Value {
    (0..n_levels).fold(json!(0), |inner, _| json!([inner]))
}

/// Two answers, the second longer, whose tokens are told where that is asked for, to some users more deeply than others.
fn twice(text: &str, usage: &Value, body: &Value) -> Response {
    let likeliest = if body["user"] == "deep" { nested(115) } else { json!([]) };
    let logprobs = match body["logprobs"].as_bool() {
        Some(true) => json!({"content": [{"token": text, "logprob": -0.5, "bytes": null, "top_logprobs": likeliest}]}),
        _ => Value::Null,
    };
    let texts = [text.to_owned(), format!("{text} more")];
    if body["stream"] == true {
        // The second comes first.
        let chunks = (0..2).rev().map(|index| {
            let choice =
                json!({"index": index, "delta": {"content": texts[index]}, "logprobs": logprobs, "finish_reason": "stop"});
            format!("data: {}\n\n", json!({"object": "chat.completion.chunk", "choices": [choice]}))
        });
        let told: String = chunks.collect();
        let told = format!("{told}data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage}));
        return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(told)).into_response();
    }
    let choices: Vec<Value> = (0..2)
        .map(|index| {
            let message = json!({"role": "assistant", "content": texts[index]});
            json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": "stop"})
        })
        .collect();
    let body = json!({"object": "chat.completion", "model": "upstream-model", "choices": choices, "usage": usage});
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Every prompt goes on with how long it is.
async fn completions(State(heard): State<Heard>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    heard.bodies.lock().unwrap().push(body.clone());
    let prompts = match &body["prompt"] {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let choice = |(index, prompt): (usize, &Value)| {
        let text = format!(" has {} signs", prompt.as_str().unwrap().len());
        json!({"index": index, "text": text, "logprobs": null, "finish_reason": "stop"})
    };
    let choices: Vec<Value> = prompts.iter().enumerate().map(choice).collect();
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    if body["stream"] == true {
        let chunk =
            |choice: &Value| format!("data: {}\n\n", json!({"id": "up", "object": "text_completion", "choices": [choice]}));
        let told: String = choices.iter().map(chunk).collect();
        let told = format!("{told}data: {}\n\ndata: [DONE]\n\n", json!({"id": "up", "choices": [], "usage": usage}));
        return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(told)).into_response();
    }
    let body = json!({"id": "up", "object": "text_completion", "model": "upstream-model", "choices": choices, "usage": usage,
        "system_fingerprint": "fp"});
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Words and then a call, in pieces.
fn calling(usage: &Value) -> Response {
    let call = |json: Value| json!({"tool_calls": [json]});
    let told: String = [
        json!({"role": "assistant", "content": "so"}),
        call(json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": "{\"a\""}})),
        call(json!({"index": 0, "function": {"arguments": ":1}"}})),
    ]
    .into_iter()
    .map(|delta| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]})))
    .collect();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": usage});
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(format!("{told}data: {end}\n\ndata: [DONE]\n\n"))).into_response()
}

fn whole(message: &Value, finish: &str, usage: &Value) -> Response {
    let body = json!({"id": "up-1", "object": "chat.completion", "created": 1, "model": "upstream-model", "system_fingerprint": "fp",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": null}], "usage": usage});
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn streamed(text: &str, usage: &Value, is_cut: bool) -> Response {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!(
            "data: {}\n\n",
            json!({"id": "up-1", "object": "chat.completion.chunk", "model": "upstream-model", "choices": [choice]})
        )
    };
    let mut told = chunk(json!({"role": "assistant", "content": ""}), None);
    for word in text.split_inclusive(' ') {
        told += &chunk(json!({"content": word}), None);
    }
    if !is_cut {
        told += &chunk(json!({}), Some("stop"));
        told += &format!("data: {}\n\ndata: [DONE]\n\n", json!({"id": "up-1", "choices": [], "usage": usage}));
    }
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(told)).into_response()
}

async fn messages(State(heard): State<Heard>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let said = ["anthropic-version", "anthropic-beta"].into_iter().flat_map(|name| headers.get_all(name));
    *heard.headers.lock().unwrap() = said.map(|value| value.to_str().unwrap().to_owned()).collect();
    heard.bodies.lock().unwrap().push(body.clone());
    let answer = json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": null,
        "content": [{"type": "text", "text": "bonjour"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 6, "output_tokens": 2, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0}});
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

async fn count(State(heard): State<Heard>, headers: HeaderMap, body: Bytes) -> Response {
    messages(State(heard), headers, body).await;
    ([(header::CONTENT_TYPE, "application/json")], json!({"input_tokens": 2095}).to_string()).into_response()
}

async fn embeddings(State(heard): State<Heard>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    heard.bodies.lock().unwrap().push(body.clone());
    let rows: Vec<Value> = (0..body["input"].as_array().unwrap().len())
        .map(|index| json!({"object": "embedding", "index": index, "embedding": [index as f32 + 0.5, -1.0]}))
        .collect();
    let answer = json!({"object": "list", "data": rows, "model": "e", "usage": {"prompt_tokens": 3, "total_tokens": 3}});
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
