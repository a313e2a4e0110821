//! Servers of OpenAI's format, each with its own habits.

use super::{
    ANSWER, ARGUMENTS, ASKED, ASKED_TO_CALL, ASKED_TO_FAIL, PIECES, Row, check_head, check_names, disliked, key, no, same,
};
use crate::SECRET;
use crate::server::{Play, Seen, http, json};
use hone_policy::upstream::Access;
use hone_trace::policy::PolicyErrorKind::{Account, Provider, RateLimit, Refused, TooLong};
use serde_json::{Value, json};

/// Where a stream tells the usage.
#[derive(Clone, Copy, PartialEq)]
enum Tells {
    /// In an event of its own, without choices, when asked.
    Asked,
    /// With the finish reason, asked or not.
    Last,
    /// With the finish reason, in Groq's own place.
    Groq,
}

/// The habits of a server.
#[derive(Clone)]
struct Habits {
    path: &'static str,
    /// The header of the key and what stands before it; none where nobody asks.
    auth: Option<(&'static str, &'static str)>,
    model: &'static str,
    tokens_key: &'static str,
    seed_key: &'static str,
    /// Whether it knows `stream_options`.
    has_options: bool,
    tells: Tells,
    usage: Value,
    /// What a stream begins with.
    prologue: &'static str,
    thought_key: &'static str,
    thought: Option<&'static str>,
    stop: &'static str,
    call_id: &'static str,
    /// Whether a call comes in one piece.
    is_whole_call: bool,
    error: (&'static str, &'static str, Value),
    /// Whether the error comes with status 200, in the middle of a stream.
    is_late_error: bool,
}

fn plain() -> Habits {
    Habits {
        path: "/v1/chat/completions",
        auth: Some(("authorization", "Bearer ")),
        model: "m",
        tokens_key: "max_tokens",
        seed_key: "seed",
        has_options: true,
        tells: Tells::Asked,
        usage: json!({"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}),
        prologue: "",
        thought_key: "reasoning_content",
        thought: None,
        stop: "stop",
        call_id: "call_9f",
        is_whole_call: false,
        error: ("500 Internal Server Error", "", json!({"error": {"message": "oops"}})),
        is_late_error: false,
    }
}

fn row(name: &'static str, spec: &'static str, habits: Habits) -> Row {
    Row {
        name,
        spec,
        variables: &[],
        access: if habits.auth.is_some() { key() } else { Access::Open },
        model: Some(habits.model),
        thought: habits.thought,
        call_id: habits.call_id,
        usage: [50, 7, 0, 0],
        error: (Provider, "oops"),
        serve: Box::new(move |seen| serve(&habits, seen)),
    }
}

pub(super) fn rows() -> Vec<Row> {
    let cached = || json!({"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57, "prompt_tokens_details": {"cached_tokens": 16}});
    let local = || Habits { auth: None, ..plain() };
    let azure = || Habits { auth: Some(("api-key", "")), tokens_key: "max_completion_tokens", usage: cached(), ..plain() };
    let filtered = r#"data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}

"#;
    let wrong_key = format!("Incorrect API key provided: {SECRET}. You can find your API key in the console.");
    vec![
        Row {
            usage: [50, 7, 16, 0],
            error: (Account, "401 invalid_api_key: Incorrect API key provided: …"),
            ..row(
                "OpenAI",
                "openai:gpt-5-mini",
                Habits {
                    model: "gpt-5-mini",
                    tokens_key: "max_completion_tokens",
                    usage: cached(),
                    error: (
                        "401 Unauthorized",
                        "",
                        json!({"error": {"message": wrong_key, "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            error: (Refused, "400 1500: Invalid model"),
            ..row(
                "Mistral",
                "mistral:mistral-small-latest",
                Habits {
                    model: "mistral-small-latest",
                    seed_key: "random_seed",
                    has_options: false,
                    tells: Tells::Last,
                    call_id: "D681PevKs",
                    is_whole_call: true,
                    error: (
                        "400 Bad Request",
                        "",
                        json!({"object": "error", "message": "Invalid model: nope", "type": "invalid_model", "param": null, "code": "1500"}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            error: (RateLimit, "429 rate_limit_exceeded: Rate limit reached"),
            ..row(
                "Groq",
                "groq:llama-3.3-70b-versatile",
                Habits {
                    path: "/openai/v1/chat/completions",
                    model: "llama-3.3-70b-versatile",
                    tells: Tells::Groq,
                    usage: json!({"queue_time": 0.04, "prompt_tokens": 50, "prompt_time": 0.002, "completion_tokens": 7, "completion_time": 0.01, "total_tokens": 57, "total_time": 0.012}),
                    thought_key: "reasoning",
                    thought: Some("hm"),
                    error: (
                        "429 Too Many Requests",
                        "retry-after: 2\n",
                        json!({"error": {"message": "Rate limit reached for model", "type": "tokens", "code": "rate_limit_exceeded"}}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            usage: [50, 7, 16, 0],
            error: (Account, "402 invalid_request_error: Insufficient Balance"),
            ..row(
                "DeepSeek",
                "deepseek:deepseek-reasoner",
                Habits {
                    model: "deepseek-reasoner",
                    usage: json!({"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57, "prompt_cache_hit_tokens": 16, "prompt_cache_miss_tokens": 34, "completion_tokens_details": {"reasoning_tokens": 3}}),
                    prologue: ": keep-alive\n\n: keep-alive\n\n",
                    thought: Some("hm"),
                    error: (
                        "402 Payment Required",
                        "",
                        json!({"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": null, "code": "invalid_request_error"}}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            usage: [50, 7, 16, 0],
            error: (Account, "400 Client specified an invalid argument: Incorrect API key provided: …"),
            ..row(
                "xAI",
                "xai:grok-4",
                Habits {
                    model: "grok-4",
                    // Thoughts are not among what was written.
                    usage: json!({"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 57, "prompt_tokens_details": {"text_tokens": 50, "cached_tokens": 16}, "completion_tokens_details": {"reasoning_tokens": 3}}),
                    thought: Some("hm"),
                    error: ("400 Bad Request", "", json!({"code": "Client specified an invalid argument", "error": wrong_key})),
                    ..plain()
                },
            )
        },
        Row {
            error: (Refused, "404 model_not_available: Unable to access model"),
            ..row(
                "Together",
                "together:meta-llama/Llama-3.3-70B-Instruct-Turbo",
                Habits {
                    model: "meta-llama/Llama-3.3-70B-Instruct-Turbo",
                    tells: Tells::Last,
                    stop: "eos",
                    error: (
                        "404 Not Found",
                        "",
                        json!({"id": "o1", "error": {"message": "Unable to access model nope", "type": "invalid_request_error", "param": null, "code": "model_not_available"}}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            error: (Refused, "404 NOT_FOUND: Model not found"),
            ..row(
                "Fireworks",
                "fireworks:accounts/fireworks/models/llama-v3p3-70b-instruct",
                Habits {
                    path: "/inference/v1/chat/completions",
                    model: "accounts/fireworks/models/llama-v3p3-70b-instruct",
                    tells: Tells::Last,
                    error: (
                        "404 Not Found",
                        "",
                        json!({"error": {"object": "error", "type": "invalid_request_error", "code": "NOT_FOUND", "message": "Model not found, inaccessible, and/or not deployed"}}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            usage: [50, 7, 16, 0],
            error: (Provider, "502: Provider disconnected unexpectedly"),
            ..row(
                "OpenRouter",
                "openrouter:z-ai/glm-5:free",
                Habits {
                    path: "/api/v1/chat/completions",
                    model: "z-ai/glm-5:free",
                    usage: cached(),
                    prologue: ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
                    thought_key: "reasoning",
                    thought: Some("hm"),
                    error: (
                        "200 OK",
                        "",
                        json!({"id": "gen-1", "error": {"code": 502, "message": "Provider disconnected unexpectedly"}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}),
                    ),
                    is_late_error: true,
                    ..plain()
                },
            )
        },
        Row {
            usage: [50, 7, 16, 0],
            error: (Account, "401 wrong_api_key: Wrong API Key"),
            ..row(
                "Cerebras",
                "cerebras:gpt-oss-120b",
                Habits {
                    model: "gpt-oss-120b",
                    usage: cached(),
                    tells: Tells::Last,
                    thought_key: "reasoning",
                    thought: Some("hm"),
                    error: (
                        "401 Unauthorized",
                        "",
                        json!({"message": "Wrong API Key", "type": "invalid_request_error", "param": "api_key", "code": "wrong_api_key"}),
                    ),
                    ..plain()
                },
            )
        },
        Row {
            variables: &[("AZURE_API_BASE", "https://mine.openai.azure.com"), ("AZURE_API_VERSION", "2024-10-21")],
            model: Some("gpt-4o-2024-08-06"),
            usage: [50, 7, 16, 0],
            error: (Refused, "404 DeploymentNotFound: The API deployment"),
            ..row(
                "Azure OpenAI",
                "azure:my-deployment",
                Habits {
                    path: "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21",
                    model: "gpt-4o-2024-08-06",
                    prologue: filtered,
                    error: (
                        "404 Not Found",
                        "",
                        json!({"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}),
                    ),
                    ..azure()
                },
            )
        },
        Row {
            variables: &[("AZURE_API_BASE", "https://mine.openai.azure.com/openai/v1/")],
            usage: [50, 7, 16, 0],
            error: (Refused, "400 content_filter: The response was filtered"),
            ..row(
                "Azure OpenAI (v1)",
                "azure:my-deployment",
                Habits {
                    path: "/openai/v1/chat/completions",
                    model: "my-deployment",
                    prologue: filtered,
                    error: (
                        "400 Bad Request",
                        "",
                        json!({"error": {"message": "The response was filtered", "type": null, "param": "prompt", "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
                    ),
                    ..azure()
                },
            )
        },
        Row {
            error: (TooLong, "maximum context length is 8192 tokens"),
            ..row(
                "vLLM",
                "vllm:my-model",
                Habits {
                    model: "my-model",
                    error: (
                        "400 Bad Request",
                        "",
                        json!({"error": {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000.", "type": "BadRequestError", "param": null, "code": 400}}),
                    ),
                    ..local()
                },
            )
        },
        Row {
            error: (TooLong, "longer than the model's context length"),
            ..row(
                "SGLang",
                "sglang:my-model",
                Habits {
                    model: "my-model",
                    error: (
                        "400 Bad Request",
                        "",
                        json!({"object": "error", "message": "The input (9000 tokens) is longer than the model's context length (8192 tokens).", "type": "BadRequestError", "param": null, "code": 400}),
                    ),
                    ..local()
                },
            )
        },
        Row {
            error: (Refused, "404 api_error: model \"nope\" not found"),
            ..row(
                "Ollama",
                "ollama:llama3.2",
                Habits {
                    model: "llama3.2",
                    is_whole_call: true,
                    error: (
                        "404 Not Found",
                        "",
                        json!({"error": {"message": "model \"nope\" not found, try pulling it first", "type": "api_error", "param": null, "code": null}}),
                    ),
                    ..local()
                },
            )
        },
    ]
}

fn serve(habits: &Habits, seen: &Seen) -> Play {
    if let Err(what) = check(habits, seen) {
        return disliked(what);
    }
    let last = seen.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let is_stream = seen.body["stream"] == true;
    let text = || json!({"content": ANSWER});
    let call = json!({"index": 0, "id": habits.call_id, "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}});
    let (mut message, reason) = match (last["role"].as_str(), last["content"].as_str()) {
        (Some("tool"), Some("42")) | (Some("user"), Some(ASKED)) => (text(), habits.stop),
        (Some("user"), Some(ASKED_TO_CALL)) => (json!({"content": null, "tool_calls": [call]}), "tool_calls"),
        (Some("user"), Some(ASKED_TO_FAIL)) => {
            let (status, headers, body) = &habits.error;
            let is_late = habits.is_late_error && is_stream;
            return if is_late { stream(habits, &[json!({"content": "half"})], body) } else { no(status, headers, body) };
        }
        _ => return disliked(last),
    };
    if let Some(thought) = habits.thought {
        message[habits.thought_key] = thought.into();
    }
    if !is_stream {
        message["role"] = "assistant".into();
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason});
        return json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": habits.model, "choices": [choice],
            "usage": habits.usage, "x_groq": {"id": "req_1"}}));
    }
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(habits.thought.map(|thought| json!({habits.thought_key: thought})));
    if reason != "tool_calls" {
        deltas.extend(PIECES.map(|piece| json!({"content": piece})));
    } else if habits.is_whole_call {
        deltas.push(json!({"tool_calls": [call]}));
    } else {
        let (begin, rest) = ARGUMENTS.split_at(4);
        let piece = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
        let head = json!({"index": 0, "id": habits.call_id, "type": "function", "function": {"name": "add", "arguments": ""}});
        deltas.extend([json!({"tool_calls": [head]}), piece(begin), piece(rest)]);
    }
    let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
    let mut last = json!({"id": "c", "model": habits.model, "choices": [choice]});
    match habits.tells {
        Tells::Asked => last["usage"] = Value::Null,
        Tells::Last => last["usage"] = habits.usage.clone(),
        Tells::Groq => last["x_groq"] = json!({"id": "req_1", "usage": habits.usage}),
    }
    stream(habits, &deltas, &last)
}

/// The deltas, the last event, the usage where it has one of its own, and the end.
fn stream(habits: &Habits, deltas: &[Value], last: &Value) -> Play {
    let chunk = |delta: &Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": habits.model, "choices": [choice]})
    };
    let mut events: Vec<Value> = deltas.iter().map(chunk).collect();
    events.push(last.clone());
    if habits.tells == Tells::Asked {
        events.push(json!({"id": "c", "model": habits.model, "choices": [], "usage": habits.usage}));
    }
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let body = format!("{}{events}data: [DONE]\n\n", habits.prologue);
    Play::Say(http("200 OK", "content-type: text/event-stream; charset=utf-8\n", &body))
}

fn check(habits: &Habits, seen: &Seen) -> Result<(), String> {
    let value = habits.auth.map(|(name, prefix)| (name, format!("{prefix}{SECRET}")));
    check_head(seen, habits.path, value.as_ref().map(|(name, value)| (*name, value.as_str())))?;
    let body = &seen.body;
    let must = ["model", "messages", "temperature", habits.tokens_key, habits.seed_key];
    let may: &[&str] = if habits.has_options { &["tools", "stream", "stream_options"] } else { &["tools", "stream"] };
    check_names("the body", body, &must, may)?;
    let deployment = habits.path.contains("/deployments/").then_some("my-deployment");
    same("model", body["model"].as_str(), Some(deployment.unwrap_or(habits.model)))?;
    same("limit", &body[habits.tokens_key], &json!(64))?;
    same("seed", &body[habits.seed_key], &json!(5))?;
    if body["stream"] == true && habits.has_options {
        same("stream_options", &body["stream_options"], &json!({"include_usage": true}))?;
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        check_names("a tool", tool, &["type", "function"], &[])?;
        check_names("a function", &tool["function"], &["name", "description", "parameters"], &[])?;
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("system" | "user") => check_names("a message", message, &["role", "content"], &[])?,
            Some("assistant") => {
                check_names("an answer", message, &["role", "content", "tool_calls"], &[])?;
                let call = &message["tool_calls"][0];
                check_names("a call", call, &["id", "type", "function"], &[])?;
                same("arguments", call["function"]["arguments"].is_string(), true)?;
            }
            Some("tool") => {
                check_names("a result", message, &["role", "content", "tool_call_id"], &[])?;
                same("the id of a result", message["tool_call_id"].as_str(), Some(habits.call_id))?;
            }
            other => return Err(format!("the role is {other:?}")),
        }
    }
    Ok(())
}
